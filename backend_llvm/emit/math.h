// SPDX-License-Identifier: Apache-2.0
// Elementary functions as LLVM IR, the same polynomials for CPUs and devices, scalars and vectors.
// Everything is straight-line code of arithmetic, selects and intrinsics that are instructions on
// x86-64-v3 and newer and on devices (fma, sqrt, fabs, copysign, rint, trunc); nothing external is
// called and no global is made. If the target lacks FMA, LLVM's fma call keeps results correct. No
// fast-math flags are set, and the caller's builder must not set any. Denormals, signed zeros,
// infinities and NaN follow C's Annex F. Errors are bounded in math_table.def.
#ifndef DT_BACKEND_LLVM_EMIT_MATH_H
#define DT_BACKEND_LLVM_EMIT_MATH_H

#include <llvm-c/Core.h>
#include <stdbool.h>

// A device's own instructions where they are faster, by the names of intrinsics that take one
// float: 2^x and 1 / x within 2^-22.5 and 2^-23 of their size, by which results below 2^-126 become
// 0, and such operands count as 0. With them min and max answer NaN.
typedef struct dt_fast_math_t {
  const char *exp2, *reciprocal;
} dt_fast_math_t;

typedef struct dt_emit_math_t {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  const dt_fast_math_t *fast; // NULL: none
} dt_emit_math_t;

typedef enum dt_math_fn_t {
#define MATH(id, name, ulp_f32, ulp_f64) DT_MATH_##id,
#include "backend_llvm/emit/math_table.def"
  DT_MATH_COUNT
} dt_math_fn_t;

// `x` is float, double or a fixed vector of one of them; the result has the same type. `fn` is
// below DT_MATH_COUNT. The IR goes to the builder's position.
LLVMValueRef dt__emit_math(const dt_emit_math_t *m, dt_math_fn_t fn, LLVMValueRef x);

// x to the power y as C's pow: pow(x, 0) and pow(1, y) are 1 even for NaN. Within 1 ulp for float
// and 2 ulp for double. Both operands have one type of those above.
LLVMValueRef dt__emit_pow(const dt_emit_math_t *m, LLVMValueRef x, LLVMValueRef y);

// The standard normal distribution's function, (1 + erf(x / sqrt 2)) / 2, as a factor of x needs
// it: right to 2^-22 (floats) or 2^-51 (doubles); floats from -5.7 on also to 2^-14 of their size,
// below that they go to 0 with x.
LLVMValueRef dt__emit_ndtr(const dt_emit_math_t *m, LLVMValueRef x);

#endif
