// SPDX-License-Identifier: Apache-2.0
// Graphs of the fake driver: what they do, what they refuse, and what their checkers find.
#include "test/unit/cuda/fake/graph_fixture.h"

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

// A chain whose last kernel reads, before it waits, what the first has written; an edge that is
// full in between says that it has ended.
static void early_reads_are_proved(void **state) {
  (void)state;
  for (uint32_t how = 0; how < 3; how++) {
    begin_again(how);
    chain_t c = make_chain(WAIT STEP, soon);
    dt_cu_function_t reads = load_body("", "ld.global.u32 %r3, [%d2];\n" WAIT STEP);
    dt_cu_ptr_t own = allocate(2 * BYTES);
    OK(cuda->fill_bytes(own, 0, 2 * BYTES, NULL));
    dt_cu_node_t last = add(c.graph, reads, (args_t){own, own, how ? c.at[1] : own + BYTES, 8});
    link_as(c.graph, c.node[2], last, how == 1 ? soon : full);
    run(instantiate(c.graph));
    finish();
    if (how == 1)
      expect_violation("before griddepcontrol.wait, which is written by");
    else
      expect_none();
  }
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

// Its later launch also finds what the earlier one has made.
static void launches_of_one_executable_wait(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 16; seed++) {
    begin_again(seed);
    dt_cu_function_t step = load_body("", STEP);
    dt_cu_ptr_t a = zeros(BYTES), b = zeros(BYTES), c = zeros(BYTES);
    dt_cu_stream_t stream = NULL;
    OK(cuda->stream_create(&stream, 0));
    finish();
    dt_cu_graph_t graph = new_graph();
    dt_cu_node_t node = add(graph, step, (args_t){a, b, 0, 1});
    dt_cu_graph_exec_t exec = instantiate(graph);
    OK(cuda->graph_launch(exec, stream));
    OK(set(exec, node, step, (args_t){b, c, 0, 10}, 1));
    run(exec);
    assert_int_equal(word(c), 11);
    expect_none();
  }
}

// A host function and an interpreted kernel in one graph, and another stream that reads what the
// latter writes.
static void all_that_a_launch_touches_is_recorded(void **state) {
  (void)state;
  static const char other[] = PTX_HEADER
      ".visible .entry other(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n{\n"
      ".reg .b32 %r0;\n.reg .b64 %d<2>;\nld.param.u64 %d0, [p0];\nmov.u32 %r0, %tid.x;\n"
      "mul.wide.u32 %d1, %r0, 4;\nadd.u64 %d0, %d0, %d1;\nst.global.u32 [%d0], %r0;\nret;\n}\n";
  fake_kernel_t kernel = {.accesses = touch};
  fake_cuda_kernel("k", &kernel);
  dt_cu_function_t k = load_body("", ""), writes = load_text(other, "other");
  dt_cu_ptr_t a = zeros(BYTES), b = zeros(BYTES), c = zeros(BYTES), d = zeros(BYTES);
  dt_cu_stream_t stream = NULL;
  OK(cuda->stream_create(&stream, 0));
  finish();
  dt_cu_graph_t graph = new_graph();
  (void)add(graph, k, (args_t){a, b, 0, 0});
  target_t t = {.graph = graph};
  OK(with_params(writes, (args_t){.p0 = c}, 1, use_add, &t));
  run(instantiate(graph));
  assert_int_equal(cuda->stream_query(NULL), DT_CU_NOT_READY); // which did it
  expect_none();
  OK(cuda->copy_on_device(d, c, BYTES, stream));
  expect_violation("is not ordered after a write");
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

static void parameters_must_be_given(void **state) {
  (void)state;
  dt_cu_function_t k = load_body("", STEP);
  dt_cu_graph_t graph = NULL;
  dt_cu_graph_exec_t exec = NULL;
  dt_cu_node_t node = NULL;
  assert_int_equal(cuda->graph_create(&graph, 1), DT_CU_INVALID_VALUE);
  graph = new_graph();
  uint64_t value = 0;
  void *params[] = {&value, &value, &value, &value};
  const dt_cu_kernel_node_t good = {
      .function = k, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
  dt_cu_kernel_node_t bad[4] = {good, good, good, good};
  bad[0].function = NULL;
  bad[1].params = NULL;
  bad[2].extra = params;
  bad[3].kernel = params;
  for (size_t n = 0; n < 4; n++)
    assert_int_equal(cuda->graph_add_kernel(&node, graph, NULL, 0, &bad[n]), DT_CU_INVALID_VALUE);
  OK(cuda->graph_add_kernel(&node, graph, NULL, 0, &good));
  const dt_cu_node_t twice[] = {node, node};
  assert_int_equal(cuda->graph_add_kernel(&node, graph, twice, 2, &good), DT_CU_INVALID_VALUE);
  OK(cuda->graph_add_kernel(&node, graph, twice, 1, &good));
  assert_int_equal(cuda->graph_instantiate(&exec, graph, 1), DT_CU_INVALID_VALUE);
  exec = instantiate(graph);
  assert_int_not_equal(cuda->graph_launch(exec, (dt_cu_stream_t)(void *)&value), DT_CU_SUCCESS);
  expect_none();
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

RUN_WITH_LIBRARY(ON_DEVICE(a_graph_does_its_nodes), ON_DEVICE(executables_are_copies),
                 ON_DEVICE(launches_keep_what_was_set), ON_DEVICE(changes_are_told_apart),
                 ON_DEVICE(the_seed_chooses_among_orders), ON_DEVICE(a_missing_edge_is_found),
                 ON_DEVICE(programmatic_edges_are_proved), ON_DEVICE(early_reads_are_proved),
                 ON_DEVICE(a_kernel_that_does_not_wait_is_found),
                 ON_DEVICE(pairs_tell_what_is_lost), ON_DEVICE(disabled_nodes_pass_on_full_edges),
                 ON_DEVICE(launches_of_one_executable_are_in_order),
                 ON_DEVICE(launches_of_one_executable_wait),
                 ON_DEVICE(all_that_a_launch_touches_is_recorded),
                 ON_DEVICE(streams_order_graphs_and_all_else), ON_DEVICE(edges_must_be_of_a_kind),
                 ON_DEVICE(cycles_are_refused), ON_DEVICE(parameters_must_be_given),
                 ON_DEVICE(handles_must_live), ON_DEVICE(code_must_live),
                 ON_DEVICE(memory_must_live), ON_DEVICE(memory_in_flight_must_live),
                 ON_DEVICE(pages_in_flight_must_live), ON_DEVICE(device_memory_is_counted),
                 ON_DEVICE(failures_strike_graphs_too))
