// SPDX-License-Identifier: Apache-2.0
// Shared parts of the tracer's tests.
#include "test/unit/trace/trace_test.h"

#include <stdio.h>

static _Alignas(64) char memory[4096]; // what tensors point at; nothing reads it

dt_tensor_t *tensor_of(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides) {
  return tensor_over(dtype, rank, sizes, strides, memory);
}

dt_traced_t *trace_ok(const dt_trace_request_t *request) {
  dt_traced_t *traced = NULL;
  expect_ok(dt__trace_run(request, &traced));
  assert_non_null(traced);
  expect_ok(dt__graph_verify(traced->graph));
  return traced;
}

void trace_fails(const dt_trace_request_t *request, dt_code_t code, const char *const *parts) {
  dt_traced_t *traced = (dt_traced_t *)(void *)memory; // must be nulled
  dt_status_t status = dt__trace_run(request, &traced);
  assert_null(traced);
  expect_parts(status, code, parts);
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
