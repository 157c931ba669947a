// SPDX-License-Identifier: Apache-2.0
// Random graphs through all passes in a frozen environment: what lowering makes of them still gives
// the results of the evaluator on the graph as it was.
#include "test/unit/loop/random_graph.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t first_seed = 1, n_seeds = 2000;

static void test_random(void **state) {
  (void)state;
  uint64_t compared = 0;
  for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
    random_graph_t g;
    dt_symenv_t *env;
    char what[32];
    int64_t symbols[64] = {0};
    (void)snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
    random_graph_make(&g, seed);
    dt_program_t *program = rig_lower_passed(&g.rig, &env);
    assert_true(dt__symenv_symbol_count(g.rig.f.env) <= 64);
    for (uint32_t k = 0; k < RANDOM_SIZES; k++)
      symbols[k] = g.hints[k];
    rig_compare(&g.rig, program, symbols, what);
    for (int k = 0; k < 2 && random_graph_other_sizes(&g, symbols); k++)
      rig_compare(&g.rig, program, symbols, what);
    compared += g.rig.compared;
    dt__symenv_destroy(env);
    rig_fini(&g.rig);
  }
  assert_true(compared > n_seeds * 20);
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
