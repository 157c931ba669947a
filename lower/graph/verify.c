// SPDX-License-Identifier: Apache-2.0
// The checker: ids, declarations, and each node's inference run again on a clone of the
// environment, so that it learns nothing and asks for no guard. A demand on sizes fails only where
// it is known not to hold; that it holds at each call is what the guards of building are for.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

// Any failure of a check as what it means here: the graph is malformed at `where`.
static dt_status_t malformed(dt_status_t status, const char *where, uint32_t id) {
  if (!status || dt_status_code(status) == DT_E_NO_MEMORY)
    return status;
  dt_status_t made = DT_FAIL(DT_E_FORMAT, "%s%u: %s", where, id, dt_status_message(status));
  dt_status_free(status);
  return made;
}

static dt_status_t check_ids(const dt_graph_t *graph, uint32_t id) {
  const dt_node_t *node = &graph->nodes.items[id - 1];
  if (!dt__op_exists(node->op))
    return DT_FAIL(DT_E_FORMAT, "%u is no op", (unsigned)node->op);
  const dt_op_info_t *info = dt__op_info(node->op);
  if (!node->attrs)
    return DT_FAIL(DT_E_FORMAT, "%s: no attributes", info->name);
  if (info->arity >= 0 ? node->n_inputs != (uint32_t)info->arity : node->n_inputs == 0)
    return DT_FAIL(DT_E_FORMAT, "%s: %u arguments", info->name, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    if (node->inputs[k].id == 0 || node->inputs[k].id >= id)
      return DT_FAIL(DT_E_FORMAT, "%s: argument %u is %%%u, which does not come before it",
                     info->name, k, node->inputs[k].id);
    if (dt__op_is_control(dt__graph_node(graph, node->inputs[k])->op) && node->op != DT_OP_result)
      return DT_FAIL(DT_E_FORMAT, "%s: argument %u is what only `result` reads", info->name, k);
  }
  if (node->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_FORMAT, "%s: rank %u", info->name, node->rank);
  for (uint32_t k = 0; k < node->rank; k++) {
    if (node->sizes[k].id == 0)
      return DT_FAIL(DT_E_FORMAT, "%s: size %u is no expression", info->name, k);
  }
  return NULL;
}

static dt_status_t check_node(const dt_graph_t *graph, dt_symenv_t *env, uint32_t id) {
  DT_TRY(check_ids(graph, id));
  const dt_node_t *node = &graph->nodes.items[id - 1];
  uint32_t rank = node->n_inputs ? dt__graph_node(graph, node->inputs[0])->rank : 0;
  dt_attrs_t attrs;
  DT_TRY(dt__attrs_normalize(node->op, rank, node->attrs, &attrs));
  dt_infer_t ctx = {.graph = graph,
                    .env = env,
                    .check_only = true,
                    .op = node->op,
                    .info = dt__op_info(node->op),
                    .n_inputs = node->n_inputs,
                    .inputs = node->inputs,
                    .attrs = &attrs};
  DT_TRY(dt__infer(&ctx));
  if (!dt__attrs_equal(&attrs, node->attrs))
    return dt__infer_fail(&ctx, DT_E_FORMAT, "attributes are not in normal form");
  if (ctx.dtype != node->dtype)
    return dt__infer_fail(&ctx, DT_E_FORMAT, "the dtype must be %s, not %s",
                          dt_dtype_name(ctx.dtype), dt_dtype_name(node->dtype));
  if (ctx.rank != node->rank)
    return dt__infer_fail(&ctx, DT_E_FORMAT, "the rank must be %u, not %u", ctx.rank, node->rank);
  for (uint32_t k = 0; k < ctx.rank; k++) {
    if (dt__sym_known(env, dt__sym_eq(env, ctx.sizes[k], node->sizes[k])) == DT_FALSE)
      return dt__infer_fail(&ctx, DT_E_FORMAT,
                            "size %u of the result cannot be what inference says", k);
  }
  return NULL;
}

static dt_status_t check_declarations(const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    const dt_graph_input_t *input = &graph->inputs.items[k];
    if (!input->name || !dt__dtype_is_valid(input->dtype) || input->rank > DT_MAX_RANK)
      return DT_FAIL(DT_E_FORMAT, "input %u: no name, dtype or rank", k);
    if (input->is_int && (input->rank != 0 || input->value.id == 0))
      return DT_FAIL(DT_E_FORMAT, "input %u: an integer argument of rank %u%s", k, input->rank,
                     input->value.id ? "" : " without a value");
    for (uint32_t dim = 0; dim < input->rank; dim++) {
      if (input->sizes[dim].id == 0 || input->strides[dim].id == 0)
        return DT_FAIL(DT_E_FORMAT, "input %u: size or stride %u is no expression", k, dim);
    }
  }
  for (uint32_t k = 0; k < graph->constants.len; k++) {
    const dt_graph_constant_t *constant = &graph->constants.items[k];
    bool empty = false;
    if (!constant->name || !dt__dtype_is_valid(constant->dtype) || constant->rank > DT_MAX_RANK ||
        constant->key == 0)
      return DT_FAIL(DT_E_FORMAT, "constant %u: no name, dtype, rank or key", k);
    for (uint32_t dim = 0; dim < constant->rank; dim++) {
      if (constant->sizes[dim] < 0 || constant->sizes[dim] >= DT_SIZE_LIMIT)
        return DT_FAIL(DT_E_FORMAT, "constant %u: size %u is out of range", k, dim);
      empty = empty || constant->sizes[dim] == 0;
    }
    if (!constant->data && !empty)
      return DT_FAIL(DT_E_FORMAT, "constant %u: no data", k);
  }
  return NULL;
}

static dt_status_t check_captures(const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->captures.len; k++) {
    if (!graph->captures.items[k].name || graph->captures.items[k].value.id == 0)
      return DT_FAIL(DT_E_FORMAT, "capture %u has no name or no value", k);
  }
  return NULL;
}

// An update is of a tensor input's dtype and rank, and its sizes may be the input's.
static dt_status_t check_updates(const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    const dt_graph_update_t *update = &graph->updates.items[k];
    if (update->input >= graph->inputs.len || graph->inputs.items[update->input].is_int ||
        update->value.id == 0 || update->value.id > graph->nodes.len)
      return DT_FAIL(DT_E_FORMAT, "update %u names no tensor input or no value", k);
    const dt_graph_input_t *input = &graph->inputs.items[update->input];
    const dt_node_t *value = dt__graph_node(graph, update->value);
    if (value->dtype != input->dtype || value->rank != input->rank)
      return DT_FAIL(DT_E_FORMAT, "update %u: the value is not of the input's dtype and rank", k);
    for (uint32_t j = 0; j < k; j++) {
      if (graph->updates.items[j].input == update->input)
        return DT_FAIL(DT_E_FORMAT, "input %u is updated twice", update->input);
    }
  }
  return NULL;
}

// ---- Symbols from data --------------------------------------------------------------------------
typedef struct bound_t {
  const dt_graph_t *graph;
  uint32_t n_symbols;
  bool *bound;       // by symbol
  uint32_t *scratch; // n_symbols
} bound_t;

static void bind_all(bound_t *b, uint32_t n, const dt_sym_t *exprs) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t found = dt__sym_symbols(b->graph->env, exprs[k], b->scratch, b->n_symbols);
    for (uint32_t i = 0; i < found; i++)
      b->bound[b->scratch[i]] = true;
  }
}

static dt_status_t check_bound(const bound_t *b, uint32_t n, const dt_sym_t *exprs) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t found = dt__sym_symbols(b->graph->env, exprs[k], b->scratch, b->n_symbols);
    for (uint32_t i = 0; i < found; i++) {
      uint32_t symbol = b->scratch[i];
      if (!b->bound[symbol] && dt__symbol_info(b->graph->env, symbol).kind == DT_SYMBOL_UNBACKED)
        return DT_FAIL(DT_E_FORMAT, "u%u is used before an item binds it", symbol);
    }
  }
  return NULL;
}

// Bodies bind nothing: what their sizes use is bound outside.
static dt_status_t check_bodies_bound(bound_t *b, const dt_graph_t *graph, const dt_node_t *node) {
  const dt_graph_control_t *control =
      dt__op_is_control(node->op) ? dt__graph_control(graph, node) : NULL;
  for (uint32_t k = 0; control && k < dt__control_n(control); k++) {
    const dt_graph_t *body = control->bodies[k];
    for (uint32_t i = 0; i < body->nodes.len; i++) {
      const dt_node_t *inner = &body->nodes.items[i];
      DT_TRY(check_bound(b, inner->rank, inner->sizes));
      DT_TRY(check_bound(b, inner->attrs->n_syms, inner->attrs->syms));
      DT_TRY(check_bodies_bound(b, body, inner));
    }
  }
  return NULL;
}

static dt_status_t check_data_symbols(bound_t *b) {
  for (uint32_t k = 0; k < b->graph->inputs.len; k++) {
    const dt_graph_input_t *input = &b->graph->inputs.items[k];
    bind_all(b, input->rank, input->sizes);
    bind_all(b, input->rank, input->strides);
  }
  for (uint32_t k = 0; k < b->graph->nodes.len; k++) {
    const dt_node_t *node = &b->graph->nodes.items[k];
    uint32_t symbol = 0;
    dt_status_t status = NULL;
    if (node->op == DT_OP_item && dt__sym_is_symbol(b->graph->env, node->attrs->syms[0], &symbol)) {
      if (b->bound[symbol])
        status = DT_FAIL(DT_E_FORMAT, "u%u is bound twice", symbol);
      b->bound[symbol] = true;
    }
    if (!status)
      status = check_bound(b, node->rank, node->sizes);
    if (!status)
      status = check_bound(b, node->attrs->n_syms, node->attrs->syms);
    if (!status)
      status = check_bodies_bound(b, b->graph, node);
    if (status)
      return malformed(status, "node %", k + 1);
  }
  return NULL;
}

// Each symbol that data binds has one item, before all that uses it.
static dt_status_t check_items(const dt_graph_t *graph) {
  bound_t b = {.graph = graph, .n_symbols = dt__symenv_symbol_count(graph->env)};
  bool from_data = false;
  for (uint32_t k = 0; k < b.n_symbols && !from_data; k++)
    from_data = dt__symbol_info(graph->env, k).kind == DT_SYMBOL_UNBACKED;
  if (!from_data)
    return NULL;
  b.bound = dt__calloc(b.n_symbols, sizeof(*b.bound));
  b.scratch = dt__calloc(b.n_symbols, sizeof(*b.scratch));
  dt_status_t status = b.bound && b.scratch ? check_data_symbols(&b) : DT_NO_MEMORY();
  dt__free(b.bound);
  dt__free(b.scratch);
  return status;
}

// ---- Bodies of control --------------------------------------------------------------------------
static bool binds(dt_op_t op) {
  return op == DT_OP_item || op == DT_OP_nonzero || op == DT_OP_masked_select;
}

static dt_status_t check_body(const dt_graph_t *graph, const dt_graph_t *body) {
  if (!body || body->env != graph->env)
    return DT_FAIL(DT_E_FORMAT, "there is none, or it is of another environment");
  if (body->constants.len || body->captures.len || body->asserts.len || body->updates.len)
    return DT_FAIL(DT_E_FORMAT, "it has constants, captures, asserts or updates");
  for (uint32_t k = 0; k < body->inputs.len; k++)
    if (body->inputs.items[k].is_int || !body->inputs.items[k].contiguous)
      return DT_FAIL(DT_E_FORMAT, "input %u is no operand", k);
  for (uint32_t k = 0; k < body->nodes.len; k++)
    if (binds(body->nodes.items[k].op))
      return DT_FAIL(DT_E_FORMAT, "node %%%u: %s binds a symbol", k + 1,
                     dt__op_info(body->nodes.items[k].op)->name);
  return NULL;
}

static dt_status_t verify_graph(const dt_graph_t *graph);

static dt_status_t verify_bodies(const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->controls.len; k++) {
    const dt_graph_control_t *control = &graph->controls.items[k];
    if (control->same > k ||
        (control->same && control->bodies[0] != graph->controls.items[control->same - 1].bodies[0]))
      return DT_FAIL(DT_E_FORMAT, "the body of control %u is not that of an earlier one", k);
    for (uint32_t b = 0; b < dt__control_own_n(control); b++) {
      const dt_graph_t *body = graph->controls.items[k].bodies[b];
      dt_status_t status = check_body(graph, body);
      if (!status)
        status = verify_graph(body);
      DT_TRY(malformed(status, b ? "a later body of control " : "first body of control ", k));
    }
  }
  return NULL;
}

static dt_status_t verify_graph(const dt_graph_t *graph) {
  DT_TRY(check_declarations(graph));
  DT_TRY(check_captures(graph));
  DT_TRY(check_updates(graph));
  DT_TRY(verify_bodies(graph));
  dt_symenv_t *env = NULL;
  DT_TRY(dt__symenv_clone(graph->env, &env));
  dt_status_t status = NULL;
  for (uint32_t id = 1; id <= graph->nodes.len && !status; id++)
    status = malformed(check_node(graph, env, id), "node %", id);
  dt__symenv_destroy(env);
  DT_TRY(status);
  for (uint32_t k = 0; k < graph->outputs.len; k++) {
    if (graph->outputs.items[k].id == 0 || graph->outputs.items[k].id > graph->nodes.len)
      return DT_FAIL(DT_E_FORMAT, "output %u is no value of the graph", k);
    if (dt__op_is_control(dt__graph_node(graph, graph->outputs.items[k])->op))
      return DT_FAIL(DT_E_FORMAT, "output %u is what only `result` reads", k);
  }
  if (graph->orders.len > graph->outputs.len)
    return DT_FAIL(DT_E_FORMAT, "%u orders of %u outputs", graph->orders.len, graph->outputs.len);
  for (uint32_t k = 0; k < graph->asserts.len; k++) {
    if (graph->asserts.items[k].cond.id == 0)
      return DT_FAIL(DT_E_FORMAT, "assert %u has no condition", k);
  }
  return NULL;
}

dt_status_t dt__graph_verify(const dt_graph_t *graph) {
  DT_TRY(verify_graph(graph));
  return check_items(graph);
}
