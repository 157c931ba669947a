// SPDX-License-Identifier: Apache-2.0
// PTX as LLVM's NVPTX back end prints it (test/unit/cuda/ptx/), run by the simulator: what the
// kernels compute, for sizes that do and do not fill their blocks.
#include "test/unit/cuda/ptx/ptx_fixture.h"

#include "test/support/folder.h"

#include <math.h>

static char *read_text(const char *name) {
  char path[256];
  (void)snprintf(path, sizeof(path), "test/unit/cuda/ptx/%s.ptx", name);
  return file_read(path, NULL);
}

// Through the linker, as Ductile loads code: the cubin is loaded, not the text.
static dt_cu_function_t load_file(const char *name, const char *entry) {
  char *text = read_text(name);
  dt_cu_link_t link = NULL;
  void *cubin = NULL;
  size_t bytes = 0;
  dt_cu_module_t module = NULL;
  dt_cu_function_t function = NULL;
  OK(cuda->link_create(0, NULL, NULL, &link));
  dt_cu_result_t result =
      cuda->link_add(link, DT_CU_JIT_PTX, text, strlen(text) + 1, name, 0, NULL, NULL);
  if (result)
    fail_msg("%s: %s", name, fake_ptx_error());
  OK(cuda->link_complete(link, &cubin, &bytes));
  OK(cuda->module_load(&module, cubin));
  OK(cuda->link_destroy(link));
  OK(cuda->module_function(&function, module, entry));
  free(text);
  return function;
}

static void a_pointwise_loop(void **state) {
  (void)state;
  dt_cu_function_t f = load_file("pointwise", "pointwise");
  static const int64_t sizes[] = {0, 4, 1020, 1024, 5000};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    int64_t n = sizes[k];
    float x[5000], y[5000];
    for (int64_t i = 0; i < n; i++)
      x[i] = (float)i * 0.37f - 100;
    dt_cu_ptr_t in = allocate((size_t)n * 4 + 4), out = allocate((size_t)n * 4 + 4);
    if (n)
      OK(cuda->copy_to_device(in, x, (size_t)n * 4, NULL));
    void *params[] = {&in, &out, &n};
    OK(launch_params(f, (launch_t){.grid = 3, .block = 128}, params));
    if (n)
      OK(cuda->copy_to_host(y, out, (size_t)n * 4, NULL));
    finish();
    expect_none();
    for (int64_t i = 0; i < n; i++)
      if (memcmp(&y[i], &(float){fmaf(x[i], x[i], 1)}, 4) != 0)
        fail_msg("%lld of %lld: %a", (long long)i, (long long)n, (double)y[i]);
  }
  // A size that is a lie goes beyond the block of memory.
  dt_cu_ptr_t in = allocate(64), out = allocate(64);
  int64_t n = 20;
  void *params[] = {&in, &out, &n};
  OK(launch_params(f, (launch_t){.block = 32}, params));
  finish();
  expect_violation("thread (4, 0, 0): read of 16 bytes outside of live memory");
}

static void a_sum_by_blocks(void **state) {
  (void)state;
  dt_cu_function_t f = load_file("reduce", "reduce");
  static const int32_t sizes[] = {0, 1, 31, 33, 500};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    int32_t n = sizes[k];
    float x[4][500], sums[4];
    for (int32_t i = 0; i < 4 * n; i++)
      (&x[0][0])[i] = (float)(i % 97 - 40);
    dt_cu_ptr_t in = allocate((size_t)n * 16 + 4), out = allocate(16);
    if (n)
      OK(cuda->copy_to_device(in, x, (size_t)n * 16, NULL));
    void *params[] = {&in, &out, &n};
    OK(launch_params(f, (launch_t){.grid = 4, .block = 128}, params));
    OK(cuda->copy_to_host(sums, out, 16, NULL));
    finish();
    expect_none();
    for (int32_t row = 0; row < 4; row++) {
      float sum = 0; // of integers: exact in any order
      for (int32_t i = 0; i < n; i++)
        sum += (&x[0][0])[row * n + i];
      assert_int_equal((int)sums[row], (int)sum);
    }
  }
  assert_true(fake_cuda_instructions() > 10000);
}

static void an_exponential(void **state) {
  (void)state;
  dt_cu_function_t f = load_file("scalar", "exps");
  enum { N = 1000 };
  int32_t n = N;
  float x[N], y[N];
  for (int32_t i = 0; i < N; i++)
    x[i] = (float)i * 0.17f - 85;
  dt_cu_ptr_t in = allocate(sizeof(x)), out = allocate(sizeof(y));
  OK(cuda->copy_to_device(in, x, sizeof(x), NULL));
  void *params[] = {&in, &out, &n};
  OK(launch_params(f, (launch_t){.grid = 5, .block = 224}, params));
  OK(cuda->copy_to_host(y, out, sizeof(y), NULL));
  finish();
  expect_none();
  for (int32_t i = 0; i < N; i++)
    if (fabs((double)y[i] / exp((double)x[i]) - 1) > 2e-6)
      fail_msg("exp(%g) = %g; expected %g", (double)x[i], (double)y[i], exp((double)x[i]));
}

static int64_t expected_number(uint32_t i, int64_t x, int64_t d) {
  static const int32_t table[] = {5, -7, 11, 13, 17, -19, 23, 29};
  double root = sqrt((double)x);
  int64_t bits;
  memcpy(&bits, &root, sizeof(bits));
  switch (i & 7) {
  case 0:
    return x / d;
  case 1:
    return x % d;
  case 2:
    return (int64_t)((uint64_t)x / 1000003);
  case 3:
    return table[x & 7];
  case 4:
    return x == 2048 ? 0x6800 : 0x7c00; // as a half
  case 5:
    return bits;
  default:
    return x;
  }
}

static void numbers_and_a_switch(void **state) {
  (void)state;
  dt_cu_function_t f = load_file("scalar", "numbers");
  int64_t x[64], y[64], d = -12345;
  for (uint32_t i = 0; i < 64; i++)
    x[i] = i % 8 == 4 ? (i < 32 ? 2048 : 100000) : (int64_t)i * 0x123456789ab + 17;
  x[8] = -x[8];
  dt_cu_ptr_t in = allocate(sizeof(x)), out = allocate(sizeof(y));
  OK(cuda->copy_to_device(in, x, sizeof(x), NULL));
  void *params[] = {&in, &out, &d};
  OK(launch_params(f, (launch_t){.block = 64}, params));
  OK(cuda->copy_to_host(y, out, sizeof(y), NULL));
  finish();
  expect_none();
  for (uint32_t i = 0; i < 64; i++)
    if (y[i] != expected_number(i, x[i], d))
      fail_msg("%u: %lld of %lld; expected %lld", i, (long long)y[i], (long long)x[i],
               (long long)expected_number(i, x[i], d));
}

// A text that breaks off, and one with a byte changed, is refused or read, and nothing else
// happens.
static void broken_texts(void **state) {
  (void)state;
  static const char *const names[] = {"pointwise", "reduce", "scalar"};
  uint32_t refused = 0;
  for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
    char *text = read_text(names[k]);
    size_t n = strlen(text);
    for (size_t at = 1; at < n; at += 5) {
      for (uint32_t how = 0; how < 2; how++) {
        char was = text[at];
        text[at] = how ? (char)("{}[](),;.%$@!-+0x9z\"/:|<"[at / 5 % 25]) : 0;
        dt_cu_link_t link = NULL;
        OK(cuda->link_create(0, NULL, NULL, &link));
        dt_cu_result_t result =
            cuda->link_add(link, DT_CU_JIT_PTX, text, strlen(text) + 1, "x", 0, NULL, NULL);
        assert_true(result == DT_CU_SUCCESS || result == DT_CU_INVALID_PTX);
        assert_true((result == DT_CU_SUCCESS) == (fake_ptx_error()[0] == 0));
        refused += result != DT_CU_SUCCESS;
        OK(cuda->link_destroy(link));
        text[at] = was;
      }
    }
    free(text);
  }
  assert_true(refused > 500);
}

RUN_WITH_LIBRARY(ON_DEVICE(a_pointwise_loop), ON_DEVICE(a_sum_by_blocks), ON_DEVICE(an_exponential),
                 ON_DEVICE(numbers_and_a_switch), ON_DEVICE(broken_texts))
