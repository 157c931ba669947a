// SPDX-License-Identifier: Apache-2.0
// See strict_model.h. Compiled without contraction.
#include "test/unit/exec/strict_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t array_count(const array_t *a) {
  int64_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++)
    n *= a->sizes[d];
  return n;
}

array_t array_of(uint32_t rank, const int64_t *sizes) {
  array_t a = {.rank = rank};
  memcpy(a.sizes, sizes, rank * sizeof(*sizes));
  a.at = calloc((size_t)array_count(&a) + 1, sizeof(*a.at));
  assert_non_null(a.at);
  return a;
}

void array_free(array_t *a) { free(a->at); }

// ---- Numbers --------------------------------------------------------------------------------------
dt_dtype_t sums_of(dt_dtype_t dtype) { return dtype == DT_F64 ? DT_F64 : DT_F32; }

// To a float of `digits` binary digits whose smallest number above 0 is 2^least.
static double nearest(double x, int digits, int least, double most) {
  int exponent = 0;
  if (!isfinite(x) || x == 0)
    return x;
  (void)frexp(x, &exponent);
  int unit = exponent - digits > least ? exponent - digits : least;
  double y = ldexp(nearbyint(ldexp(x, -unit)), unit);
  return fabs(y) > most ? copysign(INFINITY, x) : y;
}

double rounded(dt_dtype_t dtype, double x) {
  switch (dtype) {
  case DT_F16:
    return nearest(x, 11, -24, 65504);
  case DT_BF16:
    return nearest(x, 8, -133, 0x1.fep127);
  case DT_F32:
    return (double)(float)x;
  default:
    return x;
  }
}

void array_round(dt_dtype_t dtype, array_t *a) {
  for (int64_t i = 0; i < array_count(a); i++)
    a->at[i] = rounded(dtype, a->at[i]);
}

double plus(dt_dtype_t dtype, double a, double b) {
  return dtype == DT_F64 ? a + b : (double)((float)a + (float)b);
}
double times(dt_dtype_t dtype, double a, double b) {
  return dtype == DT_F64 ? a * b : (double)((float)a * (float)b);
}
double over(dt_dtype_t dtype, double a, double b) {
  return dtype == DT_F64 ? a / b : (double)((float)a / (float)b);
}

// ---- Folds ----------------------------------------------------------------------------------------
// Where element i of `x` is in an array of the same rank whose sizes are x's or 1.
static int64_t place_in(const array_t *small, const array_t *x, int64_t i) {
  int64_t place = 0, step = 1;
  for (uint32_t d = x->rank; d-- > 0;) {
    place += small->sizes[d] == 1 ? 0 : i % x->sizes[d] * step;
    step *= small->sizes[d];
    i /= x->sizes[d];
  }
  return place;
}

double broadcast(const array_t *small, const array_t *x, int64_t i) {
  return small->at[place_in(small, x, i)];
}

// Elements in row-major order: each result meets its own in theirs.
array_t folded(dt_dtype_t dtype, const array_t *x, uint32_t axes, bool product, bool keep) {
  array_t out = {.rank = x->rank};
  for (uint32_t d = 0; d < x->rank; d++)
    out.sizes[d] = axes >> d & 1 ? 1 : x->sizes[d];
  out = array_of(x->rank, out.sizes);
  for (int64_t i = 0; i < array_count(&out); i++)
    out.at[i] = product;
  for (int64_t i = 0; i < array_count(x); i++) {
    double *sum = &out.at[place_in(&out, x, i)];
    *sum = product ? times(dtype, *sum, x->at[i]) : plus(dtype, *sum, x->at[i]);
  }
  uint32_t rank = 0;
  for (uint32_t d = 0; d < x->rank && !keep; d++)
    if (!(axes >> d & 1))
      out.sizes[rank++] = x->sizes[d];
  out.rank = keep ? x->rank : rank;
  return out;
}

array_t multiplied(dt_dtype_t dtype, const array_t *a, const array_t *b) {
  const int64_t batch = a->sizes[0], m = a->sizes[1], depth = a->sizes[2], n = b->sizes[2];
  array_t out = array_of(3, (const int64_t[]){batch, m, n});
  for (int64_t r = 0; r < batch * m; r++)
    for (int64_t c = 0; c < n; c++) {
      const double *column = &b->at[r / m * depth * n + c];
      double sum = 0;
      for (int64_t k = 0; k < depth; k++)
        sum = plus(dtype, sum, times(dtype, a->at[r * depth + k], column[k * n]));
      out.at[r * n + c] = sum;
    }
  return out;
}

array_t running(dt_dtype_t dtype, const array_t *x, uint32_t axis, int mode) {
  bool exclusive = mode & DT_CUMSUM_EXCLUSIVE, reverse = mode & DT_CUMSUM_REVERSE;
  array_t out = array_of(x->rank, x->sizes);
  int64_t step = 1, n = x->sizes[axis];
  for (uint32_t d = axis + 1; d < x->rank; d++)
    step *= x->sizes[d];
  for (int64_t row = 0; n && row < array_count(x) / n; row++) {
    int64_t first = row / step * step * n + row % step;
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
      int64_t i = first + (reverse ? n - 1 - k : k) * step;
      double after = plus(dtype, sum, x->at[i]);
      out.at[i] = exclusive ? sum : after;
      sum = after;
    }
  }
  return out;
}

// ---- Memory ---------------------------------------------------------------------------------------
// Bits of an f16 that holds x exactly.
static uint16_t f16_bits(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  int exponent = 0;
  double size = fabs(x);
  if (isinf(x))
    return sign | 0x7c00;
  if (size < 0x1p-14)
    return (uint16_t)(sign | (uint16_t)(size * 0x1p24));
  double digits = frexp(size, &exponent) * 2 - 1;
  return (uint16_t)(sign | (exponent + 14) << 10 | (int)(digits * 1024));
}

static double f16_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, digits = bits & 1023;
  double size = exponent == 31  ? (digits ? NAN : INFINITY)
                : exponent == 0 ? ldexp(digits, -24)
                                : ldexp(digits + 1024, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

static void put(dt_dtype_t dtype, void *to, int64_t index, double x) {
  float single = (float)x;
  uint32_t bits = 0;
  memcpy(&bits, &single, sizeof(bits));
  if (dtype == DT_F64)
    ((double *)to)[index] = x;
  else if (dtype == DT_F32)
    ((float *)to)[index] = single;
  else if (dtype == DT_I64)
    ((int64_t *)to)[index] = (int64_t)x;
  else
    ((uint16_t *)to)[index] = dtype == DT_F16 ? f16_bits(x) : (uint16_t)(bits >> 16);
}

void array_store(dt_dtype_t dtype, const array_t *a, const int64_t *strides, void *to) {
  for (int64_t i = 0; i < array_count(a); i++) {
    int64_t index = 0, rest = i;
    for (uint32_t d = a->rank; d-- > 0;) {
      index += rest % a->sizes[d] * strides[d];
      rest /= a->sizes[d];
    }
    put(dtype, to, index, a->at[i]);
  }
}

double element(dt_dtype_t dtype, const void *from, int64_t index) {
  if (dtype == DT_F64)
    return ((const double *)from)[index];
  if (dtype == DT_F32)
    return (double)((const float *)from)[index];
  uint16_t half = ((const uint16_t *)from)[index];
  if (dtype == DT_F16)
    return f16_value(half);
  uint32_t bits = (uint32_t)half << 16;
  float single;
  memcpy(&single, &bits, sizeof(single));
  return (double)single;
}
