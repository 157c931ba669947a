// SPDX-License-Identifier: Apache-2.0
// Memory of the fake driver: blocks that device code may use, at addresses that host code may not.
// What was freed stays known, and filled with 0xdd, so that a later use is named.
#include "test/fake_cuda/fake_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_PAGES 1024
#define MAX_POOLS 64

static fake_block_t blocks[FAKE_MEMORY];
static uint32_t n_blocks;
static struct {
  size_t bytes; // 0: free slot
  uint32_t mappings;
  bool released;
} pages[MAX_PAGES];

// Which pages lie where.
typedef struct mapping_t {
  dt_cu_ptr_t begin; // 0: free slot
  size_t bytes;
  uint32_t pages;
} mapping_t;
static mapping_t mappings[MAX_PAGES];

typedef struct fake_pool_t {
  bool live;
  uint64_t keep;
} fake_pool_t;
static fake_pool_t pools[MAX_POOLS];
static uint64_t kept; // as last set

static dt_cu_ptr_t device_address(const fake_block_t *block) {
  return (dt_cu_ptr_t)(uintptr_t)block->host + FAKE_OFFSET;
}

static fake_block_t *find(dt_cu_ptr_t ptr) {
  fake_block_t *dead = NULL;
  for (uint32_t k = 0; k < n_blocks; k++) {
    dt_cu_ptr_t begin = device_address(&blocks[k]);
    if (blocks[k].kind == FAKE_NONE || ptr < begin || ptr >= begin + blocks[k].bytes)
      continue;
    if (blocks[k].live)
      return &blocks[k];
    dead = &blocks[k];
  }
  return dead;
}

static fake_block_t *add(fake_kind_t kind, size_t bytes, size_t align) {
  size_t room = bytes + align;
  if (n_blocks == FAKE_MEMORY || bytes == 0 || room < bytes)
    return NULL;
  unsigned char *host =
      mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED)
    return NULL;
  uintptr_t at = ((uintptr_t)host + align - 1) / align * align;
  fake_block_t *block = &blocks[n_blocks++];
  *block = (fake_block_t){.kind = kind,
                          .live = true,
                          .host = host + (at - (uintptr_t)host),
                          .bytes = bytes,
                          .base = host,
                          .room = room};
  if (kind == FAKE_RANGE)
    block->mapped = calloc(bytes / FAKE_GRANULE + 1, 1);
  else if (bytes <= (size_t)64 << 20)
    memset(block->host, 0xcd, bytes);
  return block;
}

static void kill(fake_block_t *block) {
  block->live = false;
  if (block->kind != FAKE_RANGE && block->bytes <= (size_t)64 << 20)
    memset(block->host, 0xdd, block->bytes);
  free(block->mapped);
  block->mapped = NULL;
}

void fake_memory_reset(void) {
  for (uint32_t k = 0; k < n_blocks; k++) {
    free(blocks[k].mapped);
    (void)munmap(blocks[k].base, blocks[k].room);
  }
  n_blocks = 0;
  memset(blocks, 0, sizeof(blocks));
  memset(pages, 0, sizeof(pages));
  memset(mappings, 0, sizeof(mappings));
  memset(pools, 0, sizeof(pools));
}

uint32_t fake_memory_held(void) {
  uint32_t held = 0;
  for (uint32_t k = 0; k < n_blocks; k++)
    held += blocks[k].live;
  for (uint32_t k = 0; k < MAX_PAGES; k++)
    held += pages[k].bytes > 0 && !pages[k].released;
  for (uint32_t k = 0; k < MAX_POOLS; k++)
    held += pools[k].live;
  return held;
}

uint64_t fake_cuda_bytes(void) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < n_blocks; k++)
    if (blocks[k].live && (blocks[k].kind == FAKE_ALLOCATED || blocks[k].kind == FAKE_ASYNC))
      bytes += blocks[k].bytes;
  for (uint32_t k = 0; k < MAX_PAGES; k++)
    bytes += pages[k].bytes;
  return bytes;
}

unsigned char *fake_use(dt_cu_ptr_t ptr, size_t bytes, const char *what) {
  const fake_block_t *block = find(ptr);
  uint64_t offset = block ? ptr - device_address(block) : 0;
  const char *wrong = !block                          ? "no device memory"
                      : !block->live                  ? "memory that was freed"
                      : bytes > block->bytes - offset ? "beyond its block"
                                                      : NULL;
  if (!wrong && block->kind == FAKE_RANGE) {
    for (uint64_t g = offset / FAKE_GRANULE; bytes && g <= (offset + bytes - 1) / FAKE_GRANULE; g++)
      if (block->mapped[g] != 2)
        wrong = block->mapped[g] ? "mapped without access" : "not mapped";
  }
  if (!wrong)
    return block->host + offset;
  fake_violation("%s: %zu bytes at %llx: %s", what, bytes, (unsigned long long)ptr, wrong);
  return NULL;
}

// Of a reserved range, the runs of granules that are mapped with access.
static void each_run(const fake_block_t *block,
                     void (*each)(void *user, dt_cu_ptr_t begin, size_t bytes, unsigned char *host),
                     void *user) {
  size_t n = block->bytes / FAKE_GRANULE;
  for (size_t g = 0; g < n; g++) {
    size_t first = g;
    while (g < n && block->mapped[g] == 2)
      g++;
    if (g > first)
      each(user, device_address(block) + first * FAKE_GRANULE, (g - first) * FAKE_GRANULE,
           block->host + first * FAKE_GRANULE);
  }
}

void fake_each_range(void (*each)(void *user, dt_cu_ptr_t begin, size_t bytes, unsigned char *host),
                     void *user) {
  for (uint32_t k = 0; k < n_blocks; k++) {
    const fake_block_t *block = &blocks[k];
    if (!block->live)
      continue;
    if (block->kind == FAKE_RANGE)
      each_run(block, each, user);
    else
      each(user, device_address(block), block->bytes, block->host);
  }
}

void *fake_cuda_host(dt_cu_ptr_t ptr) {
  const fake_block_t *block = find(ptr);
  return block && block->live ? block->host + (ptr - device_address(block)) : NULL;
}

// ---- Blocks ---------------------------------------------------------------------------------------

static dt_cu_result_t allocate(fake_kind_t kind, dt_cu_ptr_t *out, size_t bytes) {
  if (bytes == 0)
    return DT_CU_INVALID_VALUE;
  const fake_block_t *block = add(kind, bytes, 512);
  if (!block)
    return DT_CU_OUT_OF_MEMORY;
  *out = device_address(block);
  return DT_CU_SUCCESS;
}

static fake_block_t *whole(dt_cu_ptr_t ptr, fake_kind_t kind, fake_kind_t other, const char *what) {
  fake_block_t *block = find(ptr);
  if (block && block->live && (block->kind == kind || block->kind == other) &&
      device_address(block) == ptr)
    return block;
  fake_violation("%s: %llx is %s", what, (unsigned long long)ptr,
                 block && !block->live ? "freed already" : "no such block");
  return NULL;
}

dt_cu_result_t cuMemAlloc_v2(dt_cu_ptr_t *out, size_t bytes) {
  FAKE_ENTER(mem_alloc, FAKE_IN_CONTEXT);
  return fake_leave(allocate(FAKE_ALLOCATED, out, bytes));
}

dt_cu_result_t cuMemFree_v2(dt_cu_ptr_t ptr) {
  FAKE_ENTER(mem_free, FAKE_IN_CONTEXT);
  fake_drain(); // it waits for everything
  fake_block_t *block = whole(ptr, FAKE_ALLOCATED, FAKE_ASYNC, "cuMemFree");
  if (block)
    kill(block);
  return fake_leave(block ? DT_CU_SUCCESS : DT_CU_INVALID_VALUE);
}

// ---- Pools ----------------------------------------------------------------------------------------
static fake_pool_t *pool_of(dt_cu_pool_t pool, const char *what) {
  for (uint32_t k = 0; k < MAX_POOLS; k++)
    if (pools[k].live && (dt_cu_pool_t)(void *)&pools[k] == pool)
      return &pools[k];
  fake_violation("%s: no such pool", what);
  return NULL;
}

dt_cu_result_t cuMemPoolCreate(dt_cu_pool_t *out, const dt_cu_pool_prop_t *prop) {
  FAKE_ENTER(pool_create, FAKE_ANYWHERE);
  if (prop->type != 1 || prop->handle_types || prop->location.type != 1)
    return fake_leave(DT_CU_INVALID_VALUE);
  for (uint32_t k = 0; k < MAX_POOLS; k++) {
    if (pools[k].live)
      continue;
    pools[k] = (fake_pool_t){.live = true};
    *out = (dt_cu_pool_t)(void *)&pools[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuMemPoolDestroy(dt_cu_pool_t pool) {
  FAKE_ENTER(pool_destroy, FAKE_ANYWHERE);
  fake_pool_t *own = pool_of(pool, "cuMemPoolDestroy");
  if (!own)
    return fake_leave(DT_CU_INVALID_VALUE);
  own->live = false;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemPoolSetAttribute(dt_cu_pool_t pool, int attribute, void *value) {
  FAKE_ENTER(pool_set, FAKE_ANYWHERE);
  fake_pool_t *own = pool_of(pool, "cuMemPoolSetAttribute");
  if (!own || attribute != DT_CU_POOL_RELEASE_THRESHOLD)
    return fake_leave(DT_CU_INVALID_VALUE);
  memcpy(&own->keep, value, sizeof(own->keep));
  kept = own->keep;
  return fake_leave(DT_CU_SUCCESS);
}

uint64_t fake_cuda_pool_keep(void) { return kept; }

dt_cu_result_t cuMemAllocFromPoolAsync(dt_cu_ptr_t *out, size_t bytes, dt_cu_pool_t pool,
                                       dt_cu_stream_t stream) {
  FAKE_ENTER(mem_alloc_async, FAKE_IN_CONTEXT);
  if (!pool_of(pool, "cuMemAllocFromPoolAsync"))
    return fake_leave(DT_CU_INVALID_VALUE);
  dt_cu_result_t result = fake_is_stream(stream) ? allocate(FAKE_ASYNC, out, bytes) : 400;
  if (result == DT_CU_SUCCESS) {
    // The memory may be used by what this stream does from here on.
    fake_access_t all = {.begin = *out, .bytes = bytes, .write = true};
    (void)fake_queue(stream, &all, 1, 0, "cuMemAllocFromPoolAsync");
  }
  return fake_leave(result);
}

dt_cu_result_t cuMemFreeAsync(dt_cu_ptr_t ptr, dt_cu_stream_t stream) {
  FAKE_ENTER(mem_free_async, FAKE_IN_CONTEXT);
  fake_block_t *block = whole(ptr, FAKE_ASYNC, FAKE_ALLOCATED, "cuMemFreeAsync");
  if (!block || !fake_is_stream(stream))
    return fake_leave(DT_CU_INVALID_VALUE);
  fake_access_t all = {.begin = ptr, .bytes = block->bytes, .write = true};
  (void)fake_queue(stream, &all, 1, 0, "cuMemFreeAsync");
  // Work queued before uses it still: done now, in any order its waits allow.
  fake_drain();
  kill(block);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemHostAlloc(void **out, size_t bytes, uint32_t flags) {
  FAKE_ENTER(host_alloc, FAKE_IN_CONTEXT);
  (void)flags;
  const fake_block_t *block = bytes ? add(FAKE_PINNED, bytes, 4096) : NULL;
  if (!block)
    return fake_leave(bytes ? DT_CU_OUT_OF_MEMORY : DT_CU_INVALID_VALUE);
  *out = block->host;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemFreeHost(void *ptr) {
  FAKE_ENTER(host_free, FAKE_IN_CONTEXT);
  dt_cu_ptr_t address = (dt_cu_ptr_t)(uintptr_t)ptr + FAKE_OFFSET;
  fake_block_t *block = whole(address, FAKE_PINNED, FAKE_PINNED, "cuMemFreeHost");
  if (!block)
    return fake_leave(DT_CU_INVALID_VALUE);
  if (!fake_range_idle(address, block->bytes))
    fake_violation("cuMemFreeHost: work in flight uses the memory");
  kill(block);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemHostGetDevicePointer_v2(dt_cu_ptr_t *out, void *ptr, uint32_t flags) {
  FAKE_ENTER(host_device_ptr, FAKE_IN_CONTEXT);
  const fake_block_t *block = find((dt_cu_ptr_t)(uintptr_t)ptr + FAKE_OFFSET);
  if (flags || !block || !block->live || block->kind != FAKE_PINNED)
    return fake_leave(DT_CU_INVALID_VALUE);
  *out = (dt_cu_ptr_t)(uintptr_t)ptr + FAKE_OFFSET;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuPointerGetAttribute(void *out, int attribute, dt_cu_ptr_t ptr) {
  FAKE_ENTER(pointer_attribute, FAKE_ANYWHERE);
  const fake_block_t *block = find(ptr);
  if (!block || !block->live)
    return fake_leave(DT_CU_INVALID_VALUE);
  uint32_t type = block->kind == FAKE_PINNED ? 1 : 2;
  int32_t device = 0;
  uint64_t begin = device_address(block), bytes = block->bytes;
  switch (attribute) {
  case DT_CU_POINTER_MEMORY_TYPE:
    memcpy(out, &type, sizeof(type));
    break;
  case DT_CU_POINTER_DEVICE:
    memcpy(out, &device, sizeof(device));
    break;
  case DT_CU_POINTER_RANGE_START:
    memcpy(out, &begin, sizeof(begin));
    break;
  case DT_CU_POINTER_RANGE_SIZE:
    memcpy(out, &bytes, sizeof(bytes));
    break;
  default:
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Reserved ranges ------------------------------------------------------------------------------

dt_cu_result_t cuMemGetAllocationGranularity(size_t *out, const dt_cu_mem_prop_t *prop,
                                             int option) {
  FAKE_ENTER(range_granularity, FAKE_ANYWHERE);
  (void)option;
  if (prop->type != 1 || prop->location.type != 1)
    return fake_leave(DT_CU_INVALID_VALUE);
  *out = FAKE_GRANULE;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemAddressReserve(dt_cu_ptr_t *out, size_t bytes, size_t align, dt_cu_ptr_t at,
                                   uint64_t flags) {
  FAKE_ENTER(range_reserve, FAKE_IN_CONTEXT);
  (void)align, (void)at;
  if (flags || bytes == 0 || bytes % FAKE_GRANULE)
    return fake_leave(DT_CU_INVALID_VALUE);
  const fake_block_t *block = add(FAKE_RANGE, bytes, FAKE_GRANULE);
  if (!block || !block->mapped)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  *out = device_address(block);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemAddressFree(dt_cu_ptr_t ptr, size_t bytes) {
  FAKE_ENTER(range_release, FAKE_IN_CONTEXT);
  fake_block_t *block = whole(ptr, FAKE_RANGE, FAKE_RANGE, "cuMemAddressFree");
  if (!block || block->bytes != bytes)
    return fake_leave(DT_CU_INVALID_VALUE);
  for (size_t g = 0; g < bytes / FAKE_GRANULE; g++) {
    if (!block->mapped[g])
      continue;
    fake_violation("cuMemAddressFree: pages are mapped in the range");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  kill(block);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemCreate(dt_cu_mem_t *out, size_t bytes, const dt_cu_mem_prop_t *prop,
                           uint64_t flags) {
  FAKE_ENTER(pages_create, FAKE_IN_CONTEXT);
  if (flags || bytes == 0 || bytes % FAKE_GRANULE || prop->type != 1)
    return fake_leave(DT_CU_INVALID_VALUE);
  for (uint32_t k = 0; k < MAX_PAGES; k++) {
    if (pages[k].bytes)
      continue;
    pages[k].bytes = bytes;
    *out = k + 1;
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

static void drop_pages(uint32_t k) {
  if (pages[k].released && pages[k].mappings == 0)
    memset(&pages[k], 0, sizeof(pages[k]));
}

dt_cu_result_t cuMemRelease(dt_cu_mem_t handle) {
  FAKE_ENTER(pages_release, FAKE_IN_CONTEXT);
  if (handle == 0 || handle > MAX_PAGES || !pages[handle - 1].bytes || pages[handle - 1].released) {
    fake_violation("cuMemRelease: no such handle");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  pages[handle - 1].released = true;
  drop_pages((uint32_t)handle - 1);
  return fake_leave(DT_CU_SUCCESS);
}

static bool set_granules(dt_cu_ptr_t ptr, size_t bytes, unsigned char from, unsigned char to) {
  fake_block_t *block = find(ptr);
  if (!block || !block->live || block->kind != FAKE_RANGE || bytes == 0)
    return false;
  uint64_t offset = ptr - device_address(block);
  if (offset % FAKE_GRANULE || bytes % FAKE_GRANULE || bytes > block->bytes - offset)
    return false;
  for (size_t g = offset / FAKE_GRANULE; g < (offset + bytes) / FAKE_GRANULE; g++)
    if (block->mapped[g] < from || (from == 0 && block->mapped[g]))
      return false;
  for (size_t g = offset / FAKE_GRANULE; g < (offset + bytes) / FAKE_GRANULE; g++)
    block->mapped[g] = to;
  return true;
}

dt_cu_result_t cuMemMap(dt_cu_ptr_t ptr, size_t bytes, size_t offset, dt_cu_mem_t handle,
                        uint64_t flags) {
  FAKE_ENTER(pages_map, FAKE_IN_CONTEXT);
  bool good = !flags && !offset && handle && handle <= MAX_PAGES &&
              pages[handle - 1].bytes == bytes && !pages[handle - 1].released;
  mapping_t *slot = NULL;
  for (uint32_t k = 0; k < MAX_PAGES && !slot; k++)
    slot = mappings[k].begin ? NULL : &mappings[k];
  if (!good || !slot || !set_granules(ptr, bytes, 0, 1))
    return fake_leave(DT_CU_INVALID_VALUE);
  *slot = (mapping_t){.begin = ptr, .bytes = bytes, .pages = (uint32_t)handle - 1};
  pages[handle - 1].mappings++;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuMemUnmap(dt_cu_ptr_t ptr, size_t bytes) {
  FAKE_ENTER(pages_unmap, FAKE_IN_CONTEXT);
  if (!fake_range_idle(ptr, bytes))
    fake_violation("cuMemUnmap: work in flight uses the pages");
  size_t done = 0;
  for (uint32_t k = 0; k < MAX_PAGES; k++) {
    mapping_t *map = &mappings[k];
    if (!map->begin || map->begin < ptr || map->begin + map->bytes > ptr + bytes)
      continue;
    (void)set_granules(map->begin, map->bytes, 1, 0);
    pages[map->pages].mappings--;
    drop_pages(map->pages);
    done += map->bytes;
    *map = (mapping_t){0};
  }
  return fake_leave(done == bytes ? DT_CU_SUCCESS : DT_CU_INVALID_VALUE);
}

dt_cu_result_t cuMemSetAccess(dt_cu_ptr_t ptr, size_t bytes, const dt_cu_access_t *access,
                              size_t count) {
  FAKE_ENTER(pages_access, FAKE_IN_CONTEXT);
  bool good = count == 1 && access->flags == 3 && access->location.type == 1;
  return fake_leave(good && set_granules(ptr, bytes, 1, 2) ? DT_CU_SUCCESS : DT_CU_INVALID_VALUE);
}
