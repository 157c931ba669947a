// SPDX-License-Identifier: Apache-2.0
// What operators of attention have in common. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_ATTENTION_H
#define DT_FRONTENDS_ONNX_IMPORT_ATTENTION_H

#include "frontends/onnx/import/nn.h"

#define DT_IMP_MOST_KEEPS 4

// Which scores attn_output 3 and the like show.
typedef enum dt_imp_scores_t {
  DT_IMP_SCORES_SCALED = 0,
  DT_IMP_SCORES_CAPPED = 1,
  DT_IMP_SCORES_BIASED = 2, // with bias and masks
  DT_IMP_SCORES_SOFTMAX = 3,
} dt_imp_scores_t;

// softmax(cap(q · kᵀ · scale) + bias, where keeps are true) · v. What is none (id 0) is left out.
typedef struct dt_imp_attention_t {
  dt_value_t q;    // [batch, heads, length, head]
  dt_value_t k, v; // [batch, heads of its own, total, head]: each serves as many heads of q
  dt_value_t bias; // broadcasts to [batch, heads, length, total], as keeps do
  dt_value_t keep[DT_IMP_MOST_KEEPS]; // bool
  uint32_t n_keep;
  double masked;      // a score that no softmax sees
  double scale;       // 0: 1 / sqrt(head)
  double softcap;     // 0: none
  dt_dtype_t softmax; // DT_DTYPE_NONE: q's
  bool smooth;        // one more in the denominator
  bool wants_scores;
  dt_imp_scores_t show;
} dt_imp_attention_t;

// [batch, heads, length, head of v]; *out_scores: [batch, heads, length, total].
dt_value_t dt__imp_attend(dt_imp_node_t *n, const dt_imp_attention_t *a, dt_value_t *out_scores);
void dt__imp_keep(dt_imp_node_t *n, dt_imp_attention_t *a, dt_value_t keep);
// Whether the place of a key, 0 … total - 1, is at most that of the query, first … first + length -
// 1: [length, total].
dt_value_t dt__imp_causal(dt_imp_node_t *n, dt_sym_t length, dt_sym_t total, dt_sym_t first);
// [batch, length, heads * head] → [batch, heads, length, head], and back.
dt_value_t dt__imp_split_heads(dt_imp_node_t *n, dt_value_t x, int64_t heads);
dt_value_t dt__imp_join_heads(dt_imp_node_t *n, dt_value_t x);
// Turns pairs of the first 2 * (cos's last size) elements of x's last dim by angles; `cos` and
// `sin` broadcast to x but for the last dim.
dt_value_t dt__imp_rotate(dt_imp_node_t *n, dt_value_t x, dt_value_t cos, dt_value_t sin,
                          bool interleaved);

#endif // DT_FRONTENDS_ONNX_IMPORT_ATTENTION_H
