// SPDX-License-Identifier: Apache-2.0
// ductile inspect: what an ONNX model is: versions, inputs and outputs with their dims,
// initializers, operators with counts, functions, external files.
#include "cli/cli.h"
#include "cli/options.h"

#include "ductile/onnx.h"

#define ME "inspect"

typedef struct options_t {
  const char *data;
  bool json;
} options_t;

static const cli_option_t rows[] = {
    {"data", CLI_TEXT, offsetof(options_t, data), "FOLDER",
     "where files of external data lie (default: the model's folder)", NULL, 0, 0},
    {"json", CLI_FLAG, offsetof(options_t, json), NULL, "JSON lines instead of text", NULL, 0, 0},
};

static const cli_command_t command = {
    .name = ME,
    .usage = "inspect MODEL [--data FOLDER] [--json]",
    .about =
        "Reads and checks the ONNX model in the file MODEL and prints what it is: versions, inputs "
        "and\n"
        "outputs with their dims (a name stands for a size that may change, ? for one without a "
        "name),\n"
        "initializers by element type, operators with counts, functions, files of external data.\n"
        "A model that breaks a rule of the format, or a limit, is refused with the place in the "
        "file.\n",
    .exits = "0 the model was read; 1 it was refused, with a message; 2 wrong usage.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "file",
};

int cli_inspect(int argc, char **argv) {
  options_t options = {0};
  cli_operands_t files;
  int result = CLI_DONE;
  if (!cli_parse(&command, argc, argv, &options, &files, &result))
    return result;
  dt_onnx_options_t about = {
      .struct_size = sizeof(about), .access = DT_ONNX_MAP, .data_folder = options.data};
  dt_onnx_t *model = NULL;
  char *text = NULL;
  dt_status_t status = dt_onnx_open(files.items[0], &about, &model);
  if (!status)
    status = options.json ? dt_onnx_report_json(model, &text) : dt_onnx_report_text(model, &text);
  if (!status)
    (void)fputs(text, stdout);
  // The message begins with the path, where there is one to tell.
  result = status ? cli_complain(ME, CLI_FAILED, "%s: %s", dt_code_name(dt_status_code(status)),
                                 dt_status_message(status))
                  : CLI_DONE;
  dt_status_free(status);
  dt_text_free(text);
  dt_onnx_close(model);
  return result;
}
