// SPDX-License-Identifier: Apache-2.0
// Attention in double, for tests: as slow and as plain as the formula.
#ifndef DT_TESTS_UNIT_FRONTENDS_ATTENTION_REFERENCE_H
#define DT_TESTS_UNIT_FRONTENDS_ATTENTION_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

// Heads h of q use head h / (heads / shared) of k and v.
typedef struct attention_reference_t {
  int64_t batch, heads, shared, length, total, head, value_head;
  const double *q;     // [batch, heads, length, head]
  const double *k, *v; // [batch, shared, total, head and value_head]
  const double *more;  // [batch, heads, length, total], added to scores; -INFINITY: not seen
  double scale;        // 0: 1 / sqrt(head)
  double softcap;      // 0: none
  bool smooth;         // one more in the denominator
} attention_reference_t;

// out: [batch, length, heads * value_head]. A row that sees nothing is 0.
void attention_reference(const attention_reference_t *a, double *out);

#endif // DT_TESTS_UNIT_FRONTENDS_ATTENTION_REFERENCE_H
