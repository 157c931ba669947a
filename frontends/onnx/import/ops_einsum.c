// SPDX-License-Identifier: Apache-2.0
// Einsum. Operands are contracted one after another, each by one product of matrices: labels that
// both have and that are needed later are its batch, labels that nobody needs later are summed, and
// the others stay. Dims that an ellipsis stands for are labels of their own, counted from the last.
#include "frontends/onnx/import/nn.h"

#define ELLIPSIS 1 // label of the last dim of an ellipsis; below 'A'

typedef struct term_t {
  dt_value_t value;
  uint32_t rank;
  uint8_t labels[DT_MAX_RANK];
} term_t;

// One side of a comma or an arrow.
typedef struct part_t {
  uint32_t len, dots; // dots: where the ellipsis stands, before that many labels; UINT32_MAX: none
  uint8_t labels[DT_MAX_RANK];
} part_t;

typedef struct equation_t {
  uint32_t n_in;
  part_t in[DT_MAX_RANK * 2], out;
  bool has_out;
} equation_t;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ---- Reading ----------------------------------------------------------------------------------------
static const char *read_part(const char **at, const char *end, part_t *out) {
  *out = (part_t){.dots = UINT32_MAX};
  for (; *at < end && **at != ',' && **at != '-'; (*at)++) {
    if (**at == ' ')
      continue;
    if (**at == '.' && end - *at >= 3 && (*at)[1] == '.' && (*at)[2] == '.' &&
        out->dots == UINT32_MAX) {
      out->dots = out->len;
      *at += 2;
    } else if (is_letter(**at) && out->len < DT_MAX_RANK) {
      out->labels[out->len++] = (uint8_t)**at;
    } else {
      return is_letter(**at) ? "an operand of more than 8 labels" : "a malformed equation";
    }
  }
  return NULL;
}

static const char *read_equation(dt_onnx_str_t text, equation_t *out) {
  const char *at = text.at, *end = text.at + text.len, *why = NULL;
  *out = (equation_t){0};
  for (;;) {
    if (out->n_in == DT_MAX_RANK * 2)
      return "an equation of more than 16 operands";
    why = read_part(&at, end, &out->in[out->n_in++]);
    if (why || at == end || *at == '-')
      break;
    at++;
  }
  if (why || at == end)
    return why;
  if (end - at < 2 || at[1] != '>')
    return "a malformed equation";
  at += 2;
  out->has_out = true;
  why = read_part(&at, end, &out->out);
  return why ? why : at == end ? NULL : "a malformed equation";
}

const char *dt__imp_check_Einsum(dt_imp_node_t *n) {
  equation_t equation;
  const char *why = read_equation(dt__imp_str(n, "equation", ""), &equation);
  return why                                ? why
         : equation.n_in != dt__imp_n_in(n) ? "an equation of another number of operands"
                                            : NULL;
}

// ---- Labels -----------------------------------------------------------------------------------------
static int32_t find_label(const term_t *term, uint8_t label) {
  for (uint32_t k = 0; k < term->rank; k++)
    if (term->labels[k] == label)
      return (int32_t)k;
  return -1;
}

static uint32_t count_label(const equation_t *equation, uint8_t label) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < equation->n_in; k++)
    for (uint32_t i = 0; i < equation->in[k].len; i++)
      count += equation->in[k].labels[i] == label;
  return count;
}

// Without an arrow: the ellipsis, and then the labels that stand once, in the order of the
// alphabet.
static void implied(equation_t *equation) {
  equation->out = (part_t){.dots = 0};
  for (int label = 'A'; label <= 'z'; label++)
    if (count_label(equation, (uint8_t)label) == 1 && equation->out.len < DT_MAX_RANK)
      equation->out.labels[equation->out.len++] = (uint8_t)label;
}

// Labels of a part whose ellipsis stands for `dots` dims. False: too many.
static bool spread(const part_t *part, uint32_t dots, term_t *out) {
  uint32_t at = part->dots < part->len ? part->dots : part->len; // also where it has none
  dots = part->dots == UINT32_MAX ? 0 : dots;
  out->rank = 0;
  if (part->len > DT_MAX_RANK || dots > DT_MAX_RANK - part->len)
    return false;
  for (uint32_t k = 0; k < at; k++)
    out->labels[out->rank++] = part->labels[k];
  for (uint32_t k = 0; k < dots; k++)
    out->labels[out->rank++] = (uint8_t)(ELLIPSIS + dots - 1 - k);
  for (uint32_t k = at; k < part->len; k++)
    out->labels[out->rank++] = part->labels[k];
  return true;
}

static void drop_dim(term_t *term, uint32_t dim) {
  for (uint32_t k = dim; k + 1 < term->rank; k++)
    term->labels[k] = term->labels[k + 1];
  term->rank--;
}

static void sum_dim(dt_imp_node_t *n, term_t *term, uint32_t dim) {
  const int32_t axis = (int32_t)dim;
  term->value = dt_sum(n->t, term->value, 1, &axis, false);
  drop_dim(term, dim);
}

// A label that stands twice in an operand: its diagonal.
static void take_diagonals(dt_imp_node_t *n, term_t *term) {
  for (uint32_t k = 0; k < term->rank; k++) {
    uint32_t twin = k + 1;
    while (twin < term->rank && term->labels[twin] != term->labels[k])
      twin++;
    if (twin >= term->rank)
      continue;
    dt_sym_t sizes[DT_MAX_RANK];
    uint32_t rank = dt__imp_shape(n, term->value, sizes);
    if (dt__imp_failed(n))
      return;
    dt_check(n->t, dt_sym_eq(n->t, sizes[k], sizes[twin]), "a label has two sizes");
    dt_value_t row = dt__imp_index(n, DT_I64, sizes[k], rank - 1 - k);
    dt_value_t column = dt__imp_index(n, DT_I64, sizes[twin], rank - 1 - twin);
    dt_value_t zero = dt__imp_like(n, term->value, 0.0);
    term->value = dt_where(n->t, dt_eq(n->t, row, column), term->value, zero);
    sum_dim(n, term, twin);
    k--;
  }
}

// ---- Products ---------------------------------------------------------------------------------------
// Dims of `term` in the order of `labels`; a label that it does not have is left out.
static void order_dims(dt_imp_node_t *n, term_t *term, const uint8_t *labels, uint32_t count) {
  int32_t axes[DT_MAX_RANK];
  term_t made = {.rank = 0};
  for (uint32_t k = 0; k < count; k++) {
    int32_t at = find_label(term, labels[k]);
    if (at < 0)
      continue;
    axes[made.rank] = at;
    made.labels[made.rank++] = labels[k];
  }
  made.value = made.rank > 1 ? dt_permute(n->t, term->value, axes) : term->value;
  *term = made;
}

// `n_groups` groups of dims, each as one; the first `kept` dims stay by themselves.
static dt_value_t fold_groups(dt_imp_node_t *n, const term_t *term, uint32_t kept, uint32_t first) {
  dt_sym_t sizes[DT_MAX_RANK], made[DT_MAX_RANK + 2];
  uint32_t rank = dt__imp_shape(n, term->value, sizes);
  if (rank != term->rank || kept + 2 > DT_MAX_RANK) {
    if (!dt__imp_failed(n))
      dt__imp_fail(n, DT_E_LIMIT, "more than %d dims are needed", DT_MAX_RANK);
    return term->value;
  }
  for (uint32_t k = 0; k < kept; k++)
    made[k] = sizes[k];
  made[kept] = dt__imp_product(n, sizes + kept, first);
  made[kept + 1] = dt__imp_product(n, sizes + kept + first, rank - kept - first);
  return dt_reshape(n->t, term->value, kept + 2, made);
}

typedef struct roles_t { // labels of a product
  uint32_t n_batch, n_left, n_right, n_sum;
  uint8_t batch[DT_MAX_RANK], left[DT_MAX_RANK], right[DT_MAX_RANK], sum[DT_MAX_RANK];
} roles_t;

static roles_t find_roles(const term_t *a, const term_t *b, const bool *later) {
  roles_t r = {0};
  for (uint32_t k = 0; k < a->rank; k++) {
    uint8_t label = a->labels[k];
    if (find_label(b, label) < 0)
      r.left[r.n_left++] = label;
    else if (later[label] || label < 'A') // dims of an ellipsis broadcast, so they are no sums
      r.batch[r.n_batch++] = label;
    else
      r.sum[r.n_sum++] = label;
  }
  for (uint32_t k = 0; k < b->rank; k++)
    if (find_label(a, b->labels[k]) < 0)
      r.right[r.n_right++] = b->labels[k];
  return r;
}

static uint32_t join_labels(uint8_t *to, uint32_t len, const uint8_t *from, uint32_t count) {
  for (uint32_t k = 0; k < count && len < DT_MAX_RANK * 3; k++)
    to[len++] = from[k];
  return len;
}

static void order_roles(dt_imp_node_t *n, term_t *term, const roles_t *r, bool is_left) {
  uint8_t labels[DT_MAX_RANK * 3];
  uint32_t len = join_labels(labels, 0, r->batch, r->n_batch);
  if (is_left)
    len = join_labels(labels, len, r->left, r->n_left);
  len = join_labels(labels, len, r->sum, r->n_sum);
  if (!is_left)
    len = join_labels(labels, len, r->right, r->n_right);
  order_dims(n, term, labels, len);
}

// a * b over the dims of both.
static void multiply(dt_imp_node_t *n, term_t *a, term_t *b) {
  for (uint32_t k = 0; k < b->rank; k++)
    if (find_label(a, b->labels[k]) < 0)
      a->value = dt_unsqueeze(n->t, a->value, -1);
  for (uint32_t k = 0; k < a->rank; k++) {
    int32_t at = find_label(b, a->labels[k]);
    if (at < 0)
      b->value = dt_unsqueeze(n->t, b->value, (int32_t)k);
  }
  a->value = dt_mul(n->t, a->value, b->value);
}

static void contract(dt_imp_node_t *n, term_t *a, term_t *b, const bool *later) {
  roles_t r = find_roles(a, b, later);
  dt_sym_t sizes[DT_MAX_RANK * 3], left[DT_MAX_RANK], right[DT_MAX_RANK];
  if (r.n_batch + r.n_left + r.n_right > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "more than %d dims are needed", DT_MAX_RANK);
    return;
  }
  order_roles(n, a, &r, true);
  order_roles(n, b, &r, false);
  if (dt__imp_shape(n, a->value, left) != a->rank || dt__imp_shape(n, b->value, right) != b->rank)
    return;
  if (r.n_sum == 0) {
    multiply(n, a, b);
  } else {
    dt_value_t x = fold_groups(n, a, r.n_batch, r.n_left);
    dt_value_t y = dt_matmul(n->t, x, fold_groups(n, b, r.n_batch, r.n_sum));
    for (uint32_t k = 0; k < r.n_batch && !dt__imp_failed(n); k++)
      sizes[k] = dt_dim(n->t, y, (int32_t)k);
    for (uint32_t k = 0; k < r.n_left; k++)
      sizes[r.n_batch + k] = left[r.n_batch + k];
    for (uint32_t k = 0; k < r.n_right; k++)
      sizes[r.n_batch + r.n_left + k] = right[r.n_batch + r.n_sum + k];
    a->value = dt_reshape(n->t, y, r.n_batch + r.n_left + r.n_right, sizes);
  }
  a->rank = join_labels(a->labels, r.n_batch + r.n_left, r.right, r.n_right);
}

// ---- Einsum -----------------------------------------------------------------------------------------
// Which labels operands from `first` on, or the result, have.
static void find_later(const term_t *terms, uint32_t first, uint32_t count, const term_t *out,
                       bool *later) {
  for (uint32_t k = 0; k < 128; k++)
    later[k] = false;
  for (uint32_t k = first; k < count; k++)
    for (uint32_t i = 0; i < terms[k].rank; i++)
      later[terms[k].labels[i]] = true;
  for (uint32_t i = 0; i < out->rank; i++)
    later[out->labels[i]] = true;
}

static void sum_unused(dt_imp_node_t *n, term_t *term, const term_t *other, const bool *later) {
  for (uint32_t k = term->rank; k-- > 0;)
    if (!later[term->labels[k]] && (!other || find_label(other, term->labels[k]) < 0))
      sum_dim(n, term, k);
}

static bool read_operands(dt_imp_node_t *n, const equation_t *equation, term_t *terms,
                          uint32_t *out_dots) {
  *out_dots = 0;
  for (uint32_t k = 0; k < equation->n_in; k++) {
    const part_t *part = &equation->in[k];
    uint32_t rank = dt__imp_rank(n, k);
    bool fits = part->dots == UINT32_MAX ? rank == part->len : rank >= part->len;
    if (dt__imp_failed(n))
      return false;
    if (!fits || !spread(part, rank - part->len, &terms[k])) {
      dt__imp_fail(n, DT_E_SHAPE, "operand %u has rank %u; its part of the equation has %u labels",
                   k, rank, part->len);
      return false;
    }
    *out_dots =
        part->dots != UINT32_MAX && rank - part->len > *out_dots ? rank - part->len : *out_dots;
    terms[k].value = dt__imp_in(n, k);
    take_diagonals(n, &terms[k]);
  }
  return !dt__imp_failed(n);
}

void dt__imp_make_Einsum(dt_imp_node_t *n) {
  equation_t equation;
  term_t terms[DT_MAX_RANK * 2], out = {.rank = 0};
  bool later[128];
  uint32_t dots = 0;
  if (read_equation(dt__imp_str(n, "equation", ""), &equation) ||
      !read_operands(n, &equation, terms, &dots))
    return;
  if (!equation.has_out)
    implied(&equation);
  if (!spread(&equation.out, dots, &out)) {
    dt__imp_fail(n, DT_E_LIMIT, "the result has more than %d dims", DT_MAX_RANK);
    return;
  }
  for (uint32_t k = 1; k < equation.n_in && !dt__imp_failed(n); k++) {
    find_later(terms, k + 1, equation.n_in, &out, later);
    sum_unused(n, &terms[0], &terms[k], later);
    sum_unused(n, &terms[k], &terms[0], later);
    contract(n, &terms[0], &terms[k], later);
  }
  find_later(terms, equation.n_in, equation.n_in, &out, later);
  sum_unused(n, &terms[0], NULL, later);
  for (uint32_t k = 0; k < out.rank && !dt__imp_failed(n); k++)
    if (find_label(&terms[0], out.labels[k]) < 0)
      dt__imp_fail(n, DT_E_FORMAT, "the result has a label that no operand has");
  if (dt__imp_failed(n))
    return;
  order_dims(n, &terms[0], out.labels, out.rank);
  dt__imp_out(n, 0, terms[0].value);
}
