// SPDX-License-Identifier: Apache-2.0
// The matrix products for which CPUs have templates: matmul_rows.def.
#ifndef DT_FUSE_MATMUL_ROWS_H
#define DT_FUSE_MATMUL_ROWS_H

#include "fuse/target.h"

typedef enum dt_matmul_body_t {
  DT_MATMUL_BODY_multiply_add, // each element of A times a row of the panel, added to a row of sums
  DT_MATMUL_BODY_dot,          // k_step elements of A times those of each column, added to its sum
  DT_MATMUL_BODY_COUNT
} dt_matmul_body_t;

typedef struct dt_matmul_row_t {
  const char *name;
  dt_dtype_t a, b, sum;
  uint32_t tile; // which of a target's two tiles
  uint32_t k_step;
  dt_matmul_body_t body;
} dt_matmul_row_t;

// The row for a product of these dtypes on this target; NULL: there is none, and *out_why says why.
const dt_matmul_row_t *dt__matmul_row(const dt_target_t *target, dt_dtype_t a, dt_dtype_t b,
                                      dt_dtype_t sum, const char **out_why);

#endif // DT_FUSE_MATMUL_ROWS_H
