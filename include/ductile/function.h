// SPDX-License-Identifier: Apache-2.0
// Functions: a program with what is said of its inputs, its compiled variants, its constants.
// A first use: dt_runtime_create, dt_function_create, dt_function_prepare where no call is to wait
// for a compiler; then dt_session_create and dt_call (session.h).
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

// How a compile takes the sizes of the call that asked for it, its integer arguments and captures:
// what torch.compile calls `dynamic`. Marks of dims go before it.
typedef enum dt_dynamic_t {
  // dynamic=True: symbols from the first compile on, so that one variant serves all sizes that the
  // program does not itself tell apart; 0 and 1 are ordinary sizes.
  DT_DYNAMIC_SYMBOLIC = 0,
  // dynamic=None, PyTorch's default: the first compile takes the numbers of its call; each number
  // that has changed when a later call misses becomes a symbol for good ("automatic dynamic").
  DT_DYNAMIC_AUTOMATIC = 1,
  // dynamic=False: every compile takes the numbers of its call.
  DT_DYNAMIC_STATIC = 2
} dt_dynamic_t;

// What is said about one dim, in PyTorch's words. Dims of one name share a mark.
typedef enum dt_mark_t {
  DT_MARK_NONE = 0,    // the function's `dynamic` decides
  DT_MARK_DYNAMIC = 1, // mark_dynamic: a symbol; a program that needs one size gets DT_E_SHAPE
                       // naming the dim, the op and the line
  DT_MARK_MAYBE_DYNAMIC = 2, // maybe_mark_dynamic: a symbol; a program that needs one size gets a
                             // variant for it
  DT_MARK_STATIC = 3,        // mark_static: each size of a call gets a variant of its own
  DT_MARK_UNBACKED = 4 // mark_unbacked: a symbol without a size while tracing, as if read from
                       // data: never a guard, what ops need is checked at each call, and a C
                       // branch on it is DT_E_STATE
} dt_mark_t;

// One dim of a declared input. Zeroed: any size, a symbol of its own. What is declared is checked
// at each call, whatever variants there are.
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

// What an input is.
typedef enum dt_input_kind_t {
  DT_INPUT_TENSOR = 0,
  // A number that calls bring as a rank-0 tensor (dtype: an integer of at most 64 bits, not u64).
  // The program sees a rank-0 i64 value made of a symbol: dt_int_value gives the symbol, which may
  // make sizes.
  DT_INPUT_INTEGER = 1,
  DT_INPUT_BOOLEAN =
      2, // the same, of dtype bool, 0 or 1; a symbol only where `dynamic` is symbolic
  // Numbers that calls bring as a tensor of rank 0 or 1 in host memory (i64, i32 or bool; rank 1:
  // as many elements as its dim's `value`, is_static, at most 64). The program sees an i64 value of
  // that rank, made of a symbol an element: dt_int_elements gives them.
  DT_INPUT_INTEGERS = 3
} dt_input_kind_t;

// An input, in the order of the program's in[]. What is left zero says nothing but the dtype.
typedef struct dt_input_decl_t {
  const char *name; // for messages; NULL: "argument <index>"
  dt_dtype_t dtype; // required
  uint32_t rank;
  const dt_dim_decl_t *dims; // `rank` entries; NULL: all zero
  dt_input_kind_t kind;
  uint32_t alignment; // of the data, in bytes: a power of two up to 4096, checked at each call; 0:
                      // the dtype's
} dt_input_decl_t;

// Who answers a call.
typedef enum dt_answer_t {
  DT_ANSWER_COMPILED = 0, // compiled code, or a status
  DT_ANSWER_EVALUATOR = 1 // the reference evaluator (float64 inside): slow, for checking answers
} dt_answer_t;

// What a call gets that would need one variant more than the limit. Each is logged (`recompiles`)
// and counted; calls that existing variants cover go on as ever.
typedef enum dt_limit_action_t {
  // One more variant, made without the sizes of any call: every dim that is not declared or marked
  // otherwise is a symbol. DT_E_LIMIT where the program cannot be traced so, or where it does not
  // cover the call.
  DT_LIMIT_GENERIC = 0,
  DT_LIMIT_ERROR = 1,    // DT_E_LIMIT
  DT_LIMIT_EVALUATOR = 2 // the reference evaluator's answer: slow, traced anew for each such call
} dt_limit_action_t;

// How a session on a device runs a call; on the CPU it makes no difference.
typedef enum dt_call_mode_t {
  DT_CALL_DEFAULT = 0, // for a call: as its function says; for a function: DT_CALL_PLAIN, or what
                       // DUCTILE_REDUCE_OVERHEAD says
  DT_CALL_PLAIN = 1,   // kernels are launched one by one, results have memory of their own
  // "reduce-overhead": all kernels of a call are one launch of a graph that serves every size,
  // and results live in the session's memory until dt_step_begin (graphs.h).
  DT_CALL_REDUCE_OVERHEAD = 2
} dt_call_mode_t;

// `name`, `n_inputs`, `inputs` and `n_outputs` are required; the rest is valid when zeroed.
// Everything is copied.
typedef struct dt_function_options_t {
  uint32_t struct_size; // sizeof(dt_function_options_t); 0 is taken as the size of version 0.1
  uint32_t n_inputs, n_outputs;
  // Bytes from one entry of `inputs` to the next, sizeof(dt_input_decl_t), and from one of their
  // `dims` to the next, sizeof(dt_dim_decl_t); 0 is taken as the size of version 0.1.
  uint32_t input_size, dim_size;
  const char *name;              // for messages, logs and dumps
  const dt_input_decl_t *inputs; // n_inputs entries
  dt_answer_t answer;
  uint32_t variant_limit; // 0: DUCTILE_VARIANT_LIMIT; limit_action says what a call beyond it gets
  bool strict_fp;         // sums of floats in order, products rounded: DT_MODE_STRICT_FP
  void (*closure_free)(void *closure); // called once when the function is destroyed; NULL: nothing
  dt_dynamic_t dynamic;
  dt_limit_action_t limit_action;
  uint32_t compile_limit; // compiles in the function's life, failed ones included, before
                          // limit_action is taken; 0: DUCTILE_COMPILE_LIMIT. Calls that are refused
                          // for their arguments (DT_E_SHAPE and such), and compiles that a lack of
                          // memory, a deadline or a flag ends, use up neither limit
  dt_call_mode_t call_mode;
  // The most bytes that one call may take: what it keeps between kernels, scratch of its threads
  // and new results, looked at before anything is taken (where the call reads sizes from its data,
  // again whenever it has). DT_E_LIMIT beyond. What the evaluator keeps counts as it takes it. 0:
  // DUCTILE_MAX_CALL_MIB, else what fits.
  uint64_t max_call_bytes;
  // Passes of users (pass.h): names of passes on demand that this function has, and, each behind a
  // minus, of others that it does not have, such as "quantise,-fuse_norm". NULL: all of the runtime
  // but those on demand. DT_E_ARGUMENT for a name that is none.
  const char *passes;
} dt_function_options_t;

// Makes a function. Nothing is traced yet. On failure *out is NULL and closure_free is not called.
// [any]
DT_API dt_status_t dt_function_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                                      const dt_function_options_t *options,
                                      dt_function_t **out) DT_MUST_USE;
DT_API void dt_function_retain(dt_function_t *function); // [any]
// NULL allowed. The last release may run while other functions are called, not while this one is.
// [any]
DT_API void dt_function_release(dt_function_t *function);

// What a function takes: declaration `index`, which lives as long as the function. Its `dims` are
// NULL where nothing is said of them; else they are asked for one by one. NULL where there is none.
// [any]
DT_API const dt_input_decl_t *dt_function_input(const dt_function_t *function, uint32_t index);
// What is said of dim `dim` of input `index`; NULL where nothing is. [any]
DT_API const dt_dim_decl_t *dt_function_input_dim(const dt_function_t *function, uint32_t index,
                                                  uint32_t dim);
DT_API uint32_t dt_function_n_inputs(const dt_function_t *function);  // 0 of NULL [any]
DT_API uint32_t dt_function_n_outputs(const dt_function_t *function); // 0 of NULL [any]

// Valid when zeroed: for sessions on the CPU.
typedef struct dt_prepare_options_t {
  uint32_t struct_size; // sizeof(dt_prepare_options_t); 0 is taken as the size of version 0.1
  dt_device_t device;   // that the sessions are on
  int32_t ordinal;      // which of the kind; 0 on the CPU
  // Until when to wait, and what ends the wait: as in dt_call_options_t.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
} dt_prepare_options_t;

// Compiles the generic variant from the declared inputs alone, contiguous, without example sizes,
// and waits for it; afterwards no call waits for a compiler unless it enters a region of sizes that
// the program itself distinguishes. Does nothing when a variant exists. DT_E_STATE where `dynamic`
// or a mark asks for the sizes of a call, DT_E_UNSUPPORTED where there is no such device. `options`
// may be NULL. [any]
DT_API dt_status_t dt_function_prepare(dt_function_t *function,
                                       const dt_prepare_options_t *options) DT_MUST_USE;

// While frozen, a call that no variant covers makes none: it gets DT_E_STATE, which names the guard
// it missed by. A compile under way goes on. [any]
DT_API dt_status_t dt_function_freeze(dt_function_t *function, bool frozen) DT_MUST_USE;

// Replaces the data of constant `name` (same dtype and sizes) for all variants, between calls: a
// call under way keeps the old data, a later one sees the new. `tensor` is retained. DT_E_ARGUMENT
// (no such constant), DT_E_DTYPE, DT_E_SHAPE, DT_E_UNSUPPORTED (elements of it are numbers in the
// code: initializers of ONNX models that sizes, axes and the like are read from, and what
// dt_constant_taken names); on failure nothing changed. [any]
DT_API dt_status_t dt_constant_update(dt_function_t *function, const char *name,
                                      dt_tensor_t *tensor) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Since the function was made. Set struct_size before asking: nothing beyond it is written, and
// what a newer header has than the library is 0.
typedef struct dt_function_stats_t {
  uint32_t struct_size;
  uint32_t variants;     // published
  uint64_t compiles;     // failed ones included, but those that a lack of memory, a deadline or a
                         // flag ended; not calls refused for arguments
  uint64_t calls;        // that returned an answer
  uint64_t misses;       // calls for which no variant's guards held
  uint64_t failed_calls; // that returned a failure
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t compile_ns;      // spent in compiles, wall time
  uint64_t code_bytes;      // of machine code, all variants
  uint64_t constant_bytes;  // of packed constants, all variants
} dt_function_stats_t;
// DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_stats(dt_function_t *function,
                                     dt_function_stats_t *stats) DT_MUST_USE;
// All that is counted, as one JSON object: the fields above and those of
// dt_function_counters_t (experimental.h), which later versions may change. *out is released with
// dt_text_free. DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_stats_json(dt_function_t *function, char **out) DT_MUST_USE;

// What calls have shown: which sizes, integers and captures change (the state of "automatic
// dynamic"), and a histogram of the sizes of sampled calls and of misses. Saved as text by way of a
// temporary file beside `path`, which is replaced as a whole. DT_E_IO, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_profile_save(dt_function_t *function, const char *path) DT_MUST_USE;
// Adds a saved profile to what the function knows. It only ever makes more sizes dynamic, and with
// one loaded before the first call automatic promotion needs no second compile. DT_E_IO,
// DT_E_FORMAT (damaged, of another version or of a function with other inputs), DT_E_NO_MEMORY; on
// failure nothing changed. [any]
DT_API dt_status_t dt_function_profile_load(dt_function_t *function, const char *path) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_FUNCTION_H
