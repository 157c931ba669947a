// SPDX-License-Identifier: Apache-2.0
// Functions made of models.
#include "ductile/onnx.h"

#include "runtime/base/status.h"

dt_status_t dt_onnx_function_create(dt_runtime_t *runtime, dt_onnx_t *model,
                                    const dt_onnx_function_options_t *options,
                                    dt_function_t **out) {
  (void)runtime;
  (void)model;
  (void)options;
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_function_create: out is NULL");
  *out = NULL;
  return DT_FAIL(DT_E_UNSUPPORTED, "models are not compiled yet");
}
