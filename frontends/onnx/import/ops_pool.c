// SPDX-License-Identifier: Apache-2.0
// Pooling, and what takes it back.
#include "frontends/onnx/import/compute.h"
#include "frontends/onnx/import/windows.h"

// ---- Windows ----------------------------------------------------------------------------------------
static bool read_windows(dt_imp_node_t *n, dt_value_t x, dt_window_t *windows, uint32_t *out_rank) {
  dt_imp_ints_t kernel;
  dt_sym_t in[DT_MAX_RANK], size[DT_MAX_RANK];
  uint32_t rank = *out_rank = dt__imp_shape(n, x, in);
  if (!dt__imp_attr_ints(n, "kernel_shape", &kernel) || dt__imp_failed(n))
    return false;
  if (rank != kernel.len + 2) {
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; a kernel of %u dims needs %u", rank,
                 kernel.len, kernel.len + 2);
    return false;
  }
  for (uint32_t k = 0; k < kernel.len; k++)
    size[k] = dt__imp_lit(n, kernel.items[k]);
  if (!dt__imp_windows(n, kernel.len, in + 2, size, windows))
    return false;
  for (uint32_t k = 0; k < kernel.len; k++)
    windows[k].size = size[k];
  return true;
}

// With auto_pad the number of places is fixed by another rule.
static uint32_t read_flags(dt_imp_node_t *n) {
  uint32_t flags = 0;
  if (dt__imp_int(n, "ceil_mode", 0) && dt__imp_padding(n) == DT_IMP_PADS)
    flags |= DT_POOL_CEIL;
  if (dt__imp_int(n, "count_include_pad", 0))
    flags |= DT_POOL_COUNT_PADDING;
  if (dt__imp_int(n, "storage_order", 0))
    flags |= DT_POOL_COLUMN_MAJOR;
  return flags;
}

// ---- Pooling ----------------------------------------------------------------------------------------
void dt__imp_make_MaxPool(dt_imp_node_t *n) {
  dt_window_t windows[DT_MAX_RANK];
  uint32_t rank = 0;
  dt_value_t x = dt__imp_in(n, 0), indices = {0};
  if (!read_windows(n, x, windows, &rank))
    return;
  dt__imp_out(n, 0,
              dt_max_pool(n->t, x, windows, read_flags(n) & ~(uint32_t)DT_POOL_COUNT_PADDING,
                          dt__imp_wants(n, 1) ? &indices : NULL));
  dt__imp_out(n, 1, indices);
}

dt_value_t dt__imp_average(dt_imp_node_t *n, dt_value_t x) {
  dt_window_t windows[DT_MAX_RANK];
  uint32_t rank = 0;
  return read_windows(n, x, windows, &rank)
             ? dt_avg_pool(n->t, x, windows, read_flags(n) & ~(uint32_t)DT_POOL_COLUMN_MAJOR)
             : x;
}

void dt__imp_make_AveragePool(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt__imp_average(n, dt__imp_in(n, 0)));
}

// The first form has a float.
static uint32_t power_of(dt_imp_node_t *n) {
  return n->opset < 2 ? (uint32_t)dt__imp_float(n, "p", 2.0) : (uint32_t)dt__imp_int(n, "p", 2);
}

static const char *check_power(dt_imp_node_t *n) {
  double p = n->opset < 2 ? dt__imp_float(n, "p", 2.0) : (double)dt__imp_int(n, "p", 2);
  return p >= 1.0 && p <= 1024.0 && p == (double)(uint32_t)p
             ? NULL
             : "attribute \"p\" is no integer from 1 to 1024";
}

const char *dt__imp_check_LpPool(dt_imp_node_t *n) {
  const char *why = check_power(n);
  return why ? why : dt__imp_check_pool(n);
}

void dt__imp_make_LpPool(dt_imp_node_t *n) {
  dt_window_t windows[DT_MAX_RANK];
  uint32_t rank = 0;
  dt_value_t x = dt__imp_in(n, 0);
  if (read_windows(n, x, windows, &rank))
    dt__imp_out(n, 0, dt_lp_pool(n->t, x, windows, read_flags(n) & DT_POOL_CEIL, power_of(n)));
}

// ---- Over all ---------------------------------------------------------------------------------------
static dt_value_t over_all(dt_imp_node_t *n, dt_value_t x,
                           dt_value_t (*fold)(dt_trace_t *, dt_value_t, uint32_t, const int32_t *,
                                              bool)) {
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = dt__imp_failed(n) ? 0 : dt_value_rank(n->t, x);
  uint32_t n_axes = dt__imp_axes_from(2, rank, axes);
  return n_axes > 0 ? fold(n->t, x, n_axes, axes, true) : x;
}

void dt__imp_make_GlobalAveragePool(dt_imp_node_t *n) {
  dt__imp_out(n, 0, over_all(n, dt__imp_in(n, 0), (dt_mean)));
}

void dt__imp_make_GlobalMaxPool(dt_imp_node_t *n) {
  dt__imp_out(n, 0, over_all(n, dt__imp_in(n, 0), (dt_amax)));
}

const char *dt__imp_check_GlobalLpPool(dt_imp_node_t *n) { return check_power(n); }

void dt__imp_make_GlobalLpPool(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t p = power_of(n);
  if (p == 1)
    x = over_all(n, dt_abs(n->t, x), (dt_sum));
  else if (p == 2)
    x = dt_sqrt(n->t, over_all(n, dt_mul(n->t, x, x), (dt_sum)));
  else
    x = dt_pow(n->t, over_all(n, dt_pow(n->t, dt_abs(n->t, x), dt__imp_like(n, x, p)), (dt_sum)),
               dt__imp_like(n, x, 1.0 / p));
  dt__imp_out(n, 0, x);
}

// ---- MaxUnpool --------------------------------------------------------------------------------------
static dt_value_t flat(dt_imp_node_t *n, dt_value_t x, dt_sym_t count) {
  return dt_reshape(n->t, x, 1, &count);
}

// Sizes that pooling with these windows has made x of.
static void unpooled_sizes(dt_imp_node_t *n, const dt_window_t *windows, uint32_t rank,
                           dt_sym_t *sizes) {
  for (uint32_t k = 2; k < rank; k++) {
    const dt_window_t *w = &windows[k - 2];
    dt_sym_t before = dt_sym_sub(n->t, sizes[k], dt__imp_lit(n, 1));
    sizes[k] = dt_sym_add(n->t, dt_sym_mul(n->t, before, w->stride), w->size);
    sizes[k] = dt_sym_sub(n->t, sizes[k], dt_sym_add(n->t, w->low, w->high));
  }
}

// A given shape may be larger: the rest is zeros.
static dt_value_t padded_to(dt_imp_node_t *n, dt_value_t y, const dt_sym_t *sizes, uint32_t rank) {
  dt_imp_syms_t shape;
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK];
  if (!dt__imp_syms(n, 2, &shape))
    return y;
  if (shape.len != rank) {
    dt__imp_fail(n, DT_E_SHAPE, "input 2 has %u elements; expected %u", shape.len, rank);
    return y;
  }
  for (uint32_t k = 0; k < rank; k++) {
    low[k] = dt__imp_lit(n, 0);
    high[k] = dt_sym_sub(n->t, shape.items[k], sizes[k]);
  }
  return dt_pad(n->t, y, low, high, 0.0);
}

void dt__imp_make_MaxUnpool(dt_imp_node_t *n) {
  dt_window_t windows[DT_MAX_RANK];
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  dt_value_t x = dt__imp_in(n, 0), indices = dt__imp_in(n, 1);
  if (!read_windows(n, x, windows, &rank))
    return;
  (void)dt__imp_shape(n, x, sizes);
  dt_sym_t count = dt__imp_product(n, sizes, rank);
  unpooled_sizes(n, windows, rank, sizes);
  dt_sym_t all = dt__imp_product(n, sizes, rank);
  dt_value_t zeros = dt_full(n->t, dt__imp_dtype(n, 0), 0.0, 1, &all);
  dt_value_t y = dt_scatter_elements(n->t, zeros, flat(n, indices, count), flat(n, x, count), 0,
                                     DT_SCATTER_REPLACE);
  y = dt_reshape(n->t, y, rank, sizes);
  dt__imp_out(n, 0, dt__imp_has(n, 2) ? padded_to(n, y, sizes, rank) : y);
}

// ---- Col2Im -----------------------------------------------------------------------------------------
const char *dt__imp_check_Col2Im(dt_imp_node_t *n) { return dt__imp_check_windows(n); }

// [batch, channels * elements of a block, places] to images: blocks are added where they overlap.
void dt__imp_make_Col2Im(dt_imp_node_t *n) {
  dt_imp_syms_t image, block;
  dt_window_t windows[DT_MAX_RANK];
  dt_sym_t in[DT_MAX_RANK], sizes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t rank = dt__imp_shape(n, x, in);
  if (!dt__imp_syms(n, 1, &image) || !dt__imp_syms(n, 2, &block))
    return;
  uint32_t count = image.len;
  if (rank != 3 || block.len != count || 2 * count + 2 > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_SHAPE,
                 "input 0 has rank %u, and images %u dims, blocks %u; expected 3, "
                 "and at most 3 dims of both",
                 rank, count, block.len);
    return;
  }
  if (!dt__imp_windows(n, count, image.items, block.items, windows))
    return;
  sizes[0] = in[0];
  sizes[1] = dt_sym_exactdiv(n->t, in[1], dt__imp_product(n, block.items, count));
  for (uint32_t k = 0; k < count; k++) {
    dt_sym_t room =
        dt_sym_add(n->t, image.items[k], dt_sym_add(n->t, windows[k].low, windows[k].high));
    room = dt_sym_sub(n->t, room, dt__imp_reach(n, &windows[k], block.items[k]));
    room = dt_sym_floordiv(n->t, room, windows[k].stride);
    sizes[2 + k] = block.items[k];
    sizes[2 + count + k] = dt_sym_add(n->t, room, dt__imp_lit(n, 1));
  }
  x = dt_reshape(n->t, x, 2 * count + 2, sizes);
  dt__imp_out(n, 0, dt_overlap_add(n->t, x, count, windows, image.items));
}
