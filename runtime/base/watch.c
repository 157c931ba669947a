// SPDX-License-Identifier: Apache-2.0
// Budgets of a compile. Threads tell their processor time when they look, so what several use at
// once is known to about one look of each.
#include "runtime/base/watch.h"

#include "runtime/base/control.h"
#include "runtime/base/status.h"

#include <time.h>

// Where this thread's processor time was told last, and to which watch.
static _Thread_local uint64_t told_ns;
static _Thread_local const dt_watch_t *told;

static uint64_t thread_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void dt__watch_init(dt_watch_t *watch, const dt_watch_limits_t *limits) {
  *watch = (dt_watch_t){0};
  if (limits)
    watch->limits = *limits;
}

void dt__watch_enter(dt_watch_t *watch) {
  told = watch;
  told_ns = watch ? thread_ns() : 0;
}

// Tells the time since the last look; gives that of all threads.
static uint64_t tell(dt_watch_t *watch) {
  uint64_t now = thread_ns(), own = told == watch && now > told_ns ? now - told_ns : 0;
  told = watch;
  told_ns = now;
  return atomic_fetch_add_explicit(&watch->ns, own, memory_order_relaxed) + own;
}

bool dt__watch_is_over(dt_watch_t *watch) {
  if (!watch)
    return false;
  uint64_t ns = tell(watch);
  if (watch->control && dt__control_look(watch->control, NULL))
    dt__watch_stop(watch,
                   (dt_code_t)atomic_load_explicit(&watch->control->stopped, memory_order_relaxed));
  return atomic_load_explicit(&watch->stopped, memory_order_relaxed) ||
         atomic_load_explicit(&watch->refused, memory_order_relaxed) ||
         (watch->limits.max_ns && ns > watch->limits.max_ns);
}

dt_status_t dt__watch_check(dt_watch_t *watch) {
  if (!dt__watch_is_over(watch))
    return NULL;
  uint32_t stopped = atomic_load_explicit(&watch->stopped, memory_order_relaxed);
  if (stopped && watch->control)
    return dt__control_found(watch->control);
  if (stopped)
    return DT_FAIL((dt_code_t)stopped, "the compile was stopped: nobody waits for it");
  uint64_t refused = atomic_load_explicit(&watch->refused, memory_order_relaxed);
  if (refused)
    return DT_FAIL(DT_E_LIMIT,
                   "the compile needs %llu MiB or more of memory; its budget is %llu MiB "
                   "(max_compile_bytes, or DUCTILE_COMPILE_MIB): raise it, or make the program "
                   "smaller",
                   (unsigned long long)((refused + (1U << 20) - 1) >> 20),
                   (unsigned long long)(watch->limits.max_bytes >> 20));
  return DT_FAIL(DT_E_LIMIT,
                 "the compile took %.3f s of processor time; its budget is %.3f s "
                 "(max_compile_ns, or DUCTILE_COMPILE_SECONDS): raise it, or make the program "
                 "smaller",
                 (double)atomic_load_explicit(&watch->ns, memory_order_relaxed) * 1e-9,
                 (double)watch->limits.max_ns * 1e-9);
}

void dt__watch_stop(dt_watch_t *watch, dt_code_t code) {
  atomic_store_explicit(&watch->stopped, (uint32_t)code, memory_order_relaxed);
}

static void note_held(dt_watch_t *watch, uint64_t held) {
  uint64_t most = atomic_load_explicit(&watch->most, memory_order_relaxed);
  while (held > most && !atomic_compare_exchange_weak_explicit(
                            &watch->most, &most, held, memory_order_relaxed, memory_order_relaxed))
    continue;
}

bool dt__watch_take(dt_watch_t *watch, uint64_t bytes) {
  if (!watch)
    return true;
  if (dt__watch_is_over(watch))
    return false;
  uint64_t held = atomic_fetch_add_explicit(&watch->bytes, bytes, memory_order_relaxed) + bytes;
  if (!watch->limits.max_bytes || held <= watch->limits.max_bytes) {
    note_held(watch, held);
    return true;
  }
  dt__watch_give(watch, bytes);
  uint64_t none = 0;
  (void)atomic_compare_exchange_strong_explicit(&watch->refused, &none, held, memory_order_relaxed,
                                                memory_order_relaxed);
  return false;
}

void dt__watch_give(dt_watch_t *watch, uint64_t bytes) {
  if (watch)
    (void)atomic_fetch_sub_explicit(&watch->bytes, bytes, memory_order_relaxed);
}

dt_status_t dt__watch_explain(dt_watch_t *watch, dt_status_t status) {
  if (dt_status_code(status) != DT_E_NO_MEMORY || !watch)
    return status;
  dt_status_t own = dt__watch_check(watch);
  if (!own)
    return status;
  dt_status_free(status);
  return own;
}
