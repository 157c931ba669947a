// SPDX-License-Identifier: Apache-2.0
// Inside ductile bench: which sizes are measured.
#ifndef DUCTILE_CLI_SWEEP_H
#define DUCTILE_CLI_SWEEP_H

#include "cli/model.h"

#define CLI_MOST_AXES 16
// Combinations of one run, and calls of a trace.
#define CLI_MOST_POINTS 100000

// The sizes of one dim, in the order given.
typedef struct cli_axis_t {
  const char *name;
  size_t len;
  int64_t *sizes;
  uint32_t n, capacity;
} cli_axis_t;

typedef struct cli_sweep_t {
  cli_axis_t axes[CLI_MOST_AXES];
  uint32_t n;
  uint64_t n_points;
} cli_sweep_t;

// Adds "NAME=1,2,4" or "NAME=16..128:16", or both mixed: a range goes by steps of 1 without :STEP.
bool cli_sweep_add(cli_sweep_t *sweep, const char *text, char message[CLI_MESSAGE]);
// The sizes of a point; the last axis changes fastest. `out` has a place for each axis.
void cli_sweep_point(const cli_sweep_t *sweep, uint64_t point, cli_dim_t *out);
void cli_sweep_free(cli_sweep_t *sweep);

// Reads "batch=4 seq=37" from a line of a trace. Returns how many dims it gives; -1: it is wrong.
// The names borrow from `line`.
int cli_trace_line(const char *line, cli_dim_t out[CLI_MOST_AXES], char message[CLI_MESSAGE]);

// The value that a share `q` of the times, 0 to 1, is not above; sorts them.
double cli_quantile(double *times, uint64_t n, double q);

#endif // DUCTILE_CLI_SWEEP_H
