// SPDX-License-Identifier: Apache-2.0
// A host's memory and threads, for tests of dt_allocator_t and dt_executor_t.
#ifndef DT_TESTS_UNIT_EXEC_HOST_KIT_H
#define DT_TESTS_UNIT_EXEC_HOST_KIT_H

#include "ductile/runtime.h"

#include <pthread.h>

// ---- Memory -------------------------------------------------------------------------------------

enum { HOST_BLOCKS = 4096 }; // that there may be at one time

typedef struct host_block_t {
  char *memory;
  size_t bytes;
} host_block_t;

// Blocks that begin at odd multiples of 64, filled with 0x5A. Valid when zeroed, but for `mutex`,
// which guards all of it. It ends the process if it is asked for no bytes, or for an alignment
// beyond 64, or given back what it has not given.
typedef struct host_heap_t {
  pthread_mutex_t mutex;
  host_block_t blocks[HOST_BLOCKS];
  size_t n, bytes, taken; // blocks and bytes now; blocks ever
  size_t fails_at;        // this one of `taken`, and all behind it; 0: none
} host_heap_t;

void *host_take(void *heap, size_t bytes, size_t alignment);
void host_give(void *heap, void *memory, size_t bytes);
// Whether a block begins at `memory`. [any]
bool host_has(host_heap_t *heap, const void *memory);

// Whether the calling thread is in host_take or host_give.
extern _Thread_local bool host_is_asked;

// ---- Threads ------------------------------------------------------------------------------------

enum { HOST_WIDTH = 4 }; // parts that host_apart runs at most

// Each part but the first on a thread of its own.
void host_apart(void *user, uint32_t n, dt_part_fn_t fn, void *arg);

#endif // DT_TESTS_UNIT_EXEC_HOST_KIT_H
