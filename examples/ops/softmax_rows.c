// SPDX-License-Identifier: Apache-2.0
// A lowering of softmax that takes rows of at most 8 columns, which one C function keeps in
// registers, and leaves all others to the library. docs/own-ops.md explains it.
#include "ductile/ductile.h"
#include "ductile/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_COLS 8

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- The op -------------------------------------------------------------------------------------
static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, x, DT_F32);
  dt_op_set_items(call, dt_dim(t, x, 0)); // an item a row: threads share them
  return NULL;
}

static dt_status_t rows(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  int64_t cols = x->sizes[1];
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++) {
    const float *in = (const float *)x->data + i * x->strides[0];
    float *out = (float *)args->results[0]->data + i * cols, e[MOST_COLS], most = -INFINITY,
          sum = 0;
    for (int64_t j = 0; j < cols && j < MOST_COLS; j++)
      most = fmaxf(most, in[j * x->strides[1]]);
    for (int64_t j = 0; j < cols && j < MOST_COLS; j++)
      sum += e[j] = expf(in[j * x->strides[1]] - most);
    for (int64_t j = 0; j < cols && j < MOST_COLS; j++)
      out[j] = e[j] / sum;
  }
  return NULL;
}

// ---- The lowering -------------------------------------------------------------------------------
// Declines by leaving *out as it is.
static dt_status_t lower(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(r);
  dt_value_t x = dt_rewriter_input(r, node, 0);
  dt_node_info_t info = DT_ZERO;
  info.struct_size = sizeof info;
  dt_status_t status = dt_rewriter_node(r, node, &info);
  if (status)
    return status;
  bool few = false; // known to be, at all sizes that the code is for
  if (info.rank != 2 || info.dtype != DT_F32 || info.axes[0] != 1 ||
      !dt_sym_known(t, dt_sym_le(t, dt_dim(t, x, 1), dt_sym_const(t, MOST_COLS)), &few))
    few = false;
  if (few)
    dt_op_call(t, "example.softmax_rows", 1, &x, 0, NULL, 1, out);
  printf("  %s\n", few ? "the op" : "declined");
  (void)closure;
  return NULL;
}

// ---- Calls --------------------------------------------------------------------------------------
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, in[0], 1);
  return NULL;
}

// With so many columns, or any number (0).
static void run(dt_runtime_t *runtime, dt_session_t *session, int64_t cols) {
  dt_dim_decl_t dims[2] = DT_ZERO;
  dims[1].is_static = cols != 0, dims[1].value = cols;
  dt_input_decl_t input = DT_ZERO;
  input.name = "x";
  input.dtype = DT_F32;
  input.rank = 2;
  input.dims = dims;
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "softmax";
  options.n_inputs = 1;
  options.n_outputs = 1;
  options.inputs = &input;
  options.input_size = sizeof input;
  options.dim_size = sizeof(dt_dim_decl_t);
  dt_function_t *function = NULL;
  dt_tensor_t *x = NULL, *y = NULL;
  must(dt_function_create(runtime, program, NULL, &options, &function));
  const int64_t sizes[] = {3, cols ? cols : 4};
  must(dt_tensor_create_empty(DT_F32, 2, sizes, &x));
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    ((float *)dt_tensor_data(x))[k] = (float)(k % 4);
  must(dt_call(session, function, &x, 1, &y, 1, NULL));
  printf("  first row begins %.3f %.3f\n", (double)((const float *)dt_tensor_data(y))[0],
         (double)((const float *)dt_tensor_data(y))[1]);
  dt_tensor_release(x);
  dt_tensor_release(y);
  dt_function_release(function);
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  dt_op_options_t op = DT_ZERO;
  op.struct_size = sizeof op;
  op.name = "example.softmax_rows";
  op.infer = infer;
  op.kernel = rows;
  dt_pass_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "few_columns";
  must(dt_op_register(runtime, &op));
  must(dt_lowering_override(runtime, "softmax", lower, NULL, &options));
  printf("4 columns:\n");
  run(runtime, session, 4);
  printf("64 columns:\n");
  run(runtime, session, 64);
  printf("any number of columns:\n");
  run(runtime, session, 0);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}
