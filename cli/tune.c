// SPDX-License-Identifier: Apache-2.0
// ductile tune: measures a model's code in other ways, size by size, and keeps the best.
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/sweep.h"

#include <stdlib.h>
#include <string.h>

#define ME "tune"
#define DEFAULT_SECONDS 10

typedef struct options_t {
  const char *data, *out, *isa;
  cli_list_t inputs, dims;
  uint32_t threads;
  int64_t deadline;
  double seconds;
  bool other_bits, forget, names_are_hints, bf16_weights, map, quiet, json;
} options_t;

static const cli_option_t rows[] = {
    {"dim", CLI_LIST, offsetof(options_t, dims), "NAME=SIZES",
     "the sizes to measure at, as ductile bench takes them: every combination, at most 64", NULL, 0,
     0},
    {"input", CLI_LIST, offsetof(options_t, inputs), "NAME=SPEC",
     "what an input is made of, as ductile bench takes it (default: random)", NULL, 0, 0},
    {"seconds", CLI_REAL, offsetof(options_t, seconds), "X",
     "what compiling and measuring may take, about (default: 10)", NULL, 0, 0},
    {"allow-other-bits", CLI_FLAG, offsetof(options_t, other_bits), NULL,
     "try also what changes bits of floats, within the numerical policy; processes that are to "
     "follow need DUCTILE_TUNED=2",
     NULL, 0, 0},
    {"forget", CLI_FLAG, offsetof(options_t, forget), NULL,
     "keep nothing of it in the folder of compiled code; what was kept before stays there (ductile "
     "cache drop --kind tuned removes that)",
     NULL, 0, 0},
    {"out", CLI_TEXT, offsetof(options_t, out), "FILE", "write the tuned model as a package", NULL,
     0, 0},
    {"isa", CLI_TEXT, offsetof(options_t, isa), "LEVELS",
     "the package's levels, as ductile compile takes them", NULL, 0, 0},
    CLI_ROW_THREADS(options_t),
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_BF16_WEIGHTS(options_t),
    CLI_ROW_MAP(options_t),
    {"quiet", CLI_FLAG, offsetof(options_t, quiet), NULL,
     "say what was found, not what is being done", NULL, 0, 0},
    CLI_ROW_DEADLINE(options_t,
                     "for all of it, as in 500ms or 2s; nothing is tuned where it passes "
                     "(default: none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_tune_table = {
    .name = ME,
    .usage = "tune MODEL [--dim NAME=SIZES]… [--input NAME=SPEC]… [--seconds X]\n"
             "                    [--allow-other-bits] [--forget] [--out FILE] [--isa LEVELS]\n"
             "                    [--threads N] [--data FOLDER] [--names-are-hints]\n"
             "                    [--bf16-weights] [--map] [--quiet] [--deadline TIME] [--json]",
    .about =
        "Compiles the ONNX model in the file MODEL, or a package, for the CPU in other ways, and\n"
        "times calls at the given sizes by each. What is best is kept in the folder of compiled\n"
        "code: run, bench, check, compile and every program that makes the same function of the\n"
        "model have it from their first call on (DUCTILE_TUNED). Bits stay as they are unless\n"
        "--allow-other-bits is given. docs/tuning.md says which ways there are.\n",
    .exits = "0 tuned; 1 refused or failed, with a message; 2 wrong usage; 4 the deadline passed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .letters = NULL,
    .operand = "model",
};

typedef struct job_t {
  const options_t *options;
  const char *path;
  dt_runtime_t *runtime;
  cli_model_t model;
  cli_sweep_t sweep;
  const char **specs; // of each input; NULL: random
  uint32_t n_calls;
  dt_tune_call_t calls[DT_TUNE_MOST_CALLS];
  dt_tensor_t **inputs[DT_TUNE_MOST_CALLS];
} job_t;

// ---- Calls ----------------------------------------------------------------------------------------
static int make_call(job_t *job, const cli_dims_t *dims) {
  dt_tensor_t **inputs = job->inputs[job->n_calls] =
      calloc(job->model.n_inputs + 1, sizeof(dt_tensor_t *));
  if (!inputs)
    return cli_complain(ME, CLI_FAILED, "no memory");
  job->calls[job->n_calls++].inputs = inputs;
  int result = cli_know_dims(ME, &job->model, dims->items, dims->n);
  if (result == CLI_DONE)
    result = cli_random_inputs(ME, &job->model, job->specs, dims, inputs);
  return result;
}

static int make_calls(job_t *job) {
  uint64_t n = job->sweep.n ? job->sweep.n_points : 1;
  if (n > DT_TUNE_MOST_CALLS)
    return cli_complain(ME, CLI_USAGE, "%llu combinations of sizes; at most %d",
                        (unsigned long long)n, DT_TUNE_MOST_CALLS);
  int result = cli_find_specs(ME, &job->model, &job->options->inputs, job->specs);
  for (uint64_t k = 0; result == CLI_DONE && k < n; k++) {
    cli_dim_t sizes[CLI_MOST_AXES];
    const cli_dims_t dims = {sizes, job->sweep.n};
    cli_sweep_point(&job->sweep, k, sizes);
    result = make_call(job, &dims);
  }
  return result;
}

// ---- Tuning ---------------------------------------------------------------------------------------
static void tell_progress(void *closure, const dt_tune_progress_t *progress) {
  const options_t *options = closure;
  if (options->quiet)
    return;
  if (options->json)
    (void)fprintf(stderr,
                  "{\"event\":\"progress\",\"choice\":\"%s\",\"variant\":%u,\"done\":%u,"
                  "\"all\":%u,\"ns\":%llu}\n",
                  progress->choice, progress->variant, progress->done, progress->all,
                  (unsigned long long)progress->ns);
  else
    (void)fprintf(stderr, "%u of %u: %s\n", progress->done, progress->all,
                  progress->choice[0] ? progress->choice : "the best once more");
}

static int tell(const job_t *job, const dt_tune_report_t *report) {
  char *text = NULL;
  dt_status_t status =
      job->options->json ? dt_tune_report_json(report, &text) : dt_tune_report_text(report, &text);
  if (!status)
    (void)fputs(text, stdout);
  dt_text_free(text);
  return cli_failed(ME, job->path, status);
}

static int write_package(const job_t *job) {
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = job->options->isa};
  return cli_failed(ME, job->path,
                    dt_package_write(job->options->out, &job->model.function, 1, &how));
}

static int tune_model(job_t *job) {
  const options_t *options = job->options;
  const dt_tune_options_t how = {.struct_size = sizeof(how),
                                 .n_calls = job->n_calls,
                                 .calls = job->calls,
                                 .call_size = sizeof(dt_tune_call_t),
                                 .allow_other_bits = options->other_bits,
                                 .forget = options->forget,
                                 .budget_ns = (uint64_t)(options->seconds * 1e9),
                                 .deadline_ns = job->model.end_ns,
                                 .progress = tell_progress,
                                 .closure = (void *)(uintptr_t)options};
  dt_tune_report_t *report = NULL;
  int result = cli_failed(ME, job->path,
                          dt_function_tune(job->model.session, job->model.function, &how, &report));
  if (result == CLI_DONE)
    result = tell(job, report);
  dt_tune_report_free(report);
  return result == CLI_DONE && options->out ? write_package(job) : result;
}

static int open_model(job_t *job) {
  const options_t *options = job->options;
  const cli_place_t place = {.data = options->data,
                             .names_are_hints = options->names_are_hints,
                             .bf16_weights = options->bf16_weights,
                             .map = options->map,
                             .deadline = options->deadline};
  const dt_runtime_options_t how = {.struct_size = sizeof(how), .threads = options->threads};
  dt_status_t status = dt_runtime_create(&how, &job->runtime);
  if (!status)
    status = cli_model_open(&job->model, job->runtime, job->path, &place);
  if (status)
    return cli_failed(ME, job->path, status);
  job->specs = calloc(job->model.n_inputs + 1, sizeof(*job->specs));
  return job->specs ? CLI_DONE : cli_complain(ME, CLI_FAILED, "no memory");
}

static void end(job_t *job) {
  for (uint32_t k = 0; k < job->n_calls; k++) {
    cli_release_all(job->inputs[k], job->model.n_inputs);
    free(job->inputs[k]);
  }
  free(job->specs);
  cli_model_close(&job->model);
  dt_runtime_release(job->runtime);
  cli_sweep_free(&job->sweep);
}

int cli_tune(int argc, char **argv) {
  options_t options = {.seconds = DEFAULT_SECONDS};
  cli_operands_t files;
  char message[CLI_MESSAGE];
  int result;
  if (!cli_parse(&cli_tune_table, argc, argv, &options, &files, &result))
    return result;
  job_t job = {.options = &options, .path = files.items[0]};
  result = CLI_DONE;
  for (uint32_t k = 0; k < options.dims.n && result == CLI_DONE; k++)
    if (!cli_sweep_add(&job.sweep, options.dims.items[k], message))
      result = cli_complain(ME, CLI_USAGE, "--dim %s: %s", options.dims.items[k], message);
  if (result == CLI_DONE)
    result = open_model(&job);
  if (result == CLI_DONE)
    result = make_calls(&job);
  if (result == CLI_DONE)
    result = tune_model(&job);
  end(&job);
  return result;
}
