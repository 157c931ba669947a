// SPDX-License-Identifier: Apache-2.0
// Behaviours of PyTorch 2's symbolic reasoning, by number, as a program meets them while it is
// traced: what guards, what is checked at each call, what needs a value and is refused; and the
// builders over sizes.
#include "test/unit/symshape/sym_test.h"

#include "runtime/trace/builder.h"
#include "test/unit/trace/trace_test.h"

static const dt_input_decl_t one_input[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};

typedef struct asked_t {
  int step;
  bool answer, known;
} asked_t;

// A number that depends on data, as an op that reads data gives it.
static dt_sym_t data_size(dt_trace_t *trace, const int64_t *hint) {
  return dt__sym_new(trace->env, DT_SYMBOL_UNBACKED, UNBOUNDED, hint, "item");
}

static dt_trace_request_t request_of(dt_program_fn_t program, asked_t *asked,
                                     dt_tensor_t *const *example) {
  return (dt_trace_request_t){.name = "f",
                              .program = program,
                              .closure = asked,
                              .n_inputs = 1,
                              .n_outputs = 1,
                              .inputs = one_input,
                              .example = example};
}

static dt_tensor_t *two_by_five(void) {
  return tensor_of(DT_F32, 2, ((const int64_t[]){2, 5}), NULL);
}

static dt_traced_t *traced_of(dt_program_fn_t program, asked_t *asked) {
  dt_tensor_t *example = two_by_five();
  dt_trace_request_t request = request_of(program, asked, &example);
  dt_traced_t *traced = trace_ok(&request);
  dt_tensor_release(example);
  return traced;
}

static void refused(dt_program_fn_t program, asked_t *asked, dt_code_t code,
                    const char *const *parts) {
  dt_tensor_t *example = two_by_five();
  dt_trace_request_t request = request_of(program, asked, &example);
  trace_fails(&request, code, parts);
  dt_tensor_release(example);
}

static dt_status_t prefers_checks(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_check(t, dt_sym_eq(t, dt_dim(t, in[0], 0), dt_sym_const(t, 2)), "two rows");
  assert_int_equal(t->traced->conds.len, 0);
  assert_int_equal(t->graph->asserts.len, 1);
  assert_int_equal(dt_sym_int(t, dt_dim(t, in[0], 0)), 2); // the check says so already
  assert_int_equal(t->traced->conds.len, 0);
  assert_int_equal(dt_sym_int(t, dt_dim(t, in[0], 1)), 5);
  assert_int_equal(t->traced->conds.len, 1);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void behaviour_45_a_check_is_no_guard(void **state) {
  (void)state;
  dt__traced_destroy(traced_of(prefers_checks, NULL));
}

static dt_status_t branches_on_data(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  asked_t *asked = closure;
  int64_t recorded = 0;
  dt_sym_t u = data_size(t, asked->step == 1 ? &recorded : NULL);
  asked->answer = dt_sym_true(t, dt_sym_eq(t, u, dt_sym_const(t, 0)));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void behaviour_46_a_branch_on_data_needs_a_value(void **state) {
  (void)state;
  asked_t asked = {.step = 0};
  refused(branches_on_data, &asked, DT_E_STATE, EACH_OF("sym_true", "u2 == 0", "depends on data"));
  asked.step = 1;
  dt_traced_t *traced = traced_of(branches_on_data, &asked);
  assert_true(asked.answer);
  assert_int_equal(traced->conds.len, 0); // data binds no guard: it is checked at each call
  assert_int_equal(traced->graph->asserts.len, 1);
  check_text(traced->env, traced->graph->asserts.items[0].cond, "u2 == 0", "the check", __FILE__,
             __LINE__);
  dt__traced_destroy(traced);
}

static dt_status_t selects(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t a = dt_dim(t, in[0], 0), b = dt_dim(t, in[0], 1);
  dt_sym_t least = dt_sym_select(t, dt_sym_lt(t, a, b), a, dt_sym_neg(t, b));
  bool value = true;
  assert_false(dt_sym_known(t, dt_sym_eq(t, a, b), &value));
  assert_false(value);
  assert_true(dt_sym_known(t, dt_sym_le(t, dt_sym_const(t, 0), dt_sym_abs(t, dt_sym_sub(t, a, b))),
                           &value));
  assert_true(value);
  assert_int_equal(t->traced->conds.len, 0);
  assert_int_equal(dt_sym_int(t, least), 2);
  assert_int_equal(t->traced->conds.len, 1);
  check_text(t->env, t->traced->conds.items[0].cond, "select(s0 < s1, s0, -s1) == 2", "the guard",
             __FILE__, __LINE__);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void behaviour_53_select_in_a_trace(void **state) {
  (void)state;
  dt__traced_destroy(traced_of(selects, NULL));
}

static dt_status_t falls_back(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t u = data_size(t, NULL), one = dt_sym_const(t, 1);
  assert_false(dt_sym_guard_or(t, dt_sym_eq(t, u, one), false));
  assert_true(dt_sym_guard_or(t, dt_sym_eq(t, u, one), true));
  assert_true(dt_sym_guard_or(t, dt_sym_eq(t, u, u), false));
  assert_int_equal(t->traced->conds.len, 0);
  assert_true(dt_sym_guard_or(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_dim(t, in[0], 1)), false));
  assert_int_equal(t->traced->conds.len, 1);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void behaviour_61_guard_or_never_fails(void **state) {
  (void)state;
  dt__traced_destroy(traced_of(falls_back, NULL));
}

// Step 0: the branch alone. Steps 1 and 2: with one of the checks that the failure names.
static dt_status_t branch_with_check(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                     void *closure) {
  asked_t *asked = closure;
  dt_sym_t u = data_size(t, NULL), four = dt_sym_const(t, 4);
  if (asked->step == 1)
    dt_check(t, dt_sym_le(t, u, four), "few");
  if (asked->step == 2)
    dt_check(t, dt_sym_lt(t, four, u), "many");
  asked->answer = dt_sym_true(t, dt_sym_le(t, u, four));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void behaviour_85_the_failure_names_the_checks(void **state) {
  (void)state;
  asked_t asked = {.step = 0};
  refused(branch_with_check, &asked, DT_E_STATE,
          EACH_OF("sym_true", "dt_check(u2 <= 4)", "dt_check(5 <= u2)", "dt_sym_guard_or"));
  for (asked.step = 1; asked.step <= 2; asked.step++) {
    dt_traced_t *traced = traced_of(branch_with_check, &asked);
    assert_int_equal(asked.answer, asked.step == 1);
    assert_int_equal(traced->conds.len, 0);
    assert_int_equal(traced->graph->asserts.len, 1);
    dt__traced_destroy(traced);
  }
}

// Each builder over sizes, with sizes whose answers are known: x is 2 x 5.
static dt_status_t builds(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t two = dt_dim(t, in[0], 0), five = dt_dim(t, in[0], 1), seven = dt_sym_const(t, 7);
  dt_sym_t minus = dt_sym_neg(t, seven);
  const struct {
    dt_sym_t e;
    int64_t value;
  } rows[] = {
      {dt_sym_ceildiv(t, five, two), 3},
      {dt_sym_ceildiv(t, five, dt_sym_neg(t, two)), -2},
      {dt_sym_truncdiv(t, minus, two), -3},
      {dt_sym_truncmod(t, minus, two), -1},
      {dt_sym_floordiv(t, minus, two), -4},
      {dt_sym_mod(t, minus, two), 1},
      {dt_sym_shl(t, five, two), 20},
      {dt_sym_shr(t, minus, two), -2},
      {dt_sym_exactdiv(t, dt_sym_mul(t, five, two), two), 5},
      {dt_sym_exactdiv(t, dt_sym_add(t, five, seven), two), 6},
      {dt_sym_abs(t, minus), 7},
      {dt_sym_ne(t, five, two), 1},
      {dt_sym_and(t, five, dt_sym_lt(t, five, two)), 0},
      {dt_sym_or(t, five, two), 1},
      {dt_sym_not(t, five), 0},
      {dt_sym_min(t, five, two), 2},
      {dt_sym_max(t, five, two), 5},
  };
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    int64_t value = INT64_MIN;
    dt_sym_t e = rows[k].e;
    if (!dt__trace_sym(t, &e, "a size") || !dt__sym_hint(t->env, e, &value) ||
        value != rows[k].value)
      fail_msg("row %zu: %lld, expected %lld", k, (long long)value, (long long)rows[k].value);
  }
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void test_builders(void **state) {
  (void)state;
  dt_traced_t *traced = traced_of(builds, NULL);
  const char *text = text_of(traced);
  // The divisor, the count of the shifts, and that 2 divides 5 + 7 are guards.
  assert_non_null(strstr(text, "assumed s0 != 0 (sym_ceildiv)"));
  assert_non_null(strstr(text, "assumed s0 <= 62 (sym_shl)"));
  assert_non_null(strstr(text, "(s1 + 7)%s0 == 0 (sym_exactdiv)"));
  dt__traced_destroy(traced);
}

static dt_status_t out_of_bounds(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  asked_t *asked = closure;
  dt_sym_t five = dt_dim(t, in[0], 1), two = dt_dim(t, in[0], 0);
  out[0] = in[0];
  if (asked->step == 0)
    dt_sym_shl(t, five, dt_sym_const(t, 63));
  if (asked->step == 1)
    dt_sym_shr(t, five, dt_sym_neg(t, two));
  if (asked->step == 2)
    dt_sym_exactdiv(t, five, two);
  if (asked->step == 3)
    dt_sym_truncmod(t, five, dt_sym_sub(t, five, five));
  return NULL;
}

static void test_refused_builders(void **state) {
  (void)state;
  const char *const *parts[] = {
      EACH_OF("sym_shl", "a shift beyond 64 bits", "63 <= 62"),
      EACH_OF("sym_shr", "a shift by a negative count", "expected s0 <= 0, have 2 and 0"),
      EACH_OF("sym_exactdiv", "leaves a rest", "have 1 and 0", "x.size(1) = 5"),
      EACH_OF("sym_truncmod", "divided by 0"),
  };
  asked_t asked = {0};
  for (asked.step = 0; asked.step < 4; asked.step++)
    refused(out_of_bounds, &asked, DT_E_SHAPE, parts[asked.step]);
}

RUN_TESTS(TEST(behaviour_45_a_check_is_no_guard), TEST(behaviour_46_a_branch_on_data_needs_a_value),
          TEST(behaviour_53_select_in_a_trace), TEST(behaviour_61_guard_or_never_fails),
          TEST(behaviour_85_the_failure_names_the_checks), TEST(test_builders),
          TEST(test_refused_builders))
