// SPDX-License-Identifier: Apache-2.0
// What a host sees of the library around its calls: how much longer a first call takes while other
// threads keep every core busy, whether memory goes back when models come and go, and what calls of
// one function see of the compile of another, whose first kernels are quick ones.
//
// The busy threads are processes of their own, which end by themselves.
#include "bench/harness.h"

#include "ductile/experimental.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 8, WIDTH = 384, MOST_BUSY = 64, MODELS = 20, HOG_SECONDS = 120 };
enum { STAGES = 48, ALONE = 2000, MOST_CALLS = 1 << 20 };
static const double limit_busy = 3.5, limit_memory = 1.1, limit_meanwhile = 1.5;

static const char usage[] =
    "usage: bench_life [--json] [--busy N] [--rounds N] [--models N] [--cases LIST]\n"
    "\n"
    "Cases: busy (the first call of a function, which compiles it, beside N busy threads, over\n"
    "alone, by turns), reload (resident memory after N models were made, called and released in\n"
    "turn, over after the first), meanwhile (the 99th percentile of a function's calls while\n"
    "another is compiled: until its first call has answered, and until its best kernels run; over\n"
    "that of calls alone).\n"
    "  --busy N     busy threads (default: 2)\n"
    "  --rounds N   turns of the case busy (default: 7)\n"
    "  --models N   models of the case reload (default: 20)\n"
    "  --cases LIST by commas (default: busy,reload,meanwhile)\n"
    "  --threads N  threads that run kernels in the case meanwhile (default: 1)\n"
    "  --json       JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long busy, rounds, models, threads;
  const char *cases;
  bool json, help;
} arguments_t;

// ---- A model ------------------------------------------------------------------------------------

typedef struct model_t {
  int64_t width;
  dt_tensor_t *weights[LAYERS];
} model_t;

static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const model_t *model = closure;
  dt_value_t x = in[0];
  for (int k = 0; k < LAYERS; k++) {
    char name[32];
    (void)snprintf(name, sizeof name, "weight%d", k);
    dt_value_t y = dt_matmul(trace, x, dt_constant(trace, name, model->weights[k]));
    x = dt_add(trace, dt_softmax(trace, y, -1), dt_tanh(trace, x));
  }
  out[0] = x;
  return dt_trace_status(trace);
}

static bool make_model(model_t *model, int64_t width) {
  const int64_t sizes[] = {width, width};
  model->width = width;
  bool good = true;
  for (int k = 0; k < LAYERS && good; k++) {
    good = bench_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &model->weights[k]), "a constant");
    float *data = good ? dt_tensor_data(model->weights[k]) : NULL;
    for (int64_t i = 0; good && i < width * width; i++)
      data[i] = (float)((i * 31 + k) % 17) * 0.01f;
  }
  return good;
}

static void free_model(model_t *model) {
  for (int k = 0; k < LAYERS; k++)
    dt_tensor_release(model->weights[k]);
}

static bool call(dt_session_t *session, dt_function_t *function, int64_t width) {
  const int64_t sizes[] = {9, width};
  dt_tensor_t *x = NULL, *out = NULL;
  bool good = bench_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &x), "an input");
  for (int64_t i = 0; good && i < 9 * width; i++)
    ((float *)dt_tensor_data(x))[i] = 0.5f;
  good = good && bench_ok(dt_call(session, function, &x, 1, &out, 1, NULL), "the first call");
  dt_tensor_release(out);
  dt_tensor_release(x);
  return good;
}

static bool make_function(dt_runtime_t *runtime, dt_program_fn_t run, void *closure, int64_t width,
                          dt_function_t **out) {
  const dt_dim_decl_t dims[] = {{.name = "n"}, {.is_static = true, .value = width}};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "model",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input};
  return bench_ok(dt_function_create(runtime, run, closure, &options, out), "making a function");
}

// Makes, calls for the first time and releases a function of `model`; the call's time.
static bool live_once(dt_runtime_t *runtime, model_t *model, double *out_ms) {
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  bool good = make_function(runtime, program, model, model->width, &function) &&
              bench_ok(dt_session_create(runtime, NULL, &session), "making a session");
  double start = bench_now_ns();
  good = good && call(session, function, model->width);
  *out_ms = (bench_now_ns() - start) * 1e-6;
  dt_session_destroy(session);
  dt_function_release(function);
  return good;
}

// ---- Busy ---------------------------------------------------------------------------------------

static void start_hogs(pid_t *hogs, long n) {
  for (long k = 0; k < n; k++) {
    hogs[k] = fork();
    if (hogs[k] == 0) {
      (void)alarm(HOG_SECONDS);
      for (volatile unsigned turns = 0;; turns++) {
      }
    }
  }
}

static void end_hogs(const pid_t *hogs, long n) {
  for (long k = 0; k < n; k++) {
    if (hogs[k] <= 0)
      continue;
    (void)kill(hogs[k], SIGKILL);
    (void)waitpid(hogs[k], NULL, 0);
  }
}

static bool run_busy(bench_report_t *report, const arguments_t *arguments) {
  dt_runtime_t *runtime = NULL;
  model_t model = {0};
  pid_t hogs[MOST_BUSY];
  double *alone = calloc((size_t)arguments->rounds * 2, sizeof *alone);
  double *beside = alone + arguments->rounds, warm = 0;
  bool good = alone && make_model(&model, WIDTH) &&
              bench_ok(dt_runtime_create(NULL, &runtime), "making the runtime") &&
              live_once(runtime, &model, &warm);
  for (long k = 0; good && k < arguments->rounds; k++) {
    good = live_once(runtime, &model, &alone[k]);
    start_hogs(hogs, arguments->busy);
    good = good && live_once(runtime, &model, &beside[k]);
    end_hogs(hogs, arguments->busy);
  }
  if (good) {
    double alone_ms = bench_median(alone, (size_t)arguments->rounds);
    double beside_ms = bench_median(beside, (size_t)arguments->rounds);
    bench_value(report, "busy", "first call alone", "ms", alone_ms);
    bench_value(report, "busy", "first call beside busy threads", "ms", beside_ms);
    bench_limited(report, "busy", "beside, over alone", "ratio", beside_ms / alone_ms, limit_busy);
  }
  dt_runtime_release(runtime);
  free_model(&model);
  free(alone);
  return good;
}

// ---- Reload -------------------------------------------------------------------------------------

static bool run_reload(bench_report_t *report, const arguments_t *arguments) {
  dt_runtime_t *runtime = NULL;
  int64_t first = 0, last = 0;
  double ms = 0;
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "making the runtime");
  for (long k = 0; good && k < arguments->models; k++) {
    model_t model = {0};
    good = make_model(&model, WIDTH + 8 * (k % 5)) && live_once(runtime, &model, &ms);
    free_model(&model);
    last = bench_resident_bytes();
    first = k == 0 ? last : first;
  }
  if (good) {
    bench_value(report, "reload", "resident after the first", "MB", (double)first * 1e-6);
    bench_value(report, "reload", "resident after the last", "MB", (double)last * 1e-6);
    bench_limited(report, "reload", "last, over first", "ratio", (double)last / (double)first,
                  limit_memory);
  }
  dt_runtime_release(runtime);
  if (good)
    bench_value(report, "reload", "resident without a runtime", "MB",
                (double)bench_resident_bytes() * 1e-6);
  return good;
}

// ---- Meanwhile ----------------------------------------------------------------------------------

// Stages that have no code in common: each sums the rows of another chain of ops.
static dt_status_t many_kernels(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  static dt_value_t (*const ops[])(dt_trace_t *, dt_value_t) = {dt_tanh, dt_exp, dt_sigmoid, dt_abs,
                                                                dt_erf};
  (void)closure;
  dt_value_t x = in[0];
  for (unsigned k = 0; k < STAGES; k++) {
    dt_value_t y = x;
    for (unsigned digits = k + 1; digits; digits /= 5)
      y = ops[digits % 5](trace, y);
    x = dt_add(trace, x, dt_softmax(trace, y, -1));
  }
  out[0] = x;
  return dt_trace_status(trace);
}

// The function that is compiled, by a thread of its own.
typedef struct newcomer_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  double first_ms, best_ms;
  _Atomic int phase; // 0: its first call, 1: its best kernels are made, 2: they are there
  bool good;
} newcomer_t;

static void *arrive(void *opaque) {
  newcomer_t *own = opaque;
  dt_prepare_options_t best = {.struct_size = sizeof best, .form = DT_PREPARE_BEST};
  double start = bench_now_ns();
  own->good = call(own->session, own->function, WIDTH);
  own->first_ms = (bench_now_ns() - start) * 1e-6;
  atomic_store(&own->phase, 1);
  own->good = own->good && bench_ok(dt_function_prepare(own->function, &best), "the best kernels");
  own->best_ms = (bench_now_ns() - start) * 1e-6;
  atomic_store(&own->phase, 2);
  return NULL;
}

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double last_percent(double *ms, long n) {
  qsort(ms, (size_t)n, sizeof *ms, by_value);
  return bench_quantile(ms, (size_t)n, 0.99);
}

// Times calls until the newcomer has left `phase`; without one, ALONE calls.
static long time_calls(dt_session_t *session, dt_function_t *function, const newcomer_t *newcomer,
                       int phase, double *out_ms) {
  long n = 0;
  while (n < MOST_CALLS && (newcomer ? atomic_load(&newcomer->phase) == phase : n < ALONE)) {
    double start = bench_now_ns();
    if (!call(session, function, WIDTH))
      return -1;
    out_ms[n++] = (bench_now_ns() - start) * 1e-6;
  }
  return n;
}

static bool measure_meanwhile(bench_report_t *report, dt_session_t *session, dt_function_t *hot,
                              newcomer_t *newcomer, double *ms) {
  static const char *const phases[] = {"until its first answer", "until its best kernels run"};
  dt_prepare_options_t best = {.struct_size = sizeof best, .form = DT_PREPARE_BEST};
  pthread_t thread;
  if (!call(session, hot, WIDTH) || !bench_ok(dt_function_prepare(hot, &best), "a function"))
    return false;
  long n = time_calls(session, hot, NULL, 0, ms);
  double alone = n > 0 ? last_percent(ms, n) : 0;
  if (n <= 0 || pthread_create(&thread, NULL, arrive, newcomer) != 0)
    return false;
  bench_value(report, "meanwhile", "alone, 99th percentile", "ms", alone);
  for (int phase = 0; phase < 2; phase++) {
    char metric[96];
    n = time_calls(session, hot, newcomer, phase, ms);
    bench_value(report, "meanwhile", phases[phase], "calls", (double)n);
    (void)snprintf(metric, sizeof metric, "%s: 99th percentile, over alone", phases[phase]);
    if (n > 0)
      bench_limited(report, "meanwhile", metric, "ratio", last_percent(ms, n) / alone,
                    limit_meanwhile);
  }
  (void)pthread_join(thread, NULL);
  bench_value(report, "meanwhile", "first answer of the other", "ms", newcomer->first_ms);
  bench_value(report, "meanwhile", "its best kernels", "ms", newcomer->best_ms);
  return newcomer->good && n >= 0;
}

static bool run_meanwhile(bench_report_t *report, const arguments_t *arguments) {
  dt_runtime_options_t options = {.struct_size = sizeof options,
                                  .threads = (uint32_t)arguments->threads};
  model_t model = {0};
  newcomer_t newcomer = {0};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *hot = NULL;
  double *ms = calloc(MOST_CALLS, sizeof *ms);
  bool good = ms && make_model(&model, WIDTH) &&
              bench_ok(dt_runtime_create(&options, &runtime), "making the runtime") &&
              bench_ok(dt_session_create(runtime, NULL, &session), "making a session") &&
              bench_ok(dt_session_create(runtime, NULL, &newcomer.session), "making a session") &&
              make_function(runtime, program, &model, WIDTH, &hot) &&
              make_function(runtime, many_kernels, NULL, WIDTH, &newcomer.function) &&
              measure_meanwhile(report, session, hot, &newcomer, ms);
  dt_session_destroy(newcomer.session);
  dt_session_destroy(session);
  dt_function_release(newcomer.function);
  dt_function_release(hot);
  dt_runtime_release(runtime);
  free_model(&model);
  free(ms);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {
      {"json", no_argument, NULL, 'j'},         {"busy", required_argument, NULL, 'b'},
      {"rounds", required_argument, NULL, 'r'}, {"models", required_argument, NULL, 'm'},
      {"cases", required_argument, NULL, 'c'},  {"threads", required_argument, NULL, 't'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      out->json = true;
    else if (option == 'b')
      good = bench_parse_number(optarg, 1, MOST_BUSY, &out->busy);
    else if (option == 'r')
      good = bench_parse_number(optarg, 1, 1000, &out->rounds);
    else if (option == 'm')
      good = bench_parse_number(optarg, 1, 10000, &out->models);
    else if (option == 'c')
      out->cases = optarg;
    else if (option == 't')
      good = bench_parse_number(optarg, 1, 1024, &out->threads);
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments = {
      .busy = 2, .rounds = 7, .models = MODELS, .cases = "busy,reload,meanwhile", .threads = 1};
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help) {
    (void)fputs(usage, stdout);
    return 0;
  }
  bench_report_t report;
  bench_begin(&report, "life", arguments.json);
  bool good = (!bench_listed(arguments.cases, "busy") || run_busy(&report, &arguments)) &&
              (!bench_listed(arguments.cases, "reload") || run_reload(&report, &arguments)) &&
              (!bench_listed(arguments.cases, "meanwhile") || run_meanwhile(&report, &arguments));
  return good ? 0 : BENCH_EXIT_FAILED;
}
