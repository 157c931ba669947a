// SPDX-License-Identifier: Apache-2.0
// Calls as CUDA graphs: mode DT_CALL_REDUCE_OVERHEAD of a function or of a call.
//
// All kernels of such a call are one launch. The graph is assembled from the compiled program, not
// captured: no warm-up, no recording for each size. One graph serves every size; what changed since
// its last launch is set in it. A call that needs a number from its data on the host, for the size
// of a result (trace.h, "Sizes from data"), is a chain of graphs with one wait between two of them.
//
// The calls of a session form a path: a generation, begun by dt_step_begin. New results of a call
// live in the session's memory, at the same place in each generation that makes the same calls,
// while anybody holds them and until the generation ends; the memory of a result that is released
// goes to the calls after it. Used after the end of its generation a result is DT_E_STATE: "was
// overwritten by a subsequent run". dt_tensor_keep copies one that is wanted for longer; a tensor
// given as output is the caller's own and does not end, nor does a result whose size such a number
// says. A generation also ends, without taking
// anything from anybody, where none of its results is held any more.
//
// Graphs are dropped where the limits on memory demand it (max_bytes and max_device_bytes of a
// runtime, DUCTILE_GRAPH_MIB), never one that a call is in; the next call of the place assembles it
// anew.
//
// A call that cannot run as a graph runs kernel by kernel, and the reason is logged (cudagraphs),
// counted, and told by dt_session_stats_json and dt_function_stats_json.
#ifndef DUCTILE_GRAPHS_H
#define DUCTILE_GRAPHS_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// Begins the next generation: results of the one before that live in the session's memory are its
// own again, whoever holds them. Waits for nothing. On the CPU, and in a session that never ran a
// graph, nothing ends. DT_E_ARGUMENT, DT_E_FORKED. [external by session]
DT_API dt_status_t dt_step_begin(dt_session_t *session) DT_MUST_USE;

// Copies a tensor of the session's device into memory of its own, contiguous, in the order of the
// session's stream: for results that are wanted after their generation. The new tensor is the
// caller's. On failure *out is NULL: DT_E_STATE (it has ended), DT_E_UNSUPPORTED (strides with
// gaps, a capture), DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_tensor_keep(dt_session_t *session, const dt_tensor_t *tensor,
                                  dt_tensor_t **out) DT_MUST_USE;

// While frozen, a call that would need a graph to be assembled is launched kernel by kernel, and a
// call that needs more memory than the session has takes it; both are counted and logged. (Compiles
// are refused by dt_function_freeze.) [external by session]
DT_API dt_status_t dt_session_freeze(dt_session_t *session, bool frozen) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_GRAPHS_H
