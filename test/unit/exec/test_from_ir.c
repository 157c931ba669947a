// SPDX-License-Identifier: Apache-2.0
// Functions made of graph IR text: the text of a traced graph answers as the program does, and a
// text or options that make no function are refused.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "runtime/base/memory.h"
#include "runtime/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 1, 7); }

static dt_status_t from_text(const fixture_t *fixture, const char *text, dt_function_t **out) {
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = DT_ANSWER_EVALUATOR};
  return dt_function_create_from_ir(fixture->runtime, text, strlen(text), "text.dtt", &options,
                                    out);
}

// The graph of a program traced for `args`, as text.
static void print_graph(const subject_t *subject, void *closure, dt_tensor_t *const *args,
                        dt_text_t *out) {
  dt_trace_request_t request = {.name = subject->name,
                                .program = subject->program,
                                .closure = closure,
                                .n_inputs = subject->n_inputs,
                                .n_outputs = subject->n_outputs,
                                .inputs = subject->inputs,
                                .example = args};
  dt_traced_t *traced = NULL;
  expect_ok(dt__trace_run(&request, &traced));
  dt__graph_print(traced->graph, out);
  expect_ok(dt__text_status(out));
  dt__traced_destroy(traced);
}

static void answers_alike(const fixture_t *fixture, const subject_t *subject, void *closure,
                          dt_tensor_t **args, dt_tensor_t **other_args) {
  dt_text_t text;
  dt__text_init(&text);
  print_graph(subject, closure, args, &text);
  dt_function_t *program =
      subject_function(fixture->runtime, subject, closure, DT_ANSWER_EVALUATOR);
  dt_function_t *replay = NULL;
  expect_ok(from_text(fixture, dt__text_str(&text), &replay));
  for (int k = 0; k < 2; k++) {
    dt_tensor_t **in = k ? other_args : args, *expected = NULL, *actual = NULL;
    expect_ok(dt_call(fixture->session, program, in, subject->n_inputs, &expected, 1, NULL));
    expect_ok(dt_call(fixture->session, replay, in, subject->n_inputs, &actual, 1, NULL));
    expect_close(actual, expected, 0, 0, subject->name);
    RELEASE(expected, actual);
  }
  assert_int_equal(variants_of(replay), 1); // sizes stay symbols
  dt_function_release(program);
  dt_function_release(replay);
  dt__text_fini(&text);
}

static void texts_of_programs_answer_as_they_do(void **state) {
  const fixture_t *fixture = *state;
  const subject_t *const subjects[] = {&softmax_subject, &columns_subject, &transpose_subject};
  rng_t rng = {7};
  dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(3, 5)), *y = tensor_f32(&rng, 2, SIZES(6, 4));
  for (int k = 0; k < 3; k++)
    answers_alike(fixture, subjects[k], NULL, &x, &y);
  dt_tensor_t *norm[3] = {x, tensor_f32(&rng, 1, SIZES(5)), tensor_f32(&rng, 1, SIZES(5))};
  dt_tensor_t *other[3] = {y, tensor_f32(&rng, 1, SIZES(4)), tensor_f32(&rng, 1, SIZES(4))};
  answers_alike(fixture, &layer_norm_subject, NULL, norm, other);
  dt_tensor_t *look_up[2] = {x, tensor_i64(1, SIZES(3), VALUES(0, 2, -1))};
  dt_tensor_t *other_look_up[2] = {y, tensor_i64(1, SIZES(2), VALUES(5, 1))};
  answers_alike(fixture, &gather_subject, NULL, look_up, other_look_up);
  dt_tensor_t *w = tensor_f32(&rng, 1, SIZES(4)); // a constant small enough to be in the text
  answers_alike(fixture, &scale_subject, w, &norm[1], &other[1]);
  dt_tensor_t *all[] = {x,        y,          norm[1],          norm[2], other[1],
                        other[2], look_up[1], other_look_up[1], w};
  for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
    dt_tensor_release(all[k]);
}

static void declarations_come_from_the_text(void **state) {
  static const char text[] = "graph (s0: [1, 64] \"batch\", s1: [0, 140737488355327]) {\n"
                             "  %1 = input \"x\" f32[s0, 4] strides [4, 1] contiguous\n"
                             "  %2 = input \"y\" f32[s0*2 + 1] strides [1] contiguous\n"
                             "  %3 = input \"\" f32[s1] strides [1] contiguous\n"
                             "  return %1, %2\n"
                             "}\n";
  const fixture_t *fixture = *state;
  dt_function_t *function = NULL;
  expect_ok(from_text(fixture, text, &function));
  assert_int_equal(dt_function_n_inputs(function), 3);
  assert_int_equal(dt_function_n_outputs(function), 2);
  assert_string_equal(dt_function_input_dim(function, 0, 0)->name, "batch");
  assert_int_equal(dt_function_input_dim(function, 0, 0)->min, 1);
  assert_int_equal(dt_function_input_dim(function, 0, 0)->max, 64);
  assert_true(dt_function_input_dim(function, 0, 1)->is_static);
  assert_int_equal(dt_function_input_dim(function, 0, 1)->value, 4);
  assert_string_equal(dt_function_input_dim(function, 1, 0)->of, "batch");
  assert_int_equal(dt_function_input_dim(function, 1, 0)->scale, 2);
  assert_int_equal(dt_function_input_dim(function, 1, 0)->offset, 1);
  assert_null(dt_function_input(function, 2)->name);
  assert_null(dt_function_input_dim(function, 2, 0)->name);
  assert_int_equal(dt_function_input_dim(function, 2, 0)->max, 0);
  assert_null(dt_function_input(function, 3));
  assert_null(dt_function_input_dim(function, 0, 2));
  dt_function_release(function);
  assert_null(dt_function_input(NULL, 0));
  assert_null(dt_function_input_dim(NULL, 0, 0));
  assert_int_equal(dt_function_n_inputs(NULL), 0);
  assert_int_equal(dt_function_n_outputs(NULL), 0);
}

static const char relu[] = "graph (s0: [0, 140737488355327]) {\n"
                           "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                           "  %2 = relu %1 : f32[s0]\n"
                           "  return %2\n"
                           "}\n";

static void what_makes_no_function_is_refused(void **state) {
  const fixture_t *fixture = *state;
  dt_function_t *function = NULL;
  dt_function_options_t options = {.struct_size = sizeof(options), .name = "text", .n_outputs = 1};
  expect_told(from_text(fixture, "graph () {", &function), DT_E_FORMAT, "text.dtt:1");
  expect_told(from_text(fixture, "graph () { return }", &function), DT_E_FORMAT, "returns nothing");
  expect_told(from_text(fixture, "graph () { return } more", &function), DT_E_FORMAT, "the end");
  size_t len = strlen(relu);
  expect_told(dt_function_create_from_ir(fixture->runtime, relu, len, "f", &options, &function),
              DT_E_ARGUMENT, "leave them 0");
  options.n_outputs = 0;
  expect_told(dt_function_create_from_ir(fixture->runtime, NULL, 0, "f", &options, &function),
              DT_E_ARGUMENT, "text: NULL");
  expect_told(dt_function_create_from_ir(fixture->runtime, relu, len, NULL, &options, &function),
              DT_E_ARGUMENT, "file: NULL");
  expect_told(dt_function_create_from_ir(fixture->runtime, relu, len, "f", NULL, &function),
              DT_E_ARGUMENT, "options: NULL");
  expect_told(dt_function_create_from_ir(NULL, relu, len, "f", &options, &function), DT_E_ARGUMENT,
              "runtime: NULL");
  expect_told(dt_function_create_from_ir(fixture->runtime, relu, len, "f", &options, NULL),
              DT_E_ARGUMENT, "out: NULL");
  options.struct_size = 8;
  expect_told(dt_function_create_from_ir(fixture->runtime, relu, len, "f", &options, &function),
              DT_E_ARGUMENT, "struct_size: 8");
  assert_null(function);
}

// z = (x * w) + w, whose large constant is no part of a text.
enum { CUT_N = 300 };
static dt_status_t scale_and_shift(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  dt_value_t w = dt_constant(t, "w", closure);
  out[0] = dt_add(t, dt_mul(t, in[0], w), w);
  return NULL;
}

static void values_from_inside(void **state) {
  fixture_t *fixture = *state;
  const int64_t size = CUT_N;
  const dt_dim_decl_t dim = {.value = CUT_N, .is_static = true};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .dims = &dim};
  const subject_t subject = {"scale", scale_and_shift, 1, 1, &input};
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "cut", .answer = DT_ANSWER_EVALUATOR};
  rng_t rng = {7};
  dt_tensor_t *w = tensor_f32(&rng, 1, &size), *x = tensor_f32(&rng, 1, &size), *y = NULL;
  dt_function_t *function = subject_function(fixture->runtime, &subject, w, DT_ANSWER_EVALUATOR);
  dt_function_t *cut = NULL;
  char *text = NULL, *what = NULL;
  expect_code(dt_function_graph(function, &x, 1, &text), DT_E_STATE);
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  expect_ok(dt_function_graph(function, &x, 1, &text));
  const char *line = strstr(text, " = mul ");
  assert_non_null(line);
  while (line[-1] != '%')
    line--;
  uint32_t node = (uint32_t)strtoul(line, NULL, 10);
  expect_ok(dt_function_create_cut(function, &x, 1, node, &options, &what, &cut));
  assert_non_null(strstr(what, "test_from_ir.c:"));
  // The constant stays while the cut does.
  dt_function_release(function);
  dt_tensor_t *product = NULL;
  expect_ok(dt_call(fixture->session, cut, &x, 1, &product, 1, NULL));
  for (int k = 0; k < CUT_N; k++) {
    float a = ((float *)dt_tensor_data(x))[k], b = ((float *)dt_tensor_data(w))[k];
    assert_true(((float *)dt_tensor_data(product))[k] == a * b);
    assert_true(((float *)dt_tensor_data(y))[k] == (float)((double)a * b + b));
  }
  dt_function_t *none = NULL;
  expect_told(dt_function_create_cut(cut, &x, 1, 99, &options, NULL, &none), DT_E_ARGUMENT,
              "node: 99; expected 1 to ");
  expect_code(dt_function_create_cut(cut, &x, 1, 0, &options, NULL, &none), DT_E_ARGUMENT);
  expect_code(dt_function_create_cut(cut, NULL, 0, 1, &options, NULL, &none), DT_E_ARGUMENT);
  assert_null(none);
  dt_text_free(text), dt_text_free(what);
  dt_function_release(cut);
  dt_tensor_release(w), dt_tensor_release(x), dt_tensor_release(y), dt_tensor_release(product);
}

// ---- Export -------------------------------------------------------------------------------------
// x[rows, 300] * w, and the sum of its rows, whose number is a size.
static dt_status_t weighed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int32_t first = 0;
  dt_value_t y = dt_mul(t, in[0], dt_constant(t, "w", closure));
  out[0] = dt_add(t, dt_sum(t, y, 1, &first, false),
                  dt_cast(t, dt_size_value(t, dt_dim(t, in[0], 0)), DT_F32));
  return NULL;
}
static dt_status_t asks(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  bool few = dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 7)));
  out[0] = few ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  return NULL;
}

static const dt_dim_decl_t weighed_dims[] = {{.name = "rows", .max = 64},
                                             {.value = CUT_N, .is_static = true}};
static const dt_input_decl_t weighed_input = {
    .name = "x", .dtype = DT_F32, .rank = 2, .dims = weighed_dims};

static void exported_graphs_answer_as_they_do(void **state) {
  const fixture_t *fixture = *state;
  const subject_t subject = {"weighed", weighed, 1, 1, &weighed_input};
  const int64_t size = CUT_N;
  rng_t rng = {9};
  dt_tensor_t *w = tensor_f32(&rng, 1, &size);
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16];
  folder_make(folder);
  (void)snprintf(path, sizeof(path), "%s/weighed.dtt", folder);
  dt_function_t *function = subject_function(fixture->runtime, &subject, w, DT_ANSWER_EVALUATOR);
  dt_function_t *read = NULL;
  expect_ok(dt_function_export(function, DT_EXPORT_TEXT, path)); // nobody has called it
  assert_int_equal(variants_of(function), 0);
  char *text = file_read(path, NULL);
  expect_ok(from_text(fixture, text, &read));
  free(text);
  assert_string_equal(dt_function_input_dim(read, 0, 0)->name, "rows");
  assert_int_equal(dt_function_input_dim(read, 0, 0)->max, 64);
  for (int64_t rows = 0; rows < 9; rows += rows ? 7 : 1) {
    dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(rows, CUT_N)), *want = NULL, *got = NULL;
    expect_ok(dt_call(fixture->session, function, &x, 1, &want, 1, NULL));
    expect_ok(dt_call(fixture->session, read, &x, 1, &got, 1, NULL));
    expect_close(got, want, 0, 0, "exported");
    RELEASE(x, want, got);
  }
  assert_int_equal(variants_of(read), 1);
  // A variant for a call's sizes is no part of it.
  expect_ok(dt_function_export(function, DT_EXPORT_TEXT, path));
  expect_told(dt_function_export(function, DT_EXPORT_PACKAGE, path), DT_E_UNSUPPORTED,
              "function weighed: export: packages of code are not written yet");
  expect_told(dt_function_export(function, (dt_export_t)7, path), DT_E_ARGUMENT, "form: 7");
  expect_code(dt_function_export(function, DT_EXPORT_TEXT, "/nowhere/at/all"), DT_E_IO);
  expect_code(dt_function_export(NULL, DT_EXPORT_TEXT, path), DT_E_ARGUMENT);
  expect_code(dt_function_export(function, DT_EXPORT_TEXT, NULL), DT_E_ARGUMENT);
  dt_function_release(function);
  dt_function_release(read);
  assert_int_equal(folder_count(folder, ""), 1);
  assert_int_equal(folder_drop(folder), 0);
  RELEASE(w);
}

static void what_needs_a_call_is_not_exported(void **state) {
  fixture_t *fixture = *state;
  const subject_t subject = {"asks", asks, 1, 1, &weighed_input};
  dt_function_options_t options = options_of(1, &weighed_input);
  dt_function_t *function = subject_function(fixture->runtime, &subject, NULL, DT_ANSWER_EVALUATOR);
  expect_code(dt_function_export(function, DT_EXPORT_TEXT, "asks.dtt"), DT_E_STATE);
  dt_function_release(function);
  options.dynamic = DT_DYNAMIC_STATIC;
  function = function_of(fixture, asks, NULL, &options);
  expect_told(dt_function_export(function, DT_EXPORT_TEXT, "asks.dtt"), DT_E_STATE,
              "`dynamic` is static");
  dt_function_release(function);
}

static void making_one_survives_no_memory(void **state) {
  const fixture_t *fixture = *state;
  bool done = false;
  for (uint64_t n = 1; n < 500 && !done; n++) {
    dt_function_t *function = NULL;
    (void)dt__heap_fail_at(n, true);
    dt_status_t status = from_text(fixture, relu, &function);
    (void)dt__heap_fail_at(0, false);
    done = !status;
    if (status)
      expect_code(status, DT_E_NO_MEMORY);
    assert_true((function == NULL) == !done);
    dt_function_release(function);
  }
  assert_true(done);
}

// What comes out is read before the argument is written.
static void outputs_come_before_updates(void **state) {
  const fixture_t *fixture = *state;
  static const char text[] = "graph (s0: [0, 1000] hint 3) {\n"
                             "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                             "  %2 = neg %1 : f32[s0]\n"
                             "  update 0 %2\n"
                             "  return %1\n"
                             "}\n";
  dt_function_t *function = NULL;
  expect_ok(from_text(fixture, text, &function));
  dt_tensor_t *x = tensor_full(2, 1, SIZES(3)), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  for (int k = 0; k < 3; k++) {
    assert_true(((const float *)dt_tensor_data(out))[k] == 2);
    assert_true(((const float *)dt_tensor_data(x))[k] == -2);
  }
  RELEASE(x, out);
  dt_function_release(function);
}

RUN_TESTS(TEST_WITH(texts_of_programs_answer_as_they_do, setup, fixture_close),
          TEST_WITH(declarations_come_from_the_text, setup, fixture_close),
          TEST_WITH(what_makes_no_function_is_refused, setup, fixture_close),
          TEST_WITH(outputs_come_before_updates, setup, fixture_close),
          TEST_WITH(values_from_inside, setup, fixture_close),
          TEST_WITH(exported_graphs_answer_as_they_do, setup, fixture_close),
          TEST_WITH(what_needs_a_call_is_not_exported, setup, fixture_close),
          TEST_WITH(making_one_survives_no_memory, setup, fixture_close))
