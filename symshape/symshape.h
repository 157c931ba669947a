// SPDX-License-Identifier: Apache-2.0
// Symbolic integers: interned expressions, value ranges, the simplifier, and the shape environment
// (symbols, hints, replacements, facts, assumptions).
//
// One dt_symenv_t is used by one thread at a time. A trace owns one; a compile works on a clone, in
// which every id keeps its meaning and new expressions may be added. Building is total: without
// memory, or when a literal overflows, a builder returns the none expression (id 0) and remembers
// the first failure (dt__symenv_status). A builder that gets none returns none, so callers check
// once, at the end. Expressions are simplified as they are built. Equal ids are equal values; the
// reverse holds as far as the rules reach. Rules (rules.def) hold for 64-bit integers under the
// axioms:
//  - a SIZE symbol is in [0, DT_SIZE_LIMIT), a LOOP symbol in [0, extent - 1];
//  - an expression that contains a LOOP symbol is evaluated only when that loop runs, so its extent
//    may be taken to be >= 1 in it (a size itself may be 0);
//  - an expression has no value where it divides by 0, or where an operation's exact result does
//    not fit in 64 bits. A sum of products is one operation: it is exact inside and must fit where
//    it is read, as two's complement code computes it. SELECT looks at the branch it takes only;
//    AND is false if one argument is, OR true if one argument is, whatever the others are.
// A rewrite may give a value to an expression that had none. It never changes one, nor takes one
// away (except in sums with parts beyond 2^180). A learned fact adds itself to the axioms: from
// then on ids are equal if it makes values equal.
#ifndef DT_SYMSHAPE_SYMSHAPE_H
#define DT_SYMSHAPE_SYMSHAPE_H

#include "ductile/base.h"
#include "runtime/base/text.h"

typedef enum dt_sym_op_t {
#define SYM_OP(id, name, arity, kind, doc) DT_SYM_##id,
#include "symshape/sym_ops.def"
  DT_SYM_OP_COUNT
} dt_sym_op_t;

// What a symbol stands for; the letter begins its name in text: s0, n1, u2, i3, d4, p5, c6.
typedef enum dt_symbol_kind_t {
  DT_SYMBOL_SIZE,      // s: a dim of an input, >= 0
  DT_SYMBOL_INT,       // n: a stride, storage offset or integer argument, any sign
  DT_SYMBOL_UNBACKED,  // u: bound by data at run time
  DT_SYMBOL_LOOP,      // i: a loop variable
  DT_SYMBOL_DATA,      // d: an index a kernel loads from a tensor
  DT_SYMBOL_SLICE,     // p: where a slice of a loop begins, or its length; bound slice by slice
  DT_SYMBOL_PARAMETER, // c: a number in which kernels of one code differ; its hint is its value
} dt_symbol_kind_t;

// Inclusive bounds; INT64_MIN and INT64_MAX mean unbounded. lo > hi: no value.
typedef struct dt_range_t {
  int64_t lo, hi;
} dt_range_t;

typedef enum dt_tri_t { DT_FALSE = 0, DT_TRUE = 1, DT_UNKNOWN = 2 } dt_tri_t;

// Who asked a question: the op and the user's source line. Strings are borrowed for the life of the
// environment (literals, or the trace's arena).
typedef struct dt_origin_t {
  const char *op; // "matmul", "broadcast", "declared name", …
  const char *file;
  int line;
} dt_origin_t;

// The same expressions, one by one.
static inline bool dt__syms_same(uint32_t n, const dt_sym_t *a, const dt_sym_t *b) {
  for (uint32_t k = 0; k < n; k++)
    if (a[k].id != b[k].id)
      return false;
  return true;
}

typedef struct dt_symenv dt_symenv_t;
#define DT_SYM_NONE_ID ((dt_sym_t){0})

// ---- Environment -------------------------------------------------------------------------------
dt_status_t dt__symenv_create(dt_symenv_t **out) DT_MUST_USE;
void dt__symenv_destroy(dt_symenv_t *env); // NULL allowed
// A private copy with the same ids, facts and freeze state, and no assumption callback.
dt_status_t dt__symenv_clone(const dt_symenv_t *env, dt_symenv_t **out) DT_MUST_USE;
// The first failure so far, as a fresh status each time (NULL if none).
dt_status_t dt__symenv_status(const dt_symenv_t *env) DT_MUST_USE;
size_t dt__symenv_bytes(const dt_symenv_t *env); // that it holds
// Called for every assumption that becomes a guard: `cond` must hold at every call.
typedef void (*dt_assume_fn_t)(void *user, dt_symenv_t *env, dt_sym_t cond,
                               const dt_origin_t *origin);
void dt__symenv_on_assume(dt_symenv_t *env, dt_assume_fn_t fn, void *user);
// After this, questions are answered from facts only; one that would need a guard fails with
// DT_E_STATE. LOOP, DATA, SLICE and PARAMETER symbols and parts of sizes may still be
// made.
void dt__symenv_freeze(dt_symenv_t *env);
bool dt__symenv_is_frozen(const dt_symenv_t *env);

// ---- Symbols -----------------------------------------------------------------------------------
typedef struct dt_symbol_info_t {
  dt_symbol_kind_t kind;
  dt_range_t range; // as learned so far
  dt_range_t made;  // as it was made
  bool has_hint;
  int64_t hint;
  int64_t modulus, residue; // its value mod modulus is residue; modulus 1 says nothing
  uint32_t whole;           // of a part: the symbol that is divisor times it; else itself
  int64_t divisor;          // 0: it is no part
  const char *name;         // what binds it, for messages ("ids.size(0)", "batch"); may be ""
} dt_symbol_info_t;

// A new symbol. `name` is copied. For LOOP symbols use dt__sym_new_loop.
dt_sym_t dt__sym_new(dt_symenv_t *env, dt_symbol_kind_t kind, dt_range_t range,
                     const int64_t *hint /* or NULL */, const char *name);
// A loop variable in [0, extent - 1]: the simplifier knows 0 <= i < extent symbolically.
dt_sym_t dt__sym_new_loop(dt_symenv_t *env, dt_sym_t extent);
// A part of a SIZE symbol that is known to be a multiple of `divisor`: a SIZE symbol that no call
// brings, symbol // divisor. From then on the symbol is divisor times it, wherever it occurs. May
// be made when symbols are frozen.
dt_sym_t dt__sym_new_part(dt_symenv_t *env, uint32_t symbol, int64_t divisor);
uint32_t dt__symenv_symbol_count(
    const dt_symenv_t *env); // symbol indices are 0 … count-1, in order of making
dt_symbol_info_t dt__symbol_info(const dt_symenv_t *env, uint32_t symbol);
dt_sym_t dt__symbol_sym(const dt_symenv_t *env, uint32_t symbol); // the plain symbol, not replaced
// Gives one that was read back its name; false: no memory.
bool dt__symbol_call(dt_symenv_t *env, uint32_t symbol, const char *name);
// The extent a loop symbol was made with (none for others).
dt_sym_t dt__symbol_extent(const dt_symenv_t *env, uint32_t symbol);

// ---- Building (simplified on the way) ----------------------------------------------------------
dt_sym_t dt__sym_const(dt_symenv_t *env, int64_t value);
dt_sym_t dt__sym_add(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_sub(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_mul(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_neg(dt_symenv_t *env, dt_sym_t a);
dt_sym_t dt__sym_floordiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_ceildiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b); // (a + b - 1) // b, b > 0
dt_sym_t dt__sym_mod(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
// a // b where b divides a: the caller knows it, or learns a % b == 0 as well.
dt_sym_t dt__sym_exactdiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
// The quotient rounded to 0, and the remainder that has the sign of a, as in C.
dt_sym_t dt__sym_truncdiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_truncmod(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_shl(dt_symenv_t *env, dt_sym_t a, dt_sym_t b); // a * 2^b, b in [0, 62]
dt_sym_t dt__sym_shr(dt_symenv_t *env, dt_sym_t a, dt_sym_t b); // a // 2^b, b in [0, 63]
dt_sym_t dt__sym_abs(dt_symenv_t *env, dt_sym_t a);
dt_sym_t dt__sym_min(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_max(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_select(dt_symenv_t *env, dt_sym_t cond, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_eq(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_ne(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_lt(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_le(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_and(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_or(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
dt_sym_t dt__sym_not(dt_symenv_t *env, dt_sym_t a);
// Rebuilds `e` with replacements and facts learned since it was built.
dt_sym_t dt__sym_simplify(dt_symenv_t *env, dt_sym_t e);
// Rebuilds `e` with symbol expressions from[k] (plain symbols) replaced by to[k], all at once.
dt_sym_t dt__sym_subst(dt_symenv_t *env, dt_sym_t e, const dt_sym_t *from, const dt_sym_t *to,
                       uint32_t n);

// ---- Reading -----------------------------------------------------------------------------------
typedef struct dt_sym_view_t {
  dt_sym_op_t op;
  uint32_t n_args;
  const dt_sym_t *args; // valid until the next expression is made in this environment
  int64_t value;        // CONST
  uint32_t symbol;      // SYMBOL: its index
} dt_sym_view_t;
dt_sym_view_t dt__sym_view(const dt_symenv_t *env, dt_sym_t e);
bool dt__sym_exists(const dt_symenv_t *env, uint32_t id); // an expression, none excluded
bool dt__sym_is_const(const dt_symenv_t *env, dt_sym_t e, int64_t *out_value);    // out may be NULL
bool dt__sym_is_symbol(const dt_symenv_t *env, dt_sym_t e, uint32_t *out_symbol); // out may be NULL
// Bounds of the value under all facts; conservative.
dt_range_t dt__sym_range(dt_symenv_t *env, dt_sym_t e);
// e == coef * var + rest with coef and rest free of `var` (a plain symbol); false when not linear.
bool dt__sym_linear(dt_symenv_t *env, dt_sym_t e, dt_sym_t var, dt_sym_t *coef, dt_sym_t *rest);
bool dt__sym_depends(const dt_symenv_t *env, dt_sym_t e, dt_sym_t var);
// Indices of the symbols in `e`, ascending, each once. Returns the count; writes at most `cap`.
uint32_t dt__sym_symbols(const dt_symenv_t *env, dt_sym_t e, uint32_t *out, uint32_t cap);
// The newest (last made) UNBACKED symbol in `e`; false when there is none.
bool dt__sym_newest_unbacked(const dt_symenv_t *env, dt_sym_t e, uint32_t *out);
// The value for symbol values indexed by symbol; false: overflow, or division by 0.
bool dt__sym_eval(const dt_symenv_t *env, dt_sym_t e, const int64_t *values, int64_t *out);
// The value from hints; false when a symbol has none, or no value.
bool dt__sym_hint(const dt_symenv_t *env, dt_sym_t e, int64_t *out);

// op(a, b), such as dt__sym_add, or none where it does not fit, which is then no failure of the
// environment's: for rules that decline.
dt_sym_t dt__sym_try(dt_symenv_t *env, dt_sym_t (*op)(dt_symenv_t *, dt_sym_t, dt_sym_t),
                     dt_sym_t a, dt_sym_t b);

// ---- Questions ---------------------------------------------------------------------------------
// Tier 1, never guards: decided from ranges, facts and axioms alone.
dt_tri_t dt__sym_known(dt_symenv_t *env, dt_sym_t cond);
static inline bool dt__sym_known_true(dt_symenv_t *env, dt_sym_t cond) {
  return dt__sym_known(env, cond) == DT_TRUE;
}
bool dt__sym_known_eq(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
bool dt__sym_known_le(dt_symenv_t *env, dt_sym_t a, dt_sym_t b); // false for none
bool dt__syms_known_eq(dt_symenv_t *env, uint32_t n, const dt_sym_t *a, const dt_sym_t *b); // each
// Tier 2, may guard, never fails for lack of a hint: known, else by hint under a guard, else
// `otherwise`.
dt_status_t dt__sym_decide(dt_symenv_t *env, dt_sym_t cond, bool otherwise,
                           const dt_origin_t *origin, bool *out) DT_MUST_USE;
// Tier 3, the program needs `cond`: known true: nothing; known false, or false by hint: DT_E_SHAPE
// saying both sides and `what`; else it becomes a guard (without a hint it is assumed).
dt_status_t dt__sym_require(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin,
                            const char *what) DT_MUST_USE;
// A condition that was required or learned, looked at again in what all of them together have made
// of its sizes: DT_E_SHAPE where that is false, so that there are no sizes for which all hold.
dt_status_t dt__sym_recheck(dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin,
                            const char *what) DT_MUST_USE;
// Whether no numbers in the symbols' ranges fulfil all conditions, found by trying both sides of
// what leaves a choice; false may mean that it was not found. Slow: for telling why something
// failed.
bool dt__sym_exclude_each_other(const dt_symenv_t *env, uint32_t n, const dt_sym_t *conds);
// The integer itself, by hint, under a guard; DT_E_STATE without a hint.
dt_status_t dt__sym_specialize(dt_symenv_t *env, dt_sym_t e, const dt_origin_t *origin,
                               int64_t *out) DT_MUST_USE;
// A fact that is checked elsewhere (declared range, axiom): learned, not reported as an assumption.
dt_status_t dt__sym_learn(dt_symenv_t *env, dt_sym_t cond) DT_MUST_USE;
// The same for a check that an op or the program asked for: DT_E_SHAPE where it contradicts what is
// known. Origin may be NULL.
dt_status_t dt__sym_learn_at(dt_symenv_t *env, dt_sym_t cond,
                             const dt_origin_t *origin) DT_MUST_USE;
// What a condition that is false asked for, with sizes: "s1 == 384, have 5 and 384; s1 is … = 5".
// Where it was false as it was built and so is a literal: the sides of that comparison, as long as
// it is the last that was built. Writes nothing when there is no more to say.
void dt__sym_explain_false(dt_symenv_t *env, dt_sym_t cond, dt_text_t *text);

// Why a symbol is what it is: the conditions that fixed it or narrowed its range, in the order they
// were learned, each as it was asked. Returns how many there are; writes at most `cap`.
typedef struct dt_sym_fact_t {
  dt_sym_t cond;
  dt_origin_t origin; // all empty: declared, or an axiom
} dt_sym_fact_t;
uint32_t dt__symbol_facts(const dt_symenv_t *env, uint32_t symbol, dt_sym_fact_t *out,
                          uint32_t cap);
// Upper bounds of a symbol that facts say, each an expression without it: symbol <= out[k].
// Literals are not among them (they are in its range). Returns how many there are; writes at most
// `cap`.
uint32_t dt__symbol_bounds(dt_symenv_t *env, uint32_t symbol, dt_sym_t *out, uint32_t cap);

// ---- Text --------------------------------------------------------------------------------------
// Deterministic, fully parenthesised where needed: (s0*384 + s1)//32, min(s0, 4), s0 == s1.
void dt__sym_print(const dt_symenv_t *env, dt_sym_t e, dt_text_t *out);
// All that the environment knows beyond what its expressions say: kinds, bounds, hints and
// congruences of symbols, facts, learned equalities and bounds. Environments of equal text, in
// which symbols were made in the same order, answer every question alike.
void dt__symenv_print(const dt_symenv_t *env, dt_text_t *out);
// A whole environment as text, and the same one read back: expressions and symbols keep their ids,
// and all that is built and asked afterwards comes out alike. Names of symbols and reasons stay
// behind.
dt_status_t dt__symenv_write(const dt_symenv_t *env, dt_text_t *out) DT_MUST_USE;
dt_status_t dt__symenv_read(dt_scan_t *scan, dt_symenv_t **out) DT_MUST_USE;
// An expression by its id, "e12", which dt__sym_parse takes as it stands in such an environment.
void dt__sym_write(dt_sym_t e, dt_text_t *out);
// Parses what print writes; symbols by their names s0, i3 must exist. Stops before what cannot go
// on the expression (a comma, a bracket, an arrow).
dt_status_t dt__sym_parse(dt_symenv_t *env, dt_scan_t *scan, dt_sym_t *out) DT_MUST_USE;

#endif // DT_SYMSHAPE_SYMSHAPE_H
