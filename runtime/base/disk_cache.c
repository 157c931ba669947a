// SPDX-License-Identifier: Apache-2.0
// See disk_cache.h. An entry (disk_entry.h) is written to a file of another name in the folder,
// brought to the disk and renamed, so that a reader sees all of it or nothing. What limits the
// folder stands in disk_trim.c.
#include "runtime/base/disk_cache.h"

#include "runtime/base/disk_entry.h"
#include "runtime/base/disk_trim.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct dt_disk_cache_t {
  int folder;
  dt_disk_trim_t trim;
};

static void name_entry(const char *kind, const dt_text_t *key, char out[DT_DISK_NAME_BYTES]) {
  uint64_t low = dt__hash(key->data, key->len, 0), high = dt__hash(key->data, key->len, 1);
  (void)snprintf(out, DT_DISK_NAME_BYTES, "%016llx%016llx.%s", (unsigned long long)high,
                 (unsigned long long)low, kind);
}

dt_disk_cache_t *dt__disk_cache_open(const char *folder, uint64_t most_bytes) {
  if (!folder[0])
    return NULL;
  dt_disk_cache_t *cache = dt__calloc(1, sizeof(*cache));
  const char *wrong = cache ? dt__disk_folder_open(folder, true, &cache->folder) : "no memory";
  if (wrong) {
    DT_LOG(DT_LOG_CACHE, 1, "off: %s: %s", folder, wrong);
    dt__free(cache);
    return NULL;
  }
  dt__disk_trim_init(&cache->trim, cache->folder, most_bytes);
  return cache;
}

void dt__disk_cache_close(dt_disk_cache_t *cache) {
  if (cache)
    (void)dt__sys_close(cache->folder);
  dt__free(cache);
}

// ---- Finding --------------------------------------------------------------------------------------

bool dt__disk_cache_find(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key, void **out,
                         size_t *out_bytes) {
  char name[DT_DISK_NAME_BYTES];
  *out = NULL;
  if (!cache || key->failed || key->len == 0)
    return false;
  name_entry(kind, key, name);
  int fd = -1;
  size_t bytes = 0;
  char *all = dt__disk_entry_read(cache->folder, name, &fd, &bytes);
  if (fd < 0)
    return false;
  dt_disk_header_t header;
  bool good = all && dt__disk_entry_is_sound(all, bytes, &header) && header.key_bytes == key->len &&
              memcmp(all + sizeof(header), key->data, key->len) == 0;
  if (good) {
    (void)dt__sys_touch(fd); // it was used: others go before it
    *out_bytes = (size_t)header.data_bytes;
    *out = all;
    memmove(all, all + sizeof(header) + key->len, *out_bytes);
  } else {
    DT_LOG(DT_LOG_CACHE, 1, "%s is damaged or not ours; it will be replaced", name);
    dt__free(all);
  }
  (void)dt__sys_close(fd);
  return good;
}

// ---- Keeping --------------------------------------------------------------------------------------

void dt__disk_cache_keep(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                         const void *data, size_t bytes) {
  char name[DT_DISK_NAME_BYTES];
  if (!cache || key->failed || key->len == 0 || bytes == 0)
    return;
  name_entry(kind, key, name);
  dt_disk_header_t header = dt__disk_entry_header(key->data, key->len, data, bytes);
  const dt_file_part_t parts[] = {{&header, sizeof(header)}, {key->data, key->len}, {data, bytes}};
  uint64_t all = (uint64_t)sizeof(header) + key->len + bytes;
  if (all > DT_DISK_MOST_BYTES || !dt__disk_trim_admits(&cache->trim, all)) {
    DT_LOG(DT_LOG_CACHE, 1, "%s of %llu bytes is not kept: the folder has too small a limit", name,
           (unsigned long long)all);
    return;
  }
  dt_status_t status = dt__file_replace(cache->folder, name, 0600, parts, 3);
  if (!status && dt__sys_sync(cache->folder) != 0) // its name, too, outlives a loss of power
    DT_LOG(DT_LOG_CACHE, 1, "%s may be lost: %s", name, strerrordesc_np(errno));
  if (status)
    DT_LOG(DT_LOG_CACHE, 1, "%s", dt_status_message(status));
  else
    dt__disk_trim_added(&cache->trim, cache->folder, all);
  dt_status_free(status);
}

// ---- Pages ----------------------------------------------------------------------------------------
// Zeros behind the key, which belong to it, up to a page.
static bool page_key(const dt_text_t *key, char out[DT_DISK_PAGE_KEY_BYTES]) {
  if (key->failed || key->len == 0 || key->len > DT_DISK_PAGE_KEY_BYTES)
    return false;
  memset(out, 0, DT_DISK_PAGE_KEY_BYTES);
  memcpy(out, key->data, key->len);
  return true;
}

static bool map_entry(const dt_disk_cache_t *cache, const char *name, int *out_fd, size_t bytes,
                      dt_disk_map_t *out) {
  *out = (dt_disk_map_t){.map_bytes = DT_DISK_PAGE_BYTES + bytes};
  *out_fd = dt__disk_entry_open(cache->folder, name, out->map_bytes);
  if (*out_fd < 0)
    return false;
  void *map = dt__sys_map(out->map_bytes, PROT_READ, MAP_PRIVATE, *out_fd, 0);
  if (map == MAP_FAILED)
    return false;
  out->map = map;
  out->data = (const char *)map + DT_DISK_PAGE_BYTES;
  return true;
}

static bool has_key(const dt_disk_map_t *map, const char own[DT_DISK_PAGE_KEY_BYTES]) {
  dt_disk_header_t header;
  return dt__disk_entry_is_sound(map->map, map->map_bytes, &header) &&
         header.key_bytes == DT_DISK_PAGE_KEY_BYTES &&
         memcmp((const char *)map->map + sizeof(header), own, DT_DISK_PAGE_KEY_BYTES) == 0;
}

bool dt__disk_cache_map(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                        size_t bytes, dt_disk_map_t *out) {
  char name[DT_DISK_NAME_BYTES], own[DT_DISK_PAGE_KEY_BYTES];
  int fd = -1;
  if (!cache || !page_key(key, own))
    return false;
  name_entry(kind, key, name);
  bool mapped = map_entry(cache, name, &fd, bytes, out);
  bool good = mapped && has_key(out, own);
  if (good) {
    (void)dt__sys_touch(fd);
  } else if (mapped) {
    DT_LOG(DT_LOG_CACHE, 1, "%s is damaged or not ours; it will be replaced", name);
    dt__disk_cache_unmap(out);
  }
  if (fd >= 0)
    (void)dt__sys_close(fd);
  return good;
}

void dt__disk_cache_unmap(const dt_disk_map_t *map) { (void)munmap(map->map, map->map_bytes); }

bool dt__disk_cache_keep_pages(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                               const void *data, size_t bytes, uint64_t others) {
  char name[DT_DISK_NAME_BYTES], own[DT_DISK_PAGE_KEY_BYTES];
  uint64_t all = DT_DISK_PAGE_BYTES + (uint64_t)bytes;
  if (!cache || bytes == 0 || !page_key(key, own))
    return false;
  name_entry(kind, key, name);
  if (all > DT_DISK_MOST_BYTES || !dt__disk_trim_admits(&cache->trim, 2 * (others + all))) {
    DT_LOG(DT_LOG_CACHE, 1, "%s of %llu bytes is not kept: the folder has too small a limit", name,
           (unsigned long long)all);
    return false;
  }
  dt_disk_header_t header = dt__disk_page_header(own, sizeof(own), data, bytes);
  const dt_file_part_t parts[] = {{&header, sizeof(header)}, {own, sizeof(own)}, {data, bytes}};
  dt_status_t status = dt__file_replace_soon(cache->folder, name, 0600, parts, 3);
  bool good = !status;
  if (status)
    DT_LOG(DT_LOG_CACHE, 1, "%s", dt_status_message(status));
  else
    dt__disk_trim_added(&cache->trim, cache->folder, all);
  dt_status_free(status);
  return good;
}

// ---- Claims ---------------------------------------------------------------------------------------
// A locked file beside the entry. Who gives it up removes it first, so a lock counts only while its
// file has a name.

static bool is_named(int fd) {
  struct stat info;
  return dt__sys_stat(fd, &info) == 0 && info.st_nlink > 0;
}

bool dt__disk_cache_claim(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                          dt_disk_claim_t *out) {
  char name[DT_DISK_NAME_BYTES];
  *out = (dt_disk_claim_t){.lock = -1};
  if (!cache || key->failed || key->len == 0)
    return true;
  name_entry(kind, key, name);
  (void)snprintf(out->name, sizeof(out->name), "%s" DT_DISK_LOCK, name);
  int fd = dt__sys_open(cache->folder, out->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0)
    return true;
  bool taken = dt__sys_lock(fd) == 0, others = !taken && errno == EWOULDBLOCK;
  if (taken && is_named(fd)) {
    out->lock = fd;
    return true;
  }
  (void)dt__sys_close(fd);
  return !taken && !others;
}

void dt__disk_cache_unclaim(dt_disk_cache_t *cache, dt_disk_claim_t *claim) {
  if (claim->lock < 0)
    return;
  (void)dt__sys_unlink(cache->folder, claim->name);
  (void)dt__sys_close(claim->lock);
  claim->lock = -1;
}
