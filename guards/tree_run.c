// SPDX-License-Identifier: Apache-2.0
// Decisions without a code generator: walks and prints them. The compiled form must agree with the
// walk, and the walk with the programs.
#include "guards/tree.h"

#include <inttypes.h>

static int64_t read_slot(const dt_tree_t *tree, uint32_t index, const dt_guard_args_t *args) {
  const dt_slot_t *slot = &tree->slots[index];
  const dt_tensor_t *t = slot->kind < DT_SLOT_CAPTURE ? args->inputs[slot->index] : NULL;
  int64_t value = 0;
  switch ((dt_slot_kind_t)slot->kind) {
  case DT_SLOT_KEY:
    return dt__guard_key_of(t);
  case DT_SLOT_SIZE:
    return t->sizes[slot->dim];
  case DT_SLOT_STRIDE:
    return t->strides[slot->dim];
  case DT_SLOT_COUNT:
    return t->count;
  case DT_SLOT_DATA:
    return (int64_t)(uintptr_t)t->data;
  case DT_SLOT_VALUE:
    (void)dt__guard_value(t, (dt_dtype_t)slot->dim, &value);
    return value;
  case DT_SLOT_CAPTURE:
    return args->captures[slot->index];
  case DT_SLOT_MODES:
    return (int64_t)args->modes;
  }
  return value;
}

// Expressions read few slots, so that they may run on copies of their steps' symbols.
static bool eval_expr(const dt_tree_t *tree, const dt_term_t *term, const dt_guard_args_t *args,
                      int64_t *slots) {
  const dt_guard_step_t *steps = tree->steps + term->slot;
  for (uint32_t k = 0; k < term->other; k++) {
    if (steps[k].op == DT_SYM_SYMBOL)
      slots[steps[k].symbol] = read_slot(tree, steps[k].symbol, args);
  }
  int64_t value;
  return dt__guard_eval(steps, term->other, slots, &value) && value != 0;
}

static int64_t term_value(const dt_tree_t *tree, uint32_t index, const dt_guard_args_t *args,
                          int64_t *slots) {
  const dt_term_t *term = &tree->terms[index];
  if (term->kind == DT_TERM_EXPR)
    return eval_expr(tree, term, args, slots);
  int64_t value = read_slot(tree, term->slot, args);
  switch ((dt_term_kind_t)term->kind) {
  case DT_TERM_MASK:
    return value & term->a;
  case DT_TERM_MOD:
    value %= term->a;
    return value < 0 ? value + term->a : value;
  case DT_TERM_SIGN: {
    int64_t other = read_slot(tree, term->other, args);
    return (value > other) - (value < other);
  }
  default:
    return value;
  }
}

int64_t dt__tree_run(const dt_tree_t *tree, const dt_guard_args_t *args, int64_t *symbols) {
  int64_t *slots = dt__calloc(tree->n_slots, sizeof(*slots));
  dt_tree_ref_t at = slots ? tree->root : DT_TREE_MISS;
  while (at != DT_TREE_MISS && !(at & DT_TREE_HIT)) {
    const dt_tree_node_t *node = &tree->nodes[at - 1];
    int64_t value = term_value(tree, node->term, args, slots);
    at = node->lo <= value && value <= node->hi ? node->yes : node->no;
  }
  dt__free(slots);
  if (at == DT_TREE_MISS)
    return -1;
  const dt_tree_variant_t *variant = &tree->variants[at & ~DT_TREE_HIT];
  for (uint32_t k = 0; k < variant->n_symbols; k++)
    symbols[k] = variant->slots[k] == DT_TREE_ZERO ? 0 : read_slot(tree, variant->slots[k], args);
  return (int64_t)(at & ~DT_TREE_HIT);
}

// ---- Text -----------------------------------------------------------------------------------------
static void print_slot(const dt_tree_t *tree, uint32_t index, dt_text_t *out) {
  static const char *const names[] = {"key",  "size",  "stride",  "count",
                                      "data", "value", "capture", "modes"};
  const dt_slot_t *slot = &tree->slots[index];
  dt__text_printf(out, "%s(%u", names[slot->kind], slot->index);
  if (slot->kind == DT_SLOT_SIZE || slot->kind == DT_SLOT_STRIDE || slot->kind == DT_SLOT_VALUE)
    dt__text_printf(out, ", %u", slot->dim);
  dt__text_put(out, ")");
}

static void print_expr(const dt_tree_t *tree, const dt_term_t *term, dt_text_t *out) {
  static const char *const names[DT_SYM_OP_COUNT + 1] = {
#define SYM_OP(id, name, arity, kind, doc) [DT_SYM_##id] = name,
#include "symshape/sym_ops.def"
      [DT_GUARD_OP_NARROW] = "narrow",
  };
  for (uint32_t k = 0; k < term->other; k++) {
    const dt_guard_step_t *step = &tree->steps[term->slot + k];
    if (k)
      dt__text_put(out, " ");
    if (step->op == DT_SYM_CONST)
      dt__text_printf(out, "%" PRId64, step->value);
    else if (step->op == DT_SYM_SYMBOL)
      print_slot(tree, step->symbol, out);
    else
      dt__text_put(out, names[step->op]);
  }
}

static void print_term(const dt_tree_t *tree, uint32_t index, dt_text_t *out) {
  const dt_term_t *term = &tree->terms[index];
  if (term->kind == DT_TERM_EXPR) {
    dt__text_put(out, "[");
    print_expr(tree, term, out);
    dt__text_put(out, "]");
    return;
  }
  print_slot(tree, term->slot, out);
  if (term->kind == DT_TERM_MASK)
    dt__text_printf(out, " & 0x%" PRIx64, (uint64_t)term->a);
  if (term->kind == DT_TERM_MOD)
    dt__text_printf(out, " mod %" PRId64, term->a);
  if (term->kind == DT_TERM_SIGN) {
    dt__text_put(out, " sign ");
    print_slot(tree, term->other, out);
  }
}

static void print_ref(dt_tree_ref_t ref, dt_text_t *out) {
  if (ref == DT_TREE_MISS)
    dt__text_put(out, "miss");
  else if (ref & DT_TREE_HIT)
    dt__text_printf(out, "hit %u", ref & ~DT_TREE_HIT);
  else
    dt__text_printf(out, "%u", ref - 1);
}

void dt__tree_print(const dt_tree_t *tree, dt_text_t *out) {
  dt__text_put(out, "root ");
  print_ref(tree->root, out);
  dt__text_put(out, "\n");
  for (uint32_t k = tree->n_nodes; k-- > 0;) {
    const dt_tree_node_t *node = &tree->nodes[k];
    dt__text_printf(out, "%u: ", k);
    print_term(tree, node->term, out);
    if (node->lo == node->hi) {
      dt__text_printf(out, " == %" PRId64, node->lo);
    } else {
      if (node->lo != INT64_MIN)
        dt__text_printf(out, " >= %" PRId64, node->lo);
      if (node->hi != INT64_MAX)
        dt__text_printf(out, " <= %" PRId64, node->hi);
    }
    dt__text_put(out, " ? ");
    print_ref(node->yes, out);
    dt__text_put(out, " : ");
    print_ref(node->no, out);
    dt__text_put(out, "\n");
  }
}
