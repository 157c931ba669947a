// SPDX-License-Identifier: Apache-2.0
// Entries of kept code that tests forge: taken apart, changed, and put back with sums that are
// right. Places are offsets in the data, whose form runtime/base/stream.h describes.
#ifndef DT_TEST_SUPPORT_ENTRY_H
#define DT_TEST_SUPPORT_ENTRY_H

#include <stddef.h>
#include <stdint.h>

typedef struct entry_t {
  char *all;               // of the file
  size_t key_bytes, bytes; // of its key, and of `data`
  unsigned char *data;     // a copy
} entry_t;

entry_t entry_open(const char *path);
// As the entry of its key in `folder`; frees it.
void entry_keep(entry_t *entry, const char *folder);
uint64_t entry_word(const entry_t *entry, size_t at);
size_t entry_behind(const entry_t *entry, size_t at, size_t words); // `words` words further on
size_t entry_behind_bytes(const entry_t *entry, size_t at);         // behind a string
void entry_set(entry_t *entry, size_t at, uint64_t value);
// Where a string begins: its length.
size_t entry_find(const entry_t *entry, const char *text);
// Behind who made it, and that it is not linked: the host program, a string.
size_t entry_host(const entry_t *entry);
// Behind the host program and all other units: how many kernels there are.
size_t entry_kernels(const entry_t *entry);

#endif // DT_TEST_SUPPORT_ENTRY_H
