// SPDX-License-Identifier: Apache-2.0
// Inside ductile bench: the same calls by another engine.
#ifndef DUCTILE_CLI_AGAINST_H
#define DUCTILE_CLI_AGAINST_H

#include "cli/check.h"

// Sets of inputs and results that were saved (bench --save), and what they are compared with.
typedef struct cli_against_t {
  const char *python; // an interpreter that has onnxruntime and numpy
  const char *model;
  const char *folder;                            // of set_0, set_1, …
  uint32_t n_sets, n_inputs, n_outputs, threads; // 0 threads: the engine's own choice
  double seconds;                                // for each set
} cli_against_t;

typedef struct cli_against_result_t {
  double median_s, p99_s;
  cli_errors_t errors; // of our results, beside the other engine's
  bool same;           // within what is usual for their dtypes
} cli_against_result_t;

// Runs the model by onnxruntime over all sets, on the CPU and without spinning between calls.
// `results` has a place for each set. False: `message` says why there are none.
bool cli_against_run(const cli_against_t *against, cli_against_result_t *results,
                     char message[CLI_MESSAGE]);

#endif // DUCTILE_CLI_AGAINST_H
