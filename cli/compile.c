// SPDX-License-Identifier: Apache-2.0
// ductile compile: a model as a package, which runs where there is no compiler.
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/sweep.h"
#include "ductile/experimental.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ME "compile"

typedef struct options_t {
  const char *out, *isa, *cuda, *name, *data;
  cli_list_t inputs, dims;
  int64_t deadline;
  uint32_t weights;
  bool names_are_hints, bf16_weights, no_forms, json;
} options_t;

// Where weights are: in the package, or in the model's own files.
enum { WEIGHTS_IN, WEIGHTS_REF };
static const char *const weights[] = {"in", "ref", NULL};

static const cli_option_t rows[] = {
    {"out", CLI_TEXT, offsetof(options_t, out), "FILE", "the package (required); or -o", NULL, 0,
     0},
    {"isa", CLI_TEXT, offsetof(options_t, isa), "LEVELS",
     "levels of x86-64 to make code for, such as v2,v3,v4, also v3+vnni and v4+vnni; whoever opens "
     "the package takes the best that its machine has (default: v3,v4); none: with --cuda, no code "
     "for CPUs",
     NULL, 0, 0},
    {"cuda", CLI_TEXT, offsetof(options_t, cuda), "ARCHS",
     "architectures of CUDA devices to make code for, too, such as sm_80,sm_90a; no device is "
     "needed. "
     "Code for sm_80 runs on that and on newer ones, code for sm_90a on 9.0 alone; a device takes "
     "the newest that runs on it",
     NULL, 0, 0},
    {"name", CLI_TEXT, offsetof(options_t, name), "NAME",
     "what the function is called in the package (default: the graph's name)", NULL, 0, 0},
    {"weights", CLI_WORD, offsetof(options_t, weights), "WHERE",
     "in: in the package (the default); ref: where they are, in the model's files, which the "
     "package "
     "then needs: it says where they lie from its own folder",
     weights, 0, 0},
    {"no-forms", CLI_FLAG, offsetof(options_t, no_forms), NULL,
     "leave out what is computed from weights alone, such as packed ones for each level: a smaller "
     "file, but each process computes it, in memory of its own",
     NULL, 0, 0},
    {"dim", CLI_LIST, offsetof(options_t, dims), "NAME=SIZES",
     "call the model at these sizes first, as ductile bench takes them: every combination. For "
     "models that need variants of their own for some sizes; others have one variant for all",
     NULL, 0, 0},
    {"input", CLI_LIST, offsetof(options_t, inputs), "NAME=SPEC",
     "what an input of these calls is made of, as ductile bench takes it; without --dim: of one "
     "call",
     NULL, 0, 0},
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_BF16_WEIGHTS(options_t),
    CLI_ROW_DEADLINE(options_t, "for opening the model, and for its calls, as in 500ms or 2s "
                                "(default: none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_compile_table = {
    .name = ME,
    .usage = "compile MODEL -o FILE [--isa LEVELS] [--cuda ARCHS] [--name NAME] [--weights WHERE]\n"
             "                       [--no-forms] [--dim NAME=SIZES]… [--input NAME=SPEC]…\n"
             "                       [--data FOLDER] [--names-are-hints] [--deadline TIME]\n"
             "                       [--bf16-weights] [--json]",
    .about =
        "Compiles the ONNX model in the file MODEL and writes a package: machine code for each\n"
        "level of CPUs and each architecture of CUDA devices, the guards that say which sizes it\n"
        "is for, and the weights. ductile run, bench and inspect take a package where they take a "
        "model, and\n"
        "dt_package_open opens it, with or without a compiler on the machine. The same model,\n"
        "options and version of Ductile give the same bytes.\n"
        "A package is code: use those only that you trust.\n",
    .exits =
        "0 written; 1 refused or failed, with a message; 2 wrong usage; 4 the deadline passed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .letters = "o",
    .operand = "model",
};

typedef struct job_t {
  const options_t *options;
  const char *path;
  dt_runtime_t *runtime;
  cli_model_t model;
  cli_sweep_t sweep;
  const char **specs; // of each input; NULL: random
  dt_tensor_t **inputs, **results;
} job_t;

// ---- Calls ----------------------------------------------------------------------------------------
static int call_at(const job_t *job, const cli_dims_t *dims) {
  int result = cli_know_dims(ME, &job->model, dims->items, dims->n);
  if (result == CLI_DONE)
    result = cli_random_inputs(ME, &job->model, job->specs, dims, job->inputs);
  if (result == CLI_DONE)
    result = cli_failed(ME, job->path, cli_model_call(&job->model, job->inputs, job->results));
  cli_release_all(job->inputs, job->model.n_inputs);
  cli_release_all(job->results, job->model.n_outputs);
  return result;
}

static int call_all(const job_t *job) {
  const cli_list_t *inputs = &job->options->inputs;
  int result = cli_find_specs(ME, &job->model, inputs, job->specs);
  uint64_t n = job->sweep.n ? job->sweep.n_points : inputs->n > 0;
  for (uint64_t k = 0; result == CLI_DONE && k < n; k++) {
    cli_dim_t sizes[CLI_MOST_AXES];
    const cli_dims_t dims = {sizes, job->sweep.n};
    cli_sweep_point(&job->sweep, k, sizes);
    result = call_at(job, &dims);
  }
  return result;
}

// ---- The package ----------------------------------------------------------------------------------
static int tell(const job_t *job) {
  struct stat about = {0};
  dt_package_t *package = NULL;
  char *text = NULL;
  (void)stat(job->options->out, &about);
  if (!job->options->json) {
    (void)printf("%s: %.1f kB\n", job->options->out, (double)about.st_size * 1e-3);
    return CLI_DONE;
  }
  dt_status_t status = dt_package_open(job->runtime, job->options->out, NULL, &package);
  if (!status)
    status = dt_package_report_json(package, &text);
  if (!status)
    (void)fputs(text, stdout);
  dt_text_free(text);
  dt_package_release(package);
  return cli_failed(ME, job->options->out, status);
}

// The path of one of the model's external files (free).
static char *external_path(const job_t *job, uint32_t k) {
  const char *data = job->options->data, *slash = strrchr(job->path, '/');
  const char *folder = data ? data : slash ? job->path : ".";
  size_t n = data || !slash ? strlen(folder) : slash == job->path ? 1 : (size_t)(slash - folder);
  const char *name = dt_onnx_external_name(job->model.onnx, k);
  size_t room = n + strlen(name) + 2;
  char *path = malloc(room);
  if (path)
    (void)snprintf(path, room, "%.*s/%s", (int)n, folder, name);
  return path;
}

// Levels of CPUs and architectures of devices, in one list (free).
static char *levels_of(const options_t *options) {
  const char *isa = options->isa ? options->isa : "v3,v4", *cuda = options->cuda;
  bool none = cuda && strcmp(isa, "none") == 0;
  size_t room = strlen(isa) + (cuda ? strlen(cuda) : 0) + 2;
  char *text = malloc(room);
  if (text)
    (void)snprintf(text, room, "%s%s%s", none ? "" : isa, cuda && !none ? "," : "",
                   cuda ? cuda : "");
  return text;
}

static int write_with(const job_t *job, const char *levels, char **files) {
  dt_package_write_options_t how = {.struct_size = sizeof(how),
                                    .levels = levels,
                                    .no_forms = job->options->no_forms,
                                    .files = (const char *const *)files};
  uint32_t n = job->options->weights == WEIGHTS_REF ? dt_onnx_n_external(job->model.onnx) + 1 : 0;
  for (; how.n_files < n; how.n_files++) {
    files[how.n_files] = how.n_files ? external_path(job, how.n_files - 1) : strdup(job->path);
    if (!files[how.n_files])
      return cli_complain(ME, CLI_FAILED, "no memory");
  }
  return cli_failed(ME, job->path,
                    dt_package_write(job->options->out, &job->model.function, 1, &how));
}

static int write_package(const job_t *job) {
  uint32_t n = dt_onnx_n_external(job->model.onnx) + 1;
  char **files = calloc(n, sizeof(*files)); // with weights, the model's first
  char *levels = levels_of(job->options);
  int result = files && levels ? call_all(job) : cli_complain(ME, CLI_FAILED, "no memory");
  if (result == CLI_DONE)
    result = write_with(job, levels, files);
  free(levels);
  for (uint32_t k = 0; files && k < n; k++)
    free(files[k]);
  free(files);
  return result == CLI_DONE ? tell(job) : result;
}

static int compile_model(job_t *job) {
  const cli_place_t place = {.data = job->options->data,
                             .names_are_hints = job->options->names_are_hints,
                             .bf16_weights = job->options->bf16_weights,
                             .name = job->options->name,
                             .map = job->options->weights == WEIGHTS_REF,
                             .limit_action = DT_LIMIT_ERROR,
                             .deadline = job->options->deadline};
  if (cli_is_package(job->path))
    return cli_complain(ME, CLI_FAILED, "%s: it is a package already", job->path);
  dt_status_t status = dt_runtime_create(NULL, &job->runtime);
  if (!status)
    status = cli_model_open(&job->model, job->runtime, job->path, &place);
  if (status)
    return cli_failed(ME, job->path, status);
  job->specs = calloc(job->model.n_inputs + 1, sizeof(*job->specs));
  job->inputs = calloc(job->model.n_inputs + 1, sizeof(*job->inputs));
  job->results = calloc(job->model.n_outputs + 1, sizeof(*job->results));
  int result = job->specs && job->inputs && job->results
                   ? write_package(job)
                   : cli_complain(ME, CLI_FAILED, "no memory");
  free(job->specs);
  free(job->inputs);
  free(job->results);
  return result;
}

int cli_compile(int argc, char **argv) {
  options_t options = {0};
  job_t job = {.options = &options};
  cli_operands_t files;
  char message[CLI_MESSAGE];
  int result;
  if (!cli_parse(&cli_compile_table, argc, argv, &options, &files, &result))
    return result;
  result = CLI_DONE;
  job.path = files.items[0];
  if (!options.out)
    return cli_complain(ME, CLI_USAGE, "where to? give -o FILE");
  if (options.weights == WEIGHTS_REF && strcmp(job.path, "-") == 0)
    return cli_complain(ME, CLI_USAGE, "--weights ref: needs the model's file, not standard input");
  for (uint32_t k = 0; k < options.dims.n && result == CLI_DONE; k++)
    if (!cli_sweep_add(&job.sweep, options.dims.items[k], message))
      result = cli_complain(ME, CLI_USAGE, "--dim %s: %s", options.dims.items[k], message);
  if (result == CLI_DONE)
    result = compile_model(&job);
  cli_model_close(&job.model);
  dt_runtime_release(job.runtime);
  cli_sweep_free(&job.sweep);
  return result;
}
