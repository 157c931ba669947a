// SPDX-License-Identifier: Apache-2.0
// Sessions and calls. A session is one caller's place; functions are called in it.
#ifndef DUCTILE_SESSION_H
#define DUCTILE_SESSION_H

#include "ductile/function.h"
#include "ductile/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sessions and calls -------------------------------------------------------------------------

// One caller's place: the memory that its calls lease, and the device that they run on. A session
// serves one thread and one call at a time. Using it while it is in a call, from another thread or
// from inside the program that the call traces, is DT_E_STATE and harms neither use.
typedef struct dt_session dt_session_t;

// Whose kernels the runtime's threads help with first, where several sessions are in calls at once.
typedef enum dt_priority_t {
  DT_PRIORITY_NORMAL = 0,
  DT_PRIORITY_URGENT = 1, // before others: threads leave kernels of others, between two parts
  DT_PRIORITY_LATER = 2,  // behind others
} dt_priority_t;

// Valid when zeroed: a session on the CPU.
typedef struct dt_session_options_t {
  uint32_t struct_size; // sizeof(dt_session_options_t); 0 is taken as the size of version 0.1
  dt_device_t device;
  int32_t ordinal; // which device of the kind
  void *stream;    // the caller's CUstream of the device's primary context, borrowed until the
                   // session is destroyed; NULL: the session makes its own. NULL on the CPU
  // Of the session's calls on the CPU. The calling thread works on its own kernels whatever this
  // is, and a host's executor decides for itself. On a device only DT_PRIORITY_NORMAL: give a
  // stream of the priority that is wanted.
  dt_priority_t priority;
} dt_session_options_t;
// Makes a session. `options` may be NULL. DT_E_ARGUMENT, DT_E_UNSUPPORTED (no driver, no such
// device, a stream under capture, a priority on a device), DT_E_NO_MEMORY, DT_E_DEVICE,
// DT_E_FORKED (in a child after fork; see dt_runtime_create). On failure *out is NULL. [any]
DT_API dt_status_t dt_session_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                                     dt_session_t **out) DT_MUST_USE;
// NULL allowed. Inside a call of this session, it is destroyed when the call ends. [external]
DT_API void dt_session_destroy(dt_session_t *session);

// Valid when zeroed.
typedef struct dt_call_options_t {
  uint32_t struct_size; // sizeof(dt_call_options_t); 0 is taken as the size of version 0.1
  dt_call_mode_t mode;  // of this call; takes precedence over the function's mode
  // Nanoseconds of CLOCK_MONOTONIC at which the call ends with DT_E_DEADLINE; 0: no deadline. The
  // call looks at the clock between kernels, between parts of a kernel (about a millisecond's work
  // each, if it can be divided so), at each trip of a loop, and while it waits for a compile. The
  // compile goes on if another call waits for it. Once the first kernel that updates an input has
  // begun, the call completes and returns DT_OK, however late. On a device nothing more is queued;
  // what is queued runs out, and results already made are not returned. With a deadline or a flag,
  // loops of a device's program run from the host, trip by trip, in every mode, since a running
  // graph cannot be ended.
  int64_t deadline_ns;
  const dt_cancel_t *cancel; // the flag that ends the call in the same way, with DT_E_CANCELLED; or
                             // NULL
} dt_call_options_t;

// Runs `function`. `inputs` are n_inputs borrowed tensors. `outputs` are n_outputs places. A place
// that is NULL receives a new tensor, owned by the caller. A tensor given in a place is written; it
// must have the result's dtype and sizes, be contiguous, or without gaps in the order that the
// function asks for (dt_output_decl_t), and overlap no input and no constant. A buffer
// (dt_tensor_desc_t.room) must have the result's dtype and enough bytes for it, else DT_E_SHAPE
// says how many are needed; it takes the result's sizes. A new result has
// memory of its own, even if the program returns an input or a constant unchanged, unless the
// function's declarations allow it an argument's (DT_INPUT_DONATED, may_alias_input). The first
// call with inputs that no variant covers traces and compiles. Concurrent callers wait for this one
// compile (single-flight).
//
// In a session on a device the work is queued. Device memory that the caller lent must stay until
// the work has run (device.h). Integer and boolean inputs stay on the host. The call copies other
// inputs that are on the host to the device, including gaps that strides leave, in order with the
// rest of its work; the host memory is the caller's again when dt_call returns. Inputs that the
// program updates, and given outputs, must be in the device's memory: DT_E_ARGUMENT. While the
// caller captures the stream, all inputs but integers and booleans must be there: DT_E_UNSUPPORTED.
//
// On failure no new tensor is returned, and inputs that the program updates are unchanged. Tensors
// given as outputs may have been partly written. The function can be called again; bad input makes
// no variant. DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE (naming argument, dim, expected and actual),
// DT_E_RANGE (an index in data), DT_E_LIMIT, DT_E_STATE (frozen, or a branch that nothing decides),
// DT_E_NO_MEMORY, DT_E_COMPILE, DT_E_FORKED, DT_E_DEVICE; with a deadline or a flag DT_E_DEADLINE,
// DT_E_CANCELLED. `options` may be NULL. [external by session]
DT_API dt_status_t dt_call(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs, const dt_call_options_t *options) DT_MUST_USE;

// The dtype and sizes of a result.
typedef struct dt_output_shape_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK]; // -1: the call's data decides
} dt_output_shape_t;

// Gives the results' dtypes and sizes for these inputs. Nothing is computed, and of the inputs'
// data only integer arguments are read. It compiles if dt_call would, and fails as dt_call would,
// except where only data can tell. `shapes` has `n_outputs` entries of `shape_bytes` each, which is
// sizeof(dt_output_shape_t). Fields that a newer header has and this library does not are 0.
// Nothing is written on failure. [external by session]
DT_API dt_status_t dt_function_output_sizes(dt_session_t *session, dt_function_t *function,
                                            dt_tensor_t *const *inputs, uint32_t n_inputs,
                                            dt_output_shape_t *shapes, size_t shape_bytes,
                                            uint32_t n_outputs) DT_MUST_USE;

// Waits for everything queued in the session, and reports a failed check. On the CPU there is
// nothing to wait for. DT_E_RANGE, DT_E_DEVICE, DT_E_UNSUPPORTED. [external by session]
DT_API dt_status_t dt_session_wait(dt_session_t *session) DT_MUST_USE;
// The session's CUstream, borrowed while the session lives; NULL on the CPU. [any]
DT_API void *dt_session_stream(const dt_session_t *session);

// Frees memory that the session does not need at present. On a device it waits for the session's
// work, keeps what living results need, and drops the session's graphs. On the CPU it frees
// everything, since results have memory of their own. The next calls take what they need again.
// Errors as dt_session_wait. [external by session]
DT_API dt_status_t dt_session_trim(dt_session_t *session) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Counts since the session was made. Set struct_size before asking: nothing beyond it is written.
// Fields that a newer header has and this library does not are 0.
typedef struct dt_session_stats_t {
  uint32_t struct_size;
  uint64_t bytes;        // held for the next call, in the memory of its device: its block (the
                         // largest so far), its scratch, its pool
  uint64_t generation;   // from 1 (dt_step_begin, graphs.h); 0 on the CPU
  uint64_t graph_calls;  // calls that ran as graphs
  uint64_t graph_skips;  // calls that should have, but were launched kernel by kernel
  uint64_t builds;       // graphs assembled
  uint64_t live_results; // results of this generation that somebody holds
} dt_session_stats_t;
// DT_E_ARGUMENT, DT_E_STATE (in a call), DT_E_FORKED. [external by session]
DT_API dt_status_t dt_session_stats(dt_session_t *session, dt_session_stats_t *stats) DT_MUST_USE;
// All counts as one JSON object: the fields above and those of dt_session_counters_t
// (experimental.h), which later versions may change. *out is released with dt_text_free. Errors as
// dt_session_stats, and DT_E_NO_MEMORY. [external by session]
DT_API dt_status_t dt_session_stats_json(dt_session_t *session, char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_SESSION_H
