// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools in f32 on the CPU, at batch 1 with N, H and W symbolic. By itself it
// prints times beside the floor of their arithmetic; with --serve it makes calls on request, so
// that tools/bench/bench_conv_peer.py can take turns with onnxruntime.
#include "bench/harness.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 40, MOST_CALLS = 100000 };

static const char usage[] =
    "usage: bench_conv [--json] [--threads N] [--only NAME] [--calls N] [--peak GFLOPS] [--serve]\n"
    "                  [--processor-time]\n"
    "\n"
    "Measures convolutions and pools, in microseconds a call (medians).\n"
    "  --threads N   threads that run kernels (default: one a core)\n"
    "  --only NAME   cases whose name has NAME in it\n"
    "  --calls N     calls of each case (default: 40)\n"
    "  --peak G      multiply-adds of the machine, all threads, in GFLOP/s: floors are printed\n"
    "  --processor-time  that of the calling thread: with one thread a figure that other programs\n"
    "                on the machine hardly change\n"
    "  --serve       reads lines: \"list\" answers with the cases, \"run CASE CALLS\" with ns a "
    "call,\n"
    "                \"sum CASE\" with the sum and the sum of absolute values of the result\n"
    "Exit codes: 0 measured, 1 something failed, 2 wrong usage.\n";

// ---- Cases --------------------------------------------------------------------------------------
typedef enum kind_t { CONV, TRANSPOSED, MAX_POOL, AVERAGE_POOL } kind_t;
static const char *const kind_names[] = {"Conv", "ConvTranspose", "MaxPool", "AveragePool"};

typedef struct case_t {
  const char *name;
  kind_t kind;
  int64_t channels, height, width, rows, kernel, stride, padding, groups;
} case_t;

static const case_t cases[] = {
    {"conv3x3_64", CONV, 64, 56, 56, 64, 3, 1, 1, 1},
    {"conv1x1_256_64", CONV, 256, 56, 56, 64, 1, 1, 0, 1},
    {"conv3x3s2_128", CONV, 128, 56, 56, 128, 3, 2, 1, 1},
    {"conv7x7s2_3_64", CONV, 3, 224, 224, 64, 7, 2, 3, 1},
    {"conv3x3_512", CONV, 512, 7, 7, 512, 3, 1, 1, 1},
    {"depthwise3x3_144", CONV, 144, 56, 56, 144, 3, 1, 1, 144},
    {"depthwise3x3s2_144", CONV, 144, 56, 56, 144, 3, 2, 1, 144},
    {"depthwise5x5_480", CONV, 480, 14, 14, 480, 5, 1, 2, 480},
    {"grouped3x3_128", CONV, 128, 28, 28, 128, 3, 1, 1, 32},
    {"transposed4x4s2_64", TRANSPOSED, 64, 28, 28, 64, 4, 2, 1, 1},
    {"transposed2x2s2_64", TRANSPOSED, 64, 28, 28, 64, 2, 2, 0, 1},
    {"maxpool3x3s2_64", MAX_POOL, 64, 112, 112, 0, 3, 2, 1, 1},
    {"avgpool3x3_64", AVERAGE_POOL, 64, 56, 56, 0, 3, 1, 1, 1},
    {"avgpool2x2s2_64", AVERAGE_POOL, 64, 56, 56, 0, 2, 2, 0, 1},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// Multiplications and additions of all windows; a transposed one has a window an element of x.
static double flops_of(const case_t *c) {
  int64_t out = (c->height + 2 * c->padding - c->kernel) / c->stride + 1;
  int64_t places = c->kind == TRANSPOSED ? c->height * c->width : out * out;
  int64_t rows = c->rows ? c->rows : c->channels;
  int64_t channels = c->rows ? c->channels / c->groups : 1;
  return (c->rows ? 2.0 : 1.0) * (double)(rows * channels * c->kernel * c->kernel * places);
}

typedef struct made_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *functions[CASES];
  dt_tensor_t *inputs[CASES], *weights[CASES];
  const case_t *made; // the case that is being traced
  bool processor_time;
} made_t;

static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const made_t *made = closure;
  const case_t *c = made->made;
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(trace, c->stride);
    windows[d].low = windows[d].high = dt_sym_const(trace, c->padding);
    if (!c->rows)
      windows[d].size = dt_sym_const(trace, c->kernel);
  }
  if (c->kind == MAX_POOL) {
    out[0] = dt_max_pool(trace, in[0], windows, 0, NULL);
  } else if (c->kind == AVERAGE_POOL) {
    out[0] = dt_avg_pool(trace, in[0], windows, 0);
  } else {
    dt_value_t w = dt_constant(trace, "w", made->weights[c - cases]);
    out[0] = c->kind == CONV ? dt_conv(trace, in[0], w, windows, c->groups)
                             : dt_conv_transpose(trace, in[0], w, windows, c->groups);
  }
  return NULL;
}

// Multiples of a tenth around 0, which the peer has too: element i is ((i mod of) - of / 2) / 10.
static dt_status_t numbers(const int64_t sizes[4], int64_t of, dt_tensor_t **out) {
  dt_status_t status = dt_tensor_create_empty(DT_F32, 4, sizes, out);
  if (status)
    return status;
  float *data = dt_tensor_data(*out);
  for (int64_t i = 0; i < sizes[0] * sizes[1] * sizes[2] * sizes[3]; i++)
    data[i] = (float)(i % of - of / 2) * 0.1f;
  return NULL;
}

// Makes case i once.
static dt_status_t make(made_t *made, size_t i) {
  const case_t *c = &cases[i];
  if (made->functions[i])
    return NULL;
  const int64_t x[4] = {1, c->channels, c->height, c->width};
  int64_t w[4] = {c->rows, c->channels / c->groups, c->kernel, c->kernel};
  if (c->kind == TRANSPOSED) {
    w[0] = c->channels;
    w[1] = c->rows / c->groups;
  }
  dt_status_t status = numbers(x, 17, &made->inputs[i]);
  if (!status && c->rows)
    status = numbers(w, 13, &made->weights[i]);
  if (status)
    return status;
  dt_dim_decl_t dims[4];
  memset(dims, 0, sizeof dims);
  dims[0].name = "n";
  dims[1].is_static = true;
  dims[1].value = c->channels;
  dims[2].name = "h";
  dims[3].name = "w";
  dt_input_decl_t input = {.dtype = DT_F32, .rank = 4, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = c->name,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .inputs = &input};
  made->made = c;
  return dt_function_create(made->runtime, program, made, &options, &made->functions[i]);
}

static void unmake(made_t *made) {
  dt_session_destroy(made->session);
  for (size_t i = 0; i < CASES; i++) {
    dt_function_release(made->functions[i]);
    dt_tensor_release(made->inputs[i]);
    dt_tensor_release(made->weights[i]);
  }
  dt_runtime_release(made->runtime);
}

static double now_ns(const made_t *made) {
  struct timespec time;
  if (!made->processor_time)
    return bench_now_ns();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static dt_status_t call(made_t *made, size_t i, double *ns, dt_tensor_t **out) {
  dt_status_t status = make(made, i);
  if (status)
    return status;
  made->made = &cases[i]; // the first call traces
  double start = now_ns(made);
  status = dt_call(made->session, made->functions[i], &made->inputs[i], 1, out, 1, NULL);
  *ns = now_ns(made) - start;
  return status;
}

static dt_status_t measure(made_t *made, size_t i, long calls, double *times) {
  for (long n = 0; n < calls; n++) {
    dt_tensor_t *out = NULL;
    dt_status_t status = call(made, i, &times[n], &out);
    dt_tensor_release(out);
    if (status)
      return status;
  }
  return NULL;
}

// ---- On request ---------------------------------------------------------------------------------
static void answer_list(void) {
  for (size_t i = 0; i < CASES; i++) {
    const case_t *c = &cases[i];
    printf("%s%s:%s:%lld:%lld:%lld:%lld:%lld:%lld:%lld:%lld:%.0f", i ? " " : "", c->name,
           kind_names[c->kind], (long long)c->channels, (long long)c->height, (long long)c->width,
           (long long)c->rows, (long long)c->kernel, (long long)c->stride, (long long)c->padding,
           (long long)c->groups, flops_of(c));
  }
  putchar('\n');
}

static void answer_run(made_t *made, size_t i, long calls) {
  double *times = calloc((size_t)calls, sizeof times[0]);
  if (!times) {
    printf("error out of memory\n");
    return;
  }
  if (!bench_answer_error(measure(made, i, calls, times))) {
    for (long n = 0; n < calls; n++)
      printf(n ? " %.0f" : "%.0f", times[n]);
    putchar('\n');
  }
  free(times);
}

static void answer_sum(made_t *made, size_t i) {
  double ns, sum = 0, absolute = 0;
  dt_tensor_t *out = NULL;
  if (bench_answer_error(call(made, i, &ns, &out)))
    return;
  const float *data = dt_tensor_data(out);
  int64_t count = 1;
  for (uint32_t d = 0; d < 4; d++)
    count *= dt_tensor_sizes(out)[d];
  for (int64_t n = 0; n < count; n++) {
    sum += data[n];
    absolute += data[n] < 0 ? -data[n] : data[n];
  }
  dt_tensor_release(out);
  printf("%.9g %.9g\n", sum, absolute);
}

static size_t find_case(const char *name) {
  size_t i = 0;
  while (i < CASES && strcmp(cases[i].name, name) != 0)
    i++;
  return i;
}

static int serve(made_t *made) {
  char line[256], name[64];
  long calls;
  printf("ready %s\n", dt_version());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (strcmp(line, "list\n") == 0)
      answer_list();
    else if (sscanf(line, "run %63s %ld", name, &calls) == 2 && find_case(name) < CASES &&
             calls >= 1 && calls <= MOST_CALLS)
      answer_run(made, find_case(name), calls);
    else if (sscanf(line, "sum %63s", name) == 1 && find_case(name) < CASES)
      answer_sum(made, find_case(name));
    else
      printf("error what is asked is not known\n");
    fflush(stdout);
  }
  return 0;
}

// ---- By itself ----------------------------------------------------------------------------------
typedef struct options_t {
  bool json, serve, processor_time;
  long threads, calls, peak;
  const char *only;
} options_t;

static int print_all(made_t *made, const options_t *options) {
  static double times[MOST_CALLS];
  bench_report_t report;
  bench_begin(&report, "conv", options->json);
  for (size_t i = 0; i < CASES; i++) {
    double first = 0;
    if (options->only && !strstr(cases[i].name, options->only))
      continue;
    if (!bench_ok(measure(made, i, 1, &first), cases[i].name) ||
        !bench_ok(measure(made, i, options->calls, times), cases[i].name))
      return BENCH_EXIT_FAILED;
    double median = bench_median(times, (size_t)options->calls);
    if (options->peak)
      bench_time(&report, cases[i].name, "latency", "us", median * 1e-3, "floor",
                 flops_of(&cases[i]) / (double)options->peak * 1e-3);
    else
      bench_value(&report, cases[i].name, "latency", "us", median * 1e-3);
    bench_value(&report, cases[i].name, "first call", "ms", first * 1e-6);
  }
  return 0;
}

static bool parse(int argc, char **argv, options_t *out) {
  static const struct option names[] = {{"json", no_argument, NULL, 'j'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"only", required_argument, NULL, 'o'},
                                        {"calls", required_argument, NULL, 'c'},
                                        {"peak", required_argument, NULL, 'p'},
                                        {"serve", no_argument, NULL, 's'},
                                        {"processor-time", no_argument, NULL, 'P'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  int option;
  bool good = true;
  *out = (options_t){.calls = CALLS};
  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
    if (option == 'h') {
      fputs(usage, stdout);
      exit(0);
    }
    out->json |= option == 'j';
    out->serve |= option == 's';
    out->processor_time |= option == 'P';
    if (option == 'o')
      out->only = optarg;
    good = good && option != '?' &&
           (option != 't' || bench_parse_number(optarg, 1, 1024, &out->threads)) &&
           (option != 'c' || bench_parse_number(optarg, 1, MOST_CALLS, &out->calls)) &&
           (option != 'p' || bench_parse_number(optarg, 1, 1000000, &out->peak));
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  options_t options;
  made_t made = {0};
  if (!parse(argc, argv, &options)) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  dt_runtime_options_t runtime = {.struct_size = sizeof runtime,
                                  .threads = (uint32_t)options.threads};
  made.processor_time = options.processor_time;
  int exit_code = BENCH_EXIT_FAILED;
  if (bench_ok(dt_runtime_create(&runtime, &made.runtime), "making a runtime") &&
      bench_ok(dt_session_create(made.runtime, NULL, &made.session), "making a session"))
    exit_code = options.serve ? serve(&made) : print_all(&made, &options);
  unmake(&made);
  return exit_code;
}
