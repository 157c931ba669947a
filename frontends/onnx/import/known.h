// SPDX-License-Identifier: Apache-2.0
// Values whose elements are known as numbers while a model is traced, and arithmetic on them.
// Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_KNOWN_H
#define DT_FRONTENDS_ONNX_IMPORT_KNOWN_H

#include "frontends/onnx/import/import.h"

// More elements than this are a tensor like any other.
#define DT_IMP_KNOWN_MAX 1024

// An element. Integers and bools: `sym`. Floats: `real` times `sym`, where id 0 stands for 1; a
// product with a symbol is exact in the dtype for all sizes that the trace admits.
typedef struct dt_imp_number_t {
  dt_sym_t sym;
  double real;
} dt_imp_number_t;

struct dt_imp_known_t {
  dt_dtype_t dtype;
  uint32_t rank, n; // n: elements, row-major
  int64_t sizes[DT_MAX_RANK];
  dt_imp_number_t *items;
};

// Zeroed elements, of a shape with at most DT_IMP_KNOWN_MAX of them. NULL: more, or no memory
// (which fails the trace).
dt_imp_known_t *dt__imp_known_make(dt_imp_node_t *n, dt_dtype_t dtype, uint32_t rank,
                                   const int64_t *sizes);
dt_imp_known_t *dt__imp_known_list(dt_imp_node_t *n, dt_dtype_t dtype, uint32_t len); // rank 1
// A float's literals; false where an element has a symbol, or the dtype is integral.
bool dt__imp_is_real(const dt_imp_known_t *known);
bool dt__imp_is_integral(dt_dtype_t dtype);
// Whether an integer is a literal.
bool dt__imp_is_literal(dt_imp_node_t *n, dt_sym_t sym, int64_t *out);
// The numbers as a tensor of their dtype.
dt_value_t dt__imp_known_tensor(dt_imp_node_t *n, const dt_imp_known_t *known);

#endif // DT_FRONTENDS_ONNX_IMPORT_KNOWN_H
