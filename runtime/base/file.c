// SPDX-License-Identifier: Apache-2.0
// See file.h.
#include "runtime/base/file.h"

#include "runtime/base/status.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

dt_status_t dt__file_read(int fd, void *to, uint64_t bytes, uint64_t offset, const char *what) {
  char *at = to;
  while (bytes > 0) {
    // Linux transfers at most 2 GiB a call, and any call may transfer less.
    ssize_t got = pread(fd, at, (size_t)bytes, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
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
