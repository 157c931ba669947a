// SPDX-License-Identifier: Apache-2.0
// Whole graphs in files (runtime/base/stream.h). Expressions are their ids in the graph's
// environment, which is kept beside (dt__symenv_write); ops go by name, attributes by what an op
// reads of them. What was read has ids and lengths that are in their bounds, and is as yet
// unverified (dt__graph_verify).
#include "lower/graph/external.h"
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/stream.h"

#include <string.h>

typedef struct storing_t {
  dt_stream_t *s;
  dt_graph_t *graph;
  uint32_t depth; // of bodies
} storing_t;

static bool is_read(const storing_t *st) { return !st->s->to; }

// A list of the graph's: `vec` and its elements' length.
#define LIST(st, vec)                                                                              \
  ((vec)->items = dt__stream_list((st)->s, &(vec)->len, (vec)->items, sizeof((vec)->items[0])),    \
   (vec)->len)

// Of what is written before it knows all of its lists, when it is read again.
#define STORE_LIST(st, vec, describe)                                                              \
  do {                                                                                             \
    uint32_t n_ = LIST(st, vec);                                                                   \
    if (is_read(st))                                                                               \
      (vec)->cap = n_;                                                                             \
    for (uint32_t k_ = 0; k_ < n_ && !(st)->s->failed; k_++)                                       \
      describe(st, &(vec)->items[k_]);                                                             \
  } while (0)

// ---- Parts ----------------------------------------------------------------------------------------
void dt__sym_store(dt_stream_t *s, const dt_symenv_t *env, dt_sym_t *e) {
  dt__stream_number(s, &e->id);
  if (s->to || !e->id || dt__sym_exists(env, e->id))
    return;
  s->failed = true;
  e->id = 0;
}

static void store_syms(storing_t *st, uint32_t n, dt_sym_t *syms) {
  for (uint32_t k = 0; k < n; k++)
    dt__sym_store(st->s, st->graph->env, &syms[k]);
}

void dt__dtype_store(dt_stream_t *s, dt_dtype_t *dtype) {
  uint32_t number = (uint32_t)*dtype;
  dt__stream_number(s, &number);
  *dtype = (dt_dtype_t)number;
  s->failed = s->failed || (!s->to && !dt__dtype_is_valid(*dtype));
}

void dt__origin_store(dt_stream_t *s, dt_origin_t *origin) {
  uint32_t line = (uint32_t)origin->line;
  dt__stream_name(s, &origin->op);
  dt__stream_name(s, &origin->file);
  dt__stream_number(s, &line);
  origin->line = (int)line;
}

static void store_rank(storing_t *st, uint32_t *rank) {
  *rank = dt__stream_below(st->s, *rank, DT_MAX_RANK + 1);
}

static void store_id(storing_t *st, dt_node_id_t *id, uint64_t end) {
  id->id = dt__stream_below(st->s, id->id, end);
}

// ---- Declarations ---------------------------------------------------------------------------------
static void store_input(storing_t *st, dt_graph_input_t *input) {
  dt__stream_name(st->s, &input->name);
  dt__dtype_store(st->s, &input->dtype);
  store_rank(st, &input->rank);
  store_syms(st, input->rank, input->sizes);
  store_syms(st, input->rank, input->strides);
  dt__stream_flag(st->s, &input->contiguous);
  dt__stream_number(st->s, &input->align);
  dt__stream_flag(st->s, &input->donated);
  dt__stream_flag(st->s, &input->is_int);
  dt__sym_store(st->s, st->graph->env, &input->value);
  st->s->failed = st->s->failed || (input->align & (input->align - 1)) ||
                  (input->is_int && (input->rank || dt__dtype_is_float(input->dtype)));
}

// Without data, which the reader gives.
static void store_constant(storing_t *st, dt_graph_constant_t *constant) {
  dt__stream_name(st->s, &constant->name);
  dt__dtype_store(st->s, &constant->dtype);
  store_rank(st, &constant->rank);
  for (uint32_t d = 0; d < constant->rank; d++)
    dt__stream_signed(st->s, &constant->sizes[d]);
  dt__stream_word(st->s, &constant->key);
}

static void store_capture(storing_t *st, dt_graph_capture_t *capture) {
  dt__stream_name(st->s, &capture->name);
  dt__sym_store(st->s, st->graph->env, &capture->value);
}

static void store_assert(storing_t *st, dt_graph_assert_t *check) {
  uint32_t code = (uint32_t)check->code;
  dt__sym_store(st->s, st->graph->env, &check->cond);
  dt__stream_name(st->s, &check->what);
  dt__origin_store(st->s, &check->origin);
  dt__stream_number(st->s, &code);
  check->code = (dt_code_t)code;
}

static void store_update(storing_t *st, dt_graph_update_t *update) {
  dt__stream_number(st->s, &update->input);
  store_id(st, &update->value, (uint64_t)st->graph->nodes.len + 1);
}

static void store_order(storing_t *st, dt_graph_order_t *order) {
  for (uint32_t d = 0; d < DT_MAX_RANK; d++)
    order->dims[d] = (uint8_t)dt__stream_below(st->s, order->dims[d], DT_MAX_RANK);
  order->like = dt__stream_below(st->s, order->like, (uint64_t)st->graph->inputs.len + 1);
}

static void store_output(storing_t *st, dt_node_id_t *output) {
  store_id(st, output, (uint64_t)st->graph->nodes.len + 1);
}

// ---- Calls of users' ops --------------------------------------------------------------------------
// Numbers of 8 bytes.
static const void *store_values(dt_stream_t *s, const void *items, uint32_t *n) {
  void *data = (void *)(uintptr_t)items;
  size_t size = (size_t)*n * 8;
  dt__stream_bytes(s, &data, &size);
  s->failed |= size % 8 != 0 || size / 8 > DT_OP_MAX_VALUES;
  *n = s->failed ? 0 : (uint32_t)(size / 8);
  return data;
}

void dt__op_attr_store(dt_stream_t *s, dt_op_attr_t *attr) {
  uint32_t kind = (uint32_t)attr->kind;
  dt__stream_number(s, &kind);
  attr->kind = (dt_op_attr_kind_t)kind;
  dt__stream_text(s, &attr->name);
  s->failed = s->failed || !dt__attr_kind_name(attr->kind) || !dt__attr_name_is_valid(attr->name);
  if (s->failed)
    return;
  switch (attr->kind) {
  case DT_OP_ATTR_INT:
    dt__stream_signed(s, &attr->i);
    break;
  case DT_OP_ATTR_FLOAT:
    dt__stream_double(s, &attr->f);
    break;
  case DT_OP_ATTR_TEXT:
    dt__stream_text(s, &attr->text);
    break;
  case DT_OP_ATTR_INTS:
    attr->ints = store_values(s, attr->ints, &attr->n);
    break;
  case DT_OP_ATTR_FLOATS:
    attr->floats = store_values(s, attr->floats, &attr->n);
    break;
  }
}

static void store_result(storing_t *st, dt_external_result_t *result) {
  dt__dtype_store(st->s, &result->dtype);
  store_rank(st, &result->rank);
  store_syms(st, result->rank, result->sizes);
}

// Its op is the reader's, by name.
static void store_external(storing_t *st, const dt_graph_external_t **item) {
  dt_stream_t *s = st->s;
  dt_graph_external_t *call = (dt_graph_external_t *)(uintptr_t)*item;
  if (is_read(st))
    *item = call = DT_ARENA_NEW(s->arena, dt_graph_external_t);
  s->failed |= !call;
  if (s->failed)
    return;
  dt__stream_text(s, &call->name);
  dt__stream_text(s, &call->identity);
  call->part =
      (dt_external_part_t)dt__stream_below(s, (uint32_t)call->part, DT_EXTERNAL_NUMBERS + 1);
  dt_external_result_t *results =
      dt__stream_list(s, &call->n_results, call->results, sizeof(*results));
  call->results = results;
  for (uint32_t k = 0; k < call->n_results && !s->failed; k++)
    store_result(st, &results[k]);
  dt_op_attr_t *attrs = dt__stream_list(s, &call->n_attrs, call->attrs, sizeof(*attrs));
  call->attrs = attrs;
  s->failed |= call->n_attrs > DT_OP_MAX_ATTRS || call->n_results > DT_OP_MAX_RESULTS;
  for (uint32_t k = 0; k < call->n_attrs && !s->failed; k++)
    dt__op_attr_store(s, &attrs[k]);
  dt__sym_store(s, st->graph->env, &call->items);
}

// ---- Nodes ----------------------------------------------------------------------------------------
static void store_op(storing_t *st, dt_op_t *op) {
  const char *name = is_read(st) ? NULL : dt__op_info(*op)->name;
  dt__stream_name(st->s, &name);
  if (!is_read(st))
    return;
  *op = name ? dt__op_find(name, strlen(name)) : DT_OP_NONE;
  st->s->failed |= *op == DT_OP_NONE;
}

// What the op reads, in normal form (attrs.c); `rank` is that of its first operand.
static void store_attrs(storing_t *st, dt_op_t op, uint32_t rank, dt_attrs_t *attrs) {
  dt_stream_t *s = st->s;
  uint32_t mask = dt__op_attrs(op), dtype = (uint32_t)attrs->dtype;
  if (mask & DT_ATTR_DTYPE)
    dt__stream_number(s, &dtype);
  attrs->dtype = (dt_dtype_t)dtype;
  s->failed = s->failed || (dtype && !dt__dtype_is_valid(attrs->dtype));
  if (mask & DT_ATTR_INDEX)
    dt__stream_number(s, &attrs->index);
  if (mask & (DT_ATTR_AXES | DT_ATTR_N_AXES))
    store_rank(st, &attrs->n_axes);
  for (uint32_t k = 0; (mask & DT_ATTR_AXES) && k < attrs->n_axes; k++)
    attrs->axes[k] = (int32_t)dt__stream_below(s, (uint32_t)attrs->axes[k], DT_MAX_RANK);
  if (mask & DT_ATTR_KEEPDIMS)
    attrs->keepdims = dt__stream_below(s, attrs->keepdims, 2);
  if (mask & DT_ATTR_MODE)
    dt__stream_number(s, &attrs->mode);
  if (mask & DT_ATTR_SYMS)
    attrs->n_syms = dt__stream_below(s, attrs->n_syms, 2 * DT_MAX_RANK + 1);
  store_syms(st, attrs->n_syms, attrs->syms);
  for (uint32_t k = 0; (mask & DT_ATTR_STEPS) && k < rank; k++)
    dt__stream_signed(s, &attrs->ints[k]);
  if (mask & DT_ATTR_VALUE)
    dt__stream_signed(s, &attrs->ints[0]);
  if (mask & (DT_ATTR_VALUE | DT_ATTR_EPSILON))
    dt__stream_double(s, &attrs->floats[0]);
}

static bool bodies_are_there(const storing_t *st, const dt_node_t *node) {
  const dt_graph_t *graph = st->graph;
  return !dt__op_is_control(node->op) || node->attrs->index < graph->controls.len;
}

static void store_node(storing_t *st, dt_node_t *node) {
  dt_stream_t *s = st->s;
  uint32_t id = (uint32_t)(node - st->graph->nodes.items) + 1;
  store_op(st, &node->op);
  dt__dtype_store(s, &node->dtype);
  store_rank(st, &node->rank);
  store_syms(st, node->rank, node->sizes);
  dt_node_id_t *inputs = dt__stream_list(s, &node->n_inputs, node->inputs, sizeof(*inputs));
  node->inputs = inputs;
  for (uint32_t k = 0; k < node->n_inputs && !s->failed; k++)
    store_id(st, &inputs[k], id);
  if (is_read(st))
    node->attrs = DT_ARENA_NEW(s->arena, dt_attrs_t);
  s->failed |= !node->attrs || (node->n_inputs && inputs[0].id == 0);
  if (s->failed)
    return;
  uint32_t rank = node->n_inputs ? dt__graph_node(st->graph, inputs[0])->rank : 0;
  store_attrs(st, node->op, rank, (dt_attrs_t *)(uintptr_t)node->attrs);
  dt__origin_store(s, &node->origin);
  s->failed = s->failed || !bodies_are_there(st, node);
}

// ---- Graphs ---------------------------------------------------------------------------------------
static void store_graph(dt_stream_t *s, dt_graph_t *graph, uint32_t depth);

static void store_body(storing_t *st, const dt_graph_t **body) {
  if (is_read(st))
    *body = dt__graph_create(st->s->arena, st->graph->env);
  st->s->failed |= !*body || st->depth >= DT_MOST_BODY_DEPTH;
  if (!st->s->failed)
    store_graph(st->s, (dt_graph_t *)(uintptr_t)*body, st->depth + 1);
}

static void store_control(storing_t *st, dt_graph_control_t *control) {
  dt_graph_control_t *all = st->graph->controls.items;
  uint32_t place = (uint32_t)(control - all);
  control->same = dt__stream_below(st->s, control->same, (uint64_t)place + 1);
  if (dt__control_shares(all, all, place))
    return;
  uint32_t n = dt__stream_below(st->s, is_read(st) ? 0 : dt__control_n(control), DT_MOST_CASES + 1);
  st->s->failed |= n == 0;
  for (uint32_t k = 0; k < n && !st->s->failed; k++)
    store_body(st, &control->bodies[k]);
}

static void store_graph(dt_stream_t *s, dt_graph_t *graph, uint32_t depth) {
  storing_t st = {s, graph, depth};
  STORE_LIST(&st, &graph->inputs, store_input);
  STORE_LIST(&st, &graph->constants, store_constant);
  STORE_LIST(&st, &graph->captures, store_capture);
  STORE_LIST(&st, &graph->externals, store_external);
  STORE_LIST(&st, &graph->controls, store_control);
  STORE_LIST(&st, &graph->nodes, store_node);
  STORE_LIST(&st, &graph->outputs, store_output);
  STORE_LIST(&st, &graph->asserts, store_assert);
  STORE_LIST(&st, &graph->updates, store_update);
  STORE_LIST(&st, &graph->orders, store_order);
}

void dt__graph_store(dt_stream_t *s, dt_graph_t *graph) { store_graph(s, graph, 0); }
