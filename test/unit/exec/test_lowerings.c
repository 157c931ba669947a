// SPDX-License-Identifier: Apache-2.0
// Lowerings of users in the place of the library's, interposers, ops that passes call, graphs with
// ops as text, ops in worker processes, and checked access to elements.
#include "test/support/subjects.h"

#include "ductile/accessor.h"
#include "ductile/ir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 23); }

static const dt_input_decl_t one_matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};

static bool compiles(void) { return compiled_answer() == DT_ANSWER_COMPILED; }

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, void *closure) {
  dt_function_options_t options = options_of(1, one_matrix);
  return function_of(f, fn, closure, &options);
}

static void expect_answer(fixture_t *f, dt_function_t *function, int64_t rows, int64_t cols,
                          double factor) {
  dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(rows, cols)), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  const float *data = dt_tensor_data(x), *got = dt_tensor_data(out);
  expect_sizes(out, 2, SIZES(rows, cols));
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < cols; j++)
      sum += exp((double)data[i * cols + j]);
    for (int64_t j = 0; j < cols; j++)
      assert_true(fabs(got[i * cols + j] - factor * exp((double)data[i * cols + j]) / sum) < 1e-5);
  }
  RELEASE(x, out);
}

// ---- An op that is a softmax, and how often it ran ----------------------------------------------
static _Atomic int rows_run;

static dt_status_t rows_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, x, DT_F32);
  dt_op_set_items(call, dt_dim(t, x, 0));
  return NULL;
}

static dt_status_t rows_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 2);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 2);
  int64_t cols = dt_access_size(&x, 1);
  for (int64_t i = begin; i < end && i < dt_access_size(&x, 0); i++) {
    double sum = 0;
    for (int64_t j = 0; j < cols; j++)
      sum += exp((double)*DT_AT_2(float, &x, i, j));
    for (int64_t j = 0; j < cols; j++)
      *DT_AT_2(float, &y, i, j) = (float)(exp((double)*DT_AT_2(float, &x, i, j)) / sum);
    rows_run++;
  }
  return dt_access_status(&x, &y, NULL);
}

static void register_rows(fixture_t *f) {
  expect_ok(dt_op_register(f->runtime, &(dt_op_options_t){.struct_size = sizeof(dt_op_options_t),
                                                          .name = "test.softmax_rows",
                                                          .infer = rows_infer,
                                                          .kernel = rows_kernel}));
}

// ---- Lowerings ----------------------------------------------------------------------------------
static dt_status_t softmaxes(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_softmax(t, in[0], 1), dt_softmax(t, in[0], -1));
  return NULL;
}

// Matrices of the last axis alone.
static dt_status_t by_rows(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_node_info_t info = {.struct_size = sizeof(info)};
  expect_ok(dt_rewriter_node(r, node, &info));
  dt_value_t x = dt_rewriter_input(r, node, 0);
  ++*(int *)closure;
  if (info.rank == 2 && info.axes[0] == 1)
    dt_op_call(t, "test.softmax_rows", 1, &x, 0, NULL, 1, out);
  return NULL;
}

static dt_status_t declines(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  (void)r, (void)node, (void)out;
  ++*(int *)closure;
  return NULL;
}

// Twice what ours makes.
static dt_status_t wraps(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  ++*(int *)closure;
  *out = dt_add(dt_rewriter_trace(r), node, node);
  return NULL;
}

static dt_status_t wrong(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  (void)closure;
  *out = dt_cast(dt_rewriter_trace(r), dt_rewriter_input(r, node, 0), DT_F64);
  return NULL;
}

static dt_status_t override(fixture_t *f, const char *op, dt_lowering_fn_t fn, void *closure,
                            const char *name, int priority) {
  return dt_lowering_override(f->runtime, op, fn, closure,
                              &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t),
                                                   .name = name,
                                                   .priority = priority});
}

static void test_a_lowering_replaces_ours(void **state) {
  fixture_t *f = *state;
  int asked = 0, declined = 0;
  register_rows(f);
  expect_ok(override(f, "softmax", by_rows, &asked, "rows", 1));
  expect_ok(override(f, "softmax", declines, &declined, "first", 0));
  dt_function_t *function = make(f, softmaxes, NULL);
  rows_run = 0;
  expect_answer(f, function, 4, 5, 2);
  expect_answer(f, function, 1, 1, 2);
  expect_answer(f, function, 33, 64, 2);
  // Builds without a code generator evaluate what was traced: there is nothing to lower.
  assert_int_equal(asked, compiles() ? 2 : 0);
  assert_int_equal(declined, asked);
  assert_int_equal(rows_run, compiles() ? 2 * (4 + 1 + 33) : 0);
  dt_function_release(function);
}

// A scan's combine works on single elements, which no kernel of a user's could.
static dt_status_t larger(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_maximum(t, in[0], in[1]);
  return NULL;
}
static dt_status_t largest_so_far(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_value_t x = dt_maximum(t, in[0], dt_scalar(t, DT_F32, -9));
  dt_associative_scan(t, larger, closure, 1, &x, 1, 0, out);
  return NULL;
}
static dt_status_t as_same(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  ++*(int *)closure;
  const dt_value_t x = dt_rewriter_input(r, node, 0);
  dt_op_call(dt_rewriter_trace(r), "test.same", 1, &x, 0, NULL, 1, out);
  return NULL;
}
static dt_status_t same_infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_F32);
  return NULL;
}
static dt_status_t same_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 2);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 2);
  (void)begin, (void)end;
  for (int64_t i = 0; i < dt_access_size(&x, 0); i++)
    for (int64_t j = 0; j < dt_access_size(&x, 1); j++)
      *DT_AT_2(float, &y, i, j) = *DT_AT_2(float, &x, i, j);
  return dt_access_status(&x, &y, NULL);
}

static void test_combines_stay_as_they_are(void **state) {
  fixture_t *f = *state;
  int asked = 0;
  expect_ok(dt_op_register(f->runtime, &(dt_op_options_t){.struct_size = sizeof(dt_op_options_t),
                                                          .name = "test.same",
                                                          .infer = same_infer,
                                                          .kernel = same_kernel}));
  expect_ok(override(f, "maximum", as_same, &asked, "same", 0));
  dt_function_t *function = make(f, largest_so_far, NULL);
  dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(3, 7)), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  const float *data = dt_tensor_data(x), *got = dt_tensor_data(out);
  for (int64_t k = 0; k < 21; k++) {
    float most = data[k];
    for (int64_t j = k / 7 * 7; j < k; j++)
      most = data[j] > most ? data[j] : most;
    assert_true(got[k] == most);
  }
  assert_int_equal(asked, compiles());
  RELEASE(x, out);
  dt_function_release(function);
}

static void test_a_lowering_wraps_ours(void **state) {
  fixture_t *f = *state;
  int asked = 0;
  expect_ok(override(f, "softmax", wraps, &asked, "wraps", 0));
  dt_function_t *function = make(f, softmaxes, NULL);
  expect_answer(f, function, 4, 5, compiles() ? 4 : 2);
  expect_answer(f, function, 3, 1, compiles() ? 4 : 2);
  assert_int_equal(asked, compiles() ? 2 : 0);
  dt_function_release(function);
}

static void test_lowerings_that_are_refused(void **state) {
  fixture_t *f = *state;
  int n = 0;
  static const char *const ops[] = {NULL, "", "nothing", "input", "item", "cond", "external"};
  for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
    expect_told(override(f, ops[k], declines, &n, "x", 0), DT_E_ARGUMENT, "op: ");
  expect_told(override(f, "softmax", NULL, &n, "x", 0), DT_E_ARGUMENT, "lower: NULL");
  expect_told(override(f, "softmax", declines, &n, NULL, 0), DT_E_ARGUMENT, "name: NULL");
  expect_ok(override(f, "softmax", wrong, NULL, "wrong", 0));
  expect_told(override(f, "add", declines, &n, "wrong", 0), DT_E_ARGUMENT, "already");
  if (!compiles())
    return;
  dt_function_t *function = make(f, softmaxes, NULL);
  dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 2)), *out = NULL;
  expect_told(dt_call(f->session, function, &x, 1, &out, 1, NULL), DT_E_DTYPE,
              "pass wrong at before_decompose");
  RELEASE(x);
  dt_function_release(function);
}

// ---- Interposers --------------------------------------------------------------------------------
typedef struct seen_t {
  char ops[256];
  int mode; // 0: looks; 1: puts silu in the place of relu; 2: another dtype; 3: another size
} seen_t;

static dt_value_t look(dt_trace_t *t, dt_value_t made, const dt_node_info_t *info,
                       const dt_value_t *inputs, void *closure) {
  seen_t *seen = closure;
  size_t len = strlen(seen->ops);
  (void)snprintf(seen->ops + len, sizeof(seen->ops) - len, "%s/%u ", info->op, info->n_inputs);
  if (strcmp(info->op, "relu") != 0)
    return (dt_value_t){0};
  return seen->mode == 1   ? dt_silu(t, inputs[0])
         : seen->mode == 2 ? dt_cast(t, made, DT_F64)
         : seen->mode == 3 ? dt_sum(t, made, 0, NULL, false)
                           : made;
}

static dt_status_t interposed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_mul(t, in[0], dt_scalar(t, DT_F32, 2));
  dt_trace_set_interposer(t, look, closure);
  x = dt_relu(t, dt_add(t, x, dt_scalar(t, DT_F32, 1)));
  dt_trace_set_interposer(t, NULL, NULL);
  out[0] = dt_neg(t, x);
  return NULL;
}

static void test_an_interposer_sees_and_replaces(void **state) {
  fixture_t *f = *state;
  for (int mode = 0; mode < 2; mode++) {
    seen_t seen = {.mode = mode};
    dt_function_t *function = make(f, interposed, &seen);
    dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 3)), *out = NULL;
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    double want = mode ? -3 / (1 + exp(-3)) : -3;
    assert_true(fabs(((const float *)dt_tensor_data(out))[5] - want) < 1e-5);
    assert_string_equal(seen.ops, "add/2 relu/1 ");
    RELEASE(x, out);
    dt_function_release(function);
  }
}

static void test_an_interposer_that_does_not_fit(void **state) {
  fixture_t *f = *state;
  static const char *const says[] = {"the interposer replaced f32[",
                                     "the interposer replaced f32["};
  for (int mode = 2; mode < 4; mode++) {
    seen_t seen = {.mode = mode};
    dt_function_t *function = make(f, interposed, &seen);
    dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 3)), *out = NULL;
    expect_told(dt_call(f->session, function, &x, 1, &out, 1, NULL),
                mode == 2 ? DT_E_DTYPE : DT_E_SHAPE, says[mode - 2]);
    RELEASE(x);
    dt_function_release(function);
  }
}

// ---- Graphs as text -----------------------------------------------------------------------------
static dt_status_t with_attrs(dt_op_call_t *call, void *closure) {
  if (!dt_op_call_attr(call, "shift", DT_OP_ATTR_FLOAT) ||
      !dt_op_call_attr(call, "mode", DT_OP_ATTR_TEXT) ||
      !dt_op_call_attr(call, "pads", DT_OP_ATTR_INTS) ||
      dt_op_call_attr(call, "shift", DT_OP_ATTR_INT))
    return dt_status_make(DT_E_ARGUMENT, "an attribute is missing");
  return rows_infer(call, closure);
}

static dt_status_t shift_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 2);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 2);
  const dt_op_attr_t *shift = dt_op_attr(args, "shift", DT_OP_ATTR_FLOAT);
  const dt_op_attr_t *pads = dt_op_attr(args, "pads", DT_OP_ATTR_INTS);
  const dt_op_attr_t *mode = dt_op_attr(args, "mode", DT_OP_ATTR_TEXT);
  const dt_op_attr_t *factors = dt_op_attr(args, "factors", DT_OP_ATTR_FLOATS);
  double add = strcmp(mode->text, "a \"b\"") == 0 ? shift->f + (double)pads->ints[1] : 1000;
  for (int64_t i = begin; i < end && i < dt_access_size(&x, 0); i++)
    for (int64_t j = 0; j < dt_access_size(&x, 1); j++)
      *DT_AT_2(float, &y, i, j) = (float)(*DT_AT_2(float, &x, i, j) * factors->floats[0] + add);
  return dt_access_status(&x, &y, NULL);
}

// The number of columns that begin above 0, and as many columns of ones.
static dt_status_t count_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_sym_t sizes[2] = {dt_dim(t, dt_op_call_input(call, 0), 0), dt_op_number(call, 1, 100)};
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 2, sizes);
  dt_op_set_result(call, 1, DT_I64, 0, NULL);
  return NULL;
}

static dt_status_t count_numbers(const dt_op_args_t *args, int64_t *numbers) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 2);
  numbers[0] = 7;
  numbers[1] = 0;
  for (int64_t j = 0; dt_access_size(&x, 0) && j < dt_access_size(&x, 1); j++)
    numbers[1] += *DT_AT_2(float, &x, 0, j) > 0;
  return dt_access_status(&x, NULL);
}

static dt_status_t count_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 2);
  dt_accessor_t n = dt_access(args->results[1], DT_I64, 0);
  (void)begin, (void)end;
  for (int64_t i = 0; i < dt_access_size(&y, 0); i++)
    for (int64_t j = 0; j < dt_access_size(&y, 1); j++)
      *DT_AT_2(float, &y, i, j) = 1;
  *DT_AT_0(int64_t, &n) = dt_access_size(&y, 1);
  return dt_access_status(&y, &n, NULL);
}

static dt_status_t both(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  static const int64_t pads[] = {4, -9};
  static const double factors[] = {0.1};
  const dt_op_attr_t attrs[] = {
      {.name = "shift", .kind = DT_OP_ATTR_FLOAT, .f = 1.0 / 3},
      {.name = "mode", .kind = DT_OP_ATTR_TEXT, .text = "a \"b\""},
      {.name = "pads", .kind = DT_OP_ATTR_INTS, .n = 2, .ints = pads},
      {.name = "factors", .kind = DT_OP_ATTR_FLOATS, .n = 1, .floats = factors},
      {.name = "level", .kind = DT_OP_ATTR_INT, .i = -3},
  };
  dt_value_t shifted, counted[2];
  (void)closure;
  dt_op_call(t, "test.shift", 1, in, 5, attrs, 1, &shifted);
  dt_op_call(t, "test.count", 1, &shifted, 0, NULL, 2, counted);
  dt_value_t n = dt_cast(t, counted[1], DT_F32);
  out[0] = dt_add(t, dt_sum(t, counted[0], 1, (const int32_t[]){1}, false), n);
  return NULL;
}

static void register_both(fixture_t *f, const char *identity) {
  dt_op_options_t shift = {.struct_size = sizeof(shift),
                           .name = "test.shift",
                           .infer = with_attrs,
                           .kernel = shift_kernel};
  dt_op_options_t count = {.struct_size = sizeof(count),
                           .name = "test.count",
                           .identity = identity,
                           .infer = count_infer,
                           .kernel = count_kernel,
                           .n_numbers = 2,
                           .numbers = count_numbers};
  expect_ok(dt_op_register(f->runtime, &shift));
  expect_ok(dt_op_register(f->runtime, &count));
}

static dt_status_t from_text(fixture_t *f, const char *text, dt_function_t **out) {
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = compiled_answer()};
  return dt_function_create_from_ir(f->runtime, text, strlen(text), "text.dtt", &options, out);
}

static void answer_alike(fixture_t *f, dt_function_t *a, dt_function_t *b, int64_t rows,
                         int64_t cols) {
  dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(rows, cols)), *want = NULL, *got = NULL;
  for (int64_t k = 0; k < rows * cols; k++)
    ((float *)dt_tensor_data(x))[k] += 87; // some end above 0
  expect_ok(dt_call(f->session, a, &x, 1, &want, 1, NULL));
  expect_ok(dt_call(f->session, b, &x, 1, &got, 1, NULL));
  expect_close(got, want, 0, 0, "text");
  RELEASE(x, want, got);
}

static void test_a_graph_with_ops_is_read_back(void **state) {
  fixture_t *f = *state;
  register_both(f, "one");
  dt_function_t *function = make(f, both, NULL), *replay = NULL, *none = NULL;
  dt_tensor_t *x = tensor_full(1, 2, SIZES(3, 4)), *out = NULL;
  char *text = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  expect_ok(dt_function_graph(function, &x, 1, &text));
  expect_ok(from_text(f, text, &replay));
  static const int64_t sizes[][2] = {{3, 4}, {1, 1}, {2, 60}, {5, 0}, {0, 3}};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
    answer_alike(f, function, replay, sizes[k][0], sizes[k][1]);
  dt_function_release(replay);
  // Numbers are i64: a text that says otherwise is refused.
  char *numbers = strstr(strstr(text, " numbers"), "gives [i64");
  memcpy(numbers, "gives [u64", 10);
  expect_told(from_text(f, text, &none), DT_E_FORMAT,
              "numbers of an op are one result, i64 of rank 1");
  memcpy(numbers, "gives [i64", 10);
  // Another runtime, without the ops, and with others.
  fixture_t other = fixture_on(DT_CPU, 1);
  expect_ok(from_text(&other, text, &none));
  RELEASE(out);
  out = NULL;
  expect_told(dt_call(other.session, none, &x, 1, &out, 1, NULL), DT_E_UNSUPPORTED,
              "test.shift: the function's runtime has no such op");
  dt_function_release(none);
  register_both(&other, "two");
  expect_ok(from_text(&other, text, &none));
  expect_told(dt_call(other.session, none, &x, 1, &out, 1, NULL), DT_E_UNSUPPORTED,
              "test.count: the text was made with \"one\", and the runtime's op is \"two\"");
  dt_function_release(none);
  fixture_end(&other);
  dt_function_release(function);
  dt_text_free(text);
  RELEASE(x);
}

// ---- Worker processes ---------------------------------------------------------------------------
static void test_code_for_ops_is_made_by_workers(void **state) {
  (void)state;
  dt_runtime_options_t options = {.struct_size = sizeof(options),
                                  .threads = 2,
                                  .compile_threads = 1,
                                  .isolation = DT_ISOLATION_WORKER};
  fixture_t f = {.rng = {5}};
  dt_status_t status = dt_runtime_create(&options, &f.runtime);
  if (dt_status_code(status) == DT_E_UNSUPPORTED) { // no code is made in this build
    dt_status_free(status);
    return;
  }
  expect_ok(status);
  f.session = session_of(f.runtime);
  register_both(&f, NULL);
  dt_function_t *function = make(&f, both, NULL);
  answer_alike(&f, function, function, 3, 4);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- Elements -----------------------------------------------------------------------------------
static void test_access_is_checked(void **state) {
  static const int64_t sizes[] = {2, 3}, strides[] = {1, 2};
  float data[6] = {0, 1, 2, 3, 4, 5};
  const dt_op_tensor_t tensor = {data, DT_F32, 2, sizes, strides};
  dt_accessor_t a = dt_access(&tensor, DT_F32, 2);
  (void)state;
  assert_true(*DT_AT_2(float, &a, 1, 2) == 5);
  assert_true(*DT_AT_2(float, &a, 0, 1) == 2);
  assert_int_equal(dt_access_size(&a, 1), 3);
  assert_int_equal(dt_access_size(&a, 2), 0);
  assert_null(dt_access_status(&a, NULL));
  *DT_AT_2(float, &a, 2, 0) = 77;
  *DT_AT_2(float, &a, 0, -1) = 78;
  expect_told(dt_access_status(&a, NULL), DT_E_RANGE, "index 2 of dim 0, whose size is 2");
  for (int k = 0; k < 6; k++)
    assert_true(data[k] == (float)k);
  dt_accessor_t b = dt_access(&tensor, DT_F64, 2), c = dt_access(&tensor, DT_F32, 1);
  dt_accessor_t d = dt_access(&tensor, DT_F32, 2), e = dt_access(NULL, DT_F32, 0);
  *DT_AT_2(double, &b, 0, 0) = 1;
  *DT_AT_1(float, &c, 0) = 1;
  *DT_AT_2(double, &d, 0, 0) = 1;
  *DT_AT_0(float, &e) = 1;
  expect_told(dt_access_status(&b, NULL), DT_E_DTYPE, "accessor 0: the tensor is f32");
  expect_told(dt_access_status(&c, NULL), DT_E_SHAPE, "of rank 2, not f32 of rank 1");
  expect_told(dt_access_status(&d, NULL), DT_E_DTYPE,
              "accessor 0: an element of 8 bytes at 2 indices; it is f32 of rank 2");
  expect_told(dt_access_status(&e, NULL), DT_E_SHAPE, "the tensor is none");
  dt_accessor_t i = dt_access(&tensor, DT_I32, 2), s = dt_access(&tensor, DT_F32, 2);
  *DT_AT_2(int32_t, &i, 0, 0) = 1; // of the same size, and another dtype
  *DT_AT_1(float, &s, 0) = 1;
  expect_told(dt_access_status(&s, &i, NULL), DT_E_SHAPE, "accessor 0: an element of 4 bytes at 1");
  expect_told(dt_access_status(&i, NULL), DT_E_DTYPE, "the tensor is f32 of rank 2, not i32 of");
  assert_true(data[0] == 0);
}

static void test_access_of_every_rank(void **state) {
  static const int64_t sizes[] = {1, 2, 1, 2, 1, 2, 1, 2}, strides[] = {1, 8, 1, 4, 1, 2, 1, 1};
  int64_t data[16];
  (void)state;
  for (int k = 0; k < 16; k++)
    data[k] = k;
  dt_op_tensor_t tensor = {data, DT_I64, 0, sizes, strides};
  dt_accessor_t a[9];
  for (uint32_t rank = 0; rank <= 8; rank++) {
    tensor.rank = rank;
    a[rank] = dt_access(&tensor, DT_I64, rank);
    int64_t got = rank == 0   ? *DT_AT_0(int64_t, &a[0])
                  : rank == 1 ? *DT_AT_1(int64_t, &a[1], 0)
                  : rank == 2 ? *DT_AT_2(int64_t, &a[2], 0, 1)
                  : rank == 3 ? *DT_AT_3(int64_t, &a[3], 0, 1, 0)
                  : rank == 4 ? *DT_AT_4(int64_t, &a[4], 0, 1, 0, 1)
                  : rank == 5 ? *DT_AT_5(int64_t, &a[5], 0, 1, 0, 1, 0)
                  : rank == 6 ? *DT_AT_6(int64_t, &a[6], 0, 1, 0, 1, 0, 1)
                  : rank == 7 ? *DT_AT_7(int64_t, &a[7], 0, 1, 0, 1, 0, 1, 0)
                              : *DT_AT_8(int64_t, &a[8], 0, 1, 0, 1, 0, 1, 0, 1);
    static const int64_t want[] = {0, 0, 8, 8, 12, 12, 14, 14, 15};
    assert_int_equal(got, want[rank]);
    assert_null(dt_access_status(&a[rank], NULL));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_lowering_replaces_ours, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_lowering_wraps_ours, setup, fixture_close),
      TEST_WITH(test_combines_stay_as_they_are, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_lowerings_that_are_refused, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_an_interposer_sees_and_replaces, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_an_interposer_that_does_not_fit, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_graph_with_ops_is_read_back, setup, fixture_close),
      cmocka_unit_test(test_code_for_ops_is_made_by_workers),
      cmocka_unit_test(test_access_is_checked),
      cmocka_unit_test(test_access_of_every_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
