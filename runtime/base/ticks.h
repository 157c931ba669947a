// SPDX-License-Identifier: Apache-2.0
// Time stamps that cost a few nanoseconds: the processor's counter where it runs at one rate on all
// cores and in all states, else CLOCK_MONOTONIC. [any]
#ifndef DT_RUNTIME_BASE_TICKS_H
#define DT_RUNTIME_BASE_TICKS_H

#include "runtime/base/thread.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// A moment by both clocks, from which ticks are counted.
typedef struct dt_ticks_t {
  bool counter; // the processor's; else a tick is a nanosecond
  uint64_t tick;
  int64_t ns;
} dt_ticks_t;

dt_ticks_t dt__ticks_begin(void);
// Nanoseconds of a tick, by what has passed since; waits until that is long enough to tell.
double dt__ticks_ns(const dt_ticks_t *begin);

static inline uint64_t dt__ticks_now(bool counter) {
#if defined(__x86_64__)
  if (counter)
    return __rdtsc();
#endif
  (void)counter;
  return (uint64_t)dt__now_ns();
}

#endif // DT_RUNTIME_BASE_TICKS_H
