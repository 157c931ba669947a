// SPDX-License-Identifier: Apache-2.0
// The verifier of chains: their loops, their slabs, their schedules. It also checks that one launch
// of all kernels, tile by tile or side by side, means the same as the kernels one after another.
#include "lower/loop/verify_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdlib.h>

// A chain under examination.
typedef struct chain_t {
  const dt_loop_verifier_t *v;
  dt_kernel_chain_t kernels;
  const dt_kernel_t *head;
  uint32_t n_shared; // loops
} chain_t;

static bool same_exprs(const dt_sym_t *a, const dt_sym_t *b, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (a[k].id != b[k].id)
      return false;
  return true;
}

static bool has_template(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    if (kernel->schedules.items[s].kind != DT_SCHEDULE_TEAM_MATMUL)
      return false;
  return kernel->schedules.len != 0;
}

// ---- Slabs ------------------------------------------------------------------------------------------
static dt_status_t verify_index(const chain_t *c, uint32_t k, dt_buffer_id_t id,
                                const dt_sym_t *index) {
  const dt_buffer_t *slab = dt__program_buffer(c->v->program, id);
  if (slab->kind != DT_BUFFER_SLAB)
    return NULL;
  if (slab->rank != c->n_shared + 1 || !same_exprs(slab->sizes, c->head->extents, c->n_shared) ||
      !same_exprs(index, c->head->vars, c->n_shared))
    return dt__loop_verify_fail(c->v, "kernel %u: slab %u is not by the chain's loops", k, id.id);
  return NULL;
}

static dt_status_t verify_slabs_of(const chain_t *c, uint32_t k) {
  const dt_kernel_t *kernel = &c->v->program->kernels.items[k];
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (stage->insts.items[i].kind == DT_INST_LOAD)
        DT_TRY(verify_index(c, k, stage->insts.items[i].buffer, stage->insts.items[i].index));
    for (uint32_t i = 0; i < stage->stores.len; i++)
      DT_TRY(verify_index(c, k, stage->stores.items[i].buffer, stage->stores.items[i].index));
  }
  return NULL;
}

// Notes that the kernel uses the buffer, in owners: by buffer, [id - 1], the chain whose slab it
// is.
static dt_status_t verify_user(const dt_loop_verifier_t *v, uint32_t *owners, uint32_t k,
                               dt_buffer_id_t id) {
  const dt_kernel_t *kernel = &v->program->kernels.items[k];
  if (!id.id || dt__program_buffer(v->program, id)->kind != DT_BUFFER_SLAB)
    return NULL;
  uint32_t *owner = &owners[id.id - 1];
  if (!kernel->chain || (*owner && *owner != kernel->chain))
    return dt__loop_verify_fail(v, "slab %u is used by kernel %u, which is not of its chain", id.id,
                                k);
  *owner = kernel->chain;
  return NULL;
}

// All users of a slab are of one chain.
static dt_status_t verify_users(const dt_loop_verifier_t *v, uint32_t *owners) {
  const dt_program_t *program = v->program;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        DT_TRY(verify_user(v, owners, k, dt__inst_reads(&stage->insts.items[i])));
      for (uint32_t i = 0; i < stage->stores.len; i++)
        DT_TRY(verify_user(v, owners, k, stage->stores.items[i].buffer));
    }
  return NULL;
}

// ---- Members ------------------------------------------------------------------------------------------
// Only slabs go from one member to another: the rest of what one writes is not there before all
// teams are done.
static dt_status_t verify_reads(const chain_t *c, uint32_t k) {
  const dt_program_t *program = c->v->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t id = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (!id.id)
        continue;
      bool slab = dt__program_buffer(program, id)->kind == DT_BUFFER_SLAB;
      for (uint32_t other = c->kernels.first; other < c->kernels.end; other++)
        if (dt__kernel_stores_to(&program->kernels.items[other], id.id) && other != k &&
            (!slab || other > k))
          return dt__loop_verify_fail(c->v,
                                      "kernel %u reads buffer %u, which kernel %u of its "
                                      "chain writes",
                                      k, id.id, other);
    }
  return NULL;
}

static dt_status_t verify_schedules(const chain_t *c, uint32_t k) {
  const dt_kernel_t *maker = &c->v->program->kernels.items[k];
  bool product = maker->n_loops > c->n_shared;
  uint32_t n = maker->schedules.len;
  if ((n && n != c->head->schedules.len) || (product && !has_template(maker)))
    return dt__loop_verify_fail(c->v, "kernel %u has %u schedules, the head of its chain %u", k, n,
                                c->head->schedules.len);
  for (uint32_t i = 0; i < n; i++) {
    const dt_schedule_t *own = &maker->schedules.items[i], *head = &c->head->schedules.items[i];
    bool fits = product ? own->product.tile_rows == head->product.tile_rows
                        : own->kind == DT_SCHEDULE_INNER_LANES;
    if (!fits || own->predicate.id != head->predicate.id)
      return dt__loop_verify_fail(c->v, "kernel %u: schedule %u is not that of its chain", k, i);
  }
  return NULL;
}

static dt_status_t verify_member(const chain_t *c, uint32_t k) {
  const dt_program_t *program = c->v->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  bool head = kernel == c->head;
  if (k < program->n_once || kernel->slices || dt__kernel_updates(program, kernel))
    return dt__loop_verify_fail(c->v, "kernel %u cannot be in a chain", k);
  if (kernel->n_loops < c->n_shared || kernel->n_loops > c->n_shared + 1 ||
      !same_exprs(kernel->vars, c->head->vars, c->n_shared) ||
      !same_exprs(kernel->extents, c->head->extents, c->n_shared))
    return dt__loop_verify_fail(c->v, "kernel %u has other loops than its chain", k);
  if (!head)
    DT_TRY(verify_schedules(c, k));
  DT_TRY(verify_slabs_of(c, k));
  return verify_reads(c, k);
}

// ---- Bundles ----------------------------------------------------------------------------------------
static dt_status_t verify_bundled(const chain_t *c, uint32_t k) {
  const dt_program_t *program = c->v->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_schedule_t *schedule = &kernel->schedules.items[0];
  if (k < program->n_once || kernel->slices || kernel->external ||
      kernel->gate.id != c->head->gate.id ||
      dt__kernel_updates(program, kernel) != dt__kernel_updates(program, c->head))
    return dt__loop_verify_fail(c->v, "kernel %u cannot be in a bundle", k);
  if (kernel->stages.len != 1 || stage->n_loops || stage->reductions.len ||
      dt__kernel_revises(kernel) || dt__kernel_has_locals(program, kernel))
    return dt__loop_verify_fail(c->v, "kernel %u of a bundle is no map", k);
  if (kernel->schedules.len != 1 || schedule->predicate.id ||
      (schedule->kind != DT_SCHEDULE_OUTER_LANES && schedule->kind != DT_SCHEDULE_SERIAL))
    return dt__loop_verify_fail(c->v, "kernel %u of a bundle has no schedule for all sizes", k);
  return verify_reads(c, k);
}

static dt_status_t verify_bundle(const chain_t *c) {
  for (uint32_t k = c->kernels.first; k < c->kernels.end; k++)
    DT_TRY(verify_bundled(c, k));
  return NULL;
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

// Each chain stands at one place.
static dt_status_t verify_apart(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  uint32_t n = 0, twice = 0;
  uint32_t *numbers = dt__calloc((size_t)program->kernels.len + 1, sizeof(*numbers));
  if (!numbers)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    if (program->kernels.items[k].chain)
      numbers[n++] = program->kernels.items[k].chain;
  qsort(numbers, n, sizeof(*numbers), compare_numbers);
  for (uint32_t i = 1; i < n; i++)
    twice = numbers[i] == numbers[i - 1] ? numbers[i] : twice;
  dt__free(numbers);
  return twice ? dt__loop_verify_fail(v, "chain %u: its kernels stand apart", twice) : NULL;
}

dt_status_t dt__loop_verify_chains(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  uint32_t *owners = dt__calloc((size_t)program->buffers.len + 1, sizeof(*owners));
  if (!owners)
    return DT_NO_MEMORY();
  dt_status_t status = verify_users(v, owners);
  dt__free(owners);
  DT_TRY(status);
  DT_TRY(verify_apart(v));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    uint32_t number = program->kernels.items[k].chain;
    if (!number)
      continue;
    chain_t c = {.v = v, .kernels = dt__kernel_chain(program, k)};
    c.head = &program->kernels.items[c.kernels.end - 1];
    for (uint32_t s = 0; s < program->segments.len; s++)
      if (c.kernels.first < program->segments.items[s].kernel_end &&
          c.kernels.end > program->segments.items[s].kernel_end)
        return dt__loop_verify_fail(v, "chain %u goes over the end of segment %u", number, s);
    if (dt__chain_is_bundle(program, c.kernels)) {
      DT_TRY(verify_bundle(&c));
      k = c.kernels.end - 1;
      continue;
    }
    if (!has_template(c.head) || c.head->n_loops < 2)
      return dt__loop_verify_fail(v, "chain %u: its last kernel is no product", number);
    c.n_shared = c.head->n_loops - 1;
    for (; k < c.kernels.end; k++)
      DT_TRY(verify_member(&c, k));
    k--;
  }
  return NULL;
}
