// SPDX-License-Identifier: Apache-2.0
// Elements of tensors in host memory as numbers.
#include "cli/elements.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool cli_is_float(dt_dtype_t dtype) { return dtype >= DT_F16 && dtype <= DT_F64; }

static bool is_signed(dt_dtype_t dtype) { return dtype >= DT_I8 && dtype <= DT_I64; }

// ---- Bits -----------------------------------------------------------------------------------------
// Little end first, as this library's hosts have it.
static uint64_t bits_of(dt_dtype_t dtype, const void *data, int64_t index) {
  size_t bytes = dt_dtype_size(dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)index * bytes, bytes);
  return bits;
}

static void set_bits(dt_dtype_t dtype, void *data, int64_t index, uint64_t bits) {
  size_t bytes = dt_dtype_size(dtype);
  memcpy((char *)data + (size_t)index * bytes, &bits, bytes);
}

static double from_f32(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return (double)value;
}

static double from_f16(uint32_t bits) {
  double sign = bits >> 15 ? -1.0 : 1.0;
  int exponent = (int)(bits >> 10 & 31);
  double fraction = (double)(bits & 1023);
  if (exponent == 31)
    return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static uint32_t to_f32(double value) {
  float narrow = (float)value;
  uint32_t bits = 0;
  memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

static uint32_t to_f16(double value) {
  uint32_t sign = signbit(value) ? 0x8000U : 0;
  double size = fabs(value);
  if (isnan(value))
    return 0x7e00U;
  if (size >= 65520)
    return sign | 0x7c00U;
  int exponent = size < 0x1p-14 ? -14 : ilogb(size);
  // A unit in the last place is 2^(exponent - 10); a carry goes into the exponent by itself.
  uint32_t units = (uint32_t)nearbyint(ldexp(size, 10 - exponent));
  return sign | (units + ((uint32_t)(exponent + 14) << 10));
}

// Of an f32, not of the number: a value that lies between rounds twice, which no caller minds.
static uint32_t to_bf16(double value) {
  uint32_t bits = to_f32(value);
  if (isnan(value))
    return 0x7fc0U;
  return (bits + 0x7fffU + (bits >> 16 & 1)) >> 16;
}

// ---- Reading --------------------------------------------------------------------------------------
int64_t cli_element_integer(dt_dtype_t dtype, const void *data, int64_t index) {
  uint64_t bits = bits_of(dtype, data, index);
  size_t unused = 64 - 8 * dt_dtype_size(dtype);
  return is_signed(dtype) ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

double cli_element(dt_dtype_t dtype, const void *data, int64_t index) {
  uint64_t bits = bits_of(dtype, data, index);
  double wide = 0;
  if (dtype == DT_F64) {
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
  }
  if (dtype == DT_F32)
    return from_f32((uint32_t)bits);
  if (dtype == DT_F16)
    return from_f16((uint32_t)bits);
  if (dtype == DT_BF16)
    return from_f32((uint32_t)bits << 16);
  return is_signed(dtype) ? (double)cli_element_integer(dtype, data, index) : (double)bits;
}

void cli_element_text(dt_dtype_t dtype, const void *data, int64_t index,
                      char out[CLI_ELEMENT_TEXT]) {
  int digits = dtype == DT_F64 ? 17 : dtype == DT_F32 ? 9 : dtype == DT_F16 ? 5 : 4;
  if (cli_is_float(dtype))
    (void)snprintf(out, CLI_ELEMENT_TEXT, "%.*g", digits, cli_element(dtype, data, index));
  else if (dtype == DT_BOOL)
    (void)snprintf(out, CLI_ELEMENT_TEXT, "%s", bits_of(dtype, data, index) ? "true" : "false");
  else if (is_signed(dtype))
    (void)snprintf(out, CLI_ELEMENT_TEXT, "%" PRId64, cli_element_integer(dtype, data, index));
  else
    (void)snprintf(out, CLI_ELEMENT_TEXT, "%" PRIu64, bits_of(dtype, data, index));
}

// ---- Writing --------------------------------------------------------------------------------------
bool cli_element_set_integer(dt_dtype_t dtype, void *data, int64_t index, int64_t value) {
  if (dtype > DT_F64) // low-bit types are read from files
    return false;
  if (cli_is_float(dtype))
    return cli_element_set(dtype, data, index, (double)value);
  size_t bits = 8 * dt_dtype_size(dtype);
  int64_t high = dtype == DT_BOOL ? 1
                 : bits == 64     ? INT64_MAX
                                  : (INT64_C(1) << (bits - is_signed(dtype))) - 1;
  int64_t low = !is_signed(dtype) ? 0 : -high - 1;
  if (value < low || value > high)
    return false;
  set_bits(dtype, data, index, (uint64_t)value);
  return true;
}

bool cli_element_set(dt_dtype_t dtype, void *data, int64_t index, double value) {
  uint64_t bits = 0;
  switch (dtype) {
  case DT_F64:
    memcpy(&bits, &value, sizeof(bits));
    break;
  case DT_F32:
    bits = to_f32(value);
    break;
  case DT_F16:
    bits = to_f16(value);
    break;
  case DT_BF16:
    bits = to_bf16(value);
    break;
  default:
    return value >= -0x1p63 && value < 0x1p63 && value == floor(value) &&
           cli_element_set_integer(dtype, data, index, (int64_t)value);
  }
  set_bits(dtype, data, index, bits);
  return true;
}
