// SPDX-License-Identifier: Apache-2.0
// Functions of the library in libductile-jit.so: jumps through a table that is filled when the file
// is opened.
#ifndef DT_BACKEND_LLVM_JIT_STUBS_H
#define DT_BACKEND_LLVM_JIT_STUBS_H

#include "backend_llvm/jit/core.h"

extern dt_core_function_t dt__stubs[];
extern const uint32_t dt__stubs_n;
extern const char dt__stubs_identity[];

#endif // DT_BACKEND_LLVM_JIT_STUBS_H
