// SPDX-License-Identifier: Apache-2.0
// Ops on halves in PTX: made of the halves themselves, in pairs, with a rounding each and nothing
// in f32, for a GPU that multiplies bf16 by multiply-adds and for one that has all ops.
#include "test/support/check.h"

#include "test/unit/cuda/emit/gpu_rig.h"

#include <stdio.h>
#include <string.h>

static const dt_cuda_model_t a100 = {8, 0, 108, 163 << 10, 40 << 20};
static const dt_cuda_model_t h100 = {9, 0, 132, 227 << 10, 50 << 20};

static void expect_halves(const dt_cuda_model_t *model, const char *dtype,
                          const char *const words[5]) {
  char graph[512];
  gpu_rig_t r;
  (void)snprintf(graph, sizeof(graph),
                 "graph (s0: [1, 1000000]) {\n"
                 "  %%1 = input \"x\" %s[s0] strides [1] contiguous\n"
                 "  %%2 = input \"y\" %s[s0] strides [1] contiguous\n"
                 "  %%3 = mul %%1, %%2 : %s[s0]\n"
                 "  %%4 = add %%3, %%1 : %s[s0]\n"
                 "  %%5 = sub %%4, %%2 : %s[s0]\n"
                 "  %%6 = relu %%5 : %s[s0]\n"
                 "  %%7 = minimum %%6, %%3 : %s[s0]\n"
                 "  return %%7\n}\n",
                 dtype, dtype, dtype, dtype, dtype, dtype, dtype);
  gpu_rig_open(&r, graph, model, false);
  for (uint32_t i = 0; i < 5; i++)
    if (!strstr(r.ptx, words[i]))
      fail_msg("%s on %d.%d: no %s", dtype, model->major, model->minor, words[i]);
  if (strstr(r.ptx, "f32"))
    fail_msg("%s on %d.%d: f32 is left", dtype, model->major, model->minor);
  gpu_rig_close(&r);
}

static void test_f16(void **state) {
  static const char *const words[] = {"mul.rn.f16x2", "add.rn.f16x2", "sub.rn.f16x2",
                                      "max.NaN.f16x2", "min.NaN.f16x2"};
  (void)state;
  expect_halves(&a100, "f16", words);
  expect_halves(&h100, "f16", words);
}

static void test_bf16(void **state) {
  static const char *const words[] = {"mul.rn.bf16x2", "add.rn.bf16x2", "sub.rn.bf16x2",
                                      "max.NaN.bf16x2", "min.NaN.bf16x2"};
  static const char *const old_words[] = {"fma.rn.bf16x2", "fma.rn.bf16x2", "fma.rn.bf16x2",
                                          "max.NaN.bf16x2", "min.NaN.bf16x2"};
  (void)state;
  expect_halves(&a100, "bf16", old_words);
  expect_halves(&h100, "bf16", words);
}

RUN_TESTS(TEST(test_f16), TEST(test_bf16))
