// SPDX-License-Identifier: Apache-2.0
// Ops of users whose results are the new values of inputs: arguments that a call updates by them,
// results in their inputs' memory, and what is refused.
#include "test/support/subjects.h"

#include "ductile/ir.h"
#include "ductile/op.h"
#include "ductile/pass.h"

#include <stdatomic.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 3, 31); }

// ---- A cache ------------------------------------------------------------------------------------
// Result 0 is cache [n, w] with row [1, w] at place `at` (i64); result 1 how many rows there are.
// An item is a column. The row is out of the cache: it fails.
static _Atomic int in_place, apart;

static dt_status_t append_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t cache = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, cache, DT_DTYPE_NONE);
  dt_op_set_result(call, 1, DT_I64, 0, NULL);
  dt_op_set_items(call, dt_dim(t, cache, 1));
  return NULL;
}

static dt_status_t append_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *cache = args->inputs[0], *row = args->inputs[1], *y = args->results[0];
  int64_t at = *(const int64_t *)args->inputs[2]->data, rows = cache->sizes[0];
  if (at < 0 || at >= rows)
    return dt_status_make(DT_E_RANGE, "no such row");
  if (begin == 0) {
    *(int64_t *)args->results[1]->data = at + 1;
    atomic_fetch_add(y->data == cache->data ? &in_place : &apart, 1);
  }
  for (int64_t j = begin; j < end && j < cache->sizes[1]; j++) {
    for (int64_t i = 0; i < rows && y->data != cache->data; i++)
      ((float *)y->data)[i * y->strides[0] + j * y->strides[1]] =
          ((const float *)cache->data)[i * cache->strides[0] + j * cache->strides[1]];
    ((float *)y->data)[at * y->strides[0] + j * y->strides[1]] =
        ((const float *)row->data)[j * row->strides[1]];
  }
  return NULL;
}

static const dt_op_options_t append_op = {.name = "test.append",
                                          .infer = append_infer,
                                          .kernel = append_kernel,
                                          .least_inputs = 3,
                                          .updates = {1},
                                          .in_place = true};

static void register_op(fixture_t *f, dt_op_options_t options) {
  options.struct_size = sizeof(options);
  expect_ok(dt_op_register(f->runtime, &options));
}

static dt_value_t append(dt_trace_t *t, dt_value_t cache, dt_value_t row, dt_value_t at) {
  dt_value_t inputs[] = {cache, row, at}, results[2];
  dt_op_call(t, "test.append", 3, inputs, 0, NULL, 2, results);
  return results[0];
}

static const dt_dim_decl_t cache_dims[] = {{.name = "rows"}, {.name = "width"}};
static const dt_dim_decl_t row_dims[] = {{.is_static = true, .value = 1}, {.name = "width"}};
static const dt_input_decl_t inputs[] = {
    {.name = "cache", .dtype = DT_F32, .rank = 2, .dims = cache_dims},
    {.name = "row", .dtype = DT_F32, .rank = 2, .dims = row_dims},
    {.name = "at", .dtype = DT_I64, .rank = 0}};

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn) {
  dt_function_options_t options = options_of(3, inputs);
  return function_of(f, fn, NULL, &options);
}

// One call; *out_cache is the cache after it.
static dt_status_t call(fixture_t *f, dt_function_t *function, int64_t rows, int64_t cols,
                        int64_t at, dt_tensor_t **cache, dt_tensor_t **out) {
  dt_tensor_t *in[] = {tensor_full(1, 2, SIZES(rows, cols)), tensor_full(5, 2, SIZES(1, cols)),
                       tensor_i64(0, NULL, &at)};
  atomic_store(&in_place, 0);
  atomic_store(&apart, 0);
  *out = NULL;
  dt_status_t status = dt_call(f->session, function, in, 3, out, 1, NULL);
  *cache = in[0];
  RELEASE(in[1], in[2]);
  return status;
}

static void expect_rows(dt_tensor_t *x, int64_t rows, int64_t cols, float all, int64_t at,
                        float row) {
  expect_sizes(x, 2, SIZES(rows, cols));
  for (int64_t i = 0; i < rows * cols; i++)
    assert_true(((const float *)dt_tensor_data(x))[i] == (i / cols == at ? row : all));
}

static const int64_t sizes[][2] = {{4, 3}, {1, 1}, {100, 64}, {3, 0}, {7, 1}};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

// ---- Arguments ----------------------------------------------------------------------------------
// The argument reads as its new value from then on, and what was read before is as it was.
static dt_status_t updated(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t before = dt_mul(t, in[0], dt_scalar(t, DT_F32, 10));
  (void)append(t, in[0], in[1], in[2]);
  out[0] = dt_add(t, before, in[0]);
  return NULL;
}

static void test_an_argument_is_updated(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *cache, *out;
  register_op(f, append_op);
  dt_function_t *function = make(f, updated);
  for (size_t k = 0; k < N_SIZES; k++) {
    int64_t rows = sizes[k][0], cols = sizes[k][1], at = rows / 2;
    expect_ok(call(f, function, rows, cols, at, &cache, &out));
    expect_rows(cache, rows, cols, 1, at, 5);
    expect_rows(out, rows, cols, 11, at, 15);
    assert_int_equal(atomic_load(&in_place), 0); // the argument is as it was until the call ends
    RELEASE(cache, out);
    if (cols) { // which it is where it fails, too
      expect_told(call(f, function, rows, cols, rows, &cache, &out), DT_E_RANGE,
                  "test.append: no such row");
      expect_rows(cache, rows, cols, 1, -1, 0);
      RELEASE(cache);
    }
  }
  dt_function_release(function);
}

// Two after each other, by handles; nobody takes their results.
static dt_status_t twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t first[] = {in[0], in[1], in[2]};
  dt_value_t next = dt_add(t, in[2], dt_scalar(t, DT_I64, 1));
  dt_value_t second[] = {in[0], dt_neg(t, in[1]), next};
  (void)closure;
  dt_op_call(t, "test.append", 3, first, 0, NULL, 0, NULL);
  dt_op_call(t, "test.append", 3, second, 0, NULL, 0, NULL);
  out[0] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}

static void test_updates_follow_each_other(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *cache, *out;
  register_op(f, append_op);
  dt_function_t *function = make(f, twice);
  for (int turn = 0; turn < 2; turn++) {
    expect_ok(call(f, function, 4 + turn, 3, 1, &cache, &out));
    const float *x = dt_tensor_data(cache);
    for (int64_t i = 0; i < (4 + turn) * 3; i++)
      assert_true(x[i] == (i / 3 == 1 ? 5 : i / 3 == 2 ? -5 : 1));
    assert_true(((const float *)dt_tensor_data(out))[0] == (float)((2 + turn) * 3));
    if (compiled_answer() == DT_ANSWER_COMPILED) {
      assert_int_equal(atomic_load(&in_place), 1); // the second, in what the first made
      assert_int_equal(atomic_load(&apart), 1);
    }
    RELEASE(cache, out);
  }
  dt_function_release(function);
}

// From its text, in which updates stand for themselves.
static void test_a_text_updates_the_same(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *cache, *out;
  char *ir = NULL;
  dt_function_t *again = NULL;
  int64_t at = 1;
  register_op(f, append_op);
  dt_function_t *function = make(f, twice);
  dt_tensor_t *in[] = {tensor_full(1, 2, SIZES(4, 3)), tensor_full(5, 2, SIZES(1, 3)),
                       tensor_i64(0, NULL, &at)};
  out = NULL;
  expect_ok(dt_call(f->session, function, in, 3, &out, 1, NULL));
  expect_ok(dt_function_graph(function, in, 3, &ir));
  RELEASE(in[0], in[1], in[2], out);
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = compiled_answer()};
  expect_ok(dt_function_create_from_ir(f->runtime, ir, strlen(ir), "text.dtt", &options, &again));
  expect_ok(call(f, again, 5, 2, 2, &cache, &out));
  const float *x = dt_tensor_data(cache);
  for (int64_t i = 0; i < 5 * 2; i++)
    assert_true(x[i] == (i / 2 == 2 ? 5 : i / 2 == 3 ? -5 : 1));
  RELEASE(cache, out);
  dt_text_free(ir);
  dt_function_release(again);
  dt_function_release(function);
}

// ---- Donated arguments --------------------------------------------------------------------------
// Whose memory the kernel writes: the new value is read afterwards, and it is there after the call.
static dt_status_t donated(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)append(t, in[0], in[1], in[2]);
  out[0] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}

// The old one is read afterwards, too.
static dt_status_t donated_and_kept(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  dt_value_t old = dt_expand(t, in[0], 2, (dt_sym_t[]){dt_dim(t, in[0], 0), dt_dim(t, in[0], 1)});
  (void)closure;
  dt_value_t made = append(t, in[0], in[1], in[2]);
  dt_value_t all = dt_sum(t, made, 0, NULL, false);
  out[0] = dt_add(t, dt_mul(t, all, dt_scalar(t, DT_F32, 0)), dt_sum(t, old, 0, NULL, false));
  return NULL;
}

// Of a temporary, whose result is written straight into the argument.
static dt_status_t donated_to(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 0, NULL, false);
  dt_update(t, in[0], append(t, dt_add(t, in[0], in[0]), in[1], in[2]));
  return NULL;
}

static void test_a_donated_argument_is_written_in_place(void **state) {
  fixture_t *f = *state;
  dt_input_decl_t given[3];
  dt_tensor_t *cache, *out;
  register_op(f, append_op);
  memcpy(given, inputs, sizeof(given));
  given[0].kind = DT_INPUT_DONATED;
  dt_function_options_t options = options_of(3, given);
  dt_function_t *functions[] = {function_of(f, donated, NULL, &options),
                                function_of(f, donated_and_kept, NULL, &options)};
  for (size_t k = 0; k < N_SIZES; k++)
    for (int kept = 0; kept < 2; kept++) {
      int64_t rows = sizes[k][0], cols = sizes[k][1];
      expect_ok(call(f, functions[kept], rows, cols, rows - 1, &cache, &out));
      expect_rows(cache, rows, cols, 1, rows - 1, 5);
      float sum = (float)(kept ? rows * cols : (rows + 4) * cols);
      assert_true(((const float *)dt_tensor_data(out))[0] == sum);
      if (compiled_answer() == DT_ANSWER_COMPILED && cols) {
        assert_int_equal(atomic_load(&in_place), !kept);
        assert_int_equal(atomic_load(&apart), kept);
      }
      RELEASE(cache, out);
      if (cols)
        expect_told(call(f, functions[kept], rows, cols, rows, &cache, &out), DT_E_RANGE,
                    "no such row");
      if (cols)
        RELEASE(cache);
    }
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
  functions[0] = function_of(f, donated_to, NULL, &options);
  expect_ok(call(f, functions[0], 6, 4, 2, &cache, &out));
  expect_rows(cache, 6, 4, 2, 2, 5);
  assert_true(((const float *)dt_tensor_data(out))[0] == 24);
  RELEASE(cache, out);
  dt_function_release(functions[0]);
}

// ---- In place -----------------------------------------------------------------------------------
// A value that nothing else reads.
static dt_status_t of_a_value(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t twofold = dt_add(t, in[0], in[0]);
  out[0] = dt_neg(t, append(t, twofold, in[1], in[2]));
  return NULL;
}

// One that is read afterwards.
static dt_status_t of_a_kept(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t kept = dt_add(t, in[0], in[0]);
  dt_value_t made = append(t, kept, in[1], in[2]);
  dt_value_t rows = dt_cumsum(t, kept, 0, DT_CUMSUM_INCLUSIVE);
  out[0] = dt_add(t, made, dt_sub(t, rows, rows));
  out[0] = dt_add(t, out[0], dt_sub(t, kept, kept));
  return NULL;
}

// One that is two operands.
static dt_status_t of_itself(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t row = dt_add(t, in[1], in[1]);
  out[0] = dt_neg(t, append(t, row, row, in[2]));
  return NULL;
}

static dt_status_t is_one_trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[1], dt_scalar(t, DT_I64, 3));
  return NULL;
}

static dt_status_t trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = append(t, in[0], in[2], in[1]);
  out[1] = dt_add(t, in[1], dt_scalar(t, DT_I64, 1));
  return NULL;
}

// The state of a loop, of which rows 0, 1, 2 are written.
static dt_status_t looped(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t init[2] = {dt_add(t, in[0], in[0]), dt_scalar(t, DT_I64, 0)}, result[2];
  (void)closure;
  dt_while(t, is_one_trip, trip, NULL, 2, init, 1, &in[1], result);
  out[0] = result[0];
  return NULL;
}

static void test_results_in_their_inputs_memory(void **state) {
  fixture_t *f = *state;
  bool compiled = compiled_answer() == DT_ANSWER_COMPILED;
  dt_tensor_t *cache, *out;
  register_op(f, append_op);
  static const struct {
    dt_program_fn_t program;
    float all, row;
    int expected; // in place
  } cases[] = {{of_a_value, -2, -5, 1}, {of_a_kept, 2, 5, 0}};
  for (size_t c = 0; c < 2; c++) {
    dt_function_t *function = make(f, cases[c].program);
    for (size_t k = 0; k < N_SIZES; k++) {
      int64_t rows = sizes[k][0], cols = sizes[k][1], at = rows - 1;
      expect_ok(call(f, function, rows, cols, at, &cache, &out));
      expect_rows(cache, rows, cols, 1, -1, 0);
      expect_rows(out, rows, cols, cases[c].all, at, cases[c].row);
      if (compiled && cols)
        assert_int_equal(atomic_load(&in_place), cases[c].expected);
      RELEASE(cache, out);
      if (cols) {
        expect_told(call(f, function, rows, cols, -1, &cache, &out), DT_E_RANGE, "no such row");
        expect_rows(cache, rows, cols, 1, -1, 0);
        RELEASE(cache);
      }
    }
    dt_function_release(function);
  }
  dt_function_t *function = make(f, of_itself);
  expect_ok(call(f, function, 4, 6, 0, &cache, &out));
  expect_rows(out, 1, 6, -10, -1, 0);
  assert_int_equal(atomic_load(&in_place), 0);
  RELEASE(cache, out);
  dt_function_release(function);
  function = make(f, looped);
  for (int64_t rows = 3; rows < 6; rows++) {
    expect_ok(call(f, function, rows, 2, 0, &cache, &out));
    for (int64_t i = 0; i < rows * 2; i++)
      assert_true(((const float *)dt_tensor_data(out))[i] == (i < 6 ? 5 : 2));
    RELEASE(cache, out);
  }
  dt_function_release(function);
}

// Without the option they are apart.
static void test_results_apart(void **state) {
  fixture_t *f = *state;
  dt_op_options_t op = append_op;
  dt_tensor_t *cache, *out;
  op.in_place = false;
  register_op(f, op);
  dt_function_t *function = make(f, of_a_value);
  expect_ok(call(f, function, 4, 3, 2, &cache, &out));
  expect_rows(out, 4, 3, -2, 2, -5);
  assert_int_equal(atomic_load(&in_place), 0);
  RELEASE(cache, out);
  dt_function_release(function);
}

// The same by other ops.
static dt_status_t append_decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t cache = dt_op_call_input(call, 0), at = dt_op_call_input(call, 2);
  dt_sym_t shape[] = {dt_dim(t, cache, 0), dt_sym_const(t, 1)};
  (void)closure;
  dt_value_t is_there = dt_eq(t, dt_iota(t, DT_I64, 2, shape, 0), at);
  results[0] = dt_where(t, is_there, dt_op_call_input(call, 1), cache);
  results[1] = dt_add(t, at, dt_scalar(t, DT_I64, 1));
  return NULL;
}

static void test_a_decomposition_updates(void **state) {
  fixture_t *f = *state;
  dt_op_options_t op = append_op;
  dt_tensor_t *cache, *out;
  op.kernel = NULL;
  op.decompose = append_decompose;
  register_op(f, op);
  dt_function_t *function = make(f, updated);
  for (size_t k = 0; k < N_SIZES; k++) {
    int64_t rows = sizes[k][0], cols = sizes[k][1], at = rows / 2;
    expect_ok(call(f, function, rows, cols, at, &cache, &out));
    expect_rows(cache, rows, cols, 1, at, 5);
    expect_rows(out, rows, cols, 11, at, 15);
    RELEASE(cache, out);
  }
  dt_function_release(function);
}

// ---- What is refused ----------------------------------------------------------------------------
static dt_status_t other_sizes(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 1), DT_DTYPE_NONE);
  dt_op_set_result(call, 1, DT_I64, 0, NULL);
  return NULL;
}

static dt_status_t in_a_body(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = append(t, in[0], in[1], in[2]);
  return NULL;
}

// The argument itself, and not a value of the body.
static const dt_value_t *outer;
static dt_status_t of_outside(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)in;
  return in_a_body(t, outer, out, closure);
}

static dt_status_t branched(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t pred = dt_gt(t, in[2], dt_scalar(t, DT_I64, 0));
  outer = in;
  dt_cond(t, pred, of_outside, in_a_body, closure, 3, in, 1, out);
  return NULL;
}

static dt_status_t both(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t same[] = {in[0], in[0], in[2]}, results[2];
  (void)closure;
  dt_op_call(t, "test.both", 3, same, 0, NULL, 2, results);
  out[0] = results[0];
  return NULL;
}

static dt_status_t both_infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  for (uint32_t k = 0; k < 2; k++)
    dt_op_set_result_like(call, k, dt_op_call_input(call, k), DT_DTYPE_NONE);
  return NULL;
}

static dt_status_t append_in_pass(dt_rewriter_t *r, void *closure) {
  dt_value_t x = dt_rewriter_output(r, 0);
  (void)closure;
  (void)append(dt_rewriter_trace(r), x, x, x);
  return NULL;
}

static void expect_refused(fixture_t *f, dt_program_fn_t fn, dt_code_t code, const char *says) {
  dt_tensor_t *cache, *out;
  dt_function_t *function = make(f, fn);
  expect_told(call(f, function, 4, 3, 1, &cache, &out), code, says);
  RELEASE(cache);
  dt_function_release(function);
}

// The call gives one tensor for two arguments.
static dt_status_t each_alone(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t results[2];
  (void)closure;
  dt_op_call(t, "test.both", 3, in, 0, NULL, 2, results);
  out[0] = results[0];
  return NULL;
}
static void expect_refused_of_one_memory(fixture_t *f) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}, {.name = "w"}};
  static const dt_input_decl_t two[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = dims},
                                        {.name = "b", .dtype = DT_F32, .rank = 2, .dims = dims},
                                        {.name = "at", .dtype = DT_I64}};
  const int64_t at = 0;
  dt_function_options_t options = options_of(3, two);
  dt_function_t *function = function_of(f, each_alone, NULL, &options);
  dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 3)), *out = NULL;
  dt_tensor_t *in[] = {x, x, tensor_i64(0, NULL, &at)};
  expect_told(dt_call(f->session, function, in, 3, &out, 1, NULL), DT_E_ARGUMENT,
              "test.both: input 1 is another one, too, or in its memory");
  RELEASE(x, in[2]);
  dt_function_release(function);
}

static void test_refusals(void **state) {
  fixture_t *f = *state;
  dt_op_options_t op = append_op;
  op.infer = other_sizes;
  register_op(f, op);
  expect_refused(f, updated, DT_E_SHAPE, "test.append: result 0 is the new value of input 0");
  expect_ok(dt_op_remove(f->runtime, "test.append"));
  op = append_op;
  op.updates[0] = 0;
  op.updates[2] = 1;
  register_op(f, op);
  expect_refused(f, updated, DT_E_ARGUMENT,
                 "test.append: result 2 is the new value of input 0; the call has 3 inputs and 2");
  expect_ok(dt_op_remove(f->runtime, "test.append"));
  op = append_op;
  op.name = "test.both";
  op.infer = both_infer;
  op.updates[1] = 2;
  register_op(f, op);
  expect_refused(f, both, DT_E_ARGUMENT, "test.both: input 1 is another one, too");
  expect_refused_of_one_memory(f);
  register_op(f, append_op);
  expect_refused(f, branched, DT_E_STATE, "updates no input");
  expect_ok(dt_runtime_add_pass(
      f->runtime, DT_POINT_TRACED, append_in_pass, NULL,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = "appends"}));
  expect_refused(f, of_a_value, DT_E_STATE, "test.append: it updates its inputs; a pass calls no");
}

static void test_registrations_that_are_refused(void **state) {
  fixture_t *f = *state;
  dt_op_options_t op = append_op;
  op.struct_size = sizeof(op);
  op.updates[1] = 1;
  expect_told(dt_op_register(f->runtime, &op), DT_E_ARGUMENT,
              "updates[1]: input 0 has a new value already");
  op.updates[1] = 4;
  expect_told(dt_op_register(f->runtime, &op), DT_E_ARGUMENT,
              "updates[1]: 4; the most inputs are 3");
  memset(op.updates, 0, sizeof(op.updates));
  expect_told(dt_op_register(f->runtime, &op), DT_E_ARGUMENT,
              "in_place: no result updates an input");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_an_argument_is_updated, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_updates_follow_each_other, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_text_updates_the_same, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_donated_argument_is_written_in_place, setup,
                                      fixture_close),
      cmocka_unit_test_setup_teardown(test_results_in_their_inputs_memory, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_results_apart, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_decomposition_updates, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_refusals, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_registrations_that_are_refused, setup, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
