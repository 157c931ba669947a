// SPDX-License-Identifier: Apache-2.0
// No stage of the pipeline grows faster than a graph: neither in work, counted as basic blocks that
// are run, nor in memory that the compile's arenas hold. Counts do not depend on the machine or its
// load.
#include "ductile/device.h"
#include "fuse/edges.h"
#include "fuse/target.h"
#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"
#include "test/unit/growth/growth.h"

#define MOST_STAGES 32
// What a node may hold at any one time, where a whole compile may take 40e3.
#define MOST_NODE_BYTES 30e3
#define NODES 1600 // of the graph that must fit into that, its parts of fixed size included

typedef struct costs_t {
  uint32_t n;
  const char *names[MOST_STAGES];
  double blocks[MOST_STAGES], bytes[MOST_STAGES]; // a node
  double most_bytes;                              // of all stages
  // While it is measured.
  dt_watch_t watch;
  uint32_t nodes;
  uint64_t begun;
} costs_t;

static void observe(void *user, const dt_stage_view_t *view) {
  costs_t *costs = user;
  if (costs->n == MOST_STAGES)
    return;
  costs->names[costs->n] = view->stage;
  costs->blocks[costs->n] = (double)(blocks_run - costs->begun) / costs->nodes;
  costs->bytes[costs->n++] = (double)costs->watch.bytes / costs->nodes;
  costs->begun = blocks_run;
}

// ---- Measuring ------------------------------------------------------------------------------------

static dt_target_t make_target(bool gpu) {
  dt_target_t target = {.device = gpu ? DT_CUDA : DT_CPU,
                        .vector_bytes = gpu ? 16 : 32,
                        .vector_registers = 16,
                        .fma = true,
                        .threads = gpu ? 128 : 2,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20,
                        .matmul_rows = {6, 6},
                        .matmul_width = {16, 8},
                        .repeated_cost = gpu ? 8 : 1};
  if (gpu) {
    target.queued = target.own_memory = target.entries = true;
    target.block_threads = 256;
    target.warp = 32;
    target.half_sums = 64;
    target.map_blocks = 128;
    target.busy_parts = 1 << 20;
    target.tile_bytes = 48 << 10;
    target.slab_unit = 256;
    target.slab_pad = 16;
    target.bundle_words = 192;
  }
  return target;
}

// What is asked of the program of a device when it is planned.
static void measure_edges(const dt_program_t *program, costs_t *out) {
  dt_edges_t edges;
  bool chain = false;
  expect_ok(dt__program_edges(program, &edges, &chain));
  observe(out, &(dt_stage_view_t){.stage = "edges"});
}

static void measure(put_fn_t put, uint32_t n, bool gpu, bool verify, uint64_t max_bytes,
                    costs_t *out) {
  const dt_watch_limits_t limits = {.max_bytes = max_bytes};
  dt_arena_t parsed, arena;
  dt_symenv_t *env = NULL;
  dt_program_t *program = NULL;
  dt_target_t target = make_target(gpu);
  *out = (costs_t){0};
  dt__watch_init(&out->watch, &limits);
  dt__arena_init(&parsed, 0);
  dt__arena_init(&arena, 0);
  arena.watch = &out->watch;
  dt_graph_t *graph = make_graph(put, n, &parsed, &env, &out->nodes);
  out->begun = blocks_run;
  expect_ok(
      dt__pipeline_run(&arena, env, graph,
                       &(dt_pipeline_request_t){
                           .target = &target, .verify = verify, .observe = observe, .user = out},
                       &program));
  if (gpu)
    measure_edges(program, out);
  out->most_bytes = (double)out->watch.most / out->nodes;
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  dt__arena_fini(&parsed);
  assert_int_equal(out->watch.bytes, 0);
}

// Whether the stage, or all of them, cost more a node in the large graph than growth admits.
static bool grew(double small, double large, uint32_t nodes) {
  return large * nodes > FEW_BLOCKS && large > MOST_GROWTH * small;
}

static void expect_linear(const char *what, put_fn_t put, uint32_t n, bool gpu, bool verify) {
  static costs_t small, large;
  uint32_t over = 0;
  measure(put, n, gpu, verify, 0, &small);
  measure(put, n * SIZES, gpu, verify, 0, &large);
  assert_int_equal(small.n, large.n);
  double bytes = large.most_bytes;
  for (uint32_t k = 0; k < small.n; k++) {
    if (!grew(small.blocks[k], large.blocks[k], large.nodes))
      continue;
    over++;
    print_error("%s, %s, %s: %.0f blocks a node for %u nodes, %.0f for %u\n", what,
                gpu ? "a GPU" : "a CPU", large.names[k], small.blocks[k], small.nodes,
                large.blocks[k], large.nodes);
  }
  for (uint32_t k = 0; bytes > MOST_NODE_BYTES && k < large.n; k++)
    print_error("%s: %.0f bytes a node (%.0f)\n", large.names[k], large.bytes[k], small.bytes[k]);
  if (bytes > MOST_NODE_BYTES)
    fail_msg("%s: %.0f bytes a node for %u nodes", what, bytes, large.nodes);
  assert_int_equal(over, 0);
}

static void expect_all(const char *what, put_fn_t put, uint32_t n) {
  expect_linear(what, put, n, false, false);
  expect_linear(what, put, n, true, false);
  expect_linear(what, put, n, false, true);
}

// The budget of a compile ends one that would hold more.
static void test_budget(void **state) {
  (void)state;
  static costs_t costs;
  measure(put_layers, (NODES + 6) / 7, false, false, (uint64_t)(MOST_NODE_BYTES * NODES), &costs);
  measure(put_layers, (NODES + 6) / 7, true, false, (uint64_t)(MOST_NODE_BYTES * NODES), &costs);
}

static void test_layers(void **state) {
  (void)state;
  expect_all("layers", put_layers, 60);
}

static void test_attention(void **state) {
  (void)state;
  expect_all("attention", put_attention, 40);
}

static void test_gathers(void **state) {
  (void)state;
  expect_all("gathers", put_gathers, 100);
}

static void test_branches(void **state) {
  (void)state;
  expect_all("branches", put_branches, 100);
}

static void test_loops(void **state) {
  (void)state;
  expect_all("loops", put_loops, 50);
}

RUN_TESTS(TEST(test_layers), TEST(test_attention), TEST(test_gathers), TEST(test_branches),
          TEST(test_loops), TEST(test_budget))
