// SPDX-License-Identifier: Apache-2.0
// The common part of all builders: the first failure and its place, checks of handles, appending
// nodes.
#include "runtime/trace/builder.h"

#include "ductile/experimental.h"
#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "runtime/base/watch.h"

#include <stdio.h>
#include <string.h>

#define NODES_A_LOOK 64

static const dt_value_t none_value = {0};

// ---- Entry and failure --------------------------------------------------------------------------
dt_status_t dt_trace_status(const dt_trace_t *trace) { return trace ? trace->status : NULL; }

dt_trace_t *dt_trace_at(dt_trace_t *trace, const char *file, int line) {
  if (!trace || trace->status)
    return trace;
  trace->origin.line = line;
  if (!file)
    file = "";
  // Origins outlive the caller's strings; one file usually serves for a whole program.
  if (trace->origin.file && strcmp(trace->origin.file, file) == 0)
    return trace;
  trace->origin.file = dt__arena_strdup(&trace->traced->arena, file);
  if (!trace->origin.file)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  return trace;
}

// What calls bring, check or leave behind is the trace's alone: a pass has none of it.
static bool is_refused(dt_trace_pass_t pass, const char *op) {
  static const char *const refused[] = {"capture", "check",     "update",      "input",
                                        "item",    "int_value", "int_elements"};
  for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++)
    if (strcmp(refused[k], op) == 0)
      return true;
  return pass != DT_PASS_CONSTANTS && strcmp(op, "constant") == 0;
}

bool dt__trace_begin(dt_trace_t *trace, const char *op) {
  if (!trace || trace->status)
    return false;
  trace->origin.op = op;
  if (!trace->pass || !is_refused(trace->pass, op))
    return true;
  DT_TRACE_FAIL(trace, DT_E_STATE, "dt_%s is for programs; a pass %s", op,
                strcmp(op, "constant") == 0
                    ? "makes constants at point traced only, outside of bodies"
                    : "cannot do it");
  return false;
}

// Whether `message` says `word` followed by a colon.
static bool says(const char *message, const char *word) {
  size_t len = strlen(word);
  for (const char *at = strstr(message, word); at; at = strstr(at + 1, word)) {
    if (at[len] == ':')
      return true;
  }
  return false;
}

// "model.c:41: matmul", less what the message says already.
static void put_place(const dt_origin_t *origin, const char *message, dt_text_t *out) {
  if (origin->file && origin->file[0]) {
    dt__text_printf(out, "%s:%d", origin->file, origin->line);
    if (strstr(message, dt__text_str(out))) {
      dt__text_fini(out);
      dt__text_init(out);
    }
  }
  if (origin->op && !says(message, origin->op))
    dt__text_printf(out, "%s%s", out->len ? ": " : "", origin->op);
}

bool dt__trace_take(dt_trace_t *trace, dt_status_t status) {
  if (!status)
    return trace->status == NULL;
  dt_text_t place;
  dt__text_init(&place);
  put_place(&trace->origin, dt_status_message(status), &place);
  if (place.len)
    status = dt__status_annotate(status, "%s", dt__text_str(&place));
  dt__text_fini(&place);
  trace->status = dt__status_join(trace->status, status);
  return false;
}

void dt_trace_fail(dt_trace_t *trace, dt_code_t code, const char *message) {
  if (!dt__trace_begin(trace, "program"))
    return;
  if (!dt__code_is_failure(code))
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s (told as code %d, which is no failure's)",
                  message ? message : "failed", (int)code);
  else
    DT_TRACE_FAIL(trace, code, "%s", message ? message : "failed");
}

bool dt_trace_goes_on(dt_trace_t *trace) {
  if (!trace || trace->status)
    return false;
  return dt__trace_take(trace, dt__watch_check(trace->request->watch));
}

void dt_trace_recode(dt_trace_t *trace, dt_code_t from, dt_code_t to) {
  if (trace && trace->status && dt__code_is_failure(to) && dt_status_code(trace->status) == from)
    trace->status = dt__status_recode(trace->status, to);
}

// ---- Handles ------------------------------------------------------------------------------------
dt_value_t dt__trace_current(const dt_trace_t *trace, dt_value_t x) {
  if (x.trace != (trace->tag | DT_TRACE_ARGUMENT))
    return x;
  for (uint32_t k = 0; trace->updates && k < trace->request->n_inputs; k++) {
    if (trace->inputs[k].handle.id == x.id && trace->inputs[k].current.id)
      return trace->inputs[k].current;
  }
  return (dt_value_t){.id = x.id, .trace = trace->tag};
}

const dt_node_t *dt__trace_node(dt_trace_t *trace, dt_value_t x, const char *what) {
  x = dt__trace_current(trace, x);
  if (x.id == 0)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  "%s is the none value (id 0): it was never set, or comes from another trace that "
                  "failed",
                  what);
  else if (x.trace && (x.trace & ~DT_TRACE_ARGUMENT) != trace->tag)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s (id %u) is a value of another trace", what, x.id);
  else if (x.id > trace->graph->nodes.len)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s (id %u) is no value of this trace", what, x.id);
  else if (dt__trace_has_ended(trace, x))
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  "%s (id %u) was made in a body of cond, switch, while or subgraph that has "
                  "ended: make it an output "
                  "of the body",
                  what, x.id);
  else
    return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  return NULL;
}

bool dt__trace_sym(dt_trace_t *trace, dt_sym_t *a, const char *what) {
  uint32_t tag = a->id >> DT_TRACE_TAG_SHIFT;
  dt_sym_t own = {.id = a->id % DT_TRACE_MOST_SYMS};
  if (a->id == 0)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s is the none size (id 0): it was never set", what);
  else if (tag && tag != trace->tag)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s is a size of another trace", what);
  else if (dt__sym_view(trace->env, own).op == DT_SYM_NONE)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s (id %u) is no size of this trace", what, own.id);
  else
    *a = own;
  return trace->status == NULL;
}

dt_sym_t dt__trace_told(dt_trace_t *trace, dt_sym_t e) {
  e = dt__trace_made(trace, e);
  if (e.id >= DT_TRACE_MOST_SYMS) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "the program makes more than 2^%d sizes", DT_TRACE_TAG_SHIFT);
    return DT_SYM_NONE_ID;
  }
  return (dt_sym_t){.id = e.id ? trace->tag << DT_TRACE_TAG_SHIFT | e.id : 0};
}

bool dt__trace_syms(dt_trace_t *trace, uint32_t n, const dt_sym_t *syms, uint32_t most,
                    const char *what, dt_sym_t *out) {
  if (n > most) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "%u %s; the most is %u", n, what, most);
    return false;
  }
  if (n && !syms) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: NULL; expected %u", what, n);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    out[k] = syms[k];
    if (!dt__trace_sym(trace, &out[k], what))
      return false;
  }
  return true;
}

dt_sym_t dt__trace_made(dt_trace_t *trace, dt_sym_t e) {
  if (e.id)
    return e;
  dt_status_t status = dt__symenv_status(trace->env);
  (void)dt__trace_take(trace,
                       status ? status : DT_FAIL(DT_E_LIMIT, "the size cannot be expressed"));
  return DT_SYM_NONE_ID;
}

void dt__trace_known(dt_trace_t *trace, dt_sym_t cond) {
  if (!trace->status && dt__trace_made(trace, cond).id &&
      dt__sym_known(trace->env, cond) == DT_UNKNOWN)
    (void)dt__trace_take(trace, dt__sym_learn_at(trace->env, cond, &trace->origin));
}

// 1 + the newest number from data, or 0.
static uint32_t newest_of(const dt_trace_t *trace, uint32_t n, const dt_sym_t *syms) {
  uint32_t newest = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t symbol = 0;
    if (dt__sym_newest_unbacked(trace->env, syms[k], &symbol) && symbol >= newest)
      newest = symbol + 1;
  }
  return newest;
}

void dt__trace_follows(dt_trace_t *trace, dt_sym_t cond, uint32_t n, const dt_sym_t *from) {
  if (trace->status || !dt__trace_made(trace, cond).id)
    return;
  if (newest_of(trace, 1, &cond) < newest_of(trace, n, from))
    (void)dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin,
                                                "this follows from checks of data"));
  else
    dt__trace_known(trace, cond);
}

bool dt__trace_axis(dt_trace_t *trace, int32_t axis, uint32_t rank, uint32_t *out) {
  int64_t at = axis < 0 ? (int64_t)axis + rank : axis;
  if (at < 0 || at >= rank) {
    if (rank == 0)
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axis %d; a scalar has none", axis);
    else
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axis %d; expected %d to %d for rank %u", axis,
                    -(int)rank, (int)rank - 1, rank);
    return false;
  }
  *out = (uint32_t)at;
  return true;
}

// ---- Nodes --------------------------------------------------------------------------------------
static dt_node_id_t *node_ids(dt_trace_t *trace, const dt_value_t *inputs, uint32_t n,
                              dt_node_id_t *few, uint32_t n_few) {
  dt_node_id_t *ids = n <= n_few ? few : DT_ARENA_ARRAY(&trace->traced->arena, dt_node_id_t, n);
  if (!ids) {
    (void)dt__trace_take(trace, DT_NO_MEMORY());
    return NULL;
  }
  for (uint32_t k = 0; k < n; k++) {
    char what[24];
    (void)snprintf(what, sizeof(what), "argument %u", k);
    if (!dt__trace_node(trace, inputs[k], what))
      return NULL;
    ids[k] = (dt_node_id_t){dt__trace_current(trace, inputs[k]).id};
  }
  return ids;
}

// Operands of dtypes that will be refused are not broadcast first: the failure then shows them as
// the program gave them, and no guard comes of it.
static bool dtypes_fit(const dt_trace_t *trace, dt_op_t op, const dt_node_id_t *ids, uint32_t n) {
  uint32_t first = op == DT_OP_where;
  bool fit = !first || dt__graph_node(trace->graph, ids[0])->dtype == DT_BOOL;
  for (uint32_t k = first + 1; k < n; k++)
    fit &= dt__graph_node(trace->graph, ids[k])->dtype ==
           dt__graph_node(trace->graph, ids[first])->dtype;
  return fit;
}

// Bodies are traced into the program's graph, too, so its nodes are all there are. What passes make
// does not count. The clock costs more than a node: it is looked at now and then.
static dt_status_t check_budget(const dt_trace_t *trace) {
  dt_watch_t *watch = trace->request->watch;
  uint32_t n = trace->graph->nodes.len;
  if (!watch)
    return NULL;
  if (!trace->pass && watch->limits.max_nodes && n >= watch->limits.max_nodes)
    return DT_FAIL(DT_E_LIMIT,
                   "the program has %u nodes so far; its budget is %u (max_nodes, or "
                   "DUCTILE_MAX_NODES): raise it, or make the program smaller, as with a loop",
                   n, watch->limits.max_nodes);
  return n % NODES_A_LOOK ? NULL : dt__watch_check(watch);
}

static bool may_add(dt_trace_t *trace) {
  if (trace->pass == DT_PASS_LOOK)
    DT_TRACE_FAIL(trace, DT_E_STATE, "the graph is only looked at, at point fused");
  return dt__trace_take(trace, trace->status ? NULL : check_budget(trace));
}

static dt_value_t added(dt_trace_t *trace, dt_node_id_t node) {
  if (trace->lost_cond)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  if (trace->status)
    return none_value;
  dt_value_t made = dt__trace_value(trace, node);
  return trace->interposer ? dt__trace_interpose(trace, made) : made;
}

static dt_value_t add(dt_trace_t *trace, dt_op_t op, const dt_value_t *inputs, uint32_t n,
                      const dt_attrs_t *attrs, bool broadcast) {
  dt_node_id_t few[4], out = {0};
  if (!may_add(trace))
    return none_value;
  dt_node_id_t *ids = node_ids(trace, inputs, n, few, 4);
  if (!ids)
    return none_value;
  if (broadcast && dtypes_fit(trace, op, ids, n) &&
      !dt__trace_take(trace, dt__graph_broadcast(trace->graph, ids, n, &trace->origin)))
    return none_value;
  (void)dt__trace_take(trace, dt__graph_add(trace->graph, op, ids, n, attrs, &trace->origin, &out));
  return added(trace, out);
}

dt_value_t dt__trace_add_external(dt_trace_t *trace, const dt_graph_external_t *external,
                                  const dt_value_t *inputs, uint32_t n) {
  dt_node_id_t few[4], out = {0};
  dt_node_id_t *ids = may_add(trace) ? node_ids(trace, inputs, n, few, 4) : NULL;
  if (!ids)
    return none_value;
  (void)dt__trace_take(
      trace, dt__graph_add_external(trace->graph, external, ids, n, &trace->origin, &out));
  return added(trace, out);
}

dt_value_t dt__trace_add(dt_trace_t *trace, dt_op_t op, const dt_value_t *inputs, uint32_t n,
                         const dt_attrs_t *attrs) {
  return add(trace, op, inputs, n, attrs, false);
}

dt_value_t dt__trace_add_broadcast(dt_trace_t *trace, dt_op_t op, const dt_value_t *inputs,
                                   uint32_t n, const dt_attrs_t *attrs) {
  return add(trace, op, inputs, n, attrs, true);
}

static bool has_sizes(const dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes) {
  const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  return node->rank == rank && dt__syms_known_eq(trace->env, rank, node->sizes, sizes);
}

static dt_value_t add_sized(dt_trace_t *trace, dt_op_t op, dt_value_t x, uint32_t rank,
                            const dt_sym_t *sizes) {
  if (trace->status || !dt__trace_node(trace, x, "argument 0"))
    return none_value;
  if (has_sizes(trace, x, rank, sizes))
    return dt__trace_current(trace, x);
  dt_attrs_t attrs = {0};
  attrs.n_syms = rank;
  if (rank)
    memcpy(attrs.syms, sizes, rank * sizeof(attrs.syms[0]));
  return dt__trace_add(trace, op, &x, 1, &attrs);
}

dt_value_t dt__trace_reshape(dt_trace_t *trace, dt_value_t x, uint32_t rank,
                             const dt_sym_t *sizes) {
  return add_sized(trace, DT_OP_reshape, x, rank, sizes);
}

dt_value_t dt__trace_expand(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes) {
  return add_sized(trace, DT_OP_expand, x, rank, sizes);
}

// The integers a dtype holds are low <= value < high, both exact as doubles.
static void integer_bounds(dt_dtype_t dtype, double *low, double *high) {
  int bits = (int)dt_dtype_bits(dtype);
  double half = 0x1p-1;
  for (int k = 0; k < bits; k++)
    half *= 2; // 2^(bits - 1)
  *low = dt__dtype_is_signed(dtype) ? -half : 0;
  *high = dt__dtype_is_signed(dtype) ? half : 2 * half;
  if (dt__dtype_is_bool(dtype))
    *high = 2;
}

bool dt__trace_literal(dt_trace_t *trace, dt_dtype_t dtype, double value, dt_attrs_t *attrs) {
  if (!dt__dtype_is_valid(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "%d is no dtype", (int)dtype);
    return false;
  }
  if (dt__dtype_is_float(dtype)) {
    attrs->floats[0] = value;
    return true;
  }
  double low = 0, high = 0;
  integer_bounds(dtype, &low, &high);
  if (!(value >= low && value < high)) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the value %.17g is outside of %s", value,
                  dt_dtype_name(dtype));
    return false;
  }
  // At 2^63 and over only u64 is left, which keeps its bits in the signed field.
  int64_t whole = value >= 0x1p63 ? (int64_t)(uint64_t)value : (int64_t)value;
  double back = value >= 0x1p63 ? (double)(uint64_t)whole : (double)whole;
  if (back != value) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the value %.17g is not a whole number; expected %s", value,
                  dt_dtype_name(dtype));
    return false;
  }
  attrs->ints[0] = whole;
  return true;
}
