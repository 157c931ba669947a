// SPDX-License-Identifier: Apache-2.0
// What a compile of a large graph costs: k plain layers (MatMul, Add, LayerNormalization, Softmax,
// Transpose, ReduceMax, Add), each with constants of its own, at several sizes. Time and memory a
// node must not grow with the graph. Each size runs in a process of its own, so that its peak is
// its own. A stage's time is what the compile thread worked between two lines of the log channel
// `compile`: one comes at the end of each.
#include "bench/harness.h"

#include "runtime/base/log.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYER_NODES = 7, WIDTH = 32, MOST_SIZES = 16, MOST_STAGES = 64, NAME_BYTES = 32 };
// Of a size: wall time a node, of it over the first size's, and what a process may take at its
// peak.
static const double limit_node_ms = 1.5, limit_growth = 1.5;
static const double limit_base_bytes = 300e6, limit_node_bytes = 40e3;

static const char usage[] =
    "usage: bench_compile [--json] [--nodes LIST] [--threads N] [--called] [--stages]\n"
    "\n"
    "Compiles graphs of plain layers (7 nodes each) and prints what that costs: wall and "
    "processor\n"
    "time, both a node, the peak of the process's memory, and how the time a node grew from the\n"
    "first size to each.\n"
    "  --nodes LIST   sizes, by commas (default: 800,1600,3200,11200)\n"
    "  --threads N    compile threads (default: 2)\n"
    "  --called       each layer is a call of one subgraph (dt_subgraph)\n"
    "  --stages       each stage's processor time, too, and the process's memory after it\n"
    "  --json         JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long nodes[MOST_SIZES];
  int n_sizes;
  long threads;
  bool json, called, stages, help;
} arguments_t;

// ---- The graph ----------------------------------------------------------------------------------

typedef struct layers_t {
  long count;
  bool called;
  dt_tensor_t *square, *line; // of zeros; every constant holds one of them
} layers_t;

static dt_value_t constant(dt_trace_t *trace, const char *what, long layer, dt_tensor_t *tensor) {
  char name[NAME_BYTES];
  (void)snprintf(name, sizeof name, "%s%ld", what, layer);
  return dt_constant(trace, name, tensor);
}

// Of x, weight, bias, scale and shift.
static dt_status_t layer(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int32_t rows = 1;
  (void)closure;
  dt_value_t y = dt_add(trace, dt_matmul(trace, in[0], in[1]), in[2]);
  dt_value_t z = dt_softmax(trace, dt_layer_norm(trace, y, in[3], in[4], 1e-5), -1);
  out[0] = dt_add(trace, y, dt_amax(trace, dt_transpose(trace, z, 0, 1), 1, &rows, false));
  return NULL;
}

static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const layers_t *layers = closure;
  dt_value_t x = in[0];
  for (long k = 0; k < layers->count; k++) {
    dt_value_t operands[] = {
        x, constant(trace, "weight", k, layers->square), constant(trace, "bias", k, layers->line),
        constant(trace, "scale", k, layers->line), constant(trace, "shift", k, layers->line)};
    if (layers->called)
      dt_subgraph(trace, layer, NULL, 5, operands, 1, 0, &x);
    else
      (void)layer(trace, operands, &x, NULL);
  }
  out[0] = x;
  return dt_trace_status(trace);
}

static bool make_zeros(uint32_t rank, dt_tensor_t **out) {
  static const float zeros[WIDTH * WIDTH];
  static const int64_t sizes[] = {WIDTH, WIDTH};
  dt_tensor_desc_t desc = {.struct_size = sizeof desc,
                           .dtype = DT_F32,
                           .rank = rank,
                           .sizes = sizes,
                           .data = (void *)(uintptr_t)zeros};
  return bench_ok(dt_tensor_create(&desc, out), "making a constant");
}

// ---- Stages -------------------------------------------------------------------------------------

// What the log told, by stage. Lines come one at a time.
typedef struct stages_t {
  int count;
  char names[MOST_STAGES][NAME_BYTES];
  double ms[MOST_STAGES], resident_bytes[MOST_STAGES];
  double at_ms; // of the thread's clock, at the line before
} stages_t;

static double thread_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double resident_bytes(void) {
  unsigned long all = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  bool good = file && fscanf(file, "%lu %lu", &all, &resident) == 2;
  if (file)
    (void)fclose(file);
  return good ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

// "layers.0 inline: 12.345 ms", from the thread that runs the stages.
static void take_line(void *user, const char *line, size_t len) {
  stages_t *stages = user;
  char text[256], name[NAME_BYTES];
  double ms = 0, now = thread_ms();
  (void)snprintf(text, sizeof text, "%.*s", (int)len, line);
  const char *at = strstr(text, "layers.0 ");
  if (!at || sscanf(at, "layers.0 %31[a-z_]: %lf ms", name, &ms) != 2 ||
      stages->count == MOST_STAGES)
    return;
  memcpy(stages->names[stages->count], name, sizeof name);
  stages->ms[stages->count] = stages->count ? now - stages->at_ms : ms;
  stages->resident_bytes[stages->count] = resident_bytes();
  stages->count++;
  stages->at_ms = now;
}

// ---- One size -----------------------------------------------------------------------------------

typedef struct cost_t {
  bool good;
  double wall_ms, processor_ms, peak_bytes, code_bytes;
  stages_t stages;
} cost_t;

static double processor_ms(void) {
  struct rusage usage_now;
  (void)getrusage(RUSAGE_SELF, &usage_now);
  return (double)(usage_now.ru_utime.tv_sec + usage_now.ru_stime.tv_sec) * 1e3 +
         (double)(usage_now.ru_utime.tv_usec + usage_now.ru_stime.tv_usec) * 1e-3;
}

static bool compile(layers_t *layers, dt_runtime_t *runtime, cost_t *out) {
  const dt_dim_decl_t dims[] = {{.name = "n"}, {.is_static = true, .value = WIDTH}};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "layers",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input};
  dt_function_t *function = NULL;
  dt_function_stats_t stats = {.struct_size = sizeof stats};
  bool good = make_zeros(2, &layers->square) && make_zeros(1, &layers->line) &&
              bench_ok(dt_function_create(runtime, program, layers, &options, &function),
                       "making the function") &&
              bench_ok(dt_function_prepare(function, NULL), "compiling") &&
              bench_ok(dt_function_stats(function, &stats), "reading the statistics");
  out->code_bytes = (double)stats.code_bytes;
  dt_function_release(function);
  dt_tensor_release(layers->square);
  dt_tensor_release(layers->line);
  return good;
}

static void measure(const arguments_t *arguments, long nodes, cost_t *out) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .compile_threads = (uint32_t)arguments->threads};
  layers_t layers = {.count = (nodes + LAYER_NODES - 1) / LAYER_NODES, .called = arguments->called};
  dt_runtime_t *runtime = NULL;
  struct rusage peak;
  if (!bench_ok(dt_runtime_create(&options, &runtime), "making the runtime"))
    return;
  dt_log_sink_set(take_line, &out->stages);
  out->good = bench_ok(dt_log_configure("compile:2"), "asking for the log");
  double start = bench_now_ns(), used = processor_ms();
  out->good = out->good && compile(&layers, runtime, out);
  out->wall_ms = (bench_now_ns() - start) * 1e-6;
  out->processor_ms = processor_ms() - used;
  (void)getrusage(RUSAGE_SELF, &peak);
  out->peak_bytes = (double)peak.ru_maxrss * 1024;
  dt_log_sink_set(NULL, NULL);
  dt_runtime_release(runtime);
}

// In a process of its own; a death is told as a failure.
static bool measure_apart(const arguments_t *arguments, long nodes, cost_t *out) {
  int ends[2], status = 0;
  *out = (cost_t){0};
  if (pipe(ends) != 0)
    return false;
  pid_t child = fork();
  if (child == 0) {
    measure(arguments, nodes, out);
    bool told = write(ends[1], out, sizeof *out) == (ssize_t)sizeof *out;
    _exit(told ? 0 : BENCH_EXIT_FAILED);
  }
  (void)close(ends[1]);
  bool told = child > 0 && read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
  (void)close(ends[0]);
  if (child > 0)
    (void)waitpid(child, &status, 0);
  if (!told)
    (void)fprintf(stderr, "bench: the process that compiled %ld nodes died (status %d)\n", nodes,
                  status);
  return told && out->good;
}

// ---- Report -------------------------------------------------------------------------------------

static void report_size(bench_report_t *report, const arguments_t *arguments, long nodes,
                        const cost_t *cost, double first_node_ms) {
  char name[NAME_BYTES];
  double made = (double)((nodes + LAYER_NODES - 1) / LAYER_NODES * LAYER_NODES);
  (void)snprintf(name, sizeof name, "%ld nodes", nodes);
  bench_value(report, name, "wall", "ms", cost->wall_ms);
  bench_value(report, name, "processor", "ms", cost->processor_ms);
  bench_limited(report, name, "wall a node", "ms", cost->wall_ms / made, limit_node_ms);
  bench_value(report, name, "processor a node", "ms", cost->processor_ms / made);
  bench_limited(report, name, "a node, over the first size", "ratio",
                cost->processor_ms / made / first_node_ms, limit_growth);
  bench_limited(report, name, "peak", "MB", cost->peak_bytes * 1e-6,
                (limit_base_bytes + limit_node_bytes * made) * 1e-6);
  bench_value(report, name, "code", "KB", cost->code_bytes * 1e-3);
  double stages_ms = 0;
  for (int k = 0; k < cost->stages.count; k++) {
    stages_ms += cost->stages.ms[k];
    if (!arguments->stages)
      continue;
    bench_value(report, name, cost->stages.names[k], "ms", cost->stages.ms[k]);
    bench_value(report, name, "memory after it", "MB", cost->stages.resident_bytes[k] * 1e-6);
  }
  bench_value(report, name, "all stages", "ms", stages_ms);
}

static bool run(const arguments_t *arguments) {
  static cost_t cost;
  bench_report_t report;
  double first = 0;
  bench_begin(&report, "compile", arguments->json);
  for (int k = 0; k < arguments->n_sizes; k++) {
    long nodes = arguments->nodes[k];
    if (!measure_apart(arguments, nodes, &cost))
      return false;
    if (k == 0)
      first = cost.processor_ms / (double)((nodes + LAYER_NODES - 1) / LAYER_NODES * LAYER_NODES);
    report_size(&report, arguments, nodes, &cost, first);
  }
  return true;
}

// ---- Options ------------------------------------------------------------------------------------

static bool parse_sizes(const char *text, arguments_t *out) {
  char number[16];
  out->n_sizes = 0;
  for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    size_t length = strcspn(at, ",");
    if (length >= sizeof number || out->n_sizes == MOST_SIZES)
      return false;
    memcpy(number, at, length);
    number[length] = '\0';
    if (!bench_parse_number(number, 1, 1000000, &out->nodes[out->n_sizes++]))
      return false;
  }
  return out->n_sizes > 0;
}

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"nodes", required_argument, NULL, 'n'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"stages", no_argument, NULL, 's'},
                                          {"called", no_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      out->json = true;
    else if (option == 'n')
      good = parse_sizes(optarg, out);
    else if (option == 't')
      good = bench_parse_number(optarg, 1, 64, &out->threads);
    else if (option == 'c')
      out->called = true;
    else if (option == 's')
      out->stages = true;
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.nodes = {800, 1600, 3200, 11200}, .n_sizes = 4, .threads = 2};
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help)
    return fputs(usage, stdout) < 0;
  return run(&arguments) ? 0 : BENCH_EXIT_FAILED;
}
