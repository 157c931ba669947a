// SPDX-License-Identifier: Apache-2.0
// Operators that choose, mirror or mask elements by their indices.
#include "frontends/onnx/import/known.h"

static dt_value_t i64(dt_imp_node_t *n, int64_t value) {
  return dt_scalar(n->t, DT_I64, (double)value);
}

static dt_value_t as_rank_0(dt_imp_node_t *n, dt_value_t x) {
  if (dt__imp_failed(n))
    return x;
  return dt_cast(n->t, dt_value_rank(n->t, x) ? dt_reshape(n->t, x, 0, NULL) : x, DT_I64);
}

// Attribute `name` as an axis of `rank`; `otherwise` without it. -1: failed.
static int32_t axis_of(dt_imp_node_t *n, const char *name, int64_t otherwise, uint32_t rank) {
  int64_t axis = dt__imp_int(n, name, otherwise);
  int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
  if (!dt__imp_failed(n) && at >= 0 && at < (int64_t)rank)
    return (int32_t)at;
  dt__imp_fail(n, DT_E_SHAPE, "attribute \"%s\": axis %lld of rank %u", name, (long long)axis,
               rank);
  return -1;
}

// How far the column of an element of x's last two dims is right of its row, [rows, columns].
static dt_value_t diagonals(dt_imp_node_t *n, dt_value_t x) {
  const dt_sym_t rows[2] = {dt_dim(n->t, x, -2), dt_sym_const(n->t, 1)};
  const dt_sym_t columns[1] = {dt_dim(n->t, x, -1)};
  return dt_sub(n->t, dt_iota(n->t, DT_I64, 1, columns, 0), dt_iota(n->t, DT_I64, 2, rows, 0));
}

// ---- Matrices ---------------------------------------------------------------------------------------
const char *dt__imp_check_EyeLike(dt_imp_node_t *n) {
  return dt__imp_attr_dtype(n, "dtype", DT_F32) == DT_DTYPE_NONE
             ? "of an element type that is not supported"
             : NULL;
}

void dt__imp_make_EyeLike(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_dtype_t dtype = dt__imp_attr_dtype(n, "dtype", dt__imp_dtype(n, 0));
  if (!dt__imp_failed(n) && dt_value_rank(n->t, x) != 2)
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 2", dt_value_rank(n->t, x));
  if (dt__imp_failed(n))
    return;
  dt_value_t on = dt_eq(n->t, diagonals(n, x), i64(n, dt__imp_int(n, "k", 0)));
  dt__imp_out(n, 0, dt_cast(n->t, on, dtype));
}

void dt__imp_make_Trilu(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_value_t k = dt__imp_has(n, 1) ? as_rank_0(n, dt__imp_in(n, 1)) : i64(n, 0);
  if (!dt__imp_failed(n) && dt_value_rank(n->t, x) < 2)
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected at least 2", dt_value_rank(n->t, x));
  if (dt__imp_failed(n))
    return;
  dt_value_t at = diagonals(n, x);
  dt_value_t kept = dt__imp_int(n, "upper", 1) ? dt_ge(n->t, at, k) : dt_le(n->t, at, k);
  dt__imp_out(n, 0, dt_where(n->t, kept, x, dt_scalar(n->t, dt_value_dtype(n->t, x), 0)));
}

// ---- Choosing ---------------------------------------------------------------------------------------
// Indices of the true elements: numbers where the condition is known.
static dt_value_t true_indices(dt_imp_node_t *n) {
  const dt_imp_known_t *known = dt__imp_known(n, 1);
  if (known && known->dtype != DT_BOOL)
    known = NULL;
  int64_t *found = known ? DT_IMP_ARRAY(n, int64_t, known->n) : NULL, value = 0;
  uint32_t count = 0, k = 0;
  for (; found && k < known->n && dt__imp_is_literal(n, known->items[k].sym, &value); k++)
    if (value)
      found[count++] = k;
  if (!found || k < known->n) {
    const dt_sym_t one_dim[1] = {dt_sym_const(n->t, -1)};
    return dt_reshape(n->t, dt_nonzero(n->t, dt__imp_in(n, 1)), 1, one_dim);
  }
  dt_imp_known_t *list = dt__imp_known_list(n, DT_I64, count);
  for (k = 0; list && k < count; k++)
    list->items[k].sym = dt_sym_const(n->t, found[k]);
  return list ? dt__imp_known_tensor(n, list) : (dt_value_t){0};
}

void dt__imp_make_Compress(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  const dt_sym_t flat[1] = {dt_sym_const(n->t, -1)};
  uint32_t rank = dt__imp_rank(n, 0);
  int32_t axis = 0;
  if (dt__imp_rank(n, 1) != 1)
    dt__imp_fail(n, DT_E_SHAPE, "input 1 has rank %u; expected 1", dt__imp_rank(n, 1));
  if (!dt__imp_has_attr(n, "axis"))
    x = dt_reshape(n->t, x, 1, flat);
  else
    axis = axis_of(n, "axis", 0, rank);
  if (!dt__imp_failed(n))
    dt__imp_out(n, 0, dt_gather(n->t, x, true_indices(n), axis));
}

// ---- Mirroring --------------------------------------------------------------------------------------
// x [T, B, …]: of part b the first lengths[b] elements of T stand in the opposite order.
static dt_value_t mirrored(dt_imp_node_t *n, dt_value_t x, dt_value_t lengths) {
  uint32_t rank = dt_value_rank(n->t, x);
  dt_sym_t sizes[DT_MAX_RANK];
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = dt_dim(n->t, x, (int32_t)k);
  const dt_sym_t times[2] = {sizes[0], dt_sym_const(n->t, 1)};
  dt_value_t t = dt_iota(n->t, DT_I64, 2, times, 0), b = dt_iota(n->t, DT_I64, 1, &sizes[1], 0);
  dt_value_t other = dt_sub(n->t, dt_sub(n->t, lengths, i64(n, 1)), t);
  dt_value_t from = dt_where(n->t, dt_lt(n->t, t, lengths), other, t); // [T, B]
  from = dt_add(n->t, dt_mul(n->t, from, dt_size_value(n->t, sizes[1])), b);
  sizes[1] = dt_sym_mul(n->t, sizes[0], sizes[1]);
  return dt_gather(n->t, dt_reshape(n->t, x, rank - 1, sizes + 1), from, 0);
}

void dt__imp_make_ReverseSequence(dt_imp_node_t *n) {
  uint32_t rank = dt__imp_rank(n, 0), k = 2;
  int32_t time = axis_of(n, "time_axis", 0, rank), batch = axis_of(n, "batch_axis", 1, rank);
  dt_value_t x = dt__imp_in(n, 0), lengths = dt__imp_in(n, 1);
  if (!dt__imp_failed(n) && (rank < 2 || time == batch))
    dt__imp_fail(n, DT_E_SHAPE, "time and batch are one axis");
  if (dt__imp_failed(n))
    return;
  int32_t order[DT_MAX_RANK], back[DT_MAX_RANK];
  order[0] = time;
  order[1] = batch;
  for (int32_t i = 0; i < (int32_t)rank; i++)
    if (i != time && i != batch)
      order[k++] = i;
  for (uint32_t i = 0; i < rank; i++)
    back[order[i]] = (int32_t)i;
  x = mirrored(n, dt_permute(n->t, x, order), dt_cast(n->t, lengths, DT_I64));
  dt__imp_out(n, 0, dt_permute(n->t, x, back));
}

// ---- CenterCropPad ----------------------------------------------------------------------------------
void dt__imp_make_CenterCropPad(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t sizes;
  dt_imp_ints_t axes;
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK];
  uint32_t rank = dt__imp_rank(n, 0);
  bool some = dt__imp_attr_ints(n, "axes", &axes);
  if (!dt__imp_syms(n, 1, &sizes))
    return;
  if (sizes.len != (some ? axes.len : rank)) {
    dt__imp_fail(n, DT_E_SHAPE, "input 1 has %u sizes; expected %u", sizes.len,
                 some ? axes.len : rank);
    return;
  }
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = dt_sym_const(n->t, 0);
  for (uint32_t k = 0; k < sizes.len; k++) {
    int64_t axis = some ? axes.items[k] : k;
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis >= rank) {
      dt__imp_fail(n, DT_E_SHAPE, "attribute \"axes\": axis %lld of rank %u", (long long)axis,
                   rank);
      return;
    }
    // Of an odd number of elements the larger part comes or goes at the end.
    dt_sym_t more = dt_sym_sub(n->t, sizes.items[k], dt_dim(n->t, x, (int32_t)axis));
    low[axis] = dt_sym_truncdiv(n->t, more, dt_sym_const(n->t, 2));
    high[axis] = dt_sym_sub(n->t, more, low[axis]);
  }
  dt__imp_out(n, 0, dt_pad(n->t, x, low, high, 0));
}
