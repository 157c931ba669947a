// SPDX-License-Identifier: Apache-2.0
// Implication. A second environment is filled with chosen facts only, and conditions of the graph's
// environment are asked in it. Symbols keep their indices there; expressions are rebuilt.
#include "guards/build.h"

#include "runtime/base/status.h"

static dt_range_t natural_range(dt_symbol_kind_t kind) {
  return kind == DT_SYMBOL_SIZE ? (dt_range_t){0, DT_SIZE_LIMIT - 1}
                                : (dt_range_t){INT64_MIN, INT64_MAX};
}

dt_status_t dt__guard_facts_init(dt_guard_facts_t *facts, dt_arena_t *arena,
                                 const dt_symenv_t *from, const dt_range_t *ranges) {
  *facts = (dt_guard_facts_t){.from = from};
  uint32_t n = dt__symenv_symbol_count(from);
  facts->symbols = DT_ARENA_ARRAY(arena, dt_sym_t, n);
  if (!facts->symbols)
    return DT_NO_MEMORY();
  DT_TRY(dt__symenv_create(&facts->env));
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(from, k);
    // Loop variables and indices from data occur in no guard; these keep the numbering.
    dt_symbol_kind_t kind = info.kind == DT_SYMBOL_LOOP ? DT_SYMBOL_DATA : info.kind;
    dt_range_t range = ranges ? ranges[k] : natural_range(kind);
    facts->symbols[k] = dt__sym_new(facts->env, kind, range, NULL, "");
  }
  dt_status_t status = dt__symenv_status(facts->env);
  if (status)
    dt__guard_facts_fini(facts);
  return status;
}

void dt__guard_facts_fini(dt_guard_facts_t *facts) {
  dt__symenv_destroy(facts->env);
  facts->env = NULL;
}

static dt_sym_t import(dt_guard_facts_t *facts, dt_sym_t e);

typedef dt_sym_t (*binary_fn_t)(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
static const binary_fn_t builders[DT_SYM_OP_COUNT] = {
    [DT_SYM_ADD] = dt__sym_add, [DT_SYM_MUL] = dt__sym_mul, [DT_SYM_MIN] = dt__sym_min,
    [DT_SYM_MAX] = dt__sym_max, [DT_SYM_AND] = dt__sym_and, [DT_SYM_OR] = dt__sym_or,
    [DT_SYM_EQ] = dt__sym_eq,   [DT_SYM_NE] = dt__sym_ne,   [DT_SYM_LT] = dt__sym_lt,
    [DT_SYM_LE] = dt__sym_le,   [DT_SYM_MOD] = dt__sym_mod, [DT_SYM_FLOORDIV] = dt__sym_floordiv,
    [DT_SYM_SHL] = dt__sym_shl, [DT_SYM_SHR] = dt__sym_shr,
};

// The same expression here; none where it cannot be had. Depth is bounded by the environment's.
static dt_sym_t import(dt_guard_facts_t *facts, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(facts->from, e);
  if (view.op == DT_SYM_CONST)
    return dt__sym_const(facts->env, view.value);
  if (view.op == DT_SYM_SYMBOL)
    return facts->symbols[view.symbol];
  if (view.n_args == 0)
    return DT_SYM_NONE_ID;
  dt_sym_t first = import(facts, view.args[0]);
  if (view.op == DT_SYM_NOT)
    return dt__sym_not(facts->env, first);
  if (view.op == DT_SYM_SELECT) {
    dt_sym_t a = import(facts, view.args[1]);
    return dt__sym_select(facts->env, first, a, import(facts, view.args[2]));
  }
  binary_fn_t build = builders[view.op];
  for (uint32_t k = 1; build && k < view.n_args; k++)
    first = build(facts->env, first, import(facts, view.args[k]));
  return build ? first : DT_SYM_NONE_ID;
}

// Whether no divisor in `e` can be 0 and no shift can leave 64 bits. The simplifier decides what an
// expression is where it has a value; a condition that may have none must be kept to be a miss
// there.
static bool divides(dt_guard_facts_t *facts, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(facts->from, e);
  if (view.op == DT_SYM_FLOORDIV || view.op == DT_SYM_MOD) {
    dt_sym_t by = import(facts, view.args[1]);
    dt_sym_t zero = dt__sym_const(facts->env, 0);
    if (!dt__sym_known_true(facts->env, dt__sym_ne(facts->env, by, zero)))
      return false;
  }
  if (view.op == DT_SYM_SHL || view.op == DT_SYM_SHR) {
    dt_range_t count = dt__sym_range(facts->env, import(facts, view.args[1]));
    dt_range_t value = dt__sym_range(facts->env, import(facts, e));
    if (count.lo < 0 || count.hi > 62 || value.lo == INT64_MIN || value.hi == INT64_MAX)
      return false;
  }
  for (uint32_t k = 0; k < view.n_args; k++) {
    if (!divides(facts, view.args[k]))
      return false;
  }
  return true;
}

bool dt__guard_facts_imply(dt_guard_facts_t *facts, dt_sym_t cond) {
  dt_sym_t here = import(facts, cond);
  return here.id && dt__sym_known_true(facts->env, here) && divides(facts, cond);
}

void dt__guard_facts_learn(dt_guard_facts_t *facts, dt_sym_t cond) {
  dt_sym_t here = import(facts, cond);
  if (here.id && dt__sym_known(facts->env, here) == DT_UNKNOWN)
    dt_status_free(dt__sym_learn(facts->env, here));
}

dt_range_t dt__guard_facts_range(const dt_guard_facts_t *facts, uint32_t symbol) {
  return dt__symbol_info(facts->env, symbol).range;
}
