// SPDX-License-Identifier: Apache-2.0
// Conditional nodes of the fake driver's graphs, and the device function that sets conditions.
#include "test/unit/cuda/fake/graph_fixture.h"

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

// Executables of one graph have the same handles, and values of their own.
static void conditions_are_each_executables_own(void **state) {
  (void)state;
  dt_cu_function_t begin = load_body(SETTER, SET_LOADED), step = load_body("", STEP);
  dt_cu_ptr_t value = zeros(BYTES), sum = zeros(2 * BYTES);
  dt_cu_stream_t stream = NULL;
  dt_cu_graph_exec_t execs[2];
  dt_cu_graph_t graph = new_graph(), body = NULL;
  dt_cu_condition_t condition = condition_of(graph, 0, 0);
  dt_cu_node_t first = add(graph, begin, (args_t){value, 0, condition, 0});
  dt_cu_node_t node = add_conditional(graph, condition, DT_CU_CONDITION_IF, 1, &body);
  dt_cu_node_t inside = add(body, step, (args_t){sum, sum, 0, 1});
  link_as(graph, first, node, full);
  for (uint32_t k = 0; k < 2; k++)
    execs[k] = instantiate(graph);
  OK(set(execs[1], inside, step, (args_t){sum + BYTES, sum + BYTES, 0, 2}, 1));
  write_word(value, 1);
  finish();
  OK(cuda->stream_create(&stream, 0));
  OK(cuda->graph_launch(execs[0], stream));
  OK(cuda->graph_launch(execs[1], NULL));
  OK(cuda->stream_synchronize(stream));
  assert_int_equal(word(sum), 1);
  assert_int_equal(word(sum + BYTES), 2);
  expect_none();
}

// Kernels one after the other may set different values, from whatever threads, and so may a thread.
static void setters_are_told_apart(void **state) {
  (void)state;
  dt_cu_function_t first =
      load_body(SETTER, FIRST_THREAD "mov.u32 %r2, 6;\n" SET "mov.u32 %r2, 5;\n" SET "L:\n");
  dt_cu_function_t second =
      load_body(SETTER, "setp.ne.u32 %p1, %r1, 9;\n@%p1 bra L;\nmov.u32 %r2, 1;\n" SET "L:\n");
  dt_cu_function_t step = load_body("", STEP);
  dt_cu_ptr_t sum = zeros(BYTES);
  dt_cu_graph_t graph = new_graph(), bodies[2];
  dt_cu_condition_t condition = condition_of(graph, 0, 0);
  dt_cu_node_t a = add(graph, first, (args_t){.p2 = condition});
  dt_cu_node_t b = add(graph, second, (args_t){.p2 = condition});
  dt_cu_node_t node = add_conditional(graph, condition, DT_CU_CONDITION_SWITCH, 2, bodies);
  link_as(graph, a, b, full);
  link_as(graph, b, node, full);
  (void)add(bodies[1], step, (args_t){sum, sum, 0, 1});
  run(instantiate(graph));
  assert_int_equal(word(sum), 1);
  expect_none();
  // One that sets a condition before it waits does not wait first.
  fake_kernel_t kernel = {.accesses = touch};
  fake_cuda_kernel("k", &kernel);
  dt_cu_function_t good = load_body("", WAIT);
  dt_cu_function_t early = load_body(SETTER, "mov.u32 %r2, 1;\n" SET WAIT);
  dt_cu_graph_t other = new_graph();
  link_as(other, add(other, good, (args_t){sum, sum, 0, 0}),
          add(other, early, (args_t){sum, sum, 0, 0}), soon);
  run(instantiate(other));
  finish();
  expect_violation("which no edges say has ended");
}

RUN_WITH_LIBRARY(ON_DEVICE(a_loop_counts_down), ON_DEVICE(bodies_are_chosen),
                 ON_DEVICE(bodies_nest), ON_DEVICE(conditions_are_places),
                 ON_DEVICE(conditions_have_one_node), ON_DEVICE(bodies_are_ordered),
                 ON_DEVICE(loops_must_end), ON_DEVICE(setters_are_the_drivers),
                 ON_DEVICE(conditions_are_each_executables_own), ON_DEVICE(setters_are_told_apart))
