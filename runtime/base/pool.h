// SPDX-License-Identifier: Apache-2.0
// The kernel thread pool: parallel ranges in which the caller takes part, shared by concurrent
// callers. Starting a range takes no lock when no worker sleeps; workers spin for a short while and
// then sleep, so an idle pool costs nothing.
#ifndef DT_RUNTIME_BASE_POOL_H
#define DT_RUNTIME_BASE_POOL_H

#include "ductile/runtime.h"

typedef struct dt_pool dt_pool_t;

// A chunk of a range: items [begin, end). `worker` < dt__pool_width and no two chunks that run at
// the same time *for one dt__pool_run* share it, so it may index per-thread scratch.
typedef void (*dt_range_fn_t)(void *arg, int64_t begin, int64_t end, uint32_t worker);

// `threads` includes the caller: 1 makes a pool without workers. With an executor, which is copied,
// it has none either: ranges are run by the host's threads.
dt_status_t dt__pool_create(uint32_t threads, const dt_executor_t *executor,
                            dt_pool_t **out) DT_MUST_USE;
void dt__pool_destroy(dt_pool_t *pool); // no range may be running
// Has the workers end, and waits for none; ranges are no more run after it.
void dt__pool_stop(dt_pool_t *pool);
uint32_t dt__pool_width(const dt_pool_t *pool);
// Runs fn over [0, count) in chunks of at least `grain` items, and returns when all are done. Chunk
// boundaries depend on count, grain and the pool's width only, never on timing. count <= grain runs
// inline without touching the pool. [any, also concurrently; not from inside fn]
void dt__pool_run(dt_pool_t *pool, int64_t count, int64_t grain, dt_range_fn_t fn, void *arg);
// The same at another level than DT_POOL_NORMAL: workers take ranges of the first levels first, and
// leave those of others, between two chunks, to their callers. With an executor all are alike.
typedef enum dt_pool_level_t {
  DT_POOL_URGENT,
  DT_POOL_NORMAL,
  DT_POOL_LATER,
  DT_POOL_LEVELS
} dt_pool_level_t;
void dt__pool_run_at(dt_pool_t *pool, dt_pool_level_t level, int64_t count, int64_t grain,
                     dt_range_fn_t fn, void *arg);

#endif // DT_RUNTIME_BASE_POOL_H
