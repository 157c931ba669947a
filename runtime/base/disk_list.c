// SPDX-License-Identifier: Apache-2.0
// See disk_list.h.
#include "runtime/base/disk_list.h"

#include "runtime/base/disk_entry.h"
#include "runtime/base/disk_trim.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <string.h>

static dt_status_t open_folder(const char *folder, int *out) {
  const char *wrong = dt__disk_folder_open(folder, false, out);
  return wrong ? DT_FAIL(DT_E_IO, "%s: %s", folder, wrong) : NULL;
}

static dt_status_t not_listed(const char *folder) {
  return DT_FAIL(DT_E_IO, "%s: not all of it could be listed, or removed: %s", folder,
                 errno ? strerrordesc_np(errno) : "no memory");
}

// ---- Looking --------------------------------------------------------------------------------------

typedef struct look_t {
  int folder;
  dt_disk_item_fn_t visit;
  void *user;
} look_t;

static const char *kind_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : "";
}

static void look_at(void *user, const char *name, int64_t used_ns, uint64_t bytes) {
  const look_t *look = user;
  dt_disk_item_t item = {
      .name = name, .kind = kind_of(name), .bytes = bytes, .used_ns = used_ns, .key = ""};
  dt_disk_header_t header;
  int fd = -1;
  size_t size = 0;
  char *all = dt__disk_entry_read(look->folder, name, &fd, &size);
  if (fd < 0 && errno == ENOENT)
    return; // it went meanwhile
  if (fd >= 0)
    (void)dt__sys_close(fd);
  item.sound = all && dt__disk_entry_is_sound(all, size, &header);
  if (item.sound) {
    item.key = all + sizeof(header);
    item.key_bytes = header.key_bytes;
  }
  look->visit(look->user, &item);
  dt__free(all);
}

static bool look(int folder, dt_disk_item_fn_t visit, void *user) {
  look_t own = {.folder = folder, .visit = visit, .user = user};
  return dt__disk_trim_each(folder, look_at, &own);
}

dt_status_t dt__disk_list(const char *folder, dt_disk_item_fn_t visit, void *user) {
  int fd = -1;
  DT_TRY(open_folder(folder, &fd));
  bool good = look(fd, visit, user);
  dt_status_t status = good ? NULL : not_listed(folder);
  (void)dt__sys_close(fd);
  return status;
}

// ---- Cleaning -------------------------------------------------------------------------------------

typedef struct clean_t {
  int folder;
  uint64_t bytes; // of all
} clean_t;

static void remove_damaged(void *user, const dt_disk_item_t *item) {
  clean_t *clean = user;
  clean->bytes += item->bytes;
  if (!item->sound)
    (void)dt__sys_unlink(clean->folder, item->name);
}

static void count(void *user, const char *name, int64_t used_ns, uint64_t bytes) {
  (void)name, (void)used_ns;
  *(uint64_t *)user += bytes;
}

dt_status_t dt__disk_clean(const char *folder, uint64_t most_bytes, uint64_t *out_bytes) {
  clean_t clean = {0};
  uint64_t left = 0;
  *out_bytes = 0;
  DT_TRY(open_folder(folder, &clean.folder));
  bool good = look(clean.folder, remove_damaged, &clean);
  good = good && dt__disk_trim_to(clean.folder, most_bytes) &&
         dt__disk_trim_each(clean.folder, count, &left);
  dt_status_t status = good ? NULL : not_listed(folder);
  (void)dt__sys_close(clean.folder);
  *out_bytes = clean.bytes > left ? clean.bytes - left : 0;
  return status;
}

// ---- Dropping -------------------------------------------------------------------------------------

typedef struct drop_t {
  int folder;
  const char *kind;
  uint64_t bytes;
  int failed; // errno of an entry that could not be removed; 0: none
} drop_t;

static void drop_one(void *user, const char *name, int64_t used_ns, uint64_t bytes) {
  drop_t *drop = user;
  (void)used_ns;
  if (drop->failed || strcmp(kind_of(name), drop->kind) != 0)
    return;
  if (dt__sys_unlink(drop->folder, name) == 0)
    drop->bytes += bytes;
  else
    drop->failed = errno != ENOENT ? errno : 0; // it went meanwhile
}

dt_status_t dt__disk_drop(const char *folder, const char *kind, uint64_t *out_bytes) {
  drop_t drop = {.kind = kind};
  *out_bytes = 0;
  DT_TRY(open_folder(folder, &drop.folder));
  bool good = dt__disk_trim_each(drop.folder, drop_one, &drop);
  if (good && drop.failed) {
    errno = drop.failed;
    good = false;
  }
  dt_status_t status = good ? NULL : not_listed(folder);
  (void)dt__sys_close(drop.folder);
  *out_bytes = drop.bytes;
  return status;
}
