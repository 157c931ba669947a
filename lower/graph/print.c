// SPDX-License-Identifier: Apache-2.0
// Graphs as text. Expressions are simplified with all that the environment has learned, so that the
// text needs none of it. The grammar, which parse.c reads:
//
//   graph    graph (SYMBOL, …) { LINE … }
//   SYMBOL   s0: [LO, HI] hint 5 "what binds it"            hint and string may be absent
//   LINE     [%N =] input "name" f32[s0, 4] strides [4, 1] contiguous align 64
//            input "name" i64[] strides [] contiguous value [n1]  an integer argument: no leaf
//            capture "name" [n2]
//            [%N =] constant "name" f32[2] key 7 data [1, 2.5]
//            %N = OP %A, %B {KEY = VALUE, …} : f32[s0, 4]
//            %N = cond %P, %A, … then BODY else BODY : bool[]
//            %N = while %A, … test BODY body BODY : bool[]
//            %N = call %A, … body BODY : bool[], or … again %M, where call %M has this body
//            %N = external %A, … "domain.name" "identity" kernel with {int axis 3, …} items [s0]
//                 gives [f32[s0, 4], …] : f32[s0, 4]     a call of a user's op, or of its `numbers`
//            assert COND "what"                          and "code N" where it is not DT_E_SHAPE
//            update INPUT %N                      what the call writes into input number INPUT
//            return %N, …
//   BODY     { LINE … }                   with values of its own; its inputs are the operands
//
// Inputs and constants are declared in their order; `%N = input {index = 0} : …` is one more leaf
// of a declared one, and a declaration without `%N =` has no leaf at that place.
#include "lower/graph/external.h"
#include "lower/graph/infer.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Data of constants up to this many elements is always printed.
#define FEW_DATA 64

static void put_float(dt_text_t *out, dt_dtype_t dtype, double value) {
  // The shortest of these precisions that reads back as the same number of `dtype`.
  char buf[40];
  static const int precisions[] = {6, 9, 17};
  int precision = 17;
  for (size_t k = 0; k < sizeof(precisions) / sizeof(precisions[0]); k++) {
    (void)snprintf(buf, sizeof(buf), "%.*g", precisions[k], value);
    double back = strtod(buf, NULL);
    if (dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = back}).f == value) {
      precision = precisions[k];
      break;
    }
  }
  dt__text_printf(out, "%.*g", precision, value);
}

void dt__print_sizes(const dt_symenv_t *env, uint32_t rank, const dt_sym_t *sizes, dt_text_t *out) {
  dt__text_put(out, "[");
  for (uint32_t k = 0; k < rank; k++) {
    dt__text_put(out, k ? ", " : "");
    dt__sym_print(env, sizes[k], out);
  }
  dt__text_put(out, "]");
}

void dt__print_name(const dt_graph_t *graph, dt_node_id_t id, dt_text_t *out) {
  const dt_node_t *node = dt__graph_node(graph, id);
  const char *name = "";
  if (node->op == DT_OP_input)
    name = graph->inputs.items[node->attrs->index].name;
  else if (node->op == DT_OP_constant)
    name = graph->constants.items[node->attrs->index].name;
  if (name[0])
    dt__text_put(out, name);
  else
    dt__text_printf(out, "%%%u", id.id);
}

// Simplified sizes.
static void put_sizes(const dt_graph_t *graph, uint32_t n, const dt_sym_t *sizes, dt_text_t *out) {
  dt_sym_t simple[2 * DT_MAX_RANK];
  for (uint32_t k = 0; k < n; k++)
    simple[k] = dt__sym_simplify(graph->env, sizes[k]);
  dt__print_sizes(graph->env, n, simple, out);
}

static void put_value(dt_text_t *out, dt_dtype_t dtype, dt_scalar_t value) {
  if (dt__dtype_is_float(dtype))
    put_float(out, dtype, value.f);
  else
    dt__text_printf(out, "%lld", (long long)value.i);
}

// ---- Declarations -------------------------------------------------------------------------------
static void put_symbols(const dt_graph_t *graph, dt_text_t *out) {
  uint32_t n = dt__symenv_symbol_count(graph->env);
  const char *separator = "";
  dt__text_put(out, "graph (");
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(graph->env, k);
    // Loop variables and loaded indices belong to loops, and come after all that a graph names.
    if (info.kind == DT_SYMBOL_LOOP || info.kind == DT_SYMBOL_DATA)
      continue;
    dt__text_put(out, separator);
    dt__sym_print(graph->env, dt__symbol_sym(graph->env, k), out);
    dt__text_printf(out, ": [%lld, %lld]", (long long)info.range.lo, (long long)info.range.hi);
    if (info.has_hint)
      dt__text_printf(out, " hint %lld", (long long)info.hint);
    if (info.name && info.name[0]) {
      dt__text_put(out, " ");
      dt__text_quote(out, info.name, SIZE_MAX);
    }
    separator = ", ";
  }
  dt__text_put(out, ") {\n");
}

static void put_input(const dt_graph_t *graph, uint32_t index, int64_t most, dt_text_t *out) {
  (void)most;
  const dt_graph_input_t *input = &graph->inputs.items[index];
  dt__text_put(out, "input ");
  dt__text_quote(out, input->name, SIZE_MAX);
  dt__text_printf(out, " %s", dt_dtype_name(input->dtype));
  put_sizes(graph, input->rank, input->sizes, out);
  dt__text_put(out, " strides ");
  put_sizes(graph, input->rank, input->strides, out);
  if (input->contiguous)
    dt__text_put(out, " contiguous");
  if (input->align)
    dt__text_printf(out, " align %u", input->align);
  if (input->donated)
    dt__text_put(out, " donated");
  if (input->is_int) {
    dt__text_put(out, " value ");
    put_sizes(graph, 1, &input->value, out);
  }
  dt__text_put(out, "\n");
}

static void put_captures(const dt_graph_t *graph, dt_text_t *out) {
  for (uint32_t k = 0; k < graph->captures.len; k++) {
    dt__text_put(out, "  capture ");
    dt__text_quote(out, graph->captures.items[k].name, SIZE_MAX);
    dt__text_put(out, " ");
    put_sizes(graph, 1, &graph->captures.items[k].value, out);
    dt__text_put(out, "\n");
  }
}

static void put_constant(const dt_graph_t *graph, uint32_t index, int64_t most, dt_text_t *out) {
  const dt_graph_constant_t *constant = &graph->constants.items[index];
  int64_t count = 1;
  dt__text_put(out, "constant ");
  dt__text_quote(out, constant->name, SIZE_MAX);
  dt__text_printf(out, " %s[", dt_dtype_name(constant->dtype));
  for (uint32_t k = 0; k < constant->rank; k++) {
    dt__text_printf(out, k ? ", %lld" : "%lld", (long long)constant->sizes[k]);
    count = constant->sizes[k] == 0 || count == 0 ? 0 : count * constant->sizes[k];
  }
  dt__text_printf(out, "] key %lld", (long long)constant->key);
  if (count > 0 && count <= most) {
    const char *data = constant->data;
    int64_t row = constant->rank ? constant->sizes[constant->rank - 1] : 1;
    dt__text_put(out, " data [");
    for (int64_t k = 0; k < count; k++) {
      dt__text_put(out, k ? ", " : "");
      put_value(out, constant->dtype, dt__element_load(constant->dtype, data, row, k));
    }
    dt__text_put(out, "]");
  }
  dt__text_put(out, "\n");
}

// ---- Nodes --------------------------------------------------------------------------------------
static void key(dt_text_t *out, bool *any, const char *name) {
  dt__text_printf(out, "%s%s = ", *any ? ", " : " {", name);
  *any = true;
}

static void put_attrs(const dt_graph_t *graph, const dt_node_t *node, dt_text_t *out) {
  const dt_attrs_t *attrs = node->attrs;
  uint32_t mask = node->op == DT_OP_external ? 0 : dt__op_attrs(node->op); // printed behind
  if (dt__op_is_control(node->op))
    mask &= ~(uint32_t)DT_ATTR_INDEX;
  bool any = false;
  if (mask & DT_ATTR_INDEX) {
    key(out, &any, "index");
    dt__text_printf(out, "%u", attrs->index);
  }
  if (mask & DT_ATTR_DTYPE) {
    key(out, &any, "dtype");
    dt__text_put(out, dt_dtype_name(attrs->dtype));
  }
  if (mask & DT_ATTR_AXES) {
    key(out, &any, "axes");
    dt__text_put(out, "[");
    for (uint32_t k = 0; k < attrs->n_axes; k++)
      dt__text_printf(out, k ? ", %d" : "%d", attrs->axes[k]);
    dt__text_put(out, "]");
  }
  if (mask & DT_ATTR_N_AXES) {
    key(out, &any, "n_axes");
    dt__text_printf(out, "%u", attrs->n_axes);
  }
  if (mask & DT_ATTR_KEEPDIMS) {
    key(out, &any, "keepdims");
    dt__text_printf(out, "%u", attrs->keepdims);
  }
  if (mask & DT_ATTR_MODE && (attrs->mode || node->op != DT_OP_cast)) {
    key(out, &any, "mode");
    dt__text_printf(out, "%u", attrs->mode);
  }
  if (mask & DT_ATTR_SYMS) {
    key(out, &any, "syms");
    if (mask & DT_ATTR_BINDS)
      dt__print_sizes(graph->env, attrs->n_syms, attrs->syms, out);
    else
      put_sizes(graph, attrs->n_syms, attrs->syms, out);
  }
  if (mask & DT_ATTR_STEPS) {
    key(out, &any, "steps");
    dt__text_put(out, "[");
    for (uint32_t k = 0; k < node->rank; k++)
      dt__text_printf(out, k ? ", %lld" : "%lld", (long long)attrs->ints[k]);
    dt__text_put(out, "]");
  }
  if (mask & DT_ATTR_VALUE) {
    key(out, &any, "value");
    dt_scalar_t value = {.i = attrs->ints[0]};
    if (dt__dtype_is_float(node->dtype))
      value.f = attrs->floats[0];
    put_value(out, node->dtype, value);
  }
  if (mask & DT_ATTR_EPSILON) {
    key(out, &any, "epsilon");
    put_float(out, dt__dtype_computed(node->dtype), attrs->floats[0]);
  }
  dt__text_put(out, any ? "}" : "");
}

// " order [0, 2, 3, 1] like 0"; nothing for one that is row-major anyway.
static void put_order(const dt_graph_t *graph, uint32_t index, dt_text_t *out) {
  const dt_graph_order_t *order = dt__graph_order(graph, index);
  uint32_t rank = dt__graph_node(graph, graph->outputs.items[index])->rank;
  bool moved = false;
  for (uint32_t k = 0; order && k < rank; k++)
    moved = moved || order->dims[k] != k;
  if (!order || (!moved && !order->like))
    return;
  dt__text_put(out, " order [");
  for (uint32_t k = 0; k < rank; k++)
    dt__text_printf(out, k ? ", %u" : "%u", order->dims[k]);
  dt__text_put(out, "]");
  if (order->like)
    dt__text_printf(out, " like %u", order->like - 1);
}

static void put_lines(const dt_graph_t *graph, int64_t most, dt_text_t *out);

static void put_body(const dt_graph_t *body, const char *name, dt_text_t *out) {
  dt_text_t lines;
  dt__text_init(&lines);
  put_lines(body, FEW_DATA, &lines);
  dt__text_printf(out, " %s {\n", name);
  for (const char *at = dt__text_str(&lines); *at;) {
    size_t len = strcspn(at, "\n");
    dt__text_put(out, "  ");
    dt__text_write(out, at, len);
    dt__text_put(out, "\n");
    at += len + (at[len] == '\n');
  }
  dt__text_put(out, "  }");
  out->failed |= lines.failed;
  dt__text_fini(&lines);
}

static void put_external(const dt_graph_t *graph, const dt_graph_external_t *external,
                         dt_text_t *out) {
  dt__text_put(out, " ");
  dt__text_quote(out, external->name, SIZE_MAX);
  dt__text_put(out, " ");
  dt__text_quote(out, external->identity, SIZE_MAX);
  dt__text_put(out, external->part == DT_EXTERNAL_NUMBERS ? " numbers" : " kernel");
  dt__text_put(out, " with {");
  dt__attrs_print(external->attrs, external->n_attrs, out);
  dt__text_put(out, "} items ");
  put_sizes(graph, 1, &external->items, out);
  dt__text_put(out, " gives [");
  for (uint32_t k = 0; k < external->n_results; k++) {
    const dt_external_result_t *result = &external->results[k];
    dt__text_printf(out, k ? ", %s" : "%s", dt_dtype_name(result->dtype));
    put_sizes(graph, result->rank, result->sizes, out);
  }
  dt__text_put(out, "]");
}

// The call before node `id` that has its body; 0: none.
static uint32_t call_before(const dt_graph_t *graph, uint32_t id) {
  const dt_graph_control_t *own = dt__graph_control(graph, &graph->nodes.items[id - 1]);
  for (uint32_t k = id - 1; own->same && k > 0; k--) {
    const dt_node_t *node = &graph->nodes.items[k - 1];
    if (node->op == DT_OP_call && dt__graph_control(graph, node)->bodies[0] == own->bodies[0])
      return k;
  }
  return 0;
}

static void put_node(const dt_graph_t *graph, uint32_t id, dt_text_t *out) {
  const dt_node_t *node = &graph->nodes.items[id - 1];
  dt__text_printf(out, "  %%%u = %s", id, dt__op_info(node->op)->name);
  for (uint32_t k = 0; k < node->n_inputs; k++)
    dt__text_printf(out, k ? ", %%%u" : " %%%u", node->inputs[k].id);
  put_attrs(graph, node, out);
  if (node->op == DT_OP_external)
    put_external(graph, dt__graph_external(graph, node), out);
  const dt_graph_control_t *control =
      dt__op_is_control(node->op) ? dt__graph_control(graph, node) : NULL;
  uint32_t before = node->op == DT_OP_call ? call_before(graph, id) : 0;
  if (before)
    dt__text_printf(out, " again %%%u", before);
  for (uint32_t b = 0; !before && control && b < dt__control_n(control); b++)
    put_body(control->bodies[b], dt__control_body_name(node->op, b), out);
  dt__text_printf(out, " : %s", dt_dtype_name(node->dtype));
  put_sizes(graph, node->rank, node->sizes, out);
  dt__text_put(out, "\n");
}

// Prints declarations up to `index`; true when that one was still to be declared, which the caller
// then does together with its leaf.
static bool declare_before(const dt_graph_t *graph, uint32_t index, uint32_t *next, int64_t most,
                           void (*put)(const dt_graph_t *, uint32_t, int64_t, dt_text_t *),
                           dt_text_t *out) {
  if (index < *next)
    return false;
  for (; *next < index; (*next)++) {
    dt__text_put(out, "  ");
    put(graph, *next, most, out);
  }
  (*next)++;
  return true;
}

// They stand before the nodes, whose demands would answer them when the text is read.
static void put_asserts(const dt_graph_t *graph, dt_text_t *out) {
  for (uint32_t k = 0; k < graph->asserts.len; k++) {
    dt__text_put(out, "  assert ");
    dt__sym_print(graph->env, graph->asserts.items[k].cond, out);
    dt__text_put(out, " ");
    dt__text_quote(out, graph->asserts.items[k].what ? graph->asserts.items[k].what : "", SIZE_MAX);
    if (graph->asserts.items[k].code)
      dt__text_printf(out, " code %d", (int)graph->asserts.items[k].code);
    dt__text_put(out, "\n");
  }
}

// Data of constants of at most `most` elements is printed.
static void put_lines(const dt_graph_t *graph, int64_t most, dt_text_t *out) {
  uint32_t next_input = 0, next_constant = 0;
  put_captures(graph, out);
  put_asserts(graph, out);
  for (uint32_t id = 1; id <= graph->nodes.len; id++) {
    const dt_node_t *node = &graph->nodes.items[id - 1];
    uint32_t index = node->attrs->index;
    if (node->op == DT_OP_input &&
        declare_before(graph, index, &next_input, most, put_input, out)) {
      dt__text_printf(out, "  %%%u = ", id);
      put_input(graph, index, most, out);
    } else if (node->op == DT_OP_constant &&
               declare_before(graph, index, &next_constant, most, put_constant, out)) {
      dt__text_printf(out, "  %%%u = ", id);
      put_constant(graph, index, most, out);
    } else {
      put_node(graph, id, out);
    }
  }
  for (; next_input < graph->inputs.len; next_input++) {
    dt__text_put(out, "  ");
    put_input(graph, next_input, most, out);
  }
  for (; next_constant < graph->constants.len; next_constant++) {
    dt__text_put(out, "  ");
    put_constant(graph, next_constant, most, out);
  }
  for (uint32_t k = 0; k < graph->updates.len; k++)
    dt__text_printf(out, "  update %u %%%u\n", graph->updates.items[k].input,
                    graph->updates.items[k].value.id);
  dt__text_put(out, "  return");
  for (uint32_t k = 0; k < graph->outputs.len; k++) {
    dt__text_printf(out, k ? ", %%%u" : " %%%u", graph->outputs.items[k].id);
    put_order(graph, k, out);
  }
  dt__text_put(out, "\n");
}

static void print(const dt_graph_t *graph, int64_t most, dt_text_t *out) {
  put_symbols(graph, out);
  put_lines(graph, most, out);
  dt__text_put(out, "}\n");
}

void dt__graph_print(const dt_graph_t *graph, dt_text_t *out) { print(graph, FEW_DATA, out); }

void dt__graph_print_whole(const dt_graph_t *graph, dt_text_t *out) {
  print(graph, INT64_MAX, out);
}
