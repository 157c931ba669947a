// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions, filled once a process from libcuda.so.1 (or the library
// DUCTILE_CUDA names: the tests' fake driver). Its absence is a status, never a failure to load or
// to build. Nothing else in Ductile opens libcuda.
#ifndef DT_BACKEND_CUDA_DRIVER_DRIVER_H
#define DT_BACKEND_CUDA_DRIVER_DRIVER_H

#include "backend_cuda/driver/cuda_types.h"
#include "ductile/base.h"
#include "runtime/base/disk_cache.h"

#include <stdatomic.h>

typedef struct dt_cuda_t {
#define CUDA_SYM(name, symbol, params) dt_cu_result_t(*name) params;
#include "backend_cuda/driver/driver_syms.def"
  int version; // 1000 * major + 10 * minor
} dt_cuda_t;

// The table, initialised (cuInit). The first call opens the library `path` ("" for libcuda.so.1);
// later ones give the same table, or the same failure: DT_E_UNSUPPORTED naming the library or the
// symbol that is missing, or what cuInit said. Lives until the process ends. [any thread]
dt_status_t dt__cuda_open(const char *path, const dt_cuda_t **out) DT_MUST_USE;

// ---- Results (result.c) -------------------------------------------------------------------------
// A result as a status: NULL for success. DT_E_NO_MEMORY, DT_E_UNSUPPORTED, DT_E_COMPILE (of code),
// DT_E_ARGUMENT and DT_E_STATE where the result says so, else DT_E_DEVICE, also for results that
// nobody here knows. Never DT_E_INTERNAL. The message names the driver's function, the result and
// what to do.
dt_status_t dt__cuda_status(const dt_cuda_t *cuda, dt_cu_result_t result,
                            const char *what) DT_MUST_USE;
// Whether a result says that the context is lost.
bool dt__cuda_is_fatal(dt_cu_result_t result);
#define DT_CUDA_CALL(cuda, fn, ...)                                                                \
  dt__cuda_status((cuda), (cuda)->fn(__VA_ARGS__), dt__cuda_symbol(DT_CUDA_SYM_##fn))
typedef enum dt_cuda_sym_t {
#define CUDA_SYM(name, symbol, params) DT_CUDA_SYM_##name,
#include "backend_cuda/driver/driver_syms.def"
  DT_CUDA_SYM_COUNT
} dt_cuda_sym_t;
const char *dt__cuda_symbol(dt_cuda_sym_t sym); // "cuMemAlloc_v2"

// The least compute capability whose kernels can be launched while those before them run.
#define DT_CUDA_EARLY_MAJOR 9

// ---- Devices (device.c) -------------------------------------------------------------------------
// One GPU with its primary context, retained while this lives; the context that the caller's thread
// has current is never changed for longer than a call into this API.
typedef struct dt_cuda_device_t {
  const dt_cuda_t *cuda;
  dt_cu_device_t ordinal;
  dt_cu_context_t context;
  char name[96];
  int major, minor;     // compute capability
  int processors;       // streaming multiprocessors
  int shared_per_block; // bytes a block may ask for
  int shared_per_processor;
  int threads_per_processor;
  int registers_per_block;
  int64_t l2_bytes, memory_bytes;
  int64_t granularity;    // of mapped pages, bytes
  _Atomic int lost;       // the result that made the context unusable; 0: none
  dt_disk_cache_t *cache; // where code is kept; NULL: nowhere. Owned. Set before code is loaded
  bool early; // kernels that wait by themselves are launched early. Set before the first launch
} dt_cuda_device_t;

// DT_E_UNSUPPORTED (no such device, too old: compute capability 8.0 is the least), what the driver
// says. On failure *out is NULL and nothing is retained.
dt_status_t dt__cuda_device_create(const dt_cuda_t *cuda, int ordinal,
                                   dt_cuda_device_t **out) DT_MUST_USE;
void dt__cuda_device_destroy(dt_cuda_device_t *device); // NULL allowed
// Makes the device's context current on this thread, and puts back what was. DT_E_DEVICE at once
// when the context is known to be lost. Every enter that succeeded needs its leave.
dt_status_t dt__cuda_enter(dt_cuda_device_t *device) DT_MUST_USE;
void dt__cuda_leave(dt_cuda_device_t *device);
// Whether the context is known to be lost: all that is asked of it fails from now on.
bool dt__cuda_is_lost(const dt_cuda_device_t *device);
// dt__cuda_status, remembering that the context is lost.
dt_status_t dt__cuda_check(dt_cuda_device_t *device, dt_cu_result_t result,
                           const char *what) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_DRIVER_DRIVER_H
