// SPDX-License-Identifier: Apache-2.0
// Sizes choose versions of rows. Those that ask the same of a multiprocessor are members of one
// entry: a graph sets arguments to change between them, and no function.
#include "tests/unit/exec/exec_test.h"

#include "backend_cuda/exec/session.h"
#include "runtime/exec/session_device.h"
#include "tests/fake_cuda/fake_cuda.h"

static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, dt_add(t, in[0], in[1]), 1);
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.name = "columns"}};
static const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = dims},
                                         {.name = "b", .dtype = DT_F32, .rank = 2, .dims = dims}};
static const subject_t subject = {"sums", sums, 2, 1, inputs};

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  dt_function_t *function, *oracle;
  rng_t rng;
} place_t;

static void compare(place_t *place, int64_t rows, int64_t columns) {
  static const dt_call_options_t as_graph = {.mode = DT_CALL_REDUCE_OVERHEAD};
  const int64_t sizes[] = {rows, columns};
  dt_tensor_t *host[2], *there[2] = {NULL}, *got = NULL, *want = NULL, *back = NULL;
  for (uint32_t k = 0; k < 2; k++) {
    host[k] = tensor_f32(&place->rng, 2, sizes);
    expect_ok(dt_tensor_create_on(place->device, DT_F32, 2, sizes, &there[k]));
    expect_ok(dt_tensor_copy(place->device, host[k], there[k]));
  }
  expect_ok(dt_call_with(place->device, place->function, there, 2, &got, 1, &as_graph));
  expect_ok(dt_call(place->host, place->oracle, host, 2, &want, 1));
  expect_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &back));
  expect_ok(dt_tensor_copy(place->device, got, back));
  expect_close(back, want, 1e-5, 1e-4, "sums");
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_release(host[k]);
    dt_tensor_release(there[k]);
  }
  dt_tensor_release(got);
  dt_tensor_release(want);
  dt_tensor_release(back);
}

// Codes that another's entry has.
static uint32_t count_members(const dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load(&((dt_function_t *)(uintptr_t)function)->list);
  const dt_compiled_t *compiled = list->items[0]->compiled;
  uint32_t n = 0;
  for (uint32_t k = 0; k < compiled->n_kernels; k++) {
    const dt_cuda_kernel_t *kernel = dt__cuda_kernel_of(compiled->kernels[k]);
    const dt_cuda_kernel_t *first = dt__cuda_kernel_of(compiled->kernels[k - kernel->info.behind]);
    assert_ptr_equal(kernel->function, first->function);
    assert_int_equal(kernel->info.threads, first->info.threads);
    assert_true(kernel->fit >= 1);
    n += kernel->info.behind > 0;
  }
  return n;
}

static void sizes_set_arguments(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{70, 200}, {3, 9},  {16, 60}, {17, 61},
                                     {33, 129}, {1, 1},  {5, 200}, {40, 40},
                                     {64, 130}, {2, 70}, {0, 5},   {70, 200}};
  place_t place = {.rng = {12}};
  fake_cuda_reset(12);
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  expect_ok(dt_runtime_create(&options, &place.runtime));
  expect_ok(dt_session_create(place.runtime, &place.host));
  expect_ok(dt_session_create_on(place.runtime, &on, &place.device));
  place.function = subject_function(place.runtime, &subject, NULL, DT_ANSWER_COMPILED);
  place.oracle = subject_function(place.runtime, &subject, NULL, DT_ANSWER_EVALUATOR);
  uint64_t n = sizeof(sizes) / sizeof(sizes[0]);
  for (uint64_t k = 0; k < n; k++)
    compare(&place, sizes[k][0], sizes[k][1]);
  assert_true(count_members(place.function) >= 1);
  dt_session_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_session_stats(place.device, &stats));
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.builds, 1);
  assert_true(stats.nodes_set > 0);
  assert_int_equal(stats.functions_set, 0);
  assert_int_equal(stats.grids_set, 0);
  assert_true(stats.shared_set <= 1); // from none to what every size gets
  dt_function_release(place.function);
  dt_function_release(place.oracle);
  dt_session_destroy(place.device);
  dt_session_destroy(place.host);
  dt_runtime_release(place.runtime);
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_set_arguments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
