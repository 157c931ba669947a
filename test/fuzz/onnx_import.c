// SPDX-License-Identifier: Apache-2.0
// Fuzzes the ONNX importer: what the reader accepts is made a function and traced, without sizes.
// It must be refused by a status that is no invariant of ours, or be traced; both in time and
// memory that the fuzzer bounds.
#include "test/fuzz/onnx_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_onnx_t *model = fuzz_open(data, size, 2000);
  // The evaluator would answer: preparing is tracing alone.
  dt_function_t *function = model ? fuzz_function(model, DT_ANSWER_EVALUATOR) : NULL;
  if (function)
    fuzz_expect(dt_function_prepare(function, NULL));
  dt_function_release(function);
  dt_onnx_close(model);
  return 0;
}
