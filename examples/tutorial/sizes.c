// SPDX-License-Identifier: Apache-2.0
// Step 2 of docs/tutorial.md: dynamic dims, what a program asks of them, guards.
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

// The mean over each pair of neighbouring tokens.
static dt_status_t pairs(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t x = in[0]; // [batch, length, 8]
  dt_sym_t two = dt_sym_const(t, 2), batch = dt_dim(t, x, 0), length = dt_dim(t, x, 1);
  dt_check(t, dt_sym_eq(t, dt_sym_mod(t, length, two), dt_sym_const(t, 0)), "length must be even");
  dt_sym_t sizes[4] = {batch, dt_sym_floordiv(t, length, two), two, dt_dim(t, x, 2)};
  dt_value_t mean = dt_mean(t, dt_reshape(t, x, 4, sizes), 1, (int32_t[]){2}, false);
  // A C branch on a size: the sizes of the call being traced decide, and a guard holds them to it.
  if (dt_sym_true(t, dt_sym_le(t, length, dt_sym_const(t, 64))))
    mean = dt_softmax(t, mean, 1);
  out[0] = mean;
  return NULL;
}

static dt_tensor_t *ones(int64_t batch, int64_t length) {
  dt_tensor_t *x = NULL;
  must(dt_tensor_create_empty(DT_F32, 3, (int64_t[]){batch, length, 8}, &x));
  float *data = dt_tensor_data(x);
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    data[k] = 1;
  return x;
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

// Calls with one size; says how many variants there are then, or why the call was refused.
static void call(dt_session_t *session, dt_function_t *function, int64_t batch, int64_t length) {
  dt_tensor_t *x = ones(batch, length), *y = NULL;
  dt_status_t status = dt_call(session, function, &x, 1, &y, 1, NULL);
  if (status) {
    printf("%d x %d: %s\n", (int)batch, (int)length, dt_status_message(status));
  } else {
    dt_function_stats_t stats = {.struct_size = sizeof stats};
    must(dt_function_stats(function, &stats));
    printf("%d x %d: y is %d x %d, variants: %u\n", (int)batch, (int)length,
           (int)dt_tensor_sizes(y)[0], (int)dt_tensor_sizes(y)[1], stats.variants);
  }
  dt_status_free(status);
  dt_tensor_release(x), dt_tensor_release(y);
}

int main(void) {
  // What is said of a dim is checked at each call, and known to the compiler.
  dt_dim_decl_t dims[] = {{.name = "batch", .max = 32},
                          {.name = "length", .min = 2, .max = 512},
                          {.value = 8, .is_static = true}};
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 3, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = "pairs",
                                   .n_inputs = 1,
                                   .inputs = &input,
                                   .input_size = sizeof input,
                                   .dim_size = sizeof dims[0],
                                   .n_outputs = 1};
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_function_create(runtime, pairs, NULL, &options, &function));
  must(dt_session_create(runtime, NULL, &session));

  call(session, function, 3, 16); // compiles
  call(session, function, 1, 2);  // the same variant: 1 is an ordinary size
  call(session, function, 0, 40); // and 0
  call(session, function, 3, 7);  // dt_check
  call(session, function, 40, 8); // beyond what is declared

  show(function, NULL, 0, DT_REPORT_VARIANTS);

  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return 0;
}
