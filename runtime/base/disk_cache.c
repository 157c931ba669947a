// SPDX-License-Identifier: Apache-2.0
// See disk_cache.h. An entry is
//
//   header_t | key | data
//
// written to a file of another name in the folder, brought to the disk and renamed, so that a
// reader sees all of it or nothing. What limits the folder stands in disk_trim.c.
#include "runtime/base/disk_cache.h"

#include "runtime/base/disk_trim.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((off_t)1 << 30) // of an entry

struct dt_disk_cache_t {
  int folder;
  dt_disk_trim_t trim;
};

typedef struct header_t {
  char magic[8];
  uint64_t key_bytes, data_bytes;
  unsigned char sum[DT_SHA256_BYTES]; // of the fields before it and of what follows
} header_t;
_Static_assert(sizeof(header_t) == 56, "no padding is written");

static const char magic[8] = {'D', 'T', 'C', 'A', 'C', 'H', 'E', '2'};

static void name_entry(const char *kind, const dt_text_t *key, char out[DT_DISK_NAME_BYTES]) {
  uint64_t low = dt__hash(key->data, key->len, 0), high = dt__hash(key->data, key->len, 1);
  (void)snprintf(out, DT_DISK_NAME_BYTES, "%016llx%016llx.%s", (unsigned long long)high,
                 (unsigned long long)low, kind);
}

static void sum_entry(const header_t *header, const void *key, const void *data,
                      unsigned char out[DT_SHA256_BYTES]) {
  dt_sha256_t sum;
  dt__sha256_init(&sum);
  dt__sha256_add(&sum, header, offsetof(header_t, sum));
  dt__sha256_add(&sum, key, (size_t)header->key_bytes);
  dt__sha256_add(&sum, data, (size_t)header->data_bytes);
  dt__sha256_end(&sum, out);
}

// ---- The folder -----------------------------------------------------------------------------------

// The user's alone, as far as the system tells.
static bool is_ours(const struct stat *info) {
  return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Makes the folder and those above it, for this user alone; 0 or an error number.
static int make_folder(char *path) {
  for (char *at = path + 1;; at++) {
    char c = *at;
    if (c != '/' && c != '\0')
      continue;
    *at = '\0';
    int made = dt__sys_mkdir(path, 0700);
    *at = c;
    if (made != 0 && errno != EEXIST)
      return errno;
    if (c == '\0')
      return 0;
  }
}

// NULL, or why it cannot be used.
static const char *open_folder(char *path, int *out) {
  struct stat info;
  int failure = make_folder(path);
  if (failure)
    return strerrordesc_np(failure);
  int fd = dt__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0) {
    failure = errno;
    bool link = dt__sys_stat_in(AT_FDCWD, path, &info) == 0 && S_ISLNK(info.st_mode);
    return link ? "it is a symbolic link; name the folder itself" : strerrordesc_np(failure);
  }
  const char *wrong = NULL;
  if (dt__sys_stat(fd, &info) != 0)
    wrong = strerrordesc_np(errno);
  else if (!is_ours(&info))
    wrong = "it must belong to this user, and nobody else may have write permission";
  if (wrong)
    (void)dt__sys_close(fd);
  *out = fd;
  return wrong;
}

dt_disk_cache_t *dt__disk_cache_open(const char *folder, uint64_t most_bytes) {
  char path[PATH_MAX];
  size_t len = strlen(folder);
  // With a slash behind its name a link would be followed.
  while (len > 1 && folder[len - 1] == '/')
    len--;
  if (len == 0 || len >= sizeof(path))
    return NULL;
  memcpy(path, folder, len);
  path[len] = '\0';
  dt_disk_cache_t *cache = dt__calloc(1, sizeof(*cache));
  const char *wrong = cache ? open_folder(path, &cache->folder) : "no memory";
  if (wrong) {
    DT_LOG(DT_LOG_CACHE, 1, "off: %s: %s", path, wrong);
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

// The file's bytes, if it is a regular file of this user's that nobody else may write.
static char *read_entry(int fd, const char *name, size_t *out_bytes) {
  struct stat info;
  if (dt__sys_stat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !is_ours(&info) ||
      info.st_size < (off_t)sizeof(header_t) || info.st_size > MOST_BYTES)
    return NULL;
  *out_bytes = (size_t)info.st_size;
  char *all = dt__alloc(*out_bytes);
  dt_status_t status = all ? dt__file_read(fd, all, *out_bytes, 0, name) : NULL;
  if (!status)
    return all;
  dt_status_free(status);
  dt__free(all);
  return NULL;
}

static bool is_sound(const char *all, size_t bytes, const dt_text_t *key, header_t *out) {
  unsigned char sum[DT_SHA256_BYTES];
  memcpy(out, all, sizeof(*out));
  const char *body = all + sizeof(*out);
  size_t rest = bytes - sizeof(*out);
  if (memcmp(out->magic, magic, sizeof(magic)) != 0 || out->key_bytes != key->len ||
      out->key_bytes > rest || out->data_bytes != rest - out->key_bytes || out->data_bytes == 0 ||
      memcmp(body, key->data, key->len) != 0)
    return false;
  sum_entry(out, body, body + key->len, sum);
  return memcmp(sum, out->sum, sizeof(sum)) == 0;
}

bool dt__disk_cache_find(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key, void **out,
                         size_t *out_bytes) {
  char name[DT_DISK_NAME_BYTES];
  *out = NULL;
  if (!cache || key->failed || key->len == 0)
    return false;
  name_entry(kind, key, name);
  // O_NONBLOCK: a FIFO in its place must not be waited for.
  int fd = dt__sys_open(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0)
    return false;
  size_t bytes = 0;
  char *all = read_entry(fd, name, &bytes);
  header_t header;
  bool good = all && is_sound(all, bytes, key, &header);
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
  header_t header = {.key_bytes = key->len, .data_bytes = bytes};
  memcpy(header.magic, magic, sizeof(magic));
  sum_entry(&header, key->data, data, header.sum);
  const dt_file_part_t parts[] = {{&header, sizeof(header)}, {key->data, key->len}, {data, bytes}};
  uint64_t all = (uint64_t)sizeof(header) + key->len + bytes;
  if (all > (uint64_t)MOST_BYTES || !dt__disk_trim_admits(&cache->trim, all)) {
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
