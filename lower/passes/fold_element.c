// SPDX-License-Identifier: Apache-2.0
// Fold rules of single elements: literals, casts, identities of arithmetic and logic.
#include "lower/passes/fold.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <float.h>
#include <math.h>

static bool is_float(const dt_folding_t *f) { return dt__dtype_is_float(f->node->dtype); }

static bool same(const dt_folding_t *f, uint32_t a, uint32_t b) {
  return f->node->inputs[a].id == f->node->inputs[b].id;
}

// ---- Literals -----------------------------------------------------------------------------------------
// Rounded to the node's dtype, as code would round it. NaN stays computed: which one a processor
// gives is its own affair.
dt_status_t dt__fold_ew_scalars(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *node = f->node;
  const dt_op_info_t *info = dt__op_info(node->op);
  if (info->lower != DT_LOWER_ew && info->lower != DT_LOWER_part && info->lower != DT_LOWER_cast)
    return NULL;
  dt_scalar_t args[3] = {{.i = 0}}, value;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!dt__fold_literal(f, node->inputs[k], &args[k]))
      return NULL;
  dt_dtype_t operand = dt__fold_input(f, node->op == DT_OP_where ? 1 : 0)->dtype;
  if (info->lower == DT_LOWER_cast)
    value = dt__scalar_cast(operand, node->dtype, args[0]);
  else
    value = dt__scalar_eval(info->scalar, operand, args);
  if (is_float(f)) {
    value = dt__scalar_cast(DT_F64, node->dtype, value);
    if (isnan(value.f))
      return NULL;
  }
  return dt__fold_full(f, value, out);
}

dt_status_t dt__fold_literal_right(dt_folding_t *f, dt_node_id_t *out) {
  dt_scalar_t value;
  const dt_node_t *node = f->node;
  if (!(dt__op_info(node->op)->flags & DT_OPF_COMM) || node->n_inputs != 2 ||
      !dt__fold_literal(f, node->inputs[0], &value) || dt__fold_literal(f, node->inputs[1], &value))
    return NULL;
  dt_node_id_t swapped[2] = {node->inputs[1], node->inputs[0]};
  return dt__fold_push(f, node->op, swapped, 2, node->attrs, out);
}

dt_status_t dt__fold_size_literal(dt_folding_t *f, dt_node_id_t *out) {
  dt_symenv_t *env = f->rw->to->env;
  dt_scalar_t value;
  if (!dt__sym_is_const(env, dt__sym_simplify(env, f->node->attrs->syms[0]), &value.i))
    return NULL;
  return dt__fold_full(f, value, out);
}

dt_status_t dt__fold_where_known(dt_folding_t *f, dt_node_id_t *out) {
  dt_scalar_t cond;
  if (dt__fold_literal(f, f->node->inputs[0], &cond))
    *out = f->node->inputs[cond.i ? 1 : 2];
  return NULL;
}

dt_status_t dt__fold_where_same(dt_folding_t *f, dt_node_id_t *out) {
  if (same(f, 1, 2))
    *out = f->node->inputs[1];
  return NULL;
}

// ---- Casts ----------------------------------------------------------------------------------------------
dt_status_t dt__fold_cast_same(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_input(f, 0)->dtype == f->node->dtype)
    *out = f->node->inputs[0];
  return NULL;
}

// Binary digits of a float dtype, and one more than its largest exponent.
typedef struct float_limits_t {
  uint32_t digits;
  int most;
} float_limits_t;
static float_limits_t float_limits(dt_dtype_t dtype) {
  static const float_limits_t limits[DT_DTYPE_END] = {[DT_F16] = {11, 16},
                                                      [DT_BF16] = {8, FLT_MAX_EXP},
                                                      [DT_F32] = {FLT_MANT_DIG, FLT_MAX_EXP},
                                                      [DT_F64] = {DBL_MANT_DIG, DBL_MAX_EXP}};
  return limits[dtype];
}

// Bits of the integers that a dtype holds without loss; 0 for none.
static uint32_t whole_bits(dt_dtype_t dtype) {
  uint32_t bits = (uint32_t)dt_dtype_size(dtype) * 8;
  switch (dt__dtype_kind(dtype)) {
  case DT_KIND_BOOL:
    return 1;
  case DT_KIND_UINT:
    return bits;
  case DT_KIND_SINT:
    return bits - 1;
  case DT_KIND_FLOAT:
    return float_limits(dtype).digits;
  default:
    return 0;
  }
}

// Every value of `from` is one of `to`.
static bool holds_all(dt_dtype_t from, dt_dtype_t to) {
  if (dt__dtype_is_bool(to) || whole_bits(from) > whole_bits(to))
    return from == to;
  if (dt__dtype_is_float(from))
    return dt__dtype_is_float(to) && float_limits(from).most <= float_limits(to).most;
  return !dt__dtype_is_signed(from) || dt__dtype_is_signed(to);
}

// Integers wrap where floats saturate, so an integer must not lose its way through a float.
dt_status_t dt__fold_cast_cast(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *middle = dt__fold_input(f, 0);
  if (middle->op != DT_OP_cast)
    return NULL;
  dt_node_id_t x = middle->inputs[0];
  dt_dtype_t from = dt__fold_node(f, x)->dtype;
  bool detour = dt__dtype_is_float(middle->dtype) && !dt__dtype_is_float(from) && !is_float(f);
  if (detour || !holds_all(from, middle->dtype))
    return NULL;
  return dt__fold_push(f, DT_OP_cast, &x, 1, f->node->attrs, out);
}

// ---- One operand ------------------------------------------------------------------------------------------
dt_status_t dt__fold_inverse(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = dt__fold_input(f, 0);
  if (x->op == f->node->op)
    *out = x->inputs[0];
  return NULL;
}

dt_status_t dt__fold_idempotent(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_input(f, 0)->op == f->node->op)
    *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_abs_neg(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = dt__fold_input(f, 0);
  if (x->op != DT_OP_neg)
    return NULL;
  dt_node_id_t inner = x->inputs[0];
  return dt__fold_push(f, DT_OP_abs, &inner, 1, f->node->attrs, out);
}

dt_status_t dt__fold_whole(dt_folding_t *f, dt_node_id_t *out) {
  dt_op_t op = dt__fold_input(f, 0)->op;
  if (op == DT_OP_floor || op == DT_OP_ceil || op == DT_OP_trunc || op == DT_OP_round)
    *out = f->node->inputs[0];
  return NULL;
}

// ---- Two operands -------------------------------------------------------------------------------------------
dt_status_t dt__fold_same_operands(dt_folding_t *f, dt_node_id_t *out) {
  if (same(f, 0, 1))
    *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_minus_zero_right(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_is(f, f->node->inputs[1], -0.0))
    *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_zero_right(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_is(f, f->node->inputs[1], 0.0))
    *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_one_right(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_is(f, f->node->inputs[1], 1.0))
    *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_one_left(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_is(f, f->node->inputs[0], 1.0))
    *out = f->node->inputs[1];
  return NULL;
}

dt_status_t dt__fold_sub_same(dt_folding_t *f, dt_node_id_t *out) {
  return same(f, 0, 1) ? dt__fold_whole_full(f, 0, out) : NULL;
}

dt_status_t dt__fold_mul_zero(dt_folding_t *f, dt_node_id_t *out) {
  if (dt__fold_is(f, f->node->inputs[1], 0.0))
    *out = f->node->inputs[1];
  return NULL;
}

// Exact where both the divisor and its reciprocal are normal numbers: the same real number is
// rounded.
dt_status_t dt__fold_div_power(dt_folding_t *f, dt_node_id_t *out) {
  dt_scalar_t by;
  int exponent = 0;
  if (!dt__fold_literal(f, f->node->inputs[1], &by) || !isfinite(by.f) ||
      fabs(frexp(by.f, &exponent)) != 0.5)
    return NULL;
  int most = float_limits(f->node->dtype).most;
  if (exponent < 4 - most || exponent > most - 2)
    return NULL;
  dt_node_id_t in[2] = {f->node->inputs[0]};
  DT_TRY(dt__fold_full(f, (dt_scalar_t){.f = 1.0 / by.f}, &in[1]));
  return dt__fold_push(f, DT_OP_mul, in, 2, f->node->attrs, out);
}

dt_status_t dt__fold_pow_zero(dt_folding_t *f, dt_node_id_t *out) {
  if (!dt__fold_is(f, f->node->inputs[1], 0.0) && !dt__fold_is(f, f->node->inputs[1], -0.0))
    return NULL;
  return dt__fold_whole_full(f, 1, out);
}

dt_status_t dt__fold_pow_two(dt_folding_t *f, dt_node_id_t *out) {
  if (!dt__fold_is(f, f->node->inputs[1], 2.0))
    return NULL;
  dt_node_id_t in[2] = {f->node->inputs[0], f->node->inputs[0]};
  return dt__fold_push(f, DT_OP_mul, in, 2, f->node->attrs, out);
}

dt_status_t dt__fold_pow_minus_one(dt_folding_t *f, dt_node_id_t *out) {
  if (!dt__fold_is(f, f->node->inputs[1], -1.0))
    return NULL;
  return dt__fold_push(f, DT_OP_reciprocal, f->node->inputs, 1, f->node->attrs, out);
}

// The literal that leaves the other operand as it is, and the one that decides.
static dt_status_t fold_junction(dt_folding_t *f, bool neutral, dt_node_id_t *out) {
  dt_scalar_t value;
  if (dt__fold_literal(f, f->node->inputs[1], &value))
    *out = f->node->inputs[(value.i != 0) == neutral ? 0 : 1];
  return NULL;
}

dt_status_t dt__fold_and_literal(dt_folding_t *f, dt_node_id_t *out) {
  return fold_junction(f, true, out);
}

dt_status_t dt__fold_or_literal(dt_folding_t *f, dt_node_id_t *out) {
  return fold_junction(f, false, out);
}
