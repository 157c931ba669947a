// SPDX-License-Identifier: Apache-2.0
// Stands in for decide.c in builds without LLVM: guards are interpreted there.
#include "runtime/compile/decide.h"

#include "runtime/base/status.h"

bool dt__decide_available(void) { return false; }

dt_status_t dt__decide_compile(const dt_compiler_t *compiler, const dt_guards_t *const *programs,
                               uint32_t n, const char *name, dt_native_t **out_native,
                               dt_decide_fn_t *out_fn) {
  (void)compiler;
  (void)programs;
  (void)n;
  (void)name;
  *out_native = NULL;
  *out_fn = NULL;
  return DT_FAIL(DT_E_UNSUPPORTED, "this build has no code generator; guards are interpreted");
}
