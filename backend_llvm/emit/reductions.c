// SPDX-License-Identifier: Apache-2.0
// Reductions: accumulators, one step, and the end. In the vector loop there is a vector accumulator
// for each unrolled copy, so that steps do not wait for each other; at the end copies are combined
// in pairs, then lanes in halves. The order is fixed by the schedule, never by the sizes of a call.
// Under strict_fp sums and products of floats have one scalar accumulator instead, which takes the
// lanes of all copies in the order of the loop.
#include "backend_llvm/emit/reductions.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/insts.h"

static bool with_index(const dt_reduction_t *reduction) {
  return dt__reduction_is_arg(reduction->kind);
}

static dt_dtype_t value_dtype(const dt_body_t *k, const dt_reduction_t *reduction) {
  return k->stage->insts.items[reduction->value].dtype;
}

// The value over nothing. Of an index reduce any would do; its index -1 says that nothing was seen.
static LLVMValueRef identity(dt_body_t *k, const dt_reduction_t *reduction) {
  dt_dtype_t dtype = value_dtype(k, reduction);
  return dt__emit_constant(k->m, dtype, dt__reduction_identity(reduction->kind, dtype));
}

static LLVMValueRef combine(dt_body_t *k, const dt_reduction_t *reduction, LLVMValueRef a,
                            LLVMValueRef b) {
  LLVMValueRef args[2] = {a, b};
  if (dt__reduction_is_last(reduction->kind))
    return b;
  return dt__emit_scalar_op(k->m, dt__reduction_info(reduction->kind)->combine,
                            value_dtype(k, reduction), args);
}

// A value and where it was found.
typedef struct found_t {
  LLVMValueRef value, index;
} found_t;

// True where `b` beats `a` by value: larger (smaller), or NaN where a is a number.
static LLVMValueRef beats(dt_body_t *k, const dt_reduction_t *reduction, LLVMValueRef b,
                          LLVMValueRef a) {
  dt_emit_t *m = k->m;
  dt_dtype_t dtype = value_dtype(k, reduction);
  bool larger = dt__reduction_info(reduction->kind)->combine == DT_SCALAR_gt; // else lt
  if (!dt__dtype_is_float(dtype)) {
    bool sign = dt__dtype_kind(dtype) == DT_KIND_SINT;
    LLVMIntPredicate wins =
        larger ? (sign ? LLVMIntSGT : LLVMIntUGT) : (sign ? LLVMIntSLT : LLVMIntULT);
    return LLVMBuildICmp(m->b, wins, b, a, "");
  }
  LLVMValueRef better = LLVMBuildFCmp(m->b, larger ? LLVMRealOGT : LLVMRealOLT, b, a, "");
  LLVMValueRef b_nan = LLVMBuildFCmp(m->b, LLVMRealUNO, b, b, "");
  LLVMValueRef a_number = LLVMBuildFCmp(m->b, LLVMRealORD, a, a, "");
  return LLVMBuildOr(m->b, better, LLVMBuildAnd(m->b, b_nan, a_number, ""), "");
}

static LLVMValueRef is_none(dt_body_t *k, LLVMValueRef index) {
  return LLVMBuildICmp(k->m->b, LLVMIntSLT, index, LLVMConstNull(LLVMTypeOf(index)), "");
}

static found_t choose(dt_body_t *k, LLVMValueRef take, found_t a, found_t b) {
  return (found_t){LLVMBuildSelect(k->m->b, take, b.value, a.value, ""),
                   LLVMBuildSelect(k->m->b, take, b.index, a.index, "")};
}

// The better of two, of equals the one with the smaller index; one that saw nothing loses.
static found_t combine_found(dt_body_t *k, const dt_reduction_t *reduction, found_t a, found_t b) {
  dt_emit_t *m = k->m;
  LLVMValueRef wins = beats(k, reduction, b.value, a.value),
               loses = beats(k, reduction, a.value, b.value);
  LLVMValueRef earlier = LLVMBuildICmp(m->b, LLVMIntSLT, b.index, a.index, "");
  LLVMValueRef tie = LLVMBuildAnd(m->b, LLVMBuildNot(m->b, loses, ""), earlier, "");
  LLVMValueRef take = LLVMBuildOr(m->b, wins, tie, "");
  take = LLVMBuildOr(m->b, take, is_none(k, a.index), "");
  take = LLVMBuildAnd(m->b, take, LLVMBuildNot(m->b, is_none(k, b.index), ""), "");
  return choose(k, take, a, b);
}

// ---- Accumulators ----------------------------------------------------------------------------------------
static bool is_ordered(const dt_body_t *k, const dt_reduction_t *reduction) {
  return k->m->target->strict_fp && dt__reduction_has_order(k->stage, reduction);
}

void dt__reduction_begin(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc,
                         bool vector, uint32_t copies) {
  dt_emit_t *m = k->m;
  acc->in_order = vector && !k->outer_lanes && is_ordered(k, reduction);
  if (acc->in_order) {
    vector = false;
    copies = 1;
  }
  uint32_t lanes = vector ? k->lanes : 0;
  acc->type = dt__emit_widen(dt__emit_type(m, value_dtype(k, reduction)), lanes);
  acc->index_type = dt__emit_widen(m->t_i64, lanes);
  LLVMValueRef start = identity(k, reduction);
  if (vector)
    start = dt__emit_splat(m, start, lanes);
  for (uint32_t c = 0; c < copies; c++) {
    acc->value[c] = dt__body_slot(k, acc->type, 1);
    LLVMBuildStore(m->b, start, acc->value[c]);
    if (!with_index(reduction))
      continue;
    acc->index[c] = dt__body_slot(k, acc->index_type, 1);
    LLVMBuildStore(m->b, dt__emit_int(acc->index_type, -1), acc->index[c]);
  }
}

static void step_found(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc,
                       bool vector, uint32_t c, uint32_t level, LLVMValueRef mask) {
  dt_emit_t *m = k->m;
  found_t b = {dt__inst_lane(k, reduction->value, c, vector),
               dt__inst_lane(k, reduction->index, c, vector)};
  dt__body_at(k, level);
  found_t a = {LLVMBuildLoad2(m->b, acc->type, acc->value[c], ""),
               LLVMBuildLoad2(m->b, acc->index_type, acc->index[c], "")};
  LLVMValueRef take =
      LLVMBuildOr(m->b, beats(k, reduction, b.value, a.value), is_none(k, a.index), "");
  if (mask)
    take = LLVMBuildAnd(m->b, take, mask, "");
  found_t best = choose(k, take, a, b);
  LLVMBuildStore(m->b, best.value, acc->value[c]);
  LLVMBuildStore(m->b, best.index, acc->index[c]);
  acc->after[c] = best.value;
  acc->after_index[c] = best.index;
}

// The sum of a product is one fused operation a step.
static bool is_product_sum(const dt_body_t *k, const dt_reduction_t *reduction) {
  const dt_inst_t *inst = &k->stage->insts.items[reduction->value];
  return reduction->kind == DT_REDUCE_SUM && inst->kind == DT_INST_SCALAR &&
         inst->op == DT_SCALAR_mul && dt__dtype_is_float(inst->dtype) && !k->m->target->strict_fp;
}

// Intrinsics that join lanes one after the other, by the scalar op that joins two, and the value of
// lanes that are off: x + -0 is x, and so is x * 1, whatever x is. An ordered reduction has one.
typedef struct in_order_t {
  const char *name;
  double neutral;
} in_order_t;
#define IN_ORDER_add {"llvm.vector.reduce.fadd", -0.0}
#define IN_ORDER_mul {"llvm.vector.reduce.fmul", 1.0}
#define IN_ORDER_free(joins) {NULL, 0}
#define IN_ORDER_ordered(joins) IN_ORDER_##joins
static const in_order_t in_orders[DT_REDUCE_COUNT] = {
#define REDUCTION(id, name, op, joins, start, takes, gives, order, doc)                            \
  [DT_REDUCE_##id] = IN_ORDER_##order(joins),
#include "lower/loop/reductions.def"
};

// The vectors of one iteration, each lane after the other.
static void step_lanes(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc) {
  dt_emit_t *m = k->m;
  uint32_t level = k->stage_level + k->stage->n_loops;
  const in_order_t *lanes_op = &in_orders[reduction->kind];
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef lanes = dt__inst_lane(k, reduction->value, c, true);
    LLVMTypeRef type = LLVMTypeOf(lanes);
    dt__body_at(k, level);
    if (k->masks[c])
      lanes =
          LLVMBuildSelect(m->b, k->masks[c], lanes, dt__emit_float(type, lanes_op->neutral), "");
    LLVMValueRef args[2] = {LLVMBuildLoad2(m->b, acc->type, acc->value[0], ""), lanes};
    LLVMValueRef after = dt__emit_intrinsic(m, lanes_op->name, &type, 1, args, 2);
    LLVMBuildStore(m->b, after, acc->value[0]);
  }
}

static void step(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc) {
  dt_emit_t *m = k->m;
  if (acc->in_order) {
    step_lanes(k, reduction, acc);
    return;
  }
  bool vector = k->acc_vector;
  uint32_t copies = vector ? k->copies : 1;
  uint32_t level = k->stage_level + k->stage->n_loops;
  // With lanes on an outer loop each lane reductions for itself, and lanes that are off are never
  // stored.
  bool masked = vector && !k->outer_lanes;
  const dt_inst_t *inst = &k->stage->insts.items[reduction->value];
  for (uint32_t c = 0; c < copies; c++) {
    LLVMValueRef mask = masked ? k->masks[c] : NULL;
    if (with_index(reduction)) {
      step_found(k, reduction, acc, vector, c, level, mask);
      continue;
    }
    bool fused = is_product_sum(k, reduction);
    LLVMValueRef a = dt__inst_lane(k, fused ? inst->args[0] : reduction->value, c, vector);
    LLVMValueRef b = fused ? dt__inst_lane(k, inst->args[1], c, vector) : NULL;
    dt__body_at(k, level);
    LLVMValueRef before = LLVMBuildLoad2(m->b, acc->type, acc->value[c], "");
    LLVMValueRef after =
        fused ? dt__emit_mul_add(m, a, b, before) : combine(k, reduction, before, a);
    if (mask)
      after = LLVMBuildSelect(m->b, mask, after, before, "");
    LLVMBuildStore(m->b, after, acc->value[c]);
    acc->after[c] = after;
  }
}

static void step_once(dt_body_t *k, uint32_t reduction) {
  if (!k->accs[reduction].stepped)
    step(k, &k->stage->reductions.items[reduction], &k->accs[reduction]);
  k->accs[reduction].stepped = true;
}

void dt__reductions_iterate(dt_body_t *k) {
  for (uint32_t i = 0; i < k->stage->reductions.len; i++)
    k->accs[i].stepped = false;
}

// What the iteration before left is read before any step overwrites it: a value may need that of
// several reductions.
static void read_priors(dt_body_t *k) {
  for (uint32_t id = 0; id < k->stage->insts.len; id++)
    if (k->stage->insts.items[id].kind == DT_INST_PRIOR)
      (void)dt__inst_value(k, id);
}

void dt__reductions_step(dt_body_t *k) {
  read_priors(k);
  for (uint32_t i = 0; i < k->stage->reductions.len; i++)
    step_once(k, i);
}

// ---- The end ---------------------------------------------------------------------------------------------
static LLVMValueRef half(dt_body_t *k, LLVMValueRef vector, uint32_t from, uint32_t n) {
  LLVMValueRef which[DT_MAX_LANES];
  for (uint32_t i = 0; i < n; i++)
    which[i] = dt__emit_i32(k->m, from + i);
  return LLVMBuildShuffleVector(k->m->b, vector, LLVMGetPoison(LLVMTypeOf(vector)),
                                LLVMConstVector(which, n), "");
}

static found_t join(dt_body_t *k, const dt_reduction_t *reduction, found_t a, found_t b) {
  if (with_index(reduction))
    return combine_found(k, reduction, a, b);
  return (found_t){combine(k, reduction, a.value, b.value), NULL};
}

static found_t join_lanes(dt_body_t *k, const dt_reduction_t *reduction, found_t all) {
  for (uint32_t n = k->lanes / 2; n >= 1; n /= 2) {
    found_t low = {half(k, all.value, 0, n), NULL}, high = {half(k, all.value, n, n), NULL};
    if (with_index(reduction)) {
      low.index = half(k, all.index, 0, n);
      high.index = half(k, all.index, n, n);
    }
    all = join(k, reduction, low, high);
  }
  LLVMValueRef zero = dt__emit_i64(k->m, 0);
  all.value = LLVMBuildExtractElement(k->m->b, all.value, zero, "");
  if (with_index(reduction))
    all.index = LLVMBuildExtractElement(k->m->b, all.index, zero, "");
  return all;
}

// All threads of the team get the same, bit for bit: operands only ever change sides.
static found_t join_threads(dt_body_t *k, const dt_reduction_t *reduction, found_t all,
                            uint32_t threads) {
  const dt_device_emit_t *device = k->m->device;
  for (uint32_t n = threads / 2; n >= 1; n /= 2) {
    found_t other = {device->exchange(k, all.value, n), NULL};
    if (with_index(reduction))
      other.index = device->exchange(k, all.index, n);
    all = join(k, reduction, all, other);
  }
  return all;
}

static found_t join_team(dt_body_t *k, const dt_reduction_t *reduction, found_t all) {
  uint32_t warp = dt__target_warp(k->m->target), group = k->team < warp ? k->team : warp;
  all = join_threads(k, reduction, all, k->joined ? k->joined : group);
  if (k->team == group || k->joined)
    return all;
  all.value = k->m->device->gather(k, all.value, 2 * reduction->row);
  if (with_index(reduction))
    all.index = k->m->device->gather(k, all.index, 2 * reduction->row + 1);
  return join_threads(k, reduction, all, k->team / group);
}

LLVMValueRef dt__reduction_join(dt_body_t *k, const dt_reduction_t *reduction, LLVMValueRef a,
                                LLVMValueRef b) {
  return combine(k, reduction, a, b);
}

static LLVMValueRef row_value(dt_body_t *k, const dt_reduction_t *reduction, found_t found) {
  if (!with_index(reduction))
    return found.value;
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(found.index));
  return LLVMBuildSelect(k->m->b, is_none(k, found.index), zero, found.index, "");
}

// A value of the reduction that defines `row`, in its loops: as the iteration before left it, or
// with this one.
static dt_lanes_t in_loops(dt_body_t *k, uint32_t row, bool with_this) {
  dt_lanes_t out = {.varying = k->acc_vector};
  uint32_t i = 0;
  while (i < k->stage->reductions.len && k->stage->reductions.items[i].row != row)
    i++;
  if (i == k->stage->reductions.len) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "loop IR: row %u is reduced by another stage", row));
    for (uint32_t c = 0; c < DT_MAX_UNROLL; c++)
      out.v[c] = dt__emit_i64(k->m, 0);
    return out;
  }
  if (with_this)
    step_once(k, i);
  dt__body_at(k, k->stage_level + k->stage->n_loops);
  const dt_accumulator_t *acc = &k->accs[i];
  for (uint32_t c = 0; c < (out.varying ? k->copies : 1); c++)
    out.v[c] = with_this ? row_value(k, &k->stage->reductions.items[i],
                                     (found_t){acc->after[c], acc->after_index[c]})
                         : LLVMBuildLoad2(k->m->b, acc->type, acc->value[c], "");
  return out;
}

dt_lanes_t dt__reduction_prior(dt_body_t *k, uint32_t row) { return in_loops(k, row, false); }

dt_lanes_t dt__reduction_running(dt_body_t *k, uint32_t row) { return in_loops(k, row, true); }

dt_lanes_t dt__reduction_end(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc,
                             bool vector, uint32_t copies, bool keep_lanes) {
  dt_emit_t *m = k->m;
  if (acc->in_order)
    return (dt_lanes_t){.v = {LLVMBuildLoad2(m->b, acc->type, acc->value[0], "")}};
  found_t found[DT_MAX_UNROLL];
  for (uint32_t c = 0; c < copies; c++) {
    found[c].value = LLVMBuildLoad2(m->b, acc->type, acc->value[c], "");
    found[c].index =
        with_index(reduction) ? LLVMBuildLoad2(m->b, acc->index_type, acc->index[c], "") : NULL;
  }
  dt_lanes_t out = {.varying = keep_lanes && vector};
  if (keep_lanes) {
    for (uint32_t c = 0; c < copies; c++)
      out.v[c] = row_value(k, reduction, found[c]);
    return out;
  }
  for (uint32_t n = copies; n > 1; n = (n + 1) / 2)
    for (uint32_t c = 0; c + (n + 1) / 2 < n; c++)
      found[c] = join(k, reduction, found[c], found[c + (n + 1) / 2]);
  if (vector)
    found[0] = join_lanes(k, reduction, found[0]);
  if (vector && k->team > 1)
    found[0] = join_team(k, reduction, found[0]);
  out.v[0] = row_value(k, reduction, found[0]);
  return out;
}
