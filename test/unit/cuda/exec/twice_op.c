// SPDX-License-Identifier: Apache-2.0
// See twice_op.h.
#include "test/unit/cuda/exec/twice_op.h"

static const char affine_text[] = ".version 7.8\n"
                                  ".target sm_80\n"
                                  ".address_size 64\n"
                                  "\n"
                                  ".visible .entry affine(.param .align 8 .b8 affine_param_0[96])\n"
                                  "{\n"
                                  "\t.reg .pred \t%p<2>;\n"
                                  "\t.reg .b32 \t%r<3>;\n"
                                  "\t.reg .b32 \t%f<4>;\n"
                                  "\t.reg .b64 \t%rd<14>;\n"
                                  "\tld.param.b64 \t%rd1, [affine_param_0+8];\n"
                                  "\tld.param.b64 \t%rd2, [affine_param_0+16];\n"
                                  "\tld.param.b64 \t%rd3, [affine_param_0+24];\n"
                                  "\tld.param.b64 \t%rd4, [affine_param_0+32];\n"
                                  "\tmov.u32 \t%r1, %ctaid.x;\n"
                                  "\tmov.u32 \t%r2, %tid.x;\n"
                                  "\tcvt.u64.u32 \t%rd5, %r1;\n"
                                  "\tshl.b64 \t%rd6, %rd5, 6;\n"
                                  "\tcvt.u64.u32 \t%rd7, %r2;\n"
                                  "\tadd.s64 \t%rd8, %rd6, %rd7;\n"
                                  "\tsetp.ge.s64 \t%p1, %rd8, %rd3;\n"
                                  "\t@%p1 bra \t$L__BB0_2;\n"
                                  "\tmul.lo.s64 \t%rd9, %rd8, %rd4;\n"
                                  "\tshl.b64 \t%rd10, %rd9, 2;\n"
                                  "\tadd.s64 \t%rd11, %rd1, %rd10;\n"
                                  "\tld.global.b32 \t%f1, [%rd11];\n"
                                  "\tadd.f32 \t%f2, %f1, %f1;\n"
                                  "\tshl.b64 \t%rd12, %rd8, 2;\n"
                                  "\tadd.s64 \t%rd13, %rd2, %rd12;\n"
                                  "\tst.global.b32 \t[%rd13], %f2;\n"
                                  "$L__BB0_2:\n"
                                  "\tret;\n"
                                  "}\n";

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  dt_sym_t n = dt_dim(t, x, 0), chunk = dt_sym_const(t, 64);
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 1, &n);
  dt_op_set_items(call, dt_sym_floordiv(t, dt_sym_add(t, n, dt_sym_const(t, 63)), chunk));
  return NULL;
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  for (int64_t i = begin * 64; i < end * 64 && i < x->sizes[0]; i++)
    ((float *)args->results[0]->data)[i] = 2 * ((const float *)x->data)[i * x->strides[0]];
  return NULL;
}

const dt_op_device_kernel_t twice_device_kernel = {.struct_size = sizeof(twice_device_kernel),
                                                   .device = DT_CUDA,
                                                   .entry = "affine",
                                                   .text = affine_text,
                                                   .threads = 64};

dt_op_options_t twice_op(void) {
  return (dt_op_options_t){.struct_size = sizeof(dt_op_options_t),
                           .name = "test.twice",
                           .infer = infer,
                           .kernel = kernel,
                           .device_kernel = &twice_device_kernel};
}

dt_status_t twice_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_add(t, in[0], dt_scalar(t, DT_F32, 1)), y;
  (void)closure;
  dt_op_call(t, "test.twice", 1, &x, 0, NULL, 1, &y);
  out[0] = dt_relu(t, dt_neg(t, dt_add(t, y, dt_scalar(t, DT_F32, 3))));
  return NULL;
}
