// SPDX-License-Identifier: Apache-2.0
// Measured choices: a function's code compiled in other ways, timed on calls of the caller's, and
// exchanged for the best. docs/tuning.md says which ways there are.
#ifndef DUCTILE_TUNE_H
#define DUCTILE_TUNE_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Tuning -------------------------------------------------------------------------------------

// The most calls that one tuning measures by.
#define DT_TUNE_MOST_CALLS 64

// A call to measure by, as dt_call takes it: an entry of dt_tune_options_t.calls.
typedef struct dt_tune_call_t {
  dt_tensor_t *const *inputs; // as many as the function declares, borrowed
  double weight;              // how often it comes beside the others; 0: 1
} dt_tune_call_t;

// What is done now. Later versions may add fields at its end.
typedef struct dt_tune_progress_t {
  const char *choice; // that is compiled and measured; "": the last comparison
  uint32_t variant;   // whose code it is
  uint32_t done, all; // choices of all variants that the calls have
  uint64_t ns;        // since tuning began
} dt_tune_progress_t;

// `n_calls` and `calls` are required; the rest is valid when zeroed.
typedef struct dt_tune_options_t {
  uint32_t struct_size; // sizeof(dt_tune_options_t); 0 is taken as the size of the first version
  uint32_t n_calls;     // at most DT_TUNE_MOST_CALLS
  const dt_tune_call_t *calls;
  uint32_t call_size; // bytes from one entry to the next: sizeof(dt_tune_call_t); 0: the first
                      // version's
  // Ways that change bits of floats, within the numerical policy, are tried, too. All processes
  // that follow what is kept then have to want that (DUCTILE_TUNED).
  bool allow_other_bits;
  // What is found is not kept on disk, for this function alone. What was kept before stays there
  // (dt_cache_drop).
  bool forget;
  // What compiling and measuring may take, all together; a choice that is begun is ended, and what
  // is best so far is taken. 0: 10 seconds.
  uint64_t budget_ns;
  // The deadline and the flag that end it, as in dt_call_options_t: between two timed calls. All
  // then stays as it was.
  int64_t deadline_ns;
  const dt_cancel_t *cancel;
  // Called on the tuning thread before each choice; it may not call the function, nor use the
  // session. NULL: nobody is.
  void (*progress)(void *closure, const dt_tune_progress_t *progress);
  void *closure;
} dt_tune_options_t;

// What came of a choice.
typedef enum dt_tune_outcome_t {
  DT_TUNE_TAKEN = 0,      // it was the best so far
  DT_TUNE_SLOWER = 1,     // it was not faster by enough, or by chance
  DT_TUNE_SAME = 2,       // the program has the same loops either way
  DT_TUNE_OTHER_BITS = 3, // it changes bits, and may not; or did in these calls, and should not
  DT_TUNE_FAILED = 4,     // it was not compiled, or a call failed
  DT_TUNE_NO_TIME = 5     // the budget was used up
} dt_tune_outcome_t;
DT_API const char *dt_tune_outcome_name(dt_tune_outcome_t outcome); // "taken"; static [any]

// The structs below are given by pointer, so later versions may add fields at their end. Texts are
// never NULL.

// A choice that was tried, or not.
typedef struct dt_tune_item_t {
  const char *choice, *what; // its name, and in words
  uint32_t variant;          // whose code was tried
  dt_tune_outcome_t outcome;
  const char *why; // of a failure, else ""
  bool keeps_bits; // it promises the same bits
  double ratio;    // its time over that of the best before, by weight; 0: not measured
} dt_tune_item_t;

// A variant that the calls have, and its code from now on.
typedef struct dt_tune_variant_t {
  uint32_t variant;
  const char *choices; // names with commas between them; "" for the usual way
  bool kept;           // on disk
  uint32_t n_calls;    // those of the options that it answers, in order
  const uint32_t *calls;
  const uint64_t *before_ns, *ns; // of each: by the code before, and now; a quarter of the timed
                                  // calls took this at most
} dt_tune_variant_t;

// All that was tried, and what came of it.
typedef struct dt_tune_report_t {
  const char *function;
  uint32_t n_items;
  const dt_tune_item_t *const *items; // in the order in which they were tried
  uint32_t n_variants;
  const dt_tune_variant_t *const *variants;
  uint64_t ns; // that it took
} dt_tune_report_t;

// Measures the code of the variants that answer `options->calls`, compiled in each of some ways,
// and has the best answer calls from then on. Variants that are not there yet are compiled as by
// dt_call. Each way is compared with the best so far by timed calls in `session`, by turns, and
// taken where it is faster by 3 %, and in more turns than chance gives, and no call is slower by 5
// %. Answers keep their bits unless allow_other_bits says otherwise: a way that promises the bits
// and has others is refused. What is found is kept on disk beside the code, so that the next
// process has it from its first call on; it is part of what packages hold (dt_package_write), and
// dt_function_report tells it. Calls of other sessions go on meanwhile, by the code before, and
// take no lock. Inputs that the program updates, or that are donated, are copied before; kernels of
// users run as often as calls are timed. One tuning of a function is under way at a time, others
// wait. DT_E_ARGUMENT, DT_E_UNSUPPORTED (a session on a device, answers of the evaluator, no code
// generator), DT_E_DEADLINE, DT_E_CANCELLED, and what dt_call fails with. On failure the function
// is as before, but for new variants. *out, where it is not NULL, is the caller's, released with
// dt_tune_report_free; NULL on failure. [external by session]
DT_API dt_status_t dt_function_tune(dt_session_t *session, dt_function_t *function,
                                    const dt_tune_options_t *options,
                                    dt_tune_report_t **out) DT_MUST_USE;
DT_API void dt_tune_report_free(dt_tune_report_t *report); // NULL allowed [any, each report once]
// The report as text for people, or as JSON lines: objects whose "event" is "choice" or "tuned".
// *out is released with dt_text_free. DT_E_ARGUMENT, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_tune_report_text(const dt_tune_report_t *report, char **out) DT_MUST_USE;
DT_API dt_status_t dt_tune_report_json(const dt_tune_report_t *report, char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_TUNE_H
