// SPDX-License-Identifier: Apache-2.0
// Order within a stream, where launches come early (programmatic dependent launch). Piece j of a
// stream begins, may wait (griddepcontrol.wait), and ends:
//
//   a piece that is not early   begins when all that the one before it saw ended, and that one,
//                               ended
//   an early one                begins once the one before it has begun: it may let it at its entry
//   ... that waits              goes on when the one before it has ended, and what that one saw
//                               ended; what it reads before knows of that as little as its
//                               beginning does
//   ... that does not           knows of no end, and whoever follows knows only of its own
//
// From these alone follows, for each piece, which ones before it have ended when it touches memory.
// Every pair of pieces that touch a byte in common, one of them writing it, must be among them:
// reuse of memory is such a pair as much as data that is handed on. A piece is added when it has
// been done, so that what it has touched is known. What has a common end is forgotten.
#include "test/fake_cuda/fake_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece_t {
  char name[64];
  fake_touched_t touched[2]; // read, written
  uint64_t *done;            // pieces that have ended when it has, a bit each; itself too
} piece_t;

// Pieces of a stream that may not all have ended when the next one begins.
typedef struct chain_t {
  piece_t *pieces;
  uint32_t n, room;
  uint64_t *begun; // those that have ended when the last one begins
} chain_t;

static chain_t chains[FAKE_STREAMS];
static uint64_t ordered, unordered, early;

uint64_t fake_cuda_ordered(void) { return ordered; }
uint64_t fake_cuda_unordered(void) { return unordered; }
uint64_t fake_cuda_early(void) { return early; }

static uint64_t *make_bits(uint32_t n) {
  uint64_t *bits = calloc((size_t)n / 64 + 1, sizeof(*bits));
  if (!bits)
    abort();
  return bits;
}

static bool has_bit(const uint64_t *bits, uint32_t k) { return bits[k / 64] >> k % 64 & 1; }

// `from` has bits for `n` pieces; NULL: none.
static void add_bits(uint64_t *to, const uint64_t *from, uint32_t n) {
  for (uint32_t k = 0; from && k <= n / 64; k++)
    to[k] |= from[k];
}

static void forget(chain_t *chain) {
  for (uint32_t k = 0; k < chain->n; k++) {
    piece_t *piece = &chain->pieces[k];
    free(piece->touched[0].at), free(piece->touched[1].at), free(piece->done);
  }
  free(chain->begun);
  chain->begun = NULL;
  chain->n = 0;
}

// For programs that do not know this driver for what it is.
__attribute__((destructor)) static void tell(void) {
  const char *wanted = getenv("FAKE_CUDA_TELL");
  if (!wanted || wanted[0] != '1')
    return;
  fake_graph_counts_t graphs;
  fake_cuda_graphs(&graphs);
  (void)fprintf(stderr, "fake driver: %llu early launches, %llu pairs in order\n",
                (unsigned long long)early, (unsigned long long)ordered);
  (void)fprintf(stderr,
                "fake driver: %llu graph launches, %llu kernels, %llu programmatic edges, "
                "%llu pairs in order\n",
                (unsigned long long)graphs.launches, (unsigned long long)graphs.nodes_run,
                (unsigned long long)graphs.programmatic, (unsigned long long)graphs.ordered);
}

void fake_order_reset(void) {
  for (uint32_t s = 0; s < FAKE_STREAMS; s++) {
    forget(&chains[s]);
    free(chains[s].pieces);
    chains[s] = (chain_t){0};
  }
  ordered = unordered = early = 0;
}

dt_cu_ptr_t fake_common(const fake_touched_t *a, const fake_touched_t *b) {
  if (a->n == 0 || b->n == 0 || a->at[a->n - 1].end <= b->at[0].begin ||
      b->at[b->n - 1].end <= a->at[0].begin)
    return 0;
  for (uint32_t i = 0, k = 0; i < a->n && k < b->n;) {
    if (a->at[i].end <= b->at[k].begin)
      i++;
    else if (b->at[k].end <= a->at[i].begin)
      k++;
    else
      return a->at[i].begin > b->at[k].begin ? a->at[i].begin : b->at[k].begin;
  }
  return 0;
}

dt_cu_ptr_t fake_conflict(const fake_touched_t a[2], const fake_touched_t b[2]) {
  dt_cu_ptr_t at = fake_common(&a[1], &b[1]);
  at = at ? at : fake_common(&a[1], &b[0]);
  return at ? at : fake_common(&a[0], &b[1]);
}

// What piece number n reads before it waits must not be written by what may not have ended when it
// begins.
static void check_early(const chain_t *chain, uint32_t n, const fake_touched_t *reads,
                        const uint64_t *begun) {
  for (uint32_t k = 0; k < n; k++) {
    dt_cu_ptr_t at = has_bit(begun, k) ? 0 : fake_common(&chain->pieces[k].touched[1], reads);
    if (!at)
      continue;
    unordered++;
    fake_violation("%s: reads %llx before griddepcontrol.wait, which is written by %s",
                   chain->pieces[n].name, (unsigned long long)at, chain->pieces[k].name);
  }
}

static bool all_ended(const chain_t *chain, const uint64_t *bits) {
  for (uint32_t k = 0; k < chain->n; k++)
    if (!has_bit(bits, k))
      return false;
  return true;
}

static piece_t *add_piece(chain_t *chain, fake_work_t *work) {
  if (chain->n == chain->room) {
    chain->room = chain->room ? 2 * chain->room : 16;
    chain->pieces = realloc(chain->pieces, chain->room * sizeof(chain->pieces[0]));
    if (!chain->pieces)
      abort();
  }
  piece_t *piece = &chain->pieces[chain->n++];
  *piece = (piece_t){.touched = {work->touched[0], work->touched[1]}};
  (void)snprintf(piece->name, sizeof(piece->name), "%s", work->what);
  memset(work->touched, 0, sizeof(work->touched));
  return piece;
}

void fake_order_done(uint32_t stream, fake_work_t *work) {
  chain_t *chain = &chains[stream];
  bool is_early = work->launch.programmatic;
  uint32_t n = chain->n;
  uint64_t *begun = make_bits(n + 1), *before = make_bits(n + 1);
  add_bits(begun, chain->begun, n);
  if (n && !is_early)
    add_bits(begun, chain->pieces[n - 1].done, n - 1);
  add_bits(before, begun, n);
  if (n && is_early && work->waits)
    add_bits(before, chain->pieces[n - 1].done, n - 1);
  if (!is_early && all_ended(chain, begun)) {
    forget(chain);
    memset(before, 0, (n / 64 + 1) * sizeof(*before));
    memset(begun, 0, (n / 64 + 1) * sizeof(*begun));
    n = 0;
  }
  const piece_t *piece = add_piece(chain, work);
  for (uint32_t k = 0; k < n; k++) {
    dt_cu_ptr_t at = fake_conflict(chain->pieces[k].touched, piece->touched);
    if (!at)
      continue;
    if (has_bit(before, k)) {
      ordered++;
      continue;
    }
    unordered++;
    fake_violation("%s: %llx is used by %s, which may not have ended", piece->name,
                   (unsigned long long)at, chain->pieces[k].name);
  }
  check_early(chain, n, &work->early, begun);
  before[n / 64] |= 1ull << n % 64;
  chain->pieces[n].done = before;
  free(chain->begun);
  chain->begun = begun;
  early += is_early;
}
