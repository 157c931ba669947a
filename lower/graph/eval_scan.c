// SPDX-License-Identifier: Apache-2.0
// The evaluator of `associative_scan`, by its definition: along the axis, one element after the
// other, each joined with what the elements before it made.
#include "lower/graph/eval_private.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct scan_t {
  const dt_eval_t *e;
  const dt_graph_t *body;
  uint32_t n;                // values of a tuple
  dt_eval_value_t *operands; // of the body: left, right, captured
  dt_scalar_t *data;         // of left and right
  double *bounds;            // of them, or NULL
  dt_eval_value_t *results;
} scan_t;

static void put_operand(scan_t *scan, uint32_t k, dt_approx_t x) {
  scan->data[k] = x.v;
  if (scan->bounds)
    scan->bounds[k] = x.b;
}

// Room for a tuple on either side, and for the results.
static dt_status_t prepare(scan_t *scan, const dt_node_t *node) {
  const dt_eval_t *e = scan->e;
  uint32_t n = scan->n;
  scan->operands = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, scan->body->inputs.len + 1);
  scan->data = DT_ARENA_ARRAY(e->arena, dt_scalar_t, 2 * (size_t)n);
  scan->bounds = e->bounds ? DT_ARENA_ARRAY(e->arena, double, 2 * (size_t)n) : NULL;
  scan->results = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, n);
  if (!scan->operands || !scan->data || !scan->results || (e->bounds && !scan->bounds))
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < 2 * n; k++)
    scan->operands[k] = (dt_eval_value_t){.dtype = scan->body->inputs.items[k].dtype,
                                          .count = 1,
                                          .data = &scan->data[k],
                                          .bound = scan->bounds ? &scan->bounds[k] : NULL};
  for (uint32_t k = n; k < node->n_inputs; k++)
    scan->operands[k + n] = *dt__eval_in(e, node, k);
  for (uint32_t k = 0; k < n; k++) {
    const dt_eval_value_t *in = dt__eval_in(e, node, k), *first = dt__eval_in(e, node, 0);
    if (in->rank && memcmp(in->sizes, first->sizes, in->rank * sizeof(in->sizes[0])) != 0)
      return dt__eval_misfit(node, "operands have other sizes");
    scan->results[k] = *in;
    scan->results[k].data = DT_ARENA_ARRAY(e->arena, dt_scalar_t, in->count);
    if (in->bound)
      scan->results[k].bound = DT_ARENA_ARRAY(e->arena, double, in->count);
    if (!scan->results[k].data || (in->bound && !scan->results[k].bound))
      return DT_NO_MEMORY();
  }
  return NULL;
}

// The element at `at` joined with the one before it in its row, which is `stride` away.
static dt_status_t join(scan_t *scan, const dt_node_t *node, int64_t at, int64_t stride) {
  dt_arena_t arena;
  int64_t left = *scan->e->left;
  for (uint32_t k = 0; k < scan->n; k++) {
    put_operand(scan, k, dt__eval_at(&scan->results[k], at - stride));
    put_operand(scan, scan->n + k, dt__eval_at(dt__eval_in(scan->e, node, k), at));
  }
  dt__arena_init(&arena, 0);
  dt_eval_value_t *made = DT_ARENA_ARRAY(&arena, dt_eval_value_t, scan->n);
  dt_status_t status =
      made ? dt__eval_body(scan->e, scan->body, scan->operands, &arena, made) : DT_NO_MEMORY();
  for (uint32_t k = 0; k < scan->n && !status; k++)
    dt__eval_put(&scan->results[k], at, dt__eval_at(&made[k], 0));
  dt__arena_fini(&arena);
  *scan->e->left = left;
  return dt__status_annotate(status, "combine");
}

dt_status_t dt__eval_associative_scan(const dt_eval_t *e, const dt_node_t *node,
                                      dt_eval_value_t *out) {
  scan_t scan = {.e = e, .body = dt__graph_control(e->graph, node)->bodies[0]};
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  int64_t strides[DT_MAX_RANK];
  scan.n = scan.body->outputs.len;
  DT_TRY(prepare(&scan, node));
  dt__eval_strides(in, strides);
  for (int64_t at = 0; at < in->count; at++) {
    bool first = at / strides[axis] % in->sizes[axis] == 0;
    for (uint32_t k = 0; first && k < scan.n; k++)
      dt__eval_put(&scan.results[k], at, dt__eval_at(dt__eval_in(e, node, k), at));
    if (!first)
      DT_TRY(join(&scan, node, at, strides[axis]));
  }
  e->results[node->attrs->index] = scan.results;
  out->data[0].i = 0;
  return NULL;
}
