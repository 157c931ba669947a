// SPDX-License-Identifier: Apache-2.0
// Which scores a causal mask hides, whatever the data (attention.h). The value that is stored is
// looked at from its end: a choice with -inf on one side hides what its condition says, and what
// the other side hides already. Conditions are comparisons of places, joined by and, or, not:
//
//   where(key <= row + c, score, -inf)      key - row - c <= 0 is seen, from row + c + 1 on nothing
//
// Of several bounds the first is taken.
#include "fuse/attention.h"

#include "runtime/base/dtype.h"

#include <math.h>

#define FAR (INT64_C(1) << 40)

typedef struct bound_t {
  dt_program_t *program;
  const dt_kernel_t *kernel;
  const dt_stage_t *stage;
  dt_sym_t row, key;
} bound_t;

// Of a and b: a <= b, or b <= a (turned), or without their being equal (strict).
static const struct {
  dt_scalar_op_t op;
  bool turned, strict;
} comparisons[] = {{DT_SCALAR_le, false, false},
                   {DT_SCALAR_lt, false, true},
                   {DT_SCALAR_ge, true, false},
                   {DT_SCALAR_gt, true, true}};

static const dt_inst_t *inst_of(const bound_t *b, uint32_t id) {
  return id == DT_NO_INST ? NULL : &b->stage->insts.items[id];
}

// Places and small numbers, added and subtracted: far from where i64 ends.
static bool place_of(const bound_t *b, uint32_t id, dt_sym_t *out) {
  dt_symenv_t *env = b->program->env;
  const dt_inst_t *inst = inst_of(b, id);
  dt_sym_t x, y;
  if (!inst || inst->dtype != DT_I64)
    return false;
  if (inst->kind == DT_INST_INDEX) {
    *out = inst->sym;
    return true;
  }
  if (inst->kind == DT_INST_CONST && inst->value.i > -FAR && inst->value.i < FAR) {
    *out = dt__sym_const(env, inst->value.i);
    return true;
  }
  if (inst->kind != DT_INST_SCALAR || (inst->op != DT_SCALAR_add && inst->op != DT_SCALAR_sub) ||
      !place_of(b, inst->args[0], &x) || !place_of(b, inst->args[1], &y))
    return false;
  *out = inst->op == DT_SCALAR_add ? dt__sym_add(env, x, y) : dt__sym_sub(env, x, y);
  return true;
}

// `e` <= 0 is seen: e = key - row + c, and c is the same for all rows.
static bool of_place(const bound_t *b, dt_sym_t e, dt_sym_t *out) {
  dt_symenv_t *env = b->program->env;
  dt_sym_t coef, rest, c;
  int64_t by = 0;
  if (!dt__sym_linear(env, e, b->key, &coef, &rest) || !dt__sym_is_const(env, coef, &by) ||
      by != 1 || !dt__sym_linear(env, rest, b->row, &coef, &c) ||
      !dt__sym_is_const(env, coef, &by) || by != -1)
    return false;
  for (uint32_t i = 0; i < b->kernel->n_loops; i++)
    if (dt__sym_depends(env, c, b->kernel->vars[i]))
      return false;
  *out = dt__sym_sub(env, dt__sym_const(env, 1), c);
  return true;
}

static bool of_comparison(const bound_t *b, const dt_inst_t *inst, bool seen, dt_sym_t *out) {
  dt_symenv_t *env = b->program->env;
  for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
    if (inst->op != comparisons[i].op)
      continue;
    dt_sym_t x, y;
    if (!place_of(b, inst->args[0], &x) || !place_of(b, inst->args[1], &y))
      return false;
    // Where it does not hold the other way holds, and equal ones change sides.
    bool turned = comparisons[i].turned == seen, strict = comparisons[i].strict == seen;
    dt_sym_t e = turned ? dt__sym_sub(env, y, x) : dt__sym_sub(env, x, y);
    return of_place(b, strict ? dt__sym_add(env, e, dt__sym_const(env, 1)) : e, out);
  }
  return false;
}

// Scores are seen where the condition is `seen`.
static bool of_condition(const bound_t *b, uint32_t id, bool seen, dt_sym_t *out) {
  const dt_inst_t *inst = inst_of(b, id);
  if (!inst || inst->kind != DT_INST_SCALAR)
    return false;
  if (inst->op == DT_SCALAR_logical_not)
    return of_condition(b, inst->args[0], !seen, out);
  if (inst->op == (seen ? DT_SCALAR_logical_and : DT_SCALAR_logical_or))
    return of_condition(b, inst->args[0], seen, out) || of_condition(b, inst->args[1], seen, out);
  return of_comparison(b, inst, seen, out);
}

// A number or a cast of a type that has infinities.
static bool is_real(const dt_inst_t *inst, dt_inst_kind_t kind) {
  return inst && inst->kind == kind && dt__dtype_is_float(inst->dtype) &&
         !dt__dtype_is_low(inst->dtype);
}

static bool is_none(const bound_t *b, uint32_t id) {
  const dt_inst_t *inst = inst_of(b, id);
  while (is_real(inst, DT_INST_CAST))
    inst = inst_of(b, inst->args[0]);
  return is_real(inst, DT_INST_CONST) && isinf(inst->value.f) && inst->value.f < 0;
}

static bool of_value(const bound_t *b, uint32_t id, dt_sym_t *out) {
  const dt_inst_t *inst = inst_of(b, id);
  if (is_real(inst, DT_INST_CAST))
    return of_value(b, inst->args[0], out);
  if (!inst || inst->kind != DT_INST_SCALAR || inst->op != DT_SCALAR_where)
    return false;
  for (uint32_t side = 1; side <= 2; side++)
    if (is_none(b, inst->args[side]) &&
        (of_condition(b, inst->args[0], side == 2, out) || of_value(b, inst->args[3 - side], out)))
      return true;
  return false;
}

bool dt__attention_bound(dt_program_t *program, const dt_attention_t *a, dt_sym_t *out) {
  for (uint32_t i = 1; i < a->score->stages.len; i++) {
    const dt_stage_t *stage = &a->score->stages.items[i];
    const bound_t b = {program, a->score, stage, a->first.m, a->first.n};
    if (stage->stores.len)
      return of_value(&b, stage->stores.items[0].value, out);
  }
  return false;
}
