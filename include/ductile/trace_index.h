// SPDX-License-Identifier: Apache-2.0
// Builders that read and write elements and slices by index, and that sort. A part of trace.h,
// which programs include. All functions here are [external].
#ifndef DUCTILE_TRACE_INDEX_H
#define DUCTILE_TRACE_INDEX_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Indices here are i32 or i64. An index must be in [-size, size) of the dim that it indexes; one
// outside gives DT_E_RANGE at the call.
//
// The result has the sizes of `indices`. Each element is x's at the same position, but with the
// index along `axis` taken from `indices`. Both have one rank. Along other axes `indices` is at
// most as long as x.
DT_API dt_value_t dt_gather_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                     int32_t axis);
// The last dim of `indices` has size K and holds indices into K dims of x. These dims follow
// `batch_dims` leading dims that both operands have. Sizes of the result: [batch…, dims of indices
// between batch and last…, the remaining dims of x…]. K is a literal, or becomes one under a guard.
DT_API dt_value_t dt_gather_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                               uint32_t batch_dims);
// How an update is combined with the element in its place. Several updates of one place are applied
// one after another in row-major order, so results are the same each time, on every device. ADD to
// MIN take numbers, not bool.
typedef enum dt_scatter_mode_t {
  DT_SCATTER_REPLACE = 0, // the last update remains
  DT_SCATTER_ADD = 1,
  DT_SCATTER_MUL = 2,
  DT_SCATTER_MAX = 3,
  DT_SCATTER_MIN = 4,
} dt_scatter_mode_t;
// x with `updates` (x's dtype, the sizes of `indices`) at the places that dt_gather_elements would
// read.
DT_API dt_value_t dt_scatter_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                      dt_value_t updates, int32_t axis, dt_scatter_mode_t mode);
// x with `updates` (x's dtype, the sizes of dt_gather_nd's result without batch dims) at the places
// that dt_gather_nd would read.
DT_API dt_value_t dt_scatter_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                                dt_value_t updates, dt_scatter_mode_t mode);
// What happens with a slice that is not inside x.
typedef enum dt_update_mode_t {
  DT_UPDATE_CHECKED = 0,  // DT_E_RANGE at the call
  DT_UPDATE_CLAMPED = 1,  // it begins at the nearest place from which it is inside
  DT_UPDATE_CIRCULAR = 2, // indices are taken modulo the size
} dt_update_mode_t;
// x with the elements from `start` on along `axis` replaced by `update`. `update` has x's dtype,
// rank and sizes, but along `axis` it is at most as long. `start` is i32 or i64; negative values
// are not counted from the end. It has rank 0, or rank 1 with a start for each index of dim 0 (then
// `axis` is not 0). To start at a symbol, use dt_size_value. State of dt_while that a body replaces
// by an update of itself is updated in place.
DT_API dt_value_t dt_update_slice(dt_trace_t *trace, dt_value_t x, dt_value_t update,
                                  dt_value_t start, int32_t axis, dt_update_mode_t mode);
// The `k` largest (or smallest) elements along `axis`, in order, and their indices (i64). Of equal
// elements the lower index comes first. NaN is larger than any number. 0 <= k <= size.
DT_API void dt_topk(dt_trace_t *trace, dt_value_t x, dt_sym_t k, int32_t axis, bool largest,
                    dt_value_t *out_values, dt_value_t *out_indices);
// All elements along `axis` in ascending or descending order, as dt_topk.
DT_API void dt_sort(dt_trace_t *trace, dt_value_t x, int32_t axis, bool descending,
                    dt_value_t *out_values, dt_value_t *out_indices);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_INDEX_H
