// SPDX-License-Identifier: Apache-2.0
// Sessions and calls: one caller's place, and how functions are run in it.
#ifndef DUCTILE_SESSION_H
#define DUCTILE_SESSION_H

#include "ductile/function.h"
#include "ductile/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sessions and calls -------------------------------------------------------------------------

// One caller's place: the memory its calls lease, and the device they run on. One thread at a time,
// and one call: whatever uses a session that is in a call, on another thread or from inside the
// program that the call traces, is DT_E_STATE and harms neither.
typedef struct dt_session dt_session_t;

// Valid when zeroed: a session on the CPU.
typedef struct dt_session_options_t {
  uint32_t struct_size; // sizeof(dt_session_options_t); 0 is taken as the size of version 0.1
  dt_device_t device;
  int32_t ordinal; // which device of the kind
  void *stream;    // the caller's CUstream of the device's primary context, borrowed until the
                   // session is destroyed; NULL: one of the session's own. NULL on the CPU
} dt_session_options_t;
// `options` may be NULL. DT_E_ARGUMENT, DT_E_UNSUPPORTED (no driver, no such device, a stream under
// capture), DT_E_NO_MEMORY, DT_E_DEVICE, DT_E_FORKED (in a child after fork; dt_runtime_create says
// when). On failure *out is NULL. [any]
DT_API dt_status_t dt_session_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                                     dt_session_t **out) DT_MUST_USE;
// NULL allowed. Inside a call of the session's: when the call ends. [external]
DT_API void dt_session_destroy(dt_session_t *session);

// Valid when zeroed.
typedef struct dt_call_options_t {
  uint32_t struct_size; // sizeof(dt_call_options_t); 0 is taken as the size of version 0.1
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
// DT_E_DEADLINE, DT_E_CANCELLED. `options` may be NULL. [external by session]
DT_API dt_status_t dt_call(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs, const dt_call_options_t *options) DT_MUST_USE;

// What a result will be.
typedef struct dt_output_shape_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK]; // -1: the call's data decides
} dt_output_shape_t;

// The results' dtypes and sizes from those of the inputs alone: nothing is computed, and no data
// read but integer arguments. Compiles where dt_call would, and is refused as dt_call would be, but
// for what only data tells. shapes: `n_outputs` entries of `shape_bytes` each, which is
// sizeof(dt_output_shape_t); what a newer header has than the library is 0. Nothing is written on
// failure. [external by session]
DT_API dt_status_t dt_function_output_sizes(dt_session_t *session, dt_function_t *function,
                                            dt_tensor_t *const *inputs, uint32_t n_inputs,
                                            dt_output_shape_t *shapes, size_t shape_bytes,
                                            uint32_t n_outputs) DT_MUST_USE;

// Waits for everything queued in the session, and reports a check that failed. On the CPU there is
// nothing to wait for. DT_E_RANGE, DT_E_DEVICE, DT_E_UNSUPPORTED. [external by session]
DT_API dt_status_t dt_session_wait(dt_session_t *session) DT_MUST_USE;
// The session's CUstream, borrowed while the session lives; NULL on the CPU. [any]
DT_API void *dt_session_stream(const dt_session_t *session);

// Gives memory back that the session does not need at present. On a device it waits for its work,
// then keeps what living results need, and drops its graphs; on the CPU, where results have memory
// of their own, all goes. The next calls take what they need anew. As dt_session_wait. [external by
// session]
DT_API dt_status_t dt_session_trim(dt_session_t *session) DT_MUST_USE;

// ---- Statistics ---------------------------------------------------------------------------------

// Since the session was made. Set struct_size before asking: nothing beyond it is written, and what
// a newer header has than the library is 0.
typedef struct dt_session_stats_t {
  uint32_t struct_size;
  uint64_t bytes;      // held for the next call, where it runs: its block (the largest so far), its
                       // scratch, its pool
  uint64_t generation; // from 1 (dt_step_begin, graphs.h); 0 on the CPU
  uint64_t graph_calls;  // that ran as graphs
  uint64_t graph_skips;  // that should have, and were launched kernel by kernel
  uint64_t builds;       // graphs assembled
  uint64_t live_results; // of this generation, held by anybody
} dt_session_stats_t;
// DT_E_ARGUMENT, DT_E_STATE (in a call), DT_E_FORKED. [external by session]
DT_API dt_status_t dt_session_stats(dt_session_t *session, dt_session_stats_t *stats) DT_MUST_USE;
// All that is counted, as one JSON object: the fields above and those of dt_session_counters_t
// (experimental.h), which later versions may change. *out is released with dt_text_free. As
// dt_session_stats, and DT_E_NO_MEMORY. [external by session]
DT_API dt_status_t dt_session_stats_json(dt_session_t *session, char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_SESSION_H
