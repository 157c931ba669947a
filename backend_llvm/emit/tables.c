// SPDX-License-Identifier: Apache-2.0
// See tables.h. Quantised activations are such: x is dequantised, goes through sigmoid or erf and
// divisions, and is quantised again.
//
//   v1 u8 ─► cast f32 ─► - 117 ─► * s ─┬─► sigmoid ─► / t ─► … ─► cast u8 ─► cast f32 ─► * t ─┐
//                                      └──────────────────────────────────────────────────── * ─► …
//
// Where all ways from a result lead to one integer of 8 bits, everything between depends on it
// alone, and is computed here, once for each of its 256 values, by the definitions of the ops.
// Lanes take their element by two permutations of 128 bytes each.
#include "backend_llvm/emit/tables.h"
#include "backend_llvm/emit/insts.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"

#define VALUES 256
#define MOST_INSTS 96   // between the two
#define LEAST_COST 12   // of them all (dt__scalar_info_t.cost): what finding them costs
#define TABLE_BYTES 64u // of a vector

static bool is_byte(dt_dtype_t dtype) { return dtype == DT_U8 || dtype == DT_I8; }

// What is computed, each instruction behind those that use it; their operands are others, literals
// or the source.
typedef struct ways_t {
  uint32_t insts[MOST_INSTS];
  uint32_t n, cost;
} ways_t;

static bool is_op(const dt_inst_t *inst) {
  return (inst->kind == DT_INST_SCALAR || inst->kind == DT_INST_CAST ||
          inst->kind == DT_INST_BITS) &&
         !dt__dtype_is_half(inst->dtype);
}

// The instructions that the search has reached, in their order; ids of operands are lower.
typedef struct front_t {
  uint32_t ids[MOST_INSTS];
  uint32_t n;
} front_t;

static bool put(front_t *front, uint32_t id) {
  uint32_t at = front->n;
  while (at > 0 && front->ids[at - 1] >= id)
    at--;
  if (at < front->n && front->ids[at] == id)
    return true;
  if (front->n == MOST_INSTS)
    return false;
  for (uint32_t i = front->n++; i > at; i--)
    front->ids[i] = front->ids[i - 1];
  front->ids[at] = id;
  return true;
}

// Goes back from `id`; where one integer of 8 bits is all that is left, it may be the source. The
// last such one is.
static bool search(const dt_stage_t *stage, uint32_t id, ways_t *ways, uint32_t *out_source) {
  front_t front = {.ids = {id}, .n = 1};
  uint32_t n = 0, cost = 0;
  ways->n = 0;
  while (front.n > 0 && n < MOST_INSTS) {
    uint32_t at = front.ids[--front.n];
    const dt_inst_t *inst = &stage->insts.items[at];
    if (front.n == 0 && n > 0 && is_byte(inst->dtype)) {
      ways->n = n;
      ways->cost = cost;
      *out_source = at;
    }
    if (!is_op(inst))
      break;
    ways->insts[n++] = at;
    cost += inst->kind == DT_INST_SCALAR ? dt__scalar_info(inst->op)->cost : 1;
    for (uint32_t a = 0; a < 3; a++)
      if (inst->args[a] != DT_NO_INST && stage->insts.items[inst->args[a]].kind != DT_INST_CONST &&
          !put(&front, inst->args[a]))
        return ways->n > 0;
  }
  return ways->n > 0;
}

bool dt__table_applies(const dt_body_t *k, uint32_t id, uint32_t *out_source) {
  const dt_inst_t *inst = &k->stage->insts.items[id];
  const dt_target_t *target = k->m->target;
  ways_t ways;
  return target->byte_tables && !target->strict_fp && inst->kind == DT_INST_CAST &&
         is_byte(inst->dtype) && search(k->stage, id, &ways, out_source) && ways.cost >= LEAST_COST;
}

// ---- What the table holds ---------------------------------------------------------------------------
typedef struct known_t {
  uint32_t id;
  dt_scalar_t value;
} known_t;

static dt_scalar_t rounded(dt_dtype_t dtype, dt_scalar_t value) {
  if (dtype == DT_F32)
    value.f = (double)(float)value.f;
  return value;
}

static dt_scalar_t value_of(const dt_stage_t *stage, const known_t *known, uint32_t n,
                            uint32_t id) {
  if (stage->insts.items[id].kind == DT_INST_CONST)
    return stage->insts.items[id].value;
  while (n > 1 && known[n - 1].id != id)
    n--;
  return known[n - 1].value;
}

static dt_scalar_t compute(const dt_stage_t *stage, const known_t *known, uint32_t n,
                           const dt_inst_t *inst) {
  dt_scalar_t args[3] = {{0}};
  dt_dtype_t dtype = DT_DTYPE_NONE; // of the last operand, which `where` keeps for its values
  for (uint32_t a = 0; a < 3 && inst->args[a] != DT_NO_INST; a++) {
    args[a] = value_of(stage, known, n, inst->args[a]);
    dtype = stage->insts.items[inst->args[a]].dtype;
  }
  if (inst->kind == DT_INST_CAST)
    return rounded(inst->dtype, dt__scalar_cast(dtype, inst->dtype, args[0]));
  if (inst->kind == DT_INST_BITS)
    return dt__scalar_bits(dtype, inst->dtype, args[0]);
  return rounded(inst->dtype, dt__scalar_eval(inst->op, dtype, args));
}

static void fill(const dt_stage_t *stage, const ways_t *ways, uint32_t source,
                 uint8_t table[VALUES]) {
  known_t known[MOST_INSTS + 1];
  dt_dtype_t dtype = stage->insts.items[source].dtype;
  for (uint32_t i = 0; i < VALUES; i++) {
    uint8_t bits = (uint8_t)i;
    known[0] = (known_t){source, dt__scalar_load(dtype, &bits)};
    for (uint32_t w = 0; w < ways->n; w++) {
      uint32_t id = ways->insts[ways->n - 1 - w];
      known[w + 1] = (known_t){id, compute(stage, known, w + 1, &stage->insts.items[id])};
    }
    table[i] = (uint8_t)known[ways->n].value.i;
  }
}

// ---- Code -------------------------------------------------------------------------------------------
static void constants(dt_emit_t *m, const uint8_t table[VALUES], LLVMValueRef out[4]) {
  LLVMValueRef bytes[TABLE_BYTES];
  for (uint32_t v = 0; v < 4; v++) {
    for (uint32_t i = 0; i < TABLE_BYTES; i++)
      bytes[i] = LLVMConstInt(m->t_i8, table[v * TABLE_BYTES + i], 0);
    out[v] = LLVMConstVector(bytes, TABLE_BYTES);
  }
}

// As a vector of 64, whose first lanes `value` has.
static LLVMValueRef widened(dt_emit_t *m, LLVMValueRef value, uint32_t lanes) {
  LLVMValueRef order[TABLE_BYTES];
  if (!lanes)
    return LLVMBuildInsertElement(m->b, LLVMGetPoison(LLVMVectorType(m->t_i8, TABLE_BYTES)), value,
                                  dt__emit_i64(m, 0), "");
  for (uint32_t i = 0; i < TABLE_BYTES; i++)
    order[i] = i < lanes ? dt__emit_i32(m, i) : LLVMGetPoison(m->t_i32);
  return LLVMBuildShuffleVector(m->b, value, LLVMGetPoison(LLVMTypeOf(value)),
                                LLVMConstVector(order, TABLE_BYTES), "");
}

static LLVMValueRef narrowed(dt_emit_t *m, LLVMValueRef value, uint32_t lanes) {
  LLVMValueRef order[TABLE_BYTES];
  if (!lanes)
    return LLVMBuildExtractElement(m->b, value, dt__emit_i64(m, 0), "");
  for (uint32_t i = 0; i < lanes; i++)
    order[i] = dt__emit_i32(m, i);
  return LLVMBuildShuffleVector(m->b, value, LLVMGetPoison(LLVMTypeOf(value)),
                                LLVMConstVector(order, lanes), "");
}

// table[value] of each lane: its upper bit says which half, the others where in it.
static LLVMValueRef find(dt_emit_t *m, LLVMValueRef const parts[4], LLVMValueRef value,
                         uint32_t lanes) {
  LLVMValueRef at = widened(m, value, lanes), halves[2];
  for (uint32_t h = 0; h < 2; h++) {
    LLVMValueRef args[3] = {parts[2 * h], at, parts[2 * h + 1]};
    halves[h] = dt__emit_intrinsic(m, "llvm.x86.avx512.vpermi2var.qi.512", NULL, 0, args, 3);
  }
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(at));
  LLVMValueRef upper = LLVMBuildICmp(m->b, LLVMIntSLT, at, zero, "");
  return narrowed(m, LLVMBuildSelect(m->b, upper, halves[1], halves[0], ""), lanes);
}

dt_lanes_t dt__table_value(dt_body_t *k, uint32_t id, uint32_t source) {
  dt_emit_t *m = k->m;
  ways_t ways;
  uint8_t table[VALUES];
  LLVMValueRef parts[4];
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  (void)search(k->stage, id, &ways, &source);
  fill(k->stage, &ways, source, table);
  constants(m, table, parts);
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++) {
    LLVMValueRef value = dt__inst_lane(k, source, c, out.varying);
    dt__body_at(k, k->inst_level[id]);
    out.v[c] = find(m, parts, value, out.varying ? k->lanes : 0);
  }
  return out;
}
