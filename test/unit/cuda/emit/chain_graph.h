// SPDX-License-Identifier: Apache-2.0
// Graphs that become chains: attention, and rows that are normalised in front of a product.
#ifndef DT_TESTS_UNIT_CUDA_EMIT_CHAIN_GRAPH_H
#define DT_TESTS_UNIT_CUDA_EMIT_CHAIN_GRAPH_H

#include "runtime/base/text.h"

#include <stdbool.h>

// q[s0, s2, heads * dim], k and v[s0, s1, heads * dim]: batch, keys and queries.
typedef struct attention_case_t {
  const char *dtype;
  int heads, dim;
  bool masked; // mask[s0, 1, 1, s1] is added to scores
  int queries; // in the place of s2; 0: s2
  bool scaled; // scores are multiplied by 1/8 before
  bool chosen; // of scores only those are seen whose place in the mask is above 0
} attention_case_t;
const char *attention_graph(const attention_case_t *c, dt_text_t *out);

typedef enum rows_t {
  ROWS_NORM,           // layer norm
  ROWS_NORM_RESULT,    // the same; the rows are a result too
  ROWS_SOFTMAX,        // softmax
  ROWS_GATHERED_NORM,  // layer norm of rows of a table, by index
  ROWS_GATHERED_RESULT // the same of twice the rows, which are a result too
} rows_t;
// x[s0, width], a product with w[width, columns] (or its transpose), and a bias.
typedef struct rows_case_t {
  const char *dtype;
  rows_t rows;
  int width, columns;
  bool w_turned;
} rows_case_t;
const char *rows_graph(const rows_case_t *c, dt_text_t *out);

#endif // DT_TESTS_UNIT_CUDA_EMIT_CHAIN_GRAPH_H
