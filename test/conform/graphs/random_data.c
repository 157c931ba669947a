// SPDX-License-Identifier: Apache-2.0
// Checks and builders of the instructions that data decide. What indexes is taken from any numbers,
// as their rest by the size that they index, so that it is always inside.
#define DT_NO_SOURCE_LINES // a node says its place itself
#include "test/conform/graphs/random_data.h"

#include "test/conform/graphs/random_calls.h"

#include "runtime/base/dtype.h"

// ---- Checks ---------------------------------------------------------------------------------------
static bool axis_ok(const rg_check_t *c) {
  return c->node->numbers[0] >= 0 && c->node->numbers[0] < (int32_t)c->in[0]->rank;
}
static bool number_ok(const rg_check_t *c, uint32_t k, int32_t below) {
  return c->node->numbers[k] >= 0 && c->node->numbers[k] < below;
}
static bool is_number(const rg_node_t *x) { return x->dtype != DT_BOOL; }
static bool is_whole(const rg_node_t *x) { return is_number(x) && !dt__dtype_is_float(x->dtype); }

static bool same_dims(const rg_check_t *c, uint32_t a, uint32_t b) {
  if (c->in[a]->rank != c->in[b]->rank)
    return false;
  for (uint32_t d = 0; d < c->in[a]->rank; d++)
    if (!rg_dim_same(c->p, &c->in[a]->dims[d], &c->in[b]->dims[d]))
      return false;
  return true;
}

// Where operand `by` has elements, dim `axis` of the first operand has some, too.
static bool can_index(const rg_check_t *c, uint32_t by, uint32_t axis) {
  for (uint32_t k = 0; k < rg_point_count(c->p); k++) {
    int64_t count = 1;
    for (uint32_t d = 0; d < c->in[by]->rank; d++)
      count *= c->in[by]->dims[d].at[k];
    if (count && c->in[0]->dims[axis].at[k] == 0)
      return false;
  }
  return true;
}

static bool check_scan(rg_check_t *c) { return axis_ok(c) && number_ok(c, 1, 4); }

static bool check_search(rg_check_t *c) {
  c->node->dtype = DT_I64;
  return number_ok(c, 0, 2);
}

static bool check_pick(rg_check_t *c) {
  return axis_ok(c) && is_number(c->in[1]) && same_dims(c, 0, 1) &&
         can_index(c, 1, (uint32_t)c->node->numbers[0]);
}

// Dims of operand 1, then the first operand's but its first.
static bool join_rows(rg_check_t *c, rg_node_t *out) {
  const rg_node_t *x = c->in[0], *at = c->in[1];
  if (x->rank == 0 || x->rank - 1 + at->rank > RG_RANK || !is_number(at) || !can_index(c, 1, 0))
    return false;
  for (uint32_t d = 0; d < at->rank; d++)
    out->dims[d] = at->dims[d];
  for (uint32_t d = 1; d < x->rank; d++)
    out->dims[at->rank + d - 1] = x->dims[d];
  out->rank = at->rank + x->rank - 1;
  return true;
}

static bool check_pick_rows(rg_check_t *c) { return join_rows(c, c->node); }

static bool mode_ok(const rg_check_t *c, uint32_t k) {
  return number_ok(c, k, 5) && c->in[2]->dtype == c->in[0]->dtype &&
         (c->node->numbers[k] == DT_SCATTER_REPLACE || is_number(c->in[0]));
}

static bool check_scatter(rg_check_t *c) {
  return mode_ok(c, 1) && check_pick(c) && same_dims(c, 0, 2);
}

static bool check_scatter_rows(rg_check_t *c) {
  rg_node_t rows = {0};
  if (!mode_ok(c, 0) || !join_rows(c, &rows) || rows.rank != c->in[2]->rank)
    return false;
  for (uint32_t d = 0; d < rows.rank; d++)
    if (!rg_dim_same(c->p, &rows.dims[d], &c->in[2]->dims[d]))
      return false;
  return true;
}

static bool check_places(rg_check_t *c) {
  if (c->in[0]->rank == 0)
    return false;
  c->node->dtype = DT_I64;
  for (uint32_t k = 0; k < rg_point_count(c->p); k++)
    c->node->dims[0].at[k] = c->in[0]->rank;
  c->node->rank = 1;
  return true;
}

static bool check_select(rg_check_t *c) {
  c->node->rank = 0;
  return c->in[1]->dtype == DT_BOOL && same_dims(c, 0, 1);
}

static bool check_item(rg_check_t *c) {
  c->node->dtype = DT_I64;
  return c->in[0]->rank == 0;
}

// Of control the number says whether it is written out: every way is computed, and one chosen.
static bool check_cond(rg_check_t *c) {
  return number_ok(c, 0, 2) && c->in[1]->rank == 0 && c->in[1]->dtype == DT_BOOL;
}
static bool check_counted(rg_check_t *c) {
  return number_ok(c, 0, 2) && c->in[1]->rank == 0 && is_whole(c->in[1]);
}

// Two of one shape.
static bool check_call(rg_check_t *c) {
  return number_ok(c, 0, 2) && c->in[1]->dtype == c->in[0]->dtype && same_dims(c, 0, 1);
}

// x [N, C, places] and w; the window fits at all points.
static bool check_conv(rg_check_t *c) {
  const rg_node_t *x = c->in[0], *w = c->in[1];
  bool over = rg_ops[c->node->op].form == RG_FORM_conv_transpose;
  if (x->rank != 3 || w->rank != 3 || w->dtype != x->dtype || !number_ok(c, 0, 4) ||
      !number_ok(c, 1, 4) || !number_ok(c, 2, 3) || !c->node->numbers[0] || !c->node->numbers[1] ||
      !rg_dim_same(c->p, &x->dims[1], &w->dims[over ? 0 : 1]))
    return false;
  int64_t stride = c->node->numbers[0], dilation = c->node->numbers[1], pad = c->node->numbers[2];
  c->node->dims[1] = w->dims[over ? 1 : 0];
  c->p->asks = true; // whether the window fits
  for (uint32_t k = 0; k < rg_point_count(c->p); k++) {
    int64_t reach = (w->dims[2].at[k] - 1) * dilation + 1, size = x->dims[2].at[k];
    int64_t room = over ? (size - 1) * stride + reach - 2 * pad : size + 2 * pad - reach;
    if (w->dims[2].at[k] < 1 || room < 0 || (over && size < 1))
      return false;
    c->node->dims[2].at[k] = over ? room : room / stride + 1;
    if (k < c->p->n_calls && x->dims[0].at[k] * w->dims[0].at[k] * w->dims[1].at[k] *
                                     w->dims[2].at[k] * (size + c->node->dims[2].at[k]) >
                                 RG_MAX_WORK)
      return false;
  }
  return true;
}

// Users' ops.
static bool check_call_axis(rg_check_t *c) {
  bool two = c->node->op == RG_call_halves;
  if (!axis_ok(c) || !number_ok(c, 1, two ? 2 : 1))
    return false;
  rg_dim_t *dim = &c->node->dims[c->node->numbers[0]];
  for (uint32_t k = 0; two && k < rg_point_count(c->p); k++)
    dim->at[k] = c->node->numbers[1] ? dim->at[k] - dim->at[k] / 2 : dim->at[k] / 2;
  return true;
}
static bool check_call_where(rg_check_t *c) {
  return number_ok(c, 0, 1) && number_ok(c, 1, 1) && c->in[1]->dtype == c->in[0]->dtype &&
         c->in[2]->dtype == DT_BOOL && same_dims(c, 0, 1) && same_dims(c, 0, 2);
}
static bool check_call_pair(rg_check_t *c) {
  return number_ok(c, 0, 1) && number_ok(c, 1, 2) && rg_call_is_sum(c->in[0]->dtype) &&
         c->in[1]->dtype == c->in[0]->dtype && same_dims(c, 0, 1);
}

// ---- Builders -------------------------------------------------------------------------------------
static dt_value_t index_from(dt_trace_t *t, dt_value_t from, dt_sym_t size) {
  return dt_fmod(t, dt_cast(t, from, DT_I64), dt_size_value(t, size));
}

// Sums, or the largest, that begin again where a bool says so.
static dt_status_t join_segments(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  bool largest = *(const bool *)closure;
  dt_value_t both = largest ? dt_maximum(t, in[1], in[3]) : dt_add(t, in[1], in[3]);
  out[0] = dt_logical_or(t, in[0], in[2]);
  out[1] = dt_where(t, in[2], in[3], both);
  return NULL;
}

static dt_value_t build_segments(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  bool largest = node->numbers[1] & DT_CUMSUM_EXCLUSIVE;
  uint32_t flags = node->numbers[1] & DT_CUMSUM_REVERSE ? DT_SCAN_BACKWARDS : 0;
  dt_value_t zero = dt_scalar(t, dt_value_dtype(t, in[0]), 0);
  dt_value_t pair[2] = {dt_gt(t, in[0], zero), in[0]}, out[2];
  dt_associative_scan(t, join_segments, &largest, 2, pair, node->numbers[0], flags, out);
  return out[1];
}

static dt_value_t build_scan(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  if (node->op == RG_associative_scan)
    return build_segments(t, node, in);
  return dt_cumsum(t, in[0], node->numbers[0], (dt_cumsum_mode_t)node->numbers[1]);
}

static dt_value_t build_search(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_sym_t size = dt_sym_const(t, 20);
  dt_value_t sorted = dt_iota(t, dt_value_dtype(t, in[0]), 1, &size, 0);
  return dt_searchsorted(t, sorted, in[0], node->numbers[0] != 0);
}

static dt_value_t build_pick(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  int32_t axis = node->numbers[0];
  return dt_gather_elements(t, in[0], index_from(t, in[1], dt_dim(t, in[0], axis)), axis);
}

static dt_value_t rows_from(dt_trace_t *t, const dt_value_t *in) {
  dt_value_t index = index_from(t, in[1], dt_dim(t, in[0], 0));
  return dt_unsqueeze(t, index, (int32_t)dt_value_rank(t, in[1]));
}

static dt_value_t build_pick_rows(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  (void)node;
  return dt_gather_nd(t, in[0], rows_from(t, in), 0);
}

static dt_value_t build_scatter(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  int32_t axis = node->numbers[0];
  dt_value_t index = index_from(t, in[1], dt_dim(t, in[0], axis));
  return dt_scatter_elements(t, in[0], index, in[2], axis, (dt_scatter_mode_t)node->numbers[1]);
}

static dt_value_t build_scatter_rows(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  return dt_scatter_nd(t, in[0], rows_from(t, in), in[2], (dt_scatter_mode_t)node->numbers[0]);
}

static dt_value_t build_places(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  (void)node;
  return dt_sum(t, dt_nonzero(t, in[0]), 1, (int32_t[]){0}, false);
}

static dt_value_t build_select(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  (void)node;
  return dt_sum(t, dt_masked_select(t, in[0], in[1]), 0, NULL, false);
}

static dt_value_t build_item(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  (void)node;
  return dt_size_value(t, dt_item(t, in[0]));
}

static dt_status_t body_neg(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}
static dt_status_t body_twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}
static dt_status_t body_keep(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}

static dt_value_t build_cond(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_value_t out = {0};
  if (node->numbers[0])
    return dt_where(t, in[1], dt_neg(t, in[0]), dt_add(t, in[0], in[0]));
  dt_cond(t, in[1], body_neg, body_twice, NULL, 1, in, 1, &out);
  return out;
}

static dt_value_t build_switch(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  static const dt_branch_fn_t cases[] = {body_neg, body_twice, body_keep};
  dt_value_t out = {0};
  if (node->numbers[0]) {
    dt_dtype_t dtype = dt_value_dtype(t, in[1]);
    dt_value_t high =
        dt_where(t, dt_le(t, in[1], dt_scalar(t, dtype, 1)), dt_add(t, in[0], in[0]), in[0]);
    return dt_where(t, dt_le(t, in[1], dt_scalar(t, dtype, 0)), dt_neg(t, in[0]), high);
  }
  dt_switch(t, in[1], 3, cases, NULL, 1, in, 1, &out);
  return out;
}

// Counts state 1 down; state 0 goes to and fro between what it was and the difference from it.
static dt_status_t test_more(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_gt(t, in[1], dt_scalar(t, DT_I64, 0));
  return NULL;
}
static dt_status_t body_fro(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[2], in[0]);
  out[1] = dt_sub(t, in[1], dt_scalar(t, DT_I64, 1));
  return NULL;
}

static dt_value_t build_while(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_value_t trips = dt_fmod(t, dt_cast(t, in[1], DT_I64), dt_scalar(t, DT_I64, 4));
  dt_value_t state[2] = {in[0], trips}, out[2] = {{0}, {0}};
  for (int trip = 0; node->numbers[0] && trip < 3; trip++)
    state[0] = dt_where(t, dt_gt(t, trips, dt_scalar(t, DT_I64, trip)), dt_sub(t, in[0], state[0]),
                        state[0]);
  if (node->numbers[0])
    return state[0];
  dt_while(t, test_more, body_fro, NULL, 2, state, 1, in, out);
  return out[0];
}

// A subgraph of a subgraph, each called twice: x - 2y, less 2x.
static dt_status_t body_less(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[0], in[1]);
  return NULL;
}
static dt_status_t body_less_twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  dt_value_t pair[2] = {in[0], in[1]};
  dt_subgraph(t, body_less, closure, 2, pair, 1, 0, &pair[0]);
  dt_subgraph(t, body_less, closure, 2, pair, 1, 0, out);
  return NULL;
}

static dt_value_t build_call(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_value_t pair[2] = {in[0], in[1]}, out = {0};
  if (node->numbers[0]) {
    dt_value_t once = dt_sub(t, dt_sub(t, in[0], in[1]), in[1]);
    return dt_sub(t, dt_sub(t, once, in[0]), in[0]);
  }
  dt_subgraph(t, body_less_twice, NULL, 2, pair, 1, 0, &pair[0]);
  pair[1] = in[0];
  dt_subgraph(t, body_less_twice, NULL, 2, pair, 1, 0, &out);
  return out;
}

static dt_value_t build_conv(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_sym_t pad = dt_sym_const(t, node->numbers[2]);
  dt_window_t window = {.stride = dt_sym_const(t, node->numbers[0]),
                        .dilation = dt_sym_const(t, node->numbers[1]),
                        .low = pad,
                        .high = pad};
  return node->op == RG_conv ? dt_conv(t, in[0], in[1], &window, 1)
                             : dt_conv_transpose(t, in[0], in[1], &window, 1);
}

// ---- Table ----------------------------------------------------------------------------------------
static const rg_data_form_t rows[] = {
    [RG_FORM_scan - RG_FORM_scan] = {1, 2, check_scan, build_scan},
    [RG_FORM_search - RG_FORM_scan] = {1, 1, check_search, build_search},
    [RG_FORM_pick - RG_FORM_scan] = {2, 1, check_pick, build_pick},
    [RG_FORM_pick_rows - RG_FORM_scan] = {2, 0, check_pick_rows, build_pick_rows},
    [RG_FORM_scatter - RG_FORM_scan] = {3, 2, check_scatter, build_scatter},
    [RG_FORM_scatter_rows - RG_FORM_scan] = {3, 1, check_scatter_rows, build_scatter_rows},
    [RG_FORM_places - RG_FORM_scan] = {1, 0, check_places, build_places},
    [RG_FORM_select - RG_FORM_scan] = {2, 0, check_select, build_select},
    [RG_FORM_item - RG_FORM_scan] = {1, 0, check_item, build_item},
    [RG_FORM_cond - RG_FORM_scan] = {2, 1, check_cond, build_cond},
    [RG_FORM_switch - RG_FORM_scan] = {2, 1, check_counted, build_switch},
    [RG_FORM_while - RG_FORM_scan] = {2, 1, check_counted, build_while},
    [RG_FORM_call - RG_FORM_scan] = {2, 1, check_call, build_call},
    [RG_FORM_conv - RG_FORM_scan] = {2, 3, check_conv, build_conv},
    [RG_FORM_conv_transpose - RG_FORM_scan] = {2, 3, check_conv, build_conv},
    [RG_FORM_call_axis - RG_FORM_scan] = {1, 2, check_call_axis, rg_call_build},
    [RG_FORM_call_where - RG_FORM_scan] = {3, 2, check_call_where, rg_call_build},
    [RG_FORM_call_pair - RG_FORM_scan] = {2, 2, check_call_pair, rg_call_build},
};

const rg_data_form_t *rg_data_form(rg_form_t form) { return &rows[form - RG_FORM_scan]; }
