// SPDX-License-Identifier: Apache-2.0
// Passes of users: when they run and on what, what they may change, how they fail, and whose
// functions have them.
#include "test/support/subjects.h"

#include "ductile/op.h"
#include "ductile/pass.h"

#include "runtime/base/thread.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 5); }

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

// softmax of x + x over its only axis.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, dt_add(t, in[0], in[0]), -1);
  return NULL;
}

static void add_pass(fixture_t *f, dt_point_t point, const char *name, dt_pass_fn_t pass,
                     void *closure) {
  expect_ok(dt_runtime_add_pass(
      f->runtime, point, pass, closure,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = name}));
}

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, const char *passes) {
  dt_function_options_t options = options_of(1, one_vector);
  options.passes = passes;
  return function_of(f, fn, NULL, &options);
}

// The last point at which graphs are changed. Builds without a code generator trace and evaluate:
// there passes behind the trace have nothing to do.
static bool compiles(void) { return compiled_answer() == DT_ANSWER_COMPILED; }
static int last_point(void) { return compiles() ? DT_POINT_BEFORE_LOWER : DT_POINT_TRACED; }

// The first element of the answer for `n` ones.
static double call_ones(fixture_t *f, dt_function_t *function, int64_t n) {
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  double first = ((const float *)dt_tensor_data(out))[0];
  RELEASE(x, out);
  return first;
}

static dt_status_t call_told(fixture_t *f, dt_function_t *function) {
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
  dt_status_t status = dt_call(f->session, function, &x, 1, &out, 1, NULL);
  RELEASE(x, out);
  return status;
}

static dt_value_t find_op(dt_rewriter_t *r, const char *op) {
  dt_node_info_t info = {.struct_size = sizeof(info)};
  for (dt_value_t v = {0}; (v = dt_rewriter_next(r, v)).id;) {
    expect_ok(dt_rewriter_node(r, v, &info));
    if (strcmp(info.op, op) == 0)
      return v;
  }
  return (dt_value_t){0};
}

// ---- Points -------------------------------------------------------------------------------------
typedef struct seen_t {
  char order[256];
} seen_t;

static dt_status_t look(dt_rewriter_t *r, void *closure) {
  seen_t *seen = closure;
  size_t len = strlen(seen->order);
  char *text = NULL;
  (void)snprintf(seen->order + len, sizeof(seen->order) - len, "%s%s%s ",
                 dt_point_name(dt_rewriter_point(r)), find_op(r, "softmax").id ? "+softmax" : "",
                 find_op(r, "exp").id ? "+exp" : "");
  expect_ok(dt_rewriter_text(r, &text));
  const char *begin = dt_rewriter_point(r) == DT_POINT_FUSED ? "program {" : "graph (";
  assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
  dt_text_free(text);
  assert_true(dt_rewriter_length(r) > 2);
  assert_int_equal(dt_rewriter_depth(r), 0);
  assert_int_equal(dt_rewriter_device(r), DT_CPU);
  return NULL;
}

static void test_points_in_order(void **state) {
  fixture_t *f = *state;
  seen_t seen = {""};
  for (int point = DT_POINT_FUSED; point >= DT_POINT_TRACED; point--)
    add_pass(f, (dt_point_t)point, dt_point_name((dt_point_t)point), look, &seen);
  dt_function_t *function = make(f, program, NULL);
  assert_true(call_ones(f, function, 4) == 0.25);
  assert_string_equal(seen.order, compiles() ? "traced+softmax before_decompose+softmax "
                                               "after_decompose+exp before_lower+exp fused+exp "
                                             : "traced+softmax ");
  size_t len = strlen(seen.order);
  assert_true(call_ones(f, function, 8) == 0.125); // a hit: nothing runs
  assert_int_equal(strlen(seen.order), len);
  dt_function_release(function);
}

// ---- Changes ------------------------------------------------------------------------------------
// x + x becomes x * 3 at whatever point, by a builder that broadcasts.
static dt_status_t triple(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t sum = find_op(r, "add"), x = dt_rewriter_input(r, sum, 0);
  if (!sum.id)
    return NULL;
  return dt_rewriter_replace(r, sum, dt_mul(t, x, dt_scalar(t, DT_F32, 3)));
}

static void test_a_node_is_replaced_at_each_point(void **state) {
  fixture_t *f = *state;
  for (int point = DT_POINT_TRACED; point <= last_point(); point++) {
    add_pass(f, (dt_point_t)point, "triple", triple, NULL);
    dt_function_t *function = make(f, double_program, NULL);
    for (int64_t n = 0; n < 6; n++) {
      dt_tensor_t *x = tensor_full(2, 1, &n), *want = tensor_full(6, 1, &n), *out = NULL;
      expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
      expect_close(out, want, 0, 0, "tripled");
      RELEASE(x, want, out);
    }
    dt_function_release(function);
    expect_ok(dt_runtime_remove_pass(f->runtime, "triple"));
  }
}

// A composite and halves after decomposition become simple ops, too.
static dt_status_t soft(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t sum = find_op(r, "add"), x = dt_rewriter_input(r, sum, 0);
  if (!sum.id)
    return NULL;
  dt_value_t half = dt_softmax(t, dt_cast(t, x, DT_F16), -1);
  return dt_rewriter_replace(r, sum, dt_cast(t, half, DT_F32));
}

static void test_composites_after_decomposition(void **state) {
  fixture_t *f = *state;
  for (int point = DT_POINT_AFTER_DECOMPOSE; point <= last_point(); point++) {
    add_pass(f, (dt_point_t)point, "soft", soft, NULL);
    dt_function_t *function = make(f, double_program, NULL);
    assert_true(call_ones(f, function, 4) == 0.25);
    dt_function_release(function);
    expect_ok(dt_runtime_remove_pass(f->runtime, "soft"));
  }
}

// A new node that is made of the old one keeps it.
static dt_status_t wrap(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_value_t sum = find_op(r, "add");
  return dt_rewriter_replace(r, sum, dt_neg(dt_rewriter_trace(r), sum));
}

static void test_a_node_is_wrapped(void **state) {
  fixture_t *f = *state;
  add_pass(f, DT_POINT_TRACED, "wrap", wrap, NULL);
  dt_function_t *function = make(f, double_program, NULL);
  assert_true(call_ones(f, function, 3) == -2);
  dt_function_release(function);
}

// What passes change at the trace is what the evaluator answers by, too.
static void test_the_evaluator_sees_it(void **state) {
  fixture_t *f = *state;
  add_pass(f, DT_POINT_TRACED, "triple", triple, NULL);
  dt_function_options_t options = options_of(1, one_vector);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *function = function_of(f, double_program, NULL, &options);
  assert_true(call_ones(f, function, 3) == 3);
  dt_function_release(function);
}

static dt_status_t weigh(dt_rewriter_t *r, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t sum = find_op(r, "add"), x = dt_rewriter_input(r, sum, 0);
  return dt_rewriter_replace(r, sum, dt_mul(t, x, dt_constant(t, "w", closure)));
}

static void test_constants_are_made_at_the_trace(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *w = tensor_full(7, 0, NULL), *five = tensor_full(5, 0, NULL);
  add_pass(f, DT_POINT_TRACED, "weigh", weigh, w);
  dt_function_t *function = make(f, double_program, NULL);
  assert_true(call_ones(f, function, 3) == 7);
  expect_ok(dt_constant_update(function, "w", five));
  assert_true(call_ones(f, function, 3) == 5);
  dt_function_release(function);
  expect_ok(dt_runtime_remove_pass(f->runtime, "weigh"));
  add_pass(f, DT_POINT_BEFORE_LOWER, "weigh", weigh, w);
  function = make(f, double_program, NULL);
  if (compiles())
    expect_told(call_told(f, function), DT_E_STATE, "a pass makes constants at point traced only");
  dt_function_release(function);
  RELEASE(w, five);
}

// Folds the constant into a number, which updates then cannot change.
static dt_status_t read_weight(dt_rewriter_t *r, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(r);
  const void *data = NULL;
  uint64_t bytes = 0;
  (void)closure;
  dt_value_t w = find_op(r, "constant");
  expect_told(dt_rewriter_constant(r, dt_rewriter_output(r, 0), &data, &bytes), DT_E_ARGUMENT,
              "is no constant");
  dt_status_t status = dt_rewriter_constant(r, w, &data, &bytes);
  if (status)
    return status;
  assert_int_equal(bytes, 16);
  dt_value_t sum = dt_scalar(t, DT_F32, ((const float *)data)[0]);
  return dt_rewriter_replace(r, dt_rewriter_output(r, 0),
                             dt_mul(t, dt_rewriter_input(r, dt_rewriter_output(r, 0), 0), sum));
}

static void test_read_constants_stay(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *w = tensor_full(7, 1, SIZES(4));
  add_pass(f, DT_POINT_TRACED, "read", read_weight, NULL);
  dt_function_t *function = subject_function(f->runtime, &scale_subject, w, compiled_answer());
  assert_true(call_ones(f, function, 3) == 7);
  expect_told(dt_constant_update(function, "w", w), DT_E_UNSUPPORTED, "w");
  dt_function_release(function);
  RELEASE(w);
}

// ---- Choice -------------------------------------------------------------------------------------
typedef struct ran_t {
  char names[64];
  uint32_t freed;
} ran_t;
static ran_t ran;

static dt_status_t note(dt_rewriter_t *r, void *closure) {
  (void)r;
  (void)strcat(ran.names, closure);
  return NULL;
}
static void count_free(void *closure) {
  (void)closure;
  ran.freed++;
}

static void test_functions_choose(void **state) {
  fixture_t *f = *state;
  ran = (ran_t){{0}, 0};
  static const struct {
    const char *name;
    int32_t priority;
    bool on_demand;
  } passes[] = {{"c", 5, false}, {"a", -1, false}, {"b", 5, true}, {"d", 5, false}};
  for (size_t k = 0; k < 4; k++)
    expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note,
                                  (void *)(uintptr_t)passes[k].name,
                                  &(dt_pass_options_t){.name = passes[k].name,
                                                       .struct_size = sizeof(dt_pass_options_t),
                                                       .priority = passes[k].priority,
                                                       .on_demand = passes[k].on_demand,
                                                       .closure_free = count_free}));
  static const char *const chosen[][2] = {{NULL, "acd"}, {"", "acd"},        {"b", "acbd"},
                                          {"-a", "cd"},  {"b, -c,-d", "ab"}, {"-a,-c,-d", ""}};
  for (size_t k = 0; k < 6; k++) {
    dt_function_t *function = make(f, double_program, chosen[k][0]);
    ran.names[0] = 0;
    assert_true(call_ones(f, function, 2) == 2);
    assert_string_equal(ran.names, chosen[k][1]);
    dt_function_release(function);
  }
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *none = NULL;
  options.passes = "a,nobody";
  expect_told(dt_function_create(f->runtime, double_program, NULL, &options, &none), DT_E_ARGUMENT,
              "passes: the runtime has no pass \"nobody\"");
  // Functions keep what they were made with.
  dt_function_t *function = make(f, double_program, NULL);
  for (size_t k = 0; k < 4; k++)
    expect_ok(dt_runtime_remove_pass(f->runtime, passes[k].name));
  assert_int_equal(ran.freed, 1); // b: the function has it not
  ran.names[0] = 0;
  assert_true(call_ones(f, function, 2) == 2);
  assert_string_equal(ran.names, "acd");
  dt_function_release(function);
  assert_int_equal(ran.freed, 4);
}

static dt_status_t infer_none(dt_op_call_t *call, void *closure) {
  (void)call, (void)closure;
  return NULL;
}

static dt_status_t run_none(const dt_op_args_t *args, int64_t begin, int64_t end) {
  (void)args, (void)begin, (void)end;
  return NULL;
}

// A pass behind the trace may call ops: they are part of its functions' keys.
static void test_identities_of_ops_are_keys(void **state) {
  (void)state;
  static const char *const identities[] = {"1", "2"};
  static const dt_point_t points[] = {DT_POINT_BEFORE_LOWER, DT_POINT_TRACED};
  for (size_t p = 0; p < 2; p++) {
    dt_text_t keys[2];
    for (size_t k = 0; k < 2; k++) {
      dt_hooks_t *none = NULL, *hooks = NULL, *with = NULL;
      dt_op_list_t *ops = NULL;
      dt_op_def_t *def = NULL;
      const dt_pass_options_t options = {.name = "p"};
      const dt_op_options_t op = {.struct_size = sizeof(op),
                                  .name = "test.op",
                                  .identity = identities[k],
                                  .infer = infer_none,
                                  .kernel = run_none};
      expect_ok(dt__hooks_create(&none));
      expect_ok(dt__hooks_add(none, points[p], note, NULL, &options, NULL, &hooks));
      expect_ok(dt__op_list_add(NULL, &op, &ops, &def));
      expect_ok(dt__hooks_with_ops(hooks, ops, &with));
      dt__text_init(&keys[k]);
      dt__hooks_key(with, &keys[k]);
      dt__op_list_release(ops);
      dt__hooks_release(with);
      dt__hooks_release(hooks);
      dt__hooks_release(none);
    }
    assert_int_equal(strcmp(dt__text_str(&keys[0]), dt__text_str(&keys[1])) == 0,
                     points[p] == DT_POINT_TRACED);
    dt__text_fini(&keys[0]);
    dt__text_fini(&keys[1]);
  }
}

// The key of kept code tells passes apart by point, name and identity.
static void test_identities_are_keys(void **state) {
  (void)state;
  static const struct {
    dt_point_t point;
    const char *name, *identity;
  } passes[] = {{DT_POINT_TRACED, "p", NULL},
                {DT_POINT_TRACED, "p", "p 2"},
                {DT_POINT_BEFORE_LOWER, "p", NULL},
                {DT_POINT_TRACED, "q", NULL}};
  dt_text_t keys[4];
  dt_hooks_t *none = NULL;
  expect_ok(dt__hooks_create(&none));
  for (size_t k = 0; k < 4; k++) {
    dt_hooks_t *hooks = NULL;
    const dt_pass_options_t options = {.name = passes[k].name, .identity = passes[k].identity};
    expect_ok(dt__hooks_add(none, passes[k].point, note, NULL, &options, NULL, &hooks));
    dt__text_init(&keys[k]);
    dt__hooks_key(hooks, &keys[k]);
    dt__hooks_release(hooks);
    for (size_t i = 0; i < k; i++)
      assert_string_not_equal(dt__text_str(&keys[i]), dt__text_str(&keys[k]));
  }
  for (size_t k = 0; k < 4; k++)
    dt__text_fini(&keys[k]);
  dt__hooks_release(none);
}

// ---- Failures -----------------------------------------------------------------------------------
static dt_status_t refuse_all(dt_rewriter_t *r, void *closure) {
  (void)closure;
  return dt_rewriter_set_input(r, dt_rewriter_output(r, 0), 9, dt_rewriter_output(r, 0));
}

static dt_status_t ask_size(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t x = dt_rewriter_input(r, find_op(r, "add"), 0);
  bool value = false;
  dt_sym_t small = dt_sym_lt(t, dt_dim(t, x, 0), dt_sym_const(t, 4));
  assert_false(dt_sym_known(t, small, &value));
  (void)dt_sym_true(t, small);
  return NULL;
}

static dt_status_t check_size(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_check(t, dt_sym_lt(t, dt_sym_const(t, 1), dt_sym_const(t, 4)), "small");
  return NULL;
}

static dt_status_t add_both(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

static dt_status_t combines(dt_rewriter_t *r, void *closure) {
  dt_value_t x = dt_rewriter_input(r, find_op(r, "add"), 0), out;
  dt_associative_scan(dt_rewriter_trace(r), add_both, closure, 1, &x, -1, 0, &out);
  return NULL;
}

static dt_status_t chooses(dt_rewriter_t *r, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t x = dt_rewriter_input(r, find_op(r, "add"), 0), in[] = {x, x}, out;
  dt_value_t any = dt_any(t, dt_gt(t, x, dt_scalar(t, DT_F32, 0)), 0, NULL, false);
  dt_cond(t, any, add_both, add_both, closure, 2, in, 1, &out);
  return NULL;
}

static dt_status_t multiplies(dt_rewriter_t *r, void *closure) {
  (void)closure;
  (void)dt_cumprod(dt_rewriter_trace(r), dt_rewriter_input(r, find_op(r, "add"), 0), -1,
                   DT_CUMSUM_INCLUSIVE);
  return NULL;
}

static void test_failures_name_pass_and_node(void **state) {
  fixture_t *f = *state;
  static const struct {
    dt_pass_fn_t pass;
    dt_code_t code;
    const char *says[3];
  } rows[] = {
      {refuse_all, DT_E_ARGUMENT, {"pass bad at traced", "(add", "there is no operand 9"}},
      {ask_size, DT_E_STATE, {"pass bad at traced", "frozen", "s0"}},
      {check_size, DT_E_STATE, {"pass bad at traced", "dt_check is for programs", "dt_check"}},
      {chooses, DT_E_STATE, {"pass bad at traced", "cond", "has no branches"}},
      {combines, DT_E_STATE, {"pass bad at traced", "associative_scan", "has no branches"}},
      {multiplies, DT_E_STATE, {"pass bad at traced", "cumprod", "has no branches"}},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    for (int optional = 0; optional < 2; optional++) {
      expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, rows[k].pass, NULL,
                                    &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t),
                                                         .name = "bad",
                                                         .optional = optional != 0}));
      dt_function_t *function = make(f, double_program, NULL);
      if (optional)
        assert_true(call_ones(f, function, 3) == 2);
      else
        expect_parts(call_told(f, function), rows[k].code,
                     EACH_OF(rows[k].says[0], rows[k].says[1], rows[k].says[2]));
      dt_function_release(function);
      expect_ok(dt_runtime_remove_pass(f->runtime, "bad"));
    }
  }
}

// What a failing pass changed is gone with it, constants included.
static dt_status_t half_done(dt_rewriter_t *r, void *closure) {
  dt_status_t status = weigh(r, closure);
  if (status)
    return status;
  dt_trace_fail(dt_rewriter_trace(r), DT_E_RANGE, "changed its mind");
  return NULL;
}

static void test_a_failing_pass_leaves_nothing(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *w = tensor_full(7, 0, NULL);
  expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, half_done, w,
                                &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t),
                                                     .name = "half",
                                                     .optional = true}));
  dt_function_t *function = make(f, double_program, NULL);
  assert_true(call_ones(f, function, 3) == 2);
  dt_function_release(function);
  RELEASE(w);
}

static void test_bad_arguments(void **state) {
  fixture_t *f = *state;
  dt_pass_options_t options = {.struct_size = sizeof(options), .name = "p"};
  expect_told(dt_runtime_add_pass(NULL, DT_POINT_TRACED, note, NULL, &options), DT_E_ARGUMENT,
              "runtime: NULL");
  expect_told(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note, NULL, NULL), DT_E_ARGUMENT,
              "options: NULL");
  expect_told(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, NULL, NULL, &options), DT_E_ARGUMENT,
              "pass: NULL");
  for (int point = -1; point < 40; point++)
    if (point < DT_POINT_TRACED || point > DT_POINT_FUSED)
      expect_told(dt_runtime_add_pass(f->runtime, (dt_point_t)point, note, NULL, &options),
                  DT_E_ARGUMENT, "expected one of DT_POINT_*");
  static const char *const names[] = {NULL, "", "-a", "a b", "a,b", "ä"};
  for (size_t k = 0; k < 6; k++) {
    options.name = names[k];
    expect_told(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note, NULL, &options),
                DT_E_ARGUMENT, "expected 1 to 63 letters");
  }
  options.name = "p";
  expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note, "p", &options));
  expect_told(dt_runtime_add_pass(f->runtime, DT_POINT_FUSED, note, "p", &options), DT_E_ARGUMENT,
              "has a pass \"p\" already");
  expect_told(dt_runtime_remove_pass(f->runtime, "q"), DT_E_ARGUMENT, "no pass is named q");
  expect_told(dt_runtime_remove_pass(f->runtime, NULL), DT_E_ARGUMENT, "name: NULL");
  expect_told(dt_runtime_remove_pass(NULL, "p"), DT_E_ARGUMENT, "runtime: NULL");
  expect_ok(dt_runtime_remove_pass(f->runtime, "p"));
}

// ---- Hostile passes -----------------------------------------------------------------------------
static struct inside_t {
  dt_runtime_t *runtime;
  dt_session_t *session; // of its own
} inside;
static dt_status_t call_inside(dt_rewriter_t *r, void *closure) {
  (void)r;
  dt_pass_options_t options = {.struct_size = sizeof(options), .name = "more"};
  expect_told(dt_runtime_add_pass(inside.runtime, DT_POINT_TRACED, note, NULL, &options),
              DT_E_STATE, "a pass of the runtime called for another list of passes");
  fixture_t f = {.runtime = inside.runtime, .session = inside.session};
  return call_told(&f, closure);
}

static void test_a_pass_that_calls_is_refused(void **state) {
  fixture_t *f = *state;
  inside = (struct inside_t){f->runtime, session_of(f->runtime)};
  dt_function_t *other = make(f, negate_program, NULL);
  add_pass(f, DT_POINT_TRACED, "calls", call_inside, other);
  dt_function_t *function = make(f, double_program, NULL);
  expect_parts(call_told(f, function), DT_E_STATE,
               EACH_OF("pass calls at traced",
                       "a pass of the runtime called for a compile, which would wait"));
  dt_function_release(function);
  dt_function_release(other);
  dt_session_destroy(inside.session);
}

static dt_status_t endless(dt_rewriter_t *r, void *closure) {
  (void)closure;
  for (;;) {
    dt_value_t v = {0};
    while ((v = dt_rewriter_next(r, v)).id) {
    }
    if (!dt_trace_goes_on(dt_rewriter_trace(r)))
      return NULL;
  }
}

// A loop that asks ends with the compile's budget or the call's deadline.
static void test_a_loop_ends_with_its_call(void **state) {
  fixture_t *f = *state;
  add_pass(f, DT_POINT_TRACED, "endless", endless, NULL);
  dt_function_t *function = make(f, double_program, NULL);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
  dt_call_options_t options = {.struct_size = sizeof(options)};
  options.deadline_ns = dt__now_ns() + 50000000;
  expect_code(dt_call(f->session, function, &x, 1, &out, 1, &options), DT_E_DEADLINE);
  RELEASE(x, out);
  dt_function_release(function);
}

static dt_status_t only_look(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_value_t sum = find_op(r, "add");
  expect_told(dt_rewriter_erase(r, sum), DT_E_STATE, "only looked at, at point fused");
  (void)dt_neg(dt_rewriter_trace(r), sum);
  return dt_rewriter_failure(r);
}

static void test_fused_graphs_stay(void **state) {
  fixture_t *f = *state;
  add_pass(f, DT_POINT_FUSED, "look", only_look, NULL);
  dt_function_t *function = make(f, double_program, NULL);
  if (compiles())
    expect_parts(call_told(f, function), DT_E_STATE,
                 EACH_OF("pass look at fused", "only looked at"));
  dt_function_release(function);
}

// ---- Numbers from data --------------------------------------------------------------------------
// The elements of x above 0, twice.
static dt_status_t selected(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t some = dt_masked_select(t, in[0], dt_gt(t, in[0], dt_scalar(t, DT_F32, 0)));
  out[0] = dt_add(t, some, some);
  return NULL;
}

// What has the number as a size stands behind the node that binds it, wherever it is put.
static dt_status_t move_around(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_value_t item = find_op(r, "item"), first = dt_rewriter_next(r, (dt_value_t){0});
  dt_value_t select = find_op(r, "masked_select");
  if (!select.id)
    select = find_op(r, "compress");
  expect_told(dt_rewriter_erase(r, item), DT_E_STATE, "binds a number");
  expect_told(dt_rewriter_move(r, select, item), DT_E_ARGUMENT, "is made of");
  expect_told(dt_rewriter_move(r, item, first), DT_E_ARGUMENT, "is made of");
  expect_ok(dt_rewriter_at(r, first));
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t sum = dt_rewriter_output(r, 0), some = dt_rewriter_input(r, sum, 0);
  return dt_rewriter_replace(r, sum, dt_mul(t, some, dt_scalar(t, DT_F32, 3)));
}

static void test_numbers_keep_their_order(void **state) {
  fixture_t *f = *state;
  for (int point = DT_POINT_TRACED; point <= last_point(); point++) {
    add_pass(f, (dt_point_t)point, "move", move_around, NULL);
    dt_function_t *function = make(f, selected, NULL);
    assert_true(call_ones(f, function, 5) == 3);
    dt_function_release(function);
    expect_ok(dt_runtime_remove_pass(f->runtime, "move"));
  }
}

// ---- Threads ------------------------------------------------------------------------------------
static struct {
  _Atomic int running, most, ran;
} at_work;

static dt_status_t count_running(dt_rewriter_t *r, void *closure) {
  (void)closure;
  int running = ++at_work.running;
  if (running > at_work.most)
    at_work.most = running;
  (void)dt_rewriter_length(r);
  at_work.ran++;
  at_work.running--;
  return NULL;
}

static void *compile_some(void *runtime) {
  fixture_t f = {.runtime = runtime, .session = session_of(runtime)};
  for (int k = 0; k < 8; k++) {
    dt_function_t *function = make(&f, double_program, NULL);
    assert_true(call_ones(&f, function, 3) == 2);
    dt_function_release(function);
  }
  dt_session_destroy(f.session);
  return NULL;
}

static void test_one_at_a_time(void **state) {
  fixture_t *f = *state;
  pthread_t threads[3];
  add_pass(f, DT_POINT_TRACED, "first", count_running, NULL);
  add_pass(f, DT_POINT_BEFORE_LOWER, "second", count_running, NULL);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, compile_some, f->runtime), 0);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  assert_int_equal(at_work.most, 1);
  assert_int_equal(at_work.ran, compiles() ? 48 : 24);
}

// ---- Bodies -------------------------------------------------------------------------------------
static dt_status_t then_fn(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}
static dt_status_t else_fn(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}
static dt_status_t branches(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const int32_t axis = 0;
  dt_value_t pred = dt_gt(t, dt_sum(t, in[0], 1, &axis, false), dt_scalar(t, DT_F32, 0));
  dt_cond(t, pred, then_fn, else_fn, NULL, 1, in, 1, out);
  return NULL;
}

static void test_bodies_are_graphs_too(void **state) {
  fixture_t *f = *state;
  for (int point = DT_POINT_TRACED; point <= last_point(); point++) {
    add_pass(f, (dt_point_t)point, "triple", triple, NULL);
    dt_function_t *function = make(f, branches, NULL);
    assert_true(call_ones(f, function, 3) == 3);
    dt_function_release(function);
    expect_ok(dt_runtime_remove_pass(f->runtime, "triple"));
  }
}

RUN_TESTS(TEST_WITH(test_points_in_order, setup, fixture_close),
          TEST_WITH(test_a_node_is_replaced_at_each_point, setup, fixture_close),
          TEST_WITH(test_composites_after_decomposition, setup, fixture_close),
          TEST_WITH(test_a_node_is_wrapped, setup, fixture_close),
          TEST_WITH(test_the_evaluator_sees_it, setup, fixture_close),
          TEST_WITH(test_constants_are_made_at_the_trace, setup, fixture_close),
          TEST_WITH(test_read_constants_stay, setup, fixture_close),
          TEST_WITH(test_functions_choose, setup, fixture_close), TEST(test_identities_are_keys),
          TEST(test_identities_of_ops_are_keys),
          TEST_WITH(test_failures_name_pass_and_node, setup, fixture_close),
          TEST_WITH(test_a_failing_pass_leaves_nothing, setup, fixture_close),
          TEST_WITH(test_bad_arguments, setup, fixture_close),
          TEST_WITH(test_a_pass_that_calls_is_refused, setup, fixture_close),
          TEST_WITH(test_a_loop_ends_with_its_call, setup, fixture_close),
          TEST_WITH(test_fused_graphs_stay, setup, fixture_close),
          TEST_WITH(test_numbers_keep_their_order, setup, fixture_close),
          TEST_WITH(test_one_at_a_time, setup, fixture_close),
          TEST_WITH(test_bodies_are_graphs_too, setup, fixture_close))
