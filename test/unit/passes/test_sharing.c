// SPDX-License-Identifier: Apache-2.0
// Common subexpressions and dead nodes; declarations, asserts and the order of outputs through
// passes.
#include "lower/passes/passes.h"
#include "test/support/graph_fixture.h"

#include <string.h>

// Runs the pass; checks the text, and that a second run changes nothing.
static void check(dt_graph_pass_fn_t pass, const char *before, const char *after) {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  const dt_graph_t *made, *again;
  dt_scan_t scan;
  dt_text_t text;
  dt__arena_init(&arena, 0);
  dt__text_init(&text);
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, before, strlen(before), "before");
  expect_ok(dt__graph_parse(&arena, env, &scan, &graph));
  dt__symenv_freeze(env);
  expect_ok(pass(&arena, graph, &made));
  expect_ok(dt__graph_verify(made));
  assert_true((made == graph) == (strcmp(before, after) == 0));
  dt__graph_print(made, &text);
  if (strcmp(after, dt__text_str(&text)) != 0) {
    print_error("expected\n%s\ngot\n%s\n", after, dt__text_str(&text));
    fail();
  }
  expect_ok(pass(&arena, made, &again));
  assert_ptr_equal(again, made);
  dt__text_fini(&text);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

#define HEAD "graph (s0: [0, 99]) {\n" LEAVES
#define LEAVES                                                                                     \
  "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"                                            \
  "  %2 = input \"y\" f32[s0] strides [1] contiguous\n"

static void test_cse(void **state) {
  (void)state;
  // In any order where the op commutes, and transitively; sub does not commute.
  check(dt__pass_cse,
        HEAD "  %3 = add %1, %2 : f32[s0]\n"
             "  %4 = add %2, %1 : f32[s0]\n"
             "  %5 = exp %3 : f32[s0]\n"
             "  %6 = exp %4 : f32[s0]\n"
             "  %7 = sub %5, %1 : f32[s0]\n"
             "  %8 = sub %1, %6 : f32[s0]\n"
             "  return %7, %8, %6\n}\n",
        HEAD "  %3 = add %1, %2 : f32[s0]\n"
             "  %4 = exp %3 : f32[s0]\n"
             "  %5 = sub %4, %1 : f32[s0]\n"
             "  %6 = sub %1, %4 : f32[s0]\n"
             "  return %5, %6, %4\n}\n");
  // Attributes count, and so do the signs of zeros.
#define DIFFERENT                                                                                  \
  HEAD "  %3 = sum %1 {axes = [0], keepdims = 0} : f32[]\n"                                        \
       "  %4 = sum %1 {axes = [0], keepdims = 1} : f32[1]\n"                                       \
       "  %5 = scalar {dtype = f32, value = 0} : f32[]\n"                                          \
       "  %6 = scalar {dtype = f32, value = -0} : f32[]\n"                                         \
       "  %7 = scalar {dtype = f64, value = 0} : f64[]\n"                                          \
       "  %8 = cast %1 {dtype = i32} : i32[s0]\n"                                                  \
       "  %9 = cast %1 {dtype = i64} : i64[s0]\n"                                                  \
       "  return %3, %4, %5, %6, %7, %8, %9\n}\n"
  check(dt__pass_cse, DIFFERENT, DIFFERENT);
}

static void test_dce(void **state) {
  (void)state;
  check(dt__pass_dce,
        HEAD "  %3 = constant \"c\" f32[1] key 5 data [1]\n"
             "  %4 = exp %1 : f32[s0]\n"
             "  %5 = exp %4 : f32[s0]\n"
             "  %6 = neg %1 : f32[s0]\n"
             "  assert s0 <= 50 \"few\"\n"
             "  return %6, %1\n}\n",
        // The second input keeps its node, the constant its number.
        "graph (s0: [0, 99]) {\n"
        "  assert s0 <= 50 \"few\"\n" LEAVES "  %3 = neg %1 : f32[s0]\n"
        "  constant \"c\" f32[1] key 5 data [1]\n"
        "  return %3, %1\n}\n");
}

static void test_decompose(void **state) {
  (void)state;
  check(dt__pass_decompose,
        HEAD "  %3 = relu %1 : f32[s0]\n"
             "  %4 = mean %3 {axes = [0], keepdims = 0} : f32[]\n"
             "  return %4\n}\n",
        HEAD "  %3 = scalar {dtype = f32, value = 0} : f32[]\n"
             "  %4 = reshape %3 {syms = [1]} : f32[1]\n"
             "  %5 = expand %4 {syms = [s0]} : f32[s0]\n"
             "  %6 = maximum %1, %5 : f32[s0]\n"
             "  %7 = sum %6 {axes = [0], keepdims = 0} : f32[]\n"
             "  %8 = size {syms = [s0]} : i64[]\n"
             "  %9 = cast %8 {dtype = f32} : f32[]\n"
             "  %10 = div %7, %9 : f32[]\n"
             "  return %10\n}\n");
#define PLAIN HEAD "  %3 = exp %1 : f32[s0]\n  return %3\n}\n"
  check(dt__pass_decompose, PLAIN, PLAIN);
}

// What updates write lives, and is found again where it went; captures stay.
static void test_updates(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s = size_symbol(&f, 3);
  const dt_graph_t *made;
  dt_node_id_t x = input(&f, "x", DT_F32, 1, &s);
  (void)add(&f, DT_OP_exp, 1, &x, NULL); // dead
  dt_node_id_t value = add(&f, DT_OP_relu, 1, &x, NULL);
  assert_true(DT_VEC_PUSH(&f.arena, &f.graph->updates, ((dt_graph_update_t){0, value})));
  assert_true(DT_VEC_PUSH(&f.arena, &f.graph->captures, ((dt_graph_capture_t){"n", s})));
  expect_ok(dt__graph_add_output(f.graph, x));
  dt__symenv_freeze(f.env);
  expect_ok(dt__pass_decompose(&f.arena, f.graph, &made));
  expect_ok(dt__pass_fold(&f.arena, made, &made));
  expect_ok(dt__pass_cse(&f.arena, made, &made));
  expect_ok(dt__pass_dce(&f.arena, made, &made));
  assert_int_equal(made->updates.len, 1);
  const dt_node_t *written = dt__graph_node(made, made->updates.items[0].value);
  assert_int_equal(written->op, DT_OP_maximum);
  for (uint32_t k = 0; k < made->nodes.len; k++)
    assert_true(made->nodes.items[k].op != DT_OP_exp);
  assert_int_equal(made->captures.len, 1);
  assert_string_equal(made->captures.items[0].name, "n");
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_cse), TEST(test_dce), TEST(test_decompose), TEST(test_updates))
