// SPDX-License-Identifier: Apache-2.0
// Calls of what takes, replaces and orders by index, against what is written down here: the places
// of slices in each mode, the order of updates that meet, and indices that are refused.
#include "test/support/fixture.h"

#include <math.h>
#include <string.h>

static const dt_input_decl_t three[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                        {.name = "at", .dtype = DT_I64, .rank = 2},
                                        {.name = "y", .dtype = DT_F32, .rank = 2}};
static const dt_input_decl_t slices[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                         {.name = "at", .dtype = DT_I64, .rank = 0},
                                         {.name = "y", .dtype = DT_F32, .rank = 2}};
static const dt_input_decl_t batches[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                          {.name = "at", .dtype = DT_I64, .rank = 1},
                                          {.name = "y", .dtype = DT_F32, .rank = 2}};

static int setup(void **state) { return fixture_open(state, 3, 11); }

// x holds 1, 2, 3, … and y -1, -2, -3, ….
static void numbers(dt_tensor_t *tensor, float step) {
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
    ((float *)dt_tensor_data(tensor))[k] = step * (float)(k + 1);
}

static void expect_numbers(dt_tensor_t *got, const float *want, const char *what) {
  for (int64_t k = 0; k < dt_tensor_count(got); k++) {
    float value = ((const float *)dt_tensor_data(got))[k];
    if (value != want[k])
      fail_msg("%s: element %lld is %g, expected %g", what, (long long)k, (double)value,
               (double)want[k]);
  }
}

typedef struct call_t {
  const char *what;
  dt_program_fn_t program;
  const dt_input_decl_t *inputs;
  int64_t x[2], at_sizes[2], at[8], y[2];
  float want[12];
  const char *refused; // the call gets DT_E_RANGE, saying this
} call_t;

static void run(void **state, const call_t *c) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(3, c->inputs);
  dt_function_t *function = function_of(fixture, c->program, NULL, &options);
  dt_tensor_t *in[3] = {tensor_full(0, 2, c->x), tensor_i64(c->inputs[1].rank, c->at_sizes, c->at),
                        tensor_full(0, 2, c->y)};
  dt_tensor_t *got = NULL;
  numbers(in[0], 1);
  numbers(in[2], -1);
  dt_status_t status = dt_call(fixture->session, function, in, 3, &got, 1, NULL);
  if (c->refused) {
    // The evaluator tells it of the op that was recorded, code of what is checked.
    expect_told(status, DT_E_RANGE,
                compiled_answer() == DT_ANSWER_COMPILED ? c->refused : ": index ");
  } else {
    expect_ok(status);
    expect_numbers(got, c->want, c->what);
    dt_tensor_release(got);
  }
  release_tensors(in, 3);
  dt_function_release(function);
}

// ---- Slices -----------------------------------------------------------------------------------------
#define PROGRAM(name, ...)                                                                         \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {   \
    (void)closure;                                                                                 \
    out[0] = __VA_ARGS__;                                                                          \
    return NULL;                                                                                   \
  }
PROGRAM(checked, dt_update_slice(t, in[0], in[2], in[1], 0, DT_UPDATE_CHECKED))
PROGRAM(clamped, dt_update_slice(t, in[0], in[2], in[1], 0, DT_UPDATE_CLAMPED))
PROGRAM(circular, dt_update_slice(t, in[0], in[2], in[1], 0, DT_UPDATE_CIRCULAR))
PROGRAM(by_batch, dt_update_slice(t, in[0], in[2], in[1], 1, DT_UPDATE_CHECKED))
PROGRAM(by_i32, dt_update_slice(t, in[0], in[2], dt_cast(t, in[1], DT_I32), -2, DT_UPDATE_CHECKED))

static void slices_take_their_places(void **state) {
  static const call_t calls[] = {
      {"first", checked, slices, {3, 2}, {0}, {0}, {1, 2}, {-1, -2, 3, 4, 5, 6}, NULL},
      {"last", checked, slices, {3, 2}, {0}, {1}, {2, 2}, {1, 2, -1, -2, -3, -4}, NULL},
      {"i32", by_i32, slices, {3, 2}, {0}, {1}, {2, 2}, {1, 2, -1, -2, -3, -4}, NULL},
      {"all", checked, slices, {2, 2}, {0}, {0}, {2, 2}, {-1, -2, -3, -4}, NULL},
      {"nothing, anywhere", checked, slices, {2, 1}, {0}, {99}, {0, 1}, {1, 2}, NULL},
      {"behind", checked, slices, {3, 2}, {0}, {2}, {2, 2}, {0}, "update_slice: index"},
      {"before", checked, slices, {3, 2}, {0}, {-1}, {2, 2}, {0}, "update_slice: index"},
      {"far before", checked, slices, {3, 2}, {0}, {INT64_MIN}, {1, 2}, {0}, "update_slice: index"},
      {"far behind", checked, slices, {3, 2}, {0}, {INT64_MAX}, {2, 2}, {0}, "update_slice: index"},
      {"clamped", clamped, slices, {3, 2}, {0}, {7}, {2, 2}, {1, 2, -1, -2, -3, -4}, NULL},
      {"clamped before", clamped, slices, {3, 1}, {0}, {-7}, {2, 1}, {-1, -2, 3}, NULL},
      {"circular", circular, slices, {3, 1}, {0}, {5}, {2, 1}, {-2, 2, -1}, NULL},
      {"circular before", circular, slices, {3, 1}, {0}, {-1}, {3, 1}, {-2, -3, -1}, NULL},
      {"circular, none", circular, slices, {0, 1}, {0}, {4}, {0, 1}, {0}, NULL},
      {"batch", by_batch, batches, {2, 3}, {2}, {2, 0}, {2, 1}, {1, 2, -1, -2, 5, 6}, NULL},
      {"batch out", by_batch, batches, {2, 3}, {2}, {0, 3}, {2, 1}, {0}, "update_slice: index"},
  };
  for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
    run(state, &calls[k]);
}

// ---- Elements and tuples ------------------------------------------------------------------------------
PROGRAM(take, dt_gather_elements(t, in[0], in[1], 0))
PROGRAM(take_nd, dt_gather_nd(t, in[0], in[1], 0))
PROGRAM(put, dt_scatter_elements(t, in[0], in[1], in[2], 0, DT_SCATTER_REPLACE))
PROGRAM(put_add, dt_scatter_elements(t, in[0], in[1], in[2], 0, DT_SCATTER_ADD))
PROGRAM(put_mul, dt_scatter_elements(t, in[0], in[1], in[2], 1, DT_SCATTER_MUL))
PROGRAM(put_nd, dt_scatter_nd(t, in[0], in[1], in[2], DT_SCATTER_REPLACE))
PROGRAM(put_nd_min, dt_scatter_nd(t, in[0], in[1], in[2], DT_SCATTER_MIN))

static void elements_go_where_indices_say(void **state) {
  static const call_t calls[] = {
      {"take", take, three, {3, 2}, {1, 2}, {-1, 0}, {1, 1}, {5, 2}, NULL},
      {"take less", take, three, {3, 2}, {2, 1}, {1, -3}, {1, 1}, {3, 1}, NULL},
      {"take out",
       take,
       three,
       {3, 2},
       {1, 2},
       {0, 3},
       {1, 1},
       {0},
       "gather_elements: index of at"},
      {"take none",
       take,
       three,
       {0, 2},
       {1, 2},
       {0, 0},
       {1, 1},
       {0},
       "gather_elements: index of at"},
      {"tuples", take_nd, three, {3, 2}, {2, 2}, {-1, 0, 0, -1}, {1, 1}, {5, 2}, NULL},
      {"rows", take_nd, three, {3, 2}, {1, 1}, {-2}, {1, 1}, {3, 4}, NULL},
      {"tuples out", take_nd, three, {3, 2}, {1, 2}, {0, 2}, {1, 1}, {0}, "gather_nd: index of at"},
      {"last wins", put, three, {3, 1}, {3, 1}, {1, -2, 1}, {3, 1}, {1, -3, 3}, NULL},
      {"all add", put_add, three, {3, 1}, {3, 1}, {1, -2, 1}, {3, 1}, {1, -4, 3}, NULL},
      {"all multiply", put_mul, three, {1, 3}, {1, 2}, {2, 2}, {1, 2}, {1, 2, 6}, NULL},
      {"out", put, three, {3, 1}, {1, 1}, {-4}, {1, 1}, {0}, "scatter_elements: index of at"},
      {"rows in order", put_nd, three, {2, 2}, {3, 1}, {1, 0, 1}, {3, 2}, {-3, -4, -5, -6}, NULL},
      {"least", put_nd_min, three, {2, 2}, {1, 1}, {-1}, {1, 2}, {1, 2, -1, -2}, NULL},
      {"row out", put_nd, three, {2, 2}, {1, 1}, {2}, {1, 2}, {0}, "scatter_nd: index of at"},
  };
  for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
    run(state, &calls[k]);
}

// Sums whose order matters come out the same each time, and in the order of the updates.
static void sums_are_taken_in_order(void **state) {
  fixture_t *fixture = *state;
  enum { N = 300, ROWS = 7 };
  dt_function_options_t options = options_of(3, three);
  dt_function_t *function = function_of(fixture, put_add, NULL, &options);
  static int64_t at[N * 3];
  static float want[ROWS * 3];
  const int64_t sizes[2] = {N, 3}, rows[2] = {ROWS, 3};
  for (int k = 0; k < N * 3; k++)
    at[k] = rng_between(&fixture->rng, -ROWS, ROWS - 1);
  dt_tensor_t *in[3] = {tensor_f32(&fixture->rng, 2, rows), tensor_i64(2, sizes, at),
                        tensor_f32(&fixture->rng, 2, sizes)};
  memcpy(want, dt_tensor_data(in[0]), sizeof(want));
  for (int k = 0; k < N * 3; k++)
    want[(at[k] < 0 ? at[k] + ROWS : at[k]) * 3 + k % 3] +=
        ((const float *)dt_tensor_data(in[2]))[k];
  for (int turn = 0; turn < 3; turn++) {
    dt_tensor_t *got = NULL;
    expect_ok(dt_call(fixture->session, function, in, 3, &got, 1, NULL));
    if (compiled_answer() == DT_ANSWER_COMPILED)
      expect_numbers(got, want, "sums");
    dt_tensor_release(got);
  }
  release_tensors(in, 3);
  dt_function_release(function);
}

// ---- Order ------------------------------------------------------------------------------------------
typedef struct order_t {
  bool largest, all;
  int32_t axis;
  int64_t k;
} order_t;

static dt_status_t ordered(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const order_t *o = closure;
  if (o->all)
    dt_sort(t, in[0], o->axis, o->largest, &out[0], &out[1]);
  else
    dt_topk(t, in[0], dt_sym_min(t, dt_sym_const(t, o->k), dt_dim(t, in[0], o->axis)), o->axis,
            o->largest, &out[0], &out[1]);
  return NULL;
}

static bool comes_first(float a, float b, bool largest) {
  if (isnan(a) || isnan(b))
    return largest ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
  return largest ? a > b : a < b;
}

// Whether row values at `at` and `want` are in order, of all of x's row: each is before the next,
// and as many are before the last as there are places.
static void expect_order(const order_t *o, const float *x, int64_t n, int64_t step,
                         const float *values, const int64_t *at, int64_t k, int64_t k_step) {
  for (int64_t i = 0; i < k; i++) {
    int64_t index = at[i * k_step], sooner = 0;
    assert_in_range(index, 0, n - 1);
    float value = x[index * step];
    assert_memory_equal(&value, &values[i * k_step], sizeof(value));
    for (int64_t j = 0; j < n; j++) {
      bool equal = !comes_first(x[j * step], value, o->largest) &&
                   !comes_first(value, x[j * step], o->largest);
      sooner += comes_first(x[j * step], value, o->largest) || (equal && j < index);
    }
    assert_int_equal(sooner, i);
  }
}

static void check_order(fixture_t *fixture, const order_t *o, dt_function_t *function,
                        const int64_t *sizes) {
  static const float specials[] = {0, -0.0F, 1, 1, INFINITY, -INFINITY, NAN, 2};
  dt_tensor_t *x = tensor_f32(&fixture->rng, 2, sizes), *out[2] = {NULL};
  float *data = dt_tensor_data(x);
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    if (rng_between(&fixture->rng, 0, 2) == 0)
      data[k] = specials[rng_between(&fixture->rng, 0, 7)];
  expect_ok(dt_call(fixture->session, function, &x, 1, out, 2, NULL));
  int64_t n = sizes[o->axis], k = o->all || o->k > n ? n : o->k;
  assert_int_equal(dt_tensor_sizes(out[0])[o->axis], k);
  assert_int_equal(dt_tensor_dtype(out[1]), DT_I64);
  bool rows = o->axis == 1;
  for (int64_t r = 0; r < sizes[!o->axis]; r++) {
    int64_t from = rows ? r * n : r, to = rows ? r * k : r, step = rows ? 1 : sizes[1];
    expect_order(o, data + from, n, step, (const float *)dt_tensor_data(out[0]) + to,
                 (const int64_t *)dt_tensor_data(out[1]) + to, k, step);
  }
  RELEASE(x, out[0], out[1]);
}

// By counting, where a row is known to be short, and by exchanges.
static void rows_are_put_in_order(void **state) {
  fixture_t *fixture = *state;
  static const order_t orders[] = {
      {true, false, 1, 3}, {false, false, 0, 5}, {true, true, 0, 0}, {false, true, 1, 0}};
  static const int64_t lengths[] = {0, 1, 2, 3, 5, 8, 33, 100};
  for (size_t c = 0; c < 2 * sizeof(orders) / sizeof(orders[0]); c++) {
    const order_t *o = &orders[c / 2];
    dt_dim_decl_t dims[2] = {{.name = "a"}, {.name = "b"}};
    if (c % 2) {
      dims[o->axis].max = 500;
      dims[o->axis].min = 0;
    }
    dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = 2;
    dt_function_t *function = function_of(fixture, ordered, (void *)(uintptr_t)o, &options);
    for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
      int64_t sizes[2] = {3, 3};
      sizes[o->axis] = lengths[k];
      check_order(fixture, o, function, sizes);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(slices_take_their_places),
               TEST(elements_go_where_indices_say), TEST(sums_are_taken_in_order),
               TEST(rows_are_put_in_order))
