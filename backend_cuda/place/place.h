// SPDX-License-Identifier: Apache-2.0
// CUDA as a place (runtime/exec/place.h): an opened GPU, what a session there has besides what
// every session has, and the functions that stand in the place's table.
#ifndef DT_BACKEND_CUDA_PLACE_PLACE_H
#define DT_BACKEND_CUDA_PLACE_PLACE_H

#include "backend_cuda/exec/session.h"
#include "backend_cuda/place/graphs.h"
#include "backend_cuda/place/params.h"
#include "backend_cuda/place/records.h"
#include "cudagraphs/store.h"
#include "ductile/experimental.h"
#include "runtime/exec/call.h"
#include "runtime/exec/queued.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/staged.h"

extern const dt_place_kind_t dt__cuda_place;

// What a runtime has for all of its GPUs.
typedef struct dt_cuda_shared_t {
  dt_cuda_params_t params;
  dt_graph_store_t graphs; // executable ones
  dt_holder_t assembled;   // theirs, for the budget
} dt_cuda_shared_t;

typedef struct dt_cuda_place_t {
  dt_place_t place;   // first
  dt_cuda_gpu_t *gpu; // a reference
} dt_cuda_place_t;

typedef struct dt_cuda_session_t {
  dt_cuda_gpu_t *gpu;       // a reference
  dt_cuda_stream_t *stream; // a reference
  dt_graph_store_t *store;  // the runtime's
  dt_graph_pool_t *pool;    // of blocks, and of results of graphs; a reference
  dt_cuda_region_t scratch;
  dt_session_graphs_t graphs;
  dt_cu_ptr_t block; // of a call in segments
  dt_cuda_staging_t staging;
  // Inputs on the host: one behind the other in the region, where the next call's take their place.
  dt_staged_t staged;
  dt_cuda_region_t staged_region;
  size_t staged_end;                   // of the call's, in the region
  uint64_t staged_count, staged_bytes; // copied so far; of their elements
  dt_records_t records;
  dt_readbacks_t readbacks;
  bool captured; // the caller may replay calls: their memory stays
} dt_cuda_session_t;

// A call's frame, and what reads back in it.
typedef struct dt_cuda_frame_t {
  dt_graph_frame_t graph; // first
  dt_queued_t queued;
  uint32_t record; // where its checks are told, or DT_RECORDS
} dt_cuda_frame_t;

static inline dt_cuda_session_t *dt__cuda_session(const dt_session_t *session) {
  return session->own;
}
static inline dt_cuda_gpu_t *dt__cuda_gpu_of(const dt_place_t *place) {
  return ((const dt_cuda_place_t *)place)->gpu;
}
static inline dt_cuda_shared_t *dt__cuda_shared(const dt_runtime_t *runtime) {
  return runtime->shared[DT_CUDA];
}
static inline dt_graph_store_t *dt__cuda_graphs(const dt_runtime_t *runtime) {
  return &dt__cuda_shared(runtime)->graphs;
}

// ---- In the table -------------------------------------------------------------------------------

// session.c
dt_status_t dt__cuda_session_open(dt_session_t *session,
                                  const dt_session_options_t *options) DT_MUST_USE;
void dt__cuda_session_close(dt_session_t *session);
uint64_t dt__cuda_session_bytes(const dt_session_t *session);
dt_status_t dt__cuda_session_settle(dt_session_t *session) DT_MUST_USE;
void dt__cuda_session_give(dt_session_t *session);
dt_status_t dt__cuda_session_trim(dt_session_t *session) DT_MUST_USE;
void *dt__cuda_session_stream(const dt_session_t *session);
dt_status_t dt__cuda_session_may_wait(const dt_session_t *session) DT_MUST_USE;
// graphs.c
dt_status_t dt__cuda_graphs_begin(dt_runtime_t *runtime) DT_MUST_USE;
void dt__cuda_graphs_end(dt_runtime_t *runtime);
void dt__cuda_graphs_count(dt_runtime_t *runtime, dt_runtime_stats_t *all);
void dt__cuda_session_step(dt_session_t *session);
void dt__cuda_session_freeze(dt_session_t *session, bool frozen);
void dt__cuda_session_count(dt_session_t *session, dt_session_counters_t *all);
// call.c
dt_status_t dt__cuda_call_enter(dt_call_t *call) DT_MUST_USE;
void dt__cuda_call_leave(dt_call_t *call);
dt_status_t dt__cuda_call(dt_call_t *call, dt_variant_t *variant,
                          const dt_bindings_t *bindings) DT_MUST_USE;
// call_graph.c
dt_status_t dt__cuda_call_result(const dt_call_t *call, uint32_t index, size_t bytes,
                                 dt_storage_t **out) DT_MUST_USE;
// tensors.c
dt_status_t dt__cuda_memory(const dt_place_t *place, dt_session_t *session, size_t bytes,
                            dt_storage_t **out) DT_MUST_USE;
dt_status_t dt__cuda_copy(dt_session_t *session, dt_device_t from_place, void *from,
                          dt_device_t to_place, void *to, size_t bytes) DT_MUST_USE;
dt_status_t dt__cuda_host_alloc(dt_session_t *session, size_t bytes, void **out) DT_MUST_USE;
void dt__cuda_host_free(dt_session_t *session, void *ptr);
// constants.c
dt_status_t dt__cuda_constant_upload(const dt_variant_t *variant, dt_pool_t *pool,
                                     const dt_tensor_t *tensor, dt_storage_t **out) DT_MUST_USE;
dt_status_t dt__cuda_constants_uploaded(const dt_variant_t *variant) DT_MUST_USE;
dt_status_t dt__cuda_constants_once(const dt_variant_t *variant,
                                    dt_bindings_t *bindings) DT_MUST_USE;
// retire.c
dt_status_t dt__cuda_variant_adopt(dt_variant_t *variant) DT_MUST_USE;
void dt__cuda_variant_retire(dt_variant_t *variant);
void dt__cuda_variant_unload(dt_variant_t *variant);
// event.c
dt_status_t dt__cuda_event_make(dt_session_t *session, dt_event_t **out) DT_MUST_USE;
dt_status_t dt__cuda_event_record(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
dt_status_t dt__cuda_event_wait(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
dt_status_t dt__cuda_hand_over(dt_session_t *session, void *stream) DT_MUST_USE;
dt_status_t dt__cuda_event_settle(dt_event_t *event) DT_MUST_USE;
dt_status_t dt__cuda_event_query(dt_event_t *event, bool *out_done) DT_MUST_USE;
void dt__cuda_event_destroy(dt_event_t *event);

// timer.c
extern const dt_place_timer_t dt__cuda_timer;
void dt__cuda_rates(const dt_place_t *place, double *out_bytes_per_s, int64_t *out_near_bytes);

// ---- Between the files --------------------------------------------------------------------------

// session.c. Tells the budget what the session has on its GPU, where that changed. The session is
// held.
void dt__cuda_session_note(dt_session_t *session);
// graphs.c. Gives back the memory that living results do not need; nothing of the session's is
// queued.
void dt__cuda_session_drop(dt_cuda_session_t *own);

// call.c. A place in the pool for a call's block, as dt__graph_pool_lease says.
dt_status_t dt__session_lease_pool(dt_cuda_session_t *own, int64_t bytes, bool grows,
                                   dt_cu_ptr_t *out) DT_MUST_USE;
// The same for segment `segment` of a call, as own->block: it grows where it is.
dt_status_t dt__session_lease_segment(dt_cuda_session_t *own, uint32_t segment,
                                      int64_t bytes) DT_MUST_USE;

// timer.c. Before a call with a recorder queues anything: whether it may be timed. Context current.
dt_status_t dt__cuda_record_begin(const dt_call_t *call) DT_MUST_USE;
// frame->launch of its dt_cuda_frame_t.
void dt__cuda_launch_recorded(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                              int64_t count, int64_t grain);
typedef void (*dt_cuda_launch_fn_t)(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                                    int64_t count, int64_t grain);
static inline dt_cuda_launch_fn_t dt__cuda_launch_of(const dt_call_t *call) {
  return call->recorder ? dt__cuda_launch_recorded : dt__cuda_launch;
}

// staged.c. Replaces call->inputs where some are on the host that should be on the device.
// DT_E_UNSUPPORTED under a capture, DT_E_NO_MEMORY. Context current.
dt_status_t dt__stage_place(dt_call_t *call) DT_MUST_USE;
// Queues the copies, by way of pinned memory: all of them at once where they are small. The host's
// memory has been read when this returns. DT_E_ARGUMENT where the variant writes to one of the
// inputs. Context current.
dt_status_t dt__stage_copy(const dt_call_t *call, const dt_variant_t *variant) DT_MUST_USE;

// ---- call_graph.c -------------------------------------------------------------------------------
// Whether the call runs as a graph. Where it should and cannot, the reason is noted.
dt_status_t dt__graph_wanted(const dt_call_t *call, const dt_compiled_t *compiled,
                             bool *out) DT_MUST_USE;
// Runs it as one, or as one a segment. Context current.
dt_status_t dt__graph_call(dt_cuda_frame_t *frame, const dt_bindings_t *bindings) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_PLACE_PLACE_H
