// SPDX-License-Identifier: Apache-2.0
// Calls as CUDA graphs: mode DT_CALL_REDUCE_OVERHEAD of a function or of a call.
//
// All kernels of such a call are one launch. The graph is assembled from the compiled program, not
// captured: no warm-up, no recording for each size. One graph serves every size; each launch sets
// in it only what changed since the last one. If the host needs a number from the call's data for
// the size of a result (trace.h, "Sizes from data"), the call is a chain of graphs with one wait
// between two of them.
//
// dt_step_begin begins a generation. Its calls in one session form a path. New results of a call
// live in the session's memory until the generation ends, at the same place in each generation that
// makes the same calls. The memory of a released result goes to the calls after it.
//
// After the end of its generation, using a result is DT_E_STATE: "was overwritten by a subsequent
// run". dt_tensor_keep copies a result that is needed longer. Two kinds of results do not end: a
// tensor given as output, which is the caller's own, and a result whose size is read from data. A
// generation also ends when nobody holds any of its results; then nobody loses one.
//
// The limits on memory (max_bytes and max_device_bytes of a runtime, DUCTILE_GRAPH_MIB) may drop
// graphs, but none that a call is in. The next call of the same place assembles the graph again.
//
// A call that cannot run as a graph runs kernel by kernel. The reason is logged (cudagraphs) and
// counted; dt_session_stats_json and dt_function_stats_json report it.
#ifndef DUCTILE_GRAPHS_H
#define DUCTILE_GRAPHS_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// Begins the next generation. Results of the previous one that live in the session's memory end,
// even if somebody holds them; the session uses their memory again. Does not wait. On the CPU, and
// in a session that never ran a graph, nothing ends. DT_E_ARGUMENT, DT_E_FORKED. [external by
// session]
DT_API dt_status_t dt_step_begin(dt_session_t *session) DT_MUST_USE;

// Copies a tensor without gaps of the session's device into one of equal strides with memory of its
// own, in the order of the session's stream: for results that are needed after their generation.
// The new tensor is the caller's. On failure *out is NULL: DT_E_STATE (the tensor has ended),
// DT_E_UNSUPPORTED (strides with gaps, a capture), DT_E_NO_MEMORY, DT_E_DEVICE. [external by
// session]
DT_API dt_status_t dt_tensor_keep(dt_session_t *session, const dt_tensor_t *tensor,
                                  dt_tensor_t **out) DT_MUST_USE;

// While a session is frozen, it assembles no graph: a call that would need one is launched kernel
// by kernel. A call that needs more memory than the session has still takes it. Both are counted
// and logged. (dt_function_freeze refuses compiles.) [external by session]
DT_API dt_status_t dt_session_freeze(dt_session_t *session, bool frozen) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_GRAPHS_H
