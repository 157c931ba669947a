// SPDX-License-Identifier: Apache-2.0
// All executables of a runtime, and their budget in bytes. A session holds those of its tree. The
// executables that a destroyed session leaves behind may be taken by the next session that runs the
// same variant. If its holder is not inside, whoever needs the room may take an executable away at
// any time: the holder finds it gone and asks for another.
#ifndef DT_CUDAGRAPHS_STORE_H
#define DT_CUDAGRAPHS_STORE_H

#include "cudagraphs/exec.h"
#include "runtime/base/thread.h"

typedef struct dt_graph_store_t {
  dt_mutex_t mutex;
  dt_graph_exec_t *first; // guarded by mutex
  size_t bytes;           // guarded by mutex: of all executables, as estimated
  size_t budget;          // 0: none is made
  uint32_t n;             // guarded by mutex
  uint64_t evicted;       // guarded by mutex
  uint32_t ending;        // guarded by mutex: off the list, and the driver has them still
  pthread_cond_t ended;   // fewer are ending
} dt_graph_store_t;

dt_status_t dt__graph_store_init(dt_graph_store_t *store, size_t budget) DT_MUST_USE;
void dt__graph_store_fini(dt_graph_store_t *store); // nobody holds one

// An executable for the variant that nobody holds, or an empty one; the caller's to hold. What it
// was set for is not known any more: another session's memory.
dt_status_t dt__graph_lease(dt_graph_store_t *store, dt_cuda_gpu_t *gpu, uint64_t variant,
                            dt_graph_exec_t **out) DT_MUST_USE;
// The holder goes inside. False: it is gone; give it back.
static inline bool dt__graph_enter(dt_graph_exec_t *exec) {
  uint32_t idle = 0;
  return atomic_compare_exchange_strong_explicit(&exec->state, &idle, 1, memory_order_acquire,
                                                 memory_order_relaxed);
}
static inline void dt__graph_leave(dt_graph_exec_t *exec) {
  atomic_store_explicit(&exec->used, dt__now_ns(), memory_order_relaxed);
  atomic_store_explicit(&exec->state, 0, memory_order_release);
}
// The holder lets go: others may have it.
void dt__graph_give_back(dt_graph_store_t *store, dt_graph_exec_t *exec);
// Inside of `exec`, before it is assembled with `n` nodes: makes room in the budget, by taking
// those used longest ago from their holders, and reserves it. False: there is no room, and where
// all of the budget would not do, nothing was taken from anybody.
bool dt__graph_admit(dt_graph_store_t *store, dt_graph_exec_t *exec, uint32_t n);
// What the holder's executable takes; false: it is gone or not assembled.
bool dt__graph_measure(dt_graph_store_t *store, const dt_graph_exec_t *exec, uint32_t *out_nodes,
                       size_t *out_bytes);
// Drops those that nobody is inside of, until `bytes` are free; false: fewer were.
bool dt__graph_evict(dt_graph_store_t *store, size_t bytes);
uint32_t dt__graph_nodes(dt_graph_store_t *store);   // of all executables
uint64_t dt__graph_evicted(dt_graph_store_t *store); // how many were dropped for room
// The tick of what dt__graph_evict drops first; UINT64_MAX: nothing.
uint64_t dt__graph_oldest_tick(dt_graph_store_t *store);
// The variant ends: its executables go, also those that others are taking away; its code is
// unloaded next. Nobody is inside of one.
void dt__graph_forget(dt_graph_store_t *store, uint64_t variant);

#endif // DT_CUDAGRAPHS_STORE_H
