// SPDX-License-Identifier: Apache-2.0
// Ops of users as the library keeps them (include/ductile/op.h), and what one call of one is in a
// graph: a node `external`, whose value is the first result, and `result` nodes for the others.
#ifndef DT_LOWER_GRAPH_EXTERNAL_H
#define DT_LOWER_GRAPH_EXTERNAL_H

#include "ductile/op.h"
#include "lower/graph/graph.h"
#include "runtime/base/library.h"

#include <stdatomic.h>

// A registered op; texts stand in the same block.
typedef struct dt_op_def_t {
  _Atomic uint32_t refs;
  dt_op_options_t options;      // complete: name, identity and counts are set
  dt_op_device_kernel_t device; // options.device_kernel points to it, or is NULL
  dt_library_t *library;        // that its code is in; a share; NULL: none
} dt_op_def_t;
// Whether the op is computed by a kernel on `device`; else it is decomposed.
static inline bool dt__op_has_kernel(const dt_op_def_t *def, dt_device_t device) {
  const dt_op_device_kernel_t *kernel = def->options.device_kernel;
  return device == DT_CPU ? def->options.kernel != NULL : kernel && kernel->device == device;
}
// Whether any result is the new value of an input.
static inline bool dt__op_updates(const dt_op_def_t *def) {
  for (uint32_t k = 0; k < DT_OP_MAX_RESULTS; k++)
    if (def->options.updates[k])
      return true;
  return false;
}
dt_op_def_t *dt__op_def_retain(dt_op_def_t *def);
void dt__op_def_release(dt_op_def_t *def); // the closure goes with the last reference
// Checks options and makes a def of them; it does not own the closure yet.
dt_status_t dt__op_def_create(const dt_op_options_t *options, dt_op_def_t **out) DT_MUST_USE;

// What a kernel does in a call.
typedef enum dt_external_part_t {
  DT_EXTERNAL_KERNEL,  // makes the results
  DT_EXTERNAL_NUMBERS, // reads numbers: the only result is i64 [n_numbers]
} dt_external_part_t;

typedef struct dt_external_result_t {
  dt_dtype_t dtype;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
} dt_external_result_t;

struct dt_graph_external_t {
  const char *name, *identity;
  // Alive as long as the list of ops that the trace was made with; NULL: the graph was read from
  // text, and cannot be run.
  const dt_op_def_t *def;
  dt_external_part_t part;
  uint32_t n_results, n_attrs;
  const dt_external_result_t *results;
  const dt_op_attr_t *attrs;
  dt_sym_t items; // at least 1
};

static inline const dt_graph_external_t *dt__graph_external(const dt_graph_t *graph,
                                                            const dt_node_t *node) {
  return graph->externals.items[node->attrs->index];
}
// Appends a call. What `external` points to is copied.
dt_status_t dt__graph_add_external(dt_graph_t *graph, const dt_graph_external_t *external,
                                   const dt_node_id_t *inputs, uint32_t n_inputs,
                                   const dt_origin_t *origin, dt_node_id_t *out) DT_MUST_USE;
// The same call in another arena; false: no memory.
bool dt__external_copy(dt_arena_t *arena, const dt_graph_external_t *from,
                       dt_graph_external_t *out);
// Names of ops and attributes.
bool dt__op_name_is_valid(const char *name);   // "domain.name"
bool dt__attr_name_is_valid(const char *name); // letters, digits, _
const dt_op_attr_t *dt__attr_find(const dt_op_attr_t *attrs, uint32_t n, const char *name,
                                  dt_op_attr_kind_t kind);
// "int axis 3, ints pads [1, 2], text mode \"x\""; a kind's name, NULL for what is none.
void dt__attrs_print(const dt_op_attr_t *attrs, uint32_t n, dt_text_t *out);
const char *dt__attr_kind_name(dt_op_attr_kind_t kind);
void dt__op_attr_store(struct dt_stream_t *s, dt_op_attr_t *attr); // texts and values: as s reads

// Runs items [begin, end) of the call: `tensors` are its inputs, then its results. The failure
// names the op.
dt_status_t dt__external_invoke(const dt_graph_external_t *external, const dt_op_tensor_t *tensors,
                                uint32_t n_inputs, int64_t begin, int64_t end) DT_MUST_USE;

#endif // DT_LOWER_GRAPH_EXTERNAL_H
