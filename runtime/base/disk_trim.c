// SPDX-License-Identifier: Apache-2.0
// See disk_trim.h. Processes that trim one folder at a time take the same entries, so that no more
// goes than one of them alone would have removed.
#include "runtime/base/disk_trim.h"

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHARE 16 // of the limit: added by this process before it counts anew
#define KEPT(most)                                                                                 \
  ((most) - (most) / 8)  // what a trim leaves, so that it does not come at once again
#define OLD_SECONDS 3600 // nobody writes one entry for so long

typedef struct entry_t {
  char name[DT_DISK_NAME_BYTES];
  int64_t used; // ns; when it was found or written last
  uint64_t bytes;
} entry_t;

typedef struct entries_t {
  entry_t *items;
  size_t len, cap;
  uint64_t bytes;
  bool failed; // no memory for more of them
} entries_t;

// ---- Names ----------------------------------------------------------------------------------------
typedef enum form_t { FORM_OTHER, FORM_ENTRY, FORM_TEMPORARY } form_t;

#define HASH_DIGITS 32
#define HEX "0123456789abcdef"
#define DECIMAL "0123456789"

// <32 digits>.<kind>; for a while <32 digits>.<kind>.<16 digits>.tmp and <32 digits>.<kind>.lock;
// <32 digits>.<kind>.<number>.
// <number> is what earlier versions wrote to.
static form_t form_of(const char *name) {
  size_t letters = 0, len = strlen(name);
  if (strspn(name, HEX) != HASH_DIGITS || name[HASH_DIGITS] != '.')
    return FORM_OTHER;
  const char *at = name + HASH_DIGITS + 1;
  while (at[letters] >= 'a' && at[letters] <= 'z')
    letters++;
  at += letters;
  if (letters > 0 && *at == '\0')
    return len < DT_DISK_NAME_BYTES ? FORM_ENTRY : FORM_OTHER;
  if (letters == 0 || *at++ != '.')
    return FORM_OTHER;
  if (strcmp(at, &DT_DISK_LOCK[1]) == 0)
    return FORM_TEMPORARY;
  if (strspn(at, HEX) == 16 && strcmp(at + 16, ".tmp") == 0)
    return FORM_TEMPORARY;
  size_t digits = strspn(at, DECIMAL),
         more = at[digits] == '.' ? strspn(at + digits + 1, DECIMAL) : 0;
  return digits > 0 && more > 0 && at[digits + 1 + more] == '\0' ? FORM_TEMPORARY : FORM_OTHER;
}

// ---- Counting -------------------------------------------------------------------------------------

static void add_entry(entries_t *all, const char *name, const struct stat *info) {
  if (all->len == all->cap) {
    size_t cap = all->cap ? 2 * all->cap : 64;
    entry_t *grown = dt__realloc(all->items, cap * sizeof(*grown));
    all->failed |= !grown;
    if (!grown)
      return;
    all->items = grown;
    all->cap = cap;
  }
  entry_t *entry = &all->items[all->len++];
  *entry = (entry_t){.used = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec,
                     .bytes = S_ISREG(info->st_mode) ? (uint64_t)info->st_size : 0};
  memcpy(entry->name, name, strlen(name) + 1);
  all->bytes += entry->bytes;
}

// A clock that was set leaves files of the future; they are as old.
static bool is_old(const struct stat *info) {
  int64_t age = (int64_t)time(NULL) - (int64_t)info->st_mtim.tv_sec;
  return age > OLD_SECONDS || age < -OLD_SECONDS;
}

// Lists entries, and removes old temporary files on the way.
static bool list_entries(int folder, entries_t *all) {
  dt_sys_list_t *list = dt__sys_list(folder);
  if (!list)
    return false;
  const char *name;
  while ((name = dt__sys_next(list))) {
    struct stat info;
    form_t form = form_of(name);
    if (form == FORM_OTHER || dt__sys_stat_in(folder, name, &info) != 0)
      continue;
    if (form == FORM_ENTRY)
      add_entry(all, name, &info);
    else if (is_old(&info) && dt__sys_unlink(folder, name) == 0)
      DT_LOG(DT_LOG_CACHE, 2, "%s, which nobody finished, is removed", name);
  }
  bool good = errno == 0 && !all->failed;
  dt__sys_list_end(list);
  return good;
}

// ---- Trimming -------------------------------------------------------------------------------------

static int compare(const void *left, const void *right) {
  const entry_t *a = left, *b = right;
  return a->used != b->used ? (a->used > b->used) - (a->used < b->used) : strcmp(a->name, b->name);
}

static void trim_to(int folder, entries_t *all, uint64_t bytes) {
  uint64_t before = all->bytes;
  qsort(all->items, all->len, sizeof(all->items[0]), compare);
  for (size_t k = 0; k < all->len && all->bytes > bytes; k++)
    if (dt__sys_unlink(folder, all->items[k].name) == 0 || errno == ENOENT)
      all->bytes -= all->items[k].bytes;
  DT_LOG(DT_LOG_CACHE, 1, "%llu bytes of entries, longest not used, are removed",
         (unsigned long long)(before - all->bytes));
}

// One thread at a time; what it fails to count is counted next time.
static void count_and_trim(dt_disk_trim_t *trim, int folder) {
  if (atomic_exchange_explicit(&trim->running, true, memory_order_acquire))
    return;
  entries_t all = {0};
  atomic_store_explicit(&trim->added, 0, memory_order_relaxed);
  if (list_entries(folder, &all)) {
    if (all.bytes > trim->most_bytes)
      trim_to(folder, &all, KEPT(trim->most_bytes));
    atomic_store_explicit(&trim->bytes, all.bytes, memory_order_relaxed);
  }
  dt__free(all.items);
  atomic_store_explicit(&trim->running, false, memory_order_release);
}

void dt__disk_trim_init(dt_disk_trim_t *trim, int folder, uint64_t most_bytes) {
  trim->most_bytes = most_bytes;
  count_and_trim(trim, folder);
}

bool dt__disk_trim_admits(const dt_disk_trim_t *trim, uint64_t bytes) {
  return bytes <= KEPT(trim->most_bytes);
}

void dt__disk_trim_added(dt_disk_trim_t *trim, int folder, uint64_t bytes) {
  uint64_t all = atomic_fetch_add_explicit(&trim->bytes, bytes, memory_order_relaxed) + bytes;
  uint64_t added = atomic_fetch_add_explicit(&trim->added, bytes, memory_order_relaxed) + bytes;
  if (all > trim->most_bytes || added > trim->most_bytes / SHARE)
    count_and_trim(trim, folder);
}

// ---- Asked for ------------------------------------------------------------------------------------

bool dt__disk_trim_each(int folder, dt_disk_visit_fn_t visit, void *user) {
  entries_t all = {0};
  bool good = list_entries(folder, &all);
  if (all.len)
    qsort(all.items, all.len, sizeof(all.items[0]), compare);
  for (size_t k = 0; good && k < all.len; k++)
    visit(user, all.items[k].name, all.items[k].used, all.items[k].bytes);
  dt__free(all.items);
  return good;
}

bool dt__disk_trim_to(int folder, uint64_t most_bytes) {
  entries_t all = {0};
  bool good = list_entries(folder, &all);
  if (good && all.bytes > most_bytes)
    trim_to(folder, &all, most_bytes);
  dt__free(all.items);
  return good && all.bytes <= most_bytes;
}
