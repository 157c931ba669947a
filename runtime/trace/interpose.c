// SPDX-License-Identifier: Apache-2.0
// Interposers (include/ductile/pass.h): what builders make is shown to a function of the program,
// which may put another value in its place.
#include "runtime/trace/rewriter.h"

#include "lower/graph/infer.h"

// Nodes that bring something into a graph, bind a number or belong to control stay as they are.
static bool is_shown(const dt_node_t *node) {
  return node->n_inputs && node->op != DT_OP_item && node->op != DT_OP_result &&
         !dt__op_is_control(node->op);
}

static void refuse(dt_trace_t *trace, const dt_node_t *made, const dt_node_t *other) {
  dt_text_t text;
  dt__text_init(&text);
  dt__text_put(&text, dt_dtype_name(made->dtype));
  dt__print_sizes(trace->env, made->rank, made->sizes, &text);
  dt__text_printf(&text, " by %s", dt_dtype_name(other->dtype));
  dt__print_sizes(trace->env, other->rank, other->sizes, &text);
  DT_TRACE_FAIL(trace, made->dtype == other->dtype ? DT_E_SHAPE : DT_E_DTYPE,
                "the interposer replaced %s", dt__text_str(&text));
  dt__text_fini(&text);
}

static bool stands_for(const dt_trace_t *trace, const dt_node_t *made, const dt_node_t *other) {
  return made->dtype == other->dtype && made->rank == other->rank &&
         dt__syms_known_eq(trace->env, made->rank, made->sizes, other->sizes);
}

// Operands as the program has them; NULL fails the trace.
static const dt_value_t *operands(dt_trace_t *trace, const dt_node_t *node) {
  dt_value_t *inputs = DT_ARENA_ARRAY(&trace->traced->arena, dt_value_t, node->n_inputs);
  if (!inputs)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  for (uint32_t k = 0; inputs && k < node->n_inputs; k++)
    inputs[k] = dt__trace_value(trace, node->inputs[k]);
  return inputs;
}

dt_value_t dt__trace_interpose(dt_trace_t *trace, dt_value_t made) {
  static const dt_value_t none = {0};
  dt_node_t node = *dt__graph_node(trace->graph, (dt_node_id_t){made.id}); // the array may move
  dt_origin_t origin = trace->origin;
  dt_node_info_t info;
  if (trace->interposing || !is_shown(&node))
    return made;
  const dt_value_t *inputs = operands(trace, &node);
  if (!inputs)
    return none;
  dt__node_info(trace, &node, &info);
  trace->interposing = true;
  dt_value_t other = trace->interposer(trace, made, &info, inputs, trace->interposer_closure);
  trace->interposing = false;
  if (trace->status)
    return none;
  trace->origin = origin;
  if (!other.id || other.id == made.id)
    return made;
  const dt_node_t *found = dt__trace_node(trace, other, "what the interposer gave");
  if (found && !stands_for(trace, &node, found))
    refuse(trace, &node, found);
  return trace->status ? none : other;
}

void dt_trace_set_interposer(dt_trace_t *trace, dt_interposer_fn_t interposer, void *closure) {
  if (!trace || trace->status)
    return;
  trace->interposer = interposer;
  trace->interposer_closure = closure;
}
