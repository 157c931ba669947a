// SPDX-License-Identifier: Apache-2.0
// See strict_subjects.h. Models are compiled without contraction.
#include "test/unit/exec/strict_subjects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Elementary functions -------------------------------------------------------------------------
// Of the library, element by element: what they give is none of this test's business.
typedef dt_value_t (*unary_fn_t)(dt_trace_t *t, dt_value_t x);
static fixture_t functions;

void strict_use(const fixture_t *fixture) { functions = *fixture; }

static dt_value_t exp_of(dt_trace_t *t, dt_value_t x) { return dt_exp(t, x); }
static dt_value_t log_of(dt_trace_t *t, dt_value_t x) { return dt_log(t, x); }
static dt_value_t rsqrt_of(dt_trace_t *t, dt_value_t x) { return dt_rsqrt(t, x); }
static dt_value_t sigmoid_of(dt_trace_t *t, dt_value_t x) { return dt_sigmoid(t, x); }
static dt_value_t tanh_of(dt_trace_t *t, dt_value_t x) { return dt_tanh(t, x); }
static dt_value_t gelu_of(dt_trace_t *t, dt_value_t x) { return dt_gelu(t, x); }
static dt_value_t pow_of(dt_trace_t *t, dt_value_t x) { return dt_pow(t, dt_abs(t, x), x); }
static dt_value_t sin_of(dt_trace_t *t, dt_value_t x) { return dt_sin(t, x); }
static dt_value_t erf_of(dt_trace_t *t, dt_value_t x) { return dt_erf(t, x); }
static const unary_fn_t unaries[] = {exp_of,  log_of, rsqrt_of, sigmoid_of, tanh_of,
                                     gelu_of, pow_of, sin_of,   erf_of};
#define N_UNARIES (sizeof(unaries) / sizeof(unaries[0]))

static dt_status_t map(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = (*(const unary_fn_t *)closure)(t, in[0]);
  return NULL;
}

static void apply(unary_fn_t fn, dt_dtype_t dtype, array_t *x) {
  const int64_t n = array_count(x), one = 1;
  const dt_input_decl_t input = {.name = "x", .dtype = dtype, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(&functions, map, (void *)&fn, &options);
  dt_tensor_t *in = NULL, *out = NULL;
  array_t flat = {.rank = 1, .sizes = {n}, .at = x->at};
  expect_ok(dt_tensor_create_empty(dtype, 1, &n, &in));
  array_store(dtype, &flat, &one, dt_tensor_data(in));
  expect_ok(dt_call(functions.session, function, &in, 1, &out, 1, NULL));
  for (int64_t i = 0; i < n; i++)
    x->at[i] = element(dtype, dt_tensor_data(out), i);
  dt_tensor_release(in);
  dt_tensor_release(out);
  dt_function_release(function);
}

// They have the same bits on every processor and device.
static dt_status_t maps(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  for (size_t k = 0; k < N_UNARIES; k++)
    out[k] = unaries[k](t, in[0]);
  return NULL;
}

static array_t copy_of(const array_t *x) {
  array_t copy = array_of(x->rank, x->sizes);
  memcpy(copy.at, x->at, (size_t)array_count(x) * sizeof(*x->at));
  return copy;
}

static void model_maps(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (size_t k = 0; k < N_UNARIES; k++) {
    out[k] = copy_of(in);
    apply(unaries[k], sums_of(dtype), &out[k]);
  }
}

// ---- Folds over each set of axes ------------------------------------------------------------------
static uint32_t axes_of(uint32_t set, int32_t *axes) {
  uint32_t n = 0;
  for (int32_t d = 0; d < 3; d++)
    if (set >> d & 1)
      axes[n++] = d;
  return n;
}

#define FOLDS(name, fold, ...)                                                                     \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {   \
    (void)closure;                                                                                 \
    for (uint32_t set = 1; set < 8; set++) {                                                       \
      int32_t axes[3];                                                                             \
      uint32_t n = axes_of(set, axes);                                                             \
      out[set - 1] = fold(t, __VA_ARGS__, n, axes, false);                                         \
    }                                                                                              \
    return NULL;                                                                                   \
  }

static const int32_t turned_order[] = {2, 0, 1};
FOLDS(sums, dt_sum, in[0])
FOLDS(prods, dt_prod, in[0])
FOLDS(dots, dt_sum, dt_mul(t, in[0], in[1]))
FOLDS(turned, dt_sum, dt_permute(t, in[0], turned_order))
FOLDS(means, dt_mean, in[0])
FOLDS(variances, dt_var, in[0])

static void model_sums(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (uint32_t set = 1; set < 8; set++)
    out[set - 1] = folded(sums_of(dtype), in, set, false, false);
}
static void model_prods(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (uint32_t set = 1; set < 8; set++)
    out[set - 1] = folded(sums_of(dtype), in, set, true, false);
}
static void model_dots(dt_dtype_t dtype, const array_t *in, array_t *out) {
  array_t terms = array_of(3, in[0].sizes);
  for (int64_t i = 0; i < array_count(&terms); i++)
    terms.at[i] = rounded(dtype, times(sums_of(dtype), in[0].at[i], in[1].at[i]));
  model_sums(dtype, &terms, out);
  array_free(&terms);
}
static void model_turned(dt_dtype_t dtype, const array_t *in, array_t *out) {
  const int64_t *s = in->sizes;
  array_t x = array_of(3, (const int64_t[]){s[2], s[0], s[1]});
  for (int64_t i = 0; i < array_count(&x); i++)
    x.at[i] = in->at[i % (s[0] * s[1]) * s[2] + i / (s[0] * s[1])];
  model_sums(dtype, &x, out);
  array_free(&x);
}

static array_t mean_of(dt_dtype_t dtype, const array_t *x, uint32_t set, bool keep) {
  array_t sum = folded(dtype, x, set, false, keep);
  int64_t n = 1;
  for (uint32_t d = 0; d < x->rank; d++)
    n *= set >> d & 1 ? x->sizes[d] : 1;
  for (int64_t i = 0; i < array_count(&sum); i++)
    sum.at[i] = over(dtype, sum.at[i], rounded(dtype, (double)n));
  return sum;
}

static void subtract(dt_dtype_t dtype, array_t *x, const array_t *small) {
  for (int64_t i = 0; i < array_count(x); i++)
    x->at[i] = plus(dtype, x->at[i], -broadcast(small, x, i));
}

static array_t squares_of(dt_dtype_t dtype, const array_t *x) {
  array_t squares = copy_of(x);
  for (int64_t i = 0; i < array_count(x); i++)
    squares.at[i] = times(dtype, x->at[i], x->at[i]);
  return squares;
}

static array_t centred_of(dt_dtype_t dtype, const array_t *x, uint32_t set) {
  array_t mean = mean_of(dtype, x, set, true), centred = copy_of(x);
  subtract(dtype, &centred, &mean);
  array_free(&mean);
  return centred;
}

static void model_means(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (uint32_t set = 1; set < 8; set++)
    out[set - 1] = mean_of(sums_of(dtype), in, set, false);
}
static void model_variances(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (uint32_t set = 1; set < 8; set++) {
    array_t centred = centred_of(sums_of(dtype), in, set);
    array_t squares = squares_of(sums_of(dtype), &centred);
    out[set - 1] = mean_of(sums_of(dtype), &squares, set, false);
    array_free(&centred);
    array_free(&squares);
  }
}

// ---- Between other ops ----------------------------------------------------------------------------
// What makes the terms, and what follows the sums, in one kernel with them where that pays.
static dt_status_t between(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_dtype_t dtype = *(const dt_dtype_t *)closure;
  const int32_t last[] = {2}, first[] = {0};
  dt_value_t terms = dt_mul(t, dt_sub(t, in[0], in[1]), in[0]);
  dt_value_t rows = dt_sum(t, terms, 1, last, true), columns = dt_sum(t, terms, 1, first, true);
  out[0] = dt_mul(t, dt_div(t, in[0], rows), dt_scalar(t, dtype, 3));
  out[1] = dt_sub(t, columns, in[1]);
  out[2] = dt_sum(t, dt_mul(t, terms, rows), 0, NULL, false);
  return NULL;
}
static void model_between(dt_dtype_t dtype, const array_t *in, array_t *out) {
  dt_dtype_t sums = sums_of(dtype);
  array_t terms = copy_of(in);
  for (int64_t i = 0; i < array_count(in); i++) {
    double difference = rounded(dtype, plus(sums, in[0].at[i], -in[1].at[i]));
    terms.at[i] = rounded(dtype, times(sums, difference, in[0].at[i]));
  }
  array_t rows = folded(sums, &terms, 4, false, true),
          columns = folded(sums, &terms, 1, false, true);
  array_round(dtype, &rows);
  array_round(dtype, &columns);
  out[0] = copy_of(in);
  out[1] = copy_of(in);
  for (int64_t i = 0; i < array_count(in); i++) {
    double quotient = rounded(dtype, over(sums, in[0].at[i], broadcast(&rows, in, i)));
    out[0].at[i] = times(sums, quotient, 3);
    out[1].at[i] = plus(sums, broadcast(&columns, in, i), -in[1].at[i]);
    terms.at[i] = rounded(dtype, times(sums, terms.at[i], broadcast(&rows, in, i)));
  }
  out[2] = folded(sums, &terms, 7, false, false);
  array_free(&terms);
  array_free(&rows);
  array_free(&columns);
}

// ---- Composites -----------------------------------------------------------------------------------
static dt_status_t softmaxes(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, in[0], 2);
  out[1] = dt_softmax(t, in[0], 0);
  out[2] = dt_log_softmax(t, in[0], 1);
  return NULL;
}

static array_t softmax_of(dt_dtype_t dtype, const array_t *in, uint32_t axis, bool log) {
  array_t most = {.rank = 3};
  for (uint32_t d = 0; d < 3; d++)
    most.sizes[d] = d == axis ? 1 : in->sizes[d];
  most = array_of(3, most.sizes);
  for (int64_t i = 0; i < array_count(&most); i++)
    most.at[i] = -INFINITY;
  array_t below = copy_of(in), where = copy_of(&most);
  for (int64_t i = 0; i < array_count(&where); i++)
    where.at[i] = (double)i;
  for (int64_t i = 0; i < array_count(in); i++) {
    double *place = &most.at[(int64_t)broadcast(&where, in, i)];
    *place = fmax(*place, in->at[i]);
  }
  subtract(dtype, &below, &most);
  array_t out = copy_of(&below);
  apply(exp_of, dtype, &out);
  array_t sum = folded(dtype, &out, 1u << axis, false, true);
  if (log) {
    apply(log_of, dtype, &sum);
    memcpy(out.at, below.at, (size_t)array_count(in) * sizeof(*out.at));
    subtract(dtype, &out, &sum);
  }
  for (int64_t i = 0; i < array_count(in) && !log; i++)
    out.at[i] = times(dtype, out.at[i], over(dtype, 1, broadcast(&sum, in, i)));
  array_free(&most);
  array_free(&where);
  array_free(&below);
  array_free(&sum);
  return out;
}
static void model_softmaxes(dt_dtype_t dtype, const array_t *in, array_t *out) {
  out[0] = softmax_of(sums_of(dtype), in, 2, false);
  out[1] = softmax_of(sums_of(dtype), in, 0, false);
  out[2] = softmax_of(sums_of(dtype), in, 1, true);
}

#define EPSILON 1e-5

static dt_status_t norms(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_layer_norm(t, in[0], in[1], in[2], EPSILON);
  out[1] = dt_rms_norm(t, in[0], in[1], EPSILON);
  return NULL;
}

static array_t norm_of(dt_dtype_t dtype, const array_t *x, const array_t *scale,
                       const array_t *bias) {
  array_t squares = squares_of(dtype, x), by = mean_of(dtype, &squares, 4, true), out = copy_of(x);
  for (int64_t i = 0; i < array_count(&by); i++)
    by.at[i] = plus(dtype, by.at[i], rounded(dtype, EPSILON));
  apply(rsqrt_of, dtype, &by);
  for (int64_t i = 0; i < array_count(x); i++) {
    int64_t column = i % x->sizes[2];
    double y = times(dtype, times(dtype, x->at[i], broadcast(&by, x, i)), scale->at[column]);
    out.at[i] = bias ? plus(dtype, y, bias->at[column]) : y;
  }
  array_free(&squares);
  array_free(&by);
  return out;
}
static void model_norms(dt_dtype_t dtype, const array_t *in, array_t *out) {
  array_t centred = centred_of(sums_of(dtype), in, 4);
  out[0] = norm_of(sums_of(dtype), &centred, &in[1], &in[2]);
  out[1] = norm_of(sums_of(dtype), in, &in[1], NULL);
  array_free(&centred);
}

// ---- Running sums, selections ---------------------------------------------------------------------
static dt_status_t runs(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  for (int32_t axis = 0; axis < 3; axis++)
    for (int mode = 0; mode < 4; mode++)
      out[axis * 4 + mode] = dt_cumsum(t, in[0], axis, (dt_cumsum_mode_t)mode);
  return NULL;
}
static void model_runs(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (uint32_t axis = 0; axis < 3; axis++)
    for (int mode = 0; mode < 4; mode++)
      out[axis * 4 + (uint32_t)mode] = running(sums_of(dtype), in, axis, mode);
}

static dt_status_t line(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_dtype_t dtype = *(const dt_dtype_t *)closure;
  dt_value_t positive = dt_gt(t, in[0], dt_scalar(t, dtype, 0));
  for (int mode = 0; mode < 4; mode++)
    out[mode] = dt_cumsum(t, in[0], 0, (dt_cumsum_mode_t)mode);
  out[4] = dt_sum(t, dt_masked_select(t, in[0], positive), 0, NULL, false);
  out[5] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}
static void model_line(dt_dtype_t dtype, const array_t *in, array_t *out) {
  for (int mode = 0; mode < 4; mode++)
    out[mode] = running(sums_of(dtype), in, 0, mode);
  array_t positive = copy_of(in);
  for (int64_t i = 0; i < array_count(in); i++)
    positive.at[i] = in->at[i] > 0 ? in->at[i] : 0; // adding 0 changes no sum
  out[4] = folded(sums_of(dtype), &positive, 1, false, false);
  out[5] = folded(sums_of(dtype), in, 1, false, false);
  array_free(&positive);
}

// ---- Products -------------------------------------------------------------------------------------
static dt_status_t products(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_dtype_t dtype = *(const dt_dtype_t *)closure;
  out[0] = dt_matmul(t, in[0], in[1]);
  out[1] = dt_add(t, dt_mul(t, out[0], dt_scalar(t, dtype, 3)), dt_scalar(t, dtype, 1));
  return NULL;
}
static void model_products(dt_dtype_t dtype, const array_t *in, array_t *out) {
  dt_dtype_t sums = sums_of(dtype);
  array_t a = in[0], b = in[1];
  if (a.rank == 2) {
    a.rank = b.rank = 3;
    memmove(&a.sizes[1], a.sizes, 2 * sizeof(*a.sizes));
    memmove(&b.sizes[1], b.sizes, 2 * sizeof(*b.sizes));
    a.sizes[0] = b.sizes[0] = 1;
  }
  out[0] = multiplied(sums, &a, &b);
  if (in[0].rank == 2)
    memmove(out[0].sizes, &out[0].sizes[1], 2 * sizeof(*out[0].sizes));
  out[0].rank = in[0].rank;
  out[1] = copy_of(&out[0]);
  for (int64_t i = 0; i < array_count(&out[1]); i++) {
    double tripled = rounded(dtype, times(sums, rounded(dtype, out[1].at[i]), 3));
    out[1].at[i] = plus(sums, tripled, 1);
  }
}

// ---- Windows --------------------------------------------------------------------------------------
// Over x [N, C, H], w [M, C, K] (transposed: [C, M, K]): padding of 1, in steps of 1 and of 2.
static dt_status_t convolutions(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_sym_t one = dt_sym_const(t, 1), two = dt_sym_const(t, 2), three = dt_sym_const(t, 3);
  const dt_window_t plain = {.low = one, .high = one},
                    half = {.stride = two, .low = one, .high = one};
  const dt_window_t pool = {.size = three, .stride = two};
  out[0] = dt_conv(t, in[0], in[1], &plain, 1);
  out[1] = dt_conv(t, in[0], in[1], &half, 1);
  out[2] = dt_conv_transpose(t, in[0], dt_transpose(t, in[1], 0, 1), &half, 1);
  out[3] = dt_avg_pool(t, in[0], &pool, 0);
  return NULL;
}

static array_t convolved(dt_dtype_t dtype, const array_t *x, const array_t *w, int64_t stride) {
  int64_t n = x->sizes[0], c = x->sizes[1], h = x->sizes[2], m = w->sizes[0], k = w->sizes[2];
  int64_t places = (h + 2 - k) / stride + 1;
  array_t out = array_of(3, (const int64_t[]){n, m, places});
  for (int64_t i = 0; i < array_count(&out); i++) {
    int64_t place = i % places, row = i / places % m, batch = i / places / m;
    for (int64_t q = 0; q < c * k; q++) {
      int64_t at = place * stride + q % k - 1;
      double value = at < 0 || at >= h ? 0 : x->at[(batch * c + q / k) * h + at];
      out.at[i] = plus(dtype, out.at[i], times(dtype, value, w->at[row * c * k + q]));
    }
  }
  return out;
}

// Each element of a window is the sum over channels; windows are added where they meet, elements of
// lower index first.
static array_t spread(dt_dtype_t dtype, const array_t *x, const array_t *w, int64_t stride) {
  int64_t n = x->sizes[0], c = x->sizes[1], h = x->sizes[2], m = w->sizes[0], k = w->sizes[2];
  int64_t size = (h - 1) * stride + k - 2;
  array_t out = array_of(3, (const int64_t[]){n, m, size});
  for (int64_t i = 0; i < array_count(&out); i++) {
    int64_t place = i % size, row = i / size % m, batch = i / size / m;
    for (int64_t e = 0; e < k; e++) {
      int64_t from = place + 1 - e;
      double term = 0;
      if (from < 0 || from % stride || from / stride >= h)
        continue;
      for (int64_t q = 0; q < c; q++)
        term = plus(
            dtype, term,
            times(dtype, w->at[(row * c + q) * k + e], x->at[(batch * c + q) * h + from / stride]));
      out.at[i] = plus(dtype, out.at[i], term);
    }
  }
  return out;
}

static void model_convolutions(dt_dtype_t dtype, const array_t *in, array_t *out) {
  dt_dtype_t sums = sums_of(dtype);
  out[0] = convolved(sums, &in[0], &in[1], 1);
  out[1] = convolved(sums, &in[0], &in[1], 2);
  out[2] = spread(sums, &in[0], &in[1], 2);
  int64_t h = in->sizes[2], places = (h - 3) / 2 + 1;
  out[3] = array_of(3, (const int64_t[]){in->sizes[0], in->sizes[1], places});
  for (int64_t i = 0; i < array_count(&out[3]); i++) {
    double sum = 0;
    for (int64_t e = 0; e < 3; e++)
      sum = plus(sums, sum, in->at[i / places * h + i % places * 2 + e]);
    out[3].at[i] = over(sums, sum, 3);
  }
}

// ---- Updates that meet ----------------------------------------------------------------------------
static dt_status_t scattered(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_scatter_elements(t, in[0], in[1], in[2], 0, DT_SCATTER_ADD);
  return NULL;
}
static void model_scattered(dt_dtype_t dtype, const array_t *in, array_t *out) {
  int64_t columns = in->sizes[1];
  out[0] = copy_of(in);
  for (int64_t i = 0; i < array_count(&in[1]); i++) {
    double *place = &out[0].at[(int64_t)in[1].at[i] * columns + i % columns];
    *place = plus(sums_of(dtype), *place, in[2].at[i]);
  }
}

// ---- Subjects -------------------------------------------------------------------------------------
#define CUBES                                                                                      \
  {{{2, 3, 37}, {2, 3, 37}},       {{37, 5, 1}, {37, 5, 1}},   {{1, 1, 1}, {1, 1, 1}},             \
   {{0, 4, 5}, {0, 4, 5}},         {{4, 5, 0}, {4, 5, 0}},     {{7, 13, 17}, {7, 13, 17}},         \
   {{2, 1, 20011}, {2, 1, 20011}}, {{67, 2, 65}, {67, 2, 65}}, {{1999, 1, 3}, {1999, 1, 3}}},      \
      9
#define ROW(name, n_in, n_out) #name, name, model_##name, n_in, n_out

const subject_row_t strict_subjects[] = {
    {ROW(maps, 1, N_UNARIES), {3}, 0, 0, false, CUBES},
    {ROW(sums, 1, 7), {3}, 0, 0, true, CUBES},
    {ROW(prods, 1, 7), {3}, 1, 0, true, CUBES},
    {ROW(dots, 2, 7), {3, 3}, 2, 0, true, CUBES},
    {ROW(turned, 1, 7), {3}, 0, 0, true, CUBES},
    {ROW(means, 1, 7), {3}, 0, 0, true, CUBES},
    {ROW(variances, 1, 7), {3}, 0, 0, true, CUBES},
    {ROW(between, 2, 3), {3, 3}, 2, 0, true, CUBES},
    {ROW(softmaxes, 1, 3), {3}, 0, 0, true, CUBES},
    {ROW(norms, 3, 2),
     {3, 1, 1},
     2,
     0,
     true,
     {{{2, 3, 37}, {37}, {37}},
      {{5, 1, 1}, {1}, {1}},
      {{0, 3, 4}, {4}, {4}},
      {{3, 4, 0}, {0}, {0}},
      {{3, 2, 1999}, {1999}, {1999}}},
     5},
    {ROW(runs, 1, 12), {3}, 0, 0, false, CUBES},
    {ROW(line, 1, 6), {1}, 0, 0, true, {{{100}}, {{1}}, {{0}}, {{1025}}, {{73963}}}, 5},
    {ROW(products, 2, 2),
     {2, 2},
     0,
     0,
     true,
     {{{5, 67}, {67, 9}},
      {{1, 1999}, {1999, 7}},
      {{3, 1}, {1, 5}},
      {{4, 0}, {0, 3}},
      {{0, 4}, {4, 3}},
      {{2, 131}, {131, 65}},
      {{67, 300}, {300, 33}},
      {{7, 1031}, {1031, 1}},
      {{1, 520}, {520, 150}}},
     9},
    {.name = "products of batches",
     .program = products,
     .model = model_products,
     .n_in = 2,
     .n_out = 2,
     .ranks = {3, 3},
     .sizes = {{{2, 3, 67}, {2, 67, 9}},
               {{3, 1, 131}, {3, 131, 5}},
               {{2, 17, 40}, {2, 40, 1}},
               {{0, 2, 3}, {0, 3, 4}}},
     .n_sizes = 4},
    {ROW(convolutions, 2, 4),
     {3, 3},
     0,
     0,
     false,
     {{{2, 3, 20}, {5, 3, 3}},
      {{1, 1, 300}, {2, 1, 5}},
      {{1, 40, 33}, {3, 40, 3}},
      {{1, 7, 3}, {19, 7, 2}}},
     4},
    {ROW(scattered, 3, 1),
     {2, 2, 2},
     0,
     2,
     false,
     {{{3, 7}, {50, 7}, {50, 7}},
      {{1, 1}, {1999, 1}, {1999, 1}},
      {{5, 3}, {0, 3}, {0, 3}},
      {{2, 65}, {31, 65}, {31, 65}}},
     4},
};
const size_t strict_n_subjects = sizeof(strict_subjects) / sizeof(strict_subjects[0]);
