// SPDX-License-Identifier: Apache-2.0
// Architectures of GPUs that code may be made for without such a device (arch.def).
#ifndef DT_BACKEND_CUDA_EMIT_ARCH_H
#define DT_BACKEND_CUDA_EMIT_ARCH_H

#include "backend_cuda/emit/target.h"

typedef struct dt_cuda_arch_t {
  const char *name, *card;
  bool only;    // the code has instructions of this architecture alone; else newer ones run it, too
  uint32_t ptx; // the version of the text
  dt_cuda_model_t model;
} dt_cuda_arch_t;

extern const dt_cuda_arch_t dt__cuda_archs[];
extern const char *const dt__cuda_arch_names[]; // of these, in order; then NULL

// A common device of the architecture, as dt__cuda_target describes one.
dt_status_t dt__cuda_arch_target(const dt_cuda_arch_t *arch, const dt_target_t *host,
                                 dt_target_t *out) DT_MUST_USE;
// How well code for an architecture suits a device of those numbers; 0: it does not run there.
uint32_t dt__cuda_arch_suits(const dt_cuda_arch_t *arch, const dt_cuda_model_t *device);
// The version of PTX of code for a device.
uint32_t dt__cuda_arch_ptx(int major, int minor);

#endif // DT_BACKEND_CUDA_EMIT_ARCH_H
