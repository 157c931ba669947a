// SPDX-License-Identifier: Apache-2.0
// Scopes, loops and bindings of a kernel body: where code is placed. See body.h for the levels.
#include "backend_llvm/emit/body.h"

// ---- Tables ---------------------------------------------------------------------------------------
// Emission may make symbols; what it makes in one body has its entry in the next.
static dt_status_t make_tables(dt_emit_t *m, uint32_t n_symbols, uint32_t n_buffers) {
  dt_tables_t *t = m->tables = DT_ARENA_NEW(&m->arena, dt_tables_t);
  if (!t)
    return DT_NO_MEMORY();
  t->n_symbols = n_symbols + n_symbols / 8;
  t->n_buffers = n_buffers;
  t->bindings = DT_ARENA_ARRAY(&m->arena, dt_binding_t, t->n_symbols + 1);
  t->bases = DT_ARENA_ARRAY(&m->arena, LLVMValueRef, t->n_buffers + 1);
  t->written = DT_ARENA_ARRAY(&m->arena, bool, t->n_buffers + 1);
  return t->bindings && t->bases && t->written ? NULL : DT_NO_MEMORY();
}

static void clear_tables(dt_tables_t *t) {
  for (uint32_t i = 0; i < t->bound.len; i++)
    t->bindings[t->bound.items[i]] = (dt_binding_t){0};
  for (uint32_t i = 0; i < t->used.len; i++) {
    t->bases[t->used.items[i]] = NULL;
    t->written[t->used.items[i]] = false;
  }
  t->bound.len = t->used.len = 0;
}

static dt_status_t take_tables(dt_body_t *k) {
  dt_emit_t *m = k->m;
  uint32_t n_buffers = m->program.buffers.len;
  k->n_bindings = dt__symenv_symbol_count(m->env);
  if (m->tables && m->tables->n_symbols >= k->n_bindings && m->tables->n_buffers >= n_buffers)
    clear_tables(m->tables);
  else
    DT_TRY(make_tables(m, k->n_bindings, n_buffers));
  k->bindings = m->tables->bindings;
  k->bases = m->tables->bases;
  k->written = m->tables->written;
  return NULL;
}

static void note_used(dt_body_t *k, uint32_t index) {
  if (!DT_VEC_PUSH(&k->m->arena, &k->m->tables->used, index))
    dt__emit_fail(k->m, DT_NO_MEMORY());
}

void dt__body_place(dt_body_t *k, uint32_t index, LLVMValueRef base) {
  note_used(k, index);
  k->bases[index] = base;
}

void dt__body_writes(dt_body_t *k, dt_buffer_id_t buffer) {
  note_used(k, buffer.id - 1);
  k->written[buffer.id - 1] = true;
}

dt_status_t dt__body_init(dt_body_t *k, dt_emit_t *m, const dt_kernel_t *kernel,
                          const dt_schedule_t *schedule) {
  *k = (dt_body_t){.m = m, .lanes = 1, .copies = 1, .team = 1, .item_level = 1};
  DT_TRY(take_tables(k));
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
      dt__body_writes(k, kernel->stages.items[s].stores.items[i].buffer);
  for (uint32_t level = 0; level < DT_MAX_LEVELS; level++)
    k->scopes[level].memo.len = 0;
  k->resident.kept.len = 0;
  k->resident.on = k->axis = k->outer_lanes = k->acc_vector = false;
  return NULL;
}

// ---- Scopes ---------------------------------------------------------------------------------------
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

// ---- Symbols --------------------------------------------------------------------------------------
dt_binding_t *dt__bind_at(dt_body_t *k, uint32_t symbol) {
  if (symbol >= k->n_bindings)
    return NULL;
  if (!DT_VEC_PUSH(&k->m->arena, &k->m->tables->bound, symbol))
    dt__emit_fail(k->m, DT_NO_MEMORY());
  return &k->bindings[symbol];
}

void dt__bind_uniform(dt_body_t *k, uint32_t symbol, uint32_t level, LLVMValueRef value) {
  dt_binding_t *binding = dt__bind_at(k, symbol);
  if (!binding) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "loop IR: symbol %u does not exist", symbol));
    return;
  }
  *binding = (dt_binding_t){.bound = true, .level = level};
  binding->value.v[0] = value;
}

void dt__bind_symbol(dt_body_t *k, dt_sym_t var, uint32_t level, LLVMValueRef value) {
  uint32_t symbol;
  if (dt__sym_is_symbol(k->m->env, var, &symbol))
    dt__bind_uniform(k, symbol, level, value);
}
