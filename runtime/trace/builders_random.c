// SPDX-License-Identifier: Apache-2.0
// Builders of random numbers: the op philox, and what is composed of it by other ops. random.h says
// which bits become what. Up to the sum of normal numbers every step is exact, so no device rounds
// it in its own way.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

#include <math.h>

static const dt_value_t none_value = {0};

#define WORD 32
#define WORD_MASK 4294967295.0

static dt_value_t bits_of(dt_trace_t *t, double value) { return dt_scalar(t, DT_U64, value); }

// ---- Draws --------------------------------------------------------------------------------------
// Where the numbers come from: u64 values of the result's sizes.
typedef struct draw_t {
  dt_trace_t *t;
  dt_value_t seed, offset, index;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
} draw_t;

typedef bool (*kind_fn_t)(dt_dtype_t dtype);
static bool is_float(dt_dtype_t dtype) { return dt__dtype_is_float(dtype); }
static bool is_integer(dt_dtype_t dtype) { return dt__dtype_is_int(dtype); }

// The dtype of an operand, which must be of a kind; DT_DTYPE_NONE fails the trace.
static dt_dtype_t checked(dt_trace_t *t, dt_value_t x, const char *what, kind_fn_t is_kind) {
  const dt_node_t *node = dt__trace_node(t, x, what);
  if (!node)
    return DT_DTYPE_NONE;
  if (is_kind(node->dtype))
    return node->dtype;
  DT_TRACE_FAIL(t, DT_E_DTYPE, "%s must be %s, got %s; use cast", what,
                is_kind == is_float ? "a float" : "an integer", dt_dtype_name(node->dtype));
  return DT_DTYPE_NONE;
}

// An integer, extended by its sign to 64 bits and repeated to the draw's sizes.
static dt_value_t key_of(const draw_t *draw, dt_value_t x) {
  return dt_expand(draw->t, dt_cast(draw->t, x, DT_U64), draw->rank, draw->sizes);
}

static dt_value_t row_major(dt_trace_t *t, uint32_t rank, const dt_sym_t *sizes) {
  dt_sym_t n = dt_sym_const(t, 1);
  for (uint32_t d = 0; d < rank; d++)
    n = dt_sym_mul(t, n, sizes[d]);
  return dt_reshape(t, dt_iota(t, DT_U64, 1, &n, 0), rank, sizes);
}

// A draw of draw->sizes, which the caller has checked.
static bool start(draw_t *draw, dt_value_t seed, dt_value_t offset) {
  dt_trace_t *t = draw->t;
  if (!checked(t, seed, "the seed", is_integer) ||
      (offset.id && !checked(t, offset, "the offset", is_integer)))
    return false;
  draw->seed = key_of(draw, seed);
  draw->offset = key_of(draw, offset.id ? offset : bits_of(t, 0));
  draw->index = row_major(t, draw->rank, draw->sizes);
  return !t->status;
}

// A draw for a builder that is given sizes.
static bool begin(draw_t *draw, dt_trace_t *t, const char *op, dt_value_t seed, dt_value_t offset,
                  uint32_t rank, const dt_sym_t *sizes) {
  *draw = (draw_t){.t = t, .rank = rank};
  return dt__trace_begin(t, op) &&
         dt__trace_syms(t, rank, sizes, DT_MAX_RANK, "sizes", draw->sizes) &&
         start(draw, seed, offset);
}

// A draw of the sizes of x.
static bool begin_like(draw_t *draw, dt_trace_t *t, dt_value_t seed, dt_value_t offset,
                       dt_value_t x) {
  const dt_node_t *node = dt__trace_node(t, x, "argument 0");
  if (!node)
    return false;
  *draw = (draw_t){.t = t, .rank = node->rank};
  for (uint32_t d = 0; d < node->rank; d++)
    draw->sizes[d] = node->sizes[d];
  return start(draw, seed, offset);
}

static dt_value_t block(const draw_t *draw, dt_value_t index) {
  return dt_philox(draw->t, draw->seed, draw->offset, index);
}

// Floats alone are drawn by the builder.
static bool begin_floats(dt_trace_t *t, const char *op, dt_dtype_t dtype) {
  if (!dt__trace_begin(t, op))
    return false;
  if (dt__dtype_is_valid(dtype) && is_float(dtype))
    return true;
  DT_TRACE_FAIL(t, DT_E_DTYPE,
                "the dtype must be a float, got %s; dt_random_integers and dt_random_bits draw "
                "integers",
                dt_dtype_name(dtype));
  return false;
}

dt_value_t dt_philox(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t index) {
  if (!dt__trace_begin(trace, "philox"))
    return none_value;
  return dt__trace_add_broadcast(trace, DT_OP_philox, (dt_value_t[]){seed, offset, index}, 3, NULL);
}

dt_value_t dt_random_bits(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, uint32_t rank,
                          const dt_sym_t *sizes) {
  draw_t draw;
  if (!begin(&draw, trace, "random_bits", seed, offset, rank, sizes))
    return none_value;
  return block(&draw, draw.index);
}

// ---- Uniform numbers ----------------------------------------------------------------------------
static int digits_of(dt_dtype_t dtype) {
  switch (dtype) {
  case DT_F64:
    return 53;
  case DT_F32:
    return 24;
  case DT_F16:
    return 11;
  default:
    return 8; // bf16
  }
}

// The upper bits, as many as the dtype has digits, times 2^-digits. Few bits go by way of i32,
// which CPUs convert faster.
static dt_value_t fraction(dt_trace_t *t, dt_value_t bits, dt_dtype_t dtype) {
  int digits = digits_of(dtype);
  dt_value_t top = dt_shift_right(t, bits, bits_of(t, 64 - digits));
  if (digits < WORD)
    top = dt_cast(t, top, DT_I32);
  return dt_mul(t, dt_cast(t, top, dtype), dt_scalar(t, dtype, ldexp(1, -digits)));
}

dt_value_t dt_random_uniform(dt_trace_t *trace, dt_dtype_t dtype, dt_value_t seed,
                             dt_value_t offset, uint32_t rank, const dt_sym_t *sizes) {
  draw_t draw;
  if (!begin_floats(trace, "random_uniform", dtype) ||
      !begin(&draw, trace, "random_uniform", seed, offset, rank, sizes))
    return none_value;
  return fraction(trace, block(&draw, draw.index), dtype);
}

// ---- Normal numbers -----------------------------------------------------------------------------
// Integers of `width` bits as numbers in [0, 1), or [-1/2, 1/2) where they are signed, times
// `scale`: rounded once, since the width is a power of two.
static dt_value_t scaled(dt_trace_t *t, dt_value_t x, dt_dtype_t dtype, int width, double scale) {
  return dt_mul(t, dt_cast(t, x, dtype), dt_scalar(t, dtype, scale * ldexp(1, -width)));
}

// sqrt(-2 log u) cos(2 pi v) of integers u and v of `width` bits, v signed.
static dt_value_t box_muller(dt_trace_t *t, dt_value_t u, dt_value_t v, dt_dtype_t dtype,
                             int width) {
  dt_value_t least = dt_scalar(t, dtype, ldexp(1, -width - 1));
  dt_value_t size = dt_log(t, dt_maximum(t, scaled(t, u, dtype, width, 1), least));
  dt_value_t radius = dt_sqrt(t, dt_mul(t, size, dt_scalar(t, dtype, -2)));
  return dt_mul(t, radius, dt_cos(t, scaled(t, v, dtype, width, 2 * M_PI)));
}

static dt_value_t normal_wide(const draw_t *draw) {
  dt_trace_t *t = draw->t;
  dt_value_t even = dt_mul(t, draw->index, bits_of(t, 2));
  dt_value_t odd = dt_add(t, even, bits_of(t, 1));
  dt_value_t v = dt_cast(t, block(draw, odd), DT_I64);
  return box_muller(t, block(draw, even), v, DT_F64, 2 * WORD);
}

static dt_value_t normal_usual(const draw_t *draw) {
  dt_trace_t *t = draw->t;
  dt_value_t bits = block(draw, draw->index);
  dt_value_t u = dt_cast(t, dt_shift_right(t, bits, bits_of(t, WORD)), DT_U32);
  return box_muller(t, u, dt_cast(t, bits, DT_I32), DT_F32, WORD);
}

dt_value_t dt_random_normal(dt_trace_t *trace, dt_dtype_t dtype, dt_value_t seed, dt_value_t offset,
                            uint32_t rank, const dt_sym_t *sizes) {
  draw_t draw;
  if (!begin_floats(trace, "random_normal", dtype) ||
      !begin(&draw, trace, "random_normal", seed, offset, rank, sizes))
    return none_value;
  return dtype == DT_F64 ? normal_wide(&draw) : dt_cast(trace, normal_usual(&draw), dtype);
}

// ---- Integers -----------------------------------------------------------------------------------
static dt_value_t low_word(dt_trace_t *t, dt_value_t x) {
  return dt_bit_and(t, x, bits_of(t, WORD_MASK));
}
static dt_value_t high_word(dt_trace_t *t, dt_value_t x) {
  return dt_shift_right(t, x, bits_of(t, WORD));
}

// The upper 64 bits of a * b, by products of words. No sum here exceeds 64 bits.
static dt_value_t upper_product(dt_trace_t *t, dt_value_t a, dt_value_t b) {
  dt_value_t a0 = low_word(t, a), a1 = high_word(t, a), b0 = low_word(t, b), b1 = high_word(t, b);
  dt_value_t first = dt_add(t, dt_mul(t, a1, b0), high_word(t, dt_mul(t, a0, b0)));
  dt_value_t second = dt_add(t, dt_mul(t, a0, b1), low_word(t, first));
  return dt_add(t, dt_add(t, dt_mul(t, a1, b1), high_word(t, first)), high_word(t, second));
}

dt_value_t dt_random_integers(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t low,
                              dt_value_t high, uint32_t rank, const dt_sym_t *sizes) {
  draw_t draw;
  if (!dt__trace_begin(trace, "random_integers"))
    return none_value;
  dt_dtype_t dtype = checked(trace, low, "low", is_integer);
  dt_dtype_t other = dtype ? checked(trace, high, "high", is_integer) : DT_DTYPE_NONE;
  if (other && other != dtype)
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "high must be %s like low, got %s; use cast",
                  dt_dtype_name(dtype), dt_dtype_name(other));
  if (!begin(&draw, trace, "random_integers", seed, offset, rank, sizes))
    return none_value;
  dt_value_t span = dt_sub(trace, dt_cast(trace, high, DT_U64), dt_cast(trace, low, DT_U64));
  span = dt_where(trace, dt_gt(trace, high, low), span, bits_of(trace, 0));
  span = dt_expand(trace, span, rank, sizes);
  dt_value_t steps = upper_product(trace, block(&draw, draw.index), span);
  return dt_add(trace, dt_expand(trace, low, rank, sizes), dt_cast(trace, steps, dtype));
}

dt_value_t dt_random_permutation(dt_trace_t *trace, dt_value_t seed, dt_value_t offset,
                                 dt_sym_t n) {
  draw_t draw;
  dt_value_t sorted, order;
  if (!begin(&draw, trace, "random_permutation", seed, offset, 1, &n))
    return none_value;
  dt_sort(trace, block(&draw, draw.index), 0, false, &sorted, &order);
  return order;
}

// ---- Chances ------------------------------------------------------------------------------------
// The dtype in which a chance of this dtype is drawn.
static dt_dtype_t wide_of(dt_dtype_t dtype) { return dtype == DT_F64 ? DT_F64 : DT_F32; }

dt_value_t dt_bernoulli(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t p) {
  draw_t draw;
  if (!dt__trace_begin(trace, "bernoulli"))
    return none_value;
  dt_dtype_t dtype = checked(trace, p, "the probability", is_float);
  if (!dtype || !begin_like(&draw, trace, seed, offset, p))
    return none_value;
  dtype = wide_of(dtype);
  return dt_lt(trace, fraction(trace, block(&draw, draw.index), dtype), dt_cast(trace, p, dtype));
}

// Of what is dropped, in [0, 1], and 1 / (1 - ratio), which is infinite where that is all.
typedef struct ratio_t {
  dt_value_t dropped, scale;
} ratio_t;

static ratio_t ratio_of(const draw_t *draw, dt_value_t x, dt_dtype_t dtype) {
  dt_trace_t *t = draw->t;
  dt_value_t one = dt_scalar(t, dtype, 1);
  x = dt_maximum(t, dt_minimum(t, dt_cast(t, x, dtype), one), dt_scalar(t, dtype, 0));
  dt_value_t scale = dt_reciprocal(t, dt_sub(t, one, x));
  return (ratio_t){dt_expand(t, x, draw->rank, draw->sizes),
                   dt_expand(t, scale, draw->rank, draw->sizes)};
}

dt_value_t dt_dropout(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t x,
                      dt_value_t ratio, dt_value_t *out_mask) {
  draw_t draw;
  if (out_mask)
    *out_mask = none_value;
  if (!dt__trace_begin(trace, "dropout"))
    return none_value;
  dt_dtype_t dtype = checked(trace, x, "x", is_float);
  dt_dtype_t other = dtype ? checked(trace, ratio, "the ratio", is_float) : DT_DTYPE_NONE;
  if (!other || !begin_like(&draw, trace, seed, offset, x))
    return none_value;
  dt_dtype_t wide = other == DT_F64 ? DT_F64 : wide_of(dtype);
  ratio_t by = ratio_of(&draw, ratio, wide);
  dt_value_t keep = dt_ge(trace, fraction(trace, block(&draw, draw.index), wide), by.dropped);
  dt_value_t kept = dt_mul(trace, dt_cast(trace, x, wide), by.scale);
  if (out_mask)
    *out_mask = keep;
  return dt_cast(trace, dt_where(trace, keep, kept, dt_scalar(trace, wide, 0)), dtype);
}
