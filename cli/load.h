// SPDX-License-Identifier: Apache-2.0
// Inside ductile bench: many callers at once.
#ifndef DUCTILE_CLI_LOAD_H
#define DUCTILE_CLI_LOAD_H

#include "cli/model.h"

// Callers share the sessions: each call takes one that is free, in the order in which they asked.
typedef struct cli_load_t {
  const cli_model_t *model;
  dt_runtime_t *runtime;
  const cli_place_t *place;
  dt_tensor_t *const *inputs; // of every call
  uint32_t callers, sessions;
  // Requests a second, which arrive at times that are drawn (a Poisson process), whatever the calls
  // take; 0: each caller sends the next when the last was answered.
  double rate;
  double seconds;
} cli_load_t;

typedef struct cli_load_result_t {
  double *times; // seconds of each request, from its arrival to its answer; the caller's (free)
  uint64_t n;
  double seconds;     // that all of it took
  double cpu_seconds; // processor time of the process in it
} cli_load_result_t;

// The most requests of one measurement whose times are kept; it then ends.
#define CLI_MOST_REQUESTS 1000000U

dt_status_t cli_load_run(const cli_load_t *load, cli_load_result_t *out) DT_MUST_USE;

#endif // DUCTILE_CLI_LOAD_H
