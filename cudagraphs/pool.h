// SPDX-License-Identifier: Apache-2.0
// A session's memory on a device: one reserved range of addresses whose base never moves, mapped up
// to the most that was ever needed at once. A call leases its block from it for as long as its work
// is queued. Results of calls that run as graphs stay in it while tensors hold them, at most until
// the generation ends. The next call takes free memory, in the order of the session's stream.
//
// Everything here belongs to the session's thread, except the release of tensors, which may happen
// on any thread: a released block is marked, and swept at the session's next call.
#ifndef DT_CUDAGRAPHS_POOL_H
#define DT_CUDAGRAPHS_POOL_H

#include "backend_cuda/exec/gpu.h"

#define DT_GRAPH_ALIGNMENT ((size_t)512) // of every block

typedef struct dt_graph_block_t dt_graph_block_t;

typedef struct dt_graph_pool_t {
  _Atomic uint32_t refs;
  dt_cuda_gpu_t *gpu; // a reference
  dt_cuda_region_t region;
  dt_graph_block_t *blocks; // of tensors that live, by offset
  uint64_t generation;      // from 1
  uint64_t growths;         // times that pages were mapped
  uint64_t trims;           // times that pages were given back
  int64_t growth_ns;        // the longest of them
} dt_graph_pool_t;

// `gpu` gets a reference more.
dt_status_t dt__graph_pool_create(dt_cuda_gpu_t *gpu, dt_graph_pool_t **out) DT_MUST_USE;
// The session ends: what tensors hold stays theirs.
void dt__graph_pool_leave(dt_graph_pool_t *pool);
// The last of the session and its tensors frees the memory; no work that uses it is queued then.
// NULL allowed.
void dt__graph_pool_release(dt_graph_pool_t *pool);

// What made a result, for messages and for the key of what comes after.
typedef struct dt_graph_maker_t {
  const char *function; // copied
  uint32_t call;        // of the generation, from 0
  uint32_t output;
} dt_graph_maker_t;
// A place for a result: a storage with one share, the caller's. The pages are there when
// dt__graph_pool_lease has been called for all that a call needs. 0 bytes take no place.
dt_status_t dt__graph_pool_take(dt_graph_pool_t *pool, size_t bytes, const dt_graph_maker_t *maker,
                                dt_storage_t **out) DT_MUST_USE;
// A place for a call's block, free of all that lives, and pages for everything. `grows` says that
// the block may be asked to grow where it is: it is then put behind all that lives. *out is its
// address, 0 without bytes.
dt_status_t dt__graph_pool_lease(dt_graph_pool_t *pool, size_t bytes, bool grows,
                                 dt_cu_ptr_t *out) DT_MUST_USE;
// Whether that would need no more pages.
bool dt__graph_pool_has(dt_graph_pool_t *pool, size_t bytes, bool grows);
// Pages for `bytes` at `base`, which was leased so that it may grow.
dt_status_t dt__graph_pool_extend(dt_graph_pool_t *pool, dt_cu_ptr_t base,
                                  size_t bytes) DT_MUST_USE;
// Forgets blocks whose tensors are gone. *out_live: how many are left; the hash tells sets of
// living results apart, by what made them.
uint64_t dt__graph_pool_sweep(dt_graph_pool_t *pool, uint32_t *out_live);
size_t dt__graph_pool_live_bytes(const dt_graph_pool_t *pool);
// Ends the generation: whatever still lives is free for the taking, and says so when it is used.
void dt__graph_pool_end(dt_graph_pool_t *pool);
// Gives back pages behind what lives. No work of the session may be queued.
void dt__graph_pool_trim(dt_graph_pool_t *pool);

#endif // DT_CUDAGRAPHS_POOL_H
