// SPDX-License-Identifier: Apache-2.0
// The modes of a runtime packed into one word, which a call reads once.
#ifndef DT_GUARDS_MODES_H
#define DT_GUARDS_MODES_H

#include "runtime/tensor/tensor.h"

#define DT_MODES_DETERMINISTIC ((uint64_t)1 << 0)
#define DT_MODES_STRICT_FP ((uint64_t)1 << 1)
// Bits 8 to 15: the place that the session runs at (runtime/tensor/tensor.h); each variant is for
// one.
#define DT_MODES_PLACE_SHIFT 8
#define DT_MODES_PLACE ((uint64_t)0xff << DT_MODES_PLACE_SHIFT)
// Bits 16 to 31: the most threads that work on one kernel; 0: all.
#define DT_MODES_THREADS_SHIFT 16
#define DT_MODES_THREADS_MOST 0xffffu
#define DT_MODES_THREADS ((uint64_t)DT_MODES_THREADS_MOST << DT_MODES_THREADS_SHIFT)

// MODE(bit, name): modes that a variant may depend on, for messages.
#define DT_MODES_NAMED(MODE)                                                                       \
  MODE(DT_MODES_DETERMINISTIC, "deterministic")                                                    \
  MODE(DT_MODES_STRICT_FP, "strict_fp")

static inline uint32_t dt__modes_threads(uint64_t modes) {
  return (uint32_t)((modes & DT_MODES_THREADS) >> DT_MODES_THREADS_SHIFT);
}

static inline uint64_t dt__modes_of_place(dt_device_t place) {
  return (uint64_t)place << DT_MODES_PLACE_SHIFT;
}
static inline dt_device_t dt__modes_place(uint64_t modes) {
  return (dt_device_t)((modes & DT_MODES_PLACE) >> DT_MODES_PLACE_SHIFT);
}

#endif // DT_GUARDS_MODES_H
