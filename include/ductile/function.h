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

// Valid when zeroed.
typedef struct dt_runtime_options_t {
  uint32_t struct_size; // sizeof(dt_runtime_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
  uint32_t threads;     // that run kernels, callers included; 0: DUCTILE_THREADS, else one a core
  uint32_t compile_threads; // 0: DUCTILE_COMPILE_THREADS, else one a core, at most 4
} dt_runtime_options_t;

// Reads DUCTILE_* variables once. `options` may be NULL. DT_E_ARGUMENT (an option or variable out
// of range), DT_E_NO_MEMORY, DT_E_UNSUPPORTED. On failure *out is NULL. [any]
DT_API dt_status_t dt_runtime_create(const dt_runtime_options_t *options,
                                     dt_runtime_t **out) DT_MUST_USE;
DT_API void dt_runtime_retain(dt_runtime_t *runtime); // [any]
// The last release waits for compiles under way and joins all threads. NULL allowed. [any]
DT_API void dt_runtime_release(dt_runtime_t *runtime);

// ---- Functions ----------------------------------------------------------------------------------

// A program with its compiled variants. Thread-safe: any number of sessions may call it at once.
typedef struct dt_function dt_function_t;

// One dim of a declared input. Zeroed: any size, a symbol of its own.
typedef struct dt_dim_decl_t {
  const char *name; // dims of one name have one size, checked at each call; NULL: unnamed
  int64_t min, max; // allowed sizes, inclusive; max 0 means no upper bound of its own
  int64_t value;    // with is_static: the only size
  bool is_static;
} dt_dim_decl_t;

typedef struct dt_input_decl_t {
  const char *name; // for messages; NULL: "argument <index>"
  dt_dtype_t dtype; // required
  uint32_t rank;
  const dt_dim_decl_t *dims; // `rank` entries; NULL: all zero
} dt_input_decl_t;

// Who answers a call.
typedef enum dt_answer_t {
  DT_ANSWER_COMPILED = 0, // compiled code, or a status
  DT_ANSWER_EVALUATOR = 1 // the reference evaluator (float64 inside): slow, for checking answers
} dt_answer_t;

// `name`, `n_inputs`, `inputs` and `n_outputs` are required; the rest is valid when zeroed.
// Everything is copied.
typedef struct dt_function_options_t {
  uint32_t struct_size; // sizeof(dt_function_options_t); 0 is taken as the size of version 0.1
  const void *next;     // NULL
  const char *name;     // for messages, logs and dumps
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs; // n_inputs entries
  dt_answer_t answer;
  uint32_t variant_limit; // 0: DUCTILE_VARIANT_LIMIT; a call that would need more gets DT_E_LIMIT
  bool strict_fp;         // no contraction; reductions in index order
  void (*closure_free)(void *closure); // called once when the function is destroyed; NULL: nothing
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

// Compiles the generic variant from the declared inputs alone, contiguous, without example sizes,
// and waits for it; afterwards no call waits for a compiler unless it enters a region of sizes that
// the program itself distinguishes. Does nothing when a variant exists. [any]
DT_API dt_status_t dt_function_prepare(dt_function_t *function) DT_MUST_USE;

// Replaces the data of constant `name` (same dtype and sizes) for all variants, between calls: a
// call under way keeps the old data, a later one sees the new. `tensor` is retained. DT_E_ARGUMENT
// (no such constant), DT_E_DTYPE, DT_E_SHAPE; on failure nothing changed. [any]
DT_API dt_status_t dt_constant_update(dt_function_t *function, const char *name,
                                      dt_tensor_t *tensor) DT_MUST_USE;

// ---- Sessions and calls -------------------------------------------------------------------------

// One caller's place: the memory its calls lease. One thread at a time.
typedef struct dt_session dt_session_t;

DT_API dt_status_t dt_session_create(dt_runtime_t *runtime, dt_session_t **out) DT_MUST_USE;
DT_API void dt_session_destroy(dt_session_t *session); // NULL allowed [external]

// Runs `function`. inputs: n_inputs borrowed tensors. outputs: n_outputs places; NULL receives a
// new tensor (owned by the caller), a tensor is written in place and must be contiguous and of the
// result's dtype and sizes; it may overlap no input. The first call at inputs that no variant
// covers traces and compiles (single-flight: concurrent callers wait for the one compile).
//
// On failure no new tensor is returned, tensors given as outputs may have been partly written, the
// function goes on working, and no variant is made for bad input: DT_E_ARGUMENT, DT_E_DTYPE,
// DT_E_SHAPE (naming argument, dim, expected and actual), DT_E_RANGE (an index in data),
// DT_E_LIMIT, DT_E_NO_MEMORY, DT_E_COMPILE, DT_E_FORKED. [external by session]
DT_API dt_status_t dt_call(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Counters since the function was made. Set struct_size before asking; fields beyond it are left.
typedef struct dt_function_stats_t {
  uint32_t struct_size;
  uint32_t variants;        // published
  uint64_t compiles;        // started, failed ones included
  uint64_t calls;           // that returned an answer
  uint64_t misses;          // calls for which no variant's guards held
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t failed_calls;
  uint64_t compile_ns;     // spent in compiles, wall time
  uint64_t kernels;        // of the newest variant, launches a call
  uint64_t code_bytes;     // mapped, all variants
  uint64_t constant_bytes; // packed constants, all variants
} dt_function_stats_t;
DT_API dt_status_t dt_function_stats(dt_function_t *function,
                                     dt_function_stats_t *stats) DT_MUST_USE;

// Nanoseconds that finding the variant for `inputs` takes, the mean over `repeats` look-ups; the
// call itself is not made. DT_E_STATE when no variant covers them. [external by session]
DT_API dt_status_t dt_function_guard_ns(dt_session_t *session, dt_function_t *function,
                                        dt_tensor_t *const *inputs, uint32_t n_inputs,
                                        uint32_t repeats, double *out_ns) DT_MUST_USE;

// Bytes a session holds: its block (the largest so far) and its scratch.
DT_API uint64_t dt_session_bytes(const dt_session_t *session);

// What the newest variant's guards are, and why: text for people, one guard a line. *out is owned
// by the caller, released with dt_text_free. [any]
DT_API dt_status_t dt_function_explain(dt_function_t *function, char **out) DT_MUST_USE;
DT_API void dt_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_FUNCTION_H
