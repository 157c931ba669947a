// SPDX-License-Identifier: Apache-2.0
// See region.h. Huge pages are not asked for: the kernel may stop to compact memory for them, and a
// first touch was measured to take between a quarter of and ten times as long as with small ones.
#include "runtime/base/region.h"

#include "runtime/base/memory.h"
#include "runtime/base/pages.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVE ((size_t)16 << 30) // of addresses; thousands of regions fit a process
#define LINE ((size_t)64)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_RESERVE false // the sanitizers watch heap blocks
#else
#define MAY_RESERVE true
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // since Linux 5.14; earlier C libraries do not name it
#endif
#define PAGE ((size_t)4096)

// Makes pages resident in one go: the call that needs them touches all of them, from several
// threads at once, and a page fault there was measured to cost ten times as much. False: no memory
// for them. Kernels that do not know the request fault them in as they are touched.
static bool populate(char *base, size_t from, size_t to) {
  from = from / PAGE * PAGE;
  to = (to + PAGE - 1) / PAGE * PAGE;
  if (!MAY_RESERVE || to <= from)
    return true;
  return madvise(base + from, to - from, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

bool dt__region_reserve(dt_region_t *region) {
  if (!MAY_RESERVE || region->from || dt__heap_should_fail())
    return false;
  void *base = dt__sys_map(RESERVE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return false;
  *region = (dt_region_t){.base = base, .reserved = RESERVE};
  return true;
}

static bool grow_in_place(dt_region_t *region, size_t bytes) {
  if (bytes > region->reserved || !populate(region->base, region->bytes, bytes))
    return false;
  region->bytes = bytes;
  return true;
}

// Memory for an empty region: a range where one can be reserved, else the heap's.
static bool take(dt_region_t *region, size_t bytes) {
  if (bytes <= RESERVE && dt__region_reserve(region)) {
    if (grow_in_place(region, bytes))
      return true;
    dt__region_free(region);
  }
  size_t rounded = 0;
  if (!dt__add_size(bytes, LINE - 1, &rounded))
    return false;
  rounded = rounded / LINE * LINE;
  region->base =
      region->from ? dt__pages_take(region->from, rounded) : dt__alloc_aligned(rounded, LINE);
  region->bytes = region->base ? rounded : 0;
  return region->base != NULL;
}

bool dt__region_grow(dt_region_t *region, size_t bytes) {
  if (bytes <= region->bytes)
    return true;
  if (bytes <= region->reserved)
    return grow_in_place(region, bytes);
  // The old memory goes first: both need not fit.
  dt__region_free(region);
  return take(region, bytes);
}

bool dt__region_extend(dt_region_t *region, size_t used, size_t bytes) {
  if (bytes <= region->bytes)
    return true;
  if (bytes <= region->reserved)
    return grow_in_place(region, bytes);
  dt_region_t next = {.from = region->from};
  if (!take(&next, bytes))
    return false;
  if (used)
    memcpy(next.base, region->base, used);
  dt__region_free(region);
  *region = next;
  return true;
}

void dt__region_shrink(dt_region_t *region, size_t bytes) {
  bytes = (bytes + PAGE - 1) / PAGE * PAGE;
  if (!region->reserved || bytes >= region->bytes)
    return;
  (void)madvise(region->base + bytes, region->bytes - bytes, MADV_DONTNEED);
  region->bytes = bytes;
}

void dt__region_free(dt_region_t *region) {
  if (region->reserved)
    (void)munmap(region->base, region->reserved);
  else if (region->from)
    dt__pages_give(region->from, region->base, region->bytes);
  else
    dt__free(region->base);
  *region = (dt_region_t){.from = region->from};
}
