// SPDX-License-Identifier: Apache-2.0
// ductile inspect: what an ONNX model is: versions, inputs and outputs with their dims,
// initializers, operators with counts, functions, external files.
#include "cli/cli.h"

#include "ductile/onnx.h"

#include <string.h>

#define ME "inspect"

typedef struct options_t {
  const char *path, *data;
  bool json, help;
} options_t;

static const char help[] =
    "usage: ductile inspect MODEL [--data FOLDER] [--json]\n"
    "\n"
    "Reads and checks the ONNX model in the file MODEL and prints what it is: versions, inputs "
    "and\n"
    "outputs with their dims (a name stands for a size that may change, ? for one without a "
    "name),\n"
    "initializers by element type, operators with counts, functions, files of external data.\n"
    "A model that breaks a rule of the format, or a limit, is refused with the place in the file.\n"
    "\n"
    "  --data FOLDER    where files of external data lie (default: the model's folder)\n"
    "  --json           JSON lines instead of text\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0 the model was read; 1 it was refused, with a message; 2 wrong usage.\n";

static bool take_options(options_t *options, int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--json") == 0) {
      options->json = true;
    } else if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
      options->help = true;
    } else if (strcmp(argv[k], "--data") == 0 && k + 1 < argc) {
      options->data = argv[++k];
    } else if (argv[k][0] == '-') {
      return cli_complain(ME, false, "%s: no such option, or no value for it; see --help", argv[k]);
    } else if (options->path) {
      return cli_complain(ME, false, "one file only: %s and %s", options->path, argv[k]);
    } else {
      options->path = argv[k];
    }
  }
  if (!options->path && !options->help)
    return cli_complain(ME, false, "no file; see --help");
  return true;
}

int cli_inspect(int argc, char **argv) {
  options_t options = {0};
  if (!take_options(&options, argc, argv))
    return CLI_USAGE;
  if (options.help) {
    (void)fputs(help, stdout);
    return CLI_DONE;
  }
  dt_onnx_options_t about = {
      .struct_size = sizeof(about), .access = DT_ONNX_MAP, .data_folder = options.data};
  dt_onnx_t *model = NULL;
  char *text = NULL;
  dt_status_t status = dt_onnx_open(options.path, &about, &model);
  if (!status)
    status = options.json ? dt_onnx_report_json(model, &text) : dt_onnx_report_text(model, &text);
  if (!status)
    (void)fputs(text, stdout);
  // The message begins with the path, where there is one to tell.
  int result = status ? cli_complain(ME, CLI_FAILED, "%s: %s", dt_code_name(dt_status_code(status)),
                                     dt_status_message(status))
                      : CLI_DONE;
  dt_status_free(status);
  dt_text_free(text);
  dt_onnx_close(model);
  return result;
}
