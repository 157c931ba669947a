// SPDX-License-Identifier: Apache-2.0
// What dt_runtime_create and dt_function_create refuse, and that declarations are copied.
#include "test/support/subjects.h"

#include <string.h>

static int setup(void **state) {
  static dt_runtime_t *runtime;
  runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  *state = runtime;
  return 0;
}

static int teardown(void **state) {
  dt_runtime_release(*state);
  return 0;
}

static void test_runtime_options(void **state) {
  (void)state;
  static const dt_runtime_options_t bad[] = {
      {.threads = 1025}, {.compile_threads = 65}, {.struct_size = 3}, {.struct_size = 1u << 20}};
  dt_runtime_t *runtime = NULL;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    expect_code(dt_runtime_create(&bad[i], &runtime), DT_E_ARGUMENT);
    assert_null(runtime);
  }
  expect_code(dt_runtime_create(NULL, NULL), DT_E_ARGUMENT);
  // A longer struct of a later version is fine while what it adds is zero.
  struct {
    dt_runtime_options_t known;
    uint64_t later;
  } longer = {.known = {.struct_size = sizeof(longer), .threads = 1}};
  expect_ok(dt_runtime_create(&longer.known, &runtime));
  dt_runtime_release(runtime);
  longer.later = 1;
  expect_code(dt_runtime_create(&longer.known, &runtime), DT_E_UNSUPPORTED);
}

typedef struct decl_case_t {
  const char *what;
  dt_input_decl_t inputs[2];
  dt_code_t code;
} decl_case_t;

static void test_function_options(void **state) {
  dt_runtime_t *runtime = *state;
  dt_function_t *function = NULL;
  const dt_function_options_t good = {
      .name = "f", .n_inputs = 2, .n_outputs = 1, .inputs = add_subject.inputs};
  dt_program_fn_t program = add_subject.program;
  expect_code(dt_function_create(NULL, program, NULL, &good, &function), DT_E_ARGUMENT);
  expect_code(dt_function_create(runtime, NULL, NULL, &good, &function), DT_E_ARGUMENT);
  expect_code(dt_function_create(runtime, program, NULL, NULL, &function), DT_E_ARGUMENT);
  expect_code(dt_function_create(runtime, program, NULL, &good, NULL), DT_E_ARGUMENT);
  dt_function_options_t bad[6];
  for (size_t i = 0; i < 6; i++)
    bad[i] = good;
  bad[0].name = NULL;
  bad[1].name = "";
  bad[2].inputs = NULL;
  bad[3].n_outputs = 0;
  bad[4].answer = (dt_answer_t)7;
  bad[5].variant_limit = 100000;
  for (size_t i = 0; i < 6; i++)
    expect_code(dt_function_create(runtime, program, NULL, &bad[i], &function), DT_E_ARGUMENT);
  assert_null(function);
}

static void test_declarations(void **state) {
  dt_runtime_t *runtime = *state;
  static const dt_dim_decl_t negative[] = {{.min = -1}}, crossed[] = {{.min = 5, .max = 4}},
                             huge[] = {{.max = INT64_MAX}},
                             outside[] = {{.is_static = true, .value = 9, .max = 8}},
                             four[] = {{.name = "n", .is_static = true, .value = 4}},
                             small[] = {{.name = "n", .max = 3}};
  const decl_case_t cases[] = {
      {"no dtype", {{.rank = 1}}, DT_E_DTYPE},
      {"unknown dtype", {{.dtype = (dt_dtype_t)99}}, DT_E_DTYPE},
      {"rank", {{.dtype = DT_F32, .rank = 9}}, DT_E_LIMIT},
      {"negative", {{.dtype = DT_F32, .rank = 1, .dims = negative}}, DT_E_ARGUMENT},
      {"crossed", {{.dtype = DT_F32, .rank = 1, .dims = crossed}}, DT_E_ARGUMENT},
      {"huge", {{.dtype = DT_F32, .rank = 1, .dims = huge}}, DT_E_ARGUMENT},
      {"outside", {{.dtype = DT_F32, .rank = 1, .dims = outside}}, DT_E_ARGUMENT},
      {"contradicting",
       {{.dtype = DT_F32, .rank = 1, .dims = four}, {.dtype = DT_F32, .rank = 1, .dims = small}},
       DT_E_ARGUMENT},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    dt_function_options_t options = {.name = "f",
                                     .n_inputs = cases[i].inputs[1].dtype ? 2 : 1,
                                     .n_outputs = 1,
                                     .inputs = cases[i].inputs};
    dt_function_t *function = NULL;
    print_message("%s\n", cases[i].what);
    expect_code(dt_function_create(runtime, add_subject.program, NULL, &options, &function),
                cases[i].code);
    assert_null(function);
  }
}

static void count_free(void *closure) { (*(int *)closure)++; }

static void test_copies_and_closure(void **state) {
  dt_runtime_t *runtime = *state;
  char name[] = "copied", input[] = "left", dim[] = "n";
  dt_dim_decl_t dims[] = {{.name = dim, .min = 2, .max = 3}};
  dt_input_decl_t inputs[] = {{.name = input, .dtype = DT_F32, .rank = 1, .dims = dims},
                              {.dtype = DT_F32, .rank = 1, .dims = dims}};
  int freed = 0;
  dt_function_options_t options = {.name = name,
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .answer = DT_ANSWER_EVALUATOR,
                                   .closure_free = count_free};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, add_subject.program, &freed, &options, &function));
  memset(name, 'x', sizeof(name) - 1);
  memset(input, 'x', sizeof(input) - 1);
  memset(dim, 'x', sizeof(dim) - 1);
  memset(dims, 0, sizeof(dims));
  memset(inputs, 0, sizeof(inputs));
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(runtime, NULL, &session));
  int64_t n = 4;
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = NULL;
  expect_parts(dt_call(session, function, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL), DT_E_SHAPE,
               EACH_OF("copied", "left"));
  dt_tensor_release(x);
  dt_session_destroy(session);
  dt_function_retain(function);
  dt_function_release(function);
  assert_int_equal(freed, 0);
  dt_function_release(function);
  assert_int_equal(freed, 1);
}

RUN_TESTS_WITH(setup, teardown, TEST(test_runtime_options), TEST(test_function_options),
               TEST(test_declarations), TEST(test_copies_and_closure))
