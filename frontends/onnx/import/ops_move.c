// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: other sizes, parts, joins, padding, ranges.
#include "frontends/onnx/import/import.h"

#include <math.h>

// ---- Reshape ----------------------------------------------------------------------------------------
static bool is_known(dt_imp_node_t *n, dt_sym_t cond) {
  bool value = false;
  return dt_sym_known(n->t, cond, &value) && value;
}

static dt_sym_t number(dt_imp_node_t *n, int64_t value) { return dt_sym_const(n->t, value); }

// A size of 0 means the input's size at its place. A size that is computed may come to 0, too.
static dt_sym_t size_or_copy(dt_imp_node_t *n, uint32_t k, dt_sym_t size, uint32_t rank) {
  if (k >= rank || dt__imp_int(n, "allowzero", 0))
    return size;
  dt_sym_t here = dt__imp_size(n, 0, k), zero = number(n, 0);
  dt_sym_t right = dt_sym_or(n->t, dt_sym_ne(n->t, size, zero), dt_sym_eq(n->t, here, size));
  if (is_known(n, dt_sym_eq(n->t, size, zero)))
    return here;
  return is_known(n, right) || dt_sym_guard_or(n->t, right, false)
             ? size
             : dt_sym_select(n->t, dt_sym_eq(n->t, size, zero), here, size);
}

// Whether a size is the one to be found from the others: 1 yes, 0 no, -1 only a call tells.
static int is_open(dt_imp_node_t *n, dt_sym_t size) {
  dt_sym_t open = dt_sym_eq(n->t, size, number(n, -1));
  bool value = false;
  if (dt_sym_known(n->t, open, &value))
    return value;
  if (dt_sym_guard_or(n->t, dt_sym_not(n->t, open), false))
    return 0;
  return dt_sym_guard_or(n->t, open, false) ? 1 : -1;
}

static dt_sym_t count(dt_imp_node_t *n, dt_value_t x) {
  dt_sym_t all = number(n, 1);
  for (uint32_t k = 0; k < dt_value_rank(n->t, x); k++)
    all = dt_sym_mul(n->t, all, dt_dim(n->t, x, (int32_t)k));
  return all;
}

// Sizes of which any may turn out to be -1 at a call.
static void find_open(dt_imp_node_t *n, dt_value_t x, uint32_t rank, dt_sym_t *sizes) {
  dt_sym_t one = number(n, 1), others = one;
  for (uint32_t k = 0; k < rank; k++) {
    dt_sym_t open = dt_sym_eq(n->t, sizes[k], number(n, -1));
    others = dt_sym_mul(n->t, others, dt_sym_select(n->t, open, one, sizes[k]));
  }
  dt_sym_t found = dt_sym_floordiv(n->t, count(n, x), dt_sym_max(n->t, others, one));
  for (uint32_t k = 0; k < rank; k++) {
    dt_sym_t open = dt_sym_eq(n->t, sizes[k], number(n, -1));
    sizes[k] = dt_sym_select(n->t, open, found, sizes[k]);
  }
}

void dt__imp_make_Reshape(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t shape;
  dt_sym_t sizes[DT_MAX_RANK];
  bool given = false, unsure = false;
  uint32_t rank = dt__imp_rank(n, 0);
  if (!dt__imp_syms_of(n, "shape", 1, &shape, &given) || shape.len > DT_MAX_RANK || !given) {
    dt__imp_fail(n, DT_E_SHAPE, "a shape of %u dims; expected at most %d", shape.len, DT_MAX_RANK);
    return;
  }
  for (uint32_t k = 0; k < shape.len; k++) {
    sizes[k] = size_or_copy(n, k, shape.items[k], rank);
    int open = is_open(n, sizes[k]);
    unsure |= open < 0;
    if (open == 1)
      sizes[k] = number(n, -1);
  }
  if (unsure)
    find_open(n, x, shape.len, sizes);
  dt__imp_out(n, 0, dt_reshape(n->t, x, shape.len, sizes));
}

void dt__imp_make_Flatten(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  int64_t rank = dt__imp_rank(n, 0), axis = dt__imp_int(n, "axis", 1);
  dt_sym_t sizes[2] = {number(n, 1), number(n, 1)};
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank) {
    dt__imp_fail(n, DT_E_SHAPE, "axis %lld of a value of rank %lld", (long long)axis,
                 (long long)rank);
    return;
  }
  for (int64_t k = 0; k < rank; k++)
    sizes[k >= axis] = dt_sym_mul(n->t, sizes[k >= axis], dt_dim(n->t, x, (int32_t)k));
  dt__imp_out(n, 0, dt_reshape(n->t, x, 2, sizes));
}

// ---- Dims of size 1 ---------------------------------------------------------------------------------
// A set of axes as bits; false: failed.
static bool axis_set(dt_imp_node_t *n, const dt_imp_ints_t *axes, uint32_t rank, uint32_t *out) {
  uint32_t axis = 0;
  *out = 0;
  for (uint32_t k = 0; k < axes->len; k++) {
    if (!dt__imp_axis(n, axes->items[k], rank, &axis))
      return false;
    if (*out >> axis & 1u) {
      dt__imp_fail(n, DT_E_SHAPE, "axis %u is there twice", axis);
      return false;
    }
    *out |= 1u << axis;
  }
  return true;
}

void dt__imp_make_Squeeze(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_ints_t axes;
  uint32_t rank = dt__imp_rank(n, 0), set = 0;
  bool given = false;
  if (!dt__imp_ints_of(n, "axes", 1, &axes, &given) || !axis_set(n, &axes, rank, &set))
    return;
  // Without axes the rank depends on the sizes: each that is not known is asked for.
  for (uint32_t k = 0; !given && k < rank; k++)
    if (dt_sym_true(n->t, dt_sym_eq(n->t, dt_dim(n->t, x, (int32_t)k), number(n, 1))))
      set |= 1u << k;
  for (uint32_t k = rank; k-- > 0;)
    if (set >> k & 1u)
      x = dt_squeeze(n->t, x, (int32_t)k);
  dt__imp_out(n, 0, x);
}

void dt__imp_make_Unsqueeze(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_ints_t axes;
  uint32_t set = 0;
  bool given = false;
  if (!dt__imp_ints_of(n, "axes", 1, &axes, &given))
    return;
  uint32_t rank = dt__imp_rank(n, 0) + axes.len;
  if (rank > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "a result of rank %u; at most %d", rank, DT_MAX_RANK);
    return;
  }
  if (!axis_set(n, &axes, rank, &set))
    return;
  for (uint32_t k = 0; k < rank; k++)
    if (set >> k & 1u)
      x = dt_unsqueeze(n->t, x, (int32_t)k);
  dt__imp_out(n, 0, x);
}

// ---- Transpose, Expand, Tile ------------------------------------------------------------------------
void dt__imp_make_Transpose(dt_imp_node_t *n) {
  dt_imp_ints_t perm;
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = dt__imp_rank(n, 0), axis = 0;
  bool given = dt__imp_attr_ints(n, "perm", &perm);
  if (given && perm.len != rank) {
    dt__imp_fail(n, DT_E_SHAPE, "attribute \"perm\" has %u axes for a value of rank %u", perm.len,
                 rank);
    return;
  }
  for (uint32_t k = 0; k < rank; k++) {
    if (!dt__imp_axis(n, given ? perm.items[k] : (int64_t)(rank - 1 - k), rank, &axis))
      return;
    axes[k] = (int32_t)axis;
  }
  dt__imp_out(n, 0, dt_permute(n->t, dt__imp_in(n, 0), axes));
}

// The size that comes out of `here` and `to` where one of them may be 1.
static dt_sym_t broadcast(dt_imp_node_t *n, dt_sym_t here, dt_sym_t to) {
  dt_sym_t one = number(n, 1), to_is_one = dt_sym_eq(n->t, to, one);
  if (is_known(n, dt_sym_eq(n->t, here, one)) || is_known(n, dt_sym_eq(n->t, here, to)))
    return to;
  if (is_known(n, to_is_one))
    return here;
  if (dt_sym_guard_or(n->t, dt_sym_eq(n->t, here, to), false))
    return to;
  return dt_sym_guard_or(n->t, to_is_one, false) ? here : to;
}

void dt__imp_make_Expand(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t shape;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_rank(n, 0);
  if (!dt__imp_syms(n, 1, &shape))
    return;
  uint32_t all = shape.len > rank ? shape.len : rank;
  if (all > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "a result of rank %u; at most %d", all, DT_MAX_RANK);
    return;
  }
  for (uint32_t k = 0; k < all; k++) {
    dt_sym_t here = k < rank ? dt_dim(n->t, x, (int32_t)(rank - 1 - k)) : number(n, 1);
    dt_sym_t to = k < shape.len ? shape.items[shape.len - 1 - k] : number(n, 1);
    sizes[all - 1 - k] = broadcast(n, here, to);
  }
  dt__imp_out(n, 0, dt_expand(n->t, x, all, sizes));
}

// x, `times` times along an axis.
static dt_value_t tile(dt_imp_node_t *n, dt_value_t x, uint32_t axis, dt_sym_t times) {
  dt_sym_t sizes[DT_MAX_RANK + 1], flat[DT_MAX_RANK];
  uint32_t rank = dt_value_rank(n->t, x);
  int64_t literal = 0;
  if (dt_sym_constant(n->t, times, &literal) && literal == 1)
    return x;
  dt__imp_sizes(n, x, flat);
  for (uint32_t k = 0; k <= rank; k++)
    sizes[k] = k == axis ? times : flat[k < axis ? k : k - 1];
  flat[axis] = dt_sym_mul(n->t, flat[axis], times);
  x = dt_expand(n->t, dt_unsqueeze(n->t, x, (int32_t)axis), rank + 1, sizes);
  return dt_reshape(n->t, x, rank, flat);
}

void dt__imp_make_Tile(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t repeats;
  uint32_t rank = dt__imp_rank(n, 0);
  if (!dt__imp_syms(n, 1, &repeats))
    return;
  if (repeats.len != rank) {
    dt__imp_fail(n, DT_E_SHAPE, "%u repeats for a value of rank %u", repeats.len, rank);
    return;
  }
  for (uint32_t k = 0; k < rank; k++)
    x = tile(n, x, k, repeats.items[k]);
  dt__imp_out(n, 0, x);
}

// ---- Concat, Split ----------------------------------------------------------------------------------
void dt__imp_make_Concat(dt_imp_node_t *n) {
  uint32_t n_in = dt__imp_n_in(n);
  dt_value_t *parts = DT_IMP_ARRAY(n, dt_value_t, n_in);
  for (uint32_t k = 0; parts && k < n_in; k++)
    parts[k] = dt__imp_in(n, k);
  if (parts)
    dt__imp_out(n, 0, dt_concat(n->t, n_in, parts, (int32_t)dt__imp_int(n, "axis", 1)));
}

// Sizes of equal parts, of which the last may be smaller.
static void equal_parts(dt_imp_node_t *n, dt_sym_t size, uint32_t parts, dt_sym_t *out) {
  dt_sym_t count = number(n, parts), part = dt_sym_ceildiv(n->t, size, count);
  if (n->opset < 18)
    dt_check(n->t, dt_sym_eq(n->t, dt_sym_mod(n->t, size, count), number(n, 0)),
             "Split without sizes: the parts must be equal");
  for (uint32_t k = 0; k < parts; k++) {
    dt_sym_t left = dt_sym_sub(n->t, size, dt_sym_mul(n->t, part, number(n, k)));
    out[k] = k + 1 < parts ? part : left;
  }
}

void dt__imp_make_Split(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t n_out = n->node->output.len, axis = 0;
  dt_imp_syms_t split;
  bool given = false;
  dt_value_t *parts = DT_IMP_ARRAY(n, dt_value_t, n_out);
  dt_sym_t *sizes = DT_IMP_ARRAY(n, dt_sym_t, n_out);
  if (!parts || !sizes || !dt__imp_syms_of(n, "split", 1, &split, &given) ||
      !dt__imp_axis(n, dt__imp_int(n, "axis", 0), dt__imp_rank(n, 0), &axis))
    return;
  if ((given && split.len != n_out) || dt__imp_int(n, "num_outputs", n_out) != n_out) {
    dt__imp_fail(n, DT_E_SHAPE, "%u parts for %u outputs", split.len, n_out);
    return;
  }
  if (!given)
    equal_parts(n, dt_dim(n->t, x, (int32_t)axis), n_out, sizes);
  dt_split(n->t, x, (int32_t)axis, n_out, given ? split.items : sizes, parts);
  for (uint32_t k = 0; k < n_out; k++)
    dt__imp_out(n, k, parts[k]);
}

// ---- Slice ------------------------------------------------------------------------------------------
void dt__imp_make_Slice(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t starts, ends;
  dt_imp_ints_t axes, steps;
  bool has_starts = false, has_ends = false, has_axes = false, has_steps = false;
  uint32_t rank = dt__imp_rank(n, 0), axis = 0;
  if (!dt__imp_syms_of(n, "starts", 1, &starts, &has_starts) ||
      !dt__imp_syms_of(n, "ends", 2, &ends, &has_ends) ||
      !dt__imp_ints_of(n, "axes", 3, &axes, &has_axes) ||
      !dt__imp_ints_of(n, "steps", 4, &steps, &has_steps))
    return;
  if (starts.len != ends.len || (has_axes && axes.len != starts.len) ||
      (has_steps && steps.len != starts.len)) {
    dt__imp_fail(n, DT_E_SHAPE, "%u starts, %u ends, %u axes, %u steps", starts.len, ends.len,
                 axes.len, steps.len);
    return;
  }
  for (uint32_t k = 0; k < starts.len; k++) {
    if (!dt__imp_axis(n, has_axes ? axes.items[k] : k, rank, &axis))
      return;
    x = dt_slice_range(n->t, x, (int32_t)axis, starts.items[k], ends.items[k],
                       has_steps ? steps.items[k] : 1);
  }
  dt__imp_out(n, 0, x);
}

// ---- Pad --------------------------------------------------------------------------------------------
const char *dt__imp_check_Pad(dt_imp_node_t *n) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
  for (uint32_t k = 0; k < 4; k++)
    if (dt__imp_str_is(n, "mode", "constant", modes[k]))
      return NULL;
  return "attribute \"mode\" is none of constant, reflect, edge and wrap";
}

// What is put around: a literal where it is known; else *out is a tensor of rank 0.
static bool pad_literal(dt_imp_node_t *n, double *out_literal, dt_value_t *out) {
  dt_imp_reals_t reals;
  dt_imp_syms_t syms;
  int64_t value = 0;
  *out_literal = n->opset < 11 ? dt__imp_float(n, "value", 0) : 0;
  *out = (dt_value_t){0};
  if (n->opset < 11 || !dt__imp_has(n, 2))
    return true;
  if (dt__imp_reals(n, 2, &reals) && reals.len == 1) {
    *out_literal = reals.items[0];
    return true;
  }
  if (dt__imp_known(n, 2) && dt__imp_dtype(n, 2) <= DT_U64 && dt__imp_syms(n, 2, &syms) &&
      syms.len == 1 && dt_sym_constant(n->t, syms.items[0], &value)) {
    *out_literal = (double)value;
    return true;
  }
  *out = dt_reshape(n->t, dt__imp_in(n, 2), 0, NULL);
  return false;
}

static dt_value_t pad_constant(dt_imp_node_t *n, dt_value_t x, const dt_sym_t *low,
                               const dt_sym_t *high) {
  double literal = 0;
  dt_value_t value;
  dt_sym_t sizes[DT_MAX_RANK];
  if (pad_literal(n, &literal, &value))
    return dt_pad(n->t, x, low, high, literal);
  dt__imp_sizes(n, x, sizes);
  dt_value_t inside = dt_full(n->t, DT_BOOL, 1, dt_value_rank(n->t, x), sizes);
  return dt_where(n->t, dt_pad(n->t, inside, low, high, 0), dt_pad(n->t, x, low, high, 0), value);
}

// Which element of a dim stands at each place of the padded one.
static dt_value_t source(dt_imp_node_t *n, dt_sym_t size, dt_sym_t low, dt_sym_t whole) {
  dt_trace_t *t = n->t;
  dt_value_t one = dt_scalar(t, DT_I64, 1), zero = dt_scalar(t, DT_I64, 0);
  dt_value_t last = dt_size_value(t, dt_sym_sub(t, size, number(n, 1)));
  dt_value_t at = dt_sub(t, dt_iota(t, DT_I64, 1, &whole, 0), dt_size_value(t, low));
  if (dt__imp_str_is(n, "mode", "", "edge"))
    return dt_minimum(t, dt_maximum(t, at, zero), last);
  if (dt__imp_str_is(n, "mode", "", "wrap"))
    return dt_mod(t, at, dt_add(t, last, one));
  // There and back again, without repeating the ends.
  dt_value_t period = dt_maximum(t, dt_add(t, last, last), one);
  at = dt_mod(t, at, period);
  return dt_minimum(t, at, dt_sub(t, period, at));
}

static dt_value_t pad_from_data(dt_imp_node_t *n, dt_value_t x, const dt_sym_t *low,
                                const dt_sym_t *high) {
  for (uint32_t k = 0; k < dt_value_rank(n->t, x); k++) {
    dt_sym_t size = dt_dim(n->t, x, (int32_t)k);
    dt_sym_t around = dt_sym_add(n->t, low[k], high[k]);
    int64_t none = 0;
    if (dt_sym_constant(n->t, low[k], &none) && none == 0 &&
        dt_sym_constant(n->t, high[k], &none) && none == 0)
      continue;
    dt_value_t at = source(n, size, low[k], dt_sym_add(n->t, size, around));
    x = dt_gather(n->t, x, at, (int32_t)k);
  }
  return x;
}

void dt__imp_make_Pad(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_imp_syms_t pads;
  dt_imp_ints_t axes = {0};
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK];
  bool given = false, has_axes = dt__imp_has(n, 3);
  uint32_t rank = dt__imp_rank(n, 0), axis = 0;
  if (!dt__imp_syms_of(n, n->opset < 2 ? "paddings" : "pads", 1, &pads, &given) ||
      (has_axes && !dt__imp_ints(n, 3, &axes)))
    return;
  uint32_t len = has_axes ? axes.len : rank;
  if (pads.len != 2 * len) {
    dt__imp_fail(n, DT_E_SHAPE, "%u pads for %u axes", pads.len, len);
    return;
  }
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = number(n, 0);
  for (uint32_t k = 0; k < len; k++) {
    if (!dt__imp_axis(n, has_axes ? axes.items[k] : k, rank, &axis))
      return;
    low[axis] = pads.items[k];
    high[axis] = pads.items[len + k];
  }
  bool constant = dt__imp_str_is(n, "mode", "constant", "constant");
  dt__imp_out(n, 0, constant ? pad_constant(n, x, low, high) : pad_from_data(n, x, low, high));
}

// ---- Range ------------------------------------------------------------------------------------------
// Of floats: the number of elements is a literal, or read from data.
static void range_reals(dt_imp_node_t *n) {
  dt_imp_reals_t start, limit, step;
  dt_trace_t *t = n->t;
  dt_dtype_t dtype = dt__imp_dtype(n, 0);
  dt_sym_t len;
  if (dt__imp_reals(n, 0, &start) && dt__imp_reals(n, 1, &limit) && dt__imp_reals(n, 2, &step) &&
      start.len == 1 && limit.len == 1 && step.len == 1 && step.items[0] != 0) {
    double many = ceil((limit.items[0] - start.items[0]) / step.items[0]);
    len = number(n, many > 0 && many < (double)DT_SIZE_LIMIT ? (int64_t)many : 0);
  } else {
    dt_value_t span = dt_sub(t, dt__imp_in(n, 1), dt__imp_in(n, 0));
    dt_value_t many = dt_ceil(t, dt_div(t, span, dt__imp_in(n, 2)));
    many = dt_cast(t, dt_maximum(t, many, dt_scalar(t, dtype, 0)), DT_I64);
    len = dt_item(t, many);
    dt_check(t, dt_sym_le(t, number(n, 0), len), "Range: a negative number of elements");
  }
  dt_value_t at = dt_cast(t, dt_iota(t, DT_I64, 1, &len, 0), dtype);
  at = dt_mul(t, at, dt_reshape(t, dt__imp_in(n, 2), 0, NULL));
  dt__imp_out(n, 0, dt_add(t, at, dt_reshape(t, dt__imp_in(n, 0), 0, NULL)));
}

void dt__imp_make_Range(dt_imp_node_t *n) {
  dt_dtype_t dtype = dt__imp_dtype(n, 0);
  if (dtype > DT_U64) {
    range_reals(n);
    return;
  }
  dt_sym_t start = dt__imp_sym(n, 0, 0), limit = dt__imp_sym(n, 1, 0), step = dt__imp_sym(n, 2, 1);
  dt__imp_out(n, 0, dt_range(n->t, dtype, start, limit, step));
}
