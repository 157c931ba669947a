// SPDX-License-Identifier: Apache-2.0
// Random graphs, mostly of views: what index maps must survive.
#ifndef DT_TESTS_UNIT_LOOP_RANDOM_GRAPH_H
#define DT_TESTS_UNIT_LOOP_RANDOM_GRAPH_H

#include "test/unit/loop/rig.h"

#define RANDOM_SIZES 4 // size symbols, made first
#define RANDOM_CONDS 64

typedef struct random_graph_t {
  rig_t rig;
  int64_t hints[RANDOM_SIZES];
  uint32_t n_conds;
  dt_sym_t conds[RANDOM_CONDS]; // assumptions that the graph made
  bool too_many;
} random_graph_t;

// Builds a graph with one or two outputs; the same for the same seed.
void random_graph_make(random_graph_t *g, uint64_t seed);
// Sizes other than the hints for which all assumptions hold; false when none was found. `symbols`
// are by symbol.
bool random_graph_other_sizes(random_graph_t *g, int64_t *symbols);

#endif // DT_TESTS_UNIT_LOOP_RANDOM_GRAPH_H
