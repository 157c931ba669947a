// SPDX-License-Identifier: Apache-2.0
// Decompositions of convolutions. A convolution is a matrix product of w with the windows of x, a
// view that what packs or reads the product's operands sees through; where a group has few rows to
// multiply, it is a sum of products over each window instead. A transposed one is a product of w
// with x, whose windows are then added where they overlap: no zero is multiplied for a stride.
//
// Sizes that stand here follow from those that inference asked about; what it knows only in another
// form is learned.
#include "lower/graph/window.h"
#include "lower/passes/decompose.h"
#include "runtime/base/status.h"

#include <string.h>

#define FEW_ROWS 4      // of w, for which packing windows costs more than it saves
#define FEW_ROWS_DEEP 8 // the same where each row has one channel

typedef struct conv_t {
  dt_build_t *b;
  dt_symenv_t *env;
  uint32_t n; // spatial dims
  const dt_sym_t *fields;
  dt_sym_t batch, groups, rows, channels; // rows of the result and channels of x in each group
  dt_sym_t in[DT_MOST_SPATIAL], kernel[DT_MOST_SPATIAL], out[DT_MOST_SPATIAL];
  bool grouped;
} conv_t;

static dt_sym_t literal(const conv_t *c, int64_t value) { return dt__sym_const(c->env, value); }
static bool is_literal(const conv_t *c, dt_sym_t e, int64_t value) {
  return dt__sym_known_eq(c->env, e, literal(c, value));
}
static bool at_most(const conv_t *c, dt_sym_t e, int64_t value) {
  return dt__sym_known_true(c->env, dt__sym_le(c->env, e, literal(c, value)));
}

static void learn(const conv_t *c, dt_sym_t fact) { dt__build_learn(c->b, fact); }

static dt_sym_t product(const conv_t *c, uint32_t n, const dt_sym_t *sizes) {
  dt_sym_t made = literal(c, 1);
  for (uint32_t k = 0; k < n; k++)
    made = dt__sym_mul(c->env, made, sizes[k]);
  return made;
}

// Of places: a size like all others, which a call refuses from the limit on.
static dt_sym_t count(const conv_t *c, const dt_sym_t *sizes) {
  dt_sym_t all = product(c, c->n, sizes);
  dt__build_size(c->b, all);
  return all;
}

// ---- Lists of dims ------------------------------------------------------------------------------
typedef struct dims_t {
  uint32_t n;
  dt_sym_t size[2 * DT_MAX_RANK];
} dims_t;

static void put(dims_t *dims, dt_sym_t size) { dims->size[dims->n++] = size; }
static void put_all(dims_t *dims, uint32_t n, const dt_sym_t *sizes) {
  for (uint32_t k = 0; k < n; k++)
    put(dims, sizes[k]);
}
static void put_ones(const conv_t *c, dims_t *dims, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    put(dims, literal(c, 1));
}

static dt_node_id_t reshape(const conv_t *c, dt_node_id_t x, const dims_t *to) {
  if (c->b->status)
    return x;
  const dt_node_t *in = dt__graph_node(c->b->rw->to, x);
  learn(c, dt__sym_eq(c->env, product(c, in->rank, in->sizes), product(c, to->n, to->size)));
  // Each is a product of sizes, of which the signs are known one by one only.
  for (uint32_t k = 0; k < to->n; k++)
    learn(c, dt__sym_le(c->env, literal(c, 0), to->size[k]));
  dt_attrs_t attrs = {0};
  attrs.n_syms = to->n;
  memcpy(attrs.syms, to->size, to->n * sizeof(to->size[0]));
  return dt__build_op(c->b, DT_OP_reshape, &x, 1, &attrs);
}

static dt_node_id_t expand(const conv_t *c, dt_node_id_t x, const dims_t *to) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = to->n;
  memcpy(attrs.syms, to->size, to->n * sizeof(to->size[0]));
  return dt__build_op(c->b, DT_OP_expand, &x, 1, &attrs);
}

// ---- Windows of x -------------------------------------------------------------------------------
// Zeros around x's spatial dims, which are its last; sizes[k] are theirs with the padding.
static dt_node_id_t padded(const conv_t *c, dt_node_id_t x, dt_sym_t *sizes) {
  const dt_node_t *in = dt__graph_node(c->b->rw->to, x);
  dt_attrs_t attrs = {0};
  bool any = false;
  uint32_t lead = in->rank - c->n;
  attrs.n_syms = 2 * in->rank;
  for (uint32_t k = 0; k < in->rank; k++)
    for (uint32_t side = 0; side < 2; side++) {
      attrs.syms[2 * k + side] = k < lead ? literal(c, 0) : c->fields[4 * (k - lead) + 2 + side];
      any = any || !is_literal(c, attrs.syms[2 * k + side], 0);
      learn(c, dt__sym_le(c->env, literal(c, 0), attrs.syms[2 * k + side]));
    }
  for (uint32_t k = 0; k < c->n; k++)
    sizes[k] = dt__sym_add(c->env, c->in[k],
                           dt__sym_add(c->env, c->fields[4 * k + 2], c->fields[4 * k + 3]));
  return any ? dt__build_op(c->b, DT_OP_pad, &x, 1, &attrs) : x;
}

// x's last dims are spatial ones; appended are the elements of windows, unless those have one
// element each and are as many as there are elements.
static dt_node_id_t windows(const conv_t *c, dt_node_id_t x) {
  dt_sym_t sizes[DT_MOST_SPATIAL];
  if (c->b->status)
    return x;
  x = padded(c, x, sizes);
  dt_attrs_t attrs = {0};
  attrs.n_axes = c->n;
  attrs.n_syms = 4 * c->n;
  for (uint32_t k = 0; k < c->n; k++) {
    const dt_sym_t field[4] = {c->out[k], c->kernel[k], c->fields[4 * k], c->fields[4 * k + 1]};
    memcpy(&attrs.syms[4 * k], field, sizeof(field));
    dt_sym_t reach = dt__window_reach(c->env, c->kernel[k], field[3]);
    learn(c, dt__sym_le(c->env, dt__window_span(c->env, c->out[k], field[2], reach), sizes[k]));
  }
  return dt__build_op(c->b, DT_OP_window, &x, 1, &attrs);
}

// x [N, C, …] with the groups apart: in dims of their own, or, where `joined`, in that of N.
static dt_node_id_t in_groups(const conv_t *c, dt_node_id_t x, bool joined) {
  dims_t to = {0};
  if (!c->grouped)
    return x;
  if (joined) {
    put(&to, dt__sym_mul(c->env, c->batch, c->groups));
  } else {
    put(&to, c->batch);
    put(&to, c->groups);
  }
  put(&to, c->channels);
  put_all(&to, c->n, c->in);
  return reshape(c, x, &to);
}

// The rows of all groups are those of the result.
static dt_node_id_t joined_rows(const conv_t *c, dt_node_id_t x, const dims_t *more) {
  dims_t to = {0};
  put_all(&to, 2, c->b->node->sizes);
  put_all(&to, more->n, more->size);
  return reshape(c, x, &to);
}

// w as `rows` x `columns` matrices, one a group, for all of the batch. [groups, columns, rows] in
// memory where `transposed`.
static dt_node_id_t matrices(const conv_t *c, dt_node_id_t w, dt_sym_t rows, dt_sym_t columns,
                             bool transposed) {
  dims_t to = {0}, all = {0};
  put_ones(c, &to, 1);
  put(&all, c->batch);
  for (dims_t *dims = &to; dims; dims = dims == &to ? &all : NULL) {
    if (c->grouped)
      put(dims, c->groups);
    put(dims, transposed && dims == &to ? columns : rows);
    put(dims, transposed && dims == &to ? rows : columns);
  }
  w = reshape(c, w, &to);
  if (transposed) {
    dt_attrs_t order = {0};
    order.n_axes = to.n;
    for (uint32_t k = 0; k < to.n; k++)
      order.axes[k] = (int32_t)(k + 2 == to.n ? k + 1 : k + 1 == to.n ? k - 1 : k);
    w = dt__build_op(c->b, DT_OP_permute, &w, 1, &order);
  }
  return expand(c, w, &all);
}

// ---- Convolution --------------------------------------------------------------------------------
static dt_node_id_t by_product(const conv_t *c, dt_node_id_t x, dt_node_id_t w) {
  dims_t to = {0}, places = {0};
  dt_sym_t inner = dt__sym_mul(c->env, c->channels, product(c, c->n, c->kernel));
  x = windows(c, in_groups(c, x, true));
  dt_attrs_t order = {0}; // channels, then elements, then places
  order.n_axes = 2 * c->n + 2;
  order.axes[1] = 1;
  for (uint32_t k = 0; k < c->n; k++) {
    order.axes[2 + k] = (int32_t)(2 + c->n + k);
    order.axes[2 + c->n + k] = (int32_t)(2 + k);
  }
  x = dt__build_op(c->b, DT_OP_permute, &x, 1, &order);
  put(&to, c->batch);
  if (c->grouped)
    put(&to, c->groups);
  put(&to, inner);
  put(&to, count(c, c->out));
  x = reshape(c, x, &to);
  dt_node_id_t factors[2] = {matrices(c, w, c->rows, inner, false), x};
  put_all(&places, c->n, c->out);
  return joined_rows(c, dt__build_op(c->b, DT_OP_matmul, factors, 2, NULL), &places);
}

// Dims of the sum: N, groups, rows, channels, places, elements, of which those that are 1 for any
// size are left out where they are not wanted to tell the others apart.
static dt_node_id_t by_sum(const conv_t *c, dt_node_id_t x, dt_node_id_t w) {
  bool deep = !is_literal(c, c->channels, 1), wide = !is_literal(c, c->rows, 1);
  dims_t at_x = {0}, at_w = {0}, places = {0};
  dt_attrs_t attrs = {0};
  x = windows(c, deep ? in_groups(c, x, true) : x);
  put(&at_x, c->batch);
  if (c->grouped || !deep) {
    put(&at_x, c->groups);
    put(&at_w, c->groups);
  }
  if (wide || (deep && !c->grouped)) {
    put_ones(c, &at_x, 1);
    put(&at_w, c->rows);
  }
  if (deep) {
    attrs.axes[attrs.n_axes++] = (int32_t)at_x.n;
    put(&at_x, c->channels);
    put(&at_w, c->channels);
  }
  put_all(&at_x, c->n, c->out);
  put_ones(c, &at_w, c->n);
  for (uint32_t k = 0; k < c->n; k++)
    attrs.axes[attrs.n_axes++] = (int32_t)(at_x.n + k);
  put_all(&at_x, c->n, c->kernel);
  put_all(&at_w, c->n, c->kernel);
  dt_node_id_t terms = dt__build_pair(c->b, DT_OP_mul, reshape(c, x, &at_x), reshape(c, w, &at_w));
  put_all(&places, c->n, c->out);
  return joined_rows(c, dt__build_op(c->b, DT_OP_sum, &terms, 1, &attrs), &places);
}

// How many dims the sum has.
static uint32_t sum_rank(const conv_t *c) {
  bool deep = !is_literal(c, c->channels, 1), wide = !is_literal(c, c->rows, 1);
  uint32_t own = c->grouped || !deep, rows = wide || (deep && !c->grouped);
  return 1 + own + rows + (uint32_t)deep + 2 * c->n;
}

static conv_t begin(dt_build_t *b, bool transposed) {
  const dt_node_t *node = b->node;
  const dt_node_t *x = dt__graph_node(b->rw->to, b->in[0]),
                  *w = dt__graph_node(b->rw->to, b->in[1]);
  conv_t c = {.b = b, .env = b->rw->to->env, .n = node->attrs->n_axes, .fields = node->attrs->syms};
  c.batch = x->sizes[0];
  c.groups = node->attrs->syms[4 * c.n];
  c.grouped = !is_literal(&c, c.groups, 1);
  dt_sym_t divided = dt__sym_exactdiv(c.env, w->sizes[0], c.groups);
  c.rows = transposed ? w->sizes[1] : divided;
  c.channels = transposed ? divided : w->sizes[1];
  learn(&c, dt__sym_eq(c.env, w->sizes[0], dt__sym_mul(c.env, c.groups, divided)));
  for (uint32_t k = 0; k < c.n; k++) {
    c.in[k] = x->sizes[2 + k];
    c.kernel[k] = w->sizes[2 + k];
    c.out[k] = node->sizes[2 + k];
  }
  return c;
}

dt_node_id_t dt__decompose_conv(dt_build_t *b) {
  conv_t c = begin(b, false);
  bool few = at_most(&c, c.rows, is_literal(&c, c.channels, 1) ? FEW_ROWS_DEEP : FEW_ROWS);
  return few && sum_rank(&c) <= DT_MAX_RANK ? by_sum(&c, b->in[0], b->in[1])
                                            : by_product(&c, b->in[0], b->in[1]);
}

// ---- Transposed ---------------------------------------------------------------------------------
// w times each element of x, of a group with one channel: [N, groups, (rows,) elements, places].
static dt_node_id_t scaled(const conv_t *c, dt_node_id_t x, dt_node_id_t w, bool wide) {
  dims_t at_x = {0}, at_w = {0};
  put(&at_x, c->batch);
  put(&at_x, c->groups);
  put(&at_w, c->groups);
  if (wide) {
    put_ones(c, &at_x, 1);
    put(&at_w, c->rows);
  }
  put_ones(c, &at_x, c->n);
  put_all(&at_w, c->n, c->kernel);
  put_all(&at_x, c->n, c->in);
  put_ones(c, &at_w, c->n);
  return dt__build_pair(c->b, DT_OP_mul, reshape(c, x, &at_x), reshape(c, w, &at_w));
}

static dt_node_id_t multiplied(const conv_t *c, dt_node_id_t x, dt_node_id_t w) {
  dims_t to = {0};
  dt_sym_t rows = dt__sym_mul(c->env, c->rows, product(c, c->n, c->kernel));
  put(&to, c->batch);
  if (c->grouped)
    put(&to, c->groups);
  put(&to, c->channels);
  put(&to, count(c, c->in));
  dt_node_id_t factors[2] = {matrices(c, w, rows, c->channels, true), reshape(c, x, &to)};
  return dt__build_op(c->b, DT_OP_matmul, factors, 2, NULL);
}

dt_node_id_t dt__decompose_conv_transpose(dt_build_t *b) {
  conv_t c = begin(b, true);
  bool wide = !is_literal(&c, c.rows, 1), alone = is_literal(&c, c.channels, 1);
  dims_t more = {0};
  dt_attrs_t attrs = {0};
  dt_node_id_t x = alone && 2 + wide + 2 * c.n <= DT_MAX_RANK ? scaled(&c, b->in[0], b->in[1], wide)
                                                              : multiplied(&c, b->in[0], b->in[1]);
  put_all(&more, c.n, c.kernel);
  put_all(&more, c.n, c.in);
  x = joined_rows(&c, x, &more);
  attrs.n_axes = c.n;
  attrs.n_syms = 4 * c.n;
  memcpy(attrs.syms, c.fields, 4 * c.n * sizeof(attrs.syms[0]));
  return dt__build_op(b, DT_OP_overlap_add, &x, 1, &attrs);
}
