// SPDX-License-Identifier: Apache-2.0
// Devices: which exist, sessions on them, tensors in their memory, and the order of their work.
//
// A session on a device has a stream. dt_call, dt_tensor_copy and dt_tensor_create_on queue their
// work on it and return. Work queued in one session runs in that order. dt_session_wait and
// dt_tensor_read wait. To order the work of two sessions, use events, or let the host wait in
// between.
//
// Memory of a tensor made in a session is freed in the order of that session's stream. If another
// session uses the tensor, then before its last reference is released, its own session must be
// ordered behind that use (dt_event_wait), or the use must be waited for.
//
// A device finds a failed check of data (an index outside of its table) after dt_call has returned.
// The next dt_session_wait, dt_tensor_read or dt_call in that session reports it once, as
// DT_E_RANGE naming the function and the check. What the failed call computed is undefined.
//
// DT_E_DEVICE is a failure of the device or its driver; the text has the driver's result. Most mean
// that the device's context is lost: every later use of the device in this process then fails in
// the same way at once. The CPU and other devices go on.
//
// While the caller captures a stream that it lent, calls work only if they need no new memory, no
// wait and no check of data. Others get DT_E_UNSUPPORTED.
#ifndef DUCTILE_DEVICE_H
#define DUCTILE_DEVICE_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Devices ------------------------------------------------------------------------------------

#define DT_CUDA ((dt_device_t)1) // NVIDIA's GPUs, by the CUDA driver

// How many devices of a kind there are; 1 for DT_CPU. DT_E_UNSUPPORTED, with *out_count 0, if the
// driver (DUCTILE_CUDA, else libcuda.so.1) is missing, too old or does not start. [any]
DT_API dt_status_t dt_device_count(dt_runtime_t *runtime, dt_device_t device,
                                   int32_t *out_count) DT_MUST_USE;

// Set struct_size before asking: nothing beyond it is written.
typedef struct dt_device_info_t {
  uint32_t struct_size;
  int32_t major, minor; // compute capability; 0 on the CPU
  int32_t processors;   // streaming multiprocessors; threads of the kernel pool on the CPU
  int64_t memory_bytes; // of the device; 0 on the CPU
  char name[96];
  int32_t shared_bytes; // shared memory that a block may have; 0 on the CPU
} dt_device_info_t;
// Opens the device. DT_E_UNSUPPORTED (no driver, no such device, too old), DT_E_DEVICE. [any]
DT_API dt_status_t dt_device_info(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                                  dt_device_info_t *info) DT_MUST_USE;

// Parses a device as the commands take it: a kind ("cpu", "cuda"), then ":" and an ordinal if the
// kind may have several ("cuda:1"). Opens nothing. DT_E_ARGUMENT: `text` names no device. [any]
DT_API dt_status_t dt_device_parse(const char *text, dt_device_t *out_device,
                                   int32_t *out_ordinal) DT_MUST_USE;
// The name of the kind in such a text; NULL: there is no such kind. [any]
DT_API const char *dt_device_name(dt_device_t device);

// ---- Tensors ------------------------------------------------------------------------------------

// Makes a contiguous tensor where the session runs, contents undefined. The tensor is the caller's
// and may outlive the session. DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE, DT_E_NO_MEMORY, DT_E_DEVICE,
// DT_E_UNSUPPORTED. On failure *out is NULL. [external by session]
DT_API dt_status_t dt_tensor_create_on(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                                       const int64_t *sizes, dt_tensor_t **out) DT_MUST_USE;

// Copies the elements of `from` to `to`. Both have the same dtype and sizes. Both are contiguous,
// or without gaps and of equal strides. Each is on the host or on the session's device. Both are
// borrowed and must live until the copy has run. When host memory may be used again:
// - Pinned host memory (dt_host_alloc, or the caller's) must stay as it is until the copy has run.
// - Other host memory has been read, or completely written, when this returns; for a write the host
//   waits.
// - A copy between host tensors is made at once.
//
// DT_E_ARGUMENT (another device), DT_E_DTYPE, DT_E_SHAPE, DT_E_UNSUPPORTED (strides with gaps, a
// capture), DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_tensor_copy(dt_session_t *session, const dt_tensor_t *from,
                                  dt_tensor_t *to) DT_MUST_USE;
// Waits for everything queued in the session and copies all elements of a tensor without gaps to
// `to`, in row-major order; it has exactly `bytes` for them. Errors as dt_tensor_copy, and
// DT_E_RANGE if a check failed; the contents of `to` are then undefined. [external by session]
DT_API dt_status_t dt_tensor_read(dt_session_t *session, const dt_tensor_t *tensor, void *to,
                                  size_t bytes) DT_MUST_USE;

// ---- Events -------------------------------------------------------------------------------------

// A point in the work of a session. It orders work between sessions of one runtime.
typedef struct dt_event_t dt_event_t;
// Makes an event for the session's device, not recorded yet. The event is the caller's and may
// outlive the session. DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_event_create(dt_session_t *session, dt_event_t **out) DT_MUST_USE;
// The event now stands for all work queued in `session` so far, and no longer for what it stood for
// before. DT_E_ARGUMENT (an event of another device). [external by session and event]
DT_API dt_status_t dt_event_record(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
// Work queued in `session` from now on runs after the event. The host does not wait, unless the
// session is on the CPU. An event that was never recorded delays nothing. [external by session and
// event]
DT_API dt_status_t dt_event_wait(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
// Whether the event has happened; true also before it was recorded. [external by event]
DT_API dt_status_t dt_event_query(dt_event_t *event, bool *out_done) DT_MUST_USE;
DT_API void dt_event_destroy(dt_event_t *event); // waits that were queued stay; NULL allowed [any]

// ---- Pinned memory ------------------------------------------------------------------------------

// Allocates host memory, 64-byte aligned, that the session's device copies without staging;
// ordinary memory on the CPU. It is freed by dt_host_free with any session on the same device, once
// no copy uses it. DT_E_ARGUMENT (0 bytes), DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_host_alloc(dt_session_t *session, size_t bytes, void **out) DT_MUST_USE;
DT_API void dt_host_free(dt_session_t *session, void *ptr); // NULL allowed [external by session]

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_DEVICE_H
