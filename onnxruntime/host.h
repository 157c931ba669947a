// SPDX-License-Identifier: Apache-2.0
// Failures, onnxruntime's log, and memory, for all files of the execution provider.
#ifndef DT_ONNXRUNTIME_HOST_H
#define DT_ONNXRUNTIME_HOST_H

#include "ductile/base.h"
#include "onnxruntime/ort.h"

// ---- Failures and logs (status.c) ---------------------------------------------------------------
// Returns what failed.
#define EP_TRY(expr)                                                                               \
  do {                                                                                             \
    ort_status_t *ep_try_status = (expr);                                                          \
    if (ep_try_status)                                                                             \
      return ep_try_status;                                                                        \
  } while (0)

ort_status_t *ep_fail(const ort_api_t *api, ort_code_t code, const char *format, ...)
    DT_PRINTF(3, 4);
ort_status_t *ep_no_memory(const ort_api_t *api);
// NULL for NULL. Takes `status`; `what`, if anything, is put before its message.
ort_status_t *ep_status(const ort_api_t *api, dt_status_t status, const char *what);
// Says something in onnxruntime's log.
void ep_log(const ort_api_t *api, const ort_logger_t *logger, ort_level_t level, const char *format,
            ...) DT_PRINTF(4, 5);

// ---- Memory that goes at once (memory.c) ----------------------------------------------------------
typedef struct ep_block_t ep_block_t;
typedef struct ep_arena_t {
  ep_block_t *blocks;
} ep_arena_t;
void *ep_take(ep_arena_t *arena, size_t count, size_t bytes); // zeroed; NULL: there is none
void ep_drop(ep_arena_t *arena);
#define EP_ARRAY(arena, type, count) ((type *)ep_take((arena), (count), sizeof(type)))

// A text that grows, of any bytes. `failed`: there was no memory.
typedef struct ep_bytes_t {
  unsigned char *data; // on the heap; owner
  size_t len, room;
  bool failed;
} ep_bytes_t;
void ep_put(ep_bytes_t *bytes, const void *data, size_t len);
void ep_printf(ep_bytes_t *bytes, const char *format, ...) DT_PRINTF(2, 3);
const char *ep_text(ep_bytes_t *bytes); // terminated
void ep_free(ep_bytes_t *bytes);

#endif // DT_ONNXRUNTIME_HOST_H
