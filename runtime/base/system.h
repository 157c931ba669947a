// SPDX-License-Identifier: Apache-2.0
// What the library asks of the system about files, mappings and threads. Each such call of the
// library goes through here (lint.system): one that a signal interrupts is made again, and a test
// makes the n-th of a kind fail. Results and errno are the system's own. [any]
#ifndef DT_RUNTIME_BASE_SYSTEM_H
#define DT_RUNTIME_BASE_SYSTEM_H

#include "ductile/base.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>

// ---- Files --------------------------------------------------------------------------------------
// `folder` is an open one, or AT_FDCWD. Close-on-exec and O_NOCTTY are set.
int dt__sys_open(int folder, const char *path, int flags, mode_t mode);
int dt__sys_close(int fd);
int dt__sys_dup(int fd); // close-on-exec
ssize_t dt__sys_read(int fd, void *to, size_t bytes);
ssize_t dt__sys_read_at(int fd, void *to, size_t bytes, off_t offset);
ssize_t dt__sys_write(int fd, const void *from, size_t bytes);
int dt__sys_truncate(int fd, off_t bytes);
int dt__sys_sync(int fd);
int dt__sys_stat(int fd, struct stat *out);
int dt__sys_stat_in(int folder, const char *name, struct stat *out); // of a link: its own
int dt__sys_rename(int folder, const char *from, const char *to);
int dt__sys_unlink(int folder, const char *name);
int dt__sys_mkdir(const char *path, mode_t mode);
int dt__sys_touch(int fd); // modified now
int dt__sys_lock(int fd);  // of no other open file of it, EWOULDBLOCK: another has it
int dt__sys_share(int fd); // of it and others that share it, in place of what it had
// The names in an open folder, from the first on. NULL: failed.
typedef struct dt_sys_list_t dt_sys_list_t;
dt_sys_list_t *dt__sys_list(int folder);
// A name, until the next is asked for; NULL at the end, and where it fails (errno is set, else 0).
const char *dt__sys_next(dt_sys_list_t *list);
void dt__sys_list_end(dt_sys_list_t *list);

// ---- Memory -------------------------------------------------------------------------------------
void *dt__sys_map(size_t bytes, int protection, int flags, int fd, off_t offset); // MAP_FAILED
int dt__sys_protect(void *at, size_t bytes, int protection);
// A file of zeros that is memory only and may be mapped as code; its descriptor.
int dt__sys_memory_file(const char *name, size_t bytes);

// ---- Threads ------------------------------------------------------------------------------------
// As pthread_create: an error number.
int dt__sys_thread(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

// Bytes that nobody guesses; false: the system has none to give.
bool dt__sys_random(void *to, size_t bytes);

// ---- Faults for tests ---------------------------------------------------------------------------
typedef enum dt_system_kind_t {
  DT_SYSTEM_FILE,
  DT_SYSTEM_MAPPING,
  DT_SYSTEM_THREAD,
  DT_SYSTEM_KINDS
} dt_system_kind_t;
#define DT_SYSTEM_SHORT (-1) // a read or write moves half of what was asked; nothing else fails

// The n-th call of that kind from now (1 = next) fails with `error`, once or from then on; n = 0
// switches it off. EINTR is tried again as any is, so only once of it. Returns how many calls were
// counted since the last call of this; they are counted while it is on only.
uint64_t dt__system_fail_at(dt_system_kind_t kind, uint64_t n, int error, bool sticky);

#endif // DT_RUNTIME_BASE_SYSTEM_H
