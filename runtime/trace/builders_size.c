// SPDX-License-Identifier: Apache-2.0
// Builders over sizes: reading dims, arithmetic, questions that C control flow asks, and checks.
#include "runtime/trace/builder.h"

// ---- Reading ------------------------------------------------------------------------------------
uint32_t dt_value_rank(dt_trace_t *trace, dt_value_t x) {
  const dt_node_t *node =
      dt__trace_begin(trace, "value_rank") ? dt__trace_node(trace, x, "the value") : NULL;
  return node ? node->rank : 0;
}

dt_dtype_t dt_value_dtype(dt_trace_t *trace, dt_value_t x) {
  const dt_node_t *node =
      dt__trace_begin(trace, "value_dtype") ? dt__trace_node(trace, x, "the value") : NULL;
  return node ? node->dtype : DT_DTYPE_NONE;
}

dt_sym_t dt_dim(dt_trace_t *trace, dt_value_t x, int32_t axis) {
  const dt_node_t *node =
      dt__trace_begin(trace, "dim") ? dt__trace_node(trace, x, "the value") : NULL;
  uint32_t dim = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &dim))
    return DT_SYM_NONE_ID;
  return dt__trace_told(trace, dt__sym_simplify(trace->env, node->sizes[dim]));
}

// ---- Arithmetic ---------------------------------------------------------------------------------
dt_sym_t dt_sym_const(dt_trace_t *trace, int64_t value) {
  if (!dt__trace_begin(trace, "sym_const"))
    return DT_SYM_NONE_ID;
  return dt__trace_told(trace, dt__sym_const(trace->env, value));
}

#define UNARY(name)                                                                                \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a) {                                          \
    if (!dt__trace_begin(trace, "sym_" #name) || !dt__trace_sym(trace, &a, "the argument"))        \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_told(trace, dt__sym_##name(trace->env, a));                                   \
  }
UNARY(neg)
UNARY(abs)
UNARY(not)
#undef UNARY

static bool begin_binary(dt_trace_t *trace, const char *op, dt_sym_t *a, dt_sym_t *b) {
  return dt__trace_begin(trace, op) && dt__trace_sym(trace, a, "argument a") &&
         dt__trace_sym(trace, b, "argument b");
}

#define BINARY(name)                                                                               \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {                              \
    if (!begin_binary(trace, "sym_" #name, &a, &b))                                                \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_told(trace, dt__sym_##name(trace->env, a, b));                                \
  }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(min)
BINARY(max)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(and)
BINARY(or)
#undef BINARY

dt_sym_t dt_sym_select(dt_trace_t *trace, dt_sym_t cond, dt_sym_t a, dt_sym_t b) {
  if (!dt__trace_begin(trace, "sym_select") || !dt__trace_sym(trace, &cond, "the condition") ||
      !dt__trace_sym(trace, &a, "argument a") || !dt__trace_sym(trace, &b, "argument b"))
    return DT_SYM_NONE_ID;
  return dt__trace_told(trace, dt__sym_select(trace->env, cond, a, b));
}

// ---- Checks -------------------------------------------------------------------------------------
// Keeps `cond` as a check of each call, and as a fact from here on.
static void keep_check(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  dt_arena_t *arena = &trace->traced->arena;
  dt_graph_assert_t check = {
      .cond = cond, .what = dt__arena_strdup(arena, what), .origin = trace->origin};
  if (!check.what || !DT_VEC_PUSH(arena, &trace->graph->asserts, check))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  else
    (void)dt__trace_take(trace, dt__sym_learn_at(trace->env, cond, &trace->origin));
}

static void fail_check(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_explain_false(trace->env, cond, &text);
  if (text.len)
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s (the program's check of %s is false)", what,
                  dt__text_str(&text));
  else
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s", what);
  dt__text_fini(&text);
}

// What an operation needs: known, or kept by a guard, or, where it is about data, checked at each
// call. False: known to be false.
static bool need(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  uint32_t unbacked;
  if (!dt__trace_made(trace, cond).id)
    return false;
  if (!dt__sym_newest_unbacked(trace->env, cond, &unbacked) ||
      dt__sym_known(trace->env, cond) != DT_UNKNOWN)
    return dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin, what));
  keep_check(trace, cond, what);
  return !trace->status;
}

void dt_check(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  if (!dt__trace_begin(trace, "check") || !dt__trace_sym(trace, &cond, "the condition"))
    return;
  if (!what)
    what = "the program's check failed";
  dt_tri_t known = dt__sym_known(trace->env, cond);
  if (known == DT_TRUE)
    return;
  int64_t hint = 1;
  if (known == DT_FALSE || (dt__sym_hint(trace->env, cond, &hint) && !hint))
    fail_check(trace, cond, what);
  else
    keep_check(trace, cond, what);
}

// ---- Division and shifts ------------------------------------------------------------------------
// A divisor that is 0 has no quotient: known to be 0 it fails here, and otherwise the sizes for
// which it is 0 are kept out.
static bool divisor(dt_trace_t *trace, dt_sym_t b) {
  dt_sym_t zero = dt__sym_const(trace->env, 0);
  return need(trace, dt__sym_ne(trace->env, b, zero), "a size is divided by 0");
}

#define DIVISION(name)                                                                             \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {                              \
    if (!begin_binary(trace, "sym_" #name, &a, &b) || !divisor(trace, b))                          \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_told(trace, dt__sym_##name(trace->env, a, b));                                \
  }
DIVISION(floordiv)
DIVISION(mod)
DIVISION(truncdiv)
DIVISION(truncmod)
#undef DIVISION

dt_sym_t dt_sym_ceildiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {
  if (!begin_binary(trace, "sym_ceildiv", &a, &b) || !divisor(trace, b))
    return DT_SYM_NONE_ID;
  dt_symenv_t *env = trace->env;
  if (dt__sym_range(env, b).lo >= 0)
    return dt__trace_told(trace, dt__sym_ceildiv(env, a, b));
  return dt__trace_told(
      trace, dt__sym_neg(env, dt__sym_floordiv(env, dt__sym_neg(env, a), b))); // any sign
}

dt_sym_t dt_sym_exactdiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {
  if (!begin_binary(trace, "sym_exactdiv", &a, &b) || !divisor(trace, b))
    return DT_SYM_NONE_ID;
  dt_symenv_t *env = trace->env;
  dt_sym_t rest = dt__sym_mod(env, a, b);
  if (!need(trace, dt__sym_eq(env, rest, dt__sym_const(env, 0)), "an exact division leaves a rest"))
    return DT_SYM_NONE_ID;
  return dt__trace_told(trace, dt__sym_exactdiv(env, a, b));
}

static bool shift_count(dt_trace_t *trace, dt_sym_t b, int64_t most) {
  dt_symenv_t *env = trace->env;
  return need(trace, dt__sym_le(env, dt__sym_const(env, 0), b), "a shift by a negative count") &&
         need(trace, dt__sym_le(env, b, dt__sym_const(env, most)), "a shift beyond 64 bits");
}

#define SHIFT(name, most)                                                                          \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {                              \
    if (!begin_binary(trace, "sym_" #name, &a, &b) || !shift_count(trace, b, most))                \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_told(trace, dt__sym_##name(trace->env, a, b));                                \
  }
SHIFT(shl, 62)
SHIFT(shr, 63)
#undef SHIFT

// ---- Questions ----------------------------------------------------------------------------------
static void put(dt_trace_t *trace, dt_sym_t e, dt_text_t *text) {
  dt__text_init(text);
  dt__sym_print(trace->env, e, text);
}

// Fails a branch on data: "dt_check(u0 == 4) or dt_check(u0 != 4)" would decide it.
static void fail_data(dt_trace_t *trace, dt_sym_t cond) {
  dt_text_t text, opposite;
  put(trace, dt__sym_simplify(trace->env, cond), &text);
  put(trace, dt__sym_not(trace->env, cond), &opposite);
  DT_TRACE_FAIL(trace, DT_E_STATE,
                "the branch on %s depends on data, which is not known while tracing: say which way "
                "it goes with dt_check(%s) or dt_check(%s), ask with dt_sym_guard_or, or choose by "
                "dt_sym_select",
                dt__text_str(&text), dt__text_str(&text), dt__text_str(&opposite));
  dt__text_fini(&text);
  dt__text_fini(&opposite);
}

// Fails the trace where neither ranges nor example sizes answer.
static void fail_unknown(dt_trace_t *trace, dt_sym_t e, const char *what) {
  dt_text_t text;
  put(trace, e, &text);
  DT_TRACE_FAIL(trace, DT_E_STATE,
                "%s %s is not decided by the declared sizes: declare a range or a static size that "
                "decides it, or compile by a call, whose sizes decide it",
                what, dt__text_str(&text));
  dt__text_fini(&text);
}

// Takes the branch that `cond` takes for the example: kept by a guard, or, where it is about data
// whose value was recorded, by a check at each call.
static bool take_branch(dt_trace_t *trace, dt_sym_t cond, bool otherwise) {
  uint32_t unbacked;
  int64_t hint;
  bool out = false;
  if (dt__sym_newest_unbacked(trace->env, cond, &unbacked) &&
      dt__sym_known(trace->env, cond) == DT_UNKNOWN && dt__sym_hint(trace->env, cond, &hint)) {
    dt_sym_t side = hint ? cond : dt__trace_made(trace, dt__sym_not(trace->env, cond));
    if (side.id)
      keep_check(trace, side, "data is other than it was when the program branched on it");
    return !trace->status && hint;
  }
  return dt__trace_take(trace, dt__sym_decide(trace->env, cond, otherwise, &trace->origin, &out)) &&
         out;
}

bool dt_sym_known(dt_trace_t *trace, dt_sym_t cond, bool *out_value) {
  if (out_value)
    *out_value = false;
  if (!dt__trace_begin(trace, "sym_known") || !dt__trace_sym(trace, &cond, "the condition"))
    return false;
  dt_tri_t known = dt__sym_known(trace->env, cond);
  if (out_value)
    *out_value = known == DT_TRUE;
  return known != DT_UNKNOWN;
}

bool dt_sym_guard_or(dt_trace_t *trace, dt_sym_t cond, bool otherwise) {
  return dt__trace_begin(trace, "sym_guard_or") && dt__trace_sym(trace, &cond, "the condition") &&
         take_branch(trace, cond, otherwise);
}

bool dt_sym_true(dt_trace_t *trace, dt_sym_t cond) {
  if (!dt__trace_begin(trace, "sym_true") || !dt__trace_sym(trace, &cond, "the condition"))
    return false;
  dt_tri_t known = dt__sym_known(trace->env, cond);
  if (known != DT_UNKNOWN)
    return known == DT_TRUE;
  int64_t hint = 0;
  if (!dt__sym_hint(trace->env, cond, &hint)) {
    uint32_t unbacked;
    if (dt__sym_newest_unbacked(trace->env, cond, &unbacked))
      fail_data(trace, cond);
    else
      fail_unknown(trace, cond, "the branch on");
    return false;
  }
  return take_branch(trace, cond, false);
}

int64_t dt_sym_int(dt_trace_t *trace, dt_sym_t a) {
  if (!dt__trace_begin(trace, "sym_int") || !dt__trace_sym(trace, &a, "the size"))
    return 0;
  dt_sym_t now = dt__trace_made(trace, dt__sym_simplify(trace->env, a));
  int64_t value = 0;
  if (!now.id || dt__sym_is_const(trace->env, now, &value))
    return value;
  if (!dt__sym_hint(trace->env, now, &value)) {
    uint32_t unbacked;
    dt_text_t text;
    put(trace, now, &text);
    if (dt__sym_newest_unbacked(trace->env, now, &unbacked))
      DT_TRACE_FAIL(trace, DT_E_STATE,
                    "the number %s depends on data, which is not known while tracing: keep it as a "
                    "size, or say what it is with dt_check(%s == <number>)",
                    dt__text_str(&text), dt__text_str(&text));
    else
      fail_unknown(trace, now, "the number");
    dt__text_fini(&text);
    return 0;
  }
  uint32_t unbacked;
  if (dt__sym_newest_unbacked(trace->env, now, &unbacked)) {
    dt_sym_t same = dt__sym_eq(trace->env, now, dt__sym_const(trace->env, value));
    return dt__trace_made(trace, same).id && take_branch(trace, same, false) ? value : 0;
  }
  bool good = dt__trace_take(trace, dt__sym_specialize(trace->env, a, &trace->origin, &value));
  return good ? value : 0;
}

bool dt_sym_constant(dt_trace_t *trace, dt_sym_t a, int64_t *out_value) {
  if (!dt__trace_begin(trace, "sym_constant") || !dt__trace_sym(trace, &a, "the size"))
    return false;
  return dt__sym_is_const(trace->env, dt__sym_simplify(trace->env, a), out_value);
}
