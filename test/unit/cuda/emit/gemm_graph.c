// SPDX-License-Identifier: Apache-2.0
// See gemm_graph.h.
#include "test/unit/cuda/emit/gemm_graph.h"

#define LIMIT "[0, 140737488355327]"

// Operands [s3, s0, s2] and [s3, s2, s1], or their last two dims the other way round in memory.
static void put_operand(dt_text_t *out, const gemm_case_t *c, const char *name, int id,
                        const char *rows, const char *cols, bool turned) {
  const char *first = turned ? cols : rows, *second = turned ? rows : cols;
  if (c->batched)
    dt__text_printf(out, "  %%%d = input \"%s\" %s[s3, %s, %s] strides [%s*%s, %s, 1]\n", id, name,
                    c->dtype, first, second, first, second, second);
  else
    dt__text_printf(out, "  %%%d = input \"%s\" %s[%s, %s] strides [%s, 1]\n", id, name, c->dtype,
                    first, second, second);
}

const char *gemm_graph(const gemm_case_t *c, dt_text_t *out) {
  const char *batch = c->batched ? "s3, " : "", *t = c->dtype;
  dt__text_init(out);
  dt__text_printf(out, "graph (s0: " LIMIT ", s1: " LIMIT ", s2: " LIMIT ", s3: " LIMIT ") {\n");
  put_operand(out, c, "a", 1, "s0", "s2", c->a_turned);
  put_operand(out, c, "b", 2, "s2", "s1", c->b_turned);
  dt__text_printf(out, "  %%3 = input \"bias\" %s[s1] strides [1]\n", t);
  dt__text_printf(out, "  %%4 = input \"r\" %s[s0, s1] strides [s1, 1]\n", t);
  const char *dims = c->batched ? "[0, 2, 1]" : "[1, 0]";
  int a = 1, b = 2, id = 5;
  if (c->a_turned) {
    dt__text_printf(out, "  %%%d = permute %%1 {axes = %s} : %s[%ss0, s2]\n", id, dims, t, batch);
    a = id++;
  }
  if (c->b_turned) {
    dt__text_printf(out, "  %%%d = permute %%2 {axes = %s} : %s[%ss2, s1]\n", id, dims, t, batch);
    b = id++;
  }
  int y = id++, product = y;
  dt__text_printf(out, "  %%%d = matmul %%%d, %%%d : %s[%ss0, s1]\n", y, a, b, t, batch);
  if (c->follow == GEMM_BIAS_GELU) {
    dt__text_printf(out, "  %%%d = reshape %%3 {syms = [1, s1]} : %s[1, s1]\n", id, t);
    dt__text_printf(out, "  %%%d = expand %%%d {syms = [s0, s1]} : %s[s0, s1]\n", id + 1, id, t);
    dt__text_printf(out, "  %%%d = add %%%d, %%%d : %s[s0, s1]\n", id + 2, y, id + 1, t);
    dt__text_printf(out, "  %%%d = gelu %%%d : %s[s0, s1]\n", id + 3, id + 2, t);
    y = id + 3;
  } else if (c->follow != GEMM_NOTHING) {
    dt__text_printf(out, "  %%%d = add %%%d, %%4 : %s[s0, s1]\n", id, y, t);
    y = id;
  }
  dt__text_printf(out,
                  c->follow == GEMM_TWO_RESULTS ? "  return %%%d, %%%d\n}\n" : "  return %%%d\n}\n",
                  y, product);
  return dt__text_str(out);
}
