// SPDX-License-Identifier: Apache-2.0
// Kernels of variants in use, compiled again and replaced while calls go on.
#ifndef DT_RUNTIME_EXEC_SWAP_H
#define DT_RUNTIME_EXEC_SWAP_H

#include "runtime/base/status.h"
#include "runtime/exec/variant.h"

// Compiles the newest variant's program again, and puts its kernels in place of those in use while
// calls go on: a call runs either, or some of both. What was replaced stays loaded, since launches
// may be under way. DT_E_STATE (no variant), DT_E_LIMIT (done too often), DT_E_COMPILE. [any]
dt_status_t dt__function_recompile(dt_function_t *function) DT_MUST_USE;
// The same for `variant`, which stays meanwhile, on the calling thread where that is the one in the
// background; it is not quick any more. `watch` says what it may take, and may stop it.
dt_status_t dt__variant_recompile(dt_function_t *function, dt_variant_t *variant,
                                  struct dt_watch_t *watch) DT_MUST_USE;
// variant.c's: nobody is inside.
void dt__variant_drop_swapped(dt_variant_t *variant);

#endif // DT_RUNTIME_EXEC_SWAP_H
