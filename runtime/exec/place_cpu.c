// SPDX-License-Identifier: Apache-2.0
// The CPU as a place (place.h). Kernels run on the runtime's pool while the call waits. A session
// leases two pieces of memory. They grow to the most that a call needed, and stay.
#include "runtime/exec/place.h"

#include "runtime/base/fp.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/once.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/timing.h"

#include <stdio.h>
#include <string.h>

#define LINE ((size_t)64)

// ---- Sessions -------------------------------------------------------------------------------------

typedef struct cpu_session_t {
  dt_region_t block;     // what kernels hand to each other
  dt_region_t scratch;   // of all workers
  size_t scratch_stride; // of one
} cpu_session_t;

static void session_close(dt_session_t *session) {
  cpu_session_t *own = session->own;
  if (dt__forked())
    dt__region_free(&own->block);
  else
    dt__pager_give(session->runtime->pager, own->block);
  dt__region_free(&own->scratch);
}

static uint64_t session_bytes(const dt_session_t *session) {
  const cpu_session_t *own = session->own;
  return own->block.bytes + own->scratch.bytes;
}

static void note_held(dt_session_t *session) {
  atomic_store_explicit(&session->held[DT_MEMORY_HOST], session_bytes(session),
                        memory_order_relaxed);
}

static void give(dt_session_t *session) {
  cpu_session_t *own = session->own;
  dt__region_free(&own->block);
  dt__region_free(&own->scratch);
  own->scratch_stride = 0;
  note_held(session);
}

// ---- Leases ---------------------------------------------------------------------------------------

// The first `used` bytes of the block keep what is in them; the block may move.
static dt_status_t grow_block(dt_session_t *session, int64_t used, int64_t bytes) {
  cpu_session_t *own = session->own;
  size_t need = (size_t)bytes;
  if (bytes < 0 || bytes >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a block of %lld bytes; the limit is %lld", (long long)bytes,
                   (long long)DT_SIZE_LIMIT - 1);
  own->block.from = dt__runtime_memory(session->runtime);
  if (need > 0 && !own->block.base && !own->block.from)
    own->block = dt__pager_take(session->runtime->pager, need);
  bool leased = used ? dt__region_extend(&own->block, (size_t)used, need)
                     : dt__region_grow(&own->block, need);
  if (!leased)
    return DT_FAIL(DT_E_NO_MEMORY, "out of memory: %lld bytes for the call's intermediate results",
                   (long long)bytes);
  note_held(session);
  dt__budget_keep(&session->runtime->budget);
  return NULL;
}

static dt_status_t grow_scratch(dt_session_t *session, int64_t bytes) {
  cpu_session_t *own = session->own;
  size_t stride = ((size_t)bytes + LINE - 1) / LINE * LINE;
  if (bytes < 0 || bytes >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "scratch of %lld bytes a thread; the limit is %lld",
                   (long long)bytes, (long long)DT_SIZE_LIMIT - 1);
  size_t total = stride * dt__pool_width(session->runtime->pool); // below 2^47 times 2^12
  own->scratch_stride = 0;
  own->scratch.from = dt__runtime_memory(session->runtime);
  if (!dt__region_grow(&own->scratch, total))
    return DT_FAIL(DT_E_NO_MEMORY, "out of memory: %lld bytes of scratch for each of %u threads",
                   (long long)bytes, dt__pool_width(session->runtime->pool));
  own->scratch_stride = stride;
  note_held(session);
  dt__budget_keep(&session->runtime->budget);
  return NULL;
}

static inline dt_status_t lease(dt_session_t *session, int64_t used, const dt_frame_t *frame) {
  const cpu_session_t *own = session->own;
  if ((uint64_t)frame->block_bytes > own->block.bytes)
    DT_TRY(grow_block(session, used, frame->block_bytes));
  return (uint64_t)frame->scratch_bytes > own->scratch_stride
             ? grow_scratch(session, frame->scratch_bytes)
             : NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------

// What the first bytes of the block hold stays. A failed check ends the call before the next
// segment reads what was computed in spite of it.
ALSO_RECORDED dt_status_t run_segment(const dt_call_t *call, const dt_variant_t *variant,
                                      dt_launch_frame_t *launch, uint32_t segment, bool recorded) {
  const cpu_session_t *own = call->session->own;
  const dt_compiled_t *compiled = variant->compiled;
  dt_frame_t *frame = &launch->frame;
  int64_t used = frame->block_bytes;
  DT_TRY(dt__segment_plan(call, variant, segment, frame));
  if (recorded)
    dt__record_part(call->recorder, DT_PROFILE_PLAN);
  DT_TRY(lease(call->session, used, frame));
  DT_TRY(dt__segment_outputs(call, variant, segment));
  if (recorded)
    dt__record_part(call->recorder, DT_PROFILE_MEMORY);
  frame->block = own->block.base;
  launch->scratch = own->scratch.base;
  launch->scratch_stride = own->scratch_stride;
  compiled->segments[segment].run(frame);
  if (recorded)
    dt__record_run(call->recorder);
  DT_TRY(dt__record_status(compiled, &frame->record));
  return dt__control_status(call->control);
}

ALSO_RECORDED dt_status_t run_all(dt_call_t *call, dt_variant_t *variant,
                                  const dt_bindings_t *bindings, bool recorded) {
  const dt_compiled_t *compiled = variant->compiled;
  dt_launch_frame_t launch = {.pool = call->session->runtime->pool,
                              .level = call->session->level,
                              .threads = dt__modes_threads(call->modes)};
  dt__call_frame(call, variant, bindings, &launch.frame);
  launch.frame.launch = call->control ? dt__launch_controlled : dt__launch;
  if (dt__log_on(DT_LOG_EXEC, 2)) {
    launch.told = variant;
    launch.frame.launch = dt__launch_told;
  }
  if (recorded) {
    launch.recorder = call->recorder;
    launch.frame.launch = dt__launch_recorded;
  }
  for (uint32_t segment = 0; segment < compiled->n_segments; segment++)
    DT_TRY(run_segment(call, variant, &launch, segment, recorded));
  if (compiled->commit) { // nothing fails from here on, and nothing ends the call
    launch.frame.control = NULL;
    launch.frame.launch = recorded      ? dt__launch_recorded
                          : launch.told ? dt__launch_told
                                        : dt__launch;
    compiled->commit(&launch.frame);
    if (recorded)
      dt__record_run(call->recorder);
  }
  return NULL;
}

static dt_status_t run_recorded(dt_call_t *call, dt_variant_t *variant,
                                const dt_bindings_t *bindings) {
  uint32_t before = dt__fp_enter();
  dt_status_t status = run_all(call, variant, bindings, true);
  dt__fp_leave(before);
  return status;
}

static dt_status_t run(dt_call_t *call, dt_variant_t *variant, const dt_bindings_t *bindings) {
  uint32_t before = dt__fp_enter();
  dt_status_t status = run_all(call, variant, bindings, false);
  dt__fp_leave(before);
  return status;
}

// ---- Tensors --------------------------------------------------------------------------------------

static dt_status_t copy(dt_session_t *session, dt_device_t from_place, void *from,
                        dt_device_t to_place, void *to, size_t bytes) {
  (void)session, (void)from_place, (void)to_place;
  memmove(to, from, bytes);
  return NULL;
}

// ---- The device -----------------------------------------------------------------------------------

static void describe(const dt_place_t *place, const dt_runtime_t *runtime, dt_device_info_t *out) {
  (void)place;
  out->processors = (int32_t)dt__pool_width(runtime->pool);
}

const dt_place_kind_t dt__cpu_place = {.name = "CPU",
                                       .option = "cpu",
                                       .dlpack = 1,
                                       .memory = DT_MEMORY_HOST,
                                       .describe = describe,
                                       .session_size = sizeof(cpu_session_t),
                                       .session_close = session_close,
                                       .session_bytes = session_bytes,
                                       .give = give,
                                       .call = run,
                                       .call_recorded = run_recorded,
                                       .copy = copy,
                                       .once = dt__host_once};
