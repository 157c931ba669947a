// SPDX-License-Identifier: Apache-2.0
// Elements as numbers: where an element comes from, seen through views, concats and casts that keep
// it; what is known without reading it; and the symbol for reading it once.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

#include <stdio.h>
#include <string.h>

// An element, by its index in the value.
typedef struct element_t {
  dt_value_t value;
  int64_t at[DT_MAX_RANK]; // 0 from the rank on
} element_t;

static const dt_node_t *node_of(const dt_trace_t *trace, dt_value_t x) {
  return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
}

static bool constant(const dt_trace_t *trace, dt_sym_t a, int64_t *out) {
  return dt__sym_is_const(trace->env, dt__sym_simplify(trace->env, a), out);
}

static bool is_one(const dt_trace_t *trace, dt_sym_t size) {
  dt_sym_t one = dt__sym_const(trace->env, 1);
  return one.id && dt__sym_known_eq(trace->env, size, one);
}

static bool one_element(const dt_trace_t *trace, dt_value_t x) {
  const dt_node_t *node = node_of(trace, x);
  for (uint32_t k = 0; k < node->rank; k++)
    if (!is_one(trace, node->sizes[k]))
      return false;
  return true;
}

// What an i64 made of `dtype` may be; u64 wraps.
static dt_range_t range_of(dt_dtype_t dtype) {
  dt_dtype_bounds_t bounds = dt__dtype_bounds(dtype);
  return (dt_range_t){dtype == DT_U64 ? INT64_MIN : bounds.low, bounds.high};
}

// ---- Where an element comes from ----------------------------------------------------------------
// Each step goes from an element of `node` to the same one of an operand; false: nobody can tell.

// The first element is the first whatever the sizes are.
static bool through_reshape(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                            element_t *e) {
  int64_t flat = 0, size = 0;
  bool first = true;
  for (uint32_t k = 0; k < node->rank; k++)
    first = first && e->at[k] == 0;
  for (uint32_t k = 0; !first && k < node->rank; k++) {
    if (!constant(trace, node->sizes[k], &size) || !dt__mul_i64(flat, size, &flat))
      return false;
    flat += e->at[k];
  }
  memset(e->at, 0, sizeof(e->at));
  for (uint32_t k = in->rank; !first && k-- > 0;) {
    if (!constant(trace, in->sizes[k], &size) || size <= 0)
      return false;
    e->at[k] = flat % size;
    flat /= size;
  }
  return true;
}

static bool through_permute(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                            element_t *e) {
  (void)trace;
  int64_t at[DT_MAX_RANK] = {0};
  for (uint32_t k = 0; k < in->rank; k++)
    at[node->attrs->axes[k]] = e->at[k];
  memcpy(e->at, at, sizeof(at));
  return true;
}

static bool through_expand(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                           element_t *e) {
  for (uint32_t k = 0; k < in->rank; k++) {
    if (is_one(trace, in->sizes[k]))
      e->at[k] = 0;
    else if (e->at[k] && !dt__sym_known_eq(trace->env, in->sizes[k], node->sizes[k]))
      return false;
  }
  return true;
}

static bool through_slice(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                          element_t *e) {
  for (uint32_t k = 0; k < in->rank; k++) {
    int64_t start = 0, offset = 0;
    if (!constant(trace, node->attrs->syms[2 * k], &start) ||
        !dt__mul_i64(e->at[k], node->attrs->ints[k], &offset) ||
        !dt__add_i64(start, offset, &e->at[k]))
      return false;
  }
  return true;
}

static bool through_cast(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                         element_t *e) {
  (void)trace, (void)e;
  dt_range_t from = range_of(in->dtype), to = range_of(node->dtype);
  return !dt__dtype_is_float(in->dtype) && !dt__dtype_is_float(node->dtype) &&
         node->dtype != DT_U64 && in->dtype != DT_U64 && to.lo <= from.lo && from.hi <= to.hi;
}

static const struct {
  dt_op_t op;
  bool (*through)(const dt_trace_t *trace, const dt_node_t *node, const dt_node_t *in,
                  element_t *e);
} steps[] = {{DT_OP_reshape, through_reshape},
             {DT_OP_permute, through_permute},
             {DT_OP_expand, through_expand},
             {DT_OP_slice, through_slice},
             {DT_OP_cast, through_cast}};

// Which operand of a concat has the element.
static bool through_concat(const dt_trace_t *trace, const dt_node_t *node, element_t *e) {
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    int64_t size = 0;
    if (!constant(trace, dt__graph_node(trace->graph, node->inputs[k])->sizes[axis], &size))
      return false;
    if (e->at[axis] < size) {
      e->value = (dt_value_t){.id = node->inputs[k].id};
      return true;
    }
    e->at[axis] -= size;
  }
  return false;
}

static bool step(const dt_trace_t *trace, element_t *e) {
  const dt_node_t *node = node_of(trace, e->value);
  if (node->op == DT_OP_concat)
    return through_concat(trace, node, e);
  for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
    if (steps[k].op != node->op)
      continue;
    e->value = (dt_value_t){.id = node->inputs[0].id};
    return steps[k].through(trace, node, node_of(trace, e->value), e);
  }
  return false;
}

static element_t origin_of(const dt_trace_t *trace, dt_value_t x) {
  element_t found = {.value = x};
  for (element_t next = found; step(trace, &next);)
    found = next;
  return found;
}

// ---- What it is ---------------------------------------------------------------------------------
// Known without reading it: a literal, an index, a size, an integer argument.
static dt_sym_t known_number(const dt_trace_t *trace, const element_t *e) {
  const dt_node_t *node = node_of(trace, e->value);
  const dt_attrs_t *attrs = node->attrs;
  bool exact = !dt__dtype_is_float(node->dtype);
  if (node->op == DT_OP_size)
    return dt__sym_simplify(trace->env, attrs->syms[0]);
  if (node->op == DT_OP_scalar && exact)
    return dt__sym_const(trace->env, attrs->ints[0]);
  if (node->op == DT_OP_input && trace->graph->inputs.items[attrs->index].is_int)
    return dt__sym_simplify(trace->env, trace->graph->inputs.items[attrs->index].value);
  if (node->op == DT_OP_iota && (node->dtype == DT_I64 || node->dtype == DT_I32) &&
      e->at[attrs->axes[0]] <= INT32_MAX)
    return dt__sym_const(trace->env, e->at[attrs->axes[0]]);
  // That of a boolean argument, and of nothing else that is 0 or 1.
  if (node->op == DT_OP_cast && node->dtype == DT_BOOL) {
    const dt_node_t *in = dt__graph_node(trace->graph, node->inputs[0]);
    dt_range_t range = {0, 2};
    if (in->op == DT_OP_size)
      range = dt__sym_range(trace->env, in->attrs->syms[0]);
    if (range.lo >= 0 && range.hi <= 1)
      return dt__sym_simplify(trace->env, in->attrs->syms[0]);
  }
  return DT_SYM_NONE_ID;
}

bool dt__trace_may_bind(dt_trace_t *trace) {
  if (trace->n_open)
    DT_TRACE_FAIL(trace, DT_E_STATE,
                  "a body of cond, switch, while or subgraph reads no number from data: read it "
                  "before, or select "
                  "with where");
  return trace->status == NULL;
}

dt_sym_t dt__trace_bind(dt_trace_t *trace, dt_value_t x, dt_range_t range) {
  char name[160];
  if (!dt__trace_may_bind(trace))
    return DT_SYM_NONE_ID;
  dt_value_t scalar = dt__trace_reshape(trace, x, 0, NULL);
  if (trace->status)
    return DT_SYM_NONE_ID;
  const char *file = trace->origin.file ? trace->origin.file : "";
  (void)snprintf(name, sizeof(name), file[0] ? "%.40s at %.80s:%d" : "%.40s", trace->origin.op,
                 file, trace->origin.line);
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] =
      dt__trace_made(trace, dt__sym_new(trace->env, DT_SYMBOL_UNBACKED, range, NULL, name));
  if (!dt__trace_add(trace, DT_OP_item, &scalar, 1, &attrs).id)
    return DT_SYM_NONE_ID;
  dt__op_note_number(trace, scalar, attrs.syms[0]);
  return attrs.syms[0];
}

static dt_sym_t read_before(const dt_trace_t *trace, const element_t *e) {
  for (uint32_t k = 0; k < trace->items.len; k++) {
    const dt_trace_item_t *item = &trace->items.items[k];
    if (item->value.id == e->value.id && memcmp(item->at, e->at, sizeof(e->at)) == 0)
      return dt__sym_simplify(trace->env, item->number);
  }
  return DT_SYM_NONE_ID;
}

dt_sym_t dt__trace_number(dt_trace_t *trace, dt_value_t x) {
  x = dt__trace_current(trace, x);
  if (!one_element(trace, x))
    x = dt__trace_reshape(trace, x, 0, NULL); // which needs it to be one
  if (trace->status)
    return DT_SYM_NONE_ID;
  element_t from = origin_of(trace, x);
  dt_sym_t found = known_number(trace, &from);
  if (!found.id)
    found = read_before(trace, &from);
  if (found.id || !dt__trace_take(trace, dt__symenv_status(trace->env)))
    return found;
  dt_trace_item_t item = {
      .value = from.value,
      .number = dt__trace_bind(trace, x, range_of(node_of(trace, from.value)->dtype))};
  memcpy(item.at, from.at, sizeof(item.at));
  if (!trace->status && !DT_VEC_PUSH(&trace->traced->arena, &trace->items, item))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  return trace->status ? DT_SYM_NONE_ID : item.number;
}
