// SPDX-License-Identifier: Apache-2.0
// ductile explain: makes a function of a graph, calls it with the sizes given, and says what each
// call finds: the variant that takes it, or the guard that fails, who asked and what to do.
#include "cli/model.h"
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

#define ME "explain"

typedef struct options_t {
  const char *path, *data;
  cli_list_t calls;
  uint32_t limit;
  uint32_t dynamic; // dt_dynamic_t
  int64_t deadline;
  bool names_are_hints, json;
} options_t;

// ORDER(dt_dynamic_t)
static const char *const dynamics[] = {"symbolic", "automatic", "static", NULL};
_Static_assert(DT_DYNAMIC_SYMBOLIC == 0 && DT_DYNAMIC_AUTOMATIC == 1 && DT_DYNAMIC_STATIC == 2,
               "the words stand in the order of dt_dynamic_t");

static const cli_option_t rows[] = {
    {"call", CLI_LIST, offsetof(options_t, calls), "TEXT",
     "a call: for each input NAME=SIZES, as in \"x=3x4,y=4x5@5x1,n=7\"; strides stand behind @, an "
     "integer argument gives its value, inputs without a name go by their number, and inputs of "
     "static sizes may be left out",
     NULL, 0, 0},
    {"dynamic", CLI_WORD, offsetof(options_t, dynamic), "MODE",
     "symbolic (every size a symbol; the default), automatic (a size becomes one when it changes) "
     "or static (each size is compiled in)",
     dynamics, 0, 0},
    {"limit", CLI_COUNT, offsetof(options_t, limit), "N",
     "the most variants (default: DUCTILE_VARIANT_LIMIT)", NULL, 1, UINT32_MAX},
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_DEADLINE(options_t, "for each call, as in 500ms or 2s, after which it fails (default: "
                                "none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_explain_table = {
    .name = ME,
    .usage =
        "explain FILE [--call \"NAME=SIZES,…\"]… [--dynamic MODE] [--limit N]\n"
        "                       [--data FOLDER] [--names-are-hints] [--deadline TIME] [--json]",
    .about =
        "Compiles the model or graph in FILE and says which dims are symbols, what guards there "
        "are and "
        "which op\n"
        "and line asked for them; then, call for call, which variant takes it or why none does, "
        "and\n"
        "what to declare so that it would. Without --call it compiles for all sizes at once.\n"
        "FILE is an ONNX model, graph IR as DUCTILE_DUMP=graph writes it, or a .dtt test; - is\n"
        "standard input.\n",
    .exits =
        "0 all calls answered; 1 a call failed, or the file was refused; 2 wrong usage; 4 the\n"
        "deadline of a call passed, and nothing else failed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "file",
};

// ---- Telling --------------------------------------------------------------------------------------
typedef struct job_t {
  const options_t *options;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  uint32_t n_inputs, n_outputs;
  dt_tensor_t **args, **results;
  void *bytes; // of a model from standard input
} job_t;

static int tell(const job_t *job, dt_tensor_t *const *args, uint32_t parts) {
  dt_report_t *report = NULL;
  char *text = NULL;
  dt_status_t status = dt_function_report(job->function, args, args ? job->n_inputs : 0, &report);
  if (!status)
    status = job->options->json ? dt_report_json(report, parts, &text)
                                : dt_report_text(report, parts, &text);
  if (!status)
    (void)fputs(text, stdout);
  dt_text_free(text);
  dt_report_free(report);
  return cli_failed(ME, job->options->path, status);
}

static void tell_call(const job_t *job, uint32_t k) {
  if (job->options->json) {
    (void)printf("{\"event\":\"call\",\"call\":%u,\"arguments\":", k);
    cli_json_string(stdout, job->options->calls.items[k]);
    (void)printf("}\n");
  } else {
    (void)printf("call %u: %s\n", k, job->options->calls.items[k]);
  }
}

static int tell_answer(const job_t *job, uint32_t k, dt_status_t status) {
  bool late = dt_status_code(status) == DT_E_DEADLINE;
  int result = late ? CLI_LATE : status ? CLI_FAILED : CLI_DONE;
  if (job->options->json) {
    (void)printf("{\"event\":\"answer\",\"call\":%u,\"code\":\"%s\",\"message\":", k,
                 dt_code_name(dt_status_code(status)));
    cli_json_string(stdout, dt_status_message(status));
    (void)printf("}\n");
  } else if (!status) {
    (void)printf("answered\n\n");
  } else {
    (void)printf("failed: %s: %s\n\n", dt_code_name(dt_status_code(status)),
                 dt_status_message(status));
  }
  (void)fflush(stdout);
  if (status)
    (void)cli_complain(ME, result, "call %u failed", k);
  dt_status_free(status);
  return result;
}

// ---- Calls ----------------------------------------------------------------------------------------
static int run_call(const job_t *job, uint32_t k) {
  char message[CLI_MESSAGE];
  const char *text = job->options->calls.items[k];
  if (!cli_make_args(text, job->function, job->args, message))
    return cli_complain(ME, CLI_USAGE, "--call \"%s\": %s", text, message);
  tell_call(job, k);
  int result = tell(job, job->args, DT_REPORT_CALL);
  if (result == CLI_DONE) {
    for (uint32_t i = 0; i < job->n_outputs; i++)
      job->results[i] = NULL;
    dt_call_options_t how = {.struct_size = sizeof(how),
                             .deadline_ns = cli_end_ns(job->options->deadline)};
    result = tell_answer(job, k,
                         dt_call(job->session, job->function, job->args, job->n_inputs,
                                 job->results, job->n_outputs, &how));
    for (uint32_t i = 0; i < job->n_outputs && result == CLI_DONE; i++)
      dt_tensor_release(job->results[i]);
  }
  for (uint32_t i = 0; i < job->n_inputs; i++)
    dt_tensor_release(job->args[i]);
  return result;
}

static int prepare_all(const job_t *job) {
  dt_prepare_options_t how = {.struct_size = sizeof(how),
                              .deadline_ns = cli_end_ns(job->options->deadline)};
  return cli_failed(ME, job->options->path, dt_function_prepare(job->function, &how));
}

// Of two exit statuses the one that the command ends with: a failure says more than a deadline.
static int worse_of(int a, int b) {
  static const int ranks[] = {[CLI_DONE] = 0, [CLI_LATE] = 1, [CLI_FAILED] = 2, [CLI_USAGE] = 3};
  return ranks[a] > ranks[b] ? a : b;
}

// All calls are made, whatever becomes of one, but for wrong usage.
static int run_calls(const job_t *job) {
  int worst = CLI_DONE;
  if (job->options->calls.n == 0)
    worst = prepare_all(job);
  for (uint32_t k = 0; k < job->options->calls.n && worst != CLI_USAGE; k++)
    worst = worse_of(worst, run_call(job, k));
  if (worst == CLI_USAGE)
    return worst;
  int told = tell(job, NULL, DT_REPORT_VARIANTS);
  if (!job->options->json)
    (void)printf("\n");
  return told == CLI_DONE && tell(job, NULL, DT_REPORT_COMPILES) == CLI_DONE ? worst : CLI_FAILED;
}

// ---- The job --------------------------------------------------------------------------------------
// "model" of "dir/model.dtt"
static void name_of(const char *path, char *out, size_t bytes) {
  const char *base = strrchr(path, '/');
  base = base ? base + 1 : path;
  size_t len = strcspn(base, ".");
  (void)snprintf(out, bytes, "%.*s", (int)(len < 64 ? len : 64), base);
  if (!out[0] || strcmp(out, "-") == 0)
    (void)snprintf(out, bytes, "graph");
}

// Of graph IR text, or without it of the model at the path.
static dt_status_t make_function(job_t *job, const char *text, size_t len,
                                 dt_function_options_t *about) {
  const char *path = job->options->path;
  if (text)
    return dt_function_create_from_ir(job->runtime, text, len, path, about, &job->function);
  dt_onnx_options_t file = {.struct_size = sizeof(file), .data_folder = job->options->data};
  dt_onnx_function_options_t how = {.struct_size = sizeof(how),
                                    .names_are_hints = job->options->names_are_hints,
                                    .function = about};
  dt_onnx_t *model = NULL;
  dt_status_t status = cli_onnx_open(path, &file, &job->bytes, &model);
  if (!status)
    status = dt_onnx_function_create(job->runtime, model, &how, &job->function);
  dt_onnx_close(model);
  return status;
}

static dt_status_t prepare(job_t *job, const char *text, size_t len) {
  char name[80];
  name_of(job->options->path, name, sizeof(name));
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = name,
                                 .variant_limit = job->options->limit,
                                 .limit_action = DT_LIMIT_ERROR,
                                 .dynamic = (dt_dynamic_t)job->options->dynamic};
  dt_status_t status = dt_runtime_create(NULL, &job->runtime);
  if (!status)
    status = dt_session_create(job->runtime, NULL, &job->session);
  if (!status)
    status = make_function(job, text, len, &about);
  return status;
}

static int run(job_t *job, const char *text, size_t len) {
  int result = cli_failed(ME, job->options->path, prepare(job, text, len));
  if (result == CLI_DONE) {
    job->n_inputs = dt_function_n_inputs(job->function);
    job->n_outputs = dt_function_n_outputs(job->function);
    job->args = calloc(job->n_inputs + 1, sizeof(dt_tensor_t *));
    job->results = calloc(job->n_outputs + 1, sizeof(dt_tensor_t *));
    result = job->args && job->results ? run_calls(job) : cli_complain(ME, CLI_FAILED, "no memory");
  }
  free(job->args);
  free(job->results);
  dt_function_release(job->function);
  dt_session_destroy(job->session);
  dt_runtime_release(job->runtime);
  free(job->bytes);
  return result;
}

int cli_explain(int argc, char **argv) {
  static options_t options;
  cli_operands_t files;
  int result = CLI_DONE;
  if (!cli_parse(&cli_explain_table, argc, argv, &options, &files, &result))
    return result;
  options.path = files.items[0];
  size_t len = 0;
  if (cli_is_package(options.path))
    return cli_complain(ME, CLI_FAILED, "%s: a package; ductile inspect says what is in it",
                        options.path);
  bool model = cli_is_onnx(options.path);
  char *text = model ? NULL : cli_read_ir(ME, CLI_FAILED, options.path, &len);
  if (!text && !model)
    return CLI_FAILED;
  job_t job = {.options = &options};
  result = run(&job, text, len);
  free(text);
  return result;
}
