// SPDX-License-Identifier: Apache-2.0
// Compiles the elementary functions for the host: each as a loop over vectors and as a loop over
// scalars.
#ifndef DT_TESTS_UNIT_MATH_KERNELS_H
#define DT_TESTS_UNIT_MATH_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend_llvm/emit/math.h"

// Two-operand functions follow the table's in one numbering; then what is right by other measures
// than units of its last place.
enum { MATH_POW = DT_MATH_COUNT, MATH_ALL, MATH_NDTR = MATH_ALL, MATH_KERNELS };

// out[i] = f(x[i]) or f(x[i], y[i]) for i < n, n a positive multiple of MATH_BATCH_LANES.
enum { MATH_BATCH_LANES = 16 };
typedef void (*math_loop_t)(const void *x, const void *y, void *out, uint64_t n);

typedef struct math_kernel_t {
  math_loop_t vector, scalar;
} math_kernel_t;

typedef struct math_jit_t math_jit_t;

// `cpu` is an LLVM CPU name that this host can run, or NULL for the host's own. NULL, with a line
// on stderr, where LLVM refuses.
math_jit_t *math_jit_create(const char *cpu);
void math_jit_destroy(math_jit_t *jit);
// Compiled once; asked again, it answers the same.
bool math_jit_compile(math_jit_t *jit, int fn, bool wide, math_kernel_t *out);
// The machine's assembly of the vector loop, on stdout; with `ptx`, a scalar loop for NVPTX.
bool math_print_assembly(const math_jit_t *jit, int fn, bool wide, bool ptx);

#endif
