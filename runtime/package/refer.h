// SPDX-License-Identifier: Apache-2.0
// Files in which constants of a package that is written may stay.
#ifndef DT_RUNTIME_PACKAGE_REFER_H
#define DT_RUNTIME_PACKAGE_REFER_H

#include "runtime/base/file_tensor.h"
#include "runtime/package/format.h"

typedef struct dt_pack_files_t {
  uint32_t n;
  dt_pack_file_t *index; // what the package says of them
  dt_file_stamp_t *stamps;
} dt_pack_files_t;

// Takes the files at `paths` for a package at `path`; all of `out` is the arena's. DT_E_IO.
dt_status_t dt__pack_files_take(dt_pack_files_t *out, dt_arena_t *arena, const char *path,
                                const char *const *paths, uint32_t n) DT_MUST_USE;
// Where the data of the tensor are in one of the files: out->file is 1 + its place, and offset and
// sum are set; 0: in none, as it is mapped. DT_E_IO: in one that was written to since.
dt_status_t dt__pack_refer(const dt_pack_files_t *files, const dt_tensor_t *tensor,
                           dt_pack_constant_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_PACKAGE_REFER_H
