// SPDX-License-Identifier: Apache-2.0
// Keeps the folder of disk_cache.h to its limit, and removes what processes left that died while
// they wrote. Private to disk_cache.c and disk_list.c.
#ifndef DT_RUNTIME_BASE_DISK_TRIM_H
#define DT_RUNTIME_BASE_DISK_TRIM_H

#include "runtime/base/disk_cache.h"

#include <stdatomic.h>

#define DT_DISK_LOCK ".lock" // behind the name of an entry that somebody makes

typedef struct dt_disk_trim_t {
  uint64_t most_bytes;
  _Atomic uint64_t bytes; // of all entries when they were last counted, and of those added since
  _Atomic uint64_t added; // since then, by this process
  _Atomic bool running;   // some thread counts
} dt_disk_trim_t;

// Counts the open folder's entries, and trims it.
void dt__disk_trim_init(dt_disk_trim_t *trim, int folder, uint64_t most_bytes);
// Whether an entry of that many bytes may be kept at all.
bool dt__disk_trim_admits(const dt_disk_trim_t *trim, uint64_t bytes);
// An entry came. Other processes add, too: each counts anew after a share of the limit of its own.
void dt__disk_trim_added(dt_disk_trim_t *trim, int folder, uint64_t bytes);
// Hands each entry to `visit`: its name, when it was found or written last (nanoseconds of
// CLOCK_REALTIME), its bytes. False: the folder could not be listed, or there was no memory.
typedef void (*dt_disk_visit_fn_t)(void *user, const char *name, int64_t used_ns, uint64_t bytes);
bool dt__disk_trim_each(int folder, dt_disk_visit_fn_t visit, void *user);
// Removes what was not used for the longest time until `most_bytes` are left, or fewer.
bool dt__disk_trim_to(int folder, uint64_t most_bytes);

#endif // DT_RUNTIME_BASE_DISK_TRIM_H
