// SPDX-License-Identifier: Apache-2.0
// What becomes of matches: checks, replacements that fail, budgets, bodies; the order of patterns,
// who has them, and threads.
#include "test/unit/exec/pattern_kit.h"

#include "runtime/trace/hooks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 17); }

// ---- Checks -------------------------------------------------------------------------------------
static uint32_t asked;
static const char *refuse(dt_match_t *m, void *closure) {
  (void)m;
  (void)closure;
  asked++;
  return "not today";
}
static const char *hostile(dt_match_t *m, void *closure) {
  (void)closure;
  asked++;
  dt_rewriter_t *r = dt_match_rewriter(m);
  dt_value_t out = dt_match_output(m, 0);
  expect_told(dt_rewriter_replace(r, out, dt_match_node(m, "x")), DT_E_STATE, "changes nothing");
  expect_told(dt_rewriter_erase(r, out), DT_E_STATE, "changes nothing");
  char *text = NULL;
  dt_value_t more = dt_exp(dt_rewriter_trace(r), dt_match_node(m, "x"));
  assert_true(more.id != 0);
  assert_true(dt_rewriter_length(r) > 0);
  (void)dt_neg(dt_rewriter_trace(r), more);
  assert_int_equal(dt_match_output(m, 1).id, 0);
  assert_int_equal(dt_match_output(NULL, 0).id, 0);
  assert_int_equal(dt_match_node(m, NULL).id, 0);
  assert_int_equal(dt_match_node(NULL, "x").id, 0);
  assert_false(dt_match_size(m, "x", NULL));
  assert_false(dt_match_literal(NULL, "x", NULL));
  assert_null(dt_match_rewriter(NULL));
  dt_pattern_t *none = NULL;
  expect_told(dt_pattern_explain(none, r, &text), DT_E_ARGUMENT, "pattern: NULL");
  return NULL;
}
static const char *fails(dt_match_t *m, void *closure) {
  (void)closure;
  asked++;
  dt_trace_fail(dt_rewriter_trace(dt_match_rewriter(m)), DT_E_RANGE, "the check broke");
  return NULL;
}

static void test_checks(void **state) {
  fixture_t *f = *state;
  static const dt_match_check_fn_t checks[] = {NULL, refuse, hostile, fails};
  static const uint64_t wanted[] = {1, 0, 1, 0};
  for (size_t k = 0; k < 4; k++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.check = checks[k];
    asked = 0;
    assert_int_equal(matches(f, &made, swish, 2), wanted[k]);
    assert_true(k == 0 || asked > 0);
  }
}

// ---- Replacements that fail ---------------------------------------------------------------------
static int way;
static dt_status_t bad(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                       void *closure) {
  dt_rewriter_t *r = dt_match_rewriter(m);
  (void)closure;
  dt_tensor_t *w = NULL;
  switch (way) {
  case 0:
    dt_trace_fail(t, DT_E_UNSUPPORTED, "not on this device");
    break;
  case 1: // out[0] stays unset
    (void)dt_exp(t, in[0]);
    break;
  case 2:
    out[0] = dt_cast(t, in[0], DT_F64);
    break;
  case 3:
    out[0] = dt_sum(t, in[0], 0, NULL, false);
    break;
  case 4:
    out[0] = (dt_value_t){4000, in[0].trace};
    break;
  case 5:
    return dt_rewriter_replace(r, dt_match_output(m, 0), in[0]);
  case 6: // a constant goes with it
    w = tensor_full(3, 0, NULL);
    out[0] = dt_cast(t, dt_mul(t, in[0], dt_constant(t, "w", w)), DT_F64);
    RELEASE(w);
    break;
  default:
    out[0] = dt_item(t, in[0]).id ? in[0] : in[0];
  }
  return NULL;
}

static char logged[4096];
static void keep_line(void *user, const char *line, size_t len) {
  size_t at = strlen(logged);
  (void)user;
  if (len < sizeof(logged) - at)
    memcpy(logged + at, line, len);
}

// The place stays as it is, and the log says why.
static void test_failing_replacements(void **state) {
  fixture_t *f = *state;
  static const char *const reasons[] = {"not on this device",
                                        "is the none value",
                                        "cannot be replaced by",
                                        "which are not known to be equal",
                                        "is no node of the graph",
                                        "changes nothing that is there",
                                        "f32 and f64",
                                        "dt_item is for programs"};
  for (way = 0; way < 8; way++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.replacement = bad;
    memset(logged, 0, sizeof(logged));
    expect_ok(dt_log_configure("passes"));
    dt_log_sink_set(keep_line, NULL);
    assert_int_equal(matches(f, &made, swish_of_sum, 2), 0);
    dt_log_sink_set(NULL, NULL);
    expect_ok(dt_log_configure(NULL));
    if (!strstr(logged, "pattern p at traced: left %") || !strstr(logged, reasons[way]))
      fail_msg("\"%s\" is not in: %s", reasons[way], logged);
  }
}

// A constant that a failing replacement made is gone with it; the next one makes it anew.
static dt_status_t with_one(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  dt_value_t x = way ? dt_neg(t, dt_neg(t, in[0])) : in[0]; // the constant's node is another
  dt_value_t one = dt_constant(t, "one", closure), again = dt_constant(t, "one", closure);
  (void)m;
  assert_int_equal(one.id, again.id);
  out[0] = dt_mul(t, dt_silu(t, x), dt_mul(t, one, again));
  if (way++ == 0)
    dt_trace_fail(t, DT_E_UNSUPPORTED, "not the first one");
  return NULL;
}
static dt_status_t swish_of_swish(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_status_t status = swish(t, in, out, closure);
  return status ? status : swish(t, out, out, closure);
}

static void test_constants_of_failing_replacements(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *one = tensor_full(1, 0, NULL);
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  made.replacement = with_one;
  made.closure = one;
  way = 0;
  assert_int_equal(matches(f, &made, swish_of_swish, 2), 1);
  assert_int_equal(way, 2);
  RELEASE(one);
}

// A tree of sums fits in very many orders, none of which the check wants: the search ends.
static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t v[32];
  (void)closure;
  for (int k = 0; k < 32; k++)
    v[k] = closure ? dt_mul(t, in[0], dt_scalar(t, DT_F32, k)) : in[k];
  for (int n = 32; n > 1; n /= 2)
    for (int k = 0; k < n / 2; k++)
      v[k] = dt_add(t, v[2 * k], v[2 * k + 1]);
  out[0] = v[0];
  return NULL;
}

static void test_many_orders(void **state) {
  fixture_t *f = *state;
  dt_wildcard_t wildcards[32];
  char names[32][16];
  static int any;
  for (int k = 0; k < 32; k++) {
    (void)snprintf(names[k], sizeof(names[k]), "x%d", k);
    wildcards[k] = (dt_wildcard_t){.name = names[k]};
  }
  made_t made = {sums,
                 as_silu,
                 refuse,
                 NULL,
                 {.point = DT_POINT_TRACED, .n_wildcards = 32, .wildcards = wildcards}};
  dt_pattern_t *pattern = add_pattern(f, &made);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  asked = 0;
  same_answers(f, sums, &any, 1, &input, 1, &x, "-p");
  assert_true(asked > 1 && asked < 100);
  RELEASE(x);
  drop_pattern(f, pattern, "p");
}

// Nodes that are made to look, or put in, are not the program's: its budget does not count them.
static void test_budgets(void **state) {
  (void)state;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1, .max_nodes = 3};
  fixture_t f = {.runtime = NULL};
  expect_ok(dt_runtime_create(&options, &f.runtime));
  f.session = session_of(f.runtime);
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(&f, &made, swish, 2), 1);
  fixture_end(&f);
}

// ---- Bodies, order, choice ----------------------------------------------------------------------
static dt_status_t other_body(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}
static dt_status_t branches(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t pred = dt_gt(t, dt_sum(t, in[0], 0, NULL, false), dt_scalar(t, DT_F32, -100));
  dt_cond(t, pred, swish, other_body, NULL, 1, in, 1, out);
  out[0] = dt_mul(t, out[0], dt_sigmoid(t, out[0]));
  return NULL;
}

static void test_bodies(void **state) {
  fixture_t *f = *state;
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(f, &made, branches, 1), 2);
}

static char ran[64];
static dt_status_t note_pass(dt_rewriter_t *r, void *closure) {
  (void)r;
  (void)strcat(ran, closure);
  return NULL;
}
static dt_status_t note_and(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  (void)strcat(ran, closure);
  return as_silu(m, t, in, out, NULL);
}
static const char *note_not(dt_match_t *m, void *closure) {
  (void)m;
  (void)strcat(ran, closure);
  return "go on";
}

// Patterns stand behind passes, and are tried by priority, then as added; the first one is enough.
static void test_order(void **state) {
  fixture_t *f = *state;
  static char names[][2] = {"a", "b", "c", "d"};
  static const int32_t priorities[] = {9, 5, -7, 5};
  dt_pattern_t *patterns[4];
  for (size_t k = 0; k < 4; k++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.options.name = names[k];
    made.options.priority = priorities[k];
    made.closure = names[k];
    made.replacement = note_and;
    made.check = k == 2 ? note_not : NULL;
    patterns[k] = add_pattern(f, &made);
  }
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "z", .priority = 99};
  expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note_pass, "z", &pass));
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  same_answers(f, swish, NULL, 1, &input, 1, &x, "-a,-b,-c,-d,-z");
  assert_string_equal(ran, "zcb");
  for (size_t k = 0; k < 4; k++)
    drop_pattern(f, patterns[k], names[k]);
  expect_ok(dt_runtime_remove_pass(f->runtime, "z"));
  RELEASE(x);
}

static uint32_t freed;
static void count_free(void *closure) {
  (void)closure;
  freed++;
}

static void test_shares_and_keys(void **state) {
  fixture_t *f = *state;
  freed = 0;
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  made.options.on_demand = true;
  made.options.closure_free = count_free;
  dt_pattern_t *pattern = add_pattern(f, &made);
  expect_told(dt_runtime_add_pattern(f->runtime, pattern), DT_E_ARGUMENT, "has a pass \"p\"");
  expect_told(dt_runtime_add_pattern(NULL, pattern), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_runtime_add_pattern(f->runtime, NULL), DT_E_ARGUMENT, "pattern: NULL");
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  static const char *const chosen[] = {"", "p"};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *out = NULL;
    dt_function_t *function = make(f, swish, NULL, 1, &input, 1, chosen[k]);
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    assert_int_equal(dt_pattern_count(pattern), k);
    RELEASE(out);
    dt_function_release(function);
  }
  RELEASE(x);
  drop_pattern(f, pattern, "p");
  assert_int_equal(freed, 1);
  // Another identity is another key.
  dt_text_t keys[3];
  static const char *const identities[] = {NULL, "p 2", "p 3"};
  dt_hooks_t *none = NULL;
  expect_ok(dt__hooks_create(&none));
  for (size_t k = 0; k < 3; k++) {
    dt_hooks_t *hooks = NULL;
    made.options.identity = identities[k];
    expect_ok(try_make(&made, &pattern));
    const dt_pass_options_t options = dt__pattern_options(pattern);
    expect_ok(dt__hooks_add_pattern(none, pattern, &options, NULL, &hooks));
    dt_pattern_release(pattern);
    dt__text_init(&keys[k]);
    dt__hooks_key(hooks, &keys[k]);
    dt__hooks_release(hooks);
    for (size_t i = 0; i < k; i++)
      assert_string_not_equal(dt__text_str(&keys[i]), dt__text_str(&keys[k]));
  }
  for (size_t k = 0; k < 3; k++)
    dt__text_fini(&keys[k]);
  dt__hooks_release(none);
  assert_int_equal(freed, 4);
}

// ---- Threads ------------------------------------------------------------------------------------
#define ROUNDS 6
static void *compile_some(void *runtime) {
  fixture_t f = {.runtime = runtime, .session = session_of(runtime)};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  for (int k = 0; k < ROUNDS; k++) {
    dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
    dt_function_t *function = make(&f, swish, NULL, 1, &input, 1, NULL);
    expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
    RELEASE(x, out);
    dt_function_release(function);
  }
  dt_session_destroy(f.session);
  return NULL;
}

// Two runtimes share the pattern; three threads compile.
static void test_threads(void **state) {
  fixture_t *f = *state, other = fixture_on(DT_CPU, 1);
  pthread_t threads[3];
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  dt_pattern_t *pattern = add_pattern(f, &made);
  expect_ok(dt_runtime_add_pattern(other.runtime, pattern));
  for (int k = 0; k < 3; k++)
    assert_int_equal(
        pthread_create(&threads[k], NULL, compile_some, k < 2 ? f->runtime : other.runtime), 0);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  assert_int_equal(dt_pattern_count(pattern), 3 * ROUNDS);
  drop_pattern(f, pattern, "p");
  fixture_end(&other);
}

RUN_TESTS(TEST_WITH(test_checks, setup, fixture_close),
          TEST_WITH(test_failing_replacements, setup, fixture_close),
          TEST_WITH(test_constants_of_failing_replacements, setup, fixture_close),
          TEST_WITH(test_many_orders, setup, fixture_close), TEST(test_budgets),
          TEST_WITH(test_bodies, setup, fixture_close), TEST_WITH(test_order, setup, fixture_close),
          TEST_WITH(test_shares_and_keys, setup, fixture_close),
          TEST_WITH(test_threads, setup, fixture_close))
