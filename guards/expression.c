// SPDX-License-Identifier: Apache-2.0
// Conditions as records: cheap kinds, which fit most of them, and postfix code for the others.
#include "guards/build.h"

#include "runtime/base/status.h"

dt_status_t dt__guard_check_bound(const dt_guard_build_t *build, dt_sym_t e, const char *what) {
  dt_sym_view_t view = dt__sym_view(build->env, e);
  if (view.op == DT_SYM_NONE)
    return DT_FAIL(DT_E_INTERNAL, "guards: %s is no expression", what);
  if (view.op == DT_SYM_SYMBOL) {
    if (view.symbol < build->n_symbols && build->bound[view.symbol])
      return NULL;
    dt_text_t text;
    dt__text_init(&text);
    dt__sym_print(build->env, e, &text);
    dt_status_t status =
        DT_FAIL(DT_E_INTERNAL, "guards: %s uses the symbol %s (%s), which no input binds", what,
                dt__text_str(&text), dt__symbol_info(build->env, view.symbol).name);
    dt__text_fini(&text);
    return status;
  }
  for (uint32_t k = 0; k < view.n_args; k++)
    DT_TRY(dt__guard_check_bound(build, view.args[k], what));
  return NULL;
}

// ---- Postfix code -------------------------------------------------------------------------------
static dt_status_t put_step(dt_guard_build_t *build, uint32_t first, dt_guard_step_t step) {
  if (build->steps.len - first >= DT_GUARD_MAX_STEPS)
    return DT_FAIL(DT_E_LIMIT, "guards: a condition takes more than %u steps", DT_GUARD_MAX_STEPS);
  if (!DT_VEC_PUSH(&build->arena, &build->steps, step))
    return DT_NO_MEMORY();
  return NULL;
}

static bool is_ring(const dt_guard_build_t *build, dt_sym_t e) {
  dt_sym_op_t op = dt__sym_view(build->env, e).op;
  return op == DT_SYM_ADD || op == DT_SYM_MUL;
}

// Leaves the value of `e` on a stack that holds `depth` values.
static dt_status_t compile(dt_guard_build_t *build, uint32_t first, dt_sym_t e, uint32_t depth) {
  dt_sym_view_t view = dt__sym_view(build->env, e);
  dt_guard_step_t step = {.op = view.op, .symbol = view.symbol, .value = view.value};
  // The deepest point is just before the last operands are joined: three values for select.
  if (depth + 3 > DT_GUARD_MAX_STACK)
    return DT_FAIL(DT_E_LIMIT, "guards: a condition is nested more than %u deep",
                   DT_GUARD_MAX_STACK - 3);
  if (view.n_args == 0)
    return put_step(build, first, step);
  bool ring = is_ring(build, e);
  bool folds = view.n_args > 1 && view.op != DT_SYM_SELECT;
  for (uint32_t k = 0; k < view.n_args; k++) {
    uint32_t below = folds ? (k > 0) : k;
    DT_TRY(compile(build, first, view.args[k], depth + below));
    if (!ring && is_ring(build, view.args[k]))
      DT_TRY(put_step(build, first, (dt_guard_step_t){.op = DT_GUARD_OP_NARROW}));
    if (folds && k > 0)
      DT_TRY(put_step(build, first, step));
  }
  if (!folds && (view.op == DT_SYM_SELECT || view.op == DT_SYM_NOT))
    return put_step(build, first, step);
  return NULL;
}

dt_status_t dt__guard_compile(dt_guard_build_t *build, dt_sym_t e, uint32_t *out_at,
                              uint32_t *out_n) {
  DT_TRY(dt__guard_check_bound(build, e, "a condition"));
  uint32_t first = build->steps.len;
  DT_TRY(compile(build, first, e, 0));
  if (is_ring(build, e))
    DT_TRY(put_step(build, first, (dt_guard_step_t){.op = DT_GUARD_OP_NARROW}));
  *out_at = first;
  *out_n = build->steps.len - first;
  return NULL;
}

// ---- Forms --------------------------------------------------------------------------------------
// A comparison's sides, each a symbol or a literal or neither.
typedef struct sides_t {
  bool a_symbol, b_symbol, a_literal, b_literal;
  uint32_t a, b;
  int64_t x, y;
} sides_t;

static sides_t sides_of(const dt_symenv_t *env, const dt_sym_view_t *view) {
  sides_t s = {0};
  s.a_symbol = dt__sym_is_symbol(env, view->args[0], &s.a);
  s.b_symbol = dt__sym_is_symbol(env, view->args[1], &s.b);
  s.a_literal = dt__sym_is_const(env, view->args[0], &s.x);
  s.b_literal = dt__sym_is_const(env, view->args[1], &s.y);
  return s;
}

static bool symbol_to_literal(dt_sym_op_t op, const sides_t *s, dt_guard_t *g) {
  bool swapped = s->a_literal && s->b_symbol;
  if (!swapped && !(s->a_symbol && s->b_literal))
    return false;
  int64_t value = swapped ? s->x : s->y;
  bool strict = op == DT_SYM_LT;
  g->at = swapped ? s->b : s->a;
  g->kind = DT_GUARD_symbol_range;
  g->a = INT64_MIN;
  g->b = INT64_MAX;
  if (op == DT_SYM_EQ) {
    g->a = g->b = value;
  } else if (op == DT_SYM_NE) {
    g->kind = DT_GUARD_symbol_not;
    g->a = value;
    g->b = 0;
  } else if (swapped) { // value < symbol
    if (strict && value == INT64_MAX)
      return false;
    g->a = value + strict;
  } else { // symbol < value
    if (strict && value == INT64_MIN)
      return false;
    g->b = value - strict;
  }
  return true;
}

static bool symbol_to_symbol(dt_sym_op_t op, const sides_t *s, dt_guard_t *g) {
  if (!s->a_symbol || !s->b_symbol)
    return false;
  g->kind = op == DT_SYM_EQ   ? DT_GUARD_symbols_eq
            : op == DT_SYM_NE ? DT_GUARD_symbols_ne
            : op == DT_SYM_LT ? DT_GUARD_symbols_lt
                              : DT_GUARD_symbols_le;
  g->at = s->a;
  g->other = s->b;
  return true;
}

// symbol % divisor == rest, or !=
static bool symbol_modulo(const dt_symenv_t *env, const dt_sym_view_t *view, const sides_t *s,
                          dt_guard_t *g) {
  if (view->op > DT_SYM_NE || (!s->a_literal && !s->b_literal))
    return false;
  dt_sym_view_t mod = dt__sym_view(env, view->args[s->a_literal ? 1 : 0]);
  if (mod.op != DT_SYM_MOD || !dt__sym_is_symbol(env, mod.args[0], &g->at) ||
      !dt__sym_is_const(env, mod.args[1], &g->a) || g->a <= 0)
    return false;
  g->kind = view->op == DT_SYM_EQ ? DT_GUARD_symbol_mod : DT_GUARD_symbol_not_mod;
  g->b = s->a_literal ? s->x : s->y;
  return true;
}

static bool cheap_form(const dt_symenv_t *env, dt_sym_t cond, dt_guard_t *g) {
  dt_sym_view_t view = dt__sym_view(env, cond);
  if (view.op < DT_SYM_EQ || view.op > DT_SYM_LE)
    return false;
  sides_t s = sides_of(env, &view);
  return symbol_to_literal(view.op, &s, g) || symbol_to_symbol(view.op, &s, g) ||
         symbol_modulo(env, &view, &s, g);
}
_Static_assert(DT_SYM_LE - DT_SYM_EQ == 3, "ORDER(sym_ops): EQ, NE, LT, LE");

dt_status_t dt__guard_condition(dt_guard_build_t *build, dt_sym_t cond, const dt_origin_t *origin) {
  dt_sym_view_t view = dt__sym_view(build->env, cond);
  if (view.op == DT_SYM_AND) {
    for (uint32_t k = 0; k < view.n_args; k++)
      DT_TRY(dt__guard_condition(build, view.args[k], origin));
    return NULL;
  }
  DT_TRY(dt__guard_check_bound(build, cond, "a condition"));
  dt_guard_t g = {0};
  if (!cheap_form(build->env, cond, &g)) {
    g = (dt_guard_t){.kind = DT_GUARD_expr};
    DT_TRY(dt__guard_compile(build, cond, &g.at, &g.other));
  }
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(build->env, cond, &text);
  return dt__guard_emit(build, g, &text, origin);
}
