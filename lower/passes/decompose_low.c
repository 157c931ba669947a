// SPDX-License-Identifier: Apache-2.0
// Low-bit dtypes as the codes that their elements are, in u8. Casts from and to them become integer
// arithmetic on codes and on the bits of f32 or f64; ops that move elements move codes. Behind this
// pass only inputs, constants and bitcasts from and to u8 have a low-bit dtype.
#include "lower/graph/scalar.h"
#include "lower/passes/decompose.h"
#include "runtime/base/dtype.h"
#include "runtime/base/low.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <math.h>

// ---- Formulas -----------------------------------------------------------------------------------
static dt_node_id_t as(dt_build_t *b, dt_op_t op, dt_node_id_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  if (b->status || dt__graph_node(b->rw->to, x)->dtype == dtype)
    return x;
  attrs.dtype = dtype;
  return dt__build_op(b, op, &x, 1, &attrs);
}

static dt_node_id_t cast(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  return as(b, DT_OP_cast, x, dtype);
}

static dt_node_id_t bits(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  return as(b, DT_OP_bitcast, x, dtype);
}

static dt_node_id_t literal(dt_build_t *b, dt_dtype_t dtype, dt_scalar_t value) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (dt__dtype_is_float(dtype))
    attrs.floats[0] = value.f;
  else
    attrs.ints[0] = value.i;
  return dt__build_op(b, DT_OP_scalar, NULL, 0, &attrs);
}

// `x` and an integer of its dtype.
static dt_node_id_t by(dt_build_t *b, dt_op_t op, dt_node_id_t x, int64_t value) {
  if (b->status)
    return x;
  dt_dtype_t dtype = dt__graph_node(b->rw->to, x)->dtype;
  return dt__build_pair(b, op, x, literal(b, dtype, (dt_scalar_t){.i = value}));
}

static dt_node_id_t times(dt_build_t *b, dt_node_id_t x, double value) {
  if (b->status)
    return x;
  dt_dtype_t dtype = dt__graph_node(b->rw->to, x)->dtype;
  return dt__build_pair(b, DT_OP_mul, x, literal(b, dtype, (dt_scalar_t){.f = value}));
}

static dt_node_id_t pick(dt_build_t *b, dt_node_id_t cond, dt_node_id_t x, dt_node_id_t y) {
  dt_node_id_t in[3] = {cond, x, y};
  if (!b->status)
    b->status = dt__graph_broadcast(b->rw->to, in, 3, &b->node->origin);
  return dt__build_op(b, DT_OP_where, in, 3, NULL);
}

// cond ? the number : x
static dt_node_id_t pick_int(dt_build_t *b, dt_node_id_t cond, int64_t value, dt_node_id_t x) {
  if (b->status)
    return x;
  dt_dtype_t dtype = dt__graph_node(b->rw->to, x)->dtype;
  return pick(b, cond, literal(b, dtype, (dt_scalar_t){.i = value}), x);
}

static dt_node_id_t pick_real(dt_build_t *b, dt_node_id_t cond, double value, dt_node_id_t x) {
  return pick(b, cond, literal(b, DT_F32, (dt_scalar_t){.f = value}), x);
}

// ---- From low-bit dtypes ------------------------------------------------------------------------
// Powers of two from 2^-126 on are their exponent in an f32; 2^-127 is half of the smallest.
static dt_node_id_t widen_e8m0(dt_build_t *b, dt_node_id_t code) {
  dt_node_id_t wide = by(b, DT_OP_shift_left, code, 23);
  wide = pick_int(b, by(b, DT_OP_eq, code, 0), 0x00400000, wide);
  return bits(b, pick_int(b, by(b, DT_OP_eq, code, DT_E8M0_NAN), 0x7fc00000, wide), DT_F32);
}

// The exponent and the fraction move into an f32's places, and the exponent from one bias to the
// other. Subnormal numbers are a count of the smallest one. `code` is an u32.
static dt_node_id_t widen_float(dt_build_t *b, const dt_low_float_t *f, dt_node_id_t code) {
  int64_t shift = 23 - f->fraction, sign_shift = f->sign == 0x80 ? 24 : 28;
  dt_node_id_t size = by(b, DT_OP_bit_and, code, f->sign - 1);
  dt_node_id_t normal =
      by(b, DT_OP_add, by(b, DT_OP_shift_left, size, shift), (int64_t)(127 - f->bias) << 23);
  dt_node_id_t small = times(b, cast(b, size, DT_F32), ldexp(1.0, 1 - f->bias - (int)f->fraction));
  dt_node_id_t tiny = by(b, DT_OP_lt, size, (int64_t)1 << f->fraction);
  dt_node_id_t value = pick(b, tiny, small, bits(b, normal, DT_F32));
  if (f->most + 1 < f->sign)
    value = pick_real(b, by(b, DT_OP_gt, size, f->most), (double)NAN, value);
  if (f->most < f->beyond && f->beyond < f->nan)
    value = pick_real(b, by(b, DT_OP_eq, size, f->beyond), (double)INFINITY, value);
  dt_node_id_t sign = by(b, DT_OP_shift_left, by(b, DT_OP_bit_and, code, f->sign), sign_shift);
  value = bits(b, dt__build_pair(b, DT_OP_bit_or, bits(b, value, DT_U32), sign), DT_F32);
  return f->one_zero ? pick_real(b, by(b, DT_OP_eq, code, f->nan), (double)NAN, value) : value;
}

// A low-bit value in the smallest dtype that is computed with and holds it: f32, i8 or u8.
static dt_node_id_t widened(dt_build_t *b, dt_node_id_t x) {
  if (b->status)
    return x;
  dt_dtype_t dtype = dt__graph_node(b->rw->to, x)->dtype;
  dt_node_id_t code = bits(b, x, DT_U8);
  if (dtype == DT_F8E8M0)
    return widen_e8m0(b, cast(b, code, DT_U32));
  if (dt__dtype_is_float(dtype))
    return widen_float(b, dt__low_float(dtype), cast(b, code, DT_U32));
  if (!dt__dtype_is_signed(dtype))
    return code;
  int64_t above = 8 - (int64_t)dt_dtype_bits(dtype);
  return by(b, DT_OP_shift_right, by(b, DT_OP_shift_left, cast(b, code, DT_I8), above), above);
}

// ---- To low-bit dtypes --------------------------------------------------------------------------
// An integer as a f64 whose last bit says whether anything was cut off, so that rounding it again
// rounds the integer itself. Its sign is lost.
static dt_node_id_t to_odd(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  dt_node_id_t size =
      dtype == DT_I64 ? bits(b, dt__build_op(b, DT_OP_abs, &x, 1, NULL), DT_U64) : x;
  dt_node_id_t rest = by(b, DT_OP_ne, by(b, DT_OP_bit_and, size, 0x7ff), 0);
  dt_node_id_t upper =
      dt__build_pair(b, DT_OP_bit_or, by(b, DT_OP_shift_right, size, 11), cast(b, rest, DT_U64));
  dt_node_id_t large = by(b, DT_OP_ne, by(b, DT_OP_shift_right, size, 53), 0);
  return pick(b, large, times(b, cast(b, upper, DT_F64), 2048), cast(b, size, DT_F64));
}

// The exponent of a f64, and one more where its fraction says so. `x` is a f64.
static dt_node_id_t round_e8m0(dt_build_t *b, dt_node_id_t x, uint32_t how) {
  const int64_t half = (int64_t)1 << 51;
  dt_node_id_t size = by(b, DT_OP_bit_and, bits(b, x, DT_I64), INT64_MAX);
  dt_node_id_t exponent = by(b, DT_OP_shift_right, size, 52);
  dt_node_id_t rest = by(b, DT_OP_bit_and, size, 2 * half - 1), code = exponent;
  if (!(how & DT_CAST_DOWN)) {
    dt_node_id_t up =
        how & DT_CAST_NEAREST ? by(b, DT_OP_ge, rest, half) : by(b, DT_OP_ne, rest, 0);
    code = dt__build_pair(b, DT_OP_add, code, cast(b, up, DT_I64));
  }
  code = by(b, DT_OP_maximum, by(b, DT_OP_add, code, DT_E8M0_BIAS - 1023), 0);
  code = by(b, DT_OP_minimum, code, how & DT_CAST_OVERFLOW ? DT_E8M0_NAN : DT_E8M0_MOST);
  return pick_int(b, by(b, DT_OP_eq, exponent, 2047), DT_E8M0_NAN, code);
}

// How f32 and f64 are made of bits.
typedef struct wide_t {
  dt_dtype_t dtype, word;
  uint32_t bits, fraction;
  int64_t bias, infinity;
} wide_t;

static const wide_t wide32 = {DT_F32, DT_U32, 32, 23, 127, INT64_C(0x7f800000)};
static const wide_t wide64 = {DT_F64, DT_U64, 64, 52, 1023, INT64_C(0x7ff0000000000000)};

// |x| with its bits `size` as a code: the exponent and the upper bits of the fraction, rounded to
// nearest even by an addition below them, which may carry into the exponent. What will be a
// subnormal number is counted in units of the smallest.
static dt_node_id_t round_size(dt_build_t *b, const wide_t *w, const dt_low_float_t *f,
                               dt_node_id_t x, dt_node_id_t size) {
  int64_t cut = w->fraction - f->fraction;
  dt_node_id_t odd = by(b, DT_OP_bit_and, by(b, DT_OP_shift_right, size, cut), 1);
  dt_node_id_t up = by(b, DT_OP_add, odd, ((int64_t)1 << (cut - 1)) - 1);
  dt_node_id_t normal = by(b, DT_OP_shift_right, dt__build_pair(b, DT_OP_add, size, up), cut);
  normal = by(b, DT_OP_sub, normal, (w->bias - f->bias) << f->fraction);
  dt_node_id_t small = dt__build_op(b, DT_OP_abs, &x, 1, NULL);
  small = times(b, small, ldexp(1.0, (int)f->fraction - 1 + f->bias));
  small = cast(b, dt__build_op(b, DT_OP_round, &small, 1, NULL), w->word);
  dt_node_id_t tiny = by(b, DT_OP_lt, size, (w->bias + 1 - f->bias) << w->fraction);
  return pick(b, tiny, small, normal);
}

static dt_node_id_t round_float(dt_build_t *b, const wide_t *w, const dt_low_float_t *f,
                                dt_node_id_t x, uint32_t how) {
  bool overflow = (how & DT_CAST_OVERFLOW) != 0;
  dt_node_id_t all = bits(b, x, w->word);
  dt_node_id_t size = by(b, DT_OP_bit_and, all, w->bits == 32 ? INT32_MAX : INT64_MAX);
  dt_node_id_t code = round_size(b, w, f, x, size);
  dt_node_id_t over = by(b, DT_OP_gt, code, f->most);
  code = pick_int(b, over, overflow ? f->beyond : f->most, code);
  dt_node_id_t sign =
      by(b, DT_OP_bit_and, by(b, DT_OP_shift_right, all, w->bits - (f->sign == 0x80 ? 8 : 4)),
         f->sign);
  if (f->one_zero)
    sign = pick_int(b, by(b, DT_OP_eq, code, 0), 0, sign);
  if (overflow && f->beyond == f->nan)
    sign = pick_int(b, over, 0, sign);
  code = dt__build_pair(b, DT_OP_bit_or, code, sign);
  return pick_int(b, by(b, DT_OP_gt, size, w->infinity), f->nan, code);
}

// Halves, and integers that an f32 holds, as f32; other numbers as f64. 64-bit integers beyond 2^53
// are beyond every type but f8e8m0, so it does not matter how they are rounded.
static const wide_t *wide_of(dt_dtype_t from) {
  return from == DT_F32 || dt__dtype_is_half(from) || dt_dtype_size(from) < 4 ? &wide32 : &wide64;
}

static dt_node_id_t rounded(dt_build_t *b, dt_node_id_t x, dt_dtype_t from, dt_dtype_t to,
                            uint32_t how) {
  const wide_t *w = wide_of(from);
  if (to != DT_F8E8M0)
    return round_float(b, w, dt__low_float(to), cast(b, x, w->dtype), how);
  x = from == DT_I64 || from == DT_U64 ? to_odd(b, x, from) : cast(b, cast(b, x, w->dtype), DT_F64);
  return round_e8m0(b, x, how);
}

// Floats truncate and saturate; of integers the upper bits are cut off, which bitcast does.
static dt_node_id_t to_int(dt_build_t *b, dt_node_id_t x, dt_dtype_t from, dt_dtype_t to) {
  if (!dt__dtype_is_float(from))
    return x;
  dt_dtype_bounds_t bounds = dt__dtype_bounds(to);
  x = cast(b, x, dt__dtype_is_signed(to) ? DT_I8 : DT_U8);
  return by(b, DT_OP_minimum, by(b, DT_OP_maximum, x, bounds.low), bounds.high);
}

static dt_node_id_t cast_low(dt_build_t *b) {
  dt_dtype_t to = b->node->dtype;
  dt_node_id_t x = b->in[0];
  if (dt__dtype_is_low(dt__graph_node(b->rw->to, x)->dtype))
    x = widened(b, x);
  if (b->status || !dt__dtype_is_low(to))
    return cast(b, x, to);
  dt_dtype_t from = dt__graph_node(b->rw->to, x)->dtype;
  x = dt__dtype_is_float(to) ? rounded(b, x, from, to, b->node->attrs->mode)
                             : to_int(b, x, from, to);
  return bits(b, cast(b, x, DT_U8), to);
}

// ---- Moves --------------------------------------------------------------------------------------
// The node over codes. It is copied, not inferred again (dt__rewrite_copy says why).
static dt_node_id_t move_low(dt_build_t *b) {
  dt_node_t node = *b->node;
  dt_attrs_t attrs = *node.attrs;
  dt_node_id_t made = {0};
  dt_node_id_t *in = DT_ARENA_ARRAY(b->rw->arena, dt_node_id_t, node.n_inputs + 1);
  if (!in) {
    b->status = DT_NO_MEMORY();
    return made;
  }
  for (uint32_t k = 0; k < node.n_inputs && !b->status; k++) {
    bool low = dt__dtype_is_low(dt__graph_node(b->rw->to, b->in[k])->dtype);
    in[k] = low ? bits(b, b->in[k], DT_U8) : b->in[k];
  }
  if (node.op == DT_OP_pad) {
    dt_scalar_t fill = {.i = attrs.ints[0]};
    if (dt__dtype_is_float(node.dtype))
      fill.f = attrs.floats[0];
    attrs.floats[0] = 0;
    attrs.ints[0] = dt__scalar_bits(node.dtype, DT_U8, fill).i;
  }
  node.dtype = DT_U8;
  node.attrs = &attrs;
  if (!b->status)
    b->status = dt__rewrite_copy(b->rw, &node, in, &made);
  return bits(b, made, b->node->dtype);
}

dt_node_id_t dt__build_low(dt_build_t *b) {
  const dt_node_t *node = b->node;
  bool low = dt__dtype_is_low(node->dtype);
  for (uint32_t k = 0; k < node->n_inputs; k++)
    low = low || dt__dtype_is_low(dt__graph_node(b->rw->to, b->in[k])->dtype);
  if (!low || (dt__op_info(node->op)->flags & DT_OPF_LEAF))
    return (dt_node_id_t){0};
  if (node->op == DT_OP_cast)
    return cast_low(b);
  if (node->op != DT_OP_bitcast)
    return move_low(b);
  // Through u8, of which loop IR has the codes.
  dt_dtype_t from = dt__graph_node(b->rw->to, b->in[0])->dtype;
  if (from == DT_U8 || node->dtype == DT_U8)
    return (dt_node_id_t){0};
  return bits(b, bits(b, b->in[0], DT_U8), node->dtype);
}
