// SPDX-License-Identifier: Apache-2.0
// Reports as structs and as JSON lines, and what asking for one refuses.
#include "test/support/fixture.h"

#include "runtime/base/memory.h"
#include "test/support/report_as_text.h"
#include "test/unit/explain/programs.h"

#include <string.h>

typedef struct rig_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} rig_t;

static dt_tensor_t *vector_of(int64_t size) { return tensor_full(0, 1, &size); }

static int set_up(void **state) {
  static rig_t rig;
  const case_t *c = explain_case("branch");
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = "branch",
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .inputs = c->inputs,
                                 .answer = DT_ANSWER_EVALUATOR};
  rig.runtime = runtime_of(1);
  rig.session = session_of(rig.runtime);
  expect_ok(dt_function_create(rig.runtime, c->program, NULL, &about, &rig.function));
  *state = &rig;
  return 0;
}

static int tear_down(void **state) {
  rig_t *rig = *state;
  dt_function_release(rig->function);
  dt_session_destroy(rig->session);
  dt_runtime_release(rig->runtime);
  return 0;
}

static void call(rig_t *rig, int64_t size) {
  dt_tensor_t *x = vector_of(size), *y = NULL;
  expect_ok(dt_call(rig->session, rig->function, &x, 1, &y, 1, NULL));
  RELEASE(x, y);
}

// ---- Structs ----------------------------------------------------------------------------------------
static void before_the_first_call_there_is_nothing(void **state) {
  rig_t *rig = *state;
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(rig->function, NULL, 0, &report));
  assert_string_equal(report->function, "branch");
  assert_int_equal(report->n_variants, 0);
  assert_int_equal(report->n_misses, 0);
  assert_int_equal(report->n_compiles, 0);
  dt_report_free(report);
}

static void structs_say_what_the_text_says(void **state) {
  rig_t *rig = *state;
  call(rig, 10);
  call(rig, 600);
  dt_tensor_t *x = vector_of(700);
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(rig->function, &x, 1, &report));
  dt_tensor_release(x);
  assert_int_equal(report->n_variants, 2);
  assert_int_equal(report->variants[0]->n_dims, 1);
  assert_string_equal(report->variants[0]->dims[0]->name, "x.size(0)");
  assert_int_equal(report->variants[0]->dims[0]->state, DT_DIM_DYNAMIC);
  assert_int_equal(report->n_misses, 2);
  assert_false(report->misses[0]->hit);
  assert_string_equal(report->misses[0]->guard->op, "sym_true");
  assert_string_equal(report->misses[0]->guard->file, "branch.c");
  assert_int_equal(report->misses[0]->guard->line, 4);
  assert_non_null(strstr(report->misses[0]->remedy, "branch.c:4"));
  assert_true(report->misses[1]->hit);
  assert_int_equal(report->n_compiles, 2);
  assert_int_equal(report->compiles[0]->reason, DT_COMPILE_FIRST);
  assert_null(report->compiles[0]->miss);
  assert_int_equal(report->compiles[1]->reason, DT_COMPILE_MISS);
  assert_int_equal(report->compiles[1]->miss->variant, 0);
  assert_true(report->compiles[1]->ns > 0);
  dt_report_free(report);
}

static void a_report_outlives_its_function(void **state) {
  rig_t *rig = *state;
  call(rig, 10);
  dt_tensor_t *x = vector_of(700);
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(rig->function, &x, 1, &report));
  dt_tensor_release(x);
  dt_function_release(rig->function);
  rig->function = NULL;
  char *json = NULL;
  expect_ok(dt_report_json(report, 0, &json));
  assert_non_null(strstr(json, "\"event\":\"miss\",\"function\":\"branch\",\"variant\":0,"
                               "\"guard\":\"s0 <= 511\",\"op\":\"sym_true\",\"file\":\"branch.c\","
                               "\"line\":4"));
  assert_non_null(strstr(json, "\"reason\":\"first call\""));
  dt_text_free(json);
  dt_report_free(report);
}

// A failing compile is part of the history, and the history does not grow for ever.
static void failures_are_remembered_and_bounded(void **state) {
  rig_t *rig = *state;
  const case_t *c = explain_case("broadcast");
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = "broadcast",
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .inputs = c->inputs,
                                 .answer = DT_ANSWER_EVALUATOR,
                                 .compile_limit = 1000};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(rig->runtime, c->program, NULL, &about, &function));
  dt_tensor_t *args[2] = {vector_of(3), NULL}, *y = NULL;
  for (int k = 0; k < 300; k++) { // not the same ones: those are refused by a look-up
    dt_tensor_release(args[1]);
    args[1] = vector_of(4 + k);
    expect_code(dt_call(rig->session, function, args, 2, &y, 1, NULL), DT_E_SHAPE);
  }
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(function, NULL, 0, &report));
  assert_int_equal(report->n_compiles, 256);
  assert_int_equal(report->forgotten, 44);
  assert_int_equal(report->compiles[255]->number, 299);
  assert_int_equal(report->compiles[255]->code, DT_E_SHAPE);
  assert_non_null(strstr(report->compiles[255]->failure, "sizes must be equal or 1"));
  dt_report_free(report);
  dt_tensor_release(args[0]);
  dt_tensor_release(args[1]);
  dt_function_release(function);
}

// ---- Refusals -----------------------------------------------------------------------------------------
static void bad_arguments_are_refused(void **state) {
  rig_t *rig = *state;
  dt_tensor_t *none = NULL;
  dt_report_t *report = NULL;
  char *text = NULL;
  expect_told(dt_function_report(NULL, NULL, 0, &report), DT_E_ARGUMENT, "function: NULL");
  expect_told(dt_function_report(rig->function, NULL, 0, NULL), DT_E_ARGUMENT, "out: NULL");
  expect_told(dt_function_report(rig->function, NULL, 1, &report), DT_E_ARGUMENT,
              "got 1 inputs at NULL; expected 1");
  expect_told(dt_function_report(rig->function, &none, 2, &report), DT_E_ARGUMENT,
              "got 2 inputs; expected 1");
  expect_told(report_as_text(rig->function, &none, 1, DT_REPORT_CALL, &text), DT_E_ARGUMENT,
              "argument 'x': NULL");
  expect_told(dt_report_text(report, 0, NULL), DT_E_ARGUMENT, "report: NULL");
  expect_told(report_as_text(NULL, NULL, 0, DT_REPORT_COMPILES, &text), DT_E_ARGUMENT,
              "function: NULL");
  expect_told(dt_report_json(NULL, 0, &text), DT_E_ARGUMENT, "report: NULL");
  expect_told(report_as_text(rig->function, NULL, 0, 8, &text), DT_E_ARGUMENT,
              "parts: 8; expected DT_REPORT_* joined");
  dt_report_free(NULL);
}

// Each allocation of a report may fail: a status or a whole report, and nothing leaks.
static void reports_survive_no_memory(void **state) {
  rig_t *rig = *state;
  call(rig, 10);
  call(rig, 600);
  dt_tensor_t *x = vector_of(700);
  bool done = false;
  for (uint64_t n = 1; n < 500 && !done; n++) {
    dt_report_t *report = NULL;
    (void)dt__heap_fail_at(n, true);
    dt_status_t status = dt_function_report(rig->function, &x, 1, &report);
    (void)dt__heap_fail_at(0, false);
    done = !status;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    assert_true((report == NULL) == (status != NULL));
    dt_status_free(status);
    dt_report_free(report);
  }
  assert_true(done);
  dt_tensor_release(x);
}

RUN_TESTS(TEST_WITH(before_the_first_call_there_is_nothing, set_up, tear_down),
          TEST_WITH(structs_say_what_the_text_says, set_up, tear_down),
          TEST_WITH(a_report_outlives_its_function, set_up, tear_down),
          TEST_WITH(failures_are_remembered_and_bounded, set_up, tear_down),
          TEST_WITH(bad_arguments_are_refused, set_up, tear_down),
          TEST_WITH(reports_survive_no_memory, set_up, tear_down))
