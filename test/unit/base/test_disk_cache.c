// SPDX-License-Identifier: Apache-2.0
// The cache folder under damage, foreign owners, links, FIFOs, full disks, killed writers, many
// processes and trims: a hit has the bytes that were kept, everything else is a miss, and nothing
// waits. With a number as argument so many writers are killed, and a table row is printed.
#include "test/support/check.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/memory.h"
#include "runtime/base/system.h"
#include "runtime/base/thread.h"
#include "test/support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define HEADER 56
#define N_KEYS 6

static uint32_t kills = 200;
static char folder[FOLDER_BYTES];

static int setup(void **state) {
  (void)state;
  (void)alarm(500); // a hang is a failure, not a time-out of everything
  folder_make(folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  (void)alarm(0);
  return folder_drop(folder);
}

// ---- Entries --------------------------------------------------------------------------------------
// Key k and the data that belong to it, and to no other.
static dt_text_t key_of(uint32_t k) {
  dt_text_t key;
  dt__text_init(&key);
  dt__text_printf(&key, "the key of number %06u", k);
  assert_false(key.failed);
  return key;
}

static size_t bytes_of(uint32_t k) { return k == 0 ? 8192 - HEADER - 24 : 40 + 7001 * (k % 9); }

static unsigned char byte_of(uint32_t k, size_t at) {
  return (unsigned char)((at * 2654435761u + k * 40503u) >> 7);
}

static void keep(dt_disk_cache_t *cache, uint32_t k) {
  dt_text_t key = key_of(k);
  unsigned char data[65536];
  size_t bytes = bytes_of(k);
  for (size_t at = 0; at < bytes; at++)
    data[at] = byte_of(k, at);
  dt__disk_cache_keep(cache, "kind", &key, data, bytes);
  dt__text_fini(&key);
}

// 0: a miss; 1: a hit; 2: a hit of something else.
static int look(dt_disk_cache_t *cache, uint32_t k) {
  dt_text_t key = key_of(k);
  void *data = NULL;
  size_t bytes = 0;
  bool found = dt__disk_cache_find(cache, "kind", &key, &data, &bytes);
  bool right = found && bytes == bytes_of(k);
  for (size_t at = 0; right && at < bytes; at++)
    right = ((unsigned char *)data)[at] == byte_of(k, at);
  dt__text_fini(&key);
  dt__free(data);
  return found ? (right ? 1 : 2) : 0;
}

static bool hits(dt_disk_cache_t *cache, uint32_t k) {
  int seen = look(cache, k);
  if (seen == 2)
    fail_msg("key %u: a hit of other bytes than were kept", k);
  return seen == 1;
}

static dt_disk_cache_t *open_cache(uint64_t most_bytes) {
  dt_disk_cache_t *cache = dt__disk_cache_open(folder, most_bytes);
  assert_non_null(cache);
  return cache;
}

// Names in the folder that end in `ending`; the last of them with its path.
static uint32_t count(const char *ending, char *out, size_t out_bytes) {
  uint32_t n = 0;
  size_t len = strlen(ending);
  DIR *list = opendir(folder);
  assert_non_null(list);
  for (struct dirent *item; (item = readdir(list));) {
    size_t name = strlen(item->d_name);
    if (item->d_name[0] == '.' || name < len || strcmp(item->d_name + name - len, ending) != 0)
      continue;
    n++;
    if (out)
      (void)snprintf(out, out_bytes, "%s/%s", folder, item->d_name);
  }
  (void)closedir(list);
  return n;
}

static void only_entry(char out[400]) { assert_int_equal(count(".kind", out, 400), 1); }

// ---- Damage ---------------------------------------------------------------------------------------

static void test_round_trip(void **state) {
  (void)state;
  dt_disk_cache_t *cache = open_cache(MIB);
  dt_text_t key = key_of(1), none = {.failed = true};
  void *data = NULL;
  size_t bytes = 0;
  assert_false(hits(cache, 1));
  keep(cache, 1);
  keep(cache, 2);
  assert_true(hits(cache, 1) && hits(cache, 2) && !hits(cache, 3));
  assert_false(dt__disk_cache_find(cache, "other", &key, &data, &bytes));
  assert_false(dt__disk_cache_find(cache, "kind", &none, &data, &bytes));
  assert_false(dt__disk_cache_find(NULL, "kind", &key, &data, &bytes));
  dt__disk_cache_keep(NULL, "kind", &key, "x", 1);
  dt__disk_cache_close(cache);
  cache = open_cache(MIB);
  assert_true(hits(cache, 1) && hits(cache, 2));
  assert_int_equal(count("", NULL, 0), 2);
  dt__text_fini(&key);
  dt__disk_cache_close(cache);
  assert_null(dt__disk_cache_open("", MIB));
}

// ---- Entries that are mapped ------------------------------------------------------------------------
#define PAGE ((size_t)4096)

static bool maps(dt_disk_cache_t *cache, uint32_t k, size_t bytes) {
  dt_disk_map_t map;
  dt_text_t key = key_of(k);
  bool found = dt__disk_cache_map(cache, "kind", &key, bytes, &map);
  for (size_t at = 0; found && at < bytes; at++)
    if (((const unsigned char *)map.data)[at] != byte_of(k, at))
      fail_msg("byte %zu of entry %u is another", at, k);
  if (found) {
    assert_int_equal((uintptr_t)map.data % PAGE, 0);
    dt__disk_cache_unmap(&map);
  }
  dt__text_fini(&key);
  return found;
}

static bool keeps(dt_disk_cache_t *cache, uint32_t k, size_t bytes, uint64_t others) {
  dt_text_t key = key_of(k);
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  for (size_t at = 0; at < bytes; at++)
    data[at] = byte_of(k, at);
  bool kept = dt__disk_cache_keep_pages(cache, "kind", &key, data, bytes, others);
  free(data);
  dt__text_fini(&key);
  return kept;
}

static void test_pages(void **state) {
  (void)state;
  dt_disk_cache_t *cache = open_cache(MIB);
  dt_disk_map_t map;
  dt_text_t key = key_of(1), none = {.failed = true}, wide;
  void *data = NULL;
  size_t bytes = 0;
  assert_false(maps(cache, 1, 5000));
  assert_true(keeps(cache, 1, 5000, 0) && keeps(cache, 2, 100000, 0));
  assert_true(maps(cache, 1, 5000) && maps(cache, 2, 100000) && !maps(cache, 3, 5000));
  assert_false(maps(cache, 1, 4999)); // and what is of another size is not it
  assert_true(keeps(cache, 1, 5000, 0) && maps(cache, 1, 5000));
  // Either kind is none of the other.
  assert_false(dt__disk_cache_find(cache, "kind", &key, &data, &bytes));
  dt__disk_cache_keep(cache, "kind", &key, "x", 1);
  assert_false(maps(cache, 1, 1));
  assert_false(dt__disk_cache_map(cache, "kind", &none, 5000, &map));
  assert_false(dt__disk_cache_map(NULL, "kind", &key, 5000, &map));
  assert_false(dt__disk_cache_keep_pages(NULL, "kind", &key, "x", 1, 0));
  dt__text_init(&wide);
  while (wide.len <= PAGE - HEADER)
    dt__text_put(&wide, "a key that goes beyond its page ");
  assert_false(dt__disk_cache_keep_pages(cache, "kind", &wide, "x", 1, 0));
  // Half of the folder's limit is for them.
  assert_false(keeps(cache, 4, MIB / 2, 0));
  assert_true(keeps(cache, 4, MIB / 4, 0));
  assert_false(keeps(cache, 5, MIB / 4, MIB / 4));
  dt__text_fini(&wide);
  dt__text_fini(&key);
  dt__disk_cache_close(cache);
}

static void test_every_bit_of_pages(void **state) {
  (void)state;
  char path[400];
  unsigned char all[2 * PAGE];
  dt_disk_cache_t *cache = open_cache(MIB);
  assert_true(keeps(cache, 0, PAGE, 0));
  only_entry(path);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pread(fd, all, sizeof(all), 0), sizeof(all));
  for (uint32_t bit = 0; bit < 8 * sizeof(all); bit++) {
    unsigned char changed = (unsigned char)(all[bit / 8] ^ 1u << bit % 8);
    assert_int_equal(pwrite(fd, &changed, 1, bit / 8), 1);
    if (maps(cache, 0, PAGE))
      fail_msg("bit %u was changed, and the entry was taken", bit);
    assert_int_equal(pwrite(fd, &all[bit / 8], 1, bit / 8), 1);
  }
  assert_true(maps(cache, 0, PAGE));
  for (size_t cut = sizeof(all); cut-- > 0;) {
    assert_int_equal(ftruncate(fd, (off_t)cut), 0);
    assert_false(maps(cache, 0, PAGE));
  }
  assert_int_equal(close(fd), 0);
  dt__disk_cache_close(cache);
}

static void test_every_bit(void **state) {
  (void)state;
  char path[400];
  unsigned char all[8192];
  dt_disk_cache_t *cache = open_cache(MIB);
  keep(cache, 0);
  only_entry(path);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pread(fd, all, sizeof(all), 0), sizeof(all));
  for (uint32_t bit = 0; bit < 8 * sizeof(all); bit++) {
    unsigned char changed = (unsigned char)(all[bit / 8] ^ 1u << bit % 8);
    assert_int_equal(pwrite(fd, &changed, 1, bit / 8), 1);
    if (hits(cache, 0))
      fail_msg("bit %u was changed, and the entry was taken", bit);
    assert_int_equal(pwrite(fd, &all[bit / 8], 1, bit / 8), 1);
  }
  assert_true(hits(cache, 0));
  for (size_t more = 1; more < 4096; more += more < 64 ? 1 : 509) {
    assert_int_equal(ftruncate(fd, (off_t)(sizeof(all) + more)), 0);
    assert_false(hits(cache, 0));
  }
  for (size_t bytes = sizeof(all); bytes-- > 0;) {
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (hits(cache, 0))
      fail_msg("cut after %zu bytes, and the entry was taken", bytes);
  }
  assert_int_equal(close(fd), 0);
  keep(cache, 0);
  assert_true(hits(cache, 0));
  dt__disk_cache_close(cache);
}

static void test_swapped(void **state) {
  (void)state;
  char first[400], second[400], beside[420];
  dt_disk_cache_t *cache = open_cache(MIB);
  keep(cache, 0);
  only_entry(first);
  (void)snprintf(beside, sizeof(beside), "%s.away", first);
  assert_int_equal(rename(first, beside), 0);
  keep(cache, 1);
  only_entry(second);
  assert_int_equal(rename(second, first), 0);
  assert_int_equal(rename(beside, second), 0);
  assert_false(hits(cache, 0));
  assert_false(hits(cache, 1));
  keep(cache, 0);
  keep(cache, 1);
  assert_true(hits(cache, 0) && hits(cache, 1));
  dt__disk_cache_close(cache);
}

// ---- What stands in the place of an entry or of the folder ----------------------------------------

static void expect_replaced(dt_disk_cache_t *cache, const char *what) {
  if (hits(cache, 0))
    fail_msg("%s: the entry was taken", what);
  keep(cache, 0);
  if (!hits(cache, 0))
    fail_msg("%s: was not replaced", what);
}

static void test_places_of_entries(void **state) {
  (void)state;
  char path[400], other[420];
  dt_disk_cache_t *cache = open_cache(MIB);
  keep(cache, 0);
  only_entry(path);
  (void)snprintf(other, sizeof(other), "%s.away", path);
  static const mode_t modes[] = {0660, 0606, 0620, 0602, 0666};
  for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
    assert_int_equal(chmod(path, modes[k]), 0);
    expect_replaced(cache, "others may write");
  }
  assert_int_equal(rename(path, other), 0);
  assert_int_equal(symlink(other, path), 0); // to a good entry
  expect_replaced(cache, "a symbolic link");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_replaced(cache, "a FIFO");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_false(hits(cache, 0));
  keep(cache, 0); // a folder is not replaced
  assert_false(hits(cache, 0));
  assert_int_equal(rmdir(path), 0);
  keep(cache, 0);
  if (geteuid() == 0) {
    assert_int_equal(chown(path, 1, 1), 0);
    expect_replaced(cache, "another's");
  } else {
    print_message("a foreign owner is left out: only the superuser makes one\n");
  }
  assert_int_equal(count(".tmp", NULL, 0), 0);
  dt__disk_cache_close(cache);
}

static void expect_off(const char *path, const char *what) {
  dt_disk_cache_t *cache = dt__disk_cache_open(path, MIB);
  if (cache)
    fail_msg("%s: the folder was taken", what);
}

static void test_places_of_folders(void **state) {
  (void)state;
  char real[100], path[120];
  (void)snprintf(real, sizeof(real), "%s/made/below", folder);
  dt_disk_cache_t *cache = dt__disk_cache_open(real, MIB);
  struct stat info;
  assert_non_null(cache);
  assert_int_equal(stat(real, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  dt__disk_cache_close(cache);
  static const mode_t modes[] = {0777, 0770, 0707, 0720, 0702};
  for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
    assert_int_equal(chmod(real, modes[k]), 0);
    expect_off(real, "others may write");
  }
  assert_int_equal(chmod(real, 0755), 0); // others may read
  (void)snprintf(path, sizeof(path), "%s///", real);
  cache = dt__disk_cache_open(path, MIB);
  assert_non_null(cache);
  dt__disk_cache_close(cache);
  (void)snprintf(path, sizeof(path), "%s/link", folder);
  assert_int_equal(symlink(real, path), 0);
  expect_off(path, "a symbolic link");
  (void)snprintf(path, sizeof(path), "%s/link/", folder);
  expect_off(path, "a symbolic link with a slash");
  (void)snprintf(path, sizeof(path), "%s/fifo", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_off(path, "a FIFO");
  (void)snprintf(path, sizeof(path), "%s/fifo/below", folder);
  expect_off(path, "below a FIFO");
  expect_off("/proc/nowhere", "nowhere");
  if (geteuid() == 0) {
    assert_int_equal(chown(real, 1, 1), 0);
    expect_off(real, "another's");
  }
}

// ---- Disks ----------------------------------------------------------------------------------------

// Each operation of a life fails in turn: at worst a miss, nothing open, nothing left.
static void test_every_operation_fails(void **state) {
  static const int errors[] = {ENOSPC, EIO, EROFS, ESTALE, EDQUOT, EINTR, DT_SYSTEM_SHORT};
  (void)state;
  for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
    for (uint64_t n = 1;; n++) {
      int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
      (void)close(before);
      (void)dt__system_fail_at(DT_SYSTEM_FILE, n, errors[e], errors[e] != EINTR && n % 2);
      dt_disk_cache_t *cache = dt__disk_cache_open(folder, 10000);
      bool went = true;
      for (uint32_t k = 0; k < 2; k++) {
        keep(cache, k);
        went = look(cache, k) != 2 && went;
      }
      dt__disk_cache_close(cache);
      uint64_t made = dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
      int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
      (void)close(after);
      assert_true(went);
      assert_int_equal(after, before);
      cache = open_cache(10000);
      for (uint32_t k = 0; k < 2; k++)
        assert_int_not_equal(look(cache, k), 2);
      dt__disk_cache_close(cache);
      // What cannot be removed while everything fails is removed when it is old.
      assert_true(count(".tmp", NULL, 0) == 0 || n % 2);
      (void)folder_drop(folder);
      assert_int_equal(mkdir(folder, 0700), 0);
      if (made < n)
        break;
    }
}

// Runs it in a process of its own with namespaces of its own; false: the system gives none.
static bool run_apart(int flags, int (*run)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (unshare(flags) != 0 && unshare(flags | CLONE_NEWUSER) != 0)
      _exit(77);
    pid_t inner = flags & CLONE_NEWPID ? fork() : 0;
    int result = 0;
    if (inner == 0)
      _exit(run());
    (void)waitpid(inner, &result, 0);
    _exit(WIFEXITED(result) ? WEXITSTATUS(result) : 99);
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  if (WEXITSTATUS(result) == 77)
    return false;
  assert_int_equal(WEXITSTATUS(result), 0);
  return true;
}

static int fill_small_disk(void) {
  if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("small", folder, "tmpfs", 0, "size=64k,mode=0700") != 0)
    return 77;
  dt_disk_cache_t *cache = dt__disk_cache_open(folder, MIB);
  uint32_t found = 0;
  for (uint32_t k = 0; k < 40 && cache; k++) {
    keep(cache, k);
    int seen = look(cache, k);
    found += seen == 1;
    if (seen == 2)
      return 2;
  }
  if (found < 2 || found > 25 || count(".tmp", NULL, 0) != 0)
    return 3;
  (void)mount("small", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k");
  keep(cache, 39);
  int seen = look(cache, 0); // nor may it be touched
  dt__disk_cache_close(cache);
  return seen == 1 ? 0 : 4;
}

static void test_full_disk(void **state) {
  (void)state;
  if (!run_apart(CLONE_NEWNS, fill_small_disk))
    print_message("left out: this system gives no namespace to mount a small disk in\n");
}

// ---- Processes ------------------------------------------------------------------------------------

static int keep_as_first(void) {
  dt_disk_cache_t *cache = getpid() == 1 ? dt__disk_cache_open(folder, MIB) : NULL;
  if (!cache)
    return 5;
  keep(cache, 1);
  return look(cache, 1) == 1 ? 0 : 6;
}

// Containers: each process has number 1, and does the same in the same order. One that was killed
// while it wrote must not stand in the way of the next.
static void test_first_process_twice(void **state) {
  (void)state;
  char path[400], left[440];
  dt_disk_cache_t *cache = open_cache(MIB);
  keep(cache, 1);
  only_entry(path);
  assert_int_equal(unlink(path), 0);
  for (int k = 0; k < 8; k++) { // as earlier versions left them
    (void)snprintf(left, sizeof(left), "%s.1.%d", path, k);
    int fd = open(left, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
  }
  for (int k = 0; k < 2; k++) {
    if (!run_apart(CLONE_NEWPID, keep_as_first)) {
      print_message("left out: this system gives no namespace of processes\n");
      break;
    }
    assert_true(hits(cache, 1));
    assert_int_equal(unlink(path), 0);
  }
  dt__disk_cache_close(cache);
}

static void write_for_ever(void) {
  dt_disk_cache_t *cache = dt__disk_cache_open(folder, MIB);
  for (uint32_t k = 0;; k++)
    keep(cache, k % N_KEYS);
}

static void test_killed_writers(void **state) {
  (void)state;
  uint32_t wrong = 0, found = 0, looks = 0;
  uint64_t seed = 12345;
  for (uint32_t k = 0; k < kills; k++) {
    char path[400];
    while (k % 2 && count(".kind", path, sizeof(path))) // every other starts with nothing
      (void)unlink(path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
      write_for_ever();
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    (void)usleep((useconds_t)(seed >> 33) % 4000);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    dt_disk_cache_t *cache = open_cache(MIB);
    for (uint32_t i = 0; i < N_KEYS; i++, looks++) {
      int seen = look(cache, i);
      found += seen == 1;
      wrong += seen == 2;
    }
    dt__disk_cache_close(cache);
  }
  uint32_t left = count(".tmp", NULL, 0);
  print_message("killed\t%u\tlooks\t%u\thits\t%u\twrong\t%u\tleft behind\t%u\n", kills, looks,
                found, wrong, left);
  assert_int_equal(wrong, 0);
  assert_true(found > 0);
  // What is left goes when it is old, and nothing else.
  char path[400];
  assert_true(left > 0 || kills < 100);
  dt__disk_cache_close(open_cache(MIB));
  assert_int_equal(count(".tmp", NULL, 0), left);
  int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fdopendir(folder_fd);
  const struct timespec old[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
  for (struct dirent *item; (item = readdir(list));)
    if (item->d_name[0] != '.')
      assert_int_equal(utimensat(folder_fd, item->d_name, old, 0), 0);
  (void)closedir(list);
  uint32_t entries = count(".kind", path, sizeof(path));
  (void)snprintf(path, sizeof(path), "%s/mine.1234567890123456.tmp", folder);
  assert_int_equal(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
  assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
  dt__disk_cache_close(open_cache(MIB));
  assert_int_equal(count(".tmp", NULL, 0), 1);
  assert_int_equal(count(".kind", NULL, 0), entries);
}

static int write_one_key(uint64_t most_bytes) {
  dt_disk_cache_t *cache = dt__disk_cache_open(folder, most_bytes);
  for (int k = 0; k < 40; k++) {
    keep(cache, 5);
    if (look(cache, 5) != 1)
      return 1; // a rename never leaves a moment without an entry
  }
  dt__disk_cache_close(cache);
  return 0;
}

static void test_sixteen_writers(void **state) {
  (void)state;
  pid_t children[16];
  for (int k = 0; k < 16; k++) {
    children[k] = fork();
    assert_true(children[k] >= 0);
    if (children[k] == 0)
      _exit(write_one_key(MIB));
  }
  int wrong = 0;
  for (int k = 0; k < 16; k++) {
    int result = 0;
    assert_int_equal(waitpid(children[k], &result, 0), children[k]);
    wrong += !WIFEXITED(result) || WEXITSTATUS(result) != 0;
  }
  assert_int_equal(wrong, 0);
  assert_int_equal(count("", NULL, 0), 1);
}

// ---- The limit ------------------------------------------------------------------------------------

static uint64_t bytes_kept(void) {
  uint64_t bytes = 0;
  DIR *list = opendir(folder);
  for (struct dirent *item; (item = readdir(list));) {
    struct stat info;
    if (item->d_name[0] != '.' && fstatat(dirfd(list), item->d_name, &info, 0) == 0)
      bytes += (uint64_t)info.st_size;
  }
  (void)closedir(list);
  return bytes;
}

static void test_longest_unused_goes(void **state) {
  (void)state;
  char path[400];
  dt_disk_cache_t *cache = open_cache(MIB);
  keep(cache, 1);
  only_entry(path);
  keep(cache, 2);
  const struct timespec older[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  assert_int_equal(utimensat(AT_FDCWD, path, older, 0), 0); // key 1 was used before key 2 …
  assert_true(hits(cache, 1));                              // … and now
  (void)snprintf(path, sizeof(path), "%s/notes", folder);   // none of ours
  assert_int_equal(truncate(path, 0), -1);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(ftruncate(fd, (off_t)(4 * MIB)), 0);
  (void)close(fd);
  (void)usleep(20000);
  uint64_t most = 0;
  for (uint32_t k = 10; k < 150; k++) {
    keep(cache, k);
    assert_true(hits(cache, k));
    assert_true(k % 8 || hits(cache, 1)); // kept by its use
    uint64_t now = bytes_kept() - 4 * MIB;
    most = now > most ? now : most;
  }
  assert_true(hits(cache, 1));
  assert_false(hits(cache, 2));
  assert_false(hits(cache, 10));
  assert_int_equal(access(path, F_OK), 0);
  if (most > MIB + 65536 || most < MIB / 2)
    fail_msg("the folder held %llu bytes at most; the limit is %llu", (unsigned long long)most,
             (unsigned long long)MIB);
  dt__disk_cache_close(cache);
  // A smaller limit holds at once; what does not fit into it is not kept.
  cache = open_cache(30000);
  assert_true(bytes_kept() - 4 * MIB <= 30000);
  keep(cache, 8); // 56,048 bytes
  assert_false(hits(cache, 8));
  dt__disk_cache_close(cache);
}

static _Atomic bool stop;
static _Atomic uint32_t read_wrong, read_hits;

static void *read_all(void *opaque) {
  for (uint32_t k = 0; !atomic_load(&stop); k++) {
    int seen = look(opaque, k % 60);
    atomic_fetch_add(&read_wrong, seen == 2);
    atomic_fetch_add(&read_hits, seen == 1);
  }
  return NULL;
}

static void test_readers_while_entries_go(void **state) {
  (void)state;
  pthread_t threads[3];
  dt_disk_cache_t *cache = open_cache(300000);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, read_all, cache), 0);
  uint32_t seen = 0;
  int64_t end = dt__now_ns() + 400 * INT64_C(1000000);
  for (uint32_t k = 0; k < 200 || dt__now_ns() < end; k++) {
    keep(cache, k % 60);
    seen = k;
  }
  atomic_store(&stop, true);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  assert_true(seen > 0 && atomic_load(&read_hits) > 0);
  assert_int_equal(atomic_load(&read_wrong), 0);
  assert_true(bytes_kept() <= 400000);
  dt__disk_cache_close(cache);
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {IN_FOLDER(test_round_trip),
                                     IN_FOLDER(test_pages),
                                     IN_FOLDER(test_every_bit_of_pages),
                                     IN_FOLDER(test_every_bit),
                                     IN_FOLDER(test_swapped),
                                     IN_FOLDER(test_places_of_entries),
                                     IN_FOLDER(test_places_of_folders),
                                     IN_FOLDER(test_every_operation_fails),
                                     IN_FOLDER(test_full_disk),
                                     IN_FOLDER(test_first_process_twice),
                                     IN_FOLDER(test_sixteen_writers),
                                     IN_FOLDER(test_killed_writers),
                                     IN_FOLDER(test_longest_unused_goes),
                                     IN_FOLDER(test_readers_while_entries_go)};
  if (argc == 2)
    kills = (uint32_t)strtoul(argv[1], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
