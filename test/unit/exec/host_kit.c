// SPDX-License-Identifier: Apache-2.0
// See host_kit.h.
#include "test/unit/exec/host_kit.h"

#include <stdlib.h>
#include <string.h>

#define OFFSET ((size_t)64)
#define UNIT ((size_t)128)

_Thread_local bool host_is_asked;

void *host_take(void *opaque, size_t bytes, size_t alignment) {
  host_heap_t *heap = opaque;
  char *memory = NULL;
  host_is_asked = true;
  (void)pthread_mutex_lock(&heap->mutex);
  heap->taken++;
  if (bytes == 0 || alignment > OFFSET)
    abort();
  if (heap->n < HOST_BLOCKS && !(heap->fails_at && heap->taken >= heap->fails_at))
    memory = aligned_alloc(UNIT, (bytes + OFFSET + UNIT - 1) / UNIT * UNIT);
  if (memory) {
    memset(memory, 0x5A, bytes + OFFSET);
    heap->blocks[heap->n++] = (host_block_t){memory + OFFSET, bytes};
    heap->bytes += bytes;
  }
  (void)pthread_mutex_unlock(&heap->mutex);
  host_is_asked = false;
  return memory ? memory + OFFSET : NULL;
}

void host_give(void *opaque, void *memory, size_t bytes) {
  host_heap_t *heap = opaque;
  host_is_asked = true;
  (void)pthread_mutex_lock(&heap->mutex);
  size_t k = 0;
  while (k < heap->n && heap->blocks[k].memory != memory)
    k++;
  if (k == heap->n || heap->blocks[k].bytes != bytes)
    abort();
  heap->blocks[k] = heap->blocks[--heap->n];
  heap->bytes -= bytes;
  (void)pthread_mutex_unlock(&heap->mutex);
  free((char *)memory - OFFSET);
  host_is_asked = false;
}

bool host_has(host_heap_t *heap, const void *memory) {
  bool found = false;
  (void)pthread_mutex_lock(&heap->mutex);
  for (size_t k = 0; k < heap->n; k++)
    found = found || heap->blocks[k].memory == memory;
  (void)pthread_mutex_unlock(&heap->mutex);
  return found;
}

typedef struct part_t {
  dt_part_fn_t fn;
  void *arg;
  uint32_t part;
  pthread_t thread;
} part_t;

static void *run_part(void *opaque) {
  part_t *own = opaque;
  own->fn(own->arg, own->part);
  return NULL;
}

void host_apart(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user;
  part_t parts[HOST_WIDTH];
  if (n > HOST_WIDTH)
    abort();
  for (uint32_t k = 0; k < n; k++) {
    parts[k] = (part_t){fn, arg, k, 0};
    if (k && pthread_create(&parts[k].thread, NULL, run_part, &parts[k]) != 0)
      abort();
  }
  fn(arg, 0);
  for (uint32_t k = 1; k < n; k++)
    (void)pthread_join(parts[k].thread, NULL);
}
