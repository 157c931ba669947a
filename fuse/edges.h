// SPDX-License-Identifier: Apache-2.0
// Which launches of a program must come after which, if no stream orders them in time: for graphs
// of kernels on a device, whose independent branches run side by side.
#ifndef DT_FUSE_EDGES_H
#define DT_FUSE_EDGES_H

#include "lower/loop/loop.h"

// Launch `to` comes after launch `from`; numbers of launches of a call, in order. No edge follows
// from others that are between the last DT_EDGES_WINDOW launches; longer ones may.
#define DT_EDGES_WINDOW 4096
typedef struct dt_edge_t {
  uint32_t from, to;
} dt_edge_t;
typedef DT_VEC(dt_edge_t) dt_edges_t;

// The edges of a planned program, sorted by `to`, the nearest `from` first, made in its arena.
// Launches that touch one memory (an argument that is updated, a result, a slot of the block,
// scratch), one of them writing it, are ordered as they stand. *out_chain: each launch is behind
// the one before it, and behind nothing else; also where launches are repeated or left out (slices,
// regions), and with several segments.
dt_status_t dt__program_edges(const dt_program_t *program, dt_edges_t *out,
                              bool *out_chain) DT_MUST_USE;

#endif // DT_FUSE_EDGES_H
