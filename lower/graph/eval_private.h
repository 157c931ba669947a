// SPDX-License-Identifier: Apache-2.0
// What the evaluator's files share: values with error bounds, sums, walks over strided dims, rows,
// and the functions that ops.def names in its eval column.
//
// A bound says how far the value of an implementation may lie from ours when it rounds the result
// of every op to the node's dtype (u = 2^-24 or 2^-53), elementary functions within a few u. It is
// made along with the value, from the bounds of the operands. Results in halves are bounded as f32
// results, u = 2^-24, and then rounded, values and bounds: mostly to a bound of 0.
#ifndef DT_LOWER_GRAPH_EVAL_PRIVATE_H
#define DT_LOWER_GRAPH_EVAL_PRIVATE_H

#include "lower/graph/eval.h"
#include "lower/graph/scalar.h"

typedef struct dt_eval_t {
  const dt_graph_t *graph;
  int64_t *symbols;    // by symbol; items bind theirs
  uint32_t *waits_for; // by assert: the newest symbol from data in it
  const dt_eval_arg_t *args;
  bool bounds;
  dt_arena_t *arena;
  dt_eval_value_t *values;      // by node id - 1
  int64_t *left;                // elements that all values together may still have
  int64_t max_trips;            // of one `while`
  struct dt_control_t *control; // or NULL
  // Of a body: its inputs, in place of args. Of any graph: what its controls gave, by control.
  const dt_eval_value_t *operands;
  dt_eval_value_t **results;
  dt_eval_value_t **externals; // what calls of users' ops gave, by call
} dt_eval_t;

static inline const dt_eval_value_t *dt__eval_in(const dt_eval_t *e, const dt_node_t *node,
                                                 uint32_t k) {
  return &e->values[node->inputs[k].id - 1];
}
// Evaluates a body of `outer`'s graph on `operands`; `out` has one value per output, in `arena`.
dt_status_t dt__eval_body(const dt_eval_t *outer, const dt_graph_t *body,
                          const dt_eval_value_t *operands, dt_arena_t *arena,
                          dt_eval_value_t *out) DT_MUST_USE;
// The value of an expression; DT_E_SHAPE where it has none.
dt_status_t dt__eval_sym(const dt_eval_t *e, dt_sym_t sym, int64_t *out) DT_MUST_USE;
// Sizes do not fit each other, which the guards of building exclude.
dt_status_t dt__eval_misfit(const dt_node_t *node, const char *what) DT_MUST_USE;

// ---- A value with its bound ---------------------------------------------------------------------
typedef struct dt_approx_t {
  dt_scalar_t v;
  double b;
} dt_approx_t;

static inline dt_approx_t dt__eval_at(const dt_eval_value_t *value, int64_t at) {
  return (dt_approx_t){value->data[at], value->bound ? value->bound[at] : 0.0};
}
static inline void dt__eval_put(dt_eval_value_t *value, int64_t at, dt_approx_t x) {
  value->data[at] = x.v;
  if (value->bound)
    value->bound[at] = x.b;
}
static inline dt_approx_t dt__approx_real(double f) {
  return (dt_approx_t){.v = {.f = f}, .b = 0.0};
}
// A scalar op on operands of `dtype`, as dt__scalar_eval, with the bound of its result.
dt_approx_t dt__approx_scalar(dt_scalar_op_t op, dt_dtype_t dtype, const dt_approx_t *args);
// A result of an op on halves, which is made in f32, as it is stored: rounded. Other dtypes keep
// what they have.
dt_approx_t dt__approx_stored(dt_dtype_t dtype, dt_approx_t x);
dt_approx_t dt__approx_cast(dt_dtype_t from, dt_dtype_t to, dt_approx_t x);
// To a low-bit float; `how`: DT_CAST_* joined.
dt_approx_t dt__approx_cast_low(dt_dtype_t from, dt_dtype_t to, uint32_t how, dt_approx_t x);
static inline dt_approx_t dt__approx_1(dt_scalar_op_t op, dt_dtype_t dtype, dt_approx_t a) {
  return dt__approx_scalar(op, dtype, &a);
}
static inline dt_approx_t dt__approx_2(dt_scalar_op_t op, dt_dtype_t dtype, dt_approx_t a,
                                       dt_approx_t b) {
  const dt_approx_t args[2] = {a, b};
  return dt__approx_scalar(op, dtype, args);
}
// `value` with propagated error `spread`, rounded with `roundings` u and an absolute error `tiny`.
dt_approx_t dt__approx_rounded(dt_dtype_t dtype, double value, double spread, double roundings,
                               double tiny);
// x with `roundings` u more.
dt_approx_t dt__approx_slack(dt_dtype_t dtype, dt_approx_t x, double roundings);
// The u that a quotient by a count of `n` may be off when it is a product with a rounded 1 / n.
static inline double dt__approx_mean_slack(dt_approx_t mean, int64_t n) {
  return mean.b == 0.0 && (n & (n - 1)) == 0 ? 0.0 : 2.0;
}
double dt__approx_normal(dt_dtype_t dtype); // smallest normal number
double dt__approx_unit(dt_dtype_t dtype);   // u
// Sums and products of `dtype` up to here are exact when all terms are integers.
double dt__approx_integers(dt_dtype_t dtype);

// A float sum of any order: the value compensated, the bound for plain additions.
typedef struct dt_sum_t {
  double sum, rest;
  double magnitude; // of the finite terms
  double bound;
  int64_t n;
  bool whole; // all terms are exact integers
} dt_sum_t;
static inline dt_sum_t dt__sum_zero(void) { return (dt_sum_t){.whole = true}; }
void dt__sum_add(dt_sum_t *sum, double value, double bound);
// `per_term`: roundings each term had before it was added.
dt_approx_t dt__sum_total(const dt_sum_t *sum, dt_dtype_t dtype, double per_term);

// ---- Walks --------------------------------------------------------------------------------------
// Visits indices of `sizes` in row-major order, with the offset that `strides` give them.
typedef struct dt_walk_t {
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK], index[DT_MAX_RANK];
  int64_t offset;
} dt_walk_t;
// At index 0; there must be one.
dt_walk_t dt__walk_begin(uint32_t rank, const int64_t *sizes, const int64_t *strides);
void dt__walk_next(dt_walk_t *walk);
void dt__eval_strides(const dt_eval_value_t *value, int64_t *strides); // contiguous ones

// Calls `fn` for each row: the elements that differ only in the dims of `folded` (a bit a dim).
typedef struct dt_row_t {
  const dt_eval_t *e;
  const dt_node_t *node;
  dt_eval_value_t *out;
  int64_t index;     // of the row, row-major over the other dims
  int64_t n;         // elements
  dt_approx_t *x;    // their values; a row function may overwrite them
  const int64_t *at; // their places in the input
} dt_row_t;
typedef void (*dt_row_fn_t)(const dt_row_t *row);
dt_status_t dt__eval_rows(const dt_eval_t *e, const dt_node_t *node, uint32_t folded,
                          dt_eval_value_t *out, dt_row_fn_t fn) DT_MUST_USE;
// attrs.axes as bits.
uint32_t dt__eval_axes(const dt_node_t *node);

// ---- The eval column ----------------------------------------------------------------------------
// `out` has dtype, sizes and room; the function fills it.
typedef dt_status_t (*dt_eval_fn_t)(const dt_eval_t *e, const dt_node_t *node,
                                    dt_eval_value_t *out);
// Rows that share a function declare it again, which C allows.
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  dt_status_t dt__eval_##eval(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out)     \
      DT_MUST_USE;
#include "lower/graph/ops.def"

#endif // DT_LOWER_GRAPH_EVAL_PRIVATE_H
