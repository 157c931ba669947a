// SPDX-License-Identifier: Apache-2.0
// The remedy for a guard that failed: the declaration that makes it unnecessary, or the line of the
// program that need not ask. It follows from the guard's form and the op that asked.
#include "guards/modes.h"
#include "guards/record.h"

#include <string.h>

typedef struct remedy_t {
  const dt_guards_t *guards;
  const dt_guard_t *g;
  dt_guard_told_t told;
  dt_text_t *out;
} remedy_t;

typedef void (*remedy_fn_t)(const remedy_t *r);

// ---- Words --------------------------------------------------------------------------------------
// The dim as its caller knows it: "x.size(0)", or its declared name.
static const char *dim_name(const remedy_t *r, uint32_t symbol) {
  const dt_guard_symbol_t *s = &r->guards->symbols[symbol];
  return r->guards->text + (s->name ? s->name : s->text);
}

// The part of the guard's text before `end`: "x" of "x is f32 …".
static void put_subject(const remedy_t *r, const char *end) {
  const char *stop = strstr(r->told.guard, end);
  size_t len = stop ? (size_t)(stop - r->told.guard) : strlen(r->told.guard);
  dt__text_write(r->out, r->told.guard, len);
}

// " at model.c:41", where a source line asked
static void put_place(const remedy_t *r) {
  if (r->told.file[0])
    dt__text_printf(r->out, " at %s:%d", r->told.file, r->told.line);
}

static bool asked_by(const remedy_t *r, const char *op) { return strcmp(r->told.op, op) == 0; }
static bool is_branch(const remedy_t *r) { return asked_by(r, "sym_true"); }
static bool is_declared(const remedy_t *r) { return asked_by(r, "declared sizes"); }

static void put_branch(const remedy_t *r) {
  dt__text_printf(r->out, "avoid the branch on %s", r->told.guard);
  put_place(r);
  dt__text_put(r->out, " (dt_where computes both sides)");
}

// Behind a declaration: why it is needed, or what else may be done.
static void put_need(const remedy_t *r) {
  if (is_branch(r)) {
    dt__text_put(r->out, " where it is always so; else ");
    put_branch(r);
    return;
  }
  dt__text_printf(r->out, ": %s", r->told.op);
  put_place(r);
  dt__text_put(r->out, " needs it");
}

// ---- Layout -------------------------------------------------------------------------------------
static void remedy_header(const remedy_t *r) {
  if (r->g->b & DT_GUARD_KEY_ORDER) {
    dt__text_put(r->out, "keep the order of its dims from call to call: a result takes it "
                         "(like_input), and each order has a variant of its own, compiled once");
    return;
  }
  if (!(r->g->b & DT_GUARD_KEY_CONTIGUOUS)) {
    dt__text_printf(r->out, "pass what is declared: %s", r->told.guard);
    return;
  }
  dt__text_put(r->out, "copy ");
  put_subject(r, " is ");
  dt__text_put(r->out, " into contiguous memory before the call, or prepare its layout, too "
                       "(DT_PREPARE_ROWS, DT_PREPARE_STRIDED): it has a variant of its own");
}

static void remedy_stride(const remedy_t *r) {
  dt__text_put(r->out, "copy ");
  put_subject(r, ".stride(");
  dt__text_put(r->out, " into memory of one layout before the call, or prepare its layout, too "
                       "(DT_PREPARE_STRIDED): each kind has a variant of its own");
}

// ---- Sizes --------------------------------------------------------------------------------------
static void remedy_size_const(const remedy_t *r) {
  dt__text_put(r->out, "mark ");
  put_subject(r, " == ");
  dt__text_printf(r->out,
                  " DT_MARK_DYNAMIC, or make the function DT_DYNAMIC_SYMBOLIC: the number %lld was "
                  "compiled in",
                  (long long)r->g->a);
}

static void remedy_size_equal(const remedy_t *r) {
  put_subject(r, " == ");
  dt__text_put(r->out, " is declared by the size of another dim: pass the size that the "
                       "declaration gives, or declare a dim of its own");
}

// One value only: a number was asked for, or an op takes no other size.
static void remedy_one_value(const remedy_t *r, const char *name, int64_t value) {
  if (is_branch(r)) {
    put_branch(r);
  } else if (asked_by(r, "sym_int")) {
    dt__text_printf(r->out,
                    "declare %s static where it never changes; else compute with the size as a "
                    "symbol instead of dt_sym_int",
                    name);
    put_place(r);
  } else {
    dt__text_printf(r->out, "declare %s static %lld: %s", name, (long long)value, r->told.op);
    put_place(r);
    dt__text_put(r->out, " takes no other size");
  }
}

static void remedy_symbol_range(const remedy_t *r) {
  const char *name = dim_name(r, r->g->at);
  int64_t lo = r->g->a, hi = r->g->b;
  if (lo == hi) {
    remedy_one_value(r, name, lo);
    return;
  }
  if (is_declared(r)) {
    dt__text_printf(r->out, "pass a size in the declared range of %s, or widen the declaration",
                    name);
    return;
  }
  dt__text_printf(r->out, "declare %s", name);
  if (lo != INT64_MIN)
    dt__text_printf(r->out, " min %lld", (long long)lo);
  if (hi != INT64_MAX)
    dt__text_printf(r->out, " max %lld", (long long)hi);
  put_need(r);
}

static void remedy_symbol_not(const remedy_t *r) {
  const char *name = dim_name(r, r->g->at);
  if (r->g->a == 0 || r->g->a == 1) // the least sizes: a bound says it
    dt__text_printf(r->out, "declare %s min %lld", name, (long long)r->g->a + 1);
  else
    dt__text_printf(r->out, "declare a range of %s without %lld", name, (long long)r->g->a);
  put_need(r);
}

static void remedy_symbol_mod(const remedy_t *r) {
  if (r->g->b != 0 && is_branch(r)) {
    put_branch(r);
    return;
  }
  if (r->g->b != 0) {
    dt__text_printf(r->out, "pass sizes of %s with %s", dim_name(r, r->g->at), r->told.guard);
    return;
  }
  dt__text_printf(r->out, "declare %s multiple_of %lld", dim_name(r, r->g->at), (long long)r->g->a);
  put_need(r);
}

static void remedy_symbols_eq(const remedy_t *r) {
  dt__text_printf(r->out, "give dims %s and %s one name where they are always equal",
                  dim_name(r, r->g->at), dim_name(r, r->g->other));
  if (is_branch(r)) {
    dt__text_put(r->out, "; else ");
    put_branch(r);
  }
}

static void remedy_symbols_order(const remedy_t *r) {
  if (is_branch(r))
    put_branch(r);
  else
    dt__text_printf(r->out, "declare ranges of %s and %s that keep %s", dim_name(r, r->g->at),
                    dim_name(r, r->g->other), r->told.guard);
}

// ---- Expressions --------------------------------------------------------------------------------
static void put_names(const remedy_t *r) {
  const dt_guard_step_t *steps = r->guards->steps + r->g->at;
  const char *between = "";
  for (uint32_t k = 0; k < r->g->other; k++) {
    if (!dt__guard_step_is_new(steps, k))
      continue;
    dt__text_printf(r->out, "%s%s", between, dim_name(r, steps[k].symbol));
    between = " and ";
  }
}

static uint32_t count_symbols(const remedy_t *r) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < r->g->other; k++)
    n += dt__guard_step_is_new(r->guards->steps + r->g->at, k);
  return n;
}

static bool has_step(const remedy_t *r, uint32_t op) {
  for (uint32_t k = 0; k < r->g->other; k++) {
    if (r->guards->steps[r->g->at + k].op == op)
      return true;
  }
  return false;
}

// The divisor of the expression's only remainder, a literal; 0: there is none.
static int64_t divisor_of(const remedy_t *r) {
  const dt_guard_step_t *steps = r->guards->steps + r->g->at;
  int64_t divisor = 0;
  for (uint32_t k = 1; k < r->g->other; k++) {
    if (steps[k].op != DT_SYM_MOD && steps[k].op != DT_SYM_FLOORDIV)
      continue;
    if (steps[k - 1].op != DT_SYM_CONST || (divisor && divisor != steps[k - 1].value))
      return 0;
    divisor = steps[k - 1].value;
  }
  return divisor;
}

static void remedy_expr(const remedy_t *r) {
  int64_t divisor = divisor_of(r);
  if (is_branch(r)) {
    put_branch(r);
  } else if (asked_by(r, "sym_int")) {
    dt__text_put(r->out, "declare ");
    put_names(r);
    dt__text_put(r->out, " static where they never change; else compute with the size as a symbol "
                         "instead of dt_sym_int");
    put_place(r);
  } else if (divisor) {
    dt__text_put(r->out, "declare ");
    put_names(r);
    dt__text_printf(r->out, " multiple_of %lld", (long long)divisor);
    put_need(r);
  } else if (has_step(r, DT_SYM_OR)) {
    dt__text_put(r->out, "declare what is repeated: one name for ");
    put_names(r);
    dt__text_put(r->out, " where they are equal, static 1 where one of them is");
  } else if (has_step(r, DT_SYM_EQ) && count_symbols(r) == 2 && !has_step(r, DT_SYM_MUL)) {
    dt__text_put(r->out, "declare one of ");
    put_names(r);
    dt__text_printf(r->out, " as derived of the other (of, scale, offset), such that %s",
                    r->told.guard);
  } else {
    dt__text_printf(r->out, "declare %s of ", has_step(r, DT_SYM_EQ) ? "names or sizes" : "ranges");
    put_names(r);
    dt__text_printf(r->out, " that give %s", r->told.guard);
  }
}

// ---- Numbers that no declaration of a dim can fix: integer arguments, captures, strides ---------
static bool is_size(const remedy_t *r, uint32_t symbol) {
  return r->guards->text[r->guards->symbols[symbol].text] == 's';
}

static void remedy_number(const remedy_t *r) {
  const char *name = dim_name(r, r->g->at);
  if (is_branch(r)) {
    put_branch(r);
  } else if (asked_by(r, "sym_int")) {
    dt__text_printf(r->out,
                    "keep %s from call to call; else compute with it as a symbol instead of "
                    "dt_sym_int",
                    name);
    put_place(r);
  } else if (is_declared(r)) {
    dt__text_printf(r->out,
                    "keep %s from call to call: values that the program tells apart have "
                    "variants of their own",
                    name);
  } else {
    dt__text_printf(r->out, "pass %s such that %s", name, r->told.guard);
    put_need(r);
  }
}

static void remedy_literal(const remedy_t *r) {
  put_subject(r, " == ");
  dt__text_put(r->out, " was compiled in as a number: keep it from call to call, or let it be a "
                       "symbol (DT_DYNAMIC_SYMBOLIC; a boolean has a variant for each value)");
}

static void remedy_same_number(const remedy_t *r) {
  dt__text_printf(r->out, "pass numbers with %s: the program made them equal", r->told.guard);
}

// ---- The call as a whole ------------------------------------------------------------------------
static void remedy_modes(const remedy_t *r) {
  dt_device_t place = dt__modes_place((uint64_t)r->g->a);
  char name[32];
  if (place != DT_CPU) {
    dt__text_printf(r->out,
                    "call in a session on %s under the modes it was compiled for; each device has "
                    "variants of its own (dt_function_prepare)",
                    dt__place_name(place, name, sizeof(name)));
    return;
  }
  dt__text_put(r->out, "set the runtime's modes once, before the first call: code compiled under "
                       "one setting takes no calls under another (dt_runtime_mode_set)");
}

static void remedy_aligned(const remedy_t *r) {
  dt__text_put(r->out, "pass ");
  put_subject(r, " is ");
  dt__text_put(r->out, " in memory of the declared alignment, or declare a smaller one");
}

static void remedy_alias(const remedy_t *r) {
  dt__text_put(r->out, "let inputs share memory in the same way at each call, or copy one of them "
                       "before the call: the program updates an input in place");
}

static void remedy_no_overlap(const remedy_t *r) {
  dt__text_put(r->out, "copy the input into memory with an element for each index before the call: "
                       "the program updates it in place");
}

// ---- The table ----------------------------------------------------------------------------------
static void remedy_general(const remedy_t *r) {
  dt__text_printf(r->out, "keep %s from call to call; each value has a variant of its own",
                  r->told.guard);
}

// Of kinds that cannot fail.
static void remedy_never(const remedy_t *r) { (void)r; }

static const struct {
  remedy_fn_t put, if_number;
} remedies[DT_GUARD_KIND_COUNT] = {
#define GUARD_KIND(id, can_fail, reads, remedy, if_number, doc)                                    \
  [DT_GUARD_##id] = {remedy_##remedy, remedy_##if_number},
#include "guards/guard_kinds.def"
};

void dt__guard_remedy(const dt_guards_t *guards, const dt_guard_t *guard, dt_text_t *out) {
  uint32_t record = (uint32_t)(guard - guards->records);
  remedy_t r = {guards, guard, dt__guards_tell(guards, record), out};
  remedy_fn_t put = remedies[guard->kind].put, if_number = remedies[guard->kind].if_number;
  (put != if_number && !is_size(&r, guard->at) ? if_number : put)(&r);
}
