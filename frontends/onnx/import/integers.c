// SPDX-License-Identifier: Apache-2.0
// Which inputs of a model are read as numbers: small integer tensors that sizes, axes and the like
// are computed from. Found backwards: from inputs of operators that need numbers, through operators
// that can answer in numbers.
#include "frontends/onnx/import/walk.h"

#include "runtime/base/status.h"

typedef struct needs_t {
  const dt_imp_model_t *model;
  dt_arena_t arena;
} needs_t;

static dt_status_t mark_nodes(needs_t *s, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes,
                              bool *needed);

static bool any_output(const dt_onnx_node_t *node, const bool *needed) {
  for (uint32_t k = 0; k < node->output.len; k++)
    if (node->output.items[k].id && needed[node->output.items[k].id])
      return true;
  return false;
}

// Outputs of the graph are the node's, in order, but of a loop's body: its first one is whether the
// loop goes on.
static dt_status_t mark_graph(needs_t *s, const dt_imp_frame_t *frame, const dt_onnx_node_t *node,
                              const dt_onnx_graph_t *graph, bool *needed) {
  uint32_t first = dt__onnx_str_is(node->op_type, "Loop") ? 1 : 0;
  for (uint32_t k = 0; k < node->output.len && first + k < graph->output.len; k++)
    if (needed[node->output.items[k].id])
      needed[graph->output.items[first + k].name.id] = true;
  return mark_nodes(s, frame, &graph->node, needed);
}

// Names of a function are its own.
static dt_status_t mark_call(needs_t *s, const dt_imp_frame_t *frame, const dt_onnx_node_t *node,
                             bool *needed) {
  dt_imp_frame_t inner = dt__imp_call_frame(s->model, frame, node);
  const dt_onnx_function_t *function = inner.function;
  bool *inside = DT_ARENA_ARRAY(&s->arena, bool, s->model->file->model.n_names);
  if (!inside)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < function->output.len && k < node->output.len; k++)
    inside[function->output.items[k].id] |= needed[node->output.items[k].id];
  DT_TRY(mark_nodes(s, &inner, &function->node, inside));
  for (uint32_t k = 0; k < function->input.len && k < node->input.len; k++)
    needed[node->input.items[k].id] |= inside[function->input.items[k].id];
  return NULL;
}

static dt_status_t mark_node(needs_t *s, const dt_imp_frame_t *frame, const dt_onnx_node_t *node,
                             bool *needed) {
  DT_TRY(dt__onnx_go_on(s->model->pace, 32));
  if (node->function)
    return mark_call(s, frame, node, needed);
  const dt_imp_row_t *row =
      dt__imp_find_row(s->model, node->domain, node->op_type, dt__imp_opset(frame, node->domain));
  if (!row)
    return NULL;
  bool answers = row->fold != dt__imp_fold_none || row->make == dt__imp_make_Identity;
  bool through = answers && any_output(node, needed);
  for (uint32_t k = 0; k < node->input.len; k++)
    if (through || (k < 32 && (row->numbers >> k & 1u)))
      needed[node->input.items[k].id] = true;
  for (uint32_t k = 0; k < node->attribute.len; k++)
    if (node->attribute.items[k].g)
      DT_TRY(mark_graph(s, frame, node, node->attribute.items[k].g, needed));
  needed[0] = false;
  return NULL;
}

static dt_status_t mark_nodes(needs_t *s, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes,
                              bool *needed) {
  for (uint32_t k = nodes->len; k-- > 0;)
    DT_TRY(mark_node(s, frame, &nodes->items[k], needed));
  return NULL;
}

// Whether an input can be of kind DT_INPUT_INTEGERS.
static bool is_small(const dt_onnx_value_t *input) {
  const dt_onnx_tensor_type_t *tensor = input->type->tensor_type;
  const dt_onnx_dtype_t *dtype = tensor ? dt__onnx_dtype(tensor->elem_type) : NULL;
  if (!dtype || !tensor->shape || tensor->shape->dim.len > 1 ||
      (dtype->dtype != DT_I64 && dtype->dtype != DT_I32 && dtype->dtype != DT_BOOL))
    return false;
  const dt_onnx_dim_t *dim = tensor->shape->dim.len ? &tensor->shape->dim.items[0] : NULL;
  return !dim || ((dim->head.has & 1) != 0 && dim->dim_value >= 0 && dim->dim_value <= 64);
}

static dt_status_t find(needs_t *s, dt_imp_model_t *model) {
  const dt_onnx_t *file = model->file;
  dt_imp_frame_t frame = dt__imp_main_frame(model);
  bool *needed = DT_ARENA_ARRAY(&s->arena, bool, file->model.n_names);
  model->integers = DT_ARENA_ARRAY(&model->arena, bool, file->n_inputs + 1);
  if (!needed || !model->integers)
    return DT_NO_MEMORY();
  DT_TRY(mark_nodes(s, &frame, &file->model.graph->node, needed));
  for (uint32_t k = 0; k < file->n_inputs; k++) {
    const dt_onnx_value_t *input = &file->model.graph->input.items[file->inputs[k]];
    model->integers[k] = needed[input->name.id] && is_small(input);
  }
  return NULL;
}

dt_status_t dt__imp_find_integers(dt_imp_model_t *model) {
  needs_t s = {.model = model};
  dt__arena_init(&s.arena, 0);
  dt_status_t status = find(&s, model);
  dt__arena_fini(&s.arena);
  return status;
}

bool dt__imp_needs_numbers(dt_imp_node_t *n, const dt_onnx_graph_t *graph, bool *out) {
  needs_t s = {.model = n->imp->model};
  dt__arena_init(&s.arena, 0);
  bool *needed = DT_ARENA_ARRAY(&s.arena, bool, s.model->file->model.n_names);
  dt_status_t status = needed ? mark_nodes(&s, n->frame, &graph->node, needed) : DT_NO_MEMORY();
  for (uint32_t k = 0; !status && k < graph->input.len; k++)
    out[k] = needed[graph->input.items[k].name.id];
  dt__arena_fini(&s.arena);
  if (status)
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
  bool ok = !status;
  dt_status_free(status);
  return ok;
}
