// SPDX-License-Identifier: Apache-2.0
// Kernels of the test programs: every index inside its buffer, no address that wraps, no two live
// buffers that share memory; see docs/proofs.md. usage: test_kernels [--full] [--only PART]
// [--random N] [--share N]. --full: more random programs. --share: Z3 repeats what the simplifier
// answers of every N-th access only.
#include "test/support/check.h"

#include "test/proofs/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kp_options_t options = {.share = 1, .limit_ms = 5000, .repeat_ms = 500};
static uint32_t n_random = 40;
static const char *only;

static void test_lemmas(void **state) {
  (void)state;
  assert_int_equal(kp_lemmas(), 0);
}

static void test_controls(void **state) {
  (void)state;
  assert_int_equal(kp_controls(), 0);
}

static void test_programs(void **state) {
  (void)state;
  kp_counts_t sum = kp_prove_all(&options, only, n_random);
  print_message("%u of %u claims proved: %u by ranges, %u by Z3, %u from run-time checks; of what "
                "ranges answer, Z3 repeated %u, %u without an answer\n",
                sum.obligations - sum.open, sum.obligations, sum.by_ranges, sum.by_z3, sum.checked,
                sum.repeated, sum.unsure);
  assert_int_equal(sum.open, 0);
  assert_int_equal(sum.contradicted, 0);
  assert_true(sum.obligations > 0);
  assert_true(sum.unsure * 50 <= sum.repeated);
}

int main(int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--full") == 0) {
      n_random = 300;
    } else if (strcmp(argv[k], "--only") == 0 && k + 1 < argc) {
      only = argv[++k];
    } else if (strcmp(argv[k], "--random") == 0 && k + 1 < argc) {
      n_random = (uint32_t)strtoul(argv[++k], NULL, 10);
    } else if (strcmp(argv[k], "--share") == 0 && k + 1 < argc) {
      options.share = (uint32_t)strtoul(argv[++k], NULL, 10);
    } else {
      fprintf(stderr, "usage: %s [--full] [--only PART] [--random N] [--share N]\n", argv[0]);
      return 2;
    }
  }
  if (options.share == 0)
    options.share = 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  const struct CMUnitTest tests[] = {
      TEST(test_lemmas),
      TEST(test_controls),
      TEST(test_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
