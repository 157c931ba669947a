// SPDX-License-Identifier: Apache-2.0 Operators that the model's own domain names: ops of users
// (include/ductile/op.h). An operator `Op` of domain `com.acme` is the op "com.acme.Op"; of the
// format's own domain, where the importer has none, it is "ai.onnx.Op".
#include "frontends/onnx/import/walk.h"

#include "ductile/op.h"
#include "frontends/onnx/read.h"

#include <stdio.h>
#include <string.h>

typedef struct name_t {
  char text[128];
} name_t;

// An operator without such a name gets "", which no op has.
static name_t name_of(const dt_onnx_node_t *node) {
  name_t name = {""};
  dt_onnx_str_t domain = dt__onnx_domain(node->domain);
  if (domain.len == 0)
    domain = (dt_onnx_str_t){"ai.onnx", strlen("ai.onnx")};
  if (node->overload.len == 0 && domain.len + node->op_type.len + 2 < sizeof(name.text))
    (void)snprintf(name.text, sizeof(name.text), "%.*s.%.*s", (int)domain.len, domain.at,
                   (int)node->op_type.len, node->op_type.at);
  return name;
}

bool dt__imp_has_user_op(const dt_imp_model_t *model, const dt_onnx_node_t *node) {
  name_t name = name_of(node);
  return model->runtime && dt_op_exists(model->runtime, name.text);
}

// ---- Attributes -----------------------------------------------------------------------------------
static const char *copied(dt_imp_node_t *n, dt_onnx_str_t text) {
  return memchr(text.at ? text.at : "", 0, text.len)
             ? NULL
             : dt__arena_printf(&n->imp->arena, "%.*s", (int)text.len, text.len ? text.at : "");
}

static bool take_floats(dt_imp_node_t *n, const dt_onnx_attribute_t *from, dt_op_attr_t *to) {
  double *floats = DT_ARENA_ARRAY(&n->imp->arena, double, from->floats.len + 1);
  for (uint32_t k = 0; floats && k < from->floats.len; k++)
    floats[k] = (double)from->floats.items[k];
  to->kind = DT_OP_ATTR_FLOATS;
  to->n = from->floats.len;
  to->floats = floats;
  return floats != NULL;
}

// False: it has no form that an op takes.
static bool take_value(dt_imp_node_t *n, const dt_onnx_attribute_t *from, dt_op_attr_t *to) {
  switch (from->type) {
  case DT_ONNX_ATTR_INT:
    to->kind = DT_OP_ATTR_INT;
    to->i = from->i;
    return true;
  case DT_ONNX_ATTR_FLOAT:
    to->kind = DT_OP_ATTR_FLOAT;
    to->f = (double)from->f;
    return true;
  case DT_ONNX_ATTR_STRING:
    to->kind = DT_OP_ATTR_TEXT;
    to->text = copied(n, from->s);
    return to->text != NULL;
  case DT_ONNX_ATTR_INTS:
    to->kind = DT_OP_ATTR_INTS;
    to->n = from->ints.len;
    to->ints = from->ints.items;
    return true;
  case DT_ONNX_ATTR_FLOATS:
    return take_floats(n, from, to);
  default:
    return false;
  }
}

// Those that are given; at most as many as the node names. False: failed.
static bool take_attrs(dt_imp_node_t *n, dt_op_attr_t *attrs, uint32_t *out_n) {
  const dt_onnx_attributes_t *named = &n->node->attribute;
  *out_n = 0;
  for (uint32_t k = 0; k < named->len; k++) {
    const char *name = copied(n, named->items[k].name);
    const dt_onnx_attribute_t *given = name ? dt__imp_find_attr(n->frame, n->node, name) : NULL;
    if (name && !given) // refers to one that the function's caller left out
      continue;
    attrs[*out_n] = (dt_op_attr_t){.name = name};
    if (!given || !take_value(n, given, &attrs[*out_n])) {
      dt__imp_fail(n, DT_E_UNSUPPORTED,
                   "attribute %u is no integer, float or text, and no list of numbers", k);
      return false;
    }
    (*out_n)++;
  }
  return true;
}

// ---- Calls ----------------------------------------------------------------------------------------
// The input as a value: operators of a model give outputs, and no op updates the model's inputs.
static dt_value_t value_of(dt_imp_node_t *n, uint32_t k) {
  dt_value_t x = dt__imp_in(n, k);
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_failed(n) || !x.id ? 0 : dt_value_rank(n->t, x);
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = dt_dim(n->t, x, (int32_t)d);
  return dt__imp_failed(n) || !x.id ? x : dt_expand(n->t, x, rank, sizes);
}

void dt__imp_user_op(dt_imp_node_t *n) {
  name_t name = name_of(n->node);
  uint32_t n_in = dt__imp_n_in(n), n_out = dt__imp_n_out(n), n_attrs = 0;
  dt_value_t in[DT_OP_MAX_INPUTS], out[DT_OP_MAX_RESULTS];
  dt_op_attr_t *attrs = DT_ARENA_ARRAY(&n->imp->arena, dt_op_attr_t, n->node->attribute.len + 1);
  if (!attrs) {
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
    return;
  }
  if (n_in > DT_OP_MAX_INPUTS || n_out > DT_OP_MAX_RESULTS) {
    dt__imp_fail(n, DT_E_LIMIT, "%u inputs and %u outputs; an op has at most %d and %d", n_in,
                 n_out, DT_OP_MAX_INPUTS, DT_OP_MAX_RESULTS);
    return;
  }
  for (uint32_t k = 0; k < n_in; k++)
    in[k] = value_of(n, k);
  if (dt__imp_failed(n) || !take_attrs(n, attrs, &n_attrs))
    return;
  dt_op_call(n->t, name.text, n_in, in, n_attrs, attrs, n_out, out);
  for (uint32_t k = 0; k < n_out && !dt__imp_failed(n); k++)
    if (dt__imp_wants(n, k))
      dt__imp_out(n, k, out[k]);
}
