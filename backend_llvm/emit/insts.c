// SPDX-License-Identifier: Apache-2.0
// Instructions of a stage: the level each belongs to, whether it differs between lanes, and its
// code, which is emitted at that level when it is first needed (stores: stores.c). A load hoisted
// out of a loop that may have no iteration reads a harmless address if its own may not exist.
#include "backend_llvm/emit/insts.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/gather_runs.h"
#include "backend_llvm/emit/halves.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/reductions.h"
#include "backend_llvm/emit/resident.h"
#include "backend_llvm/emit/tables.h"
#include "backend_llvm/load/native.h"

enum { KEY_INST = 3, KEY_GUARD = 4, KEY_BOUND = 5, KEY_DIVISOR = 6 };

static uint64_t inst_key(const dt_body_t *k, uint32_t kind, uint32_t id) {
  return (uint64_t)kind << 56 | (uint64_t)(k->stage_index + 1) << 32 | id;
}

// ---- Levels ------------------------------------------------------------------------------------------
static void join_inst(dt_body_t *k, uint32_t arg, uint32_t *level, bool *varying) {
  if (arg == DT_NO_INST)
    return;
  if (k->inst_level[arg] > *level)
    *level = k->inst_level[arg];
  *varying |= k->inst_varying[arg];
}

static void join_expr(dt_body_t *k, dt_sym_t e, uint32_t *level, bool *varying) {
  uint32_t own;
  bool lanes;
  dt__index_info(k, e, &own, &lanes);
  if (own > *level)
    *level = own;
  *varying |= lanes;
}

static void at_least(uint32_t *level, uint32_t floor) {
  if (*level < floor)
    *level = floor;
}

static void place_load(dt_body_t *k, const dt_inst_t *inst, uint32_t *level, bool *varying) {
  join_expr(k, dt__access_offset(k, inst->buffer, inst->index), level, varying);
  join_inst(k, inst->mask, level, varying);
  // What this kernel stores may have changed since the enclosing levels began.
  if (k->written[inst->buffer.id - 1])
    at_least(level, k->stage_level);
  if (k->written[inst->buffer.id - 1] && dt__stage_revises_in_order(k->stage))
    at_least(level, k->stage_level + k->stage->n_loops);
  if (k->outer_lanes && dt__program_buffer(&k->m->program, inst->buffer)->kind == DT_BUFFER_LOCAL) {
    at_least(level, k->lane_level);
    *varying = true;
  }
}

static void place_search(dt_body_t *k, const dt_inst_t *inst, uint32_t *level, bool *varying) {
  const dt_buffer_t *buffer = dt__program_buffer(&k->m->program, inst->buffer);
  join_expr(k, buffer->sizes[0], level, varying);
  join_expr(k, buffer->strides[0], level, varying);
  if (k->written[inst->buffer.id - 1])
    at_least(level, k->stage_level);
}

// A bound symbol is known where its instruction stands; it may already have been made there.
static void place_bind(dt_body_t *k, uint32_t id, uint32_t *level, bool *varying) {
  const dt_inst_t *inst = &k->stage->insts.items[id];
  uint32_t symbol;
  join_expr(k, inst->extent, level, varying);
  join_inst(k, inst->mask, level, varying);
  at_least(level, k->item_level); // the levels above are closed before stages begin
  dt_binding_t *binding =
      dt__sym_is_symbol(k->m->env, inst->sym, &symbol) ? dt__bind_at(k, symbol) : NULL;
  if (!binding)
    return;
  *binding = (dt_binding_t){.bound = true, .level = *level, .varying = *varying};
  (void)dt__memo_find(k, *level, inst_key(k, KEY_BOUND, id), &binding->value);
}

static void place_inst(dt_body_t *k, uint32_t id) {
  const dt_inst_t *inst = &k->stage->insts.items[id];
  uint32_t level = k->least_level;
  bool varying = false;
  for (uint32_t a = 0; a < 3; a++)
    join_inst(k, inst->args[a], &level, &varying);
  switch (inst->kind) {
  case DT_INST_INDEX:
    join_expr(k, inst->sym, &level, &varying);
    break;
  case DT_INST_LOAD:
    place_load(k, inst, &level, &varying);
    break;
  case DT_INST_ROW:
    at_least(&level, k->stage_level);
    varying = k->rows[inst->row].varying;
    break;
  case DT_INST_PRIOR:
  case DT_INST_RUNNING: // as deep as the reduction's step
    at_least(&level, k->stage_level + k->stage->n_loops);
    varying = k->outer_lanes && k->axis;
    break;
  case DT_INST_SEARCH:
    place_search(k, inst, &level, &varying);
    break;
  case DT_INST_BIND:
    place_bind(k, id, &level, &varying);
    break;
  default:
    break;
  }
  k->inst_level[id] = level;
  k->inst_varying[id] = varying;
}

static void place_loops(dt_body_t *k) {
  const dt_stage_t *stage = k->stage;
  for (uint32_t j = 0; j < stage->n_loops; j++) {
    uint32_t symbol;
    dt_binding_t *binding =
        dt__sym_is_symbol(k->m->env, stage->vars[j], &symbol) ? dt__bind_at(k, symbol) : NULL;
    if (!binding)
      continue;
    bool lanes = !k->outer_lanes && k->axis && j + 1 == stage->n_loops;
    *binding = (dt_binding_t){.bound = true, .level = k->stage_level + 1 + j, .varying = lanes};
    if (lanes) {
      k->lane_var = stage->vars[j];
      k->lane_level = k->stage_level + 1 + j;
    }
  }
}

dt_status_t dt__stage_enter(dt_body_t *k, uint32_t stage_index) {
  k->stage = &k->kernel->stages.items[stage_index];
  k->stage_index = stage_index;
  k->inst_level = DT_ARENA_ARRAY(&k->m->arena, uint32_t, k->stage->insts.len + 1);
  k->inst_varying = DT_ARENA_ARRAY(&k->m->arena, bool, k->stage->insts.len + 1);
  if (!k->inst_level || !k->inst_varying)
    return DT_NO_MEMORY();
  place_loops(k);
  for (uint32_t id = 0; id < k->stage->insts.len; id++)
    place_inst(k, id);
  return NULL;
}

// Whether all loops of the stage deeper than `level` have an iteration (i1), or NULL when they
// surely have or there are none.
static LLVMValueRef deeper_runs(dt_body_t *k, uint32_t level) {
  dt_emit_t *m = k->m;
  uint64_t key = inst_key(k, KEY_GUARD, level);
  dt_lanes_t found = {0};
  if (dt__memo_find(k, 0, key, &found))
    return found.v[0];
  LLVMValueRef all = NULL;
  for (uint32_t j = 0; j < k->stage->n_loops; j++) {
    dt_sym_t extent = k->stage->extents[j];
    if (k->stage_level + 1 + j <= level || dt__sym_range(m->env, extent).lo >= 1)
      continue;
    LLVMValueRef n = dt__index_scalar(k, extent);
    dt__body_at(k, 0);
    LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSGT, n, dt__emit_i64(m, 0), "");
    all = all ? LLVMBuildAnd(m->b, all, some, "") : some;
  }
  found.v[0] = all;
  dt__memo_put(k, 0, key, found);
  return all;
}

// ---- Values ------------------------------------------------------------------------------------------
LLVMValueRef dt__inst_lane(dt_body_t *k, uint32_t inst, uint32_t c, bool vector) {
  dt_lanes_t value = dt__inst_value(k, inst);
  if (!vector)
    return value.v[0];
  return dt__lanes_vector(k, &value, c, k->inst_level[inst]);
}

static LLVMValueRef and_mask(dt_body_t *k, LLVMValueRef a, LLVMValueRef b) {
  if (!a || !b)
    return a ? a : b;
  return LLVMBuildAnd(k->m->b, a, b, "");
}

// What no kernel of a call may write while this one reads it: devices keep it in another cache.
static bool is_invariant(const dt_body_t *k, const dt_inst_t *inst) {
  if (!k->m->device || k->updates)
    return false;
  const dt_buffer_t *buffer = dt__program_buffer(&k->m->program, inst->buffer);
  dt_buffer_kind_t kind = buffer->kind;
  return (kind == DT_BUFFER_INPUT && !buffer->donated) || kind == DT_BUFFER_CONSTANT ||
         (kind == DT_BUFFER_ONCE && !k->written[inst->buffer.id - 1]);
}

static LLVMValueRef load_uniform(dt_body_t *k, const dt_inst_t *inst, uint32_t level,
                                 LLVMValueRef address) {
  dt_emit_t *m = k->m;
  LLVMValueRef runs = deeper_runs(k, level);
  LLVMValueRef mask = inst->mask == DT_NO_INST ? NULL : dt__inst_lane(k, inst->mask, 0, false);
  LLVMValueRef other =
      mask && inst->args[0] != DT_NO_INST ? dt__inst_lane(k, inst->args[0], 0, false) : NULL;
  dt__body_at(k, level);
  LLVMValueRef safe = and_mask(k, runs, mask);
  if (safe)
    address = LLVMBuildSelect(m->b, safe, address, k->dead, "");
  LLVMValueRef value =
      dt__emit_load_at(m, inst->dtype, 0, address, dt__load_alignment(m, inst->dtype),
                       !safe && is_invariant(k, inst));
  if (!mask)
    return value;
  return LLVMBuildSelect(m->b, mask, value, other ? other : LLVMConstNull(LLVMTypeOf(value)), "");
}

LLVMValueRef dt__lanes_reverse(dt_body_t *k, LLVMValueRef value) {
  if (!value)
    return NULL;
  LLVMValueRef order[DT_MAX_LANES];
  for (uint32_t i = 0; i < k->lanes; i++)
    order[i] = dt__emit_i32(k->m, k->lanes - 1 - i);
  return LLVMBuildShuffleVector(k->m->b, value, LLVMGetPoison(LLVMTypeOf(value)),
                                LLVMConstVector(order, k->lanes), "");
}

// One element for all lanes, read if any of them wants it.
static LLVMValueRef load_shared(dt_body_t *k, dt_dtype_t dtype, LLVMValueRef address,
                                LLVMValueRef mask, LLVMValueRef other) {
  dt_emit_t *m = k->m;
  if (mask) {
    LLVMValueRef any = dt__emit_intrinsic1(m, "llvm.vector.reduce.or", mask);
    address = LLVMBuildSelect(m->b, any, address, k->dead, "");
  }
  LLVMValueRef value = dt__emit_splat(m, dt__emit_load(m, dtype, 0, address, NULL, NULL), k->lanes);
  if (!mask)
    return value;
  return LLVMBuildSelect(m->b, mask, value, other ? other : LLVMConstNull(LLVMTypeOf(value)), "");
}

static LLVMValueRef load_lanes(dt_body_t *k, const dt_inst_t *inst, uint32_t level, dt_sym_t offset,
                               const dt_address_t *address, uint32_t c) {
  dt_emit_t *m = k->m;
  LLVMValueRef runs = deeper_runs(k, level);
  LLVMValueRef mask = inst->mask == DT_NO_INST ? NULL : dt__inst_lane(k, inst->mask, c, true);
  LLVMValueRef other =
      mask && inst->args[0] != DT_NO_INST ? dt__inst_lane(k, inst->args[0], c, true) : NULL;
  dt__body_at(k, level);
  if (runs)
    mask = and_mask(k, mask, dt__emit_splat(m, runs, k->lanes));
  if (address->access ==
      DT_ACCESS_UNIFORM) // what lanes behind the last iteration want may not exist
    return load_shared(k, inst->dtype, address->at[0], mask ? and_mask(k, mask, k->masks[c]) : NULL,
                       other);
  bool kept =
      k->resident.inside[c] && !mask && address->access == DT_ACCESS_UNIT; // read at a safe place
  mask = kept ? NULL : and_mask(k, mask, k->masks[c]);
  if (address->access == DT_ACCESS_UNIT && !mask) {
    uint32_t alignment =
        address->alignment ? address->alignment : dt__load_alignment(m, inst->dtype);
    return dt__emit_load_at(m, inst->dtype, k->lanes, address->at[c], alignment,
                            is_invariant(k, inst));
  }
  if (address->access == DT_ACCESS_UNIT)
    return dt__emit_load(m, inst->dtype, k->lanes, address->at[c], mask, other);
  if (address->access == DT_ACCESS_REVERSED)
    return dt__lanes_reverse(k, dt__emit_load(m, inst->dtype, k->lanes, address->at[c],
                                              dt__lanes_reverse(k, mask),
                                              dt__lanes_reverse(k, other)));
  if (dt__gather_runs_apply(k, inst, offset, level))
    return dt__gather_runs_load(k, inst, offset, level, address, c, mask, other);
  return dt__emit_gather(m, inst->dtype, address->at[c], mask, other, k->dead);
}

static dt_lanes_t value_load(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  uint32_t level = k->inst_level[id];
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  dt_sym_t offset = dt__access_offset(k, inst->buffer, inst->index);
  bool keeps = k->resident.on && out.varying && inst->mask == DT_NO_INST;
  if (keeps && dt__resident_find(k, inst->buffer, offset, &out))
    return out;
  dt_address_t address = dt__access_address(k, inst->buffer, offset, level);
  if (!out.varying) {
    out.v[0] = load_uniform(k, inst, level, address.at[0]);
    return out;
  }
  bool once = k->beside.id && !dt__sym_depends(k->m->env, offset, k->beside);
  for (uint32_t c = 0; c < k->copies; c++)
    out.v[c] = once && c ? out.v[0] : load_lanes(k, inst, level, offset, &address, c);
  if (keeps)
    dt__resident_put(k, inst->buffer, offset, &out);
  return out;
}

static dt_lanes_t value_index(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  dt_lanes_t number = dt__index_eval(k, inst->sym);
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  dt__body_at(k, k->inst_level[id]);
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++)
    out.v[c] = dt__emit_cast(k->m, DT_I64, inst->dtype, number.v[c]);
  return out;
}

// The dtype an op computes in: of its last operand, which `where` keeps for its values.
static dt_dtype_t operand_dtype(const dt_body_t *k, const dt_inst_t *inst) {
  uint32_t n = inst->kind == DT_INST_SCALAR ? dt__scalar_info(inst->op)->arity : 1;
  return k->stage->insts.items[inst->args[n - 1]].dtype;
}

// Iterations of the stage's loops deeper than `level`, as far as literals and hints tell; else 0.
static int64_t expected_repeats(dt_body_t *k, uint32_t level) {
  int64_t repeats = 1;
  for (uint32_t j = 0; j < k->stage->n_loops; j++) {
    int64_t extent;
    if (k->stage_level + 1 + j <= level)
      continue;
    if (!dt__sym_hint(k->m->env, k->stage->extents[j], &extent) || extent < 0 ||
        !dt__mul_i64(repeats, extent, &repeats))
      return 0;
  }
  return repeats;
}

// A division costs as much as ten multiplications, so a divisor known further out is inverted
// there, where rows are long enough to pay for it.
static bool divides_repeatedly(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  return inst->kind == DT_INST_SCALAR && inst->op == DT_SCALAR_div && k->inst_varying[id] &&
         dt__dtype_is_float(inst->dtype) && !k->m->target->strict_fp && k->m->target->fma &&
         (k->m->device ? k->inst_level[inst->args[1]] < k->inst_level[id]
                       : expected_repeats(k, k->inst_level[inst->args[1]]) >= 256);
}

// Part `part` of what dt__emit_divisor makes of instruction `arg`, at that instruction's level.
static dt_lanes_t divisor_part(dt_body_t *k, uint32_t arg, uint32_t part) {
  uint32_t level = k->inst_level[arg];
  uint64_t key = inst_key(k, KEY_DIVISOR, arg * 4);
  dt_lanes_t found;
  if (dt__memo_find(k, level, key + part, &found))
    return found;
  dt_lanes_t divisor = dt__inst_value(k, arg), parts[4];
  dt__body_at(k, level);
  for (uint32_t p = 0; p < 4; p++)
    parts[p] = (dt_lanes_t){.varying = divisor.varying};
  for (uint32_t c = 0; c < (divisor.varying ? k->copies : 1); c++) {
    dt_divisor_t by = dt__emit_divisor(k->m, divisor.v[c]);
    parts[0].v[c] = by.divisor;
    parts[1].v[c] = by.reciprocal;
    parts[2].v[c] = by.scale;
    parts[3].v[c] = by.ordinary;
  }
  for (uint32_t p = 0; p < 4; p++)
    dt__memo_put(k, level, key + p, parts[p]);
  return parts[part];
}

static dt_lanes_t value_divide(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  dt_lanes_t out = {.varying = true};
  uint32_t arg = inst->args[1];
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef x = dt__inst_lane(k, inst->args[0], c, true), parts[4];
    for (uint32_t p = 0; p < 4; p++) {
      dt_lanes_t part = divisor_part(k, arg, p);
      parts[p] = dt__lanes_vector(k, &part, c, k->inst_level[arg]);
    }
    dt__body_at(k, k->inst_level[id]);
    dt_divisor_t by = {parts[0], parts[1], parts[2], parts[3]};
    out.v[c] = dt__emit_divide(k->m, x, &by);
  }
  return out;
}

// LLVM takes a mask of a float's sign for fabs, whose sign it knows. On devices fabs of NaN is any
// NaN: there the mask must stay one.
static LLVMValueRef value_bits(dt_body_t *k, dt_dtype_t from, dt_dtype_t to, LLVMValueRef value) {
  dt_emit_t *m = k->m;
  if (m->device && dt__dtype_is_float(from) && !dt__dtype_is_float(to))
    dt__emit_keep_bits(m, LLVMGetBasicBlockParent(LLVMGetInsertBlock(m->b)));
  return LLVMBuildBitCast(m->b, value, dt__emit_like(value, dt__emit_type(m, to)), "");
}

static dt_lanes_t value_scalar(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  uint32_t n = inst->kind == DT_INST_SCALAR ? dt__scalar_info(inst->op)->arity : 1, source = 0;
  if (dt__table_applies(k, id, &source))
    return dt__table_value(k, id, source);
  if (dt__halves_apply(k, id))
    return dt__halves_value(k, id);
  if (divides_repeatedly(k, inst, id))
    return value_divide(k, inst, id);
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  dt_dtype_t dtype = operand_dtype(k, inst);
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++) {
    LLVMValueRef args[3] = {0};
    for (uint32_t a = 0; a < n; a++)
      args[a] = dt__inst_lane(k, inst->args[a], c, out.varying);
    dt__body_at(k, k->inst_level[id]);
    if (inst->kind == DT_INST_CAST)
      out.v[c] = dt__emit_cast(k->m, dtype, inst->dtype, args[0]);
    else if (inst->kind == DT_INST_BITS)
      out.v[c] = value_bits(k, dtype, inst->dtype, args[0]);
    else
      out.v[c] = dt__emit_scalar_op(k->m, inst->op, dtype, args);
  }
  return out;
}

// ---- Checked indices -----------------------------------------------------------------------------------
static LLVMValueRef claim_record(dt_emit_t *m, LLVMValueRef record, LLVMValueRef check) {
  LLVMValueRef swap =
      LLVMBuildAtomicCmpXchg(m->b, record, dt__emit_i64(m, 0), check,
                             LLVMAtomicOrderingAcquireRelease, LLVMAtomicOrderingAcquire, 0);
  return LLVMBuildExtractValue(m->b, swap, 1, "");
}

static void fill_record(dt_emit_t *m, LLVMValueRef record, LLVMValueRef check, LLVMValueRef value,
                        LLVMValueRef extent) {
  (void)check; // the claim
  LLVMBuildStore(m->b, value, dt__emit_offset(m, record, dt__emit_i64(m, 8)));
  LLVMBuildStore(m->b, extent, dt__emit_offset(m, record, dt__emit_i64(m, 16)));
}

// void (record, check + 1, value, extent): whoever claims the record first fills it, so that the
// first failure of a call is kept.
static LLVMValueRef report_function(dt_emit_t *m) {
  if (m->fn_report)
    return m->fn_report;
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMTypeRef params[4] = {m->t_ptr, m->t_i64, m->t_i64, m->t_i64};
  LLVMValueRef fn =
      dt__emit_function(m, "dt_check_failed", LLVMFunctionType(m->t_void, params, 4, 0), false);
  if (m->device)
    dt__emit_noinline(m, fn);
  LLVMBasicBlockRef entry = dt__emit_block(m, fn, "entry"), won = dt__emit_block(m, fn, "won");
  LLVMBasicBlockRef done = dt__emit_block(m, fn, "done");
  LLVMPositionBuilderAtEnd(m->b, entry);
  LLVMValueRef record = LLVMGetParam(fn, 0), check = LLVMGetParam(fn, 1);
  LLVMBuildCondBr(m->b, (m->device ? m->device->claim : claim_record)(m, record, check), won, done);
  LLVMPositionBuilderAtEnd(m->b, won);
  (m->device ? m->device->fill : fill_record)(m, record, check, LLVMGetParam(fn, 2),
                                              LLVMGetParam(fn, 3));
  LLVMBuildBr(m->b, done);
  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMBuildRetVoid(m->b);
  m->fn_report = fn;
  dt__emit_resume(m, at);
  return fn;
}

static void call_report(dt_body_t *k, uint32_t check, LLVMValueRef value, LLVMValueRef extent) {
  dt_emit_t *m = k->m;
  LLVMValueRef fn = report_function(m);
  LLVMValueRef args[4] = {k->record, dt__emit_i64(m, (int64_t)check + 1), value, extent};
  LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

// Devices have no vectors with an index that is computed: those live in memory, which code may come
// to before it has waited for earlier work.
static LLVMValueRef select_first(dt_body_t *k, LLVMValueRef mask, LLVMValueRef vector) {
  dt_emit_t *m = k->m;
  LLVMValueRef first = NULL;
  for (uint32_t i = k->lanes; i-- > 0;) {
    LLVMValueRef at = dt__emit_i64(m, i);
    LLVMValueRef one = LLVMBuildExtractElement(m->b, vector, at, "");
    LLVMValueRef bit = LLVMBuildExtractElement(m->b, mask, at, "");
    first = first ? LLVMBuildSelect(m->b, bit, one, first, "") : one;
  }
  return first;
}

LLVMValueRef dt__lanes_first(dt_body_t *k, LLVMValueRef mask, LLVMValueRef vector) {
  dt_emit_t *m = k->m;
  if (m->device)
    return select_first(k, mask, vector);
  LLVMTypeRef bits = LLVMIntTypeInContext(m->context, k->lanes);
  LLVMTypeRef types[1] = {bits};
  LLVMValueRef args[2] = {LLVMBuildBitCast(m->b, mask, bits, ""), LLVMConstInt(m->t_i1, 0, 0)};
  LLVMValueRef lane = dt__emit_intrinsic(m, "llvm.cttz", types, 1, args, 2);
  lane = k->lanes < 64 ? LLVMBuildZExt(m->b, lane, m->t_i64, "") : lane;
  lane = LLVMBuildAnd(m->b, lane, dt__emit_i64(m, (int64_t)k->lanes - 1), "");
  return LLVMBuildExtractElement(m->b, vector, lane, "");
}

// In a block of its own, taken when a lane is bad; the scope goes on after it.
static void report_bad(dt_body_t *k, const dt_inst_t *inst, uint32_t level, LLVMValueRef bad,
                       LLVMValueRef loaded, LLVMValueRef extent) {
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef failed = dt__emit_block(m, k->fn, "failed");
  LLVMBasicBlockRef next = dt__emit_block(m, k->fn, "checked");
  bool vector = dt__emit_lanes(LLVMTypeOf(bad)) != 0;
  LLVMValueRef any = vector ? dt__emit_intrinsic1(m, "llvm.vector.reduce.or", bad) : bad;
  LLVMBuildCondBr(m->b, any, failed, next);
  LLVMPositionBuilderAtEnd(m->b, failed);
  if (vector) {
    loaded = dt__lanes_first(k, bad, loaded);
    extent = dt__lanes_first(k, bad, extent);
  }
  call_report(k, inst->check, loaded, extent);
  LLVMBuildBr(m->b, next);
  k->scopes[level].block = next;
  dt__body_at(k, level);
}

static dt_lanes_t value_bind(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  dt_emit_t *m = k->m;
  uint32_t level = k->inst_level[id], symbol = 0;
  dt_dtype_t dtype = k->stage->insts.items[inst->args[0]].dtype;
  dt_lanes_t out = {.varying = k->inst_varying[id]}, bound = {.varying = out.varying};
  dt_lanes_t extents = dt__index_eval(k, inst->extent);
  uint32_t extent_level;
  bool extent_varying;
  dt__index_info(k, inst->extent, &extent_level, &extent_varying);
  LLVMValueRef runs = deeper_runs(k, level);
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++) {
    LLVMValueRef raw = dt__inst_lane(k, inst->args[0], c, out.varying);
    LLVMValueRef extent =
        out.varying ? dt__lanes_vector(k, &extents, c, extent_level) : extents.v[0];
    LLVMValueRef wanted =
        inst->mask == DT_NO_INST ? NULL : dt__inst_lane(k, inst->mask, c, out.varying);
    dt__body_at(k, level);
    LLVMValueRef loaded = dt__emit_cast(m, dtype, DT_I64, raw);
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(loaded));
    LLVMValueRef negative = LLVMBuildICmp(m->b, LLVMIntSLT, loaded, zero, "");
    LLVMValueRef wrapped = LLVMBuildAdd(m->b, loaded, extent, "");
    LLVMValueRef value = LLVMBuildSelect(m->b, negative, wrapped, loaded, "");
    LLVMValueRef inside = LLVMBuildICmp(m->b, LLVMIntULT, value, extent, "");
    out.v[c] = and_mask(k, inside, wanted);
    bound.v[c] = LLVMBuildSelect(m->b, out.v[c], value, zero, "");
    if (!dt__inst_checks(inst))
      continue;
    LLVMValueRef bad = and_mask(k, LLVMBuildNot(m->b, inside, ""), wanted);
    if (out.varying && k->masks[c])
      bad = LLVMBuildAnd(m->b, bad, k->masks[c], "");
    if (runs)
      bad = LLVMBuildAnd(m->b, bad, out.varying ? dt__emit_splat(m, runs, k->lanes) : runs, "");
    report_bad(k, inst, level, bad, loaded, extent);
  }
  if (dt__sym_is_symbol(m->env, inst->sym, &symbol) && symbol < k->n_bindings)
    k->bindings[symbol].value = bound;
  dt__memo_put(k, level, inst_key(k, KEY_BOUND, id), bound);
  return out;
}

static dt_lanes_t value_search(dt_body_t *k, const dt_inst_t *inst, uint32_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(&k->m->program, inst->buffer);
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  dt_search_t search = {.dtype = buffer->dtype,
                        .inclusive = inst->inclusive,
                        .base = k->bases[inst->buffer.id - 1],
                        .count = dt__index_scalar(k, buffer->sizes[0]),
                        .stride = dt__index_scalar(k, buffer->strides[0]),
                        .dead = k->dead};
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++) {
    LLVMValueRef wanted = dt__inst_lane(k, inst->args[0], c, out.varying);
    dt__body_at(k, k->inst_level[id]);
    out.v[c] = dt__emit_search(k->m, &search, wanted);
  }
  return out;
}

// Records of hosts and of devices begin with what says that there is a failure; others write it.
static dt_lanes_t value_sound(dt_body_t *k, uint32_t id) {
  dt_emit_t *m = k->m;
  dt_lanes_t out = {0};
  dt__body_at(k, k->inst_level[id]);
  LLVMValueRef check = LLVMBuildLoad2(m->b, m->t_i64, k->record, "");
  LLVMSetVolatile(check, 1);
  out.v[0] = LLVMBuildICmp(m->b, LLVMIntEQ, check, dt__emit_i64(m, 0), "");
  return out;
}
_Static_assert(offsetof(dt_launch_record_t, check) == 0, "where it is read");

static dt_lanes_t make_value(dt_body_t *k, uint32_t id) {
  const dt_inst_t *inst = &k->stage->insts.items[id];
  switch (inst->kind) {
  case DT_INST_CONST: {
    dt_lanes_t literal = {0};
    literal.v[0] = dt__emit_constant(k->m, inst->dtype, inst->value);
    return literal;
  }
  case DT_INST_INDEX:
    return value_index(k, inst, id);
  case DT_INST_LOAD:
    return value_load(k, inst, id);
  case DT_INST_ROW:
    return k->rows[inst->row];
  case DT_INST_BIND:
    return value_bind(k, inst, id);
  case DT_INST_RUNNING:
    return dt__reduction_running(k, inst->row);
  case DT_INST_PRIOR:
    return dt__reduction_prior(k, inst->row);
  case DT_INST_SEARCH:
    return value_search(k, inst, id);
  case DT_INST_SOUND:
    return value_sound(k, id);
  default:
    return value_scalar(k, inst, id);
  }
}

dt_lanes_t dt__inst_value(dt_body_t *k, uint32_t id) {
  uint32_t level = k->inst_level[id];
  uint64_t key = inst_key(k, KEY_INST, id);
  dt_lanes_t value;
  if (dt__memo_find(k, level, key, &value))
    return value;
  value = make_value(k, id);
  dt__memo_put(k, level, key, value);
  return value;
}

void dt__inst_preset(dt_body_t *k, uint32_t inst, LLVMValueRef value) {
  dt_lanes_t preset = {.v = {value}};
  dt__memo_put(k, k->inst_level[inst], inst_key(k, KEY_INST, inst), preset);
}

void dt__stage_binds(dt_body_t *k, uint32_t level) {
  for (uint32_t id = 0; id < k->stage->insts.len; id++)
    if (k->stage->insts.items[id].kind == DT_INST_BIND && k->inst_level[id] == level)
      (void)dt__inst_value(k, id);
}
