// SPDX-License-Identifier: Apache-2.0
// Sizes choose versions of rows. Those that ask the same of a multiprocessor are members of one
// entry: a graph sets arguments to change between them, and no function.
#include "test/unit/cuda/graphs/graph_oracle.h"

#include "backend_cuda/exec/session.h"
#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/support/folder.h"

static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, dt_add(t, in[0], in[1]), 1);
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.name = "columns"}};
static const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = dims},
                                         {.name = "b", .dtype = DT_F32, .rank = 2, .dims = dims}};
static const subject_t subject = {"sums", sums, 2, 1, inputs};

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
  graph_oracle_t own;
  graph_oracle_open(&own, &subject, 12, 0);
  uint64_t n = sizeof(sizes) / sizeof(sizes[0]);
  for (uint64_t k = 0; k < n; k++)
    graph_oracle_compare(&own, 2, sizes[k]);
  assert_true(count_members(own.function) >= 1);
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_session_counters(own.device, &stats));
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.builds, 1);
  assert_true(stats.nodes_set > 0);
  assert_int_equal(stats.functions_set, 0);
  assert_int_equal(stats.grids_set, 0);
  assert_true(stats.shared_set <= 1); // from none to what every size gets
  graph_oracle_close(&own);
}

// Tiles are entries of their own.
static dt_status_t products(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  static const int32_t turned[] = {1, 0};
  dt_value_t a = dt_softmax(t, in[0], 1), b = dt_softmax(t, in[1], 1);
  out[0] = dt_matmul(t, dt_matmul(t, a, dt_permute(t, b, turned)), b);
  return NULL;
}

static dt_session_counters_t called(graph_oracle_t *own, int64_t rows, int64_t columns) {
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  graph_oracle_compare(own, 2, (const int64_t[]){rows, columns});
  expect_ok(dt_session_counters(own->device, &stats));
  assert_int_equal(stats.graph_skips, 0);
  assert_int_equal(stats.builds, 1);
  return stats;
}

// Sizes that want other code are launched one by one, in the graph's place and memory; where they
// come again the graph is set for them.
static void other_code_is_launched(void **state) {
  (void)state;
  static const subject_t of_products = {"products", products, 2, 1, inputs};
  graph_oracle_t own;
  graph_oracle_open(&own, &of_products, 12, 0);
  dt_session_counters_t first = called(&own, 4, 8), now = called(&own, 5, 9);
  assert_int_equal(now.direct_calls, 0); // the same code
  first = called(&own, 4, 8);
  now = called(&own, 200, 70);
  assert_int_equal(now.direct_calls, 1);
  assert_int_equal(now.nodes_set, first.nodes_set);
  assert_int_equal(called(&own, 3, 8).direct_calls, 1); // the graph is as it was
  assert_int_equal(called(&own, 200, 70).direct_calls, 2);
  now = called(&own, 200, 70);
  assert_int_equal(now.direct_calls, 2);
  assert_true(now.functions_set > first.functions_set);
  assert_int_equal(called(&own, 201, 70).direct_calls, 2);
  assert_int_equal(called(&own, 4, 8).direct_calls, 3);
  assert_int_equal(called(&own, 0, 8).direct_calls, 3); // no work, no code
  now = called(&own, 130, 90);
  assert_int_equal(now.graph_calls, 11);
  graph_oracle_close(&own);
  variable_set("DUCTILE_GRAPH_CODES", "4");
  graph_oracle_open(&own, &of_products, 12, 0);
  (void)called(&own, 4, 8);
  assert_int_equal(called(&own, 200, 70).direct_calls, 0);
  graph_oracle_close(&own);
  variable_set("DUCTILE_GRAPH_CODES", NULL);
}

RUN_TESTS(TEST(sizes_set_arguments), TEST(other_code_is_launched))
