// SPDX-License-Identifier: Apache-2.0
// ductile bench: how long calls of a model take, size by size, and what all sizes together cost.
#include "cli/against.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "cli/sweep.h"
#include "cli/tensor_file.h"
#include "ductile/experimental.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define ME "bench"
// Calls of one shape whose times are kept, and the fewest that are made.
#define MOST_CALLS 100000U
#define FEWEST_CALLS 5U
// Look-ups that the guards' time is the mean of.
#define GUARD_REPEATS 10000U

typedef struct options_t {
  const char *path, *device, *data, *trace;
  cli_list_t inputs, dims;
  uint32_t mode, threads, concurrency, sessions, warmup;
  double seconds, rate;
  const char *save, *python;
  uint32_t against; // 1: onnxruntime
  int64_t deadline;
  const char *profile_to;
  bool names_are_hints, bf16_weights, map, profile, json;
} options_t;

// ORDER(dt_call_mode_t)
static const char *const modes[] = {"default", "plain", "reduce-overhead", NULL};
_Static_assert(DT_CALL_DEFAULT == 0 && DT_CALL_PLAIN == 1 && DT_CALL_REDUCE_OVERHEAD == 2,
               "the words stand in the order of dt_call_mode_t");

static const char *const engines[] = {"", "onnxruntime", NULL};

static const cli_option_t rows[] = {
    {"dim", CLI_LIST, offsetof(options_t, dims), "NAME=SIZES",
     "the sizes of a dim that has a name in the model, or INPUT.D=SIZES for dim D of an input: "
     "1,2,4 or 16..128:16 (by steps of 16) or both; every combination is measured",
     NULL, 0, 0},
    {"input", CLI_LIST, offsetof(options_t, inputs), "NAME=SPEC",
     "what an input is made of: zeros, ones, random (the default: floats from -1 to 1, integers 0 "
     "or "
     "1), range:A..B or values:A,B,…; or a file, as ductile run takes it",
     NULL, 0, 0},
    CLI_ROW_DEVICE(options_t),
    {"mode", CLI_WORD, offsetof(options_t, mode), "MODE",
     "default, plain (kernel by kernel) or reduce-overhead (graphs)", modes, 0, 0},
    CLI_ROW_THREADS(options_t),
    {"seconds", CLI_REAL, offsetof(options_t, seconds), "X",
     "for the calls of each combination (default 0.5); at least 5 are made", NULL, 0, 0},
    {"warmup", CLI_COUNT, offsetof(options_t, warmup), "N",
     "calls of each combination before its measurement, behind the first one (default 0)", NULL, 0,
     1000000},
    {"concurrency", CLI_COUNT, offsetof(options_t, concurrency), "N",
     "then N callers at once, for --seconds: requests a second, and their times from arrival to "
     "answer",
     NULL, 1, 4096},
    {"sessions", CLI_COUNT, offsetof(options_t, sessions), "N",
     "that the callers share, each call taking a free one (default: as many as callers)", NULL, 1,
     4096},
    {"rate", CLI_REAL, offsetof(options_t, rate), "R",
     "requests a second that arrive at random times, whatever the answers take; otherwise each "
     "caller sends its next request when the last was answered",
     NULL, 0, 0},
    {"save", CLI_TEXT, offsetof(options_t, save), "FOLDER",
     "write the inputs and results of each combination to FOLDER/set_N/input_K.npy and "
     "output_K.npy",
     NULL, 0, 0},
    {"against", CLI_WORD, offsetof(options_t, against), "ENGINE",
     "then the saved calls by onnxruntime, with as many threads: its times, ours over them, and "
     "how "
     "far results are apart; needs --save",
     engines, 0, 0},
    {"python", CLI_TEXT, offsetof(options_t, python), "PROGRAM",
     "the interpreter that has onnxruntime and numpy (default: python3)", NULL, 0, 0},
    {"trace", CLI_TEXT, offsetof(options_t, trace), "FILE",
     "then make the calls that FILE lists, one a line, as in batch=4 seq=37, each once and in "
     "order: "
     "what traffic of changing sizes gets, new sizes included",
     NULL, 0, 0},
    {"profile", CLI_FLAG, offsetof(options_t, profile), NULL,
     "then say where the time of all calls went: kernels, the dearest first, and what is around "
     "them",
     NULL, 0, 0},
    {"profile-to", CLI_TEXT, offsetof(options_t, profile_to), "FILE",
     "the same, also to FILE: a page for .html, a timeline for .trace.json (ui.perfetto.dev), all "
     "numbers for .json, else the table",
     NULL, 0, 0},
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_BF16_WEIGHTS(options_t),
    CLI_ROW_MAP(options_t),
    CLI_ROW_DEADLINE(options_t,
                     "for opening the model, and for each call, as in 500ms or 2s, after "
                     "which the measurement ends (default: none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_bench_table = {
    .name = ME,
    .usage = "bench MODEL [--dim NAME=SIZES]… [--input NAME=SPEC]… [--device WHERE]\n"
             "                     [--mode MODE] [--threads N] [--seconds X] [--warmup N]\n"
             "                     [--concurrency N] [--sessions N] [--rate R] [--save FOLDER]\n"
             "                     [--against ENGINE] [--python PROGRAM]\n"
             "                     [--trace FILE] [--profile] [--profile-to FILE]\n"
             "                     [--data FOLDER] [--names-are-hints] [--map] [--deadline TIME]\n"
             "                     [--bf16-weights] [--json]",
    .about =
        "Calls the ONNX model in the file MODEL, by compiled code, at every combination of the "
        "sizes "
        "given:\n"
        "the first call (in the order of the sizes, so that it shows what a new size costs), "
        "median "
        "and\n"
        "99th percentile. It closes with the variants that were compiled, the time that guards "
        "take,\n"
        "what was set anew in graphs, and the bytes that session, code and constants hold, "
        "that the largest call "
        "took\n"
        "and that the process held at most.\n"
        "On a device a call's time goes until its results are there; inputs lie on the device.\n",
    .exits =
        "0 all was measured; 1 something was refused or failed, with a message; 2 wrong usage; 4 "
        "the\n"
        "deadline passed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "model",
};

typedef struct job_t {
  const options_t *options;
  cli_place_t place;
  dt_runtime_t *runtime;
  cli_model_t model;
  cli_sweep_t sweep;
  const char **specs; // of each input; NULL: random
  dt_tensor_t **inputs, **results;
  double *times; // MOST_CALLS, seconds
  double guard_ns;
  dt_profile_t *profile; // NULL: none is wanted
  uint64_t call_bytes;   // of the largest call
  uint64_t shapes;
  double medians[CLI_MOST_SETS]; // of the first shapes
} job_t;

// ---- Inputs ---------------------------------------------------------------------------------------
// Puts a tensor that the session's device reads anyway where it is read.
static dt_status_t place_input(const job_t *job, uint32_t k) {
  dt_tensor_t *host = job->inputs[k], *there = NULL;
  dt_input_kind_t kind = dt_function_input(job->model.function, k)->kind;
  if (job->place.device == DT_CPU || (kind != DT_INPUT_TENSOR && kind != DT_INPUT_DONATED))
    return NULL;
  dt_status_t status = dt_tensor_create_on(job->model.session, dt_tensor_dtype(host),
                                           dt_tensor_rank(host), dt_tensor_sizes(host), &there);
  if (!status)
    status = dt_tensor_copy(job->model.session, host, there);
  if (!status)
    status = dt_session_wait(job->model.session);
  if (status) {
    dt_tensor_release(there);
    return status;
  }
  dt_tensor_release(host);
  job->inputs[k] = there;
  return NULL;
}

static int make_inputs(const job_t *job, const cli_dims_t *dims) {
  cli_release_all(job->inputs, job->model.n_inputs);
  int result = cli_random_inputs(ME, &job->model, job->specs, dims, job->inputs);
  for (uint32_t k = 0; k < job->model.n_inputs && result == CLI_DONE; k++)
    result = cli_failed(ME, job->options->path, place_input(job, k));
  return result;
}

// ---- Calls ----------------------------------------------------------------------------------------
static double now(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int time_call(job_t *job, double *out_seconds) {
  dt_status_t status = dt_step_begin(job->model.session);
  job->model.end_ns = cli_end_ns(job->options->deadline);
  double begin = now();
  if (!status)
    status = cli_model_call(&job->model, job->inputs, job->results);
  *out_seconds = now() - begin;
  uint64_t bytes = status ? 0 : cli_model_bytes(&job->model, job->results);
  job->call_bytes = bytes > job->call_bytes ? bytes : job->call_bytes;
  cli_release_all(job->results, job->model.n_outputs);
  return cli_failed(ME, job->options->path, status);
}

// Later calls are those of the kernels' best form.
static int wait_for_best(job_t *job) {
  dt_prepare_options_t options = {.struct_size = sizeof(options),
                                  .device = job->place.device,
                                  .ordinal = job->place.ordinal,
                                  .deadline_ns = cli_end_ns(job->options->deadline)};
  return cli_failed(ME, job->options->path, dt_function_prepare(job->model.function, &options));
}

static uint64_t compiles(const job_t *job) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  dt_status_t status = dt_function_counters(job->model.function, &stats);
  dt_status_free(status);
  return status ? 0 : stats.compiles;
}

// ---- Telling --------------------------------------------------------------------------------------
static void tell_dims(const cli_dims_t *dims, bool json) {
  for (uint32_t k = 0; k < dims->n; k++) {
    char name[128];
    (void)snprintf(name, sizeof(name), "%.*s", (int)dims->items[k].len, dims->items[k].name);
    if (json) {
      (void)printf("%s", k > 0 ? "," : "");
      cli_json_string(stdout, name);
      (void)printf(":%lld", (long long)dims->items[k].size);
    } else {
      (void)printf("%s=%lld ", name, (long long)dims->items[k].size);
    }
  }
}

// A time as people read it.
static void tell_time(const char *what, double seconds) {
  if (seconds < 1e-3)
    (void)printf("  %s %.2f us", what, seconds * 1e6);
  else
    (void)printf("  %s %.2f ms", what, seconds * 1e3);
}

static void tell_shape(const job_t *job, const cli_dims_t *dims, double first, uint64_t n,
                       uint64_t compiled) {
  double median = cli_quantile(job->times, n, 0.5), p99 = cli_quantile(job->times, n, 0.99);
  if (job->options->json) {
    (void)printf("{\"event\":\"shape\",\"dims\":{");
    tell_dims(dims, true);
    (void)printf("},\"first_us\":%.3f,\"median_us\":%.3f,\"p99_us\":%.3f,\"calls\":%llu,"
                 "\"compiles\":%llu}\n",
                 first * 1e6, median * 1e6, p99 * 1e6, (unsigned long long)n,
                 (unsigned long long)compiled);
  } else {
    tell_dims(dims, false);
    tell_time("first", first);
    tell_time("median", median);
    tell_time("p99", p99);
    (void)printf("%s\n", compiled ? "  (compiled)" : "");
  }
  (void)fflush(stdout);
}

static void tell_trace(const job_t *job, uint64_t n, uint64_t compiled) {
  double median = cli_quantile(job->times, n, 0.5), p99 = cli_quantile(job->times, n, 0.99);
  double worst = cli_quantile(job->times, n, 1.0);
  if (job->options->json) {
    (void)printf("{\"event\":\"trace\",\"calls\":%llu,\"median_us\":%.3f,\"p99_us\":%.3f,"
                 "\"max_us\":%.3f,\"compiles\":%llu}\n",
                 (unsigned long long)n, median * 1e6, p99 * 1e6, worst * 1e6,
                 (unsigned long long)compiled);
    return;
  }
  (void)printf("trace: %llu calls", (unsigned long long)n);
  tell_time("median", median);
  tell_time("p99", p99);
  tell_time("max", worst);
  (void)printf("  %llu compiles\n", (unsigned long long)compiled);
}

static int tell_total(const job_t *job) {
  dt_runtime_stats_t all = {.struct_size = sizeof(all)};
  dt_function_counters_t function = {.struct_size = sizeof(function)};
  dt_session_counters_t session = {.struct_size = sizeof(session)};
  dt_status_t status = dt_function_counters(job->model.function, &function);
  if (!status)
    status = dt_session_counters(job->model.session, &session);
  if (!status)
    status = dt_runtime_stats(job->runtime, &all);
  if (status)
    return cli_failed(ME, job->options->path, status);
  uint64_t held = dt_session_bytes(job->model.session) + session.executable_bytes;
  if (job->options->json)
    (void)printf("{\"event\":\"total\",\"shapes\":%llu,\"variants\":%u,\"compiles\":%llu,"
                 "\"compile_ms\":%.3f,\"evaluator_calls\":%llu,\"guard_ns\":%.1f,"
                 "\"graph_calls\":%llu,\"graph_updates\":%llu,\"bytes\":%llu,"
                 "\"session_bytes\":%llu,\"code_bytes\":%llu,\"constant_bytes\":%llu,"
                 "\"original_bytes\":%llu,\"mapped_bytes\":%llu,\"call_bytes\":%llu,"
                 "\"peak_bytes\":%llu}\n",
                 (unsigned long long)job->shapes, function.variants,
                 (unsigned long long)function.compiles, (double)function.compile_ns * 1e-6,
                 (unsigned long long)function.evaluator_calls, job->guard_ns,
                 (unsigned long long)session.graph_calls, (unsigned long long)session.nodes_set,
                 (unsigned long long)(held + function.code_bytes + function.constant_bytes),
                 (unsigned long long)held, (unsigned long long)function.code_bytes,
                 (unsigned long long)function.constant_bytes,
                 (unsigned long long)all.constant_bytes, (unsigned long long)all.mapped_bytes,
                 (unsigned long long)job->call_bytes, (unsigned long long)cli_peak_bytes());
  else
    (void)printf(
        "%llu shape%s, %u variant%s in %.0f ms of compiling; guards %.0f ns; %llu graph "
        "updates; %.1f MB (session %.1f, code %.1f, packed constants %.1f; constants %.1f, and "
        "%.1f in mapped files; the largest call %.1f, the process at most %.1f)\n",
        (unsigned long long)job->shapes, job->shapes == 1 ? "" : "s", function.variants,
        function.variants == 1 ? "" : "s", (double)function.compile_ns * 1e-6, job->guard_ns,
        (unsigned long long)session.nodes_set,
        (double)(held + function.code_bytes + function.constant_bytes) * 1e-6, (double)held * 1e-6,
        (double)function.code_bytes * 1e-6, (double)function.constant_bytes * 1e-6,
        (double)all.constant_bytes * 1e-6, (double)all.mapped_bytes * 1e-6,
        (double)job->call_bytes * 1e-6, (double)cli_peak_bytes() * 1e-6);
  return CLI_DONE;
}

// ---- Many callers ---------------------------------------------------------------------------------
static void tell_load(const job_t *job, const cli_load_t *load, cli_load_result_t *all) {
  double rate = (double)all->n / all->seconds;
  double p50 = cli_quantile(all->times, all->n, 0.5), p90 = cli_quantile(all->times, all->n, 0.9);
  double p99 = cli_quantile(all->times, all->n, 0.99);
  double p999 = cli_quantile(all->times, all->n, 0.999), max = cli_quantile(all->times, all->n, 1);
  double cpu = all->n ? all->cpu_seconds / (double)all->n : 0;
  if (job->options->json) {
    (void)printf("{\"event\":\"load\",\"callers\":%u,\"sessions\":%u,\"offered_per_s\":%.3f,"
                 "\"requests\":%llu,\"per_s\":%.3f,\"p50_us\":%.3f,\"p90_us\":%.3f,"
                 "\"p99_us\":%.3f,\"p999_us\":%.3f,\"max_us\":%.3f,\"cpu_us\":%.3f}\n",
                 load->callers, load->sessions, load->rate, (unsigned long long)all->n, rate,
                 p50 * 1e6, p90 * 1e6, p99 * 1e6, p999 * 1e6, max * 1e6, cpu * 1e6);
    return;
  }
  (void)printf("  %u callers, %u sessions: %llu requests, %.1f a second;", load->callers,
               load->sessions, (unsigned long long)all->n, rate);
  tell_time("p50", p50);
  tell_time("p90", p90);
  tell_time("p99", p99);
  tell_time("p99.9", p999);
  tell_time("max", max);
  tell_time("processor time each", cpu);
  (void)printf("\n");
}

static int measure_load(job_t *job) {
  const options_t *options = job->options;
  cli_load_result_t all = {0};
  job->model.end_ns = cli_end_ns(options->deadline);
  const cli_load_t load = {.model = &job->model,
                           .runtime = job->runtime,
                           .place = &job->place,
                           .inputs = job->inputs,
                           .callers = options->concurrency,
                           .sessions = options->sessions ? options->sessions : options->concurrency,
                           .rate = options->rate,
                           .seconds = options->seconds};
  int result = cli_failed(ME, options->path, cli_load_run(&load, &all));
  if (result == CLI_DONE)
    tell_load(job, &load, &all);
  free(all.times);
  return result;
}

// ---- Saving ---------------------------------------------------------------------------------------
static int save_tensors(const job_t *job, const char *folder, const char *kind,
                        dt_tensor_t *const *tensors, uint32_t n) {
  char message[CLI_MESSAGE], path[PATH_MAX];
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_t *host = NULL;
    const char *to = path, *name = kind;
    int result =
        cli_failed(ME, job->options->path, cli_model_fetch(&job->model, tensors[k], &host));
    if (result != CLI_DONE)
      return result;
    (void)snprintf(path, sizeof(path), "%.3900s/%s_%u.npy", folder, kind, k);
    bool done = cli_tensors_write(&to, &name, &host, 1, message);
    dt_tensor_release(host);
    if (!done)
      return cli_complain(ME, CLI_FAILED, "%s", message);
  }
  return CLI_DONE;
}

static int save_set(job_t *job) {
  char folder[PATH_MAX];
  const char *root = job->options->save;
  (void)snprintf(folder, sizeof(folder), "%.3800s/set_%llu", root, (unsigned long long)job->shapes);
  if ((mkdir(root, 0777) != 0 && errno != EEXIST) || (mkdir(folder, 0777) != 0 && errno != EEXIST))
    return cli_complain(ME, CLI_FAILED, "%s: %s", folder, strerror(errno));
  int result = cli_failed(ME, job->options->path, dt_step_begin(job->model.session));
  if (result == CLI_DONE)
    result =
        cli_failed(ME, job->options->path, cli_model_call(&job->model, job->inputs, job->results));
  if (result == CLI_DONE)
    result = save_tensors(job, folder, "input", job->inputs, job->model.n_inputs);
  if (result == CLI_DONE)
    result = save_tensors(job, folder, "output", job->results, job->model.n_outputs);
  cli_release_all(job->results, job->model.n_outputs);
  return result;
}

// ---- Shapes ---------------------------------------------------------------------------------------
static int measure_shape(job_t *job, const cli_dims_t *dims) {
  double first = 0, begin = 0;
  uint64_t before = compiles(job), n = 0;
  int result = make_inputs(job, dims);
  if (result == CLI_DONE)
    result = time_call(job, &first);
  uint64_t compiled = compiles(job) - before;
  if (result == CLI_DONE)
    result = wait_for_best(job);
  for (uint32_t k = 0; k < job->options->warmup && result == CLI_DONE; k++)
    result = time_call(job, &begin);
  begin = now();
  while (result == CLI_DONE && n < MOST_CALLS &&
         (n < FEWEST_CALLS || now() - begin < job->options->seconds))
    result = time_call(job, &job->times[n++]);
  if (result != CLI_DONE)
    return result;
  tell_shape(job, dims, first, n, compiled);
  if (job->shapes < CLI_MOST_SETS)
    job->medians[job->shapes] = cli_quantile(job->times, n, 0.5);
  if (job->options->concurrency)
    result = measure_load(job);
  if (result == CLI_DONE && job->options->save)
    result = save_set(job);
  if (result != CLI_DONE)
    return result;
  job->shapes++;
  return cli_failed(ME, job->options->path,
                    dt_function_guard_ns(job->model.session, job->model.function, job->inputs,
                                         job->model.n_inputs, GUARD_REPEATS, &job->guard_ns));
}

static int measure_sweep(job_t *job) {
  cli_dim_t sizes[CLI_MOST_AXES];
  int result = CLI_DONE;
  // Without an axis there is one point: the model's own sizes.
  uint64_t n = job->sweep.n > 0 ? job->sweep.n_points : 1;
  for (uint64_t k = 0; k < n && result == CLI_DONE; k++) {
    cli_dims_t dims = {sizes, job->sweep.n};
    cli_sweep_point(&job->sweep, k, sizes);
    result = cli_know_dims(ME, &job->model, sizes, dims.n);
    if (result == CLI_DONE)
      result = measure_shape(job, &dims);
  }
  return result;
}

// ---- Another engine -------------------------------------------------------------------------------
static void tell_against(const job_t *job, uint32_t set, const cli_against_result_t *result) {
  double ratio = result->median_s / job->medians[set];
  if (job->options->json) {
    (void)printf("{\"event\":\"against\",\"engine\":\"onnxruntime\",\"set\":%u,"
                 "\"median_us\":%.3f,\"p99_us\":%.3f,\"ratio\":%.4f,\"same\":%s,"
                 "\"max_abs\":%.9g,\"max_rel\":%.9g}\n",
                 set, result->median_s * 1e6, result->p99_s * 1e6, ratio,
                 result->same ? "true" : "false", result->errors.absolute, result->errors.relative);
    return;
  }
  (void)printf("set_%u by onnxruntime:", set);
  tell_time("median", result->median_s);
  tell_time("p99", result->p99_s);
  (void)printf("  %.2f times ours; results %s: at most %.3g absolute, %.3g relative\n", ratio,
               result->same ? "agree" : "DIFFER", result->errors.absolute, result->errors.relative);
}

static int measure_against(const job_t *job) {
  char message[CLI_MESSAGE];
  const options_t *options = job->options;
  const cli_against_t against = {.python = options->python ? options->python : "python3",
                                 .model = options->path,
                                 .folder = options->save,
                                 .n_sets = (uint32_t)job->shapes,
                                 .n_inputs = job->model.n_inputs,
                                 .n_outputs = job->model.n_outputs,
                                 .threads = options->threads,
                                 .seconds = options->seconds};
  if (job->shapes > CLI_MOST_SETS)
    return cli_complain(ME, CLI_FAILED, "--against: more than %d combinations", CLI_MOST_SETS);
  cli_against_result_t *results = calloc(job->shapes + 1, sizeof(*results));
  bool good =
      results ? cli_against_run(&against, results, message) : cli_wrong(message, "no memory");
  for (uint32_t k = 0; good && k < against.n_sets; k++)
    tell_against(job, k, &results[k]);
  free(results);
  return good ? CLI_DONE : cli_complain(ME, CLI_FAILED, "--against: %s", message);
}

// ---- Traces ---------------------------------------------------------------------------------------
static int trace_call(job_t *job, const char *line, uint64_t number, uint64_t *n) {
  char message[CLI_MESSAGE];
  cli_dim_t sizes[CLI_MOST_AXES];
  int found = cli_trace_line(line, sizes, message);
  if (found < 0)
    return cli_complain(ME, CLI_FAILED, "%s:%llu: %s", job->options->trace,
                        (unsigned long long)number, message);
  if (found == 0)
    return CLI_DONE;
  if (*n == MOST_CALLS)
    return cli_complain(ME, CLI_FAILED, "%s: more than %u calls", job->options->trace, MOST_CALLS);
  cli_dims_t dims = {sizes, (uint32_t)found};
  int result = cli_know_dims(ME, &job->model, sizes, dims.n);
  if (result == CLI_DONE)
    result = make_inputs(job, &dims);
  if (result == CLI_DONE)
    result = time_call(job, &job->times[(*n)++]);
  return result;
}

static int measure_trace(job_t *job) {
  char message[CLI_MESSAGE];
  cli_bytes_t bytes;
  if (!cli_bytes_read(job->options->trace, &bytes, message))
    return cli_complain(ME, CLI_FAILED, "%s: %s", job->options->trace, message);
  uint64_t n = 0, number = 0, before = compiles(job);
  int result = CLI_DONE;
  const char *at = (const char *)bytes.at, *end = at + bytes.len;
  while (at < end && result == CLI_DONE) {
    char line[4096];
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t len = (size_t)((stop ? stop : end) - at);
    number++;
    if (len >= sizeof(line))
      result = cli_complain(ME, CLI_FAILED, "%s:%llu: the line is too long", job->options->trace,
                            (unsigned long long)number);
    (void)snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : 0), at);
    if (result == CLI_DONE)
      result = trace_call(job, line, number, &n);
    at += len + 1;
  }
  if (result == CLI_DONE)
    tell_trace(job, n, compiles(job) - before);
  cli_bytes_free(&bytes);
  return result;
}

// ---- The job --------------------------------------------------------------------------------------
static int run_bench(job_t *job) {
  int result = cli_find_specs(ME, &job->model, &job->options->inputs, job->specs);
  // With a trace alone its sizes are those that count.
  bool swept = job->sweep.n > 0 || !job->options->trace;
  if (result == CLI_DONE && swept)
    result = measure_sweep(job);
  if (result == CLI_DONE && job->options->against)
    result = measure_against(job);
  if (result == CLI_DONE && job->options->trace)
    result = measure_trace(job);
  if (result == CLI_DONE)
    result = tell_total(job);
  if (result == CLI_DONE && job->profile)
    result = cli_profile_end(ME, job->profile, job->options->profile_to, job->options->json);
  return result;
}

static int run(job_t *job) {
  const cli_model_t *model = &job->model;
  job->specs = calloc(model->n_inputs + 1, sizeof(*job->specs));
  job->inputs = calloc(model->n_inputs + 1, sizeof(*job->inputs));
  job->results = calloc(model->n_outputs + 1, sizeof(*job->results));
  job->times = calloc(MOST_CALLS, sizeof(*job->times));
  bool memory = job->specs && job->inputs && job->results && job->times;
  int result = memory ? CLI_DONE : cli_complain(ME, CLI_FAILED, "no memory");
  if (result == CLI_DONE && (job->options->profile || job->options->profile_to))
    result = cli_failed(ME, "--profile", dt_profile_start(job->runtime, NULL, &job->profile));
  if (result == CLI_DONE)
    result = run_bench(job);
  dt_profile_free(job->profile);
  if (job->inputs)
    cli_release_all(job->inputs, model->n_inputs);
  free(job->specs);
  free(job->inputs);
  free(job->results);
  free(job->times);
  return result;
}

static int read_sweep(job_t *job) {
  char message[CLI_MESSAGE];
  for (uint32_t k = 0; k < job->options->dims.n; k++) {
    if (!cli_sweep_add(&job->sweep, job->options->dims.items[k], message))
      return cli_complain(ME, CLI_USAGE, "--dim %s: %s", job->options->dims.items[k], message);
  }
  return CLI_DONE;
}

int cli_bench(int argc, char **argv) {
  static options_t options = {.seconds = 0.5};
  cli_operands_t files;
  static job_t job;
  int result = CLI_DONE;
  job.options = &options;
  if (!cli_parse(&cli_bench_table, argc, argv, &options, &files, &result))
    return result;
  options.path = files.items[0];
  job.place.data = options.data;
  job.place.names_are_hints = options.names_are_hints;
  job.place.bf16_weights = options.bf16_weights;
  job.place.map = options.map;
  job.place.deadline = options.deadline;
  job.place.mode = (dt_call_mode_t)options.mode;
  if (options.against && !options.save)
    return cli_complain(ME, CLI_USAGE, "--against: needs --save, where both engines' results lie");
  if (options.against && strcmp(options.path, "-") == 0)
    return cli_complain(ME, CLI_USAGE, "--against: needs the model's file, not standard input");
  if ((options.sessions || options.rate > 0) && !options.concurrency)
    return cli_complain(ME, CLI_USAGE, "--%s: needs --concurrency, the number of callers",
                        options.sessions ? "sessions" : "rate");
  if (!cli_place_device(options.device, &job.place))
    return cli_complain(ME, CLI_USAGE, "--device %s: expected " CLI_DEVICES, options.device);
  result = read_sweep(&job);
  if (result == CLI_DONE) {
    dt_runtime_t *runtime = NULL;
    dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = options.threads};
    dt_status_t status = dt_runtime_create(&about, &runtime);
    job.runtime = runtime;
    if (!status)
      status = cli_model_open(&job.model, runtime, options.path, &job.place);
    result = status ? cli_failed(ME, options.path, status) : run(&job);
    cli_model_close(&job.model);
    dt_runtime_release(runtime);
  }
  cli_sweep_free(&job.sweep);
  return result;
}
