// SPDX-License-Identifier: Apache-2.0
// Code for the CPU kept on disk: the next runtime compiles nothing and gives the same bits; what
// differs in anything is another entry; a forged entry is made anew; of processes and threads that
// want the same one makes it, and nobody waits for ever.
#include "test/support/entry.h"
#include "test/support/subjects.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "test/support/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define N_THREADS 4
#define HEAD_BYTES 56 // of an entry's file, before key and data

static char folder[FOLDER_BYTES];

// ---- Lives ----------------------------------------------------------------------------------------

// What the log said.
typedef struct heard_t {
  _Atomic int found, refused, waited, compiled;
} heard_t;
static heard_t heard;

static void hear(void *user, const char *line, size_t len) {
  (void)user;
  heard.found += memmem(line, len, "[cache] all of", 14) != NULL;
  heard.refused += memmem(line, len, "[cache] a variant is not used", 29) != NULL;
  heard.waited += memmem(line, len, "another process still compiles", 30) != NULL;
  heard.compiled += memmem(line, len, "the host program", 16) != NULL;
}

static void listen_in(void) {
  memset(&heard, 0, sizeof(heard));
  variable_set("DUCTILE_LOG", "cache:2,compile:2");
  dt_log_sink_set(hear, NULL);
}

static void listen_no_more(void) {
  dt_log_sink_set(NULL, NULL);
  variable_set("DUCTILE_LOG", NULL);
}

// A hash of all that one runtime answers, of which the evaluator's agrees: calls at two sizes, and
// one whose data is wrong.
static uint64_t live(const subject_t *subject, uint32_t threads) {
  fixture_t f = fixture_on(DT_CPU, threads);
  const int64_t three = 3, sizes[][2] = {{4, 5}, {7, 33}}, ids[] = {3, 0, 2}, wrong[] = {3, 9, 1};
  uint64_t hash = 0;
  f.rng = (rng_t){5};
  dt_tensor_t *w = tensor_f32(&f.rng, 1, &three);
  dt_function_t *function = subject_function(f.runtime, subject, w, DT_ANSWER_COMPILED);
  dt_function_t *oracle = subject_function(f.runtime, subject, w, DT_ANSWER_EVALUATOR);
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *in[] = {tensor_f32(&f.rng, 2, sizes[k]), tensor_i64(1, &three, ids)};
    dt_tensor_t *got[2] = {NULL}, *want[2] = {NULL};
    expect_ok(dt_call(f.session, function, in, 2, got, 2, NULL));
    expect_ok(dt_call(f.session, oracle, in, 2, want, 2, NULL));
    for (uint32_t r = 0; r < 2; r++) {
      const unsigned char *bytes = dt_tensor_data(got[r]);
      expect_close(got[r], want[r], 1e-6, 1e-5, "all");
      for (int64_t i = 0; i < dt_tensor_count(got[r]) * 4; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
      RELEASE(got[r], want[r], in[r]);
    }
  }
  dt_tensor_t *in[] = {tensor_f32(&f.rng, 2, sizes[0]), tensor_i64(1, &three, wrong)};
  dt_tensor_t *got[2] = {NULL};
  expect_told(dt_call(f.session, function, in, 2, got, 2, NULL), DT_E_RANGE, "(subjects.c:");
  assert_int_equal(stats_of(function).evaluator_calls, 0);
  RELEASE(in[0], in[1], w);
  dt_function_release(function);
  dt_function_release(oracle);
  fixture_end(&f);
  return hash;
}

static uint64_t live_and_hear(const subject_t *subject, uint32_t threads) {
  listen_in();
  uint64_t hash = live(subject, threads);
  listen_no_more();
  return hash;
}

static void find_entry(char path[384]) {
  DIR *dir = opendir(folder);
  path[0] = '\0';
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (strstr(entry->d_name, ".variant"))
      (void)snprintf(path, 384, "%s/%s", folder, entry->d_name);
  if (dir)
    (void)closedir(dir);
  assert_true(path[0] != '\0');
}

static void empty_folder(void) {
  assert_int_equal(folder_drop(folder), 0);
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
}

// ---- Found ----------------------------------------------------------------------------------------

static void test_next_runtime_compiles_nothing(void **state) {
  (void)state;
  empty_folder();
  uint64_t hash = live_and_hear(&whole_subject, 1);
  assert_int_equal(heard.found, 0);
  assert_true(heard.compiled > 0);
  assert_int_equal(folder_count(folder, ".variant"), 1);
  assert_int_equal(folder_count(folder, ""), 1); // no lock is left
  assert_true(live_and_hear(&whole_subject, 1) == hash);
  assert_int_equal(heard.found, 1);
  assert_int_equal(heard.compiled, 0);
  // Where stages are looked at there is nothing to see in an entry.
  char dumps[FOLDER_BYTES];
  folder_make(dumps);
  variable_set("DUCTILE_DUMP", "fused");
  variable_set("DUCTILE_DUMP_DIR", dumps);
  assert_true(live_and_hear(&whole_subject, 1) == hash);
  variable_set("DUCTILE_DUMP", NULL);
  variable_set("DUCTILE_DUMP_DIR", NULL);
  assert_int_equal(heard.found, 0);
  assert_true(folder_count(dumps, ".dtt") > 0);
  assert_int_equal(folder_drop(dumps), 0);
}

static void test_other_facts_are_other_entries(void **state) {
  (void)state;
  empty_folder();
  (void)live(&whole_subject, 1);
  (void)live(&whole_short_subject, 1);
  assert_int_equal(folder_count(folder, ".variant"), 2);
  variable_set("DUCTILE_CPU", "x86-64-v2");
  (void)live(&whole_subject, 1);
  assert_int_equal(folder_count(folder, ".variant"), 3);
  variable_set("DUCTILE_STRICT_FP", "1");
  (void)live(&whole_subject, 1);
  assert_int_equal(folder_count(folder, ".variant"), 4);
  variable_set("DUCTILE_WITHOUT", "cse");
  (void)live(&whole_subject, 1);
  assert_int_equal(folder_count(folder, ".variant"), 5);
  (void)live_and_hear(&whole_subject, 1);
  assert_int_equal(heard.found, 1);
  variable_set("DUCTILE_CPU", NULL);
  variable_set("DUCTILE_STRICT_FP", NULL);
  variable_set("DUCTILE_WITHOUT", NULL);
  assert_int_equal(folder_count(folder, ".variant"), 5);
}

// ---- Forged ---------------------------------------------------------------------------------------

static void test_forged_entries_are_made_anew(void **state) {
  (void)state;
  empty_folder();
  uint64_t hash = live(&whole_subject, 1);
  for (int k = 0; k < 6; k++) {
    char path[384];
    find_entry(path);
    entry_t e = entry_open(path);
    size_t at = entry_kernels(&e), unit = entry_behind(&e, at, 1);
    assert_true(entry_word(&e, at) > 0);
    if (k == 0)
      entry_set(&e, unit, 1000); // of a kernel
    else if (k == 1)
      entry_set(&e, unit, UINT32_MAX);
    else if (k == 2)
      entry_set(&e, at, 1u << 19); // so many kernels
    else if (k == 3)
      e.bytes -= 8;
    else if (k == 4)
      entry_set(&e, entry_host(&e), entry_word(&e, entry_host(&e)) - 8); // of the host program
    else
      memset(e.data + 8, 0, 64); // no object file
    entry_keep(&e, folder);
    if (live_and_hear(&whole_subject, 1) != hash || heard.found || !heard.refused)
      fail_msg("case %d: the entry was taken", k);
    assert_true(live_and_hear(&whole_subject, 1) == hash &&
                heard.found); // a sound one takes its place
  }
}

// LLVM may be exchanged under the library: what another build of it made is made anew. That its
// file has another name, or is there no more, is no other build.
static void test_makers(void **state) {
  (void)state;
  char path[384];
  empty_folder();
  uint64_t hash = live(&whole_subject, 1);
  for (int k = 0; k < 3; k++) {
    find_entry(path);
    entry_t e = entry_open(path);
    char *maker = (char *)e.data + entry_behind(&e, 0, 1);
    char *end = (char *)e.data + entry_behind_bytes(&e, 0);
    assert_true(end - maker > 16 && memcmp(end - 2, "\" ", 2) == 0);
    if (k == 0)
      end[-3] ^= 1; // of the build id, or of the version
    else if (k == 1)
      *(char *)memmem(maker, (size_t)(end - maker), "/lib", 4) = '.'; // no such file
    else
      maker[0] = '.';
    entry_keep(&e, folder);
    assert_true(live_and_hear(&whole_subject, 1) == hash);
    assert_int_equal(heard.found, k == 1);
    assert_int_equal(heard.refused, k != 1);
  }
  assert_true(live_and_hear(&whole_subject, 1) == hash && heard.found); // a sound one is there
}

// Every so many bits of an entry, sums as they were: none is taken, nothing breaks.
static void test_damaged_entries_are_made_anew(void **state) {
  (void)state;
  char path[384];
  size_t bytes = 0;
  empty_folder();
  uint64_t hash = live(&whole_subject, 1);
  find_entry(path);
  for (int k = 0; k < 8; k++) {
    char *all_of_it = file_read(path, &bytes);
    all_of_it[bytes / 8 * (size_t)k + (size_t)k] ^= (char)(1 << k);
    file_write(path, all_of_it, k == 7 ? bytes / 2 : bytes);
    free(all_of_it);
    assert_true(live_and_hear(&whole_subject, 1) == hash);
    assert_int_equal(heard.found, 0);
  }
}

// ---- Many at once -----------------------------------------------------------------------------------

static uint64_t hashes[N_THREADS];

static void *live_in_thread(void *opaque) {
  uint64_t *out = opaque;
  *out = live(&whole_subject, 1);
  return NULL;
}

static void test_runtimes_at_once_compile_once(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  empty_folder();
  listen_in();
  for (int k = 0; k < N_THREADS; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, live_in_thread, &hashes[k]), 0);
  for (int k = 0; k < N_THREADS; k++)
    (void)pthread_join(threads[k], NULL);
  listen_no_more();
  for (int k = 1; k < N_THREADS; k++)
    assert_true(hashes[k] == hashes[0]);
  assert_int_equal(heard.found, N_THREADS - 1);
  assert_int_equal(heard.compiled, 1);
  assert_int_equal(folder_count(folder, ""), 1);
}

// The entry's lock, as another process would have it.
static int hold(const char *entry) {
  char path[400];
  (void)snprintf(path, sizeof(path), "%s.lock", entry);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  assert_true(fd >= 0);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  return fd;
}

static void test_nobody_is_waited_for_for_ever(void **state) {
  (void)state;
  char path[384];
  empty_folder();
  uint64_t hash = live(&whole_subject, 1);
  find_entry(path);
  assert_int_equal(unlink(path), 0);
  int fd = hold(path);
  variable_set("DUCTILE_CACHE_WAIT_MS", "30");
  int64_t begin = dt__now_ns();
  assert_true(live_and_hear(&whole_subject, 1) == hash);
  assert_true(dt__now_ns() - begin >= 30000000);
  assert_int_equal(heard.waited, 1);
  assert_int_equal(folder_count(folder, ".variant"), 1); // and it is kept all the same
  assert_true(live_and_hear(&whole_subject, 1) == hash); // what is there needs no lock
  assert_int_equal(heard.found, 1);
  assert_int_equal(heard.waited, 0);
  variable_set("DUCTILE_CACHE_WAIT_MS", NULL);
  (void)close(fd); // as where its process died
  assert_int_equal(unlink(path), 0);
  assert_true(live_and_hear(&whole_subject, 1) == hash);
  assert_int_equal(heard.waited, 0);
  assert_int_equal(folder_count(folder, ""), 1);
}

// A call that waits for another process ends at its deadline.
static void test_waits_end_with_the_call(void **state) {
  (void)state;
  char path[384];
  const int64_t sizes[] = {4, 5}, three = 3, ids[] = {3, 0, 2};
  empty_folder();
  (void)live(&whole_subject, 1);
  find_entry(path);
  assert_int_equal(unlink(path), 0);
  int fd = hold(path);
  fixture_t f = fixture_on(DT_CPU, 1);
  f.rng = (rng_t){5}; // small constants are in the key
  dt_tensor_t *w = tensor_f32(&f.rng, 1, &three), *got[2] = {NULL};
  dt_tensor_t *in[] = {tensor_f32(&f.rng, 2, sizes), tensor_i64(1, &three, ids)};
  dt_function_t *function = subject_function(f.runtime, &whole_subject, w, DT_ANSWER_COMPILED);
  int64_t begin = dt__now_ns();
  dt_call_options_t options = {.struct_size = sizeof(options), .deadline_ns = begin + 50000000};
  expect_code(dt_call(f.session, function, in, 2, got, 2, &options), DT_E_DEADLINE);
  assert_true(dt__now_ns() - begin < INT64_C(5000000000));
  RELEASE(in[0], in[1], w);
  dt_function_release(function);
  fixture_end(&f);
  (void)close(fd);
}

static int setup(void **state) {
  (void)state;
  (void)alarm(300);
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  (void)alarm(0);
  return folder_drop(folder);
}

RUN_TESTS_WITH(setup, teardown, TEST(test_next_runtime_compiles_nothing),
               TEST(test_other_facts_are_other_entries), TEST(test_forged_entries_are_made_anew),
               TEST(test_makers), TEST(test_damaged_entries_are_made_anew),
               TEST(test_runtimes_at_once_compile_once), TEST(test_nobody_is_waited_for_for_ever),
               TEST(test_waits_end_with_the_call))
