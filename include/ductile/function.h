// SPDX-License-Identifier: Apache-2.0
// Functions: a program with the declarations of its inputs, its compiled variants and its
// constants. A first use: dt_runtime_create, dt_function_create, then dt_session_create and dt_call
// (session.h). Call dt_function_prepare before the first call if no call should wait for a
// compiler.
#ifndef DUCTILE_FUNCTION_H
#define DUCTILE_FUNCTION_H

#include "ductile/runtime.h"
#include "ductile/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Functions ----------------------------------------------------------------------------------

// A program with its compiled variants. Thread-safe: any number of sessions may call it at once.
typedef struct dt_function dt_function_t;

// Whether a compile makes symbols or fixed numbers of the sizes, integer arguments and captures of
// the call that asked for it (torch.compile's `dynamic`). Marks of dims take precedence.
typedef enum dt_dynamic_t {
  // dynamic=True: symbols from the first compile on. One variant serves all sizes, unless the
  // program itself distinguishes them; 0 and 1 are ordinary sizes.
  DT_DYNAMIC_SYMBOLIC = 0,
  // dynamic=None, PyTorch's default: the first compile takes the numbers of its call. When a later
  // call misses, each number that has changed becomes a symbol for good ("automatic dynamic").
  DT_DYNAMIC_AUTOMATIC = 1,
  // dynamic=False: every compile takes the numbers of its call.
  DT_DYNAMIC_STATIC = 2
} dt_dynamic_t;

// A mark of one dim, in PyTorch's words. Dims of one name share a mark.
typedef enum dt_mark_t {
  DT_MARK_NONE = 0,          // the function's `dynamic` decides
  DT_MARK_DYNAMIC = 1,       // mark_dynamic: a symbol. If the program needs one size, the call gets
                             // DT_E_SHAPE naming the dim, the op and the line
  DT_MARK_MAYBE_DYNAMIC = 2, // maybe_mark_dynamic: a symbol. If the program needs one size, that
                             // size gets its own variant
  DT_MARK_STATIC = 3,        // mark_static: each size of a call gets a variant of its own
  DT_MARK_UNBACKED = 4 // mark_unbacked: a symbol without a size while tracing, as if read from
                       // data. It makes no guard. What ops need is checked at each call. A C branch
                       // on it is DT_E_STATE
} dt_mark_t;

// One dim of a declared input. Zeroed: any size, a symbol of its own. Every call is checked against
// the declaration, whatever variants exist.
typedef struct dt_dim_decl_t {
  const char *name; // dims of one name have one size, checked at each call; NULL: unnamed
  int64_t min, max; // allowed sizes, inclusive; max 0 means no upper bound of its own
  int64_t value;    // with is_static: the only size
  bool is_static;
  dt_mark_t mark;
  int64_t multiple_of; // sizes are multiples of this; 0: any
  // A derived dim: its size is scale * (the size of the dims named `of`) + offset. NULL: none.
  const char *of;
  int64_t scale, offset; // scale 0 is taken as 1
} dt_dim_decl_t;

// The kind of an input.
typedef enum dt_input_kind_t {
  DT_INPUT_TENSOR = 0,
  // A number that calls pass as a rank-0 tensor (dtype: an integer of at most 64 bits, not u64).
  // The program sees a rank-0 i64 value; dt_int_value gives its symbol, which can be used in sizes.
  DT_INPUT_INTEGER = 1,
  DT_INPUT_BOOLEAN =
      2, // as DT_INPUT_INTEGER with dtype bool, 0 or 1; a symbol only if `dynamic` is symbolic
  // Numbers that calls pass as a tensor of rank 0 or 1 in host memory (i64, i32 or bool). Rank 1:
  // the dim is_static, and its `value`, at most 64, is the number of elements. The program sees an
  // i64 value of that rank; dt_int_elements gives its symbols, one per element.
  DT_INPUT_INTEGERS = 3,
  // A tensor whose elements the caller gives up (JAX's donate_argnums): after a call, also after
  // one that failed, their values are undefined, but for what a program that updates the argument
  // (dt_update) leaves there where the call succeeds. So a result of as many bytes may be returned
  // as a tensor that shares the argument's storage: where the argument is contiguous, over memory
  // that Ductile owns (on a device: made by a session of the same stream), and apart from all other
  // arguments and from constants. Else it is not, and nothing else changes. Not in graphs of
  // kernels (DT_CALL_REDUCE_OVERHEAD), and not where the caller gives the result's tensor.
  DT_INPUT_DONATED = 4
} dt_input_kind_t;

// An input, in the order of the program's in[]. Only the dtype is required; a field that is 0
// declares nothing.
typedef struct dt_input_decl_t {
  const char *name; // for messages; NULL: "argument <index>"
  dt_dtype_t dtype; // required
  uint32_t rank;
  const dt_dim_decl_t *dims; // `rank` entries; NULL: all zero
  dt_input_kind_t kind;
  uint32_t alignment; // of the data, in bytes: a power of two up to 4096, checked at each call; 0:
                      // the dtype's alignment
} dt_input_decl_t;

// A result, in the order of the program's out[]. Zeroed: row-major.
typedef struct dt_output_decl_t {
  const char *name; // for messages; NULL: "result <index>"
  // How its elements lie in memory, without gaps: its dims from the outermost to the innermost,
  // each of 0 … rank - 1 once ({0, 2, 3, 1}: channels last). The kernel that computes it stores it
  // so. NULL: row-major. A call gets DT_E_SHAPE if the result has another rank, DT_E_UNSUPPORTED if
  // its elements share bytes (i4 and such) and the order is not row-major.
  const uint32_t *order;
  uint32_t rank; // entries of `order`
  // Instead of `order`: 1 + the index of a tensor input of the result's rank, whose order of dims
  // in the call's argument the result takes; each order has a variant of its own. An argument with
  // gaps, or without elements, counts as row-major. Dims of size 1 lie where their strides say. 0:
  // none.
  uint32_t like_input;
  // The result may be returned as a view of an argument: without a copy, with strides, and with a
  // share of the argument's storage. It is one where the program makes it of the argument by views
  // alone (dt_slice, dt_permute, dt_reshape, dt_expand, …; dt_bitcast), no order is asked for, the
  // call neither updates the argument nor was it donated, and the argument is over memory that
  // Ductile owns (on a device: made by a session of the same stream). Who then writes the one
  // writes the other: compare dt_tensor_data with the argument's memory to know. Else, in graphs of
  // kernels (DT_CALL_REDUCE_OVERHEAD), and where the caller gives the result's tensor, it is a
  // copy.
  bool may_alias_input;
} dt_output_decl_t;

// What computes the results of a call.
typedef enum dt_answer_t {
  DT_ANSWER_COMPILED = 0, // compiled code, or a status
  DT_ANSWER_EVALUATOR = 1 // the reference evaluator (float64 inside): slow, for checking answers
} dt_answer_t;

// What happens when a call would need one variant more than the limit. Each such call is logged
// (`recompiles`) and counted. Calls that existing variants cover are not affected.
typedef enum dt_limit_action_t {
  // One more variant, compiled without the sizes of any call: every dim is a symbol, unless it is
  // declared or marked otherwise. DT_E_LIMIT if the program cannot be traced this way, or if this
  // variant does not cover the call.
  DT_LIMIT_GENERIC = 0,
  DT_LIMIT_ERROR = 1,    // DT_E_LIMIT
  DT_LIMIT_EVALUATOR = 2 // the reference evaluator's answer: slow, traced again for each such call
} dt_limit_action_t;

// How a session on a device runs a call. On the CPU it makes no difference.
typedef enum dt_call_mode_t {
  DT_CALL_DEFAULT = 0, // for a call: the function's mode; for a function: DT_CALL_PLAIN, or what
                       // DUCTILE_REDUCE_OVERHEAD says
  DT_CALL_PLAIN = 1,   // kernels are launched one by one; results have memory of their own
  // "reduce-overhead": all kernels of a call are one launch of a graph that serves every size,
  // and results live in the session's memory until dt_step_begin (graphs.h).
  DT_CALL_REDUCE_OVERHEAD = 2
} dt_call_mode_t;

// `name`, `n_inputs`, `inputs` and `n_outputs` are required; the rest is valid when zeroed.
// Everything is copied.
typedef struct dt_function_options_t {
  uint32_t struct_size; // sizeof(dt_function_options_t); 0 is taken as the size of version 0.1
  uint32_t n_inputs, n_outputs;
  // Bytes from one entry of `inputs` to the next: sizeof(dt_input_decl_t). Bytes from one entry of
  // their `dims` to the next: sizeof(dt_dim_decl_t). 0 is taken as the size of version 0.1.
  uint32_t input_size, dim_size;
  const char *name;              // for messages, logs and dumps
  const dt_input_decl_t *inputs; // n_inputs entries
  dt_answer_t answer;
  uint32_t variant_limit; // 0: DUCTILE_VARIANT_LIMIT. limit_action says what happens beyond it
  bool strict_fp;         // sums of floats in order, products rounded (DT_MODE_STRICT_FP)
  void (*closure_free)(void *closure); // called once when the function is destroyed; NULL: nothing
  dt_dynamic_t dynamic;
  dt_limit_action_t limit_action;
  uint32_t compile_limit; // compiles in the function's life, failed ones included, before
                          // limit_action is taken; 0: DUCTILE_COMPILE_LIMIT. Neither limit counts
                          // calls refused for their arguments (DT_E_SHAPE and such), or compiles
                          // ended by lack of memory, a deadline or a flag
  dt_call_mode_t call_mode;
  // The most bytes that one call may take: temporaries, its threads' scratch and new results.
  // Checked before memory is taken, and again each time the call has read sizes from its data.
  // Beyond it: DT_E_LIMIT. The evaluator's memory is counted as it is taken. 0:
  // DUCTILE_MAX_CALL_MIB, else whatever fits.
  uint64_t max_call_bytes;
  // Passes of users (pass.h): names of passes on demand that this function has, and, each behind a
  // minus, of others that it does not have, such as "quantise,-fuse_norm". NULL: all of the runtime
  // but those on demand. DT_E_ARGUMENT for a name that is none.
  const char *passes;
  // What is asked of the results: n_outputs entries, or NULL. Of a function that is made of a model
  // or of a graph's text as many as that has results. DT_E_ARGUMENT naming the result for an order
  // that is none, an input that there is not or that is no tensor, or an order and an input.
  const dt_output_decl_t *outputs;
  uint32_t
      output_size; // bytes from one entry of `outputs` to the next: sizeof(dt_output_decl_t); 0
                   // is taken as the size of the first version that had them
  // Percent of sampled calls on the CPU, 1 to 100. Sizes that so many of them have, or ranges and
  // divisors of sizes, get a variant of their own. It is made behind, by a thread at low priority,
  // and answers these sizes from then on if it was faster in a trial in which it had the same bits.
  // That is no proof for other data: floats may have other bits than before, within the numerical
  // policy. docs/tuning.md says more. 0: DUCTILE_HOT_SIZES, else none are made.
  uint64_t hot_percent;
} dt_function_options_t;

// Makes a function; traces nothing yet. On failure *out is NULL and closure_free is not called.
// [any]
DT_API dt_status_t dt_function_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                                      const dt_function_options_t *options,
                                      dt_function_t **out) DT_MUST_USE;
DT_API void dt_function_retain(dt_function_t *function); // [any]
// NULL allowed. The last release may run while other functions are called, but not while this one
// is. [any]
DT_API void dt_function_release(dt_function_t *function);

// The declaration of input `index`, which lives as long as the function; NULL if there is no such
// input. Its `dims` are NULL if nothing is declared of them; otherwise ask for them one by one.
// [any]
DT_API const dt_input_decl_t *dt_function_input(const dt_function_t *function, uint32_t index);
// The declaration of dim `dim` of input `index`; NULL if there is none. [any]
DT_API const dt_dim_decl_t *dt_function_input_dim(const dt_function_t *function, uint32_t index,
                                                  uint32_t dim);
// What was asked of result `index`, which lives as long as the function; NULL if nothing was asked
// of any result, or there is no such result. like_input counts elements of DT_INPUT_INTEGERS as
// inputs of their own. [any]
DT_API const dt_output_decl_t *dt_function_output(const dt_function_t *function, uint32_t index);
DT_API uint32_t dt_function_n_inputs(const dt_function_t *function);  // 0 for NULL [any]
DT_API uint32_t dt_function_n_outputs(const dt_function_t *function); // 0 for NULL [any]

// ---- Results before a call ------------------------------------------------------------------------

// What is known of a value before any call. The library gives it by pointer, so later versions may
// add fields at its end. Texts are never NULL.
typedef struct dt_spec_t {
  const char *name; // "" where nothing names it
  dt_dtype_t dtype; // DT_DTYPE_NONE: no tensor, or of elements that Ductile does not have
  bool ranked;      // false: the rank is not known; then `rank` is 0
  uint32_t rank;
  const int64_t *sizes; // `rank` sizes, in elements; -1: not the same for all calls
  // `rank` texts: "768"; "batch", by its declared name; "2*seq + 1", of the sizes of inputs;
  // "x.size(0)", of a dim that has no name; "?" where the data of a call decide, or nothing is
  // said.
  const char *const *dims;
} dt_spec_t;

// What is known of several values, in their order.
typedef struct dt_specs_t {
  uint32_t n;
  const dt_spec_t *const *items;
} dt_specs_t;

// The results of a function, in the order of the program's out[], for all sizes that its inputs
// declare: what a server makes its buffers by, and dt_function_output_sizes (session.h) says in
// numbers for given inputs. The program is traced from the declared inputs; nothing is compiled,
// and nothing is remembered. A function whose program needs the sizes of a call tells of the first
// of its variants instead, in whose dims those sizes may be numbers; DT_E_STATE while it has none.
// Of a function of a package the package's first variant is asked, without a code generator. *out
// is the caller's, released with dt_specs_free; NULL on failure. DT_E_ARGUMENT, DT_E_NO_MEMORY,
// DT_E_FORKED, or what the program failed with. [any]
DT_API dt_status_t dt_function_outputs(dt_function_t *function, dt_specs_t **out) DT_MUST_USE;
DT_API void dt_specs_free(dt_specs_t *specs); // NULL allowed [any, each once]

// Which kernels are waited for on a CPU. Both forms have the same bits. A call that must compile
// much is answered by the first form, which is made in about half the time (DUCTILE_QUICK); the
// best takes its place behind.
typedef enum dt_prepare_form_t {
  DT_PREPARE_BEST = 0,
  DT_PREPARE_FIRST, // whatever answers first
} dt_prepare_form_t;

// How tensor inputs may lie in memory without a compile at a call. Each layout is ready for all
// inputs in any mix with those above it.
typedef enum dt_prepare_layout_t {
  DT_PREPARE_CONTIGUOUS = 0,
  // Also rows with gaps: the innermost dim has stride 1, the others any strides, as in a slice of a
  // buffer for the largest batch.
  DT_PREPARE_ROWS,
  DT_PREPARE_STRIDED, // also any strides, zero and negative ones too
} dt_prepare_layout_t;

// Valid when zeroed: for sessions on the CPU.
typedef struct dt_prepare_options_t {
  uint32_t struct_size; // sizeof(dt_prepare_options_t); 0 is taken as the size of version 0.1
  dt_device_t device;   // the device of the sessions that will call
  int32_t ordinal;      // which device of the kind; 0 on the CPU
  // The deadline of the wait and the flag that cancels it, as in dt_call_options_t.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
  uint32_t form; // dt_prepare_form_t
  // dt_prepare_layout_t: but for contiguous inputs, one variant more for each layout up to this
  // one. Its code is that of strides that are known at a call only; contiguous inputs keep theirs.
  uint64_t layouts;
} dt_prepare_options_t;

// Compiles the generic variant from the declared inputs alone (without example sizes), and that of
// each further layout asked for, and waits for them. Afterwards no call with inputs of these
// layouts waits for a compiler, unless the program itself distinguishes the call's sizes. If such
// variants exist, it waits for their kernels at most. DT_E_ARGUMENT if there is no such form or
// layout. DT_E_STATE if `dynamic` or a
// mark asks for the sizes of a call. DT_E_UNSUPPORTED if there is no such device. `options` may be
// NULL. [any]
DT_API dt_status_t dt_function_prepare(dt_function_t *function,
                                       const dt_prepare_options_t *options) DT_MUST_USE;

// While a function is frozen, no call makes a variant. A call that no variant covers gets
// DT_E_STATE, which names the guard that failed. A compile under way goes on. [any]
DT_API dt_status_t dt_function_freeze(dt_function_t *function, bool frozen) DT_MUST_USE;

// Replaces the data of constant `name` (same dtype and sizes) for all variants, between calls: a
// call under way keeps the old data, a later one sees the new. `tensor` is retained. On failure
// nothing has changed: DT_E_ARGUMENT (no such constant), DT_E_DTYPE, DT_E_SHAPE, DT_E_UNSUPPORTED.
// The last means that the code holds elements of the constant as numbers: the constant was named by
// dt_constant_taken, or it is an ONNX initializer that sizes, axes and the like are read from.
// [any]
DT_API dt_status_t dt_constant_update(dt_function_t *function, const char *name,
                                      dt_tensor_t *tensor) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Counts since the function was made. Set struct_size before asking: nothing beyond it is written.
// Fields that a newer header has and this library does not are 0.
typedef struct dt_function_stats_t {
  uint32_t struct_size;
  uint32_t variants;     // published
  uint64_t compiles;     // failed ones included. Not counted: compiles ended by lack of memory, a
                         // deadline or a flag, and calls refused for their arguments
  uint64_t calls;        // that returned an answer
  uint64_t misses;       // calls for which no variant's guards held
  uint64_t failed_calls; // that returned a failure
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t compile_ns;      // spent in compiles, wall time
  uint64_t code_bytes;      // of machine code, all variants
  uint64_t constant_bytes;  // of packed constants, all variants: those that several have, once
} dt_function_stats_t;
// DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_stats(dt_function_t *function,
                                     dt_function_stats_t *stats) DT_MUST_USE;
// All counts as one JSON object: the fields above and those of dt_function_counters_t
// (experimental.h), which later versions may change. *out is released with dt_text_free.
// DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_stats_json(dt_function_t *function, char **out) DT_MUST_USE;

// Saves the function's profile as text: which sizes, integers and captures change (the state of
// "automatic dynamic"), and a histogram of the sizes of sampled calls and of misses. The file at
// `path` is replaced as a whole, by way of a temporary file beside it. DT_E_IO, DT_E_NO_MEMORY.
// [any]
DT_API dt_status_t dt_function_profile_save(dt_function_t *function, const char *path) DT_MUST_USE;
// Adds a saved profile to the function's own. It can only make more sizes dynamic. If it is loaded
// before the first call, automatic promotion needs no second compile. DT_E_IO, DT_E_FORMAT
// (damaged, of another version or of a function with other inputs), DT_E_NO_MEMORY; on failure
// nothing has changed. [any]
DT_API dt_status_t dt_function_profile_load(dt_function_t *function, const char *path) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_FUNCTION_H
