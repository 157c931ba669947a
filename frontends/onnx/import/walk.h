// SPDX-License-Identifier: Apache-2.0
// Models that functions were made of, and one trace of such a model. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_WALK_H
#define DT_FRONTENDS_ONNX_IMPORT_WALK_H

#include "frontends/onnx/import/known.h"

// ---- The model --------------------------------------------------------------------------------------
// A tensor of the file with its data as constants of the function.
typedef struct dt_imp_constant_t {
  const dt_onnx_tensor_t *tensor;
  const char *name; // unique in the function
  dt_tensor_t *data;
} dt_imp_constant_t;

// The closure of a function. Never changes after it is made.
typedef struct dt_imp_model_t {
  dt_onnx_t *file;       // a share
  dt_runtime_t *runtime; // whose ops nodes may call
  dt_arena_t arena;
  dt_imp_constant_t *constants; // by address of their tensors
  uint32_t n_constants;
  const dt_imp_row_t **rows; // sorted
  uint32_t n_rows;
  bool *integers;       // by the caller's inputs: of kind DT_INPUT_INTEGERS
  uint64_t seed;        // of random numbers
  bool seed_input;      // each call gives it, as an input behind the model's
  dt_dtype_t weights;   // what f32 weights of products are rounded to, or none
  dt_onnx_pace_t *pace; // while it is made; then NULL
  uint32_t *failed;     // where a trace says which node of the model's graph failed; or NULL
} dt_imp_model_t;

// Sorts the table. DT_E_NO_MEMORY.
dt_status_t dt__imp_sort_rows(dt_imp_model_t *model) DT_MUST_USE;
// The newest form of an operator that `opset` has; NULL: none.
const dt_imp_row_t *dt__imp_find_row(const dt_imp_model_t *model, dt_onnx_str_t domain,
                                     dt_onnx_str_t name, int64_t opset);
// Whether any operator set of the domain has a row of that name.
bool dt__imp_has_row(const dt_imp_model_t *model, dt_onnx_str_t domain, dt_onnx_str_t name);
// Reads all tensors that nodes may use (constants.c). DT_E_IO, DT_E_FORMAT, DT_E_NO_MEMORY.
dt_status_t dt__imp_read_constants(dt_imp_model_t *model) DT_MUST_USE;
void dt__imp_drop_constants(dt_imp_model_t *model);
const dt_imp_constant_t *dt__imp_find_constant(const dt_imp_model_t *model,
                                               const dt_onnx_tensor_t *tensor);
// Names all nodes that no row takes (support.c). DT_E_UNSUPPORTED, DT_E_NO_MEMORY.
dt_status_t dt__imp_check_support(const dt_imp_model_t *model) DT_MUST_USE;
// The same by the node of the model's own graph in which they stand: `found` is told of each such
// node, rising, and what it fails with ends this.
typedef dt_status_t (*dt_imp_refused_fn_t)(void *user, uint32_t node, const char *why);
dt_status_t dt__imp_each_refused(const dt_imp_model_t *model, dt_imp_refused_fn_t found,
                                 void *user) DT_MUST_USE;
// Nodes that no row takes and that are ops of users (ops_user.c).
bool dt__imp_has_user_op(const dt_imp_model_t *model, const dt_onnx_node_t *node);
void dt__imp_user_op(dt_imp_node_t *n);
// Which of the caller's inputs are read as numbers (numbers.c). DT_E_NO_MEMORY.
dt_status_t dt__imp_find_integers(dt_imp_model_t *model) DT_MUST_USE;
// Which inputs of a graph within a node its own nodes read so: out[0 … inputs-1]. False: failed.
bool dt__imp_needs_numbers(dt_imp_node_t *n, const dt_onnx_graph_t *graph, bool *out);

// ---- Frames -----------------------------------------------------------------------------------------
struct dt_imp_frame_t {
  const dt_imp_frame_t *up;           // the caller's; NULL: the model's graph
  const dt_onnx_node_t *call;         // the node that calls the function
  const dt_onnx_function_t *function; // NULL: the model's graph
  const dt_onnx_opsets_t *opsets;
};
dt_imp_frame_t dt__imp_main_frame(const dt_imp_model_t *model);
dt_imp_frame_t dt__imp_call_frame(const dt_imp_model_t *model, const dt_imp_frame_t *up,
                                  const dt_onnx_node_t *call);
// Which operator set of a domain is meant; 0: the domain is not imported.
int64_t dt__imp_opset(const dt_imp_frame_t *frame, dt_onnx_str_t domain);
// The attribute of that name with its value, looked for at callers where it refers to them; NULL:
// there is none.
const dt_onnx_attribute_t *dt__imp_find_attr(const dt_imp_frame_t *frame,
                                             const dt_onnx_node_t *node, const char *name);

// ---- One trace --------------------------------------------------------------------------------------
// What is known of one value of the model. One of known, data and list may be set.
struct dt_imp_val_t {
  dt_value_t tensor; // id 0: not made yet
  uint32_t scope;    // where `tensor` was made
  const dt_imp_known_t *known;
  const dt_onnx_tensor_t *data;  // of the file
  const dt_imp_known_t *numbers; // of `data`, once somebody has asked
  const dt_imp_list_t *list;
};

typedef struct dt_imp_undo_t {
  uint32_t name;
  dt_imp_val_t *value;
} dt_imp_undo_t;

struct dt_imp_t {
  const dt_imp_model_t *model;
  dt_trace_t *t;
  dt_arena_t arena;
  dt_imp_val_t **values;          // by id of the name
  DT_VEC(dt_imp_undo_t) undo;     // what names meant before
  DT_VEC(uint32_t) scopes;        // of bodies under way, and 0
  dt_value_t seed;                // the input; id 0: the model's seed
  uint64_t place;                 // hash of the node's output, of the node around it, and so on
  DT_VEC(dt_value_t) trips;       // indices of loops under way, i64 of rank 0, the outer one first
  uint64_t n_nodes;               // traced so far, each time they are
  uint64_t n_written;             // nodes that loops written out by choice have come to
  uint32_t writing;               // such loops under way
  uint32_t n_scopes;              // that there ever were
  DT_VEC(dt_imp_constant_t) made; // of numbers; `tensor` is NULL
  // Constants whose numbers were asked for by nodes under way: known to the function as taken once
  // a node has answered with them. By constant: whether it is.
  DT_VEC(const dt_imp_constant_t *) asked;
  bool *taken;
};

dt_imp_val_t *dt__imp_new_val(dt_imp_t *imp); // NULL: failed
// What is known of a value, data of the file included; NULL: nothing.
const dt_imp_known_t *dt__imp_val_known(dt_imp_node_t *n, const dt_imp_val_t *value);
bool dt__imp_set(dt_imp_t *imp, uint32_t name, dt_imp_val_t *value);
// What was asked for since there were `mark` of them is part of what is traced now.
void dt__imp_take_asked(dt_imp_t *imp, uint32_t mark);
// As dt_onnx_function_create. A trace says at `failed`, which may be NULL and must outlive the
// function, which node of the model's graph failed.
dt_status_t dt__imp_function(dt_runtime_t *runtime, dt_onnx_t *model,
                             const dt_onnx_function_options_t *options, uint32_t *failed,
                             dt_function_t **out) DT_MUST_USE;
// The program of a function made of a model; `closure` is a dt_imp_model_t.
dt_status_t dt__imp_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                            void *closure);

#endif // DT_FRONTENDS_ONNX_IMPORT_WALK_H
