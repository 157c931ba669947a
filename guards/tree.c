// SPDX-License-Identifier: Apache-2.0
// From constraints to a decision. A node has the variants that can still hold, in their order, with
// the constraints of each that are not known yet. A constraint that all of them have is asked
// first, once. Then comes the question that leaves the fewest variants on either side; a variant
// without that constraint goes both ways. Two nodes with the same variants and the same knowledge
// are one.
//
// The number of nodes is bounded: each part of the decision has a budget, shared out by the number
// of its variants. When the budget is spent, the variants are asked one after another, by a
// sequence that all such nodes share.
#include "guards/tree_build.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "symshape/apply.h"

#include <stdlib.h>
#include <string.h>

#define NODES_A_VARIANT 5u
#define NODES_AT_LEAST 64u
#define SHORT_SEQUENCE 4u // variants in a sequence of its own for each node of budget left
#define MOST_DEPTH 400u
#define MOST_QUESTIONS 192u // tried of one term at one node

// ---- What is known of a term ----------------------------------------------------------------------
typedef struct gap_t {
  int64_t lo, hi; // the term is not in here
  const struct gap_t *next;
} gap_t;

typedef struct fact_t {
  int64_t lo, hi;
  const gap_t *gaps;
} fact_t;

typedef enum verdict_t { OPEN, HOLDS, FAILS } verdict_t;

static verdict_t opposite(verdict_t verdict) {
  return verdict == OPEN ? OPEN : verdict == HOLDS ? FAILS : HOLDS;
}

static verdict_t judge_interval(const fact_t *fact, int64_t lo, int64_t hi) {
  if (hi < fact->lo || lo > fact->hi)
    return FAILS;
  if (lo <= fact->lo && fact->hi <= hi)
    return HOLDS;
  lo = lo > fact->lo ? lo : fact->lo;
  hi = hi < fact->hi ? hi : fact->hi;
  for (const gap_t *gap = fact->gaps; gap; gap = gap->next) {
    if (gap->lo <= lo && hi <= gap->hi)
      return FAILS;
  }
  return OPEN;
}

static verdict_t judge(const fact_t *fact, const dt_constraint_t *c) {
  verdict_t verdict = judge_interval(fact, c->lo, c->hi);
  return c->outside ? opposite(verdict) : verdict;
}

// Takes gaps off the ends.
static void trim(fact_t *fact) {
  for (bool again = true; again && fact->lo <= fact->hi;) {
    again = false;
    for (const gap_t *gap = fact->gaps; gap && fact->lo <= fact->hi; gap = gap->next) {
      if (gap->lo <= fact->lo && fact->hi <= gap->hi) {
        fact->lo = 1; // nothing is left
        fact->hi = 0;
      } else if (gap->lo <= fact->lo && fact->lo <= gap->hi) {
        fact->lo = gap->hi + 1;
        again = true;
      } else if (gap->lo <= fact->hi && fact->hi <= gap->hi) {
        fact->hi = gap->lo - 1;
        again = true;
      }
    }
  }
}

static fact_t fact_inside(fact_t fact, int64_t lo, int64_t hi) {
  fact.lo = lo > fact.lo ? lo : fact.lo;
  fact.hi = hi < fact.hi ? hi : fact.hi;
  trim(&fact);
  return fact;
}

static fact_t fact_outside(fact_t fact, const gap_t *gap) {
  fact.gaps = gap; // its `next` are those of before
  trim(&fact);
  return fact;
}

// ---- The build ------------------------------------------------------------------------------------
typedef struct list_t {
  const dt_candidate_t *items;
  uint32_t n;
} list_t;

typedef struct undo_t {
  uint32_t term;
  fact_t fact;
} undo_t;

typedef struct memo_t {
  const void *key;
  size_t bytes;
  dt_tree_ref_t ref;
} memo_t;

typedef struct grow_t {
  dt_tree_build_t *b;
  fact_t *facts;        // by term: on the way to here
  const fact_t *ranges; // by term: at any time
  fact_t *trunk;        // by term: behind the root's own questions
  uint32_t *slot_terms; // by slot: its SLOT term, or UINT32_MAX
  DT_VEC(undo_t) undo;
  DT_VEC(dt_tree_node_t) nodes;
  dt_table_t node_table, memo_table;
  DT_VEC(memo_t) memos;
  uint32_t *counts; // by constraint; 0 between uses
  uint32_t *stamps; // by term: the last key it is in
  uint32_t n_keys;
  dt_tree_ref_t *sequences; // by variant: it and all behind it, asked in order
  bool in_sequence;
  bool failed; // no memory
} grow_t;

static dt_tree_ref_t grow(grow_t *g, list_t list, uint32_t depth, uint32_t budget);

// What is known of a term, from itself and from its slots.
static fact_t fact_of(const grow_t *g, uint32_t index) {
  fact_t fact = g->facts[index];
  const dt_term_t *term = &g->b->terms.items[index];
  if (term->kind == DT_TERM_MOD) {
    uint32_t of = g->slot_terms[term->slot];
    if (of != UINT32_MAX && g->facts[of].lo == g->facts[of].hi)
      fact.lo = fact.hi = dt__mod_i64(g->facts[of].lo, term->a);
  } else if (term->kind == DT_TERM_SIGN) {
    uint32_t x = g->slot_terms[term->slot], y = g->slot_terms[term->other];
    if (x == UINT32_MAX || y == UINT32_MAX)
      return fact;
    const fact_t *a = &g->facts[x], *b = &g->facts[y];
    if (a->hi < b->lo)
      fact.lo = fact.hi = -1;
    else if (a->lo > b->hi)
      fact.lo = fact.hi = 1;
    else if (a->lo == a->hi && b->lo == b->hi)
      fact.lo = fact.hi = 0;
  }
  return fact;
}

static void set_fact(grow_t *g, uint32_t term, fact_t fact) {
  if (!DT_VEC_PUSH(&g->b->scratch, &g->undo, ((undo_t){term, g->facts[term]}))) {
    g->failed = true;
    return;
  }
  g->facts[term] = fact;
}

static void undo_to(grow_t *g, uint32_t len) {
  while (g->undo.len > len) {
    const undo_t *undo = &g->undo.items[--g->undo.len];
    g->facts[undo->term] = undo->fact;
  }
}

// `answer` is what came of asking whether the term lies in [lo, hi].
static void learn(grow_t *g, uint32_t term, int64_t lo, int64_t hi, bool answer) {
  fact_t fact = fact_of(g, term);
  if (answer) {
    set_fact(g, term, fact_inside(fact, lo, hi));
    return;
  }
  gap_t *gap = DT_ARENA_NEW(&g->b->scratch, gap_t);
  if (!gap) {
    g->failed = true;
    return;
  }
  *gap = (gap_t){lo, hi, fact.gaps};
  set_fact(g, term, fact_outside(fact, gap));
}

// A value may be read where the header of its argument is known to be right.
static bool readable(const grow_t *g, uint32_t index) {
  const dt_term_t *term = &g->b->terms.items[index];
  uint32_t at = 0, slot;
  while (term->reads_memory && dt__term_slot(g->b, term, &at, &slot)) {
    if (g->b->slots.items[slot].kind != DT_SLOT_VALUE)
      continue;
    const dt_need_t *need = &g->b->needs.items[slot];
    fact_t fact = fact_of(g, need->term);
    if (fact.lo != need->key || fact.hi != need->key)
      return false;
  }
  return true;
}

// ---- Nodes ----------------------------------------------------------------------------------------
static dt_tree_ref_t node(grow_t *g, dt_tree_node_t n) {
  if (n.yes == n.no)
    return n.yes;
  uint64_t fields[4] = {n.term, (uint64_t)n.lo, (uint64_t)n.hi, (uint64_t)n.yes << 32 | n.no};
  uint64_t hash = dt__hash(fields, sizeof(fields), 4);
  uint32_t cursor = 0, found;
  while (dt__table_next(&g->node_table, hash, &cursor, &found)) {
    const dt_tree_node_t *old = &g->nodes.items[found];
    if (old->term == n.term && old->lo == n.lo && old->hi == n.hi && old->yes == n.yes &&
        old->no == n.no)
      return found + 1;
  }
  if (!DT_VEC_PUSH(g->b->arena, &g->nodes, n) ||
      !dt__table_add(&g->b->scratch, &g->node_table, hash, g->nodes.len - 1)) {
    g->failed = true;
    return DT_TREE_MISS;
  }
  return g->nodes.len;
}

// The question of a constraint, with bounds that are known anyway left out.
static dt_tree_ref_t ask(grow_t *g, uint32_t constraint, dt_tree_ref_t holds, dt_tree_ref_t fails) {
  const dt_constraint_t *c = &g->b->constraints.items[constraint];
  const fact_t *first = &g->ranges[c->term];
  return node(g, (dt_tree_node_t){.term = c->term,
                                  .yes = c->outside ? fails : holds,
                                  .no = c->outside ? holds : fails,
                                  .lo = c->lo <= first->lo ? INT64_MIN : c->lo,
                                  .hi = c->hi >= first->hi ? INT64_MAX : c->hi});
}

// ---- Variants one after another -------------------------------------------------------------------
static void make_sequences(grow_t *g) {
  const dt_tree_build_t *b = g->b;
  dt_tree_ref_t next = DT_TREE_MISS;
  uint32_t at = b->n_candidates;
  for (uint32_t v = b->n_variants; v-- > 0;) {
    if (at && b->candidates[at - 1].variant == v) {
      const dt_candidate_t *c = &b->candidates[--at];
      dt_tree_ref_t ref = DT_TREE_HIT | v;
      for (uint32_t k = c->n; k-- > 0;) {
        const dt_constraint_t *constraint = &b->constraints.items[c->constraints[k]];
        verdict_t verdict = judge(&g->trunk[constraint->term], constraint);
        if (verdict == FAILS)
          ref = next;
        else if (verdict == OPEN)
          ref = ask(g, c->constraints[k], ref, next);
      }
      next = ref;
    }
    g->sequences[v] = next;
  }
  g->in_sequence = true;
}

// Whatever is known, this is right for the candidates from `variant` on: those before it are out.
static dt_tree_ref_t sequence(grow_t *g, uint32_t variant) {
  if (!g->in_sequence)
    make_sequences(g);
  return g->sequences[variant];
}

// The candidates alone, by what is not known of each.
static dt_tree_ref_t short_sequence(grow_t *g, list_t list) {
  dt_tree_ref_t next = DT_TREE_MISS;
  for (uint32_t k = list.n; k-- > 0;) {
    dt_tree_ref_t ref = DT_TREE_HIT | list.items[k].variant;
    for (uint32_t j = list.items[k].n; j-- > 0;)
      ref = ask(g, list.items[k].constraints[j], ref, next);
    next = ref;
  }
  return next;
}

// ---- Candidates -----------------------------------------------------------------------------------
// The candidate without what is known to hold; false: it cannot hold.
static bool settle_one(grow_t *g, const dt_candidate_t *from, dt_candidate_t *to) {
  *to = *from;
  uint32_t open = 0;
  for (uint32_t k = 0; k < from->n; k++) {
    const dt_constraint_t *c = &g->b->constraints.items[from->constraints[k]];
    fact_t fact = fact_of(g, c->term);
    verdict_t verdict = judge(&fact, c);
    if (verdict == FAILS)
      return false;
    open += verdict == OPEN;
  }
  if (open == from->n)
    return true;
  uint32_t *left = DT_ARENA_ARRAY(&g->b->scratch, uint32_t, open + 1);
  if (!left) {
    g->failed = true;
    return false;
  }
  to->constraints = left;
  to->n = 0;
  for (uint32_t k = 0; k < from->n; k++) {
    const dt_constraint_t *c = &g->b->constraints.items[from->constraints[k]];
    fact_t fact = fact_of(g, c->term);
    if (judge(&fact, c) == OPEN)
      left[to->n++] = from->constraints[k];
  }
  return true;
}

// Up to the first that certainly holds: those behind it are never reached.
static list_t settle(grow_t *g, list_t list) {
  dt_candidate_t *items = DT_ARENA_ARRAY(&g->b->scratch, dt_candidate_t, list.n + 1);
  if (!items) {
    g->failed = true;
    return (list_t){0};
  }
  uint32_t n = 0;
  for (uint32_t k = 0; k < list.n; k++) {
    if (!settle_one(g, &list.items[k], &items[n]))
      continue;
    if (items[n++].n == 0)
      break;
  }
  return (list_t){items, n};
}

// ---- What stands at a place, as bytes ---------------------------------------------------------------
typedef struct place_key_t {
  DT_VEC(int64_t) words;
  uint32_t stamp;
} place_key_t;

static void key_put(grow_t *g, place_key_t *key, int64_t word) {
  if (!DT_VEC_PUSH(&g->b->scratch, &key->words, word))
    g->failed = true;
}

static void key_fact(grow_t *g, place_key_t *key, uint32_t term) {
  if (term == UINT32_MAX || g->stamps[term] == key->stamp)
    return;
  g->stamps[term] = key->stamp;
  fact_t fact = fact_of(g, term);
  key_put(g, key, term);
  key_put(g, key, fact.lo);
  key_put(g, key, fact.hi);
  for (const gap_t *gap = fact.gaps; gap; gap = gap->next) {
    if (gap->hi < fact.lo || gap->lo > fact.hi)
      continue;
    key_put(g, key, gap->lo);
    key_put(g, key, gap->hi);
  }
  key_put(g, key, -1);
}

// The term, and those that say something of it.
static void key_term(grow_t *g, place_key_t *key, uint32_t index) {
  const dt_term_t *term = &g->b->terms.items[index];
  key_fact(g, key, index);
  uint32_t at = 0, slot;
  while ((term->kind != DT_TERM_EXPR || term->reads_memory) &&
         dt__term_slot(g->b, term, &at, &slot)) {
    key_fact(g, key, g->slot_terms[slot]);
    if (g->b->slots.items[slot].kind == DT_SLOT_VALUE)
      key_fact(g, key, g->b->needs.items[slot].term);
  }
}

static place_key_t key_of(grow_t *g, list_t list) {
  place_key_t key = {.stamp = ++g->n_keys};
  for (uint32_t k = 0; k < list.n; k++) {
    key_put(g, &key, list.items[k].variant);
    key_put(g, &key, list.items[k].n);
    for (uint32_t j = 0; j < list.items[k].n; j++) {
      uint32_t constraint = list.items[k].constraints[j];
      key_put(g, &key, constraint);
      key_term(g, &key, g->b->constraints.items[constraint].term);
    }
  }
  return key;
}

// ---- Questions ------------------------------------------------------------------------------------
typedef struct entry_t {
  uint32_t term, candidate, constraint;
} entry_t;

typedef struct question_t {
  uint32_t term;
  int64_t lo, hi;
  uint32_t yes, no; // candidates left on either side
  uint64_t score;   // the less the better
} question_t;

static int compare_entries(const void *left, const void *right) {
  const entry_t *a = left, *b = right;
  if (a->term != b->term)
    return a->term < b->term ? -1 : 1;
  if (a->candidate != b->candidate)
    return a->candidate < b->candidate ? -1 : 1;
  return (a->constraint > b->constraint) - (a->constraint < b->constraint);
}

static int compare_questions(const void *left, const void *right) {
  const question_t *a = left, *b = right;
  if (a->lo != b->lo)
    return a->lo < b->lo ? -1 : 1;
  return (a->hi > b->hi) - (a->hi < b->hi);
}

// How many candidates of `entries`, all of one term, may still hold where the term is as `fact`.
static uint32_t survivors(const grow_t *g, const entry_t *entries, uint32_t n, const fact_t *fact) {
  uint32_t alive = 0;
  for (uint32_t k = 0; k < n;) {
    uint32_t candidate = entries[k].candidate;
    bool holds = true;
    for (; k < n && entries[k].candidate == candidate; k++)
      holds &= judge(fact, &g->b->constraints.items[entries[k].constraint]) != FAILS;
    alive += holds;
  }
  return alive;
}

static uint32_t put_question(question_t *questions, uint32_t n, int64_t lo, int64_t hi,
                             const fact_t *fact) {
  lo = lo > fact->lo ? lo : fact->lo;
  hi = hi < fact->hi ? hi : fact->hi;
  if (lo > hi || (lo == fact->lo && hi == fact->hi))
    return n;
  questions[n] = (question_t){.lo = lo, .hi = hi};
  return n + 1;
}

// The questions about one term that its constraints suggest: themselves, and their ends.
static uint32_t suggest(const grow_t *g, const entry_t *entries, uint32_t n, const fact_t *fact,
                        question_t *out) {
  uint32_t count = 0;
  uint8_t kind = g->b->terms.items[entries[0].term].kind;
  for (uint32_t k = 0; k < n; k++) {
    const dt_constraint_t *c = &g->b->constraints.items[entries[k].constraint];
    count = put_question(out, count, c->lo, c->hi, fact);
    if (kind == DT_TERM_MASK || kind == DT_TERM_EXPR)
      continue;
    count = put_question(out, count, fact->lo, c->hi, fact);
    count = put_question(out, count, c->lo, fact->hi, fact);
  }
  qsort(out, count, sizeof(*out), compare_questions);
  uint32_t unique = 0;
  for (uint32_t k = 0; k < count; k++) {
    if (unique == 0 || compare_questions(&out[unique - 1], &out[k]) != 0)
      out[unique++] = out[k];
  }
  if (unique <= MOST_QUESTIONS)
    return unique;
  for (uint32_t k = 0; k < MOST_QUESTIONS; k++)
    out[k] = out[(uint64_t)k * unique / MOST_QUESTIONS];
  return MOST_QUESTIONS;
}

static bool better(const grow_t *g, const question_t *a, const question_t *b) {
  if (a->score != b->score)
    return a->score < b->score;
  uint8_t x = g->b->terms.items[a->term].kind, y = g->b->terms.items[b->term].kind;
  return x != y ? x < y : false; // else the first found stays
}

static void try_term(const grow_t *g, const entry_t *entries, uint32_t n, uint32_t n_candidates,
                     question_t *room, question_t *best) {
  uint32_t term = entries[0].term;
  if (!readable(g, term))
    return;
  fact_t fact = fact_of(g, term);
  uint32_t concerned = 1;
  for (uint32_t k = 1; k < n; k++)
    concerned += entries[k].candidate != entries[k - 1].candidate;
  uint32_t count = suggest(g, entries, n, &fact, room);
  for (uint32_t k = 0; k < count; k++) {
    question_t *q = &room[k];
    gap_t gap = {q->lo, q->hi, fact.gaps};
    fact_t inside = fact_inside(fact, q->lo, q->hi), outside = fact_outside(fact, &gap);
    q->term = term;
    q->yes = n_candidates - concerned + survivors(g, entries, n, &inside);
    q->no = n_candidates - concerned + survivors(g, entries, n, &outside);
    q->score = (uint64_t)q->yes * q->yes + (uint64_t)q->no * q->no;
    if (best->score == 0 || better(g, q, best))
      *best = *q;
  }
}

// The question that tells the candidates apart best; false: there is none.
static bool choose(grow_t *g, list_t list, question_t *best) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < list.n; k++)
    n += list.items[k].n;
  entry_t *entries = DT_ARENA_ARRAY(&g->b->scratch, entry_t, n + 1);
  question_t *room = DT_ARENA_ARRAY(&g->b->scratch, question_t, 3 * (size_t)n + 1);
  if (!entries || !room) {
    g->failed = true;
    return false;
  }
  n = 0;
  for (uint32_t k = 0; k < list.n; k++) {
    for (uint32_t j = 0; j < list.items[k].n; j++) {
      uint32_t constraint = list.items[k].constraints[j];
      entries[n++] = (entry_t){g->b->constraints.items[constraint].term, k, constraint};
    }
  }
  qsort(entries, n, sizeof(*entries), compare_entries);
  *best = (question_t){0};
  for (uint32_t k = 0; k < n;) {
    uint32_t begin = k;
    while (k < n && entries[k].term == entries[begin].term)
      k++;
    try_term(g, entries + begin, k - begin, list.n, room, best);
  }
  return best->score != 0;
}

// ---- Growing --------------------------------------------------------------------------------------
static dt_tree_ref_t split(grow_t *g, list_t list, uint32_t depth, uint32_t budget) {
  question_t q;
  if (!choose(g, list, &q))
    return sequence(g, list.items[0].variant);
  uint32_t mark = g->undo.len;
  uint32_t rest = budget - 1;
  uint32_t share = (uint32_t)((uint64_t)rest * q.yes / (q.yes + q.no));
  learn(g, q.term, q.lo, q.hi, true);
  dt_tree_ref_t yes = grow(g, list, depth + 1, share);
  undo_to(g, mark);
  learn(g, q.term, q.lo, q.hi, false);
  dt_tree_ref_t no = grow(g, list, depth + 1, rest - share);
  undo_to(g, mark);
  const fact_t *first = &g->ranges[q.term];
  return node(g, (dt_tree_node_t){.term = q.term,
                                  .yes = yes,
                                  .no = no,
                                  .lo = q.lo <= first->lo ? INT64_MIN : q.lo,
                                  .hi = q.hi >= first->hi ? INT64_MAX : q.hi});
}

// What all candidates ask, in the order of the first one's records, each learned before the next.
static uint32_t take_common(grow_t *g, list_t list, uint32_t *out) {
  for (uint32_t k = 0; k < list.n; k++) {
    for (uint32_t j = 0; j < list.items[k].n; j++)
      g->counts[list.items[k].constraints[j]]++;
  }
  uint32_t n = 0;
  for (uint32_t j = 0; j < list.items[0].n; j++) {
    uint32_t index = list.items[0].constraints[j];
    const dt_constraint_t *c = &g->b->constraints.items[index];
    if (g->counts[index] != list.n || !readable(g, c->term))
      continue;
    fact_t fact = fact_of(g, c->term);
    if (judge(&fact, c) != OPEN)
      continue;
    learn(g, c->term, c->lo, c->hi, !c->outside);
    out[n++] = index;
  }
  for (uint32_t k = 0; k < list.n; k++) {
    for (uint32_t j = 0; j < list.items[k].n; j++)
      g->counts[list.items[k].constraints[j]] = 0;
  }
  return n;
}

static dt_tree_ref_t grow_here(grow_t *g, list_t list, uint32_t depth, uint32_t budget) {
  uint32_t *common = DT_ARENA_ARRAY(&g->b->scratch, uint32_t, list.items[0].n + 1);
  if (!common) {
    g->failed = true;
    return DT_TREE_MISS;
  }
  uint32_t mark = g->undo.len;
  uint32_t n = take_common(g, list, common);
  if (n == 0)
    return split(g, list, depth, budget);
  if (depth == 0)
    memcpy(g->trunk, g->facts, g->b->terms.len * sizeof(*g->trunk));
  dt_tree_ref_t ref = grow(g, list, depth + 1, budget);
  undo_to(g, mark);
  while (n-- > 0)
    ref = ask(g, common[n], ref, DT_TREE_MISS);
  return ref;
}

static dt_tree_ref_t grow(grow_t *g, list_t list, uint32_t depth, uint32_t budget) {
  list = settle(g, list);
  if (g->failed || list.n == 0)
    return DT_TREE_MISS;
  if (list.items[0].n == 0)
    return DT_TREE_HIT | list.items[0].variant;
  if (list.n > 1 && (budget < list.n || depth > MOST_DEPTH))
    return list.n <= SHORT_SEQUENCE * (budget + 1) ? short_sequence(g, list)
                                                   : sequence(g, list.items[0].variant);
  place_key_t key = key_of(g, list);
  size_t bytes = key.words.len * sizeof(int64_t);
  uint64_t hash = dt__hash(key.words.items, bytes, 5);
  uint32_t cursor = 0, found;
  while (dt__table_next(&g->memo_table, hash, &cursor, &found)) {
    const memo_t *memo = &g->memos.items[found];
    if (memo->bytes == bytes && memcmp(memo->key, key.words.items, bytes) == 0)
      return memo->ref;
  }
  dt_tree_ref_t ref = grow_here(g, list, depth, budget);
  memo_t memo = {key.words.items, bytes, ref};
  if (!DT_VEC_PUSH(&g->b->scratch, &g->memos, memo) ||
      !dt__table_add(&g->b->scratch, &g->memo_table, hash, g->memos.len - 1))
    g->failed = true;
  return ref;
}

// ---- The tree -------------------------------------------------------------------------------------
static fact_t slot_range(const dt_slot_t *slot) {
  switch ((dt_slot_kind_t)slot->kind) {
  case DT_SLOT_SIZE:
  case DT_SLOT_COUNT:
    return (fact_t){.lo = 0, .hi = DT_SIZE_LIMIT - 1};
  default:
    return (fact_t){.lo = INT64_MIN, .hi = INT64_MAX};
  }
}

static fact_t natural_range(const dt_tree_build_t *b, const dt_term_t *term) {
  switch ((dt_term_kind_t)term->kind) {
  case DT_TERM_SLOT:
    return slot_range(&b->slots.items[term->slot]);
  case DT_TERM_SIGN:
    return (fact_t){.lo = -1, .hi = 1};
  case DT_TERM_MOD:
    return (fact_t){.lo = 0, .hi = term->a - 1};
  case DT_TERM_EXPR:
    return (fact_t){.lo = 0, .hi = 1};
  case DT_TERM_MASK:
    break;
  }
  return (fact_t){.lo = INT64_MIN, .hi = INT64_MAX};
}

static dt_status_t grow_init(grow_t *g) {
  dt_tree_build_t *b = g->b;
  uint32_t n = b->terms.len;
  fact_t *ranges = DT_ARENA_ARRAY(&b->scratch, fact_t, n + 1);
  g->facts = DT_ARENA_ARRAY(&b->scratch, fact_t, n + 1);
  g->trunk = DT_ARENA_ARRAY(&b->scratch, fact_t, n + 1);
  g->stamps = DT_ARENA_ARRAY(&b->scratch, uint32_t, n + 1);
  g->counts = DT_ARENA_ARRAY(&b->scratch, uint32_t, b->constraints.len + 1);
  g->sequences = DT_ARENA_ARRAY(&b->scratch, dt_tree_ref_t, b->n_variants + 1);
  g->slot_terms = DT_ARENA_ARRAY(&b->scratch, uint32_t, b->slots.len + 1);
  if (!ranges || !g->facts || !g->trunk || !g->stamps || !g->counts || !g->sequences ||
      !g->slot_terms)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < b->slots.len; k++)
    g->slot_terms[k] = UINT32_MAX;
  for (uint32_t k = 0; k < n; k++) {
    const dt_term_t *term = &b->terms.items[k];
    ranges[k] = g->facts[k] = g->trunk[k] = natural_range(b, term);
    if (term->kind == DT_TERM_SLOT)
      g->slot_terms[term->slot] = k;
  }
  g->ranges = ranges;
  return NULL;
}

static dt_status_t make(dt_tree_build_t *b, const dt_guards_t *const *programs, dt_tree_t *tree) {
  DT_TRY(dt__tree_translate(b, programs));
  grow_t g = {.b = b};
  DT_TRY(grow_init(&g));
  list_t all = {b->candidates, b->n_candidates};
  tree->root = grow(&g, all, 0, NODES_AT_LEAST + NODES_A_VARIANT * b->n_variants);
  if (g.failed)
    return DT_NO_MEMORY();
  tree->n_variants = b->n_variants;
  tree->n_slots = b->slots.len;
  tree->n_terms = b->terms.len;
  tree->n_steps = b->steps.len;
  tree->n_nodes = g.nodes.len;
  tree->variants = b->variants;
  tree->slots = b->slots.items;
  tree->terms = b->terms.items;
  tree->steps = b->steps.items;
  tree->nodes = g.nodes.items;
  return NULL;
}

dt_status_t dt__tree_create(const dt_guards_t *const *programs, uint32_t n, dt_tree_t **out) {
  *out = NULL;
  if (n > DT_TREE_MAX_VARIANTS)
    return DT_FAIL(DT_E_LIMIT, "guards: %u variants in one decision, the most is %u", n,
                   DT_TREE_MAX_VARIANTS);
  dt_tree_t *tree = dt__calloc(1, sizeof(*tree));
  if (!tree)
    return DT_NO_MEMORY();
  dt__arena_init(&tree->arena, 0);
  dt_tree_build_t build = {.arena = &tree->arena, .n_variants = n};
  dt__arena_init(&build.scratch, 0);
  dt_status_t status = make(&build, programs, tree);
  dt__arena_fini(&build.scratch);
  if (status) {
    dt__tree_destroy(tree);
    return status;
  }
  *out = tree;
  return NULL;
}

void dt__tree_destroy(dt_tree_t *tree) {
  if (!tree)
    return;
  dt__arena_fini(&tree->arena);
  dt__free(tree);
}
