// SPDX-License-Identifier: Apache-2.0
// Builders of views by any strides, and of values and arguments that are written through views. A
// part of trace.h, which programs include. All functions here are [external].
//
// A value never changes. What is written through a view is a new value of what the view is of; an
// argument (a value of in[]) reads as the new value from then on. A view that was made before shows
// what it showed: make it again from in[] to see the new elements.
#ifndef DUCTILE_TRACE_MUTATE_H
#define DUCTILE_TRACE_MUTATE_H

#include "ductile/trace_index.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Views --------------------------------------------------------------------------------------
// A view of x's elements in row-major order, whatever the strides of its memory. Element (i, j, …)
// is number offset + i * strides[0] + j * strides[1] + … of them. Strides are 0 or more; with 0 an
// element is repeated. If the view has elements, the last of them must be one of x's: DT_E_SHAPE,
// or a guard.
DT_API dt_value_t dt_as_strided(dt_trace_t *trace, dt_value_t x, uint32_t rank,
                                const dt_sym_t *sizes, const dt_sym_t *strides, dt_sym_t offset);
// The elements of x whose index along `axis_b` is that along `axis_a`, plus `offset`. The two dims
// go, and the diagonal is the last dim of the result. It is empty if the offset is outside of x.
DT_API dt_value_t dt_diagonal(dt_trace_t *trace, dt_value_t x, int64_t offset, int32_t axis_a,
                              int32_t axis_b);
// Slices of `size` elements along `axis`, one each `step`, without padding: the dim becomes their
// number, and their elements become the last dim of the result. The size is at most x's, the step 1
// or more.
DT_API dt_value_t dt_unfold(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t size,
                            dt_sym_t step);

// ---- Writing through views ----------------------------------------------------------------------
// `view` was made by builders of views (dt_slice, dt_permute, dt_reshape, dt_diagonal,
// dt_as_strided, …; dt_bitcast between dtypes of one width) from some value, its base. The result
// is the base with the elements that the view shows replaced by `value`, which has the view's dtype
// and sizes. If the base is an argument, or what one was updated to, the argument is updated to the
// result (dt_update), and it is the argument's newest value in which elements are replaced.
// DT_E_ARGUMENT if an element shows more than once (dt_expand, windows that overlap).
DT_API dt_value_t dt_update_view(dt_trace_t *trace, dt_value_t view, dt_value_t value);
// x[indices[0], …, indices[n-1]] = updates. The `n` indices, at least one, are i32 or i64, index
// the first n dims of x and broadcast to one shape. `updates` broadcasts to that shape followed by
// the remaining dims of x, and has x's dtype. Indices may be negative; one outside gives DT_E_RANGE
// at the call. `mode` as in dt_scatter_nd. To write an argument, pass the result to dt_update.
DT_API dt_value_t dt_index_put(dt_trace_t *trace, dt_value_t x, uint32_t n,
                               const dt_value_t *indices, dt_value_t updates,
                               dt_scatter_mode_t mode);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_MUTATE_H
