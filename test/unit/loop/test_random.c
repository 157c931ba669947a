// SPDX-License-Identifier: Apache-2.0
// Random graphs through lowering and the interpreter, against the evaluator: at the sizes that they
// were made with and at others that their assumptions admit.
#include "test/unit/loop/random_graph.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t first_seed = 1, n_seeds = 3000;

static void test_random(void **state) {
  (void)state;
  uint64_t elsewhere = 0, compared = 0, uncertain = 0, lowered = 0;
  for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
    random_graph_t g;
    char what[32];
    (void)snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
    random_graph_make(&g, seed);
    dt_symenv_t *env;
    dt_program_t *program = rig_lower(&g.rig, &env);
    int64_t symbols[64] = {0};
    assert_true(dt__symenv_symbol_count(g.rig.f.env) <= 64);
    for (uint32_t k = 0; k < RANDOM_SIZES; k++)
      symbols[k] = g.hints[k];
    rig_compare(&g.rig, program, symbols, what);
    for (int k = 0; k < 2 && random_graph_other_sizes(&g, symbols); k++) {
      rig_compare(&g.rig, program, symbols, what);
      elsewhere++;
    }
    compared += g.rig.compared;
    uncertain += g.rig.uncertain;
    lowered++;
    dt__symenv_destroy(env);
    rig_fini(&g.rig);
  }
  printf("%llu graphs, %llu runs at other sizes, %llu elements compared, %llu uncertain\n",
         (unsigned long long)lowered, (unsigned long long)elsewhere, (unsigned long long)compared,
         (unsigned long long)uncertain);
  if (n_seeds >= 1000) {
    assert_true(elsewhere > n_seeds);
    assert_true(uncertain * 20 < compared);
  }
}

// Optional arguments: the first seed, and how many.
int main(int argc, char **argv) {
  if (argc > 1)
    first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2)
    n_seeds = strtoull(argv[2], NULL, 10);
  const struct CMUnitTest tests[] = {TEST(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
