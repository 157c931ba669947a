// SPDX-License-Identifier: Apache-2.0
// A subject of f32 inputs of one size each, called as a graph in the fake driver and by the
// evaluator.
#ifndef DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_ORACLE_H
#define DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_ORACLE_H

#include "test/support/subjects.h"

typedef struct graph_oracle_t {
  const subject_t *subject;
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  dt_function_t *function, *oracle;
  rng_t rng;
} graph_oracle_t;

// The fake driver is reset before, with so many processors (0: as it has), and checked for
// violations and leaks after.
void graph_oracle_open(graph_oracle_t *own, const subject_t *subject, uint64_t seed,
                       int processors);
void graph_oracle_close(graph_oracle_t *own);
// One call as a graph, one by the evaluator: all inputs, and the one result, have these sizes.
void graph_oracle_compare(graph_oracle_t *own, uint32_t rank, const int64_t *sizes);

#endif // DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_ORACLE_H
