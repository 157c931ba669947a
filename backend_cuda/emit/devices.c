// SPDX-License-Identifier: Apache-2.0
// The devices that the code generator makes code for. It stands in an object of its own, so that a
// program may have others.
#include "backend_cuda/emit/emit.h"
#include "backend_llvm/jit/core.h"
#include "ductile/device.h"

static dt_status_t describe(dt_program_t *program, const dt_unit_map_t *map, uint32_t code,
                            const dt_target_t *target, void *out) {
  return dt__cuda_kernel_info(program, map, code, target, out);
}

static const dt_jit_device_t cuda = {dt__cuda_compile_unit, describe};

const dt_jit_device_t *const dt__jit_devices[DT_DEVICES] = {[DT_CUDA] = &cuda};
