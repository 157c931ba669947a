// SPDX-License-Identifier: Apache-2.0
// What operators of a model see while they are traced. Private to the importer.
//
// A family of operators is a file ops_*.c of functions named in ops.def. Such a function reads the
// inputs and attributes of its node, calls builders of ductile/trace.h, and sets the outputs.
// Errors are sticky as everywhere in tracing: after the first, readers give values that do no harm
// (0, the none value, an empty list), so that a function needs a check only before it divides by
// what it read, or indexes with it.
//
// Values. Besides tensors there are values whose elements are known as numbers: literals, sizes,
// and what shape arithmetic makes of them (known.h). Each can be read as a tensor (dt__imp_in), and
// a row's `fold` answers in numbers where its inputs are known, so that a chain Shape → Gather →
// Mul → Concat → Reshape leaves nothing behind but symbolic sizes.
#ifndef DT_FRONTENDS_ONNX_IMPORT_IMPORT_H
#define DT_FRONTENDS_ONNX_IMPORT_IMPORT_H

#ifndef DT_NO_SOURCE_LINES
#define DT_NO_SOURCE_LINES // places are nodes of the model, not lines of this code
#endif
#include "ductile/onnx.h"
#include "frontends/onnx/onnx.h"
#include "runtime/base/memory.h"

typedef struct dt_imp_t dt_imp_t;             // one trace of a model (walk.h)
typedef struct dt_imp_frame_t dt_imp_frame_t; // the model's graph, or a function put in place
typedef struct dt_imp_known_t dt_imp_known_t; // known.h

// One node that is being traced, or (`t` NULL) only looked at.
typedef struct dt_imp_node_t {
  dt_trace_t *t;
  dt_imp_t *imp;
  const dt_onnx_node_t *node;
  const dt_imp_frame_t *frame; // where attributes that refer to a function's caller are found
  int64_t opset;               // of the node's domain: which form of the operator is meant
} dt_imp_node_t;

// ---- Inputs and outputs -----------------------------------------------------------------------------
// Trailing ones that are left out do not count.
uint32_t dt__imp_n_in(const dt_imp_node_t *n);
uint32_t dt__imp_n_out(const dt_imp_node_t *n);
bool dt__imp_has(const dt_imp_node_t *n, uint32_t k);   // input k is given
bool dt__imp_wants(const dt_imp_node_t *n, uint32_t k); // output k is read by somebody, maybe
// Input k as a tensor. An input that is left out, or no tensor (a sequence), fails the trace.
dt_value_t dt__imp_in(dt_imp_node_t *n, uint32_t k);
// The same as a product's weights, which the function may keep rounded if they are an initializer.
dt_value_t dt__imp_weights(dt_imp_node_t *n, uint32_t k);
uint32_t dt__imp_rank(dt_imp_node_t *n, uint32_t k);
dt_dtype_t dt__imp_dtype(dt_imp_node_t *n, uint32_t k);
void dt__imp_out(dt_imp_node_t *n, uint32_t k, dt_value_t value);

// Sequences and optionals: lists of values. An optional has none or one.
typedef struct dt_imp_val_t dt_imp_val_t;
typedef struct dt_imp_list_t {
  uint32_t len;
  const dt_imp_val_t *const *items;
  bool optional;
} dt_imp_list_t;
const dt_imp_list_t *dt__imp_list(dt_imp_node_t *n, uint32_t k); // NULL: input k is no list
// A list of `len` copied places; the values are those of dt__imp_val and dt__imp_val_of.
void dt__imp_out_list(dt_imp_node_t *n, uint32_t k, uint32_t len, const dt_imp_val_t *const *items,
                      bool optional);
const dt_imp_val_t *dt__imp_val(dt_imp_node_t *n, uint32_t k); // NULL: left out
const dt_imp_val_t *dt__imp_val_of(dt_imp_node_t *n, dt_value_t value);
void dt__imp_out_val(dt_imp_node_t *n, uint32_t k, const dt_imp_val_t *value);
dt_value_t dt__imp_val_tensor(dt_imp_node_t *n, const dt_imp_val_t *value);

// ---- Numbers ----------------------------------------------------------------------------------------
// Elements of input k, of integers or bools and rank 0 or 1, as symbols: what is known of them, and
// else read from the data (dt_item; their number must not depend on data then). False: failed.
typedef struct dt_imp_syms_t {
  uint32_t len;
  const dt_sym_t *items;
} dt_imp_syms_t;
bool dt__imp_syms(dt_imp_node_t *n, uint32_t k, dt_imp_syms_t *out);
// One of them; `otherwise` where the input is left out.
dt_sym_t dt__imp_sym(dt_imp_node_t *n, uint32_t k, int64_t otherwise);
// The same as integers that the trace is made for: sizes among them are guarded, data are refused
// with a message that names the input.
typedef struct dt_imp_ints_t {
  uint32_t len;
  const int64_t *items;
} dt_imp_ints_t;
bool dt__imp_ints(dt_imp_node_t *n, uint32_t k, dt_imp_ints_t *out);
// The same from attribute `attr`, as older forms have it, else from input k. *out_given is false
// where there is neither.
bool dt__imp_ints_of(dt_imp_node_t *n, const char *attr, uint32_t k, dt_imp_ints_t *out,
                     bool *out_given);
bool dt__imp_syms_of(dt_imp_node_t *n, const char *attr, uint32_t k, dt_imp_syms_t *out,
                     bool *out_given);
// An axis of so many dims, counted from the last where negative; false: out of range, which fails.
bool dt__imp_axis(dt_imp_node_t *n, int64_t axis, uint32_t rank, uint32_t *out);
// Size k of a value, and all `rank` of them (at most DT_MAX_RANK).
dt_sym_t dt__imp_size(dt_imp_node_t *n, uint32_t input, uint32_t k);
void dt__imp_sizes(dt_imp_node_t *n, dt_value_t x, dt_sym_t *out);
// Elements of a float input where all are literals. False: they are not; nothing has failed.
typedef struct dt_imp_reals_t {
  uint32_t len;
  const double *items;
} dt_imp_reals_t;
bool dt__imp_reals(dt_imp_node_t *n, uint32_t k, dt_imp_reals_t *out);

// What is known of input k, or NULL. Left out: NULL.
const dt_imp_known_t *dt__imp_known(dt_imp_node_t *n, uint32_t k);
void dt__imp_out_known(dt_imp_node_t *n, uint32_t k, const dt_imp_known_t *known);

// ---- Attributes -------------------------------------------------------------------------------------
// Found in the node, or through `ref_attr_name` at the function's caller. One of another type than
// asked for fails the trace (a check sees the default).
bool dt__imp_has_attr(const dt_imp_node_t *n, const char *name);
int64_t dt__imp_int(dt_imp_node_t *n, const char *name, int64_t otherwise);
double dt__imp_float(dt_imp_node_t *n, const char *name, double otherwise);
dt_onnx_str_t dt__imp_str(dt_imp_node_t *n, const char *name, const char *otherwise);
bool dt__imp_str_is(dt_imp_node_t *n, const char *name, const char *otherwise, const char *text);
// False: there is none.
bool dt__imp_attr_ints(dt_imp_node_t *n, const char *name, dt_imp_ints_t *out);
bool dt__imp_attr_floats(dt_imp_node_t *n, const char *name, dt_imp_reals_t *out);
const dt_onnx_tensor_t *dt__imp_attr_tensor(dt_imp_node_t *n, const char *name); // NULL: none
const dt_onnx_graph_t *dt__imp_attr_graph(dt_imp_node_t *n, const char *name);   // NULL: none
// The dtype that an attribute such as `to` names; `otherwise` without the attribute. DT_DTYPE_NONE
// for a type that Ductile does not have: refused.
dt_dtype_t dt__imp_attr_dtype(dt_imp_node_t *n, const char *name, dt_dtype_t otherwise);

// ---- Failures, memory -------------------------------------------------------------------------------
// Fails the trace; the message gets the node in front.
void dt__imp_fail(dt_imp_node_t *n, dt_code_t code, const char *fmt, ...) DT_PRINTF(3, 4);
bool dt__imp_failed(const dt_imp_node_t *n);
// Zeroed memory for the time of the trace; NULL: the trace has failed.
void *dt__imp_alloc(dt_imp_node_t *n, size_t count, size_t bytes);
#define DT_IMP_ARRAY(n, type, count) ((type *)dt__imp_alloc((n), (count), sizeof(type)))

// ---- Graphs within nodes (walk.c) -------------------------------------------------------------------
// Traces a graph attribute in place, its inputs being in[0 … graph->input.len-1]; out[] gets its
// outputs. False: failed. Within the function of a dt_cond or dt_while body, between
// dt__imp_enter_body and dt__imp_leave_body.
bool dt__imp_run_graph(dt_imp_node_t *n, const dt_onnx_graph_t *graph, uint32_t n_in,
                       const dt_imp_val_t *const *in, const dt_imp_val_t **out);
// The same as a trip of a loop, of this index (i64, rank 0): random numbers are each trip's own.
bool dt__imp_run_trip(dt_imp_node_t *n, dt_value_t index, const dt_onnx_graph_t *graph,
                      uint32_t n_in, const dt_imp_val_t *const *in, const dt_imp_val_t **out);
void dt__imp_enter_body(dt_imp_node_t *n);
void dt__imp_leave_body(dt_imp_node_t *n);
// ---- The table --------------------------------------------------------------------------------------
typedef void (*dt_imp_make_t)(dt_imp_node_t *n);
typedef bool (*dt_imp_fold_t)(dt_imp_node_t *n);
typedef const char *(*dt_imp_check_t)(dt_imp_node_t *n);
typedef struct dt_imp_row_t { // a row of ops.def
  const char *domain, *name;
  int64_t since;
  uint32_t numbers;
  dt_imp_make_t make;
  dt_imp_fold_t fold;
  dt_imp_check_t check;
} dt_imp_row_t;

#define OP(domain, name, since, numbers, make, fold, check)                                        \
  void dt__imp_make_##make(dt_imp_node_t *n);                                                      \
  bool dt__imp_fold_##fold(dt_imp_node_t *n);                                                      \
  const char *dt__imp_check_##check(dt_imp_node_t *n);
#include "frontends/onnx/import/ops.def"

#endif // DT_FRONTENDS_ONNX_IMPORT_IMPORT_H
