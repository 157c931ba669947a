// SPDX-License-Identifier: Apache-2.0
// Models with one thing wrong each: the reader refuses every one with the status and the text that
// onnx_faults.def gives, names the place, and no two rows are the same fault.
#include "test/support/check.h"

#include "ductile/onnx.h"
#include "test/unit/frontends/onnx_pieces.h"
#include "test/unit/frontends/onnx_text.h"

#include <stdio.h>
#include <string.h>

static const struct {
  dt_code_t code;
  const char *expected, *text;
} faults[] = {
#define FAULT(code, expected, text) {code, expected, text},
#include "test/unit/frontends/onnx_faults.def"
};
#define N_FAULTS (sizeof(faults) / sizeof(faults[0]))

static bool check_fault(size_t k) {
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, faults[k].text);
  dt_onnx_t *model = NULL;
  dt_status_t status = dt_onnx_open_memory(bytes.data, bytes.len, NULL, &model);
  const char *message = dt_status_message(status);
  bool good = dt_status_code(status) == faults[k].code && !model &&
              strncmp(message, "model in memory: ", 17) == 0 && strstr(message, "byte ") &&
              strstr(message, faults[k].expected);
  if (!good)
    print_error("fault %zu: expected %s \"%s\"\n  got %s \"%s\"\n", k, dt_code_name(faults[k].code),
                faults[k].expected, dt_code_name(dt_status_code(status)), message);
  dt_status_free(status);
  dt_onnx_close(model);
  onnx_free(&bytes);
  return good;
}

static void test_faults(void **state) {
  (void)state;
  size_t wrong = 0;
  for (size_t k = 0; k < N_FAULTS; k++)
    wrong += !check_fault(k);
  printf("%zu faults, %zu wrong\n", N_FAULTS, wrong);
  assert_int_equal(wrong, 0);
}

static void test_all_differ(void **state) {
  (void)state;
  for (size_t k = 0; k < N_FAULTS; k++)
    for (size_t i = 0; i < k; i++)
      if (strcmp(faults[k].text, faults[i].text) == 0 ||
          strcmp(faults[k].expected, faults[i].expected) == 0)
        fail_msg("faults %zu and %zu are the same", i, k);
}

RUN_TESTS(TEST(test_faults), TEST(test_all_differ))
