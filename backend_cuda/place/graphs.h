// SPDX-License-Identifier: Apache-2.0
// What a session keeps for calls that run as graphs.
#ifndef DT_BACKEND_CUDA_PLACE_GRAPHS_H
#define DT_BACKEND_CUDA_PLACE_GRAPHS_H

#include "cudagraphs/pool.h"
#include "cudagraphs/tree.h"

// Why a call is launched kernel by kernel.
typedef enum dt_skip_t {
  DT_SKIP_NONE,
#define SKIP(id, text) DT_SKIP_##id,
#include "cudagraphs/skips.def"
  DT_SKIP_COUNT
} dt_skip_t;
const char *dt__skip_text(uint32_t skip); // NULL for DT_SKIP_NONE

// Valid when zeroed.
typedef struct dt_session_graphs_t {
  dt_graph_tree_t tree;
  dt_graph_counts_t counts;
  uint64_t calls, skips, frozen_builds, frozen_growths;
  dt_skip_t skip;
  bool frozen;
  uint64_t *key; // of the call that is being made
  uint32_t key_cap;
} dt_session_graphs_t;

#endif // DT_BACKEND_CUDA_PLACE_GRAPHS_H
