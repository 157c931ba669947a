// SPDX-License-Identifier: Apache-2.0
// Long sums of products. They come from sizes that are sums themselves: (a + b)*(c + d)*… in
// canonical form has a term for each choice. Here factors are taken out again, the most common
// first (Horner's scheme). The cofactor of several factors is one expression, and so is computed
// once. So the code of a product of sums grows with their terms, not with the product of their
// numbers.
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"

#define LONG_SUM 8 // terms; shorter ones are left as they are

bool dt__sum_is_long(const dt_body_t *k, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(k->m->env, e);
  return view.op == DT_SYM_ADD && view.n_args >= LONG_SUM;
}

typedef struct sum_t {
  dt_body_t *k;
  dt_sym_t *terms;
  uint32_t n;
  LLVMValueRef value; // of what was taken out of `terms`; NULL: nothing yet
  uint32_t level;
} sum_t;

// A term's factors: those of a product, or the term itself. `out` has room for `cap` of them.
static uint32_t factors_of(const dt_symenv_t *env, dt_sym_t term, dt_sym_t *out, uint32_t cap) {
  dt_sym_view_t view = dt__sym_view(env, term);
  if (view.op != DT_SYM_MUL || view.n_args > cap) {
    out[0] = term;
    return 1;
  }
  for (uint32_t i = 0; i < view.n_args; i++)
    out[i] = view.args[i];
  return view.n_args;
}

#define MOST_FACTORS 16

static uint32_t terms_with(const sum_t *sum, dt_sym_t factor) {
  uint32_t count = 0;
  for (uint32_t t = 0; t < sum->n; t++) {
    dt_sym_t factors[MOST_FACTORS];
    uint32_t n = factors_of(sum->k->m->env, sum->terms[t], factors, MOST_FACTORS);
    for (uint32_t i = 0; i < n; i++)
      if (factors[i].id == factor.id) {
        count++;
        break;
      }
  }
  return count;
}

// The factor that most terms have beside the first; none: no other term has one of its factors.
// Taking those of the first term one after another ends, since the term itself goes each time.
static dt_sym_t common_factor(const sum_t *sum) {
  dt_symenv_t *env = sum->k->m->env;
  dt_sym_t factors[MOST_FACTORS], best = DT_SYM_NONE_ID;
  uint32_t n = factors_of(env, sum->terms[0], factors, MOST_FACTORS), most = 1;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t count = dt__sym_is_const(env, factors[i], NULL) ? 0 : terms_with(sum, factors[i]);
    if (count > most) {
      most = count;
      best = factors[i];
    }
  }
  return best;
}

// The term without one `factor`; none: it has none.
static dt_sym_t quotient(dt_symenv_t *env, dt_sym_t term, dt_sym_t factor) {
  dt_sym_t factors[MOST_FACTORS], rest = dt__sym_const(env, 1);
  uint32_t n = factors_of(env, term, factors, MOST_FACTORS);
  bool found = false;
  for (uint32_t i = 0; i < n; i++) {
    if (!found && factors[i].id == factor.id)
      found = true;
    else
      rest = dt__sym_mul(env, rest, factors[i]);
  }
  return found ? rest : DT_SYM_NONE_ID;
}

static void add_value(sum_t *sum, LLVMValueRef value) {
  sum->value = sum->value ? dt__index_sum(sum->k, sum->value, value) : value;
}

// Takes the terms with `factor` out of the sum: their quotients' sum times the factor.
static void take_factor(sum_t *sum, dt_sym_t factor) {
  dt_body_t *k = sum->k;
  dt_symenv_t *env = k->m->env;
  dt_sym_t beside = dt__sym_const(env, 0);
  uint32_t kept = 0;
  for (uint32_t t = 0; t < sum->n; t++) {
    dt_sym_t term = sum->terms[t], rest = quotient(env, term, factor);
    if (rest.id)
      beside = dt__sym_add(env, beside, rest);
    else
      sum->terms[kept++] = term;
  }
  sum->n = kept;
  LLVMValueRef by = dt__index_scalar(k, factor), value = dt__index_scalar(k, beside);
  dt__body_at(k, sum->level);
  add_value(sum, dt__index_product(k, by, value));
}

static void take_first(sum_t *sum) {
  LLVMValueRef value = dt__index_scalar(sum->k, sum->terms[0]);
  dt__body_at(sum->k, sum->level);
  add_value(sum, value);
  sum->terms[0] = sum->terms[--sum->n];
}

// The terms known at `level` and no further out, of all `n`.
static uint32_t terms_of_level(dt_body_t *k, const dt_sym_t *terms, uint32_t n, uint32_t level,
                               dt_sym_t *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t own;
    bool varying;
    dt__index_info(k, terms[i], &own, &varying);
    if (own == level)
      out[count++] = terms[i];
  }
  return count;
}

LLVMValueRef dt__sum_emit(dt_body_t *k, dt_sym_t e, uint32_t level) {
  dt_emit_t *m = k->m;
  dt_sym_view_t view = dt__sym_view(m->env, e);
  uint32_t n = view.n_args;
  dt_sym_t *terms = DT_ARENA_ARRAY(&m->arena, dt_sym_t, n);
  sum_t sum = {.k = k, .terms = DT_ARENA_ARRAY(&m->arena, dt_sym_t, n)};
  if (!terms || !sum.terms) {
    dt__emit_fail(m, DT_NO_MEMORY());
    return dt__emit_i64(m, 0);
  }
  for (uint32_t i = 0; i < n; i++)
    terms[i] = view.args[i];
  for (uint32_t at = 0; at <= level; at++) { // what is known further out is added there
    sum.n = terms_of_level(k, terms, n, at, sum.terms);
    sum.level = at;
    while (sum.n && !m->failure) {
      dt_sym_t factor = common_factor(&sum);
      if (factor.id)
        take_factor(&sum, factor);
      else
        take_first(&sum);
    }
  }
  return sum.value ? sum.value : dt__emit_i64(m, 0);
}
