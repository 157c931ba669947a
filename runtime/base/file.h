// SPDX-License-Identifier: Apache-2.0
// Reading files, and writing them so that a reader sees all of one or nothing. [any]
#ifndef DT_RUNTIME_BASE_FILE_H
#define DT_RUNTIME_BASE_FILE_H

#include "runtime/base/file_tensor.h"

#include <sys/stat.h>

// Opens the regular file at `path` in the open folder (or AT_FDCWD) for reading. Nothing is waited
// for, whatever stands there. DT_E_IO: "<path>: cannot open: …", "<path>: not a regular file".
dt_status_t dt__file_open(int folder, const char *path, int *out_fd, struct stat *out) DT_MUST_USE;
// All of `bytes` from `offset` on. DT_E_IO, also where the file ends before; `what` names it.
dt_status_t dt__file_read(int fd, void *to, uint64_t bytes, uint64_t offset,
                          const char *what) DT_MUST_USE;

// What tells the file from others, and from itself once it was written to.
dt_file_stamp_t dt__file_stamp(const struct stat *found);

typedef struct dt_file_part_t {
  const void *data;
  size_t bytes;
} dt_file_part_t;

// Writes the parts, one after another, to a file of another name beside `path` (DT_FILE_TEMPORARY
// behind it), brings it to the disk and renames it: `path` is the old file or the new one, whole,
// whatever happens. On failure nothing is left but where the process dies. DT_E_IO, DT_E_NO_MEMORY.
dt_status_t dt__file_replace(int folder, const char *path, mode_t mode, const dt_file_part_t *parts,
                             uint32_t n_parts) DT_MUST_USE;
// The same, but not brought to the disk: after a loss of power it may hold anything.
dt_status_t dt__file_replace_soon(int folder, const char *path, mode_t mode,
                                  const dt_file_part_t *parts, uint32_t n_parts) DT_MUST_USE;
// What follows a name to make that of a temporary file: ".", 16 digits of 0-9 and a-f, ".tmp".
#define DT_FILE_TEMPORARY ".%016llx.tmp"
#define DT_FILE_TEMPORARY_BYTES 21

#endif // DT_RUNTIME_BASE_FILE_H
