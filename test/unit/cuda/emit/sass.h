// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's disassembler says of a GPU's code, as text.
#ifndef DT_TESTS_UNIT_CUDA_EMIT_SASS_H
#define DT_TESTS_UNIT_CUDA_EMIT_SASS_H

#include <stdint.h>

typedef struct sass_loops_t {
  uint32_t multiplying; // loops that multiply matrices and have no such loop inside
  uint32_t spilling;    // those of them that read or write what registers have no room for
} sass_loops_t;

// Over all functions of `text`, which is changed.
sass_loops_t sass_loops(char *text);

#endif // DT_TESTS_UNIT_CUDA_EMIT_SASS_H
