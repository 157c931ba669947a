// SPDX-License-Identifier: Apache-2.0
// Inside ductile check: folders in the layout of ONNX's tests, and what became of each.
#ifndef DUCTILE_CLI_CHECK_H
#define DUCTILE_CLI_CHECK_H

#include "cli/model.h"

// ---- Verdicts -------------------------------------------------------------------------------------
// Words for them stand in check.c, in this order.
typedef enum cli_outcome_t {
  CLI_PASS = 0,    // every output of every set is as expected, by compiled code
  CLI_WRONG = 1,   // an output is not
  CLI_REFUSED = 2, // the library says that it does not do this, and what
  CLI_ERROR = 3,   // anything that should not happen
  CLI_OVERDUE = 4  // the deadline passed first
} cli_outcome_t;
enum { CLI_N_OUTCOMES = 5 };

// The largest differences of finite floats that were met; `relative` is to the expected number, of
// those that are not 0.
typedef struct cli_errors_t {
  double absolute, relative;
} cli_errors_t;

// Goes through a pipe as it is, in one piece: shorter than PIPE_BUF.
typedef struct cli_verdict_t {
  uint32_t folder; // its number
  cli_outcome_t outcome;
  uint32_t sets, variants;
  uint64_t evaluator_calls;
  double ms;
  cli_errors_t errors;      // of all outputs of all sets
  char reason[CLI_MESSAGE]; // "" when it passed
} cli_verdict_t;

// ---- Comparing (compare.c) ------------------------------------------------------------------------
// How much floats may differ: atol + rtol * |expected|, and for elements near 0, `scale` times the
// largest number of their row (the innermost dim). Below 0: what is usual for the dtype.
typedef struct cli_tolerance_t {
  double rtol, atol, scale;
} cli_tolerance_t;
// What ONNX's own runner takes where a case says nothing.
#define CLI_ONNX_RTOL 1e-3
#define CLI_ONNX_ATOL 1e-7
// Whether two contiguous host tensors are equal in dtype, sizes and elements: integers and booleans
// exactly, floats within the tolerance, NaN equal to NaN, infinities to their like. False: `reason`
// says how many differ, which is the first, and how far they are apart at most. `errors` grows; it
// may be NULL.
bool cli_compare(const dt_tensor_t *actual, const dt_tensor_t *expected,
                 const cli_tolerance_t *tolerance, cli_errors_t *errors, char reason[CLI_MESSAGE]);
// The same of dtype and sizes alone.
bool cli_compare_sizes(const dt_tensor_t *actual, const dt_tensor_t *expected,
                       char reason[CLI_MESSAGE]);

// ---- Results ahead of a call (check_ahead.c) ------------------------------------------------------
// False: `reason` says what is not as it was told, or why nothing is. The shapes are the caller's
// (free), also on failure.
bool cli_ahead_ask(const cli_model_t *model, dt_tensor_t *const *inputs,
                   dt_output_shape_t **out_shapes, char reason[CLI_MESSAGE]);
// The same before a call that has a deadline: what is compiled ahead is compiled within it. *status
// is what it ended with; the caller's. *out_asked false: the inputs are not covered without a
// compile that nothing would end, and there are no shapes yet.
bool cli_ahead_within(const cli_model_t *model, const cli_place_t *place,
                      dt_tensor_t *const *inputs, dt_output_shape_t **out_shapes, bool *out_asked,
                      dt_status_t *status, char reason[CLI_MESSAGE]);
bool cli_ahead_compare(const cli_model_t *model, const dt_output_shape_t *shapes,
                       dt_tensor_t *const *results, char reason[CLI_MESSAGE]);
// What dt_function_outputs says, beside the results of a call.
bool cli_ahead_specs(const cli_model_t *model, dt_tensor_t *const *results,
                     char reason[CLI_MESSAGE]);
// The same call into buffers of more bytes, on the CPU: same sizes, same bits, nothing behind them.
bool cli_ahead_buffers(const cli_model_t *model, dt_tensor_t *const *inputs,
                       dt_tensor_t *const *results, char reason[CLI_MESSAGE]);

// ---- Where it went wrong (bisect.c) ---------------------------------------------------------------
typedef struct cli_bisecting_t {
  const cli_model_t *model;
  dt_runtime_t *runtime;
  dt_tensor_t *const *inputs; // of a call that was made
  cli_tolerance_t tolerance;
} cli_bisecting_t;
// Says which node is the first whose value by compiled code is not the evaluator's, of those that
// result `result` comes from; or that there is none.
void cli_bisect(const cli_bisecting_t *about, uint32_t result, char out[CLI_MESSAGE]);

// ---- Folders (walk.c) -----------------------------------------------------------------------------
typedef struct cli_folder_t {
  char *path;
  const char *name; // within path: what is left of it beneath the folder that was given
} cli_folder_t;
typedef struct cli_folders_t {
  cli_folder_t *items;
  uint32_t n, capacity;
} cli_folders_t;
// Adds `root`, or all folders beneath it that hold a model.onnx, sorted by path. `only`, which may
// be NULL, is a pattern for their own names. Folders that are links are not gone into.
bool cli_walk(cli_folders_t *folders, const char *root, const char *only,
              char message[CLI_MESSAGE]);
void cli_folders_free(cli_folders_t *folders);
// "test_data_set_0", … in the folder: their numbers, ascending. -1: it cannot be read.
#define CLI_MOST_SETS 4096
int cli_find_sets(const char *folder, uint32_t numbers[CLI_MOST_SETS]);

// ---- One folder (check_folder.c) ------------------------------------------------------------------
typedef struct cli_checking_t {
  cli_place_t place;
  uint32_t threads, compile_threads;
  double rtol, atol; // below 0: what the folder's data.json says, else what is usual for the dtype
  bool as_onnx;      // else what ONNX's own runner takes
  uint32_t timeout_s;
  bool bisect;         // a wrong result is looked into
  bool sizes_only;     // elements are not compared
  bool buffers;        // each set again into buffers that are larger than the results
  const char *package; // then the same from a package with code for these levels; NULL: no
} cli_checking_t;
void cli_check_folder(const cli_checking_t *checking, dt_runtime_t *runtime, const char *path,
                      cli_verdict_t *out);

// ---- All of them (check_pool.c) -------------------------------------------------------------------
// Has `jobs` processes check the folders, each with a runtime of its own, so that one that dies or
// hangs costs its folder only; with 0 jobs this process does it. `tell` gets every verdict in the
// order of the folders. False: no process could be made.
bool cli_check_all(const cli_checking_t *checking, const cli_folders_t *folders, uint32_t jobs,
                   void (*tell)(void *user, const cli_folder_t *folder,
                                const cli_verdict_t *verdict),
                   void *user, char message[CLI_MESSAGE]);

#endif // DUCTILE_CLI_CHECK_H
