// SPDX-License-Identifier: Apache-2.0
// See disk_entry.h.
#include "runtime/base/disk_entry.h"

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = {'D', 'T', 'C', 'A', 'C', 'H', 'E', '2'};
static const char page_magic[8] = {'D', 'T', 'P', 'A', 'G', 'E', 'S', '1'};

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
  int failure = 0, fd = dt__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
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

const char *dt__disk_folder_open(const char *folder, bool make, int *out) {
  char path[PATH_MAX];
  size_t len = strlen(folder);
  // With a slash behind its name a link would be followed.
  while (len > 1 && folder[len - 1] == '/')
    len--;
  if (len == 0 || len >= sizeof(path))
    return len ? "too long a name" : "no folder is named";
  memcpy(path, folder, len);
  path[len] = '\0';
  int failure = make ? make_folder(path) : 0;
  return failure ? strerrordesc_np(failure) : open_folder(path, out);
}

// ---- Entries --------------------------------------------------------------------------------------
static void sum_entry(const dt_disk_header_t *header, const void *key, const void *data,
                      unsigned char out[DT_SHA256_BYTES]) {
  dt_sha256_t sum;
  dt__sha256_init(&sum);
  dt__sha256_add(&sum, header, offsetof(dt_disk_header_t, sum));
  dt__sha256_add(&sum, key, (size_t)header->key_bytes);
  dt__sha256_add(&sum, data, (size_t)header->data_bytes);
  dt__sha256_end(&sum, out);
}

static void sum_pages(const dt_disk_header_t *header, const void *key, const void *data,
                      unsigned char out[DT_SHA256_BYTES]) {
  uint64_t sum = dt__hash(header, offsetof(dt_disk_header_t, sum), 0);
  sum = dt__hash(key, (size_t)header->key_bytes, sum);
  sum = dt__hash(data, (size_t)header->data_bytes, sum);
  memset(out, 0, DT_SHA256_BYTES);
  memcpy(out, &sum, sizeof(sum));
}

dt_disk_header_t dt__disk_page_header(const void *key, size_t key_bytes, const void *data,
                                      size_t data_bytes) {
  dt_disk_header_t header = {.key_bytes = key_bytes, .data_bytes = data_bytes};
  memcpy(header.magic, page_magic, sizeof(page_magic));
  sum_pages(&header, key, data, header.sum);
  return header;
}

dt_disk_header_t dt__disk_entry_header(const void *key, size_t key_bytes, const void *data,
                                       size_t data_bytes) {
  dt_disk_header_t header = {.key_bytes = key_bytes, .data_bytes = data_bytes};
  memcpy(header.magic, magic, sizeof(magic));
  sum_entry(&header, key, data, header.sum);
  return header;
}

static char *read_file(int fd, const char *name, size_t *out_bytes) {
  struct stat info;
  if (dt__sys_stat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !is_ours(&info) ||
      info.st_size < (off_t)sizeof(dt_disk_header_t) || info.st_size > (off_t)DT_DISK_MOST_BYTES)
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

char *dt__disk_entry_read(int folder, const char *name, int *out_fd, size_t *out_bytes) {
  // O_NONBLOCK: a FIFO in its place must not be waited for.
  *out_fd = dt__sys_open(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  return *out_fd < 0 ? NULL : read_file(*out_fd, name, out_bytes);
}

int dt__disk_entry_open(int folder, const char *name, size_t bytes) {
  struct stat info;
  int fd = dt__sys_open(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  if (dt__sys_stat(fd, &info) == 0 && S_ISREG(info.st_mode) && is_ours(&info) &&
      info.st_size == (off_t)bytes)
    return fd;
  (void)dt__sys_close(fd);
  return -1;
}

bool dt__disk_entry_is_sound(const char *all, size_t bytes, dt_disk_header_t *out) {
  unsigned char sum[DT_SHA256_BYTES];
  memcpy(out, all, sizeof(*out));
  const char *body = all + sizeof(*out);
  size_t rest = bytes - sizeof(*out);
  bool pages = memcmp(out->magic, page_magic, sizeof(page_magic)) == 0;
  if ((!pages && memcmp(out->magic, magic, sizeof(magic)) != 0) || out->key_bytes > rest ||
      out->data_bytes != rest - out->key_bytes || out->data_bytes == 0)
    return false;
  (pages ? sum_pages : sum_entry)(out, body, body + out->key_bytes, sum);
  return memcmp(sum, out->sum, sizeof(sum)) == 0;
}
