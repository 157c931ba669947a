// SPDX-License-Identifier: Apache-2.0
// A decision as text, and read back as the same one: for code generation in another process.
//
//   tree VARIANTS SLOTS TERMS STEPS NODES ROOT     how many of each follow, in this order
//   v COUNT SLOT…                                  -1: the symbol is 0
//   s KIND DIM INDEX      t KIND READS SLOT OTHER A      e OP SYMBOL VALUE
//   n TERM YES NO LO HI                            where to go as dt_tree_ref_t says
#include "guards/tree.h"
#include "runtime/base/status.h"

#define MOST_ITEMS (1u << 26)
#define N_TERM_KINDS (DT_TERM_EXPR + 1u)
#define N_SLOT_KINDS (DT_SLOT_MODES + 1u)

_Static_assert(sizeof(dt_slot_t) == 4 && sizeof(dt_term_t) == 24 && sizeof(dt_tree_node_t) == 32 &&
                   sizeof(dt_guard_step_t) == 16,
               "every field is written and read here");

static void put_line(dt_text_t *out, const char *tag, const int64_t *numbers, uint32_t n) {
  dt__text_put(out, tag);
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(out, " ");
    dt__text_i64(out, numbers[k]);
  }
  dt__text_put(out, "\n");
}

static void write_variant(const dt_tree_variant_t *variant, dt_text_t *out) {
  dt__text_put(out, "v ");
  dt__text_i64(out, variant->n_symbols);
  for (uint32_t k = 0; k < variant->n_symbols; k++) {
    dt__text_put(out, " ");
    dt__text_i64(out, variant->slots[k] == DT_TREE_ZERO ? -1 : (int64_t)variant->slots[k]);
  }
  dt__text_put(out, "\n");
}

dt_status_t dt__tree_write(const dt_tree_t *tree, dt_text_t *out) {
  put_line(out, "tree",
           (int64_t[]){tree->n_variants, tree->n_slots, tree->n_terms, tree->n_steps, tree->n_nodes,
                       tree->root},
           6);
  for (uint32_t k = 0; k < tree->n_variants; k++)
    write_variant(&tree->variants[k], out);
  for (uint32_t k = 0; k < tree->n_slots; k++) {
    const dt_slot_t *slot = &tree->slots[k];
    put_line(out, "s", (int64_t[]){slot->kind, slot->dim, slot->index}, 3);
  }
  for (uint32_t k = 0; k < tree->n_terms; k++) {
    const dt_term_t *term = &tree->terms[k];
    put_line(out, "t",
             (int64_t[]){term->kind, term->reads_memory, term->slot, term->other, term->a}, 5);
  }
  for (uint32_t k = 0; k < tree->n_steps; k++) {
    const dt_guard_step_t *step = &tree->steps[k];
    put_line(out, "e", (int64_t[]){step->op, step->symbol, step->value}, 3);
  }
  for (uint32_t k = 0; k < tree->n_nodes; k++) {
    const dt_tree_node_t *node = &tree->nodes[k];
    put_line(out, "n", (int64_t[]){node->term, node->yes, node->no, node->lo, node->hi}, 5);
  }
  return dt__text_status(out);
}

// ---- Reading --------------------------------------------------------------------------------------
static dt_status_t read_below(dt_scan_t *scan, uint32_t end, uint32_t *out) {
  int64_t value = 0;
  *out = 0;
  DT_TRY(dt__scan_i64(scan, &value));
  if (value < 0 || value >= end)
    return dt__scan_fail(scan, "%lld, expected a number below %u", (long long)value, end);
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t read_variant(dt_scan_t *scan, dt_tree_t *tree, dt_tree_variant_t *out) {
  DT_TRY(dt__scan_expect(scan, "v"));
  DT_TRY(read_below(scan, MOST_ITEMS, &out->n_symbols));
  if (out->n_symbols > (size_t)(scan->end - scan->at))
    return dt__scan_fail(scan, "%u symbols", out->n_symbols);
  uint32_t *slots = DT_ARENA_ARRAY(&tree->arena, uint32_t, out->n_symbols + 1);
  if (!slots)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < out->n_symbols; k++) {
    int64_t slot = 0;
    DT_TRY(dt__scan_i64(scan, &slot));
    if (slot < -1 || slot >= tree->n_slots)
      return dt__scan_fail(scan, "slot %lld of %u", (long long)slot, tree->n_slots);
    slots[k] = slot < 0 ? DT_TREE_ZERO : (uint32_t)slot;
  }
  out->slots = slots;
  return NULL;
}

static dt_status_t read_slot(dt_scan_t *scan, dt_slot_t *out) {
  uint32_t kind = 0, dim = 0, index = 0;
  DT_TRY(dt__scan_expect(scan, "s"));
  DT_TRY(read_below(scan, N_SLOT_KINDS, &kind));
  DT_TRY(read_below(scan, 256, &dim));
  DT_TRY(read_below(scan, DT_GUARD_MAX_INPUTS + 1, &index));
  *out = (dt_slot_t){(uint8_t)kind, (uint8_t)dim, (uint16_t)index};
  return NULL;
}

// `other` is a second slot, or how many steps there are from step `slot` on.
static dt_status_t read_term(dt_scan_t *scan, const dt_tree_t *tree, dt_term_t *out) {
  uint32_t kind = 0, reads = 0;
  DT_TRY(dt__scan_expect(scan, "t"));
  DT_TRY(read_below(scan, N_TERM_KINDS, &kind));
  DT_TRY(read_below(scan, 2, &reads));
  bool steps = kind == DT_TERM_EXPR;
  DT_TRY(read_below(scan, steps ? tree->n_steps + 1 : tree->n_slots, &out->slot));
  DT_TRY(read_below(scan, steps ? tree->n_steps - out->slot + 1 : tree->n_slots + 1, &out->other));
  DT_TRY(dt__scan_i64(scan, &out->a));
  if (kind == DT_TERM_SIGN && out->other >= tree->n_slots)
    return dt__scan_fail(scan, "slot %u of %u", out->other, tree->n_slots);
  out->kind = (uint8_t)kind;
  out->reads_memory = reads != 0;
  return NULL;
}

static dt_status_t read_step(dt_scan_t *scan, const dt_tree_t *tree, dt_guard_step_t *out) {
  DT_TRY(dt__scan_expect(scan, "e"));
  DT_TRY(read_below(scan, DT_GUARD_OP_NARROW + 1, &out->op));
  DT_TRY(read_below(scan, tree->n_slots + 1, &out->symbol));
  return dt__scan_i64(scan, &out->value);
}

// To a variant, to a miss, or to one of the nodes before node `end`.
static dt_status_t read_ref(dt_scan_t *scan, const dt_tree_t *tree, uint32_t end,
                            dt_tree_ref_t *out) {
  DT_TRY(read_below(scan, UINT32_MAX, out));
  bool hit = *out & DT_TREE_HIT;
  if (hit ? (*out & ~DT_TREE_HIT) >= tree->n_variants : *out > end)
    return dt__scan_fail(scan, "%u leads nowhere", *out);
  return NULL;
}

static dt_status_t read_nodes(dt_scan_t *scan, dt_tree_t *tree, dt_tree_node_t *out) {
  for (uint32_t k = 0; k < tree->n_nodes; k++) {
    DT_TRY(dt__scan_expect(scan, "n"));
    DT_TRY(read_below(scan, tree->n_terms, &out[k].term));
    DT_TRY(read_ref(scan, tree, k, &out[k].yes));
    DT_TRY(read_ref(scan, tree, k, &out[k].no));
    DT_TRY(dt__scan_i64(scan, &out[k].lo));
    DT_TRY(dt__scan_i64(scan, &out[k].hi));
  }
  return NULL;
}

static dt_status_t read_counts(dt_scan_t *scan, dt_tree_t *tree) {
  uint32_t *const counts[] = {&tree->n_variants, &tree->n_slots, &tree->n_terms, &tree->n_steps,
                              &tree->n_nodes};
  size_t all = 0;
  DT_TRY(dt__scan_expect(scan, "tree"));
  for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
    DT_TRY(read_below(scan, MOST_ITEMS, counts[k]));
    all += *counts[k];
  }
  if (all > (size_t)(scan->end - scan->at))
    return dt__scan_fail(scan, "%zu items in a text that is shorter", all);
  return read_ref(scan, tree, tree->n_nodes, &tree->root);
}

static dt_status_t read_all(dt_scan_t *scan, dt_tree_t *tree) {
  DT_TRY(read_counts(scan, tree));
  dt_arena_t *arena = &tree->arena;
  dt_tree_variant_t *variants = DT_ARENA_ARRAY(arena, dt_tree_variant_t, tree->n_variants + 1);
  dt_slot_t *slots = DT_ARENA_ARRAY(arena, dt_slot_t, tree->n_slots + 1);
  dt_term_t *terms = DT_ARENA_ARRAY(arena, dt_term_t, tree->n_terms + 1);
  dt_guard_step_t *steps = DT_ARENA_ARRAY(arena, dt_guard_step_t, tree->n_steps + 1);
  dt_tree_node_t *nodes = DT_ARENA_ARRAY(arena, dt_tree_node_t, tree->n_nodes + 1);
  if (!variants || !slots || !terms || !steps || !nodes)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < tree->n_variants; k++)
    DT_TRY(read_variant(scan, tree, &variants[k]));
  for (uint32_t k = 0; k < tree->n_slots; k++)
    DT_TRY(read_slot(scan, &slots[k]));
  for (uint32_t k = 0; k < tree->n_terms; k++)
    DT_TRY(read_term(scan, tree, &terms[k]));
  for (uint32_t k = 0; k < tree->n_steps; k++)
    DT_TRY(read_step(scan, tree, &steps[k]));
  DT_TRY(read_nodes(scan, tree, nodes));
  tree->variants = variants;
  tree->slots = slots;
  tree->terms = terms;
  tree->steps = steps;
  tree->nodes = nodes;
  return NULL;
}

dt_status_t dt__tree_read(dt_scan_t *scan, dt_tree_t **out) {
  *out = NULL;
  dt_tree_t *tree = dt__calloc(1, sizeof(*tree));
  if (!tree)
    return DT_NO_MEMORY();
  dt__arena_init(&tree->arena, 0);
  dt_status_t status = read_all(scan, tree);
  if (status)
    dt__tree_destroy(tree);
  else
    *out = tree;
  return status;
}
