// SPDX-License-Identifier: Apache-2.0
// Division in kernels that must not call anything.
#ifndef DT_BACKEND_CUDA_EMIT_WITHOUT_CALLS_H
#define DT_BACKEND_CUDA_EMIT_WITHOUT_CALLS_H

#include "backend_llvm/emit/context.h"

// The function being emitted multiplies by groups of warps.
void dt__cuda_multiplies_together(dt_emit_t *m);
// dt_device_emit_t's settle: gives such functions divisions that are no calls.
const char *dt__cuda_without_calls(dt_emit_t *m);

#endif // DT_BACKEND_CUDA_EMIT_WITHOUT_CALLS_H
