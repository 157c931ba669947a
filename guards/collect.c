// SPDX-License-Identifier: Apache-2.0
// Collecting the guards of a graph: what its inputs look like, what was declared of its symbols,
// and what tracing assumed, less what follows from the rest.
//
// Alignment of an input's data to its dtype needs no record: no tensor exists without it.
#include "guards/build.h"

#include "runtime/base/status.h"

static const dt_origin_t argument_origin = {.op = "argument"};
static const dt_origin_t declared_origin = {.op = "declared sizes"};

static void put_input(const dt_guard_build_t *build, uint32_t k, dt_text_t *text) {
  const char *name = build->graph->inputs.items[k].name;
  if (name && name[0])
    dt__text_put(text, name);
  else
    dt__text_printf(text, "argument %u", k);
}

// ---- Inputs -------------------------------------------------------------------------------------
static dt_status_t header_guard(dt_guard_build_t *build, uint32_t k) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  // The device is the host: graphs hold no other inputs.
  int64_t mask = 0xffffff | (input->contiguous ? DT_GUARD_KEY_CONTIGUOUS : 0);
  dt_guard_t g = {.kind = DT_GUARD_header,
                  .input = (uint16_t)k,
                  .a = dt__guard_key(input->dtype, DT_CPU, input->rank, input->contiguous),
                  .b = mask};
  dt_text_t text;
  dt__text_init(&text);
  put_input(build, k, &text);
  dt__text_printf(&text, " is %s of rank %u on the host%s", dt_dtype_name(input->dtype),
                  input->rank, input->contiguous ? ", contiguous" : "");
  return dt__guard_emit(build, g, &text, &argument_origin);
}

// Binds a symbol at its first occurrence as a whole size or stride.
static dt_status_t bind(dt_guard_build_t *build, uint32_t k, uint32_t dim, bool stride) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  uint32_t symbol = 0;
  dt_sym_t e = stride ? input->strides[dim] : input->sizes[dim];
  if (!dt__sym_is_symbol(build->env, e, &symbol) || build->bound[symbol])
    return NULL;
  build->bound[symbol] = true;
  dt_guard_t g = {.kind = stride ? DT_GUARD_bind_stride : DT_GUARD_bind_size,
                  .input = (uint16_t)k,
                  .dim = (uint8_t)dim,
                  .at = symbol};
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(build->env, e, &text);
  dt__text_put(&text, " = ");
  put_input(build, k, &text);
  dt__text_printf(&text, stride ? ".stride(%u)" : ".size(%u)", dim);
  return dt__guard_emit(build, g, &text, &argument_origin);
}

static bool is_bound_here(const dt_guard_build_t *build, uint32_t k, uint32_t dim, bool stride,
                          uint32_t symbol) {
  for (uint32_t r = 0; r < build->records.len; r++) {
    const dt_guard_t *g = &build->records.items[r];
    if (g->kind == (stride ? DT_GUARD_bind_stride : DT_GUARD_bind_size) && g->at == symbol)
      return g->input == k && g->dim == dim;
  }
  return false;
}

// Every size and stride that binds nothing is compared.
static dt_status_t compare(dt_guard_build_t *build, uint32_t k, uint32_t dim, bool stride) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  dt_sym_t e = stride ? input->strides[dim] : input->sizes[dim];
  dt_guard_t g = {.input = (uint16_t)k, .dim = (uint8_t)dim};
  uint32_t symbol = 0;
  if (dt__sym_is_const(build->env, e, &g.a)) {
    g.kind = stride ? DT_GUARD_stride_const : DT_GUARD_size_const;
  } else if (dt__sym_is_symbol(build->env, e, &symbol)) {
    if (is_bound_here(build, k, dim, stride, symbol))
      return NULL;
    g.kind = stride ? DT_GUARD_stride_symbol : DT_GUARD_size_symbol;
    g.at = symbol;
  } else {
    g.kind = stride ? DT_GUARD_stride_expr : DT_GUARD_size_expr;
    DT_TRY(dt__guard_compile(build, e, &g.at, &g.other));
  }
  dt_text_t text;
  dt__text_init(&text);
  put_input(build, k, &text);
  dt__text_printf(&text, stride ? ".stride(%u) == " : ".size(%u) == ", dim);
  dt__sym_print(build->env, e, &text);
  return dt__guard_emit(build, g, &text, &argument_origin);
}

static dt_status_t input_guards(dt_guard_build_t *build) {
  const dt_graph_t *graph = build->graph;
  if (graph->inputs.len > DT_GUARD_MAX_INPUTS)
    return DT_FAIL(DT_E_LIMIT, "guards: %u inputs, the most is %u", graph->inputs.len,
                   DT_GUARD_MAX_INPUTS);
  // Sizes of all inputs first: an expression may use symbols that a later input binds.
  for (uint32_t stride = 0; stride < 2; stride++) {
    for (uint32_t k = 0; k < graph->inputs.len; k++) {
      const dt_graph_input_t *input = &graph->inputs.items[k];
      for (uint32_t dim = 0; dim < input->rank && !(stride && input->contiguous); dim++)
        DT_TRY(bind(build, k, dim, stride));
    }
  }
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    const dt_graph_input_t *input = &graph->inputs.items[k];
    DT_TRY(header_guard(build, k));
    for (uint32_t dim = 0; dim < input->rank; dim++) {
      DT_TRY(compare(build, k, dim, false));
      if (!input->contiguous)
        DT_TRY(compare(build, k, dim, true));
    }
  }
  return NULL;
}

// ---- Symbols ------------------------------------------------------------------------------------
static dt_status_t check_all_bound(const dt_guard_build_t *build) {
  for (uint32_t k = 0; k < build->n_symbols; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(build->env, k).kind;
    if (kind == DT_SYMBOL_SIZE || kind == DT_SYMBOL_INT)
      DT_TRY(dt__guard_check_bound(build, dt__symbol_sym(build->env, k), "the graph"));
  }
  return NULL;
}

// The part of what is known of a symbol's value that neither the conditions nor the graph's own
// checks say: what was declared of it.
static dt_status_t declared_ranges(dt_guard_build_t *build, const dt_guard_cond_t *conds,
                                   uint32_t n_conds, dt_range_t *out) {
  dt_guard_facts_t facts;
  DT_TRY(dt__guard_facts_init(&facts, &build->arena, build->env, NULL));
  for (uint32_t k = 0; k < build->n_symbols; k++)
    out[k] = dt__guard_facts_range(&facts, k);
  for (uint32_t k = 0; k < n_conds; k++)
    dt__guard_facts_learn(&facts, conds[k].cond);
  for (uint32_t k = 0; k < build->graph->asserts.len; k++)
    dt__guard_facts_learn(&facts, build->graph->asserts.items[k].cond);
  for (uint32_t k = 0; k < build->n_symbols; k++) {
    dt_range_t said = dt__guard_facts_range(&facts, k);
    dt_range_t known = dt__symbol_info(build->env, k).range;
    if (known.lo > known.hi)
      continue;
    if (known.lo > said.lo)
      out[k].lo = known.lo;
    if (known.hi < said.hi)
      out[k].hi = known.hi;
  }
  dt__guard_facts_fini(&facts);
  return NULL;
}

static void put_range(dt_guard_build_t *build, uint32_t symbol, dt_range_t range, bool has_lo,
                      bool has_hi, dt_text_t *text) {
  if (has_lo)
    dt__text_printf(text, "%lld <= ", (long long)range.lo);
  dt__sym_print(build->env, dt__symbol_sym(build->env, symbol), text);
  if (has_hi)
    dt__text_printf(text, " <= %lld", (long long)range.hi);
}

static dt_status_t range_guards(dt_guard_build_t *build, const dt_range_t *ranges) {
  for (uint32_t k = 0; k < build->n_symbols; k++) {
    if (!build->bound[k])
      continue;
    bool size = dt__symbol_info(build->env, k).kind == DT_SYMBOL_SIZE;
    bool has_lo = ranges[k].lo > (size ? 0 : INT64_MIN);
    bool has_hi = ranges[k].hi < (size ? DT_SIZE_LIMIT - 1 : INT64_MAX);
    if (!has_lo && !has_hi)
      continue;
    dt_guard_t g = {.kind = DT_GUARD_symbol_range, .at = k, .a = ranges[k].lo, .b = ranges[k].hi};
    dt_text_t text;
    dt__text_init(&text);
    put_range(build, k, ranges[k], has_lo, has_hi, &text);
    DT_TRY(dt__guard_emit(build, g, &text, &declared_origin));
  }
  return NULL;
}

// ---- Conditions ---------------------------------------------------------------------------------
// In the order they were assumed: one that follows from the declared ranges and those kept before
// it is dropped. One that contradicts them is kept: such a variant answers no call.
static dt_status_t condition_guards(dt_guard_build_t *build, const dt_guard_cond_t *conds,
                                    uint32_t n_conds, const dt_range_t *ranges) {
  dt_guard_facts_t facts;
  DT_TRY(dt__guard_facts_init(&facts, &build->arena, build->env, ranges));
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < n_conds; k++) {
    status = dt__guard_check_bound(build, conds[k].cond, "a condition");
    if (status)
      break;
    if (dt__guard_facts_imply(&facts, conds[k].cond))
      continue;
    status = dt__guard_condition(build, conds[k].cond, &conds[k].origin);
    if (status)
      break;
    dt__guard_facts_learn(&facts, conds[k].cond);
  }
  dt__guard_facts_fini(&facts);
  return status;
}

static dt_status_t collect(dt_guard_build_t *build, const dt_guard_cond_t *conds,
                           uint32_t n_conds) {
  dt_range_t *ranges = DT_ARENA_ARRAY(&build->arena, dt_range_t, build->n_symbols);
  build->bound = DT_ARENA_ARRAY(&build->arena, bool, build->n_symbols);
  if (!ranges || !build->bound)
    return DT_NO_MEMORY();
  (void)dt__guard_text(build, "");
  DT_TRY(input_guards(build));
  DT_TRY(check_all_bound(build));
  DT_TRY(declared_ranges(build, conds, n_conds, ranges));
  DT_TRY(range_guards(build, ranges));
  return condition_guards(build, conds, n_conds, ranges);
}

dt_status_t dt__guards_create(const dt_graph_t *graph, const dt_guard_cond_t *conds,
                              uint32_t n_conds, dt_guards_t **out) {
  *out = NULL;
  dt_guard_build_t build = {.graph = graph, .env = graph->env};
  dt__arena_init(&build.arena, 0);
  dt__text_init(&build.text);
  build.n_symbols = dt__symenv_symbol_count(graph->env);
  dt_status_t status = collect(&build, conds, n_conds);
  if (!status)
    status = dt__guard_assemble(&build, out);
  dt__text_fini(&build.text);
  dt__arena_fini(&build.arena);
  return status;
}
