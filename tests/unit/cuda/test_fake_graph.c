// SPDX-License-Identifier: Apache-2.0
// Graphs of the fake driver: what they do, what they refuse, and what their checkers find.
#include "tests/unit/cuda/ptx_fixture.h"

#define WAIT "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"
// p1[i] = p0[i] + p3, for 32 threads.
#define STEP                                                                                       \
  "mul.wide.u32 %d5, %r1, 4;\nadd.u64 %d3, %d0, %d5;\nadd.u64 %d4, %d1, %d5;\n"                    \
  "ld.global.u32 %r2, [%d3];\nadd.u32 %r2, %r2, %r0;\nst.global.u32 [%d4], %r2;\n"
#define SETTER ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
// The condition p2 becomes %r2.
#define SET                                                                                        \
  "{\n.param .b64 a;\n.param .b32 b;\nst.param.b64 [a], %d2;\nst.param.b32 [b], %r2;\n"            \
  "call.uni cudaGraphSetConditional, (a, b);\n}\n"
#define FIRST_THREAD "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra L;\n"
#define LOAD "ld.global.u32 %r2, [%d0];\n"
// The condition p2 becomes p0[0], by the first thread.
#define SET_LOADED FIRST_THREAD LOAD SET "L:\n"
// p0[0] -= p3, and the condition p2 becomes that.
#define TAKE "sub.u32 %r2, %r2, %r0;\nst.global.u32 [%d0], %r2;\n"
#define COUNT_DOWN FIRST_THREAD LOAD TAKE SET "L:\n"

enum { BYTES = 128 };
static const dt_cu_edge_t full = {0};
static const dt_cu_edge_t soon = {.from_port = DT_CU_PORT_PROGRAMMATIC,
                                  .type = DT_CU_EDGE_PROGRAMMATIC};

// ---- Helpers ------------------------------------------------------------------------------------
static void begin_again(uint64_t seed) {
  (void)leave(NULL);
  fake_cuda_reset(seed);
  assert_null(dt__cuda_open(library, &cuda));
  assert_null(dt__cuda_device_create(cuda, 0, &device));
  assert_null(dt__cuda_enter(device));
}

typedef struct args_t {
  dt_cu_ptr_t p0, p1, p2;
  uint32_t p3;
} args_t;

static dt_cu_result_t with_params(dt_cu_function_t function, args_t args, uint32_t grid,
                                  dt_cu_result_t (*use)(const dt_cu_kernel_node_t *, void *),
                                  void *user) {
  void *params[] = {&args.p0, &args.p1, &args.p2, &args.p3};
  dt_cu_kernel_node_t node = {
      .function = function, .grid = {grid, 1, 1}, .block = {32, 1, 1}, .params = params};
  dt_cu_result_t result = use(&node, user);
  memset(&args, 0xee, sizeof(args)); // they must have been copied
  return result;
}

typedef struct target_t {
  dt_cu_graph_t graph;
  dt_cu_graph_exec_t exec;
  dt_cu_node_t node;
} target_t;
static dt_cu_result_t use_add(const dt_cu_kernel_node_t *params, void *user) {
  target_t *t = user;
  return cuda->graph_add_kernel(&t->node, t->graph, NULL, 0, params);
}
static dt_cu_result_t use_set(const dt_cu_kernel_node_t *params, void *user) {
  const target_t *t = user;
  return cuda->graph_set_kernel(t->exec, t->node, params);
}

static dt_cu_node_t add(dt_cu_graph_t graph, dt_cu_function_t function, args_t args) {
  target_t t = {.graph = graph};
  OK(with_params(function, args, 1, use_add, &t));
  return t.node;
}
static dt_cu_result_t set(dt_cu_graph_exec_t exec, dt_cu_node_t node, dt_cu_function_t function,
                          args_t args, uint32_t grid) {
  target_t t = {.exec = exec, .node = node};
  return with_params(function, args, grid, use_set, &t);
}
static void link_as(dt_cu_graph_t graph, dt_cu_node_t from, dt_cu_node_t to, dt_cu_edge_t edge) {
  OK(cuda->graph_add_edges(graph, &from, &to, &edge, 1));
}

static dt_cu_graph_t new_graph(void) {
  dt_cu_graph_t graph = NULL;
  OK(cuda->graph_create(&graph, 0));
  return graph;
}
static dt_cu_graph_exec_t instantiate(dt_cu_graph_t graph) {
  dt_cu_graph_exec_t exec = NULL;
  OK(cuda->graph_instantiate(&exec, graph, 0));
  return exec;
}
static void run(dt_cu_graph_exec_t exec) { OK(cuda->graph_launch(exec, NULL)); }

static fake_graph_counts_t counts(void) {
  fake_graph_counts_t c;
  fake_cuda_graphs(&c);
  return c;
}

static uint32_t word(dt_cu_ptr_t from) {
  uint32_t value = 0;
  OK(cuda->copy_to_host(&value, from, sizeof(value), NULL));
  finish();
  return value;
}
static void write_word(dt_cu_ptr_t to, uint32_t value) {
  OK(cuda->copy_to_device(to, &value, sizeof(value), NULL));
}
static dt_cu_ptr_t zeros(size_t bytes) {
  dt_cu_ptr_t at = allocate(bytes);
  OK(cuda->fill_bytes(at, 0, bytes, NULL));
  return at;
}

// ---- What they do -------------------------------------------------------------------------------
// Three additions one after the other.
typedef struct chain_t {
  dt_cu_function_t step;
  dt_cu_ptr_t at[4];
  dt_cu_graph_t graph;
  dt_cu_node_t node[3];
} chain_t;

static chain_t make_chain(const char *body, dt_cu_edge_t edge) {
  chain_t c = {.step = load_body("", body), .graph = new_graph()};
  for (uint32_t k = 0; k < 4; k++)
    c.at[k] = zeros(BYTES);
  for (uint32_t k = 0; k < 3; k++)
    c.node[k] = add(c.graph, c.step, (args_t){c.at[k], c.at[k + 1], 0, 1u << k});
  link_as(c.graph, c.node[0], c.node[1], edge);
  link_as(c.graph, c.node[1], c.node[2], edge);
  return c;
}

static void a_graph_does_its_nodes(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_graph_exec_t exec = instantiate(c.graph);
  OK(cuda->graph_destroy(c.graph)); // the copy needs it no more
  OK(cuda->graph_upload(exec, NULL));
  run(exec);
  assert_int_equal(word(c.at[3]), 7);
  write_word(c.at[0], 100);
  run(exec);
  assert_int_equal(word(c.at[3]), 107);
  expect_none();
  fake_graph_counts_t now = counts();
  assert_int_equal(now.graphs, 1);
  assert_int_equal(now.instantiations, 1);
  assert_int_equal(now.launches, 2);
  assert_int_equal(now.uploads, 1);
  assert_int_equal(now.nodes_run, 6);
  assert_int_equal(now.ordered, 4);
  assert_int_equal(now.unordered + now.programmatic, 0);
  assert_int_equal(now.live, 1);
  uint32_t held = fake_cuda_held();
  OK(cuda->graph_exec_destroy(exec));
  assert_int_equal(fake_cuda_held(), held - 1);
  assert_int_equal(counts().live, 0);
}

static void executables_are_copies(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_graph_exec_t one = instantiate(c.graph), two = instantiate(c.graph);
  dt_cu_node_t late = add(c.graph, c.step, (args_t){c.at[0], c.at[3], 0, 64}); // in none of them
  OK(set(two, c.node[2], c.step, (args_t){c.at[2], c.at[3], 0, 32}, 1));
  assert_int_equal(set(two, late, c.step, (args_t){0}, 1), DT_CU_INVALID_VALUE);
  run(one);
  assert_int_equal(word(c.at[3]), 7);
  run(two);
  assert_int_equal(word(c.at[3]), 35);
  expect_none();
}

// A launch that is queued keeps what its kernels were.
static void launches_keep_what_was_set(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 8; seed++) {
    begin_again(seed);
    dt_cu_function_t step = load_body("", STEP);
    dt_cu_function_t twice =
        load_body("", STEP "add.u32 %r2, %r2, %r0;\nst.global.u32 [%d4], %r2;");
    dt_cu_ptr_t from = zeros(BYTES), to = zeros(8 * BYTES);
    dt_cu_graph_t graph = new_graph();
    dt_cu_node_t node = add(graph, step, (args_t){from, to, 0, 1});
    dt_cu_graph_exec_t exec = instantiate(graph);
    uint64_t before = fake_cuda_instructions();
    for (uint32_t k = 0; k < 8; k++) {
      OK(set(exec, node, k == 5 ? twice : step, (args_t){from, to + k * BYTES, 0, 10 + k}, 1));
      OK(cuda->graph_set_enabled(exec, node, k != 3));
      run(exec);
    }
    OK(cuda->graph_exec_destroy(exec)); // in flight
    assert_int_equal(fake_cuda_instructions(), before);
    assert_true(counts().bytes > 0);
    finish();
    assert_int_equal(counts().bytes, 0);
    for (uint32_t k = 0; k < 8; k++)
      assert_int_equal(word(to + k * BYTES), k == 3 ? 0 : k == 5 ? 30 : 10 + k);
    expect_none();
    assert_int_equal(counts().set_enabled, 8);
    assert_int_equal(counts().set_functions, 2);
    assert_int_equal(counts().set_arguments, 6);
  }
}

static void changes_are_told_apart(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_function_t other = load_body("", STEP);
  dt_cu_graph_exec_t exec = instantiate(c.graph);
  args_t args = {c.at[0], c.at[1], 0, 1};
  OK(set(exec, c.node[0], c.step, args, 1));
  OK(set(exec, c.node[0], c.step, args, 2));
  OK(set(exec, c.node[0], c.step, args, 2));
  OK(set(exec, c.node[0], other, args, 1));
  OK(set(exec, c.node[1], other, args, 1));
  fake_graph_counts_t now = counts();
  assert_int_equal(now.set_arguments, 2);
  assert_int_equal(now.set_grids, 1);
  assert_int_equal(now.set_functions, 2);
  expect_none();
  assert_int_equal(set(exec, c.node[0], c.step, args, 0), DT_CU_INVALID_VALUE);
  expect_violation("a launch that no device takes");
}

static uint32_t ran[3], n_ran;
static void note(const fake_launch_t *l, void *user) {
  (void)user;
  memcpy(&ran[n_ran++ % 3], l->param + 24, 4);
}

// Nodes without edges come in any order, over the seeds.
static void the_seed_chooses_among_orders(void **state) {
  (void)state;
  uint32_t seen = 0;
  for (uint64_t seed = 0; seed < 64; seed++) {
    begin_again(seed);
    fake_kernel_t kernel = {.run = note};
    fake_cuda_kernel("k", &kernel);
    dt_cu_function_t k = load_body("", "");
    dt_cu_graph_t graph = new_graph();
    for (uint32_t n = 0; n < 3; n++)
      (void)add(graph, k, (args_t){.p3 = n});
    n_ran = 0;
    run(instantiate(graph));
    finish();
    assert_int_equal(n_ran, 3);
    seen |= 1u << (ran[0] * 3 + ran[1]);
  }
  assert_int_equal(__builtin_popcount(seen), 6);
}

// ---- Order --------------------------------------------------------------------------------------

static void a_missing_edge_is_found(void **state) {
  (void)state;
  uint32_t wrong = 0;
  for (uint64_t seed = 0; seed < 16; seed++) {
    begin_again(seed);
    dt_cu_function_t step = load_body("", STEP);
    dt_cu_ptr_t a = zeros(BYTES), b = zeros(BYTES), c = zeros(BYTES);
    dt_cu_graph_t graph = new_graph();
    (void)add(graph, step, (args_t){a, b, 0, 1});
    (void)add(graph, step, (args_t){b, c, 0, 2});
    run(instantiate(graph));
    wrong += word(c) != 3;
    expect_violation("which no edges say has ended");
    assert_int_equal(counts().unordered, 1);
  }
  assert_true(wrong > 0 && wrong < 16);
}

static void programmatic_edges_are_proved(void **state) {
  (void)state;
  chain_t c = make_chain(WAIT STEP, soon);
  // Also what a node before the last one reads is written again.
  dt_cu_node_t back = add(c.graph, c.step, (args_t){c.at[3], c.at[0], 0, 8});
  link_as(c.graph, c.node[2], back, soon);
  run(instantiate(c.graph));
  assert_int_equal(word(c.at[0]), 15);
  expect_none();
  assert_int_equal(counts().programmatic, 3);
  assert_int_equal(counts().ordered, 4);
}

static void a_kernel_that_does_not_wait_is_found(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_node_t last = add(c.graph, c.step, (args_t){c.at[3], c.at[0], 0, 8});
  link_as(c.graph, c.node[2], last, soon);
  run(instantiate(c.graph));
  finish();
  expect_violation("of global memory before griddepcontrol.wait");
}

// Kernels of host functions, whose text alone says whether they wait: nothing stops them where they
// do not, so that the pairs must tell.
static uint32_t touch(const fake_launch_t *l, fake_access_t *out, uint32_t cap, void *user) {
  uint64_t p[2];
  (void)cap, (void)user;
  memcpy(p, l->param, sizeof(p));
  out[0] = (fake_access_t){.begin = p[0], .bytes = BYTES};
  out[1] = (fake_access_t){.begin = p[1], .bytes = BYTES, .write = true};
  return 2;
}

typedef struct step_t {
  bool waits, disabled;
  uint32_t from, to; // places of BYTES
} step_t;
typedef struct arrow_t {
  uint32_t from, to;
  bool soon;
} arrow_t;

static void try_graph(const step_t *steps, uint32_t n, const arrow_t *arrows, uint32_t n_arrows,
                      uint64_t unordered) {
  for (uint64_t seed = 0; seed < 6; seed++) {
    begin_again(seed);
    fake_kernel_t kernel = {.accesses = touch};
    fake_cuda_kernel("k", &kernel);
    dt_cu_function_t texts[2] = {load_body("", ""), load_body("", WAIT)};
    dt_cu_ptr_t a = allocate(16 * BYTES);
    dt_cu_graph_t graph = new_graph();
    dt_cu_node_t nodes[8];
    for (uint32_t k = 0; k < n; k++)
      nodes[k] = add(graph, texts[steps[k].waits],
                     (args_t){a + steps[k].from * BYTES, a + steps[k].to * BYTES, 0, 0});
    for (uint32_t k = 0; k < n_arrows; k++)
      link_as(graph, nodes[arrows[k].from], nodes[arrows[k].to], arrows[k].soon ? soon : full);
    dt_cu_graph_exec_t exec = instantiate(graph);
    for (uint32_t k = 0; k < n; k++)
      if (steps[k].disabled)
        OK(cuda->graph_set_enabled(exec, nodes[k], 0));
    run(exec);
    finish();
    assert_int_equal(counts().unordered, unordered);
    assert_int_equal(fake_cuda_violations(NULL), unordered);
  }
}
#define STEPS(...) (const step_t[]){__VA_ARGS__}, sizeof((step_t[]){__VA_ARGS__}) / sizeof(step_t)
#define ARROWS(...)                                                                                \
  (const arrow_t[]){__VA_ARGS__}, sizeof((arrow_t[]){__VA_ARGS__}) / sizeof(arrow_t)

static void pairs_tell_what_is_lost(void **state) {
  (void)state;
  const step_t ab = {true, false, 0, 1}, bc = {true, false, 1, 2}, ca = {true, false, 2, 0};
  const step_t apart = {true, false, 8, 9}, deaf_bc = {false, false, 1, 2};
  const step_t deaf_apart = {false, false, 8, 9};
  // Full edges order all that is before, whatever comes between; reads alone are no conflict.
  try_graph(STEPS(ab, bc, ca), ARROWS({0, 1, false}, {1, 2, false}), 0);
  try_graph(STEPS(ab, deaf_apart, ca), ARROWS({0, 1, false}, {1, 2, false}), 0);
  try_graph(STEPS(ab, {true, false, 0, 2}, {true, false, 0, 3}), ARROWS({0, 1, false}), 0);
  // Two branches, which only their end sees both of.
  try_graph(STEPS(ab, {true, false, 1, 2}, {true, false, 1, 3}, {true, false, 2, 3}),
            ARROWS({0, 1, false}, {0, 2, false}, {1, 3, false}, {2, 3, false}), 0);
  try_graph(STEPS(ab, {true, false, 1, 2}, {true, false, 1, 3}, {true, false, 2, 3}),
            ARROWS({0, 1, false}, {0, 2, false}, {1, 3, false}), 1);
  // Programmatic ones, if all wait.
  try_graph(STEPS(ab, apart, bc, ca), ARROWS({0, 1, true}, {1, 2, true}, {2, 3, true}), 0);
  // One that does not wait knows of no end, and hands none on.
  try_graph(STEPS(ab, deaf_bc), ARROWS({0, 1, true}), 1);
  try_graph(STEPS(ab, deaf_apart, bc), ARROWS({0, 1, true}, {1, 2, true}), 1);
  try_graph(STEPS(ab, deaf_apart, bc), ARROWS({0, 1, true}, {1, 2, false}), 1);
  // What had ended when the one before it began it does know.
  try_graph(STEPS(ab, apart, deaf_bc), ARROWS({0, 1, false}, {1, 2, true}), 0);
}

static void disabled_nodes_pass_on_full_edges(void **state) {
  (void)state;
  const step_t ab = {true, false, 0, 1}, bc = {true, false, 1, 2}, off = {true, true, 1, 1};
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, false}, {1, 2, false}), 0);
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, false}, {1, 2, true}), 0);
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, true}, {1, 2, false}), 1);
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, true}, {1, 2, true}), 1);
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, true}, {1, 2, true}, {0, 2, true}), 0);
  try_graph(STEPS(ab, off, bc), ARROWS({0, 1, true}, {1, 2, true}, {0, 2, false}), 0);
}

// What is in flight from one executable comes before its next launch, on any stream; another
// executable's does not.
static void launches_of_one_executable_are_in_order(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 2; n++) {
    begin_again(n);
    chain_t c = make_chain(STEP, full);
    dt_cu_graph_exec_t execs[2] = {instantiate(c.graph), instantiate(c.graph)};
    dt_cu_stream_t stream = NULL;
    OK(cuda->stream_create(&stream, 0));
    OK(cuda->stream_synchronize(NULL));
    OK(cuda->graph_launch(execs[0], stream));
    OK(cuda->graph_launch(execs[n - 1], NULL));
    OK(cuda->stream_synchronize(stream));
    OK(cuda->stream_synchronize(NULL));
    if (n == 1)
      expect_none();
    else
      expect_violation("is not ordered with a");
  }
}

static void streams_order_graphs_and_all_else(void **state) {
  (void)state;
  chain_t c = make_chain(WAIT STEP, soon);
  dt_cu_graph_exec_t exec = instantiate(c.graph);
  launch(c.step, (launch_t){0}, c.at[0], c.at[0], 0, 5);
  launch(c.step, (launch_t){.programmatic = true}, c.at[0], c.at[0], 0, 5);
  run(exec);
  launch(c.step, (launch_t){0}, c.at[3], c.at[2], 0, 1);
  assert_int_equal(word(c.at[2]), 18);
  expect_none();
  run(exec);
  launch(c.step, (launch_t){.programmatic = true}, c.at[3], c.at[2], 0, 1);
  expect_violation("launched early after cuGraphLaunch");
}

// ---- What they refuse ---------------------------------------------------------------------------

static dt_cu_node_t add_conditional(dt_cu_graph_t graph, dt_cu_condition_t condition, int type,
                                    uint32_t n, dt_cu_graph_t *out_bodies) {
  dt_cu_node_params_t params = {.type = DT_CU_NODE_CONDITIONAL,
                                .of.condition = {.condition = condition, .type = type, .n = n}};
  dt_cu_node_t node = NULL;
  OK(cuda->graph_add_node(&node, graph, NULL, NULL, 0, &params));
  memcpy(out_bodies, params.of.condition.bodies, n * sizeof(out_bodies[0]));
  return node;
}
static dt_cu_condition_t condition_of(dt_cu_graph_t graph, uint32_t value, uint32_t flags) {
  dt_cu_condition_t condition = 0;
  OK(cuda->graph_condition(&condition, graph, NULL, value, flags));
  return condition;
}

static void edges_must_be_of_a_kind(void **state) {
  (void)state;
  static const dt_cu_edge_t wrong[] = {{.from_port = 1},
                                       {.type = 1},
                                       {.from_port = 2, .type = 1},
                                       {.from_port = 1, .type = 2},
                                       {.to_port = 1},
                                       {.reserved = {1}},
                                       {.from_port = 1, .to_port = 1, .type = 1}};
  chain_t c = make_chain(WAIT STEP, full);
  for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
    assert_int_equal(cuda->graph_add_edges(c.graph, &c.node[0], &c.node[2], &wrong[k], 1),
                     DT_CU_INVALID_VALUE);
  // Twice, to itself, to another graph's.
  assert_int_equal(cuda->graph_add_edges(c.graph, &c.node[0], &c.node[1], &soon, 1),
                   DT_CU_INVALID_VALUE);
  assert_int_equal(cuda->graph_add_edges(c.graph, &c.node[0], &c.node[0], &full, 1),
                   DT_CU_INVALID_VALUE);
  chain_t other = make_chain(STEP, full);
  assert_int_equal(cuda->graph_add_edges(c.graph, &other.node[0], &c.node[0], &full, 1),
                   DT_CU_INVALID_VALUE);
  // Programmatic ones are between kernels.
  dt_cu_graph_t body = NULL;
  dt_cu_node_t node =
      add_conditional(c.graph, condition_of(c.graph, 0, 1), DT_CU_CONDITION_IF, 1, &body);
  assert_int_equal(cuda->graph_add_edges(c.graph, &c.node[0], &node, &soon, 1),
                   DT_CU_INVALID_VALUE);
  assert_int_equal(cuda->graph_add_edges(c.graph, &node, &c.node[0], &soon, 1),
                   DT_CU_INVALID_VALUE);
  link_as(c.graph, c.node[0], node, full);
  expect_none();
}

static void cycles_are_refused(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_graph_exec_t exec = NULL;
  link_as(c.graph, c.node[2], c.node[0], full);
  assert_int_equal(cuda->graph_instantiate(&exec, c.graph, 0), DT_CU_INVALID_VALUE);
  // Also in a body.
  dt_cu_graph_t graph = new_graph(), body = NULL;
  (void)add_conditional(graph, condition_of(graph, 0, 1), DT_CU_CONDITION_WHILE, 1, &body);
  dt_cu_node_t a = add(body, c.step, (args_t){c.at[0], c.at[0], 0, 1});
  dt_cu_node_t b = add(body, c.step, (args_t){c.at[1], c.at[1], 0, 1});
  link_as(body, a, b, full);
  exec = instantiate(graph);
  link_as(body, b, a, full);
  assert_int_equal(cuda->graph_instantiate(&exec, graph, 0), DT_CU_INVALID_VALUE);
  expect_none();
  assert_int_equal(counts().instantiations, 1);
}

static void handles_must_live(void **state) {
  static const char *const told[] = {"the node's graph was destroyed",
                                     "the node's graph was destroyed",
                                     "no such executable graph",
                                     "no such executable graph",
                                     "cuGraphDestroy: no such graph",
                                     "cuGraphDestroy: the graph is a node's",
                                     "no such node"};
  for (uint32_t what = 0; what < 7; what++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    chain_t c = make_chain(STEP, full), other = make_chain(STEP, full);
    dt_cu_graph_exec_t exec = instantiate(c.graph);
    args_t args = {c.at[0], c.at[1], 0, 1};
    dt_cu_graph_t body = NULL;
    (void)add_conditional(c.graph, condition_of(c.graph, 0, 1), DT_CU_CONDITION_IF, 1, &body);
    assert_int_equal(set(exec, other.node[0], c.step, args, 1), DT_CU_INVALID_VALUE);
    assert_int_equal(cuda->graph_set_enabled(exec, other.node[0], 0), DT_CU_INVALID_VALUE);
    expect_none();
    dt_cu_result_t result = DT_CU_SUCCESS;
    if (what < 2)
      OK(cuda->graph_destroy(c.graph));
    if (what == 0)
      result = set(exec, c.node[0], c.step, args, 1);
    else if (what == 1)
      result = cuda->graph_set_enabled(exec, c.node[0], 0);
    if (what == 2 || what == 3)
      OK(cuda->graph_exec_destroy(exec));
    if (what == 2)
      result = cuda->graph_launch(exec, NULL);
    else if (what == 3)
      result = cuda->graph_exec_destroy(exec);
    if (what == 4)
      OK(cuda->graph_destroy(other.graph));
    if (what == 4 || what == 5)
      result = cuda->graph_destroy(what == 4 ? other.graph : body);
    if (what == 6)
      result = set(exec, NULL, c.step, args, 1);
    assert_int_equal(result, DT_CU_INVALID_VALUE);
    expect_violation(told[what]);
  }
}

// ---- Conditions ---------------------------------------------------------------------------------

static void a_loop_counts_down(void **state) {
  (void)state;
  dt_cu_function_t step = load_body("", STEP), down = load_body(SETTER, COUNT_DOWN);
  dt_cu_function_t begin = load_body(SETTER, SET_LOADED);
  dt_cu_ptr_t left = zeros(BYTES), sum = zeros(BYTES);
  dt_cu_graph_t graph = new_graph(), body = NULL;
  dt_cu_condition_t condition = condition_of(graph, 0, 0);
  dt_cu_node_t first = add(graph, begin, (args_t){left, 0, condition, 0});
  dt_cu_node_t loop = add_conditional(graph, condition, DT_CU_CONDITION_WHILE, 1, &body);
  dt_cu_node_t last = add(graph, step, (args_t){sum, sum, 0, 1000});
  link_as(graph, first, loop, full);
  link_as(graph, loop, last, full);
  dt_cu_node_t inside = add(body, step, (args_t){sum, sum, 0, 3});
  dt_cu_node_t count = add(body, down, (args_t){left, 0, condition, 1});
  dt_cu_graph_exec_t exec = instantiate(graph);
  uint32_t expected = 0;
  for (uint32_t trips = 0; trips < 5; trips++) {
    write_word(left, trips);
    uint64_t before = counts().nodes_run;
    run(exec);
    expected += 3 * trips + 1000;
    assert_int_equal(word(sum), expected);
    assert_int_equal(counts().nodes_run - before, 2 + 2 * trips);
  }
  // Nodes of bodies are set like others, and what is queued keeps what it had.
  write_word(left, 4);
  run(exec);
  OK(set(exec, inside, step, (args_t){sum, sum, 0, 7}, 1));
  OK(set(exec, count, down, (args_t){left, 0, condition, 2}, 1));
  write_word(left, 4);
  run(exec);
  assert_int_equal(word(sum), expected + 12 + 14 + 2000);
  expect_none();
  assert_true(counts().ordered > 0);
}

static void bodies_are_chosen(void **state) {
  (void)state;
  static const struct {
    int type;
    uint32_t n, value;
    int chosen; // -1: none
  } cases[] = {{DT_CU_CONDITION_IF, 1, 0, -1},    {DT_CU_CONDITION_IF, 1, 1, 0},
               {DT_CU_CONDITION_IF, 1, 7, 0},     {DT_CU_CONDITION_IF, 2, 0, 1},
               {DT_CU_CONDITION_IF, 2, 5, 0},     {DT_CU_CONDITION_SWITCH, 3, 0, 0},
               {DT_CU_CONDITION_SWITCH, 3, 1, 1}, {DT_CU_CONDITION_SWITCH, 3, 2, 2},
               {DT_CU_CONDITION_SWITCH, 3, 3, -1}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    begin_again(k);
    dt_cu_function_t step = load_body("", STEP), begin = load_body(SETTER, SET_LOADED);
    dt_cu_ptr_t value = zeros(BYTES), sum = zeros(4 * BYTES);
    dt_cu_graph_t graph = new_graph(), bodies[3] = {NULL};
    dt_cu_condition_t condition = condition_of(graph, 1, DT_CU_CONDITION_ASSIGN_DEFAULT);
    dt_cu_node_t first = add(graph, begin, (args_t){value, 0, condition, 0});
    dt_cu_node_t node = add_conditional(graph, condition, cases[k].type, cases[k].n, bodies);
    link_as(graph, first, node, full);
    for (uint32_t b = 0; b < cases[k].n; b++)
      (void)add(bodies[b], step, (args_t){sum + b * BYTES, sum + b * BYTES, 0, 1});
    dt_cu_graph_exec_t exec = instantiate(graph);
    OK(cuda->graph_destroy(graph));
    write_word(value, cases[k].value);
    run(exec);
    for (int b = 0; b < 3; b++)
      assert_int_equal(word(sum + (dt_cu_ptr_t)b * BYTES), b == cases[k].chosen);
    expect_none();
  }
}

// A loop whose body has a choice in it; the choice's condition is the loop's graph's.
static void bodies_nest(void **state) {
  (void)state;
  dt_cu_function_t step = load_body("", STEP), down = load_body(SETTER, COUNT_DOWN);
  dt_cu_function_t even = load_body(SETTER, FIRST_THREAD LOAD "and.b32 %r2, %r2, 1;\n" SET "L:\n");
  dt_cu_ptr_t left = zeros(BYTES), odd = zeros(BYTES), all = zeros(BYTES);
  dt_cu_graph_t graph = new_graph(), body = NULL, inner = NULL;
  dt_cu_condition_t loop = condition_of(graph, 1, DT_CU_CONDITION_ASSIGN_DEFAULT);
  dt_cu_condition_t choice = condition_of(graph, 0, 0);
  (void)add_conditional(graph, loop, DT_CU_CONDITION_WHILE, 1, &body);
  dt_cu_node_t ask = add(body, even, (args_t){left, 0, choice, 0});
  dt_cu_node_t fork = add_conditional(body, choice, DT_CU_CONDITION_IF, 1, &inner);
  dt_cu_node_t count = add(body, down, (args_t){left, 0, loop, 1});
  (void)add(body, step, (args_t){all, all, 0, 1});
  (void)add(inner, step, (args_t){odd, odd, 0, 1});
  link_as(body, ask, fork, full);
  link_as(body, fork, count, full);
  dt_cu_graph_exec_t exec = instantiate(graph);
  write_word(left, 7);
  run(exec);
  assert_int_equal(word(all), 7);
  assert_int_equal(word(odd), 4);
  expect_none();
}

static void conditions_are_places(void **state) {
  // Set by a kernel that no edge orders; never set; by threads that differ; of no graph; of
  // another.
  static const char *const told[] = {"its condition is used by", "without a default is used",
                                     "threads of a launch set a condition to different values",
                                     "outside of a graph", "that the graph does not have"};
  for (uint32_t what = 0; what < 5; what++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_function_t begin = load_body(SETTER, SET_LOADED);
    dt_cu_function_t torn = load_body(SETTER, "mov.u32 %r2, %r1;\n" SET);
    dt_cu_ptr_t value = zeros(BYTES);
    dt_cu_graph_t graph = new_graph(), other = new_graph(), body = NULL;
    dt_cu_condition_t condition = condition_of(graph, 0, what == 1 ? 0 : 1);
    dt_cu_condition_t foreign = condition_of(other, 0, 1);
    dt_cu_node_t node = add_conditional(graph, condition, DT_CU_CONDITION_IF, 1, &body);
    dt_cu_node_t first = add(graph, what == 2 ? torn : begin,
                             (args_t){value, 0, what == 4 ? foreign : condition, 0});
    if (what != 0)
      link_as(graph, first, node, full);
    dt_cu_graph_exec_t exec = instantiate(graph);
    if (what == 1)
      OK(cuda->graph_set_enabled(exec, first, 0));
    if (what == 3)
      launch(begin, (launch_t){0}, value, 0, condition, 0);
    else
      run(exec);
    finish();
    expect_violation(told[what]);
  }
}

// What a body does is its node's to those around it; in a body, edges count as elsewhere.
static void bodies_are_ordered(void **state) {
  (void)state;
  for (uint32_t what = 0; what < 4; what++) {
    begin_again(what);
    dt_cu_function_t step = load_body("", WAIT STEP), down = load_body(SETTER, WAIT COUNT_DOWN);
    dt_cu_ptr_t left = zeros(BYTES), a = zeros(BYTES), b = zeros(BYTES), c = zeros(BYTES);
    dt_cu_graph_t graph = new_graph(), body = NULL;
    dt_cu_condition_t condition = condition_of(graph, 1, DT_CU_CONDITION_ASSIGN_DEFAULT);
    dt_cu_node_t loop = add_conditional(graph, condition, DT_CU_CONDITION_WHILE, 1, &body);
    dt_cu_node_t first = add(body, step, (args_t){a, a, 0, 1});
    dt_cu_node_t second = add(body, step, (args_t){a, b, 0, 10});
    dt_cu_node_t count = add(body, down, (args_t){left, 0, condition, 1});
    dt_cu_node_t after = add(graph, step, (args_t){b, c, 0, 100});
    if (what != 1)
      link_as(graph, loop, after, full);
    if (what != 2)
      link_as(body, first, second, soon);
    link_as(body, second, count, soon);
    dt_cu_graph_exec_t exec = instantiate(graph);
    if (what == 3)
      OK(cuda->graph_set_enabled(exec, second, 0));
    write_word(left, 5);
    run(exec);
    uint32_t end = word(c);
    if (what == 0 || what == 3)
      expect_none();
    else
      expect_violation("which no edges say has ended");
    if (what == 0)
      assert_int_equal(end, 115);
    assert_int_equal(counts().programmatic, what == 0 ? 10 : what == 3 ? 0 : what == 1 ? 10 : 5);
    assert_int_equal(counts().unordered, what == 0 || what == 3 ? 0 : what == 1 ? 1 : 5);
  }
}

static void loops_must_end(void **state) {
  (void)state;
  dt_cu_graph_t graph = new_graph(), body = NULL;
  dt_cu_condition_t condition = condition_of(graph, 1, DT_CU_CONDITION_ASSIGN_DEFAULT);
  (void)add_conditional(graph, condition, DT_CU_CONDITION_WHILE, 1, &body);
  run(instantiate(graph));
  finish();
  expect_violation("a loop does not end");
}

// The driver's function is known by its name and parameters, where the text has none of its own.
static void setters_are_the_drivers(void **state) {
  dt_cu_module_t module = NULL;
  static const char wrong[] =
      PTX_HEADER ".extern .func cudaGraphSetConditional(.param .b32 h, .param .b32 v);\n"
                 ".visible .entry k()\n{\n.param .b32 a;\ncall.uni cudaGraphSetConditional, (a, "
                 "a);\nret;\n}\n";
  assert_int_equal(cuda->module_load(&module, wrong), DT_CU_INVALID_PTX);
  dt_cu_function_t own = load_body(
      ".visible .func cudaGraphSetConditional(.param .b64 h, .param .b32 v)\n{\nret;\n}\n",
      "mov.u32 %r2, 1;\n" SET);
  launch(own, (launch_t){0}, 0, 0, 0, 0);
  finish();
  expect_none();
  // As memory, so conditions: only after the wait.
  for (uint32_t good = 0; good < 2; good++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_function_t k = load_body("", WAIT);
    dt_cu_function_t early =
        load_body(SETTER, good ? WAIT "mov.u32 %r2, 1;\n" SET : "mov.u32 %r2, 1;\n" SET WAIT);
    dt_cu_graph_t graph = new_graph(), body = NULL;
    dt_cu_condition_t condition = condition_of(graph, 0, 0);
    dt_cu_node_t node = add_conditional(graph, condition, DT_CU_CONDITION_IF, 1, &body);
    dt_cu_node_t a = add(graph, k, (args_t){0}), b = add(graph, early, (args_t){.p2 = condition});
    link_as(graph, a, b, soon);
    link_as(graph, b, node, full);
    (void)add(body, k, (args_t){0});
    run(instantiate(graph));
    finish();
    if (good)
      expect_none();
    else
      expect_violation("a condition is set before griddepcontrol.wait");
  }
}

static void conditions_have_one_node(void **state) {
  (void)state;
  dt_cu_graph_t graph = new_graph(), other = new_graph(), body = NULL;
  dt_cu_graph_exec_t exec = NULL;
  dt_cu_condition_t condition = condition_of(graph, 0, 1);
  assert_int_equal(cuda->graph_instantiate(&exec, graph, 0), DT_CU_INVALID_VALUE);
  dt_cu_node_params_t params = {.type = DT_CU_NODE_CONDITIONAL,
                                .of.condition = {.condition = condition, .n = 1}};
  dt_cu_node_t node = NULL;
  assert_int_equal(cuda->graph_add_node(&node, other, NULL, NULL, 0, &params), DT_CU_INVALID_VALUE);
  params.of.condition.n = 3; // an IF has at most an else
  assert_int_equal(cuda->graph_add_node(&node, graph, NULL, NULL, 0, &params), DT_CU_INVALID_VALUE);
  (void)add_conditional(graph, condition, DT_CU_CONDITION_IF, 1, &body);
  params.of.condition.n = 1;
  assert_int_equal(cuda->graph_add_node(&node, graph, NULL, NULL, 0, &params), DT_CU_INVALID_VALUE);
  assert_int_equal(cuda->graph_instantiate(&exec, body, 0), DT_CU_INVALID_VALUE);
  params.type = 1; // a copy
  assert_int_equal(cuda->graph_add_node(&node, graph, NULL, NULL, 0, &params), DT_CU_NOT_SUPPORTED);
  (void)instantiate(graph);
  expect_none();
}

// ---- Code and memory ----------------------------------------------------------------------------

static dt_cu_function_t load_step(dt_cu_module_t *out) {
  static const char text[] = PTX_HEADER
      ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n{\n"
      "ret;\n}\n";
  dt_cu_function_t function = NULL;
  OK(cuda->module_load(out, text));
  OK(cuda->module_function(&function, *out, "k"));
  return function;
}

static void code_must_live(void **state) {
  for (uint32_t what = 0; what < 4; what++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_module_t module = NULL, other = NULL;
    dt_cu_function_t k = load_step(&module), k2 = load_step(&other);
    dt_cu_graph_t graph = new_graph();
    dt_cu_node_t node = add(graph, k, (args_t){0});
    dt_cu_graph_exec_t exec = instantiate(graph);
    run(exec);
    OK(set(exec, node, k2, (args_t){0}, 1));
    if (what == 0) { // the launch still has the first module's
      OK(cuda->module_unload(module));
      expect_violation("a graph in flight uses the module");
      continue;
    }
    finish();
    run(exec);
    if (what == 1) {
      OK(cuda->module_unload(module)); // nobody's any more
      finish();
      expect_none();
    } else if (what == 2) {
      OK(cuda->module_unload(other));
      expect_violation("a graph in flight uses the module");
    } else {
      finish();
      OK(cuda->module_unload(other));
      expect_none();
      (void)load_step(&other); // in the same place
      assert_int_equal(cuda->graph_launch(exec, NULL), DT_CU_INVALID_VALUE);
      expect_violation("the module of k was unloaded");
    }
  }
}

static void memory_must_live(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_graph_exec_t exec = instantiate(c.graph);
  run(exec);
  OK(cuda->mem_free(c.at[1])); // waits for what is in flight
  expect_none();
  run(exec);
  finish();
  expect_violation("outside of live memory");
}

// Of host functions it is known at once what they use.
static void memory_in_flight_must_live(void **state) {
  (void)state;
  fake_kernel_t kernel = {.accesses = touch};
  fake_cuda_kernel("k", &kernel);
  dt_cu_function_t k = load_body("", "");
  void *pinned = NULL;
  dt_cu_ptr_t at = 0, other = zeros(BYTES);
  OK(cuda->host_alloc(&pinned, BYTES, 0));
  OK(cuda->host_device_ptr(&at, pinned, 0));
  dt_cu_graph_t graph = new_graph();
  (void)add(graph, k, (args_t){at, other, 0, 0});
  dt_cu_graph_exec_t exec = instantiate(graph);
  run(exec);
  finish();
  run(exec);
  OK(cuda->host_free(pinned));
  expect_violation("work in flight uses the memory");
}

// Pages that go while a launch is queued: found at once, or when it runs.
static void pages_in_flight_must_live(void **state) {
  (void)state;
  static const size_t granule = (size_t)2 << 20;
  for (uint32_t interpreted = 0; interpreted < 2; interpreted++) {
    begin_again(interpreted);
    fake_kernel_t kernel = {.accesses = touch};
    if (!interpreted)
      fake_cuda_kernel("k", &kernel);
    dt_cu_function_t k = load_body("", STEP);
    dt_cu_mem_prop_t prop = {.type = 1, .location = {.type = 1}};
    dt_cu_access_t access = {.location = {.type = 1}, .flags = 3};
    dt_cu_ptr_t range = 0, to = zeros(BYTES);
    dt_cu_mem_t pages = 0;
    OK(cuda->range_reserve(&range, granule, 0, 0, 0));
    OK(cuda->pages_create(&pages, granule, &prop, 0));
    OK(cuda->pages_map(range, granule, 0, pages, 0));
    OK(cuda->pages_access(range, granule, &access, 1));
    dt_cu_graph_t graph = new_graph();
    (void)add(graph, k, (args_t){range, to, 0, 0});
    run(instantiate(graph));
    OK(cuda->pages_unmap(range, granule));
    if (interpreted)
      finish();
    expect_violation(interpreted ? "outside of live memory" : "work in flight uses the pages");
  }
}

static void device_memory_is_counted(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  dt_cu_graph_exec_t one = instantiate(c.graph), two = NULL;
  assert_int_equal(counts().bytes, 65536 + 3 * 1024);
  fake_cuda_graph_memory(1000, 10, 65536 + 3 * 1024 + 1030);
  two = instantiate(c.graph);
  assert_int_equal(counts().bytes, 65536 + 3 * 1024 + 1030);
  dt_cu_graph_exec_t three = NULL;
  assert_int_equal(cuda->graph_instantiate(&three, c.graph, 0), DT_CU_OUT_OF_MEMORY);
  OK(cuda->graph_exec_destroy(one));
  three = instantiate(c.graph);
  OK(cuda->graph_exec_destroy(two));
  OK(cuda->graph_exec_destroy(three));
  assert_int_equal(counts().bytes, 0);
  expect_none();
}

static void failures_strike_graphs_too(void **state) {
  (void)state;
  chain_t c = make_chain(STEP, full);
  uint32_t held = fake_cuda_held();
  dt_cu_graph_exec_t exec = NULL;
  fake_cuda_fail(DT_CUDA_SYM_graph_instantiate, 0, DT_CU_OUT_OF_MEMORY, false);
  assert_int_equal(cuda->graph_instantiate(&exec, c.graph, 0), DT_CU_OUT_OF_MEMORY);
  assert_int_equal(fake_cuda_held(), held);
  exec = instantiate(c.graph);
  assert_int_equal(fake_cuda_held(), held + 1);
  fake_cuda_fail(DT_CUDA_SYM_graph_launch, 1, DT_CU_LAUNCH_FAILED, false);
  run(exec);
  assert_int_equal(cuda->graph_launch(exec, NULL), DT_CU_LAUNCH_FAILED);
  fake_cuda_fail(DT_CUDA_SYM_graph_set_kernel, 0, DT_CU_UNKNOWN, false);
  assert_int_equal(set(exec, c.node[0], c.step, (args_t){0}, 1), DT_CU_UNKNOWN);
  finish();
  assert_int_equal(counts().launches, 1);
  assert_int_equal(counts().set_arguments, 0);
  OK(cuda->graph_exec_destroy(exec));
  OK(cuda->graph_destroy(c.graph));
  assert_int_equal(fake_cuda_held(), held - 1);
  expect_none();
}

int main(int argc, char **argv) {
  assert_int_equal(argc, 2);
  library = argv[1];
  const struct CMUnitTest tests[] = {
      TEST(a_graph_does_its_nodes),
      TEST(executables_are_copies),
      TEST(launches_keep_what_was_set),
      TEST(changes_are_told_apart),
      TEST(the_seed_chooses_among_orders),
      TEST(a_missing_edge_is_found),
      TEST(programmatic_edges_are_proved),
      TEST(a_kernel_that_does_not_wait_is_found),
      TEST(pairs_tell_what_is_lost),
      TEST(disabled_nodes_pass_on_full_edges),
      TEST(launches_of_one_executable_are_in_order),
      TEST(streams_order_graphs_and_all_else),
      TEST(edges_must_be_of_a_kind),
      TEST(cycles_are_refused),
      TEST(handles_must_live),
      TEST(a_loop_counts_down),
      TEST(bodies_are_chosen),
      TEST(bodies_nest),
      TEST(conditions_are_places),
      TEST(conditions_have_one_node),
      TEST(bodies_are_ordered),
      TEST(loops_must_end),
      TEST(setters_are_the_drivers),
      TEST(code_must_live),
      TEST(memory_must_live),
      TEST(memory_in_flight_must_live),
      TEST(pages_in_flight_must_live),
      TEST(device_memory_is_counted),
      TEST(failures_strike_graphs_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
