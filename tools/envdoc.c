// SPDX-License-Identifier: Apache-2.0
// Prints docs/env.md from the tables of parameters and log channels, or with --check FILE compares
// it with a file. Exit codes: 0 printed or equal, 1 different or unreadable, 2 wrong usage.
#include "runtime/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum type_t { INT, BOOL, TEXT } type_t;

typedef struct param_t {
  type_t type;
  const char *name, *doc;
  long long value, min, max; // of INT and BOOL
  const char *text;          // of TEXT
} param_t;

// A default is a number or a text: each type picks its own.
#define NUMBER_INT(value) (value)
#define NUMBER_BOOL(value) (value)
#define NUMBER_TEXT(value) 0
#define TEXT_INT(value) NULL
#define TEXT_BOOL(value) NULL
#define TEXT_TEXT(value) (value)

static const param_t params[] = {
#define PARAM(id, type, name, value, min, max, doc)                                                \
  {type, name, doc, NUMBER_##type(value), min, max, TEXT_##type(value)},
#include "runtime/base/params.def"
};

static const struct {
  const char *name, *doc;
} channels[] = {
#define CHANNEL(id, name, doc) {name, doc},
#include "runtime/base/channels.def"
};

// ---- The page -----------------------------------------------------------------------------------

// A table's cell: a bar would end it.
static void put_cell(dt_text_t *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|')
      dt__text_put(out, "\\");
    dt__text_printf(out, "%c", *text);
  }
}

static void put_param(dt_text_t *out, const param_t *param) {
  dt__text_printf(out, "| `DUCTILE_%s` | ", param->name);
  if (param->type == INT)
    dt__text_printf(out, "%lld to %lld | %lld | ", param->min, param->max, param->value);
  else if (param->type == BOOL)
    dt__text_printf(out, "0 or 1 | %lld | ", param->value);
  else if (*param->text)
    dt__text_printf(out, "text | `%s` | ", param->text);
  else
    dt__text_put(out, "text | empty | ");
  put_cell(out, param->doc);
  dt__text_put(out, " |\n");
}

static const char head[] =
    "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
    "# Environment variables\n"
    "\n"
    "Made from `runtime/base/params.def` and `channels.def` by the program `envdoc`; do not edit.\n"
    "A runtime reads them once, when it is made; an empty variable counts as none. A value that "
    "is\n"
    "not allowed makes `dt_runtime_create` fail with `DT_E_ARGUMENT`, naming the variable. An "
    "option\n"
    "that a program gives in its code comes before the variable.\n"
    "\n"
    "| variable | values | default | meaning |\n"
    "|---|---|---|---|\n";

static const char log_head[] =
    "\n"
    "## Log channels\n"
    "\n"
    "`DUCTILE_LOG` is a list such as `guards:2,recompiles,lower:3`: a channel or the first part "
    "of\n"
    "its name (`lower` covers `lower.fold`, `all` covers every one), and after a colon a level, 1\n"
    "without one. Lines go to standard error.\n"
    "\n"
    "| channel | what it prints |\n"
    "|---|---|\n";

static void print_all(dt_text_t *out) {
  dt__text_put(out, head);
  for (size_t i = 0; i < sizeof params / sizeof params[0]; i++)
    put_param(out, &params[i]);
  dt__text_put(out, log_head);
  for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
    dt__text_printf(out, "| `%s` | ", channels[i].name);
    put_cell(out, channels[i].doc);
    dt__text_put(out, " |\n");
  }
}

// ---- Program ------------------------------------------------------------------------------------

// The file's bytes equal `text`; says which line differs first.
static int compare(const char *path, const char *text) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    (void)fprintf(stderr, "envdoc: %s cannot be read\n", path);
    return EXIT_FAILURE;
  }
  int line = 1;
  int c = fgetc(file);
  while (c != EOF && c == (unsigned char)*text && *text) {
    line += c == '\n';
    text++;
    c = fgetc(file);
  }
  (void)fclose(file);
  if (c == EOF && !*text)
    return EXIT_SUCCESS;
  (void)fprintf(stderr, "envdoc: %s differs from the tables in line %d: run envdoc > %s\n", path,
                line, path);
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
  if (argc != 1 && !check) {
    (void)fprintf(stderr, "usage: envdoc [--check FILE]\n");
    return 2;
  }
  dt_text_t text;
  dt__text_init(&text);
  print_all(&text);
  int code = text.failed ? EXIT_FAILURE : EXIT_SUCCESS;
  if (code == EXIT_SUCCESS && check)
    code = compare(argv[2], dt__text_str(&text));
  else if (code == EXIT_SUCCESS)
    (void)fputs(dt__text_str(&text), stdout);
  dt__text_fini(&text);
  return code;
}
