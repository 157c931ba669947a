// SPDX-License-Identifier: Apache-2.0
// What the library asks about element types, answered from dtypes.def. A value that is no dtype has
// kind DT_KIND_NONE and no property.
#ifndef DT_RUNTIME_BASE_DTYPE_H
#define DT_RUNTIME_BASE_DTYPE_H

#include "ductile/base.h"

typedef enum dt_dtype_kind_t {
  DT_KIND_NONE = 0,
  DT_KIND_BOOL,
  DT_KIND_SINT,
  DT_KIND_UINT,
  DT_KIND_FLOAT,
} dt_dtype_kind_t;

// One past the largest dtype value, for tables indexed by dtype, and the first low-bit one: those
// below are computed with.
#define DT_DTYPE_END 24
#define DT_LOW_DTYPES 14

dt_dtype_kind_t dt__dtype_kind(dt_dtype_t dtype);
// The dtype named by the `len` characters at `name`; DT_DTYPE_NONE where none is.
dt_dtype_t dt__dtype_parse(const char *name, size_t len);

static inline bool dt__dtype_is_valid(dt_dtype_t dtype) {
  return dt__dtype_kind(dtype) != DT_KIND_NONE;
}
static inline bool dt__dtype_is_bool(dt_dtype_t dtype) {
  return dt__dtype_kind(dtype) == DT_KIND_BOOL;
}
static inline bool dt__dtype_is_float(dt_dtype_t dtype) {
  return dt__dtype_kind(dtype) == DT_KIND_FLOAT;
}
// Signed or unsigned integers; not bool.
static inline bool dt__dtype_is_int(dt_dtype_t dtype) {
  dt_dtype_kind_t kind = dt__dtype_kind(dtype);
  return kind == DT_KIND_SINT || kind == DT_KIND_UINT;
}
// Floats of 16 bits: stored, gathered and cast, but computed with as f32.
static inline bool dt__dtype_is_half(dt_dtype_t dtype) {
  return dtype == DT_F16 || dtype == DT_BF16;
}
// Values that are moved and cast, and never computed with (dtypes.def). Of these, elements of less
// than a byte are packed.
static inline bool dt__dtype_is_low(dt_dtype_t dtype) {
  return (unsigned)dtype >= DT_LOW_DTYPES && (unsigned)dtype < DT_DTYPE_END;
}
static inline bool dt__dtype_is_packed(dt_dtype_t dtype) {
  return dt__dtype_is_low(dtype) && dt_dtype_bits(dtype) < 8;
}
// Elements in a byte: 1 unless packed.
static inline uint32_t dt__dtype_per_byte(dt_dtype_t dtype) {
  return dt__dtype_is_packed(dtype) ? 8 / dt_dtype_bits(dtype) : 1;
}
// The dtype by which loop IR and code have the bytes of `dtype`.
static inline dt_dtype_t dt__dtype_stored(dt_dtype_t dtype) {
  return dt__dtype_is_low(dtype) ? DT_U8 : dtype;
}
// Bytes of a contiguous tensor. False, and INT64_MAX, where they are no int64_t.
bool dt__dtype_bytes(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes, int64_t *out);
// The dtype that ops on `dtype` compute in.
static inline dt_dtype_t dt__dtype_computed(dt_dtype_t dtype) {
  return dt__dtype_is_half(dtype) ? DT_F32 : dtype;
}
// Signed integers and floats.
static inline bool dt__dtype_is_signed(dt_dtype_t dtype) {
  dt_dtype_kind_t kind = dt__dtype_kind(dtype);
  return kind == DT_KIND_SINT || kind == DT_KIND_FLOAT;
}
// The numbers that an integer or bool dtype holds, of those that an i64 does.
typedef struct dt_dtype_bounds_t {
  int64_t low, high;
} dt_dtype_bounds_t;
dt_dtype_bounds_t dt__dtype_bounds(dt_dtype_t dtype);

#endif // DT_RUNTIME_BASE_DTYPE_H
