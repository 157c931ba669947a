// SPDX-License-Identifier: Apache-2.0
// What must hold of a model beyond its syntax, and what is worked out on the way: ids of names,
// functions that nodes call, sizes of tensors, where their data lies. Private to frontends/onnx.
//
// After dt__onnx_check: every name that a graph's node or output reads is defined before, once in
// its graph (a graph within a node may hide a name of those around it); attributes hold what their
// types say; dims, ranks and bytes are within the library's limits; tensors have exactly their
// data.
#ifndef DT_FRONTENDS_ONNX_CHECK_H
#define DT_FRONTENDS_ONNX_CHECK_H

#include "frontends/onnx/read.h"

// Versions that can be read.
#define DT_ONNX_MIN_IR 3
#define DT_ONNX_MAX_IR 14
#define DT_ONNX_MIN_OPSET 1 // operators of old sets are the importer's to refuse
#define DT_ONNX_MAX_OPSET 28
#define DT_ONNX_MAX_ATTRIBUTES 1024u
#define DT_ONNX_MAX_CALLS 128u // functions that call each other

typedef struct dt_onnx_undo_t {
  uint32_t id, owner;
} dt_onnx_undo_t;

// A call of the function whose body is `callee`, in body `caller`.
typedef struct dt_onnx_call_t {
  uint32_t caller, callee;
} dt_onnx_call_t;

typedef struct dt_onnx_check_t {
  dt_onnx_model_t *model;
  const char *what;
  dt_arena_t *arena; // of the model
  dt_arena_t scratch;
  const dt_onnx_limits_t *limits;
  dt_onnx_pace_t *pace; // may be NULL
  // Scopes: each graph and function body has a serial number; that of a name's definition stands in
  // owner[id], 0 where it has none. Those of a graph that ends are undone.
  uint32_t *owner, *initialized;
  uint32_t *maker;         // by name, 1 + which node of the list that is sorted makes it; else 0
  uint32_t serial, newest; // of the scope that is checked, and of the last one made
  DT_VEC(dt_onnx_undo_t) undo;
  const dt_onnx_opsets_t *opsets; // of the model, or of the function whose body is checked
  uint32_t body;                  // that is checked: 0 the graph, 1 + index a function's
  uint64_t nodes, ended; // so far, those within nodes, too; of them, in bodies that have ended
  DT_VEC(dt_onnx_call_t) calls;
  DT_VEC(uint64_t) own;                       // nodes of each body
  DT_VEC(const dt_onnx_attribute_t *) sorted; // attributes of one node, by name
  bool any_external;
} dt_onnx_check_t;

// Checks the model. External data are checked as far as the model goes: files are opened by
// dt__onnx_find_external. DT_E_FORMAT, DT_E_LIMIT, DT_E_UNSUPPORTED, DT_E_NO_MEMORY.
dt_status_t dt__onnx_check(dt_onnx_check_t *check) DT_MUST_USE;

// ---- Parts of it ----------------------------------------------------------------------------------
dt_status_t dt__onnx_check_graph(dt_onnx_check_t *c, dt_onnx_graph_t *graph, const dt_onnx_at_t *at,
                                 bool main) DT_MUST_USE;
dt_status_t dt__onnx_check_attributes(dt_onnx_check_t *c, dt_onnx_attributes_t *attributes,
                                      const dt_onnx_at_t *at, const char *field) DT_MUST_USE;
dt_status_t dt__onnx_check_type(dt_onnx_check_t *c, const dt_onnx_type_t *type,
                                const dt_onnx_at_t *at) DT_MUST_USE;
dt_status_t dt__onnx_check_opsets(dt_onnx_check_t *c, const dt_onnx_opsets_t *opsets,
                                  const dt_onnx_at_t *up) DT_MUST_USE;
dt_status_t dt__onnx_check_function(dt_onnx_check_t *c, dt_onnx_function_t *function,
                                    const dt_onnx_at_t *at) DT_MUST_USE;
// Puts nodes behind what they read (order.c). DT_E_NO_MEMORY; what ends the pace.
dt_status_t dt__onnx_sort_nodes(dt_onnx_check_t *c, dt_onnx_nodes_t *nodes) DT_MUST_USE;
// The nodes of a graph or a function's body, sorted; defines what they make.
dt_status_t dt__onnx_check_nodes(dt_onnx_check_t *c, dt_onnx_nodes_t *nodes,
                                 const dt_onnx_at_t *at) DT_MUST_USE;
dt_status_t dt__onnx_define(dt_onnx_check_t *c, dt_onnx_name_t name, const dt_onnx_at_t *at,
                            uint64_t offset) DT_MUST_USE;
bool dt__onnx_is_defined(const dt_onnx_check_t *c, dt_onnx_name_t name);
// Undoes definitions down to `mark` of them.
void dt__onnx_end_scope(dt_onnx_check_t *c, uint32_t mark);

// ---- Functions (functions.c) ----------------------------------------------------------------------
// Sorts them; DT_E_FORMAT where two are the same.
dt_status_t dt__onnx_index_functions(dt_onnx_check_t *c) DT_MUST_USE;
// No function calls itself, and what is left when all are put in place of their calls is bounded.
dt_status_t dt__onnx_check_calls(dt_onnx_check_t *c) DT_MUST_USE;
// NULL: the model has none.
const dt_onnx_function_t *dt__onnx_find_function(const dt_onnx_model_t *model, dt_onnx_str_t domain,
                                                 dt_onnx_str_t name, dt_onnx_str_t overload);

// ---- Tensors (check_tensor.c) ---------------------------------------------------------------------
// Sets what the check sets. `any_external` (may be NULL) becomes true where its data lie elsewhere.
dt_status_t dt__onnx_check_tensor(const char *what, dt_onnx_tensor_t *tensor,
                                  const dt_onnx_at_t *at, bool *any_external) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_CHECK_H
