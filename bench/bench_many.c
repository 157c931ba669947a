// SPDX-License-Identifier: Apache-2.0
// What a compile costs where a model of a few kilobytes has very many of one thing: inputs of a
// Concat, outputs, operators in a row that do not fuse, loops in loops. Each case runs in a process
// of its own, so that its peak is its own.
#include "bench/harness.h"

#include "bench/onnx_bytes.h"
#include "ductile/experimental.h"
#include "ductile/onnx.h"

#include <getopt.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIPS = 8, NAME_BYTES = 24 };
static const double limit_peak_mb = 400;

static const char usage[] =
    "usage: bench_many [--json] [--only LIST] [--threads N]\n"
    "\n"
    "Compiles small models with very many of one thing and prints what each costs: wall and\n"
    "processor time, the peak of the process's memory, kernels.\n"
    "  --only LIST    these cases, by commas\n"
    "  --threads N    compile threads (default: 2)\n"
    "  --json         JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

// ---- Models -------------------------------------------------------------------------------------

typedef struct case_t {
  const char *name;
  void (*make)(onnx_bytes_t *graph, const struct case_t *c);
  uint32_t n;
  const char *op; // of a chain
  double limit_ms;
} case_t;

static void numbered(char *out, uint32_t k) { (void)snprintf(out, NAME_BYTES, "v%u", k); }

static void make_concat(onnx_bytes_t *graph, const case_t *c) {
  onnx_bytes_t node = {0}, axis = {0};
  for (uint32_t k = 0; k < c->n; k++)
    onnx_put_text(&node, ONNX_NODE_INPUT, "x");
  onnx_put_text(&node, ONNX_NODE_OUTPUT, "y");
  onnx_put_text(&node, ONNX_NODE_OP, "Concat");
  onnx_put_int_attribute(&axis, "axis", 0);
  onnx_put_message(&node, ONNX_NODE_ATTRIBUTE, &axis);
  onnx_put_message(graph, ONNX_GRAPH_NODE, &node);
  onnx_put_value(graph, ONNX_GRAPH_INPUT, "x", 2);
  onnx_put_value(graph, ONNX_GRAPH_OUTPUT, "y", 2);
}

static void make_outputs(onnx_bytes_t *graph, const case_t *c) {
  for (uint32_t k = 0; k < c->n; k++) {
    char name[NAME_BYTES];
    numbered(name, k);
    onnx_put_node(graph, "Add", (const char *[]){"x", "x", NULL}, name);
    onnx_put_value(graph, ONNX_GRAPH_OUTPUT, name, 2);
  }
  onnx_put_value(graph, ONNX_GRAPH_INPUT, "x", 2);
}

// x, then op(x), then op of that: `op` reads the last value and, as MatMul does, x itself, or, as
// Pad does, an initializer.
static void make_chain(onnx_bytes_t *graph, const case_t *c) {
  static const int64_t pads[] = {0, 0, 0, 1};
  char last[NAME_BYTES] = "x", next[NAME_BYTES];
  bool pad = strcmp(c->op, "Pad") == 0, product = strcmp(c->op, "MatMul") == 0;
  const char *second = pad ? "pads" : product ? "x" : NULL;
  for (uint32_t k = 0; k < c->n; k++) {
    numbered(next, k);
    onnx_put_node(graph, c->op, (const char *[]){last, second, NULL}, next);
    memcpy(last, next, sizeof last);
  }
  if (pad)
    onnx_put_integers(graph, "pads", 4, pads);
  onnx_put_value(graph, ONNX_GRAPH_INPUT, "x", product ? 0 : 2);
  onnx_put_value(graph, ONNX_GRAPH_OUTPUT, last, 2);
}

// `depth` loops of TRIPS trips in each other, and Sin in the innermost.
static void put_loop(onnx_bytes_t *graph, uint32_t depth, const char *in, const char *out) {
  if (depth == 0) {
    onnx_put_node(graph, "Sin", (const char *[]){in, NULL}, out);
    return;
  }
  onnx_bytes_t body = {0}, attribute = {0}, node = {0};
  char names[4][NAME_BYTES]; // trip, condition, state, what becomes of it
  for (uint32_t k = 0; k < 4; k++)
    (void)snprintf(names[k], NAME_BYTES, "%c%u", "icsr"[k], depth);
  char goes_on[NAME_BYTES];
  (void)snprintf(goes_on, sizeof goes_on, "g%u", depth);
  onnx_put_node(&body, "Identity", (const char *[]){names[1], NULL}, goes_on);
  put_loop(&body, depth - 1, names[2], names[3]);
  onnx_put_scalar(&body, ONNX_GRAPH_INPUT, names[0], ONNX_INT64);
  onnx_put_scalar(&body, ONNX_GRAPH_INPUT, names[1], ONNX_BOOL);
  onnx_put_value(&body, ONNX_GRAPH_INPUT, names[2], 2);
  onnx_put_scalar(&body, ONNX_GRAPH_OUTPUT, goes_on, ONNX_BOOL);
  onnx_put_value(&body, ONNX_GRAPH_OUTPUT, names[3], 2);
  onnx_put_text(&body, ONNX_GRAPH_NAME, "body");
  onnx_put_graph_attribute(&attribute, "body", &body);
  const char *const inputs[] = {"trips", "", in};
  for (uint32_t k = 0; k < 3; k++)
    onnx_put_text(&node, ONNX_NODE_INPUT, inputs[k]);
  onnx_put_text(&node, ONNX_NODE_OUTPUT, out);
  onnx_put_text(&node, ONNX_NODE_OP, "Loop");
  onnx_put_message(&node, ONNX_NODE_ATTRIBUTE, &attribute);
  onnx_put_message(graph, ONNX_GRAPH_NODE, &node);
}

static void make_loops(onnx_bytes_t *graph, const case_t *c) {
  const int64_t trips = TRIPS;
  put_loop(graph, c->n, "x", "y");
  onnx_put_integers(graph, "trips", 0, &trips);
  onnx_put_value(graph, ONNX_GRAPH_INPUT, "x", 2);
  onnx_put_value(graph, ONNX_GRAPH_OUTPUT, "y", 2);
}

static const case_t cases[] = {
    {"concat1000", make_concat, 1000, NULL, 600},
    {"concat10000", make_concat, 10000, NULL, 3000},
    {"outputs1000", make_outputs, 1000, NULL, 1000},
    {"pads1000", make_chain, 1000, "Pad", 2000},
    {"matmuls1000", make_chain, 1000, "MatMul", 2000},
    {"softmaxes1000", make_chain, 1000, "Softmax", 2000},
    {"loops3", make_loops, 3, NULL, 500},
    {"loops6", make_loops, 6, NULL, 500},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

// ---- One case -----------------------------------------------------------------------------------

typedef struct cost_t {
  bool good;
  double wall_ms, processor_ms, peak_bytes, kernels;
} cost_t;

static double processor_ms(void) {
  struct rusage usage_now;
  (void)getrusage(RUSAGE_SELF, &usage_now);
  return (double)(usage_now.ru_utime.tv_sec + usage_now.ru_stime.tv_sec) * 1e3 +
         (double)(usage_now.ru_utime.tv_usec + usage_now.ru_stime.tv_usec) * 1e-3;
}

static bool compile(dt_runtime_t *runtime, const onnx_bytes_t *model, cost_t *out) {
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  double start = bench_now_ns(), used = processor_ms();
  bool good =
      bench_ok(dt_onnx_open_memory(model->data, model->len, NULL, &file), "opening the model") &&
      bench_ok(dt_onnx_function_create(runtime, file, NULL, &function), "making the function") &&
      bench_ok(dt_function_prepare(function, NULL), "compiling");
  out->wall_ms = (bench_now_ns() - start) * 1e-6;
  out->processor_ms = processor_ms() - used;
  good = good && bench_ok(dt_function_counters(function, &stats), "its statistics");
  out->kernels = (double)stats.kernels;
  dt_function_release(function);
  dt_onnx_close(file);
  return good;
}

static void measure(const case_t *c, long threads, cost_t *out) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .compile_threads = (uint32_t)threads};
  onnx_bytes_t graph = {0};
  c->make(&graph, c);
  onnx_bytes_t model = onnx_model_of(&graph);
  dt_runtime_t *runtime = NULL;
  struct rusage peak;
  out->good = !model.failed &&
              bench_ok(dt_runtime_create(&options, &runtime), "making the runtime") &&
              compile(runtime, &model, out);
  (void)getrusage(RUSAGE_SELF, &peak);
  out->peak_bytes = (double)peak.ru_maxrss * 1024;
  dt_runtime_release(runtime);
  onnx_bytes_free(&model);
}

// In a process of its own; a death is told as a failure.
static bool measure_apart(const case_t *c, long threads, cost_t *out) {
  int ends[2], status = 0;
  *out = (cost_t){0};
  if (pipe(ends) != 0)
    return false;
  pid_t child = fork();
  if (child == 0) {
    measure(c, threads, out);
    bool told = write(ends[1], out, sizeof *out) == (ssize_t)sizeof *out;
    _exit(told ? 0 : BENCH_EXIT_FAILED);
  }
  (void)close(ends[1]);
  bool told = child > 0 && read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
  (void)close(ends[0]);
  if (child > 0)
    (void)waitpid(child, &status, 0);
  if (!told)
    (void)fprintf(stderr, "bench: the process that compiled %s died (status %d)\n", c->name,
                  status);
  return told && out->good;
}

static bool run(const char *only, long threads, bool json) {
  bench_report_t report;
  bench_begin(&report, "many", json);
  for (int k = 0; k < N_CASES; k++) {
    const case_t *c = &cases[k];
    cost_t cost;
    if (only && !bench_listed(only, c->name))
      continue;
    if (!measure_apart(c, threads, &cost))
      return false;
    bench_limited(&report, c->name, "wall", "ms", cost.wall_ms, c->limit_ms);
    bench_value(&report, c->name, "processor", "ms", cost.processor_ms);
    bench_limited(&report, c->name, "peak", "MB", cost.peak_bytes * 1e-6, limit_peak_mb);
    bench_value(&report, c->name, "kernels", "", cost.kernels);
    (void)fflush(stdout);
  }
  return true;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  const char *only = NULL;
  long threads = 2;
  bool json = false, good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h')
      return fputs(usage, stdout) < 0;
    if (option == 'j')
      json = true;
    else if (option == 'o')
      only = optarg;
    else
      good = option == 't' && bench_parse_number(optarg, 1, 64, &threads);
  }
  if (!good || optind != argc) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  return run(only, threads, json) ? 0 : BENCH_EXIT_FAILED;
}
