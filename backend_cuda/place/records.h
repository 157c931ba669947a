// SPDX-License-Identifier: Apache-2.0
// Failed checks of calls on a device: a ring of records that kernels write and the host looks at
// later, each with the function and the variant it belongs to.
#ifndef DT_BACKEND_CUDA_PLACE_RECORDS_H
#define DT_BACKEND_CUDA_PLACE_RECORDS_H

#include "backend_cuda/exec/gpu.h"
#include "backend_cuda/exec/launch.h"
#include "runtime/exec/queued.h"
#include "runtime/exec/variant.h"

#define DT_RECORDS 64u
#define DT_RECORD_GROUP 16u // records that end with one event
#define DT_RECORD_GROUPS (DT_RECORDS / DT_RECORD_GROUP)

// Of one session. Calls in [begin, end) may still write theirs; call n has record n % DT_RECORDS.
typedef struct dt_records_t {
  dt_cuda_record_t *host; // pinned; one more behind the ring, which nobody looks at
  dt_cu_ptr_t device;     // the same memory as the device sees it
  uint64_t begin, end;
  dt_note_t notes[DT_RECORDS];
  dt_cu_event_t events[DT_RECORD_GROUPS]; // behind the last call of a group
} dt_records_t;

// All calls have ended: releases functions and variants, whatever their records say.
void dt__records_drop(dt_records_t *records);
// Context current for these and what follows.
dt_status_t dt__records_init(dt_records_t *records, dt_cuda_device_t *device) DT_MUST_USE;
void dt__records_fini(dt_records_t *records, dt_cuda_device_t *device);
// The oldest failure that was not told yet, as a status; NULL: none so far.
dt_status_t dt__records_failure(dt_records_t *records) DT_MUST_USE;
// Outside an epoch, before a call: makes sure that there is a free record, if need be by waiting
// for the oldest calls.
dt_status_t dt__records_reserve(dt_records_t *records, dt_cuda_device_t *device) DT_MUST_USE;
// The next record, for a call that is about to be queued on `stream`: its index. One was reserved.
dt_status_t dt__records_take(dt_records_t *records, dt_cuda_device_t *device, dt_cu_stream_t stream,
                             dt_function_t *function, dt_variant_t *variant,
                             uint32_t *out) DT_MUST_USE;
// What record `index` says now, told by this.
dt_status_t dt__records_look(dt_records_t *records, uint32_t index) DT_MUST_USE;
// All calls have ended: releases their functions, up to the first whose failure was not told, which
// is the status. What is behind it is told the next time.
dt_status_t dt__records_settle(dt_records_t *records) DT_MUST_USE;

static inline bool dt__records_any(const dt_records_t *records) {
  return records->begin != records->end;
}
static inline dt_cu_ptr_t dt__records_address(const dt_records_t *records, uint32_t index) {
  return records->device + index * sizeof(dt_cuda_record_t);
}

#endif // DT_BACKEND_CUDA_PLACE_RECORDS_H
