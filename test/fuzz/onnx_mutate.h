// SPDX-License-Identifier: Apache-2.0
// libFuzzer's mutators for models: they change fields, operators, attributes, dims and data of a
// model and leave its bytes a model. What is none is changed as bytes.
#ifndef DT_TESTS_FUZZ_ONNX_MUTATE_H
#define DT_TESTS_FUZZ_ONNX_MUTATE_H

#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other,
                                 size_t other_size, uint8_t *out, size_t most, unsigned seed);
// libFuzzer's own; without it, replay.c's.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#endif // DT_TESTS_FUZZ_ONNX_MUTATE_H
