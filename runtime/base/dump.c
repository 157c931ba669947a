// SPDX-License-Identifier: Apache-2.0
// Stage dumps: which stages are written, where, and the files themselves. Declared in log.h.
#include "runtime/base/log.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST 256

// The texts are guarded by `mutex`; `any` spares the lock when nothing is dumped.
static dt_mutex_t mutex = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = DT_RANK_LOG};
static char chosen_stages[LONGEST];
static char chosen_folder[LONGEST];
static _Atomic bool any;

dt_status_t dt__dump_configure(const char *stages, const char *folder) {
  size_t stages_len = stages ? strlen(stages) : 0, folder_len = folder ? strlen(folder) : 0;
  if (stages_len >= LONGEST || folder_len >= LONGEST)
    return DT_FAIL(DT_E_ARGUMENT, "dump %s of %zu characters is longer than %d",
                   stages_len >= LONGEST ? "stages" : "folder",
                   stages_len >= LONGEST ? stages_len : folder_len, LONGEST - 1);
  if (stages_len && !folder_len)
    return DT_FAIL(DT_E_ARGUMENT, "dump stages '%s' without a folder", stages);
  dt__mutex_lock(&mutex);
  memcpy(chosen_stages, stages_len ? stages : "", stages_len + 1);
  memcpy(chosen_folder, folder_len ? folder : "", folder_len + 1);
  atomic_store_explicit(&any, stages_len != 0, memory_order_relaxed);
  dt__mutex_unlock(&mutex);
  return NULL;
}

static bool listed(const char *list, const char *stage) {
  size_t stage_len = strlen(stage);
  for (const char *at = list; *at;) {
    at += strspn(at, " ,");
    size_t len = strcspn(at, " ,");
    if (len == 3 && memcmp(at, "all", 3) == 0)
      return true;
    if (len && len == stage_len && memcmp(at, stage, len) == 0)
      return true;
    at += len;
  }
  return false;
}

bool dt__dump_on(const char *stage) {
  if (!atomic_load_explicit(&any, memory_order_relaxed))
    return false;
  dt__mutex_lock(&mutex);
  bool on = listed(chosen_stages, stage);
  dt__mutex_unlock(&mutex);
  return on;
}

// Makes the folder and those above it, with mode 0755 less the umask; 0 or an errno.
static int make_folders(const char *folder) {
  char path[LONGEST];
  size_t len = strlen(folder);
  for (size_t i = 1; i <= len; i++) {
    if (folder[i] != '/' && folder[i] != '\0')
      continue;
    memcpy(path, folder, i);
    path[i] = '\0';
    if (dt__sys_mkdir(path, 0755) != 0 && errno != EEXIST)
      return errno;
  }
  return 0;
}

// Function and stage names come from users: only characters that cannot leave the folder are kept.
static void append_name(dt_text_t *path, const char *name) {
  size_t len = strlen(name);
  for (size_t i = 0; i < len && i < 100; i++) {
    char c = name[i];
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '-' || (c == '.' && i > 0);
    dt__text_write(path, plain ? &c : "_", 1);
  }
  if (len == 0)
    dt__text_put(path, "_");
}

// What stands under that name may be another's in a shared folder: a link is not followed, a FIFO
// not waited for. 0 or an errno.
static int open_file(const char *path, int *out) {
  struct stat info;
  int failure = 0;
  int fd = dt__sys_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0)
    return errno;
  if (dt__sys_stat(fd, &info) != 0)
    failure = errno;
  else if (!S_ISREG(info.st_mode))
    failure = EINVAL;
  else if (dt__sys_truncate(fd, 0) != 0)
    failure = errno;
  if (failure)
    (void)dt__sys_close(fd);
  *out = fd;
  return failure;
}

static int write_file(const char *path, const char *text) {
  int fd = -1, failure = open_file(path, &fd);
  if (failure)
    return failure;
  size_t len = strlen(text);
  while (len && !failure) {
    ssize_t done = dt__sys_write(fd, text, len);
    if (done > 0) {
      text += done;
      len -= (size_t)done;
    } else {
      failure = done == 0 ? EIO : errno;
    }
  }
  if (dt__sys_close(fd) != 0 && !failure)
    failure = errno;
  return failure;
}

bool dt__dump_file(const char *folder, const char *function, const char *tail, const char *text,
                   dt_text_t *out_path) {
  dt__text_printf(out_path, "%s/", folder);
  append_name(out_path, function);
  dt__text_put(out_path, ".");
  append_name(out_path, tail);
  dt__text_put(out_path, ".dtt");
  int failure = out_path->failed ? ENOMEM : strlen(folder) >= LONGEST ? ENAMETOOLONG : 0;
  if (!failure)
    failure = make_folders(folder);
  if (!failure)
    failure = write_file(dt__text_str(out_path), text);
  // The user asked for this file, so its absence is told whatever the channel's level is.
  if (failure) {
    char reason[128];
    dt__log_write(DT_LOG_COMPILE, "%s not written: %s", dt__text_str(out_path),
                  strerror_r(failure, reason, sizeof(reason)));
  }
  return failure == 0;
}

void dt__dump(const char *function, uint32_t variant, uint32_t order, const char *stage,
              const char *text) {
  char folder[LONGEST], tail[64];
  dt__mutex_lock(&mutex);
  memcpy(folder, chosen_folder, sizeof(folder));
  dt__mutex_unlock(&mutex);
  if (folder[0] == '\0')
    return;
  dt_text_t path;
  dt__text_init(&path);
  (void)snprintf(tail, sizeof(tail), "%u.%02u-%s", variant, order, stage);
  (void)dt__dump_file(folder, function, tail, text, &path);
  dt__text_fini(&path);
}
