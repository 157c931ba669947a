// SPDX-License-Identifier: Apache-2.0
// Tensors of low-bit types (docs/lowbit.md) as tensors of types that elements.h reads.
#include "cli/low.h"

#include <math.h>
#include <string.h>

// Bits of the exponent and the fraction, the exponent's bias, and what the largest exponents mean.
static const struct format_t {
  dt_dtype_t dtype;
  unsigned exponent, fraction;
  int bias;
  enum { ALL_NUMBERS, LAST_IS_NAN, HAS_INFINITY, MINUS_ZERO_IS_NAN } special;
} formats[] = {
    {DT_F8E4M3FN, 4, 3, 7, LAST_IS_NAN},         {DT_F8E5M2, 5, 2, 15, HAS_INFINITY},
    {DT_F8E4M3FNUZ, 4, 3, 8, MINUS_ZERO_IS_NAN}, {DT_F8E5M2FNUZ, 5, 2, 16, MINUS_ZERO_IS_NAN},
    {DT_F4E2M1, 2, 1, 1, ALL_NUMBERS},
};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

bool cli_is_low(dt_dtype_t dtype) { return dtype >= DT_F8E4M3FN && dtype <= DT_U2; }

static bool is_low_float(dt_dtype_t dtype) { return dtype >= DT_F8E4M3FN && dtype <= DT_F4E2M1; }

static float number_of(dt_dtype_t dtype, unsigned code) {
  const struct format_t *f = NULL;
  for (size_t k = 0; k < N_FORMATS; k++)
    if (formats[k].dtype == dtype)
      f = &formats[k];
  if (!f) // a power of two
    return code == 255 ? NAN : (float)ldexp(1.0, (int)code - 127);
  unsigned sign = code >> (f->exponent + f->fraction),
           last = (1U << (f->exponent + f->fraction)) - 1;
  unsigned size = code & last, exponent = size >> f->fraction, top = last >> f->fraction;
  unsigned fraction = size & ((1U << f->fraction) - 1);
  if ((f->special == MINUS_ZERO_IS_NAN && sign && size == 0) ||
      (f->special == LAST_IS_NAN && size == last) ||
      (f->special == HAS_INFINITY && exponent == top && fraction))
    return NAN;
  float value = (float)ldexp(exponent ? fraction + (double)(1U << f->fraction) : fraction,
                             (int)(exponent ? exponent : 1) - f->bias - (int)f->fraction);
  if (f->special == HAS_INFINITY && exponent == top)
    value = INFINITY;
  return sign ? -value : value;
}

// The bits of element `index`, in row-major order.
static unsigned code_of(const dt_tensor_t *tensor, int64_t index) {
  uint32_t rank = dt_tensor_rank(tensor), bits = dt_dtype_bits(dt_tensor_dtype(tensor));
  int64_t row = rank ? dt_tensor_sizes(tensor)[rank - 1] : 1, per = 8 / bits;
  int64_t at = index / row * ((row + per - 1) / per) + index % row / per;
  unsigned byte = ((const unsigned char *)dt_tensor_data(tensor))[at];
  return byte >> (index % row % per * bits) & ((1U << bits) - 1);
}

dt_status_t cli_widen(const dt_tensor_t *tensor, dt_tensor_t **out) {
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  bool has_sign = dtype == DT_I4 || dtype == DT_I2;
  dt_dtype_t wide = is_low_float(dtype) ? DT_F32 : has_sign ? DT_I8 : DT_U8;
  dt_status_t status =
      dt_tensor_create_empty(wide, dt_tensor_rank(tensor), dt_tensor_sizes(tensor), out);
  for (int64_t k = 0; !status && k < dt_tensor_count(tensor); k++) {
    unsigned code = code_of(tensor, k), half = 1U << (dt_dtype_bits(dtype) - 1);
    if (wide == DT_F32)
      ((float *)dt_tensor_data(*out))[k] = number_of(dtype, code);
    else if (has_sign)
      ((int8_t *)dt_tensor_data(*out))[k] = (int8_t)((int)(code ^ half) - (int)half);
    else
      ((uint8_t *)dt_tensor_data(*out))[k] = (uint8_t)code;
  }
  return status;
}
