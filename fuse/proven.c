// SPDX-License-Identifier: Apache-2.0
// Checks of places that cannot fail are none: the number that is checked is made of loop variables,
// literals and small integers, and its range lies within the dim. Kernels that check nothing may
// run once where they read constants alone, as those that make the table of a Fourier transform do.
// Stands behind the stages, which bring the number to where it is checked.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

// Values of an instruction, or `known` is false.
typedef struct values_t {
  int64_t lo, hi;
  bool known;
} values_t;

static values_t between(int64_t lo, int64_t hi) { return (values_t){lo, hi, true}; }

static values_t within(values_t all, dt_dtype_t dtype) {
  dt_dtype_bounds_t fits = dt__dtype_bounds(dtype);
  return all.known && all.lo >= fits.low && all.hi <= fits.high ? all : (values_t){0};
}

// a op b where no pair of values leaves 64 bits.
static values_t corners(dt_scalar_op_t op, values_t a, values_t b) {
  const int64_t left[] = {a.lo, a.lo, a.hi, a.hi}, right[] = {b.lo, b.hi, b.lo, b.hi};
  values_t all = {INT64_MAX, INT64_MIN, true};
  for (int k = 0; k < 4; k++) {
    int64_t value = 0;
    bool over = op == DT_SCALAR_add   ? __builtin_add_overflow(left[k], right[k], &value)
                : op == DT_SCALAR_sub ? __builtin_sub_overflow(left[k], right[k], &value)
                                      : __builtin_mul_overflow(left[k], right[k], &value);
    if (over)
      return (values_t){0};
    all.lo = value < all.lo ? value : all.lo;
    all.hi = value > all.hi ? value : all.hi;
  }
  return all;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static values_t of_scalar(const dt_inst_t *inst, const values_t *values) {
  values_t a = values[inst->args[0]];
  values_t b = inst->args[1] == DT_NO_INST ? (values_t){0} : values[inst->args[1]];
  if (!a.known || !b.known)
    return (values_t){0};
  switch (inst->op) {
  case DT_SCALAR_add:
  case DT_SCALAR_sub:
  case DT_SCALAR_mul:
    return within(corners(inst->op, a, b), inst->dtype);
  case DT_SCALAR_mod:
    return b.lo > 0 ? between(0, a.lo >= 0 ? least(a.hi, b.hi - 1) : b.hi - 1) : (values_t){0};
  case DT_SCALAR_minimum:
    return between(least(a.lo, b.lo), least(a.hi, b.hi));
  case DT_SCALAR_maximum:
    return between(most(a.lo, b.lo), most(a.hi, b.hi));
  default:
    return (values_t){0};
  }
}

static values_t of_inst(dt_program_t *program, const dt_inst_t *inst, const values_t *values) {
  if (!dt__dtype_is_int(inst->dtype) || inst->dtype == DT_U64)
    return (values_t){0};
  switch (inst->kind) {
  case DT_INST_CONST:
    return between(inst->value.i, inst->value.i);
  case DT_INST_INDEX: {
    dt_range_t range = dt__sym_range(program->env, inst->sym);
    return within(between(range.lo, range.hi), inst->dtype);
  }
  case DT_INST_LOAD: {
    dt_dtype_bounds_t all = dt__dtype_bounds(inst->dtype);
    return between(all.low, all.high);
  }
  case DT_INST_CAST:
    return within(values[inst->args[0]], inst->dtype);
  case DT_INST_SCALAR:
    return of_scalar(inst, values);
  default:
    return (values_t){0};
  }
}

static dt_status_t prove_stage(dt_program_t *program, dt_stage_t *stage) {
  bool any = false;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    any |= dt__inst_checks(&stage->insts.items[i]);
  if (!any)
    return NULL;
  values_t *values = DT_ARENA_ARRAY(program->arena, values_t, stage->insts.len);
  if (!values)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_t *inst = &stage->insts.items[i];
    values[i] = of_inst(program, inst, values);
    if (!dt__inst_checks(inst))
      continue;
    values_t place = values[inst->args[0]];
    int64_t size = dt__sym_range(program->env, inst->extent).lo;
    if (place.known && place.lo >= 0 && place.hi < size)
      inst->check = DT_NO_CHECK;
  }
  return NULL;
}

dt_status_t dt__fuse_proven(dt_program_t *program, const dt_target_t *target) {
  (void)target;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++)
      DT_TRY(prove_stage(program, &program->kernels.items[k].stages.items[s]));
  return dt__symenv_status(program->env);
}
