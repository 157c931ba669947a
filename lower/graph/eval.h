// SPDX-License-Identifier: Apache-2.0
// The reference evaluator: the oracle of every test. Floats in float64 (never rounded in between),
// integers exactly, each op directly from its definition. Slow on purpose.
#ifndef DT_LOWER_GRAPH_EVAL_H
#define DT_LOWER_GRAPH_EVAL_H

#include "lower/graph/graph.h"
#include "lower/graph/scalar.h"

// A dense row-major value: floats as doubles, integers and bool as int64.
typedef struct dt_eval_value_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  int64_t count;
  dt_scalar_t *data; // count elements, owned by the evaluation's arena
  // When asked for, else NULL: the error bound of each element. Integers and bool have 0, or
  // INFINITY where a rounding somewhere before may change them; floats where it may change them
  // without limit.
  double *bound;
} dt_eval_value_t;

// The size of its last dim, as dt__element_store wants it.
static inline int64_t dt__eval_row(const dt_eval_value_t *value) {
  return value->rank ? value->sizes[value->rank - 1] : 1;
}

typedef struct dt_eval_options_t {
  bool error_bounds;            // propagate |error| bounds for code that rounds to the node's dtype
  int64_t max_trips;            // of one `while`, which then ends with DT_E_LIMIT; 0: 2^20
  struct dt_control_t *control; // what ends it between two nodes; or NULL
} dt_eval_options_t;

// A strided argument in memory: what dt_tensor_t is made of, without depending on it.
typedef struct dt_eval_arg_t {
  const void *data;
  const int64_t *sizes, *strides; // rank of the graph's input; elements
} dt_eval_arg_t;

// Evaluates the graph for symbol values `symbols` (indexed by symbol; those that items bind are not
// read) and arguments in input order.
// `out` has one value per graph output, allocated in `arena`. DT_E_RANGE for an index outside its
// table, the assert's code for one that fails, for an argument of other sizes than the graph's
// input and for symbol values that break a guard, DT_E_LIMIT over 2^31 elements of all values
// together. Only nodes that outputs need are evaluated.
dt_status_t dt__graph_eval(const dt_graph_t *graph, const int64_t *symbols,
                           const dt_eval_arg_t *args, const dt_eval_options_t *options,
                           dt_arena_t *arena, dt_eval_value_t *out) DT_MUST_USE;

#endif // DT_LOWER_GRAPH_EVAL_H
