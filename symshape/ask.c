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

dt_sym_t dt__sym_try(dt_symenv_t *env, dt_sym_t (*op)(dt_symenv_t *, dt_sym_t, dt_sym_t),
                     dt_sym_t a, dt_sym_t b) {
  env->quiet++;
  dt_sym_t made = a.id && b.id ? op(env, a, b) : DT_SYM_NONE_ID;
  env->quiet--;
  return made;
}

bool dt__sym_known_le(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  dt_sym_t fact = dt__sym_try(env, dt__sym_le, a, b);
  return fact.id && dt__sym_known_true(env, fact);
}

bool dt__syms_known_eq(dt_symenv_t *env, uint32_t n, const dt_sym_t *a, const dt_sym_t *b) {
  bool same = true;
  for (uint32_t k = 0; k < n && same; k++)
    same = dt__sym_known_eq(env, a[k], b[k]);
  return same;
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
static void put_symbols(dt_symenv_t *env, dt_sym_t e, const char *before, dt_text_t *text) {
  uint32_t symbols[MESSAGE_SYMBOLS];
  uint32_t n = dt__sym_symbols(env, e, symbols, MESSAGE_SYMBOLS);
  for (uint32_t k = 0; k < n && k < MESSAGE_SYMBOLS; k++) {
    dt_symbol_info_t info = dt__symbol_info(env, symbols[k]);
    char letter[16];
    dt__symbol_letter(env, symbols[k], letter);
    dt__text_printf(text, "%s%s", k ? ", " : before, letter);
    if (info.name[0])
      dt__text_printf(text, " is %s", info.name);
    if (info.has_hint)
      dt__text_printf(text, " = %lld", (long long)info.hint);
  }
}

// ", have 5 and 384" where the hints say so.
static void put_hints(dt_symenv_t *env, dt_sym_t a, dt_sym_t b, dt_text_t *text) {
  int64_t l, r;
  if (dt__sym_hint(env, a, &l) && dt__sym_hint(env, b, &r) &&
      !(dt__sym_is_const(env, a, NULL) && dt__sym_is_const(env, b, NULL)))
    dt__text_printf(text, ", have %lld and %lld", (long long)l, (long long)r);
}

// The comparison that was false as it was built, in its own words: "s1 == 384, have 5 and 384; …".
static void put_refused(dt_symenv_t *env, dt_text_t *text) {
  dt_sym_t a = env->refused.a, b = env->refused.b;
  const char *op = env->refused.op == DT_SYM_EQ   ? "=="
                   : env->refused.op == DT_SYM_NE ? "!="
                   : env->refused.op == DT_SYM_LT ? "<"
                                                  : "<=";
  dt__sym_print(env, a, text);
  dt__text_printf(text, " %s ", op);
  dt__sym_print(env, b, text);
  put_hints(env, a, b, text);
  put_symbols(env, a, "; ", text);
  put_symbols(env, b, "; ", text);
}

void dt__sym_explain_false(dt_symenv_t *env, dt_sym_t cond, dt_text_t *text) {
  dt_sym_view_t view = dt__sym_view(env, cond);
  if (view.op != DT_SYM_CONST) {
    dt__sym_print(env, cond, text);
    if (view.op >= DT_SYM_EQ && view.op <= DT_SYM_LE)
      put_hints(env, view.args[0], view.args[1], text);
    put_symbols(env, cond, "; ", text);
  } else if (env->refused.op != DT_SYM_NONE) {
    put_refused(env, text);
  }
}

// "expected s1 == 384, have 5 and 384; s1 is ids.size(1) = 5"
static void put_question(dt_symenv_t *env, dt_sym_t cond, dt_text_t *text) {
  dt_text_t words;
  dt__text_init(&words);
  dt__sym_explain_false(env, cond, &words);
  if (words.len)
    dt__text_printf(text, "expected %s", dt__text_str(&words));
  else
    dt__text_put(text, "the condition is false for all sizes");
  dt__text_fini(&words);
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

// What a condition implies may change how the condition itself reads: it is learned again until it
// is plainly true. A condition on data holds from when the newest of its numbers is read; what is
// older may be used before that, so nothing is learned of it: not what a range or a replacement
// would say at all times, and facts are for questions that are as late.
#define LEARN_ROUNDS 4
#define LEARN_SYMBOLS 32u

static dt_status_t learn(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  dt_sym_fact_t before = env->asked;
  uint32_t late = env->late, n_learned = env->n_learned;
  env->n_learned = 0;
  env->asked = (dt_sym_fact_t){.cond = cond};
  if (origin)
    env->asked.origin = *origin;
  dt_tri_t answer = DT_TRUE;
  env->late = env->nodes[cond.id].late;
  for (int k = 0; k < LEARN_ROUNDS && answer == DT_TRUE; k++) {
    dt_sym_t now = dt__sym_simplify(env, cond);
    answer = dt__learn(env, cond.id, 0);
    answer = dt__both(answer, dt__propagate(env));
    if (answer == DT_TRUE && dt__sym_known(env, cond) == DT_TRUE)
      break;
    if (now.id && env->nodes[now.id].late < env->late) // the numbers in it are older ones by now
      break;
  }
  env->late = late;
  env->n_learned = n_learned;
  env->asked = before;
  env->refused.op = DT_SYM_NONE;
  if (answer == DT_TRUE)
    return NULL;
  if (answer == DT_UNKNOWN)
    return none_status(env);
  // What an op or the program asked for is the caller's problem; a fact of ours is not.
  return question_status(env, origin ? DT_E_SHAPE : DT_E_INTERNAL, cond, origin,
                         "a fact contradicts what is known", "");
}

// Where a condition made sizes, or older numbers, of a number from data, nothing about that number
// is late any more: its bounds, which hold from when it is read, are asked of what it has become.
// They are no more than the call is checked for later.
static dt_status_t ask_of_replaced(dt_symenv_t *env, const uint32_t *symbols, uint32_t n,
                                   const dt_origin_t *origin) {
  static const char what[] = "the bounds of a number that is read from data";
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(env, symbols[k]);
    dt_sym_t symbol = dt__symbol_sym(env, symbols[k]), now = dt__sym_simplify(env, symbol);
    if (info.kind != DT_SYMBOL_UNBACKED || !now.id ||
        env->nodes[now.id].late >= env->nodes[symbol.id].late)
      continue;
    if (info.range.lo != INT64_MIN)
      DT_TRY(dt__sym_require(env, dt__sym_le(env, dt__sym_const(env, info.range.lo), now), origin,
                             what));
    if (info.range.hi != INT64_MAX)
      DT_TRY(dt__sym_require(env, dt__sym_le(env, now, dt__sym_const(env, info.range.hi)), origin,
                             what));
  }
  return NULL;
}

dt_status_t dt__sym_learn_at(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  if (!cond.id)
    return none_status(env);
  uint32_t symbols[LEARN_SYMBOLS], n = dt__sym_symbols(env, cond, symbols, LEARN_SYMBOLS);
  DT_TRY(learn(env, cond, origin));
  if (!origin || env->frozen || !env->nodes[cond.id].late)
    return NULL;
  return ask_of_replaced(env, symbols, n < LEARN_SYMBOLS ? n : LEARN_SYMBOLS, origin);
}

dt_status_t dt__sym_learn(dt_symenv_t *env, dt_sym_t cond) {
  return dt__sym_learn_at(env, cond, NULL);
}

// Reports and learns an assumption. DT_E_SHAPE when it contradicts what is known.
static dt_status_t assume(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  if (!cond.id)
    return none_status(env);
  if (env->assume)
    env->assume(env->assume_user, env, cond, origin);
  return dt__sym_learn_at(env, cond, origin);
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

dt_status_t dt__sym_recheck(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin,
                            const char *what) {
  dt_sym_t args[8];
  uint32_t n = env->nodes[cond.id].n_args;
  if (n > 8)
    return NULL;
  for (uint32_t k = 0; k < n; k++)
    args[k] = dt__sym_simplify(env, SYM(dt__arg(env, cond.id, k)));
  dt_sym_t now = n ? dt__rebuild(env, (dt_sym_op_t)env->nodes[cond.id].op, args, n) : cond;
  if (!now.id || dt__sym_known(env, now) != DT_FALSE)
    return dt__symenv_status(env);
  return question_status(env, DT_E_SHAPE, cond, origin, what,
                         "it contradicts what else the program requires");
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
