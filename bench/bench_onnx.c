// SPDX-License-Identifier: Apache-2.0
// How long a model takes from its file to a traced function: opening and checking it, making the
// function, and tracing it on symbolic sizes. Nothing is compiled.
#include "ductile/onnx.h"

#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

#define ME "bench_onnx"
enum { MOST_ROUNDS = 1000 };

// What a 1,000-node transformer may take in all.
#define LIMIT_MS 100.0

typedef struct options_t {
  int rounds;
  bool json;
  int first; // of the files
} options_t;

typedef struct times_t {
  double open[MOST_ROUNDS], create[MOST_ROUNDS], trace[MOST_ROUNDS], all[MOST_ROUNDS];
} times_t;

static int fail(const char *path, dt_status_t status) {
  (void)fprintf(stderr, ME ": %s: %s\n", path, dt_status_message(status));
  dt_status_free(status);
  return BENCH_EXIT_FAILED;
}

// One round; times in milliseconds.
static dt_status_t once(dt_runtime_t *runtime, const char *path, times_t *times, int k) {
  // The evaluator would answer, so that preparing is tracing alone.
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = DT_ANSWER_EVALUATOR};
  dt_onnx_function_options_t options = {.struct_size = sizeof(options), .function = &about};
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  double begin = bench_now_ns(), opened = begin, created = begin, traced = begin;
  dt_status_t status = dt_onnx_open(path, NULL, &model);
  opened = bench_now_ns();
  if (!status)
    status = dt_onnx_function_create(runtime, model, &options, &function);
  created = bench_now_ns();
  if (!status)
    status = dt_function_prepare(function, NULL);
  traced = bench_now_ns();
  times->open[k] = (opened - begin) / 1e6;
  times->create[k] = (created - opened) / 1e6;
  times->trace[k] = (traced - created) / 1e6;
  times->all[k] = (traced - begin) / 1e6;
  dt_function_release(function);
  dt_onnx_close(model);
  return status;
}

static int measure(dt_runtime_t *runtime, const char *path, const options_t *options,
                   bench_report_t *report) {
  static times_t times;
  size_t rounds = (size_t)options->rounds;
  for (int k = 0; k < options->rounds; k++) {
    dt_status_t status = once(runtime, path, &times, k);
    if (status)
      return fail(path, status);
  }
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  bench_value(report, name, "open", "ms", bench_median(times.open, rounds));
  bench_value(report, name, "create", "ms", bench_median(times.create, rounds));
  bench_value(report, name, "trace", "ms", bench_median(times.trace, rounds));
  bench_limited(report, name, "import", "ms", bench_median(times.all, rounds), LIMIT_MS);
  return 0;
}

static int usage(FILE *to) {
  (void)fputs("usage: " ME " [--rounds N] [--json] MODEL…\n"
              "\n"
              "Opens each ONNX model, makes a function of it and traces that on symbolic sizes, N "
              "times\n"
              "(default 21), and prints the medians. Nothing is compiled.\n"
              "Exit codes: 0 measured; 1 a model was refused; 2 wrong usage.\n",
              to);
  return to == stdout ? 0 : BENCH_EXIT_USAGE;
}

// The exit code; -1: go on.
static int read_options(int argc, char **argv, options_t *options) {
  int k = 1;
  for (; k < argc && argv[k][0] == '-'; k++) {
    if (strcmp(argv[k], "--json") == 0)
      options->json = true;
    else if (strcmp(argv[k], "--help") == 0)
      return usage(stdout);
    else if (strcmp(argv[k], "--rounds") == 0 && k + 1 < argc)
      options->rounds = atoi(argv[++k]);
    else
      return usage(stderr);
  }
  options->first = k;
  return k < argc && options->rounds > 0 && options->rounds <= MOST_ROUNDS ? -1 : usage(stderr);
}

int main(int argc, char **argv) {
  options_t options = {.rounds = 21};
  int code = read_options(argc, argv, &options);
  if (code >= 0)
    return code;
  bench_report_t report;
  dt_runtime_t *runtime = NULL;
  bench_begin(&report, "onnx", options.json);
  dt_status_t status = dt_runtime_create(NULL, &runtime);
  if (status)
    return fail("runtime", status);
  code = 0;
  for (int k = options.first; k < argc && code == 0; k++)
    code = measure(runtime, argv[k], &options, &report);
  dt_runtime_release(runtime);
  return code;
}
