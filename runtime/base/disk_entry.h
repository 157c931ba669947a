// SPDX-License-Identifier: Apache-2.0
// An entry's file, and the folder of entries, as disk_cache.c writes and disk_list.c reads them:
//
//   header | key | data
//
// Private to these.
#ifndef DT_RUNTIME_BASE_DISK_ENTRY_H
#define DT_RUNTIME_BASE_DISK_ENTRY_H

#include "runtime/base/sha256.h"

#define DT_DISK_MOST_BYTES ((uint64_t)1 << 30) // of an entry

typedef struct dt_disk_header_t {
  char magic[8];
  uint64_t key_bytes, data_bytes;
  unsigned char sum[DT_SHA256_BYTES]; // of the fields before it and of what follows
} dt_disk_header_t;
_Static_assert(sizeof(dt_disk_header_t) == 56, "no padding is written");

// Entries whose data begin a page: the key is so long, zeros behind it.
#define DT_DISK_PAGE_BYTES ((size_t)4096)
#define DT_DISK_PAGE_KEY_BYTES (DT_DISK_PAGE_BYTES - sizeof(dt_disk_header_t))

// Opens the folder, which `make` makes where there is none. NULL, or why it cannot be used: it is
// not this user's alone, as far as the system tells, or the system says why.
const char *dt__disk_folder_open(const char *folder, bool make, int *out);

// The header of such a key and data, sums included.
dt_disk_header_t dt__disk_entry_header(const void *key, size_t key_bytes, const void *data,
                                       size_t data_bytes);
// The same of an entry whose data begin a page; its sum is a fast one.
dt_disk_header_t dt__disk_page_header(const void *key, size_t key_bytes, const void *data,
                                      size_t data_bytes);
// The file, open, if it is a regular one of this user's that nobody else may write, of so many
// bytes; else -1.
int dt__disk_entry_open(int folder, const char *name, size_t bytes);
// The file's bytes (dt__free), if it is a regular file of this user's that nobody else may write.
char *dt__disk_entry_read(int folder, const char *name, int *out_fd, size_t *out_bytes);
// Of such bytes: what the header says is true of the key and the data behind it.
bool dt__disk_entry_is_sound(const char *all, size_t bytes, dt_disk_header_t *out);

#endif // DT_RUNTIME_BASE_DISK_ENTRY_H
