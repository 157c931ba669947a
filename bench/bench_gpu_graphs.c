// SPDX-License-Identifier: Apache-2.0
// Calls as CUDA graphs: what the host pays, what memory is held, threads beside processes, paths
// with branches, traces of servers in a frozen session, code replaced under traffic, sizes and
// loops that data decides, memory that grows.
#include "bench/graphs.h"

#include <getopt.h>
#include <string.h>

static const char usage[] =
    "usage: bench_graphs [--device cuda] [--cases LIST] [--seconds S] [--json] [--tiny]\n"
    "\n"
    "Measures mode reduce-overhead on CUDA device 0, beside launches kernel by kernel.\n"
    "  --cases LIST     which, by commas (default: all, in this order)\n"
    "      host         time until dt_call returns, 40 kernels: at equal sizes, at other "
    "addresses,\n"
    "                   and with all sizes changed\n"
    "      memory       of a session after many shapes, over that after the largest alone\n"
    "      threads      8 threads on sessions of their own: answers, bytes of graphs, calls a\n"
    "                   second, beside as many processes\n"
    "      path         three functions a generation, two branches\n"
    "      traces       a frozen session under five loads: T2 uniform batch, T3 Zipf batch with 5 "
    "%\n"
    "                   sizes never seen, T4 batch by width, T5 Poisson arrivals into a batcher "
    "that\n"
    "                   waits, T6 decoding in slots that join and leave\n"
    "      swap         kernels replaced while 8 threads call: answers, what calls notice\n"
    "      sized        NonZero, gather, sum in one graph, beside the same at a size that is "
    "known\n"
    "      while        a loop as long as data says in one graph, beside launches and the loop "
    "unrolled\n"
    "      growth       calls at larger and larger sizes: those that map memory, and the others\n"
    "  --seconds S      of each measurement (default: 2)\n"
    "  --calls N        of each trace, at most (default: 20000)\n"
    "  --generations N  of the case path (default: 10000)\n"
    "  --shapes N       of the case memory (default: 1000)\n"
    "  --device WHERE   cuda (default); a CPU has no graphs\n"
    "  --tiny           small sizes: for the fake driver\n"
    "  --worker         one of the processes of the case threads\n"
    "  --json           JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed, was wrong or was no graph;\n"
    "2 wrong usage.\n";

static const struct {
  const char *name;
  bool (*run)(graphs_bench_t *bench);
} cases[] = {
    {"host", graphs_case_host},   {"memory", graphs_case_memory}, {"threads", graphs_case_threads},
    {"path", graphs_case_path},   {"traces", graphs_case_traces}, {"swap", graphs_case_swap},
    {"sized", graphs_case_sized}, {"while", graphs_case_while},   {"growth", graphs_case_growth}};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct arguments_t {
  const char *cases;
  long milliseconds, calls, generations, shapes;
  bool json, tiny, worker, help, cpu;
} arguments_t;

static bool known_cases(const char *list) {
  size_t commas = 0, known = 0;
  for (const char *at = list; *at; at++)
    commas += *at == ',';
  for (size_t i = 0; i < CASES; i++)
    known += bench_listed(list, cases[i].name);
  return known == commas + 1;
}

static bool parse_seconds(const char *text, long *milliseconds) {
  double seconds = 0;
  int end = 0;
  bool good = sscanf(text, "%lf%n", &seconds, &end) == 1 && !text[end] && seconds >= 0.001 &&
              seconds <= 3600;
  *milliseconds = good ? (long)(seconds * 1000) : 0;
  return good;
}

static bool parse_device(const char *text, bool *cpu) {
  *cpu = strcmp(text, "cpu") == 0;
  return *cpu || strcmp(text, "cuda") == 0;
}

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"cases", required_argument, NULL, 'c'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"calls", required_argument, NULL, 'n'},
                                          {"generations", required_argument, NULL, 'g'},
                                          {"shapes", required_argument, NULL, 'p'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"tiny", no_argument, NULL, 't'},
                                          {"worker", no_argument, NULL, 'w'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'c')
      good = known_cases(out->cases = optarg);
    else if (option == 's')
      good = parse_seconds(optarg, &out->milliseconds);
    else if (option == 'n')
      good = bench_parse_number(optarg, 1, 1000000, &out->calls);
    else if (option == 'g')
      good = bench_parse_number(optarg, 1, 100000000, &out->generations);
    else if (option == 'p')
      good = bench_parse_number(optarg, 1, 1000000, &out->shapes);
    else if (option == 'd')
      good = parse_device(optarg, &out->cpu);
    else if (option == 't')
      out->tiny = true;
    else if (option == 'w')
      out->worker = true;
    else if (option == 'j')
      out->json = true;
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  return good && optind == argc;
}

static bool run(const arguments_t *arguments) {
  graphs_bench_t bench = {.seconds = (double)arguments->milliseconds / 1e3,
                          .calls = arguments->calls,
                          .generations = arguments->generations,
                          .shapes = arguments->shapes,
                          .tiny = arguments->tiny,
                          .hidden = arguments->tiny ? 16 : 256,
                          .trips = arguments->tiny ? 2 : 16};
  bool good = bench_ok(dt_runtime_create(NULL, &bench.runtime), "the runtime");
  if (good && arguments->worker) {
    good = graphs_worker(&bench);
  } else if (good) {
    bench_begin(&bench.report, "graphs", arguments->json);
    // A case that fails keeps no other from being measured.
    for (size_t i = 0; i < CASES; i++)
      if (!arguments->cases || bench_listed(arguments->cases, cases[i].name)) {
        bool passed = cases[i].run(&bench);
        if (!passed)
          (void)fprintf(stderr, "bench: case %s failed\n", cases[i].name);
        good = passed && good;
      }
  }
  dt_runtime_release(bench.runtime);
  return good;
}

int main(int argc, char **argv) {
  arguments_t arguments = {
      .milliseconds = 2000, .calls = 20000, .generations = 10000, .shapes = 1000};
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help)
    return fputs(usage, stdout) < 0;
  if (arguments.cpu) {
    (void)fprintf(stderr, "bench: --device cpu: DT_E_UNSUPPORTED: a CPU has no graphs; use "
                          "--device cuda, or bench_call for calls on the CPU\n");
    return BENCH_EXIT_USAGE;
  }
  return run(&arguments) ? 0 : BENCH_EXIT_FAILED;
}
