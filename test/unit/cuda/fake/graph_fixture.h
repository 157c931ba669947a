// SPDX-License-Identifier: Apache-2.0
// What the tests of the fake driver's graphs share: kernels that add and kernels that set
// conditions, graphs of them, and what is counted.
#ifndef DT_TESTS_UNIT_CUDA_FAKE_GRAPH_FIXTURE_H
#define DT_TESTS_UNIT_CUDA_FAKE_GRAPH_FIXTURE_H

#include "test/unit/cuda/ptx/ptx_fixture.h"

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
static inline void begin_again(uint64_t seed) {
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

static inline dt_cu_result_t with_params(dt_cu_function_t function, args_t args, uint32_t grid,
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
static inline dt_cu_result_t use_add(const dt_cu_kernel_node_t *params, void *user) {
  target_t *t = user;
  return cuda->graph_add_kernel(&t->node, t->graph, NULL, 0, params);
}
static inline dt_cu_result_t use_set(const dt_cu_kernel_node_t *params, void *user) {
  const target_t *t = user;
  return cuda->graph_set_kernel(t->exec, t->node, params);
}

static inline dt_cu_node_t add(dt_cu_graph_t graph, dt_cu_function_t function, args_t args) {
  target_t t = {.graph = graph};
  OK(with_params(function, args, 1, use_add, &t));
  return t.node;
}
static inline dt_cu_result_t set(dt_cu_graph_exec_t exec, dt_cu_node_t node,
                                 dt_cu_function_t function, args_t args, uint32_t grid) {
  target_t t = {.exec = exec, .node = node};
  return with_params(function, args, grid, use_set, &t);
}
static inline void link_as(dt_cu_graph_t graph, dt_cu_node_t from, dt_cu_node_t to,
                           dt_cu_edge_t edge) {
  OK(cuda->graph_add_edges(graph, &from, &to, &edge, 1));
}

static inline dt_cu_graph_t new_graph(void) {
  dt_cu_graph_t graph = NULL;
  OK(cuda->graph_create(&graph, 0));
  return graph;
}
static inline dt_cu_graph_exec_t instantiate(dt_cu_graph_t graph) {
  dt_cu_graph_exec_t exec = NULL;
  OK(cuda->graph_instantiate(&exec, graph, 0));
  return exec;
}
static inline void run(dt_cu_graph_exec_t exec) { OK(cuda->graph_launch(exec, NULL)); }

static inline fake_graph_counts_t counts(void) {
  fake_graph_counts_t c;
  fake_cuda_graphs(&c);
  return c;
}

static inline uint32_t word(dt_cu_ptr_t from) {
  uint32_t value = 0;
  OK(cuda->copy_to_host(&value, from, sizeof(value), NULL));
  finish();
  return value;
}
static inline void write_word(dt_cu_ptr_t to, uint32_t value) {
  OK(cuda->copy_to_device(to, &value, sizeof(value), NULL));
}
static inline dt_cu_ptr_t zeros(size_t bytes) {
  dt_cu_ptr_t at = allocate(bytes);
  OK(cuda->fill_bytes(at, 0, bytes, NULL));
  return at;
}

static inline dt_cu_node_t add_conditional(dt_cu_graph_t graph, dt_cu_condition_t condition,
                                           int type, uint32_t n, dt_cu_graph_t *out_bodies) {
  dt_cu_node_params_t params = {.type = DT_CU_NODE_CONDITIONAL,
                                .of.condition = {.condition = condition, .type = type, .n = n}};
  dt_cu_node_t node = NULL;
  OK(cuda->graph_add_node(&node, graph, NULL, NULL, 0, &params));
  memcpy(out_bodies, params.of.condition.bodies, n * sizeof(out_bodies[0]));
  return node;
}
static inline dt_cu_condition_t condition_of(dt_cu_graph_t graph, uint32_t value, uint32_t flags) {
  dt_cu_condition_t condition = 0;
  OK(cuda->graph_condition(&condition, graph, NULL, value, flags));
  return condition;
}

// Kernels of host functions, whose text alone says whether they wait: nothing stops them where they
// do not, so that the pairs must tell.
static inline uint32_t touch(const fake_launch_t *l, fake_access_t *out, uint32_t cap, void *user) {
  uint64_t p[2];
  (void)cap, (void)user;
  memcpy(p, l->param, sizeof(p));
  out[0] = (fake_access_t){.begin = p[0], .bytes = BYTES};
  out[1] = (fake_access_t){.begin = p[1], .bytes = BYTES, .write = true};
  return 2;
}

#endif // DT_TESTS_UNIT_CUDA_FAKE_GRAPH_FIXTURE_H
