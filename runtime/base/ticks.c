// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/ticks.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

// Of a span that says how long a tick is to one part in ten thousand.
#define LEAST_NS 5000000

// Pairs of readings, of which the closest counts.
#define TRIES 8

static bool has_counter(void) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1); // invariant TSC
#else
  return false;
#endif
}

static dt_ticks_t read_both(bool counter) {
  dt_ticks_t best = {.counter = counter};
  uint64_t least = UINT64_MAX;
  for (int k = 0; k < TRIES; k++) {
    uint64_t before = dt__ticks_now(counter);
    int64_t ns = dt__now_ns();
    uint64_t took = dt__ticks_now(counter) - before;
    if (took >= least)
      continue;
    least = took;
    best.ns = ns;
    best.tick = counter ? before + took / 2 : (uint64_t)ns;
  }
  return best;
}

dt_ticks_t dt__ticks_begin(void) { return read_both(has_counter()); }

double dt__ticks_ns(const dt_ticks_t *begin) {
  if (!begin->counter)
    return 1;
  int64_t left = LEAST_NS - (dt__now_ns() - begin->ns);
  struct timespec nap = {.tv_nsec = left > 0 ? left : 0};
  if (left > 0)
    (void)nanosleep(&nap, NULL);
  dt_ticks_t now = read_both(true);
  if (now.tick <= begin->tick || now.ns <= begin->ns)
    return 1;
  return (double)(now.ns - begin->ns) / (double)(now.tick - begin->tick);
}
