// SPDX-License-Identifier: Apache-2.0
// Expressions of guards as code that agrees with dt__guard_eval: a stack of values, each with a bit
// that says whether it exists. Bounds of every value are known while code is made. So sums and
// products take 64 bits if these suffice, 128 if they must, and a checked product only if 128 bits
// may not suffice. A value that does not exist may be any number; it never traps.
#include "backend_llvm/emit/decide.h"

#define STEPS_A_BLOCK 64

typedef __int128 wide_t;

typedef struct entry_t {
  LLVMValueRef value; // i1, i64 or i128
  LLVMValueRef valid; // i1; NULL: always
  wide_t lo, hi;      // of a valid value
} entry_t;

typedef struct expr_t {
  dt_decide_t *d;
  entry_t stack[DT_GUARD_MAX_STACK];
  uint32_t n;
} expr_t;

static const wide_t wide_max = (wide_t)(((unsigned __int128)1 << 127) - 1);

static bool is_narrow(wide_t lo, wide_t hi) { return lo >= INT64_MIN && hi <= INT64_MAX; }

static LLVMValueRef literal(const expr_t *x, int64_t value) {
  return dt__emit_i64(&x->d->m, value);
}

static LLVMValueRef both(const expr_t *x, LLVMValueRef a, LLVMValueRef b) {
  return !a ? b : !b ? a : LLVMBuildAnd(x->d->m.b, a, b, "");
}

// An entry's value as i64, or i128.
static LLVMValueRef narrow(const expr_t *x, const entry_t *e) {
  unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(e->value));
  if (bits == 64)
    return e->value;
  return bits == 1 ? LLVMBuildZExt(x->d->m.b, e->value, x->d->m.t_i64, "")
                   : LLVMBuildTrunc(x->d->m.b, e->value, x->d->m.t_i64, "");
}

static LLVMValueRef wide(const expr_t *x, const entry_t *e) {
  unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(e->value));
  if (bits == 128)
    return e->value;
  return bits == 1 ? LLVMBuildZExt(x->d->m.b, e->value, x->d->t_i128, "")
                   : LLVMBuildSExt(x->d->m.b, e->value, x->d->t_i128, "");
}

// i1: the value is not 0.
static LLVMValueRef truth(const expr_t *x, const entry_t *e) {
  LLVMTypeRef type = LLVMTypeOf(e->value);
  if (LLVMGetIntTypeWidth(type) == 1)
    return e->value;
  return LLVMBuildICmp(x->d->m.b, LLVMIntNE, e->value, LLVMConstNull(type), "");
}

static entry_t truth_entry(LLVMValueRef bit, LLVMValueRef valid) {
  return (entry_t){.value = bit, .valid = valid, .lo = 0, .hi = 1};
}

// ---- Sums and products ----------------------------------------------------------------------------
static LLVMValueRef i128_literal(const dt_decide_t *d, uint64_t high, uint64_t low) {
  const uint64_t words[2] = {low, high};
  return LLVMConstIntOfArbitraryPrecision(d->t_i128, 2, words);
}

// {i128 product, i1 it is exact} of two i128, through their magnitudes' 64-bit halves.
static LLVMValueRef mul_function(dt_decide_t *d) {
  if (d->fn_mul)
    return d->fn_mul;
  dt_emit_t *m = &d->m;
  LLVMTypeRef params[2] = {d->t_i128, d->t_i128}, results[2] = {d->t_i128, m->t_i1};
  LLVMTypeRef type =
      LLVMFunctionType(LLVMStructTypeInContext(m->context, results, 2, 0), params, 2, 0);
  LLVMBasicBlockRef caller = LLVMGetInsertBlock(m->b);
  d->fn_mul = dt__emit_function(m, "dt_mul128", type, false);
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, d->fn_mul, "entry"));
  LLVMValueRef zero = i128_literal(d, 0, 0), shift = i128_literal(d, 0, 64);
  LLVMValueRef mask = i128_literal(d, 0, UINT64_MAX);
  LLVMValueRef sign[2], high[2], low[2];
  for (unsigned k = 0; k < 2; k++) {
    LLVMValueRef value = LLVMGetParam(d->fn_mul, k);
    sign[k] = LLVMBuildICmp(m->b, LLVMIntSLT, value, zero, "");
    LLVMValueRef size =
        LLVMBuildSelect(m->b, sign[k], LLVMBuildSub(m->b, zero, value, ""), value, "");
    high[k] = LLVMBuildLShr(m->b, size, shift, "");
    low[k] = LLVMBuildAnd(m->b, size, mask, "");
  }
  // At most one high half is not 0, or the product is beyond; then only one cross product counts.
  LLVMValueRef high_a = LLVMBuildICmp(m->b, LLVMIntNE, high[0], zero, "");
  LLVMValueRef high_b = LLVMBuildICmp(m->b, LLVMIntNE, high[1], zero, "");
  LLVMValueRef bad = LLVMBuildAnd(m->b, high_a, high_b, "");
  LLVMValueRef cross = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, high[0], low[1], ""),
                                    LLVMBuildMul(m->b, high[1], low[0], ""), "");
  bad = LLVMBuildOr(m->b, bad, LLVMBuildICmp(m->b, LLVMIntUGT, cross, mask, ""), "");
  LLVMValueRef bottom = LLVMBuildMul(m->b, low[0], low[1], "");
  LLVMValueRef size = LLVMBuildAdd(m->b, bottom, LLVMBuildShl(m->b, cross, shift, ""), "");
  bad = LLVMBuildOr(m->b, bad, LLVMBuildICmp(m->b, LLVMIntULT, size, bottom, ""), "");
  LLVMValueRef negative = LLVMBuildXor(m->b, sign[0], sign[1], "");
  LLVMValueRef most = LLVMBuildSelect(m->b, negative, i128_literal(d, (uint64_t)1 << 63, 0),
                                      i128_literal(d, INT64_MAX, UINT64_MAX), "");
  bad = LLVMBuildOr(m->b, bad, LLVMBuildICmp(m->b, LLVMIntUGT, size, most, ""), "");
  LLVMValueRef value =
      LLVMBuildSelect(m->b, negative, LLVMBuildSub(m->b, zero, size, ""), size, "");
  LLVMValueRef result = LLVMGetPoison(LLVMGetReturnType(type));
  result = LLVMBuildInsertValue(m->b, result, value, 0, "");
  result = LLVMBuildInsertValue(m->b, result, LLVMBuildNot(m->b, bad, ""), 1, "");
  LLVMBuildRet(m->b, result);
  LLVMPositionBuilderAtEnd(m->b, caller);
  return d->fn_mul;
}

// With the exact result possibly beyond 128 bits.
static entry_t checked(expr_t *x, bool product, const entry_t *a, const entry_t *b) {
  dt_decide_t *d = x->d;
  dt_emit_t *m = &d->m;
  LLVMValueRef args[2] = {wide(x, a), wide(x, b)};
  LLVMValueRef pair, good;
  if (product) {
    LLVMValueRef fn = mul_function(d);
    pair = LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
    good = LLVMBuildExtractValue(m->b, pair, 1, "");
  } else {
    pair = dt__emit_intrinsic2(m, "llvm.sadd.with.overflow", args[0], args[1]);
    good = LLVMBuildNot(m->b, LLVMBuildExtractValue(m->b, pair, 1, ""), "");
  }
  return (entry_t){.value = LLVMBuildExtractValue(m->b, pair, 0, ""),
                   .valid = both(x, both(x, a->valid, b->valid), good),
                   .lo = -wide_max - 1,
                   .hi = wide_max};
}

// Bounds of the result; false: it may be beyond 128 bits.
static bool ring_bounds(bool product, const entry_t *a, const entry_t *b, wide_t *lo, wide_t *hi) {
  if (!product)
    return !__builtin_add_overflow(a->lo, b->lo, lo) && !__builtin_add_overflow(a->hi, b->hi, hi);
  const wide_t left[2] = {a->lo, a->hi}, right[2] = {b->lo, b->hi};
  for (int k = 0; k < 4; k++) {
    wide_t corner;
    if (__builtin_mul_overflow(left[k / 2], right[k % 2], &corner))
      return false;
    *lo = k == 0 || corner < *lo ? corner : *lo;
    *hi = k == 0 || corner > *hi ? corner : *hi;
  }
  return true;
}

static entry_t ring(expr_t *x, bool product, const entry_t *a, const entry_t *b) {
  dt_emit_t *m = &x->d->m;
  entry_t e = {.valid = both(x, a->valid, b->valid)};
  if (!ring_bounds(product, a, b, &e.lo, &e.hi))
    return checked(x, product, a, b);
  bool small = is_narrow(e.lo, e.hi) && is_narrow(a->lo, a->hi) && is_narrow(b->lo, b->hi);
  LLVMValueRef left = small ? narrow(x, a) : wide(x, a), right = small ? narrow(x, b) : wide(x, b);
  e.value = product ? LLVMBuildMul(m->b, left, right, "") : LLVMBuildAdd(m->b, left, right, "");
  return e;
}

static entry_t fit(expr_t *x, const entry_t *e) {
  dt_emit_t *m = &x->d->m;
  entry_t out = {.value = narrow(x, e), .valid = e->valid, .lo = e->lo, .hi = e->hi};
  if (LLVMGetIntTypeWidth(LLVMTypeOf(e->value)) == 1)
    return *e;
  if (is_narrow(e->lo, e->hi))
    return out;
  LLVMValueRef back = LLVMBuildSExt(m->b, out.value, x->d->t_i128, "");
  out.valid = both(x, e->valid, LLVMBuildICmp(m->b, LLVMIntEQ, back, wide(x, e), ""));
  out.lo = INT64_MIN;
  out.hi = INT64_MAX;
  return out;
}

// ---- Division -------------------------------------------------------------------------------------
static wide_t most_of(wide_t a, wide_t b) { return a > b ? a : b; }
static wide_t least_of(wide_t a, wide_t b) { return a < b ? a : b; }

static wide_t floor_quotient(wide_t a, wide_t b) { // b > 0
  wide_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

static void division_bounds(entry_t *e, bool modulo, const entry_t *a, const entry_t *b) {
  if (modulo) {
    e->lo = least_of(b->lo + 1, 0);
    e->hi = most_of(b->hi - 1, 0);
  } else if (b->lo > 0) {
    e->lo = least_of(floor_quotient(a->lo, b->lo), floor_quotient(a->lo, b->hi));
    e->hi = most_of(floor_quotient(a->hi, b->lo), floor_quotient(a->hi, b->hi));
  } else {
    wide_t size = most_of(most_of(-a->lo, a->hi), 0);
    e->lo = most_of(-size, INT64_MIN);
    e->hi = least_of(size, INT64_MAX);
  }
}

// The divisor with what cannot be divided by replaced by 1.
static LLVMValueRef safe_divisor(expr_t *x, bool modulo, const entry_t *a, const entry_t *b,
                                 entry_t *e) {
  dt_emit_t *m = &x->d->m;
  LLVMValueRef top = narrow(x, a), by = narrow(x, b);
  if (b->lo <= 0 && b->hi >= 0) {
    LLVMValueRef good = LLVMBuildICmp(m->b, LLVMIntNE, by, literal(x, 0), "");
    by = LLVMBuildSelect(m->b, good, by, literal(x, 1), "");
    e->valid = both(x, e->valid, good);
  }
  if (b->lo <= -1 && b->hi >= -1 && a->lo <= INT64_MIN) {
    LLVMValueRef bad =
        LLVMBuildAnd(m->b, LLVMBuildICmp(m->b, LLVMIntEQ, top, literal(x, INT64_MIN), ""),
                     LLVMBuildICmp(m->b, LLVMIntEQ, by, literal(x, -1), ""), "");
    by = LLVMBuildSelect(m->b, bad, literal(x, 1), by, "");
    if (!modulo)
      e->valid = both(x, e->valid, LLVMBuildNot(m->b, bad, ""));
  }
  return by;
}

static entry_t divide(expr_t *x, bool modulo, const entry_t *a, const entry_t *b) {
  dt_emit_t *m = &x->d->m;
  entry_t e = {.valid = both(x, a->valid, b->valid)};
  division_bounds(&e, modulo, a, b);
  // An invalid operand may be any number, so bounds say nothing of it: guard the divisor itself.
  entry_t any = *b;
  if (b->valid) {
    any.lo = INT64_MIN;
    any.hi = INT64_MAX;
  }
  entry_t over = *a;
  if (a->valid) {
    over.lo = INT64_MIN;
    over.hi = INT64_MAX;
  }
  LLVMValueRef top = narrow(x, a), by = safe_divisor(x, modulo, &over, &any, &e);
  LLVMValueRef rest = LLVMBuildSRem(m->b, top, by, "");
  LLVMValueRef odd = LLVMBuildICmp(m->b, LLVMIntNE, rest, literal(x, 0), "");
  LLVMValueRef apart =
      LLVMBuildICmp(m->b, LLVMIntSLT, LLVMBuildXor(m->b, rest, by, ""), literal(x, 0), "");
  LLVMValueRef adjust = LLVMBuildAnd(m->b, odd, apart, "");
  if (modulo) {
    e.value = LLVMBuildSelect(m->b, adjust, LLVMBuildAdd(m->b, rest, by, ""), rest, "");
    return e;
  }
  LLVMValueRef quotient = LLVMBuildSDiv(m->b, top, by, "");
  e.value = LLVMBuildSub(m->b, quotient, LLVMBuildZExt(m->b, adjust, m->t_i64, ""), "");
  return e;
}

// ---- The rest -------------------------------------------------------------------------------------
static entry_t extremum(expr_t *x, bool larger, const entry_t *a, const entry_t *b) {
  dt_emit_t *m = &x->d->m;
  LLVMValueRef left = narrow(x, a), right = narrow(x, b);
  LLVMIntPredicate predicate = larger ? LLVMIntSGT : LLVMIntSLT;
  LLVMValueRef take = LLVMBuildICmp(m->b, predicate, left, right, "");
  return (entry_t){.value = LLVMBuildSelect(m->b, take, left, right, ""),
                   .valid = both(x, a->valid, b->valid),
                   .lo = larger ? most_of(a->lo, b->lo) : least_of(a->lo, b->lo),
                   .hi = larger ? most_of(a->hi, b->hi) : least_of(a->hi, b->hi)};
}

static entry_t compare(expr_t *x, LLVMIntPredicate predicate, const entry_t *a, const entry_t *b) {
  LLVMValueRef bit = LLVMBuildICmp(x->d->m.b, predicate, narrow(x, a), narrow(x, b), "");
  return truth_entry(bit, both(x, a->valid, b->valid));
}

// One side decides alone where it has the value that decides, whatever the other is.
static entry_t junction(expr_t *x, bool is_or, const entry_t *a, const entry_t *b) {
  dt_emit_t *m = &x->d->m;
  LLVMValueRef left = truth(x, a), right = truth(x, b);
  if (!a->valid && !b->valid)
    return truth_entry(
        is_or ? LLVMBuildOr(m->b, left, right, "") : LLVMBuildAnd(m->b, left, right, ""), NULL);
  if (!is_or) {
    left = LLVMBuildNot(m->b, left, "");
    right = LLVMBuildNot(m->b, right, "");
  }
  LLVMValueRef decided = LLVMBuildOr(m->b, both(x, a->valid, left), both(x, b->valid, right), "");
  LLVMValueRef valid = LLVMBuildOr(m->b, decided, both(x, a->valid, b->valid), "");
  return truth_entry(is_or ? decided : LLVMBuildNot(m->b, decided, ""), valid);
}

static entry_t choose(expr_t *x, const entry_t *c, const entry_t *a, const entry_t *b) {
  dt_emit_t *m = &x->d->m;
  LLVMValueRef first = truth(x, c);
  bool small = is_narrow(a->lo, a->hi) && is_narrow(b->lo, b->hi);
  LLVMValueRef left = small ? narrow(x, a) : wide(x, a), right = small ? narrow(x, b) : wide(x, b);
  LLVMValueRef valid = c->valid, yes = LLVMConstInt(m->t_i1, 1, 0);
  if (a->valid || b->valid)
    valid = both(
        x, valid,
        LLVMBuildSelect(m->b, first, a->valid ? a->valid : yes, b->valid ? b->valid : yes, ""));
  return (entry_t){.value = LLVMBuildSelect(m->b, first, left, right, ""),
                   .valid = valid,
                   .lo = least_of(a->lo, b->lo),
                   .hi = most_of(a->hi, b->hi)};
}

static entry_t binary(expr_t *x, uint32_t op, const entry_t *a, const entry_t *b) {
  switch (op) {
  case DT_SYM_ADD:
  case DT_SYM_MUL:
    return ring(x, op == DT_SYM_MUL, a, b);
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    return divide(x, op == DT_SYM_MOD, a, b);
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return extremum(x, op == DT_SYM_MAX, a, b);
  case DT_SYM_EQ:
    return compare(x, LLVMIntEQ, a, b);
  case DT_SYM_NE:
    return compare(x, LLVMIntNE, a, b);
  case DT_SYM_LT:
    return compare(x, LLVMIntSLT, a, b);
  case DT_SYM_LE:
    return compare(x, LLVMIntSLE, a, b);
  case DT_SYM_AND:
  case DT_SYM_OR:
    return junction(x, op == DT_SYM_OR, a, b);
  default:
    dt__emit_fail(&x->d->m, DT_FAIL(DT_E_INTERNAL, "guards: no code for step %u", op));
    return *a;
  }
}

static entry_t slot_entry(expr_t *x, uint32_t index) {
  entry_t e = {.value = dt__decide_slot(x->d, index), .lo = INT64_MIN, .hi = INT64_MAX};
  uint8_t kind = x->d->tree->slots[index].kind;
  if (kind == DT_SLOT_SIZE || kind == DT_SLOT_COUNT) {
    e.lo = 0;
    e.hi = DT_SIZE_LIMIT - 1;
  } else if (kind == DT_SLOT_STRIDE) { // elements span less than the limit
    e.lo = -DT_SIZE_LIMIT;
    e.hi = DT_SIZE_LIMIT;
  }
  return e;
}

// How many values a step takes.
static uint32_t takes(uint32_t op) {
  switch (op) {
  case DT_SYM_CONST:
  case DT_SYM_SYMBOL:
    return 0;
  case DT_GUARD_OP_NARROW:
  case DT_SYM_NOT:
    return 1;
  case DT_SYM_SELECT:
    return 3;
  default:
    return 2;
  }
}

static entry_t run_step(expr_t *x, const dt_guard_step_t *step, const entry_t *top) {
  switch (step->op) {
  case DT_SYM_CONST:
    return (entry_t){.value = literal(x, step->value), .lo = step->value, .hi = step->value};
  case DT_SYM_SYMBOL:
    return slot_entry(x, step->symbol);
  case DT_GUARD_OP_NARROW:
    return fit(x, top);
  case DT_SYM_NOT:
    return truth_entry(LLVMBuildNot(x->d->m.b, truth(x, top), ""), top->valid);
  case DT_SYM_SELECT:
    return choose(x, &top[0], &top[1], &top[2]);
  default:
    return binary(x, step->op, &top[0], &top[1]);
  }
}

// Goes on in a block of its own: what LLVM does with a block takes the square of its length.
static void begin_block(dt_decide_t *d) {
  LLVMBasicBlockRef next = dt__emit_block(&d->m, d->fn, "");
  LLVMBuildBr(d->m.b, next);
  LLVMPositionBuilderAtEnd(d->m.b, next);
}

LLVMValueRef dt__decide_expr(dt_decide_t *d, const dt_term_t *term) {
  expr_t x = {.d = d};
  for (uint32_t k = 0; k < term->other; k++) {
    const dt_guard_step_t *step = &d->tree->steps[term->slot + k];
    uint32_t n = takes(step->op);
    if (x.n < n || x.n - n == DT_GUARD_MAX_STACK) {
      dt__emit_fail(&d->m, DT_FAIL(DT_E_INTERNAL, "guards: step %u has no operands or room", k));
      return LLVMConstInt(d->m.t_i1, 0, 0);
    }
    if (k % STEPS_A_BLOCK == STEPS_A_BLOCK - 1)
      begin_block(d);
    x.n -= n;
    entry_t result = run_step(&x, step, &x.stack[x.n]);
    x.stack[x.n++] = result;
  }
  return both(&x, x.stack[0].valid, truth(&x, &x.stack[0]));
}
