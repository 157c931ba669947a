// SPDX-License-Identifier: Apache-2.0
// The format's element types. Private to frontends/onnx and its importer.
#ifndef DT_FRONTENDS_ONNX_DTYPE_H
#define DT_FRONTENDS_ONNX_DTYPE_H

#include "frontends/onnx/model.h"

struct dt_onnx_dtype_t {
  const char *name; // of the format, such as "FLOAT16"
  int64_t value;
  uint32_t bits;
  dt_dtype_t dtype;
  size_t field; // offset of the typed field in dt_onnx_tensor_t
  const char *field_name;
  int32_t per;
  bool is_signed;
};

// Rows in order of their values, which count from 1.
extern const dt_onnx_dtype_t dt__onnx_dtypes[];
extern const uint32_t dt__onnx_n_dtypes;

// NULL: the format has no such type, or it is UNDEFINED.
const dt_onnx_dtype_t *dt__onnx_dtype(int64_t value);
// Items of the typed field, and bytes in memory, for so many elements below 2^47.
uint64_t dt__onnx_dtype_items(const dt_onnx_dtype_t *dtype, uint64_t elements);
uint64_t dt__onnx_dtype_bytes(const dt_onnx_dtype_t *dtype, uint64_t elements);

#endif // DT_FRONTENDS_ONNX_DTYPE_H
