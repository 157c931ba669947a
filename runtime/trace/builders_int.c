// SPDX-License-Identifier: Apache-2.0
// Builders of integers other than sizes: integer arguments and captures.
#include "runtime/trace/builder.h"

#include <string.h>

dt_sym_t dt_int_value(dt_trace_t *trace, dt_value_t x) {
  const dt_node_t *node =
      dt__trace_begin(trace, "int_value") ? dt__trace_node(trace, x, "the value") : NULL;
  if (!node)
    return DT_SYM_NONE_ID;
  for (uint32_t k = 0; k < trace->request->n_inputs; k++) {
    if (trace->inputs[k].handle.id == x.id && trace->inputs[k].value.id)
      return dt__trace_told(trace, dt__sym_simplify(trace->env, trace->inputs[k].value));
  }
  if (node->op == DT_OP_size)
    return dt__trace_told(trace, dt__sym_simplify(trace->env, node->attrs->syms[0]));
  DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                "the value is made by %s; expected an integer or boolean argument (dt_input_decl_t "
                "kind), or what dt_size_value gave",
                dt__op_info(node->op)->name);
  return DT_SYM_NONE_ID;
}

// ---- Captures -----------------------------------------------------------------------------------
static bool check_capture(dt_trace_t *trace, const char *name, const int64_t *address) {
  if (name && name[0] && address && (uintptr_t)address % sizeof(*address) == 0)
    return true;
  if (!name || !name[0])
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "name: %s; a capture needs a name of its own",
                  name ? "empty" : "NULL");
  else
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "\"%s\": address: %s", name,
                  address ? "not aligned to 8 bytes" : "NULL");
  return false;
}

// The capture's place in the graph. Without a policy they are numbered as they are read.
static dt_status_t place_capture(dt_trace_t *trace, const char *name, const int64_t *address,
                                 int64_t value, uint32_t *out_index, bool *out_literal) {
  const dt_trace_policy_t *policy = trace->request->policy;
  *out_index = trace->graph->captures.len;
  *out_literal = false;
  if (!policy || !policy->capture)
    return NULL;
  return policy->capture(policy->user, name, address, value, out_index, out_literal);
}

// Entries up to `index`: those between are of other traces, which this one may read yet.
static bool grow_captures(dt_trace_t *trace, uint32_t index) {
  dt_arena_t *arena = &trace->traced->arena;
  while (trace->graph->captures.len <= index) {
    dt_graph_capture_t unread = {.name = ""};
    if (!DT_VEC_RESERVE(arena, &trace->traced->captures) ||
        !DT_VEC_PUSH(arena, &trace->graph->captures, unread))
      return dt__trace_take(trace, DT_NO_MEMORY());
    trace->traced->captures.items[trace->traced->captures.len++] = (dt_traced_capture_t){0};
  }
  return true;
}

static dt_sym_t new_capture(dt_trace_t *trace, const char *name, const int64_t *hint) {
  return dt__sym_new(trace->env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, hint, name);
}

dt_sym_t dt_capture(dt_trace_t *trace, const char *name, const int64_t *address) {
  if (!dt__trace_begin(trace, "capture") || !check_capture(trace, name, address))
    return DT_SYM_NONE_ID;
  dt_graph_t *graph = trace->graph;
  for (uint32_t k = 0; k < graph->captures.len; k++) {
    if (strcmp(graph->captures.items[k].name, name) != 0)
      continue;
    if (trace->traced->captures.items[k].address == address)
      return dt__trace_told(trace, dt__sym_simplify(trace->env, graph->captures.items[k].value));
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "\"%s\" stands for another address already", name);
    return DT_SYM_NONE_ID;
  }
  int64_t value = __atomic_load_n(address, __ATOMIC_RELAXED);
  uint32_t index = 0;
  bool literal = false;
  if (!dt__trace_take(trace, place_capture(trace, name, address, value, &index, &literal)) ||
      !grow_captures(trace, index))
    return DT_SYM_NONE_ID;
  dt_sym_t made = literal ? dt__sym_const(trace->env, value)
                          : new_capture(trace, name, trace->request->no_hints ? NULL : &value);
  char *own = dt__arena_strdup(&trace->traced->arena, name);
  if (!own)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  if (!own || !dt__trace_made(trace, made).id)
    return DT_SYM_NONE_ID;
  graph->captures.items[index] = (dt_graph_capture_t){.name = own, .value = made};
  trace->traced->captures.items[index] = (dt_traced_capture_t){address, value};
  return dt__trace_told(trace, made);
}

dt_status_t dt__trace_finish_captures(dt_trace_t *trace) {
  for (uint32_t k = 0; k < trace->graph->captures.len; k++) {
    dt_graph_capture_t *capture = &trace->graph->captures.items[k];
    if (!capture->value.id)
      capture->value = new_capture(trace, "", NULL);
  }
  return dt__symenv_status(trace->env);
}
