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

// One past the largest dtype value, for tables indexed by dtype.
#define DT_DTYPE_END 16

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
