// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU: the same plan and host program as on the CPU, with launches that are queued.
// Nothing here waits for the device but what the call's own sizes depend on.
#include "backend_cuda/place/place.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>
#include <time.h>

#define LEAST_ITEMS 64u

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

// ---- Numbers that the host reads ------------------------------------------------------------------

// Room for that many numbers.
static dt_status_t reserve_readbacks(dt_cuda_session_t *own, uint32_t n) {
  dt_cuda_device_t *device = own->gpu->device;
  if (n <= own->readbacks_cap)
    return NULL;
  n = n < LEAST_ITEMS ? LEAST_ITEMS : n;
  DT_TRY(dt__cuda_stream_wait(own->stream)); // copies into the old memory
  uint64_t *addresses = dt__calloc(n, sizeof(*addresses));
  void *values = NULL;
  dt_status_t status =
      addresses
          ? dt__cuda_check(
                device, device->cuda->host_alloc(&values, n * sizeof(int64_t), DT_CU_HOST_PORTABLE),
                dt__cuda_symbol(DT_CUDA_SYM_host_alloc))
          : DT_NO_MEMORY();
  if (status) {
    dt__free(addresses);
    return status;
  }
  if (own->readback_values)
    (void)device->cuda->host_free(own->readback_values);
  dt__free(own->readback_addresses);
  own->readback_addresses = addresses;
  own->readback_values = values;
  own->readbacks_cap = n;
  return NULL;
}

dt_status_t dt__session_read_back(const dt_call_t *call, const dt_compiled_t *compiled, uint32_t k,
                                  dt_cuda_launch_frame_t *launch, uint32_t record) {
  dt_cuda_session_t *own = call->session->own;
  dt_cuda_device_t *device = own->gpu->device;
  if (!compiled->segments[k].readbacks)
    return NULL;
  memset(own->readback_addresses, 0, compiled->n_readbacks * sizeof(*own->readback_addresses));
  compiled->segments[k].readbacks(&launch->frame);
  for (uint32_t i = 0; i < compiled->n_readbacks; i++) {
    if (own->readback_addresses[i])
      DT_CUDA_TRY(device, copy_to_host, &own->readback_values[i], own->readback_addresses[i],
                  sizeof(int64_t), launch->stream);
  }
  (void)atomic_fetch_add_explicit(&call->function->readbacks, 1, memory_order_relaxed);
  DT_TRY(wait_for_work(call));
  // Numbers computed in spite of a failed check are not used.
  return record < DT_RECORDS ? dt__records_look(&own->records, record) : NULL;
}

// ---- Predicates -----------------------------------------------------------------------------------

// A frame, and where its call keeps what predicates need.
typedef struct device_frame_t {
  dt_graph_frame_t graph; // first
  const dt_call_t *call;
  uint32_t record;
} device_frame_t;

static dt_status_t read_byte(device_frame_t *own, const void *predicate, uint8_t *out) {
  dt_cuda_session_t *session = own->call->session->own;
  dt_cuda_device_t *device = session->gpu->device;
  DT_TRY(dt__control_check(own->call->control)); // a loop's body may have no kernels
  if (!session->flag) {
    void *flag = NULL;
    DT_CUDA_TRY(device, host_alloc, &flag, 1, DT_CU_HOST_PORTABLE);
    session->flag = flag;
  }
  dt_cu_ptr_t from = 0;
  memcpy(&from, &predicate, sizeof(from));
  DT_CUDA_TRY(device, copy_to_host, session->flag, from, 1, own->graph.launch.stream);
  own->graph.launch.follows = false;
  (void)atomic_fetch_add_explicit(&own->call->function->readbacks, 1, memory_order_relaxed);
  DT_TRY(wait_for_work(own->call));
  *out = *session->flag;
  // What was computed in spite of a failed check decides nothing.
  return own->record < DT_RECORDS ? dt__records_look(&session->records, own->record) : NULL;
}

// frame->read_flag of a device_frame_t.
static int64_t read_flag(dt_frame_t *frame, const void *predicate) {
  device_frame_t *own = (device_frame_t *)frame;
  uint8_t value = 0;
  if (!own->graph.launch.status)
    own->graph.launch.status = read_byte(own, predicate, &value);
  return own->graph.launch.status ? 0 : value;
}

// ---- Segments -------------------------------------------------------------------------------------

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

static dt_status_t run_segment(const dt_call_t *call, const dt_variant_t *variant,
                               dt_cuda_launch_frame_t *launch, uint32_t k, uint32_t record) {
  dt_cuda_session_t *own = call->session->own;
  const dt_compiled_t *compiled = variant->compiled;
  dt_frame_t *frame = &launch->frame;
  DT_TRY(dt__session_read_back(call, compiled, k, launch, record));
  DT_TRY(dt__segment_plan(call, variant, k, frame));
  DT_TRY(dt__session_lease_segment(own, k, frame->block_bytes));
  DT_TRY(dt__segment_outputs(call, variant, k));
  frame->block = dt__cuda_pointer(own->block);
  launch->follows = false; // after copies and new outputs
  dt__compiled_queue(compiled, k, frame);
  return launch->status;
}

static dt_graph_frame_t make_frame(const dt_call_t *call, const dt_variant_t *variant,
                                   const dt_bindings_t *bindings, uint32_t record) {
  dt_cuda_session_t *own = call->session->own;
  dt_frame_t frame = {0};
  dt__call_frame(call, variant, bindings, &frame);
  frame.readback_addresses = own->readback_addresses;
  frame.readback_values = own->readback_values;
  frame.launch = dt__cuda_launch;
  return (dt_graph_frame_t){.launch = {.frame = frame,
                                       .gpu = own->gpu,
                                       .stream = own->stream->handle,
                                       .scratch = &own->scratch,
                                       .early = own->gpu->device->early && !own->stream->lent,
                                       .record = dt__records_address(&own->records, record),
                                       .no_record = dt__records_address(&own->records, DT_RECORDS)},
                            .set_early = own->gpu->device->early,
                            .edges = variant->compiled->edges,
                            .n_edges = variant->compiled->n_edges,
                            .counts = &own->graphs.counts};
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
  const dt_compiled_t *compiled = variant->compiled;
  uint32_t record = DT_RECORDS, live = 0;
  bool graph = false;
  if (own->stream->lent && session->runtime->budget.limited)
    DT_TRY(keep_captured(own, variant));
  DT_TRY(dt__stage_copy(call, variant));
  if (compiled->segments_reason)
    DT_TRY(reserve_readbacks(own, compiled->n_readbacks));
  DT_TRY(dt__graph_wanted(call, compiled, &graph));
  if (compiled->n_checks) {
    DT_TRY(dt__cuda_stream_check(own->stream, "a call that checks data"));
    DT_TRY(dt__records_take(&own->records, own->gpu->device, own->stream->handle, call->function,
                            variant, &record));
  }
  device_frame_t whole = {
      .graph = make_frame(call, variant, bindings, record), .call = call, .record = record};
  dt_cuda_launch_frame_t *launch = &whole.graph.launch;
  launch->frame.read_flag = read_flag;
  dt_status_t status = NULL;
  if (graph) {
    status = dt__graph_call(call, variant, bindings, &whole.graph, record);
  } else {
    (void)dt__graph_pool_sweep(own->pool, &live);
    for (uint32_t k = 0; k < compiled->n_segments && !status; k++)
      status = run_segment(call, variant, launch, k, record);
  }
  (void)atomic_fetch_add_explicit(&call->function->counters[session->counter].launches,
                                  launch->launches, memory_order_relaxed);
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
