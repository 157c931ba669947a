// SPDX-License-Identifier: Apache-2.0
// What the files of the fake driver's graphs share. A graph is a list of nodes with edges between
// them; its bodies are graphs that conditional nodes own. An executable holds a copy, whose kernels
// may be set; a launch holds what they were when it was queued.
#ifndef DT_TESTS_FAKE_CUDA_FAKE_GRAPH_H
#define DT_TESTS_FAKE_CUDA_FAKE_GRAPH_H

#include "test/fake_cuda/fake_private.h"

#define FAKE_CONDITIONS 65536
// Handles of conditions are addresses that no memory has, so that they count as places that kernels
// write and conditional nodes read.
#define FAKE_CONDITION_BASE ((uint64_t)1 << 62)
#define FAKE_CONDITION(index) (FAKE_CONDITION_BASE + 16 * (uint64_t)(index))

// What a kernel node launches; never changed, but replaced.
typedef struct fake_setting_t {
  uint32_t uses;
  dt_cu_function_t function;
  fake_code_t code; // valid while its module is
  char name[64];
  unsigned char param[];
} fake_setting_t;

typedef struct fake_edge_t {
  uint32_t from; // a place in the graph
  bool programmatic;
} fake_edge_t;
// A node without its kernel's parameters.
typedef struct fake_node_t {
  bool kernel;
  uint32_t n_in, n_bodies;
  fake_edge_t *in;
  uint32_t condition; // index
  int type;           // of the condition
} fake_node_t;

// ---- Graphs (fake_graph.c) ----------------------------------------------------------------------
struct CUgraphNode_st {
  bool live;
  dt_cu_graph_t graph;
  uint32_t place; // in the graph
  fake_node_t is;
  fake_setting_t *setting; // of a kernel
  dt_cu_graph_t *bodies;
};
struct CUgraph_st {
  bool live, owned; // by a conditional node
  uint64_t id;      // that no other graph gets
  struct CUgraph_st *parent;
  dt_cu_node_t *nodes;
  uint32_t n;
};
typedef struct fake_condition_t {
  bool live, assigns, used; // used: it has its node
  uint32_t value;           // default
  dt_cu_graph_t graph;
} fake_condition_t;
bool fake_is_graph(dt_cu_graph_t graph);
// Whether the node's graph is still there; where not, a violation.
bool fake_is_node(dt_cu_node_t node, const char *what);
const fake_condition_t *fake_condition_at(uint32_t index);
void fake_graph_reset_nodes(void);
uint32_t fake_graph_held_nodes(void);
// Whether each condition of the graph has its node.
bool fake_conditions_used(dt_cu_graph_t graph);
// NULL with a result: the parameters are none that a device takes.
dt_cu_result_t fake_setting_create(fake_setting_t **out, const dt_cu_kernel_node_t *params);
void fake_setting_release(fake_setting_t *setting); // may be NULL
extern fake_graph_counts_t fake_graph_counts;

// ---- Executables (fake_graph_exec.c) ------------------------------------------------------------
typedef struct fake_shape_node_t {
  fake_node_t is;
  uint32_t kernel;  // index of its setting
  uint32_t *bodies; // indices of graphs
} fake_shape_node_t;
typedef struct fake_shape_graph_t {
  uint64_t id; // of the graph that it was copied from
  fake_shape_node_t *nodes;
  uint32_t n;
} fake_shape_graph_t;
// The copy of a graph and its bodies: the first one is the graph.
typedef struct fake_shape_t {
  fake_shape_graph_t *graphs;
  uint32_t n, n_kernels;
  struct fake_value_t *conditions; // of its nodes, as a launch begins
  uint32_t n_conditions;
} fake_shape_t;
typedef struct fake_value_t { // of a condition
  uint32_t index, value;
  bool known;
} fake_value_t;
// A launch: what the executable was when it was queued.
typedef struct fake_replay_t {
  dt_cu_graph_exec_t exec;
  const fake_shape_t *shape;
  fake_setting_t **settings;
  bool *enabled;
  fake_value_t *values; // of the shape's conditions
} fake_replay_t;

// ---- Running (fake_graph_run.c) -----------------------------------------------------------------
void fake_graph_run(fake_work_t *work);
// Accesses of kernels that are host functions and will run in any case; `out` is malloc'ed.
uint32_t fake_replay_accesses(const fake_replay_t *replay, fake_access_t **out);

// ---- Order within a launch (fake_graph_order.c) -------------------------------------------------
typedef struct fake_ends_t fake_ends_t;
// For one run of a graph of n nodes.
fake_ends_t *fake_ends_create(uint32_t n);
void fake_ends_destroy(fake_ends_t *ends);
// A node that has been done, after all those that its edges come from.
typedef struct fake_end_t {
  uint32_t place;
  const fake_node_t *node;
  bool enabled, waits;
  const char *name;
  fake_touched_t touched[2]; // taken
  fake_touched_t early;      // of what is read: before the kernel has waited; taken
} fake_end_t;
void fake_ends_add(fake_ends_t *ends, fake_end_t end);
// Adds the ranges of one list to those of another.
void fake_merge(fake_touched_t *into, const fake_touched_t *from);

#endif // DT_TESTS_FAKE_CUDA_FAKE_GRAPH_H
