// SPDX-License-Identifier: Apache-2.0
// A pass at work on a graph: changes, and the graph that they make.
#include "runtime/trace/rewriter.h"

#include "lower/graph/infer.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/log.h"
#include "runtime/base/watch.h"
#include "runtime/trace/pattern.h"

#include <stdio.h>
#include <string.h>

// ---- Names --------------------------------------------------------------------------------------
void dt__rewriter_label(const dt_rewriter_t *r, uint32_t id, dt_text_t *out) {
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  dt__text_printf(out, "%%%u (%s", id, dt__op_info(node->op)->name);
  if (node->origin.file && node->origin.file[0])
    dt__text_printf(out, ", %s:%d", node->origin.file, node->origin.line);
  dt__text_put(out, ")");
}

// A failure that names one node or two: "node %7 (add): …".
static dt_status_t fail_at(const dt_rewriter_t *r, dt_code_t code, uint32_t a, const char *between,
                           uint32_t b, const char *after) {
  dt_text_t text;
  dt__text_init(&text);
  dt__text_put(&text, "node ");
  dt__rewriter_label(r, a, &text);
  dt__text_put(&text, between);
  if (b) {
    dt__text_put(&text, " ");
    dt__rewriter_label(r, b, &text);
  }
  dt__text_put(&text, after);
  dt_status_t status = DT_FAIL(code, "%s", dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__rewriter_find(dt_rewriter_t *r, dt_value_t value, const char *what, uint32_t *out) {
  *out = 0;
  if (!dt__rewriter_sync(r))
    return DT_NO_MEMORY();
  if (value.id == 0)
    return DT_FAIL(DT_E_ARGUMENT, "%s is the none value (id 0)", what);
  if (value.trace && value.trace != r->trace.tag)
    return DT_FAIL(DT_E_ARGUMENT, "%s (id %u) is a value of another trace or pass", what, value.id);
  if (value.id > r->work.nodes.len)
    return DT_FAIL(DT_E_ARGUMENT, "%s (id %u) is no node of the graph", what, value.id);
  if (r->nodes.items[value.id].erased)
    return fail_at(r, DT_E_ARGUMENT, value.id, " was erased", 0, "");
  *out = value.id;
  return NULL;
}

// ---- Order --------------------------------------------------------------------------------------
static void unlink_node(dt_rewriter_t *r, uint32_t id) {
  dt_rewrite_node_t *own = &r->nodes.items[id];
  r->nodes.items[own->prev].next = own->next;
  r->nodes.items[own->next].prev = own->prev;
}

// In front of `before`; 0: at the end.
static void link_node(dt_rewriter_t *r, uint32_t id, uint32_t before) {
  dt_rewrite_node_t *own = &r->nodes.items[id];
  own->next = before;
  own->prev = r->nodes.items[before].prev;
  r->nodes.items[own->prev].next = id;
  r->nodes.items[before].prev = id;
}

// ---- Uses ---------------------------------------------------------------------------------------
static void add_use(dt_rewriter_t *r, uint32_t id, dt_node_use_t *use) {
  dt_node_use_t *first = r->nodes.items[id].uses;
  use->prev = NULL;
  use->next = first;
  if (first)
    first->prev = use;
  r->nodes.items[id].uses = use;
}

static void take_use(dt_rewriter_t *r, uint32_t id, dt_node_use_t *use) {
  if (use->prev)
    use->prev->next = use->next;
  else
    r->nodes.items[id].uses = use->next;
  if (use->next)
    use->next->prev = use->prev;
}

static void note_binder(dt_rewriter_t *r, uint32_t id) {
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  uint32_t symbol = 0;
  if (node->op == DT_OP_item && dt__sym_is_symbol(r->work.env, node->attrs->syms[0], &symbol) &&
      symbol < r->n_symbols)
    r->binders[symbol] = id;
}

bool dt__rewriter_sync(dt_rewriter_t *r) {
  while (r->nodes.len <= r->work.nodes.len) {
    uint32_t id = r->nodes.len;
    const dt_node_t *node = &r->work.nodes.items[id - 1];
    dt_rewrite_node_t own = {.operands =
                                 DT_ARENA_ARRAY(r->arena, dt_node_use_t, node->n_inputs + 1)};
    if (!own.operands || !DT_VEC_PUSH(r->arena, &r->nodes, own))
      return false;
    link_node(r, id, r->at);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      own.operands[k].user = id;
      add_use(r, node->inputs[k].id, &own.operands[k]);
    }
    note_binder(r, id);
  }
  return true;
}

// ---- Needs --------------------------------------------------------------------------------------
typedef bool (*need_fn_t)(dt_rewriter_t *r, uint32_t id);

static bool need_binder(dt_rewriter_t *r, uint32_t symbol, need_fn_t fn) {
  return symbol >= r->n_symbols || !r->binders[symbol] || fn(r, r->binders[symbol]);
}

static bool each_symbol(dt_rewriter_t *r, uint32_t n, const dt_sym_t *exprs, need_fn_t fn) {
  for (uint32_t k = 0; k < n; k++) {
    if (dt__sym_is_const(r->work.env, exprs[k], NULL))
      continue;
    uint32_t some = dt__sym_symbols(r->work.env, exprs[k], r->found, r->n_symbols);
    for (uint32_t i = 0; i < some && i < r->n_symbols; i++)
      if (!need_binder(r, r->found[i], fn))
        return false;
  }
  return true;
}

// Calls `fn` with each node that must stand before this one; false where `fn` does.
static bool each_need(dt_rewriter_t *r, uint32_t id, need_fn_t fn) {
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!fn(r, node->inputs[k].id))
      return false;
  if (!r->n_symbols)
    return true;
  return node->op == DT_OP_item || (each_symbol(r, node->rank, node->sizes, fn) &&
                                    each_symbol(r, node->attrs->n_syms, node->attrs->syms, fn));
}

static bool visit(dt_rewriter_t *r, uint32_t id) {
  dt_rewrite_node_t *own = &r->nodes.items[id];
  if (own->stamp == r->stamp)
    return true;
  own->stamp = r->stamp;
  return DT_VEC_PUSH(r->arena, &r->stack, id);
}

// Marks `id` and all that it needs with a new stamp.
static dt_status_t mark_needs(dt_rewriter_t *r, uint32_t id) {
  r->stamp++;
  r->stack.len = 0;
  bool good = visit(r, id);
  while (good && r->stack.len)
    good = each_need(r, r->stack.items[--r->stack.len], visit);
  return good ? NULL : DT_NO_MEMORY();
}

static bool is_marked(const dt_rewriter_t *r, uint32_t id) {
  return r->nodes.items[id].stamp == r->stamp;
}

// ---- Changes ------------------------------------------------------------------------------------
static dt_status_t begin_change(dt_rewriter_t *r) {
  if (!r)
    return DT_FAIL(DT_E_ARGUMENT, "rewriter: NULL");
  if (r->read_only)
    return DT_FAIL(DT_E_STATE, "the graph is only looked at, at point %s",
                   dt_point_name(r->site->point));
  if (r->held)
    return DT_FAIL(DT_E_STATE,
                   "a pattern's check or replacement changes nothing that is there; let "
                   "the replacement build what takes the outputs' places");
  return NULL;
}

// Whether `made` may stand where `old` does.
dt_status_t dt__rewriter_check_same(dt_rewriter_t *r, uint32_t old, uint32_t made) {
  const dt_node_t *a = &r->work.nodes.items[old - 1], *b = &r->work.nodes.items[made - 1];
  if (a->dtype != b->dtype) {
    char after[64];
    (void)snprintf(after, sizeof(after), ": %s and %s", dt_dtype_name(a->dtype),
                   dt_dtype_name(b->dtype));
    return fail_at(r, DT_E_DTYPE, old, " cannot be replaced by", made, after);
  }
  if (a->rank == b->rank && dt__syms_known_eq(r->work.env, a->rank, a->sizes, b->sizes))
    return NULL;
  dt_text_t text;
  dt__text_init(&text);
  dt__text_put(&text, ": sizes ");
  dt__print_sizes(r->work.env, a->rank, a->sizes, &text);
  dt__text_put(&text, " and ");
  dt__print_sizes(r->work.env, b->rank, b->sizes, &text);
  dt__text_put(&text, ", which are not known to be equal");
  dt_status_t status =
      fail_at(r, DT_E_SHAPE, old, " cannot be replaced by", made, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

// The operands of the node as an array of the rewriter's own; NULL: no memory.
static dt_node_id_t *own_inputs(dt_rewriter_t *r, uint32_t id) {
  dt_node_t *node = &r->work.nodes.items[id - 1];
  dt_node_id_t *inputs = (dt_node_id_t *)(uintptr_t)node->inputs;
  if (!r->nodes.items[id].own_inputs) {
    inputs = dt__arena_copy(r->arena, node->inputs, node->n_inputs * sizeof(*inputs));
    if (!inputs)
      return NULL;
    node->inputs = inputs;
    r->nodes.items[id].own_inputs = true;
  }
  return inputs;
}

static void set_operand(dt_rewriter_t *r, uint32_t user, uint32_t index, uint32_t made) {
  dt_node_id_t *inputs = (dt_node_id_t *)(uintptr_t)r->work.nodes.items[user - 1].inputs;
  dt_node_use_t *use = &r->nodes.items[user].operands[index];
  take_use(r, inputs[index].id, use);
  add_use(r, made, use);
  inputs[index].id = made;
}

static void redirect_results(dt_rewriter_t *r, uint32_t old, uint32_t made) {
  if (!r->nodes.items[old].n_results)
    return;
  for (uint32_t k = 0; k < r->work.outputs.len; k++)
    if (r->work.outputs.items[k].id == old)
      r->work.outputs.items[k].id = made;
  for (uint32_t k = 0; k < r->work.updates.len; k++)
    if (r->work.updates.items[k].value.id == old)
      r->work.updates.items[k].value.id = made;
  r->nodes.items[made].n_results += r->nodes.items[old].n_results;
  r->nodes.items[old].n_results = 0;
}

dt_status_t dt__rewriter_redirect(dt_rewriter_t *r, uint32_t old, uint32_t made, bool quick) {
  r->stamp++;
  if (!quick)
    DT_TRY(mark_needs(r, made));
  for (const dt_node_use_t *use = r->nodes.items[old].uses; use; use = use->next)
    if (!is_marked(r, use->user) && !own_inputs(r, use->user))
      return DT_NO_MEMORY(); // nothing is changed yet but whose the arrays are
  for (const dt_node_use_t *use = r->nodes.items[old].uses, *next; use; use = next) {
    next = use->next;
    if (!is_marked(r, use->user))
      set_operand(r, use->user, (uint32_t)(use - r->nodes.items[use->user].operands), made);
  }
  redirect_results(r, old, made);
  r->changed = true;
  return NULL;
}

dt_status_t dt_rewriter_replace(dt_rewriter_t *r, dt_value_t old, dt_value_t made) {
  uint32_t a = 0, b = 0;
  DT_TRY(begin_change(r));
  DT_TRY(dt__rewriter_find(r, old, "the value to be replaced", &a));
  DT_TRY(dt__rewriter_find(r, made, "what takes its place", &b));
  if (a == b)
    return NULL;
  DT_TRY(dt__rewriter_check_same(r, a, b));
  return dt__rewriter_redirect(r, a, b, false);
}

dt_status_t dt_rewriter_set_input(dt_rewriter_t *r, dt_value_t node, uint32_t index,
                                  dt_value_t made) {
  uint32_t user = 0, id = 0;
  DT_TRY(begin_change(r));
  DT_TRY(dt__rewriter_find(r, node, "the node", &user));
  DT_TRY(dt__rewriter_find(r, made, "the operand", &id));
  uint32_t n = r->work.nodes.items[user - 1].n_inputs;
  if (index >= n) {
    char after[64];
    (void)snprintf(after, sizeof(after), " has %u operands; there is no operand %u", n, index);
    return fail_at(r, DT_E_ARGUMENT, user, after, 0, "");
  }
  uint32_t old = r->work.nodes.items[user - 1].inputs[index].id;
  if (old == id)
    return NULL;
  DT_TRY(dt__rewriter_check_same(r, old, id));
  DT_TRY(mark_needs(r, id));
  if (is_marked(r, user))
    return fail_at(r, DT_E_SHAPE, id, " is made of", user, ", and cannot be its operand");
  if (!own_inputs(r, user))
    return DT_NO_MEMORY();
  set_operand(r, user, index, id);
  r->changed = true;
  return NULL;
}

dt_status_t dt_rewriter_move(dt_rewriter_t *r, dt_value_t node, dt_value_t before) {
  uint32_t id = 0, to = 0;
  DT_TRY(begin_change(r));
  DT_TRY(dt__rewriter_find(r, node, "the node", &id));
  if (before.id)
    DT_TRY(dt__rewriter_find(r, before, "the node behind it", &to));
  if (id == to)
    return fail_at(r, DT_E_ARGUMENT, id, " cannot stand in front of itself", 0, "");
  DT_TRY(mark_needs(r, id));
  if (to && is_marked(r, to))
    return fail_at(r, DT_E_ARGUMENT, id, " is made of", to, ", and cannot stand in front of it");
  unlink_node(r, id);
  if (r->at == id)
    r->at = r->nodes.items[id].next;
  link_node(r, id, to);
  r->changed = true;
  return NULL;
}

dt_status_t dt_rewriter_at(dt_rewriter_t *r, dt_value_t before) {
  uint32_t to = 0;
  DT_TRY(begin_change(r));
  if (!dt__rewriter_sync(r)) // what was made so far stands where it was made
    return DT_NO_MEMORY();
  if (before.id)
    DT_TRY(dt__rewriter_find(r, before, "the node", &to));
  r->at = to;
  return NULL;
}

static void erase(dt_rewriter_t *r, uint32_t id) {
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  for (uint32_t k = 0; k < node->n_inputs; k++)
    take_use(r, node->inputs[k].id, &r->nodes.items[id].operands[k]);
  if (r->at == id)
    r->at = r->nodes.items[id].next;
  unlink_node(r, id);
  r->nodes.items[id].erased = true;
  r->changed = true;
}

dt_status_t dt_rewriter_erase(dt_rewriter_t *r, dt_value_t value) {
  uint32_t id = 0;
  DT_TRY(begin_change(r));
  DT_TRY(dt__rewriter_find(r, value, "the node", &id));
  const dt_node_t *node = &r->work.nodes.items[id - 1];
  if (node->op == DT_OP_input || node->op == DT_OP_constant)
    return fail_at(r, DT_E_STATE, id, " is the program's own, and stays", 0, "");
  if (node->op == DT_OP_item)
    return fail_at(r, DT_E_STATE, id, " binds a number that sizes may have, and stays", 0, "");
  if (r->nodes.items[id].uses)
    return fail_at(r, DT_E_STATE, id, " is used by", r->nodes.items[id].uses->user,
                   ": replace it first");
  if (r->nodes.items[id].n_results)
    return fail_at(r, DT_E_STATE, id, " is a result of the graph: replace it first", 0, "");
  erase(r, id);
  return NULL;
}

void dt__rewriter_drop(dt_rewriter_t *r, uint32_t id) {
  dt_op_t op = r->work.nodes.items[id - 1].op;
  bool stays = op == DT_OP_input || op == DT_OP_constant || op == DT_OP_item;
  if (!stays && !r->nodes.items[id].erased && !r->nodes.items[id].uses &&
      !r->nodes.items[id].n_results)
    erase(r, id);
}

// A constant that was made is forgotten, too: its name then stands for nothing again.
static void forget_constants(dt_rewriter_t *r, uint32_t n) {
  uint32_t n_constants = r->work.constants.len;
  for (uint32_t id = n + 1; id <= r->work.nodes.len; id++) {
    const dt_node_t *node = &r->work.nodes.items[id - 1];
    if (node->op == DT_OP_constant && node->attrs->index < n_constants)
      n_constants = node->attrs->index;
  }
  while (r->site->traced && r->work.constants.len > n_constants) {
    r->work.constants.len--;
    r->trace.constant_values.len--;
    dt_tensor_release(r->site->traced->constants.items[--r->site->traced->constants.len]);
  }
}

void dt__rewriter_forget(dt_rewriter_t *r, uint32_t n) {
  bool changed = r->changed;
  forget_constants(r, n);
  while (r->nodes.len > n + 1) {
    erase(r, r->nodes.len - 1);
    r->nodes.len--;
  }
  r->work.nodes.len = n;
  r->changed = changed;
}

// ---- Begin and end ------------------------------------------------------------------------------
// The trace's constants by their values, for dt_constant of one that is there.
static dt_status_t adopt_constants(dt_rewriter_t *r) {
  dt_trace_t *trace = &r->trace;
  dt_arena_t *arena = &trace->traced->arena;
  for (uint32_t k = 0; k < r->work.constants.len; k++)
    if (!DT_VEC_PUSH(arena, &trace->constant_values, (dt_value_t){0}))
      return DT_NO_MEMORY();
  for (uint32_t k = 0; k < r->n_given; k++) {
    const dt_node_t *node = &r->work.nodes.items[k];
    if (node->op == DT_OP_constant)
      trace->constant_values.items[node->attrs->index] =
          dt__trace_value(trace, (dt_node_id_t){k + 1});
  }
  return NULL;
}

static dt_status_t begin(dt_rewriter_t *r, const dt_graph_t *graph) {
  dt_arena_t *arena = r->arena;
  r->work = *graph;
  r->work.arena = arena;
  r->request = (dt_trace_request_t){.name = r->hook->name,
                                    .watch = arena->watch,
                                    .place = dt__place(r->site->device, 0),
                                    .hooks = r->site->hooks};
  r->trace = (dt_trace_t){.tag = dt__trace_new_tag(),
                          .request = &r->request,
                          .traced = r->site->traced ? r->site->traced : &r->stub,
                          .graph = &r->work,
                          .env = graph->env,
                          .pass = r->site->point == DT_POINT_FUSED ? DT_PASS_LOOK
                                  : r->site->traced && !r->depth   ? DT_PASS_CONSTANTS
                                                                   : DT_PASS_PLAIN};
  r->read_only = r->trace.pass == DT_PASS_LOOK;
  if (!DT_VEC_COPY(arena, &r->work.nodes) || !DT_VEC_COPY(arena, &r->work.outputs) ||
      !DT_VEC_COPY(arena, &r->work.updates) || !DT_VEC_COPY(arena, &r->work.constants) ||
      !DT_VEC_COPY(arena, &r->work.externals))
    return DT_NO_MEMORY();
  r->n_given = graph->nodes.len;
  for (uint32_t k = 0; k < graph->nodes.len && !r->n_symbols; k++)
    if (graph->nodes.items[k].op == DT_OP_item)
      r->n_symbols = dt__symenv_symbol_count(graph->env);
  r->binders = DT_ARENA_ARRAY(arena, uint32_t, (size_t)r->n_symbols + 1);
  r->found = DT_ARENA_ARRAY(arena, uint32_t, (size_t)r->n_symbols + 1);
  if (!r->binders || !r->found || !DT_VEC_PUSH(arena, &r->nodes, (dt_rewrite_node_t){0}) ||
      !dt__rewriter_sync(r))
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    r->nodes.items[graph->outputs.items[k].id].n_results++;
  for (uint32_t k = 0; k < graph->updates.len; k++)
    r->nodes.items[graph->updates.items[k].value.id].n_results++;
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    DT_TRY(dt__rewrite_learn_sizes(graph->env, &graph->nodes.items[k]));
  return r->trace.pass == DT_PASS_CONSTANTS ? adopt_constants(r) : NULL;
}

// The nodes in order, each behind what it needs. [id]: its new id.
typedef struct emit_t {
  dt_rewriter_t *r;
  dt_graph_t *to;
  uint32_t *map;
} emit_t;

static bool need_first(dt_rewriter_t *r, uint32_t id) {
  if (is_marked(r, id)) // stands already
    return true;
  return DT_VEC_PUSH(r->arena, &r->stack, id);
}

static const char *kept_file(dt_rewriter_t *r, const char *file, const char **last_of) {
  if (file && (!last_of[0] || strcmp(last_of[0], file) != 0))
    last_of[0] = dt__arena_strdup(r->site->keep, file);
  return file ? last_of[0] : NULL;
}

static dt_status_t emit_node(emit_t *e, uint32_t id, uint32_t n_old, const char **last_file) {
  dt_rewriter_t *r = e->r;
  dt_node_t node = r->work.nodes.items[id - 1];
  dt_node_id_t *inputs = DT_ARENA_ARRAY(r->arena, dt_node_id_t, node.n_inputs + 1);
  if (!inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < node.n_inputs; k++)
    inputs[k] = (dt_node_id_t){e->map[node.inputs[k].id]};
  node.inputs = inputs;
  if (id > n_old && !r->site->traced) {
    bool said = node.origin.file != NULL;
    node.origin.file = kept_file(r, node.origin.file, last_file);
    if (said && !node.origin.file)
      return DT_NO_MEMORY();
  }
  if (!DT_VEC_PUSH(r->arena, &e->to->nodes, node))
    return DT_NO_MEMORY();
  e->map[id] = e->to->nodes.len;
  return NULL;
}

// Everything that `id` needs and itself. A node that is met twice on the way down needs itself.
static dt_status_t emit_with_needs(emit_t *e, uint32_t id, uint32_t n_old, const char **last_file) {
  dt_rewriter_t *r = e->r;
  r->stack.len = 0;
  if (!need_first(r, id))
    return DT_NO_MEMORY();
  while (r->stack.len) {
    uint32_t at = r->stack.items[r->stack.len - 1], before = r->stack.len;
    if (is_marked(r, at)) {
      r->stack.len--;
      continue;
    }
    if (!each_need(r, at, need_first))
      return DT_NO_MEMORY();
    if (r->stack.len > before) {
      if (e->map[at] == UINT32_MAX)
        return fail_at(r, DT_E_SHAPE, at, " is made of itself", 0, "");
      e->map[at] = UINT32_MAX; // on the way
      continue;
    }
    DT_TRY(emit_node(e, at, n_old, last_file));
    r->nodes.items[at].stamp = r->stamp;
    r->stack.len--;
  }
  return NULL;
}

dt_status_t dt__rewriter_emit(dt_rewriter_t *r, dt_graph_t **out) {
  if (!dt__rewriter_sync(r))
    return DT_NO_MEMORY();
  emit_t e = {.r = r, .to = DT_ARENA_NEW(r->arena, dt_graph_t)};
  e.map = DT_ARENA_ARRAY(r->arena, uint32_t, (size_t)r->work.nodes.len + 1);
  if (!e.to || !e.map)
    return DT_NO_MEMORY();
  *e.to = r->work;
  e.to->nodes.items = NULL;
  e.to->nodes.len = e.to->nodes.cap = 0;
  if (!DT_VEC_COPY(r->arena, &e.to->outputs) || !DT_VEC_COPY(r->arena, &e.to->updates))
    return DT_NO_MEMORY();
  r->stamp++;
  const char *last_file = NULL;
  for (uint32_t id = r->nodes.items[0].next; id; id = r->nodes.items[id].next)
    DT_TRY(emit_with_needs(&e, id, r->n_given, &last_file));
  for (uint32_t k = 0; k < e.to->outputs.len; k++)
    e.to->outputs.items[k].id = e.map[e.to->outputs.items[k].id];
  for (uint32_t k = 0; k < e.to->updates.len; k++)
    e.to->updates.items[k].value.id = e.map[e.to->updates.items[k].value.id];
  *out = e.to;
  return NULL;
}

// `n_constants`: what the graph has that stays.
static void end(dt_rewriter_t *r, uint32_t n_constants) {
  dt_traced_t *traced = r->site->traced;
  dt_status_free(r->trace.status);
  while (traced && traced->constants.len > n_constants)
    dt_tensor_release(traced->constants.items[--traced->constants.len]);
  if (!traced)
    dt__arena_fini(&r->stub.arena);
}

// One pass over one graph.
static dt_status_t run_pass(dt_rewriter_t *r, const dt_graph_t *graph, const dt_graph_t **out) {
  DT_TRY(begin(r, graph));
  dt_status_t status = r->hook->pass(r, r->hook->closure);
  if (r->trace.status) { // what failed first, and where
    dt_status_free(status);
    status = r->trace.status;
    r->trace.status = NULL;
  }
  if (!status)
    status = dt__symenv_status(graph->env);
  if (!status)
    status = dt__watch_check(r->arena->watch);
  bool made = r->changed || r->work.nodes.len != graph->nodes.len;
  dt_graph_t *whole = NULL;
  if (status || !made || r->read_only)
    return status;
  DT_TRY(dt__rewriter_emit(r, &whole));
  DT_TRY(dt__graph_verify(whole));
  *out = whole;
  return NULL;
}

static dt_status_t run_hook(const dt_hook_t *hook, const dt_site_t *site, dt_arena_t *arena,
                            uint32_t depth, const dt_graph_t *graph, const dt_graph_t **out) {
  dt_rewriter_t r = {.site = site, .hook = hook, .depth = depth, .arena = arena};
  *out = graph;
  if (!site->traced)
    dt__arena_init_like(&r.stub.arena, arena);
  dt_status_t status = run_pass(&r, graph, out);
  if (status)
    *out = graph;
  end(&r, depth ? UINT32_MAX : (*out)->constants.len);
  if (!status && *out != graph)
    DT_LOG(DT_LOG_PASSES, 1, "%s at %s: %u nodes, %u before", hook->name,
           dt_point_name(site->point), (*out)->nodes.len, graph->nodes.len);
  if (!status)
    return NULL;
  bool ends = dt_status_code(status) == DT_E_NO_MEMORY || dt__watch_is_over(arena->watch);
  status = dt__status_annotate(status, "pass %s at %s", hook->name, dt_point_name(site->point));
  if (!hook->optional || ends)
    return status;
  DT_LOG(DT_LOG_PASSES, 1, "left out: %s", dt_status_message(status));
  dt_status_free(status);
  return NULL;
}

// ---- All of a point -----------------------------------------------------------------------------
// Which controls are combines of scans: they work on single elements, and stay as they are.
static bool *combines_of(dt_arena_t *arena, const dt_graph_t *graph) {
  bool *out = DT_ARENA_ARRAY(arena, bool, (size_t)graph->controls.len + 1);
  for (uint32_t k = 0; out && k < graph->nodes.len; k++)
    if (graph->nodes.items[k].op == DT_OP_associative_scan)
      out[graph->nodes.items[k].attrs->index] = true;
  return out;
}

static dt_status_t run_tree(const dt_hook_t *hook, const dt_site_t *site, dt_arena_t *arena,
                            uint32_t depth, const dt_graph_t *graph, const dt_graph_t **out) {
  DT_TRY(run_hook(hook, site, arena, depth, graph, out));
  const dt_graph_t *made = *out;
  dt_graph_control_t *controls =
      DT_ARENA_ARRAY(arena, dt_graph_control_t, (size_t)made->controls.len + 1);
  bool changed = false, *combines = combines_of(arena, made);
  if (!controls || !combines)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < made->controls.len; k++) {
    if (dt__control_shares(made->controls.items, controls, k))
      continue;
    for (uint32_t b = 0; b < dt__control_n(&made->controls.items[k]); b++) {
      const dt_graph_t *body = made->controls.items[k].bodies[b];
      controls[k].bodies[b] = body;
      if (!combines[k])
        DT_TRY(run_tree(hook, site, arena, depth + 1, body, &controls[k].bodies[b]));
      changed = changed || controls[k].bodies[b] != body;
    }
  }
  if (!changed)
    return NULL;
  dt_graph_t *copy = dt__arena_copy(arena, made, sizeof(*made));
  if (!copy)
    return DT_NO_MEMORY();
  copy->controls.items = controls;
  copy->controls.cap = made->controls.len;
  *out = copy;
  return NULL;
}

dt_status_t dt__pass_run(const char *name, dt_pass_fn_t pass, void *closure, const dt_site_t *site,
                         dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  size_t bytes = strlen(name) + 1;
  dt_hook_t *hook = dt__arena_alloc(arena, sizeof(*hook) + bytes);
  if (!hook)
    return DT_NO_MEMORY();
  hook->point = site->point;
  hook->pass = pass;
  hook->closure = closure;
  memcpy(hook->name, name, bytes);
  return run_tree(hook, site, arena, 0, graph, out);
}

// All patterns of the point, in one walk.
static dt_status_t run_patterns(const dt_hooks_t *hooks, const dt_site_t *site, dt_arena_t *arena,
                                const dt_graph_t **out) {
  dt_pattern_t **list = DT_ARENA_ARRAY(arena, dt_pattern_t *, (size_t)hooks->n + 1);
  if (!list)
    return DT_NO_MEMORY();
  dt_patterns_t patterns = {.patterns = list};
  patterns.n = dt__hooks_patterns(hooks, site->point, site->strict_fp, *out, list);
  return patterns.n ? dt__pass_run("patterns", dt__match_walk, &patterns, site, arena, *out, out)
                    : NULL;
}

dt_status_t dt__hooks_run(const dt_hooks_t *hooks, const dt_site_t *site, dt_arena_t *arena,
                          const dt_graph_t *graph, const dt_graph_t **out) {
  *out = graph;
  bool of_users = dt__hooks_any_user(hooks, site->point);
  if (!dt__hooks_any(hooks, site->point, site->strict_fp, graph))
    return NULL;
  if (of_users) // the library's own need no turn
    DT_TRY(dt__hooks_enter(hooks, arena->watch));
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < hooks->n && !status; k++)
    if (hooks->hooks[k]->point == site->point && !hooks->hooks[k]->pattern)
      status = run_tree(hooks->hooks[k], site, arena, 0, *out, out);
  if (!status)
    status = run_patterns(hooks, site, arena, out);
  if (of_users)
    dt__hooks_leave(hooks);
  return status;
}
