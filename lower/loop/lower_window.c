// SPDX-License-Identifier: Apache-2.0
// Lowering of the sums of overlapping windows: each element of the result gathers its elements from
// the windows, so no two iterations write one place.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

// One dim of windows whose elements and places are summed.
typedef struct overlap_t {
  dt_symenv_t *env;
  const dt_sym_t *field;
  dt_sym_t size, places;
} overlap_t;

// Neighbouring elements stand a stride apart in those windows that meet: only each stride-th is
// asked about.
static bool steps_by_stride(const overlap_t *o) {
  return dt__sym_known_eq(o->env, o->field[2], dt__sym_const(o->env, 1));
}

static dt_sym_t terms(const overlap_t *o) {
  return steps_by_stride(o) ? dt__sym_ceildiv(o->env, o->size, o->field[1]) : o->size;
}

// The element of windows that term `*j` is of, and the place of the window that has it at `at`,
// where `*inside` holds.
static void find_strided(const overlap_t *o, dt_sym_t at, dt_sym_t *j, dt_sym_t *place,
                         dt_sym_t *inside) {
  dt_symenv_t *env = o->env;
  dt_sym_t stride = o->field[1], from = dt__sym_add(env, at, o->field[3]), term = *j;
  *place = dt__sym_sub(env, dt__sym_floordiv(env, from, stride), term);
  *j = dt__sym_add(env, dt__sym_mod(env, from, stride), dt__sym_mul(env, term, stride));
  dt_sym_t range = dt__sym_and(env, dt__sym_le(env, dt__sym_const(env, 0), *place),
                               dt__sym_lt(env, *place, o->places));
  *inside = dt__sym_and(env, *inside, range);
  if (!dt__sym_known_eq(env, dt__sym_mod(env, o->size, stride), dt__sym_const(env, 0)))
    *inside = dt__sym_and(env, *inside, dt__sym_lt(env, *j, o->size));
}

// The same where every element is asked.
static void find_place(const overlap_t *o, dt_sym_t at, dt_sym_t j, dt_sym_t *place,
                       dt_sym_t *inside) {
  dt_symenv_t *env = o->env;
  dt_sym_t zero = dt__sym_const(env, 0), stride = o->field[1];
  dt_sym_t from =
      dt__sym_sub(env, dt__sym_add(env, at, o->field[3]), dt__sym_mul(env, j, o->field[2]));
  *place = dt__sym_floordiv(env, from, stride);
  dt_sym_t whole = dt__sym_eq(env, dt__sym_mod(env, from, stride), zero);
  dt_sym_t range = dt__sym_and(env, dt__sym_le(env, zero, from),
                               dt__sym_lt(env, from, dt__sym_mul(env, o->places, stride)));
  *inside = dt__sym_and(env, *inside, dt__sym_and(env, range, whole));
}

// Of windows that do not overlap each element has one term, which a map adds to nothing.
static dt_status_t end_alone(dt_lowering_t *ctx, dt_node_id_t id, dt_kernel_t *kernel,
                             dt_stage_t *stage, uint32_t term, const dt_sym_t *at) {
  dt_dtype_t dtype = dt__lower_node(ctx, id)->dtype;
  dt_inst_t zero = {.kind = DT_INST_CONST,
                    .dtype = dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST};
  dt_inst_t sum = {.kind = DT_INST_SCALAR,
                   .dtype = dtype,
                   .op = DT_SCALAR_add,
                   .args = {term, DT_NO_INST, DT_NO_INST},
                   .mask = DT_NO_INST};
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  DT_TRY(dt__stage_add(ctx->program, stage, &zero, &sum.args[1]));
  DT_TRY(dt__stage_add(ctx->program, stage, &sum, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, kernel, stage, buffer, at, value);
}

dt_status_t dt__lower_overlap(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  uint32_t n = node->attrs->n_axes, lead = in->rank - 2 * n;
  dt_reduction_t reduction = {.kind = DT_REDUCE_SUM, .index = DT_NO_INST};
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK], inside = dt__sym_const(ctx->env, 1);
  uint32_t mask = DT_NO_INST;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  for (uint32_t k = 0; k < lead; k++)
    old[k] = at[k];
  overlap_t dims[DT_MAX_RANK];
  dt_sym_t extents[DT_MAX_RANK];
  for (uint32_t k = 0; k < n; k++) {
    dims[k] = (overlap_t){ctx->env, &node->attrs->syms[4 * k], in->sizes[lead + k],
                          in->sizes[lead + n + k]};
    extents[k] = terms(&dims[k]);
  }
  DT_TRY(dt__lower_loops(ctx, n, extents, DT_OPEN_SQUEEZED, stage.vars, stage.extents,
                         &stage.n_loops, &old[lead]));
  for (uint32_t k = 0; k < n; k++) {
    if (steps_by_stride(&dims[k]))
      find_strided(&dims[k], at[lead + k], &old[lead + k], &old[lead + n + k], &inside);
    else
      find_place(&dims[k], at[lead + k], old[lead + k], &old[lead + n + k], &inside);
  }
  if (!dt__sym_known_true(ctx->env, inside)) {
    dt_inst_t test = {.kind = DT_INST_INDEX, .dtype = DT_BOOL, .sym = inside};
    DT_TRY(dt__stage_add(ctx->program, &stage, &test, &mask));
  }
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], old, mask, DT_NO_INST, &reduction.value));
  if (stage.n_loops == 0)
    return end_alone(ctx, id, &kernel, &stage, reduction.value, at);
  return dt__lower_end_row(ctx, id, &kernel, &stage, &reduction, at);
}
