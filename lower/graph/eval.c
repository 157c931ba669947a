// SPDX-License-Identifier: Apache-2.0
// The evaluator's loop over nodes, its leaves, and the walks that other files use.
#include "lower/graph/eval.h"

#include "lower/graph/eval_private.h"
#include "runtime/base/control.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_ELEMENTS ((int64_t)1 << 31)
#define MAX_TRIPS ((int64_t)1 << 20)
#define ENTRY UINT32_MAX // asserts that wait for no data

dt_status_t dt__eval_sym(const dt_eval_t *e, dt_sym_t sym, int64_t *out) {
  if (dt__sym_eval(e->graph->env, sym, e->symbols, out))
    return NULL;
  *out = 0;
  return DT_FAIL(DT_E_SHAPE, "a size has no value (overflow or division by 0)");
}

dt_status_t dt__eval_misfit(const dt_node_t *node, const char *what) {
  return DT_FAIL(DT_E_SHAPE, "%s: %s; the symbols' values break a guard",
                 dt__op_info(node->op)->name, what);
}

// ---- Walks and rows -----------------------------------------------------------------------------
dt_walk_t dt__walk_begin(uint32_t rank, const int64_t *sizes, const int64_t *strides) {
  dt_walk_t walk = {.rank = rank};
  if (rank) {
    memcpy(walk.sizes, sizes, rank * sizeof(*sizes));
    memcpy(walk.strides, strides, rank * sizeof(*strides));
  }
  return walk;
}

void dt__walk_next(dt_walk_t *walk) {
  for (uint32_t k = walk->rank; k-- > 0;) {
    walk->offset += walk->strides[k];
    if (++walk->index[k] < walk->sizes[k])
      return;
    walk->offset -= walk->strides[k] * walk->sizes[k];
    walk->index[k] = 0;
  }
}

void dt__eval_strides(const dt_eval_value_t *value, int64_t *strides) {
  int64_t stride = 1;
  for (uint32_t k = value->rank; k-- > 0;) {
    strides[k] = stride;
    stride *= value->sizes[k]; // within the element limit, or 0
  }
}

uint32_t dt__eval_axes(const dt_node_t *node) {
  uint32_t bits = 0;
  for (uint32_t k = 0; k < node->attrs->n_axes; k++)
    bits |= 1u << node->attrs->axes[k];
  return bits;
}

dt_status_t dt__eval_rows(const dt_eval_t *e, const dt_node_t *node, uint32_t folded,
                          dt_eval_value_t *out, dt_row_fn_t fn) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t strides[DT_MAX_RANK], sizes[2][DT_MAX_RANK], steps[2][DT_MAX_RANK];
  int64_t counts[2] = {1, 1};
  uint32_t ranks[2] = {0, 0};
  dt__eval_strides(in, strides);
  for (uint32_t k = 0; k < in->rank; k++) {
    uint32_t side = (folded >> k) & 1u;
    sizes[side][ranks[side]] = in->sizes[k];
    steps[side][ranks[side]++] = strides[k];
    // Either product may be large where the other is 0; then there is nothing to visit.
    if (!dt__mul_i64(counts[side], in->sizes[k], &counts[side]))
      return DT_FAIL(DT_E_LIMIT, "too many elements");
  }
  // A reduction has one element a row, over nothing too; the others have those of the input.
  bool reduces = (dt__op_info(node->op)->flags & DT_OPF_REDUCE) != 0;
  if (out->count != (reduces ? counts[0] : in->count))
    return dt__eval_misfit(node, "rows do not fit the result");
  if (out->count == 0)
    return NULL;
  dt_row_t row = {.e = e, .node = node, .out = out, .n = counts[1]};
  int64_t *at = DT_ARENA_ARRAY(e->arena, int64_t, row.n);
  row.x = DT_ARENA_ARRAY(e->arena, dt_approx_t, row.n);
  row.at = at;
  if (!at || !row.x)
    return DT_NO_MEMORY();
  dt_walk_t outer = dt__walk_begin(ranks[0], sizes[0], steps[0]);
  for (row.index = 0; row.index < counts[0]; row.index++, dt__walk_next(&outer)) {
    dt_walk_t inner = dt__walk_begin(ranks[1], sizes[1], steps[1]);
    for (int64_t k = 0; k < row.n; k++, dt__walk_next(&inner)) {
      at[k] = outer.offset + inner.offset;
      row.x[k] = dt__eval_at(in, at[k]);
    }
    fn(&row);
  }
  return NULL;
}

// ---- Leaves -------------------------------------------------------------------------------------
static void load(dt_eval_value_t *out, const void *data, const int64_t *strides) {
  if (out->count == 0)
    return;
  int64_t bytes = (int64_t)dt_dtype_size(out->dtype);
  if (dt__dtype_is_packed(out->dtype)) { // contiguous
    for (int64_t k = 0; k < out->count; k++)
      out->data[k] = dt__element_load(out->dtype, data, dt__eval_row(out), k);
    return;
  }
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, strides);
  for (int64_t k = 0; k < out->count; k++, dt__walk_next(&walk))
    out->data[k] = dt__scalar_load(out->dtype, (const char *)data + walk.offset * bytes);
}

dt_status_t dt__eval_input(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  if (e->operands) {
    *out = e->operands[node->attrs->index];
    return NULL;
  }
  const dt_eval_arg_t *arg = &e->args[node->attrs->index];
  for (uint32_t k = 0; k < out->rank; k++) {
    if (arg->sizes[k] != out->sizes[k])
      return DT_FAIL(DT_E_SHAPE, "argument %u: size %u is %lld, the symbols' values say %lld",
                     node->attrs->index, k, (long long)arg->sizes[k], (long long)out->sizes[k]);
  }
  load(out, arg->data, arg->strides);
  return NULL;
}

dt_status_t dt__eval_constant(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  int64_t strides[DT_MAX_RANK];
  dt__eval_strides(out, strides);
  load(out, e->graph->constants.items[node->attrs->index].data, strides);
  return NULL;
}

dt_status_t dt__eval_scalar(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  (void)e;
  if (dt__dtype_is_float(out->dtype))
    out->data[0] = dt__scalar_cast(DT_F64, out->dtype, (dt_scalar_t){.f = node->attrs->floats[0]});
  else
    out->data[0].i = node->attrs->ints[0];
  return NULL;
}

dt_status_t dt__eval_size(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_sym(e, node->attrs->syms[0], &out->data[0].i);
}

dt_status_t dt__eval_iota(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  (void)e;
  int64_t none[DT_MAX_RANK] = {0};
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, none);
  for (int64_t k = 0; k < out->count; k++, dt__walk_next(&walk)) {
    dt_scalar_t index = {.i = walk.index[node->attrs->axes[0]]};
    out->data[k] = dt__scalar_cast(DT_I64, out->dtype, index);
  }
  return NULL;
}

// ---- The loop -----------------------------------------------------------------------------------
static const dt_eval_fn_t functions[DT_OP_COUNT] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  [DT_OP_##name] = dt__eval_##eval,
#include "lower/graph/ops.def"
};

static dt_status_t make_room(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  int64_t *left = e->left;
  bool empty = false;
  out->dtype = node->dtype;
  out->rank = node->rank;
  out->count = 1;
  for (uint32_t k = 0; k < node->rank; k++) {
    DT_TRY(dt__eval_sym(e, node->sizes[k], &out->sizes[k]));
    if (out->sizes[k] < 0 || out->sizes[k] >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE, "size %u is %lld, which is not in [0, %lld)", k,
                     (long long)out->sizes[k], (long long)DT_SIZE_LIMIT);
    empty = empty || out->sizes[k] == 0;
  }
  for (uint32_t k = 0; k < node->rank && !empty; k++) {
    if (!dt__mul_i64(out->count, out->sizes[k], &out->count) || out->count > *left)
      return DT_FAIL(DT_E_LIMIT, "the evaluation has more than %lld elements",
                     (long long)MAX_ELEMENTS);
  }
  if (empty)
    out->count = 0;
  *left -= out->count;
  out->data = DT_ARENA_ARRAY(e->arena, dt_scalar_t, out->count);
  if (e->bounds)
    out->bound = DT_ARENA_ARRAY(e->arena, double, out->count);
  return out->data && (out->bound || !e->bounds) ? NULL : DT_NO_MEMORY();
}

// ---- Asserts ------------------------------------------------------------------------------------
// Makes the asserts whose newest symbol from data is `newest`, or which have none.
static dt_status_t check_asserts(const dt_eval_t *e, uint32_t newest) {
  for (uint32_t k = 0; k < e->graph->asserts.len; k++) {
    const dt_graph_assert_t *item = &e->graph->asserts.items[k];
    int64_t holds = 0;
    if (e->waits_for[k] != newest)
      continue;
    // A condition without a value does not hold either.
    if (!dt__sym_eval(e->graph->env, item->cond, e->symbols, &holds) || !holds)
      return DT_FAIL(item->code ? item->code : DT_E_SHAPE, "assert failed: %s",
                     item->what ? item->what : "");
  }
  return NULL;
}

static dt_status_t prepare(dt_eval_t *e, const int64_t *symbols) {
  const dt_graph_t *graph = e->graph;
  uint32_t n = dt__symenv_symbol_count(graph->env);
  e->values = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, graph->nodes.len + 1);
  e->symbols = DT_ARENA_ARRAY(e->arena, int64_t, (size_t)n + 1);
  e->waits_for = DT_ARENA_ARRAY(e->arena, uint32_t, graph->asserts.len + 1);
  if (!e->values || !e->symbols || !e->waits_for)
    return DT_NO_MEMORY();
  bool *bound = DT_ARENA_ARRAY(e->arena, bool, (size_t)n + 1); // by an item, and not at entry
  if (!bound)
    return DT_NO_MEMORY();
  for (uint32_t k = 0, symbol = 0; k < graph->nodes.len; k++) {
    const dt_node_t *node = &graph->nodes.items[k];
    if (node->op == DT_OP_item && dt__sym_is_symbol(graph->env, node->attrs->syms[0], &symbol))
      bound[symbol] = true;
  }
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(graph->env, k).kind;
    if (!bound[k] && kind != DT_SYMBOL_LOOP && kind != DT_SYMBOL_DATA)
      e->symbols[k] = symbols[k];
  }
  for (uint32_t k = 0; k < graph->asserts.len; k++) {
    uint32_t newest = 0;
    bool waits = dt__sym_newest_unbacked(graph->env, graph->asserts.items[k].cond, &newest);
    e->waits_for[k] = waits && bound[newest] ? newest : ENTRY;
  }
  return check_asserts(e, ENTRY);
}

// After the asserts, which say more.
static dt_status_t check_range(const dt_eval_t *e, uint32_t symbol) {
  dt_symbol_info_t info = dt__symbol_info(e->graph->env, symbol);
  int64_t value = e->symbols[symbol];
  if (value >= info.range.lo && value <= info.range.hi)
    return NULL;
  return DT_FAIL(DT_E_RANGE, "%s: the data says %lld; expected %lld to %lld",
                 info.name[0] ? info.name : "item", (long long)value, (long long)info.range.lo,
                 (long long)info.range.hi);
}

static dt_status_t evaluate_node(const dt_eval_t *e, const dt_node_t *node,
                                 dt_eval_value_t *value) {
  uint32_t symbol = 0;
  DT_TRY(dt__control_check(e->control));
  DT_TRY(make_room(e, node, value));
  DT_TRY(functions[node->op](e, node, value));
  if (dt__op_info(node->op)->computes && dt__dtype_is_half(node->dtype)) {
    for (int64_t k = 0; k < value->count; k++)
      dt__eval_put(value, k, dt__approx_stored(node->dtype, dt__eval_at(value, k)));
  }
  if (node->op == DT_OP_item && dt__sym_is_symbol(e->graph->env, node->attrs->syms[0], &symbol)) {
    DT_TRY(check_asserts(e, symbol));
    DT_TRY(check_range(e, symbol));
  }
  return NULL;
}

// Nodes in order, but those that nothing needs.
static dt_status_t evaluate(dt_eval_t *e, dt_eval_value_t *out) {
  const dt_graph_t *graph = e->graph;
  bool *needed = NULL;
  e->results = DT_ARENA_ARRAY(e->arena, dt_eval_value_t *, graph->controls.len + 1);
  e->externals = DT_ARENA_ARRAY(e->arena, dt_eval_value_t *, graph->externals.len + 1);
  if (!e->results || !e->externals)
    return DT_NO_MEMORY();
  DT_TRY(dt__graph_live(graph, e->arena, &needed));
  for (uint32_t k = 0; k < graph->nodes.len; k++) {
    const dt_node_t *node = &graph->nodes.items[k];
    dt_status_t status = needed[k] ? evaluate_node(e, node, &e->values[k]) : NULL;
    if (status)
      return dt__status_annotate(status, "evaluating %%%u (%s)", k + 1,
                                 dt__op_info(node->op)->name);
  }
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    out[k] = e->values[graph->outputs.items[k].id - 1];
  return NULL;
}

dt_status_t dt__graph_eval(const dt_graph_t *graph, const int64_t *symbols,
                           const dt_eval_arg_t *args, const dt_eval_options_t *options,
                           dt_arena_t *arena, dt_eval_value_t *out) {
  dt_eval_t e = {
      .graph = graph, .args = args, .bounds = options && options->error_bounds, .arena = arena};
  int64_t left = MAX_ELEMENTS;
  e.left = &left;
  e.control = options ? options->control : NULL;
  e.max_trips = options && options->max_trips > 0 ? options->max_trips : MAX_TRIPS;
  DT_TRY(prepare(&e, symbols));
  return evaluate(&e, out);
}

dt_status_t dt__eval_body(const dt_eval_t *outer, const dt_graph_t *body,
                          const dt_eval_value_t *operands, dt_arena_t *arena,
                          dt_eval_value_t *out) {
  dt_eval_t e = *outer;
  e.graph = body;
  e.operands = operands;
  e.arena = arena;
  e.values = DT_ARENA_ARRAY(arena, dt_eval_value_t, body->nodes.len + 1);
  return e.values ? evaluate(&e, out) : DT_NO_MEMORY();
}
