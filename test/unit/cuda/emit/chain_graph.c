// SPDX-License-Identifier: Apache-2.0
// See chain_graph.h.
#include "test/unit/cuda/emit/chain_graph.h"

#include <stdio.h>

#define LIMIT "[0, 140737488355327]"

// Input %id, [s0, `length`, heads * dim], as [s0, heads, length, dim], or with the last two dims
// turned; it becomes %(*next)++ and the one after.
static int put_heads(dt_text_t *out, const attention_case_t *c, int id, const char *length,
                     bool turned, int *next) {
  const char *t = c->dtype;
  dt__text_printf(out, "  %%%d = reshape %%%d {syms = [s0, %s, %d, %d]} : %s[s0, %s, %d, %d]\n",
                  *next, id, length, c->heads, c->dim, t, length, c->heads, c->dim);
  if (turned)
    dt__text_printf(out, "  %%%d = permute %%%d {axes = [0, 2, 3, 1]} : %s[s0, %d, %d, %s]\n",
                    *next + 1, *next, t, c->heads, c->dim, length);
  else
    dt__text_printf(out, "  %%%d = permute %%%d {axes = [0, 2, 1, 3]} : %s[s0, %d, %s, %d]\n",
                    *next + 1, *next, t, c->heads, length, c->dim);
  *next += 2;
  return *next - 1;
}

// A number as a value of the scores' sizes; its id.
static int put_number(dt_text_t *out, const attention_case_t *c, const char *rows,
                      const char *value, int *next) {
  const char *t = c->dtype;
  dt__text_printf(out, "  %%%d = scalar {dtype = %s, value = %s} : %s[]\n", *next, t, value, t);
  dt__text_printf(out, "  %%%d = reshape %%%d {syms = [1, 1, 1, 1]} : %s[1, 1, 1, 1]\n", *next + 1,
                  *next, t);
  dt__text_printf(out, "  %%%d = expand %%%d {syms = [s0, %d, %s, s1]} : %s[s0, %d, %s, s1]\n",
                  *next + 2, *next + 1, c->heads, rows, t, c->heads, rows);
  *next += 3;
  return *next - 1;
}

// What the case says of scores %id, but for the mask that is added; the id of what it makes.
static int put_scores(dt_text_t *out, const attention_case_t *c, const char *rows, int id,
                      int *next) {
  const char *t = c->dtype;
  if (c->scaled) {
    int by = put_number(out, c, rows, "0.125", next);
    dt__text_printf(out, "  %%%d = mul %%%d, %%%d : %s[s0, %d, %s, s1]\n", *next, id, by, t,
                    c->heads, rows);
    id = (*next)++;
  }
  if (c->chosen) {
    int zero = put_number(out, c, rows, "0", next), none = put_number(out, c, rows, "-inf", next);
    int mask = (*next)++, seen = (*next)++;
    dt__text_printf(out, "  %%%d = expand %%4 {syms = [s0, %d, %s, s1]} : %s[s0, %d, %s, s1]\n",
                    mask, c->heads, rows, t, c->heads, rows);
    dt__text_printf(out, "  %%%d = lt %%%d, %%%d : bool[s0, %d, %s, s1]\n", seen, zero, mask,
                    c->heads, rows);
    dt__text_printf(out, "  %%%d = where %%%d, %%%d, %%%d : %s[s0, %d, %s, s1]\n", *next, seen, id,
                    none, t, c->heads, rows);
    id = (*next)++;
  }
  return id;
}

const char *attention_graph(const attention_case_t *c, dt_text_t *out) {
  static const char *const names[] = {"q", "k", "v"};
  char rows[16] = "s2";
  if (c->queries)
    (void)snprintf(rows, sizeof(rows), "%d", c->queries);
  const char *t = c->dtype, *const lengths[] = {rows, "s1", "s1"};
  int wide = c->heads * c->dim, next = 5;
  dt__text_init(out);
  dt__text_printf(out, "graph (s0: " LIMIT ", s1: " LIMIT ", s2: " LIMIT ") {\n");
  for (int i = 0; i < 3; i++)
    dt__text_printf(out, "  %%%d = input \"%s\" %s[s0, %s, %d] strides [%s*%d, %d, 1] contiguous\n",
                    i + 1, names[i], t, lengths[i], wide, lengths[i], wide, wide);
  dt__text_printf(
      out, "  %%4 = input \"mask\" %s[s0, 1, 1, s1] strides [s1, s1, s1, 1] contiguous\n", t);
  int q = put_heads(out, c, 1, rows, false, &next);
  int k = put_heads(out, c, 2, "s1", true, &next);
  int v = put_heads(out, c, 3, "s1", false, &next), scores = next++;
  dt__text_printf(out, "  %%%d = matmul %%%d, %%%d : %s[s0, %d, %s, s1]\n", scores, q, k, t,
                  c->heads, rows);
  scores = put_scores(out, c, rows, scores, &next);
  if (c->masked) {
    dt__text_printf(out, "  %%%d = expand %%4 {syms = [s0, %d, %s, s1]} : %s[s0, %d, %s, s1]\n",
                    next, c->heads, rows, t, c->heads, rows);
    dt__text_printf(out, "  %%%d = add %%%d, %%%d : %s[s0, %d, %s, s1]\n", next + 1, scores, next,
                    t, c->heads, rows);
    scores = next + 1;
    next += 2;
  }
  dt__text_printf(out, "  %%%d = softmax %%%d {axes = [3]} : %s[s0, %d, %s, s1]\n", next, scores, t,
                  c->heads, rows);
  dt__text_printf(out, "  %%%d = matmul %%%d, %%%d : %s[s0, %d, %s, %d]\n", next + 1, next, v, t,
                  c->heads, rows, c->dim);
  dt__text_printf(out, "  return %%%d\n}\n", next + 1);
  return dt__text_str(out);
}

// The rows in front of the product; their id.
static int put_rows(dt_text_t *out, const rows_case_t *c, int *next) {
  const char *t = c->dtype;
  int x = 1;
  if (c->rows == ROWS_SOFTMAX) {
    dt__text_printf(out, "  %%%d = softmax %%1 {axes = [1]} : %s[s0, %d]\n", *next, t, c->width);
    return (*next)++;
  }
  if (c->rows >= ROWS_GATHERED_NORM) {
    x = (*next)++;
    dt__text_printf(out, "  %%%d = gather %%1, %%6 {axes = [0]} : %s[s0, %d]\n", x, t, c->width);
  }
  if (c->rows == ROWS_GATHERED_RESULT) {
    x = (*next)++;
    dt__text_printf(out, "  %%%d = add %%%d, %%%d : %s[s0, %d]\n", x, x - 1, x - 1, t, c->width);
  }
  dt__text_printf(out,
                  "  %%%d = layer_norm %%%d, %%2, %%3 {n_axes = 1, epsilon = 1e-5} : %s[s0, %d]\n",
                  *next, x, t, c->width);
  return (*next)++;
}

const char *rows_graph(const rows_case_t *c, dt_text_t *out) {
  const char *t = c->dtype;
  int k = c->width, n = c->columns, w = 4, next = 7;
  bool table = c->rows >= ROWS_GATHERED_NORM;
  dt__text_init(out);
  dt__text_printf(out, "graph (s0: " LIMIT ", s1: [1, 1000]) {\n");
  dt__text_printf(out, "  %%1 = input \"x\" %s[%s, %d] strides [%d, 1] contiguous\n", t,
                  table ? "s1" : "s0", k, k);
  dt__text_printf(out, "  %%2 = input \"scale\" %s[%d] strides [1] contiguous\n", t, k);
  dt__text_printf(out, "  %%3 = input \"bias\" %s[%d] strides [1] contiguous\n", t, k);
  dt__text_printf(out, "  %%4 = input \"w\" %s[%d, %d] strides [%d, 1] contiguous\n", t,
                  c->w_turned ? n : k, c->w_turned ? k : n, c->w_turned ? k : n);
  dt__text_printf(out, "  %%5 = input \"b\" %s[1, %d] strides [%d, 1] contiguous\n", t, n, n);
  dt__text_printf(out, "  %%6 = input \"ids\" i64[%s] strides [1] contiguous\n",
                  table ? "s0" : "s1");
  if (c->w_turned) {
    w = next++;
    dt__text_printf(out, "  %%%d = permute %%4 {axes = [1, 0]} : %s[%d, %d]\n", w, t, k, n);
  }
  int rows = put_rows(out, c, &next);
  dt__text_printf(out, "  %%%d = matmul %%%d, %%%d : %s[s0, %d]\n", next, rows, w, t, n);
  dt__text_printf(out, "  %%%d = expand %%5 {syms = [s0, %d]} : %s[s0, %d]\n", next + 1, n, t, n);
  dt__text_printf(out, "  %%%d = add %%%d, %%%d : %s[s0, %d]\n", next + 2, next, next + 1, t, n);
  if (c->rows == ROWS_NORM_RESULT)
    dt__text_printf(out, "  return %%%d, %%%d\n}\n", next + 2, rows);
  else if (c->rows == ROWS_GATHERED_RESULT)
    dt__text_printf(out, "  return %%%d, %%%d\n}\n", next + 2, rows - 1);
  else
    dt__text_printf(out, "  return %%%d\n}\n", next + 2);
  return dt__text_str(out);
}
