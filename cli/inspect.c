// SPDX-License-Identifier: Apache-2.0
// ductile inspect: what an ONNX model is: versions, inputs and outputs with their dims,
// initializers, operators with counts, functions, external files; and which of its nodes are not
// supported.
#include "cli/model.h"
#include "cli/options.h"

#include "ductile/onnx.h"

#include <stdlib.h>
#include <string.h>

#define ME "inspect"

typedef struct options_t {
  const char *data;
  int64_t deadline;
  bool names_are_hints, json;
} options_t;

static const cli_option_t rows[] = {
    CLI_ROW_DATA(options_t),
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_DEADLINE(options_t,
                     "for reading and checking, as in 500ms or 2s, after which the model "
                     "is given up (default: none)"),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_inspect_table = {
    .name = ME,
    .usage = "inspect MODEL [--data FOLDER] [--names-are-hints] [--deadline TIME] [--json]",
    .about =
        "Reads and checks the ONNX model in the file MODEL (- is standard input) and prints what "
        "it is: versions, inputs "
        "and\n"
        "outputs with their dims (a name stands for a size that may change, ? for one without a "
        "name),\n"
        "initializers by element type, operators with counts, functions, files of external data; "
        "and\n"
        "whether all its nodes are supported, or else each that is not.\n"
        "Of a package (ductile compile): its levels, functions, variants with their guards, "
        "bytes.\n"
        "A model that breaks a rule of the format, or a limit, is refused with the place in the "
        "file.\n",
    .exits = "0 the model was read; 1 it was refused, with a message; 2 wrong usage; 4 the\n"
             "deadline passed.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "file",
};

// ---- What is supported ------------------------------------------------------------------------
// A function is made, and nothing compiled: what only sizes can show is left to a call.
static dt_status_t try_function(dt_onnx_t *model, bool names_are_hints, int64_t end_ns) {
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = 1, .compile_threads = 1};
  dt_onnx_function_options_t how = {
      .struct_size = sizeof(how), .names_are_hints = names_are_hints, .deadline_ns = end_ns};
  dt_status_t status = dt_runtime_create(&about, &runtime);
  if (!status)
    status = dt_onnx_function_create(runtime, model, &how, &function);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return status;
}

// One reason a line.
static void tell_reasons(const char *message) {
  for (const char *at = message; *at; at++) {
    bool ends = at[0] == ';' && at[1] == ' ';
    (void)fputs(ends ? "\n " : (char[]){*at, '\0'}, stdout);
  }
  (void)printf("\n");
}

static void tell_support(dt_status_t status, const char *path, bool json) {
  const char *message = dt_status_message(status);
  size_t len = strlen(path);
  if (strncmp(message, path, len) == 0 && strncmp(message + len, ": ", 2) == 0)
    message += len + 2;
  if (json) {
    (void)printf("{\"event\":\"support\",\"supported\":%s,\"code\":\"%s\",\"message\":",
                 status ? "false" : "true", dt_code_name(dt_status_code(status)));
    cli_json_string(stdout, message);
    (void)printf("}\n");
  } else if (status) {
    (void)printf("not supported (%s):\n  ", dt_code_name(dt_status_code(status)));
    tell_reasons(message);
  } else {
    (void)printf("all nodes are supported\n");
  }
}

static int tell_model(dt_onnx_t *model, const char *path, const options_t *options,
                      int64_t end_ns) {
  char *text = NULL;
  bool json = options->json;
  dt_status_t status = json ? dt_onnx_report_json(model, &text) : dt_onnx_report_text(model, &text);
  if (status)
    return cli_failed(ME, path, status);
  (void)fputs(text, stdout);
  dt_text_free(text);
  status = try_function(model, options->names_are_hints, end_ns);
  if (dt_status_code(status) == DT_E_DEADLINE)
    return cli_failed(ME, path, status);
  tell_support(status, path, json);
  dt_status_free(status);
  return CLI_DONE;
}

static int tell_package(const char *path, bool json) {
  dt_runtime_t *runtime = NULL;
  dt_package_t *package = NULL;
  char *text = NULL;
  dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = 1, .compile_threads = 1};
  dt_status_t status = dt_runtime_create(&about, &runtime);
  if (!status)
    status = dt_package_open(runtime, path, NULL, &package);
  if (!status)
    status = json ? dt_package_report_json(package, &text) : dt_package_report_text(package, &text);
  if (!status)
    (void)fputs(text, stdout);
  dt_text_free(text);
  dt_package_release(package);
  dt_runtime_release(runtime);
  return cli_failed(ME, path, status);
}

int cli_inspect(int argc, char **argv) {
  options_t options = {0};
  cli_operands_t files;
  int result = CLI_DONE;
  if (!cli_parse(&cli_inspect_table, argc, argv, &options, &files, &result))
    return result;
  int64_t end_ns = cli_end_ns(options.deadline);
  dt_onnx_options_t about = {.struct_size = sizeof(about),
                             .access = DT_ONNX_MAP,
                             .data_folder = options.data,
                             .deadline_ns = end_ns};
  dt_onnx_t *model = NULL;
  const char *path = files.items[0];
  if (cli_is_package(path))
    return tell_package(path, options.json);
  void *bytes = NULL;
  dt_status_t status = cli_onnx_open(path, &about, &bytes, &model);
  result = status ? cli_failed(ME, path, status) : tell_model(model, path, &options, end_ns);
  dt_onnx_close(model);
  free(bytes);
  return result;
}
