// SPDX-License-Identifier: Apache-2.0
// Bodies of `cond`, `switch`, `while`, `associative_scan` and `call`: cuts the traced nodes of a
// body out of the program's graph into a graph of its own. A body is a range of nodes. Values that
// it reads from before the range become operands; so do constants, which stay the program's.
#include "runtime/trace/builder.h"

#include <string.h>

bool dt__trace_has_ended(const dt_trace_t *trace, dt_value_t x) {
  for (uint32_t k = 0; k < trace->bodies.len; k++)
    if (x.id > trace->bodies.items[k].begin && x.id <= trace->bodies.items[k].end)
      return true;
  return false;
}

// ---- The end of a body --------------------------------------------------------------------------
// The same constant outside of the body, where it can be asked for again.
static dt_status_t lift_constant(dt_trace_t *trace, dt_node_id_t id) {
  const dt_node_t *node = dt__graph_node(trace->graph, id);
  dt_attrs_t attrs = {0};
  attrs.index = node->attrs->index;
  dt_origin_t origin = node->origin;
  dt_node_id_t outside;
  DT_TRY(dt__graph_add(trace->graph, DT_OP_constant, NULL, 0, &attrs, &origin, &outside));
  for (uint32_t k = 0; k < trace->constant_values.len; k++)
    if (trace->constant_values.items[k].id == id.id)
      trace->constant_values.items[k] = (dt_value_t){.id = outside.id};
  dt_trace_lift_t lift = {{.id = id.id}, {.id = outside.id}};
  return DT_VEC_PUSH(trace->graph->arena, &trace->lifts, lift) ? NULL : DT_NO_MEMORY();
}

bool dt__trace_end_body(dt_trace_t *trace, dt_trace_body_t *body) {
  dt_status_t status = NULL;
  body->end = trace->graph->nodes.len;
  for (uint32_t k = body->begin; k < body->end && !status; k++)
    if (trace->graph->nodes.items[k].op == DT_OP_constant &&
        !dt__trace_has_ended(trace, (dt_value_t){.id = k + 1}))
      status = lift_constant(trace, (dt_node_id_t){k + 1});
  if (!status && !DT_VEC_PUSH(trace->graph->arena, &trace->bodies, *body))
    status = DT_NO_MEMORY();
  return dt__trace_take(trace, status);
}

// ---- What a body reads --------------------------------------------------------------------------
typedef struct cutting_t {
  dt_trace_t *trace;
  const dt_trace_control_t *control;
  dt_arena_t *arena;
  bool *live;                    // by node, [id - 1], of all bodies
  uint32_t *operand;             // by node, [id - 1]: 1 + the operand that it is, or 0
  DT_VEC(dt_node_id_t) operands; // what they are outside
} cutting_t;

dt_node_id_t dt__trace_lifted(const dt_trace_t *trace, dt_node_id_t id) {
  for (uint32_t k = 0; k < trace->lifts.len; k++)
    if (trace->lifts.items[k].inside.id == id.id)
      return (dt_node_id_t){trace->lifts.items[k].outside.id};
  return id;
}

static bool inside(const dt_trace_body_t *body, dt_node_id_t id) {
  return id.id > body->begin && id.id <= body->end;
}

static bool add_operand(cutting_t *cut, dt_node_id_t key, dt_node_id_t outside) {
  if (cut->operand[key.id - 1])
    return true;
  if (!DT_VEC_PUSH(cut->arena, &cut->operands, outside))
    return false;
  cut->operand[key.id - 1] = cut->operands.len;
  return true;
}

// Marks what the outputs of body b need, and notes what of it comes from outside.
static dt_status_t find_live(cutting_t *cut, uint32_t b) {
  const dt_trace_body_t *body = &cut->control->bodies[b];
  for (uint32_t k = 0; k < cut->control->n_outputs[b]; k++) {
    dt_node_id_t id = {cut->control->outputs[b][k].id};
    if (inside(body, id))
      cut->live[id.id - 1] = true;
    else if (!add_operand(cut, id, id))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = body->end; k-- > body->begin;) {
    const dt_node_t *node = &cut->trace->graph->nodes.items[k];
    dt_node_id_t id = {k + 1};
    if (cut->live[k] && node->op == DT_OP_constant &&
        !add_operand(cut, id, dt__trace_lifted(cut->trace, id)))
      return DT_NO_MEMORY();
    for (uint32_t i = 0; cut->live[k] && i < node->n_inputs; i++) {
      if (inside(body, node->inputs[i]))
        cut->live[node->inputs[i].id - 1] = true;
      else if (!add_operand(cut, node->inputs[i], node->inputs[i]))
        return DT_NO_MEMORY();
    }
  }
  return NULL;
}

// ---- The graph of a body ------------------------------------------------------------------------
static dt_status_t declare_operands(cutting_t *cut, dt_graph_t *to, dt_node_id_t *inputs) {
  for (uint32_t k = 0; k < cut->operands.len; k++) {
    const dt_node_t *node = dt__graph_node(cut->trace->graph, cut->operands.items[k]);
    dt_graph_input_t input = {
        .name = "", .dtype = node->dtype, .rank = node->rank, .contiguous = true};
    dt_sym_t stride = dt__sym_const(to->env, 1);
    if (cut->control->op == DT_OP_associative_scan && k < cut->control->n_state)
      input.rank = 0; // one element of what is scanned
    for (uint32_t d = input.rank; d-- > 0;) {
      input.sizes[d] = node->sizes[d];
      input.strides[d] = stride;
      stride = dt__sym_mul(to->env, stride, node->sizes[d]);
    }
    DT_TRY(dt__graph_add_input(to, &input, &inputs[k]));
  }
  return NULL;
}

static dt_status_t copy_node(cutting_t *cut, dt_graph_t *to, uint32_t at, dt_node_id_t *map) {
  const dt_graph_t *from = cut->trace->graph;
  dt_node_t node = from->nodes.items[at];
  dt_node_id_t *inputs = DT_ARENA_ARRAY(to->arena, dt_node_id_t, node.n_inputs + 1);
  dt_attrs_t *attrs = DT_ARENA_NEW(to->arena, dt_attrs_t);
  if (!inputs || !attrs)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < node.n_inputs; i++)
    inputs[i] = map[node.inputs[i].id - 1];
  memcpy(attrs, node.attrs, sizeof(*attrs)); // as bytes: the padding takes part in comparisons
  if (dt__op_is_control(node.op)) {
    dt_graph_control_t control = *dt__graph_control(from, &node);
    control.same =
        node.op == DT_OP_call ? dt__control_same(to, control.bodies[0], to->controls.len) : 0;
    if (!DT_VEC_PUSH(to->arena, &to->controls, control))
      return DT_NO_MEMORY();
    attrs->index = to->controls.len - 1;
  }
  if (node.op == DT_OP_external) {
    if (!DT_VEC_PUSH(to->arena, &to->externals, from->externals.items[attrs->index]))
      return DT_NO_MEMORY();
    attrs->index = to->externals.len - 1;
  }
  node.inputs = inputs;
  node.attrs = attrs;
  if (!DT_VEC_PUSH(to->arena, &to->nodes, node))
    return DT_NO_MEMORY();
  map[at] = (dt_node_id_t){to->nodes.len};
  return NULL;
}

static dt_status_t cut_body(cutting_t *cut, uint32_t b, const dt_graph_t **out) {
  const dt_trace_control_t *control = cut->control;
  const dt_trace_body_t *body = &control->bodies[b];
  const dt_graph_t *from = cut->trace->graph;
  dt_graph_t *to = dt__graph_create(from->arena, from->env);
  dt_node_id_t *inputs = DT_ARENA_ARRAY(cut->arena, dt_node_id_t, cut->operands.len + 1);
  dt_node_id_t *map = DT_ARENA_ARRAY(cut->arena, dt_node_id_t, from->nodes.len + 1);
  *out = to;
  if (!to || !inputs || !map)
    return DT_NO_MEMORY();
  DT_TRY(declare_operands(cut, to, inputs));
  for (uint32_t k = 0; k < from->nodes.len; k++)
    if (cut->operand[k])
      map[k] = inputs[cut->operand[k] - 1];
  for (uint32_t k = 0; k < control->n_state; k++)
    map[control->states[b][k].id - 1] = inputs[k];
  for (uint32_t k = body->begin; k < body->end; k++)
    if (cut->live[k] && !cut->operand[k] && from->nodes.items[k].op != DT_OP_input)
      DT_TRY(copy_node(cut, to, k, map));
  for (uint32_t k = 0; k < control->n_outputs[b]; k++)
    DT_TRY(dt__graph_add_output(to, map[control->outputs[b][k].id - 1]));
  return NULL;
}

// The state of all bodies comes first among their operands.
static dt_status_t add_control(dt_trace_t *trace, const dt_trace_control_t *control,
                               dt_node_id_t *out) {
  cutting_t cut = {.trace = trace, .control = control, .arena = trace->graph->arena};
  uint32_t n = trace->graph->nodes.len;
  cut.live = DT_ARENA_ARRAY(cut.arena, bool, (size_t)n + 1);
  cut.operand = DT_ARENA_ARRAY(cut.arena, uint32_t, (size_t)n + 1);
  if (!cut.live || !cut.operand)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < control->n_state; k++)
    if (!DT_VEC_PUSH(cut.arena, &cut.operands, ((dt_node_id_t){control->init[k].id})))
      return DT_NO_MEMORY();
  for (uint32_t b = 0; b < control->n_bodies; b++)
    DT_TRY(find_live(&cut, b));
  dt_graph_control_t made = {.same = 0};
  for (uint32_t b = 0; b < control->n_bodies; b++)
    DT_TRY(cut_body(&cut, b, &made.bodies[b]));
  bool scans = control->op == DT_OP_associative_scan;
  uint32_t first = control->op == DT_OP_cond || control->op == DT_OP_switch;
  uint32_t skipped = scans ? control->n_state / 2 : 0; // what is scanned is given once
  uint32_t n_inputs = cut.operands.len - skipped;
  dt_attrs_t attrs = {0};
  dt_node_id_t *inputs = DT_ARENA_ARRAY(cut.arena, dt_node_id_t, n_inputs + 1);
  if (!inputs)
    return DT_NO_MEMORY();
  inputs[0] = (dt_node_id_t){control->pred.id};
  if (n_inputs)
    memcpy(inputs + first, cut.operands.items + skipped, n_inputs * sizeof(*inputs));
  attrs.n_axes = scans;
  attrs.axes[0] = (int32_t)control->axis;
  return dt__graph_add_control(trace->graph, control->op, &made, inputs, n_inputs + first, &attrs,
                               &trace->origin, out);
}

dt_value_t dt__trace_add_control(dt_trace_t *trace, const dt_trace_control_t *control) {
  dt_node_id_t id = {0};
  dt_status_t status = add_control(trace, control, &id);
  return dt__trace_take(trace, status) ? (dt_value_t){.id = id.id} : (dt_value_t){0};
}

// ---- The program's graph in the end -------------------------------------------------------------
dt_status_t dt__trace_drop_bodies(dt_trace_t *trace) {
  dt_graph_t *graph = trace->graph;
  if (trace->bodies.len == 0)
    return NULL;
  uint32_t kept = 0;
  dt_node_id_t *map = DT_ARENA_ARRAY(graph->arena, dt_node_id_t, graph->nodes.len + 1);
  if (!map)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->nodes.len; k++) {
    dt_node_t node = graph->nodes.items[k];
    if (dt__trace_has_ended(trace, (dt_value_t){.id = k + 1}))
      continue;
    dt_node_id_t *inputs = DT_ARENA_ARRAY(graph->arena, dt_node_id_t, node.n_inputs + 1);
    if (!inputs)
      return DT_NO_MEMORY();
    for (uint32_t i = 0; i < node.n_inputs; i++)
      inputs[i] = map[node.inputs[i].id - 1];
    node.inputs = inputs;
    graph->nodes.items[kept++] = node;
    map[k] = (dt_node_id_t){kept};
  }
  graph->nodes.len = kept;
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    graph->outputs.items[k] = map[graph->outputs.items[k].id - 1];
  for (uint32_t k = 0; k < graph->updates.len; k++)
    graph->updates.items[k].value = map[graph->updates.items[k].value.id - 1];
  return NULL;
}
