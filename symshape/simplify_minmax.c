// SPDX-License-Identifier: Apache-2.0
// Smallest, largest and selection: rules MINMAX_* and SELECT_*.
#include "symshape/sym_private.h"

#include <string.h>

#define PAIRWISE 16 // with more arguments, only bounds are compared

// x <= y for MIN, x >= y for MAX, whatever the symbols.
static bool dominates(dt_symenv_t *env, dt_sym_op_t op, uint32_t x, uint32_t y, bool prove) {
  dt_range_t a = dt__range_of(env, x), b = dt__range_of(env, y);
  if (op == DT_SYM_MIN ? a.hi <= b.lo && a.hi != INT64_MAX : a.lo >= b.hi && b.hi != INT64_MAX)
    return true;
  if (!prove)
    return false;
  dt_poly_t p, q;
  dt__poly_init(&p);
  dt__poly_init(&q);
  env->quiet++;
  bool ok = dt__poly_load(env, &p, op == DT_SYM_MIN ? y : x) &&
            dt__poly_load(env, &q, op == DT_SYM_MIN ? x : y) && dt__poly_add(env, &p, &q, -1) &&
            dt__prove_ge0(env, &p, 0);
  env->quiet--;
  dt__poly_fini(&p);
  dt__poly_fini(&q);
  return ok;
}

// Folds literals, drops what another argument dominates; returns how many are left.
static uint32_t reduce(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t *items, uint32_t n) {
  dt__sym_sort(env, items, n);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n; k++) {
    int64_t a, b;
    if (kept && items[kept - 1].id == items[k].id) {
      dt__rule(env, DT_RULE_MINMAX_FLAT);
    } else if (kept && dt__literal_value(env, items[kept - 1].id, &a) &&
               dt__literal_value(env, items[k].id, &b)) {
      dt__rule(env, DT_RULE_MINMAX_LITERALS);
      if (op == DT_SYM_MIN ? b < a : b > a)
        items[kept - 1] = items[k];
    } else {
      items[kept++] = items[k];
    }
  }
  for (uint32_t k = 0; k < kept; k++)
    for (uint32_t j = 0; j < kept; j++)
      if (j != k && dominates(env, op, items[k].id, items[j].id, n <= PAIRWISE)) {
        dt__rule(env, DT_RULE_MINMAX_BOUND);
        memmove(items + j, items + j + 1, (kept - j - 1) * sizeof *items);
        kept--;
        k -= j < k;
        j--;
      }
  return kept;
}

dt_sym_t dt__build_minmax(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n) {
  dt_sym_items_t items;
  if (!dt__items_open(env, op, args, n, &items))
    return DT_SYM_NONE_ID;
  if (items.n > n)
    dt__rule(env, DT_RULE_MINMAX_FLAT);
  uint32_t left = reduce(env, op, items.at, items.n);
  uint32_t id =
      left == 1 ? items.at[0].id : dt__finish(env, dt__intern(env, op, items.at, left, 0));
  dt__items_close(&items);
  return SYM(id);
}

static dt_sym_t minmax(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t a, dt_sym_t b) {
  uint32_t id;
  if (a.id && b.id && dt__cache_get(env, op, a.id, b.id, &id))
    return SYM(id);
  dt_sym_t args[2] = {a, b};
  dt_sym_t result = dt__build_minmax(env, op, args, 2);
  dt__cache_put(env, op, a.id, b.id, result.id);
  return result;
}

dt_sym_t dt__sym_min(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return minmax(env, DT_SYM_MIN, a, b);
}
dt_sym_t dt__sym_max(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return minmax(env, DT_SYM_MAX, a, b);
}

dt_sym_t dt__sym_select(dt_symenv_t *env, dt_sym_t cond, dt_sym_t a, dt_sym_t b) {
  if (!cond.id || !a.id || !b.id)
    return DT_SYM_NONE_ID;
  cond = dt__build_junction(env, DT_SYM_AND, &cond, 1); // 0 or 1
  if (!cond.id)
    return cond;
  a.id = dt__resolve(env, a.id);
  b.id = dt__resolve(env, b.id);
  int64_t value, x, y;
  if (dt__literal_value(env, cond.id, &value)) {
    dt__rule(env, DT_RULE_SELECT_KNOWN);
    return value ? a : b;
  }
  if (env->nodes[cond.id].op == DT_SYM_NE) {
    dt__rule(env, DT_RULE_SELECT_FLIP);
    dt_sym_t keep = a;
    cond = dt__sym_not(env, cond);
    a = b;
    b = keep;
    if (!cond.id)
      return cond;
  }
  if (env->nodes[a.id].op == DT_SYM_SELECT && dt__arg(env, a.id, 0) == cond.id) {
    dt__rule(env, DT_RULE_SELECT_NESTED);
    a = SYM(dt__arg(env, a.id, 1));
  }
  if (env->nodes[b.id].op == DT_SYM_SELECT && dt__arg(env, b.id, 0) == cond.id) {
    dt__rule(env, DT_RULE_SELECT_NESTED);
    b = SYM(dt__arg(env, b.id, 2));
  }
  if (a.id == b.id) {
    dt__rule(env, DT_RULE_SELECT_SAME);
    return a;
  }
  if (dt__literal_value(env, a.id, &x) && dt__literal_value(env, b.id, &y)) {
    if (x == 1 && y == 0) {
      dt__rule(env, DT_RULE_SELECT_SAME);
      return cond;
    }
    if (x == 0 && y == 1) {
      dt__rule(env, DT_RULE_SELECT_FLIP);
      return dt__sym_not(env, cond);
    }
  }
  if (env->nodes[cond.id].op == DT_SYM_EQ) {
    uint32_t l = dt__arg(env, cond.id, 0), r = dt__arg(env, cond.id, 1);
    if ((l == a.id && r == b.id) || (l == b.id && r == a.id)) {
      dt__rule(env, DT_RULE_SELECT_EQUAL);
      return b;
    }
  }
  dt_sym_t args[3] = {cond, a, b};
  return SYM(dt__finish(env, dt__intern(env, DT_SYM_SELECT, args, 3, 0)));
}
