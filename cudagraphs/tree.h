// SPDX-License-Identifier: Apache-2.0
// The tree of a session: a place for each call that may follow the calls before it. The calls of
// one generation form a path from the root. A place is identified by the variant, and by the
// results of earlier calls that live when it begins, so equal generations find everything where it
// was. Sizes do not matter: an executable is set for them.
//
// Belongs to the session's thread.
#ifndef DT_CUDAGRAPHS_TREE_H
#define DT_CUDAGRAPHS_TREE_H

#include "cudagraphs/store.h"

typedef struct dt_graph_place_t {
  struct dt_graph_place_t *first, *next; // children; siblings
  uint64_t variant, live;
  dt_graph_exec_t *exec; // held; NULL: none at present
  uint64_t used;
} dt_graph_place_t;

// Valid when zeroed.
typedef struct dt_graph_tree_t {
  dt_graph_place_t root;
  dt_graph_place_t *at; // the last call of this generation; NULL: the root
  uint32_t depth;       // calls of this generation
  uint32_t n;           // places
  uint64_t clock;
} dt_graph_tree_t;

#define DT_GRAPH_MOST_DEPTH 1024u  // calls of a generation that run as graphs
#define DT_GRAPH_MOST_PLACES 8192u // of a tree, before it is begun anew
#define DT_GRAPH_MOST_SIBLINGS 16u // of one variant behind one call, with other results alive

// From this driver on graphs have branches with several bodies.
#define DT_GRAPH_BRANCHES_VERSION 12080

// The generation ends: the next call is behind the root.
void dt__graph_tree_restart(dt_graph_tree_t *tree, dt_graph_store_t *store);
// The place of a call of `variant` behind the last one; made if need be. Too many siblings: the one
// used longest ago becomes it. NULL in *out: the path is too long.
dt_status_t dt__graph_tree_find(dt_graph_tree_t *tree, uint64_t variant, uint64_t live,
                                dt_graph_place_t **out) DT_MUST_USE;
// The call at `place` was queued: what comes next is behind it.
void dt__graph_tree_advance(dt_graph_tree_t *tree, dt_graph_place_t *place);
// Gives all executables back.
void dt__graph_tree_fini(dt_graph_tree_t *tree, dt_graph_store_t *store);

#endif // DT_CUDAGRAPHS_TREE_H
