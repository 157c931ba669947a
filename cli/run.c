// SPDX-License-Identifier: Apache-2.0
// ductile run: one call of a model, with inputs from files or made up, and its results to files.
#include "cli/cli.h"
#include "cli/elements.h"
#include "cli/low.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/tensor_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ME "run"
// Elements of each result that are printed.
#define MOST_SHOWN 8

typedef struct options_t {
  const char *path, *device, *data;
  cli_list_t inputs, outputs, dims;
  uint32_t threads;
  int64_t deadline;
  bool names_are_hints, bf16_weights, map, json;
} options_t;

static const cli_option_t rows[] = {
    {"input", CLI_LIST, offsetof(options_t, inputs), "NAME=FILE",
     "an input, by its name or its number: FILE.npy, FILE.npz (its member NAME, or "
     "FILE.npz:MEMBER) "
     "or FILE.pb; or in its place zeros, ones, random, range:A..B or values:A,B,… with :SIZES "
     "behind, as in zeros:1x3x224x224, where the model and --dim do not say the sizes",
     NULL, 0, 0},
    {"output", CLI_LIST, offsetof(options_t, outputs), "NAME=FILE",
     "where an output goes, by its name or its number: FILE.npy, or FILE.npz, which may take "
     "several; an output may go to several files; without any, what the outputs are is printed",
     NULL, 0, 0},
    {"dim", CLI_LIST, offsetof(options_t, dims), "NAME=SIZE",
     "the size of a dim that has a name in the model, or INPUT.D=SIZE for dim D of an input", NULL,
     0, 0},
    CLI_ROW_DEVICE(options_t),
    CLI_ROW_THREADS(options_t),
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_BF16_WEIGHTS(options_t),
    CLI_ROW_MAP(options_t),
    CLI_ROW_DEADLINE(options_t,
                     "for opening the model and its call, as in 500ms or 2s, after which "
                     "it is given up (default: none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_run_table = {
    .name = ME,
    .usage =
        "run MODEL --input NAME=FILE… [--output NAME=FILE]… [--dim NAME=SIZE]…\n"
        "                   [--device WHERE] [--threads N] [--data FOLDER] [--names-are-hints]\n"
        "                   [--bf16-weights] [--map] [--deadline TIME] [--json]",
    .about =
        "Runs the ONNX model in the file MODEL once, by compiled code. Inputs that are not given "
        "are\n"
        "zeros where the model says all their sizes; of others the sizes must be given.\n",
    .exits =
        "0 the model was run; 1 something was refused or failed, with a message; 2 wrong usage; 4 "
        "the\n"
        "deadline passed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "model",
};

typedef struct job_t {
  const options_t *options;
  cli_model_t model;
  cli_dim_t dims[CLI_MOST_VALUES];
  const char **specs; // of each input
  dt_tensor_t **inputs, **results, **fetched;
} job_t;

// ---- What the line says ---------------------------------------------------------------------------
static int read_dims(job_t *job) {
  for (uint32_t k = 0; k < job->options->dims.n; k++) {
    const char *text = job->options->dims.items[k], *at = strrchr(text, '=');
    cli_dim_t *dim = &job->dims[k];
    *dim = (cli_dim_t){text, at ? (size_t)(at - text) : 0, 0};
    if (!at || (at++, !cli_read_count(&at, "", 0, DT_SIZE_LIMIT - 1, &dim->size)))
      return cli_complain(ME, CLI_USAGE, "--dim %s: expected NAME=SIZE, with a size of 0 or more",
                          text);
  }
  return cli_know_dims(ME, &job->model, job->dims, job->options->dims.n);
}

static int make_inputs(job_t *job) {
  char message[CLI_MESSAGE];
  cli_dims_t dims = {job->dims, job->options->dims.n};
  int result = cli_find_specs(ME, &job->model, &job->options->inputs, job->specs);
  if (result == CLI_DONE)
    result = cli_need_sizes(ME, &job->model, job->specs, "zeros", &dims);
  if (result != CLI_DONE)
    return result;
  for (uint32_t k = 0; k < job->model.n_inputs; k++) {
    bool given = job->specs[k] != NULL;
    if (!cli_input_make(&job->model, k, given ? job->specs[k] : "zeros", &dims, k + 1,
                        &job->inputs[k], message))
      return cli_complain(ME, CLI_FAILED, "%s%s", message,
                          given ? "" : "; give the input by --input instead");
  }
  return CLI_DONE;
}

// ---- Results --------------------------------------------------------------------------------------
typedef struct summary_t {
  int64_t n_nan, n_finite;
  double min, max, mean;
} summary_t;

// The mean over what is finite; nothing is left out of min and max but NaN.
static summary_t summarise(const dt_tensor_t *tensor) {
  summary_t all = {.min = (double)INFINITY, .max = -(double)INFINITY};
  double sum = 0;
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++) {
    double value = cli_element(dt_tensor_dtype(tensor), dt_tensor_data(tensor), k);
    if (isnan(value)) {
      all.n_nan++;
      continue;
    }
    all.min = fmin(all.min, value);
    all.max = fmax(all.max, value);
    if (isfinite(value)) {
      sum += value;
      all.n_finite++;
    }
  }
  all.mean = all.n_finite > 0 ? sum / (double)all.n_finite : 0;
  return all;
}

// JSON has no NaN and no infinity: texts stand for them.
static void print_number(double value, bool json) {
  (void)printf(json && !isfinite(value) ? "\"%.9g\"" : "%.9g", value);
}

static void print_elements(const dt_tensor_t *tensor, bool json) {
  int64_t count = dt_tensor_count(tensor);
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  for (int64_t k = 0; k < count && k < MOST_SHOWN; k++) {
    char text[CLI_ELEMENT_TEXT];
    cli_element_text(dtype, dt_tensor_data(tensor), k, text);
    bool quoted = json && !isfinite(cli_element(dtype, dt_tensor_data(tensor), k));
    (void)printf(quoted ? "%s\"%s\"" : "%s%s", k == 0 ? "" : json ? "," : " ", text);
  }
  if (!json && count > MOST_SHOWN)
    (void)printf(" …");
}

static void tell_json(const char *name, const dt_tensor_t *tensor) {
  summary_t all = summarise(tensor);
  (void)printf("{\"event\":\"output\",\"name\":");
  cli_json_string(stdout, name);
  (void)printf(",\"dtype\":\"%s\",\"sizes\":[", dt_dtype_name(dt_tensor_dtype(tensor)));
  for (uint32_t d = 0; d < dt_tensor_rank(tensor); d++)
    (void)printf("%s%lld", d > 0 ? "," : "", (long long)dt_tensor_sizes(tensor)[d]);
  (void)printf("],\"nan\":%lld", (long long)all.n_nan);
  if (dt_tensor_count(tensor) > all.n_nan) {
    (void)printf(",\"min\":");
    print_number(all.min, true);
    (void)printf(",\"mean\":");
    print_number(all.mean, true);
    (void)printf(",\"max\":");
    print_number(all.max, true);
  }
  (void)printf(",\"first\":[");
  print_elements(tensor, true);
  (void)printf("]}\n");
}

static void tell_text(const char *name, const dt_tensor_t *tensor) {
  char sizes[CLI_SIZES_TEXT];
  summary_t all = summarise(tensor);
  cli_sizes_text(tensor, sizes);
  (void)printf("%s: %s", name, sizes);
  if (dt_tensor_count(tensor) > all.n_nan) {
    (void)printf(", min ");
    print_number(all.min, false);
    (void)printf(", mean ");
    print_number(all.mean, false);
    (void)printf(", max ");
    print_number(all.max, false);
  }
  if (all.n_nan > 0)
    (void)printf(", %lld NaN", (long long)all.n_nan);
  (void)printf("\n");
  if (dt_tensor_count(tensor) == 0)
    return;
  (void)printf("  ");
  print_elements(tensor, false);
  (void)printf("\n");
}

static void tell_results(const job_t *job) {
  if (job->options->outputs.n > 0 && !job->options->json)
    return;
  for (uint32_t k = 0; k < job->model.n_outputs; k++)
    (job->options->json ? tell_json : tell_text)(cli_model_output_name(&job->model, k),
                                                 job->fetched[k]);
}

static void tell_bytes(const job_t *job) {
  uint64_t call = cli_model_bytes(&job->model, job->results), peak = cli_peak_bytes();
  if (job->options->json)
    (void)printf("{\"event\":\"memory\",\"call_bytes\":%llu,\"peak_bytes\":%llu}\n",
                 (unsigned long long)call, (unsigned long long)peak);
  else if (job->options->outputs.n == 0)
    (void)printf("the call took %.1f MB, the process %.1f MB at most\n", (double)call * 1e-6,
                 (double)peak * 1e-6);
}

static int write_results(const job_t *job, const char *const *paths, const uint32_t *outputs,
                         uint32_t n) {
  char message[CLI_MESSAGE];
  const char **names = calloc(n + 1, sizeof(*names));
  dt_tensor_t **tensors = calloc(n + 1, sizeof(*tensors));
  bool done = names && tensors;
  if (!done)
    (void)cli_wrong(message, "no memory");
  for (uint32_t k = 0; done && k < n; k++) {
    names[k] = cli_model_output_name(&job->model, outputs[k]);
    tensors[k] = job->fetched[outputs[k]];
  }
  done = done && cli_tensors_write(paths, names, tensors, n, message);
  free(names);
  free(tensors);
  return done ? CLI_DONE : cli_complain(ME, CLI_FAILED, "%s", message);
}

// ---- The job --------------------------------------------------------------------------------------
// Where outputs go is looked at before anything runs.
static int find_outputs(const job_t *job, const char **paths, uint32_t *outputs) {
  const cli_list_t *given = &job->options->outputs;
  int result = cli_know_outputs(ME, &job->model, given);
  char message[CLI_MESSAGE];
  for (uint32_t k = 0; k < given->n && result == CLI_DONE; k++) {
    paths[k] = cli_model_output(&job->model, given->items[k], &outputs[k]);
    if (!*paths[k])
      return cli_complain(ME, CLI_USAGE, "--output %s: no file; expected NAME=FILE",
                          given->items[k]);
    for (uint32_t j = 0; j < k; j++)
      if (outputs[j] == outputs[k] && strcmp(paths[j], paths[k]) == 0)
        return cli_complain(ME, CLI_USAGE,
                            "--output %s: given twice; another file may take it, too",
                            given->items[k]);
  }
  if (result == CLI_DONE && !cli_tensors_may_write(paths, given->n, message))
    result = cli_complain(ME, CLI_USAGE, "--output: %s", message);
  return result;
}

// What low-bit types hold is told and written in wider ones.
static dt_status_t widen(dt_tensor_t **tensor) {
  dt_tensor_t *wide = NULL;
  if (!cli_is_low(dt_tensor_dtype(*tensor)))
    return NULL;
  dt_status_t status = cli_widen(*tensor, &wide);
  if (status)
    return status;
  dt_tensor_release(*tensor);
  *tensor = wide;
  return NULL;
}

static int call(job_t *job) {
  dt_status_t status = cli_model_call(&job->model, job->inputs, job->results);
  for (uint32_t k = 0; !status && k < job->model.n_outputs; k++) {
    status = cli_model_fetch(&job->model, job->results[k], &job->fetched[k]);
    if (!status)
      status = widen(&job->fetched[k]);
  }
  return cli_failed(ME, job->options->path, status);
}

static int run_model(job_t *job) {
  static const char *paths[CLI_MOST_VALUES];
  static uint32_t outputs[CLI_MOST_VALUES];
  int result = find_outputs(job, paths, outputs);
  if (result == CLI_DONE)
    result = read_dims(job);
  if (result == CLI_DONE)
    result = make_inputs(job);
  if (result == CLI_DONE)
    result = call(job);
  if (result == CLI_DONE)
    result = write_results(job, paths, outputs, job->options->outputs.n);
  if (result == CLI_DONE) {
    tell_results(job);
    tell_bytes(job);
  }
  return result;
}

static int run(job_t *job) {
  const cli_model_t *model = &job->model;
  job->specs = calloc(model->n_inputs + 1, sizeof(*job->specs));
  job->inputs = calloc(model->n_inputs + 1, sizeof(*job->inputs));
  job->results = calloc(model->n_outputs + 1, sizeof(*job->results));
  job->fetched = calloc(model->n_outputs + 1, sizeof(*job->fetched));
  bool memory = job->specs && job->inputs && job->results && job->fetched;
  int result = memory ? run_model(job) : cli_complain(ME, CLI_FAILED, "no memory");
  if (memory) {
    cli_release_all(job->inputs, model->n_inputs);
    cli_release_all(job->results, model->n_outputs);
    cli_release_all(job->fetched, model->n_outputs);
  }
  free(job->specs);
  free(job->inputs);
  free(job->results);
  free(job->fetched);
  return result;
}

int cli_run(int argc, char **argv) {
  static options_t options;
  static job_t job;
  cli_operands_t files;
  cli_place_t place = {0};
  int result = CLI_DONE;
  if (!cli_parse(&cli_run_table, argc, argv, &options, &files, &result))
    return result;
  options.path = files.items[0];
  place.data = options.data;
  place.names_are_hints = options.names_are_hints;
  place.bf16_weights = options.bf16_weights;
  place.map = options.map;
  place.deadline = options.deadline;
  if (!cli_place_device(options.device, &place))
    return cli_complain(ME, CLI_USAGE, "--device %s: expected " CLI_DEVICES, options.device);
  dt_runtime_t *runtime = NULL;
  dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = options.threads};
  job.options = &options;
  dt_status_t status = dt_runtime_create(&about, &runtime);
  if (!status)
    status = cli_model_open(&job.model, runtime, options.path, &place);
  result = status ? cli_failed(ME, options.path, status) : run(&job);
  cli_model_close(&job.model);
  dt_runtime_release(runtime);
  return result;
}
