// SPDX-License-Identifier: Apache-2.0
// See file.h.
#include "runtime/base/file.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_TRIES 8

dt_status_t dt__file_open(int folder, const char *path, int *out_fd, struct stat *out) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  int fd = dt__sys_open(folder, path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0)
    return DT_FAIL(DT_E_IO, "%s: cannot open: %s", path, strerrordesc_np(errno));
  dt_status_t status = NULL;
  if (dt__sys_stat(fd, out) != 0)
    status = DT_FAIL(DT_E_IO, "%s: cannot read: %s", path, strerrordesc_np(errno));
  else if (!S_ISREG(out->st_mode) || out->st_size < 0)
    status = DT_FAIL(DT_E_IO, "%s: not a regular file", path);
  if (status)
    (void)dt__sys_close(fd);
  else
    *out_fd = fd;
  return status;
}

dt_status_t dt__file_read(int fd, void *to, uint64_t bytes, uint64_t offset, const char *what) {
  char *at = to;
  while (bytes > 0) {
    // Linux transfers at most 2 GiB a call, and any call may transfer less.
    ssize_t got = dt__sys_read_at(fd, at, (size_t)bytes, (off_t)offset);
    if (got < 0)
      return DT_FAIL(DT_E_IO, "%s: cannot read: %s", what, strerrordesc_np(errno));
    if (got == 0)
      return DT_FAIL(DT_E_IO, "%s: the file became shorter while it was read", what);
    at += got;
    bytes -= (uint64_t)got;
    offset += (uint64_t)got;
  }
  return NULL;
}

dt_file_stamp_t dt__file_stamp(const struct stat *found) {
  return (dt_file_stamp_t){.device = (uint64_t)found->st_dev,
                           .inode = (uint64_t)found->st_ino,
                           .bytes = (uint64_t)found->st_size,
                           .modified = {found->st_mtim.tv_sec, found->st_mtim.tv_nsec},
                           .changed = {found->st_ctim.tv_sec, found->st_ctim.tv_nsec}};
}

// ---- Replacing ------------------------------------------------------------------------------------

// A number that no other process or thread has; where the system gives none, one that they hardly
// have: names that are taken are tried again.
static uint64_t draw(void) {
  uint64_t number = 0;
  if (!dt__sys_random(&number, sizeof(number)))
    number = dt__hash_mix((uint64_t)dt__now_ns(),
                          dt__hash_mix((uint64_t)getpid(), (uint64_t)(uintptr_t)&number));
  return number;
}

// The temporary file, open; -1.
static int make_temporary(int folder, const char *path, mode_t mode, dt_text_t *out_name) {
  int fd = -1;
  errno = ENOMEM;
  for (int k = 0; k < MOST_TRIES && fd < 0; k++) {
    dt__text_fini(out_name);
    dt__text_init(out_name);
    dt__text_printf(out_name, "%s" DT_FILE_TEMPORARY, path, (unsigned long long)draw());
    if (out_name->failed)
      return -1;
    fd = dt__sys_open(folder, dt__text_str(out_name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                      mode);
    if (fd < 0 && errno != EEXIST)
      return -1;
  }
  return fd;
}

static bool write_all(int fd, const dt_file_part_t *part) {
  const char *at = part->data;
  for (size_t left = part->bytes; left > 0;) {
    ssize_t n = dt__sys_write(fd, at, left);
    if (n == 0)
      errno = EIO;
    if (n <= 0)
      return false;
    at += n;
    left -= (size_t)n;
  }
  return true;
}

// Closes the file in any case; 0 or an error number.
static int fill(int fd, const dt_file_part_t *parts, uint32_t n_parts, bool sync) {
  int error = 0;
  for (uint32_t k = 0; k < n_parts && !error; k++)
    error = write_all(fd, &parts[k]) ? 0 : errno;
  if (!error && sync && dt__sys_sync(fd) != 0)
    error = errno;
  if (dt__sys_close(fd) != 0 && !error)
    error = errno;
  return error;
}

static dt_status_t replace(int folder, const char *path, mode_t mode, const dt_file_part_t *parts,
                           uint32_t n_parts, bool sync) {
  dt_text_t name;
  dt__text_init(&name);
  dt_status_t status = NULL;
  int fd = make_temporary(folder, path, mode, &name);
  if (fd < 0) {
    status = name.failed ? DT_NO_MEMORY()
                         : DT_FAIL(DT_E_IO, "cannot create %s: %s", dt__text_str(&name),
                                   strerrordesc_np(errno));
  } else {
    int error = fill(fd, parts, n_parts, sync);
    if (error)
      status = DT_FAIL(DT_E_IO, "cannot write %s: %s", dt__text_str(&name), strerrordesc_np(error));
    else if (dt__sys_rename(folder, dt__text_str(&name), path) != 0)
      status = DT_FAIL(DT_E_IO, "cannot replace %s: %s", path, strerrordesc_np(errno));
    if (status)
      (void)dt__sys_unlink(folder, dt__text_str(&name));
  }
  dt__text_fini(&name);
  return status;
}

dt_status_t dt__file_replace(int folder, const char *path, mode_t mode, const dt_file_part_t *parts,
                             uint32_t n_parts) {
  return replace(folder, path, mode, parts, n_parts, true);
}

dt_status_t dt__file_replace_soon(int folder, const char *path, mode_t mode,
                                  const dt_file_part_t *parts, uint32_t n_parts) {
  return replace(folder, path, mode, parts, n_parts, false);
}
