// SPDX-License-Identifier: Apache-2.0
// The evaluator of control that data decides, by its definition: one branch is evaluated, a body as
// often as the test before it is true. Where a rounding may have decided which way was taken, no
// value that comes out is bounded.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

static bool is_certain(const dt_eval_value_t *predicate) {
  return !predicate->bound || predicate->bound[0] == 0.0;
}

static void unbound(dt_eval_value_t *values, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    for (int64_t i = 0; values[k].bound && i < values[k].count; i++)
      values[k].bound[i] = INFINITY;
}

// The node's inputs from `first` on.
static dt_eval_value_t *operands_of(const dt_eval_t *e, const dt_node_t *node, uint32_t first) {
  dt_eval_value_t *made = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, node->n_inputs + 1);
  for (uint32_t k = first; made && k < node->n_inputs; k++)
    made[k - first] = *dt__eval_in(e, node, k);
  return made;
}

// A value of its own of `from`'s dtype and sizes.
static dt_status_t make_like(const dt_eval_t *e, const dt_eval_value_t *from,
                             dt_eval_value_t *out) {
  *out = *from;
  out->data = DT_ARENA_ARRAY(e->arena, dt_scalar_t, from->count);
  if (from->bound)
    out->bound = DT_ARENA_ARRAY(e->arena, double, from->count);
  return out->data && (out->bound || !from->bound) ? NULL : DT_NO_MEMORY();
}

static void copy_into(const dt_eval_value_t *from, dt_eval_value_t *to) {
  if (to->count == 0)
    return;
  memcpy(to->data, from->data, (size_t)to->count * sizeof(*to->data));
  if (to->bound)
    memcpy(to->bound, from->bound, (size_t)to->count * sizeof(*to->bound));
}

static dt_status_t same_sizes(const dt_node_t *node, const dt_eval_value_t *a,
                              const dt_eval_value_t *b) {
  bool same = a->rank == b->rank &&
              (a->rank == 0 || memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) == 0);
  return same ? NULL : dt__eval_misfit(node, "what comes out has other sizes");
}

// Evaluates body `taken`.
static dt_status_t eval_branch(const dt_eval_t *e, const dt_node_t *node, uint32_t taken) {
  const dt_eval_value_t *predicate = dt__eval_in(e, node, 0);
  const dt_graph_t *body = dt__graph_control(e->graph, node)->bodies[taken];
  dt_eval_value_t *operands = operands_of(e, node, 1);
  dt_eval_value_t *results = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, body->outputs.len + 1);
  if (!operands || !results)
    return DT_NO_MEMORY();
  dt_status_t status = dt__eval_body(e, body, operands, e->arena, results);
  if (status)
    return dt__status_annotate(status, "%s", dt__control_body_name(node->op, taken));
  // Results may be operands, whose bounds stay what they are outside.
  for (uint32_t k = 0; !is_certain(predicate) && k < body->outputs.len; k++) {
    dt_eval_value_t own;
    DT_TRY(make_like(e, &results[k], &own));
    copy_into(&results[k], &own);
    results[k] = own;
  }
  if (!is_certain(predicate))
    unbound(results, body->outputs.len);
  e->results[node->attrs->index] = results;
  return NULL;
}

dt_status_t dt__eval_cond(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *predicate = dt__eval_in(e, node, 0);
  DT_TRY(eval_branch(e, node, predicate->data[0].i == 0));
  dt__eval_put(out, 0, dt__eval_at(predicate, 0));
  return NULL;
}

// The node's own value: not the first case.
dt_status_t dt__eval_switch(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *index = dt__eval_in(e, node, 0);
  uint32_t n = dt__control_n(dt__graph_control(e->graph, node));
  uint64_t taken = (uint64_t)index->data[0].i;
  DT_TRY(eval_branch(e, node, taken < n ? (uint32_t)taken : n - 1));
  dt__eval_put(out, 0, (dt_approx_t){.v = {.i = taken != 0}});
  return NULL;
}

typedef struct loop_t {
  const dt_eval_t *e;
  const dt_node_t *node;
  const dt_graph_t *test, *body;
  dt_eval_value_t *operands; // the state of this trip, then what is captured
  dt_eval_value_t *next;     // memory for the state of the next one
  bool certain;
} loop_t;

// One trip in `arena`, whose values are gone after it; *go_on: the test was true.
static dt_status_t trip(loop_t *loop, dt_arena_t *arena, bool *go_on) {
  dt_eval_value_t test;
  uint32_t n = loop->body->outputs.len;
  *go_on = false;
  DT_TRY(dt__status_annotate(dt__eval_body(loop->e, loop->test, loop->operands, arena, &test),
                             "test"));
  loop->certain = loop->certain && is_certain(&test);
  if (!test.data[0].i)
    return NULL;
  dt_eval_value_t *made = DT_ARENA_ARRAY(arena, dt_eval_value_t, n);
  if (!made)
    return DT_NO_MEMORY();
  DT_TRY(
      dt__status_annotate(dt__eval_body(loop->e, loop->body, loop->operands, arena, made), "body"));
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(same_sizes(loop->node, &made[k], &loop->next[k]));
    copy_into(&made[k], &loop->next[k]);
  }
  for (uint32_t k = 0; k < n; k++) {
    dt_eval_value_t old = loop->operands[k];
    loop->operands[k] = loop->next[k];
    loop->next[k] = old;
  }
  *go_on = true;
  return NULL;
}

static dt_status_t run_loop(loop_t *loop) {
  bool go_on = true;
  for (int64_t trips = 0; go_on; trips++) {
    dt_arena_t arena;
    int64_t left = *loop->e->left;
    dt__arena_init(&arena, 0);
    dt_status_t status = trip(loop, &arena, &go_on);
    dt__arena_fini(&arena);
    *loop->e->left = left;
    if (status)
      return dt__status_annotate(status, "trip %lld", (long long)trips);
    if (go_on && trips >= loop->e->max_trips)
      return DT_FAIL(DT_E_LIMIT, "the loop has not ended after %lld trips",
                     (long long)loop->e->max_trips);
  }
  return NULL;
}

dt_status_t dt__eval_while(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_graph_control_t *control = dt__graph_control(e->graph, node);
  loop_t loop = {.e = e,
                 .node = node,
                 .test = control->bodies[0],
                 .body = control->bodies[1],
                 .operands = operands_of(e, node, 0),
                 .certain = true};
  uint32_t n = loop.body->outputs.len;
  loop.next = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, n);
  if (!loop.operands || !loop.next)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    dt_eval_value_t own;
    DT_TRY(make_like(e, &loop.operands[k], &own));
    DT_TRY(make_like(e, &loop.operands[k], &loop.next[k]));
    copy_into(&loop.operands[k], &own);
    loop.operands[k] = own; // written from the second trip on
  }
  DT_TRY(run_loop(&loop));
  if (!loop.certain)
    unbound(loop.operands, n);
  e->results[node->attrs->index] = loop.operands;
  out->data[0].i = 0;
  return NULL;
}

dt_status_t dt__eval_call(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_graph_t *body = dt__graph_control(e->graph, node)->bodies[0];
  dt_eval_value_t *operands = operands_of(e, node, 0);
  dt_eval_value_t *results = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, body->outputs.len + 1);
  if (!operands || !results)
    return DT_NO_MEMORY();
  DT_TRY(dt__eval_body(e, body, operands, e->arena, results));
  e->results[node->attrs->index] = results;
  out->data[0].i = 0;
  return NULL;
}

dt_status_t dt__eval_result(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_node_t *control = dt__graph_node(e->graph, node->inputs[0]);
  dt_eval_value_t **results = control->op == DT_OP_external ? e->externals : e->results;
  const dt_eval_value_t *made = &results[control->attrs->index][node->attrs->index];
  DT_TRY(same_sizes(node, made, out));
  *out = *made;
  return NULL;
}
