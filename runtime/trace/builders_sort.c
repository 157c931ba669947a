// SPDX-License-Identifier: Apache-2.0
// Builders of sort and top-k. Both algorithms order by (element, index), so that equal elements
// keep their order, and both work on rows [R, n]:
//
// - rows that are known to be short: the place of each element is the number of those before it,
//   and the index at each place is found by comparing places. n^2 comparisons, but two kernels;
// - others: Batcher's merge exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm
//   M), which works for any n: a loop of about lg(n)^2 / 2 trips, each of which compares every
//   element with its partner and is parallel.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

#define SHORT_ROW 1024 // as long as n^2 comparisons are worth a pass over the elements a trip
#define MOST_BITS 47   // of a size

static const dt_value_t none_value = {0};

static dt_sym_t literal(dt_trace_t *t, int64_t value) {
  return t->status ? DT_SYM_NONE_ID : dt_sym_const(t, value);
}
static dt_value_t number(dt_trace_t *t, int64_t value) {
  return dt_scalar(t, DT_I64, (double)value);
}

// ---- Order ----------------------------------------------------------------------------------------
// a < b, where NaN is larger than any number.
static dt_value_t less(dt_trace_t *t, dt_value_t a, dt_value_t b, bool real) {
  dt_value_t plain = dt_lt(t, a, b);
  if (!real)
    return plain;
  return dt_logical_or(t, plain,
                       dt_logical_and(t, dt_isnan(t, b), dt_logical_not(t, dt_isnan(t, a))));
}

typedef struct entry_t {
  dt_value_t x, at; // an element and its index
} entry_t;

// a comes before b: the smaller one, or the larger; of equal ones the first.
static dt_value_t before(dt_trace_t *t, entry_t a, entry_t b, bool larger, bool real) {
  dt_value_t forwards = less(t, a.x, b.x, real), backwards = less(t, b.x, a.x, real);
  dt_value_t wins = larger ? backwards : forwards, loses = larger ? forwards : backwards;
  dt_value_t first = dt_lt(t, a.at, b.at);
  return dt_logical_or(t, wins, dt_logical_and(t, dt_logical_not(t, loses), first));
}

// ---- Rows -----------------------------------------------------------------------------------------
typedef struct order_t {
  dt_trace_t *t;
  dt_sym_t rows, n, k;
  bool larger, real;
} order_t;

// [R, n] seen as [R, n, 1] or [R, 1, n]; a row of indices as [1, …] of the same.
static dt_value_t stand(const order_t *o, dt_value_t x, dt_sym_t rows, dt_sym_t n, bool up) {
  dt_sym_t one = literal(o->t, 1);
  const dt_sym_t sizes[3] = {rows, up ? n : one, up ? one : n};
  return o->t->status ? none_value : dt_reshape(o->t, x, 3, sizes);
}

static dt_value_t indices(const order_t *o, dt_sym_t n) {
  return o->t->status ? none_value : dt_iota(o->t, DT_I64, 1, &n, 0);
}

static void by_counting(const order_t *o, dt_value_t x, dt_value_t *out_x, dt_value_t *out_at) {
  dt_trace_t *t = o->t;
  const int32_t last = 2;
  dt_sym_t one = literal(t, 1);
  dt_value_t along = indices(o, o->n), places = indices(o, o->k);
  entry_t own = {stand(o, x, o->rows, o->n, true), stand(o, along, one, o->n, true)};
  entry_t other = {stand(o, x, o->rows, o->n, false), stand(o, along, one, o->n, false)};
  dt_value_t earlier = dt_cast(t, before(t, other, own, o->larger, o->real), DT_I64);
  dt_value_t place = dt_sum(t, earlier, 1, &last, false);
  dt_value_t here =
      dt_eq(t, stand(o, place, o->rows, o->n, false), stand(o, places, one, o->k, true));
  *out_at = dt_sum(t, dt_where(t, here, other.at, number(t, 0)), 1, &last, false);
  *out_x = dt_gather_elements(t, x, *out_at, 1);
}

// ---- Merge exchange -------------------------------------------------------------------------------
enum { P, Q, R, D, X, AT, N_STATE, TOP = N_STATE };

static dt_status_t unfinished(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_gt(t, in[P], number(t, 0));
  return NULL;
}

// The next distance: within this p while q is larger, else from the top with half of p.
static void next_step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out) {
  dt_value_t again = dt_ne(t, in[Q], in[P]), one = number(t, 1);
  dt_value_t half = dt_shift_right(t, in[P], one);
  out[P] = dt_where(t, again, in[P], half);
  out[Q] = dt_where(t, again, dt_shift_right(t, in[Q], one), in[TOP]);
  out[R] = dt_where(t, again, in[P], number(t, 0));
  out[D] = dt_where(t, again, dt_sub(t, in[Q], in[P]), half);
}

// Elements i with (i & p) == r meet those at i + d: the earlier in order comes to lie first.
static dt_status_t exchange(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const order_t *o = closure;
  dt_value_t i = indices(o, o->n), zero = number(t, 0);
  dt_value_t up = dt_add(t, i, in[D]), down = dt_sub(t, i, in[D]);
  dt_value_t low = dt_logical_and(t, dt_eq(t, dt_bit_and(t, i, in[P]), in[R]),
                                  dt_lt(t, up, dt_size_value(t, o->n)));
  dt_value_t high =
      dt_logical_and(t, dt_eq(t, dt_bit_and(t, down, in[P]), in[R]), dt_ge(t, down, zero));
  dt_value_t partner = dt_where(t, low, up, dt_where(t, high, down, i));
  entry_t own = {in[X], in[AT]};
  entry_t other = {dt_gather(t, in[X], partner, 1), dt_gather(t, in[AT], partner, 1)};
  dt_value_t sooner = before(t, other, own, o->larger, o->real);
  dt_value_t taken = dt_where(t, low, sooner, dt_logical_and(t, high, dt_logical_not(t, sooner)));
  next_step(t, in, out);
  out[X] = dt_where(t, taken, other.x, own.x);
  out[AT] = dt_where(t, taken, other.at, own.at);
  return NULL;
}

// The largest power of two below n; 0 where there is none.
static dt_value_t top_of(const order_t *o) {
  dt_trace_t *t = o->t;
  dt_value_t powers = dt_shift_left(t, number(t, 1), indices(o, literal(t, MOST_BITS)));
  dt_value_t below = dt_lt(t, powers, dt_size_value(t, o->n));
  return dt_amax(t, dt_where(t, below, powers, number(t, 0)), 0, NULL, false);
}

static void by_exchange(order_t *o, dt_value_t x, dt_value_t *out_x, dt_value_t *out_at) {
  dt_trace_t *t = o->t;
  const dt_sym_t sizes[2] = {o->rows, o->n};
  dt_value_t top = top_of(o), at = t->status ? none_value : dt_iota(t, DT_I64, 2, sizes, 1);
  dt_value_t state[N_STATE] = {[P] = top, [Q] = top, [R] = number(t, 0),
                               [D] = top, [X] = x,   [AT] = at};
  if (t->status)
    return;
  dt_while(t, unfinished, exchange, o, N_STATE, state, 1, &top, state);
  *out_x = dt_slice(t, state[X], 1, literal(t, 0), o->k, 1);
  *out_at = dt_slice(t, state[AT], 1, literal(t, 0), o->k, 1);
}

// ---- Builders ---------------------------------------------------------------------------------------
// The axis goes last, the other dims become one; and back.
static dt_value_t to_rows(const order_t *o, dt_value_t x, uint32_t axis, uint32_t rank) {
  const dt_sym_t sizes[2] = {o->rows, o->n};
  int32_t axes[DT_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++)
    axes[d] = (int32_t)(d + 1 == rank ? axis : d < axis ? d : d + 1);
  return dt_reshape(o->t, dt_permute(o->t, x, axes), 2, sizes);
}

static dt_value_t from_rows(const order_t *o, dt_value_t x, uint32_t axis, const dt_node_t *node) {
  dt_sym_t sizes[DT_MAX_RANK];
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = node->rank;
  for (uint32_t d = 0; d < rank; d++) {
    sizes[d] = d + 1 == rank ? o->k : node->sizes[d < axis ? d : d + 1];
    axes[d] = (int32_t)(d == axis ? rank - 1 : d < axis ? d : d - 1);
  }
  return o->t->status ? none_value : dt_permute(o->t, dt_reshape(o->t, x, rank, sizes), axes);
}

// `k` of none: all.
static void order_along(dt_trace_t *trace, const char *op, dt_value_t x, dt_sym_t k, int32_t axis,
                        bool larger, dt_value_t *out_values, dt_value_t *out_indices) {
  const dt_node_t *own = dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
  uint32_t at = 0;
  *out_values = *out_indices = none_value;
  if (!own || !dt__trace_axis(trace, axis, own->rank, &at))
    return;
  dt_node_t node = *own; // nodes move when others are added
  if (dt__dtype_is_bool(node.dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "argument 0 must be a number, got bool; use cast");
    return;
  }
  order_t o = {
      .t = trace, .n = node.sizes[at], .larger = larger, .real = dt__dtype_is_float(node.dtype)};
  o.k = k.id ? k : o.n;
  dt_symenv_t *env = trace->env;
  dt_sym_t inside =
      dt__sym_and(env, dt__sym_le(env, dt__sym_const(env, 0), o.k), dt__sym_le(env, o.k, o.n));
  o.rows = dt__sym_const(env, 1);
  for (uint32_t d = 0; d < node.rank; d++)
    o.rows = d == at ? o.rows : dt__sym_mul(env, o.rows, node.sizes[d]);
  if (!dt__trace_made(trace, inside).id || !dt__trace_made(trace, o.rows).id)
    return;
  if (dt__sym_known(env, inside) == DT_FALSE) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "k is not in [0, size of dim %u]", at);
    return;
  }
  if (!dt__trace_take(trace, dt__sym_require(env, inside, &trace->origin, "k is in [0, size]")))
    return;
  x = to_rows(&o, x, at, node.rank);
  dt_value_t values = none_value, places = none_value;
  if (dt__sym_range(env, o.n).hi <= SHORT_ROW)
    by_counting(&o, x, &values, &places);
  else
    by_exchange(&o, x, &values, &places);
  *out_values = from_rows(&o, values, at, &node);
  *out_indices = from_rows(&o, places, at, &node);
}

void dt_topk(dt_trace_t *trace, dt_value_t x, dt_sym_t k, int32_t axis, bool largest,
             dt_value_t *out_values, dt_value_t *out_indices) {
  if (!dt__trace_begin(trace, "topk") || !dt__trace_sym(trace, &k, "k")) {
    *out_values = *out_indices = none_value;
    return;
  }
  order_along(trace, "topk", x, k, axis, largest, out_values, out_indices);
}

void dt_sort(dt_trace_t *trace, dt_value_t x, int32_t axis, bool descending, dt_value_t *out_values,
             dt_value_t *out_indices) {
  order_along(trace, "sort", x, DT_SYM_NONE_ID, axis, descending, out_values, out_indices);
}
