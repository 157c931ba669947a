// SPDX-License-Identifier: Apache-2.0
// Heap, checked size arithmetic and arenas.
//
// The heap is jemalloc where the build has it (private and prefixed, or the system's), malloc in
// sanitizer builds. What LLVM allocates is the C library's in any case.
// Tests make the n-th allocation fail with dt__heap_fail_at.
#ifndef DT_RUNTIME_BASE_MEMORY_H
#define DT_RUNTIME_BASE_MEMORY_H

#include "ductile/base.h"

// ---- Heap (thread-safe) ------------------------------------------------------------------------
// All return NULL without memory. Zero bytes give a valid unique pointer.
void *dt__alloc(size_t bytes);
void *dt__calloc(size_t count, size_t bytes);            // checked product, zeroed
void *dt__alloc_aligned(size_t bytes, size_t alignment); // alignment: a power of two
void *dt__realloc(void *ptr, size_t bytes);              // NULL leaves `ptr` as it was
char *dt__strdup(const char *text);
void dt__free(void *ptr); // NULL allowed; frees aligned ones too

// Gives pages that hold nothing back to the system. Costs a look at all of the heap: for moments
// when much was released.
void dt__heap_trim(void);
// Bytes allocated, by jemalloc's own count; 0: the heap is the C library's.
uint64_t dt__heap_bytes(void);

// Fault injection for tests: the n-th allocation from now (1 = next) fails, once or from then on;
// n = 0 switches it off. Returns how many allocations were counted since the last call; they are
// counted while it is on only (n = UINT64_MAX counts and fails none).
uint64_t dt__heap_fail_at(uint64_t n, bool sticky);
// Counts one allocation that is not the heap's own (a mapping); true when it is the one to fail.
bool dt__heap_should_fail(void);

// ---- Checked sizes: false on overflow, *out untouched --------------------------------------------
static inline bool dt__mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool dt__add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool dt__mul_size(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool dt__add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

// ---- Arena: bump allocation, freed as a whole (externally synchronised) --------------------------
typedef struct dt_arena_block dt_arena_block_t;
typedef struct dt_arena_t {
  dt_arena_block_t *head; // newest block; owner of the chain
  char *at, *end;         // free part of the newest block
  size_t block_bytes;     // size of the next ordinary block
  size_t total_bytes;     // bytes taken from the heap
  // Counts blocks and may refuse them; NULL: none. Outlives the arena, or is taken out.
  struct dt_watch_t *watch;
} dt_arena_t;

void dt__arena_init(dt_arena_t *arena, size_t block_bytes); // 0: 64 KiB
// As dt__arena_init of the default size, under the watch of `of`: what a pass throws away early.
void dt__arena_init_like(dt_arena_t *arena, const dt_arena_t *of);
void dt__arena_fini(dt_arena_t *arena);                 // frees everything; may be init'ed again
void *dt__arena_alloc(dt_arena_t *arena, size_t bytes); // 16-aligned, zeroed; NULL: no memory
void *dt__arena_copy(dt_arena_t *arena, const void *from, size_t bytes); // NULL: no memory
char *dt__arena_strdup(dt_arena_t *arena, const char *text);
char *dt__arena_printf(dt_arena_t *arena, const char *fmt, ...) DT_PRINTF(2, 3);
// Grows an array to hold `need` items (amortised doubling, items moved); false: no memory.
bool dt__arena_grow(dt_arena_t *arena, void **items, uint32_t *cap, uint32_t need, size_t item);

#define DT_ARENA_NEW(arena, type) ((type *)dt__arena_alloc((arena), sizeof(type)))
#define DT_ARENA_ARRAY(arena, type, n)                                                             \
  ((type *)dt__arena_alloc((arena), (size_t)(n) * sizeof(type)))

// A growable array in an arena: `DT_VEC(int64_t) sizes = {0};`
#define DT_VEC(type)                                                                               \
  struct {                                                                                         \
    type *items;                                                                                   \
    uint32_t len, cap;                                                                             \
  }
// Room for one more at vec->items[vec->len]; false: no memory.
#define DT_VEC_RESERVE(arena, vec)                                                                 \
  ((vec)->len < (vec)->cap || dt__arena_grow((arena), (void **)&(vec)->items, &(vec)->cap,         \
                                             (vec)->len + 1, sizeof(*(vec)->items)))
// Appends; false: no memory.
#define DT_VEC_PUSH(arena, vec, value)                                                             \
  (DT_VEC_RESERVE(arena, vec) && ((vec)->items[(vec)->len++] = (value), true))
// Puts the items into `arena`, where another arena had them; false: no memory.
#define DT_VEC_COPY(arena, vec)                                                                    \
  ((vec)->cap = (vec)->len,                                                                        \
   ((vec)->items = dt__arena_copy((arena), (vec)->items, (vec)->len * sizeof(*(vec)->items))) !=   \
       NULL)

#endif // DT_RUNTIME_BASE_MEMORY_H
