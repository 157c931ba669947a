// SPDX-License-Identifier: Apache-2.0
// See arch.h.
#include "backend_cuda/emit/arch.h"

#include "runtime/base/status.h"

#include <stdio.h>

const dt_cuda_arch_t dt__cuda_archs[] = {
#define ARCH(name, major, minor, only, ptx, processors, shared_kib, l2_mib, card)                  \
  {name, card, only, ptx, {major, minor, processors, (shared_kib) << 10, (l2_mib) << 20}},
#include "backend_cuda/emit/arch.def"
};
#define N_ARCHS (sizeof(dt__cuda_archs) / sizeof(dt__cuda_archs[0]))

const char *const dt__cuda_arch_names[N_ARCHS + 1] = {
#define ARCH(name, major, minor, only, ptx, processors, shared_kib, l2_mib, card) name,
#include "backend_cuda/emit/arch.def"
};

static uint32_t capability(const dt_cuda_model_t *model) {
  return (uint32_t)(10 * model->major + model->minor);
}

dt_status_t dt__cuda_arch_target(const dt_cuda_arch_t *arch, const dt_target_t *host,
                                 dt_target_t *out) {
  DT_TRY(dt__cuda_target(&arch->model, host, out));
  (void)snprintf(out->cpu, sizeof(out->cpu), "%s", arch->name);
  out->matrix_groups = out->matrix_groups && arch->only;
  return NULL;
}

uint32_t dt__cuda_arch_suits(const dt_cuda_arch_t *arch, const dt_cuda_model_t *device) {
  uint32_t own = capability(&arch->model), there = capability(device);
  bool runs = arch->only ? own == there : own <= there;
  if (!runs || arch->model.shared_per_block > device->shared_per_block)
    return 0;
  return 2 * own + arch->only;
}

uint32_t dt__cuda_arch_ptx(int major, int minor) {
  uint32_t ptx = dt__cuda_archs[0].ptx;
  for (size_t k = 0; k < N_ARCHS; k++) {
    const dt_cuda_model_t *own = &dt__cuda_archs[k].model;
    if (own->major < major || (own->major == major && own->minor <= minor))
      ptx = dt__cuda_archs[k].ptx;
  }
  return ptx;
}
