// SPDX-License-Identifier: Apache-2.0
// Proofs that a sum is >= 0, from bounds that are themselves expressions.
//
// A sum d that is linear in an atom t, d = A*t + R, is smallest at t's upper bound if A <= 0, and
// at its lower bound if A >= 0. So atoms are eliminated one by one, the youngest first. The bounds
// of loop symbols are 0 and extent - 1, of remainders 0 and divisor - 1. Quotients go by their
// defining inequality (the whole sum times the divisor if necessary), min and max by their
// arguments. Then facts are subtracted. Last, symbols in products are replaced by their literal
// bounds. Ranges decide the rest. Every step is one inequality between exact integers, so an answer
// "yes" is a proof; "no" means only: not found.
//
// The axiom of loops: an expression that contains a loop symbol is evaluated only when the loop
// runs, so its extent may be taken to be >= 1. Likewise a divisor that is known to be >= 0 is >= 1.
#include "symshape/sym_private.h"

#define STEPS 96
#define MAX_ALL_STEPS (1u << 18) // of an environment; the most that a known model took is 84,000
#define LATER_STEPS 12           // of a question beyond that
#define TERMS_A_STEP 16          // a sum of so many terms costs a step more
#define MAX_POSITIVE 12
#define MAX_LIST 24
#define MAX_CHAIN 4 // facts that one proof uses

typedef struct dt_proof_t {
  uint32_t positive[MAX_POSITIVE]; // expressions that are >= 1 here
  uint32_t n_positive;
  uint32_t late; // of the question: only facts that hold by then are used
  int steps;
} dt_proof_t;

static bool prove(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d, uint32_t facts);

static bool is_loop(const dt_symenv_t *env, uint32_t id) {
  return env->nodes[id].op == DT_SYM_SYMBOL && env->symbols[env->nodes[id].value].extent;
}

// Notes that `id` >= 1. When it is a product of atoms >= 0, each of them is.
static void note_positive(dt_symenv_t *env, dt_proof_t *proof, uint32_t id) {
  id = dt__resolve(env, id);
  if (!id || env->nodes[id].op == DT_SYM_CONST)
    return;
  for (uint32_t k = 0; k < proof->n_positive; k++)
    if (proof->positive[k] == id)
      return;
  if (proof->n_positive == MAX_POSITIVE)
    return;
  proof->positive[proof->n_positive++] = id;
  if (env->nodes[id].op != DT_SYM_MUL)
    return;
  for (uint32_t k = 0; k < env->nodes[id].n_args; k++)
    if (dt__range_of(env, dt__arg(env, id, k)).lo < 0)
      return;
  for (uint32_t k = 0; k < env->nodes[id].n_args; k++)
    note_positive(env, proof, dt__arg(env, id, k));
}

static void note_atom(dt_symenv_t *env, dt_proof_t *proof, uint32_t atom) {
  if (is_loop(env, atom)) {
    note_positive(env, proof, env->symbols[env->nodes[atom].value].extent);
    return;
  }
  uint32_t op = env->nodes[atom].op;
  if (op != DT_SYM_FLOORDIV && op != DT_SYM_MOD)
    return;
  uint32_t q = dt__arg(env, atom, 1);
  if (dt__range_of(env, q).lo >= 0)
    note_positive(env, proof, q);
}

static dt_range_t atom_range(dt_symenv_t *env, const dt_proof_t *proof, uint32_t atom) {
  dt_range_t r = dt__range_of(env, atom);
  for (uint32_t k = 0; k < proof->n_positive; k++)
    if (proof->positive[k] == atom && r.lo < 1)
      r.lo = 1;
  return r;
}

static int64_t lower_end(dt_symenv_t *env, const dt_proof_t *proof, const dt_poly_t *d) {
  dt_range_t sum = {d->c == INT64_MAX ? d->c - 1 : d->c, 0};
  for (uint32_t k = 0; k < d->n; k++) {
    uint32_t mono = d->t[k].mono;
    dt_range_t m = atom_range(env, proof, mono);
    if (env->nodes[mono].op == DT_SYM_MUL) {
      dt_range_t product = {1, 1};
      for (uint32_t f = 0; f < dt__mono_count(env, mono); f++)
        product = dt__range_mul(product, atom_range(env, proof, dt__mono_factor(env, mono, f)));
      m.lo = product.lo > m.lo ? product.lo : m.lo;
      m.hi = product.hi < m.hi ? product.hi : m.hi;
    }
    int64_t coef = d->t[k].coef;
    if (coef == INT64_MIN || coef == INT64_MAX)
      return INT64_MIN;
    sum = dt__range_add(sum, dt__range_mul((dt_range_t){coef, coef}, m));
  }
  return sum.lo;
}

// d with A*t replaced by A*bound: rest + A*bound.
static bool put(dt_symenv_t *env, dt_poly_t *out, const dt_poly_t *a, const dt_poly_t *bound,
                const dt_poly_t *rest) {
  return dt__poly_mul(env, out, a, bound) && dt__poly_add(env, out, rest, 1);
}

// The sign of a sum: 1 when proved >= 0, -1 when proved <= 0, else 0.
static int sign_of(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *a) {
  if (a->n == 0)
    return a->c >= 0 ? 1 : -1;
  if (prove(env, proof, a, 1))
    return 1;
  dt_poly_t minus;
  dt__poly_init(&minus);
  int sign = dt__poly_add(env, &minus, a, -1) && prove(env, proof, &minus, 1) ? -1 : 0;
  dt__poly_fini(&minus);
  return sign;
}

// The largest atom id below `below` that has bounds of its own, or 0.
static uint32_t next_atom(const dt_symenv_t *env, const dt_poly_t *d, uint32_t below) {
  uint32_t best = 0;
  for (uint32_t k = 0; k < d->n; k++)
    for (uint32_t f = 0; f < dt__mono_count(env, d->t[k].mono); f++) {
      uint32_t atom = dt__mono_factor(env, d->t[k].mono, f), op = env->nodes[atom].op;
      bool bounded = is_loop(env, atom) || (op >= DT_SYM_FLOORDIV && op <= DT_SYM_SELECT);
      if (bounded && atom < below && atom > best)
        best = atom;
    }
  return best;
}

// t is one of the arguments first … of `atom`: d >= 0 if it is so for all, or with `any` for one.
static bool try_arguments(dt_symenv_t *env, dt_proof_t *proof, uint32_t atom, uint32_t first,
                          bool any, const dt_poly_t *a, const dt_poly_t *rest, uint32_t facts) {
  uint32_t n = env->nodes[atom].n_args;
  for (uint32_t k = first; k < n; k++) {
    dt_poly_t bound, next;
    dt__poly_init(&bound);
    dt__poly_init(&next);
    bool ok = dt__poly_load(env, &bound, dt__arg(env, atom, k)) &&
              put(env, &next, a, &bound, rest) && prove(env, proof, &next, facts);
    dt__poly_fini(&bound);
    dt__poly_fini(&next);
    if (ok == any)
      return any;
  }
  return !any;
}

// A == q*K: q*(x//q) lies in [x - q + 1, x] for q >= 1.
static bool quotient_bound(dt_symenv_t *env, dt_poly_t *next, uint32_t atom, const dt_poly_t *a,
                           const dt_poly_t *rest, int sign) {
  dt_poly_t q, x, ratio;
  dt__poly_init(&q);
  dt__poly_init(&x);
  dt__poly_init(&ratio);
  bool ok = dt__poly_load(env, &q, dt__arg(env, atom, 1)) &&
            dt__poly_load(env, &x, dt__arg(env, atom, 0)) && q.n + (q.c != 0) == 1;
  int64_t coef = q.n ? q.t[0].coef : q.c;
  uint32_t mono = q.n ? q.t[0].mono : 0;
  ok = ok && coef > 0 && a->c % coef == 0 && (a->c == 0 || !mono) &&
       dt__poly_add_literal(&ratio, a->c / (ok ? coef : 1));
  for (uint32_t k = 0; ok && k < a->n; k++) {
    uint32_t left = a->t[k].mono;
    ok = a->t[k].coef % coef == 0 && (!mono || dt__mono_div(env, left, mono, &left)) &&
         dt__poly_add_term(env, &ratio, a->t[k].coef / coef, left);
  }
  if (ok && sign > 0)
    ok = dt__poly_add(env, &x, &q, -1) && dt__poly_add_literal(&x, 1);
  ok = ok && put(env, next, &ratio, &x, rest);
  dt__poly_fini(&q);
  dt__poly_fini(&x);
  dt__poly_fini(&ratio);
  return ok;
}

// q*d + q - 1 for q >= 1, where d == A*(x//q) + rest and q*(x//q) lies in [x - q + 1, x]. That it
// is >= 0 is that d > -1.
static bool quotient_scaled(dt_symenv_t *env, dt_poly_t *next, uint32_t atom, const dt_poly_t *a,
                            const dt_poly_t *rest, int sign) {
  dt_poly_t q, x, scaled;
  dt__poly_init(&q);
  dt__poly_init(&x);
  dt__poly_init(&scaled);
  bool ok = dt__poly_load(env, &q, dt__arg(env, atom, 1)) &&
            dt__poly_load(env, &x, dt__arg(env, atom, 0)) &&
            (sign < 0 || (dt__poly_add(env, &x, &q, -1) && dt__poly_add_literal(&x, 1))) &&
            dt__poly_mul(env, &scaled, rest, &q) && dt__poly_add(env, &scaled, &q, 1) &&
            dt__poly_add_literal(&scaled, -1) && put(env, next, a, &x, &scaled);
  dt__poly_fini(&q);
  dt__poly_fini(&x);
  dt__poly_fini(&scaled);
  return ok;
}

// x with its loop symbols put to the end that makes x largest (up) or smallest: the bound of x//q.
static bool quotient_by_loops(dt_symenv_t *env, dt_proof_t *proof, dt_poly_t *next, uint32_t atom,
                              const dt_poly_t *a, const dt_poly_t *rest, int sign) {
  bool up = sign < 0, found = false, ok = true;
  dt_poly_t x, coef, others, bound;
  dt__poly_init(&x);
  dt__poly_init(&coef);
  dt__poly_init(&others);
  dt__poly_init(&bound);
  ok = dt__poly_load(env, &x, dt__arg(env, atom, 0));
  for (uint32_t t = UINT32_MAX; ok && (t = next_atom(env, &x, t));) {
    if (!is_loop(env, t) || !dt__poly_split(env, &x, t, &coef, &others))
      continue;
    int s = sign_of(env, proof, &coef);
    bool top = (s > 0) == up;
    bound.n = 0;
    bound.c = 0;
    if (top)
      ok = dt__poly_load(env, &bound, env->symbols[env->nodes[t].value].extent) &&
           dt__poly_add_literal(&bound, -1);
    ok = ok && s != 0 && put(env, &x, &coef, &bound, &others);
    found = true;
  }
  if (ok && found && env->prove_depth < 3) {
    dt_sym_t q = SYM(dt__arg(env, atom, 1));
    dt_sym_t y = dt__sym_floordiv(env, SYM(dt__poly_node(env, &x)), q);
    ok = y.id && dt__poly_load(env, &bound, y.id) && put(env, next, a, &bound, rest);
  } else {
    ok = false;
  }
  dt__poly_fini(&x);
  dt__poly_fini(&coef);
  dt__poly_fini(&others);
  dt__poly_fini(&bound);
  return ok;
}

// Proves A*t + rest >= 0 by putting a bound in t's place.
static bool eliminate(dt_symenv_t *env, dt_proof_t *proof, uint32_t t, const dt_poly_t *a,
                      const dt_poly_t *rest, uint32_t facts) {
  uint32_t op = env->nodes[t].op;
  if (op == DT_SYM_SELECT)
    return try_arguments(env, proof, t, 1, false, a, rest, facts);
  int sign = sign_of(env, proof, a);
  if (op == DT_SYM_MIN || op == DT_SYM_MAX)
    return try_arguments(env, proof, t, 0, sign == (op == DT_SYM_MIN ? -1 : 1), a, rest, facts);
  if (sign == 0)
    return false;
  dt_poly_t bound, next;
  dt__poly_init(&bound);
  dt__poly_init(&next);
  bool ok = false;
  if (op == DT_SYM_SYMBOL) {
    ok = sign > 0 || (dt__poly_load(env, &bound, env->symbols[env->nodes[t].value].extent) &&
                      dt__poly_add_literal(&bound, -1));
    ok = ok && put(env, &next, a, &bound, rest) && prove(env, proof, &next, facts);
  } else if (dt__range_of(env, dt__arg(env, t, 1)).lo >= 0) {
    if (op == DT_SYM_MOD) {
      ok = sign > 0 ||
           (dt__poly_load(env, &bound, dt__arg(env, t, 1)) && dt__poly_add_literal(&bound, -1));
      ok = ok && put(env, &next, a, &bound, rest) && prove(env, proof, &next, facts);
      if (!ok && sign < 0 && dt__range_of(env, dt__arg(env, t, 0)).lo >= 0) // x%q <= x
        ok = dt__poly_load(env, &bound, dt__arg(env, t, 0)) && put(env, &next, a, &bound, rest) &&
             prove(env, proof, &next, facts);
    } else {
      ok = quotient_bound(env, &next, t, a, rest, sign) && prove(env, proof, &next, facts);
      if (!ok)
        ok = quotient_by_loops(env, proof, &next, t, a, rest, sign) &&
             prove(env, proof, &next, facts);
      if (!ok)
        ok = quotient_scaled(env, &next, t, a, rest, sign) && prove(env, proof, &next, facts);
    }
  }
  dt__poly_fini(&bound);
  dt__poly_fini(&next);
  return ok;
}

// Subtracts the fact from d so often that its term in `less` is gone, and goes on.
static bool by_fact(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d,
                    const dt_poly_term_t *less, uint32_t fact, uint32_t facts) {
  dt_poly_t f, next;
  dt__poly_init(&f);
  dt__poly_init(&next);
  int64_t scale = 1;
  bool ok = env->facts[fact].ge0 && env->facts[fact].late <= proof->late &&
            dt__poly_load(env, &f, env->facts[fact].ge0);
  for (uint32_t k = 0; ok && k < f.n; k++)
    // INT64_MIN % -1 traps, so that one is asked first.
    if (f.t[k].mono == less->mono && f.t[k].coef < 0 && less->coef != INT64_MIN &&
        less->coef % f.t[k].coef == 0)
      scale = less->coef / f.t[k].coef;
  ok = ok && dt__poly_copy(env, &next, d) && dt__poly_add(env, &next, &f, -scale) &&
       prove(env, proof, &next, facts + 1);
  dt__poly_fini(&f);
  dt__poly_fini(&next);
  return ok;
}

// Tries the facts of a list, the newest first; a fixed number, so that a question's cost does not
// grow with the facts about a size that many are about.
static bool by_list(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d,
                    const dt_poly_term_t *less, uint32_t *head, uint32_t facts) {
  uint32_t at = head ? dt__use_live(env, head) : 0;
  for (int n = 0; at && n < MAX_LIST && proof->steps > 0; at = env->uses[at].next, n++)
    if (by_fact(env, proof, d, less, env->uses[at].what, facts))
      return true;
  return false;
}

// Subtracts a fact f >= 0 that takes away a negative term of d, and goes on: first those that take
// away a positive one as well.
static bool by_facts(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d, uint32_t facts) {
  if (!env->n_facts || d->n > SYM_MAX_REFINE_TERMS) // pairs of terms are looked at
    return false;
  for (uint32_t k = 0; k < d->n; k++)
    for (uint32_t j = 0; d->t[k].coef < 0 && j < d->n; j++)
      if (d->t[j].coef > 0 &&
          by_list(env, proof, d, &d->t[k], dt__fact_pair(env, d->t[k].mono, d->t[j].mono), facts))
        return true;
  for (uint32_t k = 0; k < d->n; k++)
    if (d->t[k].coef < 0 && by_list(env, proof, d, &d->t[k], &env->nodes[d->t[k].mono].less, facts))
      return true;
  return false;
}

// Puts the latest symbol that stands in a product to a literal bound.
static bool by_literal_bound(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d,
                             uint32_t facts) {
  uint32_t t = 0;
  for (uint32_t k = 0; k < d->n; k++)
    for (uint32_t f = 0; f < dt__mono_count(env, d->t[k].mono); f++) {
      uint32_t atom = dt__mono_factor(env, d->t[k].mono, f);
      if (env->nodes[d->t[k].mono].op == DT_SYM_MUL && atom > t)
        t = atom;
    }
  if (!t)
    return false;
  dt_poly_t a, rest, bound, next;
  dt__poly_init(&a);
  dt__poly_init(&rest);
  dt__poly_init(&bound);
  dt__poly_init(&next);
  bool ok = dt__poly_split(env, d, t, &a, &rest);
  int sign = ok ? sign_of(env, proof, &a) : 0;
  dt_range_t r = atom_range(env, proof, t);
  bound.c = sign > 0 ? r.lo : r.hi;
  ok = sign != 0 && bound.c != INT64_MIN && bound.c != INT64_MAX &&
       put(env, &next, &a, &bound, &rest) && prove(env, proof, &next, facts);
  dt__poly_fini(&a);
  dt__poly_fini(&rest);
  dt__poly_fini(&bound);
  dt__poly_fini(&next);
  return ok;
}

// The positives that d brings in hold where d is evaluated, which may be one branch of a selection:
// the caller takes them back.
static bool prove_here(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d, uint32_t facts) {
  for (uint32_t k = 0; k < d->n; k++)
    for (uint32_t f = 0; f < dt__mono_count(env, d->t[k].mono); f++)
      note_atom(env, proof, dt__mono_factor(env, d->t[k].mono, f));
  if (lower_end(env, proof, d) >= 0)
    return true;
  if (d->n == 0)
    return false;
  bool ok = false;
  dt_poly_t a, rest;
  dt__poly_init(&a);
  dt__poly_init(&rest);
  for (uint32_t t = UINT32_MAX; !ok && proof->steps > 0 && (t = next_atom(env, d, t));)
    if (dt__poly_split(env, d, t, &a, &rest))
      ok = eliminate(env, proof, t, &a, &rest, facts);
  dt__poly_fini(&a);
  dt__poly_fini(&rest);
  if (!ok && facts < MAX_CHAIN)
    ok = by_facts(env, proof, d, facts);
  return ok || by_literal_bound(env, proof, d, facts);
}

static bool prove(dt_symenv_t *env, dt_proof_t *proof, const dt_poly_t *d, uint32_t facts) {
  proof->steps -= 1 + (int)(d->n / TERMS_A_STEP);
  if (proof->steps < 0)
    return false;
  uint32_t n_positive = proof->n_positive;
  bool ok = prove_here(env, proof, d, facts);
  proof->n_positive = n_positive;
  return ok;
}

bool dt__prove_ge0(dt_symenv_t *env, const dt_poly_t *p, uint32_t positive) {
  dt_range_t r = dt__poly_range(env, p);
  if (r.lo >= 0)
    return true;
  if (p->n == 0 || r.hi < 0 || env->prove_depth >= 3)
    return false;
  int most = env->n_steps < MAX_ALL_STEPS ? STEPS : LATER_STEPS;
  dt_proof_t proof = {.steps = most};
  for (uint32_t k = 0; k < p->n; k++)
    if (env->nodes[p->t[k].mono].late > proof.late)
      proof.late = env->nodes[p->t[k].mono].late;
  env->prove_depth++;
  env->quiet++;
  if (positive)
    note_positive(env, &proof, positive);
  bool ok = prove(env, &proof, p, 0);
  env->n_steps += (uint32_t)(most - (proof.steps < 0 ? 0 : proof.steps));
  env->quiet--;
  env->prove_depth--;
  return ok;
}
