// SPDX-License-Identifier: Apache-2.0
// Numbers that come with a call and make sizes, at the ends of what 64 bits hold: as integer
// arguments and read from data. Each call is answered as the evaluator answers it, or refused with
// a status that is about the arguments.
#include "test/support/fixture.h"

#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 17); }

// ---- Programs: x[6] and numbers n[0], n[1] ----------------------------------------------------------

typedef dt_value_t (*make_fn_t)(dt_trace_t *t, dt_value_t x, const dt_sym_t *n);

static dt_value_t make_reshape(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_reshape(t, x, 2, n);
}
static dt_value_t make_reshape_rest(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_sym_t sizes[3] = {n[0], dt_sym_const(t, -1), n[1]};
  return dt_reshape(t, x, 3, sizes);
}
static dt_value_t make_split(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_value_t parts[2] = {{0}, {0}};
  dt_split(t, x, 0, 2, n, parts);
  return parts[1];
}
static dt_value_t make_pad(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_pad(t, x, &n[0], &n[1], 7);
}
static dt_value_t make_slice_range(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice_range(t, x, 0, n[0], n[1], 1);
}
static dt_value_t make_slice_range_3(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice_range(t, x, 0, n[0], n[1], 3);
}
static dt_value_t make_slice_range_back(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice_range(t, x, 0, n[0], n[1], -1);
}
static dt_value_t make_slice_range_back_2(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice_range(t, x, 0, n[0], n[1], -2);
}
static dt_value_t make_slice(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice(t, x, 0, n[0], n[1], 1);
}
static dt_value_t make_slice_back(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_slice(t, x, 0, n[0], n[1], -2);
}
static dt_value_t make_range(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  (void)x;
  return dt_range(t, DT_I64, n[0], n[1], dt_sym_const(t, 1));
}
static dt_value_t make_range_step(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  (void)x;
  return dt_range(t, DT_I64, dt_sym_const(t, 5), n[0], n[1]);
}
static dt_value_t make_full(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  (void)x;
  return dt_full(t, DT_F32, 1, 2, n);
}
static dt_value_t make_iota(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  (void)x;
  return dt_iota(t, DT_I64, 2, n, 1);
}
static dt_value_t make_expand(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_sym_t sizes[3] = {n[0], n[1], dt_dim(t, x, 0)};
  return dt_expand(t, x, 3, sizes);
}
static dt_value_t make_sum_of_sizes(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_sym_t size = dt_sym_add(t, n[0], n[1]);
  (void)x;
  return dt_full(t, DT_F32, 1, 1, &size);
}
static dt_value_t make_product_of_sizes(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_sym_t size = dt_sym_mul(t, n[0], n[1]);
  (void)x;
  return dt_full(t, DT_F32, 1, 1, &size);
}
static dt_value_t make_quotient_of_sizes(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_sym_t size = dt_sym_floordiv(t, n[0], n[1]);
  (void)x;
  return dt_full(t, DT_F32, 1, 1, &size);
}
static dt_value_t make_topk(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_value_t values = {0}, indices = {0};
  dt_topk(t, x, n[0], 0, true, &values, &indices);
  return values;
}
static dt_value_t make_windows(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_window_t window = {.size = n[0], .stride = n[1]};
  return dt_windows(t, x, 1, &window);
}
static dt_value_t make_window_padding(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  dt_window_t window = {.size = dt_sym_const(t, 2), .dilation = n[0], .low = n[1]};
  return dt_windows(t, x, 1, &window);
}
static dt_value_t make_repeat(dt_trace_t *t, dt_value_t x, const dt_sym_t *n) {
  return dt_repeat_interleave(t, x, dt_size_value(t, n[0]), 0);
}

typedef struct row_t {
  const char *name;
  make_fn_t make;
} row_t;
static const row_t rows[] = {
    {"reshape", make_reshape},
    {"reshape with -1", make_reshape_rest},
    {"split", make_split},
    {"pad", make_pad},
    {"slice_range", make_slice_range},
    {"slice_range by 3", make_slice_range_3},
    {"slice_range by -1", make_slice_range_back},
    {"slice_range by -2", make_slice_range_back_2},
    {"slice", make_slice},
    {"slice by -2", make_slice_back},
    {"range", make_range},
    {"range of a step", make_range_step},
    {"full", make_full},
    {"iota", make_iota},
    {"expand", make_expand},
    {"a + b", make_sum_of_sizes},
    {"a * b", make_product_of_sizes},
    {"a / b", make_quotient_of_sizes},
    {"topk", make_topk},
    {"windows", make_windows},
    {"padding of windows", make_window_padding},
    {"repeat", make_repeat},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static dt_status_t by_arguments(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const row_t *row = closure;
  dt_sym_t n[2] = {dt_int_value(t, in[1]), dt_int_value(t, in[2])};
  out[0] = row->make(t, in[0], n);
  return NULL;
}

static dt_status_t by_data(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const row_t *row = closure;
  dt_sym_t n[2] = {dt_item(t, in[1]), dt_item(t, in[2])};
  out[0] = row->make(t, in[0], n);
  return NULL;
}

// ---- Calls ------------------------------------------------------------------------------------------

// None that makes a tensor of more than a few elements and less than is refused.
static const int64_t hostile[] = {
    0,
    1,
    2,
    5,
    -1,
    -6,
    INT64_MAX,
    INT64_MAX - 1,
    INT64_MIN,
    INT64_MIN + 1,
    (int64_t)1 << 62,
    -((int64_t)1 << 62),
    ((int64_t)1 << 47) - 1,
};
#define N_HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

static bool is_refusal(dt_code_t code) {
  return code == DT_E_SHAPE || code == DT_E_LIMIT || code == DT_E_RANGE || code == DT_E_ARGUMENT ||
         code == DT_E_NO_MEMORY;
}

static void same_answer(dt_tensor_t *a, dt_tensor_t *b, const char *what) {
  bool same = dt_tensor_rank(a) == dt_tensor_rank(b) && dt_tensor_dtype(a) == dt_tensor_dtype(b);
  int64_t count = 1;
  for (uint32_t k = 0; same && k < dt_tensor_rank(a); k++) {
    same = dt_tensor_sizes(a)[k] == dt_tensor_sizes(b)[k];
    count *= dt_tensor_sizes(a)[k];
  }
  size_t bytes = (size_t)count * dt_dtype_size(dt_tensor_dtype(a));
  if (!same || (count && memcmp(dt_tensor_data(a), dt_tensor_data(b), bytes) != 0))
    fail_msg("%s: compiled code and the evaluator differ", what);
}

// Both are answered alike, or both refused. `far`: the way to it may leave 64 bits though the
// answer does not, as limit - INT64_MIN does.
static void compare(fixture_t *fixture, dt_function_t *const *functions, dt_tensor_t *x,
                    const int64_t *n, bool far, const char *what) {
  dt_tensor_t *in[3] = {x, tensor_i64(0, NULL, &n[0]), tensor_i64(0, NULL, &n[1])};
  dt_tensor_t *out[2] = {NULL, NULL};
  dt_status_t status[2];
  for (int k = 0; k < 2; k++) {
    status[k] = dt_call(fixture->session, functions[k], in, 3, &out[k], 1, NULL);
    if (status[k] && !is_refusal(dt_status_code(status[k])))
      fail_msg("%s: %s: %s", what, dt_code_name(dt_status_code(status[k])),
               dt_status_message(status[k]));
  }
  if (!status[0] != !status[1] && !(far && dt_status_code(status[0]) == DT_E_LIMIT))
    fail_msg("%s: the compiler says '%s', the evaluator '%s'", what, dt_status_message(status[0]),
             dt_status_message(status[1]));
  if (!status[0] && !status[1])
    same_answer(out[0], out[1], what);
  for (int k = 0; k < 2; k++) {
    dt_status_free(status[k]);
    RELEASE(out[k], in[1 + k]);
  }
}

static void sweep(fixture_t *fixture, const row_t *row, bool data) {
  const dt_input_kind_t kind = data ? DT_INPUT_TENSOR : DT_INPUT_INTEGER;
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                    {.name = "a", .dtype = DT_I64, .kind = kind},
                                    {.name = "b", .dtype = DT_I64, .kind = kind}};
  dt_function_t *functions[2];
  for (int k = 0; k < 2; k++) {
    dt_function_options_t options = options_of(3, inputs);
    options.name = row->name;
    options.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer();
    options.variant_limit = 256;
    functions[k] =
        function_of(fixture, data ? by_data : by_arguments, (void *)(uintptr_t)row, &options);
  }
  dt_tensor_t *x = tensor_f32(&fixture->rng, 1, SIZES(6));
  for (size_t k = 0; k < N_HOSTILE * N_HOSTILE; k++) {
    const int64_t n[2] = {hostile[k % N_HOSTILE], hostile[k / N_HOSTILE]};
    char what[160];
    (void)snprintf(what, sizeof(what), "%s of %lld and %lld as %s", row->name, (long long)n[0],
                   (long long)n[1], data ? "data" : "arguments");
    compare(fixture, functions, x, n, row->make == make_range && n[0] == INT64_MIN, what);
  }
  dt_tensor_release(x);
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
}

static void test_arguments(void **state) {
  for (size_t k = 0; k < N_ROWS; k++)
    sweep(*state, &rows[k], false);
}

static void test_data(void **state) {
  for (size_t k = 0; k < N_ROWS; k++)
    sweep(*state, &rows[k], true);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_arguments), TEST(test_data))
