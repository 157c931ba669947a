// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that are arithmetic on tensors.
#include "frontends/onnx/import/compute.h"
#include "frontends/onnx/import/known.h"
#include "frontends/onnx/import/nn.h"

#include "runtime/base/dtype.h"

// Columns of the last dim; a vector counts as a row.
void dt__imp_make_ArrayFeatureExtractor(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), at = dt__imp_in(n, 1);
  const dt_sym_t all = dt_sym_const(n->t, -1);
  if (dt__imp_rank(n, 0) == 1)
    x = dt_unsqueeze(n->t, x, 0);
  dt__imp_out(n, 0, dt_gather(n->t, x, dt_reshape(n->t, at, 1, &all), -1));
}

// Integers are compared as f64, since a bound may lie between two of them, or beyond all.
void dt__imp_make_Binarizer(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_dtype_t dtype = dt__imp_dtype(n, 0), wide = dt__dtype_is_int(dtype) ? DT_F64 : dtype;
  dt_value_t bound = dt__imp_number(n, wide, dt__imp_float(n, "threshold", 0));
  dt__imp_out_as(n, 0, dt_gt(n->t, dt__imp_as(n, x, wide), bound), dtype);
}

// Rows by their norm, which is taken as no less than 1e-30.
void dt__imp_make_Normalizer(dt_imp_node_t *n) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, 0), DT_F32), norm = dt_abs(n->t, x);
  int32_t axis = -1;
  if (dt__imp_str_is(n, "norm", "MAX", "L1"))
    norm = dt_sum(n->t, norm, 1, &axis, true);
  else if (dt__imp_str_is(n, "norm", "MAX", "L2"))
    norm = dt_sqrt(n->t, dt_sum(n->t, dt_mul(n->t, x, x), 1, &axis, true));
  else
    norm = dt_amax(n->t, norm, 1, &axis, true);
  norm = dt_maximum(n->t, norm, dt__imp_like(n, x, (double)1e-30F));
  dt__imp_out(n, 0, dt_div(n->t, x, norm));
}

const char *dt__imp_check_Normalizer(dt_imp_node_t *n) {
  static const char *const known[] = {"MAX", "L1", "L2"};
  for (uint32_t k = 0; k < 3; k++)
    if (dt__imp_str_is(n, "norm", "MAX", known[k]))
      return NULL;
  return "attribute \"norm\" is neither \"MAX\", \"L1\" nor \"L2\"";
}

// An attribute of one float, or one for each column.
static dt_value_t columns(dt_imp_node_t *n, const char *name, double otherwise) {
  dt_imp_reals_t reals;
  if (!dt__imp_attr_floats(n, name, &reals) || reals.len == 0)
    return dt_scalar(n->t, DT_F32, otherwise);
  dt_imp_known_t *known = dt__imp_known_list(n, DT_F32, reals.len);
  for (uint32_t k = 0; known && k < reals.len; k++)
    known->items[k].real = reals.items[k];
  if (known)
    return dt__imp_scalar(n, dt__imp_known_tensor(n, known));
  dt__imp_fail(n, DT_E_LIMIT, "attribute \"%s\" has %u elements; at most %d are supported", name,
               reals.len, DT_IMP_KNOWN_MAX);
  return (dt_value_t){0};
}

void dt__imp_make_Scaler(dt_imp_node_t *n) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, 0), DT_F32);
  dt__imp_out(n, 0, dt_mul(n->t, dt_sub(n->t, x, columns(n, "offset", 0)), columns(n, "scale", 1)));
}
