// SPDX-License-Identifier: Apache-2.0
// Copies stage bodies with symbols replaced, masks added and loads replaced: the basis of inlining,
// merging and splitting. Also the questions about accesses that all fusion passes ask.
#ifndef DT_FUSE_BODY_H
#define DT_FUSE_BODY_H

#include "lower/loop/loop.h"

typedef struct dt_body_copy dt_body_copy_t;

// May answer a LOAD (its index already in the target's symbols) with instruction *out of the
// target; leaves *out as DT_NO_INST to have the load copied.
typedef dt_status_t (*dt_load_hook_t)(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                                      uint32_t *out);

#define DT_MAX_RENAMES 64

// One copy of `from`'s instructions to the end of `into`'s. Zero it, set the fields, dt__body_copy.
struct dt_body_copy {
  dt_program_t *program;
  dt_stage_t *into;
  const dt_stage_t *from;
  uint32_t n_renames; // symbols replaced: loop variables, and DATA symbols that binds rename
  dt_sym_t rename_from[DT_MAX_RENAMES], rename_to[DT_MAX_RENAMES];
  uint32_t mask;     // a BOOL instruction of `into` every load and bind gets, or DT_NO_INST
  uint32_t row_base; // added to row values
  dt_load_hook_t hook;
  dt_load_hook_t prior_hook; // the same for PRIORs
  void *user;
  uint32_t *map; // out: new id of each instruction of `from`; in the program's arena
};

dt_status_t dt__body_copy(dt_body_copy_t *copy) DT_MUST_USE;
// mask AND extra, instructions of `into` of which either may be none.
dt_status_t dt__body_and(dt_body_copy_t *copy, uint32_t mask, uint32_t extra,
                         uint32_t *out) DT_MUST_USE;
// Adds symbol pair from → to; DT_E_LIMIT when full.
dt_status_t dt__body_rename(dt_body_copy_t *copy, dt_sym_t from, dt_sym_t to) DT_MUST_USE;
// `n` expressions with the copy's renames applied, in the arena; NULL without memory.
dt_sym_t *dt__body_exprs(dt_body_copy_t *copy, const dt_sym_t *exprs, uint32_t n);
// Copies stores and reductions too (after dt__body_copy).
dt_status_t dt__body_copy_results(dt_body_copy_t *copy) DT_MUST_USE;

// A stage like `from` with an empty body, to be filled by copies.
void dt__stage_start(dt_stage_t *fresh, const dt_stage_t *from);
// What `load` gives when its element is instruction `value` of `into`: the value itself, or, under
// a mask, the value or the load's fill.
dt_status_t dt__body_masked(dt_program_t *program, dt_stage_t *into, const dt_inst_t *load,
                            uint32_t value, uint32_t *out) DT_MUST_USE;

// ---- Accesses -------------------------------------------------------------------------------------
// By buffer, [id - 1]: a kernel that writes it, the last one, or UINT32_MAX; stores to it, of which
// one kernel may have several (concat); instructions that read it, and readbacks. What updates
// arguments is not counted: who reads them reads what the caller wrote.
typedef struct dt_access_t {
  uint32_t *writer, *n_writers, *n_loads;
} dt_access_t;
dt_status_t dt__access_build(dt_program_t *program, dt_access_t *out) DT_MUST_USE;

// By kernel, in the arena: it reads nothing but constants, and what such kernels made of them.
dt_status_t dt__find_constant(dt_program_t *program, bool **out) DT_MUST_USE;
// By buffer, [id - 1], of the first `n`: kernels that read nothing but constants made it.
typedef struct dt_fixed_t {
  uint32_t n;
  bool *made;
} dt_fixed_t;
dt_status_t dt__find_fixed(dt_program_t *program, dt_fixed_t *out) DT_MUST_USE;
// The buffer is such a one, or a constant.
bool dt__is_fixed(const dt_program_t *program, const dt_fixed_t *fixed, dt_buffer_id_t id);

// Adds 1 to loads[id - 1] for each readback that is read from the buffer: so it is never dropped,
// and never private to a kernel.
void dt__count_readbacks(const dt_program_t *program, uint32_t *loads);

// A kernel that only maps: one stage without inner loops and without reductions, one store, of
// every element of its iterations, to no argument.
bool dt__kernel_is_map(const dt_program_t *program, const dt_kernel_t *kernel);
// Sets the loop variables of such a kernel as expressions of the index of a load of what it stores:
// each must stand alone in one dim of the store; else false.
bool dt__map_invert(const dt_program_t *program, const dt_kernel_t *maker, const dt_inst_t *load,
                    dt_sym_t *out);
// A stage that is a reduction SUM over inner loops of the product of two loads, of halves cast to
// f32 or of integers of 8 bits cast to i32; places may mask them. Sets the two load instructions.
bool dt__stage_is_product(const dt_stage_t *stage, uint32_t *out_a, uint32_t *out_b);
// The same over one inner loop.
bool dt__stage_is_contraction(const dt_stage_t *stage, uint32_t *out_a, uint32_t *out_b);
// A kernel of two outer loops or more whose stage 0 is one; the matrix template may take it.
bool dt__kernel_is_product(const dt_kernel_t *kernel, uint32_t *out_a, uint32_t *out_b);
bool dt__kernel_is_contraction(const dt_kernel_t *kernel, uint32_t *out_a, uint32_t *out_b);
bool dt__kernel_has_reductions(const dt_kernel_t *kernel);
// Rough cost of one evaluation: cheap ops 1, elementary functions 8 and so on; loads not counted.
uint32_t dt__stage_cost(const dt_stage_t *stage);
uint32_t dt__stage_loads(const dt_stage_t *stage);
// `expr` depends on loop variable `var`.
bool dt__index_uses(dt_program_t *program, const dt_sym_t *index, uint32_t rank, dt_sym_t var);
bool dt__expr_uses_any(const dt_program_t *program, dt_sym_t e, const dt_sym_t *vars, uint32_t n);
// The one store to buffer `id` in the kernel, and its stage; NULL when there are none or several.
const dt_store_t *dt__kernel_only_store(const dt_kernel_t *kernel, uint32_t id,
                                        uint32_t *out_stage);
// The host reads a number from buffer `id`.
bool dt__buffer_is_readback(const dt_program_t *program, uint32_t id);
// A buffer whose contents others may see after the program: never dropped.
static inline bool dt__buffer_visible(const dt_buffer_t *buffer) {
  return buffer->kind == DT_BUFFER_OUTPUT || buffer->kind == DT_BUFFER_INPUT;
}

#endif // DT_FUSE_BODY_H
