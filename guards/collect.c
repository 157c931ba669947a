// SPDX-License-Identifier: Apache-2.0
// Collects the guards of a graph: on its inputs, from the declarations of its symbols, and from the
// assumptions of tracing, without those that follow from others.
//
// Alignment of an input's data to its dtype needs no record: no tensor exists without it.
// collect_context.c has what depends on the call as a whole: modes and shared memory.
#include "guards/build.h"
#include "guards/modes.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static const dt_origin_t argument_origin = {.op = "argument"};
static const dt_origin_t declared_origin = {.op = "declared sizes"};

void dt__guard_put_input(const dt_guard_build_t *build, uint32_t k, dt_text_t *text) {
  const char *name = build->graph->inputs.items[k].name;
  if (name && name[0])
    dt__text_put(text, name);
  else
    dt__text_printf(text, "argument %u", k);
}

void dt__guard_put_order(uint32_t order, uint32_t rank, dt_text_t *out) {
  if (order == DT_ORDER_APART)
    dt__text_put(out, ", dims in no order");
  for (uint32_t k = 0; k < rank && order != DT_ORDER_APART; k++)
    dt__text_printf(out, k ? ", %u" : ", dims in memory as %u", dt__order_dim(order, k));
}

// ---- Inputs -------------------------------------------------------------------------------------
static dt_status_t header_guard(dt_guard_build_t *build, uint32_t k) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  // Numbers that calls bring stay where the host reads them.
  dt_device_t place = input->is_int ? DT_CPU : build->place;
  char where[32];
  uint32_t order = DT_ORDER_ROW_MAJOR;
  bool asked = dt__graph_input_order(build->graph, k, &order);
  int64_t key = dt__guard_key(input->dtype, place, input->rank, true) | dt__guard_key_order(order);
  int64_t mask = DT_GUARD_KEY_HEADER |
                 (input->contiguous && input->rank ? DT_GUARD_KEY_CONTIGUOUS : 0) |
                 (asked ? DT_GUARD_KEY_ORDER : 0);
  dt_guard_t g = {.kind = DT_GUARD_header, .input = (uint16_t)k, .a = key & mask, .b = mask};
  dt_text_t text;
  dt__text_init(&text);
  dt__guard_put_input(build, k, &text);
  dt__text_printf(&text, " is %s of rank %u on %s%s", dt_dtype_name(input->dtype), input->rank,
                  place == DT_CPU ? "the host" : dt__place_name(place, where, sizeof(where)),
                  input->contiguous && !input->is_int ? ", contiguous" : "");
  if (asked)
    dt__guard_put_order(order, input->rank, &text);
  return dt__guard_emit(build, g, &text, &argument_origin);
}

// Where a call brings an integer: a size, a stride or the element of an argument, or a capture.
typedef enum place_kind_t { SIZE, STRIDE, VALUE, CAPTURE, PLACE_KINDS } place_kind_t;
typedef struct place_t {
  place_kind_t kind;
  uint32_t index; // of the input or capture
  uint32_t dim;   // of a size or stride
} place_t;

// Record kinds by place and by what the graph says of it.
static const struct {
  uint8_t bind, literal, symbol, expression;
} kinds[PLACE_KINDS] = {
    [SIZE] = {DT_GUARD_bind_size, DT_GUARD_size_const, DT_GUARD_size_symbol, DT_GUARD_size_expr},
    [STRIDE] = {DT_GUARD_bind_stride, DT_GUARD_stride_const, DT_GUARD_stride_symbol,
                DT_GUARD_stride_expr},
    [VALUE] = {DT_GUARD_bind_value, DT_GUARD_value_const, DT_GUARD_value_symbol,
               DT_GUARD_value_expr},
    [CAPTURE] = {DT_GUARD_bind_capture, DT_GUARD_capture_const, DT_GUARD_capture_symbol,
                 DT_GUARD_capture_expr},
};

static dt_sym_t expected(const dt_guard_build_t *build, const place_t *place) {
  if (place->kind == CAPTURE)
    return build->graph->captures.items[place->index].value;
  const dt_graph_input_t *input = &build->graph->inputs.items[place->index];
  return place->kind == SIZE     ? input->sizes[place->dim]
         : place->kind == STRIDE ? input->strides[place->dim]
                                 : input->value;
}

static dt_guard_t record_of(const dt_guard_build_t *build, const place_t *place) {
  uint32_t dim = place->dim;
  if (place->kind == VALUE)
    dim = (uint32_t)build->graph->inputs.items[place->index].dtype;
  return (dt_guard_t){.input = (uint16_t)place->index, .dim = (uint8_t)dim};
}

// "ids.size(1)"; "ids.stride(1)"; the bare name of an integer argument or capture.
static void put_place(const dt_guard_build_t *build, const place_t *place, dt_text_t *text) {
  if (place->kind == CAPTURE) {
    const char *name = build->graph->captures.items[place->index].name;
    if (name && name[0])
      dt__text_put(text, name);
    else
      dt__text_printf(text, "capture %u", place->index);
    return;
  }
  dt__guard_put_input(build, place->index, text);
  if (place->kind != VALUE)
    dt__text_printf(text, place->kind == SIZE ? ".size(%u)" : ".stride(%u)", place->dim);
}

// Binds a symbol at its first occurrence as all of what is expected at a place.
static dt_status_t bind(dt_guard_build_t *build, const place_t *place) {
  uint32_t symbol = 0;
  dt_sym_t e = expected(build, place);
  if (!dt__sym_is_symbol(build->env, e, &symbol) || build->bound[symbol])
    return NULL;
  build->bound[symbol] = true;
  dt_guard_t g = record_of(build, place);
  g.kind = kinds[place->kind].bind;
  g.at = symbol;
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(build->env, e, &text);
  dt__text_put(&text, " = ");
  put_place(build, place, &text);
  return dt__guard_emit(build, g, &text, &argument_origin);
}

static bool is_bound_here(const dt_guard_build_t *build, const place_t *place, uint32_t symbol) {
  dt_guard_t here = record_of(build, place);
  for (uint32_t r = 0; r < build->records.len; r++) {
    const dt_guard_t *g = &build->records.items[r];
    if (g->kind == kinds[place->kind].bind && g->at == symbol)
      return g->input == here.input && g->dim == here.dim;
  }
  return false;
}

// What binds nothing is compared.
static dt_status_t compare(dt_guard_build_t *build, const place_t *place) {
  dt_sym_t e = expected(build, place);
  dt_guard_t g = record_of(build, place);
  uint32_t symbol = 0;
  if (dt__sym_is_const(build->env, e, &g.a)) {
    g.kind = kinds[place->kind].literal;
  } else if (dt__sym_is_symbol(build->env, e, &symbol)) {
    if (is_bound_here(build, place, symbol))
      return NULL;
    g.kind = kinds[place->kind].symbol;
    g.at = symbol;
  } else {
    g.kind = kinds[place->kind].expression;
    DT_TRY(dt__guard_compile(build, e, &g.at, &g.other));
  }
  dt_text_t text;
  dt__text_init(&text);
  put_place(build, place, &text);
  dt__text_put(&text, " == ");
  dt__sym_print(build->env, e, &text);
  return dt__guard_emit(build, g, &text, &argument_origin);
}

// By the header: contiguous, or without gaps in an order.
static bool strides_are_told(const dt_graph_t *graph, uint32_t k) {
  uint32_t order = DT_ORDER_APART;
  return graph->inputs.items[k].contiguous ||
         (dt__graph_input_order(graph, k, &order) && order != DT_ORDER_APART);
}

// Calls `visit` for every place of one kind.
static dt_status_t each_place(dt_guard_build_t *build, place_kind_t kind,
                              dt_status_t (*visit)(dt_guard_build_t *, const place_t *)) {
  const dt_graph_t *graph = build->graph;
  uint32_t n = kind == CAPTURE ? graph->captures.len : graph->inputs.len;
  for (uint32_t k = 0; k < n; k++) {
    const dt_graph_input_t *input = kind == CAPTURE ? NULL : &graph->inputs.items[k];
    uint32_t places = kind == CAPTURE  ? 1
                      : kind == VALUE  ? input->is_int
                      : kind == STRIDE ? (strides_are_told(build->graph, k) ? 0 : input->rank)
                                       : input->rank;
    for (uint32_t dim = 0; dim < places; dim++)
      DT_TRY(visit(build, &(place_t){.kind = kind, .index = k, .dim = dim}));
  }
  return NULL;
}

static dt_status_t check_integer(const dt_guard_build_t *build, uint32_t k) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  bool integer = dt__dtype_is_int(input->dtype) || dt__dtype_is_bool(input->dtype);
  if (input->is_int && (input->rank != 0 || !integer))
    return DT_FAIL(DT_E_INTERNAL, "guards: argument %u is no integer: %s of rank %u", k,
                   dt_dtype_name(input->dtype), input->rank);
  return NULL;
}

static dt_status_t input_guards(dt_guard_build_t *build) {
  const dt_graph_t *graph = build->graph;
  uint32_t most = graph->inputs.len > graph->captures.len ? graph->inputs.len : graph->captures.len;
  if (most > DT_GUARD_MAX_INPUTS)
    return DT_FAIL(DT_E_LIMIT, "guards: %u inputs or captures, the most is %u", most,
                   DT_GUARD_MAX_INPUTS);
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    DT_TRY(check_integer(build, k));
    DT_TRY(header_guard(build, k));
  }
  // All are bound first: an expression may use symbols that a later argument binds.
  for (place_kind_t kind = SIZE; kind < PLACE_KINDS; kind++)
    DT_TRY(each_place(build, kind, bind));
  for (place_kind_t kind = SIZE; kind < PLACE_KINDS; kind++)
    DT_TRY(each_place(build, kind, compare));
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
// checks say: what was declared of it. Of a dim that is marked unbacked that is how it was made:
// all else about it is the graph's to check, however it came to be known.
static dt_status_t declared_ranges(dt_guard_build_t *build, const dt_guard_cond_t *conds,
                                   uint32_t n_conds, dt_range_t *out) {
  dt_guard_facts_t facts;
  for (uint32_t k = 0; k < build->n_symbols; k++)
    out[k] = dt__symbol_info(build->env, k).made;
  DT_TRY(dt__guard_facts_init(&facts, &build->arena, build->env, out));
  for (uint32_t k = 0; k < n_conds; k++)
    dt__guard_facts_learn(&facts, conds[k].cond);
  for (uint32_t k = 0; k < build->graph->asserts.len; k++)
    dt__guard_facts_learn(&facts, build->graph->asserts.items[k].cond);
  for (uint32_t k = 0; k < build->n_symbols; k++) {
    dt_range_t said = dt__guard_facts_range(&facts, k);
    dt_range_t known = dt__symbol_info(build->env, k).range;
    bool unbacked = dt__symbol_info(build->env, k).kind == DT_SYMBOL_UNBACKED;
    if (unbacked || known.lo > known.hi)
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
    bool size = dt__symbol_info(build->env, k).kind != DT_SYMBOL_INT;
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
// A condition that may have no value is never implied, so saying it twice is looked for.
static bool said_before(const dt_guard_cond_t *conds, uint32_t k) {
  for (uint32_t j = 0; j < k; j++) {
    if (conds[j].cond.id == conds[k].cond.id)
      return true;
  }
  return false;
}

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
    if (said_before(conds, k) || dt__guard_facts_imply(&facts, conds[k].cond))
      continue;
    status = dt__guard_condition(build, conds[k].cond, &conds[k].origin);
    if (status)
      break;
    dt__guard_facts_learn(&facts, conds[k].cond);
  }
  dt__guard_facts_fini(&facts);
  return status;
}

static dt_status_t collect(dt_guard_build_t *build, const dt_guard_cond_t *conds, uint32_t n_conds,
                           const dt_guard_context_t *context) {
  dt_range_t *ranges = DT_ARENA_ARRAY(&build->arena, dt_range_t, build->n_symbols);
  build->bound = DT_ARENA_ARRAY(&build->arena, bool, build->n_symbols);
  if (!ranges || !build->bound)
    return DT_NO_MEMORY();
  (void)dt__guard_text(build, "");
  DT_TRY(input_guards(build));
  DT_TRY(dt__guard_collect_context(build, context));
  DT_TRY(check_all_bound(build));
  DT_TRY(declared_ranges(build, conds, n_conds, ranges));
  DT_TRY(range_guards(build, ranges));
  return condition_guards(build, conds, n_conds, ranges);
}

dt_status_t dt__guards_create(const dt_graph_t *graph, const dt_guard_cond_t *conds,
                              uint32_t n_conds, const dt_guard_context_t *context,
                              dt_guards_t **out) {
  *out = NULL;
  dt_guard_build_t build = {.graph = graph, .env = graph->env};
  dt__arena_init(&build.arena, 0);
  dt__text_init(&build.text);
  build.n_symbols = dt__symenv_symbol_count(graph->env);
  build.place = context ? dt__modes_place(context->modes & context->modes_mask) : DT_CPU;
  dt_status_t status = collect(&build, conds, n_conds, context);
  if (!status)
    status = dt__guard_assemble(&build, out);
  dt__text_fini(&build.text);
  dt__arena_fini(&build.arena);
  return status;
}
