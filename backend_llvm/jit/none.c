// SPDX-License-Identifier: Apache-2.0
// Stands for the code generator in builds without LLVM: refuses, and names what still works.
#include "backend_llvm/jit/jit.h"
#include "runtime/base/status.h"

const char *dt__jit_identity(void) { return "none"; }

dt_status_t dt__jit_open(const char *path, const dt_jit_t **out) {
  (void)path;
  *out = NULL;
  return DT_FAIL(DT_E_UNSUPPORTED,
                 "this build has no code generator; build with DUCTILE_LLVM=ON, or "
                 "ask for DT_ANSWER_EVALUATOR");
}

const dt_jit_t *dt__jit(void) { return NULL; }

dt_status_t dt__jit_find(const char *path, char **out) {
  (void)path;
  *out = NULL;
  return NULL;
}

const char *dt__jit_file(void) { return ""; }
