// SPDX-License-Identifier: Apache-2.0
// Prints docs/rewrites.md from the tables of rewrites, or with --check FILE compares it with one.
#include "tools/page.h"

#include <string.h>

typedef struct pattern_row_t {
  const char *id, *exactness, *looks_for, *needs, *exactly;
} pattern_row_t;

static const pattern_row_t patterns[] = {
#define REWRITE(id, point, exactness, looks_for, needs, exactly)                                   \
  {#id, #exactness, looks_for, needs, exactly},
#include "runtime/trace/rewrites.def"
};

typedef struct fold_row_t {
  const char *id, *op, *dtypes, *doc;
} fold_row_t;

static const fold_row_t folds[] = {
#define FOLD(id, op, dtypes, fn, doc) {#id, #op, #dtypes, doc},
#include "lower/passes/fold_rules.def"
};

// A word of a table's and what it means to a reader.
static const char *const words[][2] = {
    {"ANY", "any"},
    {"NUMBER", "any but bool"},
    {"INTEGER", "integers"},
    {"SIGNED", "signed integers"},
    {"SIGNED_OR_FLOAT", "signed integers, floats"},
    {"FLOAT", "floats"},
    {"BOOL", "bool"},
    {"NONE", "any"},
    {"EXACT", "every bit under `strict_fp`"},
    {"INEXACT", "not in bits"},
};

static const char *meaning(const char *word) {
  for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
    if (strcmp(words[k][0], word) == 0)
      return words[k][1];
  return word;
}

static void print_patterns(dt_text_t *out) {
  dt__text_put(
      out,
      "## Patterns of the library\n"
      "\n"
      "They run at `DT_POINT_BEFORE_DECOMPOSE`, in the walk of users' patterns and behind those, "
      "on the\n"
      "program's graph and on the bodies of its branches and loops. A graph that has none of the "
      "ops that\n"
      "a pattern is about is not walked. The evaluator, and reports made of the traced graph, see "
      "what the\n"
      "program says.\n"
      "\n"
      "`passes` of `dt_function_options_t` leaves one out by its name, "
      "`\"-ductile.conv_affine\"`;\n"
      "`dt_runtime_remove_pass` takes it out of a runtime. `dt_runtime_find_pattern` gives it to\n"
      "`dt_pattern_count` and `dt_pattern_explain_function`, which says why a place is none;\n"
      "`DUCTILE_LOG=passes:2` names each place that is replaced. Which a function has is part of "
      "the key\n"
      "of kept code. Goldens are `golden.rewrites.*`, answers against the evaluator "
      "`unit.exec.rewrites`.\n"
      "\n"
      "| name | looks for → builds | needs | holds |\n|---|---|---|---|\n");
  for (size_t k = 0; k < sizeof(patterns) / sizeof(patterns[0]); k++) {
    dt__text_printf(out, "| `ductile.%s` | ", patterns[k].id);
    page_put_cell(out, patterns[k].looks_for);
    dt__text_put(out, " | ");
    page_put_cell(out, patterns[k].needs);
    dt__text_printf(out, " | %s: ", meaning(patterns[k].exactness));
    page_put_cell(out, patterns[k].exactly);
    dt__text_put(out, " |\n");
  }
}

static void print_folds(dt_text_t *out) {
  dt__text_put(
      out,
      "\n## Fold rules\n"
      "\n"
      "Rewrites of one node and what its operands are, behind decomposition, in every bit, NaN,\n"
      "infinities and signed zeros included. They need what the rule says, sizes known to be equal "
      "where\n"
      "two meet, and nothing else. `DUCTILE_WITHOUT=fold` leaves all of them out; "
      "`DUCTILE_LOG=lower.fold`\n"
      "names each that fires. Tests: `unit.passes.fold` has a case for each, "
      "`unit.passes.fold_dtypes` runs\n"
      "each over every dtype.\n"
      "\n"
      "| name | op | dtypes | rewrite |\n|---|---|---|---|\n");
  for (size_t k = 0; k < sizeof(folds) / sizeof(folds[0]); k++) {
    dt__text_printf(out, "| `%s` | %s | %s | ", folds[k].id, meaning(folds[k].op),
                    meaning(folds[k].dtypes));
    page_put_cell(out, folds[k].doc);
    dt__text_put(out, " |\n");
  }
}

static void print_all(dt_text_t *out) {
  dt__text_put(
      out,
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "# Rewrites\n"
      "\n"
      "Made from `runtime/trace/rewrites.def` and `lower/passes/fold_rules.def` by the program\n"
      "`rewritesdoc`; do not edit.\n"
      "\n"
      "What the library puts in the place of what a program says. A rewrite is a pattern if it "
      "must know\n"
      "who else uses a value, changes bits, or needs constants: then it has a name by which a "
      "function can\n"
      "leave it out. What holds of one node and its operands in every bit is a fold rule. What is "
      "about\n"
      "loops and memory rather than values is fusion ([fusion.md](fusion.md)). Patterns and passes "
      "of users\n"
      "come first ([passes.md](passes.md)).\n"
      "\n"
      "Passes that rewrite in their own way: `cse` shares equal nodes, and `group` makes one "
      "product of those\n"
      "of one operand with several constants (GPUs), both in every bit; `DUCTILE_WITHOUT` leaves "
      "them out.\n"
      "\n");
  print_patterns(out);
  print_folds(out);
}

int main(int argc, char **argv) {
  return page_main(argc, argv, "rewritesdoc", "the tables of rewrites", print_all);
}
