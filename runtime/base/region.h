// SPDX-License-Identifier: Apache-2.0
// Memory that grows in place: a reserved range of addresses whose pages become resident when they
// are first touched. Growing costs the new pages only, where a fresh allocation would fault in all
// of them again. Where ranges cannot be reserved (address-space limits, sanitizers) it is the
// heap's.
#ifndef DT_RUNTIME_BASE_REGION_H
#define DT_RUNTIME_BASE_REGION_H

#include "ductile/runtime.h"

// Valid when zeroed (empty). Externally synchronised.
typedef struct dt_region_t {
  const dt_allocator_t *from; // where its memory is the host's: nothing is reserved; or NULL
  char *base;                 // 64-byte aligned; NULL when empty
  size_t bytes;               // usable
  size_t reserved;            // bytes of the reserved range; 0: the heap's
} dt_region_t;

// Makes at least `bytes` usable. Contents are kept while the base stays; on the heap they are lost.
// False: no memory; the region is then empty or as it was.
bool dt__region_grow(dt_region_t *region, size_t bytes);
// As dt__region_grow, and the first `used` bytes are kept wherever the base goes. False: the region
// is as it was.
bool dt__region_extend(dt_region_t *region, size_t used, size_t bytes);
// Reserves the range of an empty region, with nothing usable yet. False: ranges cannot be reserved.
bool dt__region_reserve(dt_region_t *region);
// Gives pages behind the first `bytes` back to the system; where ranges cannot be reserved it
// stays.
void dt__region_shrink(dt_region_t *region, size_t bytes);
void dt__region_free(dt_region_t *region); // leaves it empty, of the same memory

#endif // DT_RUNTIME_BASE_REGION_H
