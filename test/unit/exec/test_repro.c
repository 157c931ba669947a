// SPDX-License-Identifier: Apache-2.0
// Files that show a fault again: what they say, that the graph in them is a function again, when
// one is written and when not. What is done with them is tested with the command (cli.repro).
#include "test/support/subjects.h"

#include "ductile/ir.h"
#include "runtime/base/status.h"
#include "runtime/exec/explain.h"
#include "test/support/folder.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[FOLDER_BYTES];

static int setup(void **state) {
  char inner[FOLDER_BYTES + 8];
  folder_make(folder);
  (void)snprintf(inner, sizeof(inner), "%s/made", folder);
  variable_set("DUCTILE_REPRO_DIR", inner);
  return fixture_open(state, 2, 1);
}

static int teardown(void **state) {
  int failed = fixture_close(state);
  return folder_drop(folder) || failed;
}

static uint32_t files_written(void) {
  char pattern[FOLDER_BYTES + 16];
  glob_t found = {0};
  (void)snprintf(pattern, sizeof(pattern), "%s/made/*.dtt", folder);
  int failed = glob(pattern, 0, NULL, &found);
  uint32_t n = failed ? 0 : (uint32_t)found.gl_pathc;
  globfree(&found);
  return n;
}

static void expect_text(const char *text, const char *part) {
  if (!strstr(text, part))
    fail_msg("no '%s' in\n%s", part, text);
}

static void of_a_call(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function =
      subject_function(fixture->runtime, &softmax_subject, NULL, compiled_answer());
  const int64_t sizes[] = {5, 7}, back[] = {7, 5};
  dt_tensor_t *base = tensor_f32(&fixture->rng, 2, back), *x = tensor_transposed(base), *y = NULL;
  char *path = NULL;
  expect_code(dt_function_repro(function, &x, 1, "no call yet", &path), DT_E_STATE);
  assert_null(path);
  assert_int_equal(dt_tensor_sizes(x)[0], sizes[0]);
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  expect_ok(dt_function_repro(function, &x, 1, "wrong\nby much", &path));
  assert_non_null(path);
  char *text = file_read(path, NULL);
  expect_text(text, "--TEST--\nwrong by much\nfunction: softmax\n");
  expect_text(text, "\nthreads: 2\nstrict_fp: 0\ncall: 0=5x7@1x5\n--IN--\ngraph (");
  // The graph is a function again, and answers as this one does.
  const char *ir = strstr(text, "graph (");
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "again", .answer = compiled_answer()};
  dt_function_t *again = NULL;
  dt_tensor_t *z = NULL;
  expect_ok(dt_function_create_from_ir(fixture->runtime, ir, strlen(ir), path, &options, &again));
  expect_ok(dt_call(fixture->session, again, &x, 1, &z, 1, NULL));
  expect_close(z, y, 0, 0, "the graph of the file");
  dt_function_release(again);
  dt_tensor_release(x), dt_tensor_release(base), dt_tensor_release(y), dt_tensor_release(z);
  dt_function_release(function);
  dt_text_free(path);
  free(text);
}

static void of_failed_compiles(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function =
      subject_function(fixture->runtime, &softmax_subject, NULL, compiled_answer());
  const int64_t sizes[] = {3, 4};
  dt_tensor_t *x = tensor_f32(&fixture->rng, 2, sizes), *y = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  const dt_variant_list_t *list = atomic_load(&function->list);
  const dt_variant_request_t how = {.inputs = &x, .number = 9};
  static const struct {
    dt_code_t code;
    bool written; // whether it is the compiler's fault
  } cases[] = {{DT_E_COMPILE, true}, {DT_E_INTERNAL, true},   {DT_E_SHAPE, false},
               {DT_E_LIMIT, false},  {DT_E_NO_MEMORY, false}, {DT_E_RANGE, false}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    uint32_t before = files_written();
    dt_status_t status =
        dt__repro_failed(function, list->items[0]->traced, &how, DT_FAIL(cases[k].code, "made up"));
    assert_int_equal(dt_status_code(status), cases[k].code);
    assert_int_equal(files_written() - before, cases[k].written);
    assert_int_equal(strstr(dt_status_message(status), "shows it again") != NULL, cases[k].written);
    dt_status_free(status);
  }
  assert_null(dt__repro_failed(function, list->items[0]->traced, &how, NULL));
  dt_tensor_release(x), dt_tensor_release(y);
  dt_function_release(function);
}

static void not_without_a_folder(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  variable_set("DUCTILE_REPRO_DIR", NULL);
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *function = subject_function(runtime, &softmax_subject, NULL, compiled_answer());
  rng_t rng = {1};
  const int64_t sizes[] = {3, 4};
  dt_tensor_t *x = tensor_f32(&rng, 2, sizes), *y = NULL;
  char *path = folder;
  uint32_t before = files_written();
  expect_ok(dt_call(session, function, &x, 1, &y, 1, NULL));
  expect_ok(dt_function_repro(function, &x, 1, "nobody asks", &path));
  assert_null(path);
  assert_int_equal(files_written(), before);
  expect_code(dt_function_repro(function, NULL, 0, "no inputs", &path), DT_E_ARGUMENT);
  expect_code(dt_function_repro(function, &x, 1, NULL, &path), DT_E_ARGUMENT);
  expect_code(dt_function_repro(NULL, &x, 1, "no function", &path), DT_E_ARGUMENT);
  dt_tensor_release(x), dt_tensor_release(y);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

RUN_TESTS_WITH(setup, teardown, TEST(of_a_call), TEST(of_failed_compiles),
               TEST(not_without_a_folder))
