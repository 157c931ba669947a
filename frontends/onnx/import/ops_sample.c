// SPDX-License-Identifier: Apache-2.0
// Elements of images at places that data tell, and images in blocks.
#include "frontends/onnx/import/conv.h"
#include "frontends/onnx/import/resize.h"

#define MOST_DIMS 3 // of an image
#define MOST_TAPS 4

static dt_value_t index_number(dt_imp_node_t *n, double value) {
  return dt_scalar(n->t, DT_I64, value);
}

// An index brought into 0 … size - 1.
static dt_value_t clamped(dt_imp_node_t *n, dt_value_t at, dt_sym_t size) {
  dt_value_t last = dt_size_value(n->t, dt_sym_sub(n->t, size, dt__imp_lit(n, 1)));
  return dt_maximum(n->t, dt_minimum(n->t, at, last), index_number(n, 0.0));
}

// A size as a number of x's dtype.
static dt_value_t size_like(dt_imp_node_t *n, dt_value_t x, dt_sym_t size) {
  return dt__imp_as(n, dt_size_value(n->t, size),
                    dt__imp_failed(n) ? DT_F32 : dt_value_dtype(n->t, x));
}

// ---- GridSample -------------------------------------------------------------------------------------
typedef enum border_t { ZEROS = 0, BORDER = 1, REFLECTION = 2 } border_t;
static const char *const borders[] = {"zeros", "border", "reflection"};
typedef struct sampling_t {
  dt_imp_resize_mode_t mode;
  border_t border;
  bool corners;
  uint32_t dims, n_taps;
  dt_dtype_t wide; // weights are of
} sampling_t;

// Of one dim, for each place [batch, places].
typedef struct taps_t {
  dt_value_t index[MOST_TAPS], inside[MOST_TAPS], weight[MOST_TAPS];
} taps_t;

static int sample_mode(dt_imp_node_t *n) {
  static const char *const names[] = {"nearest", "linear", "cubic", "bilinear", "bicubic"};
  static const int modes[] = {DT_IMP_NEAREST, DT_IMP_LINEAR, DT_IMP_CUBIC, DT_IMP_LINEAR,
                              DT_IMP_CUBIC};
  for (uint32_t k = 0; k < 5; k++)
    if (dt__imp_str_is(n, "mode", "linear", names[k]))
      return modes[k];
  return -1;
}

static int sample_border(dt_imp_node_t *n) {
  for (int k = 0; k < 3; k++)
    if (dt__imp_str_is(n, "padding_mode", "zeros", borders[k]))
      return k;
  return -1;
}

const char *dt__imp_check_GridSample(dt_imp_node_t *n) {
  return sample_mode(n) < 0     ? "attribute \"mode\" has a value that is not known"
         : sample_border(n) < 0 ? "attribute \"padding_mode\" has a value that is not known"
                                : NULL;
}

// From -1 … 1 to places in an image's dim.
static dt_value_t place(dt_imp_node_t *n, const sampling_t *s, dt_value_t at, dt_sym_t size) {
  dt_value_t all = size_like(n, at, size);
  at = dt__imp_plus(n, at, 1.0);
  if (s->corners)
    return dt_mul(n->t, dt__imp_times(n, at, 0.5), dt__imp_plus(n, all, -1.0));
  return dt__imp_times(n, dt__imp_plus(n, dt_mul(n->t, at, all), -1.0), 0.5);
}

// Mirrored at the image's edges, or at its outermost elements.
static dt_value_t reflected(dt_imp_node_t *n, const sampling_t *s, dt_value_t at, dt_sym_t size) {
  double low = s->corners ? 0.0 : -0.5;
  dt_value_t range = dt__imp_plus(n, size_like(n, at, size), s->corners ? -1.0 : 0.0);
  dt_value_t twice = dt__imp_times(n, range, 2.0);
  dt_value_t far = dt_fmod(n->t, dt_abs(n->t, dt__imp_plus(n, at, -low)), twice);
  dt_value_t back = dt_where(n->t, dt_le(n->t, far, range), far, dt_sub(n->t, twice, far));
  return dt__imp_plus(n, back, low);
}

// Places outside of the image, as the border has it.
static dt_value_t brought_in(dt_imp_node_t *n, const sampling_t *s, dt_value_t at, dt_sym_t size) {
  if (s->border == ZEROS || (s->border == BORDER && s->mode == DT_IMP_CUBIC))
    return at;
  double low = s->corners ? 0.0 : -0.5;
  dt_value_t last = dt__imp_plus(n, size_like(n, at, size), -1.0);
  dt_value_t high = dt__imp_plus(n, last, -low), lowest = dt__imp_like(n, at, low);
  dt_value_t outside = dt_logical_or(n->t, dt_lt(n->t, at, lowest), dt_gt(n->t, at, high));
  dt_value_t in = s->border == REFLECTION
                      ? reflected(n, s, at, size)
                      : dt_maximum(n->t, dt_minimum(n->t, at, last), dt__imp_like(n, at, 0.0));
  return dt_where(n->t, outside, in, at);
}

static dt_value_t weight_of(dt_imp_node_t *n, const sampling_t *s, dt_value_t ratio, int tap) {
  if (s->mode == DT_IMP_LINEAR)
    return tap == 0 ? dt_sub(n->t, dt__imp_like(n, ratio, 1.0), ratio) : ratio;
  dt_value_t distance = dt_abs(n->t, dt_sub(n->t, dt__imp_like(n, ratio, tap), ratio));
  return tap == 0 || tap == 1 ? dt__imp_cubic_near(n, distance, -0.75)
                              : dt__imp_cubic_far(n, distance, -0.75);
}

static void find_taps(dt_imp_node_t *n, const sampling_t *s, dt_value_t at, dt_sym_t size,
                      taps_t *out) {
  if (s->mode == DT_IMP_NEAREST)
    at = dt_round(n->t, at);
  at = brought_in(n, s, at, size);
  dt_value_t base = s->mode == DT_IMP_NEAREST ? dt_trunc(n->t, at) : dt_floor(n->t, at);
  dt_value_t ratio = dt_sub(n->t, at, base);
  for (uint32_t k = 0; k < s->n_taps; k++) {
    int tap = (int)k - (s->mode == DT_IMP_CUBIC ? 1 : 0);
    dt_value_t real = dt__imp_plus(n, base, tap);
    if (s->border == REFLECTION)
      real = dt_trunc(n->t, reflected(n, s, real, size));
    dt_value_t index = dt_cast(n->t, real, DT_I64);
    out->inside[k] = dt_logical_and(n->t, dt_ge(n->t, index, index_number(n, 0.0)),
                                    dt_lt(n->t, index, dt_size_value(n->t, size)));
    out->index[k] = clamped(n, index, size);
    if (s->mode != DT_IMP_NEAREST)
      out->weight[k] = dt__imp_as(n, weight_of(n, s, ratio, tap), s->wide);
  }
}

// x [batch, channels, elements] at places[batch, …]: [batch, channels, …].
static dt_value_t pick(dt_imp_node_t *n, dt_value_t x, dt_value_t places) {
  dt_sym_t sizes[DT_MAX_RANK];
  places = dt_unsqueeze(n->t, places, 1);
  if (dt__imp_shape(n, places, sizes) != 3)
    return x;
  sizes[1] = dt_dim(n->t, x, 1);
  return dt_gather_elements(n->t, x, dt_expand(n->t, places, 3, sizes), 2);
}

// One of the neighbours that `combination` counts, weighted.
static dt_value_t neighbour(dt_imp_node_t *n, const sampling_t *s, dt_value_t x, const taps_t *taps,
                            const dt_sym_t *image, uint32_t combination) {
  dt_value_t index = {0}, inside = {0}, weight = {0};
  for (uint32_t k = 0; k < s->dims; k++, combination /= s->n_taps) {
    const taps_t *dim = &taps[k];
    uint32_t tap = combination % s->n_taps;
    index = k == 0
                ? dim->index[tap]
                : dt_add(n->t, dt_mul(n->t, index, dt_size_value(n->t, image[k])), dim->index[tap]);
    inside = k == 0 ? dim->inside[tap] : dt_logical_and(n->t, inside, dim->inside[tap]);
    if (s->mode != DT_IMP_NEAREST)
      weight = k == 0 ? dim->weight[tap] : dt_mul(n->t, weight, dim->weight[tap]);
  }
  dt_value_t y = pick(n, x, index);
  if (s->border == ZEROS)
    y = dt_where(n->t, dt_unsqueeze(n->t, inside, 1), y, dt__imp_like(n, y, 0.0));
  return weight.id ? dt_mul(n->t, y, dt_unsqueeze(n->t, weight, 1)) : y;
}

// Of all neighbours.
static dt_value_t sum_taps(dt_imp_node_t *n, const sampling_t *s, dt_value_t x, const taps_t *taps,
                           const dt_sym_t *image) {
  dt_value_t sum = {0};
  uint32_t all = 1;
  for (uint32_t k = 0; k < s->dims; k++)
    all *= s->n_taps;
  for (uint32_t k = 0; k < all && !dt__imp_failed(n); k++) {
    dt_value_t one = neighbour(n, s, x, taps, image, k);
    sum = k == 0 ? one : dt_add(n->t, sum, one);
  }
  return sum;
}

static dt_value_t sample(dt_imp_node_t *n, const sampling_t *s, dt_value_t x, dt_value_t grid,
                         const dt_sym_t *image) {
  taps_t taps[MOST_DIMS] = {0};
  for (uint32_t k = 0; k < s->dims; k++) {
    dt_sym_t from = dt__imp_lit(n, s->dims - 1 - k); // the grid has the last dim first
    dt_value_t at = dt_slice(n->t, grid, 2, from, dt__imp_lit(n, 1), 1);
    at = place(n, s, dt_squeeze(n->t, at, 2), image[k]);
    find_taps(n, s, at, image[k], &taps[k]);
  }
  return sum_taps(n, s, x, taps, image);
}

void dt__imp_make_GridSample(dt_imp_node_t *n) {
  dt_sym_t in[DT_MAX_RANK], at[DT_MAX_RANK], sizes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, 0), grid = dt__imp_in(n, 1);
  uint32_t rank = dt__imp_shape(n, x, in), grid_rank = dt__imp_shape(n, grid, at);
  if (dt__imp_failed(n))
    return;
  if (rank != grid_rank || rank < 3 || rank > MOST_DIMS + 2) {
    dt__imp_fail(n, DT_E_SHAPE, "inputs have ranks %u and %u; expected one rank from 3 to 5", rank,
                 grid_rank);
    return;
  }
  dt_dtype_t dtype = dt__imp_dtype(n, 0);
  sampling_t s = {
      .mode = (dt_imp_resize_mode_t)sample_mode(n),
      .border = (border_t)sample_border(n),
      .corners = dt__imp_int(n, "align_corners", 0) != 0,
      .dims = rank - 2,
      .wide = dtype == DT_F64 ? DT_F64 : DT_F32,
  };
  s.n_taps = s.mode == DT_IMP_NEAREST ? 1 : s.mode == DT_IMP_LINEAR ? 2 : 4;
  const dt_sym_t flat[] = {in[0], in[1], dt__imp_product(n, in + 2, s.dims)};
  const dt_sym_t places[] = {at[0], dt__imp_product(n, at + 1, s.dims), at[rank - 1]};
  if (dt_dtype_size(dt__imp_dtype(n, 1)) < 4)
    grid = dt_cast(n->t, grid, DT_F32);
  if (s.mode != DT_IMP_NEAREST)
    x = dt__imp_as(n, x, s.wide);
  dt_value_t y =
      sample(n, &s, dt_reshape(n->t, x, 3, flat), dt_reshape(n->t, grid, 3, places), in + 2);
  sizes[0] = in[0];
  sizes[1] = in[1];
  for (uint32_t k = 0; k < s.dims; k++)
    sizes[2 + k] = at[1 + k];
  dt__imp_out(n, 0, dt__imp_as(n, dt_reshape(n->t, y, rank, sizes), dtype));
}

// ---- DeformConv -------------------------------------------------------------------------------------
enum { DEFORM_X, DEFORM_W, DEFORM_OFFSET, DEFORM_BIAS, DEFORM_MASK };

const char *dt__imp_check_DeformConv(dt_imp_node_t *n) {
  return dt__imp_int(n, "offset_group", 1) < 1 ? "attribute \"offset_group\" is not positive"
                                               : dt__imp_check_windows(n);
}

typedef struct deform_t {
  dt_sym_t x[4], w[4];        // sizes
  dt_sym_t out[2];            // places
  dt_sym_t batches, elements; // batch * offset groups; of a kernel
  dt_window_t windows[2];
  sampling_t sampling;
} deform_t;

// Where the kernel's elements lie along dim k, moved by the offsets: [batches, elements * places].
static dt_value_t moved(dt_imp_node_t *n, const deform_t *d, uint32_t k) {
  dt_dtype_t wide = d->sampling.wide;
  dt_sym_t two = dt__imp_lit(n, 2), one = dt__imp_lit(n, 1);
  const dt_sym_t split[] = {d->batches, d->w[2], d->w[3], two, d->out[0], d->out[1]};
  const dt_sym_t flat[] = {d->batches,
                           dt_sym_mul(n->t, d->elements, dt__imp_product(n, d->out, 2))};
  dt_value_t offset = dt__imp_as(n, dt__imp_in(n, DEFORM_OFFSET), wide);
  offset = dt_slice(n->t, dt_reshape(n->t, offset, 6, split), 3, dt__imp_lit(n, k), one, 1);
  offset = dt_squeeze(n->t, offset, 3);
  dt_value_t element = dt__imp_index(n, wide, d->w[2 + k], 3 - k);
  dt_value_t place_at = dt__imp_index(n, wide, d->out[k], 1 - k);
  element = dt_mul(n->t, element, size_like(n, element, d->windows[k].dilation));
  place_at = dt_mul(n->t, place_at, size_like(n, place_at, d->windows[k].stride));
  place_at = dt_sub(n->t, place_at, size_like(n, place_at, d->windows[k].low));
  return dt_reshape(n->t, dt_add(n->t, offset, dt_add(n->t, element, place_at)), 2, flat);
}

static bool read_deform(dt_imp_node_t *n, deform_t *d) {
  dt_sym_t offset[DT_MAX_RANK], sizes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, DEFORM_X), w = dt__imp_in(n, DEFORM_W);
  uint32_t rank = dt__imp_shape(n, x, sizes);
  if (rank != 4 || dt_value_rank(n->t, w) != 4 ||
      dt__imp_shape(n, dt__imp_in(n, DEFORM_OFFSET), offset) != 4) {
    if (!dt__imp_failed(n))
      dt__imp_fail(n, DT_E_UNSUPPORTED, "inputs of rank %u; only images of 2 dims are supported",
                   rank);
    return false;
  }
  (void)dt__imp_shape(n, x, d->x);
  (void)dt__imp_shape(n, w, d->w);
  d->out[0] = offset[2];
  d->out[1] = offset[3];
  d->batches = dt_sym_mul(n->t, d->x[0], dt__imp_lit(n, dt__imp_int(n, "offset_group", 1)));
  d->elements = dt_sym_mul(n->t, d->w[2], d->w[3]);
  d->sampling = (sampling_t){.mode = DT_IMP_LINEAR,
                             .border = ZEROS,
                             .dims = 2,
                             .n_taps = 2,
                             .wide = dt__imp_dtype(n, DEFORM_X) == DT_F64 ? DT_F64 : DT_F32};
  return dt__imp_windows(n, 2, d->x + 2, d->w + 2, d->windows);
}

// x at the moved places, as columns: [batches, channels of a group, elements * places].
static dt_value_t deformed(dt_imp_node_t *n, const deform_t *d) {
  taps_t taps[MOST_DIMS] = {0};
  dt_sym_t groups = dt__imp_lit(n, dt__imp_int(n, "offset_group", 1));
  dt_sym_t places = dt__imp_product(n, d->out, 2);
  const dt_sym_t flat[] = {d->batches, dt_sym_exactdiv(n->t, d->x[1], groups),
                           dt_sym_mul(n->t, d->x[2], d->x[3])};
  const dt_sym_t masks[] = {d->batches, dt__imp_lit(n, 1), dt_sym_mul(n->t, d->elements, places)};
  dt_value_t x = dt__imp_as(n, dt__imp_in(n, DEFORM_X), d->sampling.wide);
  for (uint32_t k = 0; k < 2; k++)
    find_taps(n, &d->sampling, moved(n, d, k), d->x[2 + k], &taps[k]);
  dt_value_t y = sum_taps(n, &d->sampling, dt_reshape(n->t, x, 3, flat), taps, d->x + 2);
  if (!dt__imp_has(n, DEFORM_MASK))
    return y;
  dt_value_t mask = dt__imp_as(n, dt__imp_in(n, DEFORM_MASK), d->sampling.wide);
  return dt_mul(n->t, y, dt_reshape(n->t, mask, 3, masks));
}

void dt__imp_make_DeformConv(dt_imp_node_t *n) {
  deform_t d;
  if (dt__imp_failed(n) || !read_deform(n, &d))
    return;
  dt_sym_t group = dt__imp_lit(n, dt__imp_int(n, "group", 1));
  dt_sym_t depth = dt_sym_mul(n->t, d.w[1], d.elements), places = dt__imp_product(n, d.out, 2);
  dt_sym_t each = dt_sym_exactdiv(n->t, d.w[0], group);
  const dt_sym_t columns[] = {d.x[0], group, depth, places}, rows[] = {group, each, depth};
  const dt_sym_t made[] = {d.x[0], d.w[0], d.out[0], d.out[1]};
  dt_value_t w = dt__imp_as(n, dt__imp_in(n, DEFORM_W), d.sampling.wide);
  dt_value_t y = dt_reshape(n->t, deformed(n, &d), 4, columns);
  y = dt_matmul(n->t, dt_reshape(n->t, w, 3, rows), y);
  y = dt__imp_as(n, dt_reshape(n->t, y, 4, made), dt__imp_dtype(n, DEFORM_X));
  dt__imp_out(n, 0, dt__imp_add_bias(n, y, DEFORM_BIAS, 4));
}

// ---- AffineGrid -------------------------------------------------------------------------------------
// -1 … 1 along dim k of `dims`, as a tensor that broadcasts to [batch, dims…].
static dt_value_t steps(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t size, uint32_t behind,
                        bool corners) {
  dt_value_t i = dt__imp_index(n, dtype, size, behind);
  dt_sym_t most = dt_sym_max(n->t, corners ? dt_sym_sub(n->t, size, dt__imp_lit(n, 1)) : size,
                             dt__imp_lit(n, 1));
  dt_value_t twice = dt__imp_plus(n, dt__imp_times(n, i, 2.0), corners ? 0.0 : 1.0);
  return dt__imp_plus(n, dt_div(n->t, twice, size_like(n, i, most)), -1.0);
}

// theta[:, row, column], with `dims` dims of size 1 behind it.
static dt_value_t factor(dt_imp_node_t *n, dt_value_t theta, uint32_t row, uint32_t column,
                         uint32_t dims) {
  dt_sym_t one = dt__imp_lit(n, 1);
  dt_value_t part = dt_slice(n->t, theta, 1, dt__imp_lit(n, row), one, 1);
  part = dt_slice(n->t, part, 2, dt__imp_lit(n, column), one, 1);
  return dt__imp_trailing(n, dt_squeeze(n->t, dt_squeeze(n->t, part, 2), 1), dims);
}

void dt__imp_make_AffineGrid(dt_imp_node_t *n) {
  dt_imp_syms_t sizes;
  dt_value_t theta = dt__imp_in(n, 0), rows[MOST_DIMS];
  bool corners = dt__imp_int(n, "align_corners", 0) != 0;
  if (!dt__imp_syms(n, 1, &sizes))
    return;
  if (sizes.len < 4 || sizes.len > 5) {
    dt__imp_fail(n, DT_E_SHAPE, "input 1 has %u elements; expected 4 or 5", sizes.len);
    return;
  }
  uint32_t dims = sizes.len - 2;
  dt_dtype_t dtype = dt__imp_dtype(n, 0);
  dt_sym_t whole[DT_MAX_RANK] = {dt_dim(n->t, theta, 0)};
  for (uint32_t k = 0; k < dims; k++)
    whole[1 + k] = sizes.items[2 + k];
  for (uint32_t row = 0; row < dims; row++) {
    dt_value_t sum = factor(n, theta, row, dims, dims);
    for (uint32_t k = 0; k < dims; k++) { // column k goes with the dim k from the last
      dt_value_t at = steps(n, dtype, sizes.items[sizes.len - 1 - k], k, corners);
      sum = dt_add(n->t, sum, dt_mul(n->t, factor(n, theta, row, k, dims), at));
    }
    rows[row] = dt_unsqueeze(n->t, dt_expand(n->t, sum, dims + 1, whole), -1);
  }
  dt__imp_out(n, 0, dt_concat(n->t, dims, rows, -1));
}

// ---- SpaceToDepth, DepthToSpace ---------------------------------------------------------------------
const char *dt__imp_check_blocks(dt_imp_node_t *n) {
  int64_t size = dt__imp_int(n, "blocksize", 0);
  if (size < 1 || size > 65536)
    return "attribute \"blocksize\" is not from 1 to 65536";
  return dt__imp_str_is(n, "mode", "DCR", "DCR") || dt__imp_str_is(n, "mode", "DCR", "CRD")
             ? NULL
             : "attribute \"mode\" is neither DCR nor CRD";
}

static bool read_image(dt_imp_node_t *n, dt_value_t x, dt_sym_t *sizes) {
  uint32_t rank = dt__imp_shape(n, x, sizes);
  if (rank != 4 && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 4", rank);
  return !dt__imp_failed(n);
}

void dt__imp_make_SpaceToDepth(dt_imp_node_t *n) {
  static const int32_t depth[] = {0, 3, 5, 1, 2, 4}, column[] = {0, 1, 3, 5, 2, 4};
  bool first = dt__imp_str_is(n, "mode", "DCR", "DCR");
  dt_sym_t s[DT_MAX_RANK], block = dt__imp_lit(n, dt__imp_int(n, "blocksize", 1));
  dt_value_t x = dt__imp_in(n, 0);
  if (!read_image(n, x, s))
    return;
  dt_sym_t high = dt_sym_exactdiv(n->t, s[2], block), wide = dt_sym_exactdiv(n->t, s[3], block);
  const dt_sym_t split[] = {s[0], s[1], high, block, wide, block};
  const dt_sym_t made[] = {s[0], dt_sym_mul(n->t, s[1], dt_sym_mul(n->t, block, block)), high,
                           wide};
  x = dt_permute(n->t, dt_reshape(n->t, x, 6, split), first ? depth : column);
  dt__imp_out(n, 0, dt_reshape(n->t, x, 4, made));
}

void dt__imp_make_DepthToSpace(dt_imp_node_t *n) {
  static const int32_t depth[] = {0, 3, 4, 1, 5, 2}, column[] = {0, 1, 4, 2, 5, 3};
  bool first = dt__imp_str_is(n, "mode", "DCR", "DCR");
  dt_sym_t s[DT_MAX_RANK], block = dt__imp_lit(n, dt__imp_int(n, "blocksize", 1));
  dt_value_t x = dt__imp_in(n, 0);
  if (!read_image(n, x, s))
    return;
  dt_sym_t rest = dt_sym_exactdiv(n->t, s[1], dt_sym_mul(n->t, block, block));
  const dt_sym_t blocks[] = {s[0], block, block, rest, s[2], s[3]};
  const dt_sym_t channels[] = {s[0], rest, block, block, s[2], s[3]};
  const dt_sym_t made[] = {s[0], rest, dt_sym_mul(n->t, s[2], block),
                           dt_sym_mul(n->t, s[3], block)};
  x = dt_permute(n->t, dt_reshape(n->t, x, 6, first ? blocks : channels), first ? depth : column);
  dt__imp_out(n, 0, dt_reshape(n->t, x, 4, made));
}
