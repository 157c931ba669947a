// SPDX-License-Identifier: Apache-2.0
// Element types: the table made from dtypes.def and the queries over it.
#include "runtime/base/dtype.h"

#include "runtime/base/half.h"
#include "runtime/base/memory.h"

#include <string.h>

typedef struct dtype_row_t {
  const char *name; // NULL where no dtype has this value
  uint8_t bits, kind;
} dtype_row_t;

static const dtype_row_t rows[DT_DTYPE_END] = {
#define DTYPE(id, value, name, bytes, kind, c_type) [value] = {name, 8 * (bytes), DT_KIND_##kind},
#define LOW_DTYPE(id, value, name, bits, kind) [value] = {name, bits, DT_KIND_##kind},
#include "runtime/base/dtypes.def"
};

#define DTYPE(id, value, name, bytes, kind, c_type)                                                \
  _Static_assert((value) == (int)DT_##id, "dtypes.def and the public enum agree");                 \
  _Static_assert((bytes) == sizeof(c_type), "one element is its C type");                          \
  _Static_assert((value) > 0 && (value) < DT_LOW_DTYPES, "values index the table");
#define LOW_DTYPE(id, value, name, bits, kind)                                                     \
  _Static_assert((value) == (int)DT_##id, "dtypes.def and the public enum agree");                 \
  _Static_assert((bits) == 8 || (bits) == 4 || (bits) == 2, "elements fill bytes");                \
  _Static_assert((value) >= DT_LOW_DTYPES && (value) < DT_DTYPE_END, "values index the table");
#include "runtime/base/dtypes.def"

static const dtype_row_t *row_of(dt_dtype_t dtype) {
  static const dtype_row_t none = {"none", 0, DT_KIND_NONE};
  if ((unsigned)dtype >= DT_DTYPE_END || !rows[dtype].name)
    return &none;
  return &rows[dtype];
}

uint32_t dt_dtype_bits(dt_dtype_t dtype) { return row_of(dtype)->bits; }

size_t dt_dtype_size(dt_dtype_t dtype) { return (row_of(dtype)->bits + 7u) / 8; }

const char *dt_dtype_name(dt_dtype_t dtype) { return row_of(dtype)->name; }

dt_dtype_kind_t dt__dtype_kind(dt_dtype_t dtype) { return (dt_dtype_kind_t)row_of(dtype)->kind; }

dt_dtype_bounds_t dt__dtype_bounds(dt_dtype_t dtype) {
  uint32_t bits = dt__dtype_is_bool(dtype) ? 1 : dt_dtype_bits(dtype);
  bool is_signed = dt__dtype_is_signed(dtype);
  int64_t high = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1;
  return (dt_dtype_bounds_t){is_signed ? -high - 1 : 0, high};
}

bool dt__dtype_bytes(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes, int64_t *out) {
  int64_t bytes = rank ? sizes[rank - 1] : 1, bits = dt_dtype_bits(dtype);
  bool fits = dt__mul_i64(bytes, bits, &bytes) && dt__add_i64(bytes, 7, &bytes);
  bytes /= 8;
  for (uint32_t k = 0; k + 1 < rank && fits; k++)
    fits = dt__mul_i64(bytes, sizes[k], &bytes);
  *out = fits ? bytes : INT64_MAX;
  return fits;
}

dt_dtype_t dt__dtype_parse(const char *name, size_t len) {
  for (int value = 0; value < DT_DTYPE_END; value++) {
    const char *known = rows[value].name;
    if (known && strlen(known) == len && memcmp(known, name, len) == 0)
      return (dt_dtype_t)value;
  }
  return DT_DTYPE_NONE;
}
