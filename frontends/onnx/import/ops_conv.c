// SPDX-License-Identifier: Apache-2.0
// Convolutions.
#include "frontends/onnx/import/conv.h"

// Rank of x and its sizes and those of w; false: failed, or not of one rank from 3 on.
static bool read_shapes(dt_imp_node_t *n, dt_value_t x, dt_value_t w, uint32_t *out_rank,
                        dt_sym_t *in, dt_sym_t *kernel) {
  *out_rank = dt__imp_shape(n, x, in);
  uint32_t rank = dt__imp_shape(n, w, kernel);
  if (!dt__imp_failed(n) && (rank != *out_rank || rank < 3))
    dt__imp_fail(n, DT_E_SHAPE, "operands have ranks %u and %u; expected one rank, at least 3",
                 *out_rank, rank);
  return !dt__imp_failed(n);
}

dt_value_t dt__imp_add_bias(dt_imp_node_t *n, dt_value_t y, uint32_t k, uint32_t rank) {
  if (!dt__imp_has(n, k))
    return y;
  return dt_add(n->t, y, dt__imp_per_channel(n, dt__imp_in(n, k), rank));
}

// ---- Conv -------------------------------------------------------------------------------------------
dt_value_t dt__imp_convolve(dt_imp_node_t *n, dt_value_t x, dt_value_t w) {
  dt_sym_t in[DT_MAX_RANK], kernel[DT_MAX_RANK];
  dt_window_t windows[DT_MAX_RANK];
  uint32_t rank = 0;
  if (!read_shapes(n, x, w, &rank, in, kernel) ||
      !dt__imp_windows(n, rank - 2, in + 2, kernel + 2, windows))
    return x;
  return dt_conv(n->t, x, w, windows, dt__imp_int(n, "group", 1));
}

void dt__imp_make_Conv(dt_imp_node_t *n) {
  dt_value_t y = dt__imp_convolve(n, dt__imp_in(n, 0), dt__imp_in(n, 1));
  dt__imp_out(n, 0, dt__imp_add_bias(n, y, 2, dt__imp_rank(n, 0)));
}

// ---- ConvTranspose ----------------------------------------------------------------------------------
// Padding that gives the result a size.
static void pad_to(dt_imp_node_t *n, dt_sym_t in, dt_sym_t size, dt_sym_t to, bool upper,
                   dt_window_t *w) {
  dt_sym_t one = dt__imp_lit(n, 1), two = dt__imp_lit(n, 2), zero = dt__imp_lit(n, 0);
  dt_sym_t whole = dt_sym_mul(n->t, dt_sym_sub(n->t, in, one), w->stride);
  whole = dt_sym_add(n->t, whole, dt_sym_add(n->t, dt__imp_reach(n, w, size), w->extra));
  dt_sym_t all = dt_sym_sub(n->t, whole, to), cut = dt_sym_max(n->t, all, zero);
  dt_sym_t less = dt_sym_floordiv(n->t, cut, two);
  w->low = upper ? less : dt_sym_sub(n->t, cut, less);
  w->high = dt_sym_sub(n->t, all, w->low);
}

static void pad_transpose(dt_imp_node_t *n, uint32_t count, const dt_sym_t *in,
                          const dt_sym_t *size, dt_window_t *windows) {
  dt_imp_ints_t shape;
  dt_imp_padding_t padding = dt__imp_padding(n);
  bool shaped = dt__imp_attr_ints(n, "output_shape", &shape) && shape.len >= count;
  bool same = padding == DT_IMP_SAME_UPPER || padding == DT_IMP_SAME_LOWER;
  for (uint32_t k = 0; k < count; k++) {
    windows[k].extra = dt__imp_lit(n, dt__imp_entry(n, "output_padding", k, 0));
    if (!shaped && !same)
      continue;
    dt_sym_t to = shaped ? dt__imp_lit(n, shape.items[shape.len - count + k])
                         : dt_sym_mul(n->t, in[k], windows[k].stride);
    pad_to(n, in[k], size[k], to, padding == DT_IMP_SAME_UPPER, &windows[k]);
  }
}

void dt__imp_make_ConvTranspose(dt_imp_node_t *n) {
  dt_sym_t in[DT_MAX_RANK], kernel[DT_MAX_RANK];
  dt_window_t windows[DT_MAX_RANK];
  uint32_t rank = 0;
  dt_value_t x = dt__imp_in(n, 0), w = dt__imp_in(n, 1);
  if (!read_shapes(n, x, w, &rank, in, kernel) ||
      !dt__imp_windows(n, rank - 2, in + 2, kernel + 2, windows))
    return;
  pad_transpose(n, rank - 2, in + 2, kernel + 2, windows);
  dt_value_t y = dt_conv_transpose(n->t, x, w, windows, dt__imp_int(n, "group", 1));
  dt__imp_out(n, 0, dt__imp_add_bias(n, y, 2, rank));
}

// ---- CausalConvWithState ----------------------------------------------------------------------------
const char *dt__imp_check_CausalConvWithState(dt_imp_node_t *n) {
  static const char *const known[] = {"none", "silu", "swish"};
  for (uint32_t k = 0; k < 3; k++)
    if (dt__imp_str_is(n, "activation", "none", known[k]))
      return NULL;
  return "attribute \"activation\" has a value that is not known";
}

// Each channel by itself, over x behind the state: the last elements of what came before.
void dt__imp_make_CausalConvWithState(dt_imp_node_t *n) {
  const int32_t last = -1;
  dt_sym_t in[DT_MAX_RANK], kernel[DT_MAX_RANK], low[3], high[3];
  uint32_t rank = 0;
  dt_value_t x = dt__imp_in(n, 0), w = dt__imp_in(n, 1);
  if (!read_shapes(n, x, w, &rank, in, kernel) || rank != 3)
    return;
  dt_sym_t zero = dt__imp_lit(n, 0), state = dt_sym_sub(n->t, kernel[2], dt__imp_lit(n, 1));
  for (uint32_t k = 0; k < 3; k++)
    low[k] = high[k] = zero;
  low[2] = state;
  dt_value_t both[2] = {dt__imp_has(n, 3) ? dt__imp_in(n, 3) : x, x};
  dt_value_t all =
      dt__imp_has(n, 3) ? dt_concat(n->t, 2, both, 2) : dt_pad(n->t, x, low, high, 0.0);
  const dt_window_t window = {.size = kernel[2]};
  dt_dtype_t dtype = dt__imp_dtype(n, 0), wide = dtype == DT_F64 ? DT_F64 : DT_F32;
  dt_value_t elements = dt__imp_as(n, dt_windows(n->t, all, 1, &window), wide);
  dt_value_t products = dt_mul(n->t, elements, dt__imp_as(n, w, wide));
  dt_value_t y = dt_sum(n->t, products, 1, &last, false);
  if (dt__imp_has(n, 2))
    y = dt_add(n->t, y, dt__imp_as(n, dt__imp_per_channel(n, dt__imp_in(n, 2), 3), wide));
  y = dt__imp_as(n, y, dtype);
  if (!dt__imp_str_is(n, "activation", "none", "none"))
    y = dt_silu(n->t, y);
  dt__imp_out(n, 0, y);
  dt__imp_out(n, 1, dt_slice(n->t, all, 2, in[2], state, 1));
}
