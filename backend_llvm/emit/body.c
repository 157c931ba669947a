// SPDX-License-Identifier: Apache-2.0
// Scopes, loops and bindings of a kernel body: where code goes. See body.h for the levels.
#include "backend_llvm/emit/body.h"

dt_status_t dt__body_init(dt_body_t *k, dt_emit_t *m, const dt_kernel_t *kernel,
                          const dt_schedule_t *schedule) {
  *k = (dt_body_t){.m = m, .lanes = 1, .copies = 1, .team = 1, .item_level = 1};
  k->n_bindings = dt__symenv_symbol_count(m->env);
  uint32_t n_buffers = m->program.buffers.len;
  k->bindings = DT_ARENA_ARRAY(&m->arena, dt_binding_t, k->n_bindings + 1);
  k->bases = DT_ARENA_ARRAY(&m->arena, LLVMValueRef, n_buffers + 1);
  k->written = DT_ARENA_ARRAY(&m->arena, bool, n_buffers + 1);
  if (!k->bindings || !k->bases || !k->written)
    return DT_NO_MEMORY();
  return kernel ? dt__body_take(k, kernel, schedule) : NULL;
}

dt_status_t dt__body_take(dt_body_t *k, const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  dt_emit_t *m = k->m;
  k->kernel = kernel;
  k->schedule = schedule;
  k->rows = DT_ARENA_ARRAY(&m->arena, dt_lanes_t, kernel->n_rows + 1);
  if (!k->rows)
    return DT_NO_MEMORY();
  k->updates = dt__kernel_updates(&m->program, kernel);
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      k->written[kernel->stages.items[s].stores.items[i].buffer.id - 1] = true;
  for (uint32_t level = 0; level < DT_MAX_LEVELS; level++)
    k->scopes[level].memo.len = 0;
  k->kept.len = 0;
  k->resident = k->axis = k->outer_lanes = k->acc_vector = false;
  return NULL;
}

void dt__body_enter(dt_body_t *k, LLVMValueRef fn) {
  dt_emit_t *m = k->m;
  k->fn = fn;
  k->slots = dt__emit_block(m, fn, "entry");
  k->scopes[0].block = dt__emit_block(m, fn, "begin");
  LLVMPositionBuilderAtEnd(m->b, k->slots);
  LLVMBuildBr(m->b, k->scopes[0].block);
  dt__body_at(k, 0);
}

void dt__body_at(dt_body_t *k, uint32_t level) { dt__emit_resume(k->m, k->scopes[level].block); }

LLVMValueRef dt__body_slot(dt_body_t *k, LLVMTypeRef type, uint32_t count) {
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  dt__emit_resume(m, k->slots);
  LLVMValueRef slot = count == 1 ? LLVMBuildAlloca(m->b, type, "")
                                 : LLVMBuildAlloca(m->b, LLVMArrayType2(type, count), "");
  dt__emit_resume(m, at);
  return slot;
}

bool dt__memo_find(const dt_body_t *k, uint32_t level, uint64_t key, dt_lanes_t *out) {
  const dt_scope_t *scope = &k->scopes[level];
  for (uint32_t i = scope->memo.len; i-- > 0;) {
    if (scope->memo.items[i].key == key) {
      *out = scope->memo.items[i].value;
      return true;
    }
  }
  return false;
}

void dt__memo_put(dt_body_t *k, uint32_t level, uint64_t key, dt_lanes_t value) {
  dt_memo_t memo = {key, value};
  if (!DT_VEC_PUSH(&k->m->arena, &k->scopes[level].memo, memo))
    dt__emit_fail(k->m, DT_NO_MEMORY());
}

void dt__level_enter(dt_body_t *k, uint32_t level) {
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level - 1);
  scope->block = k->scopes[level - 1].block;
  scope->memo.len = 0;
}

void dt__level_leave(dt_body_t *k, uint32_t level) {
  dt_scope_t *scope = &k->scopes[level];
  k->scopes[level - 1].block = scope->block;
  scope->memo.len = 0;
  dt__body_at(k, level - 1);
}

// The test stands at the end of each iteration and once before the first, so that a loop is entered
// only when it has one.
LLVMValueRef dt__loop_open(dt_body_t *k, uint32_t level, LLVMValueRef start, LLVMValueRef end,
                           int64_t step) {
  return dt__loop_open_by(k, level, start, end, dt__emit_i64(k->m, step));
}

LLVMValueRef dt__loop_open_by(dt_body_t *k, uint32_t level, LLVMValueRef start, LLVMValueRef end,
                              LLVMValueRef step) {
  dt_emit_t *m = k->m;
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level - 1);
  LLVMBasicBlockRef before = k->scopes[level - 1].block;
  scope->header = dt__emit_block(m, k->fn, "loop");
  scope->exit = dt__emit_block(m, k->fn, "done");
  LLVMValueRef any = LLVMBuildICmp(m->b, LLVMIntSLT, start, end, "");
  LLVMBuildCondBr(m->b, any, scope->header, scope->exit);
  scope->block = scope->header;
  scope->end = end;
  scope->step = step;
  scope->memo.len = 0;
  dt__body_at(k, level);
  scope->counter = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMAddIncoming(scope->counter, &start, &before, 1);
  return scope->counter;
}

// The value through an empty instruction, so that LLVM sees no induction in it. Loops as they are
// emitted have few addresses, each a hoisted base and the counter, which is what x86's addressing
// takes; loop strength reduction of them took a third of the time of code generation
// (docs/performance.md). The innermost loops of matrix products are made elsewhere and keep theirs.
static LLVMValueRef opaque(dt_emit_t *m, LLVMValueRef value) {
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, &m->t_i64, 1, 0);
  LLVMValueRef none = LLVMGetInlineAsm(type, "", 0, "=r,0", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(m->b, type, none, &value, 1, "");
}

void dt__loop_close(dt_body_t *k, uint32_t level) {
  dt_emit_t *m = k->m;
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level);
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, scope->counter, scope->step, "");
  if (!m->device)
    next = opaque(m, next);
  LLVMValueRef more = LLVMBuildICmp(m->b, LLVMIntSLT, next, scope->end, "");
  LLVMBuildCondBr(m->b, more, scope->header, scope->exit);
  LLVMAddIncoming(scope->counter, &next, &scope->block, 1);
  scope->memo.len = 0;
  k->scopes[level - 1].block = scope->exit;
  dt__body_at(k, level - 1);
}

void dt__bind_uniform(dt_body_t *k, uint32_t symbol, uint32_t level, LLVMValueRef value) {
  if (symbol >= k->n_bindings) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "loop IR: symbol %u does not exist", symbol));
    return;
  }
  k->bindings[symbol] = (dt_binding_t){.bound = true, .level = level};
  k->bindings[symbol].value.v[0] = value;
}

void dt__bind_symbol(dt_body_t *k, dt_sym_t var, uint32_t level, LLVMValueRef value) {
  uint32_t symbol;
  if (dt__sym_is_symbol(k->m->env, var, &symbol))
    dt__bind_uniform(k, symbol, level, value);
}
