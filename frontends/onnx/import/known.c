// SPDX-License-Identifier: Apache-2.0
// Values known as numbers: made, read from the file's data, and turned into tensors.
#include "frontends/onnx/import/walk.h"

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"
#include "runtime/base/hash.h"

#include <stdio.h>
#include <string.h>

// ---- Making -----------------------------------------------------------------------------------------
dt_imp_known_t *dt__imp_known_make(dt_imp_node_t *n, dt_dtype_t dtype, uint32_t rank,
                                   const int64_t *sizes) {
  int64_t count = 1;
  if (rank > DT_MAX_RANK)
    return NULL;
  for (uint32_t k = 0; k < rank; k++)
    if (sizes[k] < 0 || !dt__mul_i64(count, sizes[k], &count) || count > DT_IMP_KNOWN_MAX)
      return NULL;
  dt_imp_known_t *known = DT_IMP_ARRAY(n, dt_imp_known_t, 1);
  dt_imp_number_t *items = DT_IMP_ARRAY(n, dt_imp_number_t, (size_t)count);
  if (!known || !items)
    return NULL;
  *known = (dt_imp_known_t){.dtype = dtype, .rank = rank, .n = (uint32_t)count, .items = items};
  for (uint32_t k = 0; k < rank; k++)
    known->sizes[k] = sizes[k];
  return known;
}

dt_imp_known_t *dt__imp_known_list(dt_imp_node_t *n, dt_dtype_t dtype, uint32_t len) {
  int64_t size = len;
  return dt__imp_known_make(n, dtype, 1, &size);
}

bool dt__imp_is_integral(dt_dtype_t dtype) { return dtype >= DT_BOOL && dtype <= DT_U64; }

bool dt__imp_is_literal(dt_imp_node_t *n, dt_sym_t sym, int64_t *out) {
  return dt_sym_constant(n->t, sym, out);
}

bool dt__imp_is_real(const dt_imp_known_t *known) {
  for (uint32_t k = 0; k < known->n; k++)
    if (known->items[k].sym.id)
      return false;
  return !dt__imp_is_integral(known->dtype);
}

// ---- Data of the file -------------------------------------------------------------------------------
// False: no int64_t.
static bool read_int(const char *data, dt_dtype_t dtype, uint32_t k, int64_t *out) {
  switch (dtype) {
  case DT_BOOL:
  case DT_U8:
    *out = ((const uint8_t *)data)[k];
    return true;
  case DT_I8:
    *out = ((const int8_t *)data)[k];
    return true;
  case DT_U16:
    *out = ((const uint16_t *)data)[k];
    return true;
  case DT_I16:
    *out = ((const int16_t *)data)[k];
    return true;
  case DT_U32:
    *out = ((const uint32_t *)data)[k];
    return true;
  case DT_I32:
    *out = ((const int32_t *)data)[k];
    return true;
  case DT_I64:
    *out = ((const int64_t *)data)[k];
    return true;
  default:
    return false;
  }
}

static bool read_real(const char *data, dt_dtype_t dtype, uint32_t k, double *out) {
  switch (dtype) {
  case DT_F16:
    *out = dt__f16_widen(((const dt_f16_t *)data)[k]);
    return true;
  case DT_BF16:
    *out = dt__bf16_widen(((const dt_bf16_t *)data)[k]);
    return true;
  case DT_F32:
    *out = (double)((const float *)data)[k];
    return true;
  case DT_F64:
    *out = ((const double *)data)[k];
    return true;
  default:
    return false;
  }
}

static const dt_imp_known_t *read_data(dt_imp_node_t *n, const dt_imp_constant_t *constant) {
  const dt_tensor_t *data = constant->data;
  dt_dtype_t dtype = dt_tensor_dtype(data);
  dt_imp_known_t *known = dt__imp_known_make(n, dtype, dt_tensor_rank(data), dt_tensor_sizes(data));
  const char *bytes = dt_tensor_data(data);
  for (uint32_t k = 0; known && k < known->n; k++) {
    int64_t value = 0;
    if (read_int(bytes, dtype, k, &value))
      known->items[k].sym = dt_sym_const(n->t, value);
    else if (!read_real(bytes, dtype, k, &known->items[k].real))
      return NULL;
  }
  return known;
}

const dt_imp_known_t *dt__imp_val_known(dt_imp_node_t *n, const dt_imp_val_t *value) {
  if (value->known || !value->data || value->data->elements > DT_IMP_KNOWN_MAX)
    return value->known;
  const dt_imp_constant_t *constant = dt__imp_find_constant(n->imp->model, value->data);
  if (!value->numbers)
    ((dt_imp_val_t *)value)->numbers = constant ? read_data(n, constant) : NULL;
  if (value->numbers && !DT_VEC_PUSH(&n->imp->arena, &n->imp->asked, constant))
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
  return value->numbers;
}

void dt__imp_take_asked(dt_imp_t *imp, uint32_t mark) {
  for (uint32_t k = mark; k < imp->asked.len; k++) {
    const dt_imp_constant_t *constant = imp->asked.items[k];
    bool *taken = &imp->taken[constant - imp->model->constants];
    if (!*taken)
      dt_constant_taken(imp->t, constant->name);
    *taken = true;
  }
  imp->asked.len = mark;
}

// ---- As a tensor ------------------------------------------------------------------------------------
// Integers beyond this are not exact as doubles.
#define EXACT ((int64_t)1 << 53)

static dt_value_t element(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *number) {
  int64_t value = 0;
  if (!number->sym.id)
    return dt_scalar(n->t, dtype, number->real);
  bool integral = dt__imp_is_integral(dtype);
  if (dtype == DT_I64 && dt__imp_is_literal(n, number->sym, &value) && value > -EXACT &&
      value < EXACT)
    return dt_scalar(n->t, dtype, (double)value);
  dt_value_t made = dt_cast(n->t, dt_size_value(n->t, number->sym), dtype);
  return integral || number->real == 1.0 ? made
                                         : dt_mul(n->t, made, dt_scalar(n->t, dtype, number->real));
}

static bool write_int(dt_dtype_t dtype, int64_t value, void *to) {
  size_t bytes = dt_dtype_size(dtype);
  memcpy(to, &value, bytes); // little-endian, as all that Ductile runs on
  return true;
}

static bool write_real(dt_dtype_t dtype, double value, void *to) {
  float single = (float)value;
  if (dtype == DT_F64)
    memcpy(to, &value, sizeof(value));
  else if (dtype == DT_F32)
    memcpy(to, &single, sizeof(single));
  return dtype == DT_F64 || dtype == DT_F32;
}

// All literals as bytes; false: there is a symbol, or a half.
static bool write_literals(dt_imp_node_t *n, const dt_imp_known_t *known, char *to) {
  size_t bytes = dt_dtype_size(known->dtype);
  for (uint32_t k = 0; k < known->n; k++) {
    const dt_imp_number_t *item = &known->items[k];
    int64_t value = 0;
    bool done = dt__imp_is_integral(known->dtype)
                    ? dt__imp_is_literal(n, item->sym, &value) &&
                          write_int(known->dtype, value, to + k * bytes)
                    : !item->sym.id && write_real(known->dtype, item->real, to + k * bytes);
    if (!done)
      return false;
  }
  return true;
}

// Traces of one function may know different numbers at one place, so the name tells the contents.
static dt_value_t as_constant(dt_imp_node_t *n, const dt_imp_known_t *known, const char *data) {
  char name[64];
  size_t bytes = known->n * dt_dtype_size(known->dtype);
  uint64_t hash = dt__hash(data, bytes, dt__hash(known->sizes, sizeof(known->sizes), known->rank));
  (void)snprintf(name, sizeof(name), "numbers %s %016llx", dt_dtype_name(known->dtype),
                 (unsigned long long)hash);
  for (uint32_t k = 0; k < n->imp->made.len; k++)
    if (strcmp(n->imp->made.items[k].name, name) == 0)
      return dt_constant(n->t, name, n->imp->made.items[k].data);
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create_empty(known->dtype, known->rank, known->sizes, &tensor);
  dt_status_free(status);
  dt_imp_constant_t entry = {.name = tensor ? dt__arena_strdup(&n->imp->arena, name) : NULL,
                             .data = tensor};
  if (!entry.name || !DT_VEC_PUSH(&n->imp->arena, &n->imp->made, entry)) {
    dt_tensor_release(tensor);
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
    return (dt_value_t){0};
  }
  if (bytes > 0)
    memcpy(dt_tensor_data(tensor), data, bytes);
  return dt_constant(n->t, name, tensor);
}

static dt_value_t joined(dt_imp_node_t *n, const dt_imp_known_t *known) {
  dt_value_t *parts = DT_IMP_ARRAY(n, dt_value_t, known->n);
  dt_sym_t sizes[DT_MAX_RANK];
  for (uint32_t k = 0; parts && k < known->n; k++)
    parts[k] = dt_unsqueeze(n->t, element(n, known->dtype, &known->items[k]), 0);
  for (uint32_t k = 0; k < known->rank; k++)
    sizes[k] = dt_sym_const(n->t, known->sizes[k]);
  if (!parts)
    return (dt_value_t){0};
  dt_value_t made = known->n == 1 ? parts[0] : dt_concat(n->t, known->n, parts, 0);
  return dt_reshape(n->t, made, known->rank, sizes);
}

dt_value_t dt__imp_known_tensor(dt_imp_node_t *n, const dt_imp_known_t *known) {
  if (known->n == 1)
    return known->rank == 0 ? element(n, known->dtype, &known->items[0]) : joined(n, known);
  char *data = DT_IMP_ARRAY(n, char, (size_t)known->n *dt_dtype_size(known->dtype));
  if (!data)
    return (dt_value_t){0};
  return write_literals(n, known, data) ? as_constant(n, known, data) : joined(n, known);
}
