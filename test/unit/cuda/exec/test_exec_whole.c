// SPDX-License-Identifier: Apache-2.0
// Whole calls on a device, from the traced program to read results, against the reference
// evaluator. Where DUCTILE_CUDA names the fake driver, it interprets the PTX; on a machine with a
// GPU the program runs on that as well.
#include "test/support/subjects.h"

static const int64_t edges[][2] = {{1, 1}, {0, 5}, {3, 0}, {2, 37}, {33, 64}};
#define N_EDGES (sizeof(edges) / sizeof(edges[0]))

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  rng_t rng;
} place_t;

static place_t open_place(void) {
  place_t place = {.rng = {77}};
  fixture_t there = fixture_on(DT_CUDA, 1);
  place.runtime = there.runtime;
  place.device = there.session;
  place.host = session_of(place.runtime);
  return place;
}

static void close_place(place_t *place) {
  dt_session_destroy(place->device);
  dt_session_destroy(place->host);
  dt_runtime_release(place->runtime);
}

// One call by the device, one by the device with its inputs on the host, one by the evaluator.
static void compare(place_t *place, dt_function_t *function, dt_function_t *oracle,
                    const subject_t *subject, dt_tensor_t **inputs) {
  dt_tensor_t *there[4] = {NULL}, *got = NULL, *staged = NULL, *want = NULL;
  for (uint32_t k = 0; k < subject->n_inputs; k++)
    there[k] = tensor_upload(place->device, inputs[k]);
  expect_ok(dt_call(place->device, function, there, subject->n_inputs, &got, 1, NULL));
  expect_ok(dt_call(place->device, function, inputs, subject->n_inputs, &staged, 1, NULL));
  expect_ok(dt_call(place->host, oracle, inputs, subject->n_inputs, &want, 1, NULL));
  dt_tensor_t *back = tensor_download(place->device, got),
              *back_staged = tensor_download(place->device, staged);
  expect_ok(dt_session_wait(place->device));
  expect_close(back, want, 1e-5, 1e-4, subject->name);
  expect_close(back_staged, want, 1e-5, 1e-4, subject->name);
  RELEASE(back, back_staged, staged, got, want);
  for (uint32_t k = 0; k < subject->n_inputs; k++) {
    RELEASE(there[k], inputs[k]);
    inputs[k] = NULL;
  }
}

// `fill` makes the inputs of a size.
static void run_subject(const subject_t *subject, void *closure,
                        void (*fill)(place_t *place, const int64_t *size, dt_tensor_t **out)) {
  place_t place = open_place();
  dt_function_t *function = subject_function(place.runtime, subject, closure, DT_ANSWER_COMPILED);
  dt_function_t *oracle = subject_function(place.runtime, subject, closure, DT_ANSWER_EVALUATOR);
  for (uint32_t k = 0; k < N_EDGES; k++) {
    dt_tensor_t *inputs[4] = {NULL};
    fill(&place, edges[k], inputs);
    compare(&place, function, oracle, subject, inputs);
  }
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

static void fill_vectors(place_t *place, const int64_t *size, dt_tensor_t **out) {
  out[0] = tensor_f32(&place->rng, 1, size);
  out[1] = tensor_f32(&place->rng, 1, size);
}
static void fill_matrix(place_t *place, const int64_t *size, dt_tensor_t **out) {
  const int64_t sizes[] = {size[0], size[1] ? size[1] : 1};
  out[0] = tensor_f32(&place->rng, 2, sizes);
  out[1] = tensor_f32(&place->rng, 1, sizes + 1);
  out[2] = tensor_f32(&place->rng, 1, sizes + 1);
}
static void fill_one_matrix(place_t *place, const int64_t *size, dt_tensor_t **out) {
  const int64_t sizes[] = {size[0], size[1] ? size[1] : 1};
  out[0] = tensor_f32(&place->rng, 2, sizes);
}
static void fill_mlp(place_t *place, const int64_t *size, dt_tensor_t **out) {
  const int64_t sizes[] = {size[0], size[1], 16};
  out[0] = tensor_f32(&place->rng, 3, sizes);
}
static void fill_gather(place_t *place, const int64_t *size, dt_tensor_t **out) {
  const int64_t sizes[] = {7, size[1]};
  int64_t ids[64];
  for (int64_t k = 0; k < size[0]; k++)
    ids[k] = rng_between(&place->rng, 0, 6);
  out[0] = tensor_f32(&place->rng, 2, sizes);
  out[1] = tensor_i64(1, size, ids);
}
static void fill_vector(place_t *place, const int64_t *size, dt_tensor_t **out) {
  out[0] = tensor_f32(&place->rng, 1, size + 1);
}

static void adds(void **state) {
  (void)state;
  run_subject(&add_subject, NULL, fill_vectors);
}
static void layer_norms(void **state) {
  (void)state;
  run_subject(&layer_norm_subject, NULL, fill_matrix);
}
static void softmaxes(void **state) {
  (void)state;
  run_subject(&softmax_subject, NULL, fill_one_matrix);
}
static void sums_over_rows(void **state) {
  (void)state;
  run_subject(&columns_subject, NULL, fill_one_matrix);
}
static void transposes(void **state) {
  (void)state;
  run_subject(&transpose_subject, NULL, fill_one_matrix);
}
static void gathers(void **state) {
  (void)state;
  run_subject(&gather_subject, NULL, fill_gather);
}

static void layers_with_constants(void **state) {
  (void)state;
  rng_t rng = {5};
  mlp_t mlp;
  mlp_init(&mlp, &rng);
  run_subject(&mlp_subject, &mlp, fill_mlp);
  mlp_fini(&mlp);
}

static void scales_by_what_is_computed_once(void **state) {
  (void)state;
  rng_t rng = {6};
  dt_tensor_t *w = tensor_f32(&rng, 1, SIZES(4));
  run_subject(&scale_subject, w, fill_vector);
  dt_tensor_release(w);
}

static dt_status_t positive_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[0], dt_gt(t, in[0], dt_scalar(t, DT_F32, 0)));
  return NULL;
}
static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const subject_t positive = {"positive", positive_program, 1, 1, one_vector};

static void sizes_come_from_data(void **state) {
  (void)state;
  run_subject(&positive, NULL, fill_vector);
}

// Numbers that calls bring stay on the host.
static dt_status_t shift_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_cast(t, in[1], DT_F32));
  return NULL;
}
static const dt_input_decl_t shift_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "by", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
static const subject_t shift = {"shift", shift_program, 2, 1, shift_inputs};

static void numbers_stay_on_the_host(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function = subject_function(place.runtime, &shift, NULL, DT_ANSWER_COMPILED);
  const int64_t n = 40, numbers[] = {7, -3};
  dt_tensor_t *x = tensor_full(1, 1, &n), *there = tensor_upload(place.device, x);
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *by = tensor_i64(0, NULL, &numbers[k]), *out = NULL;
    expect_ok(dt_call(place.device, function, (dt_tensor_t *[]){there, by}, 2, &out, 1, NULL));
    dt_tensor_t *got = tensor_download(place.device, out);
    dt_tensor_t *want = tensor_full(1 + (float)numbers[k], 1, &n);
    expect_close(got, want, 0, 0, "shift");
    dt_tensor_t *wrong = tensor_upload(place.device, by), *none = NULL;
    expect_told(dt_call(place.device, function, (dt_tensor_t *[]){there, wrong}, 2, &none, 1, NULL),
                DT_E_ARGUMENT, "a number that calls bring is a host tensor");
    RELEASE(by, wrong, out, got, want);
  }
  assert_int_equal(variants_of(function), 1);
  RELEASE(x, there);
  dt_function_release(function);
  close_place(&place);
}

// x as [shape[0], shape[1]], and the numbers as data.
static dt_status_t shape_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  uint32_t n = 0;
  const dt_sym_t *shape = dt_int_elements(t, in[0], &n);
  dt_value_t sum = dt_cast(t, dt_sum(t, in[0], 0, NULL, false), DT_F32);
  if (shape)
    out[0] = dt_add(t, dt_reshape(t, in[1], n, shape), sum);
  return NULL;
}
static const dt_dim_decl_t two[] = {{.is_static = true, .value = 2}};
static const dt_input_decl_t shape_inputs[] = {
    {.name = "shape", .dtype = DT_I64, .rank = 1, .dims = two, .kind = DT_INPUT_INTEGERS},
    {.name = "x", .dtype = DT_F32, .rank = 1}};
static const subject_t reshape = {"reshape", shape_program, 2, 1, shape_inputs};

// Kernel by kernel and as a graph, with x there and on the host.
static void integers_stay_on_the_host(void **state) {
  (void)state;
  static const dt_call_options_t modes[] = {{.mode = DT_CALL_PLAIN},
                                            {.mode = DT_CALL_REDUCE_OVERHEAD}};
  place_t place = open_place();
  dt_function_t *function = subject_function(place.runtime, &reshape, NULL, DT_ANSWER_COMPILED);
  expect_ok(dt_function_prepare(function, &(dt_prepare_options_t){.device = DT_CUDA}));
  for (uint32_t k = 0; k < 4 * N_EDGES; k++) {
    const int64_t *sizes = edges[k / 4], n = sizes[0] * sizes[1], pair = 2;
    dt_tensor_t *shape = tensor_i64(1, &pair, sizes), *wrong = tensor_upload(place.device, shape);
    dt_tensor_t *x = tensor_full(1, 1, &n), *there = tensor_upload(place.device, x), *out = NULL;
    dt_tensor_t *in[2] = {shape, k & 1 ? x : there};
    expect_ok(dt_step_begin(place.device));
    expect_ok(dt_call(place.device, function, in, 2, &out, 1, &modes[k / 2 % 2]));
    dt_tensor_t *got = tensor_download(place.device, out);
    dt_tensor_t *want = tensor_full(1 + (float)(sizes[0] + sizes[1]), 2, sizes);
    expect_close(got, want, 0, 0, "reshape");
    dt_tensor_release(out);
    out = NULL;
    in[0] = wrong;
    expect_told(
        dt_call(place.device, function, in, 2, &out, 1, NULL), DT_E_ARGUMENT,
        "argument 0 \"shape\": on CUDA device 0; a number that calls bring is a host tensor");
    expect_told(dt_call(place.host, function, (dt_tensor_t *[]){wrong, x}, 2, &out, 1, NULL),
                DT_E_ARGUMENT, "argument 0 \"shape\": on CUDA device 0");
    RELEASE(shape, wrong, x, there, got, want);
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.graph_calls, 2 * N_EDGES);
  dt_function_release(function);
  close_place(&place);
}

// Every second column from the last on, of rows that are further apart; and one row for all.
static void inputs_on_the_host_keep_their_strides(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function =
      subject_function(place.runtime, &columns_subject, NULL, DT_ANSWER_COMPILED);
  dt_function_t *oracle =
      subject_function(place.runtime, &columns_subject, NULL, DT_ANSWER_EVALUATOR);
  const int64_t whole[] = {6, 20}, sizes[] = {6, 9}, strides[][2] = {{20, -2}, {0, 1}};
  dt_tensor_t *base = tensor_f32(&place.rng, 2, whole);
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                             .dtype = DT_F32,
                             .rank = 2,
                             .sizes = sizes,
                             .strides = strides[k],
                             .data = (float *)dt_tensor_data(base) + (k ? 3 : 18)};
    dt_tensor_t *x = NULL, *got = NULL, *want = NULL;
    expect_ok(dt_tensor_create(&desc, &x));
    expect_ok(dt_call(place.device, function, &x, 1, &got, 1, NULL));
    expect_ok(dt_call(place.host, oracle, &x, 1, &want, 1, NULL));
    dt_tensor_t *back = tensor_download(place.device, got);
    expect_close(back, want, 1e-5, 1e-4, "strides");
    RELEASE(back, got, want, x);
  }
  dt_tensor_release(base);
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

static void a_wrong_index_is_told(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function =
      subject_function(place.runtime, &gather_subject, NULL, DT_ANSWER_COMPILED);
  const int64_t sizes[] = {3, 4}, n = 2, ids[] = {1, 9};
  dt_tensor_t *table = tensor_f32(&place.rng, 2, sizes), *at = tensor_i64(1, &n, ids);
  dt_tensor_t *inputs[] = {tensor_upload(place.device, table), tensor_upload(place.device, at)},
              *out = NULL;
  expect_ok(dt_call(place.device, function, inputs, 2, &out, 1, NULL));
  expect_told(dt_session_wait(place.device), DT_E_RANGE, "9 is outside [-3, 3)");
  expect_ok(dt_session_wait(place.device));
  RELEASE(table, at, inputs[0], inputs[1], out);
  dt_function_release(function);
  close_place(&place);
}

RUN_TESTS(TEST(adds), TEST(layer_norms), TEST(softmaxes), TEST(sums_over_rows), TEST(transposes),
          TEST(gathers), TEST(layers_with_constants), TEST(scales_by_what_is_computed_once),
          TEST(sizes_come_from_data), TEST(numbers_stay_on_the_host),
          TEST(integers_stay_on_the_host), TEST(inputs_on_the_host_keep_their_strides),
          TEST(a_wrong_index_is_told))
