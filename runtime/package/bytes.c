// SPDX-License-Identifier: Apache-2.0
// The bytes of packages, and of files that they refer to: mapped, read, copied or borrowed.
#include "runtime/package/package.h"

#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

void dt__pack_bytes_release(void *opaque) {
  dt_pack_bytes_t *bytes = opaque;
  if (!bytes || atomic_fetch_sub_explicit(&bytes->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (bytes->map)
    (void)munmap(bytes->map, bytes->bytes);
  if (bytes->fd >= 0)
    (void)dt__sys_close(bytes->fd);
  dt__free(bytes->block);
  dt__free(bytes);
}

void dt__pack_bytes_retain(dt_pack_bytes_t *bytes) {
  (void)atomic_fetch_add_explicit(&bytes->refs, 1, memory_order_relaxed);
}

static dt_status_t map(int fd, const struct stat *found, dt_pack_bytes_t *out) {
  void *at = dt__sys_map(out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED)
    return DT_FAIL(errno == ENOMEM ? DT_E_NO_MEMORY : DT_E_IO, "cannot map %zu bytes: %s",
                   out->bytes, strerrordesc_np(errno));
  out->map = at;
  out->data = at;
  out->stamp = dt__file_stamp(found);
  return NULL;
}

static dt_status_t take_block(dt_pack_bytes_t *out) {
  out->block = dt__alloc_aligned(out->bytes, DT_PACK_ALIGN);
  out->data = out->block;
  return out->block ? NULL
                    : DT_FAIL(DT_E_NO_MEMORY, "no memory for %zu bytes of a package", out->bytes);
}

static dt_status_t take_file(int fd, const struct stat *found, const char *what, bool copy,
                             dt_pack_bytes_t *out) {
  out->bytes = (size_t)found->st_size;
  if (!out->bytes)
    return DT_FAIL(DT_E_FORMAT, "%s is empty", what);
  if (!copy)
    return map(fd, found, out);
  DT_TRY(take_block(out));
  return dt__file_read(fd, out->block, out->bytes, 0, what);
}

// Of a file that code may be mapped from, the descriptor is kept.
static dt_status_t take_descriptor(int fd, bool copy, dt_pack_bytes_t *out) {
  struct stat found;
  if (dt__sys_stat(fd, &found) != 0)
    return DT_FAIL(DT_E_IO, "descriptor %d: %s", fd, strerrordesc_np(errno));
  if (!S_ISREG(found.st_mode))
    return DT_FAIL(DT_E_IO, "descriptor %d: not a regular file", fd);
  DT_TRY(take_file(fd, &found, "the package", copy, out));
  out->fd = copy ? -1 : dt__sys_dup(fd); // without one, code is copied
  return NULL;
}

static dt_status_t take_path(const char *path, bool copy, bool code, dt_pack_bytes_t *out) {
  struct stat found;
  int fd = -1;
  DT_TRY(dt__file_open(AT_FDCWD, path, &fd, &found));
  dt_status_t status = take_file(fd, &found, path, copy, out);
  if (!status && code && !copy)
    out->fd = fd;
  else
    (void)dt__sys_close(fd);
  return status;
}

static dt_status_t take(const dt_pack_source_t *source, bool copy, dt_pack_bytes_t *out) {
  if (source->path)
    return take_path(source->path, copy, source->code, out);
  if (!source->data)
    return take_descriptor(source->fd, copy, out);
  out->data = source->data;
  out->bytes = source->bytes;
  if (!copy)
    return NULL;
  DT_TRY(take_block(out));
  memcpy(out->block, source->data, out->bytes);
  return NULL;
}

dt_status_t dt__pack_bytes_take(const dt_pack_source_t *source, bool copy, dt_pack_bytes_t **out) {
  *out = NULL;
  dt_pack_bytes_t *bytes = dt__calloc(1, sizeof(*bytes));
  if (!bytes)
    return DT_NO_MEMORY();
  atomic_init(&bytes->refs, 1);
  bytes->fd = -1;
  dt_status_t status = take(source, copy, bytes);
  if (status)
    dt__pack_bytes_release(bytes);
  else
    *out = bytes;
  return status;
}
