// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers of 8 bits, less a zero point. CPUs multiply u8 with i8 and add the
// products up in one step, so zero points leave the sum, and an operand of the wrong sign is moved
// by 128:
//
//   sum (a - za)(b - zb) = sum a b - za (sum b - K zb) - zb sum a
//
// Sums are of 32 bits and wrap, as do products: a ring, in which this is exact. Where b is made of
// constants its sums are computed once; where zb is 0, as in most models, rows of a are not summed.
//
// A product of floats that are such integers times a scale is the product of the integers, times
// both scales, as long as its sums do not wrap:
//
//   sum (a - za) sa (b - zb) sb = sa sb sum (a - za)(b - zb)
#include "runtime/trace/rewrites.h"

#include "runtime/base/status.h"

#include <string.h>

#define MOST_VIEWS 6
#define MOVE 128 // from u8 to i8, and back

// An operand: views of [x - zero], x cast from 8 bits.
typedef struct side_t {
  uint32_t x;                 // node of 8 bits
  uint32_t zero;              // node with one number along k, in x's dims; 0: none
  uint32_t scale;             // the same, of f32; 0: x - zero is of i32
  uint32_t views[MOST_VIEWS]; // of x - zero, the last one first
  uint32_t n_views;
  bool constant;
  dt_dtype_t dtype;
} side_t;

static bool is_one(const dt_match_t *m, dt_sym_t size) {
  int64_t value = 0;
  return dt__sym_is_const(m->r->work.env, size, &value) && value == 1;
}

// A reshape that keeps the last two dims, and has 1s in front of more.
static bool keeps_matrix(const dt_match_t *m, const dt_node_t *to, const dt_node_t *from) {
  if (from->rank < 2 || to->rank < from->rank)
    return false;
  uint32_t more = to->rank - from->rank;
  for (uint32_t d = 0; d < more; d++)
    if (!is_one(m, to->sizes[d]))
      return false;
  for (uint32_t d = 0; d < from->rank; d++)
    if (!dt__sym_known_eq(m->r->work.env, to->sizes[more + d], from->sizes[d]))
      return false;
  return true;
}

static bool is_view(const dt_match_t *m, const dt_node_t *node) {
  const dt_node_t *from = node->n_inputs ? dt__match_node(m, node->inputs[0].id) : NULL;
  if (node->op == DT_OP_permute) { // of the matrix alone
    for (uint32_t d = 0; d + 2 < node->rank; d++)
      if (node->attrs->axes[d] != (int32_t)d)
        return false;
    return node->rank >= 2;
  }
  if (node->op == DT_OP_expand) { // of batch dims alone
    for (uint32_t d = node->rank >= 2 ? node->rank - 2 : 0; d < node->rank; d++)
      if (!dt__sym_known_eq(m->r->work.env, node->sizes[d], from->sizes[d]))
        return false;
    return node->rank >= 2;
  }
  return node->op == DT_OP_reshape && keeps_matrix(m, node, from);
}

static bool is_byte(dt_dtype_t dtype) { return dtype == DT_U8 || dtype == DT_I8; }

static uint32_t byte_as(const dt_match_t *m, uint32_t id, dt_dtype_t dtype) {
  const dt_node_t *node = dt__match_node(m, id);
  bool is = node->op == DT_OP_cast && node->dtype == dtype &&
            is_byte(dt__match_node(m, node->inputs[0].id)->dtype);
  return is ? node->inputs[0].id : 0;
}

uint32_t dt__match_byte(const dt_match_t *m, uint32_t id) { return byte_as(m, id, DT_I32); }

static uint32_t unexpanded(const dt_match_t *m, uint32_t id) {
  while (dt__match_node(m, id)->op == DT_OP_expand)
    id = dt__match_node(m, id)->inputs[0].id;
  return id;
}

bool dt__match_bytes(const dt_match_t *m, uint32_t id, bool real, dt_match_bytes_t *out) {
  dt_dtype_t dtype = real ? DT_F32 : DT_I32;
  const dt_node_t *node = dt__match_node(m, id);
  *out = (dt_match_bytes_t){.scale = 0};
  if (node->dtype != dtype)
    return false;
  if (real) {
    if (node->op != DT_OP_mul)
      return false;
    out->scale = unexpanded(m, node->inputs[1].id);
    id = node->inputs[0].id;
    node = dt__match_node(m, id);
  }
  if (node->op == DT_OP_sub) {
    out->zero = unexpanded(m, node->inputs[1].id);
    id = node->inputs[0].id;
  }
  out->x = byte_as(m, id, dtype);
  return out->x != 0;
}

// Which dim of x the product sums over, `k` in the operand.
static uint32_t dim_in_x(const dt_match_t *m, const side_t *side, uint32_t k) {
  for (uint32_t v = 0; v < side->n_views; v++) {
    const dt_node_t *view = dt__match_node(m, side->views[v]);
    uint32_t before = dt__match_node(m, view->inputs[0].id)->rank;
    k = view->op == DT_OP_permute ? (uint32_t)view->attrs->axes[k] : k - (view->rank - before);
  }
  return k;
}

// One number along k, dim `own` of x, and for all of a batch.
static bool is_of_matrix(const dt_match_t *m, const side_t *side, uint32_t id, uint32_t own) {
  const dt_node_t *node = dt__match_node(m, id);
  if (node->rank != dt__match_node(m, side->x)->rank || !is_one(m, node->sizes[own]))
    return false;
  for (uint32_t d = 0; d + 2 < node->rank; d++)
    if (!is_one(m, node->sizes[d]))
      return false;
  return true;
}

static bool read_side(const dt_match_t *m, uint32_t id, uint32_t from_end, bool real, side_t *out) {
  const dt_node_t *node = dt__match_node(m, id);
  uint32_t k = node->rank - from_end;
  dt_match_bytes_t found;
  *out = (side_t){.constant = dt__rewrite_is_constant(m, id)};
  while (is_view(m, node) && out->n_views < MOST_VIEWS) {
    out->views[out->n_views++] = id;
    id = node->inputs[0].id;
    node = dt__match_node(m, id);
  }
  if (!dt__match_bytes(m, id, real, &found))
    return false;
  out->x = found.x;
  out->zero = found.zero;
  out->scale = found.scale;
  out->dtype = dt__match_node(m, out->x)->dtype;
  uint32_t own = dim_in_x(m, out, k);
  return (!out->zero || is_of_matrix(m, out, out->zero, own)) &&
         (!out->scale || is_of_matrix(m, out, out->scale, own));
}

// The one number that a zero point is, where the program wrote it.
static bool zero_number(const dt_match_t *m, const side_t *side, double *out) {
  uint32_t id = side->zero;
  *out = 0;
  if (!id)
    return true;
  while (dt__is_broadcast(dt__match_node(m, id)->op))
    id = dt__match_node(m, id)->inputs[0].id;
  return dt__match_node(m, id)->op == DT_OP_scalar && dt__match_number(m, id, out);
}

// Which side is moved to the other sign, of two of one dtype: the one that is then 0, else the one
// that is computed, for which the other's sums are known.
static uint32_t moved_side(const dt_match_t *m, const side_t sides[2]) {
  uint32_t known = sides[1].constant || !sides[0].constant ? 1 : 0;
  double zero = 0;
  bool to_none =
      sides[known].dtype == DT_U8 && zero_number(m, &sides[known], &zero) && zero == MOVE;
  return to_none ? known : 1 - known;
}

static bool read_sides(const dt_match_t *m, uint32_t product, side_t sides[2]) {
  const dt_node_t *node = dt__match_node(m, product);
  bool real = node->dtype == DT_F32;
  return read_side(m, node->inputs[0].id, 1, real, &sides[0]) &&
         read_side(m, node->inputs[1].id, 2, real, &sides[1]);
}

static bool find(dt_match_t *m, uint32_t root) {
  side_t sides[2];
  if (m->r->site->device != DT_CPU || dt__match_node(m, root)->dtype != DT_I32)
    return false;
  if (!read_sides(m, root, sides)) {
    dt__match_miss(m, 1, root,
                   "wanted operands cast from 8 bits, less a number for each row or column");
    return false;
  }
  bool done = !sides[0].zero && !sides[1].zero && !sides[0].n_views && !sides[1].n_views &&
              sides[0].dtype != sides[1].dtype;
  if (done)
    return false;
  m->wild[0] = dt__match_node(m, root)->inputs[0].id;
  m->wild[1] = dt__match_node(m, root)->inputs[1].id;
  return dt__rewrite_take(m, root);
}

bool dt__match_sums_fit(const dt_match_t *m, dt_sym_t terms) {
  return dt__sym_range(m->r->work.env, terms).hi <= DT_MOST_BYTE_TERMS;
}

static bool find_real(dt_match_t *m, uint32_t root) {
  side_t sides[2];
  const dt_node_t *node = dt__match_node(m, root), *a = dt__match_node(m, node->inputs[0].id);
  if (m->r->site->device != DT_CPU || node->dtype != DT_F32)
    return false;
  bool are = read_sides(m, root, sides);
  if (!are || !dt__match_sums_fit(m, a->sizes[a->rank - 1])) {
    dt__match_miss(m, 1, root, "%s",
                   are ? "its sums may not fit 32 bits"
                       : "wanted operands dequantised from 8 bits, with a number for each row or "
                         "column");
    return false;
  }
  m->wild[0] = node->inputs[0].id;
  m->wild[1] = node->inputs[1].id;
  return dt__rewrite_take(m, root);
}

// ---- What is built ------------------------------------------------------------------------------
static dt_value_t number(dt_trace_t *t, int64_t value) {
  return dt_scalar(t, DT_I32, (double)value);
}

static bool is_turned(const dt_node_t *view) {
  return view->op == DT_OP_permute && view->attrs->axes[view->rank - 1] != (int32_t)view->rank - 1;
}

// x turned as the operand's views do, but in dims of its own: it is broadcast.
static dt_value_t turned(const dt_match_t *m, dt_trace_t *t, const side_t *side, dt_value_t x) {
  for (uint32_t v = side->n_views; v-- > 0;)
    if (is_turned(dt__match_node(m, side->views[v])))
      x = dt_transpose(t, x, -1, -2);
  return x;
}

// Its 8 bits, moved to the other sign.
static dt_value_t bytes_of(dt_trace_t *t, const side_t *side, bool moved) {
  dt_value_t x = dt__trace_value(t, (dt_node_id_t){side->x});
  if (!moved)
    return x;
  x = side->dtype == DT_I8 ? dt_bitcast(t, x, DT_U8) : x;
  x = dt_bit_xor(t, x, dt_scalar(t, DT_U8, MOVE));
  return side->dtype == DT_I8 ? x : dt_bitcast(t, x, DT_I8);
}

// The operand, of these bytes.
static dt_value_t operand_of(dt_match_t *m, dt_trace_t *t, const side_t *side, dt_value_t x) {
  for (uint32_t v = side->n_views; v-- > 0;) {
    dt_node_t view = *dt__match_node(m, side->views[v]); // nodes move as others are added
    x = dt__trace_add(t, view.op, &x, 1, view.attrs);
  }
  return dt_cast(t, x, DT_I32);
}

// Sums of the operand along k. Of what is repeated over a batch they are not: so those of constants
// are computed once.
static dt_value_t sums_of(dt_match_t *m, dt_trace_t *t, const side_t *side, dt_value_t x,
                          int32_t axis) {
  return dt_sum(t, dt_cast(t, turned(m, t, side, x), DT_I32), 1, &axis, true);
}

// Its zero point as rows or columns of the product; none where it is 0.
static dt_value_t zero_of(dt_match_t *m, dt_trace_t *t, const side_t *side, bool moved) {
  double value = 0;
  int64_t more = !moved ? 0 : side->dtype == DT_I8 ? MOVE : -MOVE;
  if (zero_number(m, side, &value)) {
    int64_t all = (int64_t)value + more;
    return all ? number(t, all) : (dt_value_t){0};
  }
  dt_value_t zero = turned(m, t, side, dt__trace_value(t, (dt_node_id_t){side->zero}));
  zero = dt_cast(t, zero, DT_I32);
  return more ? dt_add(t, zero, number(t, more)) : zero;
}

static dt_status_t build(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                         void *closure) {
  side_t sides[2];
  (void)in;
  (void)closure;
  if (!read_sides(m, m->outputs[0], sides))
    return DT_FAIL(DT_E_INTERNAL, "the operands of a product of 8 bits are gone");
  uint32_t moved = sides[0].dtype == sides[1].dtype ? moved_side(m, sides) : 2;
  dt_value_t x[2], operands[2], zero[2];
  for (uint32_t s = 0; s < 2; s++) {
    x[s] = bytes_of(t, &sides[s], moved == s);
    operands[s] = operand_of(m, t, &sides[s], x[s]);
    zero[s] = zero_of(m, t, &sides[s], moved == s);
  }
  out[0] = dt_matmul(t, operands[0], operands[1]);
  if (zero[0].id) {
    dt_value_t columns = sums_of(m, t, &sides[1], x[1], -2);
    if (zero[1].id) {
      dt_value_t terms = dt_cast(t, dt_size_value(t, dt_dim(t, operands[0], -1)), DT_I32);
      columns = dt_sub(t, columns, dt_mul(t, zero[1], terms));
    }
    out[0] = dt_sub(t, out[0], dt_mul(t, zero[0], columns));
  }
  if (zero[1].id)
    out[0] = dt_sub(t, out[0], dt_mul(t, zero[1], sums_of(m, t, &sides[0], x[0], -1)));
  if (!sides[0].scale)
    return NULL;
  dt_value_t scales[2];
  for (uint32_t s = 0; s < 2; s++)
    scales[s] = turned(m, t, &sides[s], dt__trace_value(t, (dt_node_id_t){sides[s].scale}));
  out[0] = dt_mul(t, dt_cast(t, out[0], DT_F32), dt_mul(t, scales[0], scales[1]));
  return NULL;
}

const dt_rewrite_row_t dt__rewrite_integer_product = {
    .roots = {DT_OP_matmul}, .anchors = {DT_OP_cast}, .n_values = 2, .find = find, .build = build};

const dt_rewrite_row_t dt__rewrite_real_product = {.roots = {DT_OP_matmul},
                                                   .anchors = {DT_OP_cast},
                                                   .n_values = 2,
                                                   .find = find_real,
                                                   .build = build};
