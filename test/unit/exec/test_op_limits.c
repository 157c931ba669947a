// SPDX-License-Identifier: Apache-2.0
// Ops of users: what a graph's text can say of a call and what is beyond it, calls in places that
// have none, and numbers that calls share.
#include "test/support/subjects.h"

#include "ductile/ir.h"
#include "ductile/op.h"
#include "ductile/pattern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 5); }

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static void register_op(fixture_t *f, dt_op_options_t options) {
  options.struct_size = sizeof(options);
  expect_ok(dt_op_register(f->runtime, &options));
}

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, void *closure) {
  dt_function_options_t options = options_of(1, one_vector);
  return function_of(f, fn, closure, &options);
}

// ---- Attributes ---------------------------------------------------------------------------------
typedef struct attrs_t {
  uint32_t n;
  dt_op_attr_t attrs[DT_OP_MAX_ATTRS + 1];
  char names[DT_OP_MAX_ATTRS + 1][128];
} attrs_t;

static attrs_t seen_last; // values are the graph's: compared while infer has them

static dt_status_t identity_infer(dt_op_call_t *call, void *closure) {
  const attrs_t *want = closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_DTYPE_NONE);
  for (uint32_t k = 0; want && k < want->n; k++) {
    const dt_op_attr_t *a = &want->attrs[k], *b = dt_op_call_attr(call, a->name, a->kind);
    assert_non_null(b);
    assert_int_equal(b->n, a->n);
    switch (a->kind) {
    case DT_OP_ATTR_INT:
      assert_true(a->i == b->i);
      break;
    case DT_OP_ATTR_FLOAT:
      assert_true(a->f == b->f || (isnan(a->f) && isnan(b->f)));
      break;
    case DT_OP_ATTR_TEXT:
      assert_string_equal(a->text, b->text);
      break;
    case DT_OP_ATTR_INTS:
      assert_memory_equal(a->ints, b->ints, a->n * sizeof(*a->ints));
      break;
    case DT_OP_ATTR_FLOATS:
      assert_memory_equal(a->floats, b->floats, a->n * sizeof(*a->floats));
      break;
    }
    seen_last.n++;
  }
  return NULL;
}

static dt_status_t identity_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  (void)begin, (void)end;
  for (int64_t i = 0; i < x->sizes[0]; i++)
    ((float *)args->results[0]->data)[i] = ((const float *)x->data)[i * x->strides[0]];
  return NULL;
}

static const dt_op_options_t identity_op = {
    .name = "test.identity", .infer = identity_infer, .kernel = identity_kernel};

static dt_status_t with_attrs(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const attrs_t *attrs = closure;
  dt_op_call(t, "test.identity", 1, in, attrs ? attrs->n : 0, attrs ? attrs->attrs : NULL, 1, out);
  return NULL;
}

static dt_op_attr_t *add_attr(attrs_t *attrs, const char *begin, dt_op_attr_kind_t kind) {
  char *name = attrs->names[attrs->n];
  dt_op_attr_t *attr = &attrs->attrs[attrs->n];
  (void)snprintf(name, sizeof(attrs->names[0]), "%s_%u", begin, attrs->n++);
  *attr = (dt_op_attr_t){.name = name, .kind = kind};
  return attr;
}

// All kinds, the ends of their ranges, and as much as there may be of each.
static void fill(attrs_t *attrs, char *text, int64_t *ints, double *floats) {
  static const int64_t whole[] = {INT64_MIN, -1, 0, INT64_MAX};
  static const double real[] = {-0.0, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 0.1};
  for (size_t k = 0; k < sizeof(whole) / sizeof(whole[0]); k++)
    add_attr(attrs, "int", DT_OP_ATTR_INT)->i = whole[k];
  for (size_t k = 0; k < sizeof(real) / sizeof(real[0]); k++)
    add_attr(attrs, "float", DT_OP_ATTR_FLOAT)->f = real[k];
  add_attr(attrs, "_", DT_OP_ATTR_FLOAT)->f = NAN;
  for (int k = 0; k < DT_OP_MAX_TEXT; k++)
    text[k] = (char)(1 + k % 255); // quotes, lines, bytes of no text
  add_attr(attrs, "text", DT_OP_ATTR_TEXT)->text = text;
  add_attr(attrs, "text", DT_OP_ATTR_TEXT)->text = "";
  for (int k = 0; k < DT_OP_MAX_VALUES; k++) {
    ints[k] = (int64_t)k << 40;
    floats[k] = k / 3.0;
  }
  dt_op_attr_t *attr = add_attr(attrs, "ints", DT_OP_ATTR_INTS);
  attr->n = DT_OP_MAX_VALUES;
  attr->ints = ints;
  attr = add_attr(attrs, "floats", DT_OP_ATTR_FLOATS);
  attr->n = DT_OP_MAX_VALUES;
  attr->floats = floats;
  (void)add_attr(attrs, "ints", DT_OP_ATTR_INTS); // an empty one
  memset(attrs->names[0], 'n', 127);              // the longest name
  while (attrs->n < DT_OP_MAX_ATTRS)
    (void)add_attr(attrs, "more", DT_OP_ATTR_INT);
}

static void test_what_can_be_built_can_be_read(void **state) {
  fixture_t *f = *state;
  static attrs_t attrs;
  static char text[DT_OP_MAX_TEXT + 2], identity[DT_OP_MAX_TEXT + 1];
  static int64_t ints[DT_OP_MAX_VALUES];
  static double floats[DT_OP_MAX_VALUES];
  char *ir = NULL;
  dt_function_t *again = NULL;
  dt_op_options_t op = identity_op;
  fill(&attrs, text, ints, floats);
  memset(identity, 'i', DT_OP_MAX_TEXT);
  op.closure = &attrs;
  op.identity = identity;
  register_op(f, op);
  dt_function_t *function = make(f, with_attrs, &attrs);
  dt_tensor_t *x = tensor_f32(&f->rng, 1, SIZES(3)), *out = NULL, *other = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  expect_ok(dt_function_graph(function, &x, 1, &ir));
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = compiled_answer()};
  expect_ok(dt_function_create_from_ir(f->runtime, ir, strlen(ir), "text.dtt", &options, &again));
  seen_last.n = 0;
  expect_ok(dt_call(f->session, again, &x, 1, &other, 1, NULL));
  assert_int_equal(seen_last.n, DT_OP_MAX_ATTRS);
  expect_close(other, out, 0, 0, "from text");
  dt_text_free(ir);
  RELEASE(x, out, other);
  dt_function_release(function);
  dt_function_release(again);
}

static void expect_refused(fixture_t *f, dt_program_fn_t fn, void *closure, dt_code_t code,
                           const char *says) {
  dt_function_t *function = make(f, fn, closure);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
  expect_told(dt_call(f->session, function, &x, 1, &out, 1, NULL), code, says);
  RELEASE(x);
  dt_function_release(function);
}

static void test_what_no_text_can_say_is_refused(void **state) {
  fixture_t *f = *state;
  static char text[DT_OP_MAX_TEXT + 2];
  static int64_t ints[DT_OP_MAX_VALUES + 1];
  static double floats[DT_OP_MAX_VALUES + 1];
  static attrs_t many;
  register_op(f, identity_op);
  while (many.n < DT_OP_MAX_ATTRS + 1)
    (void)add_attr(&many, "more", DT_OP_ATTR_INT);
  expect_refused(f, with_attrs, &many, DT_E_LIMIT, "test.identity: 65 attributes; the most is 64");
  memset(text, 't', DT_OP_MAX_TEXT + 1);
  many.n = 0;
  add_attr(&many, "text", DT_OP_ATTR_TEXT)->text = text;
  expect_refused(f, with_attrs, &many, DT_E_LIMIT,
                 "test.identity: attribute text_0 is a text of 4096 bytes; the most is 4095");
  many.n = 0;
  dt_op_attr_t *attr = add_attr(&many, "ints", DT_OP_ATTR_INTS);
  attr->n = DT_OP_MAX_VALUES + 1;
  attr->ints = ints;
  expect_refused(f, with_attrs, &many, DT_E_LIMIT,
                 "test.identity: attribute ints_0 has 65537 values; the most is 65536");
  many.n = 0;
  attr = add_attr(&many, "floats", DT_OP_ATTR_FLOATS);
  attr->n = UINT32_MAX;
  attr->floats = floats; // not looked at
  expect_refused(f, with_attrs, &many, DT_E_LIMIT, "attribute floats_0 has 4294967295 values");
  dt_op_options_t op = identity_op;
  op.struct_size = sizeof(op);
  op.name = "test.other";
  op.identity = text;
  expect_told(dt_op_register(f->runtime, &op), DT_E_LIMIT,
              "dt_op_register: identity: 4096 bytes, with the library's; the most is 4095");
}

// ---- Places without calls -----------------------------------------------------------------------
static dt_status_t no_replacement(dt_match_t *match, dt_trace_t *t, const dt_value_t *in,
                                  dt_value_t *out, void *closure) {
  (void)match, (void)t, (void)closure;
  out[0] = in[0];
  return NULL;
}

// -x; and, once `*closure` says so, an op of a user.
static dt_status_t turning(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_neg(t, in[0]);
  if (*(const int *)closure)
    dt_op_call(t, "test.identity", 1, in, 0, NULL, 1, out);
  return NULL;
}

static void test_patterns_call_no_ops(void **state) {
  fixture_t *f = *state;
  const dt_wildcard_t x = {.name = "x"};
  const dt_pattern_options_t options = {.struct_size = sizeof(options),
                                        .name = "calls",
                                        .n_wildcards = 1,
                                        .n_outputs = 1,
                                        .wildcards = &x};
  dt_pattern_t *pattern = NULL;
  int turned = 1;
  register_op(f, identity_op);
  expect_parts(
      dt_pattern_create(turning, no_replacement, NULL, &turned, &options, &pattern),
      DT_E_UNSUPPORTED,
      EACH_OF("pattern calls", "test.identity: a pattern's program calls no ops of users"));
  // One that does so later matches nowhere.
  turned = 0;
  expect_ok(dt_pattern_create(turning, no_replacement, NULL, &turned, &options, &pattern));
  expect_ok(dt_runtime_add_pattern(f->runtime, pattern));
  turned = 1;
  dt_function_t *function = make(f, negate_program, NULL);
  dt_tensor_t *in = tensor_full(2, 1, SIZES(3)), *out = NULL;
  expect_ok(dt_call(f->session, function, &in, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[2] == -2);
  assert_int_equal(dt_pattern_count(pattern), 0);
  RELEASE(in, out);
  dt_function_release(function);
  dt_pattern_release(pattern);
}

static dt_status_t many_calls(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = in[0];
  for (int k = 0; k < *(const int *)closure; k++)
    dt_op_call(t, "test.identity", 1, out, 0, NULL, 1, out);
  return NULL;
}

static void test_calls_count_as_nodes(void **state) {
  fixture_t own = {.rng = {1}};
  int n = 99;
  (void)state;
  expect_ok(dt_runtime_create(&(dt_runtime_options_t){.struct_size = sizeof(dt_runtime_options_t),
                                                      .threads = 1,
                                                      .max_nodes = 100},
                              &own.runtime));
  expect_ok(dt_session_create(own.runtime, NULL, &own.session));
  register_op(&own, identity_op);
  expect_refused(&own, many_calls, (n = 100, &n), DT_E_LIMIT, "its budget is 100");
  n = 99; // and the input
  dt_function_t *function = make(&own, many_calls, &n);
  dt_tensor_t *x = tensor_full(2, 1, SIZES(3)), *out = NULL;
  expect_ok(dt_call(own.session, function, &x, 1, &out, 1, NULL));
  RELEASE(x, out);
  dt_function_release(function);
  fixture_end(&own);
}

static dt_status_t call_at_fused(dt_rewriter_t *r, void *closure) {
  dt_value_t x = dt_rewriter_output(r, 0), made = {0};
  (void)closure;
  dt_op_call(dt_rewriter_trace(r), "test.identity", 1, &x, 0, NULL, 1, &made);
  assert_int_equal(made.id, 0);
  expect_told(dt_rewriter_failure(r), DT_E_STATE, "only looked at, at point fused");
  ++*(int *)closure;
  return NULL;
}

static void test_a_fused_graph_gets_no_calls(void **state) {
  fixture_t *f = *state;
  int seen = 0;
  register_op(f, identity_op);
  expect_ok(dt_runtime_add_pass(
      f->runtime, DT_POINT_FUSED, call_at_fused, &seen,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = "calls"}));
  dt_function_t *function = make(f, negate_program, NULL);
  dt_tensor_t *x = tensor_full(2, 1, SIZES(3)), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  assert_int_equal(seen != 0, compiled_answer() == DT_ANSWER_COMPILED);
  RELEASE(x, out);
  dt_function_release(function);
}

// ---- Numbers that calls share -------------------------------------------------------------------
static int numbers_read;
static int64_t most; // what infer says of the number

static dt_status_t above_infer(dt_op_call_t *call, void *closure) {
  dt_sym_t n = dt_op_number(call, 0, most);
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t above_numbers(const dt_op_args_t *args, int64_t *numbers) {
  const dt_op_tensor_t *x = args->inputs[0];
  const dt_op_attr_t *least = dt_op_attr(args, "least", DT_OP_ATTR_FLOAT);
  numbers[0] = 0;
  for (int64_t i = 0; i < x->sizes[0]; i++)
    numbers[0] += ((const float *)x->data)[i * x->strides[0]] > least->f;
  numbers_read++;
  return NULL;
}

static dt_status_t above_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  const dt_op_attr_t *least = dt_op_attr(args, "least", DT_OP_ATTR_FLOAT);
  int64_t n = 0;
  (void)begin, (void)end;
  for (int64_t i = 0; i < x->sizes[0]; i++) {
    float value = ((const float *)x->data)[i * x->strides[0]];
    if (value > least->f && n < args->results[0]->sizes[0])
      ((float *)args->results[0]->data)[n++] = value;
  }
  return NULL;
}

static const dt_op_options_t above_op = {.name = "test.above",
                                         .infer = above_infer,
                                         .kernel = above_kernel,
                                         .n_numbers = 1,
                                         .numbers = above_numbers};

static dt_value_t above(dt_trace_t *t, dt_value_t x, double least) {
  dt_value_t out;
  dt_op_attr_t attr = {.name = "least", .kind = DT_OP_ATTR_FLOAT, .f = least};
  dt_op_call(t, "test.above", 1, &x, 1, &attr, 1, &out);
  return out;
}

// Twice the same; one of another attribute; and of fewer at most.
static dt_status_t shared(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  most = 1000;
  dt_value_t a = above(t, in[0], 0), b = above(t, in[0], 0), c = above(t, in[0], 1);
  dt_value_t sum = dt_sum(t, dt_add(t, a, b), 0, NULL, false); // one size: no guard is made
  most = 10;
  dt_value_t d = above(t, in[0], 0);
  out[0] = dt_add(t, sum, dt_add(t, dt_sum(t, c, 0, NULL, false), dt_sum(t, d, 0, NULL, false)));
  return NULL;
}

static void test_calls_that_share_numbers(void **state) {
  fixture_t *f = *state;
  char *ir = NULL;
  dt_function_t *again = NULL;
  register_op(f, above_op);
  dt_function_t *function = make(f, shared, NULL);
  static const float values[] = {3, -1, 0.5f, 0, 2};
  dt_tensor_t *x = tensor_full(-1, 1, SIZES(5)), *out = NULL, *other = NULL;
  memcpy(dt_tensor_data(x), values, sizeof(values));
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[0] == 3 * 5.5f + 5);
  numbers_read = 0;
  RELEASE(out);
  out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  assert_int_equal(numbers_read, 2); // nodes read them: one of each attribute
  // The same from its text, at which another bound holds by now: what it says is not taken for it.
  expect_ok(dt_function_graph(function, &x, 1, &ir));
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = compiled_answer()};
  expect_ok(dt_function_create_from_ir(f->runtime, ir, strlen(ir), "text.dtt", &options, &again));
  most = 10;
  expect_ok(dt_call(f->session, again, &x, 1, &other, 1, NULL));
  expect_close(other, out, 0, 0, "from text");
  RELEASE(x, out, other);
  x = tensor_full(2, 1, SIZES(11));
  other = NULL;
  expect_told(dt_call(f->session, again, &x, 1, &other, 1, NULL), DT_E_SHAPE,
              compiled_answer() == DT_ANSWER_COMPILED ? "the data says 11" : "u1 <= 10");
  expect_told(dt_call(f->session, function, &x, 1, &other, 1, NULL), DT_E_RANGE, "11");
  RELEASE(x);
  dt_text_free(ir);
  dt_function_release(function);
  dt_function_release(again);
}

// Many calls that read: what each costs does not grow with them.
static dt_status_t chain(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  most = 1000;
  out[0] = dt_scalar(t, DT_F32, 0);
  for (int k = 0; k < 60; k++)
    out[0] = dt_add(t, out[0], dt_sum(t, above(t, in[0], k % 30), 0, NULL, false));
  return NULL;
}

static void test_a_chain_of_reads(void **state) {
  fixture_t *f = *state;
  register_op(f, above_op);
  dt_function_options_t options = options_of(1, one_vector);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *function = function_of(f, chain, NULL, &options);
  dt_tensor_t *x = tensor_full(15, 1, SIZES(2)), *out = NULL;
  numbers_read = 0;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[0] == 2 * 15 * 2 * 15);
  assert_int_equal(numbers_read, 30);
  RELEASE(x, out);
  dt_function_release(function);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_what_can_be_built_can_be_read, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_what_no_text_can_say_is_refused, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_patterns_call_no_ops, setup, fixture_close),
      cmocka_unit_test(test_calls_count_as_nodes),
      cmocka_unit_test_setup_teardown(test_a_fused_graph_gets_no_calls, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_calls_that_share_numbers, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_chain_of_reads, setup, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
