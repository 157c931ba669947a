// SPDX-License-Identifier: Apache-2.0
// The folder of disk_cache.h as a person looks at it. [any]
#ifndef DT_RUNTIME_BASE_DISK_LIST_H
#define DT_RUNTIME_BASE_DISK_LIST_H

#include "runtime/base/text.h"

typedef struct dt_disk_item_t {
  const char *name, *kind; // of its file; the file's ending
  uint64_t bytes;          // of the file
  int64_t used_ns;         // when it was found or written last, by CLOCK_REALTIME
  const char *key;         // what it is of; not `key_bytes` long where it is damaged
  uint64_t key_bytes;
  bool sound; // it is what was kept
} dt_disk_item_t;
typedef void (*dt_disk_item_fn_t)(void *user, const dt_disk_item_t *item);

// Reads each entry of the folder, those that were not used for the longest time first; nothing
// counts as used. DT_E_IO: "<folder>: why it cannot be used".
dt_status_t dt__disk_list(const char *folder, dt_disk_item_fn_t visit, void *user) DT_MUST_USE;
// Removes damaged entries and what processes left that died while they wrote, then what was not
// used for the longest time until `most_bytes` are left, or fewer. *out_bytes is what went.
dt_status_t dt__disk_clean(const char *folder, uint64_t most_bytes,
                           uint64_t *out_bytes) DT_MUST_USE;
// Removes the entries of that kind. *out_bytes is what went.
dt_status_t dt__disk_drop(const char *folder, const char *kind, uint64_t *out_bytes) DT_MUST_USE;

#endif // DT_RUNTIME_BASE_DISK_LIST_H
