// SPDX-License-Identifier: Apache-2.0
// The rule of `associative_scan`: what its operands and the body that joins two elements must be.
// The body is given single elements, of rank 0, and may only compute with elements.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static const char *const element_advice =
    "it is given single elements, one of each operand on the left and on the right, and may use "
    "element-wise ops, casts and literals";

static dt_status_t check_counts(const dt_infer_t *ctx, const dt_graph_t *body) {
  uint32_t n = body->outputs.len;
  if (n == 0 || n > ctx->n_inputs)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "combine gives %u values of %u operands", n,
                          ctx->n_inputs);
  if (body->inputs.len != ctx->n_inputs + n)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "combine reads %u values, %u are given",
                          body->inputs.len, ctx->n_inputs + n);
  return NULL;
}

// What is scanned has one shape and is no half; what is captured is one element.
static dt_status_t check_operands(const dt_infer_t *ctx, uint32_t n) {
  const dt_node_t *first = dt__infer_in(ctx, 0);
  for (uint32_t k = 0; k < ctx->n_inputs; k++) {
    const dt_node_t *in = dt__infer_in(ctx, k);
    if (k >= n && in->rank != 0)
      return dt__infer_fail(ctx, DT_E_SHAPE,
                            "combine reads argument %u from outside, which has rank %u; %s", k,
                            in->rank, element_advice);
    if (k < n && dt__dtype_is_half(in->dtype))
      return dt__infer_fail(ctx, DT_E_DTYPE, "argument %u is %s; elements are joined in f32: cast",
                            k, dt_dtype_name(in->dtype));
    if (k < n && in->rank != first->rank)
      return dt__infer_fail(ctx, DT_E_SHAPE, "argument %u has rank %u, argument 0 rank %u", k,
                            in->rank, first->rank);
    for (uint32_t d = 0; k > 0 && k < n && d < first->rank; d++)
      DT_TRY(dt__infer_equal(ctx, 0, d, k, d, "all operands have one shape; use expand"));
  }
  return dt__infer_axis(ctx, first->rank);
}

static dt_status_t check_element(const dt_infer_t *ctx, const char *what, uint32_t k,
                                 dt_dtype_t dtype, uint32_t rank, dt_dtype_t wanted) {
  if (rank == 0 && dtype == wanted)
    return NULL;
  return dt__infer_fail(ctx, rank ? DT_E_SHAPE : DT_E_DTYPE,
                        "%s %u of combine is %s of rank %u, expected one element of %s%s", what, k,
                        dt_dtype_name(dtype), rank, dt_dtype_name(wanted),
                        rank ? "" : "; use cast");
}

static dt_status_t check_types(const dt_infer_t *ctx, const dt_graph_t *body) {
  uint32_t n = body->outputs.len;
  for (uint32_t k = 0; k < body->inputs.len; k++) {
    const dt_graph_input_t *input = &body->inputs.items[k];
    const dt_node_t *outside = dt__infer_in(ctx, k < n ? k : k - n);
    DT_TRY(check_element(ctx, "operand", k, input->dtype, input->rank, outside->dtype));
  }
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *out = dt__graph_node(body, body->outputs.items[k]);
    DT_TRY(check_element(ctx, "result", k, out->dtype, out->rank, dt__infer_in(ctx, k)->dtype));
  }
  return NULL;
}

// No view of one element is more than that element.
static bool is_element(const dt_node_t *node) {
  uint32_t flags = dt__op_info(node->op)->flags;
  return node->rank == 0 && (flags & (DT_OPF_EW | DT_OPF_VIEW | DT_OPF_LEAF));
}

static dt_status_t check_nodes(const dt_infer_t *ctx, const dt_graph_t *body) {
  for (uint32_t k = 0; k < body->nodes.len; k++) {
    const dt_node_t *node = &body->nodes.items[k];
    const dt_origin_t *at = &node->origin;
    if (is_element(node))
      continue;
    if (at->file && at->file[0])
      return dt__infer_fail(ctx, DT_E_UNSUPPORTED, "combine cannot use `%s` of rank %u (%s:%d); %s",
                            dt__op_info(node->op)->name, node->rank, at->file, at->line,
                            element_advice);
    return dt__infer_fail(ctx, DT_E_UNSUPPORTED, "combine cannot use `%s` of rank %u; %s",
                          dt__op_info(node->op)->name, node->rank, element_advice);
  }
  return NULL;
}

dt_status_t dt__shape_rule_associative_scan(dt_infer_t *ctx) {
  if (ctx->attrs->index >= ctx->graph->controls.len ||
      dt__control_n(&ctx->graph->controls.items[ctx->attrs->index]) != 1)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "combine is missing");
  const dt_graph_t *body = ctx->graph->controls.items[ctx->attrs->index].bodies[0];
  DT_TRY(check_counts(ctx, body));
  DT_TRY(check_operands(ctx, body->outputs.len));
  DT_TRY(check_types(ctx, body));
  ctx->rank = 0;
  return check_nodes(ctx, body);
}
