// SPDX-License-Identifier: Apache-2.0
// Kernels that run slice by slice, and buffers that take the place of others.
//
// In place: two buffers of equal sizes, element sizes and places have an element in common exactly
// where all indices are equal (a lemma of the same test). The outer iterations of a kernel run in
// any order and at once, the stages of one iteration in order, the loads of one inner iteration
// before its stores. So a store may come at an element only in the same outer iteration as every
// load of that element, in a later stage or in the same inner iteration.
#include "test/proofs/kernels.h"

#include <stdio.h>
#include <stdlib.h>

// ---- Slices -----------------------------------------------------------------------------------------
void kp_given_slice(kp_t *kp, uint32_t kernel) {
  const dt_program_slices_t *slices = dt__kernel_slices(kp->program, kernel);
  if (!slices)
    return;
  kz_t *kz = kp->kz;
  Z3_context z3 = kz_context(kz);
  dt_symenv_t *env = kp->program->env;
  kz_value_t extent = kz_term(kz, slices->extent), step = kz_term(kz, slices->step);
  Z3_ast begin = kz_term(kz, dt__symbol_sym(env, slices->begin)).v;
  Z3_ast count = kz_term(kz, dt__symbol_sym(env, slices->count)).v;
  Z3_ast sides[2] = {extent.v, begin};
  Z3_ast left = Z3_mk_sub(z3, 2, sides);
  kz_given(kz, kz_and(kz, kz_whole(kz, extent), kz_whole(kz, step)));
  kz_given(kz, kz_inside(kz, begin, extent.v));
  kz_given(kz, Z3_mk_eq(z3, count, Z3_mk_ite(z3, Z3_mk_lt(z3, left, step.v), left, step.v)));
}

// The plan of a call computes the step, which temporaries have as a size, and refuses the call
// where it has no value.
static void prove_slices_of(kp_t *kp, uint32_t at) {
  const dt_program_slices_t *slices = &kp->program->slices.items[at];
  kz_t *kz = kp->kz;
  Z3_context z3 = kz_context(kz);
  kz_begin(kz);
  kz_value_t extent = kz_term(kz, slices->extent), step = kz_term(kz, slices->step);
  kz_given(kz, kz_whole(kz, step));
  Z3_ast one = kz_int(kz, 1), sum[3] = {extent.v, step.v, kz_int(kz, -1)};
  Z3_ast end = Z3_mk_add(z3, 3, sum);
  Z3_ast claim = kz_and(kz, Z3_mk_le(z3, one, step.v), kz_whole(kz, extent));
  char *model = NULL, text[96];
  verdict_t verdict = kz_prove(kz, kz_and(kz, claim, kz_fits(kz, end)), &model);
  snprintf(text, sizeof text, "slices %u: a step of 1 or more, and an end that fits", at);
  kp_judge(kp, verdict, true, text, model);
  free(model);
}

static bool uses(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t b, bool *stores) {
  bool any = false;
  *stores = false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      any |= stage->insts.items[i].buffer.id == b + 1;
    for (uint32_t i = 0; i < stage->stores.len; i++)
      *stores |= stage->stores.items[i].buffer.id == b + 1;
  }
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    any |= program->readbacks.items[k].buffer.id == b + 1;
  return any;
}

bool kp_of_slice(const dt_program_t *program, uint32_t b, const dt_program_slices_t *slices) {
  bool stored = false;
  if (program->buffers.items[b].kind != DT_BUFFER_TEMP || program->buffers.items[b].rank == 0)
    return false;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    bool stores, loads = uses(program, &program->kernels.items[k], b, &stores);
    if ((loads || stores) && (k < slices->first || k >= slices->end))
      return false;
    if (loads && !stored)
      return false;
    stored |= stores;
  }
  return stored;
}

// An access to a temporary of one slice: of those rows that this slice has.
static void prove_row(kp_t *kp, uint32_t k, const dt_stage_t *stage, uint32_t b, dt_sym_t at) {
  const dt_program_slices_t *slices = dt__kernel_slices(kp->program, k);
  const dt_kernel_t *kernel = &kp->program->kernels.items[k];
  dt_sym_t count = dt__symbol_sym(kp->program->env, slices->count);
  kz_t *kz = kp->kz;
  kz_begin(kz);
  kp_given_slice(kp, k);
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    kz_given_loop(kz, kernel->vars[v], kernel->extents[v]);
  for (uint32_t v = 0; v < stage->n_loops; v++)
    kz_given_loop(kz, stage->vars[v], stage->extents[v]);
  kz_compare_quotients(kz, at, count);
  char *model = NULL, text[160];
  verdict_t verdict = kz_prove(kz, kz_inside(kz, kz_term(kz, at).v, kz_term(kz, count).v), &model);
  snprintf(text, sizeof text, "kernel %u (%.60s): buffer %u, rows of the slice at work", k,
           kernel->name, b + 1);
  kp_judge(kp, verdict, false, text, model);
  free(model);
}

static void prove_rows(kp_t *kp, const dt_program_slices_t *slices, uint32_t k) {
  const dt_kernel_t *kernel = &kp->program->kernels.items[k];
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (inst->kind == DT_INST_LOAD && kp_of_slice(kp->program, inst->buffer.id - 1, slices))
        prove_row(kp, k, stage, inst->buffer.id - 1, inst->index[0]);
      else if (dt__inst_reads(inst).id && inst->kind != DT_INST_LOAD &&
               kp_of_slice(kp->program, inst->buffer.id - 1, slices))
        kp_judge(kp, REFUTED, false, "a search in a temporary of one slice", NULL);
    }
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      const dt_store_t *store = &stage->stores.items[i];
      if (kp_of_slice(kp->program, store->buffer.id - 1, slices))
        prove_row(kp, k, stage, store->buffer.id - 1, store->index[0]);
    }
  }
}

void kp_prove_slices(kp_t *kp) {
  for (uint32_t s = 0; s < kp->program->slices.len; s++) {
    const dt_program_slices_t *slices = &kp->program->slices.items[s];
    prove_slices_of(kp, s);
    for (uint32_t k = slices->first; k < slices->end; k++)
      prove_rows(kp, slices, k);
  }
}

// ---- In place ---------------------------------------------------------------------------------------
bool kp_may_replace(const kp_t *kp, uint32_t old, uint32_t fresh, uint32_t k) {
  const dt_program_t *program = kp->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  const dt_buffer_t *a = &program->buffers.items[old], *b = &program->buffers.items[fresh];
  if (!dt__layouts_same(a, b) || dt_dtype_size(a->dtype) != dt_dtype_size(b->dtype))
    return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->sizes[d].id != b->sizes[d].id || a->strides[d].id != b->strides[d].id)
      return false;
  const dt_program_slices_t *slices = dt__kernel_slices(program, k);
  if (slices && !(kp_of_slice(program, old, slices) && kp_of_slice(program, fresh, slices)))
    return false;
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    if (dt__schedule_is_product(&kernel->schedules.items[s])) // reads in an order of its own
      return false;
  if (kernel->gate.id == old + 1) // other teams of the kernel have yet to read it
    return false;
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    if (program->readbacks.items[i].buffer.id == old + 1) // the host reads it after the kernel
      return false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (stage->insts.items[i].buffer.id == old + 1 && stage->insts.items[i].kind != DT_INST_LOAD)
        return false; // a search reads all of it
    for (uint32_t i = 0; i < stage->stores.len; i++)
      if (stage->stores.items[i].buffer.id == old + 1)
        return false;
  }
  return true;
}

// One iteration of a kernel and of a stage: symbols of its own in place of the loops'.
typedef struct iteration_t {
  const dt_kernel_t *kernel;
  const dt_stage_t *stage;
  uint32_t n;
  dt_sym_t from[2 * DT_MAX_LOOPS], to[2 * DT_MAX_LOOPS];
} iteration_t;

static void add_loop(kp_t *kp, iteration_t *it, dt_sym_t var, dt_sym_t extent, bool renamed) {
  dt_symenv_t *env = kp->program->env;
  dt_sym_t own = dt__sym_subst(env, extent, it->from, it->to, it->n);
  it->from[it->n] = var;
  it->to[it->n] = renamed ? dt__sym_new_loop(env, own) : var;
  kz_given_loop(kp->kz, it->to[it->n], own);
  it->n++;
}

static iteration_t iteration_of(kp_t *kp, const dt_kernel_t *kernel, const dt_stage_t *stage,
                                bool renamed) {
  iteration_t it = {.kernel = kernel, .stage = stage};
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    add_loop(kp, &it, kernel->vars[v], kernel->extents[v], renamed);
  for (uint32_t v = 0; v < stage->n_loops; v++)
    add_loop(kp, &it, stage->vars[v], stage->extents[v], renamed);
  return it;
}

static bool from_data(const dt_program_t *program, const dt_sym_t *index, uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t symbols[64], n = dt__sym_symbols(program->env, index[d], symbols, 64);
    for (uint32_t k = 0; k < n && k < 64; k++)
      if (dt__symbol_info(program->env, symbols[k]).kind == DT_SYMBOL_DATA)
        return true;
    if (n > 64)
      return true;
  }
  return false;
}

static Z3_ast same_iteration(kp_t *kp, const iteration_t *a, const iteration_t *b, uint32_t n) {
  Z3_ast all = kz_true(kp->kz);
  for (uint32_t v = 0; v < n; v++)
    all = kz_and(
        kp->kz, all,
        Z3_mk_eq(kz_context(kp->kz), kz_term(kp->kz, a->to[v]).v, kz_term(kp->kz, b->to[v]).v));
  return all;
}

// Whether the load of stage `at` never finds what the store of stage `by` has left.
static verdict_t load_comes_first(kp_t *kp, uint32_t k, const dt_inst_t *load, uint32_t at,
                                  const dt_store_t *store, uint32_t by, char **model) {
  dt_program_t *program = kp->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  uint32_t rank = dt__program_buffer(program, load->buffer)->rank;
  kz_t *kz = kp->kz;
  if (from_data(program, load->index, rank) || from_data(program, store->index, rank))
    return REFUTED; // nothing says which element it is
  kz_begin(kz);
  kp_given_slice(kp, k);
  iteration_t loads = iteration_of(kp, kernel, &kernel->stages.items[at], false);
  iteration_t stores = iteration_of(kp, kernel, &kernel->stages.items[by], true);
  for (uint32_t d = 0; d < rank; d++) {
    dt_sym_t other = dt__sym_subst(program->env, store->index[d], stores.from, stores.to, stores.n);
    kz_given(kz, Z3_mk_eq(kz_context(kz), kz_term(kz, load->index[d]).v, kz_term(kz, other).v));
  }
  Z3_ast claim = at > by    ? Z3_mk_false(kz_context(kz))
                 : at == by ? same_iteration(kp, &loads, &stores, stores.n)
                            : same_iteration(kp, &loads, &stores, kernel->n_loops);
  return kz_prove(kz, claim, model);
}

void kp_prove_in_place(kp_t *kp, uint32_t old, uint32_t fresh, uint32_t k) {
  const dt_kernel_t *kernel = &kp->program->kernels.items[k];
  for (uint32_t at = 0; at < kernel->stages.len; at++)
    for (uint32_t i = 0; i < kernel->stages.items[at].insts.len; i++)
      for (uint32_t by = 0; by < kernel->stages.len; by++)
        for (uint32_t s = 0; s < kernel->stages.items[by].stores.len; s++) {
          const dt_inst_t *load = &kernel->stages.items[at].insts.items[i];
          const dt_store_t *store = &kernel->stages.items[by].stores.items[s];
          if (load->buffer.id != old + 1 || store->buffer.id != fresh + 1)
            continue;
          char *model = NULL, text[192];
          verdict_t verdict = load_comes_first(kp, k, load, at, store, by, &model);
          snprintf(text, sizeof text,
                   "memory plan: kernel %u (%.60s): buffer %u in the place of %u, loaded in stage "
                   "%u, stored in stage %u",
                   k, kernel->name, fresh + 1, old + 1, at, by);
          kp_judge(kp, verdict, false, text, model);
          free(model);
        }
}
