// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, on values known as numbers: most are a strided reading of the
// elements of one value.
#include "frontends/onnx/import/known.h"

typedef struct view_t {
  dt_imp_node_t *n;
  const dt_imp_known_t *of;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK], offset;
} view_t;

static view_t whole(dt_imp_node_t *n, const dt_imp_known_t *of) {
  view_t view = {.n = n, .of = of, .rank = of->rank};
  int64_t stride = 1;
  for (uint32_t k = of->rank; k-- > 0; stride *= of->sizes[k]) {
    view.sizes[k] = of->sizes[k];
    view.strides[k] = stride;
  }
  return view;
}

// The elements of a view, as a value of its own; NULL: too many.
static dt_imp_known_t *copied(const view_t *view) {
  dt_imp_known_t *out = dt__imp_known_make(view->n, view->of->dtype, view->rank, view->sizes);
  for (uint32_t at = 0; out && at < out->n; at++) {
    int64_t index = view->offset;
    uint32_t rest = at;
    for (uint32_t k = view->rank; k-- > 0; rest /= (uint32_t)view->sizes[k])
      index += (int64_t)(rest % (uint32_t)view->sizes[k]) * view->strides[k];
    out->items[at] = view->of->items[index];
  }
  return out;
}

static bool give(const view_t *view, uint32_t output) {
  dt_imp_known_t *out = copied(view);
  dt__imp_out_known(view->n, output, out);
  return out != NULL;
}

// The same elements with other sizes; false: not as many.
static bool give_as(dt_imp_node_t *n, const dt_imp_known_t *of, uint32_t rank,
                    const int64_t *sizes) {
  dt_imp_known_t *out = dt__imp_known_make(n, of->dtype, rank, sizes);
  if (!out || out->n != of->n)
    return false;
  for (uint32_t k = 0; k < of->n; k++)
    out->items[k] = of->items[k];
  dt__imp_out_known(n, 0, out);
  return true;
}

// ---- Literals ---------------------------------------------------------------------------------------
// Input k where all its elements are integer literals. False: they are not.
static bool literals(dt_imp_node_t *n, uint32_t k, dt_imp_ints_t *out) {
  const dt_imp_known_t *known = dt__imp_known(n, k);
  *out = (dt_imp_ints_t){0};
  if (!known || !dt__imp_is_integral(known->dtype))
    return false;
  int64_t *items = DT_IMP_ARRAY(n, int64_t, known->n);
  for (uint32_t i = 0; items && i < known->n; i++)
    if (!dt__imp_is_literal(n, known->items[i].sym, &items[i]))
      return false;
  *out = (dt_imp_ints_t){known->n, items};
  return items != NULL;
}

// The same of an attribute, or of input k where there is none. True, with *out empty, where neither
// is given.
static bool given_literals(dt_imp_node_t *n, uint32_t k, const char *attr, dt_imp_ints_t *out) {
  if (dt__imp_attr_ints(n, attr, out) || !dt__imp_has(n, k))
    return true;
  return literals(n, k, out);
}

static bool axis_of(int64_t axis, uint32_t rank, uint32_t *out) {
  int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
  *out = (uint32_t)at;
  return at >= 0 && at < (int64_t)rank;
}

// ---- Other sizes ------------------------------------------------------------------------------------
bool dt__imp_fold_Reshape(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t shape;
  int64_t sizes[DT_MAX_RANK], product = 1, open = -1;
  if (!x || !given_literals(n, 1, "shape", &shape) || shape.len > DT_MAX_RANK)
    return false;
  for (uint32_t k = 0; k < shape.len; k++) {
    bool copies = shape.items[k] == 0 && !dt__imp_int(n, "allowzero", 0) && k < x->rank;
    sizes[k] = copies ? x->sizes[k] : shape.items[k];
    if (sizes[k] == -1)
      open = k;
    else
      product *= sizes[k];
  }
  if (open >= 0 && product > 0)
    sizes[open] = x->n / product;
  return give_as(n, x, shape.len, sizes);
}

bool dt__imp_fold_Flatten(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  int64_t axis = dt__imp_int(n, "axis", 1), sizes[2] = {1, 1};
  if (!x)
    return false;
  axis = axis < 0 ? axis + x->rank : axis;
  for (uint32_t k = 0; k < x->rank; k++)
    sizes[k >= axis] *= x->sizes[k];
  return give_as(n, x, 2, sizes);
}

bool dt__imp_fold_Squeeze(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t axes;
  uint32_t gone = 0, rank = 0, axis = 0;
  int64_t sizes[DT_MAX_RANK];
  if (!x || !given_literals(n, 1, "axes", &axes))
    return false;
  for (uint32_t k = 0; k < axes.len; k++) {
    if (!axis_of(axes.items[k], x->rank, &axis) || x->sizes[axis] != 1)
      return false;
    gone |= 1u << axis;
  }
  for (uint32_t k = 0; k < x->rank; k++)
    if (axes.items ? !(gone >> k & 1u) : x->sizes[k] != 1)
      sizes[rank++] = x->sizes[k];
  return give_as(n, x, rank, sizes);
}

bool dt__imp_fold_Unsqueeze(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t axes;
  uint32_t added = 0, axis = 0, from = 0;
  int64_t sizes[DT_MAX_RANK];
  if (!x || !given_literals(n, 1, "axes", &axes) || x->rank + axes.len > DT_MAX_RANK)
    return false;
  uint32_t rank = x->rank + axes.len;
  for (uint32_t k = 0; k < axes.len; k++) {
    if (!axis_of(axes.items[k], rank, &axis) || (added >> axis & 1u))
      return false;
    added |= 1u << axis;
  }
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = added >> k & 1u ? 1 : x->sizes[from++];
  return give_as(n, x, rank, sizes);
}

// ---- Views ------------------------------------------------------------------------------------------
bool dt__imp_fold_Transpose(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t perm;
  uint32_t axis = 0, seen = 0;
  if (!x)
    return false;
  bool given = dt__imp_attr_ints(n, "perm", &perm);
  view_t from = whole(n, x), view = from;
  if (given && perm.len != x->rank)
    return false;
  for (uint32_t k = 0; k < x->rank; k++) {
    if (!axis_of(given ? perm.items[k] : (int64_t)(x->rank - 1 - k), x->rank, &axis) ||
        (seen >> axis & 1u))
      return false;
    seen |= 1u << axis;
    view.sizes[k] = from.sizes[axis];
    view.strides[k] = from.strides[axis];
  }
  return give(&view, 0);
}

bool dt__imp_fold_Expand(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t shape;
  if (!x || !literals(n, 1, &shape) || shape.len > DT_MAX_RANK)
    return false;
  view_t from = whole(n, x), view = from;
  view.rank = shape.len > x->rank ? shape.len : x->rank;
  for (uint32_t k = 0; k < view.rank; k++) {
    int64_t size = k < x->rank ? from.sizes[x->rank - 1 - k] : 1;
    int64_t to = k < shape.len ? shape.items[shape.len - 1 - k] : 1;
    uint32_t dim = view.rank - 1 - k;
    if (size != to && size != 1 && to != 1)
      return false;
    view.sizes[dim] = size == 1 ? to : size;
    view.strides[dim] = size == 1 ? 0 : from.strides[x->rank - 1 - k];
  }
  return give(&view, 0);
}

// Python's begin:end:step of a dim.
static void cut(view_t *view, uint32_t axis, int64_t begin, int64_t end, int64_t step) {
  int64_t size = view->sizes[axis], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  begin = begin < 0 ? begin + size : begin;
  end = end < 0 ? end + size : end;
  begin = begin < low ? low : begin > high ? high : begin;
  end = end < low ? low : end > high ? high : end;
  int64_t span = step > 0 ? end - begin : begin - end, by = step > 0 ? step : -step;
  view->offset += begin * view->strides[axis];
  view->sizes[axis] = span > 0 ? (span - 1) / by + 1 : 0;
  view->strides[axis] *= step;
}

bool dt__imp_fold_Slice(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t starts, ends, axes, steps;
  uint32_t axis = 0;
  if (!x || !given_literals(n, 1, "starts", &starts) || !given_literals(n, 2, "ends", &ends) ||
      !given_literals(n, 3, "axes", &axes) || !given_literals(n, 4, "steps", &steps) ||
      ends.len != starts.len || (axes.items && axes.len != starts.len) ||
      (steps.items && steps.len != starts.len))
    return false;
  view_t view = whole(n, x);
  for (uint32_t k = 0; k < starts.len; k++) {
    int64_t step = steps.items ? steps.items[k] : 1;
    if (!axis_of(axes.items ? axes.items[k] : k, x->rank, &axis) || step == 0 || step == INT64_MIN)
      return false;
    // Ends far outside must not overflow.
    int64_t far = (int64_t)1 << 40;
    int64_t begin = starts.items[k] > far ? far : starts.items[k] < -far ? -far : starts.items[k];
    int64_t end = ends.items[k] > far ? far : ends.items[k] < -far ? -far : ends.items[k];
    cut(&view, axis, begin, end, step);
  }
  return give(&view, 0);
}

bool dt__imp_fold_Gather(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0), *at = dt__imp_known(n, 1);
  dt_imp_ints_t indices;
  uint32_t axis = 0;
  if (!x || !at || !literals(n, 1, &indices) ||
      !axis_of(dt__imp_int(n, "axis", 0), x->rank, &axis) || x->rank + at->rank > DT_MAX_RANK + 1)
    return false;
  int64_t sizes[DT_MAX_RANK], inner = 1, size = x->sizes[axis];
  uint32_t rank = 0;
  for (uint32_t k = 0; k < x->rank; k++) {
    inner *= k > axis ? x->sizes[k] : 1;
    for (uint32_t i = 0; k == axis && i < at->rank; i++)
      sizes[rank++] = at->sizes[i];
    if (k != axis)
      sizes[rank++] = x->sizes[k];
  }
  dt_imp_known_t *out = dt__imp_known_make(n, x->dtype, rank, sizes);
  for (uint32_t k = 0; out && k < out->n; k++) {
    int64_t low = k % inner, which = k / inner % at->n, high = k / inner / at->n;
    int64_t index = indices.items[which] + (indices.items[which] < 0 ? size : 0);
    if (index < 0 || index >= size)
      return false; // the tensor's check tells
    out->items[k] = x->items[(high * size + index) * inner + low];
  }
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}

// ---- Several values ---------------------------------------------------------------------------------
bool dt__imp_fold_Concat(dt_imp_node_t *n) {
  const dt_imp_known_t *first = dt__imp_known(n, 0);
  uint32_t axis = 0, n_in = dt__imp_n_in(n);
  int64_t sizes[DT_MAX_RANK], inner = 1, offset = 0;
  if (!first || !axis_of(dt__imp_int(n, "axis", 1), first->rank, &axis))
    return false;
  for (uint32_t k = 0; k < first->rank; k++) {
    sizes[k] = k == axis ? 0 : first->sizes[k];
    inner *= k > axis ? first->sizes[k] : 1;
  }
  for (uint32_t k = 0; k < n_in; k++) {
    const dt_imp_known_t *x = dt__imp_known(n, k);
    if (!x || x->rank != first->rank || x->dtype != first->dtype)
      return false;
    for (uint32_t i = 0; i < x->rank; i++)
      if (i != axis && x->sizes[i] != sizes[i])
        return false;
    sizes[axis] += x->sizes[axis];
  }
  dt_imp_known_t *out = dt__imp_known_make(n, first->dtype, first->rank, sizes);
  for (uint32_t k = 0; out && k < n_in; k++) {
    const dt_imp_known_t *x = dt__imp_known(n, k);
    int64_t row = x->sizes[axis] * inner;
    for (uint32_t i = 0; i < x->n; i++)
      out->items[i / row * sizes[axis] * inner + offset + i % row] = x->items[i];
    offset += row;
  }
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}

bool dt__imp_fold_Split(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t sizes;
  uint32_t axis = 0, n_out = dt__imp_n_out(n);
  if (!x || !axis_of(dt__imp_int(n, "axis", 0), x->rank, &axis) ||
      !given_literals(n, 1, "split", &sizes) || (sizes.items && sizes.len != n_out))
    return false;
  int64_t size = x->sizes[axis], parts = dt__imp_int(n, "num_outputs", n_out), offset = 0;
  if (parts < 1)
    return false;
  view_t from = whole(n, x);
  for (uint32_t k = 0; k < n_out; k++) {
    int64_t part = sizes.items ? sizes.items[k] : (size + parts - 1) / parts;
    view_t view = from;
    part = sizes.items || part < size - offset ? part : size - offset;
    if (part < 0 || part > size - offset)
      return false;
    view.sizes[axis] = part;
    view.offset = offset * from.strides[axis];
    offset += part;
    if (dt__imp_wants(n, k) && !give(&view, k))
      return false;
  }
  return offset == size;
}

bool dt__imp_fold_Tile(dt_imp_node_t *n) {
  const dt_imp_known_t *x = dt__imp_known(n, 0);
  dt_imp_ints_t repeats;
  int64_t sizes[DT_MAX_RANK];
  if (!x || !literals(n, 1, &repeats) || repeats.len != x->rank)
    return false;
  for (uint32_t k = 0; k < x->rank; k++)
    if (repeats.items[k] < 0 || !dt__mul_i64(x->sizes[k], repeats.items[k], &sizes[k]))
      return false;
  view_t from = whole(n, x);
  dt_imp_known_t *out = dt__imp_known_make(n, x->dtype, x->rank, sizes);
  for (uint32_t at = 0; out && at < out->n; at++) {
    int64_t index = 0;
    uint32_t rest = at;
    for (uint32_t k = x->rank; k-- > 0; rest /= (uint32_t)sizes[k])
      index += (int64_t)(rest % (uint32_t)sizes[k]) % x->sizes[k] * from.strides[k];
    out->items[at] = x->items[index];
  }
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}

bool dt__imp_fold_Range(dt_imp_node_t *n) {
  dt_imp_ints_t start, limit, step;
  if (!literals(n, 0, &start) || !literals(n, 1, &limit) || !literals(n, 2, &step) ||
      start.len != 1 || limit.len != 1 || step.len != 1 || step.items[0] == 0)
    return false;
  int64_t span = 0, by = step.items[0];
  if (__builtin_sub_overflow(limit.items[0], start.items[0], &span) || span > (int64_t)1 << 40 ||
      span < -((int64_t)1 << 40) || by > (int64_t)1 << 40 || by < -((int64_t)1 << 40))
    return false;
  int64_t len = (span > 0) == (by > 0) && span != 0
                    ? ((span > 0 ? span : -span) - 1) / (by > 0 ? by : -by) + 1
                    : 0;
  dt_imp_known_t *out = dt__imp_known_make(n, dt__imp_dtype(n, 0), 1, &len);
  for (uint32_t k = 0; out && k < out->n; k++)
    out->items[k].sym = dt_sym_const(n->t, start.items[0] + (int64_t)k * by);
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}
