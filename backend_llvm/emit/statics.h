// SPDX-License-Identifier: Apache-2.0
// LLVM's static objects outlive the process's exit.
#ifndef DT_BACKEND_LLVM_EMIT_STATICS_H
#define DT_BACKEND_LLVM_EMIT_STATICS_H

// Before LLVM is first used, and of this process once; it calls nothing of the library's. Where it
// cannot be done nothing is changed.
void dt__llvm_keep_statics(void);

#endif // DT_BACKEND_LLVM_EMIT_STATICS_H
