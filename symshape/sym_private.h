// SPDX-License-Identifier: Apache-2.0
// The inside of symshape: nodes, polynomials, facts, and the functions that its files share.
//
// Ring nodes are always a flat sum of products of atoms: ADD of terms; a term is a literal times a
// monomial; a monomial is a MUL of atoms without a literal, or one atom; an atom is a symbol or any
// other operation. Arguments have smaller ids than the node that holds them.
//
// A sum or product is exact while it is being added up and must fit in 64 bits where another
// operation, or the caller, reads it. Two's complement code that wraps inside of a sum agrees with
// that whenever the sum has a value. So terms may be moved freely inside a sum. They may move
// across a comparison or a division only if ranges show that the new sums fit, too.
#ifndef DT_SYMSHAPE_SYM_PRIVATE_H
#define DT_SYMSHAPE_SYM_PRIVATE_H

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "symshape/apply.h"
#include "symshape/symshape.h"

#define SYM_MAX_DEPTH 256u
#define SYM_MAX_TERMS 4096u
#define SYM_MAX_TREE (1u << 20) // nodes of one expression, shared ones counted each time
#define SYM_MAX_NODES (1u << 26)
#define SYM_CACHE 4096u
#define SYM_MAX_LEARN_DEPTH 12u
#define SYM_MAX_LEARNED 32u // conditions that one is taken apart into; models stay below 16
#define SYM_MAX_REFINE_TERMS 64u

typedef enum dt_rule_t {
#define RULE(id, doc) DT_RULE_##id,
#include "symshape/rules.def"
  DT_RULE_COUNT
} dt_rule_t;

typedef struct dt_sym_node_t {
  uint32_t op, n_args, first; // arguments are env->args[first …]
  uint32_t hash, depth, tree;
  int64_t value; // CONST: the literal. SYMBOL: its index. MUL with a literal: id of the monomial
  uint64_t mask; // bit (index % 64) of each symbol below
  uint32_t late; // 1 + the newest UNBACKED symbol below (a loop's: in its extent), or 0
  // Facts.
  uint32_t less;  // facts with a sum in which this is a term with a minus: the first of its uses
  uint32_t rep;   // what this node was learned to be equal to; 0: nothing
  int64_t lo, hi; // learned bounds
  // Memos, valid while the epoch (the substitution's number) is the same.
  uint32_t range_epoch, simp_epoch, simp, subst_run, subst;
  dt_range_t range;
} dt_sym_node_t;

typedef struct dt_symbol_t {
  dt_symbol_kind_t kind;
  bool has_hint;
  int64_t hint;
  uint32_t node, extent;
  dt_range_t made;
  int64_t modulus, residue; // value mod modulus == residue; modulus 1 says nothing
  uint32_t whole;           // 1 + the symbol that this one is `divisor` times in; 0: it is no part
  int64_t divisor;
  uint32_t facts;         // facts that mention it: the first of its uses
  uint32_t in;            // symbols whose replacement mentions it: the first of its uses
  uint32_t why, last_why; // first and last entry in env->whys; 0: none
  bool dirty;             // in env->dirty
  char *name;
} dt_symbol_t;

// A condition learned to be true that ranges and replacements do not express in full.
typedef struct dt_fact_t {
  uint32_t cond;
  uint32_t ge0;  // a sum known to be >= 0, or 0
  uint32_t only; // 1 + the one symbol that cond is about; 0: it is about more
  uint32_t late; // from when it holds: after this symbol (as in nodes) is bound
} dt_fact_t;

// Lists of facts (or symbols), newest first: an entry of env->uses; `next` 0 ends the list.
typedef struct dt_use_t {
  uint32_t what, next;
} dt_use_t;

// Facts whose sum has -less and +more among its terms. A slot of a hash table; `uses` 0: empty.
typedef struct dt_pair_t {
  uint32_t less, more, uses;
} dt_pair_t;

// An entry of a symbol's list of reasons.
typedef struct dt_why_t {
  dt_sym_fact_t fact;
  uint32_t next;
} dt_why_t;

typedef struct dt_op_memo_t {
  uint32_t op, a, b, epoch, result;
} dt_op_memo_t;

struct dt_symenv {
  dt_sym_node_t *nodes; // [0] is none
  uint32_t n_nodes, cap_nodes;
  dt_sym_t *args;
  uint32_t n_args, cap_args;
  uint32_t *table; // open addressing; power of two; 0 is empty
  uint32_t table_cap;
  dt_symbol_t *symbols;
  uint32_t n_symbols, cap_symbols;
  dt_fact_t *facts;
  uint32_t n_facts, cap_facts;
  dt_use_t *uses; // [0] is not used
  uint32_t n_uses, cap_uses;
  dt_pair_t *pairs;
  uint32_t n_pairs, cap_pairs; // cap: 0 or a power of two
  dt_why_t *whys;              // [0] is not used
  uint32_t n_whys, cap_whys;
  dt_sym_fact_t asked; // what is being learned; none: nothing is to be remembered
  uint32_t *dirty;     // symbols whose bounds changed since facts about them were read
  uint32_t n_dirty, cap_dirty;
  struct {
    dt_sym_op_t op; // NONE: no
    dt_sym_t a, b;
  } refused;           // the last comparison, if it was false as it was built
  dt_op_memo_t *cache; // SYM_CACHE slots
  uint32_t epoch;      // raised by every new fact
  uint32_t late;       // from when the condition holds that is being learned
  uint32_t n_learned;  // what it was taken apart into so far
  uint32_t subst_run;
  uint32_t quiet;       // > 0: a failure of arithmetic is not remembered
  uint32_t prove_depth; // nesting of proofs through builders
  uint32_t n_steps;     // of all proofs
  bool frozen;
  bool named; // made by dt__symenv_read: text may call expressions by their ids
  dt_code_t fail_code;
  const char *fail_text;
  dt_assume_fn_t assume;
  void *assume_user;
  uint32_t rule_hits[DT_RULE_COUNT];
};

// ---- Nodes (expr.c) ----------------------------------------------------------------------------
#define SYM(i) ((dt_sym_t){.id = (i)})
static inline dt_sym_node_t *dt__node(const dt_symenv_t *env, uint32_t id) {
  return &env->nodes[id];
}
static inline uint32_t dt__arg(const dt_symenv_t *env, uint32_t id, uint32_t k) {
  return env->args[env->nodes[id].first + k].id;
}
// Remembers a first failure; arithmetic ones not in quiet mode. Returns none.
dt_sym_t dt__sym_fail(dt_symenv_t *env, dt_code_t code, const char *text);
// Whether what is being learned may be said of the node itself: it holds whenever that is used.
static inline bool dt__may_say(const dt_symenv_t *env, uint32_t id) {
  return env->nodes[id].late >= env->late;
}
// Finds or makes the node; no simplification. `args` must not point into env->args.
uint32_t dt__intern(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                    int64_t value);
uint32_t dt__intern2(dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b);
uint32_t dt__literal(dt_symenv_t *env, int64_t value);
// The learned value of the node, or the literal its range leaves, or the node.
uint32_t dt__finish(dt_symenv_t *env, uint32_t id);
// Structural total order, independent of when nodes were made.
int dt__sym_order(const dt_symenv_t *env, uint32_t a, uint32_t b);
// By that order. There is room for as many behind the items.
void dt__sym_sort(const dt_symenv_t *env, dt_sym_t *items, uint32_t n);
// The arguments of an operation with any number of them, resolved; those of nested ones of the same
// kind stand in their place. Ready for dt__sym_sort.
typedef struct dt_sym_items_t {
  dt_sym_t *at; // `few`, or the heap's
  uint32_t n;
  dt_sym_t few[32];
} dt_sym_items_t;
// False: an argument is none, or the failure is remembered, and there is nothing to close.
bool dt__items_open(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                    dt_sym_items_t *out);
void dt__items_close(dt_sym_items_t *items);
bool dt__grow(void **items, uint32_t *cap, uint32_t need, size_t item);
bool dt__is_bool(const dt_symenv_t *env, uint32_t id); // the operation gives 0 or 1
static inline bool dt__literal_value(const dt_symenv_t *env, uint32_t id, int64_t *out) {
  *out = env->nodes[id].value;
  return env->nodes[id].op == DT_SYM_CONST;
}
// Remembered results of two-argument builders in this epoch.
bool dt__cache_get(const dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b, uint32_t *out);
void dt__cache_put(dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b, uint32_t result);
static inline void dt__rule(dt_symenv_t *env, dt_rule_t rule) { env->rule_hits[rule]++; }

// ---- Polynomials (poly.c) ----------------------------------------------------------------------
typedef struct dt_poly_term_t {
  int64_t coef;  // not 0
  uint32_t mono; // a monomial
} dt_poly_term_t;
// Terms in canonical order; `c` is the literal. Not to be copied by assignment.
typedef struct dt_poly_t {
  dt_poly_term_t *t;
  uint32_t n, cap;
  int64_t c;
  dt_poly_term_t small[8];
} dt_poly_t;

void dt__poly_init(dt_poly_t *p);
void dt__poly_fini(dt_poly_t *p);
void dt__poly_swap(dt_poly_t *a, dt_poly_t *b);
// All false on overflow of a coefficient, too many terms (both remembered as "arithmetic" only by
// builders), or no memory (always remembered).
bool dt__poly_load(dt_symenv_t *env, dt_poly_t *p, uint32_t id);
bool dt__poly_copy(dt_symenv_t *env, dt_poly_t *p, const dt_poly_t *from);
bool dt__poly_add(dt_symenv_t *env, dt_poly_t *p, const dt_poly_t *q,
                  int64_t scale); // p += scale*q
bool dt__poly_add_term(dt_symenv_t *env, dt_poly_t *p, int64_t coef, uint32_t mono);
bool dt__poly_add_literal(dt_poly_t *p, int64_t value);
bool dt__poly_scale(dt_poly_t *p, int64_t scale);
bool dt__poly_mul(dt_symenv_t *env, dt_poly_t *out, const dt_poly_t *a, const dt_poly_t *b);
// p += scale * mono * q
bool dt__poly_add_product(dt_symenv_t *env, dt_poly_t *p, int64_t scale, uint32_t mono,
                          const dt_poly_t *q);
uint32_t dt__poly_node(dt_symenv_t *env, const dt_poly_t *p); // interned as it stands
int64_t dt__poly_gcd(const dt_poly_t *p); // of the coefficients without `c`; 0: none
int64_t dt__gcd(int64_t a, int64_t b);    // >= 0; INT64_MIN counts as 1
dt_range_t dt__poly_range(dt_symenv_t *env, const dt_poly_t *p);
// The sum's exact value provably fits in 64 bits whenever its atoms have values.
bool dt__poly_fits(dt_symenv_t *env, const dt_poly_t *p);
// Every term is a positive coefficient of a monomial >= 0, and the literal is >= 0.
bool dt__poly_plain(dt_symenv_t *env, const dt_poly_t *p);

uint32_t dt__mono_mul(dt_symenv_t *env, uint32_t a,
                      uint32_t b); // 0 stands for the product of nothing
uint32_t dt__mono_count(const dt_symenv_t *env, uint32_t mono);
uint32_t dt__mono_factor(const dt_symenv_t *env, uint32_t mono, uint32_t k);
// True and mono/by in *out (0: nothing left) when all factors of `by` occur in `mono`.
bool dt__mono_div(dt_symenv_t *env, uint32_t mono, uint32_t by, uint32_t *out);
uint32_t dt__mono_gcd(dt_symenv_t *env, uint32_t a, uint32_t b);
// p == A*t + rest with A and rest free of the factor t; false when t has a higher power.
bool dt__poly_split(dt_symenv_t *env, const dt_poly_t *p, uint32_t t, dt_poly_t *a,
                    dt_poly_t *rest);

// ---- Ranges and proofs (range.c, prove.c) ------------------------------------------------------
// Bounds in which INT64_MIN as lo and INT64_MAX as hi mean infinity, also beyond 64 bits.
dt_range_t dt__range_of(dt_symenv_t *env, uint32_t id);
dt_range_t dt__range_add(dt_range_t a, dt_range_t b);
dt_range_t dt__range_mul(dt_range_t a, dt_range_t b);
// value == residue (mod modulus); modulus 0: the value is residue; 1: nothing is known.
typedef struct dt_congruence_t {
  int64_t modulus, residue;
} dt_congruence_t;
dt_congruence_t dt__congruence(dt_symenv_t *env, uint32_t id, uint32_t depth);
dt_congruence_t dt__poly_congruence(dt_symenv_t *env, const dt_poly_t *p);
// The exact value of p is >= 0 wherever its atoms have values. `positive`: an expression that may
// be taken to be >= 1 (a divisor), or 0.
bool dt__prove_ge0(dt_symenv_t *env, const dt_poly_t *p, uint32_t positive);

// ---- Builders on ids ---------------------------------------------------------------------------
uint32_t dt__sum_finish(dt_symenv_t *env, dt_poly_t *p); // sum rules, then the node; p is used up
static inline uint32_t dt__resolve(const dt_symenv_t *env, uint32_t id) {
  return env->nodes[id].rep ? env->nodes[id].rep : id;
}
// Rebuilds one operation over new arguments.
dt_sym_t dt__rebuild(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t *args, uint32_t n);
dt_sym_t dt__build_minmax(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n);
dt_sym_t dt__build_junction(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n);
// The sum that is >= 0 exactly when the LT or LE holds.
bool dt__order_poly(dt_symenv_t *env, uint32_t cond, dt_poly_t *out);

// ---- Facts (facts.c, refine.c, learn.c) ---------------------------------------------------------
// All false without memory.
bool dt__fact_add(dt_symenv_t *env, uint32_t cond, uint32_t ge0);
// Takes a fact out: its lists drop it when they are read next.
void dt__fact_drop(dt_symenv_t *env, uint32_t fact);
bool dt__use_add(dt_symenv_t *env, uint32_t *head, uint32_t what);
// The first use in the list that is of a fact which is not dropped; 0: none.
uint32_t dt__use_live(dt_symenv_t *env, uint32_t *head);
// The list of facts with -less and +more; NULL: none.
uint32_t *dt__fact_pair(dt_symenv_t *env, uint32_t less, uint32_t more);
// The list of a pair, as another environment had it.
bool dt__fact_pair_restore(dt_symenv_t *env, uint32_t less, uint32_t more, uint32_t uses);
// Notes that what is being learned fixed or narrowed the symbol.
bool dt__note_why(dt_symenv_t *env, uint32_t symbol);
bool dt__note_dirty(dt_symenv_t *env, uint32_t symbol);

static inline dt_tri_t dt__both(dt_tri_t a, dt_tri_t b) {
  return a == DT_FALSE || b == DT_FALSE ? DT_FALSE
         : a == DT_TRUE && b == DT_TRUE ? DT_TRUE
                                        : DT_UNKNOWN;
}
static inline dt_tri_t dt__no_memory(dt_symenv_t *env) {
  dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  return DT_UNKNOWN;
}

// The following give DT_TRUE: done. DT_FALSE: contradicts what is known. DT_UNKNOWN: no memory.
// The node is in [to.lo, to.hi].
dt_tri_t dt__refine_node(dt_symenv_t *env, uint32_t id, dt_range_t to, uint32_t depth);
// f >= 0 bounds each of its monomials by the bounds of the others.
dt_tri_t dt__refine_terms(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth);
// f == 0 modulo g, the common factor of all other terms (and of `modulus`), fixes a residue.
dt_tri_t dt__learn_residues(dt_symenv_t *env, const dt_poly_t *f, int64_t modulus, uint32_t depth);
dt_tri_t dt__learn_le(dt_symenv_t *env, uint32_t a, uint32_t b, uint32_t depth);
dt_tri_t dt__replace_symbol(dt_symenv_t *env, uint32_t symbol, uint32_t value, uint32_t depth);
// Reads facts about symbols whose bounds changed, until nothing changes or enough is done.
dt_tri_t dt__propagate(dt_symenv_t *env);
// The value of an expression about one symbol only.
bool dt__eval_one(const dt_symenv_t *env, uint32_t id, int64_t value, int64_t *out);
// DT_TRUE: learned. DT_FALSE: contradicts what is known. DT_UNKNOWN: no memory.
dt_tri_t dt__learn(dt_symenv_t *env, uint32_t cond, uint32_t depth);
void dt__symbol_letter(const dt_symenv_t *env, uint32_t symbol, char out[16]);

#endif // DT_SYMSHAPE_SYM_PRIVATE_H
