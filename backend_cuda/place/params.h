// SPDX-License-Identifier: Apache-2.0
// Tunables that CUDA alone has (params.def), read when a runtime begins.
#ifndef DT_BACKEND_CUDA_PLACE_PARAMS_H
#define DT_BACKEND_CUDA_PLACE_PARAMS_H

#include "runtime/base/params.h"

typedef struct dt_cuda_params_t {
#define PARAM(id, type, name, value, min, max, doc) DT_PARAM_FIELD_##type(id);
#include "backend_cuda/place/params.def"
} dt_cuda_params_t;

const dt_param_row_t *dt__cuda_params_rows(size_t *out_n);

#endif // DT_BACKEND_CUDA_PLACE_PARAMS_H
