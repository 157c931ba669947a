// SPDX-License-Identifier: Apache-2.0
// One call: its arguments, its frame for generated code, and its results.
#ifndef DT_RUNTIME_EXEC_CALL_H
#define DT_RUNTIME_EXEC_CALL_H

#include "runtime/base/control.h"
#include "runtime/base/status.h"
#include "runtime/exec/function.h"
#include "runtime/exec/session.h"
#include "runtime/exec/variant.h"

// ---- Running compiled code ------------------------------------------------------------------------

// DT_E_RANGE saying which check failed on which value.
dt_status_t dt__record_status(const dt_compiled_t *compiled,
                              const dt_launch_record_t *record) DT_MUST_USE;

// ---- Calls ----------------------------------------------------------------------------------------

// What one dt_call was given.
typedef struct dt_call_t {
  dt_session_t *session;
  dt_function_t *function;
  dt_tensor_t *const *inputs;
  dt_tensor_t **outputs; // as given; session->results are these, or new ones where NULL
  uint64_t modes;        // of the runtime, as the guards saw them
  dt_call_mode_t mode;
  dt_control_t *control;            // NULL: nothing ends it before its time
  struct dt_recorder_t *recorder;   // NULL: nothing is noted of it (timing.h)
  bool managed;                     // new results have their place in the session's pool
  struct dt_output_shape_t *shapes; // these are asked for, and nothing is run; else NULL
} dt_call_t;

// call_log.c. Tells of a call that a variant answered or failed (channel exec).
void dt__call_tell(const dt_call_t *call, const dt_variant_t *variant, dt_status_t status,
                   int64_t began_ns);

// sizes.c. DT_E_LIMIT where the call of a function with max_call_bytes would take more: asked after
// the plan of a segment, before memory is leased.
dt_status_t dt__call_admit(const dt_call_t *call, const dt_variant_t *variant, uint32_t segment,
                           const dt_frame_t *frame) DT_MUST_USE;
// sizes.c. The same where the evaluator holds `bytes` and the results are yet to be made, whose
// sizes are known (or 0).
dt_status_t dt__call_admit_evaluated(const dt_call_t *call, const dt_variant_t *variant,
                                     uint64_t bytes) DT_MUST_USE;
// sizes.c. Fills call->shapes by what the guards bound.
dt_status_t dt__call_shapes(const dt_call_t *call, const dt_variant_t *variant) DT_MUST_USE;
// call.c. A call that is not run, for `shapes` of all results.
dt_status_t dt__call_measure(dt_session_t *session, dt_function_t *function,
                             dt_tensor_t *const *inputs, uint32_t n_inputs,
                             struct dt_output_shape_t *shapes) DT_MUST_USE;

// call.c. The variant that answers these arguments, which somebody keeps from going (pins); NULL:
// none does.
dt_status_t dt__call_find(dt_session_t *session, dt_function_t *function,
                          dt_tensor_t *const *inputs, uint32_t n_inputs,
                          dt_variant_t **out) DT_MUST_USE;
// call.c. A call that `variant` answers, wherever it stands; no statistics count it.
dt_status_t dt__call_by(dt_session_t *session, dt_function_t *function, dt_variant_t *variant,
                        dt_tensor_t *const *inputs, uint32_t n_inputs,
                        dt_tensor_t **outputs) DT_MUST_USE;

// call.c. Fills session->results, and the addresses of their elements behind those of the inputs,
// by session->sizes (of all outputs, one after another): given tensors are checked against what the
// variant makes and against the inputs' memory, the others made. Those of outputs k with
// segments[k] == segment; NULL: of all. New tensors are released by dt_call when the call fails.
dt_status_t dt__outputs_prepare(const dt_call_t *call, const dt_variant_t *variant,
                                const uint32_t *segments, uint32_t segment) DT_MUST_USE;

// results.c. A new tensor for result `index` of a call, which `sizes` are known of, and the address
// that code stores it at: memory of its own, or that of a donated argument; or a view of an
// argument, for which *out_address is NULL and code stores nothing.
dt_status_t dt__result_make(const dt_call_t *call, const dt_variant_t *variant, uint32_t index,
                            const int64_t *sizes, dt_tensor_t **out,
                            void **out_address) DT_MUST_USE;

// call.c. What a plan's failure means; `failed` is what it returned, `symbols` what it has read.
dt_status_t dt__plan_status(const dt_variant_t *variant, int64_t failed,
                            const int64_t *symbols) DT_MUST_USE;

// call.c. What a place that queues its calls asks first: that the function is compiled, and that
// the elements of all tensors are still there.
dt_status_t dt__call_check_queued(const dt_call_t *call) DT_MUST_USE;

// evaluate.c. Answers by the reference evaluator, into session->results.
dt_status_t dt__evaluate(const dt_call_t *call, const dt_variant_t *variant,
                         const dt_bindings_t *bindings) DT_MUST_USE;

// ---- What places share ----------------------------------------------------------------------------

// Fills the zeroed frame of a call as its first segment's plan finds it, but for the launch
// callback.
// In place, since a copy of it shows in small calls (bench_call).
static inline void dt__call_frame(const dt_call_t *call, const dt_variant_t *variant,
                                  const dt_bindings_t *bindings, dt_frame_t *frame) {
  const dt_session_t *session = call->session;
  uint32_t n_inputs = call->function->n_inputs;
  for (uint32_t i = 0; i < n_inputs; i++)
    session->addresses[i] = call->inputs[i]->data;
  frame->version = DT_FRAME_VERSION;
  frame->control = call->control;
  frame->symbols = session->symbols;
  frame->inputs = session->addresses;
  frame->constants = bindings->addresses;
  frame->once = bindings->once;
  frame->kernels = variant->compiled->kernels;
  frame->externals = variant->compiled->external_table;
  frame->output_sizes = session->sizes;
  frame->outputs = session->addresses + n_inputs;
}

// A frame of what is computed from constants alone, but for the launch callback.
static inline dt_frame_t dt__once_frame(const dt_variant_t *variant,
                                        const dt_bindings_t *bindings) {
  return (dt_frame_t){.version = DT_FRAME_VERSION,
                      .constants = bindings->addresses,
                      .once = bindings->once,
                      .kernels = variant->compiled->kernels};
}

// The beginning of a segment: the call has not ended before its time, its sizes are planned, and
// their bytes are allowed.
static inline dt_status_t dt__segment_plan(const dt_call_t *call, const dt_variant_t *variant,
                                           uint32_t segment, dt_frame_t *frame) {
  DT_TRY(dt__control_check(call->control));
  int64_t failed = variant->compiled->segments[segment].plan(frame);
  if (failed)
    return dt__plan_status(variant, failed, call->session->symbols);
  return call->function->max_call_bytes ? dt__call_admit(call, variant, segment, frame) : NULL;
}

// The results whose sizes the segment has planned (dt__outputs_prepare).
static inline dt_status_t dt__segment_outputs(const dt_call_t *call, const dt_variant_t *variant,
                                              uint32_t segment) {
  const dt_compiled_t *compiled = variant->compiled;
  return dt__outputs_prepare(call, variant,
                             compiled->n_segments > 1 ? compiled->output_segments : NULL, segment);
}

#endif // DT_RUNTIME_EXEC_CALL_H
