// SPDX-License-Identifier: Apache-2.0
// What the benchmark programs share: the clock, order statistics, the process's memory, seeded
// random numbers, common options, and the lines they print.
//
// A figure is one line: with --json {"bench":…,"case":…,"metric":…,"unit":…,"value":…} followed by
// "peer", "peer_value" and "ratio" when it was measured against something in the same run, or by
// "limit" and "within" when the project has set a limit; otherwise a row of a table.
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "ductile/ductile.h"

#include <stdio.h>

enum { BENCH_EXIT_FAILED = 1, BENCH_EXIT_USAGE = 2 };

// ---- Clock, statistics, memory ------------------------------------------------------------------

// Nanoseconds of a clock that only goes forward.
double bench_now_ns(void);
// What two readings of the clock with nothing in between differ by (the median).
double bench_clock_ns(void);

void bench_sort(double *values, size_t count);
// The value below which the share `quantile` of `sorted` lies (nearest rank); 0 without values.
double bench_quantile(const double *sorted, size_t count, double quantile);
// Sorts `values` and gives their median.
double bench_median(double *values, size_t count);

// Bytes of the process in memory.
int64_t bench_resident_bytes(void);

// A number in [low, high]; *state is the seed and moves on.
int64_t bench_random(uint64_t *state, int64_t low, int64_t high);

// ---- Output -------------------------------------------------------------------------------------

typedef struct bench_report_t {
  const char *bench; // the benchmark's name
  bool json;
  int over; // figures beyond their limit so far
} bench_report_t;

void bench_begin(bench_report_t *report, const char *bench, bool json);
void bench_value(bench_report_t *report, const char *name, const char *metric, const char *unit,
                 double value);
// The same with the limit that the value must not exceed.
void bench_limited(bench_report_t *report, const char *name, const char *metric, const char *unit,
                   double value, double limit);
// A rate (more is better) beside the peer's in the same run; the ratio is value / peer_value.
void bench_rate(bench_report_t *report, const char *name, const char *metric, const char *unit,
                double value, const char *peer, double peer_value);

// A time (less is better) beside the peer's in the same run; the ratio is peer_value / value.
void bench_time(bench_report_t *report, const char *name, const char *metric, const char *unit,
                double value, const char *peer, double peer_value);

// Whether `name` is one of the words of `list`, which commas divide.
bool bench_listed(const char *list, const char *name);

// Whether --help is among the arguments: then `usage` has been printed, and main() ends with 0.
bool bench_help(int argc, char **argv, const char *usage);

// True for success; else says on stderr what failed and why, and frees the status.
bool bench_ok(dt_status_t status, const char *doing);

// A program that is asked line by line (--serve) answers a failure as the line "error TEXT". True
// for a failure, which is freed.
bool bench_answer_error(dt_status_t status);

// ---- Options ------------------------------------------------------------------------------------

// A number in [low, high], else false.
bool bench_parse_number(const char *text, long low, long high, long *out);

#endif // BENCH_HARNESS_H
