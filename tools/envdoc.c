// SPDX-License-Identifier: Apache-2.0
// Prints docs/env.md from the tables of parameters and log channels, or with --check FILE compares
// it with a file.
#include "runtime/exec/place.h"
#include "tools/page.h"

static const struct {
  const char *name, *doc;
} channels[] = {
#define CHANNEL(id, name, doc) {name, doc},
#include "runtime/base/channels.def"
};

static void put_param(dt_text_t *out, const dt_param_row_t *param) {
  dt__text_printf(out, "| `DUCTILE_%s` | ", param->name);
  if (param->type == DT_PARAM_INT)
    dt__text_printf(out, "%lld to %lld | %lld | ", (long long)param->min, (long long)param->max,
                    (long long)param->value);
  else if (param->type == DT_PARAM_BOOL)
    dt__text_printf(out, "0 or 1 | %lld | ", (long long)param->value);
  else if (*param->text)
    dt__text_printf(out, "text | `%s` | ", param->text);
  else
    dt__text_put(out, "text | empty | ");
  page_put_cell(out, param->doc);
  dt__text_put(out, " |\n");
}

static const char head[] =
    "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
    "# Environment variables\n"
    "\n"
    "Made from `runtime/base/params.def`, `channels.def` and the tables of kinds of devices by "
    "the\n"
    "program `envdoc`; do not edit.\n"
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
  size_t n = 0;
  const dt_param_row_t *rows = dt__params_rows(&n);
  for (size_t i = 0; i < n; i++)
    put_param(out, &rows[i]);
  for (size_t k = 0; k < DT_DEVICES; k++) {
    rows = dt__place_kinds[k] && dt__place_kinds[k]->params ? dt__place_kinds[k]->params(&n) : NULL;
    for (size_t i = 0; rows && i < n; i++)
      put_param(out, &rows[i]);
  }
  dt__text_put(out, log_head);
  for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
    dt__text_printf(out, "| `%s` | ", channels[i].name);
    page_put_cell(out, channels[i].doc);
    dt__text_put(out, " |\n");
  }
}

int main(int argc, char **argv) { return page_main(argc, argv, "envdoc", "the tables", print_all); }
