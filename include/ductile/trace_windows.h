// SPDX-License-Identifier: Apache-2.0
// Builders of convolutions, pools and windows. A part of trace.h, which programs include.
// All functions here are [external].
#ifndef DUCTILE_TRACE_WINDOWS_H
#define DUCTILE_TRACE_WINDOWS_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a window moves along one spatial dim. What is left none (id 0) has the value named here, so a
// zeroed struct is a plain window.
typedef struct dt_window_t {
  dt_sym_t size;        // elements in it; convolutions: none, the kernel's sizes are w's
  dt_sym_t stride;      // from one place to the next; none: 1
  dt_sym_t dilation;    // from one element in it to the next; none: 1
  dt_sym_t low, high;   // padding before and after x; none: 0
  dt_sym_t extra;       // dt_conv_transpose: elements more behind the result; none: 0
  dt_sym_t reserved[2]; // none: DT_E_UNSUPPORTED else
} dt_window_t;
typedef enum dt_pool_flag_t {
  DT_POOL_CEIL = 1,          // places are counted up: the last window may reach beyond the padding,
                             // but it begins in x or in the padding before it
  DT_POOL_COUNT_PADDING = 2, // dt_avg_pool: padding counts (what lies beyond it never does)
  DT_POOL_COLUMN_MAJOR = 4,  // dt_max_pool: indices count the first spatial dim first
} dt_pool_flag_t;
// The last `n` dims of x become the places of windows, and n dims of the elements in each are
// appended: a view. Windows have sizes, strides and dilations here, and no padding.
DT_API dt_value_t dt_windows(dt_trace_t *trace, dt_value_t x, uint32_t n,
                             const dt_window_t *windows);
// The opposite: x's last 2n dims are the elements of windows, and then their places; each element
// is added to where the window has it in a result of the last dims `sizes`, and dropped where that
// is in the padding or beyond. windows[k].size is none.
DT_API dt_value_t dt_overlap_add(dt_trace_t *trace, dt_value_t x, uint32_t n,
                                 const dt_window_t *windows, const dt_sym_t *sizes);
// x [N, C, 1 to 3 spatial dims] and w [M, C / groups, kernel sizes] to [N, M, places]; `windows`:
// one a spatial dim, NULL: all plain. The window must fit into x with its padding, else DT_E_SHAPE.
// A bias is added by the caller. Integers wrap: 8-bit factors are cast to i32 first.
DT_API dt_value_t dt_conv(dt_trace_t *trace, dt_value_t x, dt_value_t w, const dt_window_t *windows,
                          int64_t groups);
// x [N, C, places] and w [C, M / groups, kernel sizes] to [N, M, spatial dims]: what dt_conv's
// derivative by its x is. Sizes are (places - 1) * stride + (size - 1) * dilation + 1 + extra - low
// - high; low and high may be negative.
DT_API dt_value_t dt_conv_transpose(dt_trace_t *trace, dt_value_t x, dt_value_t w,
                                    const dt_window_t *windows, int64_t groups);
// The largest element of each window over x [N, C, 1 to 3 spatial dims]; padding never is, NaN
// always. *out_indices (NULL: not wanted), i64: its index in x as a whole, of equal ones the first.
// `flags`: DT_POOL_* joined, here and below.
DT_API dt_value_t dt_max_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows,
                              uint32_t flags, dt_value_t *out_indices);
// The mean of each window; floats.
DT_API dt_value_t dt_avg_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows,
                              uint32_t flags);
// (sum of |element|^p)^(1/p) of each window, p at least 1; floats.
DT_API dt_value_t dt_lp_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows,
                             uint32_t flags, uint32_t p);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_WINDOWS_H
