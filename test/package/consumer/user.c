// SPDX-License-Identifier: Apache-2.0
// A user's program, in what C11 and C++17 have in common. usage: user [compile|evaluate]
// Prints the library's version and the sum of 2 * x + 1 over four sizes of x, one function for all.
#include "ductile/ductile.h"

#include <stdio.h>
#include <string.h>

static dt_status_t line(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_add(t, in[0], in[0]), dt_scalar(t, DT_F32, 1));
  return NULL;
}

static dt_status_t call(dt_session_t *session, dt_function_t *function, int64_t n, double *sum) {
  dt_tensor_t *x = NULL, *y = NULL;
  dt_status_t status = dt_tensor_create_empty(DT_F32, 1, &n, &x);
  for (int64_t k = 0; !status && k < n; k++)
    ((float *)dt_tensor_data(x))[k] = (float)k;
  if (!status)
    status = dt_call(session, function, &x, 1, &y, 1, NULL);
  for (int64_t k = 0; !status && k < n; k++)
    *sum += ((const float *)dt_tensor_data(y))[k];
  dt_tensor_release(x);
  dt_tensor_release(y);
  return status;
}

int main(int argc, char **argv) {
  dt_dim_decl_t dim;
  dt_input_decl_t input;
  dt_function_options_t options;
  memset(&dim, 0, sizeof(dim));
  memset(&input, 0, sizeof(input));
  memset(&options, 0, sizeof(options));
  dim.name = "n";
  input.name = "x";
  input.dtype = DT_F32;
  input.rank = 1;
  input.dims = &dim;
  options.struct_size = sizeof(options);
  options.name = "line";
  options.n_inputs = options.n_outputs = 1;
  options.inputs = &input;
  options.input_size = sizeof(input);
  options.dim_size = sizeof(dim);
  bool evaluate = argc > 1 && strcmp(argv[1], "evaluate") == 0;
  options.answer = evaluate ? DT_ANSWER_EVALUATOR : DT_ANSWER_COMPILED;

  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  double sum = 0;
  dt_status_t status = dt_runtime_create(NULL, &runtime);
  if (!status)
    status = dt_function_create(runtime, line, NULL, &options, &function);
  if (!status)
    status = dt_session_create(runtime, NULL, &session);
  const int64_t sizes[] = {0, 1, 3, 1000};
  for (int k = 0; !status && k < 4; k++)
    status = call(session, function, sizes[k], &sum);
  if (status)
    printf("failed: %s\n", dt_status_message(status));
  else
    printf("%s %.0f\n", dt_version(), sum);
  int failed = status != NULL;
  dt_status_free(status);
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return failed;
}
