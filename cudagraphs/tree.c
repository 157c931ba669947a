// SPDX-License-Identifier: Apache-2.0
// See tree.h.
#include "cudagraphs/tree.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

// Children of one place are few, and so are the ways of a generation: lists, not tables.
static void destroy(dt_graph_place_t *place, dt_graph_store_t *store) {
  // Paths are long where children are few: depth first without recursion, by making the first
  // child's children the head of the list.
  dt_graph_place_t *list = place->first;
  place->first = NULL;
  while (list) {
    dt_graph_place_t *gone = list;
    list = gone->next;
    while (gone->first) {
      dt_graph_place_t *child = gone->first;
      gone->first = child->next;
      child->next = list;
      list = child;
    }
    if (gone->exec)
      dt__graph_give_back(store, gone->exec);
    dt__free(gone);
  }
}

void dt__graph_tree_fini(dt_graph_tree_t *tree, dt_graph_store_t *store) {
  destroy(&tree->root, store);
  *tree = (dt_graph_tree_t){0};
}

void dt__graph_tree_restart(dt_graph_tree_t *tree, dt_graph_store_t *store) {
  tree->at = NULL;
  tree->depth = 0;
  // Ways that are not gone any more would otherwise stay for good.
  if (tree->n > DT_GRAPH_MOST_PLACES)
    dt__graph_tree_fini(tree, store);
}

dt_status_t dt__graph_tree_find(dt_graph_tree_t *tree, uint64_t variant, uint64_t live,
                                dt_graph_place_t **out) {
  dt_graph_place_t *parent = tree->at ? tree->at : &tree->root, *oldest = NULL;
  uint32_t siblings = 0;
  *out = NULL;
  for (dt_graph_place_t *place = parent->first; place; place = place->next) {
    if (place->variant != variant)
      continue;
    if (place->live == live) {
      *out = place;
      return NULL;
    }
    siblings++;
    if (!oldest || place->used < oldest->used)
      oldest = place;
  }
  if (tree->depth >= DT_GRAPH_MOST_DEPTH)
    return NULL;
  if (siblings >= DT_GRAPH_MOST_SIBLINGS) {
    oldest->live = live; // its graph is set for the other addresses
    *out = oldest;
    return NULL;
  }
  dt_graph_place_t *made = dt__calloc(1, sizeof(*made));
  if (!made)
    return DT_NO_MEMORY();
  made->variant = variant;
  made->live = live;
  made->next = parent->first;
  parent->first = made;
  tree->n++;
  *out = made;
  return NULL;
}

void dt__graph_tree_advance(dt_graph_tree_t *tree, dt_graph_place_t *place) {
  place->used = ++tree->clock;
  tree->at = place;
  tree->depth++;
}
