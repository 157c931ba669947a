// SPDX-License-Identifier: Apache-2.0
// Step 1 of docs/tutorial.md: a program, a function made of it, a call.
#include "ductile/ductile.h"
#include <stdio.h>
#include <stdlib.h>

// Prints a failure and ends the program. A status that is not NULL is the caller's to free.
static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  exit(1);
}

// The program: runs once, on symbolic tensors, and records what it does.
static dt_status_t classify(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_tensor_t *weights = closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_constant(t, "weights", weights));
  out[0] = dt_softmax(t, scores, -1);
  return NULL; // the trace remembers failures
}

int main(void) {
  static float weights_data[4 * 3] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
  static float x_data[2 * 4] = {1, 2, 3, 0, 0, 0, 0, 5};

  // Tensors over the program's own memory, which must stay until the last reference goes.
  dt_tensor_t *weights = NULL, *x = NULL;
  must(dt_tensor_create(&(dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                                            .dtype = DT_F32,
                                            .rank = 2,
                                            .sizes = (int64_t[]){4, 3},
                                            .data = weights_data},
                        &weights));
  must(dt_tensor_create(&(dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                                            .dtype = DT_F32,
                                            .rank = 2,
                                            .sizes = (int64_t[]){2, 4},
                                            .data = x_data},
                        &x));

  // One input of rank 2: any number of rows, 4 columns.
  dt_dim_decl_t dims[] = {{.name = "rows"}, {.value = 4, .is_static = true}};
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = "classify",
                                   .n_inputs = 1,
                                   .inputs = &input,
                                   .input_size = sizeof input,
                                   .dim_size = sizeof dims[0],
                                   .n_outputs = 1};
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_function_create(runtime, classify, weights, &options, &function));
  must(dt_session_create(runtime, NULL, &session));

  // The first call traces and compiles. `y` is NULL, so the call makes the result.
  dt_tensor_t *y = NULL;
  must(dt_call(session, function, &x, 1, &y, 1, NULL));
  const float *p = dt_tensor_data(y);
  for (int row = 0; row < 2; row++)
    printf("row %d: %.3f %.3f %.3f\n", row, (double)p[3 * row], (double)p[3 * row + 1],
           (double)p[3 * row + 2]);

  dt_tensor_release(y), dt_tensor_release(x), dt_tensor_release(weights);
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return 0;
}
