// SPDX-License-Identifier: Apache-2.0
// One GPU as runtimes share it, and what lives on it: streams, device memory, reserved ranges that
// grow in place, pinned staging. All of it outlives sessions and runtimes for as long as a tensor
// needs it, by reference counts.
//
// Functions here make the device's context current themselves and put back what was; those that
// take a dt_cu_stream_t expect it to be current already.
#ifndef DT_BACKEND_CUDA_EXEC_GPU_H
#define DT_BACKEND_CUDA_EXEC_GPU_H

#include "backend_cuda/driver/driver.h"
#include "backend_llvm/load/native.h"
#include "ductile/device.h"
#include "runtime/base/pool.h"
#include "runtime/base/thread.h"
#include "runtime/tensor/tensor.h"

typedef struct dt_cuda_stream_t dt_cuda_stream_t;

// ---- Staging (staging.c) ------------------------------------------------------------------------
// Pinned memory in two halves, so that the host fills or empties one while the device uses the
// other. Valid when zeroed; takes its memory at the first use. Externally synchronised.
typedef struct dt_cuda_staging_t {
  char *base;
  dt_cu_event_t events[2]; // the last use of each half
  bool busy[2];
  uint32_t next; // the half that is used next
  size_t used;   // of it, by copies to the device
} dt_cuda_staging_t;

#define DT_CUDA_STAGING_ROOM ((size_t)2 << 20) // a half
// Room for the next copy of at most DT_CUDA_STAGING_ROOM bytes, to be filled by the caller. Copies
// share a half as long as it lasts: who makes small ones does not wait for those before.
dt_status_t dt__cuda_stage_room(dt_cuda_staging_t *staging, dt_cuda_device_t *device, size_t bytes,
                                char **out) DT_MUST_USE;
// Queues the copy of what was put there.
dt_status_t dt__cuda_stage_send(dt_cuda_staging_t *staging, dt_cuda_device_t *device,
                                dt_cu_stream_t stream, dt_cu_ptr_t to, size_t bytes) DT_MUST_USE;

// Queues a copy from host memory, which may be reused when this returns. `pool`: its threads read
// that memory, which may be a file's that nobody has touched; NULL: the caller does.
dt_status_t dt__cuda_stage_in(dt_cuda_staging_t *staging, dt_cuda_device_t *device, dt_pool_t *pool,
                              dt_cu_stream_t stream, dt_cu_ptr_t to, const void *from,
                              size_t bytes) DT_MUST_USE;
// Copies to host memory and waits for it.
dt_status_t dt__cuda_stage_out(dt_cuda_staging_t *staging, dt_cuda_device_t *device,
                               dt_cu_stream_t stream, void *to, dt_cu_ptr_t from,
                               size_t bytes) DT_MUST_USE;
void dt__cuda_staging_fini(dt_cuda_staging_t *staging, dt_cuda_device_t *device); // waits

// ---- GPUs (gpu.c) -------------------------------------------------------------------------------
typedef struct dt_cuda_gpu_t {
  _Atomic uint32_t refs;
  dt_cuda_device_t *device; // owned
  dt_cu_stream_t own;       // for constants, and for frees that belong to no other stream
  dt_cu_pool_t pool;        // of tensors and constants; not the device's default one, which is
                            // everybody's in the process
  dt_mutex_t upload_mutex;
  dt_cuda_staging_t staging; // guarded by upload_mutex; of `own`
  dt_mutex_t streams_mutex;
  _Atomic(struct dt_cuda_code_t *) setter; // made under upload_mutex; NULL: not yet
  dt_cuda_stream_t *streams; // guarded by streams_mutex, as their links and handles: open ones
} dt_cuda_gpu_t;

// `keep`: bytes of free memory that its pool holds on to instead of giving them back at the next
// wait.
dt_status_t dt__cuda_gpu_create(const dt_cuda_t *cuda, int ordinal, uint64_t keep,
                                dt_cuda_gpu_t **out) DT_MUST_USE;
void dt__cuda_gpu_retain(dt_cuda_gpu_t *gpu);
void dt__cuda_gpu_release(dt_cuda_gpu_t *gpu); // NULL allowed
// Waits for all work that was queued on any open stream, and on `own`. Streams under capture are
// passed over: nothing of theirs runs.
dt_status_t dt__cuda_gpu_wait(dt_cuda_gpu_t *gpu) DT_MUST_USE;
// An event, the caller's to destroy, behind all work that is queued on any open stream by now; but
// for streams under capture. On failure *out is NULL.
dt_status_t dt__cuda_gpu_mark(dt_cuda_gpu_t *gpu, dt_cu_event_t *out) DT_MUST_USE;
// Copies host memory, which may be reused when this returns, to new memory of the device, where
// only what is queued on `own` may use it until dt__cuda_gpu_settle has waited for that stream.
// `pool` fills what is pinned; NULL: the caller alone.
dt_status_t dt__cuda_gpu_upload(dt_cuda_gpu_t *gpu, dt_pool_t *pool, const void *from, size_t bytes,
                                dt_storage_t **out) DT_MUST_USE;
dt_status_t dt__cuda_gpu_settle(dt_cuda_gpu_t *gpu) DT_MUST_USE;

// ---- Conditions of graphs (condition.c) ---------------------------------------------------------
// The kernel that sets a graph's condition: its words are the condition, the address of a byte and
// the most that the value is: the byte else, and 0 once a check of the call has failed: what was
// computed in spite of it must keep no loop going. Loaded at the first use. Context current.
dt_status_t dt__cuda_gpu_setter(dt_cuda_gpu_t *gpu, dt_kernel_fn_t *out) DT_MUST_USE;

// ---- Streams (stream.c) -------------------------------------------------------------------------
struct dt_cuda_stream_t {
  _Atomic uint32_t refs;
  dt_cuda_gpu_t *gpu;    // a reference
  dt_cu_stream_t handle; // constant while open
  bool lent;             // the caller's
  bool open;
  dt_cuda_stream_t *next, **link;   // in gpu->streams
  struct dt_cuda_memory_t *waiting; // freed while the stream was captured; guarded like `handle`
};

// `lent`: the caller's stream, which must live until dt__cuda_stream_close; NULL makes one.
// DT_E_UNSUPPORTED when it is being captured.
dt_status_t dt__cuda_stream_create(dt_cuda_gpu_t *gpu, dt_cu_stream_t lent,
                                   dt_cuda_stream_t **out) DT_MUST_USE;
void dt__cuda_stream_retain(dt_cuda_stream_t *stream);
void dt__cuda_stream_release(dt_cuda_stream_t *stream); // NULL allowed
// The caller's stream is used no more: memory that belongs to it is freed elsewhere from now on.
// What was queued must have been waited for. A stream of our own goes on until its last reference.
void dt__cuda_stream_close(dt_cuda_stream_t *stream);
// Waits for the stream. DT_E_UNSUPPORTED when it is being captured.
dt_status_t dt__cuda_stream_wait(dt_cuda_stream_t *stream) DT_MUST_USE;
// DT_E_UNSUPPORTED when the caller is capturing the stream; `what` says what cannot be done.
dt_status_t dt__cuda_stream_check(const dt_cuda_stream_t *stream, const char *what) DT_MUST_USE;

// ---- Memory (memory.c) --------------------------------------------------------------------------
// Device memory as a storage. With a stream it is allocated and freed in that stream's order;
// without one it is freed after all that is queued anywhere by then.
dt_status_t dt__cuda_memory_create(dt_cuda_gpu_t *gpu, dt_cuda_stream_t *stream, size_t bytes,
                                   dt_storage_t **out) DT_MUST_USE;
// The latter; what is not queued on the GPU's own stream may use it after the next wait for that.
dt_status_t dt__cuda_memory_queue(dt_cuda_gpu_t *gpu, size_t bytes, dt_storage_t **out) DT_MUST_USE;
// The storage was made by the function above, and is used and freed in the order of the stream.
bool dt__cuda_memory_is_of(const dt_storage_t *storage, const dt_cuda_stream_t *stream);
// Frees what waited for the end of a capture. Context current, streams_mutex held.
void dt__cuda_memory_flush(dt_cuda_stream_t *stream);

// ---- Reserved ranges (region.c) -----------------------------------------------------------------
// Device memory whose base never moves: pages are mapped up to the largest size asked for. Valid
// when zeroed. Externally synchronised.
typedef struct dt_cuda_region_t {
  dt_cu_ptr_t base; // 0: nothing reserved
  size_t bytes;     // mapped
  size_t reserved;
  size_t *ends; // of its mappings, ascending: pages go back by whole mappings
  uint32_t n_ends, ends_cap;
} dt_cuda_region_t;

// Reserves the addresses, so that `base` is known before there are pages. DT_E_NO_MEMORY.
dt_status_t dt__cuda_region_reserve(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu) DT_MUST_USE;
// Makes at least `bytes` usable, with what is there kept; work in flight may use the rest. Leaves
// the region as it was on failure: DT_E_NO_MEMORY.
dt_status_t dt__cuda_region_grow(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu,
                                 size_t bytes) DT_MUST_USE;
// Gives back pages behind the first `keep` bytes, as far as mappings allow. Nothing may use them;
// what runs elsewhere is not waited for.
void dt__cuda_region_trim(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu, size_t keep);
void dt__cuda_region_free(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu); // nothing may use it

static inline void *dt__cuda_pointer(dt_cu_ptr_t ptr) { return (void *)(uintptr_t)ptr; }
static inline dt_cu_ptr_t dt__cuda_address(const void *ptr) { return (dt_cu_ptr_t)(uintptr_t)ptr; }
#define DT_CUDA_TRY(device_, fn, ...)                                                              \
  DT_TRY(dt__cuda_check((device_), (device_)->cuda->fn(__VA_ARGS__),                               \
                        dt__cuda_symbol(DT_CUDA_SYM_##fn)))

#endif // DT_BACKEND_CUDA_EXEC_GPU_H
