// SPDX-License-Identifier: Apache-2.0
// Functions that the files of the verifier share.
#ifndef DT_LOWER_LOOP_VERIFY_PRIVATE_H
#define DT_LOWER_LOOP_VERIFY_PRIVATE_H

#include "lower/loop/loop_private.h"

typedef struct dt_loop_verifier_t {
  const dt_program_t *program;
  const dt_kernel_t *kernel; // NULL outside of kernels
  const dt_stage_t *stage;   // NULL outside of stages
  uint32_t kernel_at, stage_at;
  // Which loop and data symbols may be used: those whose stamp is the kernel's or the stage's.
  uint32_t *stamps; // by symbol
  uint32_t n_symbols, kernel_stamp, stage_stamp, next_stamp;
  uint32_t *bound_by;  // by symbol: the instruction of the stage that binds it
  uint32_t *row_stage; // by row value of the kernel: 1 + the stage that defines it, or 0
  dt_dtype_t *row_dtype;
  // By buffer, [id - 1]. Kernels and stages count from 1 here; 0: none.
  uint32_t *written_by;     // last earlier or present kernel that stores to it
  uint32_t *first_writer;   // first kernel that stores to it
  uint32_t *earlier_writer; // some earlier kernel that stores to it
  uint32_t *local_kernel;   // the kernel that a LOCAL belongs to
  uint32_t *local_stage;    // first stage that stores to a LOCAL
} dt_loop_verifier_t;

dt_status_t dt__loop_verify_fail(const dt_loop_verifier_t *v, const char *fmt, ...)
    DT_PRINTF(2, 3) DT_MUST_USE;
// `e` exists and uses visible symbols only; `what` names it.
dt_status_t dt__loop_verify_expr(const dt_loop_verifier_t *v, dt_sym_t e,
                                 const char *what) DT_MUST_USE;
// Loops of the kernel or of the stage; makes their symbols visible under `stamp`.
dt_status_t dt__loop_verify_loops(dt_loop_verifier_t *v, uint32_t n, const dt_sym_t *vars,
                                  const dt_sym_t *extents, uint32_t stamp) DT_MUST_USE;
// v->stage: loops, instructions, stores and reductions.
dt_status_t dt__loop_verify_stage(dt_loop_verifier_t *v) DT_MUST_USE;
// Offsets and totals.
dt_status_t dt__loop_verify_plan(const dt_loop_verifier_t *v) DT_MUST_USE;
// Readbacks, segments, regions and chains, after all kernels.
dt_status_t dt__loop_verify_order(const dt_loop_verifier_t *v) DT_MUST_USE;
dt_status_t dt__loop_verify_regions(const dt_loop_verifier_t *v) DT_MUST_USE;
dt_status_t dt__loop_verify_chains(const dt_loop_verifier_t *v) DT_MUST_USE;
// What updates arguments, after all kernels.
dt_status_t dt__loop_verify_commit(dt_loop_verifier_t *v) DT_MUST_USE;

#endif // DT_LOWER_LOOP_VERIFY_PRIVATE_H
