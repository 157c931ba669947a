// SPDX-License-Identifier: Apache-2.0
// The code generators of the library. It stands in an object of its own, so that a program may have
// others.
#include "backend_cuda/codegen/codegen.h"

const dt_codegen_t *const dt__codegens[DT_DEVICES] = {[DT_CUDA] = &dt__cuda_codegen};
