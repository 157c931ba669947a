// SPDX-License-Identifier: Apache-2.0
// A program whose launches vary in number with its sizes: an attention whose scores do not fit the
// second-level cache runs some heads at a time (fuse/slices.c). As a graph it has as many nodes as
// the most launches so far, and empty work where there are fewer.
#include "test/unit/cuda/graphs/graph_oracle.h"

#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"
#include "test/fake_cuda/fake_cuda.h"

enum { HEADS = 3, WIDTH = 4, L2 = 2048 };

static dt_status_t attention(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[1], 2, 3));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 2), in[2]);
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "batch"},
                                     {.is_static = true, .value = HEADS},
                                     {.name = "length"},
                                     {.is_static = true, .value = WIDTH}};
static const dt_input_decl_t inputs[] = {{.name = "q", .dtype = DT_F32, .rank = 4, .dims = dims},
                                         {.name = "k", .dtype = DT_F32, .rank = 4, .dims = dims},
                                         {.name = "v", .dtype = DT_F32, .rank = 4, .dims = dims}};
static const subject_t subject = {"attention", attention, 3, 1, inputs};

static void slices_are_nodes(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{1, 3},  {2, 20}, {1, 3}, {0, 5}, {2, 33}, {2, 20},
                                     {1, 40}, {3, 1},  {2, 0}, {1, 1}, {2, 33}};
  graph_oracle_t own;
  graph_oracle_open(&own, &subject, 11, 2); // the cache counts for each
  dt__cuda_session(own.device)->gpu->device->l2_bytes = L2;
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  uint64_t nodes = 0, grown = 0, fewer = 0, n = sizeof(sizes) / sizeof(sizes[0]);
  for (uint64_t k = 0; k < n; k++) {
    uint64_t builds = stats.builds;
    graph_oracle_compare(&own, 4, (int64_t[]){sizes[k][0], HEADS, sizes[k][1], WIDTH});
    expect_ok(dt_session_counters(own.device, &stats));
    grown += stats.executable_nodes > nodes;
    fewer += stats.builds == builds;
    assert_true(stats.executable_nodes >= nodes);
    nodes = stats.executable_nodes;
  }
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.graph_skips, 0);
  assert_int_equal(stats.builds, grown);
  assert_true(grown >= 2 && fewer >= 4);
  assert_int_equal(stats.executables, 1);
  print_message("%llu kernels at most, assembled %llu times\n", (unsigned long long)nodes,
                (unsigned long long)grown);
  graph_oracle_close(&own);
}

RUN_TESTS(TEST(slices_are_nodes))
