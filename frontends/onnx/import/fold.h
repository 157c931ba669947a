// SPDX-License-Identifier: Apache-2.0
// Arithmetic on elements that are known as numbers. Private to the importer.
//
// Integers are symbols. Floats with a symbol take part as fractions: an integer over a power of
// two, of so few digits for all sizes that the trace admits that the dtype holds it exactly.
#ifndef DT_FRONTENDS_ONNX_IMPORT_FOLD_H
#define DT_FRONTENDS_ONNX_IMPORT_FOLD_H

#include "frontends/onnx/import/known.h"

// One element of each operand, all of one dtype, to one of the result; false: nothing is known.
typedef bool (*dt_imp_fold_fn_t)(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                                 dt_imp_number_t *out);

typedef struct dt_imp_fraction_t {
  dt_sym_t top;
  uint32_t shift; // top / 2^shift
} dt_imp_fraction_t;

// False: not such a fraction, or not for all sizes.
bool dt__imp_fraction(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t number,
                      dt_imp_fraction_t *out);
bool dt__imp_from_fraction(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_fraction_t fraction,
                           dt_imp_number_t *out);
// The same power of two under both.
bool dt__imp_fractions(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                       dt_imp_fraction_t out[2]);
// Rounded to the dtype: f32 or f64.
double dt__imp_rounded(dt_dtype_t dtype, double x);
// A literal with the bits that the dtype has.
int64_t dt__imp_wrapped(dt_dtype_t dtype, uint64_t bits);
// Whether the dtype holds the integer, for all sizes that are admitted from then on.
bool dt__imp_fits(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t sym);

// fn, and its result looked at: an integer that depends on sizes and leaves its dtype would wrap.
bool dt__imp_fold_one(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                      dt_dtype_t result, dt_imp_fold_fn_t fn, dt_imp_number_t *out);
// Of inputs `first` …, `count` of them, broadcast. `dtype`: the result's; DT_DTYPE_NONE: the
// operands'.
bool dt__imp_fold_each(dt_imp_node_t *n, uint32_t first, uint32_t count, dt_dtype_t dtype,
                       dt_imp_fold_fn_t fn);

bool dt__imp_number_add(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out);
bool dt__imp_number_mul(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out);
bool dt__imp_number_max(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out);
bool dt__imp_number_min(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out);

#endif // DT_FRONTENDS_ONNX_IMPORT_FOLD_H
