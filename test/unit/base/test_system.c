// SPDX-License-Identifier: Apache-2.0
// Calls of the system that are interrupted, move part of what was asked, or fail; and files that
// are replaced as a whole whatever fails.
#include "test/support/check.h"

#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/system.h"
#include "test/support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char folder[FOLDER_BYTES];
static int opened;

static int setup(void **state) {
  (void)state;
  folder_make(folder);
  opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return opened < 0;
}

// Removes all files; how many there were.
static int clear(void) {
  int n = 0;
  DIR *list = opendir(folder);
  for (struct dirent *item; (item = readdir(list));)
    n += item->d_name[0] != '.' && unlinkat(opened, item->d_name, 0) == 0;
  (void)closedir(list);
  return n;
}

static int teardown(void **state) {
  (void)state;
  (void)clear();
  (void)close(opened);
  return rmdir(folder);
}

static void expect_text(const char *name, const char *expected) {
  int fd = -1;
  struct stat info;
  char text[64] = "";
  assert_null(dt__file_open(opened, name, &fd, &info));
  assert_int_equal(info.st_size, strlen(expected));
  assert_null(dt__file_read(fd, text, (uint64_t)info.st_size, 0, name));
  assert_string_equal(text, expected);
  assert_int_equal(dt__sys_close(fd), 0);
}

static dt_status_t replace(const char *text) {
  size_t half = strlen(text) / 2;
  const dt_file_part_t parts[] = {{text, half}, {NULL, 0}, {text + half, strlen(text) - half}};
  return dt__file_replace(opened, "f", 0600, parts, 3);
}

static void test_interrupted_and_partial(void **state) {
  (void)state;
  assert_null(replace("first"));
  (void)dt__system_fail_at(DT_SYSTEM_FILE, UINT64_MAX, 0, false);
  assert_null(replace("second"));
  expect_text("f", "second");
  uint64_t calls = dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  assert_int_equal(calls, 10); // open, write, write, sync, close, rename; open, stat, read, close
  for (uint64_t n = 1; n <= calls; n++) {
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, EINTR, false);
    assert_null(replace("third"));
    expect_text("f", "third");
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, DT_SYSTEM_SHORT, true);
    assert_null(replace("a longer fourth text"));
    expect_text("f", "a longer fourth text");
    (void)dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  }
  assert_int_equal(clear(), 1);
}

static void test_failed_replacements(void **state) {
  static const int errors[] = {ENOSPC, EIO, EROFS, ESTALE, EEXIST, EDQUOT};
  (void)state;
  assert_null(replace("old"));
  uint32_t failed = 0;
  for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
    for (uint64_t n = 1;; n++) {
      (void)dt__system_fail_at(DT_SYSTEM_FILE, n, errors[e], false);
      dt_status_t status = replace("new");
      uint64_t made = dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
      failed += status != NULL;
      if (status)
        assert_int_equal(dt_status_code(status), DT_E_IO);
      expect_text("f", status ? "old" : "new");
      dt_status_free(status);
      assert_int_equal(clear(), 1);
      assert_null(replace("old"));
      if (made < n)
        break;
    }
  assert_true(failed >= 6 * 5);
}

static void test_what_is_no_file(void **state) {
  int fd = -1;
  struct stat info;
  (void)state;
  assert_int_equal(mkfifoat(opened, "fifo", 0600), 0);
  (void)alarm(60);
  static const char *const names[] = {"fifo", ".", "none"};
  for (size_t k = 0; k < 3; k++) {
    dt_status_t status = dt__file_open(opened, names[k], &fd, &info);
    assert_int_equal(dt_status_code(status), DT_E_IO);
    assert_non_null(
        strstr(dt_status_message(status), k < 2 ? "not a regular file" : "cannot open"));
    dt_status_free(status);
  }
  (void)alarm(0);
  assert_int_equal(fd, -1);
}

static void *run(void *arg) { return arg; }

static void test_mappings_and_threads(void **state) {
  pthread_t thread;
  (void)state;
  (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 2, ENOMEM, false);
  void *at = dt__sys_map(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  assert_int_equal(dt__sys_protect(at, 4096, PROT_READ), -1);
  assert_int_equal(errno, ENOMEM);
  assert_int_equal(dt__sys_protect(at, 4096, PROT_READ), 0);
  assert_int_equal(dt__system_fail_at(DT_SYSTEM_MAPPING, 1, EACCES, true), 3);
  assert_true(dt__sys_map(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  assert_int_equal(dt__sys_memory_file("dt", 4096), -1);
  assert_int_equal(errno, EACCES);
  assert_int_equal(dt__system_fail_at(DT_SYSTEM_MAPPING, 0, 0, false), 2);
  assert_int_equal(munmap(at, 4096), 0);
  int fd = dt__sys_memory_file("dt", 4096);
  assert_true(fd >= 0);
  assert_int_equal(lseek(fd, 0, SEEK_END), 4096);
  assert_int_equal(dt__sys_close(fd), 0);
  (void)dt__system_fail_at(DT_SYSTEM_THREAD, 1, EAGAIN, false);
  assert_int_equal(dt__sys_thread(&thread, NULL, run, NULL), EAGAIN);
  assert_int_equal(dt__sys_thread(&thread, NULL, run, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(dt__system_fail_at(DT_SYSTEM_THREAD, 0, 0, false), 2);
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
RUN_TESTS(IN_FOLDER(test_interrupted_and_partial), IN_FOLDER(test_failed_replacements),
          IN_FOLDER(test_what_is_no_file), IN_FOLDER(test_mappings_and_threads))
