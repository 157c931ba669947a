// SPDX-License-Identifier: Apache-2.0
// Traces a model: nodes in the file's order, functions put in place of their calls, graphs within
// nodes where operators ask for them.
#include "frontends/onnx/import/walk.h"

#include "ductile/experimental.h"
#include "frontends/onnx/read.h"
#include "runtime/base/status.h"

#include <stdio.h>

#define NODES_A_LOOK 16 // at the call's deadline: folding makes no node of a graph

// ---- What names mean --------------------------------------------------------------------------------
dt_imp_val_t *dt__imp_new_val(dt_imp_t *imp) {
  dt_imp_val_t *value = DT_ARENA_NEW(&imp->arena, dt_imp_val_t);
  if (!value)
    dt_trace_fail(imp->t, DT_E_NO_MEMORY, "out of memory");
  else
    value->scope = imp->scopes.items[imp->scopes.len - 1];
  return value;
}

bool dt__imp_set(dt_imp_t *imp, uint32_t name, dt_imp_val_t *value) {
  dt_imp_undo_t undo = {name, imp->values[name]};
  if (!DT_VEC_PUSH(&imp->arena, &imp->undo, undo)) {
    dt_trace_fail(imp->t, DT_E_NO_MEMORY, "out of memory");
    return false;
  }
  imp->values[name] = value;
  return true;
}

static void undo_to(dt_imp_t *imp, uint32_t mark) {
  while (imp->undo.len > mark) {
    dt_imp_undo_t *undo = &imp->undo.items[--imp->undo.len];
    imp->values[undo->name] = undo->value;
  }
}

// ---- Nodes ------------------------------------------------------------------------------------------
static bool run_nodes(dt_imp_t *imp, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes);

// What messages call a node: by its name, or by its first output where it has none.
static void place(dt_imp_t *imp, const dt_onnx_node_t *node, int64_t opset, uint32_t index) {
  char text[320];
  bool named = node->name.len > 0 || node->output.len == 0;
  dt_onnx_str_t name = named ? node->name : node->output.items[0].text;
  (void)snprintf(text, sizeof(text), "node %s\"%.120s\" (%.100s, operator set %lld)",
                 named ? "" : "of ", dt__onnx_show(name).text, dt__onnx_show(node->op_type).text,
                 (long long)opset);
  (void)dt_trace_at(imp->t, text, (int)index);
}

static bool run_call(dt_imp_t *imp, const dt_imp_frame_t *frame, const dt_onnx_node_t *node) {
  dt_imp_frame_t inner = dt__imp_call_frame(imp->model, frame, node);
  const dt_onnx_function_t *function = inner.function;
  uint32_t mark = imp->undo.len, n_in = function->input.len, n_out = function->output.len;
  dt_imp_val_t **in = DT_ARENA_ARRAY(&imp->arena, dt_imp_val_t *, n_in + 1);
  dt_imp_val_t **out = DT_ARENA_ARRAY(&imp->arena, dt_imp_val_t *, n_out + 1);
  if (!in || !out) {
    dt_trace_fail(imp->t, DT_E_NO_MEMORY, "out of memory");
    return false;
  }
  for (uint32_t k = 0; k < n_in && k < node->input.len; k++)
    in[k] = node->input.items[k].id ? imp->values[node->input.items[k].id] : NULL;
  for (uint32_t k = 0; k < n_in; k++)
    if (!dt__imp_set(imp, function->input.items[k].id, in[k]))
      return false;
  bool ok = run_nodes(imp, &inner, &function->node);
  for (uint32_t k = 0; k < n_out; k++)
    out[k] = imp->values[function->output.items[k].id];
  undo_to(imp, mark);
  for (uint32_t k = 0; ok && k < n_out && k < node->output.len; k++)
    ok = node->output.items[k].id == 0 || dt__imp_set(imp, node->output.items[k].id, out[k]);
  return ok;
}

static bool run_op(dt_imp_node_t *n) {
  const dt_onnx_node_t *node = n->node;
  const dt_imp_row_t *row = dt__imp_find_row(n->imp->model, node->domain, node->op_type, n->opset);
  uint32_t asked = n->imp->asked.len;
  if (!row) {
    dt__imp_user_op(n);
  } else if (!row->fold(n)) {
    n->imp->asked.len = asked; // it answered with nothing of that
    row->make(n);
  }
  dt__imp_take_asked(n->imp, asked);
  for (uint32_t k = 0; k < node->output.len && !dt__imp_failed(n); k++)
    if (node->output.items[k].id && !n->imp->values[node->output.items[k].id])
      dt__imp_fail(n, DT_E_UNSUPPORTED, "output %u is not supported", k);
  return !dt__imp_failed(n);
}

// FNV-1a over the name of the first output, after what stands around the node. It is part of what
// random numbers are (docs/onnx.md), so it stays as it is.
static uint64_t place_in(uint64_t around, const dt_onnx_node_t *node) {
  const uint64_t prime = 0x100000001b3;
  uint64_t hash = around ? around : 0xcbf29ce484222325;
  uint32_t first = 0;
  while (first < node->output.len && node->output.items[first].text.len == 0)
    first++;
  if (first == node->output.len)
    return hash;
  const dt_onnx_str_t name = node->output.items[first].text;
  for (size_t k = 0; k < name.len; k++)
    hash = (hash ^ (unsigned char)name.at[k]) * prime;
  return hash * prime; // as if a 0 ended the name
}

static bool run_node(dt_imp_t *imp, const dt_imp_frame_t *frame, const dt_onnx_node_t *node,
                     uint32_t index) {
  dt_imp_node_t n = {.t = imp->t,
                     .imp = imp,
                     .node = node,
                     .frame = frame,
                     .opset = dt__imp_opset(frame, node->domain)};
  place(imp, node, n.opset, index);
  // Loops that are traced trip by trip, within each other, could go on for ever.
  uint32_t limit = imp->model->file->limits.counted[DT_ONNX_COUNT_NODES];
  if (++imp->n_nodes > limit) {
    dt__imp_fail(&n, DT_E_LIMIT, "more than %u nodes with loops traced trip by trip, the limit",
                 limit);
    return false;
  }
  if (imp->n_nodes % NODES_A_LOOK == 0 && !dt_trace_goes_on(imp->t))
    return false;
  // Names may stand for something of an outer graph until now.
  for (uint32_t k = 0; k < node->output.len; k++)
    if (node->output.items[k].id && !dt__imp_set(imp, node->output.items[k].id, NULL))
      return false;
  uint64_t around = imp->place;
  imp->place = place_in(around, node);
  bool ok = node->function ? run_call(imp, frame, node) : run_op(&n);
  imp->place = around;
  return ok;
}

static bool run_nodes(dt_imp_t *imp, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes) {
  for (uint32_t k = 0; k < nodes->len; k++)
    if (!run_node(imp, frame, &nodes->items[k], k))
      return false;
  return true;
}

// ---- Graphs -----------------------------------------------------------------------------------------
static bool set_initializers(dt_imp_t *imp, const dt_onnx_graph_t *graph) {
  for (uint32_t k = 0; k < graph->initializer.len; k++) {
    dt_imp_val_t *value = dt__imp_new_val(imp);
    if (!value || !dt__imp_set(imp, graph->initializer.items[k].name.id, value))
      return false;
    value->data = &graph->initializer.items[k];
  }
  return true;
}

bool dt__imp_run_graph(dt_imp_node_t *n, const dt_onnx_graph_t *graph, uint32_t n_in,
                       const dt_imp_val_t *const *in, const dt_imp_val_t **out) {
  dt_imp_t *imp = n->imp;
  uint32_t mark = imp->undo.len;
  if (n_in != graph->input.len) {
    dt__imp_fail(n, DT_E_FORMAT, "a graph within the node has %u inputs, %u are needed",
                 graph->input.len, n_in);
    return false;
  }
  bool ok = set_initializers(imp, graph);
  for (uint32_t k = 0; ok && k < n_in; k++)
    ok = dt__imp_set(imp, graph->input.items[k].name.id, (dt_imp_val_t *)in[k]);
  ok = ok && run_nodes(imp, n->frame, &graph->node);
  for (uint32_t k = 0; k < graph->output.len; k++)
    out[k] = ok ? imp->values[graph->output.items[k].name.id] : NULL;
  undo_to(imp, mark);
  if (ok)
    place(imp, n->node, n->opset, 0);
  return ok;
}

void dt__imp_enter_body(dt_imp_node_t *n) {
  dt_imp_t *imp = n->imp;
  uint32_t scope = ++imp->n_scopes;
  if (!DT_VEC_PUSH(&imp->arena, &imp->scopes, scope))
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
}

void dt__imp_leave_body(dt_imp_node_t *n) {
  if (n->imp->scopes.len > 1)
    n->imp->scopes.len--;
}

bool dt__imp_run_trip(dt_imp_node_t *n, dt_value_t index, const dt_onnx_graph_t *graph,
                      uint32_t n_in, const dt_imp_val_t *const *in, const dt_imp_val_t **out) {
  dt_imp_t *imp = n->imp;
  if (!DT_VEC_PUSH(&imp->arena, &imp->trips, index)) {
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
    return false;
  }
  bool ok = dt__imp_run_graph(n, graph, n_in, in, out);
  imp->trips.len--;
  return ok;
}

// ---- The program ------------------------------------------------------------------------------------
// Inputs of kind DT_INPUT_INTEGERS are numbers.
static void set_integers(dt_imp_t *imp, dt_imp_val_t *value, dt_value_t in, dt_dtype_t dtype) {
  dt_imp_node_t n = {.t = imp->t, .imp = imp};
  uint32_t len = 0;
  const dt_sym_t *syms = dt_int_elements(imp->t, in, &len);
  int64_t size = len;
  dt_imp_known_t *known =
      syms ? dt__imp_known_make(&n, dtype, dt_value_rank(imp->t, in), &size) : NULL;
  for (uint32_t k = 0; known && k < len; k++)
    known->items[k].sym = syms[k];
  value->known = known;
}

static bool set_inputs(dt_imp_t *imp, const dt_value_t *in) {
  const dt_onnx_t *file = imp->model->file;
  for (uint32_t k = 0; k < file->n_inputs; k++) {
    const dt_onnx_value_t *input = &file->model.graph->input.items[file->inputs[k]];
    dt_imp_val_t *value = dt__imp_new_val(imp);
    if (!value || !dt__imp_set(imp, input->name.id, value))
      return false;
    if (imp->model->integers[k])
      set_integers(imp, value, in[k], dt__onnx_dtype(input->type->tensor_type->elem_type)->dtype);
    else
      value->tensor = in[k];
  }
  if (imp->model->seed_input)
    imp->seed = in[file->n_inputs];
  return true;
}

static void read_outputs(dt_imp_t *imp, dt_value_t *out) {
  const dt_onnx_graph_t *graph = imp->model->file->model.graph;
  dt_imp_node_t n = {.t = imp->t, .imp = imp};
  for (uint32_t k = 0; k < graph->output.len; k++) {
    const dt_imp_val_t *value = imp->values[graph->output.items[k].name.id];
    if (value && value->list)
      dt__imp_fail(&n, DT_E_UNSUPPORTED,
                   "output \"%s\" of the model is a sequence or optional; calls return tensors",
                   dt__onnx_show(graph->output.items[k].name.text).text);
    out[k] = dt__imp_val_tensor(&n, value);
  }
}

static bool run_model(dt_imp_t *imp) {
  const dt_onnx_nodes_t *nodes = &imp->model->file->model.graph->node;
  dt_imp_frame_t frame = dt__imp_main_frame(imp->model);
  for (uint32_t k = 0; k < nodes->len; k++)
    if (!run_node(imp, &frame, &nodes->items[k], k)) {
      if (imp->model->failed)
        *imp->model->failed = k;
      return false;
    }
  return true;
}

static void trace_model(dt_imp_t *imp, const dt_value_t *in, dt_value_t *out) {
  const dt_onnx_model_t *model = &imp->model->file->model;
  uint32_t outside = 0;
  imp->values = DT_ARENA_ARRAY(&imp->arena, dt_imp_val_t *, model->n_names + 1);
  imp->taken = DT_ARENA_ARRAY(&imp->arena, bool, imp->model->n_constants + 1);
  if (!imp->values || !imp->taken || !DT_VEC_PUSH(&imp->arena, &imp->scopes, outside)) {
    dt_trace_fail(imp->t, DT_E_NO_MEMORY, "out of memory");
    return;
  }
  if (set_initializers(imp, model->graph) && set_inputs(imp, in) && run_model(imp))
    read_outputs(imp, out);
  dt__imp_take_asked(imp, 0);
}

dt_status_t dt__imp_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  dt_imp_t imp = {.model = closure, .t = trace};
  dt__arena_init(&imp.arena, 0);
  trace_model(&imp, in, out);
  for (uint32_t k = 0; k < imp.made.len; k++)
    dt_tensor_release(imp.made.items[k].data);
  dt__arena_fini(&imp.arena);
  dt_trace_recode(trace, DT_E_ARGUMENT, DT_E_FORMAT); // what a builder was told, the model said
  return dt_trace_status(trace);
}
