// SPDX-License-Identifier: Apache-2.0
// The matrix product's builder: vectors become matrices and back, leading dims broadcast. A second
// operand of rank 2 stays as it is, so that it serves all leading dims without being repeated.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

static const dt_node_t *node_of(const dt_trace_t *trace, dt_value_t x) {
  return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
}

static dt_sym_t one_of(dt_trace_t *trace) {
  return dt__trace_made(trace, dt__sym_const(trace->env, 1));
}

// A vector as a row (`column` false) or a column.
static dt_value_t as_matrix(dt_trace_t *trace, dt_value_t x, bool column) {
  const dt_node_t *node = node_of(trace, x);
  dt_sym_t one = one_of(trace);
  dt_sym_t sizes[2] = {column ? node->sizes[0] : one, column ? one : node->sizes[0]};
  return dt__trace_reshape(trace, x, 2, sizes);
}

// The size two leading dims have together: equal, or one of them 1.
static dt_sym_t join(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {
  dt_sym_t must = {0}, size = dt__graph_broadcast_size(trace->env, a, b, &must);
  must = dt__trace_made(trace, must);
  if (!must.id || !dt__trace_take(trace, dt__sym_require(trace->env, must, &trace->origin,
                                                         "leading sizes are equal or 1")))
    return DT_SYM_NONE_ID;
  return dt__trace_made(trace, size);
}

// Brings the leading dims of `x` to lead[0 … n - 1]; the last two stay.
static dt_value_t bring(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_sym_t *lead) {
  const dt_node_t *node = node_of(trace, x);
  uint32_t own = node->rank - 2, rank = n + 2;
  dt_sym_t aligned[DT_MAX_RANK], sizes[DT_MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) {
    aligned[k] = k < n - own ? one_of(trace) : node->sizes[k - (n - own)];
    sizes[k] = k < n ? lead[k] : aligned[k];
    // What was required of the pair says this, too; the expand then asks nothing more.
    dt_sym_t repeats = dt__sym_or(trace->env, dt__sym_eq(trace->env, aligned[k], sizes[k]),
                                  dt__sym_eq(trace->env, aligned[k], dt__sym_const(trace->env, 1)));
    if (k < n && repeats.id && dt__sym_known(trace->env, repeats) == DT_UNKNOWN &&
        !dt__trace_take(trace, dt__sym_learn_at(trace->env, repeats, &trace->origin)))
      return none_value;
  }
  return dt__trace_expand(trace, dt__trace_reshape(trace, x, rank, aligned), rank, sizes);
}

static bool broadcast_lead(dt_trace_t *trace, dt_value_t *a, dt_value_t *b) {
  const dt_node_t *x = node_of(trace, *a), *y = node_of(trace, *b);
  if (y->rank == 2)
    return true;
  uint32_t nx = x->rank - 2, ny = y->rank - 2, n = nx > ny ? nx : ny;
  dt_sym_t lead[DT_MAX_RANK];
  for (uint32_t k = 0; k < n; k++) {
    bool in_x = k >= n - nx, in_y = k >= n - ny;
    if (in_x && in_y)
      lead[k] = join(trace, x->sizes[k - (n - nx)], y->sizes[k - (n - ny)]);
    else
      lead[k] = in_x ? x->sizes[k - (n - nx)] : y->sizes[k - (n - ny)];
    if (trace->status)
      return false;
  }
  *a = bring(trace, *a, n, lead);
  *b = trace->status ? none_value : bring(trace, *b, n, lead);
  return trace->status == NULL;
}

// Drops dims of size 1 that stood for a vector's missing one.
static dt_value_t drop(dt_trace_t *trace, dt_value_t x, bool row, bool column) {
  if (trace->status || (!row && !column))
    return x;
  const dt_node_t *node = node_of(trace, x);
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  for (uint32_t k = 0; k < node->rank; k++) {
    bool gone = (row && k + 2 == node->rank) || (column && k + 1 == node->rank);
    if (!gone)
      sizes[rank++] = node->sizes[k];
  }
  return dt__trace_reshape(trace, x, rank, sizes);
}

dt_value_t dt_matmul(dt_trace_t *trace, dt_value_t a, dt_value_t b) {
  if (!dt__trace_begin(trace, "matmul"))
    return none_value;
  const dt_node_t *x = dt__trace_node(trace, a, "argument 0");
  const dt_node_t *y = x ? dt__trace_node(trace, b, "argument 1") : NULL;
  if (!x || !y)
    return none_value;
  if (x->rank == 0 || y->rank == 0) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "argument %d is a scalar; use mul", x->rank ? 1 : 0);
    return none_value;
  }
  bool row = x->rank == 1, column = y->rank == 1;
  if (row)
    a = as_matrix(trace, a, false);
  if (column && !trace->status)
    b = as_matrix(trace, b, true);
  if (trace->status || !broadcast_lead(trace, &a, &b))
    return none_value;
  dt_value_t product = dt__trace_add(trace, DT_OP_matmul, (dt_value_t[]){a, b}, 2, NULL);
  return drop(trace, product, row, column);
}
