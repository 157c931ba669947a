// SPDX-License-Identifier: Apache-2.0
// Bytes of files, read or mapped, and opening what stands beneath a folder. Private to
// frontends/onnx.
#ifndef DT_FRONTENDS_ONNX_FILES_H
#define DT_FRONTENDS_ONNX_FILES_H

#include "ductile/onnx.h"
#include "frontends/onnx/pace.h"
#include "runtime/base/file_tensor.h"

#include <sys/stat.h>

typedef struct dt_onnx_bytes_t {
  const unsigned char *data; // NULL: not loaded
  uint64_t bytes;
  void *map, *block;     // what holds them; both NULL: the caller's
  dt_file_stamp_t stamp; // of the file that is mapped
} dt_onnx_bytes_t;

// Opens the regular file at `path`, wherever it leads. DT_E_IO.
dt_status_t dt__onnx_open_path(const char *path, int *out_fd, struct stat *out) DT_MUST_USE;
// Opens the folder at `path`, or the one that the file `path` stands in. DT_E_IO, DT_E_NO_MEMORY.
dt_status_t dt__onnx_open_folder(const char *path, bool of_file, int *out_fd) DT_MUST_USE;
// Opens a regular file of one link at the relative path beneath the open folder, without going
// through a link of any kind, "." or "..".
dt_status_t dt__onnx_open_beneath(int folder, const char *path, int *out_fd,
                                  struct stat *out) DT_MUST_USE;
// Memory for bytes [offset, offset + bytes) of an open file, which are there at once where they are
// mapped, and else to be read into out->block. An offset to map from is a multiple of
// dt__onnx_alignment. On failure there is nothing to unload; the message names `what`, offset and
// bytes.
dt_status_t dt__onnx_take(int fd, uint64_t offset, uint64_t bytes, dt_onnx_access_t access,
                          const char *what, dt_onnx_bytes_t *out) DT_MUST_USE;
// The same with the bytes read, piece by piece.
dt_status_t dt__onnx_load(int fd, uint64_t offset, uint64_t bytes, dt_onnx_access_t access,
                          const char *what, dt_onnx_pace_t *pace, dt_onnx_bytes_t *out) DT_MUST_USE;
// What offsets are rounded down to: elements lie in memory as they lie in the file.
uint64_t dt__onnx_alignment(dt_onnx_access_t access);
void dt__onnx_unload(dt_onnx_bytes_t *bytes);

#endif // DT_FRONTENDS_ONNX_FILES_H
