// SPDX-License-Identifier: Apache-2.0
// What the library hands to libductile-jit.so, and gets for it. The list of functions is made at
// build time of what the file's objects leave undefined (cmake/JitTable.cmake): core_table.c has
// their addresses, in the library, and stubs.c, in the file, a jump through them for each.
#ifndef DT_BACKEND_LLVM_JIT_CORE_H
#define DT_BACKEND_LLVM_JIT_CORE_H

#include "backend_llvm/jit/jit.h"

typedef void (*dt_core_function_t)(void); // of any type

typedef struct dt_core_t {
  const char *identity; // of the build: it covers all code of both files, and the list
  const dt_core_function_t *functions;
  uint32_t n;
} dt_core_t;
// core_table.c
extern const dt_core_function_t dt__core_functions[];
extern const uint32_t dt__core_n;
extern const char dt__core_identity[];

// The one symbol of the file. NULL: it is of another build, whose identity is *out_identity.
#define DT_JIT_ENTRY "dt_jit_enter"
typedef const dt_jit_t *(*dt_jit_enter_t)(const dt_core_t *core, const char **out_identity);

// table.c: what there is, in whatever file.
extern const dt_jit_t dt__jit_table;
// By dt_device_t. It stands in an object of its own, so that a program may have others.
extern const dt_jit_device_t *const dt__jit_devices[];

#endif // DT_BACKEND_LLVM_JIT_CORE_H
