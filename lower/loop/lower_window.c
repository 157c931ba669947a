// SPDX-License-Identifier: Apache-2.0
// Lowering of the sums of overlapping windows: each element of the result gathers what windows have
// there, so that no two iterations write one place.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

// The place along one dim whose element `j` stands at `at`: in `*place`, where `*inside` holds.
static void find_place(dt_symenv_t *env, const dt_sym_t *field, dt_sym_t at, dt_sym_t j,
                       dt_sym_t places, dt_sym_t *place, dt_sym_t *inside) {
  dt_sym_t zero = dt__sym_const(env, 0), stride = field[1];
  dt_sym_t from = dt__sym_sub(env, dt__sym_add(env, at, field[3]), dt__sym_mul(env, j, field[2]));
  *place = dt__sym_floordiv(env, from, stride);
  dt_sym_t whole = dt__sym_eq(env, dt__sym_mod(env, from, stride), zero);
  dt_sym_t range = dt__sym_and(env, dt__sym_le(env, zero, from),
                               dt__sym_lt(env, from, dt__sym_mul(env, places, stride)));
  *inside = dt__sym_and(env, *inside, dt__sym_and(env, range, whole));
}

dt_status_t dt__lower_overlap(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  uint32_t n = node->attrs->n_axes, lead = in->rank - 2 * n;
  dt_fold_t fold = {.kind = DT_FOLD_SUM, .index = DT_NO_INST};
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK], inside = dt__sym_const(ctx->env, 1);
  uint32_t mask = DT_NO_INST;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  for (uint32_t k = 0; k < lead; k++)
    old[k] = at[k];
  DT_TRY(dt__lower_loops(ctx, n, &in->sizes[lead], DT_OPEN_SQUEEZED, stage.vars, stage.extents,
                         &stage.n_loops, &old[lead]));
  for (uint32_t k = 0; k < n; k++)
    find_place(ctx->env, &node->attrs->syms[4 * k], at[lead + k], old[lead + k],
               in->sizes[lead + n + k], &old[lead + n + k], &inside);
  if (!dt__sym_known_true(ctx->env, inside)) {
    dt_inst_t test = {.kind = DT_INST_INDEX, .dtype = DT_BOOL, .sym = inside};
    DT_TRY(dt__stage_add(ctx->program, &stage, &test, &mask));
  }
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], old, mask, DT_NO_INST, &fold.value));
  return dt__lower_end_row(ctx, id, &kernel, &stage, &fold, at);
}
