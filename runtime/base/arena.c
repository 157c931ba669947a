// SPDX-License-Identifier: Apache-2.0
// Arenas: a chain of heap blocks, the newest of which is bumped. Declared in memory.h.
//
// Ordinary blocks double up to a cap. A request that would waste most of a fresh block gets a block
// of its own, linked behind the newest, so that the newest goes on being filled. Under the address
// sanitizer everything not handed out is poisoned, and each allocation is followed by a gap that
// stays so.
#include "runtime/base/memory.h"

#include "runtime/base/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(ptr, bytes) ASAN_POISON_MEMORY_REGION((ptr), (bytes))
#define UNPOISON(ptr, bytes) ASAN_UNPOISON_MEMORY_REGION((ptr), (bytes))
#define GAP 16
#else
#define POISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#define UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#define GAP 0
#endif

#define ALIGNMENT 16
#define DEFAULT_BLOCK ((size_t)64 << 10)
#define LARGEST_BLOCK ((size_t)4 << 20)

struct dt_arena_block {
  dt_arena_block_t *next; // older
  size_t bytes;           // of the payload
};
// The payload follows the head and is aligned as malloc's result is.
_Static_assert(sizeof(dt_arena_block_t) % ALIGNMENT == 0, "payloads stay aligned");

static char *payload(dt_arena_block_t *block) { return (char *)(block + 1); }

void dt__arena_init(dt_arena_t *arena, size_t block_bytes) {
  *arena = (dt_arena_t){.block_bytes = block_bytes ? block_bytes : DEFAULT_BLOCK};
}

void dt__arena_init_like(dt_arena_t *arena, const dt_arena_t *of) {
  dt__arena_init(arena, 0);
  arena->watch = of->watch;
}

void dt__arena_fini(dt_arena_t *arena) {
  dt__watch_give(arena->watch, arena->total_bytes);
  dt_arena_block_t *block = arena->head;
  while (block) {
    dt_arena_block_t *next = block->next;
    UNPOISON(payload(block), block->bytes);
    dt__free(block);
    block = next;
  }
  *arena = (dt_arena_t){.block_bytes = DEFAULT_BLOCK, .watch = arena->watch};
}

static dt_arena_block_t *block_new(dt_arena_t *arena, size_t bytes) {
  size_t total = 0;
  if (!dt__add_size(bytes, sizeof(dt_arena_block_t), &total))
    return NULL;
  if (!dt__watch_take(arena->watch, total))
    return NULL;
  dt_arena_block_t *block = dt__alloc(total);
  if (!block) {
    dt__watch_give(arena->watch, total);
    return NULL;
  }
  *block = (dt_arena_block_t){.next = NULL, .bytes = bytes};
  POISON(payload(block), bytes);
  arena->total_bytes += total;
  return block;
}

// Finds room for `room` bytes outside the newest block's free part.
static char *room_elsewhere(dt_arena_t *arena, size_t room) {
  if (arena->block_bytes == 0)
    arena->block_bytes = DEFAULT_BLOCK; // a zeroed arena is a valid one
  if (arena->head && room > arena->block_bytes / 4) {
    dt_arena_block_t *own = block_new(arena, room);
    if (!own)
      return NULL;
    own->next = arena->head->next;
    arena->head->next = own;
    return payload(own);
  }
  dt_arena_block_t *block = block_new(arena, room > arena->block_bytes ? room : arena->block_bytes);
  if (!block)
    return NULL;
  block->next = arena->head;
  arena->head = block;
  arena->at = payload(block) + room;
  arena->end = payload(block) + block->bytes;
  if (arena->block_bytes < LARGEST_BLOCK)
    arena->block_bytes *= 2;
  return payload(block);
}

void *dt__arena_alloc(dt_arena_t *arena, size_t bytes) {
  size_t room = 0;
  if (!dt__add_size(bytes ? bytes : 1, ALIGNMENT - 1 + GAP, &room))
    return NULL;
  room &= ~(size_t)(ALIGNMENT - 1);
  char *ptr = NULL;
  if (arena->at && room <= (size_t)(arena->end - arena->at)) {
    ptr = arena->at;
    arena->at += room;
  } else {
    ptr = room_elsewhere(arena, room);
    if (!ptr)
      return NULL;
  }
  UNPOISON(ptr, bytes);
  memset(ptr, 0, bytes);
  return ptr;
}

void *dt__arena_copy(dt_arena_t *arena, const void *from, size_t bytes) {
  void *copy = dt__arena_alloc(arena, bytes);
  if (copy && bytes)
    memcpy(copy, from, bytes);
  return copy;
}

char *dt__arena_strdup(dt_arena_t *arena, const char *text) {
  return dt__arena_copy(arena, text, strlen(text) + 1);
}

char *dt__arena_printf(dt_arena_t *arena, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (len < 0)
    return NULL;
  char *text = dt__arena_alloc(arena, (size_t)len + 1);
  if (!text)
    return NULL;
  va_start(args, fmt);
  (void)vsnprintf(text, (size_t)len + 1, fmt, args);
  va_end(args);
  return text;
}

// The array is what was allocated last, and the block has room for it to grow to `bytes` where it
// is.
static bool grow_in_place(dt_arena_t *arena, char *items, size_t old, size_t bytes) {
  size_t before = (old + ALIGNMENT - 1 + GAP) & ~(size_t)(ALIGNMENT - 1), after = 0;
  if (old == 0 || items + before != arena->at || !dt__add_size(bytes, ALIGNMENT - 1 + GAP, &after))
    return false;
  after &= ~(size_t)(ALIGNMENT - 1);
  if (after > (size_t)(arena->end - items))
    return false;
  arena->at = items + after;
  UNPOISON(items, bytes);
  memset(items + old, 0, bytes - old);
  return true;
}

bool dt__arena_grow(dt_arena_t *arena, void **items, uint32_t *cap, uint32_t need, size_t item) {
  if (need <= *cap)
    return true;
  uint32_t doubled = *cap > UINT32_MAX / 2 ? UINT32_MAX : *cap * 2;
  uint32_t larger = doubled < 8 ? 8 : doubled;
  if (larger < need)
    larger = need;
  size_t bytes = 0;
  if (!dt__mul_size(larger, item, &bytes))
    return false;
  if (grow_in_place(arena, *items, (size_t)*cap * item, bytes)) {
    *cap = larger;
    return true;
  }
  void *moved = dt__arena_alloc(arena, bytes);
  if (!moved)
    return false;
  if (*cap)
    memcpy(moved, *items, (size_t)*cap * item);
  *items = moved;
  *cap = larger;
  return true;
}
