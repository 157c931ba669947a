// SPDX-License-Identifier: Apache-2.0
// What operations on two integers give: evaluation (read.c) and the interpreter of guards
// (guards/run.c) share it. Inline, since both are asked once a call or once an element. Sums and
// products are not here: each reads them in wider numbers of its own.
#ifndef DT_SYMSHAPE_APPLY_H
#define DT_SYMSHAPE_APPLY_H

#include "symshape/symshape.h"

// By value, so that no frame holds what a sanitizer would have to watch.
typedef struct dt_sym_number_t {
  int64_t value;
  bool known; // false: there is no value, and `value` says nothing
} dt_sym_number_t;

// b not 0; not INT64_MIN // -1.
static inline int64_t dt__floordiv_i64(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

// b not 0.
static inline int64_t dt__mod_i64(int64_t a, int64_t b) {
  int64_t r = b == -1 ? 0 : a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline dt_sym_number_t dt__sym_floordiv_number(int64_t a, int64_t b) {
  bool known = b != 0 && (a != INT64_MIN || b != -1);
  return (dt_sym_number_t){known ? dt__floordiv_i64(a, b) : 0, known};
}

// a * 2^b for b in [0, 62], within 64 bits.
static inline dt_sym_number_t dt__sym_shl_number(int64_t a, int64_t b) {
  dt_sym_number_t out = {0, b >= 0 && b <= 62};
  out.known = out.known && !__builtin_mul_overflow(a, (int64_t)1 << b, &out.value);
  return out;
}

// a // 2^b for b in [0, 63].
static inline dt_sym_number_t dt__sym_shr_number(int64_t a, int64_t b) {
  bool known = b >= 0 && b <= 63;
  int64_t sign = -(int64_t)(a < 0);
  return (dt_sym_number_t){!known    ? 0
                           : b == 63 ? sign
                                     : dt__floordiv_i64(a, (int64_t)1 << b),
                           known};
}

// Of an operation on two numbers that is no sum, product or junction; none of others.
static inline dt_sym_number_t dt__sym_apply(dt_sym_op_t op, int64_t a, int64_t b) {
  switch (op) {
  case DT_SYM_FLOORDIV:
    return dt__sym_floordiv_number(a, b);
  case DT_SYM_MOD:
    return (dt_sym_number_t){b ? dt__mod_i64(a, b) : 0, b != 0};
  case DT_SYM_SHL:
    return dt__sym_shl_number(a, b);
  case DT_SYM_SHR:
    return dt__sym_shr_number(a, b);
  case DT_SYM_MIN:
    return (dt_sym_number_t){a < b ? a : b, true};
  case DT_SYM_MAX:
    return (dt_sym_number_t){a > b ? a : b, true};
  case DT_SYM_EQ:
    return (dt_sym_number_t){a == b, true};
  case DT_SYM_NE:
    return (dt_sym_number_t){a != b, true};
  case DT_SYM_LT:
    return (dt_sym_number_t){a < b, true};
  case DT_SYM_LE:
    return (dt_sym_number_t){a <= b, true};
  default:
    return (dt_sym_number_t){0, false};
  }
}

#endif // DT_SYMSHAPE_APPLY_H
