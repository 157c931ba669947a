// SPDX-License-Identifier: Apache-2.0
// Builders of convolutions, pools and windows. A part of trace.h, which programs include.
// All functions here are [external].
#ifndef DUCTILE_TRACE_WINDOWS_H
#define DUCTILE_TRACE_WINDOWS_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a window moves along one spatial dim. A field that is none (id 0) has the default named here,
// so a zeroed struct is a plain window.
typedef struct dt_window_t {
  dt_sym_t size;        // elements in the window; convolutions: none, since w has the sizes
  dt_sym_t stride;      // from one window to the next; none: 1
  dt_sym_t dilation;    // from one element in the window to the next; none: 1
  dt_sym_t low, high;   // padding before and after x; none: 0
  dt_sym_t extra;       // dt_conv_transpose: elements added after the result; none: 0
  dt_sym_t reserved[2]; // must be none, else DT_E_UNSUPPORTED
} dt_window_t;
typedef enum dt_pool_flag_t {
  DT_POOL_CEIL = 1,          // the number of windows is rounded up: the last window may reach
                             // beyond the padding, but it begins in x or in the padding before it
  DT_POOL_COUNT_PADDING = 2, // dt_avg_pool: padding counts (elements beyond the padding never do)
  DT_POOL_COLUMN_MAJOR = 4,  // dt_max_pool: indices count the first spatial dim first
} dt_pool_flag_t;
// A view: the last `n` dims of x become the places of windows, and n dims for the elements of each
// window are appended. Windows have sizes, strides and dilations here, and no padding.
DT_API dt_value_t dt_windows(dt_trace_t *trace, dt_value_t x, uint32_t n,
                             const dt_window_t *windows);
// The opposite of dt_windows. The last 2n dims of x are the elements of windows, then their places.
// The last n dims of the result have `sizes`. Each element is added at its position in the result;
// elements in the padding or beyond are dropped. windows[k].size is none.
DT_API dt_value_t dt_overlap_add(dt_trace_t *trace, dt_value_t x, uint32_t n,
                                 const dt_window_t *windows, const dt_sym_t *sizes);
// x [N, C, 1 to 3 spatial dims] and w [M, C / groups, kernel sizes] give [N, M, places]. `windows`
// has one entry per spatial dim; NULL: all plain. The window must fit into x with its padding, else
// DT_E_SHAPE. The caller adds a bias. Integers wrap, so cast 8-bit factors to i32 first.
DT_API dt_value_t dt_conv(dt_trace_t *trace, dt_value_t x, dt_value_t w, const dt_window_t *windows,
                          int64_t groups);
// The derivative of dt_conv by its x. x [N, C, places] and w [C, M / groups, kernel sizes] give [N,
// M, spatial dims], each of size (places - 1) * stride + (size - 1) * dilation + 1 + extra - low -
// high. low and high may be negative.
// - high; low and high may be negative.
DT_API dt_value_t dt_conv_transpose(dt_trace_t *trace, dt_value_t x, dt_value_t w,
                                    const dt_window_t *windows, int64_t groups);
// The largest element of each window over x [N, C, 1 to 3 spatial dims]. Padding is never the
// largest; NaN always is. *out_indices (i64; NULL: not wanted) receives the element's index in the
// whole of x, of equal elements the first. `flags`: DT_POOL_* joined by or, here and below.
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
