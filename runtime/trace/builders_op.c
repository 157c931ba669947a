// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops (include/ductile/op.h): the op is found by its name, infer says what its
// results are, and a node that names the call stands for them.
#include "runtime/trace/op_call.h"

#include "runtime/base/dtype.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <string.h>

#define MOST_CALLS 64 // one inside of the other

static const dt_value_t none_value = {0};

// ---- What infer asks ----------------------------------------------------------------------------
dt_trace_t *dt_op_call_trace(const dt_op_call_t *call) { return call ? call->trace : NULL; }

uint32_t dt_op_call_inputs(const dt_op_call_t *call) { return call ? call->n_inputs : 0; }

dt_value_t dt_op_call_input(const dt_op_call_t *call, uint32_t index) {
  return call && index < call->n_inputs ? call->inputs[index] : none_value;
}

const dt_op_attr_t *dt_op_call_attr(const dt_op_call_t *call, const char *name,
                                    dt_op_attr_kind_t kind) {
  return call ? dt__attr_find(call->external.attrs, call->external.n_attrs, name, kind) : NULL;
}

// ---- What infer says ----------------------------------------------------------------------------
static bool begin(dt_op_call_t *call, const char *what) {
  if (!call || call->trace->status)
    return false;
  call->trace->origin = call->origin; // not what infer asked last
  if (call->inferring)
    return true;
  DT_TRACE_FAIL(call->trace, DT_E_STATE, "%s: %s outside of infer", call->external.name, what);
  return false;
}

void dt_op_set_result(dt_op_call_t *call, uint32_t index, dt_dtype_t dtype, uint32_t rank,
                      const dt_sym_t *sizes) {
  if (!begin(call, "dt_op_set_result"))
    return;
  dt_trace_t *trace = call->trace;
  const char *name = call->external.name;
  if (index > call->external.n_results || index >= DT_OP_MAX_RESULTS) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: result %u is set; the next is %u, and the most are %d",
                  name, index, call->external.n_results, DT_OP_MAX_RESULTS);
    return;
  }
  if (!dt__dtype_is_valid(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "%s: result %u: %d is no dtype", name, index, (int)dtype);
    return;
  }
  dt_external_result_t *result = &call->results[index];
  if (!dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "a result's sizes", result->sizes))
    return;
  // A size is not negative: known, or from now on a guard.
  for (uint32_t d = 0; d < rank && !trace->status; d++)
    (void)dt__trace_take(trace, dt__sym_require(trace->env,
                                                dt__sym_le(trace->env, dt__sym_const(trace->env, 0),
                                                           result->sizes[d]),
                                                &trace->origin, "a size of a result is negative"));
  result->dtype = dtype;
  result->rank = rank;
  if (index == call->external.n_results)
    call->external.n_results++;
}

void dt_op_set_result_like(dt_op_call_t *call, uint32_t index, dt_value_t like, dt_dtype_t dtype) {
  dt_sym_t sizes[DT_MAX_RANK];
  if (!begin(call, "dt_op_set_result_like"))
    return;
  dt_trace_t *trace = call->trace;
  const dt_node_t *node = dt__trace_node(trace, like, "like");
  if (!node)
    return;
  uint32_t rank = node->rank;
  dtype = dtype == DT_DTYPE_NONE ? node->dtype : dtype;
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = dt__trace_told(trace, node->sizes[d]);
  dt_op_set_result(call, index, dtype, rank, sizes);
}

void dt_op_set_items(dt_op_call_t *call, dt_sym_t items) {
  if (begin(call, "dt_op_set_items") && dt__trace_sym(call->trace, &items, "the number of items"))
    call->external.items = items;
}

// ---- Numbers from data --------------------------------------------------------------------------
static bool node_ids(const dt_op_call_t *call, dt_node_id_t *out) {
  for (uint32_t k = 0; k < call->n_inputs; k++) {
    if (!dt__trace_node(call->trace, call->inputs[k], "an input"))
      return false;
    out[k] = (dt_node_id_t){dt__trace_current(call->trace, call->inputs[k]).id};
  }
  return true;
}

static bool same_attr(const dt_op_attr_t *a, const dt_op_attr_t *b) {
  if (a->kind != b->kind || a->n != b->n || strcmp(a->name, b->name) != 0)
    return false;
  switch (a->kind) {
  case DT_OP_ATTR_INT:
    return a->i == b->i;
  case DT_OP_ATTR_FLOAT:
    return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
  case DT_OP_ATTR_TEXT:
    return strcmp(a->text, b->text) == 0;
  case DT_OP_ATTR_INTS:
    return !a->n || memcmp(a->ints, b->ints, a->n * sizeof(*a->ints)) == 0;
  case DT_OP_ATTR_FLOATS:
    return !a->n || memcmp(a->floats, b->floats, a->n * sizeof(*a->floats)) == 0;
  }
  return false;
}

// The node reads the numbers of just this call.
static bool reads_numbers_of(const dt_op_call_t *call, const dt_node_t *node,
                             const dt_node_id_t *inputs) {
  if (node->op != DT_OP_external || node->n_inputs != call->n_inputs)
    return false;
  const dt_graph_external_t *other = dt__graph_external(call->trace->graph, node);
  bool same = other->part == DT_EXTERNAL_NUMBERS && other->def == call->def &&
              other->n_attrs == call->external.n_attrs;
  for (uint32_t k = 0; same && k < call->n_inputs; k++)
    same = node->inputs[k].id == inputs[k].id;
  for (uint32_t k = 0; same && k < other->n_attrs; k++)
    same = same_attr(&other->attrs[k], &call->external.attrs[k]);
  return same;
}

// The node that reads all numbers of the call: one, however often the op is called on its inputs.
static void read_numbers(dt_op_call_t *call) {
  dt_symenv_t *env = call->trace->env;
  const dt_graph_t *graph = call->trace->graph;
  dt_node_id_t inputs[DT_OP_MAX_INPUTS];
  if (!node_ids(call, inputs))
    return;
  for (uint32_t id = 1; id <= graph->nodes.len && graph->externals.len; id++) {
    if (!reads_numbers_of(call, dt__graph_node(graph, (dt_node_id_t){id}), inputs))
      continue;
    call->numbers = dt__trace_value(call->trace, (dt_node_id_t){id});
    return;
  }
  dt_external_result_t result = {.dtype = DT_I64, .rank = 1};
  result.sizes[0] = dt__sym_const(env, call->def->options.n_numbers);
  dt_graph_external_t numbers = call->external;
  numbers.part = DT_EXTERNAL_NUMBERS;
  numbers.n_results = 1;
  numbers.results = &result;
  numbers.items = dt__sym_const(env, 1);
  call->numbers = dt__trace_add_external(call->trace, &numbers, call->inputs, call->n_inputs);
}

// The node is element `index` of the numbers.
static bool is_element(const dt_op_call_t *call, const dt_node_t *node, uint32_t index) {
  const dt_graph_t *graph = call->trace->graph;
  int64_t start = -1;
  if (node->op == DT_OP_reshape)
    node = dt__graph_node(graph, node->inputs[0]);
  return node->op == DT_OP_slice && node->inputs[0].id == call->numbers.id &&
         dt__sym_is_const(graph->env, node->attrs->syms[0], &start) && start == index;
}

static dt_sym_t read_number(const dt_op_call_t *call, uint32_t index, int64_t most) {
  dt_trace_t *trace = call->trace;
  const dt_graph_t *graph = trace->graph;
  for (uint32_t id = call->numbers.id + 1; id <= graph->nodes.len; id++) {
    const dt_node_t *node = dt__graph_node(graph, (dt_node_id_t){id});
    if (node->op == DT_OP_item && is_element(call, dt__graph_node(graph, node->inputs[0]), index))
      return node->attrs->syms[0];
  }
  dt_value_t one = dt__trace_slice(trace, call->numbers, 0, dt__sym_const(trace->env, index),
                                   dt__sym_const(trace->env, 1), 1);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_bind(trace, one, (dt_range_t){0, most});
}

dt_sym_t dt_op_number(dt_op_call_t *call, uint32_t index, int64_t most) {
  if (!begin(call, "dt_op_number"))
    return DT_SYM_NONE_ID;
  dt_trace_t *trace = call->trace;
  const char *name = call->external.name;
  if (index >= call->def->options.n_numbers || most < 0 || most >= DT_SIZE_LIMIT)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: number %u of %u, of at most %lld", name, index,
                  call->def->options.n_numbers, (long long)most);
  else if (trace->pass)
    DT_TRACE_FAIL(trace, DT_E_STATE, "%s: a pass reads no numbers from data", name);
  else if (dt__place_device(trace->request->place) != DT_CPU ||
           !dt__op_has_kernel(call->def, DT_CPU))
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "%s: its numbers are read by the CPU alone", name);
  if (!trace->status && !call->numbers.id)
    read_numbers(call);
  if (!trace->status && !call->number[index].id)
    call->number[index] = read_number(call, index, most);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_told(trace, call->number[index]);
}

// ---- Attributes ---------------------------------------------------------------------------------
static bool attr_is_whole(const dt_op_attr_t *attr) {
  switch (attr->kind) {
  case DT_OP_ATTR_INT:
  case DT_OP_ATTR_FLOAT:
    return true;
  case DT_OP_ATTR_TEXT:
    return attr->text != NULL;
  case DT_OP_ATTR_INTS:
    return attr->ints || !attr->n;
  case DT_OP_ATTR_FLOATS:
    return attr->floats || !attr->n;
  }
  return false;
}

static bool check_attrs(dt_trace_t *trace, const char *op, uint32_t n, const dt_op_attr_t *attrs) {
  if (n && !attrs)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: attrs: NULL; expected %u", op, n);
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    const char *name = attrs[k].name ? attrs[k].name : "NULL";
    if (!dt__attr_name_is_valid(attrs[k].name))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                    "%s: attribute %u is named %.64s; expected letters, digits and _", op, k, name);
    else if (!attr_is_whole(&attrs[k]))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: attribute %s has no kind, or no value", op, name);
    for (uint32_t i = 0; i < k && !trace->status; i++)
      if (strcmp(attrs[i].name, name) == 0)
        DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: attribute %s is given twice", op, name);
  }
  return trace->status == NULL;
}

// ---- Calls --------------------------------------------------------------------------------------
static const dt_op_def_t *find(dt_trace_t *trace, const char *name) {
  const dt_hooks_t *hooks = trace->request->hooks;
  const dt_op_def_t *def = dt__op_list_find(hooks ? hooks->ops : NULL, name);
  if (!def)
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED,
                  "%s: the function's runtime has no such op; dt_op_register it before the "
                  "function is made",
                  name);
  return def;
}

static bool check_inputs(dt_op_call_t *call) {
  dt_trace_t *trace = call->trace;
  const dt_op_options_t *op = &call->def->options;
  dt_node_id_t ids[DT_OP_MAX_INPUTS];
  if (call->n_inputs < op->least_inputs || call->n_inputs > op->most_inputs)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: %u inputs; expected %u to %u", op->name,
                  call->n_inputs, op->least_inputs, op->most_inputs);
  else if (!call->inputs)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: inputs: NULL; expected %u", op->name, call->n_inputs);
  return !trace->status && node_ids(call, ids);
}

static void infer(dt_op_call_t *call) {
  dt_trace_t *trace = call->trace;
  const dt_op_options_t *op = &call->def->options;
  call->inferring = true;
  dt_status_t returned = op->infer(call, op->closure);
  call->inferring = false;
  if (!trace->status)
    trace->origin = call->origin;
  if (trace->status) { // what failed first; infer may hand that back
    if (returned != trace->status)
      dt_status_free(returned);
  } else if (returned) {
    (void)dt__trace_take(trace, dt__status_annotate(returned, "%s", op->name));
  } else if (!call->external.n_results) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: infer set no result", op->name);
  }
}

static dt_value_t result_of(dt_trace_t *trace, dt_value_t node, uint32_t k) {
  dt_attrs_t attrs = {0};
  attrs.index = k;
  return k ? dt__trace_add(trace, DT_OP_result, &node, 1, &attrs) : node;
}

// A call that is whole where a kernel computes it, and where decomposing it is for later.
static void make(dt_op_call_t *call, dt_value_t *results) {
  dt_trace_t *trace = call->trace;
  bool whole = dt__op_has_kernel(call->def, dt__place_device(trace->request->place)) ||
               (!trace->pass && call->def->options.decompose);
  if (!whole && !call->def->options.decompose) {
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED,
                  "%s: the op has no kernel for the session's device and no decomposition; give "
                  "one of them, or run on the CPU",
                  call->external.name);
  } else if (whole) {
    dt_value_t node = dt__trace_add_external(trace, &call->external, call->inputs, call->n_inputs);
    for (uint32_t k = 0; k < call->external.n_results && !trace->status; k++)
      results[k] = result_of(trace, node, k);
  } else {
    (void)dt__op_decompose(call, results);
  }
}

// A call as it is before infer; false fails the trace.
static bool begin_call(dt_trace_t *trace, const char *name, uint32_t n_inputs,
                       const dt_value_t *inputs, uint32_t n_attrs, const dt_op_attr_t *attrs,
                       dt_op_call_t *out) {
  if (!dt__trace_begin(trace, "external"))
    return false;
  if (!name)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "name: NULL");
  *out = (dt_op_call_t){.trace = trace, .def = name ? find(trace, name) : NULL};
  if (trace->status || !check_attrs(trace, name, n_attrs, attrs))
    return false;
  trace->origin.op = out->def->options.name;
  out->external = (dt_graph_external_t){.name = out->def->options.name,
                                        .identity = out->def->options.identity,
                                        .def = out->def,
                                        .n_attrs = n_attrs,
                                        .results = out->results,
                                        .attrs = attrs,
                                        .items = dt__sym_const(trace->env, 1)};
  out->n_inputs = n_inputs;
  out->inputs = inputs;
  out->origin = trace->origin;
  return check_inputs(out);
}

dt_value_t dt__op_numbers(dt_trace_t *trace, const char *name, uint32_t n_inputs,
                          const dt_value_t *inputs, uint32_t n_attrs, const dt_op_attr_t *attrs) {
  dt_op_call_t call;
  if (!begin_call(trace, name, n_inputs, inputs, n_attrs, attrs, &call))
    return none_value;
  if (!call.def->options.n_numbers)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: the op reads no numbers", name);
  else
    read_numbers(&call);
  return trace->status ? none_value : call.numbers;
}

// infer and decompose call ops, too, and may do so without an end.
static bool enter(dt_trace_t *trace, const char *name) {
  if (trace->n_calls == MOST_CALLS)
    DT_TRACE_FAIL(trace, DT_E_LIMIT,
                  "%s: %d calls of ops, each made by the infer or the decomposition of the one "
                  "before: an op cannot be made of itself",
                  name, MOST_CALLS);
  return !trace->status;
}

void dt_op_call(dt_trace_t *trace, const char *name, uint32_t n_inputs, const dt_value_t *inputs,
                uint32_t n_attrs, const dt_op_attr_t *attrs, uint32_t n_results,
                dt_value_t *results) {
  dt_value_t made[DT_OP_MAX_RESULTS] = {{0}};
  dt_op_call_t call;
  for (uint32_t k = 0; results && k < n_results; k++)
    results[k] = none_value;
  if (!begin_call(trace, name, n_inputs, inputs, n_attrs, attrs, &call))
    return;
  if (n_results && !results) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: results: NULL", name);
    return;
  }
  if (!enter(trace, name))
    return;
  trace->n_calls++;
  infer(&call);
  if (!trace->status && n_results > call.external.n_results)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: %u results are asked for; it has %u", name, n_results,
                  call.external.n_results);
  if (!trace->status)
    make(&call, made);
  trace->n_calls--;
  for (uint32_t k = 0; k < n_results && !trace->status; k++)
    results[k] = made[k];
}
