// SPDX-License-Identifier: Apache-2.0
// See halves.h. The program computes in f32 and rounds: cast(op(cast a, cast b)). With p digits
// of a half, the 24 of f32 are 2 p + 2 or more, so rounding a sum, a difference or a product to
// f32 first changes nothing (Figueroa, When is double rounding innocuous, 1995). f32 has all
// digits of f16's subnormals. Those of bf16 are at f32's own end, where f32 goes on for 16 bits:
// sums have no bits below them, and a product, of 16 digits at most, that has some is less than
// half of the last place of bf16, so both ways give zero. Maximum, minimum, neg and abs give a
// half as it is.
#include "backend_llvm/emit/halves.h"
#include "backend_llvm/emit/insts.h"

#define MOST_NESTED 4 // ops that give a half, under the one whose result is rounded

static const dt_inst_t *at(const dt_body_t *k, uint32_t id) { return &k->stage->insts.items[id]; }

static bool keeps_halves(dt_scalar_op_t op) {
  return op == DT_SCALAR_neg || op == DT_SCALAR_abs || op == DT_SCALAR_maximum ||
         op == DT_SCALAR_minimum;
}

static bool rounds_once(dt_scalar_op_t op) {
  return keeps_halves(op) || op == DT_SCALAR_add || op == DT_SCALAR_sub || op == DT_SCALAR_mul;
}

static bool is_literal(const dt_inst_t *inst, dt_dtype_t half) {
  return inst->kind == DT_INST_CONST &&
         dt__scalar_cast(DT_F32, half, inst->value).f == inst->value.f;
}

// Whether an f32 is a half of that dtype by its making.
static bool is_half(const dt_body_t *k, uint32_t id, dt_dtype_t half, uint32_t nested) {
  const dt_inst_t *inst = at(k, id);
  if (inst->kind == DT_INST_CAST)
    return at(k, inst->args[0])->dtype == half;
  if (inst->kind != DT_INST_SCALAR)
    return is_literal(inst, half);
  if (inst->dtype != DT_F32 || !keeps_halves(inst->op) || nested == MOST_NESTED)
    return false;
  for (uint32_t a = 0; a < dt__scalar_info(inst->op)->arity; a++)
    if (!is_half(k, inst->args[a], half, nested + 1))
      return false;
  return true;
}

bool dt__halves_apply(const dt_body_t *k, uint32_t id) {
  const dt_inst_t *cast = at(k, id), *op;
  if (!k->m->device || !k->m->device->halves || cast->kind != DT_INST_CAST ||
      !dt__dtype_is_half(cast->dtype))
    return false;
  op = at(k, cast->args[0]);
  if (op->kind != DT_INST_SCALAR || op->dtype != DT_F32 || !rounds_once(op->op))
    return false;
  for (uint32_t a = 0; a < dt__scalar_info(op->op)->arity; a++)
    if (!is_half(k, op->args[a], cast->dtype, 0))
      return false;
  return true;
}

static LLVMValueRef as(dt_emit_t *m, LLVMValueRef value, LLVMTypeRef scalar) {
  return LLVMBuildBitCast(m->b, value, dt__emit_like(value, scalar), "");
}

static LLVMValueRef half_lane(dt_body_t *k, uint32_t id, dt_dtype_t half, uint32_t c, bool vector);

// Made where instruction `id` stands.
static LLVMValueRef apply(dt_body_t *k, const dt_inst_t *op, uint32_t id, dt_dtype_t half,
                          uint32_t c, bool vector) {
  dt_emit_t *m = k->m;
  LLVMTypeRef type =
      half == DT_F16 ? LLVMHalfTypeInContext(m->context) : LLVMBFloatTypeInContext(m->context);
  LLVMValueRef args[3] = {0};
  uint32_t n = dt__scalar_info(op->op)->arity;
  for (uint32_t a = 0; a < n; a++)
    args[a] = half_lane(k, op->args[a], half, c, vector);
  dt__body_at(k, k->inst_level[id]);
  for (uint32_t a = 0; a < n; a++)
    args[a] = as(m, args[a], type);
  return as(m, dt__emit_scalar_op(m, op->op, half, args), m->t_i16);
}

// The bits of what is_half says is one: lane by lane in copy c, or a scalar.
static LLVMValueRef half_lane(dt_body_t *k, uint32_t id, dt_dtype_t half, uint32_t c, bool vector) {
  const dt_inst_t *inst = at(k, id);
  if (inst->kind == DT_INST_CAST)
    return dt__inst_lane(k, inst->args[0], c, vector);
  if (inst->kind == DT_INST_SCALAR)
    return apply(k, inst, id, half, c, vector);
  LLVMValueRef literal = dt__emit_constant(k->m, half, inst->value);
  return vector ? dt__emit_splat(k->m, literal, k->lanes) : literal;
}

dt_lanes_t dt__halves_value(dt_body_t *k, uint32_t id) {
  const dt_inst_t *cast = at(k, id);
  dt_lanes_t out = {.varying = k->inst_varying[id]};
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++)
    out.v[c] = apply(k, at(k, cast->args[0]), id, cast->dtype, c, out.varying);
  return out;
}
