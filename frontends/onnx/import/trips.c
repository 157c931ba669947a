// SPDX-License-Identifier: Apache-2.0
// Trips of a Loop counted from its condition. Exporters of other frameworks' while loops give no
// trip count: the body itself compares a counter with a size. Values of one element are followed
// back through the body as lines, base + step * trip.
#include "frontends/onnx/import/trips.h"

#include "frontends/onnx/import/compute.h"

#define MOST_NODES 32 // that one line is followed through

typedef struct line_t {
  dt_sym_t base;
  int64_t step;
  uint32_t bits; // integers below 2^bits are exact in all that it went through
  bool is_float;
} line_t;

typedef struct body_t {
  dt_imp_node_t *n;
  const dt_onnx_graph_t *graph;
  const dt_imp_val_t *const *init;
  uint32_t nodes; // followed so far
} body_t;

// ---- Numbers ----------------------------------------------------------------------------------------
dt_sym_t dt__imp_number_of(dt_imp_node_t *n, const dt_imp_val_t *value) {
  const dt_imp_known_t *known = value ? dt__imp_val_known(n, value) : NULL;
  return known && known->n == 1 && dt__imp_is_integral(known->dtype) ? known->items[0].sym
                                                                     : (dt_sym_t){0};
}

const dt_onnx_node_t *dt__imp_maker(const dt_onnx_graph_t *graph, uint32_t id) {
  for (uint32_t k = id ? graph->node.len : 0; k-- > 0;)
    for (uint32_t i = 0; i < graph->node.items[k].output.len; i++)
      if (graph->node.items[k].output.items[i].id == id)
        return &graph->node.items[k];
  return NULL;
}

bool dt__imp_is_op(const dt_onnx_node_t *node, const char *type) {
  return node && !node->function && dt__onnx_domain(node->domain).len == 0 &&
         dt__onnx_str_is(node->op_type, type);
}

static const dt_imp_val_t *data_val(dt_imp_node_t *n, const dt_onnx_tensor_t *data) {
  dt_imp_val_t *value = data ? dt__imp_new_val(n->imp) : NULL;
  if (value)
    value->data = data;
  return value;
}

const dt_imp_val_t *dt__imp_body_val(dt_imp_node_t *n, const dt_onnx_graph_t *graph, uint32_t id) {
  const dt_onnx_node_t *node = dt__imp_maker(graph, id);
  if (node) {
    const dt_onnx_attribute_t *attr =
        dt__imp_is_op(node, "Constant") ? dt__imp_find_attr(n->frame, node, "value") : NULL;
    return attr ? data_val(n, attr->t) : NULL;
  }
  for (uint32_t k = 0; k < graph->input.len; k++)
    if (graph->input.items[k].name.id == id)
      return NULL;
  for (uint32_t k = 0; k < graph->initializer.len; k++)
    if (graph->initializer.items[k].name.id == id)
      return data_val(n, &graph->initializer.items[k]);
  return n->imp->values[id];
}

static uint32_t operand(const dt_onnx_node_t *node, uint32_t k) {
  return k < node->input.len ? node->input.items[k].id : 0;
}

// ---- Lines ------------------------------------------------------------------------------------------
static bool line_of(body_t *b, uint32_t id, line_t *out);

static bool is_number(body_t *b, const dt_imp_val_t *value, line_t *out) {
  const dt_imp_known_t *known = value ? dt__imp_val_known(b->n, value) : NULL;
  bool wide = known && known->dtype == DT_I64;
  *out = (line_t){.base = dt__imp_number_of(b->n, value), .bits = wide ? 63 : 31};
  return out->base.id != 0 && (wide || known->dtype == DT_I32);
}

// `id`, or what it is another name of.
static uint32_t behind_identity(body_t *b, uint32_t id) {
  const dt_onnx_node_t *node = dt__imp_maker(b->graph, id);
  for (; dt__imp_is_op(node, "Identity") && b->nodes < MOST_NODES; b->nodes++) {
    id = operand(node, 0);
    node = dt__imp_maker(b->graph, id);
  }
  return id;
}

// State k: what does not change, or changes by a literal.
static bool state_line(body_t *b, uint32_t k, line_t *out) {
  uint32_t mine = b->graph->input.items[2 + k].name.id;
  uint32_t next = behind_identity(b, b->graph->output.items[1 + k].name.id);
  if (!is_number(b, b->init[k], out))
    return false;
  if (next == mine)
    return true;
  const dt_onnx_node_t *node = dt__imp_maker(b->graph, next);
  bool less = dt__imp_is_op(node, "Sub");
  if (!less && !dt__imp_is_op(node, "Add"))
    return false;
  bool first = behind_identity(b, operand(node, 0)) == mine;
  if (!first && (less || behind_identity(b, operand(node, 1)) != mine))
    return false;
  line_t by;
  if (!line_of(b, operand(node, first ? 1 : 0), &by) || by.step != 0 ||
      !dt_sym_constant(b->n->t, by.base, &out->step) || out->step == INT64_MIN)
    return false;
  out->step = less ? -out->step : out->step;
  return true;
}

static bool input_line(body_t *b, uint32_t k, line_t *out) {
  if (k == 0)
    *out = (line_t){.base = dt_sym_const(b->n->t, 0), .step = 1, .bits = 63};
  return k == 0 || (k > 1 && state_line(b, k - 2, out));
}

static bool sum_line(body_t *b, const dt_onnx_node_t *node, bool less, line_t *out) {
  line_t y;
  if (!line_of(b, operand(node, 0), out) || !line_of(b, operand(node, 1), &y) || out->is_float ||
      (less ? __builtin_sub_overflow(out->step, y.step, &out->step)
            : __builtin_add_overflow(out->step, y.step, &out->step)))
    return false;
  dt_trace_t *t = b->n->t;
  out->base = less ? dt_sym_sub(t, out->base, y.base) : dt_sym_add(t, out->base, y.base);
  return !y.is_float;
}

// Casts that keep integers: those to wide integers, and to floats for as long as these hold them.
static bool cast_line(body_t *b, const dt_onnx_node_t *node, line_t *out) {
  const dt_onnx_attribute_t *to = dt__imp_find_attr(b->n->frame, node, "to");
  const dt_onnx_dtype_t *dtype = to ? dt__onnx_dtype((int32_t)to->i) : NULL;
  uint32_t bits = 0;
  switch (dtype ? dtype->dtype : DT_DTYPE_NONE) {
  case DT_F32:
    bits = 24;
    break;
  case DT_F64:
    bits = 53;
    break;
  case DT_I64:
    bits = 63;
    break;
  case DT_I32:
    bits = 31;
    break;
  default:
    break;
  }
  if (!bits || !line_of(b, operand(node, 0), out))
    return false;
  out->bits = bits < out->bits ? bits : out->bits;
  out->is_float = dt__imp_is_float(dtype->dtype);
  return true;
}

// What the name's one element is on each trip. False: that cannot be said.
static bool line_of(body_t *b, uint32_t id, line_t *out) {
  *out = (line_t){0};
  if (!id || b->nodes++ >= MOST_NODES)
    return false;
  for (uint32_t k = 0; k < b->graph->input.len; k++)
    if (b->graph->input.items[k].name.id == id)
      return input_line(b, k, out);
  const dt_onnx_node_t *node = dt__imp_maker(b->graph, id);
  if (!node || dt__imp_is_op(node, "Constant"))
    return is_number(b, dt__imp_body_val(b->n, b->graph, id), out);
  if (dt__imp_is_op(node, "Identity") || dt__imp_is_op(node, "Squeeze") ||
      dt__imp_is_op(node, "Unsqueeze"))
    return line_of(b, operand(node, 0), out);
  if (dt__imp_is_op(node, "Cast"))
    return cast_line(b, node, out);
  return (dt__imp_is_op(node, "Add") || dt__imp_is_op(node, "Sub")) &&
         sum_line(b, node, dt__imp_is_op(node, "Sub"), out);
}

// ---- Conditions -------------------------------------------------------------------------------------
// Both are exact at each trip until x has reached y.
static void need_exact(body_t *b, const line_t *x, const line_t *y) {
  uint32_t bits = x->bits < y->bits ? x->bits : y->bits;
  dt_trace_t *t = b->n->t;
  if (bits == 63)
    return;
  dt_sym_t most = dt_sym_const(t, ((int64_t)1 << bits) - 1 - x->step), least = dt_sym_neg(t, most);
  dt_check(t, dt_sym_and(t, dt_sym_le(t, y->base, most), dt_sym_le(t, least, x->base)),
           "the counter of a loop is exact in its element type");
}

// Trips while x < y (with `equal`: x <= y) at the end of each.
static dt_sym_t trips_below(body_t *b, uint32_t x_id, uint32_t y_id, bool equal) {
  line_t x, y;
  dt_trace_t *t = b->n->t;
  int64_t step = 0;
  if (!line_of(b, x_id, &x) || !line_of(b, y_id, &y) || y.step > 0 || x.step < 0 ||
      __builtin_sub_overflow(x.step, y.step, &step) || step == 0 || step > (1 << 20))
    return (dt_sym_t){0};
  need_exact(b, &x, &y);
  dt_sym_t one = dt_sym_const(t, 1), room = dt_sym_sub(t, y.base, x.base);
  if (equal)
    room = dt_sym_add(t, room, one);
  dt_sym_t more = dt_sym_ceildiv(t, room, dt_sym_const(t, step));
  return dt_sym_add(t, dt_sym_max(t, more, dt_sym_const(t, 0)), one);
}

static dt_sym_t trips_of(body_t *b, uint32_t id, bool *exact) {
  const dt_onnx_node_t *node = dt__imp_maker(b->graph, behind_identity(b, id));
  *exact = true;
  if (dt__imp_is_op(node, "Less") || dt__imp_is_op(node, "LessOrEqual"))
    return trips_below(b, operand(node, 0), operand(node, 1), dt__imp_is_op(node, "LessOrEqual"));
  if (dt__imp_is_op(node, "Greater") || dt__imp_is_op(node, "GreaterOrEqual"))
    return trips_below(b, operand(node, 1), operand(node, 0),
                       dt__imp_is_op(node, "GreaterOrEqual"));
  if (!dt__imp_is_op(node, "And") || b->nodes++ >= MOST_NODES)
    return (dt_sym_t){0};
  bool both[2];
  dt_sym_t first = trips_of(b, operand(node, 0), &both[0]),
           second = trips_of(b, operand(node, 1), &both[1]);
  *exact = first.id && second.id && both[0] && both[1];
  return !first.id ? second : !second.id ? first : dt_sym_min(b->n->t, first, second);
}

dt_sym_t dt__imp_counted_trips(dt_imp_node_t *n, const dt_onnx_graph_t *graph,
                               const dt_imp_val_t *const *init, bool *out_exact) {
  body_t body = {.n = n, .graph = graph, .init = init};
  dt_sym_t trips = trips_of(&body, graph->output.items[0].name.id, out_exact);
  *out_exact = *out_exact && trips.id;
  return trips;
}
