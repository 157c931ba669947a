// SPDX-License-Identifier: Apache-2.0
// How a thread computes with floats: rounding to nearest, denormal numbers as they are, no traps.
// Threads of the host's may have it otherwise (programs that were linked with -ffast-math flush
// denormals; some trap on invalid operations), and threads inherit it from their makers. What has
// the bits of a result runs between these two. [any]
#ifndef DT_RUNTIME_BASE_FP_H
#define DT_RUNTIME_BASE_FP_H

#include <stdint.h>

#if defined(__x86_64__)
// Intel SDM 1, 10.2.3: MXCSR. The lowest six bits are flags that operations set.
#define DT_FP_CONTROL 0x1F80u
#define DT_FP_FLAGS 0x3Fu

static inline uint32_t dt__fp_enter(void) {
  uint32_t before = __builtin_ia32_stmxcsr();
  if ((before & ~DT_FP_FLAGS) != DT_FP_CONTROL)
    __builtin_ia32_ldmxcsr(DT_FP_CONTROL);
  return before;
}

static inline void dt__fp_leave(uint32_t before) {
  if ((before & ~DT_FP_FLAGS) != DT_FP_CONTROL)
    __builtin_ia32_ldmxcsr(before);
}
#elif defined(__aarch64__)
// Arm ARM, FPCR: all of it 0 is the same.
static inline uint32_t dt__fp_enter(void) {
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  if (before)
    __asm__ volatile("msr fpcr, xzr");
  return (uint32_t)before;
}

static inline void dt__fp_leave(uint32_t before) {
  if (before)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before));
}
#endif

#endif // DT_RUNTIME_BASE_FP_H
