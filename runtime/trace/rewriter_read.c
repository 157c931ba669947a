// SPDX-License-Identifier: Apache-2.0
// What a pass can see of a graph.
#include "runtime/trace/rewriter.h"

#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "runtime/base/options.h"
#include "runtime/base/watch.h"

#include <string.h>

#define NODES_A_LOOK 64

static const dt_value_t none_value = {0};

dt_trace_t *dt_rewriter_trace(dt_rewriter_t *r) { return r ? &r->trace : NULL; }

dt_status_t dt_rewriter_failure(dt_rewriter_t *r) {
  if (!r)
    return DT_FAIL(DT_E_ARGUMENT, "rewriter: NULL");
  dt_status_t status = r->trace.status;
  r->trace.status = NULL;
  return status;
}

dt_point_t dt_rewriter_point(const dt_rewriter_t *r) { return r ? r->site->point : (dt_point_t)0; }
dt_device_t dt_rewriter_device(const dt_rewriter_t *r) { return r ? r->site->device : DT_CPU; }
uint32_t dt_rewriter_depth(const dt_rewriter_t *r) { return r ? r->depth : 0; }

// ---- Walking ------------------------------------------------------------------------------------
// A getter's node: what is wrong with a value shows where it is used next.
static uint32_t find(dt_rewriter_t *r, dt_value_t value) {
  uint32_t id = 0;
  dt_status_t status = r ? dt__rewriter_find(r, value, "the node", &id) : NULL;
  dt_status_free(status);
  return id;
}

static dt_value_t value_of(const dt_rewriter_t *r, uint32_t id) {
  return dt__trace_value(&r->trace, (dt_node_id_t){id});
}

uint32_t dt_rewriter_length(dt_rewriter_t *r) {
  uint32_t n = 0;
  if (!r || !dt__rewriter_sync(r))
    return 0;
  for (uint32_t id = r->nodes.items[0].next; id; id = r->nodes.items[id].next)
    n++;
  return n;
}

dt_value_t dt_rewriter_next(dt_rewriter_t *r, dt_value_t after) {
  uint32_t id = r && after.id ? find(r, after) : 0;
  if (!r || (after.id && !id) || !dt__rewriter_sync(r))
    return none_value;
  if (++r->walked % NODES_A_LOOK == 0 && dt__watch_is_over(r->arena->watch))
    return none_value;
  return value_of(r, r->nodes.items[id].next);
}

dt_value_t dt_rewriter_input(dt_rewriter_t *r, dt_value_t node, uint32_t index) {
  uint32_t id = find(r, node);
  if (!id || index >= r->work.nodes.items[id - 1].n_inputs)
    return none_value;
  return value_of(r, r->work.nodes.items[id - 1].inputs[index].id);
}

dt_value_t dt_rewriter_user(dt_rewriter_t *r, dt_value_t node, uint32_t index) {
  uint32_t id = find(r, node);
  const dt_node_use_t *use = id ? r->nodes.items[id].uses : NULL;
  for (uint32_t k = 0; use && k < index; k++)
    use = use->next;
  return use ? value_of(r, use->user) : none_value;
}

dt_value_t dt_rewriter_output(dt_rewriter_t *r, uint32_t index) {
  if (!r)
    return none_value;
  uint32_t n = r->work.outputs.len;
  if (index < n)
    return value_of(r, r->work.outputs.items[index].id);
  return index - n < r->work.updates.len ? value_of(r, r->work.updates.items[index - n].value.id)
                                         : none_value;
}

// ---- One node -----------------------------------------------------------------------------------
static const char *name_of(const dt_graph_t *graph, const dt_node_t *node) {
  const char *name = NULL;
  if (node->op == DT_OP_input)
    name = graph->inputs.items[node->attrs->index].name;
  else if (node->op == DT_OP_constant)
    name = graph->constants.items[node->attrs->index].name;
  else if (node->op == DT_OP_external)
    name = dt__graph_external(graph, node)->name;
  return name ? name : "";
}

static uint32_t count_uses(const dt_rewriter_t *r, uint32_t id) {
  uint32_t n = 0;
  for (const dt_node_use_t *use = r->nodes.items[id].uses; use; use = use->next)
    n++;
  return n;
}

// Sizes as the trace's functions get them.
static dt_sym_t told(const dt_trace_t *trace, dt_sym_t e) {
  return (dt_sym_t){.id = e.id ? trace->tag << DT_TRACE_TAG_SHIFT | e.id : 0};
}

void dt__node_info(const dt_trace_t *trace, const dt_node_t *node, dt_node_info_t *out) {
  const dt_attrs_t *attrs = node->attrs;
  *out = (dt_node_info_t){
      .struct_size = sizeof(*out),
      .dtype = node->dtype,
      .op = dt__op_info(node->op)->name,
      .name = name_of(trace->graph, node),
      .file = node->origin.file ? node->origin.file : "",
      .line = node->origin.line,
      .n_inputs = node->n_inputs,
      .rank = node->rank,
      .index = attrs->index,
      .mode = attrs->mode,
      .keepdims = attrs->keepdims,
      .n_axes = attrs->n_axes,
      .n_sizes = attrs->n_syms,
  };
  memcpy(out->axes, attrs->axes, sizeof(out->axes));
  for (uint32_t k = 0; k < attrs->n_syms; k++)
    out->sizes[k] = told(trace, attrs->syms[k]);
  memcpy(out->ints, attrs->ints, sizeof(out->ints));
  memcpy(out->floats, attrs->floats, sizeof(out->floats));
}

dt_status_t dt_rewriter_node(dt_rewriter_t *r, dt_value_t value, dt_node_info_t *info) {
  uint32_t id = 0;
  dt_node_info_t all;
  if (!r || !info)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", r ? "info" : "rewriter");
  DT_TRY(DT_RESULT_CHECK(dt_node_info_t, info));
  DT_TRY(dt__rewriter_find(r, value, "the node", &id));
  dt__node_info(&r->trace, &r->work.nodes.items[id - 1], &all);
  all.n_users = count_uses(r, id);
  all.n_outputs = r->nodes.items[id].n_results;
  DT_RESULT_GIVE(dt_node_info_t, info, &all);
  return NULL;
}

const dt_op_attr_t *dt_rewriter_attr(dt_rewriter_t *r, dt_value_t value, const char *name,
                                     dt_op_attr_kind_t kind) {
  uint32_t id = find(r, value);
  const dt_node_t *node = id ? &r->work.nodes.items[id - 1] : NULL;
  if (!node || node->op != DT_OP_external)
    return NULL;
  const dt_graph_external_t *external = dt__graph_external(&r->work, node);
  return dt__attr_find(external->attrs, external->n_attrs, name, kind);
}

dt_status_t dt_rewriter_constant(dt_rewriter_t *r, dt_value_t value, const void **out_data,
                                 uint64_t *out_bytes) {
  uint32_t id = 0;
  if (!r || !out_data || !out_bytes)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL",
                   !r         ? "rewriter"
                   : out_data ? "out_bytes"
                              : "out_data");
  *out_data = NULL;
  *out_bytes = 0;
  DT_TRY(dt__rewriter_find(r, value, "the node", &id));
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  if (node->op != DT_OP_constant)
    return DT_FAIL(DT_E_ARGUMENT, "node %%%u (%s) is no constant", id, dt__op_info(node->op)->name);
  const dt_graph_constant_t *constant = &r->work.constants.items[node->attrs->index];
  if (!r->site->traced)
    return DT_FAIL(DT_E_STATE,
                   "constant \"%s\": its elements may be updated after the trace; read them at "
                   "point traced",
                   constant->name);
  dt_constant_taken(&r->trace, constant->name);
  DT_TRY(dt_rewriter_failure(r));
  int64_t bytes = 0;
  (void)dt__dtype_bytes(constant->dtype, constant->rank, constant->sizes, &bytes);
  const void *data = constant->data;
  if ((uintptr_t)data % dt_dtype_size(constant->dtype) != 0) { // where a file has it
    data = dt__arena_copy(r->arena, data, (size_t)bytes);
    if (!data)
      return DT_NO_MEMORY();
  }
  *out_data = data;
  *out_bytes = (uint64_t)bytes;
  return NULL;
}

static dt_status_t print_graph(dt_rewriter_t *r, dt_text_t *text) {
  dt_graph_t *graph = NULL;
  DT_TRY(dt__rewriter_emit(r, &graph));
  dt__graph_print(graph, text);
  return NULL;
}

dt_status_t dt_rewriter_text(dt_rewriter_t *r, char **out) {
  if (!r || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", r ? "out" : "rewriter");
  *out = NULL;
  dt_text_t text;
  dt_status_t status = NULL;
  dt__text_init(&text);
  if (r->site->program)
    r->site->print(r->site->program, &text);
  else
    status = print_graph(r, &text);
  if (!status)
    status = dt__text_status(&text);
  if (!status)
    *out = dt__strdup(dt__text_str(&text));
  dt__text_fini(&text);
  return status || *out ? status : DT_NO_MEMORY();
}
