// SPDX-License-Identifier: Apache-2.0
// Checks graphs: names and their order, nodes, attributes with their graphs and tensors. As deep as
// graphs stand within each other, which the reading has bounded.
#include "frontends/onnx/check.h"
#include "runtime/base/status.h"

#include <stdlib.h>

// ---- Scopes ---------------------------------------------------------------------------------------
dt_status_t dt__onnx_define(dt_onnx_check_t *c, dt_onnx_name_t name, const dt_onnx_at_t *at,
                            uint64_t offset) {
  if (c->owner[name.id] == c->serial)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, offset,
                         "value \"%s\" is defined twice; each needs a name of its own",
                         dt__onnx_show(name.text).text);
  dt_onnx_undo_t undo = {name.id, c->owner[name.id]};
  if (!DT_VEC_PUSH(&c->scratch, &c->undo, undo))
    return DT_NO_MEMORY();
  c->owner[name.id] = c->serial;
  return NULL;
}

bool dt__onnx_is_defined(const dt_onnx_check_t *c, dt_onnx_name_t name) {
  return c->owner[name.id] != 0;
}

void dt__onnx_end_scope(dt_onnx_check_t *c, uint32_t mark) {
  while (c->undo.len > mark) {
    dt_onnx_undo_t undo = c->undo.items[--c->undo.len];
    c->owner[undo.id] = undo.owner;
  }
}

// ---- Attributes -----------------------------------------------------------------------------------
// Which field of AttributeProto a type stands for; a single message must be there.
static const struct {
  const char *name;
  uint32_t number;
  bool message;
} attribute_types[] = {
    [DT_ONNX_ATTR_FLOAT] = {"FLOAT", 2, false},
    [DT_ONNX_ATTR_INT] = {"INT", 3, false},
    [DT_ONNX_ATTR_STRING] = {"STRING", 4, false},
    [DT_ONNX_ATTR_TENSOR] = {"TENSOR", 5, true},
    [DT_ONNX_ATTR_GRAPH] = {"GRAPH", 6, true},
    [DT_ONNX_ATTR_FLOATS] = {"FLOATS", 7, false},
    [DT_ONNX_ATTR_INTS] = {"INTS", 8, false},
    [DT_ONNX_ATTR_STRINGS] = {"STRINGS", 9, false},
    [DT_ONNX_ATTR_TENSORS] = {"TENSORS", 10, false},
    [DT_ONNX_ATTR_GRAPHS] = {"GRAPHS", 11, false},
    [DT_ONNX_ATTR_SPARSE_TENSOR] = {"SPARSE_TENSOR", 22, true},
    [DT_ONNX_ATTR_SPARSE_TENSORS] = {"SPARSE_TENSORS", 23, false},
    [DT_ONNX_ATTR_TYPE] = {"TYPE_PROTO", 14, true},
    [DT_ONNX_ATTR_TYPES] = {"TYPE_PROTOS", 15, false},
};
#define N_ATTRIBUTE_TYPES ((int64_t)(sizeof(attribute_types) / sizeof(attribute_types[0])))

static const dt_onnx_message_t *attribute_table(void) {
  const dt_onnx_message_t *graph = dt__onnx_field(&dt__onnx_model_message, 7)->sub;
  return dt__onnx_field(dt__onnx_field(graph, 1)->sub, 5)->sub;
}

static bool has_field(const dt_onnx_attribute_t *a, uint32_t number) {
  const dt_onnx_message_t *table = attribute_table();
  return (a->head.has >> (dt__onnx_field(table, number) - table->fields) & 1) != 0;
}

// No value but that of the type's.
static dt_status_t check_values(const dt_onnx_check_t *c, const dt_onnx_attribute_t *a,
                                const dt_onnx_at_t *at) {
  for (int64_t k = 1; k < N_ATTRIBUTE_TYPES; k++)
    if (has_field(a, attribute_types[k].number) && (k != a->type || a->ref_attr_name.len > 0))
      return dt__onnx_fail(c->what, DT_E_FORMAT, at, a->head.offset,
                           "attribute \"%s\" of type %s has a value of type %s%s",
                           dt__onnx_show(a->name).text, attribute_types[a->type].name,
                           attribute_types[k].name,
                           k == a->type ? " and a reference to its caller's" : "");
  if (attribute_types[a->type].message && !has_field(a, attribute_types[a->type].number) &&
      a->ref_attr_name.len == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, a->head.offset,
                         "attribute \"%s\" of type %s has no value", dt__onnx_show(a->name).text,
                         attribute_types[a->type].name);
  return NULL;
}

static dt_status_t check_attribute_head(const dt_onnx_check_t *c, const dt_onnx_attribute_t *a,
                                        const dt_onnx_at_t *at) {
  if (a->name.len == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, a->head.offset, "an attribute without a name");
  if (a->type <= 0 || a->type >= N_ATTRIBUTE_TYPES)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, a->head.offset,
                         "attribute \"%s\": type %lld is none of AttributeProto.AttributeType",
                         dt__onnx_show(a->name).text, (long long)a->type);
  if (a->ref_attr_name.len > 0 && c->body == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, a->head.offset,
                         "attribute \"%s\" refers to \"%s\" of a caller, but stands in no function",
                         dt__onnx_show(a->name).text, dt__onnx_show(a->ref_attr_name).text);
  if (a->type == DT_ONNX_ATTR_SPARSE_TENSOR || a->type == DT_ONNX_ATTR_SPARSE_TENSORS)
    return dt__onnx_fail(c->what, DT_E_UNSUPPORTED, at, a->head.offset,
                         "attribute \"%s\" is a sparse tensor: save it as a dense one",
                         dt__onnx_show(a->name).text);
  return check_values(c, a, at);
}

static dt_status_t check_attribute(dt_onnx_check_t *c, dt_onnx_attribute_t *a,
                                   const dt_onnx_at_t *up) {
  DT_TRY(check_attribute_head(c, a, up));
  dt_onnx_at_t at = {up, "t", -1};
  if (a->t)
    DT_TRY(dt__onnx_check_tensor(c->what, a->t, &at, &c->any_external));
  at.field = "tp";
  if (a->tp)
    DT_TRY(dt__onnx_check_type(c, a->tp, &at));
  at.field = "g";
  if (a->g)
    DT_TRY(dt__onnx_check_graph(c, a->g, &at, false));
  at.field = "tensors";
  for (at.index = 0; at.index < a->tensors.len; at.index++)
    DT_TRY(dt__onnx_check_tensor(c->what, &a->tensors.items[at.index], &at, &c->any_external));
  at.field = "type_protos";
  for (at.index = 0; at.index < a->type_protos.len; at.index++)
    DT_TRY(dt__onnx_check_type(c, &a->type_protos.items[at.index], &at));
  at.field = "graphs";
  for (at.index = 0; at.index < a->graphs.len; at.index++)
    DT_TRY(dt__onnx_check_graph(c, &a->graphs.items[at.index], &at, false));
  return NULL;
}

// By name, then by place.
static int compare_attributes(const void *left, const void *right) {
  const dt_onnx_attribute_t *a = *(const dt_onnx_attribute_t *const *)left;
  const dt_onnx_attribute_t *b = *(const dt_onnx_attribute_t *const *)right;
  int order = dt__onnx_str_compare(a->name, b->name);
  return order ? order : (a > b) - (a < b);
}

static dt_status_t check_names(dt_onnx_check_t *c, const dt_onnx_attributes_t *attributes,
                               const dt_onnx_at_t *up, const char *field) {
  c->sorted.len = 0;
  for (uint32_t k = 0; k < attributes->len; k++)
    if (!DT_VEC_PUSH(&c->scratch, &c->sorted, &attributes->items[k]))
      return DT_NO_MEMORY();
  if (attributes->len > 1)
    qsort(c->sorted.items, c->sorted.len, sizeof c->sorted.items[0], compare_attributes);
  for (uint32_t k = 1; k < attributes->len; k++) {
    const dt_onnx_attribute_t *a = c->sorted.items[k];
    dt_onnx_at_t at = {up, field, a - attributes->items};
    if (dt__onnx_str_equal(a->name, c->sorted.items[k - 1]->name))
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, a->head.offset,
                           "attribute \"%s\" is there twice", dt__onnx_show(a->name).text);
  }
  return NULL;
}

dt_status_t dt__onnx_check_attributes(dt_onnx_check_t *c, dt_onnx_attributes_t *attributes,
                                      const dt_onnx_at_t *up, const char *field) {
  if (attributes->len > DT_ONNX_MAX_ATTRIBUTES) {
    dt_onnx_at_t at = {up, field, DT_ONNX_MAX_ATTRIBUTES};
    return dt__onnx_fail(c->what, DT_E_LIMIT, &at,
                         attributes->items[DT_ONNX_MAX_ATTRIBUTES].head.offset,
                         "more than %u attributes, the limit", DT_ONNX_MAX_ATTRIBUTES);
  }
  DT_TRY(check_names(c, attributes, up, field));
  for (uint32_t k = 0; k < attributes->len; k++) {
    dt_onnx_at_t at = {up, field, k};
    DT_TRY(check_attribute(c, &attributes->items[k], &at));
  }
  return NULL;
}

// ---- Nodes ----------------------------------------------------------------------------------------
static bool is_imported(const dt_onnx_check_t *c, dt_onnx_str_t domain) {
  for (uint32_t k = 0; k < c->opsets->len; k++)
    if (dt__onnx_str_equal(dt__onnx_domain(c->opsets->items[k].domain), dt__onnx_domain(domain)))
      return true;
  return false;
}

static dt_status_t check_operator(dt_onnx_check_t *c, dt_onnx_node_t *node,
                                  const dt_onnx_at_t *at) {
  if (node->op_type.len == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, node->head.offset, "node \"%s\" has no op_type",
                         dt__onnx_show(node->name).text);
  const dt_onnx_function_t *function =
      dt__onnx_find_function(c->model, node->domain, node->op_type, node->overload);
  c->nodes++;
  if (function) {
    node->function = (uint32_t)(function - c->model->functions.items) + 1;
    dt_onnx_call_t call = {c->body, node->function};
    return DT_VEC_PUSH(&c->scratch, &c->calls, call) ? NULL : DT_NO_MEMORY();
  }
  if (!is_imported(c, node->domain))
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, node->head.offset,
                         "node \"%s\" (%s) is of domain \"%s\", of which the %s imports no "
                         "operator set",
                         dt__onnx_show(node->name).text, dt__onnx_show(node->op_type).text,
                         dt__onnx_show(node->domain).text, c->body > 0 ? "function" : "model");
  return NULL;
}

static dt_status_t check_node(dt_onnx_check_t *c, dt_onnx_node_t *node, const dt_onnx_at_t *at) {
  DT_TRY(dt__onnx_go_on(c->pace, 32 + (uint64_t)node->input.len + node->output.len +
                                     16 * (uint64_t)node->attribute.len));
  DT_TRY(check_operator(c, node, at));
  for (uint32_t k = 0; k < node->input.len; k++)
    if (node->input.items[k].id && !dt__onnx_is_defined(c, node->input.items[k]))
      return dt__onnx_fail(c->what, DT_E_FORMAT, at, node->head.offset,
                           "node \"%s\" (%s) reads \"%s\", which nothing defines, or only a node "
                           "that needs this one",
                           dt__onnx_show(node->name).text, dt__onnx_show(node->op_type).text,
                           dt__onnx_show(node->input.items[k].text).text);
  DT_TRY(dt__onnx_check_attributes(c, &node->attribute, at, "attribute"));
  for (uint32_t k = 0; k < node->output.len; k++)
    if (node->output.items[k].id)
      DT_TRY(dt__onnx_define(c, node->output.items[k], at, node->head.offset));
  return NULL;
}

dt_status_t dt__onnx_check_nodes(dt_onnx_check_t *c, dt_onnx_nodes_t *nodes,
                                 const dt_onnx_at_t *up) {
  DT_TRY(dt__onnx_sort_nodes(c, nodes));
  for (uint32_t k = 0; k < nodes->len; k++) {
    dt_onnx_at_t at = {up, "node", k};
    DT_TRY(check_node(c, &nodes->items[k], &at));
  }
  return NULL;
}

// ---- Graphs ---------------------------------------------------------------------------------------
static dt_status_t check_value(dt_onnx_check_t *c, const dt_onnx_value_t *value,
                               const dt_onnx_at_t *at) {
  DT_TRY(dt__onnx_go_on(c->pace, 16));
  if (!value->type)
    return NULL;
  dt_onnx_at_t inner = {at, "type", -1};
  return dt__onnx_check_type(c, value->type, &inner);
}

static dt_status_t check_inputs(dt_onnx_check_t *c, dt_onnx_graph_t *graph, const dt_onnx_at_t *up,
                                bool main) {
  for (uint32_t k = 0; k < graph->input.len; k++) {
    const dt_onnx_value_t *value = &graph->input.items[k];
    dt_onnx_at_t at = {up, "input", k};
    if (value->name.id == 0)
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, value->head.offset,
                           "an input without a name");
    if (main && (!value->type || value->type->head.has == 0))
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, value->head.offset,
                           "input \"%s\" has no type", dt__onnx_show(value->name.text).text);
    DT_TRY(check_value(c, value, &at));
    DT_TRY(dt__onnx_define(c, value->name, &at, value->head.offset));
  }
  return NULL;
}

static dt_status_t check_initializers(dt_onnx_check_t *c, dt_onnx_graph_t *graph,
                                      const dt_onnx_at_t *up) {
  if (graph->sparse_initializer.len > 0) {
    const dt_onnx_sparse_t *sparse = &graph->sparse_initializer.items[0];
    dt_onnx_at_t at = {up, "sparse_initializer", 0};
    return dt__onnx_fail(
        c->what, DT_E_UNSUPPORTED, &at, sparse->head.offset,
        "initializer \"%s\" is sparse: save it as a dense one",
        dt__onnx_show(sparse->values ? sparse->values->name.text : (dt_onnx_str_t){0}).text);
  }
  for (uint32_t k = 0; k < graph->initializer.len; k++) {
    dt_onnx_tensor_t *tensor = &graph->initializer.items[k];
    dt_onnx_at_t at = {up, "initializer", k};
    DT_TRY(dt__onnx_go_on(c->pace, 16));
    if (tensor->name.id == 0)
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, tensor->head.offset,
                           "an initializer without a name");
    if (c->initialized[tensor->name.id] == c->serial)
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, tensor->head.offset,
                           "initializer \"%s\" is there twice",
                           dt__onnx_show(tensor->name.text).text);
    DT_TRY(dt__onnx_check_tensor(c->what, tensor, &at, &c->any_external));
    c->initialized[tensor->name.id] = c->serial;
    // That of an input is its default.
    if (c->owner[tensor->name.id] != c->serial)
      DT_TRY(dt__onnx_define(c, tensor->name, &at, tensor->head.offset));
  }
  return NULL;
}

static dt_status_t check_outputs(dt_onnx_check_t *c, dt_onnx_graph_t *graph,
                                 const dt_onnx_at_t *up) {
  for (uint32_t k = 0; k < graph->output.len; k++) {
    const dt_onnx_value_t *value = &graph->output.items[k];
    dt_onnx_at_t at = {up, "output", k};
    if (value->name.id == 0)
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, value->head.offset,
                           "an output without a name");
    if (!dt__onnx_is_defined(c, value->name))
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, value->head.offset,
                           "output \"%s\" is defined by no node, input or initializer",
                           dt__onnx_show(value->name.text).text);
    DT_TRY(check_value(c, value, &at));
  }
  for (uint32_t k = 0; k < graph->value_info.len; k++) {
    dt_onnx_at_t at = {up, "value_info", k};
    DT_TRY(check_value(c, &graph->value_info.items[k], &at));
  }
  return NULL;
}

dt_status_t dt__onnx_check_graph(dt_onnx_check_t *c, dt_onnx_graph_t *graph, const dt_onnx_at_t *at,
                                 bool main) {
  uint32_t outer = c->serial, mark = c->undo.len;
  c->serial = ++c->newest;
  DT_TRY(check_inputs(c, graph, at, main));
  DT_TRY(check_initializers(c, graph, at));
  DT_TRY(dt__onnx_check_nodes(c, &graph->node, at));
  DT_TRY(check_outputs(c, graph, at));
  dt__onnx_end_scope(c, mark);
  c->serial = outer;
  return NULL;
}
