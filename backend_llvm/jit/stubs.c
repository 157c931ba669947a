// SPDX-License-Identifier: Apache-2.0
// See stubs.h. A stub changes no register that a call uses, so it serves functions of any type.
#include "backend_llvm/jit/stubs.h"

#include <jit_identity.h>

enum {
#define CORE(name, index) STUB_##index,
#include <jit_core.def>
  STUBS
};

dt_core_function_t dt__stubs[STUBS];
const uint32_t dt__stubs_n = STUBS;
const char dt__stubs_identity[] = DT_JIT_IDENTITY;

#define BEGIN(name)                                                                                \
  ".globl " #name "\n.hidden " #name "\n.type " #name ", %function\n.balign 16\n" #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n"
#if defined(__x86_64__)
#define JUMP(index) "endbr64\njmp *dt__stubs + 8*" #index "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(index)                                                                                \
  "hint #34\nadrp x16, dt__stubs + 8*" #index "\n"                                                 \
  "ldr x16, [x16, :lo12:dt__stubs + 8*" #index "]\nbr x16\n"
#else
#error "stubs for this machine are missing"
#endif

#define CORE(name, index) __asm__(".text\n" BEGIN(name) JUMP(index) END(name));
#include <jit_core.def>
