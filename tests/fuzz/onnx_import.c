// SPDX-License-Identifier: Apache-2.0
// Fuzzes the ONNX importer: what the reader accepts is made a function and traced, without sizes.
// It must be refused by a status that is no invariant of ours, or be traced; both in time and
// memory that the fuzzer bounds.
#include "ductile/onnx.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool held) {
  if (!held)
    abort();
}

static dt_runtime_t *runtime_of_all(void) {
  static dt_runtime_t *runtime;
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 1};
  if (!runtime)
    require(!dt_runtime_create(&options, &runtime));
  return runtime;
}

// Frees a failure that inputs may have.
static void expect(dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  if (code == DT_E_INTERNAL || code == DT_E_ARGUMENT) {
    (void)fprintf(stderr, "%s: %s\n", dt_code_name(code), dt_status_message(status));
    abort();
  }
  dt_status_free(status);
}

static void check(dt_onnx_t *model) {
  // The evaluator would answer: preparing is tracing alone.
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = DT_ANSWER_EVALUATOR};
  dt_onnx_function_options_t options = {.struct_size = sizeof(options), .function = &about};
  dt_function_t *function = NULL;
  dt_status_t status = dt_onnx_function_create(runtime_of_all(), model, &options, &function);
  require(!status == (function != NULL));
  if (function)
    status = dt_function_prepare(function);
  expect(status);
  dt_function_release(function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_onnx_options_t options = {
      .struct_size = sizeof(options), .max_nodes = 2000, .max_tensors = 2000, .max_depth = 8};
  dt_onnx_t *model = NULL;
  dt_status_t status = dt_onnx_open_memory(data, size, &options, &model);
  dt_status_free(status);
  if (model)
    check(model);
  dt_onnx_close(model);
  return 0;
}
