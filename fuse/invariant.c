// SPDX-License-Identifier: Apache-2.0
// Temporaries whose values do not depend on one of their dims lose it: a sum that is the same for
// all channels of a result (weights that are one number) is made once, not for each of them. Reads
// take the only element of the dim, so what is computed from that alone loses the dim in turn.
//
// It begins with reductions, whose work is what is spared. Maps follow where they read what lost a
// dim; others, which spread a value over a dim, are left to inlining.
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

typedef struct invariant_t {
  dt_program_t *program;
  dt_flow_t flow;
  bool *lost; // by buffer, [id - 1]: it lost a dim
} invariant_t;

// What the instruction computes depends on `var`.
static bool inst_uses(dt_program_t *program, const dt_inst_t *inst, dt_sym_t var) {
  uint32_t rank = inst->index ? dt__program_buffer(program, inst->buffer)->rank : 0;
  return dt__index_uses(program, inst->index, rank, var) ||
         (inst->sym.id && dt__sym_depends(program->env, inst->sym, var)) ||
         (inst->extent.id && dt__sym_depends(program->env, inst->extent, var));
}

// Anything that the kernel computes does.
static bool kernel_uses(dt_program_t *program, const dt_kernel_t *kernel, dt_sym_t var) {
  if (dt__index_uses(program, kernel->extents, kernel->n_loops, var))
    return true;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    if (dt__index_uses(program, stage->extents, stage->n_loops, var))
      return true;
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (inst_uses(program, &stage->insts.items[i], var))
        return true;
  }
  return false;
}

// Whether it may run less often, and that spares something: no check, which is told where anything
// is computed at all, and reductions, or what lost a dim.
static bool is_worth_it(const invariant_t *v, const dt_kernel_t *kernel) {
  bool any = false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    any |= stage->reductions.len > 0;
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      uint32_t id = dt__inst_reads(&stage->insts.items[i]).id;
      if (stage->insts.items[i].kind == DT_INST_BIND)
        return false;
      any |= id && v->lost[id - 1];
    }
  }
  return any;
}

// Where the kernel's only store is, if that is to a temporary which nobody else stores to.
static dt_store_t *only_store(const invariant_t *v, const dt_kernel_t *kernel) {
  dt_store_t *store = NULL;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      if (store)
        return NULL;
      store = &kernel->stages.items[s].stores.items[i];
    }
  if (kernel->external || !store || store->mask != DT_NO_INST || store->revises || store->whole)
    return NULL;
  const dt_buffer_t *buffer = dt__program_buffer(v->program, store->buffer);
  bool own = buffer->kind == DT_BUFFER_TEMP && !buffer->layout &&
             v->flow.stores[store->buffer.id - 1] == 1 &&
             !dt__buffer_is_readback(v->program, store->buffer.id);
  return own ? store : NULL;
}

// Where there may be no iteration, nothing may be read: not once, either.
static bool is_worth_losing(dt_symenv_t *env, dt_sym_t extent) {
  int64_t n = 0;
  bool one = dt__sym_is_const(env, extent, &n) && n == 1;
  return !one && dt__sym_known_le(env, dt__sym_const(env, 1), extent);
}

// The outer loop that dim `d` is, if nothing else of the kernel depends on it; or n_loops.
static uint32_t spare_loop(dt_program_t *program, const dt_kernel_t *kernel,
                           const dt_store_t *store, uint32_t d) {
  const dt_buffer_t *buffer = dt__program_buffer(program, store->buffer);
  uint32_t loop = 0;
  while (loop < kernel->n_loops && store->index[d].id != kernel->vars[loop].id)
    loop++;
  if (loop == kernel->n_loops || kernel->extents[loop].id != buffer->sizes[d].id ||
      !is_worth_losing(program->env, buffer->sizes[d]))
    return kernel->n_loops;
  bool used = kernel_uses(program, kernel, kernel->vars[loop]);
  for (uint32_t k = 0; k < buffer->rank; k++)
    used |= k != d && dt__sym_depends(program->env, store->index[k], kernel->vars[loop]);
  return used ? kernel->n_loops : loop;
}

static dt_status_t zero_index(dt_program_t *program, const dt_sym_t **index, uint32_t rank,
                              uint32_t d) {
  dt_sym_t *copy = dt__arena_copy(program->arena, *index, rank * sizeof(**index));
  if (!copy)
    return DT_NO_MEMORY();
  copy[d] = dt__sym_const(program->env, 0);
  *index = copy;
  return NULL;
}

// Of a buffer whose users stand in the flow.
static dt_status_t zero_reads(const invariant_t *v, uint32_t id, uint32_t d) {
  dt_program_t *program = v->program;
  uint32_t rank = program->buffers.items[id - 1].rank;
  for (uint32_t u = 0; u < v->flow.users.len; u++) {
    dt_kernel_t *kernel = &program->kernels.items[v->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id == id)
          DT_TRY(zero_index(program, &stage->insts.items[i].index, rank, d));
    }
  }
  return NULL;
}

static dt_status_t lose(invariant_t *v, dt_kernel_t *kernel, dt_store_t *store, uint32_t loop,
                        uint32_t d) {
  dt_program_t *program = v->program;
  dt_buffer_t *buffer = &program->buffers.items[store->buffer.id - 1];
  DT_LOG(DT_LOG_FUSION, 1, "%s is the same along dim %u: it is made once", kernel->name, d);
  kernel->n_loops--;
  for (uint32_t k = loop; k < kernel->n_loops; k++) {
    kernel->vars[k] = kernel->vars[k + 1];
    kernel->extents[k] = kernel->extents[k + 1];
  }
  buffer->sizes[d] = dt__sym_const(program->env, 1);
  dt__buffer_set_strides(program->env, buffer);
  v->lost[store->buffer.id - 1] = true;
  DT_TRY(zero_index(program, &store->index, buffer->rank, d));
  return zero_reads(v, store->buffer.id, d);
}

// Whether all that reads the buffer, whose users stand in the flow, are loads.
static bool only_loaded(const invariant_t *v, uint32_t id) {
  for (uint32_t u = 0; u < v->flow.users.len; u++) {
    const dt_kernel_t *kernel = &v->program->kernels.items[v->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
        const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
        if (dt__inst_reads(inst).id == id && inst->kind != DT_INST_LOAD)
          return false;
      }
  }
  return true;
}

static dt_status_t shrink(invariant_t *v, dt_kernel_t *kernel) {
  dt_store_t *store = is_worth_it(v, kernel) ? only_store(v, kernel) : NULL;
  bool asked = false;
  if (!store)
    return NULL;
  uint32_t rank = dt__program_buffer(v->program, store->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t loop = spare_loop(v->program, kernel, store, d);
    if (loop == kernel->n_loops)
      continue;
    if (!asked) {
      DT_TRY(dt__flow_users(&v->flow, store->buffer.id - 1));
      if (!only_loaded(v, store->buffer.id))
        return NULL;
    }
    asked = true;
    DT_TRY(lose(v, kernel, store, loop, d));
  }
  return NULL;
}

dt_status_t dt__fuse_invariant(dt_program_t *program, const dt_target_t *target) {
  (void)target;
  invariant_t v = {.program = program,
                   .lost = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1)};
  if (!v.lost)
    return DT_NO_MEMORY();
  DT_TRY(dt__flow_init(program, &v.flow));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(shrink(&v, &program->kernels.items[k]));
  return NULL;
}
