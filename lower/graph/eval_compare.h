// SPDX-License-Identifier: Apache-2.0
// Compares what an implementation wrote with what the evaluator says, by the error bounds.
#ifndef DT_LOWER_GRAPH_EVAL_COMPARE_H
#define DT_LOWER_GRAPH_EVAL_COMPARE_H

#include "lower/graph/eval.h"

typedef struct dt_eval_tolerance_t {
  double rtol, atol; // allowed besides the bound: atol + rtol * |expected|; floats only
} dt_eval_tolerance_t;

// What a comparison found. Uncertain elements are those with an infinite bound: they are counted,
// not compared, so a test can refuse a case that leaves too little.
typedef struct dt_eval_report_t {
  int64_t compared, uncertain, wrong;
  // The first wrong element; floats as they are, integers and bool in the i fields.
  int64_t index;
  dt_scalar_t expected, got;
  double bound; // what was allowed, beyond one unit in the last place
  double worst; // largest |difference| / allowed of all compared floats
} dt_eval_report_t;

// `got` is contiguous memory of expected->dtype and sizes. Floats lie within the bound (0 when the
// evaluation kept none) and one unit in the last place; NaN meets NaN only, an infinity its like or
// a number that may overflow. Integers and bool are equal. True when nothing is wrong. `tolerance`
// may be NULL.
bool dt__eval_compare(const dt_eval_value_t *expected, const void *got,
                      const dt_eval_tolerance_t *tolerance, dt_eval_report_t *out);
// One line about a report, for tests: "element 3: expected 1.5, got 2 (allowed 1e-7); …".
void dt__eval_report_print(const dt_eval_value_t *expected, const dt_eval_report_t *report,
                           dt_text_t *out);

#endif // DT_LOWER_GRAPH_EVAL_COMPARE_H
