// SPDX-License-Identifier: Apache-2.0
// A library of ops: x + 1, a pass that does nothing, and a lowering that declines; or, by how it is
// built, one that is refused.
#include "ductile/accessor.h"

#include <stddef.h>

DT_API const dt_op_library_info_t *dt_op_library(void);

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_F32);
  return NULL;
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 1);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 1);
  (void)begin, (void)end;
  for (int64_t i = 0; i < dt_access_size(&x, 0); i++)
    *DT_AT_1(float, &y, i) = *DT_AT_1(float, &x, i) + 1;
  return dt_access_status(&x, &y, NULL);
}

static dt_status_t look(dt_rewriter_t *rewriter, void *closure) {
  (void)closure;
  return dt_rewriter_length(rewriter) ? NULL : dt_status_make(DT_E_INTERNAL, "an empty graph");
}

static dt_status_t decline(dt_rewriter_t *rewriter, dt_value_t node, dt_value_t *out,
                           void *closure) {
  (void)rewriter, (void)node, (void)out, (void)closure;
  return NULL;
}

static dt_status_t open_it(dt_runtime_t *runtime) {
  const dt_op_options_t op = {
      .struct_size = sizeof(op), .name = "oplib.next", .infer = infer, .kernel = kernel};
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "oplib.look"};
  const dt_pass_options_t lowering = {.struct_size = sizeof(lowering), .name = "oplib.softmax"};
#ifdef OPLIB_SILENT
  (void)op, (void)pass, (void)lowering, (void)look, (void)decline, (void)runtime;
  return NULL;
#else
  dt_status_t status = dt_op_register(runtime, &op);
  if (!status)
    status = dt_runtime_add_pass(runtime, DT_POINT_TRACED, look, NULL, &pass);
  if (!status)
    status = dt_lowering_override(runtime, "softmax", decline, NULL, &lowering);
#ifdef OPLIB_FAILING
  dt_status_free(status);
  return dt_status_make(DT_E_STATE, "its licence has ended");
#else
  return status;
#endif
#endif
}

const dt_op_library_info_t *dt_op_library(void) {
  static const dt_op_library_info_t info = {
#ifdef OPLIB_FORM
      .form = DT_OP_LIBRARY_FORM + 1,
#else
      .form = DT_OP_LIBRARY_FORM,
#endif
      .name = "oplib",
      .identity = "1.5",
      .open = open_it};
  return &info;
}
