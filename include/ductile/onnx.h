// SPDX-License-Identifier: Apache-2.0
// Reading ONNX models. A model is checked completely before anything of it is used.
//
// A model is untrusted. Opening it reads its structure and checks it against the format's rules and
// the library's limits; the data of tensors stay where they are and are not read. What is checked:
// every length and number, names (defined once, and before they are read), types, the size of each
// tensor against its data, and each file of external data, which must lie beneath the model's
// folder and be reached through no link. The model is either refused, with the place in the file
// and what to do, or opened as a handle. An open model never changes, so any thread may call
// everything except closing it.
#ifndef DUCTILE_ONNX_H
#define DUCTILE_ONNX_H

#include "ductile/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// An open model. Owns all memory that its functions return pointers to.
typedef struct dt_onnx dt_onnx_t;

// How the bytes of the model and of its external files are held. Of external files only the ranges
// that tensors use are held, and what lies between near ranges. Values are stable.
typedef enum dt_onnx_access_t {
  // Read into the library's memory. The files may change or go afterwards (external ones once
  // loaded).
  DT_ONNX_READ = 0,
  // Mapped read-only: pages are loaded when touched and shared between processes, and those that
  // only packing has read are let go (docs/weights.md). If another process shortens a file, a later
  // access kills this process (SIGBUS). Map only files that nobody else may write; they may be
  // replaced by renaming.
  DT_ONNX_MAP = 1,
} dt_onnx_access_t;

// Data that the caller has in memory, in the place of an external file: of the location that
// tensors give, without "./" before it. `name` is copied. `data` are borrowed, and must not change,
// until the handle is closed and the last function made of the model is released.
typedef struct dt_onnx_memory_t {
  const char *name;
  const void *data; // may be NULL if there are no bytes
  size_t bytes;
} dt_onnx_memory_t;

// Valid when zeroed. Limits on the bytes of files can be raised. The other limits can only be
// lowered: a larger value is taken as the default.
typedef struct dt_onnx_options_t {
  uint32_t struct_size;         // sizeof(dt_onnx_options_t); 0 is taken as the size of version 0.1
  dt_onnx_access_t access;      // 0: DT_ONNX_READ
  uint64_t max_file_bytes;      // bytes of the model, and of each external file; 0: 16 GiB
  uint64_t max_structure_bytes; // memory for the structure, without data; 0: 2 GiB, and at most 64
                                // MiB plus 64 times the file's bytes
  uint32_t max_nodes;           // counted with functions inlined, too; 0: 1 000 000
  uint32_t max_tensors;         // 0: 1 000 000
  uint32_t max_depth;           // nesting of graphs, the model's own included; 0: 32
  const char *data_folder;      // the folder of external data; NULL: the model's folder
  uint64_t max_external_bytes;  // bytes of all external files together that tensors use; 0: 64 GiB
  // deadline_ns: nanoseconds of CLOCK_MONOTONIC at which opening ends with DT_E_DEADLINE; 0: never.
  // cancel: the flag that ends it with DT_E_CANCELLED; or NULL. Both are looked at about once a
  // millisecond, while files are opened and read and while messages, names, nodes and tensors are
  // checked. A system call is not interrupted.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
  // External data that are in memory already: tensors whose location is one of these names are read
  // there, and all others from files. Names differ. max_file_bytes and max_external_bytes do not
  // count them.
  const dt_onnx_memory_t *memory;
  uint32_t n_memory;
  uint32_t memory_size; // bytes from one entry to the next: sizeof(dt_onnx_memory_t). 0 is taken as
                        // the size of the first version that had them
} dt_onnx_options_t;

// Opens and checks the model at `path`. `options` may be NULL. On success the caller owns *out and
// closes it; on failure it is NULL. The arguments are not kept. DT_E_IO (a file cannot be opened or
// read, or an external file is not allowed), DT_E_FORMAT (a rule is broken: the message names the
// file, the path to the message in it, the byte and the rule), DT_E_LIMIT, DT_E_UNSUPPORTED (a
// version that is not read, sparse tensors), DT_E_ARGUMENT, DT_E_NO_MEMORY; with a deadline or a
// flag DT_E_DEADLINE, DT_E_CANCELLED. Opening starts no thread. Processes forked afterwards share
// the model's pages, and each may make a runtime of its own if no runtime lived at the fork. [any]
DT_API dt_status_t dt_onnx_open(const char *path, const dt_onnx_options_t *options,
                                dt_onnx_t **out) DT_MUST_USE;

// As dt_onnx_open, for a model's bytes in memory. They are borrowed, and must not change, until the
// handle is closed and the last function made of the model is released. External data need
// `options->data_folder`. [any]
DT_API dt_status_t dt_onnx_open_memory(const void *data, size_t bytes,
                                       const dt_onnx_options_t *options,
                                       dt_onnx_t **out) DT_MUST_USE;

// Closes the handle and ends everything that it gave out. Memory is freed once no function made of
// the model is left. NULL is allowed. No other call on the handle may be running. [external]
DT_API void dt_onnx_close(dt_onnx_t *model);

// Describes the model as text for people: versions, inputs and outputs with their dims,
// initializers, operators with counts, functions, external files. *out is released with
// dt_text_free. [any]
DT_API dt_status_t dt_onnx_report_text(const dt_onnx_t *model, char **out) DT_MUST_USE;

// The same as JSON lines: objects whose "event" is "model", "opset", "metadata", "input", "output",
// "initializers", "operator", "function" or "external". [any]
DT_API dt_status_t dt_onnx_report_json(const dt_onnx_t *model, char **out) DT_MUST_USE;

// The files of external data that tensors of the model are in, by their paths from the model's
// folder, or from `data_folder`. Names are borrowed from the model; NULL if there is no such index.
// [any]
DT_API uint32_t dt_onnx_n_external(const dt_onnx_t *model);
DT_API const char *dt_onnx_external_name(const dt_onnx_t *model, uint32_t index);

// ---- Functions ------------------------------------------------------------------------------------

// The inputs that a caller gives (those without an initializer) and the outputs, in the order in
// which a function of the model takes and returns them. Names are borrowed from the model; NULL if
// there is no such index. [any]
DT_API uint32_t dt_onnx_n_inputs(const dt_onnx_t *model);
DT_API uint32_t dt_onnx_n_outputs(const dt_onnx_t *model);
DT_API const char *dt_onnx_input_name(const dt_onnx_t *model, uint32_t index);
DT_API const char *dt_onnx_output_name(const dt_onnx_t *model, uint32_t index);
// What the model says of them: name, dtype, and dims where it gives them (dt_spec_t): a number, a
// name, or "?". Of results a model may say nothing: dt_function_outputs of a function of it knows
// all. Borrowed from the model; NULL if there is no such index. [any]
DT_API const dt_spec_t *dt_onnx_input(const dt_onnx_t *model, uint32_t index);
DT_API const dt_spec_t *dt_onnx_output(const dt_onnx_t *model, uint32_t index);

// Valid when zeroed.
typedef struct dt_onnx_function_options_t {
  uint32_t struct_size; // sizeof(dt_onnx_function_options_t); 0 is taken as the size of version 0.1
  // Declarations of dims by their names in the model: bounds, marks, multiples, a fixed size
  // (is_static, value). A name that no input has is DT_E_ARGUMENT.
  const dt_dim_decl_t *dims;
  uint32_t n_dims;
  uint32_t dim_size; // bytes from one entry to the next: sizeof(dt_dim_decl_t). 0 is taken as the
                     // size of version 0.1.
  // true: dims of one name need not have one size. For models whose exporter named dims wrongly,
  // which shows as DT_E_SHAPE at a call. What `dims` declares of a name still holds for each dim of
  // that name.
  bool names_are_hints;
  // The function's answers, limits and modes, as for dt_function_create. name may be NULL: the
  // graph's name. n_inputs, inputs, n_outputs and closure_free must be zero. NULL: defaults.
  const dt_function_options_t *function;
  // The deadline and the flag of making the function, as in dt_onnx_options_t. They are looked at
  // while nodes are checked and data are read, external ones included. What a node becomes is
  // worked out later, by calls and dt_function_prepare, which have deadlines of their own.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
  // Random numbers of nodes that have no seed of their own come of this number, the same in each
  // call; 0 is a seed like any other. docs/onnx.md says which numbers each node draws.
  uint64_t seed;
  // true: each call gives the seed. The function has one more input behind the model's, an i64 of
  // rank 0 named "seed", whether or not a node draws. `seed` must then be 0.
  bool seed_input;
  // DT_BF16: right operands of products (MatMul, Gemm, FusedMatMul) that are initializers of f32
  // are rounded to bf16 and read at half of their bytes; sums are of f32. Each weight changes by
  // 2^-9 of itself at most, so that an element of a result is off by 2^-9 times the sum of the
  // sizes of its products at most. 0: as they are. Other dtypes are DT_E_ARGUMENT.
  dt_dtype_t weights;
} dt_onnx_function_options_t;

// Makes a function of the model. Its inputs are dt_onnx_input_name's, its outputs
// dt_onnx_output_name's. Sizes are symbols unless the model fixes them. A small integer input that
// the model computes sizes or axes from is of kind DT_INPUT_INTEGERS and must be in host memory.
// Data of initializers are used where they lie, but for small ones whose place does not suit their
// elements. The model may be closed afterwards. `options` may be NULL. On failure *out is NULL.
// DT_E_UNSUPPORTED names, all at once, every node with an operator, an attribute or a type that is
// not compiled, with operator set and name. Others: DT_E_FORMAT, DT_E_IO, DT_E_ARGUMENT,
// DT_E_NO_MEMORY; with a deadline or a flag DT_E_DEADLINE, DT_E_CANCELLED. Failures that only sizes
// can show are reported by the call that traces. There DT_E_FORMAT means that the model contradicts
// itself, such as by an axis that a value does not have. [any]
DT_API dt_status_t dt_onnx_function_create(dt_runtime_t *runtime, dt_onnx_t *model,
                                           const dt_onnx_function_options_t *options,
                                           dt_function_t **out) DT_MUST_USE;

// A node that keeps a model from being compiled.
typedef struct dt_onnx_obstacle_t {
  uint32_t node; // among the nodes of the model's graph: in the file's order if each comes after
                 // what it reads there, else in one in which it does
  const char *reason; // for people: the node's operator and name, and what is not supported
} dt_onnx_obstacle_t;

// All of them.
typedef struct dt_onnx_obstacles_t {
  uint32_t n;
  const dt_onnx_obstacle_t *const *items; // by node, rising
} dt_onnx_obstacles_t;

// Which nodes keep a function from being made of the model; hosts give those to somebody else. All
// nodes with an operator, an attribute or a type that is not compiled, also those of graphs and
// functions within, for which the node of the model's own graph stands. If there is none, the model
// is traced for all sizes that its inputs declare, and the first node that fails there is told. No
// obstacle does not mean that each call succeeds: some failures only a call's sizes show. *out is
// the caller's, released with dt_onnx_obstacles_free; NULL on failure: what no node is the reason
// of, such as an input of unknown rank (DT_E_UNSUPPORTED), and errors as of
// dt_onnx_function_create. `options` may be NULL. [any]
DT_API dt_status_t dt_onnx_obstacles(dt_runtime_t *runtime, dt_onnx_t *model,
                                     const dt_onnx_function_options_t *options,
                                     dt_onnx_obstacles_t **out) DT_MUST_USE;
DT_API void dt_onnx_obstacles_free(dt_onnx_obstacles_t *obstacles); // NULL allowed [any, each once]

// Reads a file with one TensorProto (`.pb`, as ONNX's tests have) into a new contiguous tensor. On
// failure *out is NULL: DT_E_IO, DT_E_FORMAT, DT_E_LIMIT, DT_E_UNSUPPORTED (an element type that
// Ductile does not have, external data), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_onnx_tensor_read(const char *path, dt_tensor_t **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_ONNX_H
