// SPDX-License-Identifier: Apache-2.0
// A server of sentences over onnxruntime's C interface, and over this library: clients on a queue,
// a batcher, lengths as questions have them; alone, and beside a thread that keeps a core busy.
#include "bench/harness.h"
#include "bench/serve.h"

#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: bench_serve --onnxruntime LIBRARY [--json] [--cases LIST] [--clients N] [--rounds N]\n"
    "                   [--seconds S] MODEL\n"
    "\n"
    "MODEL is an ONNX file whose inputs are int64 [batch, length], the last of several a mask, "
    "and\n"
    "whose last result is [batch, width] of float. 16 sentences or 512 padded tokens at most are "
    "a\n"
    "batch, and wait 2 ms for each other. Both sides compute all results, by turns; their answers\n"
    "are compared first. With several threads onnxruntime runs with and without spinning.\n"
    "  --onnxruntime LIBRARY  libonnxruntime.so.1.N, of 1.23 or later\n"
    "  --cases LIST  SxT and SxT+busy by commas: S callers at once of T kernel threads each; "
    "+busy:\n"
    "                beside a thread that keeps the second core busy (default: 2x1,1x2,1x2+busy)\n"
    "  --clients N   each sends when it has its answer (default: 16)\n"
    "  --rounds N    turns of each side (default: 7)\n"
    "  --seconds S   that a turn is measured, after a fifth of it (default: 4)\n"
    "  --json        JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

enum { MOST_SIDES = 3, MOST_ROUNDS = 101 };

typedef struct arguments_t {
  const char *cases, *library, *model;
  long clients, rounds, seconds;
  bool json, help;
} arguments_t;

typedef struct side_t {
  const char *name;
  const serve_engine_t *engine;
  serve_config_t config;
  void *opened;
  serve_figures_t figures[MOST_ROUNDS];
} side_t;

// ---- The busy core -------------------------------------------------------------------------------

// A process that ends with this one's --busy part, or by itself.
static pid_t begin_busy(void) {
  pid_t child = fork();
  if (child != 0)
    return child;
  cpu_set_t all, one;
  (void)sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  for (size_t cpu = 0, seen = 0; cpu < CPU_SETSIZE && seen < 2; cpu++)
    if (CPU_ISSET(cpu, &all) && ++seen == 2)
      CPU_SET(cpu, &one);
  (void)sched_setaffinity(0, sizeof(one), &one);
  (void)alarm(1200);
  for (volatile uint64_t k = 0;; k++)
    ;
}

static void end_busy(pid_t child) {
  if (child <= 0)
    return;
  (void)kill(child, SIGKILL);
  (void)waitpid(child, NULL, 0);
}

// ---- Comparing answers ---------------------------------------------------------------------------
static bool answers_of(const side_t *side, const serve_batch_t *batch, serve_answer_t *out) {
  void *worker = side->engine->worker(side->opened);
  bool good = worker && side->engine->run(worker, batch, out);
  if (worker)
    side->engine->worker_close(worker);
  return good;
}

static bool compare(const side_t *sides, int n_sides) {
  enum { ROWS = 3, LENGTH = 21, WIDTH = 4096 };
  int64_t ids[ROWS * LENGTH], mask[ROWS * LENGTH];
  for (int k = 0; k < ROWS * LENGTH; k++) {
    mask[k] = k % LENGTH < LENGTH - k / LENGTH;
    ids[k] = mask[k] ? 100 + k * 13 % 999 : 0;
  }
  const serve_batch_t batch = {ROWS, LENGTH, ids, mask};
  static float values[2][ROWS * WIDTH];
  serve_answer_t ours = {values[0], WIDTH};
  bool good = answers_of(&sides[0], &batch, &ours);
  for (int s = 1; s < n_sides && good; s++) {
    serve_answer_t peer = {values[1], WIDTH};
    good = answers_of(&sides[s], &batch, &peer) && peer.width == ours.width;
    double apart = 0, size = 0;
    for (int64_t k = 0; good && k < ROWS * ours.width; k++) {
      apart = fmax(apart, fabs((double)values[0][k] - (double)values[1][k]));
      size = fmax(size, fabs((double)values[1][k]));
    }
    if (good && !(apart <= 1e-3 * size)) {
      fprintf(stderr, "answers differ by %g, the largest is %g\n", apart, size);
      good = false;
    }
  }
  return good;
}

// ---- Figures -------------------------------------------------------------------------------------
typedef double (*figure_fn_t)(const serve_figures_t *figures);

static double throughput(const serve_figures_t *f) { return (double)f->tokens / f->seconds; }
static double processor(const serve_figures_t *f) {
  return f->processor_seconds * 1e6 / (double)f->tokens;
}
static double p50(const serve_figures_t *f) { return f->p50_ms; }
static double p99(const serve_figures_t *f) { return f->p99_ms; }
static double rows(const serve_figures_t *f) { return (double)f->sentences / (double)f->batches; }

static double median(const side_t *side, int rounds, figure_fn_t figure) {
  double values[MOST_ROUNDS];
  for (int r = 0; r < rounds; r++)
    values[r] = figure(&side->figures[r]);
  return bench_median(values, (size_t)rounds);
}

// Of ratios within a round, since what else the machine does changes between rounds.
static double median_ratio(const side_t *ours, const side_t *peer, int rounds) {
  double values[MOST_ROUNDS];
  for (int r = 0; r < rounds; r++)
    values[r] = throughput(&ours->figures[r]) / throughput(&peer->figures[r]);
  return bench_median(values, (size_t)rounds);
}

static void print(bench_report_t *report, const char *name, const side_t *sides, int n_sides,
                  int rounds) {
  const side_t *ours = &sides[0];
  bench_value(report, name, "sentences a batch", "", median(ours, rounds, rows));
  for (int s = 1; s < n_sides; s++) {
    const side_t *peer = &sides[s];
    bench_rate(report, name, "throughput", "tokens/s", median(ours, rounds, throughput), peer->name,
               median(peer, rounds, throughput));
    bench_value(report, name,
                peer->config.spins ? "throughput, by rounds" : "the same, no spinning", "x",
                median_ratio(ours, peer, rounds));
    bench_time(report, name, "processor time", "us/token", median(ours, rounds, processor),
               peer->name, median(peer, rounds, processor));
    bench_time(report, name, "latency, median", "ms", median(ours, rounds, p50), peer->name,
               median(peer, rounds, p50));
    bench_time(report, name, "latency, 99th percentile", "ms", median(ours, rounds, p99),
               peer->name, median(peer, rounds, p99));
  }
}

// ---- Cases ---------------------------------------------------------------------------------------
static bool measure(const arguments_t *arguments, side_t *sides, int n_sides) {
  for (long round = 0; round < arguments->rounds; round++)
    for (int turn = 0; turn < n_sides; turn++) {
      side_t *side = &sides[(turn + (int)round) % n_sides];
      const serve_load_t load = {.clients = (uint32_t)arguments->clients,
                                 .warmup = 0.2 * (double)arguments->seconds,
                                 .seconds = (double)arguments->seconds,
                                 .batch_wait_ns = 2000000,
                                 .seed = 1 + 1000 * (uint64_t)round};
      if (!serve(side->engine, side->opened, &side->config, &load, &side->figures[round]))
        return false;
      if (side->figures[round].tokens == 0) {
        fprintf(stderr, "%s: no answer in %ld s\n", side->name, arguments->seconds);
        return false;
      }
    }
  return true;
}

static bool run_case(const arguments_t *arguments, bench_report_t *report, const char *name) {
  unsigned workers = 0, threads = 0;
  int end = 0;
  if (sscanf(name, "%2ux%2u%n", &workers, &threads, &end) != 2 || !workers || !threads ||
      (name[end] && strcmp(name + end, "+busy") != 0)) {
    fprintf(stderr, "bench_serve: no case '%s'; expected such as 2x1 or 1x2+busy\n", name);
    return false;
  }
  const serve_config_t config = {arguments->model, arguments->library, workers, threads, true};
  static side_t sides[MOST_SIDES];
  int n_sides = threads > 1 ? 3 : 2;
  sides[0] = (side_t){"Ductile", &serve_ductile, config, NULL, {{0}}};
  sides[1] = (side_t){"onnxruntime", &serve_onnxruntime, config, NULL, {{0}}};
  sides[2] = (side_t){"onnxruntime, no spinning", &serve_onnxruntime, config, NULL, {{0}}};
  sides[2].config.spins = false;
  bool good = true;
  for (int s = 0; s < n_sides && good; s++)
    good = (sides[s].opened = sides[s].engine->open(&sides[s].config)) != NULL;
  pid_t busy = name[end] ? begin_busy() : 0;
  good = good && compare(sides, n_sides) && measure(arguments, sides, n_sides);
  end_busy(busy);
  if (good)
    print(report, name, sides, n_sides, (int)arguments->rounds);
  for (int s = 0; s < n_sides; s++)
    if (sides[s].opened)
      sides[s].engine->close(sides[s].opened);
  return good;
}

static bool run_cases(const arguments_t *arguments, bench_report_t *report) {
  char list[256];
  if (snprintf(list, sizeof(list), "%s", arguments->cases) >= (int)sizeof(list))
    return false;
  char *rest = NULL;
  for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
    if (!run_case(arguments, report, name))
      return false;
  return true;
}

// ---- Options -------------------------------------------------------------------------------------
static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"onnxruntime", required_argument, NULL, 'o'},
                                          {"cases", required_argument, NULL, 'c'},
                                          {"clients", required_argument, NULL, 'n'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  *out = (arguments_t){.cases = "2x1,1x2,1x2+busy", .clients = 16, .rounds = 7, .seconds = 4};
  bool good = true;
  for (int c; good && (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
    switch (c) {
    case 'o':
      out->library = optarg;
      break;
    case 'c':
      out->cases = optarg;
      break;
    case 'n':
      good = bench_parse_number(optarg, 1, 256, &out->clients);
      break;
    case 'r':
      good = bench_parse_number(optarg, 1, MOST_ROUNDS, &out->rounds);
      break;
    case 's':
      good = bench_parse_number(optarg, 1, 60, &out->seconds);
      break;
    case 'j':
      out->json = true;
      break;
    case 'h':
      out->help = true;
      return true;
    default:
      return false;
    }
  if (!good || optind + 1 != argc || !out->library)
    return false;
  out->model = argv[optind];
  return true;
}

int main(int argc, char **argv) {
  arguments_t arguments;
  if (!parse(argc, argv, &arguments)) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help) {
    fputs(usage, stdout);
    return 0;
  }
  bench_report_t report;
  bench_begin(&report, "serve", arguments.json);
  return run_cases(&arguments, &report) ? 0 : BENCH_EXIT_FAILED;
}
