// SPDX-License-Identifier: Apache-2.0
// What a model is, as text for people and as JSON lines. Both come from the same facts, gathered
// once.
#include "frontends/onnx/onnx.h"

#include "frontends/onnx/visit.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <stdlib.h>
#include <string.h>

// ---- Facts ----------------------------------------------------------------------------------------
typedef struct op_t {
  const dt_onnx_node_t *node; // the first of its kind
  uint64_t count;
} op_t;

typedef struct tally_t {
  uint64_t count, bytes;
} tally_t;

typedef struct facts_t {
  dt_arena_t arena;
  const dt_onnx_t *file;
  DT_VEC(const dt_onnx_node_t *) nodes; // all, those within nodes and functions, too
  DT_VEC(op_t) ops;
  uint64_t graphs; // within nodes
  tally_t *by_dtype;
  bool *defaults;                  // by a name's id: the model's graph has an initializer for it
  tally_t initializers, constants; // constants: tensors in attributes
} facts_t;

// The last step of the way: "initializer", or a field of an attribute.
static bool is_field(const dt_onnx_at_t *at, const char *name) {
  return at && strcmp(at->field, name) == 0;
}

static dt_status_t add_fact(void *user, const dt_onnx_message_t *message, void *out,
                            const dt_onnx_at_t *at) {
  facts_t *facts = user;
  if (message->counted == DT_ONNX_COUNT_NODES)
    return DT_VEC_PUSH(&facts->arena, &facts->nodes, out) ? NULL : DT_NO_MEMORY();
  if (message->counted == DT_ONNX_COUNT_GRAPHS)
    facts->graphs += at && at->up;
  if (message != &dt__onnx_tensor_message)
    return NULL;
  const dt_onnx_tensor_t *tensor = out;
  tally_t *tally = is_field(at, "initializer") ? &facts->initializers : &facts->constants;
  tally->count++;
  tally->bytes += tensor->bytes;
  if (tally == &facts->initializers) {
    facts->by_dtype[tensor->data_type].count++;
    facts->by_dtype[tensor->data_type].bytes += tensor->bytes;
  }
  return NULL;
}

static int compare_ops(const dt_onnx_node_t *a, const dt_onnx_node_t *b) {
  int order = dt__onnx_str_compare(dt__onnx_domain(a->domain), dt__onnx_domain(b->domain));
  return order ? order : dt__onnx_str_compare(a->op_type, b->op_type);
}

static int compare_nodes(const void *left, const void *right) {
  return compare_ops(*(const dt_onnx_node_t *const *)left, *(const dt_onnx_node_t *const *)right);
}

static int compare_text(dt_onnx_str_t a, dt_onnx_str_t b) {
  size_t len = a.len < b.len ? a.len : b.len;
  int order = len ? memcmp(a.at, b.at, len) : 0;
  return order ? order : (a.len > b.len) - (a.len < b.len);
}

// The most frequent first, then by name.
static int compare_counts(const void *left, const void *right) {
  const op_t *a = left, *b = right;
  if (a->count != b->count)
    return a->count > b->count ? -1 : 1;
  int order = compare_text(a->node->op_type, b->node->op_type);
  return order ? order
               : compare_text(dt__onnx_domain(a->node->domain), dt__onnx_domain(b->node->domain));
}

static dt_status_t gather(facts_t *facts, const dt_onnx_t *file) {
  facts->file = file;
  facts->by_dtype = DT_ARENA_ARRAY(&facts->arena, tally_t, dt__onnx_n_dtypes + 1);
  facts->defaults = DT_ARENA_ARRAY(&facts->arena, bool, file->model.n_names);
  if (!facts->by_dtype || !facts->defaults)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < file->model.graph->initializer.len; k++)
    facts->defaults[file->model.graph->initializer.items[k].name.id] = true;
  // Visiting changes nothing here.
  dt_onnx_model_t *model = (dt_onnx_model_t *)(uintptr_t)&file->model;
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_fact, facts));
  if (facts->nodes.len > 0)
    qsort(facts->nodes.items, facts->nodes.len, sizeof facts->nodes.items[0], compare_nodes);
  for (uint32_t k = 0; k < facts->nodes.len; k++) {
    op_t op = {facts->nodes.items[k], 0};
    if (k == 0 || compare_ops(facts->nodes.items[k - 1], op.node) != 0)
      if (!DT_VEC_PUSH(&facts->arena, &facts->ops, op))
        return DT_NO_MEMORY();
    facts->ops.items[facts->ops.len - 1].count++;
  }
  if (facts->ops.len > 0)
    qsort(facts->ops.items, facts->ops.len, sizeof facts->ops.items[0], compare_counts);
  return NULL;
}

// ---- Texts ----------------------------------------------------------------------------------------
// As a JSON string holds it, also in text for people: names are a file's bytes.
static void put_escaped(dt_text_t *text, dt_onnx_str_t str) {
  dt__text_json(text, str.at, str.len);
}

static void put_string(dt_text_t *text, dt_onnx_str_t str) {
  dt__text_put(text, "\"");
  put_escaped(text, str);
  dt__text_put(text, "\"");
}

static dt_onnx_str_t str_of(const char *text) { return (dt_onnx_str_t){text, strlen(text)}; }

static dt_onnx_str_t shown_domain(dt_onnx_str_t domain) {
  return dt__onnx_domain(domain).len ? domain : str_of("ai.onnx");
}

static void put_dims(dt_text_t *text, const dt_onnx_shape_t *shape, bool json) {
  if (!shape) {
    dt__text_put(text, json ? "null" : "of any rank");
    return;
  }
  dt__text_put(text, "[");
  for (uint32_t k = 0; k < shape->dim.len; k++) {
    const dt_onnx_dim_t *dim = &shape->dim.items[k];
    bool known = (dim->head.has & 1) != 0 && dim->dim_value >= 0;
    dt__text_put(text, k ? (json ? "," : ", ") : "");
    if (known)
      dt__text_printf(text, "%lld", (long long)dim->dim_value);
    else if (dim->dim_param.len > 0)
      (json ? put_string : put_escaped)(text, dim->dim_param);
    else
      dt__text_put(text, json ? "null" : "?");
  }
  dt__text_put(text, "]");
}

static const char *dtype_name(int64_t value) {
  const dt_onnx_dtype_t *dtype = dt__onnx_dtype(value);
  return dtype ? dtype->name : "?";
}

static void put_tensor_type(dt_text_t *text, const dt_onnx_tensor_type_t *type) {
  dt__text_printf(text, "%s ", dtype_name(type->elem_type));
  put_dims(text, type->shape, false);
}

// "FLOAT [batch, 3]", "sequence(FLOAT [2])"
static void put_type(dt_text_t *text, const dt_onnx_type_t *type) {
  if (!type || type->head.has == 0) {
    dt__text_put(text, "of no type");
  } else if (type->tensor_type) {
    put_tensor_type(text, type->tensor_type);
  } else if (type->opaque_type) {
    dt__text_put(text, "opaque ");
    put_escaped(text, type->opaque_type->name);
  } else if (type->sparse_tensor_type) {
    dt__text_put(text, "sparse ");
    put_tensor_type(text, type->sparse_tensor_type);
  } else if (type->map_type) {
    dt__text_printf(text, "map(%s, ", dtype_name(type->map_type->key_type));
    put_type(text, type->map_type->elem_type);
    dt__text_put(text, ")");
  } else if (type->sequence_type) {
    dt__text_put(text, "sequence(");
    put_type(text, type->sequence_type->elem_type);
    dt__text_put(text, ")");
  } else if (type->optional_type) {
    dt__text_put(text, "optional(");
    put_type(text, type->optional_type->elem_type);
    dt__text_put(text, ")");
  }
}

static bool has_default(const facts_t *facts, const dt_onnx_values_t *values, uint32_t k) {
  return values == &facts->file->model.graph->input && facts->defaults[values->items[k].name.id];
}

// ---- Text for people ------------------------------------------------------------------------------
static void text_bytes(dt_text_t *text, uint64_t bytes) {
  if (bytes < 10000)
    dt__text_printf(text, "%llu bytes", (unsigned long long)bytes);
  else if (bytes < 10000000)
    dt__text_printf(text, "%.1f kB", (double)bytes / 1e3);
  else if (bytes < (uint64_t)10000000000)
    dt__text_printf(text, "%.1f MB", (double)bytes / 1e6);
  else
    dt__text_printf(text, "%.1f GB", (double)bytes / 1e9);
}

static void text_head(dt_text_t *text, const facts_t *facts) {
  const dt_onnx_model_t *model = &facts->file->model;
  put_escaped(text, str_of(facts->file->what));
  dt__text_printf(text, ": ONNX, IR version %lld, ", (long long)model->ir_version);
  text_bytes(text, facts->file->bytes.bytes);
  dt__text_put(text, "\n");
  if (model->producer_name.len > 0) {
    dt__text_put(text, "producer: ");
    put_escaped(text, model->producer_name);
    dt__text_put(text, model->producer_version.len ? " " : "");
    put_escaped(text, model->producer_version);
    dt__text_put(text, "\n");
  }
  dt__text_put(text, "operator sets:");
  for (uint32_t k = 0; k < model->opset_import.len; k++) {
    dt__text_put(text, k ? ", " : " ");
    put_escaped(text, shown_domain(model->opset_import.items[k].domain));
    dt__text_printf(text, " %lld", (long long)model->opset_import.items[k].version);
  }
  dt__text_put(text, "\n");
  for (uint32_t k = 0; k < model->metadata_props.len; k++) {
    dt__text_put(text, k ? "  " : "metadata:\n  ");
    put_escaped(text, model->metadata_props.items[k].key);
    dt__text_put(text, ": ");
    put_escaped(text, model->metadata_props.items[k].value);
    dt__text_put(text, "\n");
  }
}

static void text_values(dt_text_t *text, const facts_t *facts, const char *title,
                        const dt_onnx_values_t *values) {
  dt__text_printf(text, "%s:%s\n", title, values->len ? "" : " none");
  for (uint32_t k = 0; k < values->len; k++) {
    dt__text_put(text, "  ");
    put_escaped(text, values->items[k].name.text);
    dt__text_put(text, ": ");
    put_type(text, values->items[k].type);
    if (has_default(facts, values, k))
      dt__text_put(text, ", with a default");
    dt__text_put(text, "\n");
  }
}

static void text_tensors(dt_text_t *text, const facts_t *facts) {
  dt__text_printf(text, "initializers: %llu, ", (unsigned long long)facts->initializers.count);
  text_bytes(text, facts->initializers.bytes);
  dt__text_put(text, "\n");
  for (uint32_t k = 0; k < dt__onnx_n_dtypes; k++) {
    const tally_t *tally = &facts->by_dtype[dt__onnx_dtypes[k].value];
    if (tally->count == 0)
      continue;
    dt__text_printf(text, "  %s: %llu, ", dt__onnx_dtypes[k].name,
                    (unsigned long long)tally->count);
    text_bytes(text, tally->bytes);
    dt__text_put(text, "\n");
  }
  if (facts->constants.count > 0) {
    dt__text_printf(text, "tensors in attributes: %llu, ",
                    (unsigned long long)facts->constants.count);
    text_bytes(text, facts->constants.bytes);
    dt__text_put(text, "\n");
  }
}

static void text_ops(dt_text_t *text, const facts_t *facts) {
  dt__text_printf(text, "nodes: %u of %u operators", facts->nodes.len, facts->ops.len);
  if (facts->graphs > 0)
    dt__text_printf(text, ", %llu graphs within them", (unsigned long long)facts->graphs);
  dt__text_put(text, "\n");
  for (uint32_t k = 0; k < facts->ops.len; k++) {
    const op_t *op = &facts->ops.items[k];
    dt__text_printf(text, "  %6llu ", (unsigned long long)op->count);
    put_escaped(text, op->node->op_type);
    if (dt__onnx_domain(op->node->domain).len > 0) {
      dt__text_put(text, " of ");
      put_escaped(text, op->node->domain);
    }
    dt__text_put(text, op->node->function ? ", a function of the model\n" : "\n");
  }
}

static void text_rest(dt_text_t *text, const facts_t *facts) {
  const dt_onnx_t *file = facts->file;
  for (uint32_t k = 0; k < file->model.functions.len; k++) {
    const dt_onnx_function_t *f = &file->model.functions.items[k];
    dt__text_put(text, k ? "  " : "functions:\n  ");
    put_escaped(text, f->name);
    dt__text_put(text, " of ");
    put_escaped(text, shown_domain(f->domain));
    if (f->overload.len > 0) {
      dt__text_put(text, ", overload ");
      put_escaped(text, f->overload);
    }
    dt__text_printf(text, ": inputs %u, outputs %u, nodes %u\n", f->input.len, f->output.len,
                    f->node.len);
  }
  for (uint32_t k = 0; k < file->externals.files.len; k++) {
    const dt_onnx_external_t *external = &file->externals.files.items[k];
    dt__text_put(text, k ? "  " : "external files:\n  ");
    put_escaped(text, str_of(external->name));
    dt__text_put(text, ": ");
    text_bytes(text, external->file_bytes);
    dt__text_printf(text, ", of which %u tensors take ", external->tensors);
    text_bytes(text, external->tensor_bytes);
    dt__text_put(text, external->location.has_checksum ? ", with a checksum\n" : "\n");
  }
}

static void put_text(dt_text_t *text, const facts_t *facts) {
  text_head(text, facts);
  text_values(text, facts, "inputs", &facts->file->model.graph->input);
  text_values(text, facts, "outputs", &facts->file->model.graph->output);
  text_tensors(text, facts);
  text_ops(text, facts);
  text_rest(text, facts);
}

// ---- JSON lines -----------------------------------------------------------------------------------
static void json_text(dt_text_t *text, const char *key, dt_onnx_str_t value) {
  dt__text_printf(text, ",\"%s\":", key);
  put_string(text, value);
}

static void json_number(dt_text_t *text, const char *key, uint64_t value) {
  dt__text_printf(text, ",\"%s\":%lld", key, (long long)value);
}

static void json_begin(dt_text_t *text, const char *event) {
  dt__text_printf(text, "{\"event\":\"%s\"", event);
}

static void json_model(dt_text_t *text, const facts_t *facts) {
  const dt_onnx_model_t *model = &facts->file->model;
  json_begin(text, "model");
  json_text(text, "path", str_of(facts->file->what));
  json_number(text, "bytes", facts->file->bytes.bytes);
  json_number(text, "ir_version", (uint64_t)model->ir_version);
  json_text(text, "producer", model->producer_name);
  json_text(text, "producer_version", model->producer_version);
  json_text(text, "domain", model->domain);
  json_number(text, "model_version", (uint64_t)model->model_version);
  json_text(text, "graph", model->graph->name);
  json_number(text, "nodes", facts->nodes.len);
  json_number(text, "subgraphs", facts->graphs);
  json_number(text, "initializers", facts->initializers.count);
  json_number(text, "initializer_bytes", facts->initializers.bytes);
  json_number(text, "attribute_tensors", facts->constants.count);
  json_number(text, "attribute_tensor_bytes", facts->constants.bytes);
  dt__text_put(text, "}\n");
  for (uint32_t k = 0; k < model->opset_import.len; k++) {
    json_begin(text, "opset");
    json_text(text, "domain", shown_domain(model->opset_import.items[k].domain));
    json_number(text, "version", (uint64_t)model->opset_import.items[k].version);
    dt__text_put(text, "}\n");
  }
  for (uint32_t k = 0; k < model->metadata_props.len; k++) {
    json_begin(text, "metadata");
    json_text(text, "key", model->metadata_props.items[k].key);
    json_text(text, "value", model->metadata_props.items[k].value);
    dt__text_put(text, "}\n");
  }
}

static void json_values(dt_text_t *text, const facts_t *facts, const char *event,
                        const dt_onnx_values_t *values) {
  for (uint32_t k = 0; k < values->len; k++) {
    const dt_onnx_value_t *value = &values->items[k];
    const dt_onnx_tensor_type_t *tensor = value->type ? value->type->tensor_type : NULL;
    json_begin(text, event);
    json_text(text, "name", value->name.text);
    dt__text_put(text, ",\"type\":\"");
    put_type(text, value->type);
    dt__text_put(text, "\",\"dtype\":");
    if (tensor)
      put_string(text, str_of(dtype_name(tensor->elem_type)));
    else
      dt__text_put(text, "null");
    dt__text_put(text, ",\"dims\":");
    put_dims(text, tensor ? tensor->shape : NULL, true);
    if (values == &facts->file->model.graph->input)
      dt__text_printf(text, ",\"default\":%s", has_default(facts, values, k) ? "true" : "false");
    dt__text_put(text, "}\n");
  }
}

static void json_counts(dt_text_t *text, const facts_t *facts) {
  for (uint32_t k = 0; k < dt__onnx_n_dtypes; k++) {
    const tally_t *tally = &facts->by_dtype[dt__onnx_dtypes[k].value];
    if (tally->count == 0)
      continue;
    json_begin(text, "initializers");
    json_text(text, "dtype", str_of(dt__onnx_dtypes[k].name));
    json_number(text, "count", tally->count);
    json_number(text, "bytes", tally->bytes);
    dt__text_put(text, "}\n");
  }
  for (uint32_t k = 0; k < facts->ops.len; k++) {
    const op_t *op = &facts->ops.items[k];
    json_begin(text, "operator");
    json_text(text, "domain", shown_domain(op->node->domain));
    json_text(text, "op_type", op->node->op_type);
    json_number(text, "count", op->count);
    dt__text_printf(text, ",\"function\":%s}\n", op->node->function ? "true" : "false");
  }
}

static void json_rest(dt_text_t *text, const facts_t *facts) {
  const dt_onnx_t *file = facts->file;
  for (uint32_t k = 0; k < file->model.functions.len; k++) {
    const dt_onnx_function_t *f = &file->model.functions.items[k];
    json_begin(text, "function");
    json_text(text, "domain", shown_domain(f->domain));
    json_text(text, "name", f->name);
    json_text(text, "overload", f->overload);
    json_number(text, "inputs", f->input.len);
    json_number(text, "outputs", f->output.len);
    json_number(text, "nodes", f->node.len);
    dt__text_put(text, "}\n");
  }
  for (uint32_t k = 0; k < file->externals.files.len; k++) {
    const dt_onnx_external_t *external = &file->externals.files.items[k];
    json_begin(text, "external");
    json_text(text, "path", str_of(external->name));
    json_number(text, "bytes", external->file_bytes);
    json_number(text, "tensors", external->tensors);
    json_number(text, "tensor_bytes", external->tensor_bytes);
    dt__text_printf(text, ",\"checksum\":%s}\n",
                    external->location.has_checksum ? "true" : "false");
  }
}

static void put_json(dt_text_t *text, const facts_t *facts) {
  json_model(text, facts);
  json_values(text, facts, "input", &facts->file->model.graph->input);
  json_values(text, facts, "output", &facts->file->model.graph->output);
  json_counts(text, facts);
  json_rest(text, facts);
}

// ---- Both -----------------------------------------------------------------------------------------
static dt_status_t report(const dt_onnx_t *model, const char *function,
                          void (*put)(dt_text_t *text, const facts_t *facts), char **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: out is NULL", function);
  *out = NULL;
  if (!model)
    return DT_FAIL(DT_E_ARGUMENT, "%s: model is NULL", function);
  facts_t facts = {0};
  dt_text_t text;
  dt__text_init(&text);
  dt__arena_init(&facts.arena, 0);
  dt_status_t status = gather(&facts, model);
  if (!status) {
    put(&text, &facts);
    status = dt__text_status(&text);
  }
  dt__arena_fini(&facts.arena);
  if (status)
    dt__text_fini(&text);
  else
    *out = text.data; // the writer's memory is the heap's, as dt_text_free expects
  return status;
}

dt_status_t dt_onnx_report_text(const dt_onnx_t *model, char **out) {
  return report(model, "dt_onnx_report_text", put_text, out);
}

dt_status_t dt_onnx_report_json(const dt_onnx_t *model, char **out) {
  return report(model, "dt_onnx_report_json", put_json, out);
}
