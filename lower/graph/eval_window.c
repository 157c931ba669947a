// SPDX-License-Identifier: Apache-2.0
// Evaluation of windows, of the sums of overlapping ones, and of convolutions, each from its
// definition.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

#define FIELDS 4

// attrs.syms, of which fields first_step and first_step + 1 of each dim are 1 or more.
typedef struct windows_t {
  uint32_t n;
  int64_t field[FIELDS][FIELDS];
  int64_t groups;
} windows_t;

static dt_status_t read_windows(const dt_eval_t *e, const dt_node_t *node, uint32_t first_step,
                                windows_t *out) {
  const dt_attrs_t *attrs = node->attrs;
  *out = (windows_t){.n = attrs->n_axes, .groups = 1};
  for (uint32_t k = 0; k < out->n; k++)
    for (uint32_t f = 0; f < FIELDS; f++) {
      int64_t *value = &out->field[k][f];
      DT_TRY(dt__eval_sym(e, attrs->syms[FIELDS * k + f], value));
      if ((f == first_step || f == first_step + 1) && *value < 1)
        return dt__eval_misfit(node, "a stride or a dilation is not positive");
    }
  if (attrs->n_syms > FIELDS * out->n)
    DT_TRY(dt__eval_sym(e, attrs->syms[FIELDS * out->n], &out->groups));
  return out->groups < 1 ? dt__eval_misfit(node, "there are no groups") : NULL;
}

// a * b + c * d of numbers that are not negative; INT64_MAX where that does not fit.
static int64_t place(int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t x = 0, y = 0;
  if (!dt__mul_i64(a, b, &x) || !dt__mul_i64(c, d, &y) || !dt__add_i64(x, y, &x))
    return INT64_MAX;
  return x;
}

// ---- Window -------------------------------------------------------------------------------------
dt_status_t dt__eval_window(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  windows_t w;
  int64_t from[DT_MAX_RANK] = {0};
  DT_TRY(read_windows(e, node, 2, &w));
  if (out->count == 0)
    return NULL;
  dt__eval_strides(in, from);
  uint32_t lead = in->rank - w.n;
  const int64_t none[DT_MAX_RANK] = {0};
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, none);
  for (int64_t at = 0; at < out->count; at++, dt__walk_next(&walk)) {
    int64_t offset = 0;
    for (uint32_t k = 0; k < in->rank; k++) {
      int64_t index = walk.index[k];
      if (k >= lead)
        index = place(index, w.field[k - lead][2], walk.index[in->rank + k - lead],
                      w.field[k - lead][3]);
      if (index >= in->sizes[k])
        return dt__eval_misfit(node, "windows reach outside the input");
      offset += index * from[k];
    }
    dt__eval_put(out, at, dt__eval_at(in, offset));
  }
  return NULL;
}

// ---- Sums ---------------------------------------------------------------------------------------
// A sum of products, or of elements, of any dtype and in any order.
typedef struct total_t {
  dt_dtype_t dtype;
  dt_sum_t real;
  uint64_t whole;
  double bound; // of whole numbers
} total_t;

static total_t total_of(dt_dtype_t dtype) {
  return (total_t){.dtype = dtype, .real = dt__sum_zero()};
}

static void add_product(total_t *total, dt_approx_t x, dt_approx_t y) {
  if (!dt__dtype_is_float(total->dtype)) {
    total->whole += (uint64_t)x.v.i * (uint64_t)y.v.i;
    total->bound = x.b > 0 || y.b > 0 ? INFINITY : total->bound;
    return;
  }
  double bound = 0.0;
  if (x.b > 0)
    bound += x.b * (fabs(y.v.f) + y.b);
  if (y.b > 0)
    bound += fabs(x.v.f) * y.b;
  dt__sum_add(&total->real, x.v.f * y.v.f, bound);
}

static void add_element(total_t *total, dt_approx_t x) {
  if (dt__dtype_is_float(total->dtype)) {
    dt__sum_add(&total->real, x.v.f, x.b);
    return;
  }
  total->whole += (uint64_t)x.v.i;
  total->bound = x.b > 0 ? INFINITY : total->bound;
}

// `per_term`: roundings each term had before.
static dt_approx_t total_end(const total_t *total, double per_term) {
  if (dt__dtype_is_float(total->dtype))
    return dt__sum_total(&total->real, total->dtype, per_term);
  dt_scalar_t bits = {.i = (int64_t)total->whole};
  return (dt_approx_t){.v = dt__scalar_cast(DT_I64, total->dtype, bits), .b = total->bound};
}

// Visits the elements of a window of `sizes`; false: there is none.
static bool begin_window(uint32_t n, const int64_t *sizes, dt_walk_t *walk, int64_t *out_count) {
  const int64_t none[DT_MAX_RANK] = {0};
  *out_count = 1;
  for (uint32_t k = 0; k < n; k++)
    *out_count *= sizes[k];
  if (*out_count)
    *walk = dt__walk_begin(n, sizes, none);
  return *out_count != 0;
}

// Which place of a window has its element `j` at `at`, `low` before the result's first element:
// false where none of `places` has.
static bool place_of(int64_t at, int64_t j, const int64_t *field, int64_t places, int64_t *out) {
  int64_t all = 0, before = 0;
  if (!dt__add_i64(at, field[3], &all) || !dt__mul_i64(j, field[2], &before) || all < before)
    return false;
  *out = (all - before) / field[1];
  return (all - before) % field[1] == 0 && *out < places;
}

// ---- Overlapping windows ------------------------------------------------------------------------
dt_status_t dt__eval_overlap_add(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  windows_t w;
  int64_t from[DT_MAX_RANK] = {0}, count = 0;
  DT_TRY(read_windows(e, node, 1, &w));
  if (out->count == 0)
    return NULL;
  dt__eval_strides(in, from);
  uint32_t lead = in->rank - 2 * w.n;
  const int64_t *sizes = in->sizes + lead, *places = sizes + w.n;
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, (const int64_t[DT_MAX_RANK]){0}), element;
  for (int64_t at = 0; at < out->count; at++, dt__walk_next(&walk)) {
    total_t total = total_of(out->dtype);
    bool any = begin_window(w.n, sizes, &element, &count);
    for (int64_t j = 0; any && j < count; j++, dt__walk_next(&element)) {
      int64_t offset = 0, index = 0;
      bool inside = true;
      for (uint32_t k = 0; k < lead; k++)
        offset += walk.index[k] * from[k];
      for (uint32_t k = 0; k < w.n && inside; k++) {
        inside = place_of(walk.index[lead + k], element.index[k], w.field[k], places[k], &index);
        offset += inside ? element.index[k] * from[lead + k] + index * from[lead + w.n + k] : 0;
      }
      if (inside)
        add_element(&total, dt__eval_at(in, offset));
    }
    dt__eval_put(out, at, total_end(&total, 0));
  }
  return NULL;
}

// ---- Convolutions -------------------------------------------------------------------------------
typedef struct conv_t {
  const dt_eval_value_t *x, *w;
  windows_t windows;
  int64_t x_strides[DT_MAX_RANK], w_strides[DT_MAX_RANK];
} conv_t;

static dt_status_t begin_conv(const dt_eval_t *e, const dt_node_t *node, uint32_t first_step,
                              conv_t *c) {
  *c = (conv_t){.x = dt__eval_in(e, node, 0), .w = dt__eval_in(e, node, 1)};
  dt__eval_strides(c->x, c->x_strides);
  dt__eval_strides(c->w, c->w_strides);
  return read_windows(e, node, first_step, &c->windows);
}

// The products of all channels of group `g` with one element of the kernel. Padding is zero, and
// takes part.
static void add_channels(const conv_t *c, total_t *total, const dt_walk_t *at,
                         const dt_walk_t *element) {
  int64_t each = c->w->sizes[1], group = at->index[1] / (c->w->sizes[0] / c->windows.groups);
  int64_t x_at = at->index[0] * c->x_strides[0], w_at = at->index[1] * c->w_strides[0];
  bool inside = true;
  for (uint32_t k = 0; k < c->windows.n; k++) {
    const int64_t *field = c->windows.field[k];
    int64_t index = place(at->index[2 + k], field[0], element->index[k], field[1]) - field[2];
    inside = inside && index >= 0 && index < c->x->sizes[2 + k];
    x_at += inside ? index * c->x_strides[2 + k] : 0;
    w_at += element->index[k] * c->w_strides[2 + k];
  }
  const dt_approx_t zero = {{0}, 0.0};
  for (int64_t i = 0; i < each; i++) {
    dt_approx_t x = inside ? dt__eval_at(c->x, x_at + (group * each + i) * c->x_strides[1]) : zero;
    add_product(total, x, dt__eval_at(c->w, w_at + i * c->w_strides[1]));
  }
}

// The same of the place that has this element of the kernel here, if one has.
static void add_transposed(const conv_t *c, total_t *total, const dt_walk_t *at,
                           const dt_walk_t *element) {
  int64_t each = c->w->sizes[0] / c->windows.groups, group = at->index[1] / c->w->sizes[1];
  int64_t x_at = at->index[0] * c->x_strides[0];
  int64_t w_at = at->index[1] % c->w->sizes[1] * c->w_strides[1];
  for (uint32_t k = 0; k < c->windows.n; k++) {
    int64_t index = 0;
    if (!place_of(at->index[2 + k], element->index[k], c->windows.field[k], c->x->sizes[2 + k],
                  &index))
      return;
    x_at += index * c->x_strides[2 + k];
    w_at += element->index[k] * c->w_strides[2 + k];
  }
  for (int64_t i = group * each; i < (group + 1) * each; i++)
    add_product(total, dt__eval_at(c->x, x_at + i * c->x_strides[1]),
                dt__eval_at(c->w, w_at + i * c->w_strides[0]));
}

typedef void (*add_fn_t)(const conv_t *c, total_t *total, const dt_walk_t *at,
                         const dt_walk_t *element);

static dt_status_t sum_windows(conv_t *c, add_fn_t add, dt_eval_value_t *out) {
  int64_t count = 0;
  if (out->count == 0)
    return NULL;
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, (const int64_t[DT_MAX_RANK]){0}), element;
  for (int64_t at = 0; at < out->count; at++, dt__walk_next(&walk)) {
    total_t total = total_of(out->dtype);
    bool any = begin_window(c->windows.n, c->w->sizes + 2, &element, &count);
    for (int64_t j = 0; any && j < count; j++, dt__walk_next(&element))
      add(c, &total, &walk, &element);
    dt__eval_put(out, at, total_end(&total, 1));
  }
  return NULL;
}

dt_status_t dt__eval_conv(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  conv_t c;
  DT_TRY(begin_conv(e, node, 0, &c));
  if (c.x->sizes[1] != c.w->sizes[1] * c.windows.groups || c.w->sizes[0] % c.windows.groups)
    return dt__eval_misfit(node, "the channels of x are not those of w");
  return sum_windows(&c, add_channels, out);
}

dt_status_t dt__eval_conv_transpose(const dt_eval_t *e, const dt_node_t *node,
                                    dt_eval_value_t *out) {
  conv_t c;
  DT_TRY(begin_conv(e, node, 1, &c));
  if (c.x->sizes[1] != c.w->sizes[0] || c.w->sizes[0] % c.windows.groups)
    return dt__eval_misfit(node, "the channels of x are not those of w");
  return sum_windows(&c, add_transposed, out);
}
