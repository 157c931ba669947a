// SPDX-License-Identifier: Apache-2.0
// A library of ops: what a program opens by dt_op_library_open. It brings the operator Swish of the
// domain com.acme. docs/own-ops.md explains it.
#include "ductile/accessor.h"

#include <math.h>

#ifdef __cplusplus
extern "C"
#endif
    DT_API const dt_op_library_info_t *dt_op_library(void);

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  if (!dt_op_call_attr(call, "beta", DT_OP_ATTR_FLOAT))
    return dt_status_make(DT_E_ARGUMENT, "the attribute beta is missing");
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_F32);
  return NULL;
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 1);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 1);
  double beta = dt_op_attr(args, "beta", DT_OP_ATTR_FLOAT)->f;
  (void)begin, (void)end;
  for (int64_t i = 0; i < dt_access_size(&x, 0); i++) {
    double value = (double)*DT_AT_1(float, &x, i);
    *DT_AT_1(float, &y, i) = (float)(value / (1 + exp(-beta * value)));
  }
  return dt_access_status(&x, &y, NULL);
}

static dt_status_t open_acme(dt_runtime_t *runtime) {
  dt_op_options_t op = DT_ZERO;
  op.struct_size = sizeof op;
  op.name = "com.acme.Swish";
  op.infer = infer;
  op.kernel = kernel;
  return dt_op_register(runtime, &op);
}

const dt_op_library_info_t *dt_op_library(void) {
  static const dt_op_library_info_t info = {DT_OP_LIBRARY_FORM, "acme", "acme 1.0", open_acme};
  return &info;
}
