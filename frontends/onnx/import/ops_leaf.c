// SPDX-License-Identifier: Apache-2.0
// Operators that bring constants and sizes.
#include "frontends/onnx/import/walk.h"

// ---- Constant ---------------------------------------------------------------------------------------
const char *dt__imp_check_Constant(dt_imp_node_t *n) {
  static const char *const refused[] = {"sparse_value", "value_string", "value_strings"};
  for (uint32_t k = 0; k < 3; k++)
    if (dt__imp_has_attr(n, refused[k]))
      return "strings and sparse constants are not supported";
  const dt_onnx_tensor_t *tensor = dt__imp_attr_tensor(n, "value");
  return tensor && tensor->dtype && tensor->dtype->dtype == DT_DTYPE_NONE
             ? "a constant of an element type that is not supported"
             : NULL;
}

static void constant_ints(dt_imp_node_t *n, const int64_t *items, uint32_t len, uint32_t rank) {
  int64_t size = len;
  dt_imp_known_t *known = dt__imp_known_make(n, DT_I64, rank, &size);
  for (uint32_t k = 0; known && k < len; k++)
    known->items[k].sym = dt_sym_const(n->t, items[k]);
  dt__imp_out_known(n, 0, known);
}

static void constant_floats(dt_imp_node_t *n, const double *items, uint32_t len, uint32_t rank) {
  int64_t size = len;
  dt_imp_known_t *known = dt__imp_known_make(n, DT_F32, rank, &size);
  for (uint32_t k = 0; known && k < len; k++)
    known->items[k].real = items[k];
  dt__imp_out_known(n, 0, known);
}

void dt__imp_make_Constant(dt_imp_node_t *n) {
  dt_imp_ints_t ints;
  dt_imp_reals_t reals;
  const dt_onnx_tensor_t *tensor = dt__imp_attr_tensor(n, "value");
  if (tensor) {
    dt_imp_val_t *value = dt__imp_new_val(n->imp);
    if (value)
      value->data = tensor;
    dt__imp_out_val(n, 0, value);
  } else if (dt__imp_has_attr(n, "value_int")) {
    int64_t value = dt__imp_int(n, "value_int", 0);
    constant_ints(n, &value, 1, 0);
  } else if (dt__imp_has_attr(n, "value_float")) {
    double value = dt__imp_float(n, "value_float", 0);
    constant_floats(n, &value, 1, 0);
  } else if (dt__imp_attr_ints(n, "value_ints", &ints)) {
    constant_ints(n, ints.items, ints.len, 1);
  } else if (dt__imp_attr_floats(n, "value_floats", &reals)) {
    constant_floats(n, reals.items, reals.len, 1);
  }
}

// ---- ConstantOfShape --------------------------------------------------------------------------------
// The one element of attribute `value`; f32 0 without it.
static bool fill_value(dt_imp_node_t *n, dt_dtype_t *out_dtype, dt_imp_number_t *out) {
  const dt_onnx_tensor_t *tensor = dt__imp_attr_tensor(n, "value");
  const dt_imp_val_t value = {.data = tensor};
  const dt_imp_known_t *known = tensor ? dt__imp_val_known(n, &value) : NULL;
  *out_dtype = known ? known->dtype : DT_F32;
  *out = known && known->n == 1 ? known->items[0] : (dt_imp_number_t){0};
  if (!tensor || (known && known->n == 1))
    return true;
  dt__imp_fail(n, DT_E_UNSUPPORTED, "attribute \"value\" is no single number that is supported");
  return false;
}

bool dt__imp_fold_ConstantOfShape(dt_imp_node_t *n) {
  const dt_imp_known_t *shape = dt__imp_known(n, 0);
  int64_t sizes[DT_MAX_RANK];
  dt_dtype_t dtype;
  dt_imp_number_t fill;
  if (!shape || !dt__imp_is_integral(shape->dtype) || shape->n > DT_MAX_RANK ||
      !fill_value(n, &dtype, &fill))
    return false;
  for (uint32_t k = 0; k < shape->n; k++)
    if (!dt__imp_is_literal(n, shape->items[k].sym, &sizes[k]))
      return false;
  dt_imp_known_t *known = dt__imp_known_make(n, dtype, shape->n, sizes);
  for (uint32_t k = 0; known && k < known->n; k++)
    known->items[k] = fill;
  dt__imp_out_known(n, 0, known);
  return known != NULL;
}

void dt__imp_make_ConstantOfShape(dt_imp_node_t *n) {
  dt_imp_syms_t sizes;
  dt_dtype_t dtype;
  dt_imp_number_t fill;
  if (!dt__imp_syms(n, 0, &sizes) || !fill_value(n, &dtype, &fill))
    return;
  dt_imp_known_t *one = dt__imp_known_make(n, dtype, 0, NULL);
  if (!one)
    return;
  one->items[0] = fill;
  dt_value_t value = dt__imp_known_tensor(n, one);
  dt__imp_out(n, 0, dt_expand(n->t, value, sizes.len, sizes.items));
}

// ---- Values as they are, sizes ----------------------------------------------------------------------
void dt__imp_make_Identity(dt_imp_node_t *n) { dt__imp_out_val(n, 0, dt__imp_val(n, 0)); }

static int64_t clamped(int64_t at, int64_t rank) {
  at = at < 0 ? at + rank : at;
  return at < 0 ? 0 : at > rank ? rank : at;
}

void dt__imp_make_Shape(dt_imp_node_t *n) {
  int64_t rank = dt__imp_rank(n, 0);
  int64_t start = clamped(dt__imp_int(n, "start", 0), rank),
          end = clamped(dt__imp_int(n, "end", rank), rank);
  dt_imp_known_t *known = dt__imp_known_list(n, DT_I64, end > start ? (uint32_t)(end - start) : 0);
  for (uint32_t k = 0; known && k < known->n; k++)
    known->items[k].sym = dt__imp_size(n, 0, (uint32_t)start + k);
  dt__imp_out_known(n, 0, known);
}

void dt__imp_make_Size(dt_imp_node_t *n) {
  dt_imp_known_t *known = dt__imp_known_make(n, DT_I64, 0, NULL);
  if (!known)
    return;
  known->items[0].sym = dt_sym_const(n->t, 1);
  for (uint32_t k = 0; k < dt__imp_rank(n, 0); k++)
    known->items[0].sym = dt_sym_mul(n->t, known->items[0].sym, dt__imp_size(n, 0, k));
  dt__imp_out_known(n, 0, known);
}
