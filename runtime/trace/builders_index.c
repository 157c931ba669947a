// SPDX-License-Identifier: Apache-2.0
// Builders of elements and slices by index: taken, replaced, and put in order.
#include "runtime/trace/capture.h"

static const dt_value_t none_value = {0};

#define REFUSE(trace, name)                                                                        \
  do {                                                                                             \
    if (dt__trace_begin(trace, name))                                                              \
      DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "not built yet");                                     \
  } while (0)

#define UNARY(name)                                                                                \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x) {                                          \
    (void)x;                                                                                       \
    REFUSE(trace, #name);                                                                          \
    return none_value;                                                                             \
  }
#define BINARY(name)                                                                               \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t a, dt_value_t b) {                            \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    REFUSE(trace, #name);                                                                          \
    return none_value;                                                                             \
  }
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(bit_not)
BINARY(bit_and)
BINARY(bit_or)
BINARY(bit_xor)
BINARY(shift_left)
BINARY(shift_right)

dt_value_t dt_gather_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices, int32_t axis) {
  (void)x;
  (void)indices;
  (void)axis;
  REFUSE(trace, "gather_elements");
  return none_value;
}

dt_value_t dt_gather_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices, uint32_t batch_dims) {
  (void)x;
  (void)indices;
  (void)batch_dims;
  REFUSE(trace, "gather_nd");
  return none_value;
}

dt_value_t dt_scatter_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                               dt_value_t updates, int32_t axis, dt_scatter_mode_t mode) {
  (void)x;
  (void)indices;
  (void)updates;
  (void)axis;
  (void)mode;
  REFUSE(trace, "scatter_elements");
  return none_value;
}

dt_value_t dt_scatter_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices, dt_value_t updates,
                         dt_scatter_mode_t mode) {
  (void)x;
  (void)indices;
  (void)updates;
  (void)mode;
  REFUSE(trace, "scatter_nd");
  return none_value;
}

dt_value_t dt_update_slice(dt_trace_t *trace, dt_value_t x, dt_value_t update, dt_value_t start,
                           int32_t axis, dt_update_mode_t mode) {
  (void)x;
  (void)update;
  (void)start;
  (void)axis;
  (void)mode;
  REFUSE(trace, "update_slice");
  return none_value;
}

void dt_topk(dt_trace_t *trace, dt_value_t x, dt_sym_t k, int32_t axis, bool largest,
             dt_value_t *out_values, dt_value_t *out_indices) {
  (void)x;
  (void)k;
  (void)axis;
  (void)largest;
  *out_values = *out_indices = none_value;
  REFUSE(trace, "topk");
}

void dt_sort(dt_trace_t *trace, dt_value_t x, int32_t axis, bool descending,
             dt_value_t *out_values, dt_value_t *out_indices) {
  (void)x;
  (void)axis;
  (void)descending;
  *out_values = *out_indices = none_value;
  REFUSE(trace, "sort");
}
