// SPDX-License-Identifier: Apache-2.0
// See params.h.
#include "backend_cuda/place/params.h"

static const dt_param_row_t rows[] = {
#define PARAM(...) DT_PARAM_ROW(dt_cuda_params_t, __VA_ARGS__),
#include "backend_cuda/place/params.def"
};

const dt_param_row_t *dt__cuda_params_rows(size_t *out_n) {
  *out_n = sizeof(rows) / sizeof(rows[0]);
  return rows;
}
