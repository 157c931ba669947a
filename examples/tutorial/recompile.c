// SPDX-License-Identifier: Apache-2.0
// Step 3 of docs/tutorial.md: why a call needs another variant, and what to do about it.
#include "ductile/ductile.h"
#include <stdio.h>
#include <stdlib.h>

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  exit(1);
}

// The first 64 tokens. A C branch on the length makes a guard: two sides, two variants.
static dt_status_t branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t length = dt_dim(t, in[0], 1), limit = dt_sym_const(t, 64);
  dt_sym_t used = dt_sym_true(t, dt_sym_le(t, length, limit)) ? length : limit;
  out[0] = dt_slice(t, in[0], 1, dt_sym_const(t, 0), used, 1);
  return NULL;
}

// The same without a question: the smaller of two sizes is a size, too.
static dt_status_t expression(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t used = dt_sym_min(t, dt_dim(t, in[0], 1), dt_sym_const(t, 64));
  out[0] = dt_slice(t, in[0], 1, dt_sym_const(t, 0), used, 1);
  return NULL;
}

static dt_tensor_t *tokens(int64_t batch, int64_t length) {
  dt_tensor_t *x = NULL;
  must(dt_tensor_create_empty(DT_I32, 2, (int64_t[]){batch, length}, &x));
  int32_t *data = dt_tensor_data(x);
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    data[k] = (int32_t)k;
  return x;
}

static uint32_t variants(dt_function_t *function) {
  dt_function_stats_t stats = {.struct_size = sizeof stats};
  must(dt_function_stats(function, &stats));
  return stats.variants;
}

// What is known of the function, and what its variants say to `inputs`: one report, here as text.
static void show(dt_function_t *function, dt_tensor_t *const *inputs, uint32_t n, uint32_t parts) {
  dt_report_t *report = NULL;
  char *text = NULL;
  must(dt_function_report(function, inputs, n, &report));
  must(dt_report_text(report, parts, &text));
  printf("%s", text);
  dt_text_free(text);
  dt_report_free(report);
}

static void explain(dt_session_t *session, dt_function_t *function) {
  dt_tensor_t *x = tokens(2, 16), *y = NULL;
  must(dt_call(session, function, &x, 1, &y, 1, NULL)); // the first compile
  dt_tensor_release(x), dt_tensor_release(y);

  // Ask before the call: nothing is traced, compiled or run.
  x = tokens(2, 100);
  show(function, &x, 1, DT_REPORT_CALL);

  // A frozen function compiles nothing: the call is refused with the guard that it missed by.
  y = NULL;
  must(dt_function_freeze(function, true));
  dt_status_t status = dt_call(session, function, &x, 1, &y, 1, NULL);
  printf("frozen: %s\n", dt_code_name(dt_status_code(status)));
  dt_status_free(status);
  must(dt_function_freeze(function, false));

  must(dt_call(session, function, &x, 1, &y, 1, NULL)); // the second
  dt_tensor_release(x), dt_tensor_release(y);
  show(function, NULL, 0, DT_REPORT_COMPILES);
}

int main(void) {
  dt_dim_decl_t dims[] = {{.name = "batch"}, {.name = "length"}};
  dt_input_decl_t input = {.name = "ids", .dtype = DT_I32, .rank = 2, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = "branch",
                                   .n_inputs = 1,
                                   .inputs = &input,
                                   .input_size = sizeof input,
                                   .dim_size = sizeof dims[0],
                                   .n_outputs = 1};
  dt_runtime_t *runtime = NULL;
  dt_function_t *first = NULL, *second = NULL;
  dt_session_t *session = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  must(dt_function_create(runtime, branch, NULL, &options, &first));
  explain(session, first);
  printf("branch: variants: %u\n", variants(first));

  options.name = "expression";
  must(dt_function_create(runtime, expression, NULL, &options, &second));
  // Nothing is asked, so no example is needed: compiled before the first call.
  must(dt_function_prepare(second, NULL));
  for (int64_t length = 16; length <= 256; length *= 2) {
    dt_tensor_t *x = tokens(2, length), *y = NULL;
    must(dt_call(session, second, &x, 1, &y, 1, NULL));
    dt_tensor_release(x), dt_tensor_release(y);
  }
  printf("expression: variants: %u\n", variants(second));

  dt_session_destroy(session);
  dt_function_release(first), dt_function_release(second);
  dt_runtime_release(runtime);
  return 0;
}
