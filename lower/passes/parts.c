// SPDX-License-Identifier: Apache-2.0
// Parts of sizes. A guard says s == (s // 4) * 4, where an image is halved twice and joined with
// what it was: s, s // 2, (s // 4) * 2 are then one symbol times 4, 2, 2, and loops over a reshape
// of them move linearly. Needs nothing of other passes; stands behind them, next to lowering, so
// that they see sizes as the program has them.
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/status.h"

// A number that data decide, alone: a node may bind it.
static bool is_bound(const dt_symenv_t *env, dt_sym_t e) {
  uint32_t symbol = 0;
  return dt__sym_is_symbol(env, e, &symbol) &&
         dt__symbol_info(env, symbol).kind == DT_SYMBOL_UNBACKED;
}

static void simplify(dt_symenv_t *env, dt_sym_t *syms, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (!is_bound(env, syms[k]))
      syms[k] = dt__sym_simplify(env, syms[k]);
}

// A symbol whose value is a multiple of more than 1, is no part, and has none.
static bool has_part(dt_symenv_t *env, uint32_t symbol) {
  dt_symbol_info_t info = dt__symbol_info(env, symbol);
  dt_sym_t plain = dt__symbol_sym(env, symbol);
  return info.kind == DT_SYMBOL_SIZE && info.modulus > 1 && info.residue == 0 && !info.divisor &&
         info.range.lo < info.range.hi && dt__sym_simplify(env, plain).id == plain.id;
}

static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  DT_TRY(dt__rewrite_copy(rw, node, inputs, out));
  dt_node_t *made = &rw->to->nodes.items[out->id - 1];
  simplify(rw->to->env, ((dt_attrs_t *)made->attrs)->syms, made->attrs->n_syms);
  rw->changed = true;
  return NULL;
}

// Asserts stay as they are: what calls check may be what a part is known by.
static dt_status_t rebuild(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  DT_TRY(dt__rewrite(arena, graph, visit, NULL, NULL, out));
  if (*out == graph)
    return NULL;
  dt_graph_t *made = (dt_graph_t *)*out;
  for (uint32_t k = 0; k < made->inputs.len; k++) {
    dt_graph_input_t *input = &made->inputs.items[k];
    simplify(made->env, input->sizes, input->rank);
    simplify(made->env, input->strides, input->rank);
  }
  return dt__symenv_status(made->env);
}

dt_status_t dt__pass_parts(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  dt_symenv_t *env = graph->env;
  bool found = false;
  *out = graph;
  for (uint32_t k = 0, n = dt__symenv_symbol_count(env); k < n; k++)
    if (has_part(env, k)) {
      (void)dt__sym_new_part(env, k, dt__symbol_info(env, k).modulus);
      found = true;
    }
  DT_TRY(dt__symenv_status(env));
  return found ? dt__rewrite_bodies(arena, graph, rebuild, out) : NULL;
}
