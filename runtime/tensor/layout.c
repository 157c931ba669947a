// SPDX-License-Identifier: Apache-2.0
// Layouts: the checks that every size and stride passes before anything else sees it, and the
// canonical strides that tensor.h describes.
#include "runtime/tensor/tensor.h"

#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static dt_status_t check_header(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes) {
  if (!dt__dtype_is_valid(dtype))
    return DT_FAIL(DT_E_DTYPE, "dtype: %d is no element type", (int)dtype);
  if (rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_SHAPE, "rank: %u; expected at most %d", rank, DT_MAX_RANK);
  if (rank && !sizes)
    return DT_FAIL(DT_E_ARGUMENT, "sizes: NULL; expected %u sizes for rank %u", rank, rank);
  return NULL;
}

// Fills sizes, count and contiguous strides.
static dt_status_t set_sizes(dt_layout_t *layout, const int64_t *sizes) {
  int64_t bytes = (int64_t)dt_dtype_size(layout->dtype); // with sizes of 0 counted as 1
  int64_t per = dt__dtype_per_byte(layout->dtype);
  int64_t count = 1;
  for (uint32_t dim = layout->rank; dim-- > 0;) {
    int64_t size = sizes[dim];
    if (size < 0)
      return DT_FAIL(DT_E_SHAPE, "sizes[%u]: %lld; expected 0 or more", dim, (long long)size);
    if (size >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE, "sizes[%u]: %lld; expected less than %lld", dim, (long long)size,
                     (long long)DT_SIZE_LIMIT);
    int64_t items = dim + 1 == layout->rank ? (size + per - 1) / per : size;
    bool fits = dt__mul_i64(bytes, items ? items : 1, &bytes);
    if (!fits || bytes >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE,
                     "sizes: the elements from dim %u on take %s%lld bytes of %s (sizes of 0 "
                     "counted as 1); expected less than %lld",
                     dim, fits ? "" : "more than ", (long long)(fits ? bytes : INT64_MAX),
                     dt_dtype_name(layout->dtype), (long long)DT_SIZE_LIMIT);
    layout->sizes[dim] = size;
    layout->strides[dim] = count;
    count *= size; // at most `per` times `bytes`, so it cannot overflow
  }
  layout->count = count;
  return NULL;
}

// Replaces the contiguous strides by the caller's in dims along which one can step, and finds the
// bytes that the elements span.
static dt_status_t set_strides(dt_layout_t *layout, const int64_t *strides) {
  int64_t item = (int64_t)dt_dtype_size(layout->dtype);
  int64_t low = 0, high = item;
  for (uint32_t dim = 0; dim < layout->rank; dim++) {
    if (layout->sizes[dim] <= 1)
      continue;
    if (strides && strides[dim] != layout->strides[dim]) {
      if (dt__dtype_is_packed(layout->dtype))
        return DT_FAIL(DT_E_SHAPE,
                       "strides[%u]: %lld; elements of %s share bytes, so expected the contiguous "
                       "stride %lld",
                       dim, (long long)strides[dim], dt_dtype_name(layout->dtype),
                       (long long)layout->strides[dim]);
      layout->strides[dim] = strides[dim];
      layout->contiguous = false;
    }
    int64_t reach = 0, span = 0;
    int64_t *side = layout->strides[dim] < 0 ? &low : &high;
    bool fits = dt__mul_i64(layout->sizes[dim] - 1, layout->strides[dim], &reach) &&
                dt__mul_i64(reach, item, &reach) && dt__add_i64(*side, reach, side) &&
                !__builtin_sub_overflow(high, low, &span);
    if (!fits || span >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE,
                     "strides[%u]: %lld with size %lld: the elements span %lld bytes or more; "
                     "expected less",
                     dim, (long long)layout->strides[dim], (long long)layout->sizes[dim],
                     (long long)DT_SIZE_LIMIT);
  }
  layout->low = low;
  layout->high = high;
  if (dt__dtype_is_packed(layout->dtype)) // contiguous, and within what set_sizes has seen
    (void)dt__dtype_bytes(layout->dtype, layout->rank, layout->sizes, &layout->high);
  return NULL;
}

// ---- Order --------------------------------------------------------------------------------------
void dt__order_strides(uint32_t order, uint32_t rank, const int64_t *sizes, int64_t *out) {
  int64_t stride = 1;
  for (uint32_t place = rank; place-- > 0;) {
    uint32_t dim = dt__order_dim(order, place);
    out[dim] = stride;
    stride *= sizes[dim];
  }
}

// Whether dim a lies outside of dim b, by how far they step. One along which nobody can step lies
// inside of one with the same step; equals stand as they come.
static bool lies_outside(const dt_layout_t *layout, const int64_t *steps, uint32_t a, uint32_t b) {
  if (steps[a] != steps[b])
    return steps[a] > steps[b];
  bool moves_a = layout->sizes[a] > 1, moves_b = layout->sizes[b] > 1;
  return moves_a != moves_b ? moves_a : a < b;
}

// There are elements.
static uint32_t find_order(const dt_layout_t *layout, const int64_t *strides) {
  int64_t steps[DT_MAX_RANK], expected = 1;
  uint32_t dims[DT_MAX_RANK], order = DT_ORDER_ROW_MAJOR;
  if (!strides || dt__dtype_is_packed(layout->dtype))
    return DT_ORDER_ROW_MAJOR;
  for (uint32_t dim = 0; dim < layout->rank; dim++) {
    bool free = layout->sizes[dim] == 1 && strides[dim] != 0;
    steps[dim] = free ? strides[dim] : layout->strides[dim];
    uint32_t place = dim;
    for (; place > 0 && lies_outside(layout, steps, dim, dims[place - 1]); place--)
      dims[place] = dims[place - 1];
    dims[place] = dim;
  }
  for (uint32_t place = layout->rank; place-- > 0;) {
    uint32_t dim = dims[place];
    if (layout->sizes[dim] > 1 && layout->strides[dim] != expected)
      return DT_ORDER_APART;
    expected *= layout->sizes[dim];
    order = dt__order_with(order, place, dim);
  }
  return order;
}

dt_status_t dt__layout_set(dt_layout_t *out, dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                           const int64_t *strides) {
  DT_TRY(check_header(dtype, rank, sizes));
  dt_layout_t layout = {.dtype = dtype, .rank = rank, .contiguous = true};
  DT_TRY(set_sizes(&layout, sizes));
  if (layout.count)
    DT_TRY(set_strides(&layout, strides));
  if (layout.count)
    layout.order = find_order(&layout, strides);
  *out = layout;
  return NULL;
}
