// SPDX-License-Identifier: Apache-2.0
// Opening and loading files. A path from a model is untrusted: each of its folders is opened in the
// one before it, and no link is followed, so that it cannot lead out of the first.
#include "frontends/onnx/files.h"

#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA_ALIGNMENT 64u
#define COMPONENT_BYTES 256u

// ---- Opening --------------------------------------------------------------------------------------
// O_NONBLOCK: opening a FIFO must not wait for a writer.
#define FILE_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

dt_status_t dt__onnx_open_path(const char *path, int *out_fd, struct stat *out) {
  int fd = open(path, FILE_FLAGS);
  if (fd < 0)
    return DT_FAIL(DT_E_IO, "%s: cannot open: %s", path, strerrordesc_np(errno));
  if (fstat(fd, out) != 0 || !S_ISREG(out->st_mode) || out->st_size < 0) {
    close(fd);
    return DT_FAIL(DT_E_IO, "%s: not a regular file", path);
  }
  *out_fd = fd;
  return NULL;
}

dt_status_t dt__onnx_open_folder(const char *path, bool of_file, int *out_fd) {
  const char *slash = of_file ? strrchr(path, '/') : path + strlen(path);
  size_t len = slash ? (size_t)(slash - path) : 0;
  char *folder = dt__calloc(1, len + 2);
  if (!folder)
    return DT_NO_MEMORY();
  memcpy(folder, path, len);
  if (len == 0) // beside the working folder, or in the root
    folder[0] = slash ? '/' : '.';
  int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  dt_status_t status =
      fd >= 0 ? NULL
              : DT_FAIL(DT_E_IO, "%s: cannot open the folder: %s", folder, strerrordesc_np(errno));
  dt__free(folder);
  *out_fd = fd;
  return status;
}

// Opens one component; *folder is closed unless it is the first.
static dt_status_t step(int first, int *folder, const char *name, bool last, const char *whole) {
  int flags = last ? FILE_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC;
  int fd = openat(*folder, name, flags | O_NOFOLLOW);
  int failed = errno;
  struct stat st;
  bool link = fd < 0 && (failed == ELOOP || failed == ENOTDIR) &&
              fstatat(*folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
  if (*folder != first)
    close(*folder);
  *folder = fd;
  if (link)
    return DT_FAIL(DT_E_IO,
                   "external file \"%s\": \"%s\" is a symbolic link, which could lead anywhere: "
                   "put the file itself there",
                   whole, name);
  if (fd < 0)
    return DT_FAIL(DT_E_IO, "external file \"%s\" cannot be opened: %s", whole,
                   strerrordesc_np(failed));
  return NULL;
}

static dt_status_t check_opened(int fd, const char *whole, struct stat *out) {
  if (fstat(fd, out) != 0 || !S_ISREG(out->st_mode) || out->st_size < 0)
    return DT_FAIL(DT_E_IO, "external file \"%s\" is not a regular file", whole);
  if (out->st_nlink != 1)
    return DT_FAIL(DT_E_IO,
                   "external file \"%s\" has %llu names (hard links), one of which may be outside "
                   "the model's folder: copy it",
                   whole, (unsigned long long)out->st_nlink);
  return NULL;
}

// A path was checked where it stands in the model, which may be a mapped file that someone writes
// to: what counts is this copy.
static dt_status_t copy_component(const char *at, size_t bytes, const char *whole,
                                  char out[COMPONENT_BYTES]) {
  if (bytes >= COMPONENT_BYTES)
    return DT_FAIL(DT_E_LIMIT, "external file \"%s\": a name of %zu bytes", whole, bytes);
  memcpy(out, at, bytes);
  out[bytes] = '\0';
  if (bytes == 0 || strlen(out) != bytes || strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
    return DT_FAIL(DT_E_FORMAT, "external file \"%s\": a path that could lead elsewhere", whole);
  return NULL;
}

dt_status_t dt__onnx_open_beneath(int first, const char *whole, int *out_fd, struct stat *out) {
  int folder = first;
  const char *path = whole, *end = whole + strlen(whole);
  while (path < end) {
    const char *slash = memchr(path, '/', (size_t)(end - path));
    size_t bytes = (size_t)((slash ? slash : end) - path);
    char name[COMPONENT_BYTES];
    dt_status_t status = copy_component(path, bytes, whole, name);
    if (status) {
      if (folder != first)
        close(folder);
      return status;
    }
    path += bytes + (slash != NULL);
    DT_TRY(step(first, &folder, name, path == end, whole));
  }
  if (folder == first)
    return DT_FAIL(DT_E_FORMAT, "external file \"%s\": an empty path", whole);
  dt_status_t status = check_opened(folder, whole, out);
  if (status)
    close(folder);
  else
    *out_fd = folder;
  return status;
}

// ---- Loading --------------------------------------------------------------------------------------
dt_status_t dt__onnx_load(int fd, uint64_t bytes, dt_onnx_access_t access, const char *what,
                          dt_onnx_bytes_t *out) {
  *out = (dt_onnx_bytes_t){.bytes = bytes};
  if (access == DT_ONNX_MAP && bytes > 0) {
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
      return DT_FAIL(errno == ENOMEM ? DT_E_NO_MEMORY : DT_E_IO, "%s: cannot map: %s", what,
                     strerrordesc_np(errno));
    out->map = map;
    out->data = map;
    return NULL;
  }
  out->block = dt__alloc_aligned((size_t)bytes, DATA_ALIGNMENT);
  if (!out->block)
    return DT_NO_MEMORY();
  out->data = out->block;
  return dt__file_read(fd, out->block, bytes, 0, what);
}

void dt__onnx_unload(dt_onnx_bytes_t *bytes) {
  if (bytes->map)
    munmap(bytes->map, (size_t)bytes->bytes);
  dt__free(bytes->block);
  *bytes = (dt_onnx_bytes_t){0};
}
