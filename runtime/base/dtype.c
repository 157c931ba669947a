// SPDX-License-Identifier: Apache-2.0
// Element types: the table made from dtypes.def and the queries over it.
#include "runtime/base/dtype.h"

#include "runtime/base/half.h"

#include <string.h>

typedef struct dtype_row_t {
  const char *name; // NULL where no dtype has this value
  uint8_t bytes, kind;
} dtype_row_t;

static const dtype_row_t rows[DT_DTYPE_END] = {
#define DTYPE(id, value, name, bytes, kind, c_type) [value] = {name, bytes, DT_KIND_##kind},
#include "runtime/base/dtypes.def"
};

#define DTYPE(id, value, name, bytes, kind, c_type)                                                \
  _Static_assert((value) == (int)DT_##id, "dtypes.def and the public enum agree");                 \
  _Static_assert((bytes) == sizeof(c_type), "one element is its C type");                          \
  _Static_assert((value) > 0 && (value) < DT_DTYPE_END, "values index the table");
#include "runtime/base/dtypes.def"

static const dtype_row_t *row_of(dt_dtype_t dtype) {
  static const dtype_row_t none = {"none", 0, DT_KIND_NONE};
  if ((unsigned)dtype >= DT_DTYPE_END || !rows[dtype].name)
    return &none;
  return &rows[dtype];
}

size_t dt_dtype_size(dt_dtype_t dtype) { return row_of(dtype)->bytes; }

const char *dt_dtype_name(dt_dtype_t dtype) { return row_of(dtype)->name; }

dt_dtype_kind_t dt__dtype_kind(dt_dtype_t dtype) { return (dt_dtype_kind_t)row_of(dtype)->kind; }

dt_dtype_bounds_t dt__dtype_bounds(dt_dtype_t dtype) {
  uint32_t bits = dt__dtype_is_bool(dtype) ? 1 : (uint32_t)dt_dtype_size(dtype) * 8;
  bool is_signed = dt__dtype_is_signed(dtype);
  int64_t high = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1;
  return (dt_dtype_bounds_t){is_signed ? -high - 1 : 0, high};
}

dt_dtype_t dt__dtype_parse(const char *name, size_t len) {
  for (int value = 0; value < DT_DTYPE_END; value++) {
    const char *known = rows[value].name;
    if (known && strlen(known) == len && memcmp(known, name, len) == 0)
      return (dt_dtype_t)value;
  }
  return DT_DTYPE_NONE;
}
