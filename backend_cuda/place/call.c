// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU: the same plan and host program as on the CPU, with launches that are queued.
// Nothing here waits for the device but what the call's own sizes depend on.
#include "backend_cuda/place/place.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/timing.h"

#include <time.h>

// ---- Waiting --------------------------------------------------------------------------------------

#define FIRST_NAP_NS 20000
#define LAST_NAP_NS 1000000

// For all that is queued, or until the call ends: what is queued then runs out.
static dt_status_t wait_for_work(const dt_call_t *call) {
  dt_cuda_session_t *own = call->session->own;
  struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
  while (call->control &&
         own->gpu->device->cuda->stream_query(own->stream->handle) == DT_CU_NOT_READY) {
    DT_TRY(dt__control_check(call->control));
    (void)nanosleep(&nap, NULL);
    nap.tv_nsec = nap.tv_nsec < LAST_NAP_NS ? nap.tv_nsec * 2 : nap.tv_nsec;
  }
  return dt__cuda_stream_wait(own->stream);
}

// ---- Reading back ---------------------------------------------------------------------------------

static dt_status_t fetch(const dt_queued_t *queued, void *to, const void *from, size_t bytes) {
  dt_cuda_launch_frame_t *launch = (dt_cuda_launch_frame_t *)queued->frame;
  dt_recorder_t *recorder = queued->call->recorder;
  launch->follows = false;
  dt_stamp_t *stamp =
      recorder ? dt__record_queue(recorder, DT_STAMP_FROM_DEVICE, NULL, NULL, 0) : NULL;
  DT_CUDA_TRY(launch->gpu->device, copy_to_host, to, dt__cuda_address(from), bytes, launch->stream);
  if (stamp)
    dt__record_queued(recorder, stamp, bytes);
  return NULL;
}

static dt_status_t wait_and_look(const dt_queued_t *queued) {
  const dt_cuda_frame_t *own = (const dt_cuda_frame_t *)queued->frame;
  DT_TRY(wait_for_work(queued->call));
  return own->record < DT_RECORDS
             ? dt__records_look(&dt__cuda_session(queued->call->session)->records, own->record)
             : NULL;
}

// ---- Memory ---------------------------------------------------------------------------------------

static dt_status_t check_bytes(int64_t bytes) {
  if (bytes < 0 || bytes >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a block of %lld bytes; the limit is %lld", (long long)bytes,
                   (long long)DT_SIZE_LIMIT - 1);
  return NULL;
}

// More memory was needed: not under a capture, and told where the session is frozen.
static dt_status_t grown(dt_cuda_session_t *own, dt_status_t status, int64_t bytes,
                         uint64_t growths) {
  if (own->graphs.frozen && own->pool->growths != growths) {
    own->graphs.frozen_growths++;
    DT_LOG(DT_LOG_GRAPHS, 1, "a frozen session takes %lld bytes for its block", (long long)bytes);
  }
  return dt__status_annotate(status, "%lld bytes for the call's intermediate results",
                             (long long)bytes);
}

dt_status_t dt__session_lease_pool(dt_cuda_session_t *own, int64_t bytes, bool grows,
                                   dt_cu_ptr_t *out) {
  uint64_t growths = own->pool->growths;
  DT_TRY(check_bytes(bytes));
  if (!dt__graph_pool_has(own->pool, (size_t)bytes, grows))
    DT_TRY(dt__cuda_stream_check(own->stream, "a call of larger sizes than before"));
  return grown(own, dt__graph_pool_lease(own->pool, (size_t)bytes, grows, out), bytes, growths);
}

dt_status_t dt__session_lease_segment(dt_cuda_session_t *own, uint32_t segment, int64_t bytes) {
  uint64_t growths = own->pool->growths;
  if (segment == 0)
    return dt__session_lease_pool(own, bytes, true, &own->block);
  DT_TRY(check_bytes(bytes));
  return grown(own, dt__graph_pool_extend(own->pool, own->block, (size_t)bytes), bytes, growths);
}

static dt_status_t lease(const dt_queued_t *queued, uint32_t segment, int64_t used) {
  dt_cuda_session_t *own = queued->call->session->own;
  (void)used; // the pool keeps it
  DT_TRY(dt__session_lease_segment(own, segment, queued->frame->block_bytes));
  queued->frame->block = dt__cuda_pointer(own->block);
  return NULL;
}

static const dt_queue_t queue = {.fetch = fetch, .wait = wait_and_look, .lease = lease};

// ---- Calls ----------------------------------------------------------------------------------------

static dt_status_t begin_frame(dt_call_t *call, dt_variant_t *variant,
                               const dt_bindings_t *bindings, dt_cuda_frame_t *out) {
  dt_cuda_session_t *own = call->session->own;
  dt_graph_frame_t *graph = &out->graph;
  out->queued = (dt_queued_t){.queue = &queue,
                              .call = call,
                              .variant = variant,
                              .frame = &graph->launch.frame,
                              .failed = &graph->launch.status,
                              .readbacks = &own->readbacks};
  DT_TRY(dt__queued_begin(&out->queued, bindings));
  graph->launch.frame.launch = dt__cuda_launch_of(call);
  graph->launch.gpu = own->gpu;
  graph->launch.stream = own->stream->handle;
  graph->launch.scratch = &own->scratch;
  graph->launch.early = own->gpu->device->early && !own->stream->lent;
  graph->launch.no_record = dt__records_address(&own->records, DT_RECORDS);
  graph->set_early = own->gpu->device->early;
  graph->edges = variant->compiled->edges;
  graph->n_edges = variant->compiled->n_edges;
  graph->counts = &own->graphs.counts;
  return NULL;
}

// Where the call's checks are told.
static dt_status_t take_record(dt_call_t *call, dt_variant_t *variant, dt_cuda_frame_t *frame) {
  dt_cuda_session_t *own = call->session->own;
  frame->record = DT_RECORDS;
  if (variant->compiled->n_checks) {
    DT_TRY(dt__cuda_stream_check(own->stream, "a call that checks data"));
    DT_TRY(dt__records_take(&own->records, own->gpu->device, own->stream->handle, call->function,
                            variant, &frame->record));
  }
  frame->graph.launch.record = dt__records_address(&own->records, frame->record);
  return NULL;
}

// What the caller captures he may replay: what it uses stays from now on.
static dt_status_t keep_captured(dt_cuda_session_t *own, dt_variant_t *variant) {
  int capturing = 0;
  DT_CUDA_TRY(own->gpu->device, stream_capturing, own->stream->handle, &capturing);
  if (!capturing)
    return NULL;
  own->captured = true;
  atomic_store_explicit(&variant->captured, true, memory_order_relaxed);
  return NULL;
}

dt_status_t dt__cuda_call(dt_call_t *call, dt_variant_t *variant, const dt_bindings_t *bindings) {
  dt_session_t *session = call->session;
  dt_cuda_session_t *own = session->own;
  dt_cuda_frame_t frame = {.record = DT_RECORDS};
  uint32_t live = 0;
  bool graph = false;
  if (own->stream->lent && session->runtime->budget.limited)
    DT_TRY(keep_captured(own, variant));
  if (call->recorder)
    DT_TRY(dt__cuda_record_begin(call));
  DT_TRY(dt__stage_copy(call, variant));
  DT_TRY(begin_frame(call, variant, bindings, &frame));
  DT_TRY(dt__graph_wanted(call, variant->compiled, &graph));
  DT_TRY(take_record(call, variant, &frame));
  if (!graph)
    (void)dt__graph_pool_sweep(own->pool, &live);
  dt_status_t status = graph ? dt__graph_call(&frame, bindings) : dt__queued_run(&frame.queued);
  (void)atomic_fetch_add_explicit(&call->function->counters[session->counter].launches,
                                  frame.graph.launch.launches, memory_order_relaxed);
  return status;
}

// ---- Around a call --------------------------------------------------------------------------------

// Context current. The failures of earlier calls, and a place for inputs on the host.
static dt_status_t begin(dt_call_t *call) {
  dt_cuda_session_t *own = call->session->own;
  if (dt__records_any(&own->records)) {
    DT_TRY(
        dt__status_annotate(dt__records_failure(&own->records), "an earlier call of this session"));
    DT_TRY(dt__records_reserve(&own->records, own->gpu->device));
  }
  return dt__stage_place(call);
}

dt_status_t dt__cuda_call_enter(dt_call_t *call) {
  DT_TRY(dt__call_check_queued(call));
  DT_TRY(dt__cuda_enter(dt__cuda_session(call->session)->gpu->device));
  dt_status_t status = begin(call);
  if (status)
    dt__cuda_call_leave(call);
  return status;
}

void dt__cuda_call_leave(dt_call_t *call) {
  dt__cuda_session_note(call->session);
  dt__cuda_leave(dt__cuda_session(call->session)->gpu->device);
}
