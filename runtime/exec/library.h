// SPDX-License-Identifier: Apache-2.0
// Libraries of ops while they are opened (include/ductile/op.h).
#ifndef DT_RUNTIME_EXEC_LIBRARY_H
#define DT_RUNTIME_EXEC_LIBRARY_H

#include "ductile/runtime.h"
#include "runtime/base/library.h"

// The library that registers on this thread with this runtime, or NULL.
dt_library_t *dt__library_opening(const dt_runtime_t *runtime);
// The identity of what it brings: "own@library's"; `own` itself where `library` is NULL. *out_made
// is the caller's (dt__free), or NULL. DT_E_NO_MEMORY.
dt_status_t dt__library_identity(const dt_library_t *library, const char *own, char **out_made,
                                 const char **out) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_LIBRARY_H
