// SPDX-License-Identifier: Apache-2.0
// Guard programs as conjunctions of constraints on terms that all of them share. Records with the
// same meaning in two programs, whatever their symbols are called, become one constraint.
#include "guards/tree_build.h"

#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Tables ---------------------------------------------------------------------------------------
bool dt__table_next(const dt_table_t *table, uint64_t hash, uint32_t *cursor, uint32_t *out_item) {
  while (*cursor < table->cap) {
    uint32_t at = ((uint32_t)hash + (*cursor)++) & (table->cap - 1);
    if (!table->entries[at].item)
      return false;
    if (table->entries[at].hash != hash)
      continue;
    *out_item = table->entries[at].item - 1;
    return true;
  }
  return false;
}

static void enter(dt_table_t *table, uint64_t hash, uint32_t item) {
  uint32_t at = (uint32_t)hash & (table->cap - 1);
  while (table->entries[at].item)
    at = (at + 1) & (table->cap - 1);
  table->entries[at].hash = hash;
  table->entries[at].item = item + 1;
}

bool dt__table_add(dt_arena_t *arena, dt_table_t *table, uint64_t hash, uint32_t item) {
  if (2 * (table->n + 1) > table->cap) {
    dt_table_t larger = {.cap = table->cap ? 2 * table->cap : 64, .n = table->n};
    larger.entries = dt__arena_alloc(arena, larger.cap * sizeof(*larger.entries));
    if (!larger.entries)
      return false;
    for (uint32_t k = 0; k < table->cap; k++) {
      if (table->entries[k].item)
        enter(&larger, table->entries[k].hash, table->entries[k].item - 1);
    }
    *table = larger;
  }
  enter(table, hash, item);
  table->n++;
  return true;
}

// ---- One program ----------------------------------------------------------------------------------
// Building never fails half-way: the first failure is kept, and what comes after means nothing.
typedef struct program_t {
  dt_tree_build_t *build;
  const dt_guards_t *guards;
  uint32_t number; // from 1 on
  uint32_t *slots; // by symbol
  DT_VEC(uint32_t) constraints;
  const dt_guard_t **headers; // by input; NULL: none
  bool never;                 // no call can pass
  dt_status_t failure;
} program_t;

static void no_memory(program_t *p) {
  if (!p->failure)
    p->failure = DT_NO_MEMORY();
}

static uint32_t term_of(program_t *p, dt_term_t term);

static uint32_t slot_of(program_t *p, dt_slot_kind_t kind, uint32_t index, uint32_t dim) {
  dt_tree_build_t *b = p->build;
  dt_slot_t slot = {.kind = (uint8_t)kind, .dim = (uint8_t)dim, .index = (uint16_t)index};
  uint64_t hash = dt__hash(&slot, sizeof(slot), 1);
  uint32_t cursor = 0, found;
  while (dt__table_next(&b->slot_table, hash, &cursor, &found)) {
    if (memcmp(&b->slots.items[found], &slot, sizeof(slot)) == 0)
      return found;
  }
  uint32_t at = b->slots.len;
  if (!DT_VEC_PUSH(b->arena, &b->slots, slot) ||
      !DT_VEC_PUSH(&b->scratch, &b->needs, (dt_need_t){0}) ||
      !dt__table_add(&b->scratch, &b->slot_table, hash, at)) {
    no_memory(p);
    return 0;
  }
  if (kind == DT_SLOT_VALUE) {
    dt_term_t header = {
        .kind = DT_TERM_MASK, .slot = slot_of(p, DT_SLOT_KEY, index, 0), .a = DT_GUARD_KEY_HEADER};
    dt_need_t need = {.term = term_of(p, header),
                      .key = dt__guard_key((dt_dtype_t)dim, DT_CPU, 0, false)};
    if (!p->failure)
      b->needs.items[at] = need;
  }
  return at;
}

bool dt__term_slot(const dt_tree_build_t *build, const dt_term_t *term, uint32_t *at,
                   uint32_t *out_slot) {
  if (term->kind == DT_TERM_EXPR) {
    for (; *at < term->other; ++*at) {
      const dt_guard_step_t *step = &build->steps.items[term->slot + *at];
      if (step->op != DT_SYM_SYMBOL)
        continue;
      *out_slot = step->symbol;
      ++*at;
      return true;
    }
    return false;
  }
  uint32_t n = term->kind == DT_TERM_SIGN ? 2 : 1;
  if (*at >= n)
    return false;
  *out_slot = *at ? term->other : term->slot;
  ++*at;
  return true;
}

static bool same_term(const dt_tree_build_t *b, const dt_term_t *x, const dt_term_t *y) {
  if (x->kind != y->kind || x->other != y->other || x->a != y->a)
    return false;
  if (x->kind != DT_TERM_EXPR)
    return x->slot == y->slot;
  return memcmp(&b->steps.items[x->slot], &b->steps.items[y->slot],
                x->other * sizeof(dt_guard_step_t)) == 0;
}

static uint64_t hash_term(const dt_tree_build_t *b, const dt_term_t *term) {
  uint64_t fields[4] = {term->kind, term->other, (uint64_t)term->a, term->slot};
  if (term->kind == DT_TERM_EXPR)
    fields[3] = dt__hash(&b->steps.items[term->slot], term->other * sizeof(dt_guard_step_t), 0);
  return dt__hash(fields, sizeof(fields), 2);
}

// An EXPR term's steps are the newest ones; they go again where the term is there already.
static uint32_t term_of(program_t *p, dt_term_t term) {
  dt_tree_build_t *b = p->build;
  if (p->failure)
    return 0;
  uint64_t hash = hash_term(b, &term);
  uint32_t cursor = 0, found;
  while (dt__table_next(&b->term_table, hash, &cursor, &found)) {
    if (!same_term(b, &b->terms.items[found], &term))
      continue;
    if (term.kind == DT_TERM_EXPR)
      b->steps.len = term.slot;
    return found;
  }
  uint32_t at = 0, slot;
  while (dt__term_slot(b, &term, &at, &slot))
    term.reads_memory |= b->slots.items[slot].kind == DT_SLOT_VALUE;
  if (!DT_VEC_PUSH(b->arena, &b->terms, term) ||
      !dt__table_add(&b->scratch, &b->term_table, hash, b->terms.len - 1)) {
    no_memory(p);
    return 0;
  }
  return b->terms.len - 1;
}

static uint32_t constraint_of(program_t *p, dt_constraint_t c) {
  dt_tree_build_t *b = p->build;
  uint64_t hash = dt__hash(&c, sizeof(c), 3);
  uint32_t cursor = 0, found;
  while (dt__table_next(&b->constraint_table, hash, &cursor, &found)) {
    if (memcmp(&b->constraints.items[found], &c, sizeof(c)) == 0)
      return found;
  }
  if (!DT_VEC_PUSH(&b->scratch, &b->constraints, c) || !DT_VEC_PUSH(&b->scratch, &b->owners, 0) ||
      !dt__table_add(&b->scratch, &b->constraint_table, hash, b->constraints.len - 1)) {
    no_memory(p);
    return 0;
  }
  return b->constraints.len - 1;
}

// The program asks that `term` lies in [lo, hi], or outside of it. Two intervals of one term are
// one.
static void ask(program_t *p, uint32_t term, bool outside, int64_t lo, int64_t hi) {
  dt_tree_build_t *b = p->build;
  if (p->failure)
    return;
  while (b->asked.len <= term) {
    if (!DT_VEC_PUSH(&b->scratch, &b->asked, (dt_asked_t){0})) {
      no_memory(p);
      return;
    }
  }
  dt_asked_t *before = &b->asked.items[term];
  dt_constraint_t c = {.term = term, .outside = outside, .lo = lo, .hi = hi};
  bool joins = !outside && before->by == p->number;
  if (joins) {
    const dt_constraint_t *old = &b->constraints.items[p->constraints.items[before->at]];
    c.lo = old->lo > lo ? old->lo : lo;
    c.hi = old->hi < hi ? old->hi : hi;
  }
  p->never |= c.lo > c.hi;
  uint32_t index = constraint_of(p, c);
  if (p->failure)
    return;
  if (joins) {
    p->constraints.items[before->at] = index;
    return;
  }
  if (b->owners.items[index] == p->number)
    return; // it was asked before: a program has each constraint once
  b->owners.items[index] = p->number;
  if (!outside)
    *before = (dt_asked_t){.by = p->number, .at = p->constraints.len};
  if (!DT_VEC_PUSH(&b->scratch, &p->constraints, index))
    no_memory(p);
}

static uint32_t slot_term(program_t *p, uint32_t slot) {
  return term_of(p, (dt_term_t){.kind = DT_TERM_SLOT, .slot = slot});
}

// lo <= sign of (a - b) <= hi
static void ask_sign(program_t *p, uint32_t a, uint32_t b, int64_t lo, int64_t hi) {
  if (a == b) {
    p->never |= lo > 0 || hi < 0;
    return;
  }
  bool swap = a > b;
  dt_term_t term = {.kind = DT_TERM_SIGN, .slot = swap ? b : a, .other = swap ? a : b};
  ask(p, term_of(p, term), false, swap ? -hi : lo, swap ? -lo : hi);
}

static void ask_unequal(program_t *p, uint32_t a, uint32_t b) {
  if (a == b) {
    p->never = true;
    return;
  }
  dt_term_t term = {.kind = DT_TERM_SIGN, .slot = a < b ? a : b, .other = a < b ? b : a};
  ask(p, term_of(p, term), true, 0, 0);
}

// ---- Expressions ----------------------------------------------------------------------------------
static void step(program_t *p, dt_guard_step_t s) {
  if (!p->failure && !DT_VEC_PUSH(p->build->arena, &p->build->steps, s))
    no_memory(p);
}

static void put_op(program_t *p, uint32_t op) { step(p, (dt_guard_step_t){.op = op}); }

static void put_const(program_t *p, int64_t value) {
  step(p, (dt_guard_step_t){.op = DT_SYM_CONST, .value = value});
}

static void put_slot(program_t *p, dt_slot_kind_t kind, uint32_t index, uint32_t dim) {
  uint32_t slot = slot_of(p, kind, index, dim);
  step(p, (dt_guard_step_t){.op = DT_SYM_SYMBOL, .symbol = slot});
}

static void put_slot_op(program_t *p, uint32_t slot) {
  step(p, (dt_guard_step_t){.op = DT_SYM_SYMBOL, .symbol = slot});
}

// The steps of a record's expression, over slots.
static void put_expression(program_t *p, const dt_guard_t *g) {
  for (uint32_t k = 0; k < g->other; k++) {
    dt_guard_step_t s = p->guards->steps[g->at + k];
    if (s.op == DT_SYM_SYMBOL)
      s.symbol = p->slots[s.symbol];
    step(p, s);
  }
}

// The truth of all steps put since there were `first`.
static void ask_steps(program_t *p, uint32_t first) {
  dt_term_t term = {.kind = DT_TERM_EXPR, .slot = first, .other = p->build->steps.len - first};
  ask(p, term_of(p, term), false, 1, 1);
}

// ... or no one can step along the dim.
static void put_or_no_step(program_t *p, const dt_guard_t *g) {
  put_slot(p, DT_SLOT_SIZE, g->input, g->dim);
  put_const(p, 1);
  put_op(p, DT_SYM_LE);
  put_op(p, DT_SYM_OR);
  put_slot(p, DT_SLOT_COUNT, g->input, 0);
  put_const(p, 0);
  put_op(p, DT_SYM_EQ);
  put_op(p, DT_SYM_OR);
}

// ---- Memory ---------------------------------------------------------------------------------------
// What the header record of an input says; without one the program is not ours.
static int64_t header_of(program_t *p, uint32_t input) {
  const dt_guard_t *header = p->headers[input];
  if (!header && !p->failure)
    p->failure = DT_FAIL(DT_E_INTERNAL, "guards: input %u has no header record", input);
  return header ? header->a : 0;
}
static dt_dtype_t header_dtype(int64_t key) { return (dt_dtype_t)(key & 0xff); }
static uint32_t header_rank(int64_t key) { return (uint32_t)(key >> 16) & 0xff; }

// (size - 1) * stride * item
static void put_reach(program_t *p, uint32_t input, uint32_t dim, int64_t item) {
  put_slot(p, DT_SLOT_SIZE, input, dim);
  put_const(p, -1);
  put_op(p, DT_SYM_ADD);
  put_slot(p, DT_SLOT_STRIDE, input, dim);
  put_op(p, DT_SYM_MUL);
  put_const(p, item);
  put_op(p, DT_SYM_MUL);
  put_op(p, DT_GUARD_OP_NARROW);
}

// The bytes of a packed input, which is contiguous and has elements: those of a row, by the rows.
static void put_packed_bytes(program_t *p, uint32_t input, int64_t key) {
  uint32_t rank = header_rank(key), per = dt__dtype_per_byte(header_dtype(key));
  if (rank == 0) {
    put_const(p, 1);
    return;
  }
  put_slot(p, DT_SLOT_SIZE, input, rank - 1);
  put_const(p, per - 1);
  put_op(p, DT_SYM_ADD);
  put_const(p, per);
  put_op(p, DT_SYM_FLOORDIV);
  for (uint32_t dim = 0; dim + 1 < rank; dim++) {
    put_slot(p, DT_SLOT_SIZE, input, dim);
    put_op(p, DT_SYM_MUL);
    put_op(p, DT_GUARD_OP_NARROW);
  }
}

// The address of an input's first byte, or of one past the last.
static void put_bound(program_t *p, uint32_t input, bool last) {
  int64_t key = header_of(p, input);
  int64_t item = (int64_t)dt_dtype_size(header_dtype(key));
  put_slot(p, DT_SLOT_DATA, input, 0);
  if (dt__dtype_is_packed(header_dtype(key))) {
    if (last) {
      put_packed_bytes(p, input, key);
      put_op(p, DT_SYM_ADD);
    }
    put_op(p, DT_GUARD_OP_NARROW);
    return;
  }
  if (last) {
    put_const(p, item);
    put_op(p, DT_SYM_ADD);
  }
  for (uint32_t dim = 0; dim < header_rank(key); dim++) {
    put_reach(p, input, dim, item);
    put_const(p, 0);
    put_op(p, last ? DT_SYM_MAX : DT_SYM_MIN);
    put_op(p, DT_SYM_ADD);
  }
  put_op(p, DT_GUARD_OP_NARROW);
}

static void put_empty(program_t *p, uint32_t input) {
  put_slot(p, DT_SLOT_COUNT, input, 0);
  put_const(p, 0);
  put_op(p, DT_SYM_EQ);
}

static void ask_disjoint(program_t *p, uint32_t x, uint32_t y) {
  uint32_t first = p->build->steps.len;
  put_bound(p, x, true);
  put_bound(p, y, false);
  put_op(p, DT_SYM_LE);
  put_bound(p, y, true);
  put_bound(p, x, false);
  put_op(p, DT_SYM_LE);
  put_op(p, DT_SYM_OR);
  put_empty(p, x);
  put_op(p, DT_SYM_OR);
  put_empty(p, y);
  put_op(p, DT_SYM_OR);
  ask_steps(p, first);
}

static void ask_same_memory(program_t *p, uint32_t x, uint32_t y) {
  int64_t key = header_of(p, x), other = header_of(p, y);
  p->never |= header_dtype(key) != header_dtype(other) || header_rank(key) != header_rank(other);
  if (p->never || p->failure)
    return;
  ask_sign(p, slot_of(p, DT_SLOT_DATA, x, 0), slot_of(p, DT_SLOT_DATA, y, 0), 0, 0);
  for (uint32_t dim = 0; dim < header_rank(key); dim++) {
    ask_sign(p, slot_of(p, DT_SLOT_SIZE, x, dim), slot_of(p, DT_SLOT_SIZE, y, dim), 0, 0);
    ask_sign(p, slot_of(p, DT_SLOT_STRIDE, x, dim), slot_of(p, DT_SLOT_STRIDE, y, dim), 0, 0);
  }
}

// |stride|
static void put_step(program_t *p, uint32_t input, uint32_t dim) {
  put_slot(p, DT_SLOT_STRIDE, input, dim);
  put_slot(p, DT_SLOT_STRIDE, input, dim);
  put_const(p, -1);
  put_op(p, DT_SYM_MUL);
  put_op(p, DT_GUARD_OP_NARROW);
  put_op(p, DT_SYM_MAX);
}

// For each dim: one index, or a step over all that the smaller steps reach.
static void ask_no_overlap(program_t *p, uint32_t input) {
  uint32_t first = p->build->steps.len, rank = header_rank(header_of(p, input));
  put_empty(p, input);
  put_const(p, 1);
  for (uint32_t k = 0; k < rank; k++) {
    put_const(p, 1);
    for (uint32_t j = 0; j < rank; j++) {
      if (j == k)
        continue;
      put_step(p, input, j);
      put_step(p, input, k);
      put_op(p, j < k ? DT_SYM_LE : DT_SYM_LT);
      put_slot(p, DT_SLOT_SIZE, input, j);
      put_const(p, -1);
      put_op(p, DT_SYM_ADD);
      put_step(p, input, j);
      put_op(p, DT_SYM_MUL);
      put_op(p, DT_GUARD_OP_NARROW);
      put_const(p, 0);
      put_op(p, DT_SYM_SELECT);
      put_op(p, DT_SYM_ADD);
    }
    put_op(p, DT_GUARD_OP_NARROW);
    put_step(p, input, k);
    put_op(p, DT_SYM_LE);
    put_slot(p, DT_SLOT_SIZE, input, k);
    put_const(p, 1);
    put_op(p, DT_SYM_LE);
    put_op(p, DT_SYM_OR);
    put_op(p, DT_SYM_AND);
  }
  put_op(p, DT_SYM_OR);
  ask_steps(p, first);
}

// ---- Records --------------------------------------------------------------------------------------
// The slot of the integer that a record of a place names. A value must fit in 64 bits with sign.
static uint32_t place_slot(program_t *p, const dt_guard_t *g, dt_slot_kind_t kind) {
  uint32_t dim = kind == DT_SLOT_CAPTURE ? 0 : g->dim;
  uint32_t slot = slot_of(p, kind, g->input, dim);
  if (kind == DT_SLOT_VALUE && dim == DT_U64)
    ask(p, slot_term(p, slot), false, 0, INT64_MAX);
  return slot;
}

static void ask_place_const(program_t *p, const dt_guard_t *g, dt_slot_kind_t kind) {
  ask(p, slot_term(p, place_slot(p, g, kind)), false, g->a, g->a);
}

static void ask_place_symbol(program_t *p, const dt_guard_t *g, dt_slot_kind_t kind) {
  ask_sign(p, place_slot(p, g, kind), p->slots[g->at], 0, 0);
}

static void ask_place_expr(program_t *p, const dt_guard_t *g, dt_slot_kind_t kind) {
  uint32_t slot = place_slot(p, g, kind), first = p->build->steps.len;
  put_expression(p, g);
  put_slot_op(p, slot);
  put_op(p, DT_SYM_EQ);
  ask_steps(p, first);
}

static void bind_place(program_t *p, const dt_guard_t *g, dt_slot_kind_t kind) {
  p->slots[g->at] = place_slot(p, g, kind);
}

// Strides: equal, or no one can step along the dim.
static void ask_stride(program_t *p, const dt_guard_t *g) {
  uint32_t first = p->build->steps.len;
  if (g->kind == DT_GUARD_stride_expr)
    put_expression(p, g);
  else if (g->kind == DT_GUARD_stride_symbol)
    put_slot_op(p, p->slots[g->at]);
  else
    put_const(p, g->a);
  put_slot(p, DT_SLOT_STRIDE, g->input, g->dim);
  put_op(p, DT_SYM_EQ);
  put_or_no_step(p, g);
  ask_steps(p, first);
}

static void ask_header(program_t *p, const dt_guard_t *g) {
  dt_term_t term = {.kind = DT_TERM_MASK, .slot = slot_of(p, DT_SLOT_KEY, g->input, 0), .a = g->b};
  p->headers[g->input] = g;
  ask(p, term_of(p, term), false, g->a, g->a);
}

static void ask_modes(program_t *p, const dt_guard_t *g) {
  dt_term_t term = {.kind = DT_TERM_MASK, .slot = slot_of(p, DT_SLOT_MODES, 0, 0), .a = g->b};
  ask(p, term_of(p, term), false, g->a, g->a);
}

static void ask_mod(program_t *p, uint32_t slot, int64_t divisor, int64_t rest, bool outside) {
  dt_term_t term = {.kind = DT_TERM_MOD, .slot = slot, .a = divisor};
  ask(p, term_of(p, term), outside, rest, rest);
}

static void ask_expr(program_t *p, const dt_guard_t *g) {
  uint32_t first = p->build->steps.len;
  put_expression(p, g);
  ask_steps(p, first);
}

static void ask_symbol_range(program_t *p, const dt_guard_t *g) {
  ask(p, slot_term(p, p->slots[g->at]), false, g->a, g->b);
}

// clang-format off
static void translate_record(program_t *p, const dt_guard_t *g) {
  const uint32_t *s = p->slots;
  switch ((dt_guard_kind_t)g->kind) {
  case DT_GUARD_modes: ask_modes(p, g); return;
  case DT_GUARD_header: ask_header(p, g); return;
  case DT_GUARD_aligned: ask_mod(p, slot_of(p, DT_SLOT_DATA, g->input, 0), g->a, 0, false); return;
  case DT_GUARD_size_const: ask_place_const(p, g, DT_SLOT_SIZE); return;
  case DT_GUARD_value_const: ask_place_const(p, g, DT_SLOT_VALUE); return;
  case DT_GUARD_capture_const: ask_place_const(p, g, DT_SLOT_CAPTURE); return;
  case DT_GUARD_bind_size: bind_place(p, g, DT_SLOT_SIZE); return;
  case DT_GUARD_bind_stride: bind_place(p, g, DT_SLOT_STRIDE); return;
  case DT_GUARD_bind_value: bind_place(p, g, DT_SLOT_VALUE); return;
  case DT_GUARD_bind_capture: bind_place(p, g, DT_SLOT_CAPTURE); return;
  case DT_GUARD_size_symbol: ask_place_symbol(p, g, DT_SLOT_SIZE); return;
  case DT_GUARD_value_symbol: ask_place_symbol(p, g, DT_SLOT_VALUE); return;
  case DT_GUARD_capture_symbol: ask_place_symbol(p, g, DT_SLOT_CAPTURE); return;
  case DT_GUARD_stride_const:
  case DT_GUARD_stride_symbol:
  case DT_GUARD_stride_expr: ask_stride(p, g); return;
  case DT_GUARD_symbol_range: ask_symbol_range(p, g); return;
  case DT_GUARD_symbol_not: ask(p, slot_term(p, s[g->at]), true, g->a, g->a); return;
  case DT_GUARD_symbol_mod: ask_mod(p, s[g->at], g->a, g->b, false); return;
  case DT_GUARD_symbol_not_mod: ask_mod(p, s[g->at], g->a, g->b, true); return;
  case DT_GUARD_symbols_eq: ask_sign(p, s[g->at], s[g->other], 0, 0); return;
  case DT_GUARD_symbols_ne: ask_unequal(p, s[g->at], s[g->other]); return;
  case DT_GUARD_symbols_lt: ask_sign(p, s[g->at], s[g->other], -1, -1); return;
  case DT_GUARD_symbols_le: ask_sign(p, s[g->at], s[g->other], -1, 0); return;
  case DT_GUARD_size_expr: ask_place_expr(p, g, DT_SLOT_SIZE); return;
  case DT_GUARD_value_expr: ask_place_expr(p, g, DT_SLOT_VALUE); return;
  case DT_GUARD_capture_expr: ask_place_expr(p, g, DT_SLOT_CAPTURE); return;
  case DT_GUARD_expr: ask_expr(p, g); return;
  case DT_GUARD_same_memory: ask_same_memory(p, g->input, g->other); return;
  case DT_GUARD_disjoint: ask_disjoint(p, g->input, g->other); return;
  case DT_GUARD_no_overlap: ask_no_overlap(p, g->input); return;
  case DT_GUARD_KIND_COUNT: return;
  }
}
// clang-format on

static uint32_t inputs_of(const dt_guards_t *guards) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < guards->n_records; k++) {
    if (guards->records[k].kind == DT_GUARD_header && guards->records[k].input >= n)
      n = guards->records[k].input + 1u;
  }
  return n;
}

static dt_status_t translate_program(dt_tree_build_t *b, const dt_guards_t *guards,
                                     uint32_t variant) {
  program_t p = {.build = b, .guards = guards, .number = variant + 1};
  p.slots = DT_ARENA_ARRAY(b->arena, uint32_t, guards->n_symbols + 1);
  p.headers = DT_ARENA_ARRAY(&b->scratch, const dt_guard_t *, inputs_of(guards) + 1);
  if (!p.slots || !p.headers)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < guards->n_symbols; k++)
    p.slots[k] = DT_TREE_ZERO;
  for (uint32_t k = 0; k < guards->n_records && !p.failure; k++)
    translate_record(&p, &guards->records[k]);
  if (p.failure)
    return p.failure;
  b->variants[variant] = (dt_tree_variant_t){.n_symbols = guards->n_symbols, .slots = p.slots};
  if (p.never)
    return NULL;
  b->candidates[b->n_candidates++] = (dt_candidate_t){
      .variant = variant, .n = p.constraints.len, .constraints = p.constraints.items};
  return NULL;
}

dt_status_t dt__tree_translate(dt_tree_build_t *build, const dt_guards_t *const *programs) {
  build->variants = DT_ARENA_ARRAY(build->arena, dt_tree_variant_t, build->n_variants + 1);
  build->candidates = DT_ARENA_ARRAY(&build->scratch, dt_candidate_t, build->n_variants + 1);
  if (!build->variants || !build->candidates)
    return DT_NO_MEMORY();
  uint64_t all = 0;
  for (uint32_t k = 0; k < build->n_variants; k++) {
    all += programs[k]->n_records;
    if (all > DT_TREE_MAX_CONSTRAINTS)
      return DT_FAIL(DT_E_LIMIT, "guards: more than %u records in one decision",
                     DT_TREE_MAX_CONSTRAINTS);
    DT_TRY(translate_program(build, programs[k], k));
    if (build->steps.len > DT_TREE_MAX_STEPS)
      return DT_FAIL(DT_E_LIMIT, "guards: more than %u steps of expressions in one decision",
                     DT_TREE_MAX_STEPS);
  }
  return NULL;
}
