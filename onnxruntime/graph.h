// SPDX-License-Identifier: Apache-2.0
// Graphs of onnxruntime's as the execution provider reads them, parts of them, and parts as models.
#ifndef DT_ONNXRUNTIME_GRAPH_H
#define DT_ONNXRUNTIME_GRAPH_H

#include "ductile/onnx.h"
#include "onnxruntime/host.h"

// What versions of onnxruntime began to do.
enum {
  EP_TELLS_RANKS = 24,   // whether a rank is known, and which node a graph is within
  EP_NAMES_PARTS = 25,   // parts of graphs within nodes have names of their own
  EP_GIVES_CAPTURED = 27 // parts get what only graphs within their nodes read
};

// ---- Graphs (graph.c) -------------------------------------------------------------------------------
enum { EP_NONE = UINT32_MAX };

typedef struct ep_type_t { // of a value
  ort_kind_t kind;
  ort_element_t element; // of a tensor, and what follows
  bool ranked;
  uint32_t rank;
  int64_t *dims;      // -1: no number
  const char **names; // "": no name
} ep_type_t;

typedef struct ep_value_t {
  const char *name;
  const ort_value_info_t *info;
  uint32_t maker; // the node; EP_NONE: none of this graph
  bool output;    // of the graph
  bool constant;  // an initializer that no caller may replace
} ep_value_t;

typedef struct ep_node_t {
  const ort_node_t *node;
  const char *op, *domain;
  bool taken;           // by a provider, before
  uint32_t n_in, n_out; // n_in: with what graphs within read from outside
  uint32_t n_own;       // of n_in: those that the node itself reads
  uint32_t *in, *out;   // values; EP_NONE: left out
  uint32_t part;        // capability.c: its part, or EP_NONE
  const char *reason;   // why it is in none; NULL: nothing is known against it
} ep_node_t;

// A graph as it is within one call of onnxruntime's.
typedef struct ep_graph_t {
  const ort_graph_t *graph;
  ep_arena_t *arena;
  uint32_t n_nodes, n_values;
  ep_node_t *nodes; // each after what it reads
  ep_value_t *values;
  uint32_t *table; // by hash of the name: 1 + value
  uint32_t mask;
} ep_graph_t;

ort_status_t *ep_graph_read(const ort_api_t *api, const ort_graph_t *graph, ep_arena_t *arena,
                            ep_graph_t *out);
// One node as a graph, of the model that `within` belongs to.
ort_status_t *ep_graph_of_node(const ort_api_t *api, const ort_graph_t *within,
                               const ort_node_t *node, ep_arena_t *arena, ep_graph_t *out);
uint32_t ep_graph_find(const ep_graph_t *graph, const char *name); // EP_NONE: there is none
ort_status_t *ep_type_of(const ort_api_t *api, const ort_value_info_t *info, ep_arena_t *arena,
                         ep_type_t *out);
// ONNX's number of an element type; 0: it has none.
uint32_t ep_onnx_element(ort_element_t element);
// DT_DTYPE_NONE: Ductile cannot lend memory of it, or does not have it.
dt_dtype_t ep_dtype(ort_element_t element);

// ---- Models (model.c) -------------------------------------------------------------------------------
// Data of a constant that a model reads where onnxruntime has them.
typedef struct ep_lent_t {
  const char *name; // of the value; the arena's
  const void *data;
  size_t bytes;
} ep_lent_t;

typedef struct ep_model_t {
  ep_bytes_t bytes; // owner
  ep_lent_t *lent;  // n_lent, in the arena
  uint32_t n_lent, lent_room;
  uint32_t failed; // where it cannot be written: the node that was being written; or EP_NONE
  bool guess;      // set before: inputs of unknown types or ranks are written as scalars
} ep_model_t;

// The nodes that are marked, with values as inputs and outputs. Constants that they read go with
// them.
ort_status_t *ep_model_write(const ort_api_t *api, const ep_graph_t *graph, const bool *marked,
                             const uint32_t *inputs, uint32_t n_inputs, const uint32_t *outputs,
                             uint32_t n_outputs, ep_model_t *out);
// Opens it as a model that borrows the bytes and what was lent.
dt_status_t ep_model_open(const ep_model_t *model, ep_arena_t *arena, dt_onnx_t **out) DT_MUST_USE;

// ---- Parts (parts.c) --------------------------------------------------------------------------------
// Nodes that become one.
typedef struct ep_part_t {
  uint32_t n_nodes;
  bool *marked; // by node
  uint32_t n_in, n_out;
  uint32_t *in, *out; // values
} ep_part_t;

// Nodes without a reason against them, in parts, between whose nodes none of another part stands;
// each node's `part` is set. What a part's boundary cannot be is a reason against nodes, and parts
// are made anew until there is none.
ort_status_t *ep_parts_make(const ort_api_t *api, ep_graph_t *graph, ep_part_t **out, uint32_t *n);
// Whether a part is worth the two hand-overs that its calls cost: the whole graph is, and so is one
// with `least` nodes, or with one node that does much by itself (a product, a convolution, a
// recurrence, attention, a loop).
bool ep_part_pays(const ep_graph_t *graph, const ep_part_t *part, uint32_t least);

#endif // DT_ONNXRUNTIME_GRAPH_H
