// SPDX-License-Identifier: Apache-2.0
// See region.h. Huge pages are not asked for: the kernel may stop to compact memory for them, and a
// first touch was measured to take between a quarter of and ten times as long as with small ones.
#include "runtime/base/region.h"

#include "runtime/base/memory.h"

#include <sys/mman.h>

#define RESERVE ((size_t)16 << 30) // of addresses; thousands of regions fit a process
#define LINE ((size_t)64)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_RESERVE false // the sanitizers watch heap blocks
#else
#define MAY_RESERVE true
#endif

static bool reserve(dt_region_t *region, size_t bytes) {
  if (!MAY_RESERVE || bytes > RESERVE || dt__heap_should_fail())
    return false;
  void *base = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return false;
  *region = (dt_region_t){.base = base, .bytes = bytes, .reserved = RESERVE};
  return true;
}

bool dt__region_grow(dt_region_t *region, size_t bytes) {
  if (bytes <= region->bytes)
    return true;
  if (bytes <= region->reserved) {
    region->bytes = bytes;
    return true;
  }
  // The old memory goes first: both need not fit.
  dt__region_free(region);
  if (reserve(region, bytes))
    return true;
  size_t rounded = 0;
  if (!dt__add_size(bytes, LINE - 1, &rounded))
    return false;
  rounded = rounded / LINE * LINE;
  region->base = dt__alloc_aligned(rounded, LINE);
  region->bytes = region->base ? rounded : 0;
  return region->base != NULL;
}

void dt__region_free(dt_region_t *region) {
  if (region->reserved)
    (void)munmap(region->base, region->reserved);
  else
    dt__free(region->base);
  *region = (dt_region_t){0};
}
