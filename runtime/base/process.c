// SPDX-License-Identifier: Apache-2.0
// See process.h.
#include "runtime/base/process.h"

#include "runtime/base/memory.h"
#include "runtime/base/system.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)4 << 20) // a host of containers lists thousands of mounts
#define FIRST_BYTES ((size_t)4096)

// The system's own files have no size before they are read.
static char *read_all(int fd) {
  size_t len = 0, cap = FIRST_BYTES;
  char *text = dt__alloc(cap);
  while (text) {
    ssize_t n = dt__sys_read(fd, text + len, cap - len - 1);
    if (n == 0) {
      text[len] = '\0';
      return text;
    }
    len += n > 0 ? (size_t)n : 0;
    char *grown = text;
    if (len == cap - 1 && (cap *= 2) <= MOST_BYTES)
      grown = dt__realloc(text, cap);
    if (n < 0 || cap > MOST_BYTES || !grown) {
      dt__free(text);
      return NULL;
    }
    text = grown;
  }
  return NULL;
}

char *dt__process_read(const char *path) {
  int fd = dt__sys_open(AT_FDCWD, path, O_RDONLY, 0);
  char *text = fd >= 0 ? read_all(fd) : NULL;
  if (fd >= 0)
    (void)dt__sys_close(fd);
  return text;
}

int64_t dt__resident_bytes(void) {
  // The second field is the resident set in pages.
  long long total = 0, resident = 0;
  char *text = dt__process_read("/proc/self/statm");
  bool good = text && sscanf(text, "%lld %lld", &total, &resident) == 2;
  dt__free(text);
  return good ? (int64_t)resident * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int affine_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN); // more cores than a cpu_set_t holds
  return online > 0 ? (int)online : 1;
}

int dt__core_count(void) {
  int cores = affine_cores(), allowed = dt__cgroup_cores("");
  return allowed > 0 && allowed < cores ? allowed : cores;
}
