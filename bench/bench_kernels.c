// SPDX-License-Identifier: Apache-2.0
// Kernels that no template makes: small programs over a million f32 in rows of odd lengths, in
// bytes a second beside memcpy of the same bytes with the same threads in the same run.
//
// Bytes are those that the program must read and write once, however often the code does. The MLP
// is bound by arithmetic and is given beside the machine's multiply-adds as well.
#include "bench/ceilings.h"
#include "bench/harness.h"
#include "ductile/experimental.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIN_CALLS = 9, MAX_CALLS = 401, MLP_WIDTH = 64, MLP_INNER = 128 };
static const double measure_for_ns = 0.3e9;

static const char usage[] =
    "usage: bench_kernels [--json] [--threads N] [--only NAME]\n"
    "\n"
    "Measures small programs over about a million numbers, in GB/s beside memcpy.\n"
    "  --threads N   threads that run kernels (default: one a core)\n"
    "  --only NAME   gelu, softmax, layer_norm, column_sum, transpose or mlp\n"
    "Exit codes: 0 measured, 1 something failed, 2 wrong usage.\n";

// ---- Programs: x [rows, columns] → [rows, columns], [columns] or [columns, rows] ----------------

static dt_status_t gelu(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scaled = dt_mul(trace, in[0], in[1]);
  out[0] = dt_gelu(trace, dt_add(trace, scaled, in[2]));
  return NULL;
}

static dt_status_t softmax(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)closure;
  out[0] = dt_softmax(trace, in[0], -1);
  return NULL;
}

static dt_status_t layer_norm(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  (void)closure;
  out[0] = dt_layer_norm(trace, in[0], in[1], in[2], 1e-5);
  return NULL;
}

static dt_status_t column_sum(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  const int32_t over_rows[] = {0};
  (void)closure;
  out[0] = dt_sum(trace, in[0], 1, over_rows, false);
  return NULL;
}

static dt_status_t transpose(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                             void *closure) {
  (void)closure;
  out[0] = dt_transpose(trace, in[0], 0, 1);
  return NULL;
}

// Weights that the MLP takes as inputs, so that nothing is packed ahead.
static dt_status_t mlp(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t inner = dt_gelu(trace, dt_add(trace, dt_matmul(trace, in[0], in[1]), in[2]));
  out[0] = dt_add(trace, dt_matmul(trace, inner, in[3]), in[4]);
  return NULL;
}

// How an input's or output's sizes follow from [rows, columns].
typedef enum form_t { MATRIX, ROW, FLIPPED, WEIGHT_IN, BIAS_IN, WEIGHT_OUT, BIAS_OUT } form_t;

typedef struct kernel_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_inputs;
  form_t inputs[5];
  form_t output;
  bool is_mlp; // columns are MLP_WIDTH whatever is asked for
} kernel_t;

static const kernel_t kernels[] = {
    {"gelu", gelu, 3, {MATRIX, ROW, ROW}, MATRIX, false},
    {"softmax", softmax, 1, {MATRIX}, MATRIX, false},
    {"layer_norm", layer_norm, 3, {MATRIX, ROW, ROW}, MATRIX, false},
    {"column_sum", column_sum, 1, {MATRIX}, ROW, false},
    {"transpose", transpose, 1, {MATRIX}, FLIPPED, false},
    {"mlp", mlp, 5, {MATRIX, WEIGHT_IN, BIAS_IN, WEIGHT_OUT, BIAS_OUT}, MATRIX, true},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

// About a million elements each; the last row length is even, for comparison.
static const int64_t shapes[][2] = {{1021, 1027}, {10007, 101}, {101, 10007}, {1024, 1024}};
static const int64_t mlp_shapes[][2] = {{16411, MLP_WIDTH}};

static uint32_t sizes_of(form_t form, int64_t rows, int64_t columns, int64_t sizes[2]) {
  static const int64_t fixed[][2] = {
      [WEIGHT_IN] = {MLP_WIDTH, MLP_INNER},
      [BIAS_IN] = {MLP_INNER, 0},
      [WEIGHT_OUT] = {MLP_INNER, MLP_WIDTH},
      [BIAS_OUT] = {MLP_WIDTH, 0},
  };
  if (form >= WEIGHT_IN) {
    memcpy(sizes, fixed[form], sizeof fixed[form]);
    return fixed[form][1] ? 2 : 1;
  }
  sizes[0] = form == MATRIX ? rows : columns;
  sizes[1] = form == FLIPPED ? rows : columns;
  return form == ROW ? 1 : 2;
}

// ---- One program --------------------------------------------------------------------------------

typedef struct run_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  double fma;   // the machine's, GFLOP/s
  long threads; // 0: the runtime's own choice
  uint32_t width;
} run_t;

static dt_status_t make_function(const run_t *run, const kernel_t *kernel, dt_function_t **out) {
  dt_input_decl_t inputs[5] = {0};
  dt_dim_decl_t dims[5][2] = {0};
  for (uint32_t i = 0; i < kernel->n_inputs; i++) {
    static const char *const names[][2] = {{"rows", "columns"}, {"columns", NULL}};
    int64_t sizes[2];
    form_t form = kernel->inputs[i];
    inputs[i] =
        (dt_input_decl_t){.dtype = DT_F32, .rank = sizes_of(form, 0, 0, sizes), .dims = dims[i]};
    for (uint32_t k = 0; k < inputs[i].rank; k++)
      dims[i][k] = form >= WEIGHT_IN ? (dt_dim_decl_t){.is_static = true, .value = sizes[k]}
                                     : (dt_dim_decl_t){.name = names[form == ROW][k]};
    if (kernel->is_mlp && form == MATRIX)
      dims[i][1] = (dt_dim_decl_t){.is_static = true, .value = MLP_WIDTH};
  }
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = kernel->name,
                                         .n_inputs = kernel->n_inputs,
                                         .n_outputs = 1,
                                         .inputs = inputs};
  return dt_function_create(run->runtime, kernel->program, NULL, &options, out);
}

static dt_status_t make_tensor(form_t form, int64_t rows, int64_t columns, dt_tensor_t **out) {
  int64_t sizes[2];
  uint32_t rank = sizes_of(form, rows, columns, sizes);
  dt_status_t status = dt_tensor_create_empty(DT_F32, rank, sizes, out);
  if (status)
    return status;
  float *data = dt_tensor_data(*out);
  uint64_t seed = (uint64_t)form + 1;
  for (int64_t i = 0; i < dt_tensor_count(*out); i++)
    data[i] = (float)bench_random(&seed, -1000, 1000) * 1e-3f;
  return NULL;
}

// Calls over and over into one output; *out_ns is the median.
static dt_status_t time_calls(const run_t *run, dt_function_t *function, uint32_t n_inputs,
                              dt_tensor_t *const *inputs, dt_tensor_t **output, double *out_ns) {
  double times[MAX_CALLS];
  size_t count = 0;
  dt_status_t status = dt_call(run->session, function, inputs, n_inputs, output, 1, NULL);
  double begin = bench_now_ns();
  while (!status && count < MAX_CALLS &&
         (count < MIN_CALLS || bench_now_ns() - begin < measure_for_ns)) {
    double start = bench_now_ns();
    status = dt_call(run->session, function, inputs, n_inputs, output, 1, NULL);
    times[count++] = bench_now_ns() - start;
  }
  *out_ns = bench_median(times, count);
  return status;
}

static void report_shape(bench_report_t *report, const run_t *run, const kernel_t *kernel,
                         const int64_t *shape, double bytes, double ns) {
  char name[64];
  snprintf(name, sizeof name, "%s %lldx%lld", kernel->name, (long long)shape[0],
           (long long)shape[1]);
  bench_value(report, name, "latency", "us", ns * 1e-3);
  double copy = bench_ceiling_copy(run->width, (size_t)(bytes / 2));
  bench_rate(report, name, "bytes touched", "GB/s", bytes / ns, "memcpy", copy);
  if (kernel->is_mlp) {
    double operations = 4.0 * (double)shape[0] * MLP_WIDTH * MLP_INNER;
    bench_rate(report, name, "arithmetic", "GFLOP/s", operations / ns, "fma", run->fma);
  }
}

static bool run_shape(bench_report_t *report, const run_t *run, const kernel_t *kernel,
                      dt_function_t *function, const int64_t *shape) {
  dt_tensor_t *inputs[5] = {0}, *output = NULL;
  double bytes = 0, ns = 0;
  dt_status_t status = NULL;
  for (uint32_t i = 0; i < kernel->n_inputs && !status; i++) {
    status = make_tensor(kernel->inputs[i], shape[0], shape[1], &inputs[i]);
    bytes += status ? 0 : (double)dt_tensor_count(inputs[i]) * sizeof(float);
  }
  if (!status)
    status = make_tensor(kernel->output, shape[0], shape[1], &output);
  if (!status) {
    bytes += (double)dt_tensor_count(output) * sizeof(float);
    status = time_calls(run, function, kernel->n_inputs, inputs, &output, &ns);
  }
  bool good = bench_ok(status, kernel->name);
  if (good)
    report_shape(report, run, kernel, shape, bytes, ns);
  for (uint32_t i = 0; i < kernel->n_inputs; i++)
    dt_tensor_release(inputs[i]);
  dt_tensor_release(output);
  return good;
}

static bool run_kernel(bench_report_t *report, const run_t *run, const kernel_t *kernel) {
  const int64_t (*list)[2] = kernel->is_mlp ? mlp_shapes : shapes;
  size_t count =
      kernel->is_mlp ? sizeof mlp_shapes / sizeof mlp_shapes[0] : sizeof shapes / sizeof shapes[0];
  dt_function_t *function = NULL;
  if (!bench_ok(make_function(run, kernel, &function), kernel->name))
    return false;
  bool good = bench_ok(dt_function_prepare(function, NULL), kernel->name);
  for (size_t i = 0; i < count && good; i++)
    good = run_shape(report, run, kernel, function, list[i]);
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (good)
    good = bench_ok(dt_function_counters(function, &stats), kernel->name);
  if (good) {
    bench_value(report, kernel->name, "kernels of a call", "count", (double)stats.kernels);
    bench_limited(report, kernel->name, "variants", "count", stats.variants, 1);
    bench_limited(report, kernel->name, "evaluator calls", "count", (double)stats.evaluator_calls,
                  0);
  }
  dt_function_release(function);
  return good;
}

// ---- Program ------------------------------------------------------------------------------------

static bool run_all(const char *only, bool json, run_t *run) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = (uint32_t)run->threads};
  if (!bench_ok(dt_runtime_create(&options, &run->runtime), "making the runtime") ||
      !bench_ok(dt_session_create(run->runtime, NULL, &run->session), "making a session"))
    return false;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  run->width = (uint32_t)(run->threads ? run->threads : cores);
  run->fma = bench_ceiling_fma(run->width);
  bench_report_t report;
  bench_begin(&report, "kernels", json);
  bool good = true, found = false;
  // One that fails is reported on stderr, and the others still run.
  for (size_t i = 0; i < KERNELS; i++) {
    if (only && strcmp(only, kernels[i].name) != 0)
      continue;
    found = true;
    good = run_kernel(&report, run, &kernels[i]) && good;
  }
  if (!found)
    fprintf(stderr, "bench: there is no kernel \"%s\"\n", only);
  return good && found;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"threads", required_argument, NULL, 't'},
      {"only", required_argument, NULL, 'o'},
      {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  run_t run = {0};
  const char *only = NULL;
  bool json = false, good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      json = true;
    else if (option == 'o')
      only = optarg;
    else if (option == 'h')
      return fputs(usage, stdout) < 0;
    else
      good = option == 't' && bench_parse_number(optarg, 1, BENCH_MAX_THREADS, &run.threads);
  }
  if (!good || optind < argc) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  good = run_all(only, json, &run);
  dt_session_destroy(run.session);
  dt_runtime_release(run.runtime);
  return good ? 0 : BENCH_EXIT_FAILED;
}
