// SPDX-License-Identifier: Apache-2.0
// The runtime, functions, sessions and calls: how a program is compiled and run.
//
//   dt_runtime_create ─► dt_function_create ─► dt_function_prepare (optional)
//                        dt_session_create  ─► dt_call … dt_call
#ifndef DUCTILE_FUNCTION_H
#define DUCTILE_FUNCTION_H

#include "ductile/tensor.h"
#include "ductile/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Runtime ------------------------------------------------------------------------------------

// Compile threads, the kernel thread pool, logs. A process may have several; objects of one must
// not be mixed with another's. Reference-counted; functions and sessions hold a reference.
typedef struct dt_runtime dt_runtime_t;

// Where machine code is made. A compiler that runs out of memory, crashes or hangs ends the process
// that it runs in.
typedef enum dt_isolation_t {
  DT_ISOLATION_DEFAULT = 0,    // what DUCTILE_ISOLATION says, else in this process
  DT_ISOLATION_IN_PROCESS = 1, // on compile threads of this process: the fastest
  // In processes of its own (docs/worker.md), limited in memory and time. What ends one of them
  // gives those calls that asked for the code DT_E_COMPILE or DT_E_NO_MEMORY; all others go on. It
  // is no sandbox.
  DT_ISOLATION_WORKER = 2,
} dt_isolation_t;

// Valid when zeroed.
typedef struct dt_runtime_options_t {
  uint32_t struct_size; // sizeof(dt_runtime_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
  uint32_t threads;     // that run kernels, callers included; 0: DUCTILE_THREADS, else one a core
                        // (of as many as the process's control groups allow, cpu.max)
  uint32_t compile_threads; // 0: DUCTILE_COMPILE_THREADS, else one a core, at most 8
  // Budgets of one compile, tracing included (docs/limits.md). Where one is used up, the call or
  // dt_function_prepare that asked for it gets DT_E_LIMIT naming the budget, how much was used and
  // where; the function goes on with the variants it has, and may be called again.
  uint32_t max_nodes;         // ops that a program records; 0: DUCTILE_MAX_NODES, else 50,000
  uint64_t max_compile_ns;    // nanoseconds of processor time, over all threads; 0:
                              // DUCTILE_COMPILE_SECONDS, else 600 s
  uint64_t max_compile_bytes; // of memory at any one time, LLVM's by estimate; 0:
                              // DUCTILE_COMPILE_MIB, else 4 GiB
  // What the runtime may hold of the host's memory, that can be made again (dt_runtime_stats):
  // traced graphs, code, packed constants, memory of sessions, the host's part of CUDA graphs.
  // Beyond it, what was used longest ago goes: variants, for the CPU or a device, which are
  // compiled again when a call needs them and count against no limit for it; CUDA graphs, which are
  // assembled again; and what idle sessions hold. Never what a call is in; what it left queued on a
  // device is done, and failed checks of it are told, as ever. 0: DUCTILE_MAX_MIB, else no limit.
  // Devices have a limit of their own, max_device_bytes.
  uint64_t max_bytes;
  dt_isolation_t isolation;
  const char *worker_path; // of the program ductile-worker, copied; NULL: DUCTILE_WORKER, else
                           // beside the library, else where it was installed
  // As max_bytes, of the memory of all its devices together: code, copies of constants and what is
  // packed of them, memory of sessions, CUDA graphs by estimate (which DUCTILE_GRAPH_MIB limits,
  // too). Results of plain calls, the caller's tensors and what the driver keeps are not counted.
  // 0: DUCTILE_MAX_DEVICE_MIB, else no limit.
  uint64_t max_device_bytes;
} dt_runtime_options_t;

// Reads DUCTILE_* variables once. `options` may be NULL. DT_E_ARGUMENT (an option or variable out
// of range), DT_E_NO_MEMORY, DT_E_UNSUPPORTED (also where the system lets this process make no
// code; the message says what it forbids), DT_E_FORKED. On failure *out is NULL. [any]
//
// Fork: a child that is forked while any runtime lives can release what it got, and gets
// DT_E_FORKED from all else, a runtime of its own included, since the threads stay with the parent;
// so fork first, or exec. A child that is forked before the first runtime is made, or after the
// last one is gone, has the library for itself, with the tensors and models that the parent had.
//
// The end of the process: it may end in any way at any time, with nothing released. exit, also by a
// return from main, waits until no thread is inside the code generator, which is a fraction of a
// second; what is compiled or called for the first time from then on gets DT_E_STATE. When the main
// thread has ended by pthread_exit, the runtimes' threads end with the last of the host's that made
// a runtime or a session.
DT_API dt_status_t dt_runtime_create(const dt_runtime_options_t *options,
                                     dt_runtime_t **out) DT_MUST_USE;
DT_API void dt_runtime_retain(dt_runtime_t *runtime); // [any]
// The last release waits for compiles under way and joins all threads. NULL allowed. [any]
DT_API void dt_runtime_release(dt_runtime_t *runtime);

// What the program ductile-worker does: makes code for the process that started it, and gives its
// exit status. A program of yours whose main returns this may be `worker_path`, where the library
// is linked into it rather than shared. Nothing else is to run in that process. [main thread]
DT_API int dt_worker_main(int argc, char **argv);

// Modes of a runtime: read by each call, and part of the guards of what was compiled under them.
typedef enum dt_mode_t {
  // 1: equal inputs give equal bits, whatever the threads. All code of this version does at any
  // setting, so it makes no variants.
  DT_MODE_DETERMINISTIC = 0,
  // 1: floats are summed and multiplied up as the plain loop does it that the op's definition is.
  // Each sum or product of many (of reductions and running sums, of matrix products, windows,
  // norms, softmax, updates that meet) begins at 0 or 1 and takes one element after another, in
  // row-major order of what is summed (from the end where a running sum says so), in f64 for f64
  // and in f32 for f32, f16 and bf16, whose results are rounded once at the end; each product is
  // rounded before it is added. No sum is made in parts, nothing is contracted, and elementary
  // functions are the same code everywhere. So no bit of a result depends on sizes beyond its own
  // sum, on threads, vectors, tiles, fusion, the CPU or the device; which NaN a NaN is may.
  // Slower, most of all for few long sums, and on devices. Functions with strict_fp are always so.
  // At first what DUCTILE_STRICT_FP says.
  DT_MODE_STRICT_FP = 1,
  // The most threads that work on one kernel, 0 to 65535; 0: all of the runtime's. Makes no
  // variants.
  DT_MODE_KERNEL_THREADS = 2,
} dt_mode_t;
// Holds from each session's next call on. DT_E_ARGUMENT (no such mode, a value out of range). [any]
DT_API dt_status_t dt_runtime_mode_set(dt_runtime_t *runtime, dt_mode_t mode,
                                       uint32_t value) DT_MUST_USE;
DT_API uint32_t dt_runtime_mode_get(const dt_runtime_t *runtime, dt_mode_t mode); // [any]

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
  // "reduce-overhead": all kernels of a call are one launch of a CUDA graph that serves every size,
  // and results live in the session's memory until dt_step_begin (graphs.h).
  DT_CALL_REDUCE_OVERHEAD = 2
} dt_call_mode_t;

// `name`, `n_inputs`, `inputs` and `n_outputs` are required; the rest is valid when zeroed.
// Everything is copied.
typedef struct dt_function_options_t {
  uint32_t struct_size; // sizeof(dt_function_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
  const char *name;     // for messages, logs and dumps
  uint32_t n_inputs, n_outputs;
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

// Valid when zeroed: for sessions on the CPU.
typedef struct dt_prepare_options_t {
  uint32_t struct_size; // sizeof(dt_prepare_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
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

// ---- Sessions and calls -------------------------------------------------------------------------

// One caller's place: the memory its calls lease, and the device they run on: the CPU here,
// dt_session_create_on (device.h) says which. One thread at a time, and one call: whatever uses a
// session that is in a call, on another thread or from inside the program that the call traces, is
// DT_E_STATE and harms neither.
typedef struct dt_session dt_session_t;

// DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_FORKED (in a child after fork; dt_runtime_create says when).
// On failure *out is NULL. [any]
DT_API dt_status_t dt_session_create(dt_runtime_t *runtime, dt_session_t **out) DT_MUST_USE;
// NULL allowed. Inside a call of the session's: when the call ends. [external]
DT_API void dt_session_destroy(dt_session_t *session);

// Runs `function`. inputs: n_inputs borrowed tensors. outputs: n_outputs places; NULL receives a
// new tensor (owned by the caller), a tensor is written in place and must be contiguous and of the
// result's dtype and sizes; it may overlap no input and no constant. A new result has memory of its
// own, also where the program gives out an input or a constant as it is. The first call at inputs
// that no variant covers traces and compiles (single-flight: concurrent callers wait for the one
// compile).
//
// In a session on a device the work is queued, and memory of the device that the caller lent must
// stay until it has run (device.h). Integer and boolean inputs stay on the host. Other inputs that
// are on the host are copied to the device by the call, with gaps that strides leave, in order with
// the rest of its work; the host's memory is the caller's again when dt_call returns. Inputs that
// the program updates and given outputs are in the device's memory: DT_E_ARGUMENT. So are all while
// the caller captures the stream: DT_E_UNSUPPORTED.
//
// On failure no new tensor is returned, inputs that the program updates are as they were, tensors
// given as outputs may have been partly written, the function goes on working, and no variant is
// made for bad input: DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE (naming argument, dim, expected and
// actual), DT_E_RANGE (an index in data), DT_E_LIMIT, DT_E_STATE (frozen, or a branch that nothing
// decides), DT_E_NO_MEMORY, DT_E_COMPILE, DT_E_FORKED, DT_E_DEVICE; with a deadline or a flag
// DT_E_DEADLINE, DT_E_CANCELLED. [external by session]
DT_API dt_status_t dt_call(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs) DT_MUST_USE;

// Valid when zeroed.
typedef struct dt_call_options_t {
  uint32_t struct_size; // sizeof(dt_call_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
  dt_call_mode_t mode;  // for this call, whatever the function's is
  // Nanoseconds of CLOCK_MONOTONIC at which the call ends with DT_E_DEADLINE; 0: it has all the
  // time that it takes. The call looks between kernels, between parts of one (about a millisecond's
  // work where that can be told apart), at each trip of a loop and while it waits for a compile,
  // which goes on while another call waits for it. Once the first kernel that updates an input has
  // begun the call is done, and late or not it is DT_OK. On a device nothing more is queued; what
  // is queued runs out, and results that were made are not returned. Loops of a device's program
  // then run from the host, trip by trip, whatever the mode: a graph's end for nobody.
  int64_t deadline_ns;
  const dt_cancel_t *cancel; // ends it likewise, with DT_E_CANCELLED; or NULL
} dt_call_options_t;
// dt_call with options, which may be NULL. [external by session]
DT_API dt_status_t dt_call_with(dt_session_t *session, dt_function_t *function,
                                dt_tensor_t *const *inputs, uint32_t n_inputs,
                                dt_tensor_t **outputs, uint32_t n_outputs,
                                const dt_call_options_t *options) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Counters since the function was made. Set struct_size before asking: nothing beyond it is
// written, and what a newer header has than the library is 0.
typedef struct dt_function_stats_t {
  uint32_t struct_size;
  uint32_t variants; // published
  uint64_t compiles; // failed ones included, but those that a lack of memory, a deadline or a flag
                     // ended; not calls refused for arguments
  uint64_t calls;    // that returned an answer
  uint64_t misses;   // calls for which no variant's guards held
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t failed_calls;
  uint64_t compile_ns;     // spent in compiles, wall time
  uint64_t kernels;        // of the newest variant, launches a call
  uint64_t code_bytes;     // mapped, all variants
  uint64_t constant_bytes; // packed constants, all variants
  uint64_t promotions;     // sizes, integers and captures that became symbols by changing
  uint64_t limit_misses;   // misses beyond a limit, whatever was done about them
  uint64_t frozen_misses;  // misses refused because the function was frozen
  uint64_t sampled_calls;  // that the histogram of sizes has seen; misses are always seen
  uint64_t readbacks;      // times a call on a device waited for numbers that its sizes depend on
  uint64_t launches;       // that calls have queued on devices; empty work needs none
  uint64_t device_load_ns; // of compile_ns: machine code of devices, made or found on disk, loaded
  uint64_t graph_calls;    // that ran as CUDA graphs
  uint64_t graph_skips;    // that should have, and were launched kernel by kernel
  const char *graph_skip;  // why the last of these was; NULL: none
} dt_function_stats_t;
DT_API dt_status_t dt_function_stats(dt_function_t *function,
                                     dt_function_stats_t *stats) DT_MUST_USE;

// What calls have shown: which sizes, integers and captures change (the state of "automatic
// dynamic"), and a histogram of the sizes of sampled calls and of misses. Saved as text by way of a
// temporary file beside `path`, which is replaced as a whole. DT_E_IO, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_profile_save(dt_function_t *function, const char *path) DT_MUST_USE;
// Adds a saved profile to what the function knows. It only ever makes more sizes dynamic, and with
// one loaded before the first call automatic promotion needs no second compile. DT_E_IO,
// DT_E_FORMAT (damaged, of another version or of a function with other inputs), DT_E_NO_MEMORY; on
// failure nothing changed. [any]
DT_API dt_status_t dt_function_profile_load(dt_function_t *function, const char *path) DT_MUST_USE;

// Nanoseconds that finding the variant for `inputs` takes, the mean over `repeats` look-ups; the
// call itself is not made. DT_E_STATE when no variant covers them. [external by session]
DT_API dt_status_t dt_function_guard_ns(dt_session_t *session, dt_function_t *function,
                                        dt_tensor_t *const *inputs, uint32_t n_inputs,
                                        uint32_t repeats, double *out_ns) DT_MUST_USE;

// Bytes a session holds: its block (the largest so far) and its scratch, where it runs.
DT_API uint64_t dt_session_bytes(const dt_session_t *session);

// What the newest variant's guards are, and why: text for people, one guard a line. *out is owned
// by the caller, released with dt_text_free. [any]
DT_API dt_status_t dt_function_explain(dt_function_t *function, char **out) DT_MUST_USE;
DT_API void dt_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_FUNCTION_H
