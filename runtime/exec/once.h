// SPDX-License-Identifier: Apache-2.0
// What variants on the host compute from constants alone, buffer by buffer.
#ifndef DT_RUNTIME_EXEC_ONCE_H
#define DT_RUNTIME_EXEC_ONCE_H

#include "runtime/exec/variant.h"

// Fills bindings->once and its uses: forms that are there already are taken, others are computed
// over the kernel pool. What only others are computed from goes again behind the last of these, and
// so do the pages of constants that lie in mapped files and that calls do not read.
dt_status_t dt__host_once(const dt_variant_t *variant, dt_bindings_t *bindings) DT_MUST_USE;
// The rest of what it filled in goes: forms that no other bindings have end.
void dt__host_once_fini(dt_bindings_t *bindings);

#endif // DT_RUNTIME_EXEC_ONCE_H
