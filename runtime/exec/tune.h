// SPDX-License-Identifier: Apache-2.0
// Tuning, as its files share it: a trial compares two codes of one variant by timed calls, and a
// journal notes what came of each choice.
#ifndef DT_RUNTIME_EXEC_TUNE_H
#define DT_RUNTIME_EXEC_TUNE_H

#include "ductile/tune.h"
#include "runtime/base/control.h"
#include "runtime/exec/function.h"
#include "runtime/exec/session.h"
#include "runtime/exec/variant.h"

// ---- Trials (tune_trial.c) ------------------------------------------------------------------------
// A call that is timed. `inputs` are the caller's, but for copies of those that it writes.
typedef struct dt_trial_call_t {
  uint32_t index; // among those that the user gave
  double weight;
  dt_tensor_t *const *given;
  dt_tensor_t **inputs;
  dt_tensor_t **copies; // by input; NULL: it is given. The call's
  uint64_t a_ns, b_ns;  // of the last comparison, lower quartiles
} dt_trial_call_t;

typedef struct dt_trial_t {
  dt_session_t *session;
  dt_function_t *function;
  dt_control_t *control; // NULL: nothing ends it
  dt_trial_call_t *calls;
  uint32_t n_calls;
  // Of a comparison: when it is to end, and what it found.
  int64_t until_ns;
  const _Atomic bool *stopped; // by somebody else; NULL: nobody does
  bool whole;                  // it is decided, however long that takes
  double ratio;                // time of b over that of a, by weight
  bool better;                 // b is to be taken
  bool clear;                  // more turns than chance gives are one's
  bool same_bits;              // in all calls
  bool undecided;              // there was no time for it
} dt_trial_t;

// The inputs of a call that `variant` answers. dt__trial_end frees them.
dt_status_t dt__trial_add(dt_trial_t *trial, const dt_variant_t *variant, uint32_t index,
                          const dt_tune_call_t *call) DT_MUST_USE;
void dt__trial_end(dt_trial_t *trial);
// Times calls by `a` and by `b`, by turns.
dt_status_t dt__trial_compare(dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b) DT_MUST_USE;
// For tests: from now on what has more of these choices is better, and nothing else is; 0: times
// decide.
void dt__trial_favour(dt_choices_t choices);
#define DT_TRIAL_SECOND UINT64_MAX // the second of two always is

// ---- Reports (tune_report.c) ----------------------------------------------------------------------
// The report in the making; without memory it is NULL, and nothing is noted.
typedef struct dt_journal_t dt_journal_t;
dt_status_t dt__journal_create(const char *function, dt_journal_t **out) DT_MUST_USE;
typedef struct dt_journal_item_t {
  dt_choice_t choice;
  uint32_t variant;
  bool keeps_bits;
  dt_tune_outcome_t outcome;
  dt_status_t why; // borrowed; or NULL
  double ratio;
} dt_journal_item_t;
dt_status_t dt__journal_note(dt_journal_t *journal, const dt_journal_item_t *item) DT_MUST_USE;
dt_status_t dt__journal_variant(dt_journal_t *journal, uint32_t variant, dt_choices_t choices,
                                bool kept, const dt_trial_t *trial) DT_MUST_USE;
// The report, which is the caller's.
dt_tune_report_t *dt__journal_report(dt_journal_t *journal, uint64_t ns);
void dt__journal_free(dt_journal_t *journal); // one that gave no report; NULL allowed

// "x 8x128, n 3": the sizes of a call's tensors, and its integers.
void dt__tune_sizes_put(const dt_function_t *function, dt_tensor_t *const *inputs, dt_text_t *out);

#endif // DT_RUNTIME_EXEC_TUNE_H
