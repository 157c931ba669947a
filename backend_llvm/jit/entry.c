// SPDX-License-Identifier: Apache-2.0
// The entry of libductile-jit.so. Of the library it has nothing until that has handed over its
// table.
#include "backend_llvm/emit/statics.h"
#include "backend_llvm/jit/core.h"
#include "backend_llvm/jit/stubs.h"

#include <string.h>

__attribute__((visibility("default"))) const dt_jit_t *dt_jit_enter(const dt_core_t *core,
                                                                    const char **out_identity);

const dt_jit_t *dt_jit_enter(const dt_core_t *core, const char **out_identity) {
  *out_identity = dt__stubs_identity;
  if (strcmp(core->identity, dt__stubs_identity) != 0 || core->n != dt__stubs_n)
    return NULL;
  memcpy(dt__stubs, core->functions, core->n * sizeof(*core->functions));
  return &dt__jit_table;
}

// The loader asks for the address of an indirect function when it has put everything in its place,
// LLVM's library, too, and before any constructor runs: the moment for statics.h.
#if defined(__x86_64__) && !defined(DT_STATIC_LLVM)
typedef void (*nothing_t)(void);

static void do_nothing(void) {}

static nothing_t find_nothing(void) {
  dt__llvm_keep_statics();
  return do_nothing;
}

static void early(void) __attribute__((ifunc("find_nothing")));

__attribute__((constructor)) static void begin(void) { early(); }
#endif
