// SPDX-License-Identifier: Apache-2.0
// LLVM through its C API, with the differences between its versions in one place. Since LLVM 22 the
// alignment of masked memory intrinsics is an attribute of the address; before, it was an operand.
#ifndef DT_BACKEND_LLVM_EMIT_LLVM_COMPAT_H
#define DT_BACKEND_LLVM_EMIT_LLVM_COMPAT_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#endif // DT_BACKEND_LLVM_EMIT_LLVM_COMPAT_H
