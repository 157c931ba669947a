// SPDX-License-Identifier: Apache-2.0
#include "test/unit/growth/growth.h"

// ---- Work -----------------------------------------------------------------------------------------
uint64_t blocks_run;
void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { blocks_run++; }

// ---- Graphs ---------------------------------------------------------------------------------------

uint32_t put_layers(dt_text_t *out, uint32_t layers) {
  uint32_t at = 1, x = 1;
  dt__text_put(out, "graph (s0: [0, 1000000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0, 32] strides [32, 1] contiguous\n");
  for (uint32_t k = 0; k < layers; k++) {
    uint32_t c = at;
    dt__text_printf(out, "%%%u = constant \"w%u\" f32[32, 32] key %u\n", c + 1, k, 4 * k + 1);
    for (uint32_t i = 2; i <= 4; i++)
      dt__text_printf(out, "%%%u = constant \"%c%u\" f32[32] key %u\n", c + i, "bcd"[i - 2], k,
                      4 * k + i);
    dt__text_printf(out, "%%%u = matmul %%%u, %%%u : f32[s0, 32]\n", c + 5, x, c + 1);
    dt__text_printf(out, "%%%u = reshape %%%u {syms = [1, 32]} : f32[1, 32]\n", c + 6, c + 2);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [s0, 32]} : f32[s0, 32]\n", c + 7, c + 6);
    dt__text_printf(out, "%%%u = add %%%u, %%%u : f32[s0, 32]\n", c + 8, c + 5, c + 7);
    dt__text_printf(out,
                    "%%%u = layer_norm %%%u, %%%u, %%%u {n_axes = 1, epsilon = 1e-05} : "
                    "f32[s0, 32]\n",
                    c + 9, c + 8, c + 3, c + 4);
    dt__text_printf(out, "%%%u = softmax %%%u {axes = [1]} : f32[s0, 32]\n", c + 10, c + 9);
    dt__text_printf(out, "%%%u = permute %%%u {axes = [1, 0]} : f32[32, s0]\n", c + 11, c + 10);
    dt__text_printf(out, "%%%u = amax %%%u {axes = [1], keepdims = 0} : f32[32]\n", c + 12, c + 11);
    dt__text_printf(out, "%%%u = reshape %%%u {syms = [1, 32]} : f32[1, 32]\n", c + 13, c + 12);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [s0, 32]} : f32[s0, 32]\n", c + 14, c + 13);
    dt__text_printf(out, "%%%u = add %%%u, %%%u : f32[s0, 32]\n", c + 15, c + 8, c + 14);
    x = at = c + 15;
  }
  dt__text_printf(out, "return %%%u\n}\n", x);
  return 7 * layers;
}

uint32_t put_attention(dt_text_t *out, uint32_t layers) {
  uint32_t at = 2, x = 1;
  dt__text_put(out, "graph (s0: [1, 1000] \"b\", s1: [1, 1000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0, 4, s1, 16] strides [64*s1, 16*s1, 16, 1] contiguous\n"
                    "%2 = input \"mask\" f32[s0, 4, s1, s1] strides [4*s1*s1, s1*s1, s1, 1] "
                    "contiguous\n");
  for (uint32_t k = 0; k < layers; k++) {
    uint32_t c = at;
    dt__text_printf(out, "%%%u = permute %%%u {axes = [0, 1, 3, 2]} : f32[s0, 4, 16, s1]\n", c + 1,
                    x);
    dt__text_printf(out, "%%%u = matmul %%%u, %%%u : f32[s0, 4, s1, s1]\n", c + 2, x, c + 1);
    dt__text_printf(out, "%%%u = add %%%u, %%2 : f32[s0, 4, s1, s1]\n", c + 3, c + 2);
    dt__text_printf(out, "%%%u = softmax %%%u {axes = [3]} : f32[s0, 4, s1, s1]\n", c + 4, c + 3);
    dt__text_printf(out, "%%%u = matmul %%%u, %%%u : f32[s0, 4, s1, 16]\n", c + 5, c + 4, x);
    dt__text_printf(out, "%%%u = tanh %%%u : f32[s0, 4, s1, 16]\n", c + 6, c + 5);
    dt__text_printf(out, "%%%u = add %%%u, %%%u : f32[s0, 4, s1, 16]\n", c + 7, c + 6, x);
    x = at = c + 7;
  }
  dt__text_printf(out, "return %%%u\n}\n", x);
  return 7 * layers;
}

uint32_t put_gathers(dt_text_t *out, uint32_t n) {
  dt__text_put(out, "graph (s0: [1, 1000] \"n\", s1: [1, 1000] \"m\") {\n"
                    "%1 = input \"x\" f32[s0, 8] strides [8, 1] contiguous\n"
                    "%2 = input \"i\" i64[s1] strides [1] contiguous\n"
                    "%3 = gather %1, %2 {axes = [0]} : f32[s1, 8]\n");
  uint32_t at = 3;
  for (uint32_t k = 0; k < n; k++, at += 3) {
    dt__text_printf(out, "%%%u = sum %%%u {axes = [1], keepdims = 1} : f32[s1, 1]\n", at + 1, at);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [s1, 8]} : f32[s1, 8]\n", at + 2, at + 1);
    dt__text_printf(out, "%%%u = add %%%u, %%3 : f32[s1, 8]\n", at + 3, at + 2);
  }
  dt__text_printf(out, "return %%%u\n}\n", at);
  return 3 * n;
}

uint32_t put_unequal(dt_text_t *out, uint32_t n) {
  dt__text_put(out, "graph (s0: [1, 1000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0, 8] strides [8, 1] contiguous\n");
  uint32_t at = 1;
  for (uint32_t k = 0; k < n; k++, at += 7) {
    dt__text_printf(out, "%%%u = amax %%%u {axes = [0], keepdims = 1} : f32[1, 8]\n", at + 1, at);
    dt__text_printf(out, "%%%u = scalar {dtype = f32, value = %u.5} : f32[]\n", at + 2, k);
    dt__text_printf(out, "%%%u = reshape %%%u {syms = [1, 1]} : f32[1, 1]\n", at + 3, at + 2);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [1, 8]} : f32[1, 8]\n", at + 4, at + 3);
    dt__text_printf(out, "%%%u = add %%%u, %%%u : f32[1, 8]\n", at + 5, at + 1, at + 4);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [s0, 8]} : f32[s0, 8]\n", at + 6, at + 5);
    dt__text_printf(out, "%%%u = sub %%%u, %%%u : f32[s0, 8]\n", at + 7, at + 6, at);
  }
  dt__text_printf(out, "return %%%u\n}\n", at);
  return 7 * n;
}

uint32_t put_products(dt_text_t *out, uint32_t n) {
  dt__text_put(out, "graph (s0: [1, 1000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0, 64] strides [64, 1] contiguous\n");
  uint32_t at = 1;
  for (uint32_t k = 0; k < n; k++, at += 6) {
    dt__text_printf(out, "%%%u = constant \"w%u\" f32[64, 64] key %u\n", at + 1, k, k + 1);
    dt__text_printf(out, "%%%u = matmul %%%u, %%%u : f32[s0, 64]\n", at + 2, at, at + 1);
    dt__text_printf(out, "%%%u = scalar {dtype = f32, value = %u.5} : f32[]\n", at + 3, k);
    dt__text_printf(out, "%%%u = reshape %%%u {syms = [1, 1]} : f32[1, 1]\n", at + 4, at + 3);
    dt__text_printf(out, "%%%u = expand %%%u {syms = [s0, 64]} : f32[s0, 64]\n", at + 5, at + 4);
    dt__text_printf(out, "%%%u = add %%%u, %%%u : f32[s0, 64]\n", at + 6, at + 2, at + 5);
  }
  dt__text_printf(out, "return %%%u\n}\n", at);
  return 6 * n;
}

uint32_t put_branches(dt_text_t *out, uint32_t n) {
  dt__text_put(out, "graph (s0: [1, 1000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0] strides [1] contiguous\n"
                    "%2 = input \"flag\" bool[] strides [] contiguous\n");
  uint32_t at = 2, x = 1;
  for (uint32_t k = 0; k < n; k++, x = at) {
    dt__text_printf(out,
                    "%%%u = cond %%2, %%%u then {\n"
                    "%%1 = input \"\" f32[s0] strides [1] contiguous\n"
                    "%%2 = sin %%1 : f32[s0]\nreturn %%2\n} else {\n"
                    "%%1 = input \"\" f32[s0] strides [1] contiguous\n"
                    "%%2 = tanh %%1 : f32[s0]\nreturn %%2\n} : bool[]\n",
                    at + 1, x);
    dt__text_printf(out, "%%%u = result %%%u {index = 0} : f32[s0]\n", at + 2, at + 1);
    at += 2;
  }
  dt__text_printf(out, "return %%%u\n}\n", at);
  return 4 * n;
}

// Each has eight trips of sines, and begins with what the one before it gave.
uint32_t put_loops(dt_text_t *out, uint32_t n) {
  dt__text_put(out, "graph (s0: [1, 1000] \"n\") {\n"
                    "%1 = input \"x\" f32[s0] strides [1] contiguous\n"
                    "%2 = scalar {dtype = i64, value = 0} : i64[]\n");
  uint32_t at = 2, x = 1;
  for (uint32_t k = 0; k < n; k++, x = at) {
    dt__text_printf(out,
                    "%%%u = while %%2, %%%u test {\n"
                    "%%1 = input \"\" i64[] strides [] contiguous\n"
                    "%%2 = input \"\" f32[s0] strides [1] contiguous\n"
                    "%%3 = scalar {dtype = i64, value = 8} : i64[]\n"
                    "%%4 = lt %%1, %%3 : bool[]\nreturn %%4\n} body {\n"
                    "%%1 = input \"\" i64[] strides [] contiguous\n"
                    "%%2 = input \"\" f32[s0] strides [1] contiguous\n"
                    "%%3 = scalar {dtype = i64, value = 1} : i64[]\n%%4 = add %%1, %%3 : i64[]\n"
                    "%%5 = sin %%2 : f32[s0]\n"
                    "%%6 = mul %%2, %%5 : f32[s0]\nreturn %%4, %%6\n} : bool[]\n",
                    at + 1, x);
    dt__text_printf(out, "%%%u = result %%%u {index = 1} : f32[s0]\n", at + 2, at + 1);
    at += 2;
  }
  dt__text_printf(out, "return %%%u\n}\n", at);
  return 12 * n;
}

dt_graph_t *make_graph(put_fn_t put, uint32_t n, dt_arena_t *arena, dt_symenv_t **out_env,
                       uint32_t *out_nodes) {
  dt_graph_t *graph = NULL;
  dt_scan_t scan;
  dt_text_t text;
  dt__text_init(&text);
  *out_nodes = put(&text, n);
  assert_false(text.failed);
  expect_ok(dt__symenv_create(out_env));
  dt__scan_init(&scan, dt__text_str(&text), text.len, "made up");
  expect_ok(dt__graph_parse(arena, *out_env, &scan, &graph));
  dt__text_fini(&text);
  return graph;
}
