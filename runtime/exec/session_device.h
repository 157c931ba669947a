// SPDX-License-Identifier: Apache-2.0
// What a session on a device has besides what every session has.
#ifndef DT_RUNTIME_EXEC_SESSION_DEVICE_H
#define DT_RUNTIME_EXEC_SESSION_DEVICE_H

#include "backend_cuda/exec/session.h"
#include "runtime/exec/call.h"
#include "runtime/exec/records.h"

struct dt_session_device_t {
  dt_cuda_gpu_t *gpu;       // a reference
  dt_cuda_stream_t *stream; // a reference
  dt_cuda_region_t block, scratch;
  dt_cuda_staging_t staging;
  dt_records_t records;
  // Numbers that calls read back: where the device has them, and pinned memory for their values.
  uint64_t *item_addresses;
  int64_t *item_values;
  uint32_t items_cap;
  uint8_t *flag; // pinned: the last predicate that a call read; NULL before the first
};

#endif // DT_RUNTIME_EXEC_SESSION_DEVICE_H
