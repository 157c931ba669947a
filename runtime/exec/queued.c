// SPDX-License-Identifier: Apache-2.0
// See queued.h. Nothing here waits but for what the call's own sizes and branches depend on.
#include "runtime/exec/queued.h"

#include "runtime/base/memory.h"
#include "runtime/exec/timing.h"

#include <string.h>

#define LEAST_READBACKS 64u

// ---- Failed checks --------------------------------------------------------------------------------

void dt__note_take(dt_note_t *note, dt_function_t *function, dt_variant_t *variant) {
  *note = (dt_note_t){.function = function, .variant = variant};
  dt_function_retain(function);
  dt__variant_retain(variant);
}

void dt__note_drop(dt_note_t *note) {
  const dt_note_t gone = *note;
  *note = (dt_note_t){0};
  if (gone.variant)
    dt__variant_release(gone.variant);
  dt_function_release(gone.function);
}

dt_status_t dt__note_tell(dt_note_t *note) {
  if (!note->function || note->told)
    return NULL;
  dt_status_t status = dt__record_status(note->variant->compiled, &note->record);
  note->told = status != NULL;
  return dt__status_annotate(status, "function %s", note->function->name);
}

// ---- Readbacks ------------------------------------------------------------------------------------

void dt__readbacks_fini(dt_readbacks_t *readbacks, dt_session_t *session) {
  if (readbacks->values)
    dt__place_host_free(session, readbacks->values);
  dt__free(readbacks->addresses);
  *readbacks = (dt_readbacks_t){0};
}

// Room for that many numbers, and for a predicate.
static dt_status_t reserve(const dt_queued_t *queued, uint32_t n) {
  dt_readbacks_t *own = queued->readbacks;
  dt_session_t *session = queued->call->session;
  void *values = NULL;
  if (own->values && n <= own->cap)
    return NULL;
  n = n < LEAST_READBACKS ? LEAST_READBACKS : n;
  if (own->values) // calls that ended early may have left copies into it
    DT_TRY(queued->queue->wait(queued));
  uint64_t *addresses = dt__calloc(n, sizeof(*addresses));
  dt_status_t status = addresses
                           ? dt__place_host_alloc(session, (n + 1) * sizeof(*own->values), &values)
                           : DT_NO_MEMORY();
  if (status) {
    dt__free(addresses);
    return status;
  }
  dt__readbacks_fini(own, session);
  *own = (dt_readbacks_t){.addresses = addresses, .values = values, .cap = n};
  return NULL;
}

// What was fetched is there, and was not computed in spite of a failed check.
static dt_status_t wait_for(const dt_queued_t *queued) {
  (void)atomic_fetch_add_explicit(&queued->call->function->readbacks, 1, memory_order_relaxed);
  return queued->queue->wait(queued);
}

dt_status_t dt__queued_read(const dt_queued_t *queued, uint32_t segment) {
  const dt_compiled_t *compiled = queued->variant->compiled;
  const dt_readbacks_t *own = queued->readbacks;
  if (!compiled->segments[segment].readbacks)
    return NULL;
  memset(own->addresses, 0, compiled->n_readbacks * sizeof(*own->addresses));
  compiled->segments[segment].readbacks(queued->frame);
  for (uint32_t i = 0; i < compiled->n_readbacks; i++) {
    const void *from = (const void *)(uintptr_t)own->addresses[i];
    if (from)
      DT_TRY(queued->queue->fetch(queued, &own->values[i], from, sizeof(*own->values)));
  }
  return wait_for(queued);
}

static dt_status_t read_byte(const dt_queued_t *queued, const void *predicate, uint8_t *out) {
  DT_TRY(dt__control_check(queued->call->control)); // a loop's body may have no kernels
  DT_TRY(reserve(queued, 0));
  uint8_t *flag = (uint8_t *)&queued->readbacks->values[queued->readbacks->cap];
  DT_TRY(queued->queue->fetch(queued, flag, predicate, 1));
  DT_TRY(wait_for(queued));
  *out = *flag;
  return NULL;
}

// frame->read_flag.
static int64_t read_flag(dt_frame_t *frame, const void *predicate) {
  const dt_queued_t *queued = frame->owner;
  dt_recorder_t *recorder = queued->call->recorder;
  uint64_t before = recorder ? dt__ticks_now(recorder->counter) - recorder->launched : 0;
  uint8_t value = 0;
  if (!*queued->failed)
    *queued->failed = read_byte(queued, predicate, &value);
  if (recorder) // what queues the copy is counted by itself
    recorder->waited += dt__ticks_now(recorder->counter) - recorder->launched - before;
  return *queued->failed ? 0 : value;
}

// ---- Calls ----------------------------------------------------------------------------------------

dt_status_t dt__queued_begin(dt_queued_t *queued, const dt_bindings_t *bindings) {
  const dt_compiled_t *compiled = queued->variant->compiled;
  dt_frame_t *frame = queued->frame;
  if (compiled->segments_reason)
    DT_TRY(reserve(queued, compiled->n_readbacks));
  dt__call_frame(queued->call, queued->variant, bindings, frame);
  frame->readback_addresses = queued->readbacks->addresses;
  frame->readback_values = queued->readbacks->values;
  frame->read_flag = read_flag;
  frame->owner = queued;
  return NULL;
}

static dt_status_t run_segment(const dt_queued_t *queued, uint32_t segment) {
  dt_frame_t *frame = queued->frame;
  int64_t used = frame->block_bytes;
  dt_recorder_t *recorder = queued->call->recorder;
  DT_TRY(dt__queued_read(queued, segment));
  dt__note_part(recorder, DT_PROFILE_WAIT);
  DT_TRY(dt__segment_plan(queued->call, queued->variant, segment, frame));
  dt__note_part(recorder, DT_PROFILE_PLAN);
  DT_TRY(queued->queue->lease(queued, segment, used));
  DT_TRY(dt__segment_outputs(queued->call, queued->variant, segment));
  dt__note_part(recorder, DT_PROFILE_MEMORY);
  dt__compiled_queue(queued->variant->compiled, segment, frame);
  if (recorder)
    dt__record_run(recorder);
  return *queued->failed;
}

dt_status_t dt__queued_run(const dt_queued_t *queued) {
  for (uint32_t k = 0; k < queued->variant->compiled->n_segments; k++)
    DT_TRY(run_segment(queued, k));
  return NULL;
}
