// SPDX-License-Identifier: Apache-2.0
// Halves of the PTX simulator: every f16 and bf16 there and back, and the numbers between any two
// neighbours, which round to the nearer and at the middle to the even one.
#include "test/unit/cuda/ptx/ptx_fixture.h"

enum { N = 65536 };
static uint32_t floats[N];
static uint16_t halves[N];

// Converts all of `from` by one instruction; 256 blocks of 256 threads.
static void convert(const char *body, const void *from, size_t from_bytes, void *to,
                    size_t to_bytes) {
  char text[512];
  (void)snprintf(text, sizeof(text),
                 "mov.u32 %%r2, %%ctaid.x;\nmad.lo.u32 %%r1, %%r2, 256, %%r1;\n"
                 "mul.wide.u32 %%d3, %%r1, 4;\nmul.wide.u32 %%d4, %%r1, 2;\n%s",
                 body);
  dt_cu_function_t f = load_body("", text);
  dt_cu_ptr_t in = allocate(N * 4), out = allocate(N * 4);
  OK(cuda->copy_to_device(in, from, from_bytes, NULL));
  launch(f, (launch_t){.grid = 256, .block = 256}, in, out, in, 0);
  OK(cuda->copy_to_host(to, out, to_bytes, NULL));
  finish();
  expect_none();
}

#define WIDEN(type)                                                                                \
  "add.s64 %d4, %d0, %d4;\nld.global.b16 %h1, [%d4];\ncvt.f32." type " %f1, %h1;\n"                \
  "add.s64 %d3, %d1, %d3;\nst.global.f32 [%d3], %f1;"
#define NARROW(type)                                                                               \
  "add.s64 %d3, %d0, %d3;\nld.global.f32 %f1, [%d3];\ncvt.rn." type ".f32 %h1, %f1;\n"             \
  "add.s64 %d4, %d1, %d4;\nst.global.b16 [%d4], %h1;"

static float as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// Steps between a half and the next away from zero, in quarters: 0, 1, 2 and 3.
static void all_halves(const char *widen, const char *narrow, uint32_t infinity) {
  for (uint32_t k = 0; k < N; k++)
    halves[k] = (uint16_t)k;
  convert(widen, halves, sizeof(halves), floats, sizeof(floats));
  static uint32_t values[N];
  memcpy(values, floats, sizeof(values));
  for (uint32_t quarter = 0; quarter < 4; quarter++) {
    for (uint32_t k = 0; k < N; k++) {
      uint32_t rank = k & 0x7fff;
      if (rank >= infinity - 1)
        continue; // there is no next number
      double x = (double)as_float(values[k]), next = (double)as_float(values[k + 1]);
      float between = (float)(x + (next - x) * quarter / 4);
      memcpy(&floats[k], &between, sizeof(between));
    }
    convert(narrow, floats, sizeof(floats), halves, sizeof(halves));
    for (uint32_t k = 0; k < N; k++) {
      uint32_t rank = k & 0x7fff, up = quarter == 3 || (quarter == 2 && (k & 1));
      uint32_t expected = rank > infinity ? 0x7fff : rank < infinity - 1 ? k + up : k;
      if (halves[k] != expected)
        fail_msg("%x and %u quarters gives %x; expected %x", k, quarter, halves[k], expected);
    }
  }
}

static void all_f16(void **state) {
  (void)state;
  all_halves(WIDEN("f16"), NARROW("f16"), 0x7c00);
}

static void all_bf16(void **state) {
  (void)state;
  all_halves(WIDEN("bf16"), NARROW("bf16"), 0x7f80);
}

RUN_WITH_LIBRARY(ON_DEVICE(all_f16), ON_DEVICE(all_bf16))
