// SPDX-License-Identifier: Apache-2.0
// Devices: which there are, sessions on them, tensors in their memory, and the order of work that
// runs there.
//
// A session on a device has a stream. dt_call, dt_tensor_copy and dt_tensor_create_on queue their
// work on it and return; what is queued in one session runs in that order. dt_session_wait and
// dt_tensor_read wait. Work of two sessions is ordered by events, or by the host waiting in
// between.
//
// Memory of a tensor made in a session goes back in the order of that session's stream. Before the
// last reference to a tensor that another session uses is released, its own session must be ordered
// behind that use (dt_event_wait), or the use waited for.
//
// A failed check of data (an index outside of its table) is found by the device after dt_call has
// returned. It is reported once, as DT_E_RANGE naming the function and the check, by the next of
// dt_session_wait, dt_tensor_read and dt_call in that session; what the call computed is undefined.
//
// DT_E_DEVICE is a failure of the device or its driver, with the driver's result in the text. Most
// say that the device's context is lost: every later use of the device in this process then fails
// the same way at once. The CPU and other devices go on.
//
// While the caller captures a stream that it lent, calls may be made as long as they need no new
// memory, no wait and no check of data; the rest gets DT_E_UNSUPPORTED.
#ifndef DUCTILE_DEVICE_H
#define DUCTILE_DEVICE_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Devices ------------------------------------------------------------------------------------

#define DT_CUDA ((dt_device_t)1) // NVIDIA's GPUs, by the CUDA driver

// How many devices of a kind there are; DT_CPU: 1. DT_E_UNSUPPORTED, with *out_count 0, where the
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

// The device that `text` names, as the commands take it: a kind ("cpu", "cuda"), and where there
// may be several ":" and an ordinal ("cuda:1"). Opens nothing. DT_E_ARGUMENT: it names none. [any]
DT_API dt_status_t dt_device_parse(const char *text, dt_device_t *out_device,
                                   int32_t *out_ordinal) DT_MUST_USE;
// The kind's part of it; NULL: there is no such kind. [any]
DT_API const char *dt_device_name(dt_device_t device);

// ---- Tensors ------------------------------------------------------------------------------------

// Makes a contiguous tensor where the session runs, contents undefined. The tensor is the caller's
// and may outlive the session. DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE, DT_E_NO_MEMORY, DT_E_DEVICE,
// DT_E_UNSUPPORTED. On failure *out is NULL. [external by session]
DT_API dt_status_t dt_tensor_create_on(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                                       const int64_t *sizes, dt_tensor_t **out) DT_MUST_USE;

// Copies the elements of `from` to `to`: same dtype and sizes, both contiguous or without gaps and
// of equal strides; each on the host or on the session's device. Both are borrowed and must live
// until the copy has run. Pinned host memory (dt_host_alloc, or the caller's) must stay as it is
// until then; other host memory has been read when this returns, and when written, is complete when
// this returns, for which the host waits. Between host tensors the copy is made at once.
// DT_E_ARGUMENT (another device), DT_E_DTYPE, DT_E_SHAPE, DT_E_UNSUPPORTED (strides with gaps, a
// capture), DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_tensor_copy(dt_session_t *session, const dt_tensor_t *from,
                                  dt_tensor_t *to) DT_MUST_USE;
// Copies all elements of a contiguous tensor to `to`, which has exactly `bytes` for them, and waits
// for everything queued in the session. As dt_tensor_copy, and DT_E_RANGE where a check failed;
// what `to` holds is then undefined. [external by session]
DT_API dt_status_t dt_tensor_read(dt_session_t *session, const dt_tensor_t *tensor, void *to,
                                  size_t bytes) DT_MUST_USE;

// ---- Events -------------------------------------------------------------------------------------

// A point in the work of a session, for the order between sessions of one runtime.
typedef struct dt_event_t dt_event_t;
// Made for the session's device, not recorded yet. The caller's, and may outlive the session.
// DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_event_create(dt_session_t *session, dt_event_t **out) DT_MUST_USE;
// The event stands for all that is queued in `session` by now, and for nothing that came before.
// DT_E_ARGUMENT (an event of another device). [external by session and event]
DT_API dt_status_t dt_event_record(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
// What is queued in `session` from now on runs behind the event. The host does not wait, unless the
// session is on the CPU. An event that was never recorded holds nothing up. [external by session
// and event]
DT_API dt_status_t dt_event_wait(dt_session_t *session, dt_event_t *event) DT_MUST_USE;
// Whether it has happened; true also before it was recorded. [external by event]
DT_API dt_status_t dt_event_query(dt_event_t *event, bool *out_done) DT_MUST_USE;
DT_API void dt_event_destroy(dt_event_t *event); // waits that were queued stay; NULL allowed [any]

// ---- Pinned memory ------------------------------------------------------------------------------

// Host memory that the session's device copies without staging, 64-byte aligned; ordinary memory on
// the CPU. Freed by dt_host_free with any session on the same device, once no copy uses it.
// DT_E_ARGUMENT (0 bytes), DT_E_NO_MEMORY, DT_E_DEVICE. [external by session]
DT_API dt_status_t dt_host_alloc(dt_session_t *session, size_t bytes, void **out) DT_MUST_USE;
DT_API void dt_host_free(dt_session_t *session, void *ptr); // NULL allowed [external by session]

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_DEVICE_H
