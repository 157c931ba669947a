// SPDX-License-Identifier: Apache-2.0
// Reading ONNX models: checked whole before anything of them is used.
//
// A model is untrusted. Opening it reads its structure (never its data, which stay where they are)
// and checks it against the format's rules and the library's limits: every length and number, names
// defined once and before they are read, types, the size of each tensor against its data, and each
// file of external data, which must lie beneath the model's folder and be reached through no link.
// It is either refused with the place in the file and what to do, or given as a handle. An open
// model never changes, so everything except closing it may be called from any thread.
#ifndef DUCTILE_ONNX_H
#define DUCTILE_ONNX_H

#include "ductile/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// An open model. Owns all memory that its functions return pointers to.
typedef struct dt_onnx dt_onnx_t;

// How the bytes of the model and of its external files are held; of the latter only ranges that
// tensors use (and what lies between those that are near). Values are stable.
typedef enum dt_onnx_access_t {
  // Read into memory of our own; the files may change or go afterwards (external ones once loaded).
  DT_ONNX_READ = 0,
  // Mapped read-only: pages are loaded when touched and shared between processes. Another process
  // that shortens a file makes a later access fatal to this one (SIGBUS); map only files that
  // nobody else may write.
  DT_ONNX_MAP = 1,
} dt_onnx_access_t;

// Valid when zeroed. Limits other than those of files' bytes can only be lowered: a larger value is
// taken as the default.
typedef struct dt_onnx_options_t {
  uint32_t struct_size;         // sizeof(dt_onnx_options_t); 0 is taken as the size of version 0.1
  dt_onnx_access_t access;      // 0: DT_ONNX_READ
  uint64_t max_file_bytes;      // of the model, and of each external file; 0: 16 GiB
  uint64_t max_structure_bytes; // memory for what is no data; 0: 2 GiB, and not above 64 MiB and 64
                                // times the file's bytes
  uint32_t max_nodes;           // also with functions put in place of their calls; 0: 1 000 000
  uint32_t max_tensors;         // 0: 1 000 000
  uint32_t max_depth;           // graphs within each other, the model's own included; 0: 32
  const char *data_folder;      // beneath which external data lie; NULL: the model's folder
  uint64_t max_external_bytes;  // that tensors take of all external files together; 0: 64 GiB
  // Nanoseconds of CLOCK_MONOTONIC at which opening ends with DT_E_DEADLINE, 0: never; and what
  // ends it with DT_E_CANCELLED, or NULL. Looked at while files are opened and read, and while
  // messages, names, nodes and tensors are checked, about once a millisecond; a system call is not
  // cut short.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
} dt_onnx_options_t;

// Opens and checks the model at `path`. `options` may be NULL. On success *out is the caller's, to
// be closed; on failure it is NULL. Nothing of the arguments is kept. DT_E_IO (a file cannot be
// opened or read, or an external one is not what it may be), DT_E_FORMAT (a rule broken: the
// message names the file, the way to the message, the byte and the rule), DT_E_LIMIT,
// DT_E_UNSUPPORTED (a version outside of those read, sparse tensors), DT_E_ARGUMENT,
// DT_E_NO_MEMORY; with a deadline or a flag DT_E_DEADLINE, DT_E_CANCELLED. [any]
// Starts no thread: processes that are forked afterwards share the model's pages and may each make
// a runtime of their own, as long as none lived at the fork.
DT_API dt_status_t dt_onnx_open(const char *path, const dt_onnx_options_t *options,
                                dt_onnx_t **out) DT_MUST_USE;

// The same over a model's bytes in memory, which are borrowed until the handle is closed and the
// last function made of it released, and must not change. External data need
// `options->data_folder`. [any]
DT_API dt_status_t dt_onnx_open_memory(const void *data, size_t bytes,
                                       const dt_onnx_options_t *options,
                                       dt_onnx_t **out) DT_MUST_USE;

// Ends the caller's share: what the handle gave out ends, and memory is freed as soon as no
// function made of the model is left. NULL is allowed. No other call on it may be running.
// [external]
DT_API void dt_onnx_close(dt_onnx_t *model);

// What the model is, as text for people: versions, inputs and outputs with their dims,
// initializers, operators with counts, functions, external files. *out is released with
// dt_text_free. [any]
DT_API dt_status_t dt_onnx_report_text(const dt_onnx_t *model, char **out) DT_MUST_USE;

// The same as JSON lines: objects whose "event" is "model", "opset", "metadata", "input", "output",
// "initializers", "operator", "function" or "external". [any]
DT_API dt_status_t dt_onnx_report_json(const dt_onnx_t *model, char **out) DT_MUST_USE;

// ---- Functions ------------------------------------------------------------------------------------

// The inputs that a caller gives (those without an initializer) and the outputs, in the order in
// which a function of the model takes and returns them. Names are borrowed from the model; NULL
// where there is none of that index. [any]
DT_API uint32_t dt_onnx_n_inputs(const dt_onnx_t *model);
DT_API uint32_t dt_onnx_n_outputs(const dt_onnx_t *model);
DT_API const char *dt_onnx_input_name(const dt_onnx_t *model, uint32_t index);
DT_API const char *dt_onnx_output_name(const dt_onnx_t *model, uint32_t index);

// Valid when zeroed.
typedef struct dt_onnx_function_options_t {
  uint32_t struct_size; // sizeof(dt_onnx_function_options_t); 0 is taken as the size of version 0.1
  // What is said of dims by their names in the model: bounds, marks, multiples, a fixed size
  // (is_static, value). Names that no input has are DT_E_ARGUMENT.
  const dt_dim_decl_t *dims;
  uint32_t n_dims;
  uint32_t dim_size; // bytes from one to the next, sizeof(dt_dim_decl_t); 0 is taken as the size of
                     // version 0.1
  // Dims of one name need not have one size: for models whose exporter named them wrongly, which a
  // call tells by DT_E_SHAPE. What `dims` says of a name still holds for each dim that has it.
  bool names_are_hints;
  // How the function answers, its limits, modes: as for dt_function_create, but name (NULL: the
  // graph's), and n_inputs, inputs, n_outputs and closure_free, which must be zero. NULL: defaults.
  const dt_function_options_t *function;
  // Until when the function is to be made, and what ends that: as in dt_onnx_options_t. Looked at
  // while nodes are checked and data read, external ones included. What a node becomes is worked
  // out by calls and dt_function_prepare, which have deadlines of their own.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
} dt_onnx_function_options_t;

// Makes a function of the model: its inputs are dt_onnx_input_name's, its outputs
// dt_onnx_output_name's. Sizes are symbols where the model does not fix them; a small integer input
// that the model computes sizes or axes from is of kind DT_INPUT_INTEGERS, to be given in host
// memory. Data of initializers are used where they lie, or copied where alignment asks for it. The
// model may be closed afterwards. `options` may be NULL. On failure *out is NULL: DT_E_UNSUPPORTED
// names every node with an operator, an attribute or a type that is not compiled, all at once, with
// operator set and name; DT_E_FORMAT, DT_E_IO, DT_E_ARGUMENT, DT_E_NO_MEMORY, and DT_E_DEADLINE and
// DT_E_CANCELLED with a deadline or a flag. What only sizes can show is told by the call that
// traces; DT_E_FORMAT is then a model at odds with itself, such as an axis that its value does not
// have. [any]
DT_API dt_status_t dt_onnx_function_create(dt_runtime_t *runtime, dt_onnx_t *model,
                                           const dt_onnx_function_options_t *options,
                                           dt_function_t **out) DT_MUST_USE;

// Reads a file with one TensorProto (as ONNX's tests have, `.pb`) as a contiguous tensor of its
// own. On failure *out is NULL: DT_E_IO, DT_E_FORMAT, DT_E_LIMIT, DT_E_UNSUPPORTED (an element type
// that Ductile does not have, external data), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_onnx_tensor_read(const char *path, dt_tensor_t **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_ONNX_H
