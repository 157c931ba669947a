// SPDX-License-Identifier: Apache-2.0
// What is quantised by a division, of sums of integers of 8 bits times scales:
//
//   round((a sa + b sb + c) / s) = round(a (sa / s) + b (sb / s) + c / s)
//
// where a and b are integers less zero points. Ratios of numbers are made once; what is left has no
// division, and ends nearer to the real number than two roundings do.
#include "runtime/trace/rewrites.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#define MOST_TERMS 8

// A term of the sum: node `value` times node `scale`; scale 0: the value is a constant, or a
// product of dequantised integers.
typedef struct term_t {
  uint32_t value, scale;
  bool negative;
} term_t;

typedef struct sum_t {
  term_t terms[MOST_TERMS];
  uint32_t n, scale;                           // what the sum is divided by
  uint32_t inner[MOST_TERMS * 2 + 2], n_inner; // nodes in between, the last one first
  bool quantised;                              // a term is made of integers of 8 bits
} sum_t;

static uint32_t unexpanded(const dt_match_t *m, uint32_t id) {
  while (dt__match_node(m, id)->op == DT_OP_expand)
    id = dt__match_node(m, id)->inputs[0].id;
  return id;
}

static bool is_one_number(const dt_match_t *m, uint32_t id) {
  const dt_node_t *node = dt__match_node(m, id);
  int64_t size = 0;
  for (uint32_t d = 0; d < node->rank; d++)
    if (!dt__sym_is_const(m->r->work.env, node->sizes[d], &size) || size != 1)
      return false;
  return dt__rewrite_is_constant(m, id);
}

static bool is_real_product(const dt_match_t *m, uint32_t id) {
  const dt_node_t *node = dt__match_node(m, id);
  dt_match_bytes_t found;
  return node->op == DT_OP_matmul && node->dtype == DT_F32 &&
         dt__match_bytes(m, node->inputs[0].id, true, &found);
}

static bool take_term(const dt_match_t *m, uint32_t id, bool negative, sum_t *out) {
  const dt_node_t *node = dt__match_node(m, id);
  dt_match_bytes_t found;
  term_t term = {.value = id, .negative = negative};
  if (out->n == MOST_TERMS)
    return false;
  if (dt__match_bytes(m, id, true, &found) && is_one_number(m, found.scale)) {
    term = (term_t){node->inputs[0].id, found.scale, negative};
    out->quantised = true;
  } else if (is_real_product(m, id)) {
    out->quantised = true;
  } else {
    term.value = unexpanded(m, id);
    if (!dt__rewrite_is_constant(m, term.value))
      return false;
  }
  out->terms[out->n++] = term;
  return true;
}

static bool read_terms(const dt_match_t *m, uint32_t id, bool negative, sum_t *out) {
  const dt_node_t *node = dt__match_node(m, id);
  if (node->op != DT_OP_add && node->op != DT_OP_sub)
    return take_term(m, id, negative, out);
  if (out->n_inner == MOST_TERMS * 2)
    return false;
  out->inner[out->n_inner++] = id;
  uint32_t a = node->inputs[0].id, b = node->inputs[1].id;
  bool turned = node->op == DT_OP_sub ? !negative : negative;
  return read_terms(m, a, negative, out) && read_terms(m, b, turned, out);
}

// round(sum / s).
static bool read_sum(const dt_match_t *m, uint32_t root, sum_t *out) {
  uint32_t ratio = dt__match_node(m, root)->inputs[0].id;
  const dt_node_t *node = dt__match_node(m, ratio);
  *out = (sum_t){.n_inner = 0};
  if (node->op != DT_OP_div || node->dtype != DT_F32)
    return false;
  out->inner[out->n_inner++] = ratio;
  out->scale = unexpanded(m, node->inputs[1].id);
  return is_one_number(m, out->scale) && read_terms(m, node->inputs[0].id, false, out) &&
         out->quantised;
}

static bool find(dt_match_t *m, uint32_t root) {
  sum_t sum;
  if (m->r->site->device != DT_CPU || !read_sum(m, root, &sum)) {
    dt__match_miss(m, 1, root, "wanted a sum of dequantised integers, divided by one number");
    return false;
  }
  m->wild[0] = dt__match_node(m, sum.inner[0])->inputs[0].id;
  m->wild[1] = sum.scale;
  for (uint32_t k = sum.n_inner; k-- > 0;)
    if (!dt__rewrite_take(m, sum.inner[k]))
      return false;
  return dt__rewrite_take(m, root);
}

static dt_status_t build(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                         void *closure) {
  sum_t sum;
  (void)in;
  (void)closure;
  if (!read_sum(m, m->outputs[0], &sum))
    return DT_FAIL(DT_E_INTERNAL, "the terms of a quantised sum are gone");
  dt_value_t by = dt__trace_value(t, (dt_node_id_t){sum.scale}), all = {0};
  for (uint32_t k = 0; k < sum.n; k++) {
    const term_t *term = &sum.terms[k];
    dt_value_t value = dt__trace_value(t, (dt_node_id_t){term->value});
    dt_value_t scale =
        term->scale ? dt__trace_value(t, (dt_node_id_t){term->scale}) : dt_scalar(t, DT_F32, 1);
    value = dt_mul(t, value, dt_div(t, scale, by));
    if (!all.id)
      all = term->negative ? dt_neg(t, value) : value;
    else
      all = term->negative ? dt_sub(t, all, value) : dt_add(t, all, value);
  }
  out[0] = dt_round(t, all);
  return NULL;
}

const dt_rewrite_row_t dt__rewrite_quantised_sum = {
    .roots = {DT_OP_round}, .anchors = {DT_OP_round}, .n_values = 2, .find = find, .build = build};
