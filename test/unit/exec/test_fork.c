// SPDX-License-Identifier: Apache-2.0
// Forks: a child of a process in which a runtime lives can release what it got and nothing else;
// one forked before or after that has the library for itself.
#include "test/support/process.h"
#include "test/support/subjects.h"

#include <stdlib.h>

// A child that waits for a thread of its parent's waits for ever.
static int in_child(int (*run)(void *fixture), fixture_t *fixture) {
  return process_child(run, fixture, 20);
}

static int use_library(void *unused) {
  (void)unused;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 2};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *add = subject_function(runtime, &add_subject, NULL, compiled_answer());
  int64_t n = 100;
  dt_tensor_t *x = tensor_full(1.5f, 1, &n), *out = NULL;
  expect_ok(dt_call(session, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  bool right = ((const float *)dt_tensor_data(out))[99] == 3.0f;
  RELEASE(x, out);
  dt_session_destroy(session);
  dt_function_release(add);
  dt_runtime_release(runtime);
  return right ? 0 : 1;
}

static void test_around_a_life(void **state) {
  (void)state;
  assert_int_equal(in_child(use_library, NULL), 0);
  assert_int_equal(use_library(NULL), 0);
  assert_int_equal(in_child(use_library, NULL), 0);
  assert_int_equal(use_library(NULL), 0);
}

static int release_inherited(void *opaque) {
  const fixture_t *fixture = opaque;
  dt_runtime_t *runtime = NULL;
  dt_status_t status = dt_runtime_create(NULL, &runtime);
  bool forked = dt_status_code(status) == DT_E_FORKED && !runtime;
  dt_status_free(status);
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
  return forked ? 0 : 1;
}

// Pages are made resident while the child is made: it must not wait for the thread that does so.
static void test_while_warming(void **state) {
  (void)state;
  assert_int_equal(setenv("DUCTILE_WARM_MIB", "512", 1), 0);
  for (int i = 0; i < 10; i++) {
    fixture_t fixture = {0};
    expect_ok(dt_runtime_create(NULL, &fixture.runtime));
    expect_ok(dt_session_create(fixture.runtime, NULL, &fixture.session));
    assert_int_equal(in_child(release_inherited, &fixture), 0);
    dt_session_destroy(fixture.session);
    dt_runtime_release(fixture.runtime);
  }
  assert_int_equal(unsetenv("DUCTILE_WARM_MIB"), 0);
  assert_int_equal(in_child(use_library, NULL), 0);
}

// A child that has the library for itself is a parent as any other.
static int be_a_parent(void *unused) {
  (void)unused;
  fixture_t fixture = {0};
  expect_ok(dt_runtime_create(NULL, &fixture.runtime));
  expect_ok(dt_session_create(fixture.runtime, NULL, &fixture.session));
  int of_child = in_child(release_inherited, &fixture);
  dt_session_destroy(fixture.session);
  dt_runtime_release(fixture.runtime);
  return of_child ? of_child : in_child(use_library, NULL);
}

static void test_grandchildren(void **state) {
  (void)state;
  assert_int_equal(in_child(be_a_parent, NULL), 0);
}

RUN_TESTS(TEST(test_around_a_life), TEST(test_while_warming), TEST(test_grandchildren))
