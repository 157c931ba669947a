// SPDX-License-Identifier: Apache-2.0
// Addresses of the library's functions for libductile-jit.so: see core.h. No header that declares
// them is included, since their types do not matter here.
#include <jit_identity.h>

#include <stdint.h>

#define CORE(name, index) void name(void);
#include <jit_core.def>

void (*const dt__core_functions[])(void) = {
#define CORE(name, index) name,
#include <jit_core.def>
};
const uint32_t dt__core_n = (uint32_t)(sizeof(dt__core_functions) / sizeof(dt__core_functions[0]));
const char dt__core_identity[] = DT_JIT_IDENTITY;
