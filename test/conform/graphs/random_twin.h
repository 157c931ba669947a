// SPDX-License-Identifier: Apache-2.0
// Another program of the same meaning: what a random program computes is taken there and back,
// computed twice, in another order, with operands exchanged.
#ifndef DT_TESTS_CONFORM_RANDOM_TWIN_H
#define DT_TESTS_CONFORM_RANDOM_TWIN_H

#include "test/conform/graphs/random_graph.h"

// RG_TWIN(id, text): how a twin differs.
#define RG_TWINS                                                                                   \
  RG_TWIN(transposed, "transposed twice")                                                          \
  RG_TWIN(permuted, "dims in reverse, twice")                                                      \
  RG_TWIN(unsqueezed, "a dim of one more, and away")                                               \
  RG_TWIN(reversed, "backwards, twice")                                                            \
  RG_TWIN(halves, "cut into halves, and joined")                                                   \
  RG_TWIN(nothing, "joined with nothing")                                                          \
  RG_TWIN(padded, "padded, and cut")                                                               \
  RG_TWIN(flattened, "of one dim, and back")                                                       \
  RG_TWIN(negated, "negated twice")                                                                \
  RG_TWIN(widened, "wider, and back")                                                              \
  RG_TWIN(exchanged, "operands exchanged")                                                         \
  RG_TWIN(twice, "computed twice")                                                                 \
  RG_TWIN(written, "branches and loops written out")                                               \
  RG_TWIN(dead, "beside what nobody needs")                                                        \
  RG_TWIN(ordered, "in another order")

typedef enum rg_twin_t {
#define RG_TWIN(id, text) RG_TWIN_##id,
  RG_TWINS
#undef RG_TWIN
      RG_TWIN_COUNT
} rg_twin_t;
const char *rg_twin_text(rg_twin_t twin);

// A valid program, or false: there was no room. map[i] is the node that stands for node i (of
// leaves, the leaf); `uses` counts by relation.
bool rg_make_twin(const rg_program_t *p, uint64_t seed, rg_program_t *out, uint32_t map[RG_NODES],
                  uint64_t uses[RG_TWIN_COUNT]);

#endif // DT_TESTS_CONFORM_RANDOM_TWIN_H
