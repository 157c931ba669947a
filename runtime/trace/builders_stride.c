// SPDX-License-Identifier: Apache-2.0
// Views by any strides, made of views that there are: a window over the last dim, whose places are
// `stride` apart and whose elements are all that the other dims reach, splits one dim off.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

static const dt_node_t *begin(dt_trace_t *trace, const char *op, dt_value_t x) {
  return dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
}

// ---- Pieces -------------------------------------------------------------------------------------
static dt_sym_t one_of(dt_trace_t *trace) { return dt__sym_const(trace->env, 1); }

static bool require(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  if (!dt__trace_made(trace, cond).id)
    return false;
  if (dt__sym_known(trace->env, cond) == DT_FALSE)
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s", what);
  else
    (void)dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin, what));
  return !trace->status;
}

static dt_value_t window_last(dt_trace_t *trace, dt_value_t x, dt_sym_t places, dt_sym_t elements,
                              dt_sym_t stride) {
  dt_attrs_t attrs = {.n_axes = 1, .n_syms = 4};
  attrs.syms[0] = places;
  attrs.syms[1] = elements;
  attrs.syms[2] = stride;
  attrs.syms[3] = dt__trace_made(trace, one_of(trace));
  return trace->status ? none_value : dt__trace_add(trace, DT_OP_window, &x, 1, &attrs);
}

static dt_value_t permute(dt_trace_t *trace, dt_value_t x, uint32_t rank, const uint32_t *from) {
  dt_attrs_t attrs = {.n_axes = rank};
  bool same = true;
  for (uint32_t k = 0; k < rank; k++) {
    attrs.axes[k] = (int32_t)from[k];
    same = same && from[k] == k;
  }
  return trace->status || same ? x : dt__trace_add(trace, DT_OP_permute, &x, 1, &attrs);
}

// ---- Strides ------------------------------------------------------------------------------------
typedef struct strided_t {
  dt_trace_t *trace;
  uint32_t rank, n; // dims, and those that move
  dt_sym_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  uint32_t order[DT_MAX_RANK]; // the dims that move, of the largest stride first
  dt_sym_t offset;
} strided_t;

// Sizes of this call decide, under a guard; numbers from data never do.
static bool holds_here(dt_trace_t *trace, dt_sym_t cond) {
  dt_origin_t origin = trace->origin;
  cond = dt__trace_told(trace, cond);
  bool holds = !trace->status && (dt_sym_guard_or)(trace, cond, false);
  trace->origin = origin;
  return holds;
}

static bool has_no_elements(strided_t *s) {
  dt_symenv_t *env = s->trace->env;
  for (uint32_t d = 0; d < s->rank; d++)
    if (holds_here(s->trace, dt__sym_eq(env, s->sizes[d], dt__sym_const(env, 0))))
      return true;
  return false;
}

static bool sort_dims(strided_t *s) {
  dt_symenv_t *env = s->trace->env;
  for (uint32_t d = 0; d < s->rank; d++) {
    dt_sym_t zero = dt__sym_const(env, 0);
    if (!require(s->trace, dt__sym_le(env, zero, s->strides[d]), "strides are 0 or more"))
      return false;
    if (holds_here(s->trace, dt__sym_eq(env, s->strides[d], zero)))
      continue;
    uint32_t at = s->n++;
    for (; at && holds_here(s->trace, dt__sym_lt(env, s->strides[s->order[at - 1]], s->strides[d]));
         at--)
      s->order[at] = s->order[at - 1];
    s->order[at] = d;
  }
  return !s->trace->status;
}

// Elements from the first to the last that the dims from place `at` of the order on reach.
static dt_sym_t reach_of(const strided_t *s, uint32_t at) {
  dt_symenv_t *env = s->trace->env;
  dt_sym_t reach = one_of(s->trace);
  for (; at < s->n; at++) {
    dt_sym_t steps = dt__sym_sub(env, s->sizes[s->order[at]], one_of(s->trace));
    reach = dt__sym_add(env, reach, dt__sym_mul(env, steps, s->strides[s->order[at]]));
  }
  return dt__trace_made(s->trace, reach);
}

// One dim after the other, the elements left over in the last dim.
static dt_value_t split_dims(strided_t *s, dt_value_t x) {
  dt_trace_t *trace = s->trace;
  for (uint32_t at = 0; at < s->n && !trace->status; at++) {
    uint32_t d = s->order[at];
    int64_t step = 0;
    if (at + 1 == s->n && dt__sym_is_const(trace->env, s->strides[d], &step))
      return dt__trace_slice(trace, x, at, dt__sym_const(trace->env, 0), s->sizes[d], step);
    x = window_last(trace, x, s->sizes[d], reach_of(s, at + 1), s->strides[d]);
  }
  return x;
}

// From the dims in their order to the view's, with those that repeat.
static dt_value_t arrange(strided_t *s, dt_value_t x) {
  dt_trace_t *trace = s->trace;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t from[DT_MAX_RANK], n = 0;
  for (uint32_t k = 0; k < s->n; k++)
    sizes[k] = s->sizes[s->order[k]];
  x = trace->status ? x : dt__trace_reshape(trace, x, s->n, sizes);
  for (uint32_t d = 0; d < s->rank; d++) {
    sizes[d] = dt__sym_const(trace->env, 1);
    for (uint32_t k = 0; k < s->n; k++) {
      if (s->order[k] != d)
        continue;
      from[n++] = k;
      sizes[d] = s->sizes[d];
    }
  }
  x = permute(trace, x, s->n, from);
  x = trace->status ? x : dt__trace_reshape(trace, x, s->rank, sizes);
  return trace->status ? none_value : dt__trace_expand(trace, x, s->rank, s->sizes);
}

// No element of x, which has one dim.
static dt_value_t none_of(strided_t *s, dt_value_t x) {
  dt_sym_t zero = dt__sym_const(s->trace->env, 0);
  if (!s->trace->status)
    x = dt__trace_slice(s->trace, x, 0, zero, zero, 1);
  return s->trace->status ? none_value : dt__trace_reshape(s->trace, x, s->rank, s->sizes);
}

dt_value_t dt_as_strided(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes,
                         const dt_sym_t *strides, dt_sym_t offset) {
  const dt_node_t *node = begin(trace, "as_strided", x);
  strided_t s = {.trace = trace, .rank = rank, .offset = offset};
  if (!node || !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "sizes", s.sizes) ||
      !dt__trace_syms(trace, rank, strides, DT_MAX_RANK, "strides", s.strides) ||
      !dt__trace_sym(trace, &s.offset, "offset"))
    return none_value;
  dt_sym_t all = dt__sym_const(trace->env, 1);
  for (uint32_t d = 0; d < node->rank; d++)
    all = dt__sym_mul(trace->env, all, node->sizes[d]);
  bool empty = has_no_elements(&s);
  if (!dt__trace_made(trace, all).id || (!empty && !sort_dims(&s)))
    return none_value;
  x = dt__trace_reshape(trace, x, 1, &all);
  if (empty)
    return none_of(&s, x);
  x = trace->status ? none_value : dt__trace_slice(trace, x, 0, s.offset, reach_of(&s, 0), 1);
  return arrange(&s, split_dims(&s, x));
}

// ---- Diagonals ----------------------------------------------------------------------------------
static dt_sym_t diagonal_size(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {
  dt_symenv_t *env = trace->env;
  return dt__sym_known_eq(env, a, b) ? a : dt__sym_min(env, a, b);
}

// Without the first `skip` elements, or as many as there are.
static dt_sym_t first_of(dt_trace_t *trace, dt_sym_t size, int64_t skip) {
  return skip ? dt__sym_min(trace->env, dt__sym_const(trace->env, skip), size)
              : dt__sym_const(trace->env, 0);
}

// The square that the diagonal runs through is a row of n * n elements: it has one each n + 1.
static dt_value_t cut_square(dt_trace_t *trace, dt_value_t x, int64_t offset) {
  dt_symenv_t *env = trace->env;
  dt_node_t node = *dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  uint32_t rank = node.rank;
  dt_sym_t a = first_of(trace, node.sizes[rank - 2], offset < 0 ? -offset : 0);
  dt_sym_t b = first_of(trace, node.sizes[rank - 1], offset > 0 ? offset : 0);
  dt_sym_t n = diagonal_size(trace, dt__sym_sub(env, node.sizes[rank - 2], a),
                             dt__sym_sub(env, node.sizes[rank - 1], b));
  dt_attrs_t attrs = {.n_syms = 2 * rank};
  for (uint32_t k = 0; k < rank; k++) {
    bool own = k + 2 >= rank;
    attrs.syms[2 * k] = !own ? dt__sym_const(env, 0) : k + 1 == rank ? b : a;
    attrs.syms[2 * k + 1] = own ? n : node.sizes[k];
    attrs.ints[k] = 1;
  }
  x = dt__trace_add(trace, DT_OP_slice, &x, 1, &attrs);
  dt_sym_t sizes[DT_MAX_RANK], all = dt__trace_made(trace, dt__sym_mul(env, n, n));
  dt_sym_t step = dt__trace_made(trace, dt__sym_add(env, n, one_of(trace)));
  for (uint32_t k = 0; k + 2 < rank; k++)
    sizes[k] = node.sizes[k];
  sizes[rank - 2] = all;
  x = trace->status ? none_value : dt__trace_reshape(trace, x, rank - 1, sizes);
  dt_sym_t steps = dt__sym_mul(env, dt__sym_sub(env, n, one_of(trace)), step);
  dt__trace_known(trace, dt__sym_lt(env, steps, all));
  x = window_last(trace, x, n, one_of(trace), step);
  sizes[rank - 2] = n;
  return trace->status ? none_value : dt__trace_reshape(trace, x, rank - 1, sizes);
}

dt_value_t dt_diagonal(dt_trace_t *trace, dt_value_t x, int64_t offset, int32_t axis_a,
                       int32_t axis_b) {
  const dt_node_t *node = begin(trace, "diagonal", x);
  uint32_t a = 0, b = 0, from[DT_MAX_RANK], n = 0;
  if (!node || !dt__trace_axis(trace, axis_a, node->rank, &a) ||
      !dt__trace_axis(trace, axis_b, node->rank, &b))
    return none_value;
  if (a == b || offset == INT64_MIN) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axes %d and %d, offset %lld; expected two dims of x",
                  (int)axis_a, (int)axis_b, (long long)offset);
    return none_value;
  }
  uint32_t rank = node->rank;
  for (uint32_t k = 0; k < rank; k++)
    if (k != a && k != b)
      from[n++] = k;
  from[n++] = a;
  from[n++] = b;
  x = permute(trace, x, rank, from);
  return trace->status ? none_value : cut_square(trace, dt__trace_current(trace, x), offset);
}

// ---- Slices one after another -------------------------------------------------------------------
dt_value_t dt_unfold(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t size, dt_sym_t step) {
  const dt_node_t *node = begin(trace, "unfold", x);
  uint32_t at = 0, from[DT_MAX_RANK], n = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at) ||
      !dt__trace_sym(trace, &size, "size") || !dt__trace_sym(trace, &step, "step"))
    return none_value;
  dt_symenv_t *env = trace->env;
  uint32_t rank = node->rank;
  dt_sym_t all = node->sizes[at], zero = dt__sym_const(env, 0), one = one_of(trace);
  if (rank == DT_MAX_RANK) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "the result would have %u dims; the most is %d", rank + 1,
                  DT_MAX_RANK);
    return none_value;
  }
  if (!require(trace, dt__sym_le(env, one, step), "the step is 1 or more") ||
      !require(trace, dt__sym_le(env, zero, size), "the size is 0 or more") ||
      !require(trace, dt__sym_le(env, size, all), "the size is at most that of the dim"))
    return none_value;
  dt_sym_t places = dt__sym_add(env, dt__sym_floordiv(env, dt__sym_sub(env, all, size), step), one);
  for (uint32_t k = 0; k < rank; k++)
    if (k != at)
      from[n++] = k;
  from[n] = at;
  x = permute(trace, x, rank, from);
  dt__trace_known(trace, dt__sym_le(env, one, places));
  x = window_last(trace, x, places, size, step);
  for (uint32_t k = 0; k <= rank; k++)
    from[k] = k == at ? rank - 1 : k > at && k < rank ? k - 1 : k;
  x = permute(trace, x, rank + 1, from);
  return trace->status ? none_value : x;
}
