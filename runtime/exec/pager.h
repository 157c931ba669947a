// SPDX-License-Identifier: Apache-2.0
// Resident memory for sessions, made ready off the call path: a background thread makes the pages
// of one region resident when the runtime starts, and regions of sessions that end are kept for the
// next. A session takes one at its first call; growing further is its own. How much memory a
// session will need is not known before that: what is far more goes back then.
#ifndef DT_RUNTIME_EXEC_PAGER_H
#define DT_RUNTIME_EXEC_PAGER_H

#include "runtime/base/region.h"

typedef struct dt_pager dt_pager_t;

// `warm_bytes` 0: nothing is made ready ahead.
dt_status_t dt__pager_create(size_t warm_bytes, dt_pager_t **out) DT_MUST_USE;
void dt__pager_destroy(dt_pager_t *pager); // NULL allowed
// Has the background thread end soon, and does not wait for it.
void dt__pager_stop(dt_pager_t *pager);
// A region with resident pages for a call that needs `need` bytes, or an empty one where none is
// ready: then nothing is made ready any more. Never waits. [any]
dt_region_t dt__pager_take(dt_pager_t *pager, size_t need);
// Keeps the region for the next session, or frees it. [any]
void dt__pager_give(dt_pager_t *pager, dt_region_t region);

uint64_t dt__pager_bytes(dt_pager_t *pager); // that it keeps [any]
// Frees one region that it keeps; the bytes of it, 0: there is none. [any]
uint64_t dt__pager_drop(dt_pager_t *pager);

#endif // DT_RUNTIME_EXEC_PAGER_H
