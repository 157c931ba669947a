// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample. Interpolation is separable: a pass for each dim whose size may change. Where
// a result's element lies in x is computed in f64, so that it does not depend on x's dtype.
#include "frontends/onnx/import/resize.h"

#include <math.h>

// ---- Attributes -------------------------------------------------------------------------------------
static const char *const modes[] = {"nearest", "linear", "cubic"};
static const char *const nearest_modes[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil"};
static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
static const char *const ways[DT_IMP_WAYS] = {
    [DT_IMP_HALF_PIXEL] = "half_pixel",
    [DT_IMP_HALF_PIXEL_SYMMETRIC] = "half_pixel_symmetric",
    [DT_IMP_PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
    [DT_IMP_TF_HALF_PIXEL] = "tf_half_pixel_for_nn",
    [DT_IMP_ALIGN_CORNERS] = "align_corners",
    [DT_IMP_ASYMMETRIC] = "asymmetric",
    [DT_IMP_CROP] = "tf_crop_and_resize",
};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static int find_name(dt_imp_node_t *n, const char *attr, const char *const *names, size_t count) {
  for (size_t k = 0; k < count; k++)
    if (dt__imp_str_is(n, attr, names[0], names[k]))
      return (int)k;
  return -1;
}

const char *dt__imp_check_Resize(dt_imp_node_t *n) {
  int mode = find_name(n, "mode", modes, COUNT(modes));
  int way = find_name(n, "coordinate_transformation_mode", ways, COUNT(ways));
  if (mode < 0 || (n->opset < 11 && mode > 1))
    return "attribute \"mode\" has a value that is not known";
  if (way < 0)
    return "attribute \"coordinate_transformation_mode\" has a value that is not known";
  if (find_name(n, "nearest_mode", nearest_modes, COUNT(nearest_modes)) < 0)
    return "attribute \"nearest_mode\" has a value that is not known";
  if (find_name(n, "keep_aspect_ratio_policy", policies, COUNT(policies)) < 0)
    return "attribute \"keep_aspect_ratio_policy\" has a value that is not known";
  if (mode == 0 && dt__imp_int(n, "antialias", 0))
    return "attribute \"antialias\" with mode \"nearest\"";
  return NULL;
}

// Forms before 11 know one way.
static dt_imp_resize_t read_attributes(dt_imp_node_t *n) {
  dt_imp_resize_t r = {
      .mode = (dt_imp_resize_mode_t)find_name(n, "mode", modes, COUNT(modes)),
      .rounding =
          (dt_imp_rounding_t)find_name(n, "nearest_mode", nearest_modes, COUNT(nearest_modes)),
      .way = (dt_imp_way_t)find_name(n, "coordinate_transformation_mode", ways, COUNT(ways)),
      .antialias = dt__imp_int(n, "antialias", 0) != 0,
      .exclude_outside = dt__imp_int(n, "exclude_outside", 0) != 0,
      .cubic = dt__imp_float(n, "cubic_coeff_a", -0.75),
      .outside = dt__imp_float(n, "extrapolation_value", 0.0),
  };
  if (n->opset < 11) {
    r.way = DT_IMP_ASYMMETRIC;
    r.rounding = DT_IMP_FLOOR;
  }
  return r;
}

// ---- Sizes ------------------------------------------------------------------------------------------
// floor(size * scale) for a scale that is a float: an integer over a power of two.
static dt_sym_t scaled_size(dt_imp_node_t *n, dt_sym_t size, double scale) {
  int64_t literal = 0;
  int exponent = 0;
  if (dt_sym_constant(n->t, size, &literal))
    return dt__imp_lit(n, (int64_t)floor((double)literal * scale));
  double part = frexp(scale, &exponent);
  int64_t factor = (int64_t)ldexp(part, 24);
  int shift = 24 - exponent;
  while (shift > 0 && factor % 2 == 0) {
    factor /= 2;
    shift--;
  }
  if (shift < 0 || shift > 62) {
    dt__imp_fail(n, DT_E_UNSUPPORTED, "a scale of %g", scale);
    return size;
  }
  dt_sym_t product = dt_sym_mul(n->t, size, dt__imp_lit(n, factor));
  return shift == 0 ? product : dt_sym_floordiv(n->t, product, dt__imp_lit(n, (int64_t)1 << shift));
}

dt_value_t dt__imp_real(dt_imp_node_t *n, double value) {
  return dt_scalar(n->t, DT_IMP_REAL, value);
}

dt_value_t dt__imp_real_size(dt_imp_node_t *n, dt_sym_t size) {
  int64_t literal = 0;
  if (dt_sym_constant(n->t, size, &literal))
    return dt__imp_real(n, (double)literal);
  return dt_cast(n->t, dt_size_value(n->t, size), DT_IMP_REAL);
}

static void set_scale(dt_imp_node_t *n, dt_imp_resized_t *axis, double scale) {
  axis->literal = scale;
  axis->scale = dt__imp_real(n, scale);
  axis->out = scaled_size(n, axis->in, scale);
}

// Scales that only the data tell.
static void read_scale(dt_imp_node_t *n, dt_imp_resized_t *axis, dt_value_t scales, uint32_t k) {
  dt_value_t one = dt_slice(n->t, scales, 0, dt__imp_lit(n, k), dt__imp_lit(n, 1), 1);
  axis->scale = dt__imp_as(n, dt_squeeze(n->t, one, 0), DT_IMP_REAL);
  dt_value_t size = dt_floor(n->t, dt_mul(n->t, dt__imp_real_size(n, axis->in), axis->scale));
  axis->out = dt_item(n->t, dt_cast(n->t, size, DT_I64));
  dt_check(n->t, dt_sym_le(n->t, dt__imp_lit(n, 0), axis->out), "a scale is negative");
}

static void set_ratio(dt_imp_node_t *n, dt_imp_resized_t *axis, dt_sym_t to, dt_sym_t from) {
  int64_t a = 0, b = 0;
  axis->to = to;
  axis->from = from;
  if (dt_sym_constant(n->t, to, &a) && dt_sym_constant(n->t, from, &b) && b != 0) {
    axis->literal = (double)a / (double)b;
    axis->scale = dt__imp_real(n, axis->literal);
  } else {
    axis->scale = dt_div(n->t, dt__imp_real_size(n, to), dt__imp_real_size(n, from));
  }
}

static void set_sizes(dt_imp_node_t *n, dt_imp_resized_t *axes, uint32_t count,
                      const dt_sym_t *sizes) {
  for (uint32_t k = 0; k < count; k++) {
    axes[k].out = sizes[k];
    set_ratio(n, &axes[k], sizes[k], axes[k].in);
  }
}

// One scale for all: the least or the largest of those that sizes ask for.
static void keep_ratio(dt_imp_node_t *n, dt_imp_resized_t *axes, uint32_t count,
                       const dt_sym_t *sizes, bool larger) {
  dt_sym_t to = sizes[0], from = axes[0].in, two = dt__imp_lit(n, 2);
  for (uint32_t k = 1; k < count; k++) {
    dt_sym_t mine = dt_sym_mul(n->t, sizes[k], from), best = dt_sym_mul(n->t, to, axes[k].in);
    dt_sym_t better = larger ? dt_sym_lt(n->t, best, mine) : dt_sym_lt(n->t, mine, best);
    to = dt_sym_select(n->t, better, sizes[k], to);
    from = dt_sym_select(n->t, better, axes[k].in, from);
  }
  for (uint32_t k = 0; k < count; k++) {
    dt_sym_t twice = dt_sym_mul(n->t, two, dt_sym_mul(n->t, to, axes[k].in));
    axes[k].out = dt_sym_floordiv(n->t, dt_sym_add(n->t, twice, from), dt_sym_mul(n->t, two, from));
    set_ratio(n, &axes[k], to, from);
  }
}

// ---- Inputs -----------------------------------------------------------------------------------------
static uint32_t read_axes(dt_imp_node_t *n, dt_value_t x, dt_imp_resized_t *axes) {
  dt_imp_ints_t given;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes), count = rank;
  bool listed = dt__imp_attr_ints(n, "axes", &given);
  if (listed && given.len > rank && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_FORMAT, "attribute \"axes\" has %u entries for %u dims", given.len, rank);
  if (dt__imp_failed(n))
    return 0;
  count = listed ? given.len : rank;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t dim = listed ? dt__imp_dim_of(n, given.items[k], rank) : k;
    axes[k] = (dt_imp_resized_t){.dim = dim, .in = sizes[dim]};
  }
  return count;
}

static bool expect(dt_imp_node_t *n, const char *what, uint32_t len, uint32_t count) {
  if (len != count && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_SHAPE, "%u %s for %u dims", len, what, count);
  return !dt__imp_failed(n);
}

static void read_scales(dt_imp_node_t *n, uint32_t input, dt_imp_resized_t *axes, uint32_t count) {
  dt_imp_reals_t reals;
  bool literal = dt__imp_has_attr(n, "scales") ? dt__imp_attr_floats(n, "scales", &reals)
                                               : dt__imp_reals(n, input, &reals);
  if (literal && !expect(n, "scales", reals.len, count))
    return;
  for (uint32_t k = 0; k < count && !dt__imp_failed(n); k++) {
    if (literal)
      set_scale(n, &axes[k], reals.items[k]);
    else
      read_scale(n, &axes[k], dt__imp_in(n, input), k);
  }
}

static void read_sizes(dt_imp_node_t *n, dt_imp_resized_t *axes, uint32_t count) {
  dt_imp_syms_t sizes;
  int policy = find_name(n, "keep_aspect_ratio_policy", policies, COUNT(policies));
  if (!dt__imp_syms(n, 3, &sizes) || !expect(n, "sizes", sizes.len, count) || count == 0)
    return;
  if (policy == 0)
    set_sizes(n, axes, count, sizes.items);
  else
    keep_ratio(n, axes, count, sizes.items, policy == 2);
}

// Begins and ends of all axes; 0 and 1 where there is no input.
static void read_roi(dt_imp_node_t *n, dt_imp_resized_t *axes, uint32_t count) {
  bool given = dt__imp_has(n, 1);
  dt_value_t roi = given ? dt__imp_in(n, 1) : (dt_value_t){0};
  for (uint32_t k = 0; k < 2 * count && !dt__imp_failed(n); k++) {
    dt_value_t *to = k < count ? &axes[k].begin : &axes[k - count].end;
    if (!given) {
      *to = dt__imp_real(n, k < count ? 0.0 : 1.0);
      continue;
    }
    dt_value_t one = dt_slice(n->t, roi, 0, dt__imp_lit(n, k), dt__imp_lit(n, 1), 1);
    *to = dt__imp_as(n, dt_squeeze(n->t, one, 0), DT_IMP_REAL);
  }
}

// ---- Resize -----------------------------------------------------------------------------------------
static dt_value_t resize(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                         const dt_imp_resized_t *axes, uint32_t count) {
  dt_dtype_t dtype = dt_value_dtype(n->t, x), wide = dtype == DT_F64 ? DT_F64 : DT_F32;
  dt_value_t y = r->mode == DT_IMP_NEAREST ? x : dt__imp_as(n, x, wide);
  for (uint32_t k = 0; k < count && !dt__imp_failed(n); k++) {
    bool same = false;
    bool kept = axes[k].literal == 1.0 ||
                (dt_sym_known(n->t, dt_sym_eq(n->t, axes[k].in, axes[k].out), &same) && same &&
                 axes[k].literal == 0.0);
    if (!kept || r->way == DT_IMP_CROP)
      y = dt__imp_resize_dim(n, r, y, &axes[k]);
  }
  return dt__imp_as(n, y, dtype);
}

void dt__imp_make_Resize(dt_imp_node_t *n) {
  dt_imp_resize_t r = read_attributes(n);
  dt_imp_resized_t axes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t count = read_axes(n, x, axes);
  if (n->opset >= 11 && dt__imp_has(n, 3))
    read_sizes(n, axes, count);
  else
    read_scales(n, n->opset < 11 ? 1 : 2, axes, count);
  if (r.way == DT_IMP_CROP)
    read_roi(n, axes, count);
  if (!dt__imp_failed(n))
    dt__imp_out(n, 0, resize(n, &r, x, axes, count));
}
