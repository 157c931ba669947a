// SPDX-License-Identifier: Apache-2.0
// See system.h.
#include "runtime/base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U // since Linux 6.3; earlier C libraries do not name it
#endif

// ---- Faults ---------------------------------------------------------------------------------------
// `at` is the number of the call that fails, 0 when off, so that a serving process pays one relaxed
// load beside a system call.
typedef struct fault_t {
  _Atomic uint64_t at, counted;
  _Atomic int error;
  _Atomic bool sticky;
} fault_t;

static fault_t faults[DT_SYSTEM_KINDS];

// 0, DT_SYSTEM_SHORT or an error number.
static int fault(dt_system_kind_t kind) {
  fault_t *f = &faults[kind];
  uint64_t at = atomic_load_explicit(&f->at, memory_order_relaxed);
  if (__builtin_expect(at == 0, 1))
    return 0;
  uint64_t number = atomic_fetch_add_explicit(&f->counted, 1, memory_order_relaxed) + 1;
  bool hit =
      number == at || (number > at && atomic_load_explicit(&f->sticky, memory_order_relaxed));
  return hit ? atomic_load_explicit(&f->error, memory_order_relaxed) : 0;
}

// The same for calls that move nothing: true with errno set.
static bool fails(dt_system_kind_t kind) {
  int error = fault(kind);
  if (error <= 0)
    return false;
  errno = error;
  return true;
}

uint64_t dt__system_fail_at(dt_system_kind_t kind, uint64_t n, int error, bool sticky) {
  fault_t *f = &faults[kind];
  atomic_store_explicit(&f->at, 0, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&f->counted, 0, memory_order_relaxed);
  atomic_store_explicit(&f->error, error, memory_order_relaxed);
  atomic_store_explicit(&f->sticky, sticky, memory_order_relaxed);
  atomic_store_explicit(&f->at, n, memory_order_relaxed);
  return before;
}

// Evaluates `call` until no signal interrupts it, or a fault takes its place.
#define RETRIED(type, kind, call)                                                                  \
  type result;                                                                                     \
  do                                                                                               \
    result = fails(kind) ? -1 : (call);                                                            \
  while (result < 0 && errno == EINTR);                                                            \
  return result

// ---- Files ----------------------------------------------------------------------------------------

int dt__sys_open(int folder, const char *path, int flags, mode_t mode) {
  RETRIED(int, DT_SYSTEM_FILE, openat(folder, path, flags | O_CLOEXEC | O_NOCTTY, mode));
}

// The descriptor is gone whatever close says: to try again could close another's.
int dt__sys_close(int fd) {
  int error = fault(DT_SYSTEM_FILE), result = close(fd);
  if (error > 0) {
    errno = error;
    result = -1;
  }
  return result < 0 && errno != EINTR ? -1 : 0;
}

// What of `bytes` one call is asked to move; 0: it fails.
static size_t part(size_t bytes) {
  int error = fault(DT_SYSTEM_FILE);
  if (error > 0)
    errno = error;
  return error > 0 ? 0 : error == DT_SYSTEM_SHORT && bytes > 1 ? bytes / 2 : bytes;
}

#define MOVED(call)                                                                                \
  ssize_t result;                                                                                  \
  do {                                                                                             \
    size_t now = bytes ? part(bytes) : 0;                                                          \
    result = bytes && !now ? -1 : (call);                                                          \
  } while (result < 0 && errno == EINTR);                                                          \
  return result

ssize_t dt__sys_read(int fd, void *to, size_t bytes) { MOVED(read(fd, to, now)); }

ssize_t dt__sys_read_at(int fd, void *to, size_t bytes, off_t offset) {
  MOVED(pread(fd, to, now, offset));
}

ssize_t dt__sys_write(int fd, const void *from, size_t bytes) { MOVED(write(fd, from, now)); }

int dt__sys_truncate(int fd, off_t bytes) { RETRIED(int, DT_SYSTEM_FILE, ftruncate(fd, bytes)); }

int dt__sys_sync(int fd) { RETRIED(int, DT_SYSTEM_FILE, fsync(fd)); }

int dt__sys_stat(int fd, struct stat *out) { RETRIED(int, DT_SYSTEM_FILE, fstat(fd, out)); }

int dt__sys_stat_in(int folder, const char *name, struct stat *out) {
  RETRIED(int, DT_SYSTEM_FILE, fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW));
}

int dt__sys_rename(int folder, const char *from, const char *to) {
  RETRIED(int, DT_SYSTEM_FILE, renameat(folder, from, folder, to));
}

int dt__sys_unlink(int folder, const char *name) {
  RETRIED(int, DT_SYSTEM_FILE, unlinkat(folder, name, 0));
}

int dt__sys_mkdir(const char *path, mode_t mode) {
  RETRIED(int, DT_SYSTEM_FILE, mkdir(path, mode));
}

int dt__sys_touch(int fd) { RETRIED(int, DT_SYSTEM_FILE, futimens(fd, NULL)); }

int dt__sys_dup(int fd) { RETRIED(int, DT_SYSTEM_FILE, fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
int dt__sys_lock(int fd) { RETRIED(int, DT_SYSTEM_FILE, flock(fd, LOCK_EX | LOCK_NB)); }
int dt__sys_share(int fd) { RETRIED(int, DT_SYSTEM_FILE, flock(fd, LOCK_SH | LOCK_NB)); }

// A list is the C library's own (whose header and ours both have a DT_UNKNOWN).
static DIR *stream_of(dt_sys_list_t *list) { return (DIR *)(void *)list; }

dt_sys_list_t *dt__sys_list(int folder) {
  int fd = dt__sys_open(folder, ".", O_RDONLY | O_DIRECTORY, 0);
  DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
  if (!stream && fd >= 0)
    (void)close(fd);
  return (dt_sys_list_t *)(void *)stream;
}

const char *dt__sys_next(dt_sys_list_t *list) {
  if (fails(DT_SYSTEM_FILE))
    return NULL;
  errno = 0;
  const struct dirent *item = readdir(stream_of(list));
  return item ? item->d_name : NULL;
}

void dt__sys_list_end(dt_sys_list_t *list) { (void)closedir(stream_of(list)); }

// ---- Memory ---------------------------------------------------------------------------------------

void *dt__sys_map(size_t bytes, int protection, int flags, int fd, off_t offset) {
  return fails(DT_SYSTEM_MAPPING) ? MAP_FAILED : mmap(NULL, bytes, protection, flags, fd, offset);
}

int dt__sys_protect(void *at, size_t bytes, int protection) {
  RETRIED(int, DT_SYSTEM_MAPPING, mprotect(at, bytes, protection));
}

// Kernels before 6.3 do not know that a file must say whether it may hold code.
static int make_memory_file(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_EXEC);
  return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC) : fd;
}

// Its pages are taken now: to touch one that cannot be had would be a signal.
static int take_pages(int fd, size_t bytes) {
  RETRIED(int, DT_SYSTEM_MAPPING, fallocate(fd, 0, 0, (off_t)bytes));
}

int dt__sys_memory_file(const char *name, size_t bytes) {
  int fd = fails(DT_SYSTEM_MAPPING) ? -1 : make_memory_file(name);
  if (fd < 0 || take_pages(fd, bytes) == 0)
    return fd;
  int error = errno;
  (void)close(fd);
  errno = error;
  return -1;
}

// ---- Threads --------------------------------------------------------------------------------------

int dt__sys_thread(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
  int error = fault(DT_SYSTEM_THREAD);
  return error > 0 ? error : pthread_create(out, attr, run, arg);
}

bool dt__sys_random(void *to, size_t bytes) {
  return getrandom(to, bytes, GRND_NONBLOCK) == (ssize_t)bytes;
}
