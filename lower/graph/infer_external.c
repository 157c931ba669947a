// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops in a graph: adding them, and the rules by which a node is checked against the
// call that it names.
#include "lower/graph/external.h"
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Copies -------------------------------------------------------------------------------------
static bool copy_attr(dt_arena_t *arena, dt_op_attr_t *attr) {
  attr->name = dt__arena_strdup(arena, attr->name);
  if (attr->kind == DT_OP_ATTR_TEXT)
    attr->text = dt__arena_strdup(arena, attr->text);
  if (attr->kind == DT_OP_ATTR_INTS)
    attr->ints = dt__arena_copy(arena, attr->ints, attr->n * sizeof(*attr->ints));
  if (attr->kind == DT_OP_ATTR_FLOATS)
    attr->floats = dt__arena_copy(arena, attr->floats, attr->n * sizeof(*attr->floats));
  return attr->name && (attr->kind != DT_OP_ATTR_TEXT || attr->text) &&
         (attr->kind != DT_OP_ATTR_INTS || attr->ints) &&
         (attr->kind != DT_OP_ATTR_FLOATS || attr->floats);
}

bool dt__external_copy(dt_arena_t *arena, const dt_graph_external_t *from,
                       dt_graph_external_t *out) {
  *out = *from;
  dt_op_attr_t *attrs = dt__arena_copy(arena, from->attrs, from->n_attrs * sizeof(*attrs));
  out->attrs = attrs;
  out->results = dt__arena_copy(arena, from->results, from->n_results * sizeof(*out->results));
  out->name = dt__arena_strdup(arena, from->name);
  out->identity = dt__arena_strdup(arena, from->identity);
  bool good = attrs && out->results && out->name && out->identity;
  for (uint32_t k = 0; good && k < from->n_attrs; k++)
    good = copy_attr(arena, &attrs[k]);
  return good;
}

// ---- Adding -------------------------------------------------------------------------------------
// The numbers from data that the sizes are made of: the node needs what binds them.
typedef struct numbers_t {
  dt_symenv_t *env;
  dt_attrs_t *attrs;
} numbers_t;

static dt_status_t note_numbers(const numbers_t *numbers, dt_sym_t e) {
  enum { MOST = 64 };
  uint32_t symbols[MOST], n = dt__sym_symbols(numbers->env, e, symbols, MOST);
  dt_attrs_t *attrs = numbers->attrs;
  if (n > MOST)
    return DT_FAIL(DT_E_LIMIT, "a size of more than %d symbols", MOST);
  for (uint32_t i = 0; i < n; i++) {
    if (dt__symbol_info(numbers->env, symbols[i]).kind != DT_SYMBOL_UNBACKED)
      continue;
    dt_sym_t symbol = dt__symbol_sym(numbers->env, symbols[i]);
    uint32_t at = 0;
    while (at < attrs->n_syms && attrs->syms[at].id != symbol.id)
      at++;
    if (at == 2 * DT_MAX_RANK)
      return DT_FAIL(DT_E_LIMIT, "sizes of more than %d numbers from data", 2 * DT_MAX_RANK);
    attrs->syms[at] = symbol;
    attrs->n_syms += at == attrs->n_syms;
  }
  return NULL;
}

static dt_status_t find_numbers(dt_symenv_t *env, const dt_graph_external_t *external,
                                dt_attrs_t *attrs) {
  numbers_t numbers = {env, attrs};
  DT_TRY(note_numbers(&numbers, external->items));
  for (uint32_t k = 0; k < external->n_results; k++)
    for (uint32_t d = 0; d < external->results[k].rank; d++)
      DT_TRY(note_numbers(&numbers, external->results[k].sizes[d]));
  return NULL;
}

dt_status_t dt__graph_add_external(dt_graph_t *graph, const dt_graph_external_t *external,
                                   const dt_node_id_t *inputs, uint32_t n_inputs,
                                   const dt_origin_t *origin, dt_node_id_t *out) {
  dt_attrs_t attrs = {0};
  *out = (dt_node_id_t){0};
  dt_graph_external_t *own = DT_ARENA_NEW(graph->arena, dt_graph_external_t);
  if (!own || !dt__external_copy(graph->arena, external, own))
    return DT_NO_MEMORY();
  attrs.index = graph->externals.len;
  DT_TRY(find_numbers(graph->env, own, &attrs));
  if (!DT_VEC_PUSH(graph->arena, &graph->externals, own))
    return DT_NO_MEMORY();
  dt_status_t status = dt__graph_add(graph, DT_OP_external, inputs, n_inputs, &attrs, origin, out);
  if (status)
    graph->externals.len--;
  return dt__status_annotate(status, "%s", external->name);
}

// ---- Rules --------------------------------------------------------------------------------------
static dt_status_t find(const dt_infer_t *ctx, const dt_graph_external_t **out) {
  if (ctx->attrs->index >= ctx->graph->externals.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no call %u of an op, the graph has %u",
                          ctx->attrs->index, ctx->graph->externals.len);
  *out = ctx->graph->externals.items[ctx->attrs->index];
  return NULL;
}

dt_status_t dt__dtype_rule_external(dt_infer_t *ctx) {
  const dt_graph_external_t *external = NULL;
  DT_TRY(find(ctx, &external));
  if (external->n_results == 0 || external->n_results > DT_OP_MAX_RESULTS)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "%u results; an op has 1 to %d", external->n_results,
                          DT_OP_MAX_RESULTS);
  for (uint32_t k = 0; k < external->n_results; k++)
    if (!dt__dtype_is_valid(external->results[k].dtype))
      return dt__infer_fail(ctx, DT_E_DTYPE, "result %u has no dtype", k);
    else if (dt__dtype_is_low(external->results[k].dtype))
      return dt__infer_fail(ctx, DT_E_DTYPE,
                            "result %u is %s, a dtype for storage that no op gives; dt_cast to it",
                            k, dt_dtype_name(external->results[k].dtype));
  if (external->part == DT_EXTERNAL_NUMBERS &&
      (external->n_results != 1 || external->results[0].dtype != DT_I64 ||
       external->results[0].rank != 1))
    return dt__infer_fail(ctx, DT_E_ARGUMENT,
                          "numbers of an op are one result, i64 of rank 1; here %u results, the "
                          "first %s of rank %u",
                          external->n_results, dt_dtype_name(external->results[0].dtype),
                          external->results[0].rank);
  ctx->dtype = external->results[0].dtype;
  return NULL;
}

dt_status_t dt__shape_rule_external(dt_infer_t *ctx) {
  const dt_graph_external_t *external = NULL;
  dt_attrs_t numbers = {0};
  DT_TRY(find(ctx, &external));
  for (uint32_t k = 0; k < external->n_results; k++) {
    const dt_external_result_t *result = &external->results[k];
    if (result->rank > DT_MAX_RANK)
      return dt__infer_fail(ctx, DT_E_LIMIT, "result %u: rank %u, the most is %d", k, result->rank,
                            DT_MAX_RANK);
    for (uint32_t d = 0; d < result->rank; d++)
      if (!result->sizes[d].id)
        return dt__infer_fail(ctx, DT_E_SHAPE, "result %u: size %u is none", k, d);
  }
  if (!external->items.id)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the number of items is none");
  DT_TRY(find_numbers(ctx->env, external, &numbers));
  if (numbers.n_syms != ctx->attrs->n_syms ||
      memcmp(numbers.syms, ctx->attrs->syms, numbers.n_syms * sizeof(numbers.syms[0])) != 0)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "it does not list the numbers of its sizes");
  ctx->rank = external->results[0].rank;
  memcpy(ctx->sizes, external->results[0].sizes, ctx->rank * sizeof(ctx->sizes[0]));
  return NULL;
}
