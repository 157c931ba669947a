// SPDX-License-Identifier: Apache-2.0
// What a call costs on the host beside its kernels: a function of one trivial kernel (a + b over
// eight numbers) is called over and over.
//
// The kernel's own cost cannot be seen from outside, so an honest floor stands for it: the same
// addition as a C function behind a pointer, which does nothing else. Overhead is the call less
// that floor and, where single calls are timed, less one reading of the clock.
#include "bench/harness.h"
#include "ductile/experimental.h"

#include <getopt.h>
#include <stdlib.h>

enum { ELEMENTS = 8, WARM_UP = 20000 };
static const double limit_ns = 1000; // of the overhead

static const char usage[] =
    "usage: bench_call [--json] [--calls N] [--threads N]\n"
    "\n"
    "Measures the host's part of a call with one trivial kernel, in nanoseconds.\n"
    "  --calls N    timed calls a case (default: 200000)\n"
    "  --threads N  threads that run kernels (default: one a core)\n"
    "  --json       JSON lines\n"
    "Cases: kept (the same tensors at every call), rebound (all tensors are bound to other memory\n"
    "and another size before every call; binding is not timed), allocated (each call makes its\n"
    "output, which is then released).\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long calls, threads;
  bool json, help;
} arguments_t;

// Two sets of memory, so that a rebound call really finds other addresses.
static float memory[2][3][ELEMENTS];

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t *function;
  dt_session_t *session;
  dt_tensor_t *inputs[2], *output;
  double *times;    // room for `calls`
  double kernel_ns; // the floor
  double clock_ns;
} caller_t;

static dt_status_t add(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], in[1]);
  return NULL;
}

// ---- Set-up -------------------------------------------------------------------------------------

// Tensor `index` over memory set `set` with `count` elements.
static dt_tensor_desc_t desc_of(const int64_t *count, int set, int index) {
  return (dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                            .dtype = DT_F32,
                            .rank = 1,
                            .sizes = count,
                            .data = memory[set][index]};
}

static bool set_up(const arguments_t *arguments, caller_t *caller) {
  const dt_dim_decl_t dims[] = {{.name = "n"}};
  const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 1, .dims = dims},
                                    {.name = "b", .dtype = DT_F32, .rank = 1, .dims = dims}};
  const dt_function_options_t function = {.struct_size = sizeof function,
                                          .name = "add",
                                          .n_inputs = 2,
                                          .n_outputs = 1,
                                          .inputs = inputs};
  const dt_runtime_options_t runtime = {.struct_size = sizeof runtime,
                                        .threads = (uint32_t)arguments->threads};
  for (int set = 0; set < 2; set++)
    for (int i = 0; i < ELEMENTS; i++) {
      memory[set][0][i] = (float)(i + set);
      memory[set][1][i] = 0.5f;
    }
  caller->times = calloc((size_t)arguments->calls, sizeof caller->times[0]);
  if (!caller->times) {
    fprintf(stderr, "bench: out of memory\n");
    return false;
  }
  if (!bench_ok(dt_runtime_create(&runtime, &caller->runtime), "making the runtime") ||
      !bench_ok(dt_function_create(caller->runtime, add, NULL, &function, &caller->function),
                "making the function") ||
      !bench_ok(dt_function_prepare(caller->function, NULL), "compiling") ||
      !bench_ok(dt_session_create(caller->runtime, NULL, &caller->session), "making a session"))
    return false;
  const int64_t count = ELEMENTS;
  for (int i = 0; i < 3; i++) {
    dt_tensor_desc_t desc = desc_of(&count, 0, i);
    if (!bench_ok(dt_tensor_create(&desc, i < 2 ? &caller->inputs[i] : &caller->output),
                  "making a tensor"))
      return false;
  }
  return true;
}

static void tear_down(caller_t *caller) {
  for (int i = 0; i < 2; i++)
    dt_tensor_release(caller->inputs[i]);
  dt_tensor_release(caller->output);
  dt_session_destroy(caller->session);
  dt_function_release(caller->function);
  dt_runtime_release(caller->runtime);
  free(caller->times);
}

// ---- The floor ----------------------------------------------------------------------------------

static void add_directly(const float *a, const float *b, float *out, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    out[i] = a[i] + b[i];
}
// Volatile: the compiler must make the call and must not know what is called.
static void (*volatile kernel)(const float *, const float *, float *, int64_t) = add_directly;

static double floor_ns(long calls) {
  double start = bench_now_ns();
  for (long i = 0; i < calls; i++)
    kernel(memory[i & 1][0], memory[i & 1][1], memory[i & 1][2], ELEMENTS);
  return (bench_now_ns() - start) / (double)calls;
}

// ---- Cases --------------------------------------------------------------------------------------

// What one case does around a call.
typedef struct case_t {
  const char *name;
  dt_status_t (*before)(caller_t *caller, long index); // not timed; NULL: nothing
  bool allocates; // the call makes its output, and its release is timed
  bool limited;   // the limit applies
} case_t;

static dt_status_t rebind(caller_t *caller, long index) {
  const int set = (int)(index & 1);
  const int64_t count = ELEMENTS - set;
  for (int i = 0; i < 3; i++) {
    dt_tensor_desc_t desc = desc_of(&count, set, i);
    dt_status_t status = dt_tensor_rebind(i < 2 ? caller->inputs[i] : caller->output, &desc);
    if (status)
      return status;
  }
  return NULL;
}

static const case_t cases[] = {
    {.name = "kept", .limited = true},
    {.name = "allocated", .allocates = true},
    {.name = "rebound", .before = rebind, .limited = true},
};

static inline dt_status_t call(caller_t *caller, bool allocates) {
  if (!allocates)
    return dt_call(caller->session, caller->function, caller->inputs, 2, &caller->output, 1, NULL);
  dt_tensor_t *made = NULL;
  dt_status_t status =
      dt_call(caller->session, caller->function, caller->inputs, 2, &made, 1, NULL);
  dt_tensor_release(made);
  return status;
}

static dt_status_t time_calls(caller_t *caller, const case_t *this, long calls, double *times) {
  for (long i = 0; i < calls; i++) {
    dt_status_t status = this->before ? this->before(caller, i) : NULL;
    if (status)
      return status;
    double start = bench_now_ns();
    status = call(caller, this->allocates);
    double end = bench_now_ns();
    if (status)
      return status;
    if (times)
      times[i] = end - start;
  }
  return NULL;
}

// Without a clock in between: the mean.
static dt_status_t loop_calls(caller_t *caller, const case_t *this, long calls, double *out_ns) {
  double start = bench_now_ns();
  for (long i = 0; i < calls; i++) {
    dt_status_t status = call(caller, this->allocates);
    if (status)
      return status;
  }
  *out_ns = (bench_now_ns() - start) / (double)calls;
  return NULL;
}

static void report_limited(bench_report_t *report, const case_t *this, const char *metric,
                           double value) {
  if (this->limited)
    bench_limited(report, this->name, metric, "ns", value, limit_ns);
  else
    bench_value(report, this->name, metric, "ns", value);
}

static bool run_case(bench_report_t *report, caller_t *caller, const case_t *this, long calls) {
  double mean = 0;
  if (!bench_ok(time_calls(caller, this, WARM_UP, NULL), "calling") ||
      !bench_ok(time_calls(caller, this, calls, caller->times), "calling") ||
      (!this->before && !bench_ok(loop_calls(caller, this, calls, &mean), "calling")))
    return false;
  size_t count = (size_t)calls;
  bench_sort(caller->times, count);
  double p50 = bench_quantile(caller->times, count, 0.5);
  double other = caller->clock_ns + caller->kernel_ns;
  bench_value(report, this->name, "call p50", "ns", p50);
  bench_value(report, this->name, "call p99", "ns", bench_quantile(caller->times, count, 0.99));
  report_limited(report, this, "overhead p50", p50 - other);
  bench_value(report, this->name, "overhead p99", "ns",
              bench_quantile(caller->times, count, 0.99) - other);
  if (mean > 0) {
    bench_value(report, this->name, "call mean", "ns", mean);
    report_limited(report, this, "overhead mean", mean - caller->kernel_ns);
  }
  return true;
}

static bool check_answer(const caller_t *caller) {
  const float *a = dt_tensor_data(caller->inputs[0]), *b = dt_tensor_data(caller->inputs[1]);
  const float *sum = dt_tensor_data(caller->output);
  for (int64_t i = 0; i < dt_tensor_count(caller->output); i++)
    if (sum[i] != a[i] + b[i]) {
      fprintf(stderr, "bench: element %lld is %g, should be %g\n", (long long)i, (double)sum[i],
              (double)(a[i] + b[i]));
      return false;
    }
  return true;
}

static bool run(const arguments_t *arguments, bench_report_t *report, caller_t *caller) {
  caller->clock_ns = bench_clock_ns();
  floor_ns(WARM_UP);
  caller->kernel_ns = floor_ns(arguments->calls);
  bench_value(report, "floor", "clock", "ns", caller->clock_ns);
  bench_value(report, "floor", "kernel called directly", "ns", caller->kernel_ns);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    if (!run_case(report, caller, &cases[i], arguments->calls) || !check_answer(caller))
      return false;

  double guard = 0;
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (!bench_ok(dt_function_guard_ns(caller->session, caller->function, caller->inputs, 2,
                                     (uint32_t)arguments->calls, &guard),
                "timing the guards") ||
      !bench_ok(dt_function_counters(caller->function, &stats), "reading the counters"))
    return false;
  bench_value(report, "guards", "finding the variant", "ns", guard);
  bench_limited(report, "function", "variants", "count", stats.variants, 1);
  bench_value(report, "function", "kernels of a call", "count", (double)stats.kernels);
  bench_limited(report, "function", "evaluator calls", "count", (double)stats.evaluator_calls, 0);
  return true;
}

// ---- Arguments ----------------------------------------------------------------------------------

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {
      {"calls", required_argument, NULL, 'c'},
      {"threads", required_argument, NULL, 't'},
      {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      out->json = true;
    else if (option == 'h')
      out->help = true;
    else if (option == 'c' && bench_parse_number(optarg, 100, 100000000, &out->calls))
      continue;
    else if (option != 't' || !bench_parse_number(optarg, 1, 1024, &out->threads))
      return false;
  }
  return optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.calls = 200000};
  if (!parse(argc, argv, &arguments)) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help) {
    fputs(usage, stdout);
    return 0;
  }
  caller_t caller = {0};
  bench_report_t report;
  bool good = set_up(&arguments, &caller);
  if (good) {
    bench_begin(&report, "call", arguments.json);
    good = run(&arguments, &report, &caller);
  }
  tear_down(&caller);
  return good ? 0 : BENCH_EXIT_FAILED;
}
