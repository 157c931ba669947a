// SPDX-License-Identifier: Apache-2.0
// A pass that moves dequantisation behind the product: x · (w * scale) becomes (x · w) * scale, so
// that the weights are scaled once a result and not once a weight. docs/passes.md explains it.
#include "ductile/ductile.h"
#include "ductile/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 3
#define WIDTH 4

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- The program --------------------------------------------------------------------------------
typedef struct weights_t {
  dt_tensor_t *w;     // i8 [DEPTH, WIDTH]
  dt_tensor_t *scale; // f32 [WIDTH]: of each column
} weights_t;

static dt_status_t linear(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const weights_t *weights = (const weights_t *)closure;
  dt_value_t w = dt_cast(t, dt_constant(t, "w", weights->w), DT_F32);
  out[0] = dt_matmul(t, in[0], dt_mul(t, w, dt_constant(t, "scale", weights->scale)));
  return NULL;
}

// ---- The pass -----------------------------------------------------------------------------------
static const char *op_of(dt_rewriter_t *r, dt_value_t node) {
  dt_node_info_t info = DT_ZERO;
  info.struct_size = sizeof info;
  dt_status_t status = dt_rewriter_node(r, node, &info);
  dt_status_free(status);
  return status ? "" : info.op;
}

// Broadcasting is explicit in graphs: what was broadcast stands behind reshapes and expands.
static dt_value_t before_broadcast(dt_rewriter_t *r, dt_value_t node) {
  while (strcmp(op_of(r, node), "expand") == 0 || strcmp(op_of(r, node), "reshape") == 0)
    node = dt_rewriter_input(r, node, 0);
  return node;
}

// Whether `product` is x · (cast(w) * scale), where scale has a number for each column.
static bool is_dequantised(dt_rewriter_t *r, dt_value_t product, dt_value_t *w, dt_value_t *scale) {
  dt_value_t scaled = dt_rewriter_input(r, product, 1);
  if (strcmp(op_of(r, product), "matmul") != 0 || strcmp(op_of(r, scaled), "mul") != 0)
    return false;
  *w = dt_rewriter_input(r, scaled, 0);
  *scale = before_broadcast(r, dt_rewriter_input(r, scaled, 1));
  return strcmp(op_of(r, *w), "cast") == 0 && dt_value_rank(dt_rewriter_trace(r), *scale) == 1;
}

static dt_status_t move_scales(dt_rewriter_t *r, void *closure) {
  int *moved = (int *)closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  for (dt_value_t node = DT_ZERO; (node = dt_rewriter_next(r, node)).id;) {
    dt_value_t w, scale;
    if (!is_dequantised(r, node, &w, &scale))
      continue;
    dt_value_t product = dt_matmul(t, dt_rewriter_input(r, node, 0), w);
    dt_status_t status = dt_rewriter_replace(r, node, dt_mul(t, product, scale));
    if (status)
      return status;
    ++*moved;
  }
  return NULL;
}

// ---- Calls --------------------------------------------------------------------------------------
static void call(dt_session_t *session, dt_function_t *function, int64_t batch) {
  dt_tensor_t *x = NULL, *y = NULL;
  const int64_t sizes[] = {batch, DEPTH};
  must(dt_tensor_create_empty(DT_F32, 2, sizes, &x));
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    ((float *)dt_tensor_data(x))[k] = (float)(k % 5) - 2;
  must(dt_call(session, function, &x, 1, &y, 1, NULL));
  const float *row = (const float *)dt_tensor_data(y) + (batch - 1) * WIDTH;
  printf("  batch %d: last row %.2f %.2f %.2f %.2f\n", (int)batch, (double)row[0], (double)row[1],
         (double)row[2], (double)row[3]);
  dt_tensor_release(x);
  dt_tensor_release(y);
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  weights_t weights = {NULL, NULL};
  int moved = 0;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  static const int64_t sizes[] = {DEPTH, WIDTH};
  must(dt_tensor_create_empty(DT_I8, 2, sizes, &weights.w));
  must(dt_tensor_create_empty(DT_F32, 1, &sizes[1], &weights.scale));
  for (int k = 0; k < DEPTH * WIDTH; k++)
    ((int8_t *)dt_tensor_data(weights.w))[k] = (int8_t)(10 * k - 60);
  for (int k = 0; k < WIDTH; k++)
    ((float *)dt_tensor_data(weights.scale))[k] = 0.01F * (float)(k + 1);

  dt_pass_options_t pass = DT_ZERO;
  pass.struct_size = sizeof pass;
  pass.name = "move_scales";
  pass.identity = "move_scales 1";
  must(dt_runtime_add_pass(runtime, DT_POINT_TRACED, move_scales, &moved, &pass));

  dt_input_decl_t input = DT_ZERO;
  input.name = "x";
  input.dtype = DT_F32;
  input.rank = 2;
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "linear";
  options.n_inputs = 1;
  options.n_outputs = 1;
  options.inputs = &input;
  options.input_size = sizeof input;
  options.dim_size = sizeof(dt_dim_decl_t);
  static const char *const chosen[] = {"-move_scales", NULL};
  for (int k = 0; k < 2; k++) {
    dt_function_t *function = NULL;
    options.passes = chosen[k];
    moved = 0;
    must(dt_function_create(runtime, linear, &weights, &options, &function));
    printf("%s:\n", k ? "with the pass" : "without it");
    call(session, function, 1);
    call(session, function, 7);
    printf("  products moved: %d\n", moved);
    dt_function_release(function);
  }
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  dt_tensor_release(weights.w);
  dt_tensor_release(weights.scale);
  return 0;
}
