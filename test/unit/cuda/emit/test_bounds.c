// SPDX-License-Identifier: Apache-2.0
// Which masks bound attention's loop over keys, and where (fuse/attention_bound.c).
#include "test/support/check.h"

#include "fuse/attention.h"
#include "test/unit/cuda/emit/gpu_rig.h"

#include <stdio.h>
#include <string.h>

static const dt_cuda_model_t h100 = {9, 0, 132, 227 << 10, 50 << 20};

// %11 and %12: numbers of keys and of rows; %16: numbers of rows and 5 more; %18: data.
typedef struct mask_t {
  const char *name, *lines; // from %19 on; the last is the condition,
  int condition;            // with this number
  const char *none;         // in place of scores that are not seen
  bool turned;              // the condition says what is not seen
  int64_t from;             // the first column of row 0 that is not seen
} mask_t;

#define NO_BOUND INT64_MIN

#define COMPARE(op, a, b) "  %19 = " op " %" #a ", %" #b " : bool[s1, s1]\n", 19
#define JOINED(op, join)                                                                           \
  "  %19 = " op " %11, %12 : bool[s1, s1]\n"                                                       \
  "  %20 = lt %18, %11 : bool[s1, s1]\n"                                                           \
  "  %21 = " join " %19, %20 : bool[s1, s1]\n",                                                    \
      21
#define NOT(op)                                                                                    \
  "  %19 = " op " %11, %12 : bool[s1, s1]\n"                                                       \
  "  %20 = logical_not %19 : bool[s1, s1]\n",                                                      \
      20

static const mask_t masks[] = {
    {"le", COMPARE("le", 11, 12), "-inf", false, 1},
    {"lt", COMPARE("lt", 11, 12), "-inf", false, 0},
    {"ge", COMPARE("ge", 12, 11), "-inf", false, 1},
    {"gt, with more keys", COMPARE("gt", 16, 11), "-inf", false, 5},
    {"hidden: gt", COMPARE("gt", 11, 12), "-inf", true, 1},
    {"hidden: lt", COMPARE("lt", 12, 11), "-inf", true, 1},
    {"not gt", NOT("gt"), "-inf", false, 1},
    {"hidden: not le", NOT("le"), "-inf", true, 1},
    {"and data", JOINED("le", "logical_and"), "-inf", false, 1},
    {"or data", JOINED("le", "logical_or"), "-inf", false, NO_BOUND},
    {"hidden: or data", JOINED("gt", "logical_or"), "-inf", true, 1},
    {"hidden: and data", JOINED("gt", "logical_and"), "-inf", true, NO_BOUND},
    {"keys before", COMPARE("ge", 11, 12), "-inf", false, NO_BOUND},
    {"data", COMPARE("le", 18, 12), "-inf", false, NO_BOUND},
    {"a finite number", COMPARE("le", 11, 12), "-10000", false, NO_BOUND},
    {"the other infinity", COMPARE("le", 11, 12), "inf", false, NO_BOUND}};

static void graph_of(const mask_t *mask, char *out, size_t room) {
  int next = mask->condition + 1;
  char where[64];
  (void)snprintf(where, sizeof(where), mask->turned ? "%%%d, %%10" : "%%10, %%%d", next + 2);
  int n = snprintf(out, room,
                   "graph (s0: [0, 1000000], s1: [0, 1000000]) {\n"
                   "  %%1 = input \"q\" f16[s0, s1, 64] strides [s1*64, 64, 1] contiguous\n"
                   "  %%2 = input \"k\" f16[s0, s1, 64] strides [s1*64, 64, 1] contiguous\n"
                   "  %%3 = input \"v\" f16[s0, s1, 64] strides [s1*64, 64, 1] contiguous\n"
                   "  %%4 = input \"m\" i64[s1] strides [1] contiguous\n"
                   "  %%5 = permute %%2 {axes = [0, 2, 1]} : f16[s0, 64, s1]\n"
                   "  %%6 = matmul %%1, %%5 : f16[s0, s1, s1]\n"
                   "  %%7 = scalar {dtype = f16, value = 0.125} : f16[]\n"
                   "  %%8 = reshape %%7 {syms = [1, 1, 1]} : f16[1, 1, 1]\n"
                   "  %%9 = expand %%8 {syms = [s0, s1, s1]} : f16[s0, s1, s1]\n"
                   "  %%10 = mul %%6, %%9 : f16[s0, s1, s1]\n"
                   "  %%11 = iota {dtype = i64, axes = [1], syms = [s1, s1]} : i64[s1, s1]\n"
                   "  %%12 = iota {dtype = i64, axes = [0], syms = [s1, s1]} : i64[s1, s1]\n"
                   "  %%13 = scalar {dtype = i64, value = 5} : i64[]\n"
                   "  %%14 = reshape %%13 {syms = [1, 1]} : i64[1, 1]\n"
                   "  %%15 = expand %%14 {syms = [s1, s1]} : i64[s1, s1]\n"
                   "  %%16 = add %%12, %%15 : i64[s1, s1]\n"
                   "  %%17 = reshape %%4 {syms = [1, s1]} : i64[1, s1]\n"
                   "  %%18 = expand %%17 {syms = [s1, s1]} : i64[s1, s1]\n"
                   "%s"
                   "  %%%d = scalar {dtype = f16, value = %s} : f16[]\n"
                   "  %%%d = reshape %%%d {syms = [1, 1, 1]} : f16[1, 1, 1]\n"
                   "  %%%d = expand %%%d {syms = [s0, s1, s1]} : f16[s0, s1, s1]\n"
                   "  %%%d = reshape %%%d {syms = [1, s1, s1]} : bool[1, s1, s1]\n"
                   "  %%%d = expand %%%d {syms = [s0, s1, s1]} : bool[s0, s1, s1]\n"
                   "  %%%d = where %%%d, %s : f16[s0, s1, s1]\n"
                   "  %%%d = softmax %%%d {axes = [2]} : f16[s0, s1, s1]\n"
                   "  %%%d = matmul %%%d, %%3 : f16[s0, s1, 64]\n"
                   "  return %%%d\n}\n",
                   mask->lines, next, mask->none, next + 1, next, next + 2, next + 1, next + 3,
                   mask->condition, next + 4, next + 3, next + 5, next + 4, where, next + 6,
                   next + 5, next + 7, next + 6, next + 7);
  assert_true(n > 0 && (size_t)n < room);
}

static void test_masks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
    char graph[4096];
    gpu_rig_t r;
    dt_attention_t a;
    dt_sym_t unseen;
    int64_t from = NO_BOUND;
    graph_of(&masks[i], graph, sizeof(graph));
    gpu_rig_make(&r, graph, &h100, false);
    if (!dt__chain_attention(r.program, (dt_kernel_chain_t){.first = 0, .end = 3}, &a))
      fail_msg("%s: no attention", masks[i].name);
    if (dt__attention_bound(r.program, &a, &unseen))
      assert_true(dt__sym_is_const(r.env, unseen, &from));
    if (from != masks[i].from)
      fail_msg("%s: row 0 sees nothing from %lld on; expected %lld", masks[i].name, (long long)from,
               (long long)masks[i].from);
    gpu_rig_close(&r);
  }
}

RUN_TESTS(TEST(test_masks))
