// SPDX-License-Identifier: Apache-2.0
// Builders over elements and slices by index, and over order. A part of trace.h, which programs
// include. All functions here are [external].
#ifndef DUCTILE_TRACE_INDEX_H
#define DUCTILE_TRACE_INDEX_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Indices here are i32 or i64 in [-size, size) of the dim they index; one outside gives DT_E_RANGE
// at the call.
//
// Of the indices' sizes: x at the same place, but for `axis`, where `indices` says. Both of one
// rank; along other axes indices are at most as long as x.
DT_API dt_value_t dt_gather_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                     int32_t axis);
// The last dim of `indices`, of size K, says where in K dims of x, behind `batch_dims` leading dims
// that both have: sizes [batch…, dims of indices between batch and last…, the rest of x's…]. K is a
// literal, or becomes one under a guard.
DT_API dt_value_t dt_gather_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                               uint32_t batch_dims);
// How an update and what stands in its place become one. Several updates of one place are taken in
// row-major order, one after another: results are the same each time, on every device. ADD to MIN
// are of numbers, not bool.
typedef enum dt_scatter_mode_t {
  DT_SCATTER_REPLACE = 0, // the last one is what remains
  DT_SCATTER_ADD = 1,
  DT_SCATTER_MUL = 2,
  DT_SCATTER_MAX = 3,
  DT_SCATTER_MIN = 4,
} dt_scatter_mode_t;
// x with `updates` (x's dtype, the indices' sizes) at the places that dt_gather_elements would
// read.
DT_API dt_value_t dt_scatter_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                      dt_value_t updates, int32_t axis, dt_scatter_mode_t mode);
// x with `updates` (x's dtype, the sizes of dt_gather_nd without batch dims) where that would read.
DT_API dt_value_t dt_scatter_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                dt_value_t updates, dt_scatter_mode_t mode);
// What becomes of a slice that is not inside.
typedef enum dt_update_mode_t {
  DT_UPDATE_CHECKED = 0,  // DT_E_RANGE at the call
  DT_UPDATE_CLAMPED = 1,  // begins at the nearest place from which it is inside
  DT_UPDATE_CIRCULAR = 2, // indices are taken modulo the size
} dt_update_mode_t;
// x with `update` (x's dtype, rank and sizes, but along `axis`, where it is at most as long) in the
// place of as many elements from `start` on: i32 or i64, not counted from the end when negative,
// of rank 0, or of rank 1 with a start for each index of dim 0 (then `axis` is another). Of a
// symbol: dt_size_value. State of dt_while that a body replaces by an update of itself is updated
// in place.
DT_API dt_value_t dt_update_slice(dt_trace_t *trace, dt_value_t x, dt_value_t update,
                                  dt_value_t start, int32_t axis, dt_update_mode_t mode);
// The `k` largest (or smallest) elements along `axis`, in order, and their indices (i64): of equal
// ones the lower index first. NaN is larger than any number. 0 <= k <= size.
DT_API void dt_topk(dt_trace_t *trace, dt_value_t x, dt_sym_t k, int32_t axis, bool largest,
                    dt_value_t *out_values, dt_value_t *out_indices);
// All of them: ascending, or descending.
DT_API void dt_sort(dt_trace_t *trace, dt_value_t x, int32_t axis, bool descending,
                    dt_value_t *out_values, dt_value_t *out_indices);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_INDEX_H
