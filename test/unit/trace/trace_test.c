// SPDX-License-Identifier: Apache-2.0
// Shared parts of the tracer's tests.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/trace/trace_test.h"

#include <stdio.h>
#include <string.h>

static _Alignas(64) char memory[4096]; // what tensors point at; nothing reads it

dt_tensor_t *tensor_of(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides) {
  dt_tensor_desc_t desc = {
      .dtype = dtype, .rank = rank, .sizes = sizes, .strides = strides, .data = memory};
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create(&desc, &tensor);
  if (status)
    fail_msg("%s", dt_status_message(status));
  return tensor;
}

dt_traced_t *trace_ok(const dt_trace_request_t *request) {
  dt_traced_t *traced = NULL;
  dt_status_t status = dt__trace_run(request, &traced);
  if (status)
    fail_msg("%s: %s", dt_code_name(dt_status_code(status)), dt_status_message(status));
  assert_non_null(traced);
  status = dt__graph_verify(traced->graph);
  if (status)
    fail_msg("verify: %s", dt_status_message(status));
  return traced;
}

void expect_failure(dt_status_t status, dt_code_t code, const char *const *parts) {
  const char *message = dt_status_message(status);
  if (dt_status_code(status) != code)
    fail_msg("expected %s, got %s: %s", dt_code_name(code), dt_code_name(dt_status_code(status)),
             message);
  for (uint32_t k = 0; parts[k]; k++) {
    if (!strstr(message, parts[k]))
      fail_msg("expected \"%s\" in \"%s\"", parts[k], message);
  }
  dt_status_free(status);
}

void trace_fails(const dt_trace_request_t *request, dt_code_t code, const char *const *parts) {
  dt_traced_t *traced = (dt_traced_t *)(void *)memory; // must be nulled
  dt_status_t status = dt__trace_run(request, &traced);
  assert_null(traced);
  expect_failure(status, code, parts);
}

const char *text_of(const dt_traced_t *traced) {
  static char buffer[16384];
  dt_text_t text;
  dt__text_init(&text);
  dt__graph_print(traced->graph, &text);
  for (uint32_t k = 0; k < traced->conds.len; k++) {
    dt__text_put(&text, "assumed ");
    dt__sym_print(traced->env, traced->conds.items[k].cond, &text);
    dt__text_printf(&text, " (%s)\n", traced->conds.items[k].origin.op);
  }
  (void)snprintf(buffer, sizeof(buffer), "%s", dt__text_str(&text));
  dt__text_fini(&text);
  return buffer;
}

void expect_text(const char *what, const char *actual, const char *expected) {
  if (strcmp(actual, expected) != 0)
    fail_msg("%s: expected\n%s\ngot\n%s", what, expected, actual);
}
