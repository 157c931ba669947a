// SPDX-License-Identifier: Apache-2.0
// One call: what it was given, its frame for generated code, and its results.
#ifndef DT_RUNTIME_EXEC_CALL_H
#define DT_RUNTIME_EXEC_CALL_H

#include "runtime/base/control.h"
#include "runtime/exec/exec.h"

// ---- Running compiled code ------------------------------------------------------------------------

// A frame and what its launch callback needs. Generated code sees the frame alone.
typedef struct dt_launch_frame_t {
  dt_frame_t frame; // first; its control is NULL where launches are dt__launch's
  dt_pool_t *pool;
  char *scratch;
  size_t scratch_stride;
  uint32_t threads;         // the most that work on one kernel; 0: all
  const dt_variant_t *told; // whose kernels dt__launch_told names; else NULL
} dt_launch_frame_t;
void dt__launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                int64_t grain);
// The same under frame->control: pieces of each kernel, with a look between them; none once it is
// stopped.
void dt__launch_controlled(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                           int64_t count, int64_t grain);
// call_log.c. Either of them, which is told before (channel exec, level 2).
void dt__launch_told(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain);
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

// call.c. Fills session->results, and the addresses of their elements behind those of the inputs,
// by session->sizes (of all outputs, one after another): given tensors are checked against what the
// variant makes and against the inputs' memory, the others made. Those of outputs k with
// segments[k] == segment; NULL: of all. New tensors are released by dt_call when the call fails.
dt_status_t dt__outputs_prepare(const dt_call_t *call, const dt_variant_t *variant,
                                const uint32_t *segments, uint32_t segment) DT_MUST_USE;

// call.c. What a plan's failure means; `failed` is what it returned, `symbols` what it has read.
dt_status_t dt__plan_status(const dt_variant_t *variant, int64_t failed,
                            const int64_t *symbols) DT_MUST_USE;

// call_device.c. Runs a call of a session on a device by `run`, with the device's context current,
// after the failures of earlier calls were looked at.
dt_status_t dt__device_call(dt_call_t *call, dt_status_t (*run)(dt_call_t *call)) DT_MUST_USE;
// Queues a variant's kernels. Context current.
dt_status_t dt__device_run_compiled(dt_call_t *call, dt_variant_t *variant,
                                    const dt_bindings_t *bindings) DT_MUST_USE;

// tensor_device.c. A new contiguous tensor where the session runs, which is a device: memory of its
// own, or with `maker` a place in the session's pool.
struct dt_graph_maker_t;
dt_status_t dt__device_tensor(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                              const int64_t *sizes, const struct dt_graph_maker_t *maker,
                              dt_tensor_t **out) DT_MUST_USE;
// call_graph.c. The same for result `index` of a call.
dt_status_t dt__call_tensor(const dt_call_t *call, uint32_t index, const dt_output_info_t *info,
                            const int64_t *sizes, dt_tensor_t **out) DT_MUST_USE;

// evaluate.c. Answers by the reference evaluator, into session->results.
dt_status_t dt__evaluate(const dt_call_t *call, const dt_variant_t *variant,
                         const dt_bindings_t *bindings) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_CALL_H
