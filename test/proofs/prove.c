// SPDX-License-Identifier: Apache-2.0
// Goals on Z3: terms in four arithmetics, products made linear, lemmas as instances.
#include "test/proofs/prove.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Of ARITH_BITS: sums that stand for any expression are below 2^SUM_BITS in size, and lemmas speak
// of factors below 2^HALF_BITS, so that no product of two leaves the WIDE_BITS.
#define WIDE_BITS 384
#define HALF_BITS 190
#define SUM_BITS 80
// Of ARITH_BRUTE: the same, for words of BRUTE_WORD bits.
#define BRUTE_WIDE 32
#define BRUTE_WORD 4
#define BRUTE_SUM 5

#define MAX_PRODUCTS 256
#define MAX_FACTORS 16

struct goal_t {
  Z3_context z3;
  Z3_sort sort;
  arith_t arith;
  unsigned wide, word, sum, half; // bits
  int weaken, n_weaker;
  bool failed; // a limit of this file was exceeded: no answer
  Z3_ast_vector givens, claims;
  Z3_params normal_form;
  int n_names;
  Z3_ast products[MAX_PRODUCTS], names[MAX_PRODUCTS];
  int n_products;
};

static bool is_bits(const goal_t *g) { return g->arith == ARITH_BITS || g->arith == ARITH_BRUTE; }

static bool is_abstract(const goal_t *g) {
  return g->arith == ARITH_BITS || g->arith == ARITH_EXACT;
}

// ---- Terms -------------------------------------------------------------------------------------
term_t t_int(goal_t *g, int64_t value) { return Z3_mk_int64(g->z3, value, g->sort); }

static term_t power(goal_t *g, unsigned bits) {
  char text[160] = "1";
  for (unsigned k = 0; k < bits; k++) { // doubles a decimal number
    unsigned carry = 0;
    size_t n = strlen(text);
    for (size_t i = n; i--;) {
      unsigned digit = (unsigned)(text[i] - '0') * 2 + carry;
      text[i] = (char)('0' + digit % 10);
      carry = digit / 10;
    }
    if (carry) {
      memmove(text + 1, text, n + 1);
      text[0] = (char)('0' + carry);
    }
  }
  return Z3_mk_numeral(g->z3, text, g->sort);
}

term_t t_word_end(goal_t *g) { return power(g, g->word - 1); }

static term_t constant(goal_t *g, const char *name, Z3_sort sort) {
  char text[80]; // names are made different by their number
  snprintf(text, sizeof text, "%s.%d", name, g->n_names++);
  return Z3_mk_const(g->z3, Z3_mk_string_symbol(g->z3, text), sort);
}

term_t t_true(goal_t *g) { return Z3_mk_true(g->z3); }
term_t t_fresh(goal_t *g, const char *name) { return constant(g, name, g->sort); }
term_t t_flag(goal_t *g, const char *name) { return constant(g, name, Z3_mk_bool_sort(g->z3)); }
term_t t_add(goal_t *g, term_t a, term_t b) {
  Z3_ast both[2] = {a, b};
  return is_bits(g) ? Z3_mk_bvadd(g->z3, a, b) : Z3_mk_add(g->z3, 2, both);
}
term_t t_sub(goal_t *g, term_t a, term_t b) {
  Z3_ast both[2] = {a, b};
  return is_bits(g) ? Z3_mk_bvsub(g->z3, a, b) : Z3_mk_sub(g->z3, 2, both);
}
term_t t_mul(goal_t *g, term_t a, term_t b) {
  Z3_ast both[2] = {a, b};
  return is_bits(g) ? Z3_mk_bvmul(g->z3, a, b) : Z3_mk_mul(g->z3, 2, both);
}
term_t t_eq(goal_t *g, term_t a, term_t b) { return Z3_mk_eq(g->z3, a, b); }
term_t t_le(goal_t *g, term_t a, term_t b) {
  return is_bits(g) ? Z3_mk_bvsle(g->z3, a, b) : Z3_mk_le(g->z3, a, b);
}
term_t t_lt(goal_t *g, term_t a, term_t b) {
  return is_bits(g) ? Z3_mk_bvslt(g->z3, a, b) : Z3_mk_lt(g->z3, a, b);
}
term_t t_not(goal_t *g, term_t a) { return Z3_mk_not(g->z3, a); }
term_t t_and(goal_t *g, term_t a, term_t b) {
  Z3_ast both[2] = {a, b};
  return Z3_mk_and(g->z3, 2, both);
}
term_t t_or(goal_t *g, term_t a, term_t b) {
  Z3_ast both[2] = {a, b};
  return Z3_mk_or(g->z3, 2, both);
}
term_t t_if(goal_t *g, term_t c, term_t a, term_t b) { return Z3_mk_ite(g->z3, c, a, b); }
term_t t_implies(goal_t *g, term_t a, term_t b) { return Z3_mk_implies(g->z3, a, b); }
term_t t_between(goal_t *g, term_t lo, term_t x, term_t hi) {
  return t_and(g, t_le(g, lo, x), t_le(g, x, hi));
}

// -2^bits <= x < 2^bits.
static term_t bounded(goal_t *g, term_t x, unsigned bits) {
  term_t end = power(g, bits);
  return t_and(g, t_le(g, t_sub(g, t_int(g, 0), end), x), t_lt(g, x, end));
}
term_t t_fits(goal_t *g, term_t x) { return bounded(g, x, g->word - 1); }

static term_t is_zero(goal_t *g, term_t x) { return t_eq(g, x, t_int(g, 0)); }

// ---- Products ----------------------------------------------------------------------------------
// The name that stands for a product of unknowns.
static Z3_ast product_name(goal_t *g, Z3_ast product) {
  for (int k = 0; k < g->n_products; k++)
    if (Z3_is_eq_ast(g->z3, g->products[k], product))
      return g->names[k];
  if (g->n_products == MAX_PRODUCTS) {
    g->failed = true;
    return product;
  }
  g->products[g->n_products] = product;
  g->names[g->n_products] = t_fresh(g, "product");
  return g->names[g->n_products++];
}

static Z3_ast linear(goal_t *g, Z3_ast e);

// A product in normal form: a number times unknowns, which are sorted here once more.
static Z3_ast linear_product(goal_t *g, Z3_app app) {
  Z3_ast number = NULL, rest[MAX_FACTORS];
  unsigned n = 0;
  Z3_ast todo[2 * MAX_FACTORS];
  unsigned n_todo = 0;
  if (Z3_get_app_num_args(g->z3, app) > MAX_FACTORS) {
    g->failed = true;
    return Z3_app_to_ast(g->z3, app);
  }
  for (unsigned k = Z3_get_app_num_args(g->z3, app); k--;)
    todo[n_todo++] = Z3_get_app_arg(g->z3, app, k);
  Z3_decl_kind kind = Z3_get_decl_kind(g->z3, Z3_get_app_decl(g->z3, app));
  while (n_todo) {
    if (n == MAX_FACTORS || n_todo > MAX_FACTORS) {
      g->failed = true;
      return Z3_app_to_ast(g->z3, app);
    }
    Z3_ast e = todo[--n_todo];
    if (Z3_is_numeral_ast(g->z3, e)) {
      number = number ? Z3_simplify(g->z3, t_mul(g, number, e)) : e;
      continue;
    }
    Z3_app inner = Z3_to_app(g->z3, e);
    if (Z3_get_decl_kind(g->z3, Z3_get_app_decl(g->z3, inner)) == kind &&
        Z3_get_app_num_args(g->z3, inner) <= MAX_FACTORS) {
      for (unsigned k = Z3_get_app_num_args(g->z3, inner); k--;)
        todo[n_todo++] = Z3_get_app_arg(g->z3, inner, k);
      continue;
    }
    unsigned at = n++;
    e = linear(g, e);
    for (; at && Z3_get_ast_id(g->z3, rest[at - 1]) > Z3_get_ast_id(g->z3, e); at--)
      rest[at] = rest[at - 1];
    rest[at] = e;
  }
  if (n == 0)
    return number;
  Z3_ast product = rest[0];
  for (unsigned k = 1; k < n; k++)
    product = t_mul(g, product, rest[k]);
  if (n > 1)
    product = product_name(g, product);
  return number ? t_mul(g, number, product) : product;
}

static Z3_ast linear(goal_t *g, Z3_ast e) {
  if (Z3_get_ast_kind(g->z3, e) != Z3_APP_AST)
    return e;
  Z3_app app = Z3_to_app(g->z3, e);
  unsigned n = Z3_get_app_num_args(g->z3, app);
  Z3_decl_kind kind = Z3_get_decl_kind(g->z3, Z3_get_app_decl(g->z3, app));
  if (kind == Z3_OP_MUL || kind == Z3_OP_BMUL)
    return linear_product(g, app);
  Z3_ast args[64];
  if (n == 0)
    return e;
  if (n > 64) {
    g->failed = true;
    return e;
  }
  for (unsigned k = 0; k < n; k++)
    args[k] = linear(g, Z3_get_app_arg(g->z3, app, k));
  return Z3_update_term(g->z3, e, n, args);
}

static Z3_ast prepared(goal_t *g, Z3_ast e) {
  return is_abstract(g) ? linear(g, Z3_simplify_ex(g->z3, e, g->normal_form)) : e;
}

// ---- Givens and claims -------------------------------------------------------------------------
void given(goal_t *g, term_t cond) { Z3_ast_vector_push(g->z3, g->givens, cond); }
void claim(goal_t *g, term_t cond) { Z3_ast_vector_push(g->z3, g->claims, cond); }
void side(goal_t *g, term_t cond, term_t weaker) {
  bool weak = weaker && g->n_weaker++ == g->weaken;
  given(g, weak ? weaker : cond);
}
void example(goal_t *g, term_t cond) {
  if (g->weaken >= 0 && g->weaken == g->n_weaker - 1)
    given(g, cond);
}

// ---- Values ------------------------------------------------------------------------------------
term_t t_in_word(goal_t *g, value_t a) { return t_and(g, a.has, t_fits(g, a.v)); }

void side_fits(goal_t *g, value_t a) { side(g, t_implies(g, a.has, t_fits(g, a.v)), t_true(g)); }

value_t v_any(goal_t *g, const char *name) {
  value_t a = {t_flag(g, "exact"), t_flag(g, "has"), t_fresh(g, name)};
  given(g, t_implies(g, a.has, a.exact));
  if (is_bits(g))
    given(g, bounded(g, a.v, g->sum));
  return a;
}
value_t v_int(goal_t *g, int64_t value) {
  return (value_t){Z3_mk_true(g->z3), Z3_mk_true(g->z3), t_int(g, value)};
}
value_t v_literal(goal_t *g, const char *name) {
  value_t a = {Z3_mk_true(g->z3), Z3_mk_true(g->z3), t_fresh(g, name)};
  given(g, t_fits(g, a.v));
  return a;
}
value_t v_bool(goal_t *g, const char *name) {
  value_t a = v_any(g, name);
  given(g, t_between(g, t_int(g, 0), a.v, t_int(g, 1)));
  return a;
}

static value_t ring(goal_t *g, value_t a, value_t b, term_t v) {
  return (value_t){t_and(g, a.exact, b.exact), t_and(g, a.has, b.has), v};
}
value_t v_add(goal_t *g, value_t a, value_t b) { return ring(g, a, b, t_add(g, a.v, b.v)); }
value_t v_sub(goal_t *g, value_t a, value_t b) { return ring(g, a, b, t_sub(g, a.v, b.v)); }
value_t v_mul(goal_t *g, value_t a, value_t b) { return ring(g, a, b, t_mul(g, a.v, b.v)); }

// Both arguments read.
static value_t strict(goal_t *g, value_t a, value_t b, term_t v) {
  return (value_t){t_and(g, a.exact, b.exact), t_and(g, t_in_word(g, a), t_in_word(g, b)), v};
}

term_t t_remainder(goal_t *g, term_t q, term_t r) {
  term_t zero = t_int(g, 0);
  term_t up = t_and(g, t_le(g, zero, r), t_lt(g, r, q));
  term_t down = t_and(g, t_lt(g, q, r), t_le(g, r, zero));
  return t_or(g, up, down);
}

division_t v_divide(goal_t *g, value_t x, value_t q) {
  division_t d = {.x = x.v, .q = q.v, .k = t_fresh(g, "quotient"), .r = t_fresh(g, "remainder")};
  term_t some = t_not(g, is_zero(g, q.v));
  given(g, t_implies(g, some, t_eq(g, x.v, t_add(g, t_mul(g, q.v, d.k), d.r))));
  given(g, t_implies(g, some, t_remainder(g, q.v, d.r)));
  if (is_bits(g)) // the quotient is not larger than x
    given(g, bounded(g, d.k, g->half - 8));
  d.quotient = strict(g, x, q, d.k);
  d.quotient.exact = t_and(g, d.quotient.exact, some);
  d.quotient.has = t_and(g, d.quotient.has, t_and(g, some, t_fits(g, d.k)));
  d.remainder = strict(g, x, q, d.r);
  d.remainder.exact = t_and(g, d.remainder.exact, some);
  d.remainder.has = t_and(g, d.remainder.has, some);
  return d;
}

value_t v_min(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, t_if(g, t_lt(g, b.v, a.v), b.v, a.v));
}
value_t v_max(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, t_if(g, t_lt(g, a.v, b.v), b.v, a.v));
}
static term_t as_int(goal_t *g, term_t cond) { return t_if(g, cond, t_int(g, 1), t_int(g, 0)); }
value_t v_eq(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, as_int(g, t_eq(g, a.v, b.v)));
}
value_t v_ne(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, as_int(g, t_not(g, t_eq(g, a.v, b.v))));
}
value_t v_lt(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, as_int(g, t_lt(g, a.v, b.v)));
}
value_t v_le(goal_t *g, value_t a, value_t b) {
  return strict(g, a, b, as_int(g, t_le(g, a.v, b.v)));
}
value_t v_not(goal_t *g, value_t a) {
  return (value_t){a.exact, t_in_word(g, a), as_int(g, is_zero(g, a.v))};
}

value_t v_select(goal_t *g, value_t c, value_t a, value_t b) {
  term_t no = is_zero(g, c.v);
  return (value_t){t_and(g, c.exact, t_if(g, no, b.exact, a.exact)),
                   t_and(g, t_in_word(g, c), t_if(g, no, t_in_word(g, b), t_in_word(g, a))),
                   t_if(g, no, b.v, a.v)};
}

// One argument that decides is enough, whatever the other is.
static value_t junction(goal_t *g, value_t a, value_t b, bool deciding) {
  term_t x = is_zero(g, a.v), y = is_zero(g, b.v);
  if (deciding) {
    x = t_not(g, x);
    y = t_not(g, y);
  }
  term_t has_x = t_and(g, t_in_word(g, a), x), has_y = t_and(g, t_in_word(g, b), y);
  term_t is_x = t_and(g, a.exact, x), is_y = t_and(g, b.exact, y);
  return (value_t){t_or(g, t_and(g, a.exact, b.exact), t_or(g, is_x, is_y)),
                   t_or(g, t_and(g, t_in_word(g, a), t_in_word(g, b)), t_or(g, has_x, has_y)),
                   t_if(g, t_or(g, is_x, is_y), t_int(g, deciding), t_int(g, !deciding))};
}
value_t v_and(goal_t *g, value_t a, value_t b) { return junction(g, a, b, false); }
value_t v_or(goal_t *g, value_t a, value_t b) { return junction(g, a, b, true); }

void claim_rewrite(goal_t *g, value_t left, value_t right) {
  claim(g, t_implies(g, left.exact, t_and(g, right.exact, t_eq(g, left.v, right.v))));
  claim(g, t_implies(g, t_in_word(g, left), t_in_word(g, right)));
}

// ---- Lemmas ------------------------------------------------------------------------------------
static void lemma(goal_t *g, term_t cond) {
  if (is_abstract(g))
    given(g, cond);
}

// What a lemma says is only true of factors whose product stays in the width.
static term_t in_half(goal_t *g, term_t x) {
  return is_bits(g) ? bounded(g, x, g->half) : Z3_mk_true(g->z3);
}

void lemma_sign(goal_t *g, term_t a, term_t b) {
  term_t zero = t_int(g, 0), ab = t_mul(g, a, b);
  term_t alike = t_or(g, t_and(g, t_le(g, zero, a), t_le(g, zero, b)),
                      t_and(g, t_le(g, a, zero), t_le(g, b, zero)));
  term_t unlike = t_or(g, t_and(g, t_le(g, zero, a), t_le(g, b, zero)),
                       t_and(g, t_le(g, a, zero), t_le(g, zero, b)));
  term_t small = t_and(g, in_half(g, a), in_half(g, b));
  lemma(g, t_implies(g, t_and(g, small, alike), t_le(g, zero, ab)));
  lemma(g, t_implies(g, t_and(g, small, unlike), t_le(g, ab, zero)));
}

void lemma_times(goal_t *g, term_t a, term_t b, term_t c) {
  lemma(g, t_implies(g, t_eq(g, a, b), t_eq(g, t_mul(g, c, a), t_mul(g, c, b))));
}

void lemma_smaller(goal_t *g, term_t x, term_t a) {
  term_t one = t_int(g, 1);
  lemma_sign(g, t_sub(g, a, one), x);
  lemma_sign(g, t_add(g, a, one), x);
}

void lemma_size(goal_t *g, const division_t *d) {
  term_t one = t_int(g, 1);
  lemma_smaller(g, d->k, d->q);
  lemma_smaller(g, t_add(g, d->k, one), d->q);
  lemma_smaller(g, t_sub(g, d->k, one), d->q);
}

void lemma_once(goal_t *g, const division_t *d, term_t k, term_t r) {
  term_t same = t_and(g, t_eq(g, d->x, t_add(g, t_mul(g, d->q, k), r)), t_remainder(g, d->q, r));
  term_t small = t_and(g, in_half(g, k), in_half(g, d->q));
  lemma(g, t_implies(g, t_and(g, small, same), t_and(g, t_eq(g, d->k, k), t_eq(g, d->r, r))));
}

// ---- Running -----------------------------------------------------------------------------------
static void on_error(Z3_context z3, Z3_error_code code) {
  fprintf(stderr, "Z3: %s\n", Z3_get_error_msg(z3, code));
}

static void goal_init(goal_t *g, const goal_run_t *run) {
  memset(g, 0, sizeof *g);
  Z3_config config = Z3_mk_config();
  g->z3 = Z3_mk_context(config);
  Z3_del_config(config);
  Z3_set_error_handler(g->z3, on_error);
  g->arith = run->arith;
  bool brute = run->arith == ARITH_BRUTE;
  g->wide = brute ? BRUTE_WIDE : WIDE_BITS;
  g->half = brute ? BRUTE_WIDE / 2 - 2 : HALF_BITS;
  g->word = brute ? BRUTE_WORD : 64;
  g->sum = brute ? BRUTE_SUM : SUM_BITS;
  g->sort = is_bits(g) ? Z3_mk_bv_sort(g->z3, g->wide) : Z3_mk_int_sort(g->z3);
  g->weaken = run->weaken;
  g->givens = Z3_mk_ast_vector(g->z3);
  Z3_ast_vector_inc_ref(g->z3, g->givens);
  g->claims = Z3_mk_ast_vector(g->z3);
  Z3_ast_vector_inc_ref(g->z3, g->claims);
  g->normal_form = Z3_mk_params(g->z3);
  Z3_params_inc_ref(g->z3, g->normal_form);
  Z3_params_set_bool(g->z3, g->normal_form, Z3_mk_string_symbol(g->z3, "som"), true);
  Z3_params_set_bool(g->z3, g->normal_form, Z3_mk_string_symbol(g->z3, "pull_cheap_ite"), false);
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *copy_text(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = malloc(n);
  if (copy)
    memcpy(copy, text, n);
  return copy;
}

static verdict_t check(goal_t *g, const goal_run_t *run, char **out_model) {
  Z3_solver solver = is_bits(g) ? Z3_mk_solver_for_logic(g->z3, Z3_mk_string_symbol(g->z3, "QF_BV"))
                                : Z3_mk_solver(g->z3);
  Z3_solver_inc_ref(g->z3, solver);
  Z3_params params = Z3_mk_params(g->z3);
  Z3_params_inc_ref(g->z3, params);
  Z3_params_set_uint(g->z3, params, Z3_mk_string_symbol(g->z3, "timeout"), run->limit_ms);
  Z3_solver_set_params(g->z3, solver, params);
  for (unsigned k = 0; k < Z3_ast_vector_size(g->z3, g->givens); k++)
    Z3_solver_assert(g->z3, solver, prepared(g, Z3_ast_vector_get(g->z3, g->givens, k)));
  term_t all = Z3_mk_true(g->z3);
  for (unsigned k = 0; k < Z3_ast_vector_size(g->z3, g->claims); k++)
    all = t_and(g, all, Z3_ast_vector_get(g->z3, g->claims, k));
  if (!run->only_givens)
    Z3_solver_assert(g->z3, solver, prepared(g, t_not(g, all)));
  Z3_lbool answer = g->failed ? Z3_L_UNDEF : Z3_solver_check(g->z3, solver);
  *out_model = NULL;
  if (g->failed) {
    *out_model = copy_text("a limit of the test was exceeded");
  } else if (answer == Z3_L_TRUE) {
    Z3_model model = Z3_solver_get_model(g->z3, solver);
    *out_model = copy_text(Z3_model_to_string(g->z3, model));
  } else if (answer == Z3_L_UNDEF) {
    *out_model = copy_text(Z3_solver_get_reason_unknown(g->z3, solver));
  }
  Z3_params_dec_ref(g->z3, params);
  Z3_solver_dec_ref(g->z3, solver);
  return answer == Z3_L_FALSE ? PROVED : answer == Z3_L_TRUE ? REFUTED : UNKNOWN;
}

goal_result_t goal_run(goal_fn_t fn, const goal_run_t *run) {
  goal_t g;
  goal_result_t result = {0};
  double begin = seconds_now();
  goal_init(&g, run);
  fn(&g);
  result.n_weaker = g.n_weaker;
  result.verdict = run->count_only ? UNKNOWN : check(&g, run, &result.model);
  Z3_ast_vector_dec_ref(g.z3, g.givens);
  Z3_ast_vector_dec_ref(g.z3, g.claims);
  Z3_params_dec_ref(g.z3, g.normal_form);
  Z3_del_context(g.z3);
  result.seconds = seconds_now() - begin;
  return result;
}
