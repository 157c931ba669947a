// SPDX-License-Identifier: Apache-2.0
// Builders of pools: reductions over the windows of a padded value.
#include "lower/graph/scalar.h"
#include "lower/graph/window.h"
#include "runtime/base/dtype.h"
#include "runtime/trace/builders_window.h"

static const dt_value_t none_value = {0};

// A pool in the making. Expressions are of one spatial dim each.
typedef struct pool_t {
  dt_trace_t *trace;
  dt_symenv_t *env;
  dt_value_t x;
  uint32_t n; // spatial dims
  bool ceil, count_padding, column_major;
  dt_sym_t batch, channels;
  dt_sym_t in[DT_MOST_SPATIAL], places[DT_MOST_SPATIAL];
  dt_sym_t behind[DT_MOST_SPATIAL]; // padding after x that windows reach into, counted or not
  dt_window_t w[DT_MOST_SPATIAL];
} pool_t;

static dt_sym_t literal(const pool_t *p, int64_t value) { return dt__sym_const(p->env, value); }

// ---- Places -------------------------------------------------------------------------------------
// A window begins in x or in the padding before it.
static void place_ceil(pool_t *p, uint32_t k, dt_sym_t room, dt_sym_t reach) {
  dt_symenv_t *env = p->env;
  const dt_window_t *w = &p->w[k];
  dt_sym_t one = literal(p, 1), front = dt__sym_add(env, p->in[k], w->low);
  dt_sym_t steps = dt__sym_ceildiv(env, dt__sym_sub(env, room, reach), w->stride);
  dt_sym_t most = dt__sym_floordiv(env, dt__sym_sub(env, front, one), w->stride);
  p->places[k] = dt__sym_add(env, dt__sym_min(env, steps, most), one);
  dt_sym_t span = dt__window_span(env, p->places[k], w->stride, reach);
  p->behind[k] = dt__sym_max(env, literal(p, 0), dt__sym_sub(env, span, front));
  // Rounding up a quotient that is not negative; and the larger of two.
  dt__trace_known(p->trace, dt__sym_le(env, literal(p, 0), p->places[k]));
  dt__trace_known(p->trace, dt__sym_le(env, span, dt__sym_add(env, front, p->behind[k])));
}

static bool place(pool_t *p, uint32_t k) {
  dt_symenv_t *env = p->env;
  const dt_window_t *w = &p->w[k];
  dt_sym_t zero = literal(p, 0), one = literal(p, 1);
  if (!w->size.id || !dt__windows_need(p->trace, dt__sym_le(env, one, w->size),
                                       "windows have an element or more")) {
    DT_TRACE_FAIL(p->trace, DT_E_ARGUMENT, "window %u has no size", k);
    return false;
  }
  if (!dt__windows_need(p->trace, dt__sym_le(env, zero, w->low), "padding is not negative") ||
      !dt__windows_need(p->trace, dt__sym_le(env, zero, w->high), "padding is not negative"))
    return false;
  dt_sym_t room = dt__sym_add(env, p->in[k], dt__sym_add(env, w->low, w->high));
  dt_sym_t reach = dt__window_reach(env, w->size, w->dilation);
  if (!dt__windows_fit(p->trace, reach, room))
    return false;
  if (p->ceil && !dt__sym_known_eq(env, w->stride, one)) {
    place_ceil(p, k, room, reach);
  } else {
    p->places[k] = dt__window_places(env, room, reach, w->stride);
    p->behind[k] = w->high;
    dt_sym_t span = dt__window_span(env, p->places[k], w->stride, reach);
    dt__trace_known(p->trace, dt__sym_le(env, span, room));
  }
  return dt__trace_made(p->trace, p->places[k]).id && dt__trace_made(p->trace, p->behind[k]).id;
}

static bool begin(pool_t *p, dt_trace_t *trace, const char *op, dt_value_t x,
                  const dt_window_t *windows, uint32_t flags) {
  const dt_node_t *node =
      dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node)
    return false;
  if (node->rank < 3 || node->rank > 2 + DT_MOST_SPATIAL || !windows ||
      flags > (DT_POOL_CEIL | DT_POOL_COUNT_PADDING | DT_POOL_COLUMN_MAJOR)) {
    DT_TRACE_FAIL(trace, node->rank < 3 || node->rank > 5 ? DT_E_SHAPE : DT_E_ARGUMENT,
                  "a value of rank %u, flags %u%s; expected rank 3 to %d, DT_POOL_* joined",
                  node->rank, flags, windows ? "" : ", windows NULL", 2 + DT_MOST_SPATIAL);
    return false;
  }
  *p = (pool_t){.trace = trace,
                .env = trace->env,
                .x = x,
                .n = node->rank - 2,
                .ceil = flags & DT_POOL_CEIL,
                .count_padding = flags & DT_POOL_COUNT_PADDING,
                .column_major = flags & DT_POOL_COLUMN_MAJOR,
                .batch = node->sizes[0],
                .channels = node->sizes[1]};
  for (uint32_t k = 0; k < p->n; k++)
    p->in[k] = node->sizes[2 + k];
  bool good = dt__windows_read(trace, p->n, windows, p->w);
  for (uint32_t k = 0; good && k < p->n; k++)
    good = place(p, k);
  return good;
}

// ---- Pieces -------------------------------------------------------------------------------------
static dt_value_t one(const pool_t *p, dt_op_t op, dt_value_t x, const dt_attrs_t *attrs) {
  return p->trace->status ? none_value : dt__trace_add(p->trace, op, &x, 1, attrs);
}

static dt_value_t pair(const pool_t *p, dt_op_t op, dt_value_t a, dt_value_t b) {
  return p->trace->status ? none_value
                          : dt__trace_add_broadcast(p->trace, op, (dt_value_t[]){a, b}, 2, NULL);
}

static dt_value_t cast(const pool_t *p, dt_value_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return one(p, DT_OP_cast, x, &attrs);
}

static dt_value_t number(const pool_t *p, dt_dtype_t dtype, double value) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (p->trace->status || !dt__trace_literal(p->trace, dtype, value, &attrs))
    return none_value;
  return dt__trace_add(p->trace, DT_OP_scalar, NULL, 0, &attrs);
}

// An expression as an i64.
static dt_value_t size_value(const pool_t *p, dt_sym_t size) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] = dt__trace_made(p->trace, size);
  return p->trace->status ? none_value : dt__trace_add(p->trace, DT_OP_size, NULL, 0, &attrs);
}

// 0, 1, … along dim `dim` of a result [batch, channels, places…], i64, of size 1 in the others.
static dt_value_t ramp(const pool_t *p, uint32_t dim, dt_sym_t size) {
  dt_attrs_t attrs = {0};
  attrs.dtype = DT_I64;
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)dim;
  attrs.n_syms = p->n + 2;
  for (uint32_t k = 0; k < p->n + 2; k++)
    attrs.syms[k] = k == dim ? size : literal(p, 1);
  return p->trace->status ? none_value : dt__trace_add(p->trace, DT_OP_iota, NULL, 0, &attrs);
}

// x with `fill` around it, its windows' elements in n more dims.
static dt_value_t windows(const pool_t *p, dt_value_t x, dt_dtype_t dtype, double fill) {
  dt_attrs_t attrs = {0}, around = {0};
  bool any = false;
  attrs.n_axes = p->n;
  attrs.n_syms = 4 * p->n;
  around.n_syms = 2 * (p->n + 2);
  for (uint32_t k = 0; k < 4; k++)
    around.syms[k] = literal(p, 0);
  for (uint32_t k = 0; k < p->n; k++) {
    const dt_window_t *w = &p->w[k];
    attrs.syms[4 * k] = p->places[k];
    attrs.syms[4 * k + 1] = w->size;
    attrs.syms[4 * k + 2] = w->stride;
    attrs.syms[4 * k + 3] = w->dilation;
    around.syms[4 + 2 * k] = w->low;
    around.syms[4 + 2 * k + 1] = p->behind[k];
    any = any || !dt__sym_known_eq(p->env, w->low, literal(p, 0)) ||
          !dt__sym_known_eq(p->env, p->behind[k], literal(p, 0));
  }
  if (any && (p->trace->status || !dt__trace_literal(p->trace, dtype, fill, &around)))
    return none_value;
  return one(p, DT_OP_window, any ? one(p, DT_OP_pad, x, &around) : x, &attrs);
}

// Folds the elements of windows.
static dt_value_t fold(const pool_t *p, dt_op_t op, dt_value_t x) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = p->n;
  for (uint32_t k = 0; k < p->n; k++)
    attrs.axes[k] = (int32_t)(2 + p->n + k);
  return one(p, op, x, &attrs);
}

// Which elements of a window lie between two positions of the padded x: the first one not before
// `from`, or how many there are before `from`, at most all: i64 along the dim of the places.
static dt_value_t elements_before(const pool_t *p, uint32_t k, dt_sym_t from) {
  const dt_window_t *w = &p->w[k];
  dt_value_t start = pair(p, DT_OP_mul, ramp(p, 2 + k, p->places[k]), size_value(p, w->stride));
  dt_value_t left = pair(p, DT_OP_sub, size_value(p, from), start);
  left = pair(p, DT_OP_maximum, left, number(p, DT_I64, 0));
  if (!dt__sym_known_eq(p->env, w->dilation, literal(p, 1))) {
    dt_sym_t up = dt__sym_sub(p->env, w->dilation, literal(p, 1));
    left =
        pair(p, DT_OP_div, pair(p, DT_OP_add, left, size_value(p, up)), size_value(p, w->dilation));
  }
  return pair(p, DT_OP_minimum, left, size_value(p, w->size));
}

// ---- Largest ------------------------------------------------------------------------------------
// Padding is the lowest value there is, which wins only where all of a window is as low; the first
// element that is no padding then is the first of all.
static dt_value_t index_along(const pool_t *p, uint32_t k, dt_value_t element) {
  const dt_window_t *w = &p->w[k];
  if (!dt__sym_known_eq(p->env, w->low, literal(p, 0)))
    element = pair(p, DT_OP_maximum, element, elements_before(p, k, w->low));
  dt_value_t start = pair(p, DT_OP_mul, ramp(p, 2 + k, p->places[k]), size_value(p, w->stride));
  dt_value_t at = pair(p, DT_OP_mul, element, size_value(p, w->dilation));
  return pair(p, DT_OP_sub, pair(p, DT_OP_add, start, at), size_value(p, w->low));
}

static dt_sym_t product(const pool_t *p, const dt_sym_t *sizes) {
  dt_sym_t all = literal(p, 1);
  for (uint32_t k = 0; k < p->n; k++)
    all = dt__sym_mul(p->env, all, sizes[k]);
  return all;
}

static dt_value_t indices(const pool_t *p, dt_value_t elements) {
  dt_sym_t shape[DT_MAX_RANK] = {p->batch, p->channels}, sizes[DT_MOST_SPATIAL];
  for (uint32_t k = 0; k < p->n; k++) {
    shape[2 + k] = p->places[k];
    sizes[k] = p->w[k].size;
  }
  shape[2 + p->n] = product(p, sizes);
  if (p->trace->status || !dt__trace_made(p->trace, shape[2 + p->n]).id)
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)(2 + p->n);
  dt_value_t flat = dt__trace_reshape(p->trace, elements, 3 + p->n, shape);
  dt_value_t rest = one(p, DT_OP_argmax, flat, &attrs), along[DT_MOST_SPATIAL];
  for (uint32_t k = p->n; k-- > 0;) {
    dt_value_t size = size_value(p, p->w[k].size);
    along[k] = index_along(p, k, k ? pair(p, DT_OP_fmod, rest, size) : rest);
    rest = k ? pair(p, DT_OP_div, rest, size) : rest;
  }
  dt_value_t at =
      pair(p, DT_OP_add, pair(p, DT_OP_mul, ramp(p, 0, p->batch), size_value(p, p->channels)),
           ramp(p, 1, p->channels));
  at = pair(p, DT_OP_mul, at, size_value(p, product(p, p->in)));
  dt_sym_t step = literal(p, 1);
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t k = p->column_major ? i : p->n - 1 - i;
    at = pair(p, DT_OP_add, at, pair(p, DT_OP_mul, along[k], size_value(p, step)));
    step = dt__sym_mul(p->env, step, p->in[k]);
  }
  return at;
}

dt_value_t dt_max_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *pool_windows,
                       uint32_t flags, dt_value_t *out_indices) {
  pool_t p;
  if (out_indices)
    *out_indices = none_value;
  if (!begin(&p, trace, "max_pool", x, pool_windows, flags))
    return none_value;
  dt_dtype_t dtype = dt__graph_node(trace->graph, (dt_node_id_t){x.id})->dtype;
  if (dtype == DT_BOOL) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "argument 0 must be a number, got bool; use cast");
    return none_value;
  }
  dt_scalar_t lowest = dt__scalar_lowest(dtype);
  dt_value_t elements =
      windows(&p, x, dtype, dt__dtype_is_float(dtype) ? lowest.f : (double)lowest.i);
  if (out_indices)
    *out_indices = indices(&p, elements);
  return fold(&p, DT_OP_amax, elements);
}

// ---- Means --------------------------------------------------------------------------------------
// How many elements of a window count along one dim: i64.
static dt_value_t count_along(const pool_t *p, uint32_t k) {
  const dt_window_t *w = &p->w[k];
  dt_symenv_t *env = p->env;
  dt_sym_t zero = literal(p, 0), end = dt__sym_add(env, w->low, p->in[k]);
  bool low = !dt__sym_known_eq(env, w->low, zero) && !p->count_padding;
  bool high = !dt__sym_known_eq(env, p->behind[k], zero) &&
              !(p->count_padding && (!p->ceil || p->behind[k].id == w->high.id));
  if (p->count_padding)
    end = dt__sym_add(env, end, w->high);
  dt_value_t count = high ? elements_before(p, k, end) : size_value(p, w->size);
  return low ? pair(p, DT_OP_maximum, pair(p, DT_OP_sub, count, elements_before(p, k, w->low)),
                    number(p, DT_I64, 0))
             : count;
}

// Floats are added and divided in f32 at least, and rounded once.
static dt_dtype_t computed(const pool_t *p) {
  return dt__dtype_computed(dt__graph_node(p->trace->graph, (dt_node_id_t){p->x.id})->dtype);
}

static bool begin_float(pool_t *p, dt_trace_t *trace, const char *op, dt_value_t x,
                        const dt_window_t *pool_windows, uint32_t flags) {
  if (!begin(p, trace, op, x, pool_windows, flags))
    return false;
  dt_dtype_t dtype = dt__graph_node(trace->graph, (dt_node_id_t){x.id})->dtype;
  if (!dt__dtype_is_float(dtype))
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "argument 0 must be a float, got %s; use cast",
                  dt_dtype_name(dtype));
  return trace->status == NULL;
}

dt_value_t dt_avg_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *pool_windows,
                       uint32_t flags) {
  pool_t p;
  if (!begin_float(&p, trace, "avg_pool", x, pool_windows, flags))
    return none_value;
  dt_dtype_t dtype = dt__graph_node(trace->graph, (dt_node_id_t){x.id})->dtype, wide = computed(&p);
  dt_value_t from = wide == dtype ? x : cast(&p, x, wide);
  dt_value_t sum = fold(&p, DT_OP_sum, windows(&p, from, wide, 0));
  dt_value_t count = count_along(&p, 0);
  for (uint32_t k = 1; k < p.n; k++)
    count = pair(&p, DT_OP_mul, count, count_along(&p, k));
  dt_value_t mean = pair(&p, DT_OP_div, sum, cast(&p, count, wide));
  return wide == dtype ? mean : cast(&p, mean, dtype);
}

dt_value_t dt_lp_pool(dt_trace_t *trace, dt_value_t x, const dt_window_t *pool_windows,
                      uint32_t flags, uint32_t power) {
  pool_t p;
  if (!begin_float(&p, trace, "lp_pool", x, pool_windows, flags))
    return none_value;
  if (power == 0) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "p is 0; expected 1 or more");
    return none_value;
  }
  dt_dtype_t dtype = dt__graph_node(trace->graph, (dt_node_id_t){x.id})->dtype, wide = computed(&p);
  dt_value_t from = wide == dtype ? x : cast(&p, x, wide);
  dt_value_t term = power == 2 ? pair(&p, DT_OP_mul, from, from) : one(&p, DT_OP_abs, from, NULL);
  if (power > 2)
    term = pair(&p, DT_OP_pow, term, number(&p, wide, power));
  dt_value_t sum = fold(&p, DT_OP_sum, windows(&p, term, wide, 0));
  if (power == 2)
    sum = one(&p, DT_OP_sqrt, sum, NULL);
  else if (power > 2)
    sum = pair(&p, DT_OP_pow, sum, number(&p, wide, 1.0 / power));
  return wide == dtype ? sum : cast(&p, sum, dtype);
}
