// SPDX-License-Identifier: Apache-2.0
// Inputs that are slices of larger buffers, by functions that were prepared for them: no call
// compiles, whatever strides they have, and the answers are those of contiguous copies.
#include "test/support/subjects.h"

#include <string.h>

#define PATTERNS 200
#define ROOM 8192

static int setup(void **state) { return fixture_open(state, 2, 41); }

static const dt_input_decl_t inputs[] = {
    {.name = "x",
     .dtype = DT_F32,
     .rank = 3,
     .dims = (const dt_dim_decl_t[]){{.name = "batch"}, {.name = "seq"}, {.name = "width"}}},
    {.name = "y",
     .dtype = DT_F32,
     .rank = 2,
     .dims = (const dt_dim_decl_t[]){{.name = "batch"}, {.name = "seq"}}},
    {.name = "w", .dtype = DT_F32, .rank = 1, .dims = (const dt_dim_decl_t[]){{.name = "width"}}}};

// Rows with a norm, a sum along the middle, a scale: maps, reductions and broadcasts.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scaled = dt_mul(t, in[0], in[2]);
  dt_value_t shifted = dt_add(t, scaled, dt_unsqueeze(t, in[1], 2));
  out[0] = dt_softmax(t, shifted, -1);
  out[1] = dt_sum(t, shifted, 1, (const int32_t[]){1}, false);
  return NULL;
}

static dt_function_t *prepared(fixture_t *fixture, uint64_t layouts, dt_status_t *out) {
  dt_function_options_t options = options_of(3, inputs);
  options.n_outputs = 2;
  options.answer = compiled_answer();
  dt_function_t *function = function_of(fixture, program, NULL, &options);
  const dt_prepare_options_t how = {.struct_size = sizeof(how), .layouts = layouts};
  *out = dt_function_prepare(function, &how);
  return function;
}

// The order in which a view's dims lie, outermost first: that of its sizes or, `any`, some other.
static void random_order(rng_t *rng, uint32_t rank, bool any, uint32_t *order) {
  for (uint32_t d = 0; d < rank; d++)
    order[d] = d;
  for (uint32_t d = rank; any && d-- > 1;) {
    uint32_t with = (uint32_t)rng_between(rng, 0, (int64_t)d), moved = order[d];
    order[d] = order[with];
    order[with] = moved;
  }
}

// Begins anywhere, with random gaps, contiguous at times. A dim of one element has whatever stride;
// `any`: each dim may also lie elsewhere in the order, run backwards, or stand still.
static dt_tensor_t *random_view(rng_t *rng, const int64_t *sizes, uint32_t rank, bool any,
                                float *data) {
  int64_t strides[3], offset = rng_between(rng, 0, 5), stride = 1, room = offset;
  uint32_t order[3];
  random_order(rng, rank, any, order);
  for (uint32_t k = rank; k-- > 0;) {
    uint32_t d = order[k];
    bool inner = k + 1 == rank;
    strides[d] = stride * (inner && !any ? 1 : 1 + rng_between(rng, 0, 2) * (inner ? any : 1));
    stride = strides[d] * (sizes[d] ? sizes[d] : 1) + (inner && !any ? rng_between(rng, 0, 3) : 0);
    if (any && rng_between(rng, 0, 7) == 0)
      strides[d] = 0;
    if (any && rng_between(rng, 0, 3) == 0 && sizes[d] > 1) {
      offset += strides[d] * (sizes[d] - 1);
      strides[d] = -strides[d];
    }
    if (sizes[d] <= 1 && rng_between(rng, 0, 1))
      strides[d] = rng_between(rng, any ? -99 : 0, 99999);
  }
  assert_true(stride + offset + room < ROOM);
  for (int k = 0; k < ROOM; k++)
    data[k] = (float)rng_between(rng, -100, 100) / 16.0F;
  return tensor_over(DT_F32, rank, sizes, strides, data + offset);
}

static dt_tensor_t *packed_copy(const dt_tensor_t *view) {
  uint32_t rank = dt_tensor_rank(view);
  dt_tensor_t *copy = tensor_empty(DT_F32, rank, dt_tensor_sizes(view));
  float *to = dt_tensor_data(copy);
  const float *from = dt_tensor_data(view);
  for (int64_t k = 0; k < dt_tensor_count(view); k++) {
    int64_t at = 0, rest = k;
    for (uint32_t d = rank; d-- > 0;) {
      at += rest % dt_tensor_sizes(view)[d] * dt_tensor_strides(view)[d];
      rest /= dt_tensor_sizes(view)[d];
    }
    to[k] = from[at];
  }
  return copy;
}

static void expect_same(fixture_t *fixture, dt_function_t *function, dt_tensor_t *const *views) {
  dt_tensor_t *copies[3], *got[2] = {NULL, NULL}, *wanted[2] = {NULL, NULL};
  for (int k = 0; k < 3; k++)
    copies[k] = packed_copy(views[k]);
  expect_ok(dt_call(fixture->session, function, views, 3, got, 2, NULL));
  expect_ok(dt_call(fixture->session, function, copies, 3, wanted, 2, NULL));
  expect_close(got[0], wanted[0], 1e-6, 1e-5, "softmax");
  expect_close(got[1], wanted[1], 1e-5, 1e-5, "sum");
  release_tensors(copies, 3);
  release_tensors(got, 2);
  release_tensors(wanted, 2);
}

static void run_patterns(fixture_t *fixture, bool any) {
  static float data[3][ROOM];
  dt_status_t status = NULL;
  dt_function_t *function = prepared(fixture, any ? DT_PREPARE_STRIDED : DT_PREPARE_ROWS, &status);
  expect_ok(status);
  uint64_t compiles = stats_of(function).compiles;
  assert_int_equal(compiles, any ? 3 : 2);
  expect_ok(dt_function_freeze(function, true)); // a call that compiles fails
  for (int k = 0; k < PATTERNS; k++) {
    int64_t sizes[] = {rng_between(&fixture->rng, 0, 4), rng_between(&fixture->rng, 0, 5),
                       rng_between(&fixture->rng, 1, 9)};
    dt_tensor_t *views[] = {random_view(&fixture->rng, sizes, 3, any, data[0]),
                            random_view(&fixture->rng, sizes, 2, any, data[1]),
                            random_view(&fixture->rng, sizes + 2, 1, any, data[2])};
    expect_same(fixture, function, views);
    release_tensors(views, 3);
  }
  assert_int_equal(stats_of(function).compiles, compiles);
  assert_int_equal(stats_of(function).misses, 0);
  dt_function_release(function);
}

static void test_rows_with_gaps(void **state) { run_patterns(*state, false); }
static void test_any_strides(void **state) { run_patterns(*state, true); }

// A slice of a batch buffer, by a function that is prepared for contiguous inputs alone: the call
// compiles, and where it may not, it says what to do. Prepared for rows it does not.
static void test_what_is_not_prepared(void **state) {
  fixture_t *fixture = *state;
  static float data[3][ROOM];
  dt_status_t status = NULL;
  dt_function_t *function = prepared(fixture, DT_PREPARE_CONTIGUOUS, &status);
  expect_ok(status);
  expect_ok(dt_function_freeze(function, true));
  dt_tensor_t *views[] = {tensor_over(DT_F32, 3, SIZES(2, 3, 16), SIZES(512, 64, 1), data[0]),
                          tensor_over(DT_F32, 2, SIZES(2, 3), SIZES(8, 1), data[1]),
                          tensor_over(DT_F32, 1, SIZES(16), SIZES(1), data[2])};
  dt_tensor_t *out[2] = {NULL, NULL};
  expect_told(dt_call(fixture->session, function, views, 3, out, 2, NULL), DT_E_STATE,
              "DT_PREPARE_ROWS");
  expect_ok(dt_function_freeze(function, false));
  const dt_prepare_options_t rows = {.struct_size = sizeof(rows), .layouts = DT_PREPARE_ROWS};
  for (int round = 0; round < 2; round++) { // the second finds it there
    expect_ok(dt_function_prepare(function, &rows));
    assert_int_equal(stats_of(function).compiles, 2);
  }
  expect_ok(dt_function_freeze(function, true));
  expect_same(fixture, function, views);
  const dt_prepare_options_t wrong = {.struct_size = sizeof(wrong), .layouts = 9};
  expect_told(dt_function_prepare(function, &wrong), DT_E_ARGUMENT, "layouts: 9");
  release_tensors(views, 3);
  dt_function_release(function);
}

// Of matrices alone: a row's stride is then a size, where there are no gaps.
static void test_matrices_have_layouts(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t one[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
  static float data[ROOM];
  for (uint64_t layout = DT_PREPARE_ROWS; layout <= DT_PREPARE_STRIDED; layout++) {
    dt_function_options_t options = options_of(1, one);
    options.answer = compiled_answer();
    dt_function_t *function = function_of(fixture, double_program, NULL, &options);
    const dt_prepare_options_t how = {.struct_size = sizeof(how), .layouts = layout};
    expect_ok(dt_function_prepare(function, &how));
    assert_int_equal(stats_of(function).compiles, layout + 1);
    expect_ok(dt_function_freeze(function, true));
    for (int k = 0; k < PATTERNS; k++) {
      int64_t sizes[] = {rng_between(&fixture->rng, 0, 9), rng_between(&fixture->rng, 1, 9)};
      dt_tensor_t *view = random_view(&fixture->rng, sizes, 2, layout == DT_PREPARE_STRIDED, data);
      dt_tensor_t *copy = packed_copy(view), *got = NULL, *wanted = NULL;
      expect_ok(dt_call(fixture->session, function, &view, 1, &got, 1, NULL));
      expect_ok(dt_call(fixture->session, function, &copy, 1, &wanted, 1, NULL));
      expect_close(got, wanted, 0, 0, "x + x");
      RELEASE(view, copy, got, wanted);
    }
    dt_function_release(function);
  }
}

// Where no input can have gaps, one variant is enough for all layouts.
static void test_vectors_need_no_more(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t one[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(1, one);
  dt_function_t *function = function_of(fixture, double_program, NULL, &options);
  const dt_prepare_options_t rows = {.struct_size = sizeof(rows), .layouts = DT_PREPARE_ROWS};
  expect_ok(dt_function_prepare(function, &rows));
  assert_int_equal(stats_of(function).compiles, 1);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_rows_with_gaps), TEST(test_any_strides),
               TEST(test_matrices_have_layouts), TEST(test_what_is_not_prepared),
               TEST(test_vectors_need_no_more))
