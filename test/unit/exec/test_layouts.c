// SPDX-License-Identifier: Apache-2.0
// Results whose layout is asked for, by an order of dims or like an input: their strides, and their
// elements against the evaluator's, over sizes that change, on the CPU and on devices (the fake
// driver runs the PTX).
#include "test/support/fixture.h"

#include "ductile/ir.h"
#include "test/support/report_as_text.h"

#include <stdio.h>
#include <string.h>

enum { RANK = 4, MOST_RESULTS = 12 };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// ---- Declarations ---------------------------------------------------------------------------------

static dt_runtime_t *runtime;

static dt_status_t same(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)trace;
  (void)closure;
  out[0] = in[0];
  return NULL;
}

static dt_status_t declare(const dt_output_decl_t *output) {
  const dt_input_decl_t inputs[3] = {
      {.name = "x", .dtype = DT_F32, .rank = 3},
      {.name = "n", .dtype = DT_I64, .kind = DT_INPUT_INTEGER},
      {.name = "given", .dtype = DT_F32, .rank = 3, .kind = DT_INPUT_DONATED}};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "same",
                                         .n_inputs = 3,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = sizeof(inputs[0]),
                                         .outputs = output,
                                         .output_size = sizeof(*output)};
  dt_function_t *function = NULL;
  dt_status_t status = dt_function_create(runtime, same, NULL, &options, &function);
  assert_true(!status == !!function);
  dt_function_release(function);
  return status;
}

static void wrong_declarations_are_refused_by_name(void **state) {
  (void)state;
  const uint32_t order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, twice[] = {0, 1, 1}, beyond[] = {0, 3, 1};
  expect_ok(declare(&(dt_output_decl_t){.name = "y", .may_alias_input = true}));
  expect_ok(declare(&(dt_output_decl_t){.name = "y", .order = order, .rank = 3}));
  expect_parts(declare(&(dt_output_decl_t){.name = "y", .order = twice, .rank = 3}), DT_E_ARGUMENT,
               EACH_OF("result 'y'", "dim 1 twice"));
  expect_parts(declare(&(dt_output_decl_t){.order = beyond, .rank = 3}), DT_E_ARGUMENT,
               EACH_OF("result 0", "dim 3 of rank 3"));
  expect_told(declare(&(dt_output_decl_t){.order = order, .rank = 9}), DT_E_LIMIT, "rank 9");
  expect_told(declare(&(dt_output_decl_t){.rank = 3}), DT_E_ARGUMENT, "order: NULL");
  expect_told(declare(&(dt_output_decl_t){.like_input = 4}), DT_E_ARGUMENT, "like_input: 4");
  expect_told(declare(&(dt_output_decl_t){.like_input = 2}), DT_E_ARGUMENT, "integer");
  expect_told(declare(&(dt_output_decl_t){.like_input = 1, .order = order, .rank = 3}),
              DT_E_ARGUMENT, "one of them");
  expect_ok(declare(&(dt_output_decl_t){.like_input = 1}));
  expect_ok(declare(&(dt_output_decl_t){.like_input = 3}));
}

// ---- Programs of x, y [n, c, h, w] ----------------------------------------------------------------

static const dt_dim_decl_t dims[RANK] = {
    {.name = "n"}, {.name = "c"}, {.name = "h"}, {.name = "w"}};
static const dt_input_decl_t inputs[2] = {
    {.name = "x", .dtype = DT_F32, .rank = RANK, .dims = dims},
    {.name = "y", .dtype = DT_F32, .rank = RANK, .dims = dims}};

static dt_status_t keep(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}

static dt_status_t flip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

// What kernels there are: maps, views, reductions, products, several writers, scans, padding,
// branches; an argument and a value that are given out twice.
static dt_status_t many(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t x = in[0], y = in[1], sum = dt_add(t, x, dt_mul(t, x, y));
  const int32_t channels[1] = {1};
  dt_sym_t one = dt_sym_const(t, 1), zero = dt_sym_const(t, 0);
  const dt_sym_t low[RANK] = {zero, one, zero, one}, high[RANK] = {zero, zero, one, one};
  out[0] = sum;
  out[1] = dt_transpose(t, sum, 1, 3);
  out[2] = dt_softmax(t, x, 1);
  out[3] = dt_sum(t, y, 1, channels, true);
  out[4] = dt_matmul(t, x, dt_transpose(t, y, 2, 3));
  out[5] = dt_concat(t, 2, (const dt_value_t[]){x, dt_exp(t, y)}, 1);
  out[6] = dt_cumsum(t, x, 2, 0);
  out[7] = dt_pad(t, y, low, high, 1.5);
  out[8] = x;
  out[9] = sum;
  dt_value_t some = dt_gt(t, dt_sum(t, dt_abs(t, x), 4, (const int32_t[]){0, 1, 2, 3}, false),
                          dt_scalar(t, DT_F32, 20));
  dt_cond(t, some, flip, keep, NULL, 1, &y, 1, &out[10]);
  out[11] =
      dt_softmax(t, dt_div(t, y, dt_sqrt(t, dt_sum(t, dt_mul(t, x, x), 1, channels, true))), 3);
  return NULL;
}

static const uint32_t orders[][RANK] = {{0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}};
static const int64_t shapes[][RANK] = {{2, 3, 4, 5}, {1, 1, 1, 1},  {3, 1, 2, 17},
                                       {2, 0, 3, 2}, {1, 33, 2, 3}, {2, 16, 5, 8}};

static dt_function_t *make_many(dt_runtime_t *in, const uint32_t *order, dt_answer_t answer) {
  dt_output_decl_t outputs[MOST_RESULTS];
  for (uint32_t k = 0; k < MOST_RESULTS; k++)
    outputs[k] = (dt_output_decl_t){.order = order, .rank = order ? RANK : 0};
  outputs[9] = (dt_output_decl_t){0}; // the value of the first one, row-major
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = MOST_RESULTS;
  options.answer = answer;
  options.outputs = outputs;
  options.output_size = sizeof(outputs[0]);
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(in, many, NULL, &options, &function));
  return function;
}

// ---- What is expected -----------------------------------------------------------------------------

static void expect_order(const dt_tensor_t *tensor, const uint32_t *order, const char *what) {
  uint32_t rank = dt_tensor_rank(tensor);
  int64_t stride = 1;
  for (uint32_t k = rank; dt_tensor_count(tensor) && k-- > 0;) {
    uint32_t d = order ? order[k] : k;
    int64_t size = dt_tensor_sizes(tensor)[d];
    if (size > 1 && dt_tensor_strides(tensor)[d] != stride)
      fail_msg("%s, dim %u: stride %lld; expected %lld", what, d,
               (long long)dt_tensor_strides(tensor)[d], (long long)stride);
    stride *= size;
  }
}

static dt_tensor_t *in_row_major(dt_session_t *session, const dt_tensor_t *tensor) {
  dt_tensor_t *out =
      tensor_empty(dt_tensor_dtype(tensor), dt_tensor_rank(tensor), dt_tensor_sizes(tensor));
  expect_ok(dt_tensor_read(session, tensor, dt_tensor_data(out), dt_tensor_bytes(tensor)));
  return out;
}

static void check_call(const fixture_t *place, dt_function_t *function, dt_function_t *oracle,
                       const uint32_t *order, dt_session_t *cpu, dt_tensor_t *const *in) {
  dt_tensor_t *out[MOST_RESULTS] = {NULL}, *expected[MOST_RESULTS] = {NULL};
  expect_ok(dt_call(cpu, oracle, in, 2, expected, MOST_RESULTS, NULL));
  for (int given = 0; given < 2; given++) { // the second time into the first one's results
    expect_ok(dt_call(place->session, function, in, 2, out, MOST_RESULTS, NULL));
    expect_ok(dt_session_wait(place->session));
    for (uint32_t k = 0; k < MOST_RESULTS; k++) {
      char what[32];
      (void)snprintf(what, sizeof(what), "result %u", k);
      expect_order(out[k], k == 9 ? NULL : order, what);
      expect_order(expected[k], k == 9 ? NULL : order, what);
      dt_tensor_t *a = in_row_major(place->session, out[k]), *b = in_row_major(cpu, expected[k]);
      expect_close(a, b, 1e-5, 1e-4, what);
      RELEASE(a, b);
    }
  }
  release_tensors(out, MOST_RESULTS);
  release_tensors(expected, MOST_RESULTS);
}

static void check_orders(dt_device_t device, size_t n_orders, size_t n_shapes) {
  fixture_t place = fixture_on(device, 1);
  dt_session_t *cpu = session_of(place.runtime);
  rng_t rng = {7};
  for (size_t o = 0; o < n_orders; o++) {
    dt_function_t *function = make_many(place.runtime, orders[o], compiled_answer());
    dt_function_t *oracle = make_many(place.runtime, orders[o], DT_ANSWER_EVALUATOR);
    for (size_t s = 0; s < n_shapes; s++) {
      dt_tensor_t *in[2] = {tensor_f32(&rng, RANK, shapes[s]), tensor_f32(&rng, RANK, shapes[s])};
      check_call(&place, function, oracle, orders[o], cpu, in);
      RELEASE(in[0], in[1]);
    }
    dt_function_release(function);
    dt_function_release(oracle);
  }
  dt_session_destroy(cpu);
  fixture_end(&place);
}

static void results_lie_in_their_order(void **state) {
  (void)state;
  check_orders(DT_CPU, COUNT(orders), COUNT(shapes));
}

static void results_lie_in_their_order_on_devices(void **state) {
  (void)state;
  check_orders(DT_CUDA, 1, 3);
}

// ---- Dtypes ---------------------------------------------------------------------------------------

static const dt_dtype_t dtypes[] = {DT_BOOL, DT_U8,  DT_I8,  DT_U16,  DT_I16, DT_U32,     DT_I32,
                                    DT_U64,  DT_I64, DT_F16, DT_BF16, DT_F64, DT_F8E4M3FN};

static dt_status_t casts(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  for (uint32_t k = 0; k < COUNT(dtypes); k++)
    out[k] = dt_cast(t, in[0], dtypes[k]);
  return NULL;
}

static dt_status_t halves(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_cast(t, in[0], DT_I4);
  return NULL;
}

static void every_dtype_has_orders(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const uint32_t order[3] = {2, 0, 1};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_I32, .rank = 3};
  dt_output_decl_t outputs[COUNT(dtypes)];
  dt_tensor_t *out[2][COUNT(dtypes)] = {{NULL}};
  int32_t values[30];
  for (int k = 0; k < 30; k++)
    values[k] = k % 9;
  dt_tensor_t *x = tensor_from(DT_I32, 3, SIZES(2, 5, 3), values);
  for (uint32_t ordered = 0; ordered < 2; ordered++) {
    for (uint32_t k = 0; k < COUNT(dtypes); k++)
      outputs[k] = (dt_output_decl_t){.order = ordered ? order : NULL, .rank = ordered ? 3 : 0};
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = COUNT(dtypes);
    options.outputs = outputs;
    options.output_size = sizeof(outputs[0]);
    dt_function_t *function = NULL;
    expect_ok(dt_function_create(place.runtime, casts, NULL, &options, &function));
    expect_ok(dt_call(place.session, function, &x, 1, out[ordered], COUNT(dtypes), NULL));
    dt_function_release(function);
  }
  for (uint32_t k = 0; k < COUNT(dtypes); k++) {
    expect_order(out[1][k], order, dt_dtype_name(dtypes[k]));
    dt_tensor_t *a = in_row_major(place.session, out[1][k]);
    assert_memory_equal(dt_tensor_data(a), dt_tensor_data(out[0][k]), dt_tensor_bytes(a));
    RELEASE(a, out[0][k], out[1][k]);
  }
  RELEASE(x);
  fixture_end(&place);
}

static void packed_elements_stay_together(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const uint32_t moved[3] = {1, 0, 2}, kept[3] = {0, 1, 2};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_I32, .rank = 3};
  dt_tensor_t *x = tensor_from(DT_I32, 3, SIZES(2, 3, 2), (const int32_t[12]){1, 2, 3, 4, 5, 6, 7});
  for (int good = 0; good < 2; good++) {
    const dt_output_decl_t output = {.name = "codes", .order = good ? kept : moved, .rank = 3};
    dt_function_options_t options = options_of(1, &input);
    options.outputs = &output;
    options.output_size = sizeof(output);
    dt_function_t *function = NULL;
    dt_tensor_t *out = NULL;
    expect_ok(dt_function_create(place.runtime, halves, NULL, &options, &function));
    dt_status_t status = dt_call(place.session, function, &x, 1, &out, 1, NULL);
    if (good)
      expect_ok(status);
    else
      expect_parts(status, DT_E_UNSUPPORTED, EACH_OF("result 'codes'", "i4 share bytes"));
    RELEASE(out);
    dt_function_release(function);
  }
  RELEASE(x);
  fixture_end(&place);
}

// ---- Like an input --------------------------------------------------------------------------------

static dt_status_t scaled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[1], dt_sum(t, in[0], 1, (const int32_t[]){1}, true));
  return NULL;
}

static dt_function_t *make_like(const fixture_t *place, const dt_output_decl_t *output) {
  dt_function_options_t options = options_of(2, inputs);
  options.outputs = output;
  options.output_size = sizeof(*output);
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(place->runtime, scaled, NULL, &options, &function));
  return function;
}

// x in the order, or with every other element of its last dim left out where that is NULL.
static dt_tensor_t *lay_out(const int64_t *sizes, const uint32_t *order, float *data) {
  int64_t strides[RANK], stride = order ? 1 : 2;
  for (uint32_t k = RANK; k-- > 0;) {
    uint32_t d = order ? order[k] : k;
    strides[d] = stride;
    stride *= sizes[d];
  }
  return tensor_over(DT_F32, RANK, sizes, strides, data);
}

static void results_lie_like_an_input(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const dt_output_decl_t output = {.name = "z", .like_input = 1};
  static const uint32_t row_major[RANK] = {0, 1, 2, 3};
  static const int64_t sizes[][RANK] = {{2, 3, 4, 5}, {1, 2, 3, 1}, {2, 1, 3, 4}, {1, 4, 1, 3}};
  static float data[400];
  dt_function_t *function = make_like(&place, &output);
  for (int k = 0; k < 400; k++)
    data[k] = (float)(k % 17) - 8;
  const uint32_t *const asked[] = {orders[0], row_major, NULL, orders[1]};
  for (size_t n = 0; n < 8 * COUNT(asked); n++) // later rounds by the compiled decision
    for (size_t s = 0; s < COUNT(sizes); s++) {
      size_t o = n % COUNT(asked);
      dt_tensor_t *in[2] = {lay_out(sizes[s], asked[o], data), tensor_full(2, RANK, sizes[s])};
      dt_tensor_t *out = NULL;
      expect_ok(dt_call(place.session, function, in, 2, &out, 1, NULL));
      expect_order(out, asked[o], "z");
      RELEASE(out, in[0], in[1]);
    }
  assert_int_equal(variants_of(function), COUNT(asked));
  char *text = NULL;
  expect_ok(report_as_text(function, NULL, 0, DT_REPORT_VARIANTS, &text));
  assert_non_null(strstr(text, "dims in memory as 0, 2, 3, 1"));
  assert_non_null(strstr(text, "dims in no order"));
  dt_text_free(text);
  dt_function_release(function);
  fixture_end(&place);
}

// ---- Outputs of the caller's, texts, rank ---------------------------------------------------------

static void given_outputs_have_the_order(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const dt_output_decl_t output = {.name = "z", .order = orders[0], .rank = RANK};
  dt_function_t *function = make_like(&place, &output);
  static float data[24];
  const int64_t sizes[RANK] = {1, 2, 3, 4};
  dt_tensor_t *in[2] = {tensor_full(1, RANK, sizes), tensor_full(2, RANK, sizes)};
  dt_tensor_t *good = lay_out(sizes, orders[0], data), *bad = tensor_full(0, RANK, sizes);
  expect_ok(dt_call(place.session, function, in, 2, &good, 1, NULL));
  assert_true(data[0] == 4 && data[23] == 4);
  expect_parts(dt_call(place.session, function, in, 2, &bad, 1, NULL), DT_E_SHAPE,
               EACH_OF("output 0, dim 1", "got stride 12; expected 1"));
  RELEASE(in[0], in[1], good, bad);
  dt_function_release(function);
  fixture_end(&place);
}

static void texts_keep_orders(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const dt_output_decl_t output = {.like_input = 2};
  dt_function_t *function = make_like(&place, &output), *again = NULL;
  static float data[48];
  const int64_t sizes[RANK] = {1, 2, 3, 4};
  dt_tensor_t *in[2] = {tensor_full(1, RANK, sizes), lay_out(sizes, orders[0], data)};
  dt_tensor_t *out = NULL;
  char *text = NULL;
  expect_ok(dt_call(place.session, function, in, 2, &out, 1, NULL));
  RELEASE(out);
  out = NULL;
  expect_ok(dt_function_graph(function, in, 2, &text));
  assert_non_null(strstr(text, "order [0, 2, 3, 1] like 1"));
  dt_function_options_t options = {.struct_size = sizeof(options), .name = "again"};
  options.answer = compiled_answer();
  expect_ok(
      dt_function_create_from_ir(place.runtime, text, strlen(text), "text", &options, &again));
  expect_ok(dt_call(place.session, again, in, 2, &out, 1, NULL));
  expect_order(out, orders[0], "again");
  dt_text_free(text);
  RELEASE(in[0], in[1], out);
  dt_function_release(again);
  dt_function_release(function);
  fixture_end(&place);
}

static void ranks_are_compared(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  const dt_output_decl_t output = {.name = "z", .order = (const uint32_t[]){0, 1, 2}, .rank = 3};
  dt_function_t *function = make_like(&place, &output);
  expect_parts(dt_function_prepare(function, NULL), DT_E_SHAPE, EACH_OF("result 'z'", "rank 4"));
  dt_function_release(function);
  fixture_end(&place);
}

static int setup(void **state) {
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  dt_runtime_release(runtime);
  return 0;
}

RUN_TESTS_WITH(setup, teardown, TEST(wrong_declarations_are_refused_by_name),
               TEST(results_lie_in_their_order), TEST(results_lie_in_their_order_on_devices),
               TEST(every_dtype_has_orders), TEST(packed_elements_stay_together),
               TEST(results_lie_like_an_input), TEST(given_outputs_have_the_order),
               TEST(texts_keep_orders), TEST(ranks_are_compared))
