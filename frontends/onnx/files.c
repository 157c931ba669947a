// SPDX-License-Identifier: Apache-2.0
// Opening and loading files. A path from a model is untrusted: each of its folders is opened in the
// one before it, and no link is followed, so that it cannot lead out of the first.
#include "frontends/onnx/files.h"

#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA_ALIGNMENT 64u
#define COMPONENT_BYTES 256u

// ---- Opening --------------------------------------------------------------------------------------
dt_status_t dt__onnx_open_path(const char *path, int *out_fd, struct stat *out) {
  return dt__file_open(AT_FDCWD, path, out_fd, out);
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
  int fd = dt__sys_open(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
  dt_status_t status =
      fd >= 0 ? NULL
              : DT_FAIL(DT_E_IO, "%s: cannot open the folder: %s", folder, strerrordesc_np(errno));
  dt__free(folder);
  *out_fd = fd;
  return status;
}

// Opens one component; *folder is closed unless it is the first.
static dt_status_t step(int first, int *folder, const char *name, bool last, const char *whole) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  int flags = last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
  int fd = dt__sys_open(*folder, name, flags | O_NOFOLLOW, 0);
  int failed = errno;
  struct stat st;
  bool link = fd < 0 && (failed == ELOOP || failed == ENOTDIR) &&
              dt__sys_stat_in(*folder, name, &st) == 0 && S_ISLNK(st.st_mode);
  if (*folder != first)
    (void)dt__sys_close(*folder);
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
  if (dt__sys_stat(fd, out) != 0 || !S_ISREG(out->st_mode) || out->st_size < 0)
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
        (void)dt__sys_close(folder);
      return status;
    }
    path += bytes + (slash != NULL);
    DT_TRY(step(first, &folder, name, path == end, whole));
  }
  if (folder == first)
    return DT_FAIL(DT_E_FORMAT, "external file \"%s\": an empty path", whole);
  dt_status_t status = check_opened(folder, whole, out);
  if (status)
    (void)dt__sys_close(folder);
  else
    *out_fd = folder;
  return status;
}

// ---- Loading --------------------------------------------------------------------------------------
uint64_t dt__onnx_alignment(dt_onnx_access_t access) {
  return access == DT_ONNX_MAP ? (uint64_t)sysconf(_SC_PAGESIZE) : DATA_ALIGNMENT;
}

dt_status_t dt__onnx_take(int fd, uint64_t offset, uint64_t bytes, dt_onnx_access_t access,
                          const char *what, dt_onnx_bytes_t *out) {
  *out = (dt_onnx_bytes_t){.bytes = bytes};
  if (access == DT_ONNX_MAP && bytes > 0) {
    void *map = dt__sys_map((size_t)bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)offset);
    if (map == MAP_FAILED)
      return DT_FAIL(errno == ENOMEM ? DT_E_NO_MEMORY : DT_E_IO,
                     "%s: cannot map %llu bytes from byte %llu on: %s", what,
                     (unsigned long long)bytes, (unsigned long long)offset, strerrordesc_np(errno));
    out->map = map;
    out->data = map;
    return NULL;
  }
  out->block = dt__alloc_aligned((size_t)bytes, DATA_ALIGNMENT);
  if (!out->block)
    return DT_FAIL(DT_E_NO_MEMORY, "%s: no memory for %llu bytes from byte %llu on", what,
                   (unsigned long long)bytes, (unsigned long long)offset);
  out->data = out->block;
  return NULL;
}

dt_status_t dt__onnx_load(int fd, uint64_t offset, uint64_t bytes, dt_onnx_access_t access,
                          const char *what, dt_onnx_pace_t *pace, dt_onnx_bytes_t *out) {
  DT_TRY(dt__onnx_take(fd, offset, bytes, access, what, out));
  dt_status_t status = NULL;
  for (uint64_t at = 0; out->block && at < bytes && !status; at += DT_ONNX_PIECE_BYTES) {
    uint64_t piece = bytes - at < DT_ONNX_PIECE_BYTES ? bytes - at : DT_ONNX_PIECE_BYTES;
    status = dt__onnx_go_on(pace, DT_ONNX_WORK_A_LOOK);
    if (!status)
      status = dt__file_read(fd, (char *)out->block + at, piece, offset + at, what);
  }
  if (status)
    dt__onnx_unload(out);
  return status;
}

void dt__onnx_unload(dt_onnx_bytes_t *bytes) {
  if (bytes->map)
    munmap(bytes->map, (size_t)bytes->bytes);
  dt__free(bytes->block);
  *bytes = (dt_onnx_bytes_t){0};
}
