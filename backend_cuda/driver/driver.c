// SPDX-License-Identifier: Apache-2.0
// Opening the driver's library and filling the table.
#include "backend_cuda/driver/driver.h"

#include "runtime/base/status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

// The least driver: CUDA 12.4, whose graphs have programmatic edges and conditions.
#define LEAST_VERSION 12040

static struct {
  pthread_mutex_t mutex;
  bool tried; // guarded by mutex, like the rest; what stands below never changes afterwards
  dt_cuda_t table;
  dt_code_t code; // DT_OK: opened
  char why[256];
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const symbols[DT_CUDA_SYM_COUNT] = {
#define CUDA_SYM(name, symbol, params) [DT_CUDA_SYM_##name] = #symbol,
#include "backend_cuda/driver/driver_syms.def"
};

const char *dt__cuda_symbol(dt_cuda_sym_t sym) { return symbols[sym]; }

static void refuse(dt_code_t code, const char *what, const char *detail) {
  state.code = code;
  (void)snprintf(state.why, sizeof(state.why), "%s%s", what, detail ? detail : "");
}

// Data and function pointers are of one size wherever the library can be opened; ISO C has no cast
// between them.
static bool find(void *library, const char *symbol, void *slot) {
  void *address = dlsym(library, symbol);
  if (!address) {
    refuse(DT_E_UNSUPPORTED, "the CUDA driver is too old: it lacks ", symbol);
    return false;
  }
  *(void **)slot = address;
  return true;
}

static bool fill(void *library) {
#define CUDA_SYM(name, symbol, params)                                                             \
  if (!find(library, #symbol, &state.table.name))                                                  \
    return false;
#include "backend_cuda/driver/driver_syms.def"
  return true;
}

static void open_library(const char *path) {
  // Left open for the life of the process: its threads and handlers cannot be unloaded safely.
  void *library = dlopen(path && path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    refuse(DT_E_UNSUPPORTED, "no CUDA driver on this machine: ", dlerror());
    return;
  }
  if (!fill(library))
    return;
  dt_cu_result_t result = state.table.init(0);
  if (result == DT_CU_SUCCESS)
    result = state.table.driver_version(&state.table.version);
  if (result != DT_CU_SUCCESS) {
    const char *name = NULL;
    (void)state.table.error_name(result, &name);
    refuse(DT_E_UNSUPPORTED, "the CUDA driver does not start: ", name ? name : "unknown result");
  } else if (state.table.version < LEAST_VERSION) {
    char text[64];
    (void)snprintf(text, sizeof(text), "%d.%d; expected 12.4 or newer", state.table.version / 1000,
                   state.table.version % 1000 / 10);
    refuse(DT_E_UNSUPPORTED, "the CUDA driver is of version ", text);
  }
}

dt_status_t dt__cuda_open(const char *path, const dt_cuda_t **out) {
  *out = NULL;
  (void)pthread_mutex_lock(&state.mutex);
  if (!state.tried) {
    state.tried = true;
    open_library(path);
  }
  (void)pthread_mutex_unlock(&state.mutex);
  if (state.code != DT_OK)
    return DT_FAIL(state.code, "%s", state.why);
  *out = &state.table;
  return NULL;
}
