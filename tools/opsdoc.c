// SPDX-License-Identifier: Apache-2.0
// Prints docs/ops.md from the op table, or with --check FILE compares it with a file.
#include "lower/graph/graph.h"
#include "tools/page.h"

#include <string.h>

typedef struct row_t {
  const char *dtype_rule, *decompose;
} row_t;

static const row_t rows[DT_OP_COUNT] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  [DT_OP_##name] = {#dtype_rule, #decompose},
#include "lower/graph/ops.def"
};

// A rule and what it means to a reader.
typedef struct rule_t {
  const char *rule, *text;
} rule_t;

static const rule_t dtype_rules[] = {
    {"same", "any, all the same"},
    {"float_only", "floats"},
    {"number", "any but bool"},
    {"integer", "integers"},
    {"logic", "bool"},
    {"compare", "any; gives bool"},
    {"order", "any but bool; gives bool"},
    {"float_test", "floats; gives bool"},
    {"arg", "any but bool; gives i64"},
    {"attr", "gives the dtype asked for"},
    {"cast", "gives the dtype asked for"},
    {"bits", "gives the dtype asked for"},
    {"where", "bool, then any two the same"},
    {"gather", "any; indices i32 or i64"},
    {"scatter", "any; indices i32 or i64; the third as the first, not bool where modes compute"},
    {"index", "gives i64"},
    {"item", "integers, bool; gives i64"},
    {"search", "any but bool, the same; gives i64"},
    {"compress", "bool, i64, then any, all the same"},
    {"select", "any; the second bool"},
    {"control", "a bool predicate; any"},
    {"result", "what the body gives"},
    {"input", "as declared"},
    {"constant", "as its tensor"},
    {"iota", "any but bool, as asked for"},
};

static const char *meaning(const rule_t *rules, size_t n, const char *rule) {
  for (size_t k = 0; k < n; k++) {
    if (strcmp(rules[k].rule, rule) == 0)
      return rules[k].text;
  }
  return rule;
}

static const char *section_of(const dt_op_info_t *info, dt_op_t op) {
  if (info->flags & DT_OPF_LEAF)
    return "Leaves";
  if (info->flags & DT_OPF_EW)
    return info->arity == 1 ? "Element-wise, one operand" : "Element-wise, several operands";
  if (info->flags & DT_OPF_VIEW)
    return "Views";
  if (info->flags & DT_OPF_REDUCE)
    return "Reductions";
  if (op == DT_OP_gather || op == DT_OP_pad || op == DT_OP_concat ||
      (op >= DT_OP_gather_elements && op <= DT_OP_scatter_nd))
    return "Joining, padding, indexing";
  if (info->lower == DT_LOWER_control)
    return "Control that data decides";
  if (op >= DT_OP_item && op <= DT_OP_masked_select)
    return "Sizes from data";
  if (op >= DT_OP_window && op <= DT_OP_conv_transpose)
    return "Windows and convolutions";
  return "Along an axis, norms, matrix product";
}

static const char *const sections[] = {"Leaves",
                                       "Element-wise, one operand",
                                       "Element-wise, several operands",
                                       "Views",
                                       "Joining, padding, indexing",
                                       "Reductions",
                                       "Sizes from data",
                                       "Control that data decides",
                                       "Along an axis, norms, matrix product",
                                       "Windows and convolutions"};

static void put_row(dt_text_t *out, dt_op_t op) {
  const dt_op_info_t *info = dt__op_info(op);
  size_t n = sizeof(dtype_rules) / sizeof(dtype_rules[0]);
  dt__text_printf(out, "| `%s` | ", info->name);
  if (info->arity < 0)
    dt__text_put(out, "1 or more | ");
  else
    dt__text_printf(out, "%d | ", info->arity);
  dt__text_printf(out, "%s | ", meaning(dtype_rules, n, rows[op].dtype_rule));
  page_put_cell(out, info->doc);
  if (strcmp(rows[op].decompose, "none") != 0)
    dt__text_put(out, " (decomposed)");
  dt__text_put(out, " |\n");
}

static void print_all(dt_text_t *out) {
  dt__text_put(
      out,
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "# Ops\n"
      "\n"
      "Made from `lower/graph/ops.def` by the program `opsdoc`; do not edit. Op `x` is built by\n"
      "`dt_x` of `ductile/trace.h`, or serves a builder there. `attrs`, `axes`, `syms`, `ints` "
      "and\n"
      "`floats` are fields of `dt_attrs_t` in `lower/graph/graph.h`. Ops marked (decomposed) are\n"
      "written in terms of others before they are lowered.\n"
      "\n"
      "Floats are f16, bf16, f32 and f64. f16 and bf16 are for storage: an op on them, composites "
      "and\n"
      "sums included, is computed in f32 and rounded once, to nearest even; every op's result is\n"
      "rounded, also where ops are fused. What only moves elements leaves their bits as they "
      "are.\n");
  for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++) {
    dt__text_printf(out, "\n## %s\n\n| op | operands | dtypes | meaning |\n|---|---|---|---|\n",
                    sections[s]);
    for (int op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++) {
      if (strcmp(section_of(dt__op_info((dt_op_t)op), (dt_op_t)op), sections[s]) == 0)
        put_row(out, (dt_op_t)op);
    }
  }
}

int main(int argc, char **argv) {
  return page_main(argc, argv, "opsdoc", "the op table", print_all);
}
