// SPDX-License-Identifier: Apache-2.0
// Ops of users: what a program calls by name, and what computes it.
//
// An op is registered with a runtime under a name such as "audio.mel". Functions that are made from
// then on can call it (dt_op_call), with attributes, and with several results. The op says what its
// results are (infer), and has a kernel, a decomposition, or both:
//
// - A kernel is a C function on tensors in host memory, or PTX or a cubin for a device. It takes
//   part in everything that kernels of the library take part in: memory plans, threads, deadlines,
//   graphs of launches. Nothing is fused with it.
// - A decomposition is a program of other ops. It stands in where there is no kernel for the device
//   of the session.
//
// Results whose sizes the data decide: `numbers` reads them from the inputs' data at each call, and
// infer makes sizes of them.
//
// An op computes its results from its inputs and attributes, and from nothing else: calls may share
// them, repeat them and leave them out where nobody reads them. It writes nothing but its results,
// which may be the new values of inputs.
//
// Not part of ductile.h.
#ifndef DUCTILE_OP_H
#define DUCTILE_OP_H

#include "ductile/device.h"
#include "ductile/pass.h"
#include "ductile/runtime.h"
#include "ductile/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// The most inputs and results of one op.
#define DT_OP_MAX_INPUTS 64
#define DT_OP_MAX_RESULTS 8
#define DT_OP_MAX_NUMBERS 8 // that one call of an op reads from data
// The most attributes of a call, values of a list, and bytes of a text (identities, too). What is
// within them can be written as a graph's text and read back.
#define DT_OP_MAX_ATTRS 64
#define DT_OP_MAX_VALUES 65536
#define DT_OP_MAX_TEXT 4095

// ---- Attributes ---------------------------------------------------------------------------------

// Values are stable.
typedef enum dt_op_attr_kind_t {
  DT_OP_ATTR_INT = 1,    // i
  DT_OP_ATTR_FLOAT = 2,  // f
  DT_OP_ATTR_TEXT = 3,   // text
  DT_OP_ATTR_INTS = 4,   // n, ints
  DT_OP_ATTR_FLOATS = 5, // n, floats
} dt_op_attr_kind_t;

// A value that is the same at each call of a function.
typedef struct dt_op_attr_t {
  const char *name; // letters, digits, _
  dt_op_attr_kind_t kind;
  uint32_t n; // of ints or floats
  int64_t i;
  double f;
  const char *text;
  const int64_t *ints;
  const double *floats;
} dt_op_attr_t;

// ---- Kernels ------------------------------------------------------------------------------------

// A tensor as a kernel sees it. Sizes and strides are `rank` numbers; strides count elements.
// Results are contiguous. An argument of a call is as the caller gave it; all other inputs are
// contiguous. Element 0 lies at `data`, which may be NULL where there are no elements.
typedef struct dt_op_tensor_t {
  void *data;
  dt_dtype_t dtype;
  uint32_t rank;
  const int64_t *sizes, *strides;
} dt_op_tensor_t;

// What one call of an op works on. Only the library makes it; it lives as long as the kernel runs.
typedef struct dt_op_args_t {
  uint32_t n_inputs, n_results, n_attrs;
  const dt_op_tensor_t *const *inputs; // not to be written
  const dt_op_tensor_t *const *results;
  const dt_op_attr_t *attrs;
  void *closure; // of the op's options
} dt_op_args_t;
// The attribute of this name and kind, or NULL. [any]
DT_API const dt_op_attr_t *dt_op_attr(const dt_op_args_t *args, const char *name,
                                      dt_op_attr_kind_t kind);

// Computes items [begin, end) of all results: NULL, or why it failed, with which the call then
// ends. Items are the op's to define (dt_op_set_items), and independent of each other: several
// threads run the kernel of one call at one time, each with other items. Every element of every
// result is written by one item. The floating-point environment is the library's and stays as it
// is. The kernel calls nothing of its runtime.
typedef dt_status_t (*dt_op_kernel_fn_t)(const dt_op_args_t *args, int64_t begin, int64_t end);

// A kernel for a device: text that its driver compiles (PTX), or an image that it loads (a cubin).
// The runtime copies both. The entry has one parameter, a struct by value:
//
//   void *reserved;
//   void *inputs[I], *results[R];           // on the device
//   { int64_t sizes[rank], strides[rank]; }  // of each input, then of each result
//   int64_t count;                           // items
//  Its grid has one dimension, of blocks of `threads` threads; block b computes items b * items to
// (b + 1) * items - 1, as far as there are so many. It cannot fail, and touches no other memory. It
// runs in graphs of launches (graphs.h) like all others. For what it does with its tensors the
// rules of dt_op_kernel_fn_t hold.
typedef struct dt_op_device_kernel_t {
  uint32_t struct_size; // sizeof(dt_op_device_kernel_t); 0 is taken as the size of version 0.1
  dt_device_t device;
  const char *entry; // its name in the text or image
  const char *text;  // zero-terminated; or NULL
  const void *image; // where text is NULL
  uint64_t image_bytes;
  uint32_t threads;      // of a block, at most 1,024
  uint32_t items;        // of a block; 0: 1. It divides `threads`
  uint32_t shared_bytes; // of dynamic shared memory a block
} dt_op_device_kernel_t;

// Reads numbers from the inputs' data, before the results are made: numbers[k] for each k below
// n_numbers. `args` has no results.
typedef dt_status_t (*dt_op_numbers_fn_t)(const dt_op_args_t *args, int64_t *numbers);

// ---- Inference ----------------------------------------------------------------------------------

// One call of an op, as it is traced. It ends when infer or decompose returns.
typedef struct dt_op_call dt_op_call_t;
// The trace that the call is made in. Infer asks it for dtypes, ranks and sizes (dt_value_dtype,
// dt_value_rank, dt_dim), and makes sizes with it (dt_sym_add and others). [external by trace]
DT_API dt_trace_t *dt_op_call_trace(const dt_op_call_t *call);
DT_API uint32_t dt_op_call_inputs(const dt_op_call_t *call);
// Input `index`; the none value beyond the last. [external by trace]
DT_API dt_value_t dt_op_call_input(const dt_op_call_t *call, uint32_t index);
// The attribute of this name and kind, or NULL; it lives as long as the call. [external by trace]
DT_API const dt_op_attr_t *dt_op_call_attr(const dt_op_call_t *call, const char *name,
                                           dt_op_attr_kind_t kind);
// Result `index`, from 0 on: its dtype and sizes. The results are as many as were set. A failure of
// this and of what follows is the trace's, which then fails. [external by trace]
DT_API void dt_op_set_result(dt_op_call_t *call, uint32_t index, dt_dtype_t dtype, uint32_t rank,
                             const dt_sym_t *sizes);
// Result `index` with the sizes of `like`, and its dtype where `dtype` is DT_DTYPE_NONE. [external
// by trace]
DT_API void dt_op_set_result_like(dt_op_call_t *call, uint32_t index, dt_value_t like,
                                  dt_dtype_t dtype);
// Into how many items the work of a kernel falls; without it there is one. A call has at least one.
// [external by trace]
DT_API void dt_op_set_items(dt_op_call_t *call, dt_sym_t items);
// Number `index` of those that the op reads from data. A call in which it is not from 0 to `most`
// ends with DT_E_RANGE. [external by trace]
DT_API dt_sym_t dt_op_number(dt_op_call_t *call, uint32_t index, int64_t most);

// Says what the results are. It runs whenever the op is called in a trace: NULL, or why the inputs
// do not fit.
typedef dt_status_t (*dt_op_infer_fn_t)(dt_op_call_t *call, void *closure);
// Computes results[k], all that infer set, by other ops; `results` has room for DT_OP_MAX_RESULTS.
// They have the dtypes and sizes that infer said. No branches, loops, constants and numbers from
// data are made there, and no op of itself: ops may call ops 64 deep.
typedef dt_status_t (*dt_op_decompose_fn_t)(dt_op_call_t *call, dt_value_t *results, void *closure);

// ---- Ops ----------------------------------------------------------------------------------------

// `name`, `infer`, and a kernel or a decomposition are required; the rest is valid when zeroed.
// Texts are copied.
typedef struct dt_op_options_t {
  uint32_t struct_size; // sizeof(dt_op_options_t); 0 is taken as the size of version 0.1
  uint32_t n_numbers;   // that `numbers` reads; at most DT_OP_MAX_NUMBERS
  const char *name;     // "domain.name": letters, digits, _ and dots; none that the runtime has
  // Says what the op computes: another text is another op. It is part of the key of all code that
  // is kept on disk. NULL: the name.
  const char *identity;
  // From 1 to DT_OP_MAX_INPUTS. Zeros: least_inputs is 1, most_inputs is as many as least_inputs.
  uint32_t least_inputs, most_inputs;
  dt_op_infer_fn_t infer;
  dt_op_decompose_fn_t decompose;
  dt_op_kernel_fn_t kernel; // on the CPU
  dt_op_numbers_fn_t numbers;
  void *closure;                              // of all of them
  void (*closure_free)(void *closure);        // called once when nothing can use the op any more
  const dt_op_device_kernel_t *device_kernel; // NULL: there is none
  // Result k is the new value of input updates[k] - 1, of its dtype and sizes; 0: of none. Where
  // that input is an argument (a value of in[]) the call updates it, as dt_update says: the program
  // reads the new value from then on, and it is written at the call's end, when nothing can fail
  // any more. No two results are of one input. Passes call no such op (DT_E_STATE).
  uint8_t updates[DT_OP_MAX_RESULTS];
  // Kernels take such a result and its input in one memory (their `data` are equal), and then leave
  // what does not change. No item reads what another one writes. It is so where nothing reads the
  // input afterwards, unless it is an argument that was not donated (DT_INPUT_DONATED). All other
  // results have memory of their own: none is a view of an input.
  bool in_place;
} dt_op_options_t;

// Adds an op, for functions that are made from then on. DT_E_ARGUMENT (what is required is missing,
// a name that is taken or has other characters, numbers without a function), DT_E_LIMIT,
// DT_E_NO_MEMORY: closure_free is not called. [any]
DT_API dt_status_t dt_op_register(dt_runtime_t *runtime,
                                  const dt_op_options_t *options) DT_MUST_USE;
// Whether functions that are made now can call an op of this name. False for a NULL. [any]
DT_API bool dt_op_exists(dt_runtime_t *runtime, const char *name);
// Passes: the attribute of a call of a user's op (a node `external`), or NULL. It lives as long as
// the pass. [external by rewriter]
DT_API const dt_op_attr_t *dt_rewriter_attr(dt_rewriter_t *rewriter, dt_value_t node,
                                            const char *name, dt_op_attr_kind_t kind);
// Takes an op out: functions that are made from then on have it no more; others keep it.
// DT_E_ARGUMENT where there is none of that name. [any]
DT_API dt_status_t dt_op_remove(dt_runtime_t *runtime, const char *name) DT_MUST_USE;

// Calls the op `name` of the function's runtime: results[k] for each k below n_results, which infer
// must have set; further results are dropped. A failure is the trace's, and names the op:
// DT_E_UNSUPPORTED where there is no such op, or none for the session's device, and in a pattern's
// program (pattern.h); DT_E_LIMIT for attributes beyond DT_OP_MAX_*.
// [external by trace]
DT_API void dt_op_call(dt_trace_t *trace, const char *name, uint32_t n_inputs,
                       const dt_value_t *inputs, uint32_t n_attrs, const dt_op_attr_t *attrs,
                       uint32_t n_results, dt_value_t *results);

// ---- Libraries ----------------------------------------------------------------------------------

// The form of the next struct, and of all else that a library and its runtime know of each other. A
// library of another form is refused.
#define DT_OP_LIBRARY_FORM 1

// What a shared object says that brings ops, passes, patterns and lowerings.
typedef struct dt_op_library_info_t {
  uint32_t form;    // DT_OP_LIBRARY_FORM
  const char *name; // letters, digits, _ and -; one that no other library of the runtime has
  // Of its code, such as a version: part of the identities of all that it brings. NULL: the name.
  const char *identity;
  // Registers what it brings (dt_op_register, dt_runtime_add_pass, …), on the calling thread. NULL,
  // or why it cannot: then it brings nothing.
  dt_status_t (*open)(dt_runtime_t *runtime);
} dt_op_library_info_t;
// The function that it exports, with C linkage, under the name "dt_op_library".
typedef const dt_op_library_info_t *(*dt_op_library_fn_t)(void);

// Loads the shared object at `path` and lets it register what it brings, for functions that are
// made from then on. It stays loaded as long as a function needs it. DT_E_IO (it cannot be loaded),
// DT_E_UNSUPPORTED (it is no library of ops, or of another form), DT_E_ARGUMENT (it is open
// already, its name has other characters, it brings nothing), and what its `open` says. [any]
DT_API dt_status_t dt_op_library_open(dt_runtime_t *runtime, const char *path) DT_MUST_USE;
// Takes out all that the library brought: functions that are made from then on have it no more.
// DT_E_ARGUMENT where none of that name is open. [any]
DT_API dt_status_t dt_op_library_close(dt_runtime_t *runtime, const char *name) DT_MUST_USE;

#ifndef DT_NO_SOURCE_LINES
#define dt_op_call(trace, ...) (dt_op_call)(DT_AT(trace), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_OP_H
