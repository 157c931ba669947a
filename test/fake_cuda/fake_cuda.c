// SPDX-License-Identifier: Apache-2.0
// The fake driver's entry: failures on demand, violations, devices, contexts.
#include "test/fake_cuda/fake_private.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_CONTEXTS 16 // current ones of a thread, nested

typedef struct failure_t {
  bool armed, sticky;
  uint64_t at;
  dt_cu_result_t result;
} failure_t;

static struct {
  uint64_t random;
  uint64_t calls[DT_CUDA_SYM_COUNT];
  failure_t failures[DT_CUDA_SYM_COUNT];
  dt_cu_result_t lost; // of a sticky failure that has struck
  uint32_t violations;
  char first[1024];
  uint32_t retained[FAKE_DEVICES];
  bool started;
  int processors; // 0: the model's
} state;

static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUctx_st {
  int device;
} contexts[FAKE_DEVICES] = {{0}, {1}};
static _Thread_local dt_cu_context_t current[MAX_CONTEXTS];
static _Thread_local uint32_t n_current;

static void make_mutex(void) {
  pthread_mutexattr_t recursive;
  (void)pthread_mutexattr_init(&recursive);
  (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  (void)pthread_mutex_init(&mutex, &recursive);
}

static void lock(void) {
  (void)pthread_once(&once, make_mutex);
  (void)pthread_mutex_lock(&mutex);
}

static void unlock(void) { (void)pthread_mutex_unlock(&mutex); }

// ---- Entry --------------------------------------------------------------------------------------

uint64_t fake_random(void) { // splitmix64
  uint64_t z = state.random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int fake_device(void) { return n_current ? current[n_current - 1]->device : 0; }

// What the call must give instead of what it would.
static dt_cu_result_t strike(dt_cuda_sym_t sym, uint64_t call) {
  failure_t *failure = &state.failures[sym];
  if (!failure->armed || call != failure->at)
    return DT_CU_SUCCESS;
  failure->armed = false;
  if (failure->sticky)
    state.lost = failure->result;
  return failure->result;
}

dt_cu_result_t fake_enter(dt_cuda_sym_t sym, int where) {
  lock();
  uint64_t call = state.calls[sym]++;
  bool speaks = sym == DT_CUDA_SYM_error_name || sym == DT_CUDA_SYM_error_string;
  dt_cu_result_t struck = strike(sym, call);
  if (struck)
    return struck;
  if (state.lost && !speaks)
    return state.lost;
  if (!state.started && !speaks && sym != DT_CUDA_SYM_init)
    return DT_CU_NOT_INITIALIZED;
  if (where == FAKE_IN_CONTEXT && n_current == 0) {
    fake_violation("call of symbol %d without a current context", (int)sym);
    return DT_CU_INVALID_CONTEXT;
  }
  return DT_CU_SUCCESS;
}

dt_cu_result_t fake_leave(dt_cu_result_t result) {
  unlock();
  return result;
}

void fake_violation(const char *fmt, ...) {
  if (state.violations++)
    return;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(state.first, sizeof(state.first), fmt, args);
  va_end(args);
  // For programs that do not know this driver for what it is.
  const char *strict = getenv("FAKE_CUDA_STRICT");
  if (strict && strict[0] == '1') {
    (void)fprintf(stderr, "FAIL violation: %s\n", state.first);
    abort();
  }
}

// ---- Direction ----------------------------------------------------------------------------------

void fake_cuda_reset(uint64_t seed) {
  lock();
  fake_stream_reset();
  fake_graph_reset();
  fake_memory_reset();
  fake_code_reset();
  fake_ptx_reset();
  memset(&state, 0, sizeof(state));
  state.random = seed;
  state.started = true; // a process initialises the driver once
  unlock();
}

void fake_cuda_processors(int n) {
  lock();
  state.processors = n;
  unlock();
}

void fake_cuda_fail(dt_cuda_sym_t sym, uint64_t n, dt_cu_result_t result, bool sticky) {
  lock();
  state.failures[sym] =
      (failure_t){.armed = true, .sticky = sticky, .at = state.calls[sym] + n, .result = result};
  unlock();
}

uint64_t fake_cuda_calls(dt_cuda_sym_t sym) {
  lock();
  uint64_t calls = state.calls[sym];
  unlock();
  return calls;
}

uint32_t fake_cuda_violations(const char **out_first) {
  lock();
  if (out_first)
    *out_first = state.first;
  uint32_t count = state.violations;
  unlock();
  return count;
}

uint32_t fake_cuda_held(void) {
  lock();
  uint32_t held = fake_memory_held() + fake_stream_held() + fake_code_held() + fake_graph_held();
  for (int k = 0; k < FAKE_DEVICES; k++)
    held += state.retained[k];
  unlock();
  return held;
}

// ---- Initialisation, results ----------------------------------------------------------------------

dt_cu_result_t cuInit(uint32_t flags) {
  FAKE_ENTER(init, FAKE_ANYWHERE);
  state.started = true;
  return fake_leave(flags ? DT_CU_INVALID_VALUE : DT_CU_SUCCESS);
}

dt_cu_result_t cuDriverGetVersion(int *out) {
  FAKE_ENTER(driver_version, FAKE_ANYWHERE);
  *out = 13000;
  return fake_leave(DT_CU_SUCCESS);
}

static const char *result_name(dt_cu_result_t error) {
  static const struct {
    dt_cu_result_t result;
    const char *name;
  } names[] = {
      {DT_CU_SUCCESS, "CUDA_SUCCESS"},
      {DT_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {DT_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {DT_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
      {DT_CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
      {DT_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {DT_CU_NOT_READY, "CUDA_ERROR_NOT_READY"},
      {DT_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {DT_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
  };
  for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
    if (names[k].result == error)
      return names[k].name;
  // Results that the driver does not know, as a newer one's may be, have no name.
  return error < 0 || error > DT_CU_UNKNOWN ? NULL : "CUDA_ERROR_OF_THE_FAKE";
}

dt_cu_result_t cuGetErrorName(dt_cu_result_t error, const char **out) {
  FAKE_ENTER(error_name, FAKE_ANYWHERE);
  *out = result_name(error);
  return fake_leave(*out ? DT_CU_SUCCESS : DT_CU_INVALID_VALUE);
}

dt_cu_result_t cuGetErrorString(dt_cu_result_t error, const char **out) {
  FAKE_ENTER(error_string, FAKE_ANYWHERE);
  *out = result_name(error);
  return fake_leave(*out ? DT_CU_SUCCESS : DT_CU_INVALID_VALUE);
}

// ---- Devices and contexts -------------------------------------------------------------------------

dt_cu_result_t cuDeviceGetCount(int *out) {
  FAKE_ENTER(device_count, FAKE_ANYWHERE);
  *out = FAKE_DEVICES;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuDeviceGet(dt_cu_device_t *out, int ordinal) {
  FAKE_ENTER(device_get, FAKE_ANYWHERE);
  if (ordinal < 0 || ordinal >= FAKE_DEVICES)
    return fake_leave(DT_CU_INVALID_DEVICE);
  *out = ordinal;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuDeviceGetName(char *out, int bytes, dt_cu_device_t device) {
  FAKE_ENTER(device_name, FAKE_ANYWHERE);
  (void)snprintf(out, (size_t)bytes, "Fake GPU %d", device);
  return fake_leave(DT_CU_SUCCESS);
}

// What FAKE_CUDA_ARCH in the environment chooses from; the first, where it is not set.
typedef struct model_t {
  const char *arch;
  int major, minor, processors, l2_bytes, shared_per_processor, shared_per_block;
} model_t;
static const model_t models[] = {{"90", 9, 0, 132, 62914560, 233472, 232448},
                                 {"80", 8, 0, 108, 41943040, 167936, 166912},
                                 {"89", 8, 9, 128, 75497472, 102400, 101376}};

static const model_t *model(void) {
  const char *wanted = getenv("FAKE_CUDA_ARCH");
  for (size_t k = 0; wanted && k < sizeof(models) / sizeof(models[0]); k++)
    if (strcmp(models[k].arch, wanted) == 0)
      return &models[k];
  return &models[0];
}

static int processors_of(const model_t *m) {
  const char *wanted = getenv("FAKE_CUDA_PROCESSORS");
  long n = wanted ? strtol(wanted, NULL, 10) : 0;
  if (state.processors)
    return state.processors;
  return n > 0 && n < 1024 ? (int)n : m->processors;
}

int fake_attribute(int attribute) {
  const model_t *m = model();
  const struct {
    int attribute, value;
  } values[] = {
      {DT_CU_ATTR_THREADS_PER_BLOCK, 1024},
      {DT_CU_ATTR_WARP_SIZE, 32},
      {DT_CU_ATTR_REGISTERS_PER_BLOCK, 65536},
      {DT_CU_ATTR_THREADS_PER_PROCESSOR, 2048},
      {DT_CU_ATTR_PROCESSORS, processors_of(m)},
      {DT_CU_ATTR_MEMORY_KHZ, 2000000},
      {DT_CU_ATTR_MEMORY_BITS, 4096},
      {DT_CU_ATTR_L2_BYTES, m->l2_bytes},
      {DT_CU_ATTR_CAPABILITY_MAJOR, m->major},
      {DT_CU_ATTR_CAPABILITY_MINOR, m->minor},
      {DT_CU_ATTR_SHARED_PER_PROCESSOR, m->shared_per_processor},
      {DT_CU_ATTR_SHARED_PER_BLOCK, m->shared_per_block},
      {DT_CU_ATTR_VIRTUAL_MEMORY, 1},
      {DT_CU_ATTR_MEMORY_POOLS, 1},
  };
  for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
    if (values[k].attribute == attribute)
      return values[k].value;
  return -1;
}

dt_cu_result_t cuDeviceGetAttribute(int *out, int attribute, dt_cu_device_t device) {
  FAKE_ENTER(device_attribute, FAKE_ANYWHERE);
  int value = fake_attribute(attribute);
  if (value < 0 || device < 0 || device >= FAKE_DEVICES)
    return fake_leave(DT_CU_INVALID_VALUE);
  *out = value;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuDeviceTotalMem_v2(size_t *out, dt_cu_device_t device) {
  FAKE_ENTER(device_memory, FAKE_ANYWHERE);
  (void)device;
  *out = (size_t)16 << 30;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuDevicePrimaryCtxRetain(dt_cu_context_t *out, dt_cu_device_t device) {
  FAKE_ENTER(primary_retain, FAKE_ANYWHERE);
  if (device < 0 || device >= FAKE_DEVICES)
    return fake_leave(DT_CU_INVALID_DEVICE);
  state.retained[device]++;
  *out = &contexts[device];
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuDevicePrimaryCtxRelease_v2(dt_cu_device_t device) {
  // A release counts even where the context is lost: what it holds goes with it.
  lock();
  if (device < 0 || device >= FAKE_DEVICES || state.retained[device] == 0) {
    fake_violation("a primary context is released that nobody holds");
    return fake_leave(DT_CU_INVALID_CONTEXT);
  }
  state.retained[device]--;
  unlock();
  FAKE_ENTER(primary_release, FAKE_ANYWHERE);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuCtxPushCurrent_v2(dt_cu_context_t context) {
  FAKE_ENTER(context_push, FAKE_ANYWHERE);
  if (!context || n_current == MAX_CONTEXTS || state.retained[context->device] == 0)
    return fake_leave(DT_CU_INVALID_CONTEXT);
  current[n_current++] = context;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuCtxPopCurrent_v2(dt_cu_context_t *out) {
  // The thread's stack is the process's own memory: it works on a lost context, too, and whatever
  // the call gives.
  lock();
  dt_cu_result_t struck = strike(DT_CUDA_SYM_context_pop, state.calls[DT_CUDA_SYM_context_pop]++);
  if (n_current == 0) {
    fake_violation("a context is popped from an empty stack");
    return fake_leave(DT_CU_INVALID_CONTEXT);
  }
  *out = current[--n_current];
  return fake_leave(state.lost ? state.lost : struck);
}

dt_cu_result_t cuCtxGetCurrent(dt_cu_context_t *out) {
  FAKE_ENTER(context_current, FAKE_ANYWHERE);
  *out = n_current ? current[n_current - 1] : NULL;
  return fake_leave(DT_CU_SUCCESS);
}
