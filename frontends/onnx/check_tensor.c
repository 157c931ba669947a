// SPDX-License-Identifier: Apache-2.0
// Checks tensors: sizes, element type, and that there are exactly as many data as these say.
#include "frontends/onnx/check.h"
#include "frontends/onnx/dtype.h"
#include "frontends/onnx/external.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

typedef struct tensor_check_t {
  const char *what;
  dt_onnx_tensor_t *tensor;
  const dt_onnx_at_t *at;
} tensor_check_t;

#define FAIL(t, code, ...)                                                                         \
  dt__onnx_fail((t)->what, (code), (t)->at, (t)->tensor->head.offset, __VA_ARGS__)

// "tensor "w", FLOAT [3,4]"
typedef struct title_t {
  char text[DT_ONNX_SHOWN + 220];
} title_t;

static title_t title_of(const dt_onnx_tensor_t *tensor) {
  title_t title;
  size_t at = (size_t)snprintf(title.text, sizeof title.text, "tensor \"%s\", %s [",
                               dt__onnx_show(tensor->name.text).text, tensor->dtype->name);
  for (uint32_t k = 0; k < tensor->dims.len && at < sizeof title.text; k++)
    at += (size_t)snprintf(title.text + at, sizeof title.text - at, "%s%lld", k ? "," : "",
                           (long long)tensor->dims.items[k]);
  if (at < sizeof title.text)
    (void)snprintf(title.text + at, sizeof title.text - at, "]");
  return title;
}

// ---- Sizes ----------------------------------------------------------------------------------------
static dt_status_t check_dims(const tensor_check_t *t) {
  const dt_onnx_ints_t *dims = &t->tensor->dims;
  if (dims->len > DT_MAX_RANK)
    return FAIL(t, DT_E_LIMIT, "a tensor of %u dims, the limit is %d", dims->len, DT_MAX_RANK);
  for (uint32_t k = 0; k < dims->len; k++) {
    if (dims->items[k] < 0)
      return FAIL(t, DT_E_FORMAT, "dim %u of the tensor is %lld", k, (long long)dims->items[k]);
    if (dims->items[k] >= DT_SIZE_LIMIT)
      return FAIL(t, DT_E_LIMIT, "dim %u of the tensor is %lld, the limit is 2^47", k,
                  (long long)dims->items[k]);
  }
  return NULL;
}

static dt_status_t count_elements(const tensor_check_t *t) {
  dt_onnx_tensor_t *tensor = t->tensor;
  int64_t elements = 1;
  bool fits = true;
  for (uint32_t k = 0; k < tensor->dims.len; k++)
    if (tensor->dims.items[k] == 0)
      elements = 0;
  for (uint32_t k = 0; k < tensor->dims.len && elements != 0; k++)
    fits = fits && dt__mul_i64(elements, tensor->dims.items[k], &elements);
  fits = fits && elements < DT_SIZE_LIMIT &&
         dt__onnx_dtype_bytes(tensor->dtype, (uint64_t)elements) < (uint64_t)DT_SIZE_LIMIT;
  if (!fits)
    return FAIL(t, DT_E_LIMIT, "%s: more than 2^47 bytes, the limit", title_of(tensor).text);
  tensor->elements = (uint64_t)elements;
  tensor->bytes = dt__onnx_dtype_bytes(tensor->dtype, tensor->elements);
  return NULL;
}

// ---- Data -----------------------------------------------------------------------------------------
// Typed fields in the file's order.
static const struct {
  size_t member;
  const char *name;
} typed_fields[] = {
    {offsetof(dt_onnx_tensor_t, float_data), "float_data"},
    {offsetof(dt_onnx_tensor_t, int32_data), "int32_data"},
    {offsetof(dt_onnx_tensor_t, string_data), "string_data"},
    {offsetof(dt_onnx_tensor_t, int64_data), "int64_data"},
    {offsetof(dt_onnx_tensor_t, double_data), "double_data"},
    {offsetof(dt_onnx_tensor_t, uint64_data), "uint64_data"},
};
#define N_TYPED (sizeof(typed_fields) / sizeof(typed_fields[0]))

static uint64_t typed_count(const dt_onnx_tensor_t *tensor, size_t member) {
  dt_onnx_typed_t typed;
  memcpy(&typed, (const char *)tensor + member, sizeof typed);
  return typed.count;
}

// Only the typed field of the element type may have elements; *out says how many.
static dt_status_t check_typed(const tensor_check_t *t, uint64_t *out) {
  const dt_onnx_dtype_t *dtype = t->tensor->dtype;
  for (size_t k = 0; k < N_TYPED; k++)
    if (typed_fields[k].member != dtype->field &&
        typed_count(t->tensor, typed_fields[k].member) > 0)
      return FAIL(t, DT_E_FORMAT, "%s has %s; its elements belong into %s or raw_data",
                  title_of(t->tensor).text, typed_fields[k].name, dtype->field_name);
  *out = typed_count(t->tensor, dtype->field);
  return NULL;
}

static dt_status_t check_inside(const tensor_check_t *t, uint64_t typed) {
  const dt_onnx_tensor_t *tensor = t->tensor;
  uint64_t items = dt__onnx_dtype_items(tensor->dtype, tensor->elements);
  if (tensor->raw_data.len > 0 && typed > 0)
    return FAIL(t, DT_E_FORMAT, "%s has its data twice, as raw_data and %s", title_of(tensor).text,
                tensor->dtype->field_name);
  if (tensor->raw_data.len > 0 && tensor->dtype->bits == 0)
    return FAIL(t, DT_E_FORMAT, "%s has raw_data; strings belong into string_data",
                title_of(tensor).text);
  if (typed > 0 && typed != items)
    return FAIL(t, DT_E_FORMAT, "%s needs %llu items of %s, there are %llu", title_of(tensor).text,
                (unsigned long long)items, tensor->dtype->field_name, (unsigned long long)typed);
  if (tensor->raw_data.len > 0 && tensor->raw_data.len != tensor->bytes)
    return FAIL(t, DT_E_FORMAT, "%s needs %llu bytes of raw_data, there are %llu",
                title_of(tensor).text, (unsigned long long)tensor->bytes,
                (unsigned long long)tensor->raw_data.len);
  if (tensor->raw_data.len == 0 && typed == 0 && items > 0)
    return FAIL(t, DT_E_FORMAT, "%s has no data", title_of(tensor).text);
  return NULL;
}

static dt_status_t check_outside(const tensor_check_t *t, uint64_t typed) {
  dt_onnx_tensor_t *tensor = t->tensor;
  if (tensor->raw_data.len > 0 || typed > 0)
    return FAIL(t, DT_E_FORMAT, "%s has its data twice, here and in an external file",
                title_of(tensor).text);
  if (tensor->dtype->bits == 0)
    return FAIL(t, DT_E_UNSUPPORTED, "%s: strings in an external file", title_of(tensor).text);
  return dt__onnx_read_location(t->what, tensor, t->at, NULL);
}

dt_status_t dt__onnx_check_tensor(const char *what, dt_onnx_tensor_t *tensor,
                                  const dt_onnx_at_t *at, bool *any_external) {
  tensor_check_t check = {what, tensor, at}, *t = &check;
  uint64_t typed = 0;
  tensor->dtype = dt__onnx_dtype(tensor->data_type);
  if (!tensor->dtype)
    return FAIL(t, DT_E_FORMAT, "element type %lld is none of TensorProto.DataType",
                (long long)tensor->data_type);
  if (tensor->segment)
    return FAIL(t, DT_E_UNSUPPORTED,
                "a tensor in segments, which nothing is known to write: save the model anew");
  DT_TRY(check_dims(t));
  DT_TRY(count_elements(t));
  DT_TRY(check_typed(t, &typed));
  if (tensor->data_location == 0)
    return check_inside(t, typed);
  if (tensor->data_location != 1)
    return FAIL(t, DT_E_FORMAT, "%s: data_location %lld is neither DEFAULT nor EXTERNAL",
                title_of(tensor).text, (long long)tensor->data_location);
  if (any_external)
    *any_external = true;
  return check_outside(t, typed);
}
