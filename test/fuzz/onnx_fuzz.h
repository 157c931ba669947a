// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of models share: one runtime, a model opened under small limits, and what they
// take for a finding.
#ifndef DT_TESTS_FUZZ_ONNX_FUZZ_H
#define DT_TESTS_FUZZ_ONNX_FUZZ_H

#include "ductile/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Ends the program if it does not hold.
void fuzz_require(bool held);
// Frees a failure that a model may have; one that is an invariant of ours is a finding.
void fuzz_expect(dt_status_t status);
// One kernel thread and one compile thread, nothing kept on disk, every pass verified.
dt_runtime_t *fuzz_runtime(void);
// NULL: the reader refuses it. The caller closes it.
dt_onnx_t *fuzz_open(const uint8_t *data, size_t size, uint32_t most_nodes);
// A function of the model; NULL: the importer refuses it. The caller releases it.
dt_function_t *fuzz_function(dt_onnx_t *model, dt_answer_t answer);

#endif // DT_TESTS_FUZZ_ONNX_FUZZ_H
