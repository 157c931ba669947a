// SPDX-License-Identifier: Apache-2.0
// Convolutions of integers of 8 bits: zero points leave the sums, as of matrix products
// (rewrite_integer.c), and what is padded is the zero point, so that windows at the border are what
// the others are. Behind the decompositions windows are views of casts: casts go behind the views,
// where a product of 8 bits looks for them.
#include "runtime/trace/rewrites.h"

#include "runtime/base/status.h"

#include <string.h>

#define MOST_VIEWS 12
#define MOVE 128 // from u8 to i8, and back

// ---- Convolutions -------------------------------------------------------------------------------
typedef struct side_t {
  uint32_t x;     // node of 8 bits
  uint32_t scale; // node of f32, one number or one for each kernel; 0: none, x is of i32
  dt_dtype_t dtype;
  int64_t zero;
} side_t;

static bool has_one_each(const dt_match_t *m, uint32_t id, uint32_t kernels) {
  const dt_node_t *node = dt__match_node(m, id);
  int64_t size = 0;
  for (uint32_t d = kernels; d < node->rank; d++)
    if (!dt__sym_is_const(m->r->work.env, node->sizes[d], &size) || size != 1)
      return false;
  return true;
}

// `kernels`: how many leading dims a scale may have numbers for.
static bool read_side(const dt_match_t *m, uint32_t id, bool real, uint32_t kernels, side_t *out) {
  dt_match_bytes_t found;
  double zero = 0;
  *out = (side_t){.x = 0};
  if (!dt__match_bytes(m, id, real, &found))
    return false;
  uint32_t number = found.zero;
  while (number && dt__is_broadcast(dt__match_node(m, number)->op))
    number = dt__match_node(m, number)->inputs[0].id;
  if (number &&
      (dt__match_node(m, number)->op != DT_OP_scalar || !dt__match_number(m, number, &zero)))
    return false;
  if (found.scale && (dt__match_node(m, found.scale)->rank != dt__match_node(m, found.x)->rank ||
                      !has_one_each(m, found.scale, kernels)))
    return false;
  *out = (side_t){.x = found.x, .scale = found.scale, .zero = (int64_t)zero};
  out->dtype = dt__match_node(m, out->x)->dtype;
  int64_t low = out->dtype == DT_U8 ? 0 : -MOVE;
  return out->zero >= low && out->zero < low + 2 * MOVE;
}

typedef struct conv_t {
  side_t x, w;
  bool moves_x, moves_w;
} conv_t;

static const char *read_conv(const dt_match_t *m, uint32_t id, conv_t *out) {
  const dt_node_t *node = dt__match_node(m, id);
  bool real = node->dtype == DT_F32;
  *out = (conv_t){.moves_x = false};
  if (!read_side(m, node->inputs[0].id, real, 0, &out->x) ||
      !read_side(m, node->inputs[1].id, real, 1, &out->w))
    return real
               ? "wanted operands dequantised from 8 bits, of one zero point that the program wrote"
               : "wanted operands cast from 8 bits, less one number that the program wrote";
  if (out->x.dtype == out->w.dtype) {
    out->moves_w = out->w.dtype == DT_U8 && out->w.zero == MOVE;
    out->moves_x = !out->moves_w;
  }
  return out->w.zero == (out->moves_w ? MOVE : 0) ? NULL
                                                  : "wanted weights less 0, or less 128 of u8";
}

// Elements that are padded are of 32 bits, behind the cast.
static bool is_padded(const dt_match_t *m, const dt_node_t *conv) {
  dt_symenv_t *env = m->r->work.env;
  for (uint32_t k = 0; k < conv->attrs->n_axes; k++)
    for (uint32_t side = 2; side < 4; side++)
      if (!dt__sym_known_eq(env, conv->attrs->syms[4 * k + side], dt__sym_const(env, 0)))
        return true;
  return false;
}

static bool find_conv(dt_match_t *m, uint32_t root) {
  conv_t c;
  if (m->r->site->device != DT_CPU || dt__match_node(m, root)->dtype != DT_I32)
    return false;
  const char *why = read_conv(m, root, &c);
  if (why) {
    dt__match_miss(m, 1, root, "%s", why);
    return false;
  }
  if (!c.x.zero && !c.moves_x && !c.moves_w && !is_padded(m, dt__match_node(m, root)))
    return false;
  m->wild[0] = dt__match_node(m, root)->inputs[0].id;
  m->wild[1] = dt__match_node(m, root)->inputs[1].id;
  return dt__rewrite_take(m, root);
}

// The same of floats that are integers of 8 bits times a scale. NULL: it is.
static const char *refuse_real(const dt_match_t *m, uint32_t id) {
  conv_t c;
  const dt_node_t *node = dt__match_node(m, id);
  if (m->r->site->device != DT_CPU || node->op != DT_OP_conv || node->dtype != DT_F32)
    return "wanted a convolution of f32, on a CPU";
  const char *why = read_conv(m, id, &c);
  dt_sym_t terms = dt__sym_const(m->r->work.env, 1);
  const dt_node_t *w = dt__match_node(m, node->inputs[1].id);
  for (uint32_t d = 1; d < w->rank; d++)
    terms = dt__sym_mul(m->r->work.env, terms, w->sizes[d]);
  return why || dt__match_sums_fit(m, terms) ? why : "its sums may not fit 32 bits";
}

bool dt__match_real_conv(const dt_match_t *m, uint32_t conv) { return !refuse_real(m, conv); }

static bool find_real(dt_match_t *m, uint32_t root) {
  const char *why = refuse_real(m, root);
  if (why) {
    dt__match_miss(m, 1, root, "%s", why);
    return false;
  }
  m->wild[0] = dt__match_node(m, root)->inputs[0].id;
  m->wild[1] = dt__match_node(m, root)->inputs[1].id;
  return dt__rewrite_take(m, root);
}

static dt_value_t bytes_of(dt_trace_t *t, const side_t *side, bool moved) {
  dt_value_t x = dt__trace_value(t, (dt_node_id_t){side->x});
  if (!moved)
    return x;
  x = side->dtype == DT_I8 ? dt_bitcast(t, x, DT_U8) : x;
  x = dt_bit_xor(t, x, dt_scalar(t, DT_U8, MOVE));
  return side->dtype == DT_I8 ? x : dt_bitcast(t, x, DT_I8);
}

// x with the zero point around it, as wide as the convolution's padding; `attrs` then has none.
static dt_value_t padded(dt_match_t *m, dt_trace_t *t, dt_value_t x, int64_t zero,
                         dt_attrs_t *attrs) {
  dt_symenv_t *env = m->r->work.env;
  uint32_t n = attrs->n_axes, rank = dt_value_rank(t, x);
  dt_sym_t sides[2][DT_MAX_RANK], zeros = dt__sym_const(env, 0);
  bool any = false;
  for (uint32_t side = 0; side < 2; side++)
    for (uint32_t d = 0; d < rank; d++) {
      dt_sym_t *field = d + n < rank ? NULL : &attrs->syms[4 * (d + n - rank) + 2 + side];
      sides[side][d] = field ? *field : zeros;
      any = any || !dt__sym_known_eq(env, sides[side][d], zeros);
      if (field)
        *field = zeros;
    }
  return any ? dt_pad(t, x, sides[0], sides[1], (double)zero) : x;
}

// The sum of integers, zero points included.
static dt_value_t integer_sum(dt_match_t *m, dt_trace_t *t, const dt_node_t *node,
                              const conv_t *c) {
  dt_attrs_t attrs;
  memcpy(&attrs, node->attrs, sizeof(attrs));
  int64_t zero = c->x.zero + (!c->moves_x ? 0 : c->x.dtype == DT_I8 ? MOVE : -MOVE);
  dt_value_t x = bytes_of(t, &c->x, c->moves_x), w = bytes_of(t, &c->w, c->moves_w);
  dt_value_t operands[2] = {padded(m, t, x, zero, &attrs), dt_cast(t, w, DT_I32)};
  operands[0] = dt_cast(t, operands[0], DT_I32);
  dt_value_t sum = dt__trace_add(t, DT_OP_conv, operands, 2, &attrs);
  if (!zero)
    return sum;
  int32_t axes[DT_MAX_RANK];
  for (uint32_t d = 1; d < node->rank; d++)
    axes[d - 1] = (int32_t)d;
  dt_value_t sums = dt_sum(t, operands[1], node->rank - 1, axes, true); // [O, 1, …]
  sums = dt_transpose(t, sums, 0, 1);
  return dt_sub(t, sum, dt_mul(t, sums, dt_scalar(t, DT_I32, (double)zero)));
}

static dt_status_t build_conv(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  conv_t c;
  dt_node_t node = *dt__match_node(m, m->outputs[0]); // nodes move as others are added
  (void)in;
  (void)closure;
  if (read_conv(m, m->outputs[0], &c))
    return DT_FAIL(DT_E_INTERNAL, "the operands of a convolution of 8 bits are gone");
  out[0] = integer_sum(m, t, &node, &c);
  return NULL;
}

dt_status_t dt__rewrite_real_sum(dt_match_t *m, dt_trace_t *t, uint32_t conv,
                                 const dt_value_t *more, dt_value_t *out) {
  conv_t c;
  dt_node_t node = *dt__match_node(m, conv);
  if (read_conv(m, conv, &c))
    return DT_FAIL(DT_E_INTERNAL, "the operands of a convolution of 8 bits are gone");
  dt_value_t kernels = dt_transpose(t, dt__trace_value(t, (dt_node_id_t){c.w.scale}), 0, 1);
  dt_value_t scale = dt_mul(t, dt__trace_value(t, (dt_node_id_t){c.x.scale}), kernels);
  if (more)
    scale = dt_mul(t, scale, *more);
  *out = dt_mul(t, dt_cast(t, integer_sum(m, t, &node, &c), DT_F32), scale);
  return NULL;
}

static dt_status_t build_real(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  (void)in;
  (void)closure;
  return dt__rewrite_real_sum(m, t, m->outputs[0], NULL, &out[0]);
}

const dt_rewrite_row_t dt__rewrite_integer_conv = {.roots = {DT_OP_conv},
                                                   .anchors = {DT_OP_conv},
                                                   .n_values = 2,
                                                   .find = find_conv,
                                                   .build = build_conv};

const dt_rewrite_row_t dt__rewrite_real_conv = {.roots = {DT_OP_conv},
                                                .anchors = {DT_OP_conv},
                                                .n_values = 2,
                                                .find = find_real,
                                                .build = build_real};

// ---- Views --------------------------------------------------------------------------------------
typedef struct views_t {
  uint32_t x, n;
  uint32_t ids[MOST_VIEWS]; // the last one first
} views_t;

static bool read_views(const dt_match_t *m, uint32_t id, views_t *out) {
  *out = (views_t){.n = 0};
  const dt_node_t *node = dt__match_node(m, id);
  while ((dt__op_info(node->op)->flags & DT_OPF_VIEW) && node->n_inputs == 1 &&
         node->op != DT_OP_bitcast && out->n < MOST_VIEWS) {
    out->ids[out->n++] = id;
    id = node->inputs[0].id;
    node = dt__match_node(m, id);
  }
  out->x = dt__match_byte(m, id);
  return out->x != 0;
}

static bool find_views(dt_match_t *m, uint32_t root) {
  views_t a, b;
  const dt_node_t *node = dt__match_node(m, root);
  if (m->r->site->device != DT_CPU || node->dtype != DT_I32 ||
      !read_views(m, node->inputs[0].id, &a) || !read_views(m, node->inputs[1].id, &b) ||
      (!a.n && !b.n) || dt__match_node(m, a.x)->dtype == dt__match_node(m, b.x)->dtype)
    return false;
  m->wild[0] = node->inputs[0].id;
  m->wild[1] = node->inputs[1].id;
  return dt__rewrite_take(m, root);
}

static dt_status_t build_views(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_node_t product = *dt__match_node(m, m->outputs[0]);
  dt_value_t operands[2];
  (void)in;
  (void)closure;
  for (uint32_t s = 0; s < 2; s++) {
    views_t views;
    if (!read_views(m, product.inputs[s].id, &views))
      return DT_FAIL(DT_E_INTERNAL, "the views of a product of 8 bits are gone");
    operands[s] = dt__trace_value(t, (dt_node_id_t){views.x});
    while (views.n-- > 0) {
      dt_node_t view = *dt__match_node(m, views.ids[views.n]); // nodes move as others are added
      operands[s] = dt__trace_add(t, view.op, &operands[s], 1, view.attrs);
    }
    operands[s] = dt_cast(t, operands[s], DT_I32);
  }
  out[0] = dt__trace_add(t, DT_OP_matmul, operands, 2, NULL);
  return NULL;
}

const dt_rewrite_row_t dt__rewrite_integer_views = {.roots = {DT_OP_matmul},
                                                    .anchors = {DT_OP_cast},
                                                    .n_values = 2,
                                                    .find = find_views,
                                                    .build = build_views};
