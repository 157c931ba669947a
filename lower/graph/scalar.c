// SPDX-License-Identifier: Apache-2.0
// The definitions of the scalar ops: one small function a row of scalar_ops.def, floats in float64
// and not rounded, integers exactly and wrapped to their dtype.
//
// An integer travels in an int64: sign-extended or zero-extended to its value, u64 as its bits.
// Operands are in range of their dtype.
#include "lower/graph/scalar.h"

#include "lower/graph/philox.h"
#include "runtime/base/dtype.h"
#include "runtime/base/half.h"
#include "runtime/base/low.h"

#include <math.h>
#include <string.h>

static dt_scalar_t real(double f) { return (dt_scalar_t){.f = f}; }
static dt_scalar_t whole(int64_t i) { return (dt_scalar_t){.i = i}; }
static dt_scalar_t truth(bool b) { return (dt_scalar_t){.i = b}; }

static bool is_float(dt_dtype_t dtype) { return dt__dtype_is_float(dtype); }
static bool is_unsigned(dt_dtype_t dtype) { return dt__dtype_kind(dtype) == DT_KIND_UINT; }

// The value of the low bits of `bits` as `dtype`.
static dt_scalar_t wrap(dt_dtype_t dtype, uint64_t bits) {
  if (dt__dtype_is_bool(dtype))
    return truth(bits != 0);
  unsigned unused = 64u - dt_dtype_bits(dtype);
  if (unused >= 64)
    return whole(0);
  bits <<= unused;
  return is_unsigned(dtype) ? whole((int64_t)(bits >> unused)) : whole((int64_t)bits >> unused);
}

// ---- Elementary functions: floats only ----------------------------------------------------------
#define REAL_FUNCTION(name, expr)                                                                  \
  static dt_scalar_t scalar_##name(dt_dtype_t dtype, const dt_scalar_t *a) {                       \
    (void)dtype;                                                                                   \
    double x = a[0].f;                                                                             \
    return real(expr);                                                                             \
  }
REAL_FUNCTION(exp, exp(x))
REAL_FUNCTION(expm1, expm1(x))
REAL_FUNCTION(log, log(x))
REAL_FUNCTION(log1p, log1p(x))
REAL_FUNCTION(log2, log2(x))
REAL_FUNCTION(sqrt, sqrt(x))
REAL_FUNCTION(rsqrt, 1.0 / sqrt(x))
REAL_FUNCTION(reciprocal, 1.0 / x)
REAL_FUNCTION(sin, sin(x))
REAL_FUNCTION(cos, cos(x))
REAL_FUNCTION(tan, tan(x))
REAL_FUNCTION(asin, asin(x))
REAL_FUNCTION(acos, acos(x))
REAL_FUNCTION(atan, atan(x))
REAL_FUNCTION(sinh, sinh(x))
REAL_FUNCTION(cosh, cosh(x))
REAL_FUNCTION(tanh, tanh(x))
REAL_FUNCTION(asinh, asinh(x))
REAL_FUNCTION(acosh, acosh(x))
REAL_FUNCTION(atanh, atanh(x))
REAL_FUNCTION(erf, erf(x))
REAL_FUNCTION(sigmoid, 1.0 / (1.0 + exp(-x)))
REAL_FUNCTION(ndtr, 0.5 * erfc(-x * M_SQRT1_2))
REAL_FUNCTION(floor, floor(x))
REAL_FUNCTION(ceil, ceil(x))
REAL_FUNCTION(trunc, trunc(x))
REAL_FUNCTION(round, nearbyint(x))

static dt_scalar_t scalar_isnan(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth(isnan(a[0].f));
}

static dt_scalar_t scalar_isinf(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth(isinf(a[0].f));
}

// By squaring, modulo 2^64. Of numbers with a negative exponent 1 and -1 alone are whole.
static dt_scalar_t int_pow(dt_dtype_t dtype, int64_t base, int64_t exponent) {
  bool negative = !is_unsigned(dtype) && exponent < 0;
  if (negative && base != 1 && base != -1)
    return whole(0);
  uint64_t left = negative ? (uint64_t)exponent & 1 : (uint64_t)exponent;
  uint64_t power = 1;
  for (uint64_t square = (uint64_t)base; left; left >>= 1, square *= square)
    power *= left & 1 ? square : 1;
  return wrap(dtype, power);
}

static dt_scalar_t scalar_pow(dt_dtype_t dtype, const dt_scalar_t *a) {
  return is_float(dtype) ? real(pow(a[0].f, a[1].f)) : int_pow(dtype, a[0].i, a[1].i);
}

// ---- One number ---------------------------------------------------------------------------------
static dt_scalar_t scalar_neg(dt_dtype_t dtype, const dt_scalar_t *a) {
  return is_float(dtype) ? real(-a[0].f) : wrap(dtype, 0 - (uint64_t)a[0].i);
}

static dt_scalar_t scalar_abs(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (is_float(dtype))
    return real(fabs(a[0].f));
  bool negative = !is_unsigned(dtype) && a[0].i < 0;
  return negative ? scalar_neg(dtype, a) : a[0];
}

static dt_scalar_t scalar_sign(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (is_float(dtype))
    return real(isnan(a[0].f) ? a[0].f : (double)((a[0].f > 0) - (a[0].f < 0)));
  if (is_unsigned(dtype))
    return whole(a[0].i != 0);
  return whole((a[0].i > 0) - (a[0].i < 0));
}

// ---- Two numbers --------------------------------------------------------------------------------
static dt_scalar_t scalar_add(dt_dtype_t dtype, const dt_scalar_t *a) {
  return is_float(dtype) ? real(a[0].f + a[1].f) : wrap(dtype, (uint64_t)a[0].i + (uint64_t)a[1].i);
}

static dt_scalar_t scalar_sub(dt_dtype_t dtype, const dt_scalar_t *a) {
  return is_float(dtype) ? real(a[0].f - a[1].f) : wrap(dtype, (uint64_t)a[0].i - (uint64_t)a[1].i);
}

static dt_scalar_t scalar_mul(dt_dtype_t dtype, const dt_scalar_t *a) {
  return is_float(dtype) ? real(a[0].f * a[1].f) : wrap(dtype, (uint64_t)a[0].i * (uint64_t)a[1].i);
}

static dt_scalar_t scalar_div(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (is_float(dtype))
    return real(a[0].f / a[1].f);
  if (a[1].i == 0)
    return whole(0);
  if (is_unsigned(dtype))
    return whole((int64_t)((uint64_t)a[0].i / (uint64_t)a[1].i));
  if (a[1].i == -1)
    return scalar_neg(dtype, a); // where the quotient of the lowest value wraps
  return whole(a[0].i / a[1].i);
}

static dt_scalar_t scalar_fmod(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (is_float(dtype))
    return real(fmod(a[0].f, a[1].f));
  if (a[1].i == 0)
    return whole(0);
  if (is_unsigned(dtype))
    return whole((int64_t)((uint64_t)a[0].i % (uint64_t)a[1].i));
  return whole(a[1].i == -1 ? 0 : a[0].i % a[1].i);
}

static dt_scalar_t scalar_mod(dt_dtype_t dtype, const dt_scalar_t *a) {
  dt_scalar_t rest = scalar_fmod(dtype, a);
  if (is_float(dtype)) {
    if (rest.f == 0.0)
      return real(copysign(0.0, a[1].f));
    return real((rest.f < 0) != (a[1].f < 0) ? rest.f + a[1].f : rest.f);
  }
  if (is_unsigned(dtype) || rest.i == 0 || (rest.i < 0) == (a[1].i < 0))
    return rest;
  return whole(rest.i + a[1].i);
}

static bool int_less(dt_dtype_t dtype, int64_t a, int64_t b) {
  return is_unsigned(dtype) ? (uint64_t)a < (uint64_t)b : a < b;
}

// 0 is larger than -0, so that the order of operands, lanes and parts changes no bit.
static dt_scalar_t scalar_maximum(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (!is_float(dtype))
    return int_less(dtype, a[0].i, a[1].i) ? a[1] : a[0];
  if (isnan(a[0].f) || isnan(a[1].f))
    return real(NAN);
  if (a[0].f == a[1].f)
    return signbit(a[0].f) ? a[1] : a[0];
  return a[0].f < a[1].f ? a[1] : a[0];
}

static dt_scalar_t scalar_minimum(dt_dtype_t dtype, const dt_scalar_t *a) {
  if (!is_float(dtype))
    return int_less(dtype, a[1].i, a[0].i) ? a[1] : a[0];
  if (isnan(a[0].f) || isnan(a[1].f))
    return real(NAN);
  if (a[0].f == a[1].f)
    return signbit(a[0].f) ? a[0] : a[1];
  return a[1].f < a[0].f ? a[1] : a[0];
}

// ---- Comparisons --------------------------------------------------------------------------------
static dt_scalar_t scalar_eq(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(is_float(dtype) ? a[0].f == a[1].f : a[0].i == a[1].i);
}

static dt_scalar_t scalar_ne(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(!scalar_eq(dtype, a).i);
}

static dt_scalar_t scalar_lt(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(is_float(dtype) ? a[0].f < a[1].f : int_less(dtype, a[0].i, a[1].i));
}

static dt_scalar_t scalar_le(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(is_float(dtype) ? a[0].f <= a[1].f : !int_less(dtype, a[1].i, a[0].i));
}

static dt_scalar_t scalar_gt(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(is_float(dtype) ? a[0].f > a[1].f : int_less(dtype, a[1].i, a[0].i));
}

static dt_scalar_t scalar_ge(dt_dtype_t dtype, const dt_scalar_t *a) {
  return truth(is_float(dtype) ? a[0].f >= a[1].f : !int_less(dtype, a[0].i, a[1].i));
}

// ---- Logic --------------------------------------------------------------------------------------
static dt_scalar_t scalar_logical_not(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth(a[0].i == 0);
}

static dt_scalar_t scalar_logical_and(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth(a[0].i != 0 && a[1].i != 0);
}

static dt_scalar_t scalar_logical_or(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth(a[0].i != 0 || a[1].i != 0);
}

static dt_scalar_t scalar_logical_xor(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return truth((a[0].i != 0) != (a[1].i != 0));
}

// ---- Bits ---------------------------------------------------------------------------------------
static dt_scalar_t scalar_bit_not(dt_dtype_t dtype, const dt_scalar_t *a) {
  return wrap(dtype, ~(uint64_t)a[0].i);
}

#define BIT_FUNCTION(name, op)                                                                     \
  static dt_scalar_t scalar_##name(dt_dtype_t dtype, const dt_scalar_t *a) {                       \
    return wrap(dtype, (uint64_t)a[0].i op(uint64_t) a[1].i);                                      \
  }
BIT_FUNCTION(bit_and, &)
BIT_FUNCTION(bit_or, |)
BIT_FUNCTION(bit_xor, ^)

static dt_scalar_t scalar_shift_left(dt_dtype_t dtype, const dt_scalar_t *a) {
  uint64_t width = 8u * (uint64_t)dt_dtype_size(dtype), by = (uint64_t)a[1].i;
  return by < width ? wrap(dtype, (uint64_t)a[0].i << by) : whole(0);
}

static dt_scalar_t scalar_shift_right(dt_dtype_t dtype, const dt_scalar_t *a) {
  uint64_t width = 8u * (uint64_t)dt_dtype_size(dtype), by = (uint64_t)a[1].i;
  if (is_unsigned(dtype))
    return whole(by < width ? (int64_t)((uint64_t)a[0].i >> by) : 0);
  return whole(a[0].i >> (by < width ? by : width - 1));
}

// ---- Random bits --------------------------------------------------------------------------------
void dt__philox(uint64_t seed, uint64_t offset, uint64_t index, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)offset,
                   (uint32_t)(offset >> 32)};
  for (uint32_t round = 0; round < DT_PHILOX_ROUNDS; round++) {
    uint64_t p0 = (uint64_t)DT_PHILOX_M0 * c[0], p1 = (uint64_t)DT_PHILOX_M1 * c[2];
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
    k0 += DT_PHILOX_W0;
    k1 += DT_PHILOX_W1;
  }
  memcpy(out, c, sizeof(c));
}

static dt_scalar_t scalar_philox(dt_dtype_t dtype, const dt_scalar_t *a) {
  uint32_t words[4];
  dt__philox((uint64_t)a[0].i, (uint64_t)a[1].i, (uint64_t)a[2].i, words);
  return wrap(dtype, (uint64_t)words[1] << 32 | words[0]);
}

static dt_scalar_t scalar_where(dt_dtype_t dtype, const dt_scalar_t *a) {
  (void)dtype;
  return a[0].i ? a[1] : a[2];
}

// ---- Table --------------------------------------------------------------------------------------
typedef dt_scalar_t (*scalar_fn_t)(dt_dtype_t dtype, const dt_scalar_t *args);

enum { RESULT_SAME = 0, RESULT_BOOL = 1 };

static const struct {
  dt_scalar_info_t info;
  scalar_fn_t fn;
} table[DT_SCALAR_COUNT] = {
    [DT_SCALAR_NONE] = {.info = {.name = "none", .domain = 'A', .cost = 1}},
#define SCALAR_OP(id, args, kinds, result, worth, doc)                                             \
  [DT_SCALAR_##id] = {.info = {.name = #id,                                                        \
                               .arity = args,                                                      \
                               .domain = (#kinds)[0],                                              \
                               .result_bool = RESULT_##result != 0,                                \
                               .cost = worth},                                                     \
                      .fn = scalar_##id},
#include "lower/graph/scalar_ops.def"
};

#define SCALAR_OP(id, arity, domain, result, cost, doc)                                            \
  _Static_assert((cost) >= 1, #id " needs a cost");
#include "lower/graph/scalar_ops.def"

const dt_scalar_info_t *dt__scalar_info(dt_scalar_op_t op) {
  return &table[(unsigned)op < DT_SCALAR_COUNT ? op : DT_SCALAR_NONE].info;
}

dt_scalar_op_t dt__scalar_find(const char *name, size_t len) {
  for (uint32_t op = DT_SCALAR_NONE + 1; op < DT_SCALAR_COUNT; op++) {
    if (strlen(table[op].info.name) == len && memcmp(table[op].info.name, name, len) == 0)
      return (dt_scalar_op_t)op;
  }
  return DT_SCALAR_NONE;
}

dt_scalar_t dt__scalar_eval(dt_scalar_op_t op, dt_dtype_t dtype, const dt_scalar_t *args) {
  bool known = (unsigned)op < DT_SCALAR_COUNT && table[op].fn;
  return known ? table[op].fn(dtype, args) : whole(0);
}

dt_scalar_t dt__scalar_lowest(dt_dtype_t dtype) {
  return is_float(dtype) ? real(-INFINITY) : whole(dt__dtype_bounds(dtype).low);
}

// An u64 travels as its bits, so its highest value is no int64.
dt_scalar_t dt__scalar_highest(dt_dtype_t dtype) {
  if (is_float(dtype))
    return real(INFINITY);
  return dtype == DT_U64 ? whole(-1) : whole(dt__dtype_bounds(dtype).high);
}

// ---- Casts --------------------------------------------------------------------------------------
// Truncates, saturates; NaN gives 0. The bounds 2^bits are doubles, their predecessors may be none.
static dt_scalar_t real_to_int(dt_dtype_t to, double f) {
  if (isnan(f))
    return whole(0);
  unsigned bits = dt_dtype_bits(to);
  f = trunc(f);
  if (is_unsigned(to)) {
    if (f <= 0)
      return whole(0);
    return f >= ldexp(1.0, (int)bits) ? dt__scalar_highest(to) : whole((int64_t)(uint64_t)f);
  }
  if (f >= ldexp(1.0, (int)bits - 1))
    return dt__scalar_highest(to);
  return f < -ldexp(1.0, (int)bits - 1) ? dt__scalar_lowest(to) : whole((int64_t)f);
}

// The value rounded to a float dtype, once.
static double narrow(dt_dtype_t to, uint32_t how, double f) {
  if (dt__dtype_is_low(to))
    return dt__low_widen(to, dt__low_round(to, f, how));
  switch (to) {
  case DT_F16:
    return dt__f16_widen(dt__f16_round(f));
  case DT_BF16:
    return dt__bf16_widen(dt__bf16_round(f));
  case DT_F32:
    return (double)(float)f;
  default:
    return f;
  }
}

// As a float64 whose last bit says whether anything was cut off, so that rounding it to a narrower
// float rounds the integer itself.
static double int_to_odd(dt_dtype_t from, int64_t i) {
  bool negative = !is_unsigned(from) && i < 0;
  uint64_t size = negative ? 0 - (uint64_t)i : (uint64_t)i;
  double f = (double)size;
  if (size >> 53)
    f = (double)((size >> 11) | ((size & 0x7ff) != 0)) * 0x1p11;
  return negative ? -f : f;
}

// One rounding, from the integer straight to the float.
static dt_scalar_t int_to_real(dt_dtype_t from, dt_dtype_t to, uint32_t how, int64_t i) {
  if (dt__dtype_is_half(to) || dt__dtype_is_low(to))
    return real(narrow(to, how, int_to_odd(from, i)));
  if (to == DT_F32)
    return real(is_unsigned(from) ? (double)(float)(uint64_t)i : (double)(float)i);
  return real(is_unsigned(from) ? (double)(uint64_t)i : (double)i);
}

dt_scalar_t dt__scalar_cast_as(dt_dtype_t from, dt_dtype_t to, uint32_t how, dt_scalar_t value) {
  if (from == to)
    return value;
  if (is_float(from)) {
    if (is_float(to))
      return real(narrow(to, how, value.f));
    if (dt__dtype_is_bool(to))
      return truth(value.f != 0.0);
    return real_to_int(to, value.f);
  }
  return is_float(to) ? int_to_real(from, to, how, value.i) : wrap(to, (uint64_t)value.i);
}

dt_scalar_t dt__scalar_cast(dt_dtype_t from, dt_dtype_t to, dt_scalar_t value) {
  return dt__scalar_cast_as(from, to, 0, value);
}

// ---- Memory -------------------------------------------------------------------------------------
static double widen_dt_f16_t(dt_f16_t x) { return dt__f16_widen(x); }
static double widen_dt_bf16_t(dt_bf16_t x) { return dt__bf16_widen(x); }
static double widen_float(float x) { return (double)x; }
static double widen_double(double x) { return x; }
static dt_f16_t round_dt_f16_t(double x) { return dt__f16_round(x); }
static dt_bf16_t round_dt_bf16_t(double x) { return dt__bf16_round(x); }
static float round_float(double x) { return (float)x; }
static double round_double(double x) { return x; }

#define LOAD_FLOAT(c_type, v) real(widen_##c_type(v))
#define LOAD_SINT(c_type, v) whole((int64_t)(v))
#define LOAD_UINT(c_type, v) whole((int64_t)(v))
#define LOAD_BOOL(c_type, v) truth((v) != 0)
#define STORE_FLOAT(c_type, v) round_##c_type((v).f)
#define STORE_SINT(c_type, v) (c_type)(v).i
#define STORE_UINT(c_type, v) (c_type)(v).i
#define STORE_BOOL(c_type, v) (c_type)((v).i != 0)

// Elements may lie at any address. No copy in a frame, which sanitizers would watch at each
// element.
#define DTYPE(id, value, name, bytes, kind, c_type)                                                \
  typedef struct packed_##id {                                                                     \
    c_type v;                                                                                      \
  } __attribute__((packed)) packed_##id;                                                           \
  static dt_scalar_t load_##id(const void *at) {                                                   \
    return LOAD_##kind(c_type, ((const packed_##id *)at)->v);                                      \
  }                                                                                                \
  static void store_##id(void *at, dt_scalar_t x) {                                                \
    ((packed_##id *)at)->v = STORE_##kind(c_type, x);                                              \
  }
#include "runtime/base/dtypes.def"

// Low-bit elements lie in the low bits of a byte.
static dt_scalar_t load_low(dt_dtype_t dtype, uint8_t code) {
  return is_float(dtype) ? real(dt__low_widen(dtype, code)) : wrap(dtype, code);
}

// Values are those of the dtype, of which only infinities would saturate.
static uint8_t store_low(dt_dtype_t dtype, dt_scalar_t x) {
  uint32_t mask = (1u << dt_dtype_bits(dtype)) - 1;
  return (uint8_t)(mask &
                   (is_float(dtype) ? dt__low_round(dtype, x.f, DT_CAST_OVERFLOW) : (uint32_t)x.i));
}

#define LOW_DTYPE(id, value, name, bits, kind)                                                     \
  static dt_scalar_t load_##id(const void *at) {                                                   \
    return load_low(DT_##id, *(const uint8_t *)at & ((1u << (bits)) - 1));                         \
  }                                                                                                \
  static void store_##id(void *at, dt_scalar_t x) { *(uint8_t *)at = store_low(DT_##id, x); }
#define DTYPE(id, value, name, bytes, kind, c_type)
#include "runtime/base/dtypes.def"

static const struct {
  dt_scalar_t (*load)(const void *at);
  void (*store)(void *at, dt_scalar_t value);
} memory[DT_DTYPE_END] = {
#define DTYPE(id, value, name, bytes, kind, c_type) [DT_##id] = {load_##id, store_##id},
#define LOW_DTYPE(id, value, name, bits, kind) [DT_##id] = {load_##id, store_##id},
#include "runtime/base/dtypes.def"
};

dt_scalar_t dt__scalar_load(dt_dtype_t dtype, const void *at) {
  return dt__dtype_is_valid(dtype) ? memory[dtype].load(at) : whole(0);
}

void dt__scalar_store(dt_dtype_t dtype, void *at, dt_scalar_t value) {
  if (dt__dtype_is_valid(dtype))
    memory[dtype].store(at, value);
}

// ---- Elements of tensors ------------------------------------------------------------------------
// The byte of a packed element, and the bits of the byte that are below it.
static int64_t packed_at(dt_dtype_t dtype, int64_t row, int64_t index, uint32_t *below) {
  uint32_t per = dt__dtype_per_byte(dtype);
  int64_t line = index / row, at = index % row;
  *below = (uint32_t)(at % per) * dt_dtype_bits(dtype);
  return line * ((row + per - 1) / per) + at / per;
}

dt_scalar_t dt__element_load(dt_dtype_t dtype, const void *data, int64_t row, int64_t index) {
  uint32_t below = 0;
  if (!dt__dtype_is_packed(dtype))
    return dt__scalar_load(dtype, (const char *)data + index * (int64_t)dt_dtype_size(dtype));
  uint8_t bits = ((const uint8_t *)data)[packed_at(dtype, row, index, &below)];
  bits = (uint8_t)(bits >> below);
  return dt__scalar_load(dtype, &bits);
}

void dt__element_store(dt_dtype_t dtype, void *data, int64_t row, int64_t index,
                       dt_scalar_t value) {
  uint32_t below = 0;
  if (!dt__dtype_is_packed(dtype)) {
    dt__scalar_store(dtype, (char *)data + index * (int64_t)dt_dtype_size(dtype), value);
    return;
  }
  uint8_t *at = (uint8_t *)data + packed_at(dtype, row, index, &below), code = 0;
  dt__scalar_store(dtype, &code, value);
  *at = (uint8_t)((*at & ((1u << below) - 1)) | (uint32_t)code << below);
}

dt_scalar_t dt__scalar_bits(dt_dtype_t from, dt_dtype_t to, dt_scalar_t value) {
  uint64_t bits = 0;
  dt__scalar_store(from, &bits, value);
  return dt__scalar_load(to, &bits);
}
