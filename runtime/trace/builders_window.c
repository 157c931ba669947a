// SPDX-License-Identifier: Apache-2.0
// Builders of windows over spatial dims, and of what is made of them: convolution and pooling.
#include "runtime/trace/capture.h"

static const dt_value_t none_value = {0};

static dt_value_t refuse(dt_trace_t *trace, const char *op) {
  if (dt__trace_begin(trace, op))
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "%s is not built yet", op);
  return none_value;
}

dt_value_t dt_windows(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_window_t *windows) {
  (void)x, (void)n, (void)windows;
  return refuse(trace, "window");
}
dt_value_t dt_overlap_add(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_window_t *windows,
                          const dt_sym_t *sizes) {
  (void)x, (void)n, (void)windows, (void)sizes;
  return refuse(trace, "overlap_add");
}
dt_value_t dt_conv(dt_trace_t *trace, dt_value_t x, dt_value_t w, const dt_window_t *windows,
                   int64_t groups) {
  (void)x, (void)w, (void)windows, (void)groups;
  return refuse(trace, "conv");
}
dt_value_t dt_conv_transpose(dt_trace_t *trace, dt_value_t x, dt_value_t w,
                             const dt_window_t *windows, int64_t groups) {
  (void)x, (void)w, (void)windows, (void)groups;
  return refuse(trace, "conv_transpose");
}
dt_value_t dt_max_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows, uint32_t flags,
                       dt_value_t *out_indices) {
  (void)x, (void)windows, (void)flags;
  if (out_indices)
    *out_indices = none_value;
  return refuse(trace, "max_pool");
}
dt_value_t dt_avg_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows,
                       uint32_t flags) {
  (void)x, (void)windows, (void)flags;
  return refuse(trace, "avg_pool");
}
dt_value_t dt_lp_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *windows, uint32_t flags,
                      uint32_t p) {
  (void)x, (void)windows, (void)flags, (void)p;
  return refuse(trace, "lp_pool");
}
