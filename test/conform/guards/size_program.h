// SPDX-License-Identifier: Apache-2.0
// Random programs that ask about their sizes: branches, integers, checks, slices, reshapes and
// broadcasts by size expressions. A program is data. It is replayed on a trace, and run on numbers
// alone (the model), which says what a call at given sizes must do: the answers to its questions in
// order, or that it is refused.
#ifndef DT_TESTS_CONFORM_SIZE_PROGRAM_H
#define DT_TESTS_CONFORM_SIZE_PROGRAM_H

#include "ductile/ductile.h"
#include "runtime/base/text.h"

enum {
  SP_INPUTS = 3,
  SP_RANK = 3,      // of an input
  SP_MOST_RANK = 4, // of the value at work
  SP_STEPS = 8,
  SP_EXPRS = 12, // nodes of one step's expressions
  SP_SETS = 40,  // calls of one function
  SP_SLOTS = SP_INPUTS * SP_RANK,
  SP_ANSWERS = SP_STEPS,
  SP_PAIRS = SP_STEPS * SP_RANK, // of dims that are broadcast
};

typedef enum sp_op_t {
  SP_CONST, // value
  SP_DIM,   // dim `b` of input `a`
  SP_HERE,  // dim `a` of the value at work
  SP_ADD,
  SP_SUB,
  SP_MUL,
  SP_DIV,
  SP_MOD,
  SP_MIN,
  SP_MAX,
  SP_EQ, // conditions: 0 or 1; min and max of them are "and" and "or"
  SP_LT,
  SP_LE,
  SP_OP_COUNT
} sp_op_t;

typedef struct sp_expr_t {
  sp_op_t op;
  uint8_t a, b; // earlier nodes of the step, or as said above
  int32_t value;
} sp_expr_t;

typedef enum sp_kind_t {
  SP_NOTHING,
  SP_BRANCH,    // on expression `e`: adds 1 or negates
  SP_INT,       // adds the integer `e`, specialised
  SP_CHECK,     // `e`
  SP_SIZE,      // adds the size `e` as data
  SP_BROADCAST, // adds input `k`
  SP_SPLIT,     // axis `k` into (dim // number, number)
  SP_OPEN,      // all into (-1, number)
  SP_LIKE,      // into the sizes of input `k`
  SP_SLICE,     // axis `k` from `e`, `f` elements
  SP_SUM,       // over axis `k`, kept
  SP_JOIN,      // input `k` behind it, along the last axis
  SP_KIND_COUNT
} sp_kind_t;

typedef struct sp_step_t {
  sp_kind_t kind;
  uint8_t k;
  uint8_t e, f; // expressions
  int32_t number;
  uint8_t n_exprs;
  sp_expr_t exprs[SP_EXPRS];
} sp_step_t;

typedef struct sp_slot_t { // a dim of an input
  int8_t name;             // 0 … 3, or -1: a symbol of its own
  bool is_static;
  int32_t value, min, max; // max 0: none
} sp_slot_t;

typedef struct sp_set_t {
  int32_t sizes[SP_SLOTS]; // input k, dim d: at k * SP_RANK + d
  bool strided;            // every argument with its rows apart
} sp_set_t;

typedef struct sp_program_t {
  uint64_t seed;
  bool strided; // some sets have strided arguments
  uint32_t n_inputs;
  uint32_t ranks[SP_INPUTS];
  sp_slot_t slots[SP_SLOTS];
  uint32_t n_steps;
  sp_step_t steps[SP_STEPS];
  uint32_t n_sets;
  sp_set_t sets[SP_SETS];
} sp_program_t;

void sp_generate(uint64_t seed, sp_program_t *out);
void sp_print(const sp_program_t *p, dt_text_t *out);
void sp_print_set(const sp_program_t *p, uint32_t set, dt_text_t *out);

typedef enum sp_pair_t { SP_PAIR_EQUAL, SP_PAIR_ONES, SP_PAIR_REPEATED } sp_pair_t;

// What the model says of one set of sizes.
typedef struct sp_result_t {
  bool refused;
  uint32_t n_answers;
  int64_t answers[SP_ANSWERS];
  // Each pair of dims that is broadcast: a trace takes them to be equal, unless a size that it is
  // made with is 1; then it takes all cases.
  uint32_t n_pairs;
  sp_pair_t pairs[SP_PAIRS];
  uint32_t rank; // of the result
  int64_t sizes[SP_MOST_RANK];
} sp_result_t;
void sp_model(const sp_program_t *p, uint32_t set, sp_result_t *out);

// The program as a dt_program_fn_t. The closure's `record`, if any, receives the answers that the
// trace gave.
typedef struct sp_replay_t {
  const sp_program_t *program;
  sp_result_t *record;
} sp_replay_t;
dt_status_t sp_replay(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure);

uint32_t sp_below(uint64_t *state, uint32_t n);

// ---- Running --------------------------------------------------------------------------------------
typedef enum sp_fault_t {
  SP_RIGHT,
  SP_WRONG,    // an answer differs from the evaluator's, or the evaluator's from the model
  SP_TOOK,     // sizes that break a rule were answered
  SP_REFUSED,  // sizes that break none were not
  SP_VARIANTS, // more variants than regions, or as few as cannot be right
  SP_HARNESS,
} sp_fault_t;
const char *sp_fault_name(sp_fault_t fault);

typedef struct sp_outcome_t {
  sp_fault_t fault;
  uint32_t set;
  uint32_t regions, accepted, refused;
  uint32_t calls, variants, prepared; // prepared: 1 when it compiles without example sizes
  int64_t compared, uncertain;
  char text[900];
} sp_outcome_t;
void sp_run(dt_runtime_t *runtime, const sp_program_t *p, sp_outcome_t *out);

#endif // DT_TESTS_CONFORM_SIZE_PROGRAM_H
