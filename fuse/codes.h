// SPDX-License-Identifier: Apache-2.0
// Weights of few bits as operands of matrix products (codes.c).
#ifndef DT_FUSE_CODES_H
#define DT_FUSE_CODES_H

#include "fuse/body.h"
#include "fuse/operands.h"

typedef struct dt_codes_ctx_t {
  const dt_target_t *target;
  const dt_access_t *access; // of the program's kernels as they are
  int64_t width;             // of panels
} dt_codes_ctx_t;

// Kernels that it puts in front of the product, at most.
#define DT_CODES_BEFORE 3

// If B, whose makers read constants alone, is made of codes, gives the product panels of codes and
// fills in the schedule's fields about them, its operands and its rows.
dt_status_t dt__take_codes(dt_program_t *program, const dt_codes_ctx_t *ctx,
                           const dt_contraction_t *c, dt_matmul_t *matmul, dt_kernel_t *before,
                           uint32_t *n_before, bool *taken) DT_MUST_USE;

// Where B, a float, is a half that other kernels cast and move, reads the half and casts it here.
dt_status_t dt__read_halves(dt_program_t *program, const dt_access_t *access,
                            dt_contraction_t *c) DT_MUST_USE;

#endif // DT_FUSE_CODES_H
