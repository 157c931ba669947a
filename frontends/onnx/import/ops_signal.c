// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, windows, mel filters. A transform of n elements is a product with the n x n
// matrix of its roots of unity; sizes stay symbols.
#include "frontends/onnx/import/import.h"

#include <math.h>

static const double tau = 6.283185307179586;

static dt_value_t f64(dt_imp_node_t *n, double value) { return dt_scalar(n->t, DT_F64, value); }

static dt_sym_t lit(dt_imp_node_t *n, int64_t value) { return dt_sym_const(n->t, value); }

static dt_value_t indices(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t len) {
  return dt_iota(n->t, dtype, 1, &len, 0);
}

// ---- Roots of unity ---------------------------------------------------------------------------------
typedef struct dft_t {
  dt_sym_t n;       // elements of a transform
  dt_sym_t in, out; // rows and columns of the matrix: elements read, elements made
  bool inverse;
  bool real_in, real_out; // without imaginary parts
  dt_dtype_t dtype;
} dft_t;

// cos or sin of 2 pi j k / n: rows j, columns k, as [in, out, 1]. A table of the n values there are
// is made in f64; j k mod n is exact.
static dt_value_t roots(dt_imp_node_t *n, const dft_t *d, bool is_sin) {
  dt_trace_t *t = n->t;
  dt_value_t size = dt_size_value(t, d->n);
  dt_value_t angles =
      dt_div(t, dt_mul(t, indices(n, DT_F64, d->n), f64(n, tau)), dt_cast(t, size, DT_F64));
  dt_value_t table = dt_cast(t, is_sin ? dt_sin(t, angles) : dt_cos(t, angles), d->dtype);
  dt_value_t j = dt_unsqueeze(t, indices(n, DT_I64, d->in), 1);
  dt_value_t at = dt_mod(t, dt_mul(t, j, indices(n, DT_I64, d->out)), size);
  return dt_unsqueeze(t, dt_gather(t, table, at, 0), 2);
}

// What the imaginary part of an input adds, or the real one: [in, out, 1 or 2].
static dt_value_t coefficients(dt_imp_node_t *n, const dft_t *d, bool imaginary) {
  dt_trace_t *t = n->t;
  dt_value_t c = roots(n, d, false), s = roots(n, d, true);
  dt_value_t minus = dt_neg(t, s);
  dt_value_t parts[2] = {imaginary ? (d->inverse ? minus : s) : c,
                         imaginary ? c : (d->inverse ? s : minus)};
  return d->real_out ? parts[0] : dt_concat(t, 2, parts, 2);
}

// Bins of a one-sided spectrum that stand for two count twice: all but the first, and the middle
// one of an even number. [in, 1, 1]
static dt_value_t weights(dt_imp_node_t *n, const dft_t *d) {
  dt_trace_t *t = n->t;
  dt_value_t k = indices(n, DT_I64, d->in);
  dt_value_t twice = dt_mul(t, k, dt_scalar(t, DT_I64, 2));
  dt_value_t single = dt_logical_or(t, dt_eq(t, k, dt_scalar(t, DT_I64, 0)),
                                    dt_eq(t, twice, dt_size_value(t, d->n)));
  dt_value_t w = dt_where(t, single, dt_scalar(t, d->dtype, 1), dt_scalar(t, d->dtype, 2));
  return dt_unsqueeze(t, dt_unsqueeze(t, w, 1), 2);
}

// [in or twice in, out or twice out]: real parts, then imaginary ones; columns in pairs.
static dt_value_t matrix(dt_imp_node_t *n, const dft_t *d, dt_value_t window) {
  dt_trace_t *t = n->t;
  dt_value_t parts[2] = {coefficients(n, d, false)};
  if (!d->real_in)
    parts[1] = coefficients(n, d, true);
  for (uint32_t k = 0; k < (d->real_in ? 1u : 2u); k++) {
    if (window.id)
      parts[k] = dt_mul(t, parts[k], dt_unsqueeze(t, dt_unsqueeze(t, window, 1), 2));
    if (d->real_out)
      parts[k] = dt_mul(t, parts[k], weights(n, d));
  }
  dt_value_t all = d->real_in ? parts[0] : dt_concat(t, 2, parts, 0);
  const dt_sym_t sizes[2] = {dt_dim(t, all, 0), dt_sym_mul(t, d->out, lit(n, d->real_out ? 1 : 2))};
  return dt_reshape(t, all, 2, sizes);
}

// x [..., in] (and, unless real, its imaginary part `y`) to [..., out, 1 or 2].
static dt_value_t transform(dt_imp_node_t *n, const dft_t *d, dt_value_t x, dt_value_t y,
                            dt_value_t window) {
  dt_trace_t *t = n->t;
  dt_value_t both[2] = {x, y};
  dt_value_t in = d->real_in ? x : dt_concat(t, 2, both, -1);
  dt_value_t made = dt_matmul(t, in, matrix(n, d, window));
  if (d->inverse)
    made = dt_div(t, made, dt_cast(t, dt_size_value(t, d->n), d->dtype));
  if (dt__imp_failed(n))
    return made;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt_value_rank(t, made);
  for (uint32_t k = 0; k + 1 < rank; k++)
    sizes[k] = dt_dim(t, made, (int32_t)k);
  sizes[rank - 1] = d->out;
  sizes[rank] = lit(n, d->real_out ? 1 : 2);
  return dt_reshape(t, made, rank + 1, sizes);
}

// ---- Signals ----------------------------------------------------------------------------------------
typedef struct signal_t {
  dt_value_t re, im; // without the last dim; im: id 0 where it is real
} signal_t;

// False: failed.
static bool read_signal(dt_imp_node_t *n, dt_value_t x, signal_t *out) {
  dt_sym_t one = lit(n, 1);
  *out = (signal_t){0};
  int64_t parts = dt__imp_failed(n) ? 0 : dt_sym_int(n->t, dt_dim(n->t, x, -1));
  if (!dt__imp_failed(n) && parts != 1 && parts != 2)
    dt__imp_fail(n, DT_E_SHAPE, "the last dim of input 0 has size %lld; expected 1 or 2",
                 (long long)parts);
  if (dt__imp_failed(n))
    return false;
  out->re = dt_squeeze(n->t, dt_slice(n->t, x, -1, lit(n, 0), one, 1), -1);
  if (parts == 2)
    out->im = dt_squeeze(n->t, dt_slice(n->t, x, -1, one, one, 1), -1);
  return !dt__imp_failed(n);
}

// ---- DFT --------------------------------------------------------------------------------------------
static const char *check_dtype(dt_imp_node_t *n, const char *name) {
  return dt__imp_attr_dtype(n, name, DT_F32) == DT_DTYPE_NONE
             ? "of an element type that is not supported"
             : NULL;
}

// Sizes of the transform of `have` elements.
static void plan(dt_imp_node_t *n, dt_sym_t have, bool is_real, dft_t *d) {
  dt_trace_t *t = n->t;
  dt_sym_t one = lit(n, 1), two = lit(n, 2);
  bool onesided = dt__imp_int(n, "onesided", 0) != 0;
  d->inverse = dt__imp_int(n, "inverse", 0) != 0;
  d->real_in = is_real;
  d->real_out = d->inverse && onesided;
  d->n = d->real_out ? dt_sym_mul(t, two, dt_sym_sub(t, have, one)) : have;
  if (dt__imp_has(n, 1))
    d->n = dt__imp_sym(n, 1, 0);
  dt_sym_t half = dt_sym_add(t, dt_sym_floordiv(t, d->n, two), one);
  d->in = d->real_out ? half : d->n;
  d->out = onesided && !d->inverse ? half : d->n;
}

// Dim `axis` with `to` elements: cut, or zeros behind.
static dt_value_t resized(dt_imp_node_t *n, dt_value_t x, dt_sym_t from, dt_sym_t to) {
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK];
  uint32_t rank = dt__imp_failed(n) ? 0 : dt_value_rank(n->t, x);
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = lit(n, 0);
  if (rank == 0)
    return x;
  high[rank - 1] = dt_sym_sub(n->t, to, from);
  return dt_pad(n->t, x, low, high, 0);
}

static void dft_along(dt_imp_node_t *n, int64_t axis) {
  dt_value_t x = dt__imp_in(n, 0);
  signal_t s;
  int64_t rank = dt__imp_rank(n, 0);
  int64_t at = axis < 0 ? axis + rank : axis;
  if (!dt__imp_failed(n) && (rank < 2 || at < 0 || at >= rank - 1))
    dt__imp_fail(n, DT_E_SHAPE, "axis %lld of rank %lld, whose last is real and imaginary parts",
                 (long long)axis, (long long)rank);
  if (dt__imp_failed(n) || !read_signal(n, x, &s))
    return;
  dft_t d = {.dtype = dt__imp_dtype(n, 0)};
  dt_sym_t have = dt_dim(n->t, x, (int32_t)at);
  plan(n, have, !s.im.id, &d);
  s.re = resized(n, dt_transpose(n->t, s.re, (int32_t)at, -1), have, d.in);
  if (s.im.id)
    s.im = resized(n, dt_transpose(n->t, s.im, (int32_t)at, -1), have, d.in);
  dt_value_t made = transform(n, &d, s.re, s.im, (dt_value_t){0});
  dt__imp_out(n, 0, dt_transpose(n->t, made, (int32_t)at, -2));
}

void dt__imp_make_DFT17(dt_imp_node_t *n) { dft_along(n, dt__imp_int(n, "axis", 1)); }

void dt__imp_make_DFT(dt_imp_node_t *n) {
  dt_imp_ints_t axis = {0};
  if (!dt__imp_has(n, 2))
    dft_along(n, -2);
  else if (dt__imp_ints(n, 2, &axis) && axis.len == 1)
    dft_along(n, axis.items[0]);
  else
    dt__imp_fail(n, DT_E_SHAPE, "input 2 has %u elements; expected one", axis.len);
}

// ---- STFT -------------------------------------------------------------------------------------------
// [batch, elements] to [batch, frames, length].
static dt_value_t frames(dt_imp_node_t *n, dt_value_t x, dt_sym_t step, dt_sym_t length) {
  dt_trace_t *t = n->t;
  dt_sym_t room = dt_sym_sub(t, dt_dim(t, x, 1), length);
  dt_sym_t count = dt_sym_add(t, dt_sym_floordiv(t, room, step), lit(n, 1));
  count = dt_sym_max(t, count, lit(n, 0));
  dt_value_t starts = dt_mul(t, indices(n, DT_I64, count), dt_size_value(t, step));
  dt_value_t at = dt_add(t, dt_unsqueeze(t, starts, 1), indices(n, DT_I64, length));
  return dt_gather(t, x, at, 1);
}

void dt__imp_make_STFT(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), window = {0};
  dft_t d = {.dtype = dt__imp_dtype(n, 0)};
  signal_t s = {0};
  if (!dt__imp_failed(n) && dt_value_rank(n->t, x) == 2)
    s.re = x;
  else if (!read_signal(n, x, &s))
    return;
  if (dt_value_rank(n->t, s.re) != 2) {
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 2 or 3", dt__imp_rank(n, 0));
    return;
  }
  if (dt__imp_has(n, 2))
    window = dt__imp_in(n, 2);
  d.n = dt__imp_has(n, 3) ? dt__imp_sym(n, 3, 0)
                          : dt_dim(n->t, window.id ? window : s.re, window.id ? 0 : 1);
  d.in = d.n;
  d.out = dt__imp_int(n, "onesided", 1) != 0
              ? dt_sym_add(n->t, dt_sym_floordiv(n->t, d.n, lit(n, 2)), lit(n, 1))
              : d.n;
  d.real_in = !s.im.id;
  dt_sym_t step = dt__imp_sym(n, 1, 0);
  if (dt__imp_failed(n))
    return;
  s.re = frames(n, s.re, step, d.n);
  if (s.im.id)
    s.im = frames(n, s.im, step, d.n);
  dt__imp_out(n, 0, transform(n, &d, s.re, s.im, window));
}

// ---- Windows ----------------------------------------------------------------------------------------
const char *dt__imp_check_Window(dt_imp_node_t *n) { return check_dtype(n, "output_datatype"); }

// Sum of factors[k] cos(2 pi k i / length), in f64.
static void window(dt_imp_node_t *n, const double *factors) {
  dt_trace_t *t = n->t;
  dt_sym_t size = dt__imp_sym(n, 0, 0);
  dt_sym_t length = dt__imp_int(n, "periodic", 1) ? size : dt_sym_sub(t, size, lit(n, 1));
  if (dt__imp_failed(n))
    return;
  dt_value_t whole = dt_cast(t, dt_size_value(t, length), DT_F64);
  dt_value_t i = indices(n, DT_F64, size), sum = f64(n, factors[0]);
  for (int k = 1; k < 3; k++) {
    if (factors[k] == 0)
      continue;
    dt_value_t angle = dt_div(t, dt_mul(t, i, f64(n, k * tau)), whole);
    sum = dt_add(t, sum, dt_mul(t, dt_cos(t, angle), f64(n, factors[k])));
  }
  dt__imp_out(n, 0, dt_cast(t, sum, dt__imp_attr_dtype(n, "output_datatype", DT_F32)));
}

void dt__imp_make_HannWindow(dt_imp_node_t *n) { window(n, (const double[3]){0.5, -0.5, 0}); }
void dt__imp_make_HammingWindow(dt_imp_node_t *n) {
  window(n, (const double[3]){25.0 / 46, -21.0 / 46, 0});
}
void dt__imp_make_BlackmanWindow(dt_imp_node_t *n) {
  window(n, (const double[3]){0.42, -0.5, 0.08});
}

// ---- MelWeightMatrix --------------------------------------------------------------------------------
static dt_value_t real(dt_imp_node_t *n, dt_sym_t sym) {
  return dt_cast(n->t, dt_size_value(n->t, sym), DT_F64);
}

static dt_value_t mel(dt_imp_node_t *n, uint32_t input) {
  dt_trace_t *t = n->t;
  dt_value_t hertz = dt_cast(t, dt__imp_in(n, input), DT_F64);
  if (dt__imp_failed(n))
    return hertz;
  if (dt_value_rank(t, hertz) > 0)
    hertz = dt_reshape(t, hertz, 0, NULL);
  dt_value_t x = dt_add(t, f64(n, 1), dt_div(t, hertz, f64(n, 700)));
  return dt_mul(t, dt_log(t, x), f64(n, 2595 / log(10)));
}

// The bin of the spectrum that each edge of the filters falls into, as f64: [filters + 2].
static dt_value_t edges(dt_imp_node_t *n, dt_sym_t filters, dt_sym_t dft, dt_sym_t rate) {
  dt_trace_t *t = n->t;
  dt_sym_t count = dt_sym_add(t, filters, lit(n, 2));
  dt_value_t low = mel(n, 3), high = mel(n, 4);
  dt_value_t step = dt_div(t, dt_sub(t, high, low), real(n, count));
  dt_value_t at = dt_add(t, dt_mul(t, indices(n, DT_F64, count), step), low);
  dt_value_t power = dt_exp(t, dt_mul(t, at, f64(n, log(10) / 2595)));
  dt_value_t hertz = dt_mul(t, dt_sub(t, power, f64(n, 1)), f64(n, 700));
  dt_value_t scaled = dt_mul(t, hertz, real(n, dt_sym_add(t, dft, lit(n, 1))));
  return dt_floor(t, dt_div(t, scaled, real(n, rate)));
}

// Each column rises from its lower edge to its centre, and falls from there to its upper edge.
void dt__imp_make_MelWeightMatrix(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  dt_sym_t filters = dt__imp_sym(n, 0, 0), dft = dt__imp_sym(n, 1, 0), rate = dt__imp_sym(n, 2, 0);
  if (dt__imp_failed(n))
    return;
  dt_value_t all = edges(n, filters, dft, rate), edge[3];
  for (int k = 0; k < 3; k++)
    edge[k] = dt_slice(t, all, 0, lit(n, k), filters, 1);
  const dt_sym_t rows[2] = {dt_sym_add(t, dt_sym_floordiv(t, dft, lit(n, 2)), lit(n, 1)),
                            lit(n, 1)};
  dt_value_t row = dt_iota(t, DT_F64, 2, rows, 0), zero = f64(n, 0);
  dt_value_t rises = dt_logical_and(t, dt_ge(t, row, edge[0]), dt_le(t, row, edge[1]));
  dt_value_t up = dt_div(t, dt_sub(t, row, edge[0]), dt_sub(t, edge[1], edge[0]));
  up = dt_where(t, dt_eq(t, row, edge[1]), f64(n, 1), dt_where(t, rises, up, zero));
  dt_value_t falls = dt_logical_and(t, dt_ge(t, row, edge[1]), dt_lt(t, row, edge[2]));
  dt_value_t down = dt_div(t, dt_sub(t, edge[2], row), dt_sub(t, edge[2], edge[1]));
  dt_value_t made = dt_where(t, falls, down, up);
  dt__imp_out(n, 0, dt_cast(t, made, dt__imp_attr_dtype(n, "output_datatype", DT_F32)));
}
