// SPDX-License-Identifier: Apache-2.0
// Control that data decides: `cond`, `switch` and `while` nodes, the rules that their operands and
// bodies must satisfy, and what `result` reads of them.
#include "lower/graph/external.h"
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

const char *dt__control_body_name(dt_op_t op, uint32_t body) {
  static const char *const names[2][2] = {{"then", "else"}, {"test", "body"}};
  if (op == DT_OP_associative_scan)
    return "combine";
  if (op == DT_OP_call)
    return "body";
  return op == DT_OP_switch ? "case" : names[op == DT_OP_while][body & 1];
}

dt_status_t dt__graph_add_control(dt_graph_t *graph, dt_op_t op, const dt_graph_control_t *control,
                                  const dt_node_id_t *inputs, uint32_t n_inputs,
                                  const dt_attrs_t *others, const dt_origin_t *origin,
                                  dt_node_id_t *out) {
  *out = (dt_node_id_t){0};
  dt_attrs_t attrs = {0};
  if (others)
    memcpy(&attrs, others, sizeof(attrs));
  attrs.index = graph->controls.len;
  if (!DT_VEC_PUSH(graph->arena, &graph->controls, *control))
    return DT_NO_MEMORY();
  graph->controls.items[attrs.index].same =
      op == DT_OP_call ? dt__control_same(graph, control->bodies[0], attrs.index) : 0;
  dt_status_t status = dt__graph_add(graph, op, inputs, n_inputs, &attrs, origin, out);
  if (status)
    graph->controls.len--;
  return status;
}

uint32_t dt__control_same(const dt_graph_t *graph, const dt_graph_t *body, uint32_t end) {
  // Calls of one body mostly follow each other, and the last one knows the first.
  for (uint32_t k = end; k-- > 0;)
    if (graph->controls.items[k].bodies[0] == body)
      return graph->controls.items[k].same ? graph->controls.items[k].same : k + 1;
  return 0;
}

dt_status_t dt__graph_rehome_controls(dt_graph_t *graph) {
  uint32_t n = graph->controls.len;
  dt_graph_control_t *controls = DT_ARENA_ARRAY(graph->arena, dt_graph_control_t, n + 1);
  if (!controls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    if (dt__control_shares(graph->controls.items, controls, k))
      continue;
    for (uint32_t b = 0; b < dt__control_n(&graph->controls.items[k]); b++) {
      dt_graph_t *copy = DT_ARENA_NEW(graph->arena, dt_graph_t);
      if (!copy)
        return DT_NO_MEMORY();
      *copy = *graph->controls.items[k].bodies[b];
      copy->arena = graph->arena;
      copy->env = graph->env;
      DT_TRY(dt__graph_rehome_controls(copy));
      controls[k].bodies[b] = copy;
    }
  }
  graph->controls.items = controls;
  graph->controls.len = graph->controls.cap = n;
  return NULL;
}

// ---- Messages -----------------------------------------------------------------------------------
static void put_type(const dt_infer_t *ctx, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                     dt_text_t *out) {
  dt__text_put(out, dt_dtype_name(dtype));
  dt__print_sizes(ctx->env, rank, sizes, out);
}

// Two values that must be alike, and what they are called.
typedef struct alike_t {
  const char *role; // "output", "operand", "state"
  uint32_t index;
  const char *first, *second; // whose they are
  const dt_node_t *a;
  dt_dtype_t dtype; // the other one
  uint32_t rank;
  const dt_sym_t *sizes;
  const char *advice;
} alike_t;

static void put_alike(const dt_infer_t *ctx, const alike_t *pair, dt_text_t *out) {
  dt__text_printf(out, "%s %u of the %s is ", pair->role, pair->index, pair->first);
  put_type(ctx, pair->a->dtype, pair->a->rank, pair->a->sizes, out);
  dt__text_printf(out, ", of the %s ", pair->second);
  put_type(ctx, pair->dtype, pair->rank, pair->sizes, out);
  dt__text_printf(out, "; %s", pair->advice);
}

static dt_status_t must_be_alike(const dt_infer_t *ctx, const alike_t *pair) {
  dt_text_t text;
  bool dtypes = pair->a->dtype == pair->dtype;
  if (!dtypes || pair->a->rank != pair->rank) {
    dt__text_init(&text);
    put_alike(ctx, pair, &text);
    dt_status_t status =
        dt__infer_fail(ctx, dtypes ? DT_E_SHAPE : DT_E_DTYPE, "%s", dt__text_str(&text));
    dt__text_fini(&text);
    return status;
  }
  for (uint32_t d = 0; d < pair->rank; d++) {
    dt_sym_t cond = dt__sym_eq(ctx->env, pair->a->sizes[d], pair->sizes[d]);
    if (dt__infer_holds(ctx, cond))
      continue;
    dt__text_init(&text);
    put_alike(ctx, pair, &text);
    DT_TRY(dt__infer_demand(ctx, cond, "sizes must be the same whatever way is taken", &text));
  }
  return NULL;
}

// ---- Rules --------------------------------------------------------------------------------------
static const dt_node_t *output_of(const dt_graph_t *body, uint32_t k) {
  return dt__graph_node(body, body->outputs.items[k]);
}

static dt_status_t check_control(const dt_infer_t *ctx) {
  if (ctx->attrs->index >= ctx->graph->controls.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no pair of bodies %u, the graph has %u",
                          ctx->attrs->index, ctx->graph->controls.len);
  const dt_graph_control_t *control = &ctx->graph->controls.items[ctx->attrs->index];
  uint32_t n = dt__control_n(control);
  if (n == 0 || (ctx->op != DT_OP_switch && n != (ctx->op == DT_OP_call ? 1 : 2)))
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "a body is missing");
  return NULL;
}

// Operands from input `first` on are what body b reads.
static dt_status_t check_operands(const dt_infer_t *ctx, uint32_t first, uint32_t b) {
  const dt_graph_t *body = ctx->graph->controls.items[ctx->attrs->index].bodies[b];
  const char *name = dt__control_body_name(ctx->op, b);
  if (body->inputs.len != ctx->n_inputs - first)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "%s reads %u operands, %u are given", name,
                          body->inputs.len, ctx->n_inputs - first);
  for (uint32_t k = 0; k < body->inputs.len; k++) {
    const dt_graph_input_t *input = &body->inputs.items[k];
    alike_t pair = {.role = "operand",
                    .index = k,
                    .first = "call",
                    .second = name,
                    .a = dt__infer_in(ctx, first + k),
                    .dtype = input->dtype,
                    .rank = input->rank,
                    .sizes = input->sizes,
                    .advice = "both must be the same"};
    DT_TRY(must_be_alike(ctx, &pair));
  }
  return NULL;
}

// The outputs of body b are alike those of the first.
static dt_status_t check_outputs(const dt_infer_t *ctx, uint32_t b, const char *first,
                                 const char *second) {
  const dt_graph_control_t *control = &ctx->graph->controls.items[ctx->attrs->index];
  const dt_graph_t *one = control->bodies[0], *other = control->bodies[b];
  if (one->outputs.len != other->outputs.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the %s has %u outputs, the %s has %u", first,
                          one->outputs.len, second, other->outputs.len);
  for (uint32_t k = 0; k < one->outputs.len; k++) {
    const dt_node_t *to = output_of(other, k);
    alike_t pair = {.role = "output",
                    .index = k,
                    .first = first,
                    .second = second,
                    .a = output_of(one, k),
                    .dtype = to->dtype,
                    .rank = to->rank,
                    .sizes = to->sizes,
                    .advice = "branches must agree; use cast, pad or slice"};
    DT_TRY(must_be_alike(ctx, &pair));
  }
  return NULL;
}

dt_status_t dt__shape_rule_cond(dt_infer_t *ctx) {
  DT_TRY(check_control(ctx));
  const dt_node_t *predicate = dt__infer_in(ctx, 0);
  if (predicate->rank != 0 || predicate->dtype != DT_BOOL)
    return dt__infer_fail(ctx, predicate->rank ? DT_E_SHAPE : DT_E_DTYPE,
                          "the predicate must be one bool of rank 0; use cast and reshape");
  DT_TRY(check_operands(ctx, 1, 0));
  DT_TRY(check_operands(ctx, 1, 1));
  ctx->rank = 0;
  return check_outputs(ctx, 1, "then branch", "else branch");
}

dt_status_t dt__shape_rule_switch(dt_infer_t *ctx) {
  DT_TRY(check_control(ctx));
  const dt_node_t *index = dt__infer_in(ctx, 0);
  if (index->rank != 0 || index->dtype != DT_U8)
    return dt__infer_fail(ctx, index->rank ? DT_E_SHAPE : DT_E_DTYPE,
                          "the index must be one u8 of rank 0; use cast and reshape");
  uint32_t n = dt__control_n(&ctx->graph->controls.items[ctx->attrs->index]);
  for (uint32_t b = 0; b < n; b++) {
    char name[16];
    snprintf(name, sizeof(name), "case %u", b);
    DT_TRY(check_operands(ctx, 1, b));
    DT_TRY(check_outputs(ctx, b, "case 0", name));
  }
  ctx->rank = 0;
  return NULL;
}

dt_status_t dt__shape_rule_while(dt_infer_t *ctx) {
  DT_TRY(check_control(ctx));
  DT_TRY(check_operands(ctx, 0, 0));
  DT_TRY(check_operands(ctx, 0, 1));
  const dt_graph_control_t *control = &ctx->graph->controls.items[ctx->attrs->index];
  const dt_graph_t *test = control->bodies[0], *body = control->bodies[1];
  if (test->outputs.len != 1 || output_of(test, 0)->rank != 0 ||
      output_of(test, 0)->dtype != DT_BOOL)
    return dt__infer_fail(ctx, test->outputs.len == 1 ? DT_E_DTYPE : DT_E_ARGUMENT,
                          "the test must give one bool of rank 0; use cast and reshape");
  if (body->outputs.len == 0 || body->outputs.len > body->inputs.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the body gives %u values of state, of %u operands",
                          body->outputs.len, body->inputs.len);
  for (uint32_t k = 0; k < body->outputs.len; k++) {
    const dt_graph_input_t *input = &body->inputs.items[k];
    alike_t pair = {.role = "state",
                    .index = k,
                    .first = "body's result",
                    .second = "loop",
                    .a = output_of(body, k),
                    .dtype = input->dtype,
                    .rank = input->rank,
                    .sizes = input->sizes,
                    .advice = "the state keeps its dtype and sizes"};
    DT_TRY(must_be_alike(ctx, &pair));
  }
  ctx->rank = 0;
  return NULL;
}

dt_status_t dt__shape_rule_call(dt_infer_t *ctx) {
  DT_TRY(check_control(ctx));
  DT_TRY(check_operands(ctx, 0, 0));
  ctx->rank = 0;
  return NULL;
}

// The value of an op of a user is its first result.
static dt_status_t external_output(const dt_infer_t *ctx, const dt_node_t *node,
                                   dt_infer_output_t *out) {
  const dt_graph_external_t *external = dt__graph_external(ctx->graph, node);
  if (ctx->attrs->index == 0 || ctx->attrs->index >= external->n_results)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no result %u of %u beside the first",
                          ctx->attrs->index, external->n_results);
  const dt_external_result_t *result = &external->results[ctx->attrs->index];
  *out = (dt_infer_output_t){result->dtype, result->rank, result->sizes};
  return NULL;
}

dt_status_t dt__infer_output(const dt_infer_t *ctx, dt_infer_output_t *out) {
  const dt_node_t *node = dt__infer_in(ctx, 0);
  if (node->op == DT_OP_external)
    return external_output(ctx, node, out);
  if (!dt__op_is_control(node->op) || node->attrs->index >= ctx->graph->controls.len)
    return dt__infer_fail(
        ctx, DT_E_ARGUMENT,
        "the argument must be a cond, a switch, a while, an associative_scan, a call or an "
        "external");
  // What a loop leaves has the sizes of its state, which its body's inputs have; what a scan gives
  // those of what is scanned.
  const dt_graph_control_t *control = dt__graph_control(ctx->graph, node);
  const dt_graph_t *body = control->bodies[node->op == DT_OP_while];
  if (ctx->attrs->index >= body->outputs.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no output %u of %u", ctx->attrs->index,
                          body->outputs.len);
  bool like_input = node->op == DT_OP_while || node->op == DT_OP_associative_scan;
  const dt_node_t *output = like_input ? dt__graph_node(ctx->graph, node->inputs[ctx->attrs->index])
                                       : output_of(body, ctx->attrs->index);
  *out = (dt_infer_output_t){output->dtype, output->rank, output->sizes};
  return NULL;
}

dt_status_t dt__shape_rule_result(dt_infer_t *ctx) {
  dt_infer_output_t output;
  DT_TRY(dt__infer_output(ctx, &output));
  ctx->rank = output.rank;
  for (uint32_t k = 0; k < output.rank; k++)
    ctx->sizes[k] = output.sizes[k];
  return NULL;
}
