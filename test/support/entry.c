// SPDX-License-Identifier: Apache-2.0
// See entry.h.
#include "test/support/entry.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/stream.h"
#include "test/support/check.h"
#include "test/support/folder.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 56

entry_t entry_open(const char *path) {
  entry_t e = {0};
  size_t bytes = 0;
  e.all = file_read(path, &bytes);
  assert_true(bytes > HEAD_BYTES);
  memcpy(&e.key_bytes, e.all + 8, 8);
  memcpy(&e.bytes, e.all + 16, 8);
  assert_int_equal(HEAD_BYTES + e.key_bytes + e.bytes, bytes);
  e.data = malloc(e.bytes);
  assert_non_null(e.data);
  memcpy(e.data, e.all + HEAD_BYTES + e.key_bytes, e.bytes);
  return e;
}

void entry_keep(entry_t *entry, const char *folder) {
  dt_disk_cache_t *cache = dt__disk_cache_open(folder, (uint64_t)1 << 30);
  dt_text_t key;
  assert_non_null(cache);
  dt__text_init(&key);
  dt__text_write(&key, entry->all + HEAD_BYTES, entry->key_bytes);
  dt__disk_cache_keep(cache, "variant", &key, entry->data, entry->bytes);
  dt__text_fini(&key);
  dt__disk_cache_close(cache);
  free(entry->all);
  free(entry->data);
}

static dt_stream_t stream_at(const entry_t *entry, size_t at) {
  assert_true(at < entry->bytes);
  return (dt_stream_t){.from = entry->data + at, .left = entry->bytes - at};
}

uint64_t entry_word(const entry_t *entry, size_t at) {
  dt_stream_t s = stream_at(entry, at);
  uint64_t value = 0;
  dt__stream_word(&s, &value);
  assert_false(s.failed);
  return value;
}

size_t entry_behind(const entry_t *entry, size_t at, size_t words) {
  dt_stream_t s = stream_at(entry, at);
  uint64_t value = 0;
  for (size_t k = 0; k < words; k++)
    dt__stream_word(&s, &value);
  assert_false(s.failed);
  return entry->bytes - s.left;
}

size_t entry_behind_bytes(const entry_t *entry, size_t at) {
  return entry_behind(entry, at, 1) + (size_t)entry_word(entry, at);
}

void entry_set(entry_t *entry, size_t at, uint64_t value) {
  size_t behind = entry_behind(entry, at, 1);
  dt_text_t made;
  dt__text_init(&made);
  dt_stream_t s = {.to = &made};
  dt__text_write(&made, (const char *)entry->data, at);
  dt__stream_word(&s, &value);
  dt__text_write(&made, (const char *)entry->data + behind, entry->bytes - behind);
  assert_false(made.failed);
  free(entry->data);
  entry->bytes = made.len;
  entry->data = malloc(made.len);
  assert_non_null(entry->data);
  memcpy(entry->data, made.data, made.len);
  dt__text_fini(&made);
}

size_t entry_find(const entry_t *entry, const char *text) {
  size_t len = strlen(text);
  const unsigned char *at = memmem(entry->data, entry->bytes, text, len);
  assert_true(at && len < 128 && at > entry->data && at[-1] == len);
  return (size_t)(at - entry->data) - 1;
}

size_t entry_host(const entry_t *entry) {
  size_t linked = entry_behind_bytes(entry, 0);
  assert_int_equal(entry_word(entry, linked), 0); // kept code is not
  return entry_behind(entry, linked, 1);
}

size_t entry_kernels(const entry_t *entry) {
  size_t at = entry_behind_bytes(entry, entry_host(entry));
  uint64_t n = entry_word(entry, at);
  at = entry_behind(entry, at, 1);
  for (uint64_t k = 0; k < n; k++)
    at = entry_behind_bytes(entry, at);
  return at;
}
