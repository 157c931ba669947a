// SPDX-License-Identifier: Apache-2.0
// A decision in the making: programs as conjunctions of constraints on shared terms (tree_terms.c),
// which tree.c then distinguishes.
#ifndef DT_GUARDS_TREE_BUILD_H
#define DT_GUARDS_TREE_BUILD_H

#include "guards/tree.h"

#define DT_TREE_MAX_VARIANTS 4096u
#define DT_TREE_MAX_CONSTRAINTS 4000000u // of all programs together
#define DT_TREE_MAX_STEPS 32768u         // of all expressions: half a second of LLVM

// A term lies in [lo, hi], or `outside` it. Equal constraints are one.
typedef struct dt_constraint_t {
  uint32_t term;
  uint32_t outside;
  int64_t lo, hi;
} dt_constraint_t;

// A variant and those of its constraints that are not known to hold.
typedef struct dt_candidate_t {
  uint32_t variant, n;
  const uint32_t *constraints; // in the order of the program's records
} dt_candidate_t;

// Which items have a hash; whether one of them is equal is for the caller to see.
typedef struct dt_table_t {
  struct dt_table_entry_t {
    uint64_t hash;
    uint32_t item; // index + 1; 0: free
  } *entries;
  uint32_t cap, n; // cap: 0 or a power of two
} dt_table_t;
// The next item with this hash; *cursor begins at 0. False: no more.
bool dt__table_next(const dt_table_t *table, uint64_t hash, uint32_t *cursor, uint32_t *out_item);
bool dt__table_add(dt_arena_t *arena, dt_table_t *table, uint64_t hash, uint32_t item);

// What must be known before a VALUE slot is read: its header.
typedef struct dt_need_t {
  uint32_t term;
  int64_t key;
} dt_need_t;

// The program that last asked for an interval of a term, counted from 1, and where it stands.
typedef struct dt_asked_t {
  uint32_t by, at;
} dt_asked_t;

typedef struct dt_tree_build_t {
  dt_arena_t *arena; // the tree's
  dt_arena_t scratch;
  DT_VEC(dt_slot_t) slots;
  DT_VEC(dt_need_t) needs; // by slot; read for VALUE only
  DT_VEC(dt_term_t) terms;
  DT_VEC(dt_guard_step_t) steps;
  DT_VEC(dt_constraint_t) constraints;
  DT_VEC(dt_asked_t) asked; // by term
  DT_VEC(uint32_t) owners;  // by constraint: the program that asked last, from 1 on
  dt_table_t slot_table, term_table, constraint_table;
  uint32_t n_variants;
  dt_candidate_t *candidates; // of all variants that can hold
  uint32_t n_candidates;
  dt_tree_variant_t *variants;
} dt_tree_build_t;

// Fills everything above from the programs.
dt_status_t dt__tree_translate(dt_tree_build_t *build,
                               const dt_guards_t *const *programs) DT_MUST_USE;

// The next slot that a term reads; *at begins at 0. False: no more.
bool dt__term_slot(const dt_tree_build_t *build, const dt_term_t *term, uint32_t *at,
                   uint32_t *out_slot);

#endif // DT_GUARDS_TREE_BUILD_H
