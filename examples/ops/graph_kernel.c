// SPDX-License-Identifier: Apache-2.0 A kernel of one's own, as PTX, in CUDA graphs, between
// kernels of the library: 64 elements a block at sizes that change. docs/own-ops.md explains it.
// Exits with 77 where there is no GPU.
#include "ductile/ductile.h"
#include "ductile/op.h"

#include <stdio.h>
#include <stdlib.h>

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// y[i] = x[i] * x[i], as nvcc makes it of
//   struct args { void *reserved; const float *x; float *y;
//                 long x_size, x_stride, y_size, y_stride, count; … };
//   __global__ void square(args a) { long i = blockIdx.x * 64L + threadIdx.x; … }
static const char text[] = ".version 7.8\n"
                           ".target sm_80\n"
                           ".address_size 64\n"
                           ".visible .entry square(.param .align 8 .b8 square_param_0[96])\n"
                           "{\n"
                           "  .reg .pred %p<2>;\n"
                           "  .reg .b32 %r<3>;\n"
                           "  .reg .b32 %f<3>;\n"
                           "  .reg .b64 %rd<14>;\n"
                           "  ld.param.b64 %rd1, [square_param_0+8];\n"
                           "  ld.param.b64 %rd2, [square_param_0+16];\n"
                           "  ld.param.b64 %rd3, [square_param_0+24];\n"
                           "  ld.param.b64 %rd4, [square_param_0+32];\n"
                           "  mov.u32 %r1, %ctaid.x;\n"
                           "  mov.u32 %r2, %tid.x;\n"
                           "  cvt.u64.u32 %rd5, %r1;\n"
                           "  shl.b64 %rd6, %rd5, 6;\n"
                           "  cvt.u64.u32 %rd7, %r2;\n"
                           "  add.s64 %rd8, %rd6, %rd7;\n"
                           "  setp.ge.s64 %p1, %rd8, %rd3;\n"
                           "  @%p1 bra $L__end;\n"
                           "  mul.lo.s64 %rd9, %rd8, %rd4;\n"
                           "  shl.b64 %rd10, %rd9, 2;\n"
                           "  add.s64 %rd11, %rd1, %rd10;\n"
                           "  ld.global.b32 %f1, [%rd11];\n"
                           "  mul.f32 %f2, %f1, %f1;\n"
                           "  shl.b64 %rd12, %rd8, 2;\n"
                           "  add.s64 %rd13, %rd2, %rd12;\n"
                           "  st.global.b32 [%rd13], %f2;\n"
                           "$L__end:\n"
                           "  ret;\n"
                           "}\n";

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_sym_t n = dt_dim(t, dt_op_call_input(call, 0), 0);
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 1, &n);
  // Items are blocks of the grid.
  dt_op_set_items(call,
                  dt_sym_floordiv(t, dt_sym_add(t, n, dt_sym_const(t, 63)), dt_sym_const(t, 64)));
  return NULL;
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_add(t, in[0], dt_scalar(t, DT_F32, 1)), y;
  (void)closure;
  dt_op_call(t, "example.square", 1, &x, 0, NULL, 1, &y);
  out[0] = dt_sum(t, y, 0, NULL, false);
  return NULL;
}

// The sum of (0.5 + 1)^2 over n elements.
static void call(dt_session_t *session, dt_function_t *function, int64_t n) {
  dt_call_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.mode = DT_CALL_REDUCE_OVERHEAD;
  dt_tensor_t *host = NULL, *x = NULL, *y = NULL;
  float sum = 0;
  must(dt_tensor_create_empty(DT_F32, 1, &n, &host));
  for (int64_t i = 0; i < n; i++)
    ((float *)dt_tensor_data(host))[i] = 0.5F;
  must(dt_tensor_create_on(session, DT_F32, 1, &n, &x));
  must(dt_tensor_copy(session, host, x));
  must(dt_call(session, function, &x, 1, &y, 1, &options));
  must(dt_tensor_read(session, y, &sum, sizeof sum));
  printf("%4d elements: %.2f\n", (int)n, (double)sum);
  dt_tensor_release(host);
  dt_tensor_release(x);
  dt_tensor_release(y);
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  dt_session_options_t on = DT_ZERO;
  on.struct_size = sizeof on;
  on.device = DT_CUDA;
  must(dt_runtime_create(NULL, &runtime));
  dt_status_t status = dt_session_create(runtime, &on, &session);
  if (status) {
    printf("skipped: %s\n", dt_status_message(status));
    dt_status_free(status);
    dt_runtime_release(runtime);
    return 77;
  }
  dt_op_device_kernel_t kernel = DT_ZERO;
  kernel.struct_size = sizeof kernel;
  kernel.device = DT_CUDA;
  kernel.entry = "square";
  kernel.text = text;
  kernel.threads = 64;
  dt_op_options_t op = DT_ZERO;
  op.struct_size = sizeof op;
  op.name = "example.square";
  op.infer = infer;
  op.device_kernel = &kernel;
  must(dt_op_register(runtime, &op));
  dt_input_decl_t input = DT_ZERO;
  input.name = "x";
  input.dtype = DT_F32;
  input.rank = 1;
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "squares";
  options.n_inputs = 1;
  options.n_outputs = 1;
  options.inputs = &input;
  options.input_size = sizeof input;
  options.dim_size = sizeof(dt_dim_decl_t);
  must(dt_function_create(runtime, program, NULL, &options, &function));
  static const int64_t lengths[] = {4, 64, 65, 1000, 4};
  for (int k = 0; k < 5; k++)
    call(session, function, lengths[k]);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}
