// SPDX-License-Identifier: Apache-2.0
// What a program of checks does: on a trace and as text. check_model.c has it on numbers.
#include "test/unit/exec/check_program.h"

#include "test/support/tensors.h"

// ---- Making one -------------------------------------------------------------------------------------
static cp_kind_t draw_kind(rng_t *rng, uint32_t at) {
  // Numbers first, then what they are used for, and checks all along.
  int64_t what = rng_between(rng, 0, 9);
  if (at < 2 || what < 2)
    return at < 3 ? CP_ITEM : (cp_kind_t)rng_between(rng, CP_ITEM, CP_SUB);
  if (what < 4)
    return (cp_kind_t)rng_between(rng, CP_CONST, CP_SELECT);
  if (what < 7)
    return (cp_kind_t)rng_between(rng, CP_CHECK_TRUE, CP_CHECK_LE);
  return (cp_kind_t)rng_between(rng, CP_SLICE, CP_DOT);
}

void cp_generate(uint64_t seed, cp_program_t *out) {
  static const dt_mark_t marks[] = {DT_MARK_NONE, DT_MARK_NONE, DT_MARK_UNBACKED};
  static const dt_dynamic_t dynamics[] = {DT_DYNAMIC_SYMBOLIC, DT_DYNAMIC_SYMBOLIC,
                                          DT_DYNAMIC_AUTOMATIC, DT_DYNAMIC_STATIC};
  rng_t rng = {seed};
  *out = (cp_program_t){.dynamic = dynamics[rng_between(&rng, 0, 3)]};
  for (uint32_t k = 0; k < CP_TENSORS; k++)
    out->marks[k] = marks[rng_between(&rng, 0, 2)];
  out->n_steps = (uint32_t)rng_between(&rng, 4, CP_STEPS);
  for (uint32_t k = 0; k < out->n_steps; k++)
    out->steps[k] = (cp_step_t){.kind = draw_kind(&rng, k),
                                .a = (uint32_t)rng_between(&rng, 0, 999),
                                .b = (uint32_t)rng_between(&rng, 0, 999),
                                .c = (uint32_t)rng_between(&rng, 0, 999),
                                .number = rng_between(&rng, -2, 6)};
}

// Few different small numbers: much is equal, and much of what is asked is just so.
void cp_call(uint64_t seed, uint32_t k, cp_call_t *out) {
  rng_t rng = {seed * 64 + k + ((uint64_t)1 << 40)};
  for (uint32_t i = 0; i < CP_TENSORS; i++)
    out->sizes[i] = rng_between(&rng, 0, 6);
  for (uint32_t i = 0; i < CP_NUMBERS; i++)
    out->numbers[i] = rng_between(&rng, -1, 6);
}

double cp_element(uint32_t tensor, int64_t k) { return (double)((k * 3 + tensor) % 5 - 1); }

// ---- On a trace -------------------------------------------------------------------------------------
typedef struct tracing_t {
  dt_trace_t *t;
  const dt_value_t *in;
  uint32_t n_syms, n_values;
  dt_sym_t syms[CP_SYMS];
  dt_value_t values[CP_VALUES];
} tracing_t;

static dt_sym_t literal(const tracing_t *g, int64_t value) { return dt_sym_const(g->t, value); }

static dt_sym_t trace_number(const tracing_t *g, const cp_step_t *s) {
  typedef dt_sym_t (*make_fn_t)(dt_trace_t *, dt_sym_t, dt_sym_t);
  static const make_fn_t makers[CP_KIND_COUNT] = {
      [CP_ADD] = dt_sym_add, [CP_SUB] = dt_sym_sub,      [CP_MUL] = dt_sym_mul,
      [CP_MOD] = dt_sym_mod, [CP_DIV] = dt_sym_floordiv, [CP_MIN] = dt_sym_min,
      [CP_MAX] = dt_sym_max, [CP_EQ] = dt_sym_eq,        [CP_NE] = dt_sym_ne,
      [CP_LT] = dt_sym_lt,   [CP_LE] = dt_sym_le,        [CP_AND] = dt_sym_and,
      [CP_OR] = dt_sym_or};
  dt_sym_t a = g->syms[s->a % g->n_syms], b = g->syms[s->b % g->n_syms];
  switch (s->kind) {
  case CP_ITEM:
    return dt_item(g->t, g->in[CP_TENSORS + s->a % CP_NUMBERS]);
  case CP_CONST:
    return literal(g, s->number);
  case CP_DIM:
    return dt_dim(g->t, g->values[cp_at(s->a, g->n_values)], 0);
  case CP_NEG:
    return dt_sym_neg(g->t, a);
  case CP_ABS:
    return dt_sym_abs(g->t, a);
  case CP_NOT:
    return dt_sym_not(g->t, a);
  case CP_SELECT:
    return dt_sym_select(g->t, a, b, g->syms[s->c % g->n_syms]);
  default:
    return makers[s->kind](g->t, a, b);
  }
}

static dt_value_t rows(const tracing_t *g, dt_value_t x, dt_sym_t n, dt_sym_t width) {
  const int32_t axis = 1;
  return dt_sum(g->t, dt_reshape(g->t, x, 2, (const dt_sym_t[]){n, width}), 1, &axis, false);
}

static dt_value_t flat(const tracing_t *g, dt_value_t x, dt_sym_t n) {
  return dt_reshape(g->t, x, 1, &n);
}

static int64_t step_of(const cp_step_t *s) { return s->number ? s->number : 1; }

static dt_value_t trace_value(const tracing_t *g, const cp_step_t *s) {
  dt_trace_t *t = g->t;
  dt_value_t x = g->values[cp_at(s->a, g->n_values)], y = g->values[s->b % g->n_values];
  dt_sym_t b = g->syms[s->b % g->n_syms], c = g->syms[s->c % g->n_syms];
  dt_value_t parts[2] = {{0}, {0}};
  switch (s->kind) {
  case CP_SLICE:
    return dt_slice(t, x, 0, b, c, 1);
  case CP_SLICE_RANGE:
    return dt_slice_range(t, x, 0, b, c, step_of(s));
  case CP_SPLIT:
    dt_split(t, x, 0, 2, (const dt_sym_t[]){b, c}, parts);
    return parts[1];
  case CP_FULL:
    return dt_full(t, DT_F32, (double)s->number, 1, &b);
  case CP_RANGE:
    return dt_range(t, DT_F32, b, c, literal(g, step_of(s)));
  case CP_RESHAPE:
    return flat(g, x, b);
  case CP_GRID:
    return rows(g, x, b, c);
  case CP_OPEN:
    return rows(g, x, literal(g, -1), literal(g, 1 + (int64_t)s->c % 4));
  case CP_PAD:
    return dt_pad(t, x, &b, &c, (double)s->number);
  case CP_CONCAT:
    return dt_concat(t, 2, (const dt_value_t[]){x, y}, 0);
  case CP_BROADCAST:
    return dt_add(t, x, y);
  case CP_EXPAND:
    return dt_expand(t, x, 1, &b);
  case CP_SELECTION:
    return dt_masked_select(t, x, dt_gt(t, x, dt_scalar(t, DT_F32, 0)));
  case CP_PLACES:
    return flat(g, dt_cast(t, dt_nonzero(t, x), DT_F32), literal(g, -1));
  case CP_REPEAT:
    return dt_repeat_interleave(t, x, dt_size_value(t, b), 0);
  case CP_CUMSUM:
    return dt_cumsum(t, x, 0, DT_CUMSUM_INCLUSIVE);
  default:
    return flat(g, dt_matmul(t, x, y), literal(g, 1));
  }
}

static void trace_check(const tracing_t *g, const cp_step_t *s) {
  dt_sym_t a = g->syms[s->a % g->n_syms], b = g->syms[s->b % g->n_syms];
  dt_check(g->t,
           s->kind == CP_CHECK_TRUE ? a
           : s->kind == CP_CHECK_EQ ? dt_sym_eq(g->t, a, b)
           : s->kind == CP_CHECK_NE ? dt_sym_ne(g->t, a, b)
           : s->kind == CP_CHECK_LT ? dt_sym_lt(g->t, a, b)
                                    : dt_sym_le(g->t, a, b),
           "the check of a step");
}

dt_status_t cp_replay(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const cp_program_t *p = closure;
  tracing_t g = {.t = t, .in = in};
  for (uint32_t k = 0; k < CP_TENSORS; k++) {
    g.values[g.n_values++] = in[k];
    g.syms[g.n_syms++] = dt_dim(t, in[k], 0);
  }
  for (uint32_t k = 0; k < p->n_steps; k++) {
    const cp_step_t *s = &p->steps[k];
    if (s->kind >= CP_CHECK_TRUE) {
      trace_check(&g, s);
    } else if (s->kind >= CP_SLICE) {
      dt_value_t made = trace_value(&g, s);
      g.values[g.n_values++] = made;
      g.syms[g.n_syms++] = dt_dim(t, made, 0);
    } else {
      dt_sym_t made = trace_number(&g, s);
      g.syms[g.n_syms++] = made;
    }
  }
  const dt_value_t last[2] = {g.values[g.n_values - 1], g.values[g.n_values - 2]};
  out[0] = dt_neg(t, dt_concat(t, 2, last, 0));
  out[1] = dt_neg(t, dt_size_value(t, g.syms[g.n_syms - 1]));
  return NULL;
}

// ---- Text -------------------------------------------------------------------------------------------
void cp_print(const cp_program_t *p) {
  static const char *const names[CP_KIND_COUNT] = {
      "item",        "const",  "dim",       "add",      "sub",       "mul",      "div",
      "mod",         "min",    "max",       "neg",      "abs",       "eq",       "ne",
      "lt",          "le",     "and",       "or",       "not",       "select",   "slice",
      "slice_range", "split",  "full",      "range",    "reshape",   "grid",     "open",
      "pad",         "concat", "broadcast", "expand",   "selection", "places",   "repeat",
      "cumsum",      "dot",    "check",     "check_eq", "check_ne",  "check_lt", "check_le"};
  uint32_t n_syms = CP_TENSORS, n_values = CP_TENSORS;
  print_error("marks %d %d, dynamic %d\n", (int)p->marks[0], (int)p->marks[1], (int)p->dynamic);
  for (uint32_t k = 0; k < p->n_steps; k++) {
    const cp_step_t *s = &p->steps[k];
    print_error("  %2u: %s values %u %u numbers %u %u %u, %lld", k, names[s->kind],
                cp_at(s->a, n_values), s->b % n_values, s->a % n_syms, s->b % n_syms, s->c % n_syms,
                (long long)s->number);
    if (s->kind < CP_CHECK_TRUE)
      print_error(" -> number %u", n_syms++);
    if (s->kind < CP_CHECK_TRUE && s->kind >= CP_SLICE)
      print_error(", value %u", n_values++);
    print_error("\n");
  }
}
