// SPDX-License-Identifier: Apache-2.0
// usage: test_kills [KILLS]. Writers of one package are killed at any moment: its path is then the
// old file or the new one, whole. What a killed writer leaves beside it is named as a temporary
// file.
#include "runtime/base/file.h"
#include "runtime/package/format.h"
#include "test/support/check.h"
#include "test/support/folder.h"
#include "test/support/random.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_PARTS 40
#define PART_BYTES 50000

static char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16];
static uint32_t n_kills = 200;

// A package whose parts are all of one byte.
static void write_once(int version) {
  static char index[64], data[PART_BYTES];
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_pack_out_t out = {.arena = &arena};
  memset(index, version, sizeof(index));
  memset(data, version, sizeof(data));
  (void)dt__pack_add(&out, index, sizeof(index));
  for (uint32_t k = 1; k < N_PARTS; k++)
    (void)dt__pack_add(&out, data, sizeof(data) - k);
  dt_status_t status = dt__pack_write(&out, path);
  if (status)
    _exit(1);
  dt__arena_fini(&arena);
}

static void write_for_ever(void) {
  for (int version = 1;; version = version % 100 + 1)
    write_once(version);
}

// The version that the file is of.
static int look(void) {
  dt_pack_part_t *parts = NULL;
  uint32_t n = 0;
  size_t bytes = 0;
  char *data = file_read(path, &bytes);
  expect_ok(dt__pack_open(data, bytes, &parts, &n));
  assert_int_equal(n, N_PARTS);
  int version = data[parts[0].offset];
  for (uint32_t k = 0; k < n; k++) {
    expect_ok(dt__pack_check(data, &parts[k], "a part"));
    assert_int_equal(data[parts[k].offset], version);
  }
  dt__free(parts);
  free(data);
  return version;
}

static void test_writers_are_killed(void **state) {
  (void)state;
  rng_t rng = {31};
  uint32_t versions = 0;
  int last = 0;
  write_once(7);
  for (uint32_t k = 0; k < n_kills; k++) {
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0)
      write_for_ever();
    struct timespec time = {.tv_nsec = (long)rng_below(&rng, 6000000)};
    (void)nanosleep(&time, NULL);
    int status = 0, version;
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_true(WIFSIGNALED(status));
    version = look();
    versions += version != last;
    last = version;
  }
  uint32_t left = folder_count(folder, ".tmp");
  printf("killed\t%u\tversions\t%u\tleft behind\t%u\n", n_kills, versions, left);
  assert_true(versions > n_kills / 20 && left > 0); // they were killed while they wrote
  assert_int_equal(folder_count(folder, ""), left + 1);
}

static int begin(void **state) {
  (void)state;
  folder_make(folder);
  (void)snprintf(path, sizeof(path), "%s/of.dtp", folder);
  return 0;
}

static int end(void **state) {
  (void)state;
  return folder_drop(folder);
}

int main(int argc, char **argv) {
  if (argc > 1)
    n_kills = (uint32_t)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {TEST(test_writers_are_killed)};
  return cmocka_run_group_tests(tests, begin, end);
}
