// SPDX-License-Identifier: Apache-2.0
// Graphs through lowering and the loop interpreter, against the evaluator.
#ifndef DT_TESTS_UNIT_LOOP_RIG_H
#define DT_TESTS_UNIT_LOOP_RIG_H

#include "lower/graph/eval.h"
#include "lower/loop/loop.h"
#include "test/support/graph_fixture.h"

typedef enum fill_t {
  FILL_FINITE,    // ordinary values
  FILL_SPECIALS,  // and NaN, infinities, zeros of both signs
  FILL_POSITIVE,  // in [0, 4): arguments of roots and logarithms, divisors
  FILL_INDEX,     // integers in [-limit, limit)
  FILL_ASCENDING, // rank 1, each element at least the one before it
} fill_t;

// An argument as a test declares it, by input.
typedef struct rig_input_t {
  fill_t fill;
  dt_sym_t limit; // of FILL_INDEX
} rig_input_t;

typedef dt_status_t (*rig_run_t)(const dt_program_t *program, const int64_t *symbols,
                                 void *const *inputs, void *const *outputs);

#define RIG_INPUTS 8
typedef struct rig_t {
  graph_fixture_t f;
  rig_input_t inputs[RIG_INPUTS];
  rig_run_t run;                // how programs are run; by the interpreter unless it is replaced
  uint64_t random;              // state
  uint32_t compared, uncertain; // elements, over all checks
} rig_t;

void rig_init(rig_t *rig, uint64_t seed);
void rig_fini(rig_t *rig);
uint32_t rig_below(rig_t *rig, uint32_t n);

// An input whose strides are symbols of their own, or contiguous.
dt_node_id_t rig_input(rig_t *rig, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                       bool strided, fill_t fill);
void rig_output(rig_t *rig, dt_node_id_t id);

// The graph's program (composites decomposed first), verified; its text must read back as itself.
// Lives in the rig's arena, in a clone of the environment that the caller destroys.
dt_program_t *rig_lower(rig_t *rig, dt_symenv_t **out_env);
// The same after all passes, in the order of the pipeline.
dt_program_t *rig_lower_passed(rig_t *rig, dt_symenv_t **out_env);
// Runs program and evaluator on fresh random arguments for sizes `symbols` (by symbol; strides are
// filled in) and compares all results, or the codes of their failures. `what` names the case.
void rig_compare(rig_t *rig, const dt_program_t *program, int64_t *symbols, const char *what);
// What the rig compared so far must be worth something: at most a third was uncertain.
void rig_worth(const rig_t *rig);

// Fails with both texts when they differ.
void check_text(const char *expected, const char *got);

#endif // DT_TESTS_UNIT_LOOP_RIG_H
