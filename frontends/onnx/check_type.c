// SPDX-License-Identifier: Apache-2.0
// Checks types of values and versions of operator sets.
#include "frontends/onnx/check.h"
#include "frontends/onnx/dtype.h"
#include "runtime/base/status.h"

// ---- Types ----------------------------------------------------------------------------------------
static dt_status_t check_dim(const dt_onnx_check_t *c, const dt_onnx_dim_t *dim,
                             const dt_onnx_at_t *at) {
  if (dim->head.has == 3)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, dim->head.offset,
                         "a dim with both a value and a name: give one");
  if (dim->dim_value < -1) // -1 is how some exporters leave a size open
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, dim->head.offset,
                         "a dim of %lld: give a name (dim_param) to a size that changes",
                         (long long)dim->dim_value);
  if (dim->dim_value >= DT_SIZE_LIMIT)
    return dt__onnx_fail(c->what, DT_E_LIMIT, at, dim->head.offset,
                         "a dim of %lld, the limit is 2^47", (long long)dim->dim_value);
  return NULL;
}

static dt_status_t check_shape(const dt_onnx_check_t *c, const dt_onnx_shape_t *shape,
                               const dt_onnx_at_t *up) {
  dt_onnx_at_t at = {up, "shape", -1};
  if (!shape)
    return NULL;
  if (shape->dim.len > DT_MAX_RANK)
    return dt__onnx_fail(c->what, DT_E_LIMIT, &at, shape->head.offset, "%u dims, the limit is %d",
                         shape->dim.len, DT_MAX_RANK);
  for (uint32_t k = 0; k < shape->dim.len; k++) {
    dt_onnx_at_t inner = {&at, "dim", k};
    DT_TRY(check_dim(c, &shape->dim.items[k], &inner));
  }
  return NULL;
}

static dt_status_t check_tensor_type(const dt_onnx_check_t *c, const dt_onnx_tensor_type_t *type,
                                     const dt_onnx_at_t *up, const char *field) {
  dt_onnx_at_t at = {up, field, -1};
  if (!dt__onnx_dtype(type->elem_type))
    return dt__onnx_fail(c->what, DT_E_FORMAT, &at, type->head.offset,
                         "element type %lld is none of TensorProto.DataType",
                         (long long)type->elem_type);
  return check_shape(c, type->shape, &at);
}

static dt_status_t check_wrapped(dt_onnx_check_t *c, const dt_onnx_wrapped_type_t *type,
                                 const dt_onnx_at_t *up, const char *field, const char *inner) {
  dt_onnx_at_t at = {up, field, -1}, at_inner = {&at, inner, -1};
  if (!type->elem_type)
    return dt__onnx_fail(c->what, DT_E_FORMAT, &at, type->head.offset, "no %s", inner);
  return dt__onnx_check_type(c, type->elem_type, &at_inner);
}

dt_status_t dt__onnx_check_type(dt_onnx_check_t *c, const dt_onnx_type_t *type,
                                const dt_onnx_at_t *at) {
  uint32_t has = type->head.has;
  if ((has & (has - 1)) != 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, type->head.offset,
                         "a type that is two things at once");
  if (type->tensor_type)
    return check_tensor_type(c, type->tensor_type, at, "tensor_type");
  if (type->sparse_tensor_type)
    return check_tensor_type(c, type->sparse_tensor_type, at, "sparse_tensor_type");
  if (type->sequence_type)
    return check_wrapped(c, type->sequence_type, at, "sequence_type", "elem_type");
  if (type->optional_type)
    return check_wrapped(c, type->optional_type, at, "optional_type", "elem_type");
  if (type->map_type)
    return check_wrapped(c, type->map_type, at, "map_type", "value_type");
  return NULL;
}

// ---- Operator sets --------------------------------------------------------------------------------
static dt_status_t check_version(const dt_onnx_check_t *c, const dt_onnx_opset_t *opset,
                                 const dt_onnx_at_t *at) {
  bool own = dt__onnx_domain(opset->domain).len == 0; // the format's
  if (opset->version < DT_ONNX_MIN_OPSET)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, opset->head.offset,
                         "domain \"%s\" has version %lld", dt__onnx_show(opset->domain).text,
                         (long long)opset->version);
  if (own && opset->version > DT_ONNX_MAX_OPSET)
    return dt__onnx_fail(c->what, DT_E_UNSUPPORTED, at, opset->head.offset,
                         "operator set %lld; sets up to %d are read: convert the model with "
                         "onnx.version_converter, or export it for an older one",
                         (long long)opset->version, DT_ONNX_MAX_OPSET);
  return NULL;
}

// Models import a handful of domains; the bound keeps the search for a node's short.
#define MAX_OPSETS 64u

dt_status_t dt__onnx_check_opsets(dt_onnx_check_t *c, const dt_onnx_opsets_t *opsets,
                                  const dt_onnx_at_t *up) {
  for (uint32_t k = 0; k < opsets->len; k++) {
    const dt_onnx_opset_t *opset = &opsets->items[k];
    dt_onnx_at_t at = {up, "opset_import", k};
    if (k == MAX_OPSETS)
      return dt__onnx_fail(c->what, DT_E_LIMIT, &at, opset->head.offset,
                           "more than %u operator sets, the limit", MAX_OPSETS);
    for (uint32_t i = 0; i < k; i++)
      if (dt__onnx_str_equal(dt__onnx_domain(opset->domain),
                             dt__onnx_domain(opsets->items[i].domain)))
        return dt__onnx_fail(c->what, DT_E_FORMAT, &at, opset->head.offset,
                             "domain \"%s\" is imported twice", dt__onnx_show(opset->domain).text);
    DT_TRY(check_version(c, opset, &at));
  }
  return NULL;
}
