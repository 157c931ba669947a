// SPDX-License-Identifier: Apache-2.0
// Profiles: what calls have shown is kept, saved and loaded; a damaged or foreign file changes
// nothing.
#include "test/support/folder.h"

#include "runtime/base/memory.h"
#include "test/support/subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct profile_fixture_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  char folder[FOLDER_BYTES], path[96];
} profile_fixture_t;

static int setup(void **state) {
  static profile_fixture_t fixture;
  fixture.runtime = runtime_of(2);
  fixture.session = session_of(fixture.runtime);
  folder_make(fixture.folder);
  (void)snprintf(fixture.path, sizeof(fixture.path), "%s/f.profile", fixture.folder);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  profile_fixture_t *fixture = *state;
  (void)unlink(fixture->path);
  assert_int_equal(rmdir(fixture->folder), 0); // no temporary file is left
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
  return 0;
}

static const dt_dim_decl_t named[] = {{.name = "n \"quoted\""}, {0}};
static const dt_input_decl_t inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = named},
    {.name = "y\\\n", .dtype = DT_F32, .rank = 1, .dims = named}};

static dt_function_t *make(profile_fixture_t *fixture, const char *name, uint32_t n_inputs,
                           dt_dynamic_t dynamic) {
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = name,
                                   .n_inputs = n_inputs,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .answer = DT_ANSWER_EVALUATOR,
                                   .dynamic = dynamic};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function));
  return function;
}

static void call(profile_fixture_t *fixture, dt_function_t *function, int64_t n, int64_t m) {
  dt_tensor_t *in[2] = {tensor_full(1, 2, SIZES(n, m)), tensor_full(1, 1, &n)};
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
  RELEASE(out, in[0], in[1]);
}

static void test_no_second_compile(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *first = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  call(fixture, first, 3, 8);
  call(fixture, first, 4, 8);
  assert_int_equal(stats_of(first).compiles, 2);
  expect_ok(dt_function_profile_save(first, fixture->path));
  dt_function_release(first);
  dt_function_t *second = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  expect_ok(dt_function_profile_load(second, fixture->path));
  for (int64_t n = 3; n < 9; n++)
    call(fixture, second, n, 8);
  assert_int_equal(stats_of(second).compiles, 1);
  // The other dim has had one size: as ever, and the profile knew it.
  call(fixture, second, 3, 9);
  assert_int_equal(stats_of(second).compiles, 2);
  dt_function_release(second);
  // Where the first size is not the profile's, it has changed already.
  second = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  expect_ok(dt_function_profile_load(second, fixture->path));
  call(fixture, second, 3, 9);
  call(fixture, second, 3, 10);
  assert_int_equal(stats_of(second).compiles, 1);
  dt_function_release(second);
}

// What a symbolic function's calls have shown serves an automatic one.
static void test_rows_show_changes(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *symbolic = make(fixture, "f", 2, DT_DYNAMIC_SYMBOLIC);
  for (int64_t k = 0; k < 4000; k++)
    call(fixture, symbolic, 3 + k % 5, 8);
  dt_function_counters_t stats = stats_of(symbolic);
  assert_int_equal(stats.compiles, 1);
  assert_true(stats.sampled_calls >= 4 && stats.sampled_calls <= 64);
  expect_ok(dt_function_profile_save(symbolic, fixture->path));
  char *text = file_read(fixture->path, NULL);
  assert_non_null(strstr(text, "ductile-profile 1\nfunction \"f\"\nsource \"x.size(0)\" value 3\n"
                               "source \"x.size(1)\" value 8\nrow "));
  assert_non_null(strstr(text, " 1 [3, 8]\n")); // its miss
  free(text);
  dt_function_release(symbolic);
  dt_function_t *automatic = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  expect_ok(dt_function_profile_load(automatic, fixture->path));
  call(fixture, automatic, 3, 8);
  call(fixture, automatic, 100, 8);
  assert_int_equal(stats_of(automatic).compiles, 1);
  // Saved again it says at least as much.
  expect_ok(dt_function_profile_save(automatic, fixture->path));
  text = file_read(fixture->path, NULL);
  assert_non_null(strstr(text, "source \"x.size(0)\" dynamic\nsource \"x.size(1)\" value 8\n"));
  free(text);
  dt_function_release(automatic);
}

static void test_the_histogram_is_bounded(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "f",
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .answer = DT_ANSWER_EVALUATOR,
                                   .dynamic = DT_DYNAMIC_STATIC,
                                   .limit_action = DT_LIMIT_ERROR,
                                   .variant_limit = 1};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function));
  for (int64_t k = 0; k < 200; k++) {
    // Beyond the limit each is a miss.
    dt_tensor_t *in[2] = {tensor_full(1, 2, SIZES(100 + k, 1)), tensor_full(1, 1, SIZES(100 + k))};
    dt_tensor_t *out = NULL;
    dt_status_free(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
    RELEASE(out, in[0], in[1]);
  }
  expect_ok(dt_function_profile_save(function, fixture->path));
  char *text = file_read(fixture->path, NULL);
  int rows = 0;
  for (const char *at = strstr(text, "\nrow "); at; at = strstr(at + 1, "\nrow "))
    rows++;
  assert_int_equal(rows, 64);
  free(text);
  dt_function_release(function);
}

// A profile that is loaded into the function that saved it doubles its counts, and still reads
// back.
static void test_counts_end_somewhere(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  call(fixture, function, 3, 8);
  for (int k = 0; k < 70; k++) {
    expect_ok(dt_function_profile_save(function, fixture->path));
    expect_ok(dt_function_profile_load(function, fixture->path));
  }
  dt_function_release(function);
}

// Without memory a profile is saved and loaded whole, or not at all.
static void test_no_memory(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  call(fixture, function, 3, 8);
  call(fixture, function, 4, 8);
  uint64_t allocations = 0;
  dt_status_t status = NULL;
  do {
    (void)dt__heap_fail_at(++allocations, false);
    status = dt_function_profile_save(function, fixture->path);
    (void)dt__heap_fail_at(0, false);
    if (status)
      expect_code(status, DT_E_NO_MEMORY);
  } while (status && allocations < 1000);
  assert_true(allocations > 1 && allocations < 1000);
  dt_function_release(function);
  for (allocations = 1;; allocations++) {
    function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
    (void)dt__heap_fail_at(allocations, false);
    status = dt_function_profile_load(function, fixture->path);
    (void)dt__heap_fail_at(0, false);
    call(fixture, function, 3, 8);
    call(fixture, function, 5, 8);
    assert_int_equal(stats_of(function).compiles, status ? 2 : 1);
    dt_function_release(function);
    if (!status)
      break;
    expect_code(status, DT_E_NO_MEMORY);
    assert_true(allocations < 1000);
  }
  assert_true(allocations > 1);
}

// ---- Files that are not believed ----------------------------------------------------------------------
static void expect_refused(profile_fixture_t *fixture, const char *text, size_t len,
                           const char *what) {
  file_write(fixture->path, text, len);
  dt_function_t *function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  expect_told_of(what, dt_function_profile_load(function, fixture->path), DT_E_FORMAT, "");
  // Nothing changed: the first compile is static.
  call(fixture, function, 3, 8);
  call(fixture, function, 4, 8);
  assert_int_equal(stats_of(function).compiles, 2);
  dt_function_release(function);
}

static void test_damaged_files(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  call(fixture, function, 3, 8);
  call(fixture, function, 4, 8);
  expect_ok(dt_function_profile_save(function, fixture->path));
  dt_function_release(function);
  size_t len = 0;
  char *good = file_read(fixture->path, &len), bad[4096];
  assert_true(len < 2048);
  // Every prefix, every byte changed.
  for (size_t cut = 0; cut + 1 < len; cut++)
    expect_refused(fixture, good, cut, "cut");
  for (size_t at = 0; at + 1 < len; at++) {
    memcpy(bad, good, len);
    bad[at] = (char)(bad[at] ^ 1);
    expect_refused(fixture, bad, len, "changed");
  }
  memcpy(bad, good, len);
  memcpy(bad + len, "more", 4);
  expect_refused(fixture, bad, len + 4, "longer");
  file_write(fixture->path, good, len);
  free(good);
  // Another function, other inputs.
  function = make(fixture, "g", 2, DT_DYNAMIC_AUTOMATIC);
  expect_told(dt_function_profile_load(function, fixture->path), DT_E_FORMAT, "of function \"f\"");
  dt_function_release(function);
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "f",
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .inputs = &inputs[1],
                                   .answer = DT_ANSWER_EVALUATOR};
  expect_ok(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function));
  expect_told(dt_function_profile_load(function, fixture->path), DT_E_FORMAT, "other inputs");
  dt_function_release(function);
}

static void test_refused_paths(void **state) {
  profile_fixture_t *fixture = *state;
  dt_function_t *function = make(fixture, "f", 2, DT_DYNAMIC_AUTOMATIC);
  char path[160];
  (void)snprintf(path, sizeof(path), "%s/none/f.profile", fixture->folder);
  expect_told(dt_function_profile_save(function, path), DT_E_IO, "none/f.profile");
  expect_told(dt_function_profile_load(function, path), DT_E_IO, "cannot open");
  expect_told(dt_function_profile_load(function, fixture->folder), DT_E_IO, "not a regular file");
  // Nobody writes to it: a load that waited for that would wait for ever.
  (void)snprintf(path, sizeof(path), "%s/fifo", fixture->folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  (void)alarm(60);
  expect_told(dt_function_profile_load(function, path), DT_E_IO, "not a regular file");
  (void)alarm(0);
  assert_int_equal(unlink(path), 0);
  // A folder stands where the file should: what was written goes.
  (void)snprintf(path, sizeof(path), "%s/taken", fixture->folder);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_told(dt_function_profile_save(function, path), DT_E_IO, "cannot replace");
  assert_int_equal(rmdir(path), 0);
  expect_code(dt_function_profile_save(NULL, path), DT_E_ARGUMENT);
  expect_code(dt_function_profile_save(function, NULL), DT_E_ARGUMENT);
  expect_code(dt_function_profile_load(NULL, path), DT_E_ARGUMENT);
  expect_code(dt_function_profile_load(function, NULL), DT_E_ARGUMENT);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, teardown, TEST(test_no_second_compile), TEST(test_rows_show_changes),
               TEST(test_the_histogram_is_bounded), TEST(test_counts_end_somewhere),
               TEST(test_no_memory), TEST(test_damaged_files), TEST(test_refused_paths))
