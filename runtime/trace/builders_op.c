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
bool dt__op_inferring(dt_op_call_t *call, const char *what) {
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
  if (!dt__op_inferring(call, "dt_op_set_result"))
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
  if (!dt__op_inferring(call, "dt_op_set_result_like"))
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
  if (dt__op_inferring(call, "dt_op_set_items") &&
      dt__trace_sym(call->trace, &items, "the number of items"))
    call->external.items = items;
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

// What a graph's text can say of it.
static void check_attr_limits(dt_trace_t *trace, const char *op, const dt_op_attr_t *attr) {
  bool list = attr->kind == DT_OP_ATTR_INTS || attr->kind == DT_OP_ATTR_FLOATS;
  if (list && attr->n > DT_OP_MAX_VALUES)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "%s: attribute %s has %u values; the most is %d", op,
                  attr->name, attr->n, DT_OP_MAX_VALUES);
  else if (attr->kind == DT_OP_ATTR_TEXT && strlen(attr->text) > DT_OP_MAX_TEXT)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "%s: attribute %s is a text of %zu bytes; the most is %d", op,
                  attr->name, strlen(attr->text), DT_OP_MAX_TEXT);
}

static bool check_attrs(dt_trace_t *trace, const char *op, uint32_t n, const dt_op_attr_t *attrs) {
  if (n && !attrs)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: attrs: NULL; expected %u", op, n);
  else if (n > DT_OP_MAX_ATTRS)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "%s: %u attributes; the most is %d", op, n, DT_OP_MAX_ATTRS);
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    const char *name = attrs[k].name ? attrs[k].name : "NULL";
    if (!dt__attr_name_is_valid(attrs[k].name))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                    "%s: attribute %u is named %.64s; expected letters, digits and _", op, k, name);
    else if (!attr_is_whole(&attrs[k]))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: attribute %s has no kind, or no value", op, name);
    else
      check_attr_limits(trace, op, &attrs[k]);
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
  return !trace->status && dt__op_node_ids(call, ids);
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
    if (!strstr(dt_status_message(trace->status), op->name))
      trace->status = dt__status_annotate(trace->status, "%s", op->name);
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
  else if (trace->no_calls)
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED,
                  "%.128s: a pattern's program calls no ops of users; let a wildcard stand for its "
                  "result",
                  name);
  *out = (dt_op_call_t){.trace = trace, .def = trace->status ? NULL : find(trace, name)};
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
    dt__op_read_numbers(&call);
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

// ---- New values of inputs -----------------------------------------------------------------------
static bool is_new_value(dt_op_call_t *call, uint32_t k, uint32_t input) {
  dt_trace_t *trace = call->trace;
  const dt_node_t *node = dt__trace_node(trace, call->inputs[input], "an input");
  const dt_external_result_t *result = &call->results[k];
  bool same = node && node->dtype == result->dtype && node->rank == result->rank &&
              dt__syms_known_eq(trace->env, result->rank, node->sizes, result->sizes);
  if (!same)
    DT_TRACE_FAIL(trace, DT_E_SHAPE,
                  "%s: result %u is the new value of input %u, and infer gave it another dtype or "
                  "other sizes",
                  call->external.name, k, input);
  return same;
}

static bool is_argument(const dt_trace_t *trace, dt_value_t x) {
  return x.trace == (trace->tag | DT_TRACE_ARGUMENT);
}

// One memory has one new value, whichever arguments are in it.
static bool is_apart(const dt_op_call_t *call, uint32_t input) {
  for (uint32_t k = 0; k < DT_OP_MAX_RESULTS; k++) {
    uint32_t other = call->def->options.updates[k];
    if (other && other - 1 < input && is_argument(call->trace, call->inputs[input]) &&
        is_argument(call->trace, call->inputs[other - 1]) &&
        dt__trace_is_shared(call->trace, call->inputs[other - 1], call->inputs[input]))
      return false;
  }
  return true;
}

static void check_updates(dt_op_call_t *call) {
  dt_trace_t *trace = call->trace;
  const char *name = call->external.name;
  if (trace->pass && dt__op_updates(call->def))
    DT_TRACE_FAIL(trace, DT_E_STATE, "%s: it updates its inputs; a pass calls no such op", name);
  for (uint32_t k = 0; k < DT_OP_MAX_RESULTS && !trace->status; k++) {
    uint32_t input = call->def->options.updates[k];
    if (input && (input > call->n_inputs || k >= call->external.n_results))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                    "%s: result %u is the new value of input %u; the call has %u inputs and %u "
                    "results",
                    name, k, input - 1, call->n_inputs, call->external.n_results);
    else if (input && is_new_value(call, k, input - 1) && !is_apart(call, input - 1))
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                    "%s: input %u is another one, too, or in its memory, and both are updated",
                    name, input - 1);
  }
}

static void update_inputs(const dt_op_call_t *call, const dt_value_t *made) {
  for (uint32_t k = 0; k < DT_OP_MAX_RESULTS && !call->trace->status; k++) {
    uint32_t input = call->def->options.updates[k];
    if (input && is_argument(call->trace, call->inputs[input - 1]))
      dt__trace_update(call->trace, call->inputs[input - 1], made[k]);
  }
}

// ---- Calls --------------------------------------------------------------------------------------
static void call_op(dt_op_call_t *call, uint32_t n_results, dt_value_t *made) {
  dt_trace_t *trace = call->trace;
  const char *name = call->external.name;
  if (!enter(trace, name))
    return;
  trace->n_calls++;
  infer(call);
  if (!trace->status && n_results > call->external.n_results)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: %u results are asked for; it has %u", name, n_results,
                  call->external.n_results);
  if (!trace->status)
    check_updates(call);
  if (!trace->status)
    make(call, made);
  if (!trace->status)
    update_inputs(call, made);
  trace->n_calls--;
}

// `results` may be `inputs`.
void dt_op_call(dt_trace_t *trace, const char *name, uint32_t n_inputs, const dt_value_t *inputs,
                uint32_t n_attrs, const dt_op_attr_t *attrs, uint32_t n_results,
                dt_value_t *results) {
  dt_value_t made[DT_OP_MAX_RESULTS] = {{0}};
  dt_op_call_t call;
  bool begun = begin_call(trace, name, n_inputs, inputs, n_attrs, attrs, &call);
  if (begun && n_results && !results)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: results: NULL", name);
  else if (begun)
    call_op(&call, n_results, made);
  for (uint32_t k = 0; results && k < n_results; k++)
    results[k] = begun && !trace->status ? made[k] : none_value;
}
