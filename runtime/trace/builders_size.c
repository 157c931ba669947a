// SPDX-License-Identifier: Apache-2.0
// Builders over sizes: reading dims, arithmetic, questions that C control flow asks, and checks.
#include "runtime/trace/capture.h"

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
  return dt__trace_made(trace, dt__sym_simplify(trace->env, node->sizes[dim]));
}

// ---- Arithmetic ---------------------------------------------------------------------------------
dt_sym_t dt_sym_const(dt_trace_t *trace, int64_t value) {
  if (!dt__trace_begin(trace, "sym_const"))
    return DT_SYM_NONE_ID;
  return dt__trace_made(trace, dt__sym_const(trace->env, value));
}

#define BINARY(name)                                                                               \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {                              \
    if (!dt__trace_begin(trace, "sym_" #name) || !dt__trace_sym(trace, a, "argument a") ||         \
        !dt__trace_sym(trace, b, "argument b"))                                                    \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_made(trace, dt__sym_##name(trace->env, a, b));                                \
  }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(min)
BINARY(max)
BINARY(eq)
BINARY(lt)
BINARY(le)
#undef BINARY

// A divisor that is 0 has no quotient: known to be 0 it fails here, and otherwise the sizes for
// which it is 0 are kept out by a guard.
static bool divisor(dt_trace_t *trace, dt_sym_t b) {
  dt_sym_t zero = dt__sym_const(trace->env, 0);
  dt_sym_t cond = dt__trace_made(trace, dt__sym_ne(trace->env, b, zero));
  return cond.id && dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin,
                                                          "a size is divided by 0"));
}

#define DIVISION(name)                                                                             \
  dt_sym_t dt_sym_##name(dt_trace_t *trace, dt_sym_t a, dt_sym_t b) {                              \
    if (!dt__trace_begin(trace, "sym_" #name) || !dt__trace_sym(trace, a, "argument a") ||         \
        !dt__trace_sym(trace, b, "argument b") || !divisor(trace, b))                              \
      return DT_SYM_NONE_ID;                                                                       \
    return dt__trace_made(trace, dt__sym_##name(trace->env, a, b));                                \
  }
DIVISION(floordiv)
DIVISION(mod)
#undef DIVISION

// ---- Questions ----------------------------------------------------------------------------------
static void put(dt_trace_t *trace, dt_sym_t e, dt_text_t *text) {
  dt__text_init(text);
  dt__sym_print(trace->env, e, text);
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

bool dt_sym_true(dt_trace_t *trace, dt_sym_t cond) {
  if (!dt__trace_begin(trace, "sym_true") || !dt__trace_sym(trace, cond, "the condition"))
    return false;
  dt_tri_t known = dt__sym_known(trace->env, cond);
  if (known != DT_UNKNOWN)
    return known == DT_TRUE;
  int64_t hint = 0;
  if (!dt__sym_hint(trace->env, cond, &hint)) {
    fail_unknown(trace, cond, "the branch on");
    return false;
  }
  bool out = false;
  return dt__trace_take(trace, dt__sym_decide(trace->env, cond, false, &trace->origin, &out)) &&
         out;
}

int64_t dt_sym_int(dt_trace_t *trace, dt_sym_t a) {
  if (!dt__trace_begin(trace, "sym_int") || !dt__trace_sym(trace, a, "the size"))
    return 0;
  dt_sym_t now = dt__trace_made(trace, dt__sym_simplify(trace->env, a));
  int64_t value = 0;
  if (!now.id || dt__sym_is_const(trace->env, now, &value))
    return value;
  if (!dt__sym_hint(trace->env, now, &value)) {
    fail_unknown(trace, now, "the number");
    return 0;
  }
  bool good = dt__trace_take(trace, dt__sym_specialize(trace->env, a, &trace->origin, &value));
  return good ? value : 0;
}

// ---- Checks -------------------------------------------------------------------------------------
static void fail_check(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  if (dt__sym_is_const(trace->env, cond, NULL)) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s", what);
    return;
  }
  dt_text_t text;
  put(trace, cond, &text);
  DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s (the program's check of %s is false)", what,
                dt__text_str(&text));
  dt__text_fini(&text);
}

void dt_check(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  if (!dt__trace_begin(trace, "check") || !dt__trace_sym(trace, cond, "the condition"))
    return;
  if (!what)
    what = "the program's check failed";
  dt_tri_t known = dt__sym_known(trace->env, cond);
  if (known == DT_TRUE)
    return;
  int64_t hint = 1;
  if (known == DT_FALSE || (dt__sym_hint(trace->env, cond, &hint) && !hint)) {
    fail_check(trace, cond, what);
    return;
  }
  dt_arena_t *arena = &trace->traced->arena;
  dt_graph_assert_t check = {
      .cond = cond, .what = dt__arena_strdup(arena, what), .origin = trace->origin};
  if (!check.what || !DT_VEC_PUSH(arena, &trace->graph->asserts, check))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  else
    (void)dt__trace_take(trace, dt__sym_learn(trace->env, cond));
}
