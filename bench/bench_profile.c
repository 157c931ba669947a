// SPDX-License-Identifier: Apache-2.0
// What a profile of time costs and how much of a call it names, for one ONNX model at one size, or
// for small programs whose calls take about as long as is asked: calls without a profile and with
// one, in turns, by one thread's processor time; and the sum of kernels and named parts over the
// time of the calls, by the clock outside of them. With --off no profile runs: what is printed then
// is for a comparison of two builds.
#include "bench/harness.h"
#include "cli/model.h"
#include "cli/sweep.h"
#include "ductile/profile.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: bench_profile MODEL [NAME=SIZE]… [--rounds N] [--calls N] [--threads N]\n"
    "       bench_profile --us N | --rows N [--off] [--rounds N] [--calls N] [--threads N]\n"
    "  --us N       the small programs, with so many rows that a call takes N us or more\n"
    "  --rows N     the small programs with so many rows\n"
    "  --off        without a profile: prints name, us a call, rows\n"
    "  --rounds N   turns of calls without and with a profile (default: 15)\n"
    "  --calls N    calls of a turn (default: as many as take 20 ms, from 3 to 20000)\n"
    "  --threads N  that run kernels (default: 1, whose processor time is the calls')\n"
    "Prints: model, us a call without, us with, ratio of the medians, part that is named, "
    "kernels.\n";

enum { MOST_TURNS = 256, MOST_CALLS = 20000 };

typedef struct job_t {
  cli_model_t model;
  dt_runtime_t *runtime;
  dt_tensor_t **inputs, **results;
} job_t;

static double thread_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void die(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "bench_profile: %s\n", dt_status_message(status));
  exit(1);
}

static void make_inputs(job_t *job, const cli_dims_t *dims) {
  char message[CLI_MESSAGE];
  job->inputs = calloc(job->model.n_inputs + 1, sizeof(*job->inputs));
  job->results = calloc(job->model.n_outputs + 1, sizeof(*job->results));
  for (uint32_t k = 0; k < job->model.n_inputs; k++)
    if (!cli_input_make(&job->model, k, "random", dims, k + 1, &job->inputs[k], message)) {
      fprintf(stderr, "bench_profile: %s\n", message);
      exit(1);
    }
}

// The median processor time of the calls; *out_wall_ns gains their time by the clock.
static double turn(job_t *job, int calls, double *out_wall_ns) {
  static double times[MOST_CALLS];
  for (int k = 0; k < calls; k++) {
    double from = thread_ns(), begin = bench_now_ns();
    die(dt_call(job->model.session, job->model.function, job->inputs, job->model.n_inputs,
                job->results, job->model.n_outputs, NULL));
    *out_wall_ns += bench_now_ns() - begin;
    times[k] = thread_ns() - from;
    cli_release_all(job->results, job->model.n_outputs);
  }
  return bench_median(times, (size_t)calls);
}

typedef struct sums_t {
  double named_ns, wall_ns;
  uint32_t kernels;
} sums_t;

static double profiled_turn(job_t *job, int calls, sums_t *sums) {
  dt_profile_t *profile = NULL;
  dt_profile_report_t *report = NULL;
  die(dt_profile_start(job->runtime, NULL, &profile));
  double median = turn(job, calls, &sums->wall_ns);
  die(dt_profile_stop(profile));
  die(dt_profile_report(profile, &report));
  sums->named_ns += report->named * (double)report->total_ns;
  sums->kernels = report->n_variants ? report->variants[0]->n_kernels : 0;
  dt_profile_report_free(report);
  dt_profile_free(profile);
  return median;
}

static void measure(job_t *job, const char *name, int rounds, int calls) {
  double off[MOST_TURNS], on[MOST_TURNS], ratios[MOST_TURNS], none = 0;
  sums_t sums = {0};
  double one = turn(job, 3, &none);
  if (calls == 0)
    calls = one > 0 ? (int)(2e7 / one) : 3;
  calls = calls < 3 ? 3 : calls > MOST_CALLS ? MOST_CALLS : calls;
  for (int k = 0; k < rounds; k++) {
    bool first = k % 2;
    if (first)
      on[k] = profiled_turn(job, calls, &sums);
    off[k] = turn(job, calls, &none);
    if (!first)
      on[k] = profiled_turn(job, calls, &sums);
    ratios[k] = on[k] / off[k];
  }
  printf("%s\t%.1f\t%.1f\t%.4f\t%.4f\t%u\n", name, bench_median(off, (size_t)rounds) * 1e-3,
         bench_median(on, (size_t)rounds) * 1e-3, bench_median(ratios, (size_t)rounds),
         sums.wall_ns > 0 ? sums.named_ns / sums.wall_ns : 0, sums.kernels);
}

// ---- Small programs -------------------------------------------------------------------------------
// Their first input has rows, as many as make the call long enough.
#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

PROGRAM(layers) {
  (void)closure;
  dt_value_t hidden = dt_gelu(t, dt_add(t, dt_matmul(t, in[0], in[1]), in[3]));
  out[0] = dt_matmul(t, hidden, in[2]);
  return NULL;
}
PROGRAM(softmaxes) {
  (void)closure;
  dt_value_t x = dt_softmax(t, in[0], -1);
  out[0] = dt_softmax(t, dt_sum(t, dt_mul(t, x, x), 1, (const int32_t[]){0}, true), -1);
  return NULL;
}
PROGRAM(norms) {
  (void)closure;
  dt_value_t x = in[0];
  for (int k = 0; k < 3; k++)
    x = dt_add(t, dt_layer_norm(t, x, in[1], in[2], 1e-5), in[0]);
  out[0] = x;
  return NULL;
}
PROGRAM(maps) {
  (void)closure;
  out[0] = dt_mul(t, dt_tanh(t, in[0]), dt_exp(t, dt_neg(t, dt_abs(t, in[0]))));
  return NULL;
}
PROGRAM(sums) {
  (void)closure;
  dt_value_t columns = dt_sum(t, in[0], 1, (const int32_t[]){0}, true);
  dt_value_t rows = dt_amax(t, in[0], 1, (const int32_t[]){1}, true);
  out[0] = dt_sub(t, dt_mul(t, in[0], columns), rows);
  return NULL;
}
PROGRAM(attention) {
  (void)closure;
  dt_value_t q = dt_matmul(t, in[0], in[1]), k = dt_matmul(t, in[0], in[2]);
  dt_value_t scores = dt_softmax(t, dt_matmul(t, q, dt_transpose(t, k, 0, 1)), -1);
  out[0] = dt_matmul(t, scores, in[0]);
  return NULL;
}
PROGRAM(turns) {
  (void)closure;
  dt_value_t x = dt_matmul(t, dt_transpose(t, in[0], 0, 1), in[0]);
  out[0] = dt_add(t, x, dt_transpose(t, x, 0, 1));
  return NULL;
}
PROGRAM(running) {
  (void)closure;
  out[0] = dt_mul(t, dt_cumsum(t, in[0], 1, DT_CUMSUM_INCLUSIVE),
                  dt_cumsum(t, in[0], 0, DT_CUMSUM_INCLUSIVE));
  return NULL;
}
PROGRAM(gates) {
  (void)closure;
  dt_value_t a = dt_matmul(t, in[0], in[1]), b = dt_matmul(t, in[0], in[2]);
  out[0] = dt_matmul(t, dt_mul(t, dt_sigmoid(t, a), b), in[1]);
  return NULL;
}
PROGRAM(deep) {
  (void)closure;
  dt_value_t x = in[0];
  for (int k = 0; k < 12; k++)
    x = dt_tanh(t, dt_matmul(t, x, in[1]));
  out[0] = x;
  return NULL;
}

typedef struct small_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_inputs;
  struct {
    uint32_t rank;
    int64_t sizes[2]; // the first one's rows: none
  } inputs[4];
} small_t;
static const small_t smalls[] = {
    {"layers", layers, 4, {{2, {0, 64}}, {2, {64, 128}}, {2, {128, 64}}, {1, {128}}}},
    {"softmaxes", softmaxes, 1, {{2, {0, 96}}}},
    {"norms", norms, 3, {{2, {0, 128}}, {1, {128}}, {1, {128}}}},
    {"maps", maps, 1, {{2, {0, 64}}}},
    {"sums", sums, 1, {{2, {0, 96}}}},
    {"attention", attention, 3, {{2, {0, 32}}, {2, {32, 32}}, {2, {32, 32}}}},
    {"turns", turns, 1, {{2, {0, 48}}}},
    {"running", running, 1, {{2, {0, 64}}}},
    {"gates", gates, 3, {{2, {0, 64}}, {2, {64, 64}}, {2, {64, 64}}}},
    {"deep", deep, 2, {{2, {0, 32}}, {2, {32, 32}}}},
};

static dt_tensor_t *filled(uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  uint64_t seed = 3;
  die(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  float *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
    data[k] = (float)bench_random(&seed, -100, 100) / 256;
  return tensor;
}

static void open_small(job_t *job, const small_t *small) {
  dt_input_decl_t inputs[4] = {0};
  static const char *const names[] = {"x", "a", "b", "c"};
  static dt_dim_decl_t dims[4][2];
  for (uint32_t k = 0; k < small->n_inputs; k++) {
    for (uint32_t d = 0; d < small->inputs[k].rank; d++) {
      int64_t size = small->inputs[k].sizes[d];
      dims[k][d] = (dt_dim_decl_t){.is_static = size > 0, .value = size};
    }
    inputs[k] = (dt_input_decl_t){
        .name = names[k], .dtype = DT_F32, .rank = small->inputs[k].rank, .dims = dims[k]};
  }
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = small->name,
                                         .n_inputs = small->n_inputs,
                                         .inputs = inputs,
                                         .n_outputs = 1};
  const dt_prepare_options_t best = {.struct_size = sizeof(best)};
  job->model = (cli_model_t){.n_inputs = small->n_inputs, .n_outputs = 1};
  die(dt_session_create(job->runtime, NULL, &job->model.session));
  die(dt_function_create(job->runtime, small->program, NULL, &options, &job->model.function));
  die(dt_function_prepare(job->model.function, &best));
  job->inputs = calloc(5, sizeof(*job->inputs));
  job->results = calloc(1, sizeof(*job->results));
  for (uint32_t k = 1; k < small->n_inputs; k++)
    job->inputs[k] = filled(small->inputs[k].rank, small->inputs[k].sizes);
}

// Rows, a half more each time, until a call takes as long as is wanted.
static int64_t find_rows(job_t *job, const small_t *small, double us, int64_t rows) {
  double none = 0;
  bool given = rows > 0;
  for (rows = given ? rows : 1;; rows += rows / 2 + 1) {
    dt_tensor_release(job->inputs[0]);
    job->inputs[0] = filled(2, (const int64_t[]){rows, small->inputs[0].sizes[1]});
    (void)turn(job, 3, &none);
    if (given || turn(job, 9, &none) >= us * 1e3)
      return rows;
  }
}

// Many calls between two looks at the clock, which takes as long as a small one.
static void measure_off(job_t *job, const char *name, int64_t rows, int rounds, int calls) {
  double off[MOST_TURNS], none = 0;
  double one = turn(job, 9, &none);
  if (calls == 0)
    calls = one > 0 ? (int)(2e7 / one) : 3;
  calls = calls < 3 ? 3 : calls > MOST_CALLS ? MOST_CALLS : calls;
  for (int k = 0; k < rounds; k++) {
    double from = thread_ns();
    for (int i = 0; i < calls; i++) {
      die(dt_call(job->model.session, job->model.function, job->inputs, job->model.n_inputs,
                  job->results, job->model.n_outputs, NULL));
      cli_release_all(job->results, job->model.n_outputs);
    }
    off[k] = (thread_ns() - from) / calls;
  }
  printf("%s\t%.4f\t%lld\n", name, bench_median(off, (size_t)rounds) * 1e-3, (long long)rows);
}

static void measure_smalls(job_t *job, double us, int64_t given, bool off, int rounds, int calls) {
  for (size_t k = 0; k < sizeof(smalls) / sizeof(smalls[0]); k++) {
    open_small(job, &smalls[k]);
    int64_t rows = find_rows(job, &smalls[k], us, given);
    if (off)
      measure_off(job, smalls[k].name, rows, rounds, calls);
    else
      measure(job, smalls[k].name, rounds, calls);
    cli_release_all(job->inputs, job->model.n_inputs);
    free(job->inputs);
    free(job->results);
    dt_function_release(job->model.function);
    dt_session_destroy(job->model.session);
  }
}

// ---- The command ----------------------------------------------------------------------------------
int main(int argc, char **argv) {
  static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                          {"calls", required_argument, NULL, 'c'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"us", required_argument, NULL, 'u'},
                                          {"off", no_argument, NULL, 'o'},
                                          {"rows", required_argument, NULL, 'n'},
                                          {NULL, 0, NULL, 0}};
  int rounds = 15, calls = 0, threads = 1, us = 0, rows = 0, off = 0, c;
  cli_dim_t sizes[CLI_MOST_AXES];
  cli_dims_t dims = {sizes, 0};
  job_t job = {.runtime = NULL};
  bool wrong = false;
  if (bench_help(argc, argv, usage))
    return 0;
  while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
    int value = c == '?' ? 0 : c == 'o' ? 1 : atoi(optarg);
    int *to = c == 'r'   ? &rounds
              : c == 'c' ? &calls
              : c == 'u' ? &us
              : c == 'n' ? &rows
              : c == 'o' ? &off
                         : &threads;
    *to = value;
    wrong = wrong || value < 1;
  }
  bool small = us > 0 || rows > 0;
  if (wrong || (optind >= argc) != small || (off && !small) || rounds > MOST_TURNS) {
    fputs(usage, stderr);
    return 2;
  }
  for (int k = optind + 1; k < argc && dims.n < CLI_MOST_AXES; k++, dims.n++) {
    const char *is = strchr(argv[k], '=');
    if (!is) {
      fputs(usage, stderr);
      return 2;
    }
    sizes[dims.n] = (cli_dim_t){argv[k], (size_t)(is - argv[k]), atoll(is + 1)};
  }
  const cli_place_t place = {.device = DT_CPU};
  dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = (uint32_t)threads};
  die(dt_runtime_create(&about, &job.runtime));
  if (small) {
    measure_smalls(&job, us, rows, off, rounds, calls);
    dt_runtime_release(job.runtime);
    return 0;
  }
  die(cli_model_open(&job.model, job.runtime, argv[optind], &place));
  make_inputs(&job, &dims);
  double none = 0;
  (void)turn(&job, 1, &none);
  dt_prepare_options_t best = {.struct_size = sizeof(best)};
  dt_status_free(dt_function_prepare(job.model.function, &best)); // kernels in their best form
  const char *slash = strrchr(argv[optind], '/');
  measure(&job, slash ? slash + 1 : argv[optind], rounds, calls);
  cli_release_all(job.inputs, job.model.n_inputs);
  free(job.inputs);
  free(job.results);
  cli_model_close(&job.model);
  dt_runtime_release(job.runtime);
  return 0;
}
