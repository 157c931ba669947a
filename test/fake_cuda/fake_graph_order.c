// SPDX-License-Identifier: Apache-2.0
// Order within a graph launch. A node begins, may wait (griddepcontrol.wait), and ends:
//
//   full edge A → B           B begins when A has ended, and all that A saw ended
//   programmatic edge A → B   B begins once A has begun: it sees ended what A did when it began
//   ... B waits               it goes on when A has ended, and all that A saw ended; what it reads
//                             before knows of that as little as its beginning does
//   ... B does not            nothing more
//   a node that is disabled   sees ended what full edges into it say, and nothing by programmatic
//                             ones: there is no kernel that would wait
//
// Nodes that touch a byte in common, one of them writing it, must be ordered by these rules alone,
// in whatever order they were done. What a conditional node touches is all that its bodies touch.
#include "test/fake_cuda/fake_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece_t {
  char name[64];
  fake_touched_t touched[2]; // read, written
  uint64_t *begun,
      *ended; // nodes that have ended when it begins, and when it has ended; a bit each
} piece_t;

struct fake_ends_t {
  uint32_t n, words, n_added;
  uint32_t *added; // in the order in which they were done
  piece_t pieces[];
};

static void *room(size_t n, size_t size) {
  void *at = calloc(n ? n : 1, size);
  if (!at)
    abort();
  return at;
}

fake_ends_t *fake_ends_create(uint32_t n) {
  fake_ends_t *ends = room(1, sizeof(*ends) + n * sizeof(ends->pieces[0]));
  ends->n = n;
  ends->words = n / 64 + 1;
  ends->added = room(n, sizeof(ends->added[0]));
  return ends;
}

void fake_ends_destroy(fake_ends_t *ends) {
  for (uint32_t k = 0; k < ends->n; k++) {
    piece_t *piece = &ends->pieces[k];
    free(piece->touched[0].at), free(piece->touched[1].at);
    free(piece->begun), free(piece->ended);
  }
  free(ends->added);
  free(ends);
}

// ---- Ranges -------------------------------------------------------------------------------------

void fake_merge(fake_touched_t *into, const fake_touched_t *from) {
  if (from->n == 0)
    return;
  fake_bytes_t *all = room((size_t)into->n + from->n, sizeof(*all));
  uint32_t n = 0;
  for (uint32_t i = 0, k = 0; i < into->n || k < from->n;) {
    bool first = k == from->n || (i < into->n && into->at[i].begin <= from->at[k].begin);
    fake_bytes_t next = first ? into->at[i++] : from->at[k++];
    if (n == 0 || all[n - 1].end < next.begin)
      all[n++] = next;
    else if (all[n - 1].end < next.end)
      all[n - 1].end = next.end;
  }
  free(into->at);
  *into = (fake_touched_t){.at = all, .n = n};
}

// ---- Nodes --------------------------------------------------------------------------------------

static bool has_bit(const uint64_t *bits, uint32_t k) { return bits[k / 64] >> k % 64 & 1; }

static void join(const fake_ends_t *ends, uint64_t *to, const uint64_t *from) {
  for (uint32_t k = 0; k < ends->words; k++)
    to[k] |= from[k];
}

// What the node finds ended where it begins, and where it goes on.
static void follow(const fake_ends_t *ends, const fake_end_t *end, uint64_t *begun,
                   uint64_t *before) {
  for (uint32_t k = 0; k < end->node->n_in; k++) {
    const fake_edge_t *edge = &end->node->in[k];
    const piece_t *from = &ends->pieces[edge->from];
    if (!edge->programmatic) {
      join(ends, begun, from->ended);
      continue;
    }
    if (!end->enabled)
      continue;
    join(ends, begun, from->begun);
    if (end->waits)
      join(ends, before, from->ended);
    fake_graph_counts.programmatic += has_bit(from->ended, edge->from); // it has run itself
  }
  join(ends, before, begun);
}

static void check(const fake_ends_t *ends, const piece_t *piece, const uint64_t *before) {
  for (uint32_t k = 0; k < ends->n_added; k++) {
    uint32_t other = ends->added[k];
    const piece_t *old = &ends->pieces[other];
    dt_cu_ptr_t at = fake_conflict(old->touched, piece->touched);
    if (!at)
      continue;
    if (has_bit(before, other)) {
      fake_graph_counts.ordered++;
      continue;
    }
    fake_graph_counts.unordered++;
    if (at >= FAKE_CONDITION_BASE)
      fake_violation("%s: its condition is used by %s, which no edges say has ended", piece->name,
                     old->name);
    else
      fake_violation("%s: %llx is used by %s, which no edges say has ended", piece->name,
                     (unsigned long long)at, old->name);
  }
}

// What is read before the wait must not be written by what may not have ended when the node begins.
static void check_early(const fake_ends_t *ends, const piece_t *piece,
                        const fake_touched_t *early) {
  for (uint32_t k = 0; k < ends->n_added; k++) {
    uint32_t other = ends->added[k];
    const piece_t *old = &ends->pieces[other];
    dt_cu_ptr_t at = has_bit(piece->begun, other) ? 0 : fake_common(&old->touched[1], early);
    if (!at)
      continue;
    fake_graph_counts.unordered++;
    fake_violation("%s: reads %llx before griddepcontrol.wait, which is written by %s", piece->name,
                   (unsigned long long)at, old->name);
  }
}

void fake_ends_add(fake_ends_t *ends, fake_end_t end) {
  piece_t *piece = &ends->pieces[end.place];
  *piece = (piece_t){.touched = {end.touched[0], end.touched[1]},
                     .begun = room(ends->words, sizeof(uint64_t)),
                     .ended = room(ends->words, sizeof(uint64_t))};
  (void)snprintf(piece->name, sizeof(piece->name), "%s", end.name);
  follow(ends, &end, piece->begun, piece->ended);
  check(ends, piece, piece->ended);
  check_early(ends, piece, &end.early);
  free(end.early.at);
  if (!end.enabled)
    return;
  piece->ended[end.place / 64] |= 1ull << end.place % 64;
  ends->added[ends->n_added++] = end.place;
}
