// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes, and of the functions that are put in place of their calls.
#include "frontends/onnx/import/walk.h"

#include <string.h>

// ---- Frames -----------------------------------------------------------------------------------------
dt_imp_frame_t dt__imp_main_frame(const dt_imp_model_t *model) {
  return (dt_imp_frame_t){.opsets = &model->file->model.opset_import};
}

dt_imp_frame_t dt__imp_call_frame(const dt_imp_model_t *model, const dt_imp_frame_t *up,
                                  const dt_onnx_node_t *call) {
  const dt_onnx_function_t *function = &model->file->model.functions.items[call->function - 1];
  return (dt_imp_frame_t){up, call, function, &function->opset_import};
}

int64_t dt__imp_opset(const dt_imp_frame_t *frame, dt_onnx_str_t domain) {
  for (uint32_t k = 0; k < frame->opsets->len; k++)
    if (dt__onnx_str_equal(dt__onnx_domain(frame->opsets->items[k].domain),
                           dt__onnx_domain(domain)))
      return frame->opsets->items[k].version;
  return 0;
}

// ---- Finding ----------------------------------------------------------------------------------------
static const dt_onnx_attribute_t *find(const dt_onnx_attributes_t *attributes, dt_onnx_str_t name) {
  for (uint32_t k = 0; k < attributes->len; k++)
    if (dt__onnx_str_equal(attributes->items[k].name, name))
      return &attributes->items[k];
  return NULL;
}

const dt_onnx_attribute_t *dt__imp_find_attr(const dt_imp_frame_t *frame,
                                             const dt_onnx_node_t *node, const char *name) {
  const dt_onnx_attribute_t *attr = find(&node->attribute, (dt_onnx_str_t){name, strlen(name)});
  while (attr && attr->ref_attr_name.len > 0 && frame && frame->function) {
    const dt_onnx_attribute_t *given = find(&frame->call->attribute, attr->ref_attr_name);
    if (!given)
      return find(&frame->function->attribute_proto, attr->ref_attr_name);
    attr = given;
    frame = frame->up;
  }
  return attr;
}

// NULL: absent, or of another type, which fails.
static const dt_onnx_attribute_t *typed(dt_imp_node_t *n, const char *name, int64_t type) {
  const dt_onnx_attribute_t *attr = dt__imp_find_attr(n->frame, n->node, name);
  if (!attr || attr->type == type)
    return attr;
  if (n->t)
    dt__imp_fail(n, DT_E_FORMAT, "attribute \"%s\" is of type %lld; expected type %lld", name,
                 (long long)attr->type, (long long)type);
  return NULL;
}

// ---- Reading ----------------------------------------------------------------------------------------
bool dt__imp_has_attr(const dt_imp_node_t *n, const char *name) {
  return dt__imp_find_attr(n->frame, n->node, name) != NULL;
}

int64_t dt__imp_int(dt_imp_node_t *n, const char *name, int64_t otherwise) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_INT);
  return attr ? attr->i : otherwise;
}

double dt__imp_float(dt_imp_node_t *n, const char *name, double otherwise) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_FLOAT);
  return attr ? (double)attr->f : otherwise;
}

dt_onnx_str_t dt__imp_str(dt_imp_node_t *n, const char *name, const char *otherwise) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_STRING);
  return attr ? attr->s : (dt_onnx_str_t){otherwise, strlen(otherwise)};
}

bool dt__imp_str_is(dt_imp_node_t *n, const char *name, const char *otherwise, const char *text) {
  return dt__onnx_str_is(dt__imp_str(n, name, otherwise), text);
}

bool dt__imp_attr_ints(dt_imp_node_t *n, const char *name, dt_imp_ints_t *out) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_INTS);
  *out = attr ? (dt_imp_ints_t){attr->ints.len, attr->ints.items} : (dt_imp_ints_t){0};
  return attr != NULL;
}

bool dt__imp_attr_floats(dt_imp_node_t *n, const char *name, dt_imp_reals_t *out) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_FLOATS);
  *out = (dt_imp_reals_t){0};
  double *items = attr && n->t ? DT_IMP_ARRAY(n, double, attr->floats.len) : NULL;
  if (!items)
    return false;
  for (uint32_t k = 0; k < attr->floats.len; k++)
    items[k] = (double)attr->floats.items[k];
  *out = (dt_imp_reals_t){attr->floats.len, items};
  return true;
}

const dt_onnx_tensor_t *dt__imp_attr_tensor(dt_imp_node_t *n, const char *name) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_TENSOR);
  return attr ? attr->t : NULL;
}

const dt_onnx_graph_t *dt__imp_attr_graph(dt_imp_node_t *n, const char *name) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_GRAPH);
  return attr ? attr->g : NULL;
}

dt_dtype_t dt__imp_attr_dtype(dt_imp_node_t *n, const char *name, dt_dtype_t otherwise) {
  const dt_onnx_attribute_t *attr = typed(n, name, DT_ONNX_ATTR_INT);
  if (!attr)
    return otherwise;
  const dt_onnx_dtype_t *dtype = dt__onnx_dtype(attr->i);
  if (n->t && (!dtype || dtype->dtype == DT_DTYPE_NONE))
    dt__imp_fail(n, DT_E_UNSUPPORTED, "attribute \"%s\": element type %s", name,
                 dtype ? dtype->name : "unknown");
  return dtype ? dtype->dtype : DT_DTYPE_NONE;
}
