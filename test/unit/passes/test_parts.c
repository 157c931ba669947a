// SPDX-License-Identifier: Apache-2.0
// Sizes that are multiples of a number are that number times their part, in sizes, strides and
// attributes; others stay, and nothing is done twice.
#include "lower/passes/passes.h"
#include "test/support/graph_fixture.h"

#include <string.h>

static const char before[] =
    "graph (s0: [0, 96] hint 24, s1: [0, 99]) {\n"
    "  %1 = input \"x\" f32[s0, s1] strides [s1, 1] contiguous\n"
    "  %2 = input \"y\" f32[s1, s0] strides [s0, 1] contiguous\n"
    "  %3 = slice %1 {syms = [0, s0//2, 0, s1//2], steps = [1, 1]} : f32[s0//2, s1//2]\n"
    "  %4 = reshape %2 {syms = [s1, s0//6, 6]} : f32[s1, s0//6, 6]\n"
    "  %5 = reshape %4 {syms = [s1, s0]} : f32[s1, s0]\n"
    "  %6 = size {syms = [s0//5]} : i64[]\n"
    "  return %3, %5, %6\n}\n";

static const char after[] =
    "graph (s0: [0, 96] hint 24, s1: [0, 99], s2: [0, 8] hint 2) {\n"
    "  %1 = input \"x\" f32[s2*12, s1] strides [s1, 1] contiguous\n"
    "  %2 = input \"y\" f32[s1, s2*12] strides [s2*12, 1] contiguous\n"
    "  %3 = slice %1 {syms = [0, s2*6, 0, s1//2], steps = [1, 1]} : f32[s2*6, s1//2]\n"
    "  %4 = reshape %2 {syms = [s1, s2*2, 6]} : f32[s1, s2*2, 6]\n"
    "  %5 = reshape %4 {syms = [s1, s2*12]} : f32[s1, s2*12]\n"
    "  %6 = size {syms = [(s2*12)//5]} : i64[]\n"
    "  return %3, %5, %6\n}\n";

static void expect_text(const dt_graph_t *graph, const char *want) {
  dt_text_t text;
  dt__text_init(&text);
  dt__graph_print(graph, &text);
  assert_string_equal(dt__text_str(&text), want);
  dt__text_fini(&text);
}

static void test_parts(void **state) {
  (void)state;
  for (int known = 0; known < 2; known++) {
    dt_arena_t arena;
    dt_symenv_t *env;
    dt_graph_t *graph;
    const dt_graph_t *made, *again;
    dt_scan_t scan;
    dt__arena_init(&arena, 0);
    expect_ok(dt__symenv_create(&env));
    dt__scan_init(&scan, before, strlen(before), "before");
    expect_ok(dt__graph_parse(&arena, env, &scan, &graph));
    dt_sym_t s0 = dt__symbol_sym(env, 0), divisors[2] = {dt__sym_const(env, 4), {0}};
    divisors[1] = dt__sym_const(env, 6);
    for (int k = 0; known && k < 2; k++)
      expect_ok(dt__sym_learn(
          env, dt__sym_eq(env, dt__sym_mod(env, s0, divisors[k]), dt__sym_const(env, 0))));
    dt__symenv_freeze(env);
    expect_ok(dt__pass_parts(&arena, graph, &made));
    expect_ok(dt__graph_verify(made));
    assert_true((made == graph) == !known);
    expect_text(made, known ? after : before);
    expect_ok(dt__pass_parts(&arena, made, &again));
    assert_ptr_equal(again, made);
    assert_int_equal(graph->inputs.items[0].sizes[0].id, s0.id); // passes share it
    assert_int_equal(graph->nodes.items[0].sizes[0].id, s0.id);
    dt__symenv_destroy(env);
    dt__arena_fini(&arena);
  }
}

RUN_TESTS(TEST(test_parts))
