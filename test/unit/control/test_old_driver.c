// SPDX-License-Identifier: Apache-2.0
// Drivers before CUDA 12.8 have no conditional nodes of several bodies: a call with such a branch
// is launched kernel by kernel and says why, one with loops alone is a graph.
#include "test/support/fixture.h"

#include "backend_cuda/place/place.h"
#include "test/unit/control/programs.h"

#include <string.h>

static void branches_are_skipped_with_the_reason(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool skipped;
  } programs[] = {{"choice", true}, {"branch", true}, {"loop", false}};
  for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
    const control_program_t *program = control_program(programs[p].name);
    dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
    dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
    dt_runtime_t *runtime = NULL;
    dt_session_t *session = NULL;
    dt_function_t *f = NULL;
    expect_ok(dt_runtime_create(&options, &runtime));
    expect_ok(dt_session_create(runtime, &on, &session));
    dt_function_options_t of = {.struct_size = sizeof(of),
                                .name = program->name,
                                .n_inputs = 3,
                                .n_outputs = program->n_outputs,
                                .inputs = control_inputs,
                                .call_mode = DT_CALL_REDUCE_OVERHEAD};
    expect_ok(dt_function_create(runtime, program->program, NULL, &of, &f));
    dt_cuda_device_t *device = dt__cuda_session(session)->gpu->device;
    const dt_cuda_t *now = device->cuda;
    dt_cuda_t before = *now;
    before.version = 12070;
    const int64_t sizes[2] = {2, 3}, k = 1;
    const bool flag = false;
    dt_tensor_t *x = tensor_full(2, 2, sizes), *which = NULL;
    expect_ok(dt_tensor_create_empty(DT_BOOL, 0, NULL, &which));
    memcpy(dt_tensor_data(which), &flag, sizeof(flag));
    dt_tensor_t *inputs[3] = {x, tensor_i64(0, NULL, &k), which};
    for (uint32_t call = 0; call < 4; call++) {
      dt_tensor_t *out[CONTROL_OUTPUTS] = {NULL};
      float data[6];
      device->cuda = call < 2 ? &before : now;
      expect_ok(dt_call(session, f, inputs, 3, out, program->n_outputs, NULL));
      expect_ok(dt_tensor_read(session, out[0], data, sizeof(data)));
      assert_true(data[5] == (p == 0 ? 5 : p == 1 ? data[0] : 1));
      for (uint32_t i = 0; i < program->n_outputs; i++)
        dt_tensor_release(out[i]);
      dt_function_counters_t stats = stats_of(f);
      uint64_t skipped = !programs[p].skipped ? 0 : call < 2 ? call + 1 : 2;
      assert_int_equal(stats.graph_skips, skipped);
      assert_int_equal(stats.graph_calls, call + 1 - skipped);
      assert_true(skipped == 0 || strstr(stats.graph_skip, "12.8"));
    }
    device->cuda = now;
    for (uint32_t i = 0; i < 3; i++)
      dt_tensor_release(inputs[i]);
    dt_function_release(f);
    dt_session_destroy(session);
    dt_runtime_release(runtime);
  }
}

RUN_TESTS(TEST(branches_are_skipped_with_the_reason))
