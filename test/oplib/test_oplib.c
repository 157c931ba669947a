// SPDX-License-Identifier: Apache-2.0
// Libraries of ops: what one brings is used, lives as long as its functions, and is gone for others
// once it is closed; and libraries that are refused.
#include "ductile/ductile.h"
#include "ductile/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char **paths; // good, another form, silent, failing

static void expect_ok(dt_status_t status) {
  if (status)
    fail_msg("%s", dt_status_message(status));
}

static void expect_told(dt_status_t status, dt_code_t code, const char *part) {
  if (dt_status_code(status) != code || !strstr(dt_status_message(status), part))
    fail_msg("got %s (%s); expected %s with '%s'", dt_code_name(dt_status_code(status)),
             dt_status_message(status), dt_code_name(code), part);
  dt_status_free(status);
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t next;
  (void)closure;
  dt_op_call(t, "oplib.next", 1, in, 0, NULL, 1, &next);
  out[0] = dt_softmax(t, next, 0);
  return NULL;
}

static dt_function_t *make(dt_runtime_t *runtime) {
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "f", .n_inputs = 1, .inputs = &input, .n_outputs = 1};
  dt_function_t *function = NULL;
#ifndef DT_HAVE_LLVM
  options.answer = DT_ANSWER_EVALUATOR;
#endif
  expect_ok(dt_function_create(runtime, program, NULL, &options, &function));
  return function;
}

static dt_status_t call(dt_session_t *session, dt_function_t *function, int64_t n) {
  dt_tensor_t *x = NULL, *out = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, 1, &n, &x));
  for (int64_t i = 0; i < n; i++)
    ((float *)dt_tensor_data(x))[i] = 3;
  dt_status_t status = dt_call(session, function, &x, 1, &out, 1, NULL);
  if (!status && n)
    assert_true(((const float *)dt_tensor_data(out))[n - 1] * (float)n > 0.999f);
  dt_tensor_release(x);
  dt_tensor_release(out);
  return status;
}

static void test_open_use_close(void **state) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  for (int turn = 0; turn < 2; turn++) {
    expect_ok(dt_op_library_open(runtime, paths[0]));
    assert_true(dt_op_exists(runtime, "oplib.next"));
    expect_told(dt_op_library_open(runtime, paths[0]), DT_E_ARGUMENT, "oplib is open already");
    dt_function_t *function = make(runtime);
    expect_ok(call(session, function, 5));
    expect_ok(dt_op_library_close(runtime, "oplib"));
    assert_false(dt_op_exists(runtime, "oplib.next"));
    expect_ok(call(session, function, 7)); // its code is there
    expect_told(dt_runtime_remove_pass(runtime, "oplib.look"), DT_E_ARGUMENT, "no pass is named");
    dt_function_t *late = make(runtime);
    expect_told(call(session, late, 5), DT_E_UNSUPPORTED, "oplib.next");
    dt_function_release(late);
    dt_function_release(function);
  }
  expect_told(dt_op_library_close(runtime, "oplib"), DT_E_ARGUMENT, "no library is named oplib");
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

static dt_status_t nothing(dt_rewriter_t *rewriter, void *closure) {
  (void)rewriter, (void)closure;
  return NULL;
}

// A name is taken that it comes to last, or first: nothing of it stays, and what had it does.
static void test_a_library_that_fails_half_way(void **state) {
  dt_runtime_t *runtime = NULL;
  static const dt_pass_options_t own = {.struct_size = sizeof(own), .name = "oplib.softmax"};
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_runtime_add_pass(runtime, DT_POINT_TRACED, nothing, NULL, &own));
  for (int turn = 0; turn < 2; turn++) {
    expect_told(dt_op_library_open(runtime, paths[0]), DT_E_ARGUMENT,
                "library oplib: dt_lowering_override: ");
    assert_false(dt_op_exists(runtime, "oplib.next"));
    expect_told(dt_runtime_remove_pass(runtime, "oplib.look"), DT_E_ARGUMENT, "no pass is named");
    expect_told(dt_op_library_close(runtime, "oplib"), DT_E_ARGUMENT, "no library is named oplib");
  }
  expect_ok(dt_runtime_remove_pass(runtime, "oplib.softmax"));
  expect_ok(dt_op_library_open(runtime, paths[0]));
  assert_true(dt_op_exists(runtime, "oplib.next"));
  dt_runtime_release(runtime);
}

static void test_libraries_that_are_refused(void **state) {
  dt_runtime_t *runtime = NULL;
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_told(dt_op_library_open(runtime, "/nowhere/lib.so"), DT_E_IO, "/nowhere/lib.so");
  expect_told(dt_op_library_open(runtime, paths[1]), DT_E_UNSUPPORTED,
              "a library of form 2; this runtime takes form 1");
  expect_told(dt_op_library_open(runtime, paths[2]), DT_E_ARGUMENT, "it brings nothing");
  expect_told(dt_op_library_open(runtime, paths[3]), DT_E_STATE, "its licence has ended");
  assert_false(dt_op_exists(runtime, "oplib.next"));
  expect_told(dt_op_library_open(runtime, "libm.so.6"), DT_E_UNSUPPORTED, "no dt_op_library");
  expect_told(dt_op_library_open(NULL, paths[0]), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_op_library_open(runtime, NULL), DT_E_ARGUMENT, "path: NULL");
  expect_ok(dt_op_library_open(runtime, paths[0]));
  dt_runtime_release(runtime);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open_use_close),
      cmocka_unit_test(test_a_library_that_fails_half_way),
      cmocka_unit_test(test_libraries_that_are_refused),
  };
  if (argc != 5) {
    (void)fprintf(stderr, "usage: unit_oplib GOOD FORM SILENT FAILING\n");
    return 2;
  }
  paths = argv + 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
