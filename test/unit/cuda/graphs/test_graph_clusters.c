// SPDX-License-Identifier: Apache-2.0
// A product whose sizes choose kernels with clusters of blocks and without: a graph's node that has
// had one with clusters keeps them, so that every grid must be whole ones. Elements are -1, 0 and
// 1, whose sums are exact in halves.
#include "test/unit/cuda/graphs/graph_oracle.h"

#include "ductile/experimental.h"

enum { DEPTH = 1032, PROCESSORS = 5 };

static dt_status_t gram(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t half = dt_cast(t, dt_round(t, in[0]), DT_F16);
  dt_value_t product = dt_cast(t, dt_matmul(t, half, dt_transpose(t, half, 0, 1)), DT_F32);
  dt_value_t sum = dt_sum(t, product, 1, (const int32_t[]){1}, true);
  out[0] = dt_add(t, in[0], dt_mul(t, sum, dt_scalar(t, DT_F32, 0x1p-10)));
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.is_static = true, .value = DEPTH}};
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims}};
static const subject_t subject = {"gram", gram, 1, 1, inputs};

static void grids_are_whole_clusters(void **state) {
  (void)state;
  // A cluster; 4 tiles of 64 x 64; none; 4 of 128 x 128, then some of each again.
  static const int64_t rows[] = {40, 100, 40, 0, 130, 100, 7, 64, 101};
  graph_oracle_t own;
  graph_oracle_open(&own, &subject, 3, PROCESSORS);
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  uint64_t n = sizeof(rows) / sizeof(rows[0]);
  for (uint64_t k = 0; k < n; k++)
    graph_oracle_compare(&own, 2, (int64_t[]){rows[k], DEPTH});
  expect_ok(dt_session_counters(own.device, &stats));
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.executables, 1);
  graph_oracle_close(&own);
}

// Four rows of queries over the rows of x, which eight blocks of a cluster share where they are
// many. The result counts little.
static dt_status_t attend(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t half = dt_cast(t, dt_round(t, in[0]), DT_F16);
  const dt_sym_t four[2] = {dt_sym_const(t, 4), dt_sym_const(t, 1)};
  dt_value_t query = dt_amax(t, half, 1, (const int32_t[]){0}, true);
  query = dt_sub(t, query, dt_cast(t, dt_iota(t, DT_I64, 2, four, 0), DT_F16));
  dt_value_t weights = dt_softmax(t, dt_matmul(t, query, dt_transpose(t, half, 0, 1)), 1);
  dt_value_t result = dt_cast(t, dt_matmul(t, weights, half), DT_F32);
  result = dt_amax(t, result, 1, (const int32_t[]){0}, true);
  out[0] = dt_add(t, in[0], dt_mul(t, result, dt_scalar(t, DT_F32, 0x1p-9)));
  return NULL;
}

static const dt_dim_decl_t narrow[] = {{.name = "rows"}, {.is_static = true, .value = 64}};
static const dt_input_decl_t own[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = narrow}};
static const subject_t attention = {"attend", attend, 1, 1, own};

static void clusters_share_keys(void **state) {
  (void)state;
  static const int64_t rows[] = {600, 40, 1030, 100, 511, 512, 7};
  graph_oracle_t graph;
  graph_oracle_open(&graph, &attention, 5, PROCESSORS);
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  uint64_t n = sizeof(rows) / sizeof(rows[0]);
  for (uint64_t k = 0; k < n; k++)
    graph_oracle_compare(&graph, 2, (int64_t[]){rows[k], 64});
  expect_ok(dt_session_counters(graph.device, &stats));
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.executables, 1);
  graph_oracle_close(&graph);
}

RUN_TESTS(TEST(grids_are_whole_clusters), TEST(clusters_share_keys))
