// SPDX-License-Identifier: Apache-2.0
// What it costs to make code in worker processes: the same compiles with and without, by turns,
// wall and processor time, the workers' own included. Reads the workers' accounts below the public
// interface.
#include "bench/harness.h"

#include "ductile/onnx.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/worker.h"
#include "runtime/exec/runtime.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WIDTH = 32, LAYER_NODES = 7, MOST_TURNS = 99, MOST_MODELS = 16, NAME_BYTES = 64 };
static const double limit_share = 0.15, limit_ms = 20; // beyond a compile in this process

static const char usage[] =
    "usage: bench_worker [--json] [--turns N] [--threads N] [MODEL.onnx …]\n"
    "\n"
    "Compiles programs in this process and with worker processes, by turns, and prints the "
    "medians\n"
    "of wall and processor time and what the workers add.\n"
    "  --turns N    of each kind (default: 9)\n"
    "  --threads N  compile threads (default: 2)\n"
    "  --json       JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long turns, threads;
  bool json, help;
  char *const *models;
  int n_models;
} arguments_t;

// ---- Programs -----------------------------------------------------------------------------------

typedef struct case_t {
  char name[NAME_BYTES];
  long layers;       // of plain layers; 0: a model
  const char *model; // a file
} case_t;

typedef struct layers_t {
  long count;
  dt_tensor_t *square, *line; // of zeros; every constant holds one of them
} layers_t;

static dt_value_t constant(dt_trace_t *trace, const char *what, long layer, dt_tensor_t *tensor) {
  char name[NAME_BYTES];
  (void)snprintf(name, sizeof name, "%s%ld", what, layer);
  return dt_constant(trace, name, tensor);
}

// The layers of bench_compile.
static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const layers_t *layers = closure;
  const int32_t rows = 1;
  dt_value_t x = in[0];
  for (long k = 0; k < layers->count; k++) {
    dt_value_t weight = constant(trace, "weight", k, layers->square);
    dt_value_t bias = constant(trace, "bias", k, layers->line);
    dt_value_t scale = constant(trace, "scale", k, layers->line);
    dt_value_t shift = constant(trace, "shift", k, layers->line);
    dt_value_t y = dt_add(trace, dt_matmul(trace, x, weight), bias);
    dt_value_t z = dt_softmax(trace, dt_layer_norm(trace, y, scale, shift, 1e-5), -1);
    x = dt_add(trace, y, dt_amax(trace, dt_transpose(trace, z, 0, 1), 1, &rows, false));
  }
  out[0] = x;
  return dt_trace_status(trace);
}

static bool make_zeros(uint32_t rank, dt_tensor_t **out) {
  static const int64_t sizes[] = {WIDTH, WIDTH};
  if (!bench_ok(dt_tensor_create_empty(DT_F32, rank, sizes, out), "making a constant"))
    return false;
  memset(dt_tensor_data(*out), 0, (size_t)dt_tensor_count(*out) * sizeof(float));
  return true;
}

static bool make_layers(dt_runtime_t *runtime, layers_t *layers, dt_function_t **out) {
  const dt_dim_decl_t dims[] = {{.name = "n"}, {.is_static = true, .value = WIDTH}};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "layers",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input};
  return make_zeros(2, &layers->square) && make_zeros(1, &layers->line) &&
         bench_ok(dt_function_create(runtime, program, layers, &options, out),
                  "making the function");
}

static bool make_model(dt_runtime_t *runtime, const char *path, dt_onnx_t **model,
                       dt_function_t **out) {
  return bench_ok(dt_onnx_open(path, NULL, model), path) &&
         bench_ok(dt_onnx_function_create(runtime, *model, NULL, out), path);
}

// ---- Measuring ----------------------------------------------------------------------------------

typedef struct cost_t {
  double wall_ms, processor_ms;
} cost_t;

// Of this process and of the runtime's workers.
static double processor_ms(dt_runtime_t *runtime) {
  struct rusage used;
  (void)getrusage(RUSAGE_SELF, &used);
  dt_workers_t *workers = dt__compiler_workers(runtime->compiler);
  double own = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-3;
  return own + (workers ? (double)dt__workers_stats(workers).ns * 1e-6 : 0);
}

static bool compile(dt_runtime_t *runtime, const case_t *what, cost_t *out) {
  layers_t layers = {.count = what->layers};
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  bool good = what->model ? make_model(runtime, what->model, &model, &function)
                          : make_layers(runtime, &layers, &function);
  double begin = bench_now_ns(), used = processor_ms(runtime);
  good = good && bench_ok(dt_function_prepare(function, NULL), what->name);
  out->wall_ms = (bench_now_ns() - begin) * 1e-6;
  out->processor_ms = processor_ms(runtime) - used;
  dt_function_release(function);
  dt_onnx_close(model);
  dt_tensor_release(layers.square);
  dt_tensor_release(layers.line);
  return good;
}

static bool open_runtime(dt_isolation_t isolation, long threads, dt_runtime_t **out) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = 1,
                                        .compile_threads = (uint32_t)threads,
                                        .isolation = isolation};
  return bench_ok(dt_runtime_create(&options, out), "making a runtime");
}

static double median_of(const cost_t *costs, long n, bool processor) {
  double values[MOST_TURNS];
  for (long k = 0; k < n; k++)
    values[k] = processor ? costs[k].processor_ms : costs[k].wall_ms;
  return bench_median(values, (size_t)n);
}

static void report_case(bench_report_t *report, const case_t *what, const cost_t *here,
                        const cost_t *there, long n) {
  static const char *const words[] = {"wall", "processor"};
  for (int k = 0; k < 2; k++) {
    char metric[NAME_BYTES];
    double own = median_of(here, n, k), workers = median_of(there, n, k);
    bench_value(report, what->name, words[k], "ms", own);
    (void)snprintf(metric, sizeof metric, "%s, with workers", words[k]);
    bench_limited(report, what->name, metric, "ms", workers, own * (1 + limit_share) + limit_ms);
  }
}

// One turn of each that does not count: it starts the workers.
static bool measure(bench_report_t *report, const arguments_t *arguments, const case_t *what) {
  static cost_t costs[2][MOST_TURNS];
  dt_runtime_t *runtimes[2] = {NULL, NULL};
  bool good = open_runtime(DT_ISOLATION_IN_PROCESS, arguments->threads, &runtimes[0]) &&
              open_runtime(DT_ISOLATION_WORKER, arguments->threads, &runtimes[1]);
  cost_t first;
  good = good && compile(runtimes[0], what, &first) && compile(runtimes[1], what, &first);
  if (good)
    bench_value(report, what->name, "wall, first with workers", "ms", first.wall_ms);
  for (long turn = 0; good && turn < arguments->turns; turn++)
    for (int k = 0; good && k < 2; k++)
      good = compile(runtimes[k], what, &costs[k][turn]);
  if (good)
    report_case(report, what, costs[0], costs[1], arguments->turns);
  dt_runtime_release(runtimes[0]);
  dt_runtime_release(runtimes[1]);
  return good;
}

static bool run(const arguments_t *arguments) {
  static const long sizes[] = {1, 4, 16, 64};
  bench_report_t report;
  bool good = true;
  bench_begin(&report, "worker", arguments->json);
  for (size_t k = 0; good && k < sizeof sizes / sizeof sizes[0]; k++) {
    case_t what = {.layers = sizes[k]};
    (void)snprintf(what.name, sizeof what.name, "%ld nodes", sizes[k] * LAYER_NODES);
    good = measure(&report, arguments, &what);
  }
  for (int k = 0; good && k < arguments->n_models; k++) {
    case_t what = {.model = arguments->models[k]};
    const char *slash = strrchr(what.model, '/');
    (void)snprintf(what.name, sizeof what.name, "%.60s", slash ? slash + 1 : what.model);
    good = measure(&report, arguments, &what);
  }
  return good;
}

// ---- Options ------------------------------------------------------------------------------------

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"turns", required_argument, NULL, 'n'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      out->json = true;
    else if (option == 'n')
      good = bench_parse_number(optarg, 1, MOST_TURNS, &out->turns);
    else if (option == 't')
      good = bench_parse_number(optarg, 1, 64, &out->threads);
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  out->models = argv + optind;
  out->n_models = argc - optind;
  return good && out->n_models <= MOST_MODELS;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.turns = 9, .threads = 2};
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help) {
    (void)fputs(usage, stdout);
    return 0;
  }
  return run(&arguments) ? 0 : BENCH_EXIT_FAILED;
}
