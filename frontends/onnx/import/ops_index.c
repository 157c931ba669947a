// SPDX-License-Identifier: Apache-2.0
// Operators that read and write at indices.
#include "frontends/onnx/import/import.h"

void dt__imp_make_Gather(dt_imp_node_t *n) {
  dt__imp_out(
      n, 0,
      dt_gather(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), (int32_t)dt__imp_int(n, "axis", 0)));
}

// Dims first, as the format has it.
void dt__imp_make_NonZero(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_transpose(n->t, dt_nonzero(n->t, dt__imp_in(n, 0)), 0, 1));
}

void dt__imp_make_GatherElements(dt_imp_node_t *n) {
  dt__imp_out(n, 0,
              dt_gather_elements(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1),
                                 (int32_t)dt__imp_int(n, "axis", 0)));
}

void dt__imp_make_GatherND(dt_imp_node_t *n) {
  int64_t batch = dt__imp_int(n, "batch_dims", 0);
  if (batch < 0 || batch > DT_MAX_RANK)
    dt__imp_fail(n, DT_E_SHAPE, "attribute \"batch_dims\" is %lld", (long long)batch);
  dt__imp_out(n, 0, dt_gather_nd(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), (uint32_t)batch));
}

// ---- Scatter ----------------------------------------------------------------------------------------
static const char *const reductions[] = {"none", "add", "mul", "max", "min"}; // dt_scatter_mode_t

static uint32_t reduction(dt_imp_node_t *n) {
  uint32_t mode = 0;
  while (mode < 5 && !dt__imp_str_is(n, "reduction", "none", reductions[mode]))
    mode++;
  return mode;
}

const char *dt__imp_check_Scatter(dt_imp_node_t *n) {
  return reduction(n) < 5 ? NULL : "attribute \"reduction\" is none of none, add, mul, max and min";
}

void dt__imp_make_ScatterElements(dt_imp_node_t *n) {
  dt__imp_out(n, 0,
              dt_scatter_elements(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), dt__imp_in(n, 2),
                                  (int32_t)dt__imp_int(n, "axis", 0),
                                  (dt_scatter_mode_t)reduction(n)));
}

void dt__imp_make_ScatterND(dt_imp_node_t *n) {
  dt__imp_out(n, 0,
              dt_scatter_nd(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), dt__imp_in(n, 2),
                            (dt_scatter_mode_t)reduction(n)));
}

const char *dt__imp_check_TensorScatter(dt_imp_node_t *n) {
  return dt__imp_str_is(n, "mode", "linear", "linear") ||
                 dt__imp_str_is(n, "mode", "linear", "circular")
             ? NULL
             : "attribute \"mode\" is neither linear nor circular";
}

void dt__imp_make_TensorScatter(dt_imp_node_t *n) {
  bool circular = dt__imp_str_is(n, "mode", "linear", "circular");
  dt_value_t start = dt__imp_has(n, 2) ? dt__imp_in(n, 2) : dt_scalar(n->t, DT_I64, 0);
  dt__imp_out(n, 0,
              dt_update_slice(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), start,
                              (int32_t)dt__imp_int(n, "axis", -2),
                              circular ? DT_UPDATE_CIRCULAR : DT_UPDATE_CHECKED));
}

// ---- TopK, OneHot -----------------------------------------------------------------------------------
void dt__imp_make_TopK(dt_imp_node_t *n) {
  dt_value_t values, indices;
  dt_sym_t k = n->opset < 10 ? dt_sym_const(n->t, dt__imp_int(n, "k", 0)) : dt__imp_sym(n, 1, 0);
  dt_topk(n->t, dt__imp_in(n, 0), k, (int32_t)dt__imp_int(n, "axis", -1),
          dt__imp_int(n, "largest", 1) != 0, &values, &indices);
  dt__imp_out(n, 0, values);
  dt__imp_out(n, 1, indices);
}

// The number of classes, which may be given as a float.
static dt_sym_t depth_of(dt_imp_node_t *n) {
  dt_imp_reals_t reals;
  if (dt__imp_dtype(n, 1) <= DT_U64)
    return dt__imp_sym(n, 1, 0);
  if (dt__imp_reals(n, 1, &reals) && reals.len == 1 && reals.items[0] >= 0 &&
      reals.items[0] < (double)DT_SIZE_LIMIT)
    return dt_sym_const(n->t, (int64_t)reals.items[0]);
  return dt_item(n->t, dt_cast(n->t, dt__imp_in(n, 1), DT_I64));
}

void dt__imp_make_OneHot(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  dt_value_t at = dt_cast(t, dt__imp_in(n, 0), DT_I64), values = dt__imp_in(n, 2);
  uint32_t rank = dt__imp_rank(n, 0), axis = 0;
  dt_sym_t depth = depth_of(n);
  if (rank >= DT_MAX_RANK || !dt__imp_axis(n, dt__imp_int(n, "axis", -1), rank + 1, &axis)) {
    dt__imp_fail(n, DT_E_LIMIT, "a result of rank %u; at most %d", rank + 1, DT_MAX_RANK);
    return;
  }
  dt_value_t below = dt_lt(t, at, dt_scalar(t, DT_I64, 0));
  at = dt_where(t, below, dt_add(t, at, dt_size_value(t, depth)), at);
  dt_value_t classes = dt_iota(t, DT_I64, 1, &depth, 0);
  for (uint32_t k = axis; k < rank; k++)
    classes = dt_unsqueeze(t, classes, -1);
  dt_value_t hit = dt_eq(t, dt_unsqueeze(t, at, (int32_t)axis), classes);
  dt_sym_t zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1);
  dt_value_t off = dt_squeeze(t, dt_slice(t, values, 0, zero, one, 1), 0);
  dt_value_t on = dt_squeeze(t, dt_slice(t, values, 0, one, one, 1), 0);
  dt__imp_out(n, 0, dt_where(t, hit, on, off));
}
