// SPDX-License-Identifier: Apache-2.0
// Declared inputs in the graph: symbols, literals, expressions, layouts, and integers that calls
// pass. After the program has run, checks that dims that are declared dynamic are so.
#include "runtime/trace/builder.h"

#include "ductile/function.h"
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/trace/declare.h"

#include <stdio.h>
#include <string.h>

#define MOST_FACTS 64

static const dt_origin_t declared_origin = {.op = "declared sizes"};

// Sizes as they are made, by input and dim.
typedef struct declare_t {
  dt_trace_t *trace;
  const dt_trace_request_t *request;
  dt_sym_t (*sizes)[DT_MAX_RANK];
} declare_t;

// ---- Declared facts -----------------------------------------------------------------------------
// What a call is checked for by the guards, whatever the program asks. Declarations may ask for
// more than any size is.
static dt_status_t declare_fact(const declare_t *declare, uint32_t k, uint32_t d, dt_sym_t cond) {
  dt_trace_t *trace = declare->trace;
  if (!cond.id)
    return dt__symenv_status(trace->env);
  if (dt__sym_known(trace->env, cond) == DT_TRUE)
    return NULL;
  dt_guard_cond_t item = {.cond = cond, .origin = declared_origin};
  if (!DT_VEC_PUSH(&trace->traced->arena, &trace->traced->conds, item))
    return DT_NO_MEMORY();
  dt_status_t status = dt__sym_learn(trace->env, cond);
  if (dt_status_code(status) != DT_E_INTERNAL)
    return status;
  dt_status_free(status);
  dt_range_t range = dt__dim_range(declare->request, dt__dim_leader(declare->request, k, d));
  int64_t divisor = dt__dim_decl(declare->request, k, d)->multiple_of;
  return DT_FAIL(DT_E_ARGUMENT,
                 "%s: no size of %lld to %lld is a multiple of %lld and all else that is declared "
                 "of dims of its name and of those that it derives from",
                 dt__dim_label(declare->request, k, d).text, (long long)range.lo,
                 (long long)range.hi, (long long)(divisor ? divisor : 1));
}

// Each dim of the name says for itself what its size is a multiple of.
static dt_status_t declare_divisor(const declare_t *declare, uint32_t k, uint32_t d) {
  int64_t divisor = dt__dim_decl(declare->request, k, d)->multiple_of;
  dt_symenv_t *env = declare->trace->env;
  if (divisor <= 1)
    return NULL;
  dt_sym_t rest = dt__sym_mod(env, declare->sizes[k][d], dt__sym_const(env, divisor));
  return declare_fact(declare, k, d, dt__sym_eq(env, rest, dt__sym_const(env, 0)));
}

// ---- Sizes --------------------------------------------------------------------------------------
static bool wants_literal(const dt_trace_request_t *request, uint32_t k, uint32_t d,
                          int64_t value) {
  const dt_trace_policy_t *policy = request->policy;
  return policy && policy->literal && policy->literal(policy->user, k, d, value);
}

// The size of a dim that leads its name and derives from nothing.
static dt_status_t make_size(const declare_t *declare, dt_dim_at_t at, const dt_dim_facts_t *facts,
                             dt_sym_t *out) {
  const dt_trace_request_t *request = declare->request;
  const dt_dim_decl_t *dim = dt__dim_decl(request, at.input, at.dim);
  dt_symenv_t *env = declare->trace->env;
  const int64_t *size = request->example ? &request->example[at.input]->sizes[at.dim] : NULL;
  bool literal = facts->mark == DT_MARK_STATIC;
  if (facts->is_static) {
    *out = dt__sym_const(env, facts->range.lo);
    return NULL;
  }
  if (literal && !size)
    return DT_FAIL(DT_E_STATE,
                   "%s is marked static: its size is known at a call only; compile by a "
                   "call, or declare the size itself (is_static, value)",
                   dt__dim_label(request, at.input, at.dim).text);
  if (facts->mark == DT_MARK_NONE && size)
    literal = wants_literal(request, at.input, at.dim, *size);
  if (literal) {
    *out = dt__sym_const(env, *size);
    return NULL;
  }
  bool unbacked = facts->mark == DT_MARK_UNBACKED;
  dt_label_t name = dt__part_label(request, at.input, "size", at.dim);
  *out = dt__sym_new(env, unbacked ? DT_SYMBOL_UNBACKED : DT_SYMBOL_SIZE, facts->range,
                     unbacked || request->no_hints ? NULL : size,
                     dt__dim_is_named(dim) ? dim->name : name.text);
  return NULL;
}

// A size that derives from another, which is made by now.
static dt_status_t derive_size(const declare_t *declare, dt_dim_at_t at,
                               const dt_dim_facts_t *facts, dt_sym_t *out) {
  dt_symenv_t *env = declare->trace->env;
  dt_sym_t of = declare->sizes[facts->of.input][facts->of.dim];
  *out = dt__sym_add(env, dt__sym_mul(env, dt__sym_const(env, facts->scale), of),
                     dt__sym_const(env, facts->offset));
  dt_sym_t least = dt__sym_const(env, facts->range.lo), most = dt__sym_const(env, facts->range.hi);
  DT_TRY(declare_fact(declare, at.input, at.dim, dt__sym_le(env, least, *out)));
  return declare_fact(declare, at.input, at.dim, dt__sym_le(env, *out, most));
}

// Ends at a dim that derives from nothing: dims that derive from themselves are refused.
static dt_status_t size_of(const declare_t *declare, uint32_t k, uint32_t d) {
  dt_sym_t *size = &declare->sizes[k][d];
  if (size->id)
    return NULL;
  dt_dim_at_t leader = dt__dim_leader(declare->request, k, d);
  if (leader.input != k || leader.dim != d) {
    DT_TRY(size_of(declare, leader.input, leader.dim));
    *size = declare->sizes[leader.input][leader.dim];
    return NULL;
  }
  dt_dim_facts_t facts = dt__dim_facts(declare->request, k, d);
  if (!facts.derived)
    return make_size(declare, leader, &facts, size);
  DT_TRY(size_of(declare, facts.of.input, facts.of.dim));
  return derive_size(declare, leader, &facts, size);
}

// ---- Layout -------------------------------------------------------------------------------------
// Without gaps, in this order.
static void make_dense(dt_symenv_t *env, uint32_t order, dt_graph_input_t *input) {
  dt_sym_t stride = dt__sym_const(env, 1);
  for (uint32_t place = input->rank; place-- > 0;) {
    uint32_t d = dt__order_dim(order, place);
    input->strides[d] = stride;
    stride = dt__sym_mul(env, stride, input->sizes[d]);
  }
}

bool dt__layout_has_gaps(uint32_t layout, dt_dtype_t dtype, uint32_t rank) {
  return rank >= (layout == DT_PREPARE_STRIDED ? 1U : 2U) && layout != DT_PREPARE_CONTIGUOUS &&
         !dt__dtype_is_packed(dtype);
}

static void make_strides(dt_trace_t *trace, const dt_trace_request_t *request, uint32_t k,
                         dt_graph_input_t *input) {
  const dt_tensor_t *example = request->example ? request->example[k] : NULL;
  dt_symenv_t *env = trace->env;
  bool told = example && example->order != DT_ORDER_APART && dt__trace_order_is_asked(request, k);
  input->contiguous = example ? dt__tensor_is_contiguous(example)
                              : !dt__layout_has_gaps(request->layout, input->dtype, input->rank);
  if (told && example->order != DT_ORDER_ROW_MAJOR) {
    input->contiguous = false; // it is by its sizes alone, and those may change
    make_dense(env, example->order, input);
    return;
  }
  bool inner = example ? example->rank && example->strides[example->rank - 1] != 1
                       : request->layout == DT_PREPARE_STRIDED;
  dt_sym_t stride = dt__sym_const(env, 1);
  for (uint32_t d = input->rank; d-- > 0;) {
    input->strides[d] = stride;
    if (input->contiguous) {
      stride = dt__sym_mul(env, stride, input->sizes[d]);
    } else if (d + 1 < input->rank || inner) {
      dt_label_t name = dt__part_label(request, k, "stride", d);
      bool hinted = example && !request->no_hints;
      input->strides[d] = dt__sym_new(env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX},
                                      hinted ? &example->strides[d] : NULL, name.text);
    }
  }
}

// ---- Integers -----------------------------------------------------------------------------------
int64_t dt__int_argument(const dt_tensor_t *tensor) {
  const void *data = tensor->data;
  switch (tensor->dtype) {
  case DT_BOOL:
    return *(const uint8_t *)data != 0;
  case DT_I8:
    return *(const int8_t *)data;
  case DT_I16:
    return *(const int16_t *)data;
  case DT_I32:
    return *(const int32_t *)data;
  case DT_U8:
    return *(const uint8_t *)data;
  case DT_U16:
    return *(const uint16_t *)data;
  case DT_U32:
    return *(const uint32_t *)data;
  default: // declarations admit I64 and no other
    return *(const int64_t *)data;
  }
}

// What its dtype alone says of a value.
static dt_range_t int_range(dt_dtype_t dtype) {
  dt_dtype_bounds_t bounds = dt__dtype_bounds(dtype);
  return (dt_range_t){bounds.low, bounds.high};
}

static dt_status_t declare_int(dt_trace_t *trace, const dt_trace_request_t *request, uint32_t k,
                               dt_graph_input_t *input, dt_node_id_t *out) {
  int64_t value = request->example ? dt__int_argument(request->example[k]) : 0;
  const int64_t *hint = request->example && !request->no_hints ? &value : NULL;
  input->is_int = true;
  if (request->example && wants_literal(request, k, 0, value)) {
    input->value = dt__sym_const(trace->env, value);
  } else {
    dt_label_t name = dt__input_label(request, k);
    input->value = dt__sym_new(trace->env, DT_SYMBOL_INT, int_range(input->dtype), hint,
                               input->name[0] ? input->name : name.text);
  }
  trace->inputs[k].value = input->value;
  DT_TRY(dt__symenv_status(trace->env));
  DT_TRY(dt__graph_declare_input(trace->graph, input));
  dt_origin_t origin = {.op = "argument", .file = ""};
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] = input->value;
  DT_TRY(dt__graph_add(trace->graph, DT_OP_size, NULL, 0, &attrs, &origin, out));
  if (input->dtype != DT_BOOL)
    return NULL;
  attrs = (dt_attrs_t){0};
  attrs.dtype = DT_BOOL;
  return dt__graph_add(trace->graph, DT_OP_cast, out, 1, &attrs, &origin, out);
}

// ---- All inputs ---------------------------------------------------------------------------------
static dt_status_t declare_input(const declare_t *declare, uint32_t k, dt_node_id_t *out) {
  dt_trace_t *trace = declare->trace;
  const dt_input_decl_t *decl = &declare->request->inputs[k];
  dt_graph_input_t input = {.name = decl->name ? decl->name : "",
                            .dtype = decl->dtype,
                            .rank = decl->rank,
                            .align = decl->alignment,
                            .donated = decl->kind == DT_INPUT_DONATED};
  memcpy(input.sizes, declare->sizes[k], decl->rank * sizeof(input.sizes[0]));
  make_strides(trace, declare->request, k, &input);
  DT_TRY(dt__symenv_status(trace->env));
  if (decl->kind == DT_INPUT_INTEGERS)
    return DT_FAIL(DT_E_INTERNAL, "%s: integers that are not spread",
                   dt__input_label(declare->request, k).text);
  if (!dt__is_tensor_kind(decl->kind))
    return declare_int(trace, declare->request, k, &input, out);
  return dt__graph_add_input(trace->graph, &input, out);
}

dt_status_t dt__trace_declare(dt_trace_t *trace, const dt_trace_request_t *request,
                              dt_value_t *out) {
  declare_t declare = {.trace = trace, .request = request};
  declare.sizes =
      dt__arena_alloc(&trace->traced->arena, request->n_inputs * sizeof(*declare.sizes));
  trace->inputs = DT_ARENA_ARRAY(&trace->traced->arena, dt_trace_input_t, request->n_inputs);
  if (!declare.sizes || !trace->inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    dt_node_id_t id = {0};
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      DT_TRY(size_of(&declare, k, d));
      DT_TRY(dt__symenv_status(trace->env));
    }
    DT_TRY(declare_input(&declare, k, &id));
    out[k] = dt__trace_value(trace, id);
    if (dt__is_tensor_kind(request->inputs[k].kind))
      out[k].trace |= DT_TRACE_ARGUMENT;
    trace->inputs[k].handle = out[k];
  }
  // Last, so that symbols are numbered as the inputs stand.
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++)
      DT_TRY(declare_divisor(&declare, k, d));
  }
  return dt__symenv_status(trace->env);
}

// ---- Dims that are declared dynamic -------------------------------------------------------------
// Who fixed the symbol: what the environment says, else the last that asked about it.
static dt_origin_t find_culprit(const dt_trace_t *trace, uint32_t symbol) {
  dt_sym_fact_t facts[MOST_FACTS];
  uint32_t n = dt__symbol_facts(trace->env, symbol, facts, MOST_FACTS);
  for (uint32_t k = n < MOST_FACTS ? n : MOST_FACTS; k-- > 0;) {
    if (facts[k].origin.op)
      return facts[k].origin;
  }
  dt_sym_t plain = dt__symbol_sym(trace->env, symbol);
  for (uint32_t k = trace->traced->conds.len; k-- > 0;) {
    if (dt__sym_depends(trace->env, trace->traced->conds.items[k].cond, plain))
      return trace->traced->conds.items[k].origin;
  }
  for (uint32_t k = trace->graph->asserts.len; k-- > 0;) {
    if (dt__sym_depends(trace->env, trace->graph->asserts.items[k].cond, plain))
      return trace->graph->asserts.items[k].origin;
  }
  return (dt_origin_t){.op = "the program"};
}

static dt_status_t check_mark(const dt_trace_t *trace, uint32_t k, uint32_t d) {
  const dt_trace_request_t *request = trace->request;
  dt_sym_t size = trace->graph->inputs.items[k].sizes[d];
  uint32_t symbol = 0;
  int64_t value = 0;
  if (dt__dim_facts(request, k, d).mark != DT_MARK_DYNAMIC ||
      !dt__sym_is_symbol(trace->env, size, &symbol))
    return NULL;
  dt_sym_t now = dt__sym_simplify(trace->env, size);
  if (!now.id || !dt__sym_is_const(trace->env, now, &value))
    return NULL;
  dt_origin_t origin = find_culprit(trace, symbol);
  char place[160] = "";
  if (origin.file && origin.file[0])
    (void)snprintf(place, sizeof(place), " (%.120s:%d)", origin.file, origin.line);
  return DT_FAIL(DT_E_SHAPE,
                 "%s is marked dynamic, but %s%s needs %s == %lld: make the program serve all "
                 "sizes, declare the size static, or mark the dim maybe-dynamic",
                 dt__dim_label(request, k, d).text, origin.op ? origin.op : "the program", place,
                 dt__part_label(request, k, "size", d).text, (long long)value);
}

dt_status_t dt__trace_check_marks(dt_trace_t *trace) {
  const dt_trace_request_t *request = trace->request;
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; request->inputs[k].dims && d < request->inputs[k].rank; d++)
      DT_TRY(check_mark(trace, k, d));
  }
  return NULL;
}
