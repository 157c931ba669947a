// SPDX-License-Identifier: Apache-2.0
// One decision over many guard programs: which of them holds first. Its answer is that of running
// the programs one after another, with less work: a check that several share is made once, and a
// check that distinguishes them leaves few of them.
//
//   slot  one number that a call brings: a size, a stride, an address, a header, a value, the modes
//   term  one number made of slots: the slot itself, masked, modulo a literal, the sign of a
//         comparison of two slots, or the truth of an expression over slots
//   node  whether a term lies in [lo, hi], and where to go on for yes and for no
//
// Nodes form a graph without cycles: paths share their common parts. Any term may be computed at
// any time, except an argument's value, which exists only if the argument's header was found
// correct. guards/ interprets the graph; a code generator emits it.
//
// A call's arguments must bring every input and capture that any of the programs names.
#ifndef DT_GUARDS_TREE_H
#define DT_GUARDS_TREE_H

#include "guards/record.h"
#include "runtime/base/memory.h"

typedef enum dt_slot_kind_t {
  DT_SLOT_KEY, // dt__guard_key of input `index`
  DT_SLOT_SIZE,
  DT_SLOT_STRIDE,
  DT_SLOT_COUNT, // elements
  DT_SLOT_DATA,  // address of the elements
  DT_SLOT_VALUE, // the integer in the input, of dtype `dim`; U64 as its bits
  DT_SLOT_CAPTURE,
  DT_SLOT_MODES,
} dt_slot_kind_t;

typedef struct dt_slot_t {
  uint8_t kind;   // dt_slot_kind_t
  uint8_t dim;    // or dtype
  uint16_t index; // input or capture
} dt_slot_t;

typedef enum dt_term_kind_t { // cheapest first
  DT_TERM_MASK,               // slot & a
  DT_TERM_SLOT,               // slot
  DT_TERM_SIGN,               // -1, 0 or 1: slot below, at, above `other`
  DT_TERM_MOD,                // slot mod a, in [0, a)
  DT_TERM_EXPR,               // 1 where the `other` steps from step `slot` on have a value not 0
} dt_term_kind_t;

typedef struct dt_term_t {
  uint8_t kind;      // dt_term_kind_t
  bool reads_memory; // of an argument: a VALUE slot is in it
  uint32_t slot, other;
  int64_t a;
} dt_term_t;

// Where to go: DT_TREE_MISS, DT_TREE_HIT | variant, or a node's index + 1.
typedef uint32_t dt_tree_ref_t;
#define DT_TREE_MISS ((dt_tree_ref_t)0)
#define DT_TREE_HIT ((dt_tree_ref_t)1 << 31)

typedef struct dt_tree_node_t {
  uint32_t term;
  dt_tree_ref_t yes, no;
  int64_t lo, hi; // INT64_MIN and INT64_MAX: no bound
} dt_tree_node_t;

// Symbols of a variant: for each the slot it is read from, or DT_TREE_ZERO.
#define DT_TREE_ZERO UINT32_MAX
typedef struct dt_tree_variant_t {
  uint32_t n_symbols;
  const uint32_t *slots;
} dt_tree_variant_t;

typedef struct dt_tree_t {
  dt_arena_t arena; // owns all below
  uint32_t n_variants, n_slots, n_terms, n_steps, n_nodes;
  const dt_tree_variant_t *variants;
  const dt_slot_t *slots;
  const dt_term_t *terms;
  const dt_guard_step_t *steps; // `symbol` is a slot
  const dt_tree_node_t *nodes;  // a node stands after those it leads to
  dt_tree_ref_t root;
} dt_tree_t;

// The decision over `n` programs, the first of highest rank. They are only read and not kept.
// DT_E_LIMIT where they are too many or too large for one decision.
dt_status_t dt__tree_create(const dt_guards_t *const *programs, uint32_t n,
                            dt_tree_t **out) DT_MUST_USE;
void dt__tree_destroy(dt_tree_t *tree); // NULL allowed
// The first variant whose guards hold, its symbols in `symbols` as dt__guards_run leaves them; or
// -1.
int64_t dt__tree_run(const dt_tree_t *tree, const dt_guard_args_t *args, int64_t *symbols);
// The decision as text, and the same one read back.
dt_status_t dt__tree_write(const dt_tree_t *tree, dt_text_t *out) DT_MUST_USE;
dt_status_t dt__tree_read(dt_scan_t *scan, dt_tree_t **out) DT_MUST_USE;
// Nodes from the root on, deterministic, for tests.
void dt__tree_print(const dt_tree_t *tree, dt_text_t *out);

#endif // DT_GUARDS_TREE_H
