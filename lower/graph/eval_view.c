// SPDX-License-Identifier: Apache-2.0
// Evaluation of views, padding, joining and indexing: elements move, none is computed.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

// Fills `out` from `in` starting at `base` with the given input strides, one a dim of the result.
static void copy_strided(const dt_eval_value_t *in, int64_t base, const int64_t *strides,
                         dt_eval_value_t *out) {
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, strides);
  for (int64_t k = 0; k < out->count; k++, dt__walk_next(&walk))
    dt__eval_put(out, k, dt__eval_at(in, base + walk.offset));
}

dt_status_t dt__eval_reshape(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  if (in->count != out->count)
    return dt__eval_misfit(node, "the number of elements changes");
  for (int64_t k = 0; k < out->count; k++)
    dt__eval_put(out, k, dt__eval_at(in, k));
  return NULL;
}

dt_status_t dt__eval_permute(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t from[DT_MAX_RANK] = {0}, strides[DT_MAX_RANK] = {0};
  dt__eval_strides(in, from);
  for (uint32_t k = 0; k < out->rank; k++) {
    int32_t axis = node->attrs->axes[k];
    strides[k] = from[axis];
    if (in->sizes[axis] != out->sizes[k])
      return dt__eval_misfit(node, "sizes change");
  }
  copy_strided(in, 0, strides, out);
  return NULL;
}

dt_status_t dt__eval_expand(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t strides[DT_MAX_RANK] = {0};
  dt__eval_strides(in, strides);
  for (uint32_t k = 0; k < out->rank; k++) {
    if (in->sizes[k] != out->sizes[k] && in->sizes[k] != 1)
      return dt__eval_misfit(node, "a dim neither is kept nor has size 1");
    if (in->sizes[k] == 1)
      strides[k] = 0;
  }
  copy_strided(in, 0, strides, out);
  return NULL;
}

dt_status_t dt__eval_slice(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t strides[DT_MAX_RANK] = {0}, base = 0;
  if (out->count == 0)
    return NULL;
  dt__eval_strides(in, strides);
  for (uint32_t k = 0; k < out->rank; k++) {
    int64_t start = 0, step = node->attrs->ints[k], last = 0;
    DT_TRY(dt__eval_sym(e, node->attrs->syms[2 * k], &start));
    bool fits = dt__mul_i64(out->sizes[k] - 1, step, &last) && dt__add_i64(start, last, &last);
    if (!fits || start < 0 || start >= in->sizes[k] || last < 0 || last >= in->sizes[k])
      return dt__eval_misfit(node, "elements outside the input are taken");
    base += start * strides[k];
    // Where one element is taken the step is never made, and may be anything.
    strides[k] = out->sizes[k] > 1 ? strides[k] * step : 0;
  }
  copy_strided(in, base, strides, out);
  return NULL;
}

dt_status_t dt__eval_pad(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t strides[DT_MAX_RANK] = {0}, low[DT_MAX_RANK] = {0};
  dt__eval_strides(in, strides);
  for (uint32_t k = 0; k < out->rank; k++) {
    int64_t high = 0;
    DT_TRY(dt__eval_sym(e, node->attrs->syms[2 * k], &low[k]));
    DT_TRY(dt__eval_sym(e, node->attrs->syms[2 * k + 1], &high));
    if (low[k] < 0 || high < 0 || high >= DT_SIZE_LIMIT ||
        out->sizes[k] - low[k] != in->sizes[k] + high)
      return dt__eval_misfit(node, "the padding does not fit");
  }
  dt_approx_t fill = {.v = {.i = node->attrs->ints[0]}};
  if (dt__dtype_is_float(out->dtype))
    fill.v = dt__scalar_cast(DT_F64, out->dtype, (dt_scalar_t){.f = node->attrs->floats[0]});
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, strides);
  for (int64_t k = 0; k < out->count; k++, dt__walk_next(&walk)) {
    int64_t at = 0;
    bool inside = true;
    for (uint32_t dim = 0; dim < out->rank && inside; dim++) {
      int64_t index = walk.index[dim] - low[dim];
      inside = index >= 0 && index < in->sizes[dim];
      at += inside ? index * strides[dim] : 0;
    }
    dt__eval_put(out, k, inside ? dt__eval_at(in, at) : fill);
  }
  return NULL;
}

dt_status_t dt__eval_concat(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  int64_t strides[DT_MAX_RANK] = {0}, begin = 0;
  dt__eval_strides(out, strides);
  for (uint32_t n = 0; n < node->n_inputs; n++) {
    const dt_eval_value_t *in = dt__eval_in(e, node, n);
    for (uint32_t k = 0; k < out->rank; k++) {
      if (k != axis ? in->sizes[k] != out->sizes[k] : in->sizes[k] > out->sizes[k] - begin)
        return dt__eval_misfit(node, "the inputs do not fit together");
    }
    dt_walk_t walk = dt__walk_begin(in->rank, in->sizes, strides);
    for (int64_t k = 0; k < in->count; k++, dt__walk_next(&walk))
      dt__eval_put(out, begin * strides[axis] + walk.offset, dt__eval_at(in, k));
    begin += in->sizes[axis];
  }
  return begin == out->sizes[axis] ? NULL : dt__eval_misfit(node, "the sizes do not add up");
}

// Result dims are x's before the axis, the indices', and x's after it.
dt_status_t dt__eval_gather(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0), *indices = dt__eval_in(e, node, 1);
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  int64_t before = 1, after = 1, size = in->sizes[axis];
  if (out->count == 0)
    return NULL;
  uint32_t dim = 0;
  bool fits = true;
  for (uint32_t k = 0; k < axis; k++, dim++)
    fits = fits && in->sizes[k] == out->sizes[dim];
  for (uint32_t k = 0; k < indices->rank; k++, dim++)
    fits = fits && indices->sizes[k] == out->sizes[dim];
  for (uint32_t k = axis + 1; k < in->rank; k++, dim++)
    fits = fits && in->sizes[k] == out->sizes[dim];
  if (!fits)
    return dt__eval_misfit(node, "the indices do not fit the result");
  for (uint32_t k = 0; k < axis; k++)
    before *= in->sizes[k];
  for (uint32_t k = axis + 1; k < in->rank; k++)
    after *= in->sizes[k];
  for (int64_t k = 0; k < indices->count; k++) {
    dt_approx_t given = dt__eval_at(indices, k);
    int64_t index = given.v.i < 0 ? given.v.i + size : given.v.i;
    if (index < 0 || index >= size)
      return DT_FAIL(DT_E_RANGE, "gather: index %lld (element %lld) is not in [-%lld, %lld)",
                     (long long)given.v.i, (long long)k, (long long)size, (long long)size);
    for (int64_t b = 0; b < before; b++) {
      for (int64_t a = 0; a < after; a++) {
        dt_approx_t x = dt__eval_at(in, (b * size + index) * after + a);
        x.b = isinf(given.b) ? INFINITY : x.b;
        dt__eval_put(out, (b * indices->count + k) * after + a, x);
      }
    }
  }
  return NULL;
}
