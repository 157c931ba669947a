// SPDX-License-Identifier: Apache-2.0
// Bounds and residues of expressions from the bounds and residues of symbols.
//
// Bounds are of exact integers: INT64_MIN as lo and INT64_MAX as hi stand for infinity, and an end
// that would lie beyond 64 bits becomes infinite or stays one inside of the other end, so that lo
// is never INT64_MAX and hi never INT64_MIN.
#include "symshape/sym_private.h"

typedef __int128 wide_t;

static int64_t clamp_lo(wide_t v) {
  return v < INT64_MIN ? INT64_MIN : v >= INT64_MAX ? INT64_MAX - 1 : (int64_t)v;
}
static int64_t clamp_hi(wide_t v) {
  return v > INT64_MAX ? INT64_MAX : v <= INT64_MIN ? INT64_MIN + 1 : (int64_t)v;
}
static dt_range_t tidy(dt_range_t r) {
  return (dt_range_t){r.lo == INT64_MAX ? INT64_MAX - 1 : r.lo,
                      r.hi == INT64_MIN ? INT64_MIN + 1 : r.hi};
}

dt_range_t dt__range_add(dt_range_t a, dt_range_t b) {
  dt_range_t r;
  r.lo = a.lo == INT64_MIN || b.lo == INT64_MIN ? INT64_MIN : clamp_lo((wide_t)a.lo + b.lo);
  r.hi = a.hi == INT64_MAX || b.hi == INT64_MAX ? INT64_MAX : clamp_hi((wide_t)a.hi + b.hi);
  return r;
}

#define WIDE_INF ((wide_t)1 << 100)
static wide_t corner(int64_t a, int64_t b) {
  if (a == 0 || b == 0)
    return 0;
  bool infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
  if (infinite)
    return (a < 0) == (b < 0) ? WIDE_INF : -WIDE_INF;
  return (wide_t)a * b;
}

dt_range_t dt__range_mul(dt_range_t a, dt_range_t b) {
  wide_t v[4] = {corner(a.lo, b.lo), corner(a.lo, b.hi), corner(a.hi, b.lo), corner(a.hi, b.hi)};
  wide_t lo = v[0], hi = v[0];
  for (int k = 1; k < 4; k++) {
    lo = v[k] < lo ? v[k] : lo;
    hi = v[k] > hi ? v[k] : hi;
  }
  return (dt_range_t){clamp_lo(lo), clamp_hi(hi)};
}

static dt_range_t meet(dt_range_t a, dt_range_t b) {
  return (dt_range_t){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}
static dt_range_t join(dt_range_t a, dt_range_t b) {
  return (dt_range_t){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}
static const dt_range_t everything = {INT64_MIN, INT64_MAX};

// A literal at the very ends would read as infinite: such a coefficient says nothing.
static dt_range_t literal_range(int64_t v) {
  if (v == INT64_MIN || v == INT64_MAX)
    return tidy((dt_range_t){v, v});
  return (dt_range_t){v, v};
}

static dt_range_t negate(dt_range_t r) {
  return tidy(
      (dt_range_t){r.hi == INT64_MAX ? INT64_MIN : -r.hi, r.lo == INT64_MIN ? INT64_MAX : -r.lo});
}

// a//b where b is as large as one likes when it is INT64_MAX.
static int64_t quotient(int64_t a, int64_t b) {
  return b == INT64_MAX ? (a < 0 ? -1 : 0) : dt__floordiv_i64(a, b);
}

// The divisor is at least 1 here: where it is 0 there is no value.
static dt_range_t div_range(dt_range_t p, dt_range_t q) {
  if (q.lo == 0 && q.hi == 0)
    return everything;
  if (q.hi < 0)
    return div_range(negate(p), negate(q));
  if (q.lo < 0) {
    if (p.lo == INT64_MIN || p.hi == INT64_MAX)
      return everything;
    int64_t a = p.lo < 0 ? -p.lo : p.lo, b = p.hi < 0 ? -p.hi : p.hi;
    int64_t m = a > b ? a : b;
    return (dt_range_t){-m, m};
  }
  int64_t least = q.lo < 1 ? 1 : q.lo, most = q.hi < least ? least : q.hi;
  dt_range_t r;
  r.lo = p.lo == INT64_MIN ? INT64_MIN : quotient(p.lo, p.lo < 0 ? least : most);
  r.hi = p.hi == INT64_MAX ? INT64_MAX : quotient(p.hi, p.hi < 0 ? most : least);
  return r;
}

static dt_range_t mod_range(dt_range_t p, dt_range_t q) {
  if (q.lo == 0 && q.hi == 0)
    return everything;
  if (q.lo >= 0) {
    int64_t most = q.hi == INT64_MAX ? INT64_MAX : q.hi < 1 ? 0 : q.hi - 1;
    if (p.lo >= 0 && p.hi < q.lo)
      return p;
    return (dt_range_t){0, p.lo >= 0 && p.hi < most ? p.hi : most};
  }
  int64_t low = q.lo == INT64_MIN ? INT64_MIN : q.lo + 1;
  if (q.hi <= 0)
    return (dt_range_t){low, 0};
  return (dt_range_t){low, q.hi == INT64_MAX ? INT64_MAX : q.hi - 1};
}

// The power by which shifts multiply or divide; counts beyond `most` have no value. 2^63 and more
// is as large as one likes.
static dt_range_t power_range(dt_range_t count, int64_t most) {
  int64_t lo = count.lo < 0 ? 0 : count.lo > most ? most : count.lo;
  int64_t hi = count.hi < lo ? lo : count.hi > most ? most : count.hi;
  return (dt_range_t){lo > 62 ? INT64_MAX - 1 : (int64_t)1 << lo,
                      hi > 62 ? INT64_MAX : (int64_t)1 << hi};
}

// x to the power n, n >= 1: even powers are never negative.
static dt_range_t whole_power(dt_range_t x, uint32_t n) {
  dt_range_t lo = {x.lo, x.lo}, hi = {x.hi, x.hi}, r = x;
  for (uint32_t k = 1; k < n; k++) {
    lo = dt__range_mul(lo, (dt_range_t){x.lo, x.lo});
    hi = dt__range_mul(hi, (dt_range_t){x.hi, x.hi});
  }
  if (n % 2) {
    r = (dt_range_t){lo.lo, hi.hi};
  } else {
    r = (dt_range_t){lo.lo < hi.lo ? lo.lo : hi.lo, lo.hi > hi.hi ? lo.hi : hi.hi};
    if (x.lo <= 0 && x.hi >= 0)
      r.lo = 0;
  }
  return r;
}

// A product: equal factors, which stand side by side, are taken together.
static dt_range_t product_range(dt_symenv_t *env, uint32_t id) {
  uint32_t n = env->nodes[id].n_args;
  dt_range_t r = {1, 1};
  for (uint32_t k = 0, run = 1; k < n; k += run) {
    uint32_t factor = dt__arg(env, id, k);
    for (run = 1; k + run < n && dt__arg(env, id, k + run) == factor;)
      run++;
    r = dt__range_mul(r, whole_power(dt__range_of(env, factor), run));
  }
  if (env->nodes[id].value) {
    // The monomial may have bounds of its own that its factors do not give.
    dt_range_t mono = dt__range_of(env, (uint32_t)env->nodes[id].value);
    r = meet(r, dt__range_mul(dt__range_of(env, dt__arg(env, id, 0)), mono));
  }
  return r;
}

// max(x, y) is at least half of x + y, min(x, y) at most; where that is a literal it is a bound.
static dt_range_t half_sum(dt_symenv_t *env, uint32_t id, bool max, dt_range_t r) {
  dt_poly_t p, q;
  dt__poly_init(&p);
  dt__poly_init(&q);
  env->quiet++;
  if (dt__poly_load(env, &p, dt__arg(env, id, 0)) && dt__poly_load(env, &q, dt__arg(env, id, 1)) &&
      p.n == q.n && dt__poly_add(env, &p, &q, 1) && p.n == 0) {
    int64_t down = dt__floordiv_i64(p.c, 2), up = down + (p.c % 2 != 0);
    if (max)
      r.lo = r.lo > up ? r.lo : up;
    else
      r.hi = r.hi < down ? r.hi : down;
  }
  env->quiet--;
  dt__poly_fini(&p);
  dt__poly_fini(&q);
  return r;
}

static dt_range_t minmax_range(dt_symenv_t *env, uint32_t id, bool max) {
  dt_range_t r = dt__range_of(env, dt__arg(env, id, 0));
  for (uint32_t k = 1; k < env->nodes[id].n_args; k++) {
    dt_range_t x = dt__range_of(env, dt__arg(env, id, k));
    if (max)
      r = (dt_range_t){r.lo > x.lo ? r.lo : x.lo, r.hi > x.hi ? r.hi : x.hi};
    else
      r = (dt_range_t){r.lo < x.lo ? r.lo : x.lo, r.hi < x.hi ? r.hi : x.hi};
  }
  return env->nodes[id].n_args == 2 ? half_sum(env, id, max, r) : r;
}

static dt_range_t symbol_range(dt_symenv_t *env, uint32_t id) {
  const dt_symbol_t *symbol = &env->symbols[env->nodes[id].value];
  if (symbol->kind != DT_SYMBOL_LOOP || !symbol->extent)
    return everything;
  dt_range_t extent = dt__range_of(env, dt__resolve(env, symbol->extent));
  int64_t hi = extent.hi == INT64_MAX ? INT64_MAX : extent.hi - 1;
  return (dt_range_t){0, hi < 0 ? 0 : hi};
}

static dt_range_t compute(dt_symenv_t *env, uint32_t id) {
  uint32_t op = env->nodes[id].op, n = env->nodes[id].n_args;
  dt_range_t r = everything;
  switch (op) {
  case DT_SYM_CONST:
    return literal_range(env->nodes[id].value);
  case DT_SYM_SYMBOL:
    return symbol_range(env, id);
  case DT_SYM_ADD:
    r = dt__range_of(env, dt__arg(env, id, 0));
    for (uint32_t k = 1; k < n; k++)
      r = dt__range_add(r, dt__range_of(env, dt__arg(env, id, k)));
    return r;
  case DT_SYM_MUL:
    return product_range(env, id);
  case DT_SYM_FLOORDIV:
    return div_range(dt__range_of(env, dt__arg(env, id, 0)),
                     dt__range_of(env, dt__arg(env, id, 1)));
  case DT_SYM_MOD:
    return mod_range(dt__range_of(env, dt__arg(env, id, 0)),
                     dt__range_of(env, dt__arg(env, id, 1)));
  case DT_SYM_SHL:
    return dt__range_mul(dt__range_of(env, dt__arg(env, id, 0)),
                         power_range(dt__range_of(env, dt__arg(env, id, 1)), 62));
  case DT_SYM_SHR:
    return div_range(dt__range_of(env, dt__arg(env, id, 0)),
                     power_range(dt__range_of(env, dt__arg(env, id, 1)), 63));
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return minmax_range(env, id, op == DT_SYM_MAX);
  case DT_SYM_SELECT:
    return join(dt__range_of(env, dt__arg(env, id, 1)), dt__range_of(env, dt__arg(env, id, 2)));
  default:
    return (dt_range_t){0, 1};
  }
}

dt_range_t dt__range_of(dt_symenv_t *env, uint32_t id) {
  if (!id)
    return everything;
  if (env->nodes[id].range_epoch == env->epoch)
    return env->nodes[id].range;
  dt_range_t r = tidy(compute(env, id));
  r = tidy(meet(r, (dt_range_t){env->nodes[id].lo, env->nodes[id].hi}));
  uint32_t rep = env->nodes[id].rep;
  if (rep && env->nodes[rep].range_epoch == env->epoch)
    r = meet(r, env->nodes[rep].range);
  env->nodes[id].range = r;
  env->nodes[id].range_epoch = env->epoch;
  return r;
}

dt_range_t dt__poly_range(dt_symenv_t *env, const dt_poly_t *p) {
  dt_range_t r = literal_range(p->c);
  for (uint32_t k = 0; k < p->n; k++)
    r = dt__range_add(r,
                      dt__range_mul(literal_range(p->t[k].coef), dt__range_of(env, p->t[k].mono)));
  return r;
}

bool dt__poly_fits(dt_symenv_t *env, const dt_poly_t *p) {
  if (p->n == 0 ||
      (p->n == 1 && p->c == 0 && p->t[0].coef == 1 && env->nodes[p->t[0].mono].op != DT_SYM_MUL))
    return true;
  dt_range_t r = dt__poly_range(env, p);
  return r.lo > INT64_MIN && r.hi < INT64_MAX;
}

bool dt__poly_plain(dt_symenv_t *env, const dt_poly_t *p) {
  for (uint32_t k = 0; k < p->n; k++)
    if (p->t[k].coef < 0 || dt__range_of(env, p->t[k].mono).lo < 0)
      return false;
  return p->c >= 0;
}

// ---- Residues ----------------------------------------------------------------------------------
static dt_congruence_t reduce(int64_t modulus, wide_t residue) {
  if (modulus == 0)
    return residue == (int64_t)residue ? (dt_congruence_t){0, (int64_t)residue}
                                       : (dt_congruence_t){1, 0};
  int64_t r = (int64_t)(residue % modulus);
  return (dt_congruence_t){modulus, r < 0 ? r + modulus : r};
}

static dt_congruence_t congruence_add(dt_congruence_t a, dt_congruence_t b) {
  return reduce(dt__gcd(a.modulus, b.modulus), (wide_t)a.residue + b.residue);
}

static dt_congruence_t congruence_mul(dt_congruence_t a, dt_congruence_t b) {
  wide_t mm = (wide_t)a.modulus * b.modulus, mr = (wide_t)a.modulus * b.residue,
         rm = (wide_t)a.residue * b.modulus;
  wide_t g = mm < 0 ? -mm : mm;
  wide_t parts[2] = {mr < 0 ? -mr : mr, rm < 0 ? -rm : rm};
  for (int k = 0; k < 2; k++)
    for (wide_t x = parts[k]; x;) {
      wide_t r = g % x;
      g = x;
      x = r;
    }
  if (g > INT64_MAX)
    return (dt_congruence_t){1, 0};
  return reduce((int64_t)g, (wide_t)a.residue * b.residue);
}

static dt_congruence_t congruence_join(dt_congruence_t a, dt_congruence_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a.residue, b.residue, &difference))
    return (dt_congruence_t){1, 0};
  int64_t m = dt__gcd(dt__gcd(a.modulus, b.modulus), difference);
  return reduce(m, a.residue);
}

// x//c and x%c for x == residue (mod m): the first is known modulo m/c where c divides m, the
// second modulo what c and m have in common.
static dt_congruence_t congruence_div(dt_symenv_t *env, uint32_t id, uint32_t depth) {
  dt_congruence_t x = {1, 0};
  int64_t c;
  if (!dt__literal_value(env, dt__arg(env, id, 1), &c) || c < 2)
    return x;
  x = dt__congruence(env, dt__arg(env, id, 0), depth);
  if (env->nodes[id].op == DT_SYM_MOD)
    return x.modulus ? reduce(dt__gcd(x.modulus, c), x.residue)
                     : (dt_congruence_t){0, dt__mod_i64(x.residue, c)};
  if (x.modulus % c)
    return (dt_congruence_t){1, 0};
  return reduce(x.modulus / c, dt__floordiv_i64(x.residue, c));
}

dt_congruence_t dt__congruence(dt_symenv_t *env, uint32_t id, uint32_t depth) {
  const dt_congruence_t unknown = {1, 0};
  const dt_sym_node_t *node = &env->nodes[id];
  uint32_t first = 0, n = node->n_args;
  switch (node->op) {
  case DT_SYM_CONST:
    return (dt_congruence_t){0, node->value};
  case DT_SYM_SYMBOL:
    return (dt_congruence_t){env->symbols[node->value].modulus, env->symbols[node->value].residue};
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    return depth ? congruence_div(env, id, depth - 1) : unknown;
  case DT_SYM_SELECT:
    first = 1;
    break;
  case DT_SYM_ADD:
  case DT_SYM_MUL:
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    break;
  default:
    return unknown;
  }
  if (depth == 0)
    return unknown;
  dt_congruence_t c = dt__congruence(env, dt__arg(env, id, first), depth - 1);
  for (uint32_t k = first + 1; k < n; k++) {
    dt_congruence_t x = dt__congruence(env, dt__arg(env, id, k), depth - 1);
    c = node->op == DT_SYM_ADD   ? congruence_add(c, x)
        : node->op == DT_SYM_MUL ? congruence_mul(c, x)
                                 : congruence_join(c, x);
  }
  return c;
}

dt_congruence_t dt__poly_congruence(dt_symenv_t *env, const dt_poly_t *p) {
  dt_congruence_t c = {0, p->c};
  for (uint32_t k = 0; k < p->n && c.modulus != 1; k++)
    c = congruence_add(c, congruence_mul((dt_congruence_t){0, p->t[k].coef},
                                         dt__congruence(env, p->t[k].mono, 3)));
  return c;
}
