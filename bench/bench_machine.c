// SPDX-License-Identifier: Apache-2.0
// Prints the machine's ceilings for one thread up to all: what every other figure is a part of.
#include "bench/ceilings.h"
#include "bench/harness.h"

#include <getopt.h>
#include <unistd.h>

// What a second-level cache holds; the weights of MiniLM's layers; memory that no cache holds.
enum {
  CACHED_BYTES = 1 << 20,
  SMALL_BYTES = 4 << 20,
  WEIGHT_BYTES = 42 * 1000 * 1000,
  LARGE_BYTES = 512 << 20
};

static const char usage[] =
    "usage: bench_machine [--json] [--threads N]\n"
    "\n"
    "Measures multiply-adds of f32, and of 8 bits into 32, copying and reading with one thread\n"
    "and with N (default: one a core). Sustained: when two seconds have passed.\n"
    "Exit codes: 0 measured, 1 something failed, 2 wrong usage.\n";

static bool measure(bench_report_t *report, unsigned threads) {
  char name[32];
  snprintf(name, sizeof name, "%u thread%s", threads, threads == 1 ? "" : "s");
  const double figures[] = {
      bench_ceiling_fma(threads),
      bench_ceiling_copy(threads, SMALL_BYTES),
      bench_ceiling_copy(threads, LARGE_BYTES),
      bench_ceiling_read(threads, WEIGHT_BYTES),
      bench_ceiling_read(threads, LARGE_BYTES),
      bench_ceiling_read(threads, CACHED_BYTES),
      bench_sustained_fma(threads),
      bench_sustained_dot8(threads),
  };
  static const char *const metrics[][2] = {{"f32 multiply-add", "GFLOP/s"},
                                           {"copy of 4 MiB", "GB/s"},
                                           {"copy of 512 MiB", "GB/s"},
                                           {"read of 42 MB", "GB/s"},
                                           {"read of 512 MiB", "GB/s"},
                                           {"read of 1 MiB", "GB/s"},
                                           {"f32 multiply-add, sustained", "GFLOP/s"},
                                           {"8-bit multiply-add, sustained", "Gop/s"}};
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    if (figures[i] <= 0) {
      fprintf(stderr, "bench: could not measure %s with %s\n", metrics[i][0], name);
      return false;
    }
    bench_value(report, name, metrics[i][0], metrics[i][1], figures[i]);
  }
  return true;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"threads", required_argument, NULL, 't'},
      {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  long threads = sysconf(_SC_NPROCESSORS_ONLN);
  threads = threads < 1 ? 1 : threads > BENCH_MAX_THREADS ? BENCH_MAX_THREADS : threads;
  bool json = false, good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      json = true;
    else if (option == 'h')
      return fputs(usage, stdout) < 0;
    else
      good = option == 't' && bench_parse_number(optarg, 1, BENCH_MAX_THREADS, &threads);
  }
  if (!good || optind < argc) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  bench_report_t report;
  bench_begin(&report, "machine", json);
  good = measure(&report, 1);
  if (good && threads > 1)
    good = measure(&report, (unsigned)threads);
  return good ? 0 : BENCH_EXIT_FAILED;
}
