// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of models share.
#include "test/fuzz/onnx_fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_require(bool held) {
  if (!held)
    abort();
}

void fuzz_expect(dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  // The model's faults are not the caller's: nothing that is called here has a wrong argument.
  const char *message = dt_status_message(status);
  // Nor is it the model's when the importer hands a builder what it never made.
  bool ours = strstr(message, " (id ") || strstr(message, "NULL; expected");
  if (code == DT_E_INTERNAL || code == DT_E_COMPILE || code == DT_E_ARGUMENT || ours) {
    (void)fprintf(stderr, "%s: %s\n", dt_code_name(code), message);
    abort();
  }
  dt_status_free(status);
}

dt_runtime_t *fuzz_runtime(void) {
  static dt_runtime_t *runtime;
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 1};
  if (!runtime) {
    fuzz_require(!setenv("DUCTILE_CACHE_DIR", "", 1) && !setenv("DUCTILE_WARM_MIB", "0", 1) &&
                 !setenv("DUCTILE_VERIFY", "1", 1));
    fuzz_require(!dt_runtime_create(&options, &runtime));
  }
  return runtime;
}

dt_onnx_t *fuzz_open(const uint8_t *data, size_t size, uint32_t most_nodes) {
  dt_onnx_options_t options = {.struct_size = sizeof(options),
                               .max_nodes = most_nodes,
                               .max_tensors = most_nodes,
                               .max_depth = 8};
  dt_onnx_t *model = NULL;
  dt_status_t status = dt_onnx_open_memory(data, size, &options, &model);
  fuzz_require(!status == (model != NULL));
  dt_status_free(status);
  return model;
}

dt_function_t *fuzz_function(dt_onnx_t *model, dt_answer_t answer) {
  dt_function_options_t about = {
      .struct_size = sizeof(about), .answer = answer, .variant_limit = 2};
  dt_onnx_function_options_t options = {.struct_size = sizeof(options), .function = &about};
  dt_function_t *function = NULL;
  dt_status_t status = dt_onnx_function_create(fuzz_runtime(), model, &options, &function);
  fuzz_require(!status == (function != NULL));
  fuzz_expect(status);
  return function;
}
