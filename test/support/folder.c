// SPDX-License-Identifier: Apache-2.0
// See folder.h.
#include "test/support/folder.h"

#include "test/support/check.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void folder_make(char path[FOLDER_BYTES]) {
  (void)snprintf(path, FOLDER_BYTES, "%s/ductile-test-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  assert_non_null(mkdtemp(path));
}

static int drop(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

int folder_drop(const char *path) { return nftw(path, drop, 8, FTW_DEPTH | FTW_PHYS); }

uint32_t folder_count(const char *path, const char *end) {
  DIR *folder = opendir(path);
  uint32_t n = 0;
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    size_t length = strlen(entry->d_name), tail = strlen(end);
    n += entry->d_name[0] != '.' && length >= tail &&
         strcmp(entry->d_name + length - tail, end) == 0;
  }
  (void)closedir(folder);
  return n;
}

void file_write(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (!file)
    fail_msg("%s cannot be written", path);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

void file_put(const char *root, const char *name, const char *text) {
  char path[256];
  int n = snprintf(path, sizeof(path), "%s%s", root, name);
  assert_true(n > 0 && (size_t)n < sizeof(path));
  for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
    *at = '\0';
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    *at = '/';
  }
  file_write(path, text, strlen(text));
}

char *file_read(const char *path, size_t *out_bytes) {
  FILE *file = fopen(path, "rb");
  struct stat info = {0};
  if (!file || fstat(fileno(file), &info) != 0)
    fail_msg("%s cannot be read", path);
  size_t bytes = (size_t)info.st_size;
  char *data = malloc(bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  data[bytes] = '\0';
  if (out_bytes)
    *out_bytes = bytes;
  return data;
}

void variable_set(const char *name, const char *value) {
  assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}
