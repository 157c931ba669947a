// SPDX-License-Identifier: Apache-2.0
// The format's element types.
#include "frontends/onnx/dtype.h"

const dt_onnx_dtype_t dt__onnx_dtypes[] = {
#define DTYPE(name, value, bits, dtype, field, per, is_signed)                                     \
  {#name, value, bits, dtype, offsetof(dt_onnx_tensor_t, field), #field, per, is_signed},
#include "frontends/onnx/dtypes.def"
};
const uint32_t dt__onnx_n_dtypes = sizeof(dt__onnx_dtypes) / sizeof(dt__onnx_dtypes[0]);

// ORDER(dtypes.def): a row's value is its place, counted from 1.
enum {
#define DTYPE(name, value, bits, dtype, field, per, is_signed) PLACE_##name,
#include "frontends/onnx/dtypes.def"
};
#define DTYPE(name, value, bits, dtype, field, per, is_signed)                                     \
  _Static_assert(PLACE_##name + 1 == (value), #name);
#include "frontends/onnx/dtypes.def"

const dt_onnx_dtype_t *dt__onnx_dtype(int64_t value) {
  return value >= 1 && value <= (int64_t)dt__onnx_n_dtypes ? &dt__onnx_dtypes[value - 1] : NULL;
}

uint64_t dt__onnx_dtype_items(const dt_onnx_dtype_t *dtype, uint64_t elements) {
  if (dtype->per < 0)
    return elements * (uint64_t)-dtype->per;
  return (elements + (uint64_t)dtype->per - 1) / (uint64_t)dtype->per;
}

uint64_t dt__onnx_dtype_bytes(const dt_onnx_dtype_t *dtype, uint64_t elements) {
  return (elements * dtype->bits + 7) / 8;
}
