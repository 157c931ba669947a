// SPDX-License-Identifier: Apache-2.0
#include "bench/harness.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- Clock, statistics, memory ------------------------------------------------------------------

double bench_now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double bench_clock_ns(void) {
  enum { READINGS = 1001 };
  double times[READINGS];
  for (int i = 0; i < READINGS; i++) {
    double start = bench_now_ns();
    times[i] = bench_now_ns() - start;
  }
  return bench_median(times, READINGS);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

void bench_sort(double *values, size_t count) {
  if (count)
    qsort(values, count, sizeof values[0], compare);
}

double bench_quantile(const double *sorted, size_t count, double quantile) {
  if (!count)
    return 0;
  double rank = ceil(quantile * (double)count);
  size_t index = rank < 1 ? 0 : (size_t)rank - 1;
  return sorted[index < count ? index : count - 1];
}

double bench_median(double *values, size_t count) {
  bench_sort(values, count);
  return bench_quantile(values, count, 0.5);
}

int64_t bench_resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long long total = 0, resident = 0;
  if (file && fscanf(file, "%lld %lld", &total, &resident) != 2)
    resident = 0;
  if (file)
    fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t bench_random(uint64_t *state, int64_t low, int64_t high) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u; // splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return low + (int64_t)(z % (uint64_t)(high - low + 1));
}

// ---- Output -------------------------------------------------------------------------------------

void bench_begin(bench_report_t *report, const char *bench, bool json) {
  *report = (bench_report_t){.bench = bench, .json = json};
  (void)setenv("DUCTILE_CACHE_DIR", "", 0); // compiles are made, not found, unless it is asked for
  if (!json)
    printf("%-24s %-32s %12s %-8s\n", "case", "metric", "value", "unit");
}

// The part that all lines have; the line is not ended.
static void print_value(const bench_report_t *report, const char *name, const char *metric,
                        const char *unit, double value) {
  if (report->json)
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"metric\":\"%s\",\"unit\":\"%s\",\"value\":%.6g",
           report->bench, name, metric, unit, value);
  else
    printf("%-24s %-32s %12.6g %-8s", name, metric, value, unit);
}

static void end_line(const bench_report_t *report) {
  fputs(report->json ? "}\n" : "\n", stdout);
  fflush(stdout);
}

void bench_value(bench_report_t *report, const char *name, const char *metric, const char *unit,
                 double value) {
  print_value(report, name, metric, unit, value);
  end_line(report);
}

void bench_limited(bench_report_t *report, const char *name, const char *metric, const char *unit,
                   double value, double limit) {
  bool within = value <= limit;
  report->over += !within;
  print_value(report, name, metric, unit, value);
  if (report->json)
    printf(",\"limit\":%.6g,\"within\":%s", limit, within ? "true" : "false");
  else
    printf(" %s %.6g", within ? "within" : "OVER", limit);
  end_line(report);
}

static void print_peer(const bench_report_t *report, const char *name, const char *metric,
                       const char *unit, double value, const char *peer, double peer_value,
                       double ratio) {
  print_value(report, name, metric, unit, value);
  if (report->json)
    printf(",\"peer\":\"%s\",\"peer_value\":%.6g,\"ratio\":%.4g", peer, peer_value, ratio);
  else
    printf(" %s %.6g, ratio %.3f", peer, peer_value, ratio);
  end_line(report);
}

void bench_rate(bench_report_t *report, const char *name, const char *metric, const char *unit,
                double value, const char *peer, double peer_value) {
  print_peer(report, name, metric, unit, value, peer, peer_value,
             peer_value > 0 ? value / peer_value : 0);
}

void bench_time(bench_report_t *report, const char *name, const char *metric, const char *unit,
                double value, const char *peer, double peer_value) {
  print_peer(report, name, metric, unit, value, peer, peer_value,
             value > 0 ? peer_value / value : 0);
}

bool bench_listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  return false;
}

bool bench_ok(dt_status_t status, const char *doing) {
  if (!status)
    return true;
  fprintf(stderr, "bench: %s: %s: %s\n", doing, dt_code_name(dt_status_code(status)),
          dt_status_message(status));
  dt_status_free(status);
  return false;
}

bool bench_answer_error(dt_status_t status) {
  if (!status)
    return false;
  printf("error %s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  return true;
}

// ---- Options ------------------------------------------------------------------------------------

bool bench_help(int argc, char **argv, const char *usage) {
  for (int k = 1; k < argc; k++)
    if (strcmp(argv[k], "--help") == 0)
      return fputs(usage, stdout) >= 0;
  return false;
}

bool bench_parse_number(const char *text, long low, long high, long *out) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end || errno || value < low || value > high)
    return false;
  *out = value;
  return true;
}
