// SPDX-License-Identifier: Apache-2.0
// See records.h. A record is used again only when the device is known to be done with it, so that a
// late kernel never writes into another call's.
#include "backend_cuda/place/records.h"

#include "runtime/base/status.h"

#include <string.h>

#define BYTES ((DT_RECORDS + 1) * sizeof(dt_cuda_record_t))

dt_status_t dt__records_init(dt_records_t *records, dt_cuda_device_t *device) {
  void *host = NULL;
  for (uint32_t k = 0; k < DT_RECORD_GROUPS; k++)
    DT_CUDA_TRY(device, event_create, &records->events[k], DT_CU_EVENT_NO_TIMING);
  DT_CUDA_TRY(device, host_alloc, &host, BYTES, DT_CU_HOST_PORTABLE | DT_CU_HOST_MAPPED);
  records->host = host;
  memset(host, 0, BYTES);
  DT_CUDA_TRY(device, host_device_ptr, &records->device, host, 0);
  return NULL;
}

static void drop(dt_records_t *records, uint64_t end) {
  while (records->begin < end)
    dt__note_drop(&records->notes[records->begin++ % DT_RECORDS]);
}

void dt__records_drop(dt_records_t *records) { drop(records, records->end); }

void dt__records_fini(dt_records_t *records, dt_cuda_device_t *device) {
  for (uint32_t k = 0; k < DT_RECORD_GROUPS; k++)
    if (records->events[k])
      (void)device->cuda->event_destroy(records->events[k]);
  if (records->host)
    (void)device->cuda->host_free(records->host);
  *records = (dt_records_t){0};
}

dt_status_t dt__records_look(dt_records_t *records, uint32_t index) {
  const dt_cuda_record_t *record = &records->host[index];
  int64_t check = __atomic_load_n(&record->check, __ATOMIC_ACQUIRE);
  if (check == 0)
    return NULL;
  dt_launch_record_t *seen = &records->notes[index].record;
  seen->value = record->value;
  seen->extent = record->extent;
  atomic_store_explicit(&seen->check, check, memory_order_relaxed);
  return dt__note_tell(&records->notes[index]);
}

dt_status_t dt__records_failure(dt_records_t *records) {
  for (uint64_t n = records->begin; n < records->end; n++)
    DT_TRY(dt__records_look(records, n % DT_RECORDS));
  return NULL;
}

dt_status_t dt__records_reserve(dt_records_t *records, dt_cuda_device_t *device) {
  if (records->end - records->begin < DT_RECORDS)
    return NULL;
  uint64_t group = records->begin / DT_RECORD_GROUP;
  DT_CUDA_TRY(device, event_synchronize, records->events[group % DT_RECORD_GROUPS]);
  DT_TRY(dt__records_failure(records));
  drop(records, (group + 1) * DT_RECORD_GROUP);
  return NULL;
}

dt_status_t dt__records_take(dt_records_t *records, dt_cuda_device_t *device, dt_cu_stream_t stream,
                             dt_function_t *function, dt_variant_t *variant, uint32_t *out) {
  // All of the group before is queued by now.
  uint64_t n = records->end;
  if (n % DT_RECORD_GROUP == 0 && n > records->begin)
    DT_CUDA_TRY(device, event_record, records->events[(n / DT_RECORD_GROUP - 1) % DT_RECORD_GROUPS],
                stream);
  *out = (uint32_t)(n % DT_RECORDS);
  records->host[*out] = (dt_cuda_record_t){0};
  dt__note_take(&records->notes[*out], function, variant);
  records->end = n + 1;
  return NULL;
}

dt_status_t dt__records_settle(dt_records_t *records) {
  while (records->begin < records->end) {
    dt_status_t status = dt__records_look(records, records->begin % DT_RECORDS);
    drop(records, records->begin + 1);
    if (status)
      return status;
  }
  records->begin = records->end = 0; // the next call's is the same as the last one's, if it can be
  return NULL;
}
