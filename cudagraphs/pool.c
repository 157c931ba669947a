// SPDX-License-Identifier: Apache-2.0
// See pool.h. Placement is first fit by address: results are few, and in equal calls of equal
// generations they lie at the same addresses as before, so nothing has to be set.
#include "cudagraphs/pool.h"

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdio.h>

struct dt_graph_block_t {
  dt_storage_t storage; // first
  dt_graph_pool_t *pool;
  dt_graph_block_t *next;   // in pool->blocks
  size_t offset, bytes;     // bytes: rounded up
  _Atomic uint32_t holders; // the list, and the tensors
  _Atomic bool dead;        // no tensor holds it
  uint64_t generation;
  uint32_t call, output;
  char function[48];
};

static size_t round_up(size_t bytes) {
  return (bytes + DT_GRAPH_ALIGNMENT - 1) / DT_GRAPH_ALIGNMENT * DT_GRAPH_ALIGNMENT;
}

// ---- The pool -------------------------------------------------------------------------------------

dt_status_t dt__graph_pool_create(dt_cuda_gpu_t *gpu, dt_graph_pool_t **out) {
  dt_graph_pool_t *pool = dt__calloc(1, sizeof(*pool));
  *out = pool;
  if (!pool)
    return DT_NO_MEMORY();
  atomic_init(&pool->refs, 1);
  pool->generation = 1;
  pool->gpu = gpu;
  dt__cuda_gpu_retain(gpu);
  return NULL;
}

void dt__graph_pool_release(dt_graph_pool_t *pool) {
  if (!pool || atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__cuda_region_free(&pool->region, pool->gpu);
  dt__cuda_gpu_release(pool->gpu);
  dt__free(pool);
}

// ---- Blocks ---------------------------------------------------------------------------------------

static void drop(dt_graph_block_t *block) {
  if (atomic_fetch_sub_explicit(&block->holders, 1, memory_order_acq_rel) == 1)
    dt__free(block);
}

static void block_destroy(dt_storage_t *storage) {
  dt_graph_block_t *block = (dt_graph_block_t *)storage;
  dt_graph_pool_t *pool = block->pool;
  atomic_store_explicit(&block->dead, true, memory_order_release);
  drop(block);
  dt__graph_pool_release(pool);
}

static dt_status_t why_ended(const dt_storage_t *storage) {
  const dt_graph_block_t *block = (const dt_graph_block_t *)storage;
  return DT_FAIL(DT_E_STATE,
                 "output %u of function %s, made by call %u of generation %llu, was overwritten by "
                 "a subsequent run: dt_step_begin ended that generation; make a copy of it before "
                 "(dt_tensor_keep)",
                 block->output, block->function, block->call,
                 (unsigned long long)block->generation);
}

// The lowest offset where `bytes` fit between the blocks; *out_link: where to link one.
static size_t find_gap(dt_graph_pool_t *pool, size_t bytes, dt_graph_block_t ***out_link) {
  size_t at = 0;
  dt_graph_block_t **link = &pool->blocks;
  for (; *link && (*link)->offset - at < bytes; link = &(*link)->next)
    at = (*link)->offset + (*link)->bytes;
  if (out_link)
    *out_link = link;
  return at;
}

static size_t end_of(const dt_graph_pool_t *pool) {
  size_t end = 0;
  for (const dt_graph_block_t *block = pool->blocks; block; block = block->next)
    end = block->offset + block->bytes;
  return end;
}

// The base is known from the first result on: addresses are reserved before pages are mapped.
static dt_status_t reserve(dt_graph_pool_t *pool) {
  return pool->region.base ? NULL : dt__cuda_region_reserve(&pool->region, pool->gpu);
}

dt_status_t dt__graph_pool_take(dt_graph_pool_t *pool, size_t bytes, const dt_graph_maker_t *maker,
                                dt_storage_t **out) {
  *out = NULL;
  if (bytes >= (size_t)DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a result of %zu bytes; the limit is %lld", bytes,
                   (long long)DT_SIZE_LIMIT - 1);
  DT_TRY(reserve(pool));
  dt_graph_block_t *block = dt__calloc(1, sizeof(*block));
  if (!block)
    return DT_NO_MEMORY();
  block->storage = (dt_storage_t){.refs = 1,
                                  .place = dt__place(DT_CUDA, pool->gpu->device->ordinal),
                                  .bytes = bytes,
                                  .destroy = block_destroy,
                                  .why_ended = why_ended};
  block->pool = pool;
  (void)atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
  block->generation = pool->generation;
  block->call = maker->call;
  block->output = maker->output;
  (void)snprintf(block->function, sizeof(block->function), "%s", maker->function);
  atomic_init(&block->holders, 1);
  if (bytes) {
    dt_graph_block_t **link = NULL;
    atomic_init(&block->holders, 2);
    block->bytes = round_up(bytes);
    block->offset = find_gap(pool, block->bytes, &link);
    block->next = *link;
    *link = block;
    block->storage.data = dt__cuda_pointer(pool->region.base + block->offset);
  }
  *out = &block->storage;
  return NULL;
}

uint64_t dt__graph_pool_sweep(dt_graph_pool_t *pool, uint32_t *out_live) {
  uint64_t hash = 0;
  uint32_t live = 0;
  for (dt_graph_block_t **link = &pool->blocks; *link;) {
    dt_graph_block_t *block = *link;
    if (atomic_load_explicit(&block->dead, memory_order_acquire)) {
      *link = block->next;
      drop(block);
      continue;
    }
    hash = dt__hash_mix(hash, (uint64_t)block->call << 32 | block->output);
    live++;
    link = &block->next;
  }
  *out_live = live;
  return hash;
}

size_t dt__graph_pool_live_bytes(const dt_graph_pool_t *pool) {
  size_t bytes = 0;
  for (const dt_graph_block_t *block = pool->blocks; block; block = block->next)
    bytes += atomic_load_explicit(&block->dead, memory_order_acquire) ? 0 : block->storage.bytes;
  return bytes;
}

static void let_go(dt_graph_pool_t *pool, bool ended) {
  while (pool->blocks) {
    dt_graph_block_t *block = pool->blocks;
    pool->blocks = block->next;
    if (ended)
      atomic_store_explicit(&block->storage.ended, true, memory_order_release);
    drop(block);
  }
}

void dt__graph_pool_end(dt_graph_pool_t *pool) {
  let_go(pool, true);
  pool->generation++;
}

void dt__graph_pool_leave(dt_graph_pool_t *pool) { let_go(pool, false); }

// ---- Pages ----------------------------------------------------------------------------------------

static dt_status_t grow(dt_graph_pool_t *pool, size_t bytes) {
  if (bytes <= pool->region.bytes)
    return NULL;
  int64_t begin = dt__now_ns();
  DT_TRY(dt__cuda_region_grow(&pool->region, pool->gpu, bytes));
  int64_t ns = dt__now_ns() - begin;
  pool->growths++;
  if (ns > pool->growth_ns)
    pool->growth_ns = ns;
  return NULL;
}

// Where a block goes, and how far pages must reach with it.
static size_t place_block(dt_graph_pool_t *pool, size_t bytes, bool grows, size_t *out_reach) {
  size_t rounded = round_up(bytes), end = end_of(pool);
  size_t at = grows ? end : find_gap(pool, rounded, NULL);
  *out_reach = bytes && at + rounded > end ? at + rounded : end;
  return at;
}

bool dt__graph_pool_has(dt_graph_pool_t *pool, size_t bytes, bool grows) {
  size_t reach = 0;
  (void)place_block(pool, bytes, grows, &reach);
  return reach <= pool->region.bytes;
}

dt_status_t dt__graph_pool_lease(dt_graph_pool_t *pool, size_t bytes, bool grows,
                                 dt_cu_ptr_t *out) {
  size_t reach = 0, at = place_block(pool, bytes, grows, &reach);
  *out = 0;
  DT_TRY(grow(pool, reach));
  if (bytes || grows) {
    DT_TRY(reserve(pool));
    *out = pool->region.base + at;
  }
  return NULL;
}

dt_status_t dt__graph_pool_extend(dt_graph_pool_t *pool, dt_cu_ptr_t base, size_t bytes) {
  return grow(pool, (size_t)(base - pool->region.base) + round_up(bytes));
}

void dt__graph_pool_trim(dt_graph_pool_t *pool) {
  uint32_t live = 0;
  (void)dt__graph_pool_sweep(pool, &live);
  size_t before = pool->region.bytes;
  dt__cuda_region_trim(&pool->region, pool->gpu, end_of(pool));
  pool->trims += pool->region.bytes != before;
}
