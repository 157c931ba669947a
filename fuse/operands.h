// SPDX-License-Identifier: Apache-2.0
// Finds matrix products among kernels, for the passes that give them templates: operands.c (CPUs,
// packed operands) and operands_device.c (devices, operands where they are).
#ifndef DT_FUSE_OPERANDS_H
#define DT_FUSE_OPERANDS_H

#include "fuse/flow.h"
#include "fuse/target.h"
#include "lower/loop/loop.h"

typedef struct dt_contraction_t {
  dt_kernel_t *kernel;
  dt_stage_t *stage;
  uint32_t a, b;               // load instructions
  uint32_t a_factor, b_factor; // what is multiplied: the loads, or their casts
  dt_sym_t m, n, k;
  dt_sym_t extent_n, extent_k;
  uint32_t n_batch;
} dt_contraction_t;

// Which load is A and which is B, by the loops they depend on; false: not a product of two
// matrices, and *out_why (or NULL) says what a sum of products lacks, or is NULL where it is none.
bool dt__contraction_roles(dt_program_t *program, dt_kernel_t *kernel, dt_contraction_t *out,
                           const char **out_why);
// The same where k may be several loops, of which `k` is the last and extent_k the product.
bool dt__product_roles(dt_program_t *program, dt_kernel_t *kernel, dt_contraction_t *out,
                       const char **out_why);
// Brings the loops of a sum of products into the order of a matrix product, where they are one in
// any order: loops that run once, which would stand for m or n, are dropped, and m goes next to n.
// With `one_row` a vector times a matrix gets an m that runs once.
dt_status_t dt__contraction_loops(dt_program_t *program, dt_kernel_t *kernel,
                                  bool one_row) DT_MUST_USE;

// Whether an extent is known to be less: a loop that runs at most once has a variable that is
// always 0, and no place tells any more that it moves with it.
bool dt__extent_below(dt_program_t *program, dt_sym_t extent, int64_t limit);

// Kernels that store factors of 8 bits as what they are cast to, which the product then reads: at
// most two.
dt_status_t dt__contraction_widen(dt_program_t *program, const dt_contraction_t *c,
                                  dt_kernel_t *before, uint32_t *n_before) DT_MUST_USE;

// Why no template is worth it, whatever the target; or NULL. A template's loop over k finds where
// its operands lie for sums of `least_terms` and more.
const char *dt__contraction_refusal(dt_program_t *program, const dt_contraction_t *c,
                                    int64_t least_terms);

// What gives one kernel its schedule as a product, if it is one, and the kernels that it needs in
// front of it, at most three; `with` is its own.
typedef dt_status_t (*dt_operands_fn_t)(dt_program_t *program, const void *with,
                                        dt_kernel_t *kernel, const dt_target_t *target,
                                        dt_kernel_t *before, uint32_t *n_before);
dt_status_t dt__operands_each(dt_program_t *program, const dt_target_t *target,
                              dt_operands_fn_t take_one, const void *with) DT_MUST_USE;

// Takes into products what only moves or widens their operands (direct.c). Afterwards, where
// *out_changed, `flow` is of the program as it was.
dt_status_t dt__operands_direct(dt_program_t *program, dt_flow_t *flow,
                                bool *out_changed) DT_MUST_USE;
// Gives every product that has a template a schedule, of the largest tile.
dt_status_t dt__operands_device(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Makes a vector times a matrix a product of one row with a schedule; where it does not, *out_taken
// is false, and the kernel may have other loops than before.
dt_status_t dt__operands_one_row(dt_program_t *program, dt_kernel_t *kernel,
                                 const dt_target_t *target, bool *out_taken) DT_MUST_USE;
// Why devices have no template for it; NULL: they have one.
const char *dt__operands_device_refusal(dt_program_t *program, const dt_contraction_t *c,
                                        const dt_target_t *target);
// Completes it, when loops and stages are final: the schedules for few rows and for tiles too few
// to go round, with their predicates.
dt_status_t dt__matmul_teams(dt_program_t *program, dt_kernel_t *kernel,
                             const dt_target_t *target) DT_MUST_USE;

// The same for a chain whose members have one schedule each, with the lanes that they take: the
// head's schedules, and one for each of them in every maker.
dt_status_t dt__chain_teams(dt_program_t *program, dt_kernel_chain_t chain,
                            const dt_target_t *target) DT_MUST_USE;

#endif // DT_FUSE_OPERANDS_H
