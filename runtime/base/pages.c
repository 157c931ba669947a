// SPDX-License-Identifier: Apache-2.0
// See pages.h.
#include "runtime/base/pages.h"

#include "runtime/base/memory.h"
#include "runtime/base/system.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE ((size_t)64)
#define LEAST ((size_t)64 << 10) // smaller pieces would leave too much of their last page unused

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAPPED(bytes) false // the sanitizers watch heap blocks
#else
#define MAPPED(bytes) ((bytes) >= LEAST)
#endif

// No bytes are one, since the host is never asked for none.
static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

void *dt__pages_take(const dt_allocator_t *from, size_t bytes) {
  if (from)
    return dt__heap_should_fail() ? NULL : from->take(from->user, at_least_one(bytes), LINE);
  if (!MAPPED(bytes))
    return dt__alloc_aligned(bytes, LINE);
  if (dt__heap_should_fail())
    return NULL;
  void *memory = dt__sys_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void dt__pages_give(const dt_allocator_t *from, void *memory, size_t bytes) {
  if (memory && from)
    from->give(from->user, memory, at_least_one(bytes));
  else if (memory && MAPPED(bytes))
    (void)munmap(memory, bytes);
  else
    dt__free(memory);
}

void dt__pages_drop(const void *from, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)from + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)from + bytes) / page * page;
  if (begin < end)
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}
