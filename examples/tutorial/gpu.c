// SPDX-License-Identifier: Apache-2.0
// Step 4 of docs/tutorial.md: a session on a GPU, and calls as graphs.
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

static dt_status_t norm(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scale =
      dt_add(t, dt_amax(t, dt_abs(t, in[0]), 1, (int32_t[]){-1}, true), dt_scalar(t, DT_F32, 1));
  out[0] = dt_div(t, in[0], scale);
  return NULL;
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  must(dt_runtime_create(NULL, &runtime));
  int32_t devices = 0;
  dt_status_t status = dt_device_count(runtime, DT_CUDA, &devices);
  dt_status_free(status); // no driver is no failure here
  if (devices == 0) {
    printf("SKIP: there is no CUDA device\n");
    dt_runtime_release(runtime);
    return 77;
  }

  dt_dim_decl_t dims[] = {{.name = "batch"}, {.value = 4, .is_static = true}};
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = "norm",
                                   .n_inputs = 1,
                                   .inputs = &input,
                                   .input_size = sizeof input,
                                   .dim_size = sizeof dims[0],
                                   .n_outputs = 1,
                                   .call_mode = DT_CALL_REDUCE_OVERHEAD};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  must(dt_function_create(runtime, norm, NULL, &options, &function));
  dt_session_options_t on = {.struct_size = sizeof on, .device = DT_CUDA};
  must(dt_session_create(runtime, &on, &session));
  dt_prepare_options_t for_gpu = {.struct_size = sizeof for_gpu, .device = DT_CUDA};
  must(dt_function_prepare(function, &for_gpu));

  dt_tensor_t *y = NULL, *kept = NULL;
  float all[4 * 4];
  for (int64_t batch = 1; batch <= 4; batch++) {
    // Results of the generation before this end here.
    must(dt_step_begin(session));
    dt_tensor_release(y);
    y = NULL;
    // Inputs on the host are copied by the call.
    dt_tensor_t *x = NULL;
    must(dt_tensor_create_empty(DT_F32, 2, (int64_t[]){batch, 4}, &x));
    for (int64_t k = 0; k < dt_tensor_count(x); k++)
      ((float *)dt_tensor_data(x))[k] = (float)(k % 4);
    must(dt_call(session, function, &x, 1, &y, 1, NULL)); // queued: returns before it has run
    dt_tensor_release(x);
    must(dt_tensor_read(session, y, all, (size_t)batch * 4 * sizeof *all)); // waits
    printf("batch %d: last row %.2f %.2f %.2f %.2f\n", (int)batch, (double)all[4 * batch - 4],
           (double)all[4 * batch - 3], (double)all[4 * batch - 2], (double)all[4 * batch - 1]);
  }
  // To have a result for longer than its generation: a copy.
  must(dt_tensor_keep(session, y, &kept));
  must(dt_step_begin(session));
  status = dt_tensor_read(session, y, all, sizeof all);
  printf("y after its generation: %s\n", dt_code_name(dt_status_code(status)));
  dt_status_free(status);
  must(dt_tensor_read(session, kept, all, sizeof all));
  printf("kept: %.2f\n", (double)all[3]);

  dt_session_stats_t stats = {.struct_size = sizeof stats};
  must(dt_session_stats(session, &stats));
  printf("calls as graphs: %d, graphs assembled: %d\n", (int)stats.graph_calls, (int)stats.builds);

  dt_tensor_release(y), dt_tensor_release(kept);
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return 0;
}
