// SPDX-License-Identifier: Apache-2.0
// Symbolic expressions to 64-bit integer code. Each is computed once, at the outermost level where
// its symbols are known. Expressions linear in the lane variable are a scalar plus a constant ramp;
// others are computed lane by lane. Addresses of accesses follow from the same analysis.
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/body.h"

// Keys of the memo: what kind of thing, in which stage (level 0: any), and which.
enum { KEY_EXPR = 1, KEY_SPLAT = 2 };

static uint64_t expr_key(const dt_body_t *k, uint32_t level, dt_sym_t e) {
  uint64_t stage = level ? k->stage_index + 1 : 0;
  return (uint64_t)KEY_EXPR << 56 | stage << 32 | e.id;
}

// Kernels take parameters; host programs, which are no kernel's, know what they are.
static void bind_parameter(dt_body_t *k, uint32_t symbol) {
  dt_symbol_info_t info = dt__symbol_info(k->m->env, symbol);
  if (!k->kernel && info.kind == DT_SYMBOL_PARAMETER)
    dt__bind_uniform(k, symbol, 0, dt__emit_i64(k->m, info.hint));
}

void dt__index_info(dt_body_t *k, dt_sym_t e, uint32_t *level, bool *varying) {
  uint32_t few[64], *symbols = few;
  uint32_t n = dt__sym_symbols(k->m->env, e, few, 64);
  *level = 0;
  *varying = false;
  if (n > 64) {
    symbols = DT_ARENA_ARRAY(&k->m->arena, uint32_t, n);
    if (!symbols) {
      dt__emit_fail(k->m, DT_NO_MEMORY());
      return;
    }
    (void)dt__sym_symbols(k->m->env, e, symbols, n);
  }
  for (uint32_t i = 0; i < n; i++) {
    const dt_binding_t *binding = symbols[i] < k->n_bindings ? &k->bindings[symbols[i]] : NULL;
    if (binding && !binding->bound)
      bind_parameter(k, symbols[i]);
    if (!binding || !binding->bound) {
      dt_text_t text;
      dt__text_init(&text);
      dt__sym_print(k->m->env, e, &text);
      dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL,
                                  "loop IR: kernel %s uses a symbol that nothing defines in '%s'",
                                  k->kernel ? k->kernel->name : "", dt__text_str(&text)));
      dt__text_fini(&text);
      continue;
    }
    if (binding->level > *level)
      *level = binding->level;
    *varying |= binding->varying;
  }
}

// ---- Operations ----------------------------------------------------------------------------------------
static LLVMValueRef either(dt_body_t *k, LLVMValueRef a, LLVMValueRef b) {
  return !a ? b : !b ? a : LLVMBuildOr(k->m->b, a, b, "");
}

static void note_none(dt_body_t *k, LLVMValueRef bit) {
  k->overflow.none = either(k, k->overflow.none, bit);
}

static LLVMValueRef arithmetic(dt_body_t *k, bool product, LLVMValueRef a, LLVMValueRef b) {
  dt_emit_t *m = k->m;
  if (!k->overflow.checks)
    return product ? LLVMBuildMul(m->b, a, b, "") : LLVMBuildAdd(m->b, a, b, "");
  LLVMTypeRef type = m->t_i64;
  LLVMValueRef args[2] = {a, b};
  LLVMValueRef pair = dt__emit_intrinsic(
      m, product ? "llvm.smul.with.overflow" : "llvm.sadd.with.overflow", &type, 1, args, 2);
  note_none(k, LLVMBuildExtractValue(m->b, pair, 1, ""));
  return LLVMBuildExtractValue(m->b, pair, 0, "");
}

LLVMValueRef dt__index_sum(dt_body_t *k, LLVMValueRef a, LLVMValueRef b) {
  return arithmetic(k, false, a, b);
}

LLVMValueRef dt__index_product(dt_body_t *k, LLVMValueRef a, LLVMValueRef b) {
  return arithmetic(k, true, a, b);
}

// A divisor that a hoisted expression may meet as 0 (its loop then has no iteration) must not trap.
static LLVMValueRef safe_divisor(dt_body_t *k, dt_sym_t e, LLVMValueRef b) {
  dt_emit_t *m = k->m;
  if (dt__sym_range(m->env, e).lo >= 1)
    return b;
  LLVMValueRef zero = LLVMBuildICmp(m->b, LLVMIntEQ, b, LLVMConstNull(LLVMTypeOf(b)), "");
  return LLVMBuildSelect(m->b, zero, dt__emit_int(LLVMTypeOf(b), 1), b, "");
}

// A vector of one literal, a power of two: division is a shift.
static bool is_power(LLVMValueRef b) {
  LLVMValueRef each = LLVMIsConstant(b) ? LLVMGetAggregateElement(b, 0) : NULL;
  if (!each || !LLVMIsAConstantInt(each))
    return false;
  for (uint32_t i = 1; i < dt__emit_lanes(LLVMTypeOf(b)); i++)
    if (LLVMGetAggregateElement(b, i) != each)
      return false;
  int64_t value = LLVMConstIntGetSExtValue(each);
  return value > 0 && (value & (value - 1)) == 0;
}

// Both known not to be negative: one unsigned division. Vectors have none of 64 bits; where the
// dividend is below 2^51 the quotient of doubles, truncated, is exact.
static LLVMValueRef divide_unsigned(dt_body_t *k, bool rest, dt_range_t range, LLVMValueRef a,
                                    LLVMValueRef b) {
  dt_emit_t *m = k->m;
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(a));
  if (lanes && range.hi < (int64_t)1 << 31 && LLVMIsConstant(b)) {
    LLVMTypeRef narrow = LLVMVectorType(m->t_i32, lanes);
    LLVMValueRef x = LLVMBuildTrunc(m->b, a, narrow, ""), y = LLVMBuildTrunc(m->b, b, narrow, "");
    LLVMValueRef q = rest ? LLVMBuildURem(m->b, x, y, "") : LLVMBuildUDiv(m->b, x, y, "");
    return LLVMBuildZExt(m->b, q, LLVMTypeOf(a), "");
  }
  if (lanes && is_power(b))
    return rest ? LLVMBuildURem(m->b, a, b, "") : LLVMBuildUDiv(m->b, a, b, "");
  if (lanes && range.hi < (int64_t)1 << 51) {
    LLVMTypeRef real = LLVMVectorType(m->t_f64, lanes);
    LLVMValueRef x = LLVMBuildSIToFP(m->b, a, real, ""), y = LLVMBuildSIToFP(m->b, b, real, "");
    LLVMValueRef q = LLVMBuildFPToSI(m->b, LLVMBuildFDiv(m->b, x, y, ""), LLVMTypeOf(a), "");
    return rest ? LLVMBuildSub(m->b, a, LLVMBuildMul(m->b, q, b, ""), "") : q;
  }
  return rest ? LLVMBuildURem(m->b, a, b, "") : LLVMBuildUDiv(m->b, a, b, "");
}

// Rounds to minus infinity; the rest has the divisor's sign.
static LLVMValueRef divide_signed(dt_body_t *k, bool rest, LLVMValueRef a, LLVMValueRef b) {
  dt_emit_t *m = k->m;
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef zero = LLVMConstNull(type);
  LLVMValueRef minus = LLVMBuildICmp(m->b, LLVMIntEQ, b, dt__emit_int(type, -1), "");
  LLVMValueRef safe = LLVMBuildSelect(m->b, minus, dt__emit_int(type, 1), b, "");
  LLVMValueRef q = LLVMBuildSDiv(m->b, a, safe, ""), r = LLVMBuildSRem(m->b, a, safe, "");
  LLVMValueRef nonzero = LLVMBuildICmp(m->b, LLVMIntNE, r, zero, "");
  LLVMValueRef signs = LLVMBuildXor(m->b, r, safe, "");
  LLVMValueRef differ = LLVMBuildICmp(m->b, LLVMIntSLT, signs, zero, "");
  LLVMValueRef adjust = LLVMBuildAnd(m->b, nonzero, differ, "");
  if (rest) {
    LLVMValueRef moved = LLVMBuildAdd(m->b, r, safe, "");
    r = LLVMBuildSelect(m->b, adjust, moved, r, "");
    return LLVMBuildSelect(m->b, minus, zero, r, "");
  }
  LLVMValueRef down = LLVMBuildSub(m->b, q, dt__emit_int(type, 1), "");
  q = LLVMBuildSelect(m->b, adjust, down, q, "");
  return LLVMBuildSelect(m->b, minus, LLVMBuildNeg(m->b, a, ""), q, "");
}

static LLVMValueRef truth(dt_body_t *k, LLVMValueRef value) {
  return LLVMBuildICmp(k->m->b, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

static LLVMValueRef as_number(dt_body_t *k, LLVMValueRef bit) {
  return LLVMBuildZExt(k->m->b, bit, dt__emit_like(bit, k->m->t_i64), "");
}

// What an operation knows of its operands besides their values.
typedef struct operands_t {
  const dt_sym_t *exprs;
  LLVMValueRef *v;
  const dt_lanes_t *args; // whether they have no value
  uint32_t n;
} operands_t;

static LLVMValueRef none_of(dt_body_t *k, const operands_t *o, uint32_t i) {
  return o->args[i].none ? o->args[i].none : LLVMConstNull(k->m->t_i1);
}

static LLVMValueRef any_none(dt_body_t *k, const operands_t *o) {
  LLVMValueRef any = NULL;
  for (uint32_t i = 0; i < o->n; i++)
    any = either(k, any, o->args[i].none);
  return any;
}

typedef LLVMValueRef (*expr_fn_t)(dt_body_t *k, const operands_t *o);

static LLVMValueRef expr_ADD(dt_body_t *k, const operands_t *o) {
  LLVMValueRef sum = o->v[0];
  for (uint32_t i = 1; i < o->n; i++)
    sum = arithmetic(k, false, sum, o->v[i]);
  return sum;
}

static LLVMValueRef expr_MUL(dt_body_t *k, const operands_t *o) {
  LLVMValueRef product = o->v[0];
  for (uint32_t i = 1; i < o->n; i++)
    product = arithmetic(k, true, product, o->v[i]);
  return product;
}

static LLVMValueRef division(dt_body_t *k, const operands_t *o, bool rest) {
  dt_range_t a = dt__sym_range(k->m->env, o->exprs[0]);
  dt_range_t b = dt__sym_range(k->m->env, o->exprs[1]);
  LLVMValueRef divisor = safe_divisor(k, o->exprs[1], o->v[1]);
  if (a.lo >= 0 && b.lo >= 0)
    return divide_unsigned(k, rest, a, o->v[0], divisor);
  return divide_signed(k, rest, o->v[0], divisor);
}

static LLVMValueRef expr_FLOORDIV(dt_body_t *k, const operands_t *o) {
  return division(k, o, false);
}

static LLVMValueRef expr_MOD(dt_body_t *k, const operands_t *o) { return division(k, o, true); }

static LLVMValueRef extremum(dt_body_t *k, const operands_t *o, LLVMIntPredicate wins) {
  LLVMValueRef best = o->v[0];
  for (uint32_t i = 1; i < o->n; i++) {
    LLVMValueRef better = LLVMBuildICmp(k->m->b, wins, o->v[i], best, "");
    best = LLVMBuildSelect(k->m->b, better, o->v[i], best, "");
  }
  return best;
}

static LLVMValueRef expr_MIN(dt_body_t *k, const operands_t *o) {
  return extremum(k, o, LLVMIntSLT);
}

static LLVMValueRef expr_MAX(dt_body_t *k, const operands_t *o) {
  return extremum(k, o, LLVMIntSGT);
}

// Only the side that is chosen needs a value.
static LLVMValueRef expr_SELECT(dt_body_t *k, const operands_t *o) {
  LLVMValueRef chosen = truth(k, o->v[0]);
  k->overflow.none = o->args[0].none;
  if (o->args[1].none || o->args[2].none)
    note_none(k, LLVMBuildSelect(k->m->b, chosen, none_of(k, o, 1), none_of(k, o, 2), ""));
  return LLVMBuildSelect(k->m->b, chosen, o->v[1], o->v[2], "");
}

#define EXPR_COMPARE(id, predicate)                                                                \
  static LLVMValueRef expr_##id(dt_body_t *k, const operands_t *o) {                               \
    return as_number(k, LLVMBuildICmp(k->m->b, predicate, o->v[0], o->v[1], ""));                  \
  }
EXPR_COMPARE(EQ, LLVMIntEQ)
EXPR_COMPARE(NE, LLVMIntNE)
EXPR_COMPARE(LT, LLVMIntSLT)
EXPR_COMPARE(LE, LLVMIntSLE)

// False as soon as one is, whether the others have a value or not.
static LLVMValueRef expr_AND(dt_body_t *k, const operands_t *o) {
  LLVMValueRef all = NULL, none = any_none(k, o);
  for (uint32_t i = 0; i < o->n; i++) {
    LLVMValueRef own = either(k, truth(k, o->v[i]), o->args[i].none);
    all = all ? LLVMBuildAnd(k->m->b, all, own, "") : own;
  }
  k->overflow.none = none ? LLVMBuildAnd(k->m->b, none, all, "") : NULL;
  return as_number(k, all);
}

static LLVMValueRef expr_OR(dt_body_t *k, const operands_t *o) {
  LLVMValueRef any = NULL, none = any_none(k, o);
  for (uint32_t i = 0; i < o->n; i++) {
    LLVMValueRef own = truth(k, o->v[i]);
    if (o->args[i].none)
      own = LLVMBuildAnd(k->m->b, own, LLVMBuildNot(k->m->b, o->args[i].none, ""), "");
    any = either(k, any, own);
  }
  k->overflow.none = none ? LLVMBuildAnd(k->m->b, none, LLVMBuildNot(k->m->b, any, ""), "") : NULL;
  return as_number(k, any);
}

static LLVMValueRef expr_NOT(dt_body_t *k, const operands_t *o) {
  return as_number(k, LLVMBuildNot(k->m->b, truth(k, o->v[0]), ""));
}

// The count of a shift where it is in [0, most], else 0; host programs refuse the others.
static LLVMValueRef shift_count(dt_body_t *k, const operands_t *o, int64_t most) {
  dt_emit_t *m = k->m;
  dt_range_t range = dt__sym_range(m->env, o->exprs[1]);
  LLVMValueRef count = o->v[1];
  LLVMTypeRef type = LLVMTypeOf(count);
  if (range.lo >= 0 && range.hi <= most)
    return count;
  LLVMValueRef out = LLVMBuildICmp(m->b, LLVMIntUGT, count, dt__emit_int(type, most), "");
  if (k->overflow.checks)
    note_none(k, out);
  return LLVMBuildSelect(m->b, out, LLVMConstNull(type), count, "");
}

static LLVMValueRef expr_SHL(dt_body_t *k, const operands_t *o) {
  dt_emit_t *m = k->m;
  LLVMValueRef count = shift_count(k, o, 62), a = o->v[0];
  LLVMValueRef value = LLVMBuildShl(m->b, a, count, "");
  if (k->overflow.checks) {
    LLVMValueRef back = LLVMBuildAShr(m->b, value, count, "");
    note_none(k, LLVMBuildICmp(m->b, LLVMIntNE, back, a, ""));
  }
  return value;
}

static LLVMValueRef expr_SHR(dt_body_t *k, const operands_t *o) {
  return LLVMBuildAShr(k->m->b, o->v[0], shift_count(k, o, 63), "");
}

#define expr_NONE NULL
#define expr_CONST NULL
#define expr_SYMBOL NULL
static const expr_fn_t expr_fns[DT_SYM_OP_COUNT] = {
#define SYM_OP(id, name, arity, kind, doc) expr_##id,
#include "symshape/sym_ops.def"
};
#undef expr_NONE
#undef expr_CONST
#undef expr_SYMBOL

// ---- Evaluation ----------------------------------------------------------------------------------------
LLVMValueRef dt__lanes_vector(dt_body_t *k, const dt_lanes_t *value, uint32_t c, uint32_t level) {
  if (value->varying)
    return value->v[c];
  LLVMValueRef scalar = value->v[0];
  if (LLVMIsAConstantInt(scalar) || LLVMIsAConstantFP(scalar))
    return dt__emit_splat(k->m, scalar, k->lanes);
  // Code for other lane counts may stand in the same scope; addresses have 48 bits.
  uint64_t key = (uint64_t)KEY_SPLAT << 56 | (uint64_t)k->lanes << 48 |
                 ((uint64_t)(uintptr_t)scalar & (((uint64_t)1 << 48) - 1));
  dt_lanes_t splat = {0};
  if (dt__memo_find(k, level, key, &splat))
    return splat.v[0];
  LLVMBasicBlockRef at = LLVMGetInsertBlock(k->m->b);
  dt__body_at(k, level);
  splat.v[0] = dt__emit_splat(k->m, scalar, k->lanes);
  dt__memo_put(k, level, key, splat);
  dt__emit_resume(k->m, at);
  return splat.v[0];
}

// scalar + coef * <0, 1, …> in each copy.
static dt_lanes_t ramp(dt_body_t *k, LLVMValueRef start, int64_t coef) {
  dt_emit_t *m = k->m;
  dt_lanes_t out = {.varying = true};
  for (uint32_t c = 0; c < k->copies; c++) {
    int64_t shift = coef * (int64_t)((k->first_copy + c) * k->lanes * k->team);
    LLVMValueRef at = shift ? LLVMBuildAdd(m->b, start, dt__emit_i64(m, shift), "") : start;
    out.v[c] = LLVMBuildAdd(m->b, dt__emit_splat(m, at, k->lanes),
                            dt__emit_ramp(m->t_i64, k->lanes, coef), "");
  }
  return out;
}

// e as coef * lane + rest with a literal, small coef and a uniform rest.
static bool lane_linear(dt_body_t *k, dt_sym_t e, int64_t *coef, dt_sym_t *rest) {
  dt_sym_t coefficient;
  if (!k->axis || !dt__sym_linear(k->m->env, e, k->lane_var, &coefficient, rest) ||
      !dt__sym_is_const(k->m->env, coefficient, coef))
    return false;
  uint32_t level;
  bool varying;
  dt__index_info(k, *rest, &level, &varying);
  return !varying && *coef > -((int64_t)1 << 40) && *coef < (int64_t)1 << 40;
}

bool dt__lane_step(dt_body_t *k, dt_sym_t offset, int64_t *step) {
  dt_sym_t rest;
  return lane_linear(k, offset, step, &rest);
}

static dt_lanes_t eval_operation(dt_body_t *k, dt_sym_t e, uint32_t level, bool varying) {
  dt_emit_t *m = k->m;
  dt_sym_view_t view = dt__sym_view(m->env, e);
  uint32_t n = view.n_args;
  dt_sym_t *exprs = DT_ARENA_ARRAY(&m->arena, dt_sym_t, n);
  dt_lanes_t *args = DT_ARENA_ARRAY(&m->arena, dt_lanes_t, n);
  LLVMValueRef *v = DT_ARENA_ARRAY(&m->arena, LLVMValueRef, n);
  dt_lanes_t out = {.varying = varying};
  if (!exprs || !args || !v || n == 0 || !expr_fns[view.op]) {
    dt_status_t status = exprs && args && v ? dt__symenv_status(m->env) : DT_NO_MEMORY();
    dt__emit_fail(m, status ? status : DT_FAIL(DT_E_INTERNAL, "loop IR: an empty expression"));
    for (uint32_t c = 0; c < DT_MAX_UNROLL; c++)
      out.v[c] = varying ? LLVMGetPoison(LLVMVectorType(m->t_i64, k->lanes)) : dt__emit_i64(m, 0);
    return out;
  }
  for (uint32_t i = 0; i < n; i++)
    exprs[i] = view.args[i];
  for (uint32_t i = 0; i < n; i++)
    args[i] = dt__index_eval(k, exprs[i]);
  for (uint32_t c = 0; c < (varying ? k->copies : 1); c++) {
    for (uint32_t i = 0; i < n; i++) {
      uint32_t own;
      bool ignored;
      dt__index_info(k, exprs[i], &own, &ignored);
      v[i] = varying ? dt__lanes_vector(k, &args[i], c, own) : args[i].v[0];
    }
    dt__body_at(k, level);
    const operands_t operands = {exprs, v, args, n};
    k->overflow.none = k->overflow.checks ? any_none(k, &operands) : NULL;
    out.v[c] = expr_fns[view.op](k, &operands);
  }
  return out;
}

static dt_lanes_t eval_symbol(dt_body_t *k, uint32_t symbol, uint32_t level) {
  const dt_binding_t *binding = &k->bindings[symbol];
  if (!binding->varying || binding->value.v[0])
    return binding->value;
  dt__body_at(k, level); // the lane variable
  return ramp(k, k->lane_base, 1);
}

// A comparison that neighbouring lanes change by one: those in front of some lane, or those behind
// it, are true. Which lane that is takes scalar code, and one comparison of 32-bit numbers.
// `bound` is that lane, counted from where the lane variable is 0.
static bool is_lane_bound(dt_body_t *k, dt_sym_t e, LLVMIntPredicate *predicate, dt_sym_t *bound) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, e);
  if (k->m->device || (view.op != DT_SYM_LT && view.op != DT_SYM_LE))
    return false;
  bool equal = view.op == DT_SYM_LE;
  dt_sym_t a = view.args[0], b = view.args[1], rest;
  dt_sym_t room = dt__sym_add(env, dt__sym_sub(env, b, a), dt__sym_const(env, equal));
  int64_t coef;
  dt_range_t range = dt__sym_range(env, room);
  if (range.lo == INT64_MIN || range.hi == INT64_MAX) // the difference may not fit
    return false;
  if (!lane_linear(k, room, &coef, &rest) || (coef != 1 && coef != -1))
    return false;
  *predicate = coef == 1 ? LLVMIntSGT : LLVMIntSLT;
  *bound = dt__sym_mul(env, rest, dt__sym_const(env, -coef));
  return true;
}

static dt_lanes_t lane_bound(dt_body_t *k, LLVMIntPredicate predicate, LLVMValueRef bound) {
  dt_emit_t *m = k->m;
  dt_lanes_t out = {.varying = true};
  LLVMValueRef least = dt__emit_i64(m, -1), most = dt__emit_i64(m, k->lanes);
  bound = LLVMBuildSub(m->b, bound, k->lane_base, "");
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef shift = dt__emit_i64(m, (int64_t)((k->first_copy + c) * k->lanes * k->team));
    LLVMValueRef at = LLVMBuildSub(m->b, bound, shift, "");
    at = LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, at, least, ""), least, at, "");
    at = LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSGT, at, most, ""), most, at, "");
    at = dt__emit_splat(m, LLVMBuildTrunc(m->b, at, m->t_i32, ""), k->lanes);
    LLVMValueRef lane = dt__emit_ramp(m->t_i32, k->lanes, 1);
    out.v[c] = as_number(k, LLVMBuildICmp(m->b, predicate, lane, at, ""));
  }
  return out;
}

dt_lanes_t dt__index_eval(dt_body_t *k, dt_sym_t e) {
  dt_emit_t *m = k->m;
  dt_lanes_t out = {0};
  int64_t literal;
  if (dt__sym_is_const(m->env, e, &literal)) {
    out.v[0] = dt__emit_i64(m, literal);
    return out;
  }
  uint32_t level, symbol;
  bool varying;
  dt__index_info(k, e, &level, &varying);
  if (m->failure) { // nothing is made of it, but what is built on it must be of its type
    out.varying = varying;
    for (uint32_t c = 0; c < DT_MAX_UNROLL; c++)
      out.v[c] = varying ? LLVMGetPoison(LLVMVectorType(m->t_i64, k->lanes)) : dt__emit_i64(m, 0);
    return out;
  }
  uint64_t key = expr_key(k, level, e);
  if (dt__memo_find(k, level, key, &out))
    return out;
  int64_t coef;
  dt_sym_t rest;
  LLVMIntPredicate predicate;
  LLVMValueRef outer = k->overflow.none;
  k->overflow.none = NULL;
  if (dt__sym_is_symbol(m->env, e, &symbol)) {
    out = eval_symbol(k, symbol, level);
  } else if (varying && lane_linear(k, e, &coef, &rest)) {
    LLVMValueRef start = dt__index_scalar(k, rest);
    dt__body_at(k, level);
    LLVMValueRef lane = LLVMBuildMul(m->b, k->lane_base, dt__emit_i64(m, coef), "");
    out = ramp(k, LLVMBuildAdd(m->b, start, lane, ""), coef);
  } else if (varying && is_lane_bound(k, e, &predicate, &rest)) {
    LLVMValueRef bound = dt__index_scalar(k, rest);
    dt__body_at(k, level);
    out = lane_bound(k, predicate, bound);
  } else if (!varying && dt__sum_is_long(k, e)) {
    out.v[0] = dt__sum_emit(k, e, level);
  } else {
    out = eval_operation(k, e, level, varying);
  }
  out.none = k->overflow.none;
  k->overflow.none = outer;
  dt__memo_put(k, level, key, out);
  return out;
}

LLVMValueRef dt__index_scalar(dt_body_t *k, dt_sym_t e) {
  dt_lanes_t value = dt__index_eval(k, e);
  if (value.varying) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "loop IR: a size or address depends on the lane"));
    return dt__emit_i64(k->m, 0);
  }
  if (value.none)
    note_none(k, value.none);
  return value.v[0];
}

// ---- Addresses -----------------------------------------------------------------------------------------
dt_sym_t dt__access_offset(dt_body_t *k, dt_buffer_id_t buffer, const dt_sym_t *index) {
  return dt__access_place(&k->m->program, k->kernel, buffer, index);
}

static LLVMTypeRef element_type(dt_body_t *k, dt_buffer_id_t buffer) {
  return dt__emit_memory_type(k->m, dt__program_buffer(&k->m->program, buffer)->dtype);
}

static bool has_lane_copies(dt_body_t *k, dt_buffer_id_t buffer) {
  return k->outer_lanes && dt__program_buffer(&k->m->program, buffer)->kind == DT_BUFFER_LOCAL;
}

static dt_address_t each_address(dt_body_t *k, dt_buffer_id_t buffer, const dt_lanes_t *index,
                                 uint32_t level) {
  dt_emit_t *m = k->m;
  dt_address_t out = {.access = DT_ACCESS_EACH};
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef at = dt__lanes_vector(k, index, c, level);
    dt__body_at(k, level);
    if (has_lane_copies(k, buffer)) {
      LLVMTypeRef type = LLVMTypeOf(at);
      at = LLVMBuildMul(m->b, at, dt__emit_int(type, k->stride), "");
      at = LLVMBuildAdd(m->b, at, dt__emit_ramp(m->t_i64, k->lanes, 1), "");
      at = LLVMBuildAdd(m->b, at, dt__emit_int(type, (int64_t)(c * k->lanes)), "");
    }
    out.at[c] = dt__emit_element(m, element_type(k, buffer), k->bases[buffer.id - 1], at);
  }
  return out;
}

// The same element of every lane's own copy: neighbours in memory.
static dt_address_t local_address(dt_body_t *k, dt_buffer_id_t buffer, LLVMValueRef index) {
  dt_emit_t *m = k->m;
  dt_address_t out = {.access = DT_ACCESS_UNIT};
  LLVMTypeRef element = element_type(k, buffer);
  LLVMValueRef at = LLVMBuildMul(m->b, index, dt__emit_i64(m, k->stride), "");
  LLVMValueRef base = dt__emit_element(m, element, k->bases[buffer.id - 1], at);
  for (uint32_t c = 0; c < k->copies; c++)
    out.at[c] = dt__emit_element(m, element, base, dt__emit_i64(m, (int64_t)(c * k->lanes)));
  return out;
}

// Copy c is of the iteration that many further; neighbours along the lanes.
static void beside_addresses(dt_body_t *k, LLVMTypeRef element, dt_sym_t offset, LLVMValueRef base,
                             uint32_t level, dt_address_t *out) {
  dt_symenv_t *env = k->m->env;
  dt_sym_t step = offset, rest;
  (void)dt__sym_linear(env, offset, k->beside, &step, &rest); // verified
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef moved = dt__index_scalar(k, dt__sym_mul(env, step, dt__sym_const(env, c)));
    dt__body_at(k, level);
    out->at[c] = dt__emit_element(k->m, element, base, moved);
  }
}

static dt_address_t linear_address(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                                   int64_t coef, dt_sym_t rest, uint32_t level) {
  dt_emit_t *m = k->m;
  LLVMTypeRef element = element_type(k, buffer);
  dt_address_t out = {.access = coef == 1    ? DT_ACCESS_UNIT
                                : coef == -1 ? DT_ACCESS_REVERSED
                                             : DT_ACCESS_EACH};
  if (coef == 1 && k->aligned && dt__offset_aligned(k, offset, k->lane_var, k->lanes))
    out.alignment =
        dt__vector_alignment(dt__program_buffer(&k->m->program, buffer)->dtype, k->lanes);
  LLVMValueRef start = dt__index_scalar(k, rest);
  uint32_t own;
  bool varying;
  dt__index_info(k, rest, &own, &varying);
  if (own < k->base_level)
    own = k->base_level;
  dt__body_at(k, own);
  LLVMValueRef base = dt__emit_element(m, element, k->bases[buffer.id - 1], start);
  dt__body_at(k, level);
  LLVMValueRef first = base;
  LLVMValueRef lane = LLVMBuildMul(m->b, k->lane_base, dt__emit_i64(m, coef), "");
  base = dt__emit_element(m, element, base, lane);
  if (k->beside.id) {
    beside_addresses(k, element, offset, base, level, &out);
    return out;
  }
  for (uint32_t c = 0; c < k->copies; c++) {
    int64_t shift = coef * (int64_t)((k->first_copy + c) * k->lanes * k->team) -
                    (coef == -1 ? (int64_t)k->lanes - 1 : 0);
    out.at[c] = dt__emit_element(m, element, base, dt__emit_i64(m, shift));
    if (k->resident.inside[c] &&
        out.access == DT_ACCESS_UNIT) // the row's first vector always exists
      out.at[c] = LLVMBuildSelect(m->b, k->resident.inside[c], out.at[c], first, "");
    if (out.access == DT_ACCESS_EACH)
      out.at[c] = dt__emit_element(m, element, out.at[c], dt__emit_ramp(m->t_i64, k->lanes, coef));
  }
  return out;
}

dt_address_t dt__access_address(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                                uint32_t level) {
  dt_emit_t *m = k->m;
  uint32_t own;
  bool varying;
  dt__index_info(k, offset, &own, &varying);
  int64_t coef;
  dt_sym_t rest;
  if (varying && !has_lane_copies(k, buffer) && lane_linear(k, offset, &coef, &rest))
    return linear_address(k, buffer, offset, coef, rest, level);
  dt_lanes_t index = dt__index_eval(k, offset);
  if (varying)
    return each_address(k, buffer, &index, level);
  dt__body_at(k, level);
  if (has_lane_copies(k, buffer))
    return local_address(k, buffer, index.v[0]);
  dt_address_t out = {.access = DT_ACCESS_UNIFORM};
  out.at[0] = dt__emit_element(m, element_type(k, buffer), k->bases[buffer.id - 1], index.v[0]);
  return out;
}
