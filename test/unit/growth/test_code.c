// SPDX-License-Identifier: Apache-2.0
// Code generation grows no faster than a program: the host program and all other units, in basic
// blocks that are run of our own code, and in memory of our arenas. What LLVM takes is its own.
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "runtime/base/memory.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"
#include "test/unit/growth/growth.h"

#include <inttypes.h>

// Of the host program, whose functions and tables are gone when it is made.
#define MOST_NODE_BYTES 4e3
// Of a whole compile of so many nodes.
#define BUDGET_NODE_BYTES 40e3
#define NODES 1600

typedef struct costs_t {
  uint32_t nodes, units;
  double host_blocks, host_bytes; // a node
  double blocks;                  // a node, of all other units
  double bytes;                   // of the largest of them
} costs_t;

typedef struct made_t {
  dt_arena_t parsed, arena;
  dt_symenv_t *env;
  dt_watch_t watch;
  dt_target_t target;
  dt_program_t *program;
  dt_unit_map_t map;
} made_t;

static void make(put_fn_t put, uint32_t n, uint64_t max_bytes, made_t *made, uint32_t *out_nodes) {
  const dt_watch_limits_t limits = {.max_bytes = max_bytes};
  *made = (made_t){0};
  dt__watch_init(&made->watch, &limits);
  dt__arena_init(&made->parsed, 0);
  dt__arena_init(&made->arena, 0);
  made->arena.watch = &made->watch;
  dt_graph_t *graph = make_graph(put, n, &made->parsed, &made->env, out_nodes);
  expect_ok(dt__host_target("x86-64-v3", 2, &made->target));
  expect_ok(dt__pipeline_run(&made->arena, made->env, graph,
                             &(dt_pipeline_request_t){.target = &made->target}, &made->program));
  expect_ok(dt__llvm_split(made->program, &made->target, 2, DT_UNIT_WORK, &made->map));
}

static void end(made_t *made) {
  dt__symenv_destroy(made->env);
  dt__arena_fini(&made->arena);
  dt__arena_fini(&made->parsed);
}

static void measure(put_fn_t put, uint32_t n, costs_t *out) {
  made_t made;
  *out = (costs_t){0};
  make(put, n, 0, &made, &out->nodes);
  out->units = made.map.n_units;
  for (uint32_t k = 0; k < made.map.n_units; k++) {
    void *object = NULL;
    size_t size = 0;
    uint64_t begun = blocks_run;
    uint64_t held = made.watch.most = made.watch.bytes;
    const dt_compile_options_t quick = {.quick = true};
    expect_ok(
        dt__llvm_compile_unit(made.program, &made.map, k, &made.target, &quick, &object, &size));
    dt__free(object);
    double blocks = (double)(blocks_run - begun) / out->nodes;
    double bytes = (double)(made.watch.most - held);
    assert_int_equal(made.watch.bytes, held);
    if (k + 1 == made.map.n_units) {
      out->host_blocks = blocks;
      out->host_bytes = bytes / out->nodes;
    } else {
      out->blocks += blocks;
      out->bytes = bytes > out->bytes ? bytes : out->bytes;
    }
  }
  end(&made);
}

static void expect_linear(const char *what, put_fn_t put, uint32_t n) {
  costs_t small, large;
  measure(put, n, &small);
  measure(put, n * SIZES, &large);
  if (large.host_blocks > MOST_GROWTH * small.host_blocks)
    fail_msg("%s, the host program: %.0f blocks a node for %u nodes, %.0f for %u", what,
             small.host_blocks, small.nodes, large.host_blocks, large.nodes);
  if (large.host_bytes > MOST_NODE_BYTES || large.host_bytes > MOST_GROWTH * small.host_bytes)
    fail_msg("%s, the host program: %.0f bytes a node for %u nodes, %.0f for %u", what,
             small.host_bytes, small.nodes, large.host_bytes, large.nodes);
  if (large.blocks > MOST_GROWTH * small.blocks)
    fail_msg("%s, %u units: %.0f blocks a node for %u nodes, %.0f for %u units, %u nodes", what,
             small.units, small.blocks, small.nodes, large.blocks, large.units, large.nodes);
}

static void test_layers(void **state) {
  (void)state;
  expect_linear("layers", put_layers, 60);
}

static void test_gathers(void **state) {
  (void)state;
  expect_linear("gathers", put_gathers, 100);
}

static void test_branches(void **state) {
  (void)state;
  expect_linear("branches", put_branches, 50);
}

static void test_loops(void **state) {
  (void)state;
  expect_linear("loops", put_loops, 30);
}

static void test_unequal(void **state) {
  (void)state;
  expect_linear("unequal kernels", put_unequal, 20);
}

// Kernel units of a split for `threads`, and the basic blocks of the largest and of all of them.
typedef struct shares_t {
  uint32_t units;
  uint64_t most, all;
} shares_t;

static shares_t share_products(uint32_t threads) {
  made_t made;
  uint32_t nodes = 0;
  make(put_products, 40, 0, &made, &nodes);
  expect_ok(dt__llvm_split(made.program, &made.target, threads + 1, DT_UNIT_WORK, &made.map));
  shares_t shares = {.units = made.map.n_units - 1};
  for (uint32_t k = 0; k < shares.units; k++) {
    void *object = NULL;
    size_t size = 0;
    uint64_t begun = blocks_run;
    const dt_compile_options_t quick = {.quick = true};
    expect_ok(
        dt__llvm_compile_unit(made.program, &made.map, k, &made.target, &quick, &object, &size));
    dt__free(object);
    uint64_t own = blocks_run - begun;
    shares.all += own;
    shares.most = own > shares.most ? own : shares.most;
  }
  end(&made);
  return shares;
}

// Products share their micro-kernels, but not so that one thread has nearly all of them.
static void test_products_are_shared(void **state) {
  (void)state;
  shares_t eight = share_products(8);
  if (2 * eight.most > eight.all)
    fail_msg("%u units, %" PRIu64 " blocks, %" PRIu64 " of them in one", eight.units, eight.all,
             eight.most);
  assert_true(eight.units >= 4);
}

// What the arenas hold and what LLVM is thought to take beside them fit into a budget of so much a
// node; so does what is made.
static void test_budget(void **state) {
  (void)state;
  made_t made;
  uint32_t nodes = 0;
  make(put_layers, (NODES + 6) / 7, (uint64_t)(BUDGET_NODE_BYTES * NODES), &made, &nodes);
  uint32_t host = made.map.n_units - 1;
  uint64_t bytes = dt__llvm_unit_bytes(made.program, &made.map, host);
  assert_true(dt__watch_take(&made.watch, bytes));
  void *object = NULL;
  size_t size = 0;
  expect_ok(
      dt__llvm_compile_unit(made.program, &made.map, host, &made.target, NULL, &object, &size));
  dt__free(object);
  dt__watch_give(&made.watch, bytes);
  end(&made);
}

RUN_TESTS(TEST(test_products_are_shared), TEST(test_layers), TEST(test_gathers),
          TEST(test_branches), TEST(test_loops), TEST(test_unequal), TEST(test_budget))
