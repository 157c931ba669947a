// SPDX-License-Identifier: Apache-2.0
// Scalar ops: their table and their meaning on one value, floats in float64 and integers exactly.
#ifndef DT_LOWER_GRAPH_SCALAR_H
#define DT_LOWER_GRAPH_SCALAR_H

#include "ductile/base.h"

typedef enum dt_scalar_op_t {
  DT_SCALAR_NONE = 0,
#define SCALAR_OP(name, arity, domain, result, cost, doc) DT_SCALAR_##name,
#include "lower/graph/scalar_ops.def"
  DT_SCALAR_COUNT
} dt_scalar_op_t;

// One value of any dtype: `f` for floats, `i` for integers and bool (unsigned 64-bit as its bits).
typedef union dt_scalar_t {
  double f;
  int64_t i;
} dt_scalar_t;

typedef struct dt_scalar_info_t {
  const char *name;
  uint32_t arity;
  char domain; // 'F', 'N', 'I', 'B', 'A'
  bool result_bool;
  uint32_t cost; // in cheap instructions
} dt_scalar_info_t;
const dt_scalar_info_t *dt__scalar_info(dt_scalar_op_t op);
dt_scalar_op_t dt__scalar_find(const char *name, size_t len);

// The definition: `dtype` is that of the operands (of the second and third for where). Floats are
// not rounded to `dtype`; integers wrap to it.
dt_scalar_t dt__scalar_eval(dt_scalar_op_t op, dt_dtype_t dtype, const dt_scalar_t *args);
dt_scalar_t dt__scalar_cast(dt_dtype_t from, dt_dtype_t to, dt_scalar_t value);
// `how`: DT_CAST_* joined, for low-bit floats.
dt_scalar_t dt__scalar_cast_as(dt_dtype_t from, dt_dtype_t to, uint32_t how, dt_scalar_t value);
// The bits of the value as `to`: those above a packed element's are 0, or cut off.
dt_scalar_t dt__scalar_bits(dt_dtype_t from, dt_dtype_t to, dt_scalar_t value);
// The lowest and highest value of a dtype: infinities of floats.
dt_scalar_t dt__scalar_lowest(dt_dtype_t dtype);
dt_scalar_t dt__scalar_highest(dt_dtype_t dtype);
// One element in memory, widened or rounded to nearest (integers are already in range). Packed
// elements have a byte of their own here.
dt_scalar_t dt__scalar_load(dt_dtype_t dtype, const void *at);
void dt__scalar_store(dt_dtype_t dtype, void *at, dt_scalar_t value);
// Element `index`, in row-major order, of a contiguous tensor whose last dim has the size `row` (a
// scalar: 1). Packed elements of a row are stored in order: a store makes the bits of its byte
// above the element 0.
dt_scalar_t dt__element_load(dt_dtype_t dtype, const void *data, int64_t row, int64_t index);
void dt__element_store(dt_dtype_t dtype, void *data, int64_t row, int64_t index, dt_scalar_t value);

#endif // DT_LOWER_GRAPH_SCALAR_H
