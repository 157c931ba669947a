// SPDX-License-Identifier: Apache-2.0
// The readbacks (numbers that a call reads from its own data) that a kernel waits for, since it
// uses their symbols. Also its stores, and its reductions whose order shows.
#include "lower/loop/loop_private.h"
#include "runtime/base/dtype.h"

#define MAX_SYMBOLS 512 // in one expression; with more, all readbacks are waited for

bool dt__store_scatters(const dt_program_t *program, const dt_store_t *store) {
  uint32_t symbols[MAX_SYMBOLS];
  uint32_t rank = dt__program_buffer(program, store->buffer)->rank;
  if (store->mask != DT_NO_INST || store->revises || store->whole)
    return true;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t n = dt__sym_symbols(program->env, store->index[d], symbols, MAX_SYMBOLS);
    for (uint32_t k = 0; k < n && k < MAX_SYMBOLS; k++)
      if (dt__symbol_info(program->env, symbols[k]).kind == DT_SYMBOL_DATA)
        return true;
    if (n > MAX_SYMBOLS)
      return true;
  }
  return false;
}

bool dt__kernel_revises(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++)
      if (kernel->stages.items[s].stores.items[k].revises)
        return true;
  return false;
}

bool dt__stage_revises_in_order(const dt_stage_t *stage) {
  for (uint32_t k = 0; k < stage->stores.len && stage->n_loops; k++)
    if (stage->stores.items[k].revises)
      return true;
  return false;
}

bool dt__stage_in_order(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_RUNNING ||
        stage->insts.items[i].kind == DT_INST_PRIOR)
      return true;
  for (uint32_t f = 0; f < stage->reductions.len; f++)
    if (dt__reduction_is_last(stage->reductions.items[f].kind))
      return true;
  return dt__stage_revises_in_order(stage);
}

bool dt__kernel_in_order(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (dt__stage_in_order(&kernel->stages.items[s]))
      return true;
  return false;
}

bool dt__reduction_has_order(const dt_stage_t *stage, const dt_reduction_t *reduction) {
  return dt__reduction_info(reduction->kind)->ordered &&
         dt__dtype_is_float(stage->insts.items[reduction->value].dtype);
}

bool dt__kernel_has_order(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t f = 0; f < kernel->stages.items[s].reductions.len; f++)
      if (dt__reduction_has_order(&kernel->stages.items[s],
                                  &kernel->stages.items[s].reductions.items[f]))
        return true;
  return false;
}

bool dt__kernel_updates(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[k].buffer;
      const dt_buffer_t *buffer = dt__program_buffer(program, id);
      if (buffer->kind == DT_BUFFER_INPUT && !buffer->taken)
        return true;
    }
  return false;
}

static bool has_inst(const dt_kernel_t *kernel, dt_inst_kind_t kind) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      if (kernel->stages.items[s].insts.items[i].kind == kind)
        return true;
  return false;
}

uint32_t dt__program_commit(const dt_program_t *program) {
  uint32_t k = program->n_once;
  while (k < program->kernels.len && !dt__kernel_updates(program, &program->kernels.items[k]))
    k++;
  return k;
}

dt_buffer_id_t dt__program_commit_gate(const dt_program_t *program) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    if (has_inst(kernel, DT_INST_SOUND) && kernel->stages.items[0].stores.len == 1)
      return kernel->stages.items[0].stores.items[0].buffer;
  }
  return (dt_buffer_id_t){0};
}

static bool makes_check(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      if (dt__inst_checks(&kernel->stages.items[s].insts.items[i]))
        return true;
  return false;
}

bool dt__program_checks(const dt_program_t *program) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (makes_check(&program->kernels.items[k]))
      return true;
  return false;
}

// ---- Readbacks ----------------------------------------------------------------------------------
uint32_t dt__expr_readbacks(const dt_program_t *program, dt_sym_t e) {
  uint32_t symbols[MAX_SYMBOLS], readbacks = 0;
  if (program->readbacks.len == 0 || e.id == 0)
    return 0;
  uint32_t n = dt__sym_symbols(program->env, e, symbols, MAX_SYMBOLS);
  if (n > MAX_SYMBOLS)
    return program->readbacks.len;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = readbacks; i < program->readbacks.len; i++)
      if (program->readbacks.items[i].symbol == symbols[k])
        readbacks = i + 1;
  return readbacks;
}

static void at_least(uint32_t *readbacks, uint32_t more) {
  *readbacks = *readbacks > more ? *readbacks : more;
}

static uint32_t exprs_readbacks(const dt_program_t *program, const dt_sym_t *exprs, uint32_t n) {
  uint32_t readbacks = 0;
  for (uint32_t k = 0; k < n; k++)
    at_least(&readbacks, dt__expr_readbacks(program, exprs[k]));
  return readbacks;
}

static uint32_t buffer_readbacks(const dt_program_t *program, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  uint32_t readbacks = exprs_readbacks(program, buffer->sizes, buffer->rank);
  at_least(&readbacks, exprs_readbacks(program, buffer->strides, buffer->rank));
  return readbacks;
}

static uint32_t inst_items(const dt_program_t *program, const dt_inst_t *inst) {
  uint32_t readbacks = 0;
  if (dt__inst_reads(inst).id)
    readbacks = buffer_readbacks(program, inst->buffer);
  if (inst->kind == DT_INST_LOAD)
    at_least(&readbacks, exprs_readbacks(program, inst->index,
                                         dt__program_buffer(program, inst->buffer)->rank));
  if (inst->kind == DT_INST_INDEX)
    at_least(&readbacks, dt__expr_readbacks(program, inst->sym));
  if (inst->kind == DT_INST_BIND)
    at_least(&readbacks, dt__expr_readbacks(program, inst->extent));
  return readbacks;
}

uint32_t dt__kernel_readbacks(const dt_program_t *program, const dt_kernel_t *kernel) {
  if (program->readbacks.len == 0)
    return 0;
  uint32_t readbacks = exprs_readbacks(program, kernel->extents, kernel->n_loops);
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    at_least(&readbacks, exprs_readbacks(program, stage->extents, stage->n_loops));
    for (uint32_t i = 0; i < stage->insts.len; i++)
      at_least(&readbacks, inst_items(program, &stage->insts.items[i]));
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      const dt_store_t *store = &stage->stores.items[k];
      at_least(&readbacks, buffer_readbacks(program, store->buffer));
      at_least(&readbacks, exprs_readbacks(program, store->index,
                                           dt__program_buffer(program, store->buffer)->rank));
    }
  }
  for (uint32_t k = 0; k < kernel->schedules.len; k++)
    at_least(&readbacks, dt__expr_readbacks(program, kernel->schedules.items[k].predicate));
  return readbacks;
}
