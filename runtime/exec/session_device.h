// SPDX-License-Identifier: Apache-2.0
// What a session on a device has besides what every session has.
#ifndef DT_RUNTIME_EXEC_SESSION_DEVICE_H
#define DT_RUNTIME_EXEC_SESSION_DEVICE_H

#include "backend_cuda/exec/session.h"
#include "ductile/experimental.h"
#include "runtime/exec/call.h"
#include "runtime/exec/graphs.h"
#include "runtime/exec/records.h"
#include "runtime/exec/staged.h"

struct dt_session_device_t {
  dt_cuda_gpu_t *gpu;       // a reference
  dt_cuda_stream_t *stream; // a reference
  dt_graph_pool_t *pool;    // of blocks, and of results of graphs; a reference
  dt_cuda_region_t scratch;
  dt_session_graphs_t graphs;
  dt_cu_ptr_t block; // of a call in segments
  dt_cuda_staging_t staging;
  dt_staged_t staged;
  dt_records_t records;
  // Numbers that calls read back: where the device has them, and pinned memory for their values.
  uint64_t *item_addresses;
  int64_t *item_values;
  uint32_t items_cap;
  uint8_t *flag; // pinned: the last predicate that a call read; NULL before the first
  bool captured; // the caller may replay calls: their memory stays
};

// graphs.c. Gives back the memory that living results do not need; nothing of the session's is
// queued.
void dt__session_device_trim(dt_session_device_t *own);
// graphs.c. What a session on a device counts, into a zeroed struct; the session is held.
void dt__session_count(dt_session_t *session, dt_session_counters_t *all);

// call_device.c. A place in the pool for a call's block, as dt__graph_pool_lease says.
dt_status_t dt__session_lease_pool(dt_session_device_t *own, int64_t bytes, bool grows,
                                   dt_cu_ptr_t *out) DT_MUST_USE;
// The same for segment `segment` of a call, as own->block: it grows where it is.
dt_status_t dt__session_lease_segment(dt_session_device_t *own, uint32_t segment,
                                      int64_t bytes) DT_MUST_USE;
// Brings the numbers that segment `k` begins with to the host, if there are any: waits for the
// segments before it, which are queued. `record` is where the call's checks are told, or
// DT_RECORDS.
dt_status_t dt__session_read_items(const dt_call_t *call, const dt_compiled_t *compiled, uint32_t k,
                                   dt_cuda_launch_frame_t *launch, uint32_t record) DT_MUST_USE;

// tensor_device.c. dt_tensor_create_on and dt_tensor_copy, of a session that is held.
dt_status_t dt__session_tensor(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                               const int64_t *sizes, dt_tensor_t **out) DT_MUST_USE;
dt_status_t dt__session_copy(dt_session_t *session, const dt_tensor_t *from,
                             dt_tensor_t *to) DT_MUST_USE;

// ---- call_graph.c -------------------------------------------------------------------------------
// Whether the call runs as a graph. Where it should and cannot, the reason is noted.
dt_status_t dt__graph_wanted(const dt_call_t *call, const dt_compiled_t *compiled,
                             bool *out) DT_MUST_USE;
// Runs it as one, or as one a segment. Context current.
dt_status_t dt__graph_call(dt_call_t *call, const dt_variant_t *variant,
                           const dt_bindings_t *bindings, dt_graph_frame_t *graph,
                           uint32_t record) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_SESSION_DEVICE_H
