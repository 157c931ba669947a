// SPDX-License-Identifier: Apache-2.0
// Runtimes: options and parameters, the kernel pool, the compiler and the reclaimer, and their
// order of birth and death.
#include "backend_cuda/exec/gpu.h"
#include "runtime/exec/exec.h"

#include "guards/modes.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#define OPTIONS_BYTES (offsetof(dt_runtime_options_t, compile_threads) + sizeof(uint32_t))
#define MOST_THREADS 1024
#define MOST_COMPILE_THREADS 64
// Longer than any options will be, so that a garbage size is not read to its end.
#define MOST_OPTIONS_BYTES 4096

dt_status_t dt__check_struct_size(const void *options, uint32_t size, size_t known,
                                  const char *type) {
  if (size == 0 || size == known)
    return NULL;
  // The struct may end in padding, which the caller's sizeof counts and which says nothing.
  size_t padded = (known + 7) / 8 * 8;
  if (size < known || size > MOST_OPTIONS_BYTES)
    return DT_FAIL(DT_E_ARGUMENT, "struct_size: %u; expected %zu, sizeof(%s)", size, padded, type);
  for (size_t i = padded; i < size; i++) {
    if (((const char *)options)[i] != 0)
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "struct_size: %u: a field behind byte %zu of %s is set that this version does "
                     "not know",
                     size, padded, type);
  }
  return NULL;
}

static dt_status_t check_options(const dt_runtime_options_t *options) {
  if (!options)
    return NULL;
  DT_TRY(
      dt__check_struct_size(options, options->struct_size, OPTIONS_BYTES, "dt_runtime_options_t"));
  if (options->next)
    return DT_FAIL(DT_E_UNSUPPORTED, "next: expected NULL; this version knows no extension");
  if (options->threads > MOST_THREADS)
    return DT_FAIL(DT_E_ARGUMENT, "threads: %u; expected at most %d", options->threads,
                   MOST_THREADS);
  if (options->compile_threads > MOST_COMPILE_THREADS)
    return DT_FAIL(DT_E_ARGUMENT, "compile_threads: %u; expected at most %d",
                   options->compile_threads, MOST_COMPILE_THREADS);
  return NULL;
}

// The first that is not 0 of: an option, its variable, a default.
static uint32_t choose(uint32_t option, int64_t variable, int fallback) {
  if (option)
    return option;
  return variable > 0 ? (uint32_t)variable : (uint32_t)(fallback > 0 ? fallback : 1);
}

static dt_status_t runtime_init(dt_runtime_t *runtime, const dt_runtime_options_t *options) {
  DT_TRY(dt__mutex_init(&runtime->devices_mutex, DT_RANK_DEVICES));
  runtime->has_devices_mutex = true;
  DT_TRY(dt__params_load(&runtime->params));
  const dt_params_t *params = &runtime->params;
  DT_TRY(dt__log_configure(params->log));
  DT_TRY(dt__dump_configure(params->dump, params->dump_dir));
  int cores = dt__core_count();
  uint32_t threads = choose(options ? options->threads : 0, params->threads, cores);
  if (threads > MOST_THREADS)
    threads = MOST_THREADS; // one a core, on a host with more cores than that
  if (params->strict_fp)
    atomic_store_explicit(&runtime->modes, DT_MODES_STRICT_FP, memory_order_relaxed);
  DT_TRY(dt__pool_create(threads, &runtime->pool));
  DT_TRY(dt__reclaim_create(&runtime->reclaim));
  DT_TRY(dt__graph_store_init(&runtime->graphs, (size_t)params->graph_mib << 20));
  runtime->has_graphs = true;
  DT_TRY(dt__pager_create((size_t)params->warm_mib << 20, &runtime->pager));
  dt_compiler_options_t compiler = {.threads =
                                        choose(options ? options->compile_threads : 0,
                                               params->compile_threads, cores < 8 ? cores : 8),
                                    .pool_width = threads,
                                    .cpu = params->cpu,
                                    .verify = params->verify};
  return dt__compiler_create(&compiler, &runtime->compiler);
}

static void runtime_free(dt_runtime_t *runtime) {
  dt__compiler_destroy(runtime->compiler);
  dt__reclaim_destroy(runtime->reclaim);
  dt__pool_destroy(runtime->pool);
  dt__pager_destroy(runtime->pager);
  if (runtime->has_graphs && !dt__forked())
    dt__graph_store_fini(&runtime->graphs);
  for (uint32_t k = 0; k < DT_MOST_ORDINALS && !dt__forked(); k++)
    dt__cuda_gpu_release(runtime->gpus[k]);
  if (runtime->has_devices_mutex)
    dt__mutex_fini(&runtime->devices_mutex);
  dt__free(runtime);
}

dt_status_t dt_runtime_create(const dt_runtime_options_t *options, dt_runtime_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT,
                   "dt_runtime_create: out: NULL; expected where to put the runtime");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_runtime_create in a child after fork");
  dt_status_t status = check_options(options);
  if (status)
    return dt__status_annotate(status, "dt_runtime_create");
  dt_runtime_t *runtime = dt__calloc(1, sizeof(*runtime));
  if (!runtime)
    return DT_NO_MEMORY();
  atomic_init(&runtime->refs, 1);
  status = runtime_init(runtime, options);
  if (status) {
    runtime_free(runtime);
    return dt__status_annotate(status, "dt_runtime_create");
  }
  *out = runtime;
  return NULL;
}

void dt_runtime_retain(dt_runtime_t *runtime) {
  if (runtime)
    (void)atomic_fetch_add_explicit(&runtime->refs, 1, memory_order_relaxed);
}

void dt_runtime_release(dt_runtime_t *runtime) {
  if (runtime && atomic_fetch_sub_explicit(&runtime->refs, 1, memory_order_acq_rel) == 1)
    runtime_free(runtime);
}

void dt__runtime_collect(dt_runtime_t *runtime) {
  // Set again before the flag is read next if anything waits still, so none is forgotten.
  atomic_store_explicit(&runtime->garbage, false, memory_order_relaxed);
  if (dt__reclaim_collect(runtime->reclaim))
    atomic_store_explicit(&runtime->garbage, true, memory_order_relaxed);
}

// ---- Modes ----------------------------------------------------------------------------------------

typedef struct mode_row_t {
  uint64_t bits;
  uint32_t shift, most;
} mode_row_t;

static const mode_row_t mode_rows[] = {
    [DT_MODE_DETERMINISTIC] = {DT_MODES_DETERMINISTIC, 0, 1},
    [DT_MODE_STRICT_FP] = {DT_MODES_STRICT_FP, 1, 1},
    [DT_MODE_KERNEL_THREADS] = {DT_MODES_THREADS, DT_MODES_THREADS_SHIFT, DT_MODES_THREADS_MOST},
};
#define N_MODES (sizeof(mode_rows) / sizeof(mode_rows[0]))
_Static_assert(DT_MODES_DETERMINISTIC == 1 && DT_MODES_STRICT_FP == 2, "shifts of mode_rows");

dt_status_t dt_runtime_mode_set(dt_runtime_t *runtime, dt_mode_t mode, uint32_t value) {
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "dt_runtime_mode_set: runtime: NULL");
  if ((unsigned)mode >= N_MODES)
    return DT_FAIL(DT_E_ARGUMENT, "dt_runtime_mode_set: mode: %d is no dt_mode_t", (int)mode);
  const mode_row_t *row = &mode_rows[mode];
  if (value > row->most)
    return DT_FAIL(DT_E_ARGUMENT, "dt_runtime_mode_set: value: %u; expected at most %u", value,
                   row->most);
  uint64_t old = atomic_load_explicit(&runtime->modes, memory_order_relaxed), next;
  do
    next = (old & ~row->bits) | ((uint64_t)value << row->shift);
  while (!atomic_compare_exchange_weak_explicit(&runtime->modes, &old, next, memory_order_relaxed,
                                                memory_order_relaxed));
  return NULL;
}

uint32_t dt_runtime_mode_get(const dt_runtime_t *runtime, dt_mode_t mode) {
  if (!runtime || (unsigned)mode >= N_MODES)
    return 0;
  uint64_t modes = atomic_load_explicit(&runtime->modes, memory_order_relaxed);
  return (uint32_t)((modes & mode_rows[mode].bits) >> mode_rows[mode].shift);
}

void dt_text_free(char *text) { dt__free(text); }
