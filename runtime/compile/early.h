// SPDX-License-Identifier: Apache-2.0
// The best form of a program that is begun while its quick form is still being made, where cores
// are left for both: by the thread in the background, as the same compile would later be.
#ifndef DT_RUNTIME_COMPILE_EARLY_H
#define DT_RUNTIME_COMPILE_EARLY_H

#include "runtime/base/disk_cache.h"
#include "runtime/compile/compile.h"

typedef struct dt_early_t dt_early_t;

// Queues the compile of what `request` names; its trace, name and device stay until
// dt__early_destroy. The watch is another one with the same limits. On any thread but the one in
// the background.
dt_status_t dt__early_begin(dt_compiler_t *compiler, const dt_compile_request_t *request,
                            dt_early_t **out) DT_MUST_USE;
// The right to keep the code: given up when this ends. Consumes `claim`.
void dt__early_claim(dt_early_t *early, dt_disk_cache_t *cache, dt_disk_claim_t *claim);
// Nobody waits for it any more: it ends at the next unit.
void dt__early_stop(dt_early_t *early); // NULL allowed
// Waits for it, and gives what was made, once; NULL: it failed.
dt_compiled_t *dt__early_take(dt_early_t *early);
// Ends it and waits until it has ended; NULL allowed.
void dt__early_destroy(dt_early_t *early);

#endif // DT_RUNTIME_COMPILE_EARLY_H
