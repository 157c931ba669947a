// SPDX-License-Identifier: Apache-2.0
// What functions and sessions count, in its three forms: they agree, and JSON has every number.
#include "test/support/subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rows of the numbers; each struct has its size before them and one text besides.
enum {
  FUNCTION_ROWS = 0
#define FUNCTION_COUNTER(field) +1
#include "runtime/exec/counters.def"
  ,
  SESSION_ROWS = 0
#define SESSION_COUNTER(field) +1
#include "runtime/exec/counters.def"
};
_Static_assert(sizeof(dt_function_counters_t) == 8 * (FUNCTION_ROWS + 1), "a field has no row");
_Static_assert(sizeof(dt_session_counters_t) == 8 * (SESSION_ROWS + 1), "a field has no row");

static int setup(void **state) { return fixture_open(state, 1, 3); }

static uint64_t number(const char *json, const char *name) {
  char key[64];
  (void)snprintf(key, sizeof(key), "\"%s\":", name);
  const char *at = strstr(json, key);
  if (!at)
    fail_msg("no %s in %s", name, json);
  return strtoull(at + strlen(key), NULL, 10);
}

static void test_forms_agree(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t made = options_of(1, &input);
  dt_function_t *function = function_of(fixture, negate_program, NULL, &made);
  const int64_t n = 5;
  dt_tensor_t *x = tensor_full(0, 1, &n), *y = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  dt_function_stats_t few = {.struct_size = sizeof(few)};
  dt_function_counters_t all = {.struct_size = sizeof(all)};
  char *json = NULL;
  expect_ok(dt_function_stats(function, &few));
  expect_ok(dt_function_counters(function, &all));
  expect_ok(dt_function_stats_json(function, &json));
  assert_int_equal(few.calls, 1);
  assert_int_equal(few.variants, all.variants);
  assert_int_equal(few.misses, all.misses);
#define FUNCTION_COUNTER(field) assert_int_equal(number(json, #field), all.field);
#include "runtime/exec/counters.def"
  dt_text_free(json);
  dt_session_stats_t place = {.struct_size = sizeof(place)};
  dt_session_counters_t counters = {.struct_size = sizeof(counters)};
  expect_ok(dt_session_stats(fixture->session, &place));
  expect_ok(dt_session_counters(fixture->session, &counters));
  expect_ok(dt_session_stats_json(fixture->session, &json));
  assert_int_equal(place.bytes, dt_session_bytes(fixture->session));
  assert_int_equal(number(json, "bytes"), place.bytes);
#define SESSION_COUNTER(field) assert_int_equal(number(json, #field), counters.field);
#include "runtime/exec/counters.def"
  dt_text_free(json);
  expect_code(dt_function_stats_json(NULL, &json), DT_E_ARGUMENT);
  expect_code(dt_session_stats_json(NULL, &json), DT_E_ARGUMENT);
  RELEASE(x, y);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_forms_agree))
