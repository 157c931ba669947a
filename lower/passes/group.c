// SPDX-License-Identifier: Apache-2.0
// Grouped products: matrix products of one left operand with constant right ones become one product
// with the joined constants, and slices of it. What follows each of them alone and is the same for
// all (casts, a bias, a literal factor) is done once on the whole. Every element is the same sum of
// the same products as before, and goes through the same ops.
//
// Needs folding and shared nodes before it, which make equal operands equal nodes; leaves dead
// nodes behind. The joined constant is computed once, when the variant is made, and kept beside the
// constants that it is made of.
//
// What pays: an element-wise op that follows a product is part of its kernel, but after a slice it
// is a kernel of its own; a result of the call would have to be copied out of the whole. Products
// with such users stay alone.
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_STEPS 8
#define WHOLE_VECTOR 16 // bytes

// What is asked of each node.
typedef struct fact_t {
  bool fixed; // made of constants and literals alone, by views and element-wise ops of known sizes
  bool visible;  // a result of the call or an update, itself or through views
  bool taken;    // an element-wise op reads it that its kernel could take in
  uint32_t uses; // inputs of nodes, results and updates that it is
  uint32_t user; // one of the nodes that read it, by id
} fact_t;

typedef enum step_kind_t { STEP_ALONE, STEP_LITERAL, STEP_ROW } step_kind_t;

// An element-wise op on the value so far, and perhaps another operand: a literal, or a row of
// constants, repeated.
typedef struct step_t {
  const dt_node_t *node;
  step_kind_t kind;
  uint32_t slot;      // of the value among its inputs
  dt_node_id_t other; // the literal's scalar, or the row [1, …, 1, N]
  dt_dtype_t cast;    // of the row; NONE: as it is
} step_t;

typedef struct member_t {
  const dt_node_t *product;
  dt_node_id_t end; // the value after all steps
  int64_t k, n;
  uint32_t n_steps;
  step_t steps[MAX_STEPS];
  uint32_t first;     // of its group, an index
  dt_node_id_t whole; // of the first one: the value that all are slices of, once it is made
  int64_t offset, total;
} member_t;

typedef struct grouping_t {
  dt_arena_t *arena;
  const dt_graph_t *graph;
  fact_t *facts;       // by old id - 1
  dt_node_id_t *early; // fixed nodes that a group needed before their turn, by old id - 1
  uint32_t *member_at; // by old id - 1: 1 + the member whose end it is
  DT_VEC(member_t) members;
} grouping_t;

static fact_t *fact_of(const grouping_t *g, dt_node_id_t id) { return &g->facts[id.id - 1]; }

// ---- Facts --------------------------------------------------------------------------------------
static bool literals(const dt_graph_t *graph, const dt_sym_t *syms, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (!dt__sym_is_const(graph->env, syms[k], NULL))
      return false;
  return true;
}

static bool is_fixed(const grouping_t *g, const dt_node_t *node) {
  if (node->op == DT_OP_constant || node->op == DT_OP_scalar)
    return true;
  if (node->n_inputs == 0 || !(dt__op_info(node->op)->flags & (DT_OPF_VIEW | DT_OPF_EW)) ||
      !literals(g->graph, node->sizes, node->rank) ||
      !literals(g->graph, node->attrs->syms, node->attrs->n_syms))
    return false;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!fact_of(g, node->inputs[k])->fixed)
      return false;
  return true;
}

// Wherever a half is read it can be widened on the way.
static bool widens(const dt_graph_t *graph, const dt_node_t *node) {
  return node->op == DT_OP_cast && node->dtype == DT_F32 &&
         dt__dtype_is_half(dt__graph_node(graph, node->inputs[0])->dtype);
}

static void note_result(const grouping_t *g, dt_node_id_t id) {
  fact_of(g, id)->uses++;
  fact_of(g, id)->visible = true;
}

static void find_facts(const grouping_t *g, const bool *live) {
  const dt_graph_t *graph = g->graph;
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    note_result(g, graph->outputs.items[k]);
  for (uint32_t k = 0; k < graph->updates.len; k++)
    note_result(g, graph->updates.items[k].value);
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    g->facts[k].fixed = is_fixed(g, &graph->nodes.items[k]);
  for (uint32_t k = graph->nodes.len; k-- > 0;) {
    const dt_node_t *node = &graph->nodes.items[k];
    uint32_t flags = dt__op_info(node->op)->flags;
    for (uint32_t i = 0; live[k] && i < node->n_inputs; i++) {
      fact_t *in = fact_of(g, node->inputs[i]);
      in->uses++;
      in->user = k + 1;
      in->visible = in->visible || ((flags & DT_OPF_VIEW) && g->facts[k].visible);
      in->taken = in->taken || ((flags & DT_OPF_EW) && !widens(graph, node));
    }
  }
}

// ---- Members ------------------------------------------------------------------------------------
// [1, …, 1, n] and known while compiling.
static bool is_row(const grouping_t *g, dt_node_id_t id, int64_t n) {
  const dt_node_t *node = dt__graph_node(g->graph, id);
  int64_t size = 0;
  if (!fact_of(g, id)->fixed || node->rank == 0)
    return false;
  for (uint32_t d = 0; d < node->rank; d++)
    if (!dt__sym_is_const(g->graph->env, node->sizes[d], &size) ||
        size != (d + 1 < node->rank ? 1 : n))
      return false;
  return true;
}

static bool find_literal(const grouping_t *g, dt_node_id_t id, step_t *step) {
  while (dt__op_info(dt__graph_node(g->graph, id)->op)->flags & DT_OPF_VIEW)
    id = dt__graph_node(g->graph, id)->inputs[0];
  step->kind = STEP_LITERAL;
  step->other = id;
  return dt__graph_node(g->graph, id)->op == DT_OP_scalar;
}

static bool find_row(const grouping_t *g, dt_node_id_t id, int64_t n, step_t *step) {
  step->kind = STEP_ROW;
  step->cast = DT_DTYPE_NONE;
  while (!is_row(g, id, n)) {
    const dt_node_t *node = dt__graph_node(g->graph, id);
    bool casts = node->op == DT_OP_cast && step->cast == DT_DTYPE_NONE;
    if (!casts && node->op != DT_OP_expand)
      return false;
    if (casts)
      step->cast = node->dtype;
    id = node->inputs[0];
  }
  step->other = id;
  return true;
}

// The op that alone reads `value`, if all of its other operand is known.
static bool find_step(const grouping_t *g, dt_node_id_t value, int64_t n, step_t *step) {
  const fact_t *fact = fact_of(g, value);
  if (fact->uses != 1 || fact->user == 0)
    return false;
  *step = (step_t){.node = dt__graph_node(g->graph, (dt_node_id_t){fact->user})};
  if (!(dt__op_info(step->node->op)->flags & DT_OPF_EW) || step->node->n_inputs > 2)
    return false;
  if (step->node->n_inputs == 1)
    return true;
  step->slot = step->node->inputs[0].id == value.id ? 0 : 1;
  dt_node_id_t other = step->node->inputs[1 - step->slot];
  return find_literal(g, other, step) || find_row(g, other, n, step);
}

static dt_node_id_t id_of(const grouping_t *g, const dt_node_t *node) {
  return (dt_node_id_t){(uint32_t)(node - g->graph->nodes.items) + 1};
}

static bool find_member(const grouping_t *g, const dt_node_t *node, member_t *out) {
  *out = (member_t){.product = node};
  if (node->op != DT_OP_matmul)
    return false;
  const dt_node_t *right = dt__graph_node(g->graph, node->inputs[1]);
  if (right->rank != 2 || !fact_of(g, node->inputs[1])->fixed ||
      !dt__sym_is_const(g->graph->env, right->sizes[0], &out->k) ||
      !dt__sym_is_const(g->graph->env, right->sizes[1], &out->n))
    return false;
  out->end = id_of(g, node);
  while (out->n_steps < MAX_STEPS && find_step(g, out->end, out->n, &out->steps[out->n_steps]))
    out->end = id_of(g, out->steps[out->n_steps++].node);
  // Who reads a half widens it.
  while (out->n_steps && widens(g->graph, out->steps[out->n_steps - 1].node))
    out->end = out->steps[--out->n_steps].node->inputs[0];
  return !fact_of(g, out->end)->visible && !fact_of(g, out->end)->taken;
}

static bool same_step(const grouping_t *g, const step_t *a, const step_t *b) {
  if (a->node->op != b->node->op || a->node->dtype != b->node->dtype || a->kind != b->kind ||
      a->slot != b->slot || a->cast != b->cast || !dt__attrs_equal(a->node->attrs, b->node->attrs))
    return false;
  if (a->kind == STEP_ALONE)
    return true;
  const dt_node_t *x = dt__graph_node(g->graph, a->other), *y = dt__graph_node(g->graph, b->other);
  return x->dtype == y->dtype &&
         (a->kind == STEP_ROW || memcmp(x->attrs, y->attrs, sizeof(*x->attrs)) == 0);
}

// Slices begin at whole vectors, or did not before either.
static bool whole_vectors(const member_t *m) {
  return (m->n * (int64_t)dt_dtype_size(m->product->dtype)) % WHOLE_VECTOR == 0;
}

static bool same_group(const grouping_t *g, const member_t *a, const member_t *b) {
  if (a->product->inputs[0].id != b->product->inputs[0].id || a->k != b->k ||
      a->n_steps != b->n_steps || whole_vectors(a) != whole_vectors(b))
    return false;
  for (uint32_t s = 0; s < a->n_steps; s++)
    if (!same_step(g, &a->steps[s], &b->steps[s]))
      return false;
  return true;
}

static dt_status_t find_members(grouping_t *g, const bool *live) {
  for (uint32_t k = 0; k < g->graph->nodes.len; k++) {
    member_t member;
    if (!live[k] || !find_member(g, &g->graph->nodes.items[k], &member))
      continue;
    member.first = g->members.len;
    for (uint32_t m = 0; m < g->members.len && member.first == g->members.len; m++)
      if (g->members.items[m].first == m && same_group(g, &g->members.items[m], &member))
        member.first = m;
    if (!DT_VEC_PUSH(g->arena, &g->members, member))
      return DT_NO_MEMORY();
    member_t *first = &g->members.items[member.first];
    g->members.items[g->members.len - 1].offset = first->total;
    first->total += member.n;
  }
  return NULL;
}

static bool is_grouped(const grouping_t *g, const member_t *m) {
  const member_t *first = &g->members.items[m->first];
  return m != first || first->total != first->n;
}

// ---- The whole ----------------------------------------------------------------------------------
typedef struct join_t {
  dt_rewrite_t *rw;
  grouping_t *g;
  uint32_t first; // member
  const dt_origin_t *origin;
  dt_node_id_t *parts; // of each member, what is joined
  uint32_t n_parts;
} join_t;

// The new node of a fixed one; its own turn may not have come yet.
static dt_node_id_t new_of(const join_t *j, dt_node_id_t id) {
  dt_node_id_t made = j->rw->map[id.id - 1];
  return made.id ? made : j->g->early[id.id - 1];
}

// Makes all fixed nodes that the group needs.
static dt_status_t make_fixed(join_t *j) {
  grouping_t *g = j->g;
  uint32_t n = g->graph->nodes.len;
  bool *need = DT_ARENA_ARRAY(g->arena, bool, n);
  if (!need)
    return DT_NO_MEMORY();
  for (uint32_t m = j->first; m < g->members.len; m++) {
    const member_t *member = &g->members.items[m];
    if (member->first != j->first)
      continue;
    need[member->product->inputs[1].id - 1] = true;
    for (uint32_t s = 0; s < member->n_steps; s++)
      if (member->steps[s].kind != STEP_ALONE)
        need[member->steps[s].other.id - 1] = true;
  }
  for (uint32_t k = n; k-- > 0;)
    for (uint32_t i = 0; need[k] && i < g->graph->nodes.items[k].n_inputs; i++)
      need[g->graph->nodes.items[k].inputs[i].id - 1] = true;
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *node = &g->graph->nodes.items[k];
    if (!need[k] || new_of(j, (dt_node_id_t){k + 1}).id)
      continue;
    dt_node_id_t *inputs = DT_ARENA_ARRAY(g->arena, dt_node_id_t, node->n_inputs + 1);
    if (!inputs)
      return DT_NO_MEMORY();
    for (uint32_t i = 0; i < node->n_inputs; i++)
      inputs[i] = new_of(j, node->inputs[i]);
    DT_TRY(dt__rewrite_copy(j->rw, node, inputs, &g->early[k]));
  }
  return NULL;
}

static dt_status_t concat(join_t *j, int32_t axis, dt_node_id_t *out) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = axis;
  return dt__graph_add(j->rw->to, DT_OP_concat, j->parts, j->n_parts, &attrs, j->origin, out);
}

// Casts and transpositions that all parts have in common are done after joining, so that the whole
// lies as the constants lie. *axis follows.
static const dt_node_t *common_op(const join_t *j, int32_t *axis) {
  const dt_graph_t *to = j->rw->to;
  const dt_node_t *first = dt__graph_node(to, j->parts[0]);
  if (first->op != DT_OP_cast && first->op != DT_OP_permute)
    return NULL;
  for (uint32_t p = 1; p < j->n_parts; p++) {
    const dt_node_t *part = dt__graph_node(to, j->parts[p]);
    if (part->op != first->op || !dt__attrs_equal(part->attrs, first->attrs) ||
        dt__graph_node(to, part->inputs[0])->dtype != dt__graph_node(to, first->inputs[0])->dtype)
      return NULL;
  }
  if (first->op == DT_OP_permute)
    *axis = first->attrs->axes[*axis];
  return first;
}

static dt_status_t join_factors(join_t *j, dt_node_id_t *out) {
  const dt_attrs_t *attrs[MAX_STEPS];
  dt_op_t ops[MAX_STEPS];
  uint32_t n = 0;
  int32_t axis = 1;
  for (const dt_node_t *op; n < MAX_STEPS && (op = common_op(j, &axis)) != NULL; n++) {
    ops[n] = op->op;
    attrs[n] = op->attrs;
    for (uint32_t p = 0; p < j->n_parts; p++)
      j->parts[p] = dt__graph_node(j->rw->to, j->parts[p])->inputs[0];
  }
  DT_TRY(concat(j, axis, out));
  while (n-- > 0)
    DT_TRY(dt__graph_add(j->rw->to, ops[n], out, 1, attrs[n], j->origin, out));
  return NULL;
}

// `value`, of as many dims as `like`, repeated to its sizes.
static dt_status_t repeat(join_t *j, dt_node_id_t value, dt_node_id_t like, dt_node_id_t *out) {
  const dt_node_t *node = dt__graph_node(j->rw->to, like);
  dt_attrs_t attrs = {.n_syms = node->rank};
  memcpy(attrs.syms, node->sizes, node->rank * sizeof(*attrs.syms));
  return dt__graph_add(j->rw->to, DT_OP_expand, &value, 1, &attrs, j->origin, out);
}

static dt_status_t join_literal(join_t *j, const step_t *step, dt_node_id_t like,
                                dt_node_id_t *out) {
  dt_attrs_t ones = {.n_syms = dt__graph_node(j->rw->to, like)->rank};
  dt_node_id_t literal = new_of(j, step->other);
  for (uint32_t d = 0; d < ones.n_syms; d++)
    ones.syms[d] = dt__sym_const(j->rw->to->env, 1);
  DT_TRY(dt__graph_add(j->rw->to, DT_OP_reshape, &literal, 1, &ones, j->origin, out));
  return repeat(j, *out, like, out);
}

static dt_status_t join_rows(join_t *j, uint32_t s, dt_node_id_t like, dt_node_id_t *out) {
  const grouping_t *g = j->g;
  uint32_t p = 0;
  for (uint32_t m = j->first; m < g->members.len; m++)
    if (g->members.items[m].first == j->first)
      j->parts[p++] = new_of(j, g->members.items[m].steps[s].other);
  DT_TRY(concat(j, (int32_t)dt__graph_node(j->rw->to, like)->rank - 1, out));
  dt_attrs_t cast = {.dtype = g->members.items[j->first].steps[s].cast};
  if (cast.dtype != DT_DTYPE_NONE)
    DT_TRY(dt__graph_add(j->rw->to, DT_OP_cast, out, 1, &cast, j->origin, out));
  return repeat(j, *out, like, out);
}

static dt_status_t do_step(join_t *j, uint32_t s, dt_node_id_t *value) {
  const step_t *step = &j->g->members.items[j->first].steps[s];
  dt_node_id_t in[2] = {*value, *value};
  if (step->kind == STEP_LITERAL)
    DT_TRY(join_literal(j, step, *value, &in[1 - step->slot]));
  if (step->kind == STEP_ROW)
    DT_TRY(join_rows(j, s, *value, &in[1 - step->slot]));
  return dt__graph_add(j->rw->to, step->node->op, in, step->node->n_inputs, step->node->attrs,
                       &step->node->origin, value);
}

static dt_status_t make_whole(dt_rewrite_t *rw, uint32_t first) {
  grouping_t *g = rw->user;
  member_t *head = &g->members.items[first];
  join_t j = {.rw = rw, .g = g, .first = first, .origin = &head->product->origin};
  j.parts = DT_ARENA_ARRAY(g->arena, dt_node_id_t, g->members.len);
  if (!j.parts)
    return DT_NO_MEMORY();
  DT_TRY(make_fixed(&j));
  for (uint32_t m = first; m < g->members.len; m++)
    if (g->members.items[m].first == first)
      j.parts[j.n_parts++] = new_of(&j, g->members.items[m].product->inputs[1]);
  dt_node_id_t in[2] = {rw->map[head->product->inputs[0].id - 1], {0}};
  DT_TRY(join_factors(&j, &in[1]));
  DT_TRY(dt__graph_add(rw->to, DT_OP_matmul, in, 2, NULL, j.origin, &head->whole));
  for (uint32_t s = 0; s < head->n_steps; s++)
    DT_TRY(do_step(&j, s, &head->whole));
  return NULL;
}

static dt_status_t take_slice(dt_rewrite_t *rw, const member_t *member, dt_node_id_t *out) {
  const grouping_t *g = rw->user;
  const dt_node_id_t whole = g->members.items[member->first].whole;
  const dt_node_t *node = dt__graph_node(rw->to, whole);
  dt_attrs_t attrs = {.n_syms = 2 * node->rank};
  for (uint32_t d = 0; d < node->rank; d++) {
    attrs.syms[2 * d] = dt__sym_const(rw->to->env, 0);
    attrs.syms[2 * d + 1] = node->sizes[d];
    attrs.ints[d] = 1;
  }
  attrs.syms[2 * node->rank - 2] = dt__sym_const(rw->to->env, member->offset);
  attrs.syms[2 * node->rank - 1] = dt__sym_const(rw->to->env, member->n);
  return dt__graph_add(rw->to, DT_OP_slice, &whole, 1, &attrs, &member->product->origin, out);
}

// ---- The pass -----------------------------------------------------------------------------------
static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  const grouping_t *g = rw->user;
  uint32_t at = (uint32_t)(node - g->graph->nodes.items);
  if (g->early[at].id) {
    *out = g->early[at];
    return NULL;
  }
  if (g->member_at[at] == 0)
    return dt__rewrite_copy(rw, node, inputs, out);
  const member_t *member = &g->members.items[g->member_at[at] - 1];
  if (g->members.items[member->first].whole.id == 0)
    DT_TRY(make_whole(rw, member->first));
  rw->changed = true;
  return take_slice(rw, member, out);
}

// Products of groups, and steps before the last, are not made again. False: there is no group.
static bool note_members(const grouping_t *g, bool *live) {
  bool any = false;
  for (uint32_t m = 0; m < g->members.len; m++) {
    const member_t *member = &g->members.items[m];
    if (!is_grouped(g, member))
      continue;
    any = true;
    live[id_of(g, member->product).id - 1] = false;
    for (uint32_t s = 0; s < member->n_steps; s++)
      live[id_of(g, member->steps[s].node).id - 1] = false;
    live[member->end.id - 1] = true;
    g->member_at[member->end.id - 1] = m + 1;
  }
  return any;
}

dt_status_t dt__pass_group(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  grouping_t g = {.arena = arena, .graph = graph};
  uint32_t n = graph->nodes.len;
  bool *live = NULL;
  *out = graph;
  DT_TRY(dt__graph_live(graph, arena, &live));
  g.facts = DT_ARENA_ARRAY(arena, fact_t, n + 1);
  g.early = DT_ARENA_ARRAY(arena, dt_node_id_t, n + 1);
  g.member_at = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  if (!g.facts || !g.early || !g.member_at)
    return DT_NO_MEMORY();
  find_facts(&g, live);
  DT_TRY(find_members(&g, live));
  if (!note_members(&g, live))
    return NULL;
  for (uint32_t k = 0; k < n; k++)
    live[k] = live[k] || graph->nodes.items[k].op == DT_OP_input;
  return dt__rewrite(arena, graph, visit, live, &g, out);
}
