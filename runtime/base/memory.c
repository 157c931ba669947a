// SPDX-License-Identifier: Apache-2.0
// The heap: a private jemalloc where the build has one, else the process's, behind one set of
// functions, with the fault injection that the out-of-memory tests use. Arenas stand in arena.c.
#include "runtime/base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef DUCTILE_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif
#ifdef DUCTILE_JEMALLOC_SYSTEM // the process may have it, or not
#pragma weak mallctl
#endif
#ifdef DUCTILE_JEMALLOC_PREFIXED
#define HEAP(fn) dtje_##fn
#else
#define HEAP(fn) fn
#endif

// Fault injection. `fail_at` is the number of the allocation that fails, 0 when off; `counted`
// counts allocations while it is on, so that a serving process pays one relaxed load.
static _Atomic uint64_t fail_at;
static _Atomic bool fail_sticky;
static _Atomic uint64_t counted;

static bool injected_failure(void) {
  uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
  if (__builtin_expect(at == 0, 1))
    return false;
  uint64_t number = atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed) + 1;
  return number == at || (number > at && atomic_load_explicit(&fail_sticky, memory_order_relaxed));
}

bool dt__heap_should_fail(void) { return injected_failure(); }

uint64_t dt__heap_fail_at(uint64_t n, bool sticky) {
  atomic_store_explicit(&fail_at, 0, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&counted, 0, memory_order_relaxed);
  atomic_store_explicit(&fail_sticky, sticky, memory_order_relaxed);
  atomic_store_explicit(&fail_at, n, memory_order_relaxed);
  return before;
}

void *dt__alloc(size_t bytes) {
  if (injected_failure())
    return NULL;
  return HEAP(malloc)(bytes ? bytes : 1);
}

void *dt__calloc(size_t count, size_t bytes) {
  size_t total = 0;
  if (!dt__mul_size(count, bytes, &total) || injected_failure())
    return NULL;
  return HEAP(calloc)(1, total ? total : 1);
}

void *dt__alloc_aligned(size_t bytes, size_t alignment) {
  if (injected_failure())
    return NULL;
  void *ptr = NULL;
  size_t at_least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  return HEAP(posix_memalign)(&ptr, at_least, bytes ? bytes : 1) == 0 ? ptr : NULL;
}

void *dt__realloc(void *ptr, size_t bytes) {
  if (injected_failure())
    return NULL;
  return HEAP(realloc)(ptr, bytes ? bytes : 1);
}

char *dt__strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = dt__alloc(bytes);
  if (copy)
    memcpy(copy, text, bytes);
  return copy;
}

void dt__free(void *ptr) { HEAP(free)(ptr); }

// ---- jemalloc ---------------------------------------------------------------------------------------

#ifdef DUCTILE_JEMALLOC
#define TEXT_OF(number) #number
#define ARENA(number) "arena." TEXT_OF(number)
#define ALL_ARENAS ARENA(MALLCTL_ARENAS_ALL)

#ifdef DUCTILE_JEMALLOC_SYSTEM
static bool has_jemalloc(void) { return mallctl != NULL; }
#else
static bool has_jemalloc(void) { return true; }
#endif

// Without a background thread, which a library should not start for its heap alone, jemalloc gives
// pages back when it is asked for others; a process that has released a model may never ask again.
void dt__heap_trim(void) {
  if (!has_jemalloc())
    return;
  (void)HEAP(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0);
  (void)HEAP(mallctl)(ALL_ARENAS ".purge", NULL, NULL, NULL, 0);
}

uint64_t dt__heap_bytes(void) {
  uint64_t epoch = 1;
  size_t bytes = 0, size = sizeof(bytes);
  if (!has_jemalloc())
    return 0;
  (void)HEAP(mallctl)("epoch", NULL, NULL, &epoch, sizeof(epoch));
  return HEAP(mallctl)("stats.allocated", &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}
#else
void dt__heap_trim(void) {}
uint64_t dt__heap_bytes(void) { return 0; }
#endif
