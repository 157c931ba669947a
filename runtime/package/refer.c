// SPDX-License-Identifier: Apache-2.0
// See refer.h.
#include "runtime/package/refer.h"

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/tensor/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---- Paths ----------------------------------------------------------------------------------------
// From the folder at `from` to the file at `to`, both real paths.
static char *relative(dt_arena_t *arena, const char *from, const char *to) {
  size_t common = 0; // of the folders that both have, with the slash
  for (size_t i = 0; from[i] && from[i] == to[i]; i++)
    common = to[i] == '/' ? i + 1 : common;
  size_t len = strlen(from);
  if (strncmp(from, to, len) == 0 && to[len] == '/')
    return dt__arena_strdup(arena, to + len + 1);
  char *path = dt__arena_strdup(arena, to + common);
  for (const char *at = from + common; path && at; at = strchr(at, '/'), at += at != NULL)
    if (*at)
      path = (char *)(uintptr_t)dt__arena_printf(arena, "../%s", path);
  return path;
}

static dt_status_t resolve(const char *path, char out[PATH_MAX]) {
  return realpath(path, out) ? NULL : DT_FAIL(DT_E_IO, "%s: %s", path, strerrordesc_np(errno));
}

// The real path of the folder that the package will stand in.
static dt_status_t folder_of(dt_arena_t *arena, const char *path, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  char *folder = dt__arena_strdup(arena, slash ? path : ".");
  if (!folder)
    return DT_NO_MEMORY();
  folder[n ? n : 1] = '\0';
  return resolve(folder, out);
}

// ---- Files ----------------------------------------------------------------------------------------
static dt_status_t take_file(dt_arena_t *arena, const char *folder, const char *path,
                             dt_pack_file_t *out, dt_file_stamp_t *out_stamp) {
  struct stat found;
  int fd = -1;
  char real[PATH_MAX];
  DT_TRY(dt__file_open(AT_FDCWD, path, &fd, &found));
  (void)dt__sys_close(fd);
  DT_TRY(resolve(path, real));
  *out = (dt_pack_file_t){relative(arena, folder, real), (uint64_t)found.st_size};
  *out_stamp = dt__file_stamp(&found);
  return out->path ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__pack_files_take(dt_pack_files_t *out, dt_arena_t *arena, const char *path,
                                const char *const *paths, uint32_t n) {
  char folder[PATH_MAX];
  *out = (dt_pack_files_t){0};
  if (!n)
    return NULL;
  if (!paths)
    return DT_FAIL(DT_E_ARGUMENT, "files: NULL; expected %u", n);
  out->index = DT_ARENA_ARRAY(arena, dt_pack_file_t, n);
  out->stamps = DT_ARENA_ARRAY(arena, dt_file_stamp_t, n);
  if (!out->index || !out->stamps)
    return DT_NO_MEMORY();
  DT_TRY(folder_of(arena, path, folder));
  dt_status_t status = NULL;
  for (; out->n < n && !status; out->n += !status)
    status = paths[out->n] ? take_file(arena, folder, paths[out->n], &out->index[out->n],
                                       &out->stamps[out->n])
                           : DT_FAIL(DT_E_ARGUMENT, "files[%u]: NULL", out->n);
  return status;
}

// ---- Places ---------------------------------------------------------------------------------------
dt_status_t dt__pack_refer(const dt_pack_files_t *files, const dt_tensor_t *tensor,
                           dt_pack_constant_t *out) {
  const dt_file_place_t *place = dt__tensor_place(tensor);
  size_t bytes = dt__tensor_bytes(tensor);
  for (uint32_t k = 0; place && bytes && k < files->n; k++) {
    const dt_file_stamp_t *own = &files->stamps[k];
    if (own->device != place->stamp->device || own->inode != place->stamp->inode)
      continue;
    if (!dt__file_same(own, place->stamp))
      return DT_FAIL(DT_E_IO, "%s was written to since its weights were mapped",
                     files->index[k].path);
    out->file = k + 1;
    out->offset = place->offset;
    out->sum = dt__hash(tensor->data, bytes, 0);
    return NULL;
  }
  return NULL;
}
