// SPDX-License-Identifier: Apache-2.0
// Matrix products whose operands are padded: programs do that to bring sizes to a multiple of
// something. Rows and columns that are cut away again need not be computed, and terms that are 0
// times 0 need not be added.
//
//        a [m, k] ─► pad to [m', k'] ─┐
//        b [k, n] ─► pad to [k', n] ──┴─► matmul ─► slice back to [m, n]
//
// A walk goes from the end to the beginning and looks at nothing that it made: the slice takes the
// padding along k with it.
#include "runtime/trace/rewrites.h"

#include "runtime/base/status.h"

#include <string.h>

static bool is_zero(const dt_match_t *m, dt_sym_t e) {
  return dt__sym_known_eq(m->r->work.env, e, dt__sym_const(m->r->work.env, 0));
}

#define MOST_SLICES 8

// Slices of slices of a product, in steps of 1.
typedef struct slices_t {
  uint32_t product, n;
  uint32_t ids[MOST_SLICES];   // the last one first
  dt_sym_t start[DT_MAX_RANK]; // in the product
  const dt_sym_t *sizes;       // of the last one
} slices_t;

static bool read_slices(const dt_match_t *m, uint32_t root, slices_t *out) {
  dt_symenv_t *env = m->r->work.env;
  const dt_node_t *node = dt__match_node(m, root);
  *out = (slices_t){.product = root, .sizes = node->sizes};
  for (uint32_t d = 0; d < node->rank; d++)
    out->start[d] = dt__sym_const(env, 0);
  for (; node->op == DT_OP_slice && out->n < MOST_SLICES; node = dt__match_node(m, out->product)) {
    for (uint32_t d = 0; d < node->rank; d++) {
      out->start[d] = dt__sym_try(env, dt__sym_add, out->start[d], node->attrs->syms[2 * d]);
      if (node->attrs->ints[d] != 1 || !out->start[d].id)
        return false;
    }
    out->ids[out->n++] = out->product;
    out->product = node->inputs[0].id;
  }
  return node->op == DT_OP_matmul;
}

// The padded dim of an operand that shows in the product.
typedef struct cut_t {
  uint32_t dim; // of the operand
  dt_sym_t low; // elements in front
} cut_t;

// Whether what slices take along the operand's own dim lies where nothing was padded.
static bool find_cut(const dt_match_t *m, const slices_t *slices, uint32_t side, cut_t *out) {
  dt_symenv_t *env = m->r->work.env;
  const dt_node_t *product = dt__match_node(m, slices->product);
  const dt_node_t *pad = dt__match_node(m, product->inputs[side].id);
  *out = (cut_t){0, DT_SYM_NONE_ID};
  if (pad->op != DT_OP_pad || pad->rank < 2)
    return false;
  const dt_node_t *x = dt__match_node(m, pad->inputs[0].id);
  uint32_t own = pad->rank - 2 + side, shown = product->rank - 2 + side, k = pad->rank - 1 - side;
  dt_sym_t low = pad->attrs->syms[2 * own], high = pad->attrs->syms[2 * own + 1];
  for (uint32_t d = 0; d < pad->rank; d++)
    if (d != own && d != k &&
        !(is_zero(m, pad->attrs->syms[2 * d]) && is_zero(m, pad->attrs->syms[2 * d + 1])))
      return false;
  dt_sym_t start = slices->start[shown];
  dt_sym_t end = dt__sym_add(env, start, slices->sizes[shown]),
           last = dt__sym_add(env, low, x->sizes[own]);
  if ((is_zero(m, low) && is_zero(m, high)) ||
      !dt__sym_known_le(m->r->work.env, dt__sym_const(env, 0), low) ||
      !dt__sym_known_le(m->r->work.env, dt__sym_const(env, 0), high) ||
      !dt__sym_known_le(m->r->work.env, low, start) || !dt__sym_known_le(m->r->work.env, end, last))
    return false;
  *out = (cut_t){own, low};
  return true;
}

static bool is_zero_pad(const dt_match_t *m, const dt_node_t *pad) {
  bool is = pad->op == DT_OP_pad && pad->attrs->ints[0] == 0;
  static const double zero = 0;
  is = is && pad->attrs->floats[0] == zero;
  for (uint32_t k = 0; is && k < 2 * pad->rank; k++)
    is = dt__sym_known_le(m->r->work.env, dt__sym_const(m->r->work.env, 0), pad->attrs->syms[k]);
  return is;
}

// Whether both operands are padded along k, by as many zeros on each side.
static bool has_terms(const dt_match_t *m, const dt_node_t *product) {
  const dt_node_t *a = dt__match_node(m, product->inputs[0].id),
                  *b = dt__match_node(m, product->inputs[1].id);
  if (!is_zero_pad(m, a) || !is_zero_pad(m, b))
    return false;
  const dt_sym_t *x = &a->attrs->syms[2 * (a->rank - 1)], *y = &b->attrs->syms[2 * (b->rank - 2)];
  dt_symenv_t *env = m->r->work.env;
  return dt__sym_known_eq(env, x[0], y[0]) && dt__sym_known_eq(env, x[1], y[1]) &&
         !(is_zero(m, x[0]) && is_zero(m, x[1]));
}

static void note_operands(dt_match_t *m, const dt_node_t *product) {
  m->wild[0] = product->inputs[0].id;
  m->wild[1] = product->inputs[1].id;
}

static bool find_terms(dt_match_t *m, uint32_t root) {
  const dt_node_t *product = dt__match_node(m, root);
  if (!has_terms(m, product)) {
    bool near = dt__match_node(m, product->inputs[0].id)->op == DT_OP_pad ||
                dt__match_node(m, product->inputs[1].id)->op == DT_OP_pad;
    dt__match_miss(m, near, root, "wanted both operands padded along k, by as many zeros");
    return false;
  }
  note_operands(m, product);
  return dt__rewrite_take(m, root);
}

static bool find_cuts(dt_match_t *m, uint32_t root) {
  slices_t slices;
  cut_t cut;
  if (!read_slices(m, root, &slices))
    return false;
  bool rows = find_cut(m, &slices, 0, &cut), columns = find_cut(m, &slices, 1, &cut);
  if (!rows && !columns) {
    dt__match_miss(m, 1, slices.product,
                   "wanted rows or columns that were padded, and are cut away");
    return false;
  }
  note_operands(m, dt__match_node(m, slices.product));
  if (!dt__rewrite_take(m, slices.product))
    return false;
  while (slices.n-- > 0)
    if (!dt__rewrite_take(m, slices.ids[slices.n]))
      return false;
  return true;
}

// ---- What is built ------------------------------------------------------------------------------
// What an operand's padding is made of without that of some dims.
static dt_value_t bare(dt_match_t *m, dt_trace_t *t, uint32_t id, uint32_t n,
                       const uint32_t *dims) {
  const dt_node_t *pad = dt__match_node(m, id);
  dt_attrs_t attrs;
  memcpy(&attrs, pad->attrs, sizeof(attrs)); // as bytes: the padding takes part in comparisons
  dt_value_t x = dt__trace_value(t, pad->inputs[0]);
  bool any = false;
  for (uint32_t k = 0; k < n; k++)
    attrs.syms[2 * dims[k]] = attrs.syms[2 * dims[k] + 1] = dt__sym_const(m->r->work.env, 0);
  for (uint32_t k = 0; k < 2 * pad->rank; k++)
    any = any || !is_zero(m, attrs.syms[k]);
  return any ? dt__trace_add(t, DT_OP_pad, &x, 1, &attrs) : x;
}

static dt_status_t build_terms(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_node_t product = *dt__match_node(m, m->outputs[0]);
  dt_value_t operands[2];
  (void)closure;
  (void)in;
  for (uint32_t side = 0; side < 2; side++) {
    uint32_t k = dt__match_node(m, product.inputs[side].id)->rank - 1 - side;
    operands[side] = bare(m, t, product.inputs[side].id, 1, &k);
  }
  out[0] = dt__trace_add(t, DT_OP_matmul, operands, 2, NULL);
  return NULL;
}

static dt_status_t build_cuts(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  dt_symenv_t *env = m->r->work.env;
  dt_node_t last = *dt__match_node(m, m->outputs[0]);
  slices_t slices;
  (void)closure;
  if (!read_slices(m, m->outputs[0], &slices))
    return DT_FAIL(DT_E_INTERNAL, "the slices of a padded product are gone");
  dt_node_t product = *dt__match_node(m, slices.product);
  bool terms = has_terms(m, &product);
  dt_value_t operands[2] = {in[0], in[1]};
  dt_attrs_t attrs;
  memcpy(&attrs, last.attrs, sizeof(attrs));
  for (uint32_t d = 0; d < last.rank; d++)
    attrs.syms[2 * d] = slices.start[d];
  slices.sizes = last.sizes; // nodes move as others are added
  for (uint32_t side = 0; side < 2; side++) {
    cut_t cut;
    uint32_t shown = product.rank - 2 + side, dims[2], n = 0;
    if (find_cut(m, &slices, side, &cut)) {
      attrs.syms[2 * shown] = dt__sym_sub(env, attrs.syms[2 * shown], cut.low);
      dims[n++] = cut.dim;
    }
    if (terms)
      dims[n++] = dt__match_node(m, product.inputs[side].id)->rank - 1 - side;
    if (n)
      operands[side] = bare(m, t, product.inputs[side].id, n, dims);
  }
  dt_value_t made = dt__trace_add(t, DT_OP_matmul, operands, 2, NULL);
  out[0] = dt__trace_add(t, DT_OP_slice, &made, 1, &attrs);
  return NULL;
}

const dt_rewrite_row_t dt__rewrite_padded_terms = {.roots = {DT_OP_matmul},
                                                   .anchors = {DT_OP_pad},
                                                   .n_values = 2,
                                                   .find = find_terms,
                                                   .build = build_terms};

const dt_rewrite_row_t dt__rewrite_padded_product = {.roots = {DT_OP_slice},
                                                     .anchors = {DT_OP_pad},
                                                     .n_values = 2,
                                                     .find = find_cuts,
                                                     .build = build_cuts};
