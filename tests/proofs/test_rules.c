// SPDX-License-Identifier: Apache-2.0
#include "tests/proofs/rules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char *const rule_names[] = {
#define RULE(id, doc) #id,
#include "symshape/rules.def"
};
static const proof_t *const tables[] = {
#include "tables.inc"
};
int main(int argc, char **argv) {
  int mode = argc > 1 ? atoi(argv[1]) : 1;
  const char *only = argc > 2 ? argv[2] : "";
  unsigned ms = argc > 3 ? (unsigned)atoi(argv[3]) : 10000;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    for (const proof_t *p = tables[i]; p->goal; p++) {
      const char *name = p->rule < 0 ? "LEMMA" : rule_names[p->rule];
      if (!strstr(name, only)) continue;
      goal_run_t run = {mode, -1, argc > 4, ms};
      goal_result_t r = goal_run(p->goal, &run);
      printf("%-9s %6.2f s %s %s (%d)\n", (const char *[]){"proved", "REFUTED", "unknown"}[r.verdict], r.seconds, name, p->what, r.n_weaker);
      if (r.verdict && *only && argc < 5) puts(r.model);
      free(r.model);
      fflush(stdout);
    }
}
