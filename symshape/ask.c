// SPDX-License-Identifier: Apache-2.0
// Questions in three tiers (known, decide, require), specialisation, and their messages.
#include "symshape/sym_private.h"

#define MESSAGE_SYMBOLS 8u

dt_tri_t dt__sym_known(dt_symenv_t *env, dt_sym_t cond) {
  dt_sym_t e = dt__sym_simplify(env, cond);
  int64_t value;
  if (!e.id)
    return DT_UNKNOWN;
  if (dt__literal_value(env, e.id, &value))
    return value ? DT_TRUE : DT_FALSE;
  if (dt__is_bool(env, e.id))
    return DT_UNKNOWN;
  dt_range_t r = dt__range_of(env, e.id);
  return r.lo > 0 || r.hi < 0 ? DT_TRUE : DT_UNKNOWN;
}

bool dt__sym_known_eq(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return false;
  return a.id == b.id || dt__sym_known_true(env, dt__sym_eq(env, dt__sym_simplify(env, a),
                                                            dt__sym_simplify(env, b)));
}

// The failure that a none expression stands for.
static dt_status_t none_status(const dt_symenv_t *env) {
  dt_status_t status = dt__symenv_status(env);
  return status ? status : DT_FAIL(DT_E_INTERNAL, "a question about no expression");
}

static const char *op_of(const dt_origin_t *origin) {
  return origin && origin->op ? origin->op : "sizes";
}

// "; s1 is ids.size(1) = 5, s0 is batch"
static void put_symbols(dt_symenv_t *env, dt_sym_t e, dt_text_t *text) {
  uint32_t symbols[MESSAGE_SYMBOLS];
  uint32_t n = dt__sym_symbols(env, e, symbols, MESSAGE_SYMBOLS);
  for (uint32_t k = 0; k < n && k < MESSAGE_SYMBOLS; k++) {
    dt_symbol_info_t info = dt__symbol_info(env, symbols[k]);
    char letter[16];
    dt__symbol_letter(env, symbols[k], letter);
    dt__text_printf(text, "%s%s", k ? ", " : "; ", letter);
    if (info.name[0])
      dt__text_printf(text, " is %s", info.name);
    if (info.has_hint)
      dt__text_printf(text, " = %lld", (long long)info.hint);
  }
}

// "expected s1 == 384, have 5 and 384; s1 is ids.size(1) = 5"
static void put_question(dt_symenv_t *env, dt_sym_t cond, dt_text_t *text) {
  dt_sym_view_t view = dt__sym_view(env, cond);
  int64_t l, r;
  if (view.op == DT_SYM_CONST) {
    dt__text_put(text, "the condition is false for all sizes");
    return;
  }
  dt__text_put(text, "expected ");
  dt__sym_print(env, cond, text);
  if (view.op >= DT_SYM_EQ && view.op <= DT_SYM_LE && dt__sym_hint(env, view.args[0], &l) &&
      dt__sym_hint(env, view.args[1], &r))
    dt__text_printf(text, ", have %lld and %lld", (long long)l, (long long)r);
  put_symbols(env, cond, text);
}

static dt_status_t question_status(dt_symenv_t *env, dt_code_t code, dt_sym_t cond,
                                   const dt_origin_t *origin, const char *what, const char *why) {
  dt_text_t text;
  dt__text_init(&text);
  put_question(env, cond, &text);
  dt_status_t status;
  const char *join = why[0] ? ": " : "";
  if (origin && origin->file)
    status = DT_FAIL(code, "%s: %s: %s%s%s (%s:%d)", op_of(origin), what, why, join,
                     dt__text_str(&text), origin->file, origin->line);
  else
    status = DT_FAIL(code, "%s: %s: %s%s%s", op_of(origin), what, why, join, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

static const char *const frozen_why = "the sizes are frozen and this needs a guard";

// Reports and learns an assumption. DT_E_INTERNAL when it contradicts what is known.
static dt_status_t assume(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  if (!cond.id)
    return none_status(env);
  if (env->assume)
    env->assume(env->assume_user, env, cond, origin);
  return dt__sym_learn(env, cond);
}

// What a condition implies may change how the condition itself reads: it is learned again until it
// is plainly true.
#define LEARN_ROUNDS 4

dt_status_t dt__sym_learn(dt_symenv_t *env, dt_sym_t cond) {
  if (!cond.id)
    return none_status(env);
  dt_tri_t answer = DT_TRUE;
  for (int k = 0; k < LEARN_ROUNDS && answer == DT_TRUE; k++) {
    answer = dt__learn(env, cond.id, 0);
    if (answer == DT_TRUE && dt__sym_known(env, cond) == DT_TRUE)
      break;
  }
  if (answer == DT_TRUE)
    return NULL;
  if (answer == DT_UNKNOWN)
    return none_status(env);
  return question_status(env, DT_E_INTERNAL, cond, NULL, "a fact contradicts what is known", "");
}

dt_status_t dt__sym_decide(dt_symenv_t *env, dt_sym_t cond, bool otherwise,
                           const dt_origin_t *origin, bool *out) {
  *out = otherwise;
  if (!cond.id)
    return none_status(env);
  dt_tri_t known = dt__sym_known(env, cond);
  if (known != DT_UNKNOWN) {
    *out = known == DT_TRUE;
    return NULL;
  }
  int64_t hint;
  if (!dt__sym_hint(env, cond, &hint))
    return NULL;
  if (env->frozen)
    return question_status(env, DT_E_STATE, cond, origin, "a branch on a size", frozen_why);
  DT_TRY(assume(env, hint ? cond : dt__sym_not(env, cond), origin));
  *out = hint != 0;
  return NULL;
}

dt_status_t dt__sym_require(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin,
                            const char *what) {
  if (!cond.id)
    return none_status(env);
  dt_tri_t known = dt__sym_known(env, cond);
  if (known == DT_TRUE)
    return NULL;
  int64_t hint;
  bool hinted = dt__sym_hint(env, cond, &hint);
  if (known == DT_FALSE || (hinted && !hint))
    return question_status(env, DT_E_SHAPE, cond, origin, what, "");
  if (env->frozen)
    return question_status(env, DT_E_STATE, cond, origin, what, frozen_why);
  return assume(env, cond, origin);
}

dt_status_t dt__sym_specialize(dt_symenv_t *env, dt_sym_t e, const dt_origin_t *origin,
                               int64_t *out) {
  *out = 0;
  dt_sym_t now = dt__sym_simplify(env, e);
  if (!now.id)
    return none_status(env);
  if (dt__literal_value(env, now.id, out))
    return NULL;
  int64_t hint = 0;
  bool hinted = dt__sym_hint(env, now, &hint);
  dt_sym_t cond = dt__sym_eq(env, e, dt__sym_const(env, hint));
  if (!cond.id)
    return none_status(env);
  if (!hinted)
    return question_status(env, DT_E_STATE, now, origin, "a size is needed as a number",
                           "it has no value while tracing");
  if (env->frozen)
    return question_status(env, DT_E_STATE, cond, origin, "a size is needed as a number",
                           frozen_why);
  DT_TRY(assume(env, cond, origin));
  *out = hint;
  return NULL;
}
