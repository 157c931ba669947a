// SPDX-License-Identifier: Apache-2.0
// What is kept in files: numbers in seven bits a byte (LEB128, the shortest form), and strings as
// their length, then their bytes. One description of a thing both writes and reads it: each
// function takes the address of a value, which it writes, or sets to what was read. Once reading
// has failed the stream does nothing, and what would have been read is zero.
#ifndef DT_RUNTIME_BASE_STREAM_H
#define DT_RUNTIME_BASE_STREAM_H

#include "runtime/base/memory.h"
#include "runtime/base/text.h"

#define DT_STREAM_MOST (1u << 20) // entries of any list

// Texts that come more than once: the first time they are written, afterwards their place in the
// list. Writing finds them by their hash.
typedef struct dt_stream_names_t {
  DT_VEC(const char *) items;
  uint32_t *slots; // 1 + the place of a text, by hash; a power of two of them
  uint32_t n_slots;
  dt_arena_t *arena; // of lists, and of what is read; the owner's
} dt_stream_names_t;

typedef struct dt_stream_t {
  dt_text_t *to;             // NULL: it is read
  const unsigned char *from; // what is not read yet
  size_t left;
  dt_arena_t *arena;        // where what is read is made; NULL: the heap, and the reader's
  dt_stream_names_t *names; // for dt__stream_name
  bool failed;              // what is read is not of this form, or there is no memory
} dt_stream_t;

void dt__stream_word(dt_stream_t *s, uint64_t *value);
void dt__stream_number(dt_stream_t *s, uint32_t *value);
void dt__stream_signed(dt_stream_t *s, int64_t *value);
void dt__stream_double(dt_stream_t *s, double *value);
// `n` bytes as they are: of digests.
void dt__stream_raw(dt_stream_t *s, void *bytes, size_t n);
void dt__stream_flag(dt_stream_t *s, bool *value);
// What is read has a zero behind it, which does not count.
void dt__stream_bytes(dt_stream_t *s, void **data, size_t *n);
void dt__stream_text(dt_stream_t *s, const char **text);         // that is read has no zero inside
void dt__stream_text_or_none(dt_stream_t *s, const char **text); // NULL is written as such
// A text that may come again, or NULL; it lives as long as the names.
void dt__stream_name(dt_stream_t *s, const char **name);
// The length of a list. Returns `items`, or when reading room for zeroed elements of `size` bytes.
void *dt__stream_list(dt_stream_t *s, uint32_t *n, const void *items, size_t size);
// A number below `end`, as an enumeration's.
uint32_t dt__stream_below(dt_stream_t *s, uint32_t value, uint64_t end);
// Whether all of it was read.
static inline bool dt__stream_is_done(const dt_stream_t *s) { return !s->failed && s->left == 0; }

#endif // DT_RUNTIME_BASE_STREAM_H
