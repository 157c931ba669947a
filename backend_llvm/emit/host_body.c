// SPDX-License-Identifier: Apache-2.0
// See host_body.h. Everything is computed on the main line, so that values may be shared.
#include "backend_llvm/emit/host_body.h"
#include "backend_llvm/emit/index.h"

#include "runtime/base/status.h"

// ---- The frame ------------------------------------------------------------------------------------
LLVMValueRef dt__host_field(dt_host_t *h, size_t offset) {
  return dt__emit_offset(h->k.m, h->frame, dt__emit_i64(h->k.m, (int64_t)offset));
}

LLVMValueRef dt__host_load_field(dt_host_t *h, LLVMTypeRef type, size_t offset) {
  return LLVMBuildLoad2(h->k.m->b, type, dt__host_field(h, offset), "");
}

LLVMValueRef dt__host_load_at(dt_host_t *h, LLVMTypeRef type, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  return LLVMBuildLoad2(m->b, type, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)), "");
}

void dt__host_store_at(dt_host_t *h, LLVMValueRef value, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  LLVMBuildStore(m->b, value, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)));
}

void dt__host_note_bad(dt_host_t *h, LLVMValueRef bit) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_i1, h->bad, "");
  LLVMBuildStore(m->b, LLVMBuildOr(m->b, before, bit, ""), h->bad);
}

LLVMValueRef dt__host_needed(dt_host_t *h, LLVMValueRef value) {
  if (h->k.overflow.none)
    dt__host_note_bad(h, h->k.overflow.none);
  h->k.overflow.none = NULL;
  return value;
}

LLVMValueRef dt__host_value(dt_host_t *h, dt_sym_t e) {
  LLVMValueRef value = dt__index_scalar(&h->k, e);
  dt__body_at(&h->k, h->level);
  return dt__host_needed(h, value);
}

// ---- Device sizes ---------------------------------------------------------------------------------
dt_sym_t dt__host_most(const dt_host_t *h, dt_sym_t e) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !e.id)
    return e;
  dt_sym_t most = dt__program_most(&m->program, e);
  if (!most.id)
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "a size that data decides has no bound"));
  return most.id ? most : dt__sym_const(m->env, 0);
}

// What `e` is where every readback is at its most; none: a readback of it has none.
static dt_sym_t at_most(const dt_host_t *h, dt_sym_t e) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = 0; i < m->program.readbacks.len && e.id; i++) {
    const dt_readback_t *readback = &m->program.readbacks.items[i];
    dt_sym_t symbol = dt__symbol_sym(m->env, readback->symbol);
    if (!dt__sym_depends(m->env, e, symbol))
      continue;
    e = readback->most.id ? dt__sym_subst(m->env, e, &symbol, &readback->most, 1) : DT_SYM_NONE_ID;
  }
  return e;
}

dt_sym_t dt__host_axis(const dt_host_t *h, dt_sym_t axis) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !dt__expr_readbacks(&m->program, axis))
    return axis;
  dt_sym_t one = dt__sym_const(m->env, 1), most = dt__program_most(&m->program, axis);
  if (most.id)
    return most;
  most = at_most(h, axis);
  return most.id ? dt__sym_max(m->env, one, most) : one;
}

dt_sym_t dt__host_predicate(const dt_host_t *h, const dt_schedule_t *schedule) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !dt__expr_readbacks(&m->program, schedule->predicate))
    return schedule->predicate;
  return dt__schedule_is_resident(schedule) ? DT_SYM_NONE_ID : at_most(h, schedule->predicate);
}

// ---- Functions -----------------------------------------------------------------------------------
// Readbacks are bound when they are read.
static bool *find_readbacks(const dt_emit_t *m, dt_arena_t *arena, uint32_t n) {
  bool *readbacks = DT_ARENA_ARRAY(arena, bool, n + 1);
  for (uint32_t i = 0; readbacks && i < m->program.readbacks.len; i++)
    readbacks[m->program.readbacks.items[i].symbol] = true;
  return readbacks;
}

dt_status_t dt__host_find_symbols(dt_host_program_t *p) {
  dt_emit_t *m = p->m;
  uint32_t n = dt__symenv_symbol_count(m->env);
  bool *readbacks = find_readbacks(m, &m->arena, n);
  if (!readbacks)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    dt_symbol_kind_t kind = dt__symbol_info(m->env, i).kind;
    bool data = kind == DT_SYMBOL_UNBACKED && !readbacks[i]; // an argument's size, under no guard
    if (!data && kind != DT_SYMBOL_SIZE && kind != DT_SYMBOL_INT)
      continue;
    if (!DT_VEC_PUSH(&m->arena, &p->symbols, i))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static LLVMTypeRef type_of(const dt_emit_t *m, LLVMTypeRef result, bool table) {
  LLVMTypeRef params[2] = {m->t_ptr, m->t_ptr};
  return LLVMFunctionType(result, params, table ? 2 : 1, 0);
}

static dt_status_t begin(dt_host_t *h, const dt_host_program_t *p, const char *name,
                         LLVMTypeRef result, bool table, bool symbols, uint32_t readbacks) {
  dt_emit_t *m = p->m;
  *h = (dt_host_t){.of = p};
  DT_TRY(dt__body_init(&h->k, m, NULL, NULL));
  LLVMValueRef fn = dt__emit_function(m, name, type_of(m, result, table), true);
  h->frame = LLVMGetParam(fn, 0);
  h->table = table ? LLVMGetParam(fn, 1) : NULL;
  dt__body_enter(&h->k, fn);
  if (!symbols)
    return NULL;
  LLVMValueRef values = dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, symbols));
  for (uint32_t i = 0; i < p->symbols.len; i++) {
    uint32_t symbol = p->symbols.items[i];
    dt_symbol_info_t info = dt__symbol_info(m->env, symbol);
    LLVMValueRef value = dt__host_load_at(h, m->t_i64, values, info.whole);
    if (info.divisor)
      value = LLVMBuildSDiv(m->b, value, dt__emit_i64(m, info.divisor), "");
    dt__bind_uniform(&h->k, symbol, 0, value);
  }
  for (uint32_t i = 0; i < readbacks; i++) {
    uint32_t symbol = m->program.readbacks.items[i].symbol;
    dt__bind_uniform(&h->k, symbol, 0, dt__host_load_at(h, m->t_i64, values, symbol));
  }
  return NULL;
}

dt_status_t dt__host_open(dt_host_t *h, const dt_host_program_t *p, const char *name,
                          LLVMTypeRef result, bool symbols, uint32_t readbacks) {
  return begin(h, p, name, result, false, symbols, readbacks);
}

dt_status_t dt__host_open_repeat(dt_host_t *h, const dt_host_program_t *p, const char *name,
                                 bool symbols, uint32_t readbacks) {
  return begin(h, p, name, p->m->t_void, true, symbols, readbacks);
}

static LLVMValueRef call_named(dt_host_t *h, const char *name, LLVMTypeRef result, bool table) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef args[2] = {h->frame, h->table};
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, name);
  if (!fn) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "host program: no function %s", name));
    return LLVMConstNull(m->t_i64);
  }
  return LLVMBuildCall2(m->b, type_of(m, result, table), fn, args, table ? 2 : 1, "");
}

LLVMValueRef dt__host_call(dt_host_t *h, const char *name, LLVMTypeRef result) {
  return call_named(h, name, result, false);
}

void dt__host_call_repeat(dt_host_t *h, const char *name) {
  (void)call_named(h, name, h->k.m->t_void, true);
}

// ---- Memory ---------------------------------------------------------------------------------------
static LLVMValueRef placed(dt_host_t *h, size_t memory, uint32_t buffer) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef base = dt__host_load_field(h, m->t_ptr, memory);
  if (buffer >= m->program.offsets.len || !m->program.offsets.items[buffer].id) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "memory plan: buffer %u has no place", buffer + 1));
    return base;
  }
  return dt__emit_offset(m, base, dt__host_value(h, m->program.offsets.items[buffer]));
}

// An argument's, a constant's, a result's or a ONCE buffer's, from the frame's table.
static LLVMValueRef tabled(dt_host_t *h, size_t table, uint32_t index) {
  dt_emit_t *m = h->k.m;
  return dt__host_load_at(h, m->t_ptr, dt__host_load_field(h, m->t_ptr, table), index);
}

static LLVMValueRef find_address(dt_host_t *h, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(&h->k.m->program, id);
  switch (buffer->kind) {
  case DT_BUFFER_INPUT:
    return tabled(h, offsetof(dt_frame_t, inputs), buffer->index);
  case DT_BUFFER_CONSTANT:
    return tabled(h, offsetof(dt_frame_t, constants), buffer->index);
  case DT_BUFFER_OUTPUT:
    return tabled(h, offsetof(dt_frame_t, outputs), buffer->index);
  case DT_BUFFER_ONCE:
    return tabled(h, offsetof(dt_frame_t, once), h->of->once[id.id - 1]);
  default:
    return placed(h, offsetof(dt_frame_t, block), id.id - 1);
  }
}

LLVMValueRef dt__host_address(dt_host_t *h, dt_buffer_id_t id) {
  if (h->k.bases[id.id - 1])
    return h->k.bases[id.id - 1];
  // Kept for the whole function, so it is made outside of a loop over slices.
  uint32_t level = h->level;
  h->level = 0;
  dt__body_at(&h->k, 0);
  LLVMValueRef address = find_address(h, id);
  dt__body_place(&h->k, id.id - 1, address);
  h->level = level;
  dt__body_at(&h->k, level);
  return address;
}
