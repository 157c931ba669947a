// SPDX-License-Identifier: Apache-2.0
// One folder in the layout of ONNX's tests: all its sets of data through one function.
#include "cli/check.h"
#include "cli/tensor_file.h"
#include "ductile/experimental.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct job_t {
  const cli_checking_t *checking;
  const char *path;
  dt_runtime_t *runtime;
  cli_verdict_t *verdict;
  cli_model_t model;
  cli_tolerance_t tolerance;
  uint32_t set;     // the number of the one at work
  bool packed;      // the function is a package's
  uint64_t *hashes; // of the results of each set, as compiled; or NULL
  dt_tensor_t **inputs, **results, **scratch;
} job_t;

// ---- Outcomes -------------------------------------------------------------------------------------
static bool end_with(const job_t *job, cli_outcome_t outcome, const char *reason) {
  job->verdict->outcome = outcome;
  (void)snprintf(job->verdict->reason, CLI_MESSAGE, "%s", reason);
  return false;
}

// A refusal is what the library says that it does not do; everything else should not happen.
static bool end_with_status(const job_t *job, const char *what, dt_status_t status) {
  char reason[CLI_MESSAGE];
  dt_code_t code = dt_status_code(status);
  const char *message = dt_status_message(status);
  // The place of the folder says nothing about the model.
  size_t len = strlen(job->path);
  if (strncmp(message, job->path, len) == 0 && message[len] == '/')
    message += len + 1;
  bool refused = code == DT_E_UNSUPPORTED && !job->packed;
  if (refused)
    (void)snprintf(reason, sizeof(reason), "%s", message);
  else
    (void)snprintf(reason, sizeof(reason), "%s%s: %s: %s", job->packed ? "from a package: " : "",
                   what, dt_code_name(code), message);
  (void)end_with(job,
                 refused                 ? CLI_REFUSED
                 : code == DT_E_DEADLINE ? CLI_OVERDUE
                                         : CLI_ERROR,
                 reason);
  dt_status_free(status);
  return false;
}

// ---- Data -----------------------------------------------------------------------------------------
static void file_of(const job_t *job, const char *kind, uint32_t k, char out[PATH_MAX]) {
  (void)snprintf(out, PATH_MAX, "%s/test_data_set_%u/%s_%u.pb", job->path, job->set, kind, k);
}

static bool read_tensor(const job_t *job, const char *kind, uint32_t k, dt_tensor_t **out) {
  char path[PATH_MAX], what[64];
  file_of(job, kind, k, path);
  (void)snprintf(what, sizeof(what), "set %u, %s_%u.pb", job->set, kind, k);
  dt_status_t status = dt_onnx_tensor_read(path, out);
  return !status || end_with_status(job, what, status);
}

static bool is_there(const job_t *job, const char *kind, uint32_t k) {
  char path[PATH_MAX];
  file_of(job, kind, k, path);
  return access(path, F_OK) == 0;
}

static bool read_inputs(const job_t *job) {
  char reason[CLI_MESSAGE];
  uint32_t n = 0;
  while (n <= job->model.n_inputs && is_there(job, "input", n))
    n++;
  if (n != job->model.n_inputs) {
    (void)snprintf(reason, sizeof(reason), "set %u: %s%u files of inputs for %u inputs", job->set,
                   n > job->model.n_inputs ? "at least " : "", n, job->model.n_inputs);
    return end_with(job, CLI_ERROR, reason);
  }
  for (uint32_t k = 0; k < n; k++) {
    if (!read_tensor(job, "input", k, &job->inputs[k]))
      return false;
  }
  return true;
}

// Follows "key": in the folder's data.json, if it has one.
static void read_tolerance(const job_t *job, const char *key, double *out) {
  char path[PATH_MAX], message[CLI_MESSAGE], text[4096];
  cli_bytes_t bytes = {NULL, 0, NULL};
  (void)snprintf(path, sizeof(path), "%s/data.json", job->path);
  if (cli_bytes_read(path, &bytes, message) && bytes.len < sizeof(text)) {
    memcpy(text, bytes.at, bytes.len);
    text[bytes.len] = '\0';
    const char *at = strstr(text, key);
    at = at ? at + strlen(key) : text + bytes.len;
    at += strspn(at, " \t\r\n");
    char *end = NULL;
    double value = *at == ':' ? strtod(at + 1, &end) : -1;
    if (end && end > at + 1 && value >= 0)
      *out = value;
  }
  cli_bytes_free(&bytes);
}

// ---- Sets -----------------------------------------------------------------------------------------
// Where DUCTILE_REPRO_DIR asks for a file of a wrong result, the reason says which it is.
static void add_repro(const job_t *job, char reason[CLI_MESSAGE]) {
  char *path = NULL;
  dt_status_t status =
      dt_function_repro(job->model.function, job->inputs, job->model.n_inputs, reason, &path);
  size_t len = strlen(reason);
  if (status)
    (void)snprintf(reason + len, CLI_MESSAGE - len, "; %.200s", dt_status_message(status));
  else if (path)
    (void)snprintf(reason + len, CLI_MESSAGE - len, "; %.300s shows it again (ductile repro)",
                   path);
  dt_status_free(status);
  dt_text_free(path);
}

static void add_node(const job_t *job, uint32_t k, char reason[CLI_MESSAGE]) {
  char found[CLI_MESSAGE];
  size_t len = strlen(reason);
  const cli_bisecting_t about = {.model = &job->model,
                                 .runtime = job->runtime,
                                 .inputs = job->inputs,
                                 .tolerance = job->tolerance};
  if (!job->checking->bisect)
    return;
  cli_bisect(&about, k, found);
  (void)snprintf(reason + len, CLI_MESSAGE - len, "; %.700s", found);
}

static bool compare_output(const job_t *job, uint32_t k) {
  char reason[CLI_MESSAGE], whole[CLI_MESSAGE];
  dt_tensor_t **expected = &job->scratch[0], **actual = &job->scratch[1];
  if (!read_tensor(job, "output", k, expected))
    return false;
  dt_status_t status = cli_model_fetch(&job->model, job->results[k], actual);
  if (status)
    return end_with_status(job, "reading a result", status);
  if (job->checking->sizes_only
          ? cli_compare_sizes(*actual, *expected, reason)
          : cli_compare(*actual, *expected, &job->tolerance, &job->verdict->errors, reason))
    return true;
  (void)snprintf(whole, sizeof(whole), "set %u, output %u, %.64s: %.600s", job->set, k,
                 cli_model_output_name(&job->model, k), reason);
  add_node(job, k, whole);
  add_repro(job, whole);
  return end_with(job, CLI_WRONG, whole);
}

// Optional outputs may have no file; a set without any is no test.
static bool compare_outputs(const job_t *job) {
  uint32_t compared = 0;
  for (uint32_t k = 0; k < job->model.n_outputs; k++) {
    if (!is_there(job, "output", k))
      continue;
    bool equal = compare_output(job, k);
    cli_release_all(job->scratch, 2);
    if (!equal)
      return false;
    compared++;
  }
  if (is_there(job, "output", job->model.n_outputs))
    return end_with(job, CLI_ERROR, "more files of outputs than outputs");
  return compared > 0 || end_with(job, CLI_ERROR, "no file of an output");
}

// Elements between each other in memory are none of a result.
static bool hash_result(const job_t *job, uint32_t k, uint64_t *hash) {
  dt_tensor_t *tensor = NULL;
  dt_status_t status = cli_model_fetch(&job->model, job->results[k], &tensor);
  if (status)
    return end_with_status(job, "reading a result", status);
  const unsigned char *bytes = dt_tensor_data(tensor);
  for (size_t i = 0; i < dt_tensor_bytes(tensor); i++)
    *hash = (*hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  dt_tensor_release(tensor);
  return true;
}

// A package's answers are, bit by bit, those of the function that it was made of.
static bool compare_bits(const job_t *job, int set) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  char reason[64];
  for (uint32_t k = 0; job->hashes && k < job->model.n_outputs; k++)
    if (!hash_result(job, k, &hash))
      return false;
  if (job->hashes && !job->packed)
    job->hashes[set] = hash;
  if (!job->packed || hash == job->hashes[set])
    return true;
  (void)snprintf(reason, sizeof(reason), "set %u: a package of it gives other bits", job->set);
  return end_with(job, CLI_WRONG, reason);
}

// What was told of results before the call is what they are.
static bool compare_ahead(const job_t *job, const dt_output_shape_t *shapes) {
  char reason[CLI_MESSAGE];
  const cli_model_t *model = &job->model;
  if (cli_ahead_compare(model, shapes, job->results, reason) &&
      cli_ahead_specs(model, job->results, reason) &&
      (!job->checking->buffers || job->checking->place.device != DT_CPU ||
       cli_ahead_buffers(model, job->inputs, job->results, reason)))
    return true;
  return end_with(job, CLI_ERROR, reason);
}

static bool run_set(const job_t *job) {
  char what[32], reason[CLI_MESSAGE];
  dt_output_shape_t *shapes = NULL;
  if (!read_inputs(job))
    return false;
  (void)snprintf(what, sizeof(what), "set %u", job->set);
  const cli_place_t *place = &job->checking->place;
  bool ahead = true, asked = false;
  dt_status_t status = NULL;
  if (place->deadline)
    asked = cli_ahead_within(&job->model, place, job->inputs, &shapes, &ahead, &status, reason);
  else
    asked = cli_ahead_ask(&job->model, job->inputs, &shapes, reason);
  if (!status)
    status = cli_model_call(&job->model, job->inputs, job->results);
  bool good = !status || end_with_status(job, what, status);
  if (good && asked && !ahead) // what the call compiled
    asked = cli_ahead_ask(&job->model, job->inputs, &shapes, reason);
  if (good && !asked)
    good = end_with(job, CLI_ERROR, reason);
  good = good && compare_ahead(job, shapes) && compare_outputs(job);
  free(shapes);
  return good;
}

static bool run_sets(job_t *job) {
  static _Thread_local uint32_t numbers[CLI_MOST_SETS];
  int n = cli_find_sets(job->path, numbers);
  bool good = true;
  if (n <= 0)
    return end_with(job, CLI_ERROR, n < 0 ? "the folder cannot be read" : "no test_data_set_N");
  for (int k = 0; k < n && good; k++) {
    job->set = numbers[k];
    good = run_set(job) && compare_bits(job, k);
    cli_release_all(job->inputs, job->model.n_inputs);
    cli_release_all(job->results, job->model.n_outputs);
    job->verdict->sets += good && !job->packed;
  }
  return good;
}

// ---- The folder -----------------------------------------------------------------------------------
// Whoever else but compiled code answered is no pass.
static void count(const job_t *job) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  dt_status_t status = dt_function_counters(job->model.function, &stats);
  job->verdict->variants = stats.variants;
  job->verdict->evaluator_calls = stats.evaluator_calls;
  if (status)
    (void)end_with_status(job, "statistics", status);
  else if (stats.evaluator_calls > 0 && job->verdict->outcome == CLI_PASS)
    (void)end_with(job, CLI_ERROR, "the evaluator answered, not compiled code");
}

static bool run_packed(job_t *job) {
  dt_status_t status = cli_model_pack(&job->model, job->runtime, job->checking->package);
  job->packed = true;
  return status ? end_with_status(job, "writing and opening", status) : run_sets(job);
}

static void run_folder(job_t *job) {
  job->inputs = calloc(job->model.n_inputs + 1, sizeof(*job->inputs));
  job->results = calloc(job->model.n_outputs + 1, sizeof(*job->results));
  job->scratch = calloc(2, sizeof(*job->scratch));
  job->hashes = job->checking->package ? calloc(CLI_MOST_SETS, sizeof(*job->hashes)) : NULL;
  if (job->inputs && job->results && job->scratch && (job->hashes || !job->checking->package)) {
    bool good = run_sets(job);
    count(job);
    if (good && job->verdict->outcome == CLI_PASS && job->checking->package && run_packed(job))
      count(job);
  } else {
    (void)end_with(job, CLI_ERROR, "no memory");
  }
  free(job->inputs);
  free(job->results);
  free(job->scratch);
  free(job->hashes);
}

// What the line says goes before what data.json says, and that before the defaults.
static void set_tolerance(job_t *job) {
  const cli_checking_t *checking = job->checking;
  job->tolerance = checking->as_onnx ? (cli_tolerance_t){CLI_ONNX_RTOL, CLI_ONNX_ATOL, 0}
                                     : (cli_tolerance_t){-1, -1, -1};
  read_tolerance(job, "\"rtol\"", &job->tolerance.rtol);
  read_tolerance(job, "\"atol\"", &job->tolerance.atol);
  job->tolerance.rtol = checking->rtol >= 0 ? checking->rtol : job->tolerance.rtol;
  job->tolerance.atol = checking->atol >= 0 ? checking->atol : job->tolerance.atol;
}

void cli_check_folder(const cli_checking_t *checking, dt_runtime_t *runtime, const char *path,
                      cli_verdict_t *out) {
  char file[PATH_MAX];
  struct timespec begin, end;
  job_t job = {.checking = checking, .path = path, .runtime = runtime, .verdict = out};
  *out = (cli_verdict_t){.folder = out->folder};
  set_tolerance(&job);
  (void)clock_gettime(CLOCK_MONOTONIC, &begin);
  if ((size_t)snprintf(file, sizeof(file), "%s/model.onnx", path) >= sizeof(file) - 64) {
    (void)end_with(&job, CLI_ERROR, "the path is too long");
    return;
  }
  dt_status_t status = cli_model_open(&job.model, runtime, file, &checking->place);
  if (status)
    (void)end_with_status(&job, "model.onnx", status);
  else
    run_folder(&job);
  cli_model_close(&job.model);
  (void)clock_gettime(CLOCK_MONOTONIC, &end);
  out->ms =
      (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-6;
}
