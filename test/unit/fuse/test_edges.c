// SPDX-License-Identifier: Apache-2.0
// What must come after what, on hand-written programs: data that is handed on, memory that is used
// again, arguments that are updated, and no edge that follows from others.
#include "fuse/edges.h"
#include "fuse/fuse.h"
#include "test/support/graph_fixture.h"

#include <stdio.h>
#include <string.h>

#define MAP(from, to)                                                                              \
  "outer i1 < s0 {\n stage { v0 = load f32 " from "[i1] store " to "[i1] = v0 }\n}\n"
#define ADD(a, b, to)                                                                              \
  "outer i1 < s0 {\n stage { v0 = load f32 " a "[i1] v1 = load f32 " b "[i1] v2 = add f32 v0, v1 " \
  "store " to "[i1] = v2 }\n}\n"

typedef struct found_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_edges_t edges;
  bool is_chain;
  size_t bytes; // that finding them took
} found_t;

static void find(const char *text, found_t *out) {
  static const dt_target_t target = {.vector_bytes = 32};
  dt_program_t *program = NULL;
  dt_scan_t scan;
  dt__arena_init(&out->arena, 0);
  expect_ok(dt__symenv_create(&out->env));
  dt__scan_init(&scan, text, strlen(text), "program");
  expect_ok(dt__program_parse(&out->arena, out->env, &scan, &program));
  expect_ok(dt__fuse_plan(program, &target));
  out->bytes = out->arena.total_bytes;
  expect_ok(dt__program_edges(program, &out->edges, &out->is_chain));
  out->bytes = out->arena.total_bytes - out->bytes;
}

static void drop(found_t *found) {
  dt__symenv_destroy(found->env);
  dt__arena_fini(&found->arena);
}

// `kernels` over one input b1, temporaries b2 to b5 and results b6 and b7; the edges as "0>2 1>2".
static void check(const char *kernels, const char *expected, bool chain) {
  char text[4096], got[256] = "";
  found_t found;
  (void)snprintf(text, sizeof(text),
                 "program {\nsymbol s0: [0, 99]\n"
                 "buffer b1 = input 0 f32[s0] strides [1]\n"
                 "buffer b2 = temp f32[s0]\nbuffer b3 = temp f32[s0]\nbuffer b4 = temp f32[s0]\n"
                 "buffer b5 = temp f32[s0]\n"
                 "buffer b6 = output 0 f32[s0]\nbuffer b7 = output 1 f32[s0]\n"
                 "%soutputs b6, b7\n}\n",
                 kernels);
  find(text, &found);
  for (uint32_t k = 0; k < found.edges.len; k++) {
    size_t at = strlen(got);
    (void)snprintf(got + at, sizeof(got) - at, "%s%u>%u", k ? " " : "", found.edges.items[k].from,
                   found.edges.items[k].to);
  }
  assert_string_equal(got, expected);
  assert_int_equal(found.is_chain, chain);
  drop(&found);
}

static void a_chain_is_one(void **state) {
  (void)state;
  check("kernel \"a\" " MAP("b1", "b2") "kernel \"b\" " MAP("b2", "b6") "kernel \"c\" " ADD(
            "b6", "b2", "b7"),
        "0>1 1>2", true);
}

static void branches_meet_where_they_are_joined(void **state) {
  (void)state;
  check("kernel \"a\" " MAP("b1", "b2") "kernel \"b\" " MAP("b1", "b3") "kernel \"c\" " ADD(
            "b2", "b3", "b6") "kernel \"d\" " MAP("b1", "b7"),
        "1>2 0>2", false);
}

static void nothing_follows_twice(void **state) {
  (void)state;
  // d reads what a and c made; that it is behind a follows from its being behind c.
  check("kernel \"a\" " MAP("b1", "b2") "kernel \"b\" " MAP("b1", "b6") "kernel \"c\" " MAP(
            "b2", "b3") "kernel \"d\" " ADD("b2", "b3", "b7"),
        "0>2 2>3", false);
}

static void memory_that_is_used_again_orders(void **state) {
  (void)state;
  // b3 takes b2's place only once b has read it, and not in place: c is behind b by that alone.
  check("kernel \"a\" " MAP("b1", "b2") "kernel \"b\" " MAP("b2", "b6") "kernel \"c\" " MAP(
            "b1", "b3") "kernel \"d\" " MAP("b3", "b7"),
        "0>1 1>2 2>3", true);
}

static void updates_of_arguments_order(void **state) {
  (void)state;
  check("kernel \"a\" " MAP("b1", "b6") "kernel \"b\" " MAP("b1", "b7") "kernel \"c\" " MAP("b6",
                                                                                            "b1"),
        "1>2 0>2", false);
}

// Launch k reads what launch k - 1 made and, but for the first, what launch k - 2 made: that
// follows everywhere, and takes no more memory a launch than a shorter program's.
static void a_long_chain_is_one(void **state) {
  (void)state;
  const uint32_t n = 3 * DT_EDGES_WINDOW;
  dt_text_t text;
  found_t found;
  dt__text_init(&text);
  dt__text_put(&text, "program {\nsymbol s0: [0, 99]\nbuffer b1 = input 0 f32[s0] strides [1]\n");
  for (uint32_t k = 0; k < n; k++)
    dt__text_printf(&text, "buffer b%u = temp f32[s0]\n", k + 2);
  dt__text_printf(&text, "buffer b%u = output 0 f32[s0]\n", n + 2);
  for (uint32_t k = 0; k <= n; k++)
    dt__text_printf(&text,
                    "kernel \"k\" outer i1 < s0 {\n stage { v0 = load f32 b%u[i1] "
                    "v1 = load f32 b%u[i1] v2 = add f32 v0, v1 store b%u[i1] = v2 }\n}\n",
                    k + 1, k ? k : 1, k + 2);
  dt__text_printf(&text, "outputs b%u\n}\n", n + 2);
  find(dt__text_str(&text), &found);
  assert_int_equal(found.edges.len, n);
  assert_true(found.is_chain);
  assert_true(found.bytes < (size_t)n * (DT_EDGES_WINDOW / 8 + 256));
  drop(&found);
  dt__text_fini(&text);
}

RUN_TESTS(TEST(a_chain_is_one), TEST(branches_meet_where_they_are_joined),
          TEST(nothing_follows_twice), TEST(memory_that_is_used_again_orders),
          TEST(updates_of_arguments_order), TEST(a_long_chain_is_one))
