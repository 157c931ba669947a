// SPDX-License-Identifier: Apache-2.0
// See disk_cache.h. An entry is
//
//   header_t | key | data
//
// written to a file of another name in the folder and renamed, so that a reader sees all of it or
// nothing. The folder is the user's alone.
#include "runtime/base/disk_cache.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((int64_t)1 << 30)

typedef struct header_t {
  char magic[8];
  uint64_t key_bytes, data_bytes;
  uint64_t checksum; // of what follows
} header_t;
_Static_assert(sizeof(header_t) == 32, "no padding is written");

static const char magic[8] = {'D', 'T', 'C', 'A', 'C', 'H', 'E', '1'};

// "<folder>/<128 bits>.<kind>"; false: too long.
static bool name_entry(const char *folder, const char *kind, const dt_text_t *key, char *out,
                       size_t bytes) {
  uint64_t low = dt__hash(key->data, key->len, 0), high = dt__hash(key->data, key->len, 1);
  int n = snprintf(out, bytes, "%s/%016llx%016llx.%s", folder, (unsigned long long)high,
                   (unsigned long long)low, kind);
  return n > 0 && (size_t)n < bytes;
}

static bool read_all(int fd, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = read(fd, (char *)to + done, bytes - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    done += (size_t)n;
  }
  return true;
}

static bool write_all(int fd, const void *from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(fd, (const char *)from + done, bytes - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    done += (size_t)n;
  }
  return true;
}

// ---- Finding --------------------------------------------------------------------------------------

// The file's bytes, if it is a regular file of this user's that nobody else may write.
static char *read_entry(int fd, size_t *out_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) || info.st_size < (off_t)sizeof(header_t) ||
      info.st_size > MOST_BYTES)
    return NULL;
  *out_bytes = (size_t)info.st_size;
  char *all = dt__alloc(*out_bytes);
  if (all && read_all(fd, all, *out_bytes))
    return all;
  dt__free(all);
  return NULL;
}

static bool is_sound(const char *all, size_t bytes, const dt_text_t *key, header_t *out) {
  memcpy(out, all, sizeof(*out));
  size_t rest = bytes - sizeof(*out);
  return memcmp(out->magic, magic, sizeof(magic)) == 0 && out->key_bytes == key->len &&
         out->key_bytes <= rest && out->data_bytes == rest - out->key_bytes &&
         out->data_bytes > 0 && memcmp(all + sizeof(*out), key->data, key->len) == 0 &&
         out->checksum == dt__hash(all + sizeof(*out), rest, 0);
}

bool dt__disk_cache_find(const char *folder, const char *kind, const dt_text_t *key, void **out,
                         size_t *out_bytes) {
  char path[PATH_MAX];
  *out = NULL;
  if (!folder[0] || key->failed || !name_entry(folder, kind, key, path, sizeof(path)))
    return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return false;
  size_t bytes = 0;
  char *all = read_entry(fd, &bytes);
  (void)close(fd);
  header_t header;
  bool good = all && is_sound(all, bytes, key, &header);
  if (good) {
    *out_bytes = (size_t)header.data_bytes;
    *out = all;
    memmove(all, all + sizeof(header) + key->len, *out_bytes);
  } else {
    DT_LOG(DT_LOG_COMPILE, 1, "cache: %s is damaged or not ours; it will be replaced", path);
    dt__free(all);
  }
  return good;
}

// ---- Keeping --------------------------------------------------------------------------------------

// Makes the folder and those above it, for this user alone.
static bool make_folder(const char *folder) {
  char path[PATH_MAX];
  size_t len = strlen(folder);
  if (len >= sizeof(path))
    return false;
  memcpy(path, folder, len + 1);
  for (size_t k = 1; k < len; k++) {
    if (path[k] != '/')
      continue;
    path[k] = 0;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
      return false;
    path[k] = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool write_entry(int fd, const dt_text_t *key, const void *data, size_t bytes) {
  size_t rest = 0;
  char *body = dt__add_size(key->len, bytes, &rest) ? dt__alloc(rest) : NULL;
  if (!body)
    return false;
  memcpy(body, key->data, key->len);
  memcpy(body + key->len, data, bytes);
  header_t header = {
      .key_bytes = key->len, .data_bytes = bytes, .checksum = dt__hash(body, rest, 0)};
  memcpy(header.magic, magic, sizeof(magic));
  bool good = write_all(fd, &header, sizeof(header)) && write_all(fd, body, rest);
  dt__free(body);
  return good;
}

void dt__disk_cache_keep(const char *folder, const char *kind, const dt_text_t *key,
                         const void *data, size_t bytes) {
  static _Atomic uint32_t number; // tells files of threads apart
  char path[PATH_MAX], temporary[PATH_MAX];
  if (!folder[0] || key->failed || !name_entry(folder, kind, key, path, sizeof(path)))
    return;
  int n = snprintf(temporary, sizeof(temporary), "%s.%ld.%u", path, (long)getpid(),
                   atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
  bool good = n > 0 && (size_t)n < sizeof(temporary) && make_folder(folder);
  int fd = good ? open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) {
    good = write_entry(fd, key, data, bytes);
    good = close(fd) == 0 && good;
    good = good && rename(temporary, path) == 0;
    if (!good)
      (void)unlink(temporary);
  }
  if (!good || fd < 0)
    DT_LOG(DT_LOG_COMPILE, 1, "cache: %s cannot be written: %s", path, strerror(errno));
}
