// SPDX-License-Identifier: Apache-2.0
// Runtimes: options and parameters, the kernel pool, the compiler and the reclaimer, and the order
// in which these are made and destroyed.
#include "runtime/exec/runtime.h"

#include "guards/modes.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/worker.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/perf.h"

#include <string.h>

// ---- Memory that is ready for sessions ---------------------------------------------------------------

static const dt_runtime_t *runtime_of(const dt_holder_t *warm) {
  return (const dt_runtime_t *)((const char *)warm - offsetof(dt_runtime_t, warm));
}

static uint64_t warm_bytes(const dt_holder_t *warm, dt_memory_t memory) {
  return memory == DT_MEMORY_HOST ? dt__pager_bytes(runtime_of(warm)->pager) : 0;
}

static uint64_t warm_used(dt_holder_t *warm, dt_memory_t memory) {
  (void)warm, (void)memory;
  return 0; // nobody has it
}

static uint64_t warm_give(dt_holder_t *warm, dt_memory_t memory) {
  (void)memory;
  return dt__pager_drop(runtime_of(warm)->pager);
}

static const dt_holder_kind_t warm_holder = {warm_bytes, warm_used, warm_give};

// ---- Making and ending ----------------------------------------------------------------------------

#define MOST_THREADS 1024
#define MOST_COMPILE_THREADS 64

static dt_status_t check_options(const dt_runtime_options_t *options) {
  if (options->threads > MOST_THREADS)
    return DT_FAIL(DT_E_ARGUMENT, "threads: %u; expected at most %d", options->threads,
                   MOST_THREADS);
  if (options->compile_threads > MOST_COMPILE_THREADS)
    return DT_FAIL(DT_E_ARGUMENT, "compile_threads: %u; expected at most %d",
                   options->compile_threads, MOST_COMPILE_THREADS);
  if ((unsigned)options->isolation > DT_ISOLATION_WORKER)
    return DT_FAIL(DT_E_ARGUMENT, "isolation: %d is no dt_isolation_t", (int)options->isolation);
  return NULL;
}

// Whether code is made by workers: what the option says, else the variable.
static dt_status_t wants_workers(const dt_runtime_options_t *options, const dt_params_t *params,
                                 bool *out) {
  bool worker = strcmp(params->isolation, "worker") == 0;
  if (!worker && strcmp(params->isolation, "in_process") != 0)
    return DT_FAIL(DT_E_ARGUMENT, "DUCTILE_ISOLATION is '%s', expected in_process or worker",
                   params->isolation);
  *out = options->isolation ? options->isolation == DT_ISOLATION_WORKER : worker;
  return NULL;
}

static dt_workers_options_t workers_of(const dt_runtime_options_t *options,
                                       const dt_params_t *params) {
  return (dt_workers_options_t){.path =
                                    options->worker_path ? options->worker_path : params->worker,
                                .mib = (uint32_t)params->worker_mib,
                                .seconds = (uint32_t)params->worker_seconds,
                                .idle_ms = (uint32_t)params->worker_idle_ms,
                                .dump = params->dump,
                                .dump_dir = params->dump_dir,
                                .jit = params->jit};
}

// The first that is not 0 of: an option, its variable, a default.
static uint32_t choose(uint32_t option, int64_t variable, int fallback) {
  if (option)
    return option;
  return variable > 0 ? (uint32_t)variable : (uint32_t)(fallback > 0 ? fallback : 1);
}

static dt_watch_limits_t budgets_of(const dt_runtime_options_t *options,
                                    const dt_params_t *params) {
  uint64_t ns = options->max_compile_ns, bytes = options->max_compile_bytes;
  return (dt_watch_limits_t){.max_ns = ns ? ns : (uint64_t)params->compile_seconds * 1000000000U,
                             .max_bytes = bytes ? bytes : (uint64_t)params->compile_mib << 20,
                             .max_nodes = choose(options->max_nodes, params->max_nodes, 0)};
}

// What the runtime may hold, and what it holds from the beginning on.
static dt_status_t keep_budget(dt_runtime_t *runtime, const dt_runtime_options_t *options) {
  const dt_params_t *params = &runtime->params;
  uint64_t host = options->max_bytes, device = options->max_device_bytes;
  const uint64_t max_bytes[DT_MEMORIES] = {
      [DT_MEMORY_HOST] = host ? host : (uint64_t)params->max_mib << 20,
      [DT_MEMORY_DEVICE] = device ? device : (uint64_t)params->max_device_mib << 20};
  DT_TRY(dt__budget_init(&runtime->budget, max_bytes));
  // What is made ready is not the host's.
  size_t warm = dt__runtime_memory(runtime) ? 0 : (size_t)params->warm_mib << 20;
  if (max_bytes[DT_MEMORY_HOST] && warm > max_bytes[DT_MEMORY_HOST] / 4)
    warm = (size_t)(max_bytes[DT_MEMORY_HOST] / 4);
  DT_TRY(dt__pager_create(warm, &runtime->pager));
  dt__budget_join(&runtime->budget, &runtime->warm, &warm_holder);
  return NULL;
}

// Of the thread in the background: as many as cores that no kernel thread has, and a quarter of all
// where each has one, since kernels seldom run on all of them all the time; it is one of these.
static uint32_t count_helpers(uint32_t compile_threads, uint32_t kernel_threads, uint32_t cores) {
  uint32_t idle = cores > kernel_threads ? cores - kernel_threads : 0;
  uint32_t most = idle > cores / 4 ? idle : cores / 4;
  most = most < compile_threads ? most : compile_threads;
  return most ? most - 1 : 0;
}

// Fewer in the background make the best form later than they do when the quick one is there.
#define EARLY_THREADS 4

// What the host brings.
static dt_status_t take_hooks(dt_runtime_t *runtime, const dt_runtime_options_t *options) {
  dt_allocator_t *allocator = &runtime->allocator;
  dt_executor_t *executor = &runtime->executor;
  if (options->allocator)
    DT_TRY(DT_OPTIONS_TAKE(dt_allocator_t, allocator, options->allocator));
  if (options->executor)
    DT_TRY(DT_OPTIONS_TAKE(dt_executor_t, executor, options->executor));
  if (options->allocator && (!allocator->take || !allocator->give))
    return DT_FAIL(DT_E_ARGUMENT, "allocator: %s: NULL", allocator->take ? "give" : "take");
  if (options->executor && !executor->run)
    return DT_FAIL(DT_E_ARGUMENT, "executor: run: NULL");
  return NULL;
}

// Threads that are started begin where this one is.
static dt_status_t init_there(dt_runtime_t *runtime, const dt_runtime_options_t *options) {
  const dt_params_t *params = &runtime->params;
  runtime->budgets = budgets_of(options, params);
  int cores = dt__core_count();
  uint32_t threads = choose(options->threads, params->threads, cores);
  if (threads > MOST_THREADS)
    threads = MOST_THREADS; // one a core, on a host with more cores than that
  if (params->strict_fp)
    atomic_store_explicit(&runtime->modes, DT_MODES_STRICT_FP, memory_order_relaxed);
  atomic_store_explicit(&runtime->times_calls, params->latency, memory_order_relaxed);
  DT_TRY(dt__mutex_init(&runtime->report_mutex, DT_RANK_REPORT));
  runtime->has_report_mutex = true;
  DT_TRY(dt__perf_open(params->perf, params->perf_dir, &runtime->perf));
  DT_TRY(
      dt__pool_create(threads, runtime->executor.run ? &runtime->executor : NULL, &runtime->pool));
  DT_TRY(dt__reclaim_create(&runtime->reclaim));
  DT_TRY(keep_budget(runtime, options));
  DT_TRY(dt__forms_begin(runtime));
  DT_TRY(dt__places_begin(runtime));
  DT_TRY(dt__passes_begin(runtime));
  bool isolated = false;
  DT_TRY(wants_workers(options, params, &isolated));
  dt_workers_options_t workers = workers_of(options, params);
  uint32_t compile_threads =
      choose(options->compile_threads, params->compile_threads, cores < 8 ? cores : 8);
  uint32_t helpers = count_helpers(compile_threads, threads, (uint32_t)cores);
  dt_compiler_options_t compiler = {.workers = isolated ? &workers : NULL,
                                    .threads = compile_threads,
                                    .helpers = helpers,
                                    .early = compile_threads + helpers + 1 <= (uint32_t)cores &&
                                             helpers + 1 >= EARLY_THREADS,
                                    .pool_width = threads,
                                    .cpu = params->cpu,
                                    .jit = params->jit,
                                    .verify = params->verify,
                                    .without = params->without,
                                    .fast_conv = params->fast_conv,
                                    .cache_dir = params->cache_dir,
                                    .cache_bytes = (uint64_t)params->cache_mib << 20,
                                    .cache_wait_ns = (int64_t)params->cache_wait_ms * 1000000,
                                    .tuned = (uint32_t)params->tuned};
  return dt__compiler_create(&compiler, &runtime->compiler);
}

static dt_status_t runtime_init(dt_runtime_t *runtime, const dt_runtime_options_t *options) {
  dt_cpus_t before;
  DT_TRY(dt__params_load(&runtime->params));
  const dt_params_t *params = &runtime->params;
  const char *cpus = options->cpus ? options->cpus : params->cpus;
  DT_TRY(dt_log_configure(params->log));
  DT_TRY(dt__dump_configure(params->dump, params->dump_dir));
  DT_TRY(take_hooks(runtime, options));
  if (*cpus)
    DT_TRY(dt__cpus_read(cpus, &runtime->cpus));
  DT_TRY(dt__cpus_enter(&runtime->cpus, &before));
  dt_status_t status = init_there(runtime, options);
  dt__cpus_leave(&before);
  return status;
}

static void runtime_free(dt_runtime_t *runtime) {
  dt__compiler_destroy(runtime->compiler);
  dt__reclaim_destroy(runtime->reclaim);
  dt__runtime_drop_captured(runtime);
  dt__pool_destroy(runtime->pool);
  dt__forms_end(runtime);
  dt__budget_leave(&runtime->budget, &runtime->warm);
  dt__places_end(runtime);
  dt__passes_end(runtime);
  dt__pager_destroy(runtime->pager);
  dt__budget_fini(&runtime->budget);
  dt__perf_close(runtime->perf);
  if (runtime->has_report_mutex)
    dt__mutex_fini(&runtime->report_mutex);
  dt__life_end(&runtime->life);
  dt__free(runtime);
  if (!dt__forked())
    dt__heap_trim();
}

static void end_threads(dt_life_t *life) {
  dt_runtime_t *runtime = (dt_runtime_t *)(void *)life;
  dt__jobs_stop(dt__compiler_jobs(runtime->compiler));
  dt__pool_stop(runtime->pool);
  dt__pager_stop(runtime->pager);
}

dt_status_t dt_runtime_create(const dt_runtime_options_t *options, dt_runtime_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT,
                   "dt_runtime_create: out: NULL; expected where to put the runtime");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_runtime_create in a child after fork");
  dt_runtime_options_t own;
  dt_status_t status = DT_OPTIONS_TAKE(dt_runtime_options_t, &own, options);
  if (!status)
    status = check_options(&own);
  if (status)
    return dt__status_annotate(status, "dt_runtime_create");
  dt_runtime_t *runtime = dt__calloc(1, sizeof(*runtime));
  if (!runtime)
    return DT_NO_MEMORY();
  atomic_init(&runtime->refs, 1);
  dt__life_begin(&runtime->life, end_threads);
  status = runtime_init(runtime, &own);
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
