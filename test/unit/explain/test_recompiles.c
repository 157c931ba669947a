// SPDX-License-Identifier: Apache-2.0
// What is said when a second call recompiles or is refused: the guard, who asked and where, what to
// do; each text is compared with its golden file as a whole.
#include "test/support/fixture.h"

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "test/support/folder.h"
#include "test/support/report_as_text.h"
#include "test/unit/explain/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool update;

// ---- Arguments ------------------------------------------------------------------------------------
static void free_memory(void *memory) { free(memory); }

// The first of 64 bytes that are nobody's, behind which `past` elements are left out.
static void *make_memory(const case_arg_t *arg, size_t elements, void **out_block) {
  size_t bytes = dt_dtype_size(arg->dtype ? arg->dtype : DT_F32);
  size_t room = ((elements + arg->past) * bytes + 63) / 64 * 64;
  *out_block = aligned_alloc(64, room);
  assert_non_null(*out_block);
  memset(*out_block, 0, room);
  char *first = (char *)*out_block + arg->past * bytes;
  if (arg->value)
    memcpy(first, &arg->value, bytes); // little end first
  return first;
}

static dt_tensor_t *make_arg(const case_arg_t *arg, dt_tensor_t *const *others) {
  int64_t strides[CASE_RANK], last = 1, step = 1;
  bool strided = false;
  for (uint32_t d = arg->rank; d-- > 0;) {
    strided |= arg->strides[d] != 0;
    strides[d] = step;
    step *= arg->sizes[d];
  }
  if (strided)
    memcpy(strides, arg->strides, sizeof(strides));
  for (uint32_t d = 0; d < arg->rank; d++)
    last += strides[d] * arg->sizes[d];
  void *block = NULL;
  void *first = arg->shares ? dt_tensor_data(others[arg->shares - 1])
                            : make_memory(arg, (size_t)last, &block);
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = arg->dtype ? arg->dtype : DT_F32,
                           .rank = arg->rank,
                           .sizes = arg->sizes,
                           .strides = strides,
                           .data = first,
                           .release = block ? free_memory : NULL,
                           .user = block};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  return tensor;
}

static void make_args(const case_t *c, const case_call_t *call, dt_tensor_t **out) {
  for (uint32_t k = 0; k < c->n_inputs; k++)
    out[k] = make_arg(&call->args[k], out);
}

static void free_args(const case_t *c, dt_tensor_t **args) { release_tensors(args, c->n_inputs); }

// ---- Texts ----------------------------------------------------------------------------------------
static void on_line(void *user, const char *line, size_t len) { dt__text_write(user, line, len); }

// Times are not compared: "12.3 ms" becomes "- ms".
static void put_untimed(const char *text, dt_text_t *out) {
  for (const char *at = text; *at;) {
    size_t digits = strspn(at, "0123456789.");
    if (digits && strncmp(at + digits, " ms", 3) == 0)
      dt__text_put(out, "-");
    else
      dt__text_write(out, at, digits ? digits : 1);
    at += digits ? digits : 1;
  }
}

static void put_call(const case_t *c, dt_session_t *session, dt_function_t *function,
                     const case_call_t *call, dt_text_t *out) {
  dt_tensor_t *args[CASE_INPUTS], *result = NULL;
  make_args(c, call, args);
  dt_status_t status = dt_call(session, function, args, c->n_inputs, &result, 1, NULL);
  if (status)
    dt__text_printf(out, "%s: %s\n", dt_code_name(dt_status_code(status)),
                    dt_status_message(status));
  else
    dt__text_put(out, "answered\n");
  dt_status_free(status);
  dt_tensor_release(result);
  free_args(c, args);
}

static void put_explained(const case_t *c, dt_function_t *function, const case_call_t *call,
                          dt_text_t *out) {
  dt_tensor_t *args[CASE_INPUTS];
  char *text = NULL;
  make_args(c, call, args);
  expect_ok(report_as_text(function, args, c->n_inputs, DT_REPORT_CALL, &text));
  dt__text_put(out, text);
  dt_text_free(text);
  free_args(c, args);
}

static void put_case(const case_t *c, dt_text_t *out) {
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 1};
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = c->name,
                                 .n_inputs = c->n_inputs,
                                 .n_outputs = 1,
                                 .inputs = c->inputs,
                                 .variant_limit = c->variant_limit,
                                 .limit_action =
                                     c->variant_limit ? DT_LIMIT_ERROR : DT_LIMIT_GENERIC,
                                 .dynamic = c->dynamic,
                                 .answer = c->compiled ? DT_ANSWER_COMPILED : DT_ANSWER_EVALUATOR};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  expect_ok(dt_function_create(runtime, c->program, c->closure, &about, &function));
  dt_text_t lines;
  dt__text_init(&lines);
  dt__text_put(out, "-- first call\n");
  put_call(c, session, function, &c->first, out);
  if (c->between)
    c->between(runtime);
  dt__text_put(out, "-- the second call, explained before it is made\n");
  put_explained(c, function, &c->second, out);
  dt__text_put(out, "-- second call\n");
  dt_log_sink_set(on_line, &lines);
  expect_ok(dt_log_configure("recompiles,dynamic"));
  put_call(c, session, function, &c->second, out);
  expect_ok(dt_log_configure(""));
  dt_log_sink_set(NULL, NULL);
  dt__text_put(out, "-- log\n");
  dt__text_put(out, dt__text_str(&lines));
  dt__text_fini(&lines);
  char *history = NULL;
  expect_ok(report_as_text(function, NULL, 0, DT_REPORT_COMPILES, &history));
  dt__text_put(out, "-- history\n");
  put_untimed(history, out);
  dt_text_free(history);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// ---- Golden files ---------------------------------------------------------------------------------
static void case_is_as_expected(void **state) {
  const case_t *c = *state;
  char path[256];
  if (c->compiled && compiled_answer() != DT_ANSWER_COMPILED)
    skip();
  (void)snprintf(path, sizeof(path), "test/golden/explain/%s.txt", c->name);
  dt_text_t text;
  dt__text_init(&text);
  put_case(c, &text);
  if (update) {
    file_write(path, dt__text_str(&text), text.len);
  } else {
    char *expected = access(path, R_OK) == 0 ? file_read(path, NULL) : NULL;
    if (!expected || strcmp(expected, dt__text_str(&text)) != 0)
      print_error("%s: expected\n%s\ngot\n%s\n", path, expected ? expected : "(no file)",
                  dt__text_str(&text));
    assert_non_null(expected);
    assert_string_equal(expected, dt__text_str(&text));
    free(expected);
  }
  dt__text_fini(&text);
}

#define MOST_CASES 64

int main(int argc, char **argv) {
  struct CMUnitTest tests[MOST_CASES];
  bool values = argc > 1 && strcmp(argv[1], "values") == 0;
  const case_list_t *cases = values ? &explain_values : &explain_cases;
  update = argc > 2 && strcmp(argv[2], "--update") == 0;
  for (uint32_t k = 0; k < cases->n && k < MOST_CASES; k++)
    tests[k] = (struct CMUnitTest){.name = cases->items[k].name,
                                   .test_func = case_is_as_expected,
                                   .initial_state = (void *)(uintptr_t)&cases->items[k]};
  return _cmocka_run_group_tests("explain", tests, cases->n, NULL, NULL);
}
