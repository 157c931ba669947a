// SPDX-License-Identifier: Apache-2.0
// Code that converts 16-bit floats. In registers, as in memory, F16 and BF16 are their bits (i16),
// so moving them changes nothing. Code that computes with them extends them first.
#ifndef DT_BACKEND_LLVM_EMIT_HALF_H
#define DT_BACKEND_LLVM_EMIT_HALF_H

#include "backend_llvm/emit/context.h"

// The only two places that say how a target converts; scalars and vectors alike. `dtype` is DT_F16
// or DT_BF16.
// i16 to f32: exact; NaN stays one.
LLVMValueRef dt__emit_half_extend(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef bits);
// f32 to i16: to nearest, ties to even, subnormals kept, NaN to a quiet NaN.
LLVMValueRef dt__emit_half_round(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value);

// From any dtype that is no half, rounded once.
LLVMValueRef dt__emit_half_cast(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef value);

#endif // DT_BACKEND_LLVM_EMIT_HALF_H
