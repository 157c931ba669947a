// SPDX-License-Identifier: Apache-2.0
// See stream.h.
#include "runtime/base/stream.h"

#include "runtime/base/hash.h"

#include <string.h>

static void *make(const dt_stream_t *s, size_t n, size_t size) {
  if (!s->arena)
    return dt__calloc(n ? n : 1, size);
  return size && n > (SIZE_MAX - 1) / size ? NULL : dt__arena_alloc(s->arena, n * size + 1);
}

static void write_word(dt_text_t *to, uint64_t value) {
  char out[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7)
    out[n++] = (char)(0x80 | (value & 0x7f));
  out[n++] = (char)value;
  dt__text_write(to, out, n);
}

// False: it ends too early, or is no number of 64 bits in its shortest form.
static bool read_word(dt_stream_t *s, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && s->left; shift += 7) {
    uint64_t byte = *s->from++;
    s->left--;
    if (shift == 63 && byte > 1)
      return false;
    *value |= (byte & 0x7f) << shift;
    if (byte < 0x80)
      return byte != 0 || shift == 0;
  }
  return false;
}

void dt__stream_word(dt_stream_t *s, uint64_t *value) {
  if (s->to)
    write_word(s->to, *value);
  else if (s->failed || !read_word(s, value))
    s->failed = true;
  if (!s->to && s->failed)
    *value = 0;
}

void dt__stream_number(dt_stream_t *s, uint32_t *value) {
  *value = dt__stream_below(s, *value, (uint64_t)UINT32_MAX + 1);
}

uint32_t dt__stream_below(dt_stream_t *s, uint32_t value, uint64_t end) {
  uint64_t wide = value;
  dt__stream_word(s, &wide);
  if (s->to || wide < end)
    return (uint32_t)wide;
  s->failed = true;
  return 0;
}

void dt__stream_signed(dt_stream_t *s, int64_t *value) {
  uint64_t bits = (uint64_t)*value << 1 ^ (uint64_t)(*value >> 63); // small ones are short
  dt__stream_word(s, &bits);
  *value = (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
}

// Its high bits are those that differ, of most numbers.
void dt__stream_double(dt_stream_t *s, double *value) {
  uint64_t bits = 0;
  memcpy(&bits, value, sizeof(bits));
  bits = __builtin_bswap64(bits);
  dt__stream_word(s, &bits);
  bits = __builtin_bswap64(bits);
  memcpy(value, &bits, sizeof(bits));
}

void dt__stream_raw(dt_stream_t *s, void *bytes, size_t n) {
  if (s->to) {
    dt__text_write(s->to, bytes, n);
    return;
  }
  s->failed = s->failed || n > s->left;
  if (s->failed) {
    memset(bytes, 0, n);
    return;
  }
  memcpy(bytes, s->from, n);
  s->from += n;
  s->left -= n;
}

void dt__stream_flag(dt_stream_t *s, bool *value) { *value = dt__stream_below(s, *value, 2) != 0; }

void dt__stream_bytes(dt_stream_t *s, void **data, size_t *n) {
  uint64_t length = *n;
  dt__stream_word(s, &length);
  if (s->to) {
    dt__text_write(s->to, *data, *n);
    return;
  }
  s->failed = s->failed || length > s->left;
  *n = 0;
  *data = s->failed ? NULL : make(s, (size_t)length + 1, 1);
  s->failed |= !*data;
  if (s->failed)
    return;
  memcpy(*data, s->from, (size_t)length);
  *n = (size_t)length;
  s->from += length;
  s->left -= (size_t)length;
}

void dt__stream_text(dt_stream_t *s, const char **text) {
  void *data = (void *)(uintptr_t)*text;
  size_t n = s->to ? strlen(*text) : 0;
  dt__stream_bytes(s, &data, &n);
  s->failed = s->failed || (!s->to && memchr(data, 0, n));
  *text = data;
}

void dt__stream_text_or_none(dt_stream_t *s, const char **text) {
  bool some = s->to && *text;
  dt__stream_flag(s, &some);
  if (!some)
    *text = NULL;
  else
    dt__stream_text(s, text);
}

// ---- Names ----------------------------------------------------------------------------------------

// The slot of `name`, which is empty where it is not among them.
static uint32_t *slot_of(const dt_stream_names_t *names, const char *name) {
  uint32_t at = (uint32_t)dt__hash(name, strlen(name), 0) & (names->n_slots - 1);
  while (names->slots[at] && strcmp(names->items.items[names->slots[at] - 1], name) != 0)
    at = (at + 1) & (names->n_slots - 1);
  return &names->slots[at];
}

static bool grow(dt_stream_names_t *names) {
  if (2 * (names->items.len + 1) < names->n_slots)
    return true;
  uint32_t n = names->n_slots ? 2 * names->n_slots : 64;
  uint32_t *slots = DT_ARENA_ARRAY(names->arena, uint32_t, n);
  if (!slots)
    return false;
  names->slots = slots;
  names->n_slots = n;
  for (uint32_t k = 0; k < names->items.len; k++)
    *slot_of(names, names->items.items[k]) = k + 1;
  return true;
}

// 0: none; else 1 + its place. One behind the last: it follows.
static void write_name(dt_stream_t *s, const char *name) {
  dt_stream_names_t *names = s->names;
  uint32_t *slot = NULL, place = 0;
  if (name && !grow(names)) {
    s->to->failed = true;
    return;
  }
  if (name) {
    slot = slot_of(names, name);
    place = *slot ? *slot : names->items.len + 1;
  }
  dt__stream_number(s, &place);
  if (!slot || *slot)
    return;
  *slot = place;
  dt__stream_text(s, &name);
  if (!DT_VEC_PUSH(names->arena, &names->items, name))
    s->to->failed = true;
}

void dt__stream_name(dt_stream_t *s, const char **name) {
  if (s->to) {
    write_name(s, *name);
    return;
  }
  dt_stream_names_t *names = s->names;
  dt_arena_t *arena = s->arena;
  uint32_t place = dt__stream_below(s, 0, (uint64_t)names->items.len + 2);
  *name = NULL;
  if (!place)
    return;
  if (place <= names->items.len) {
    *name = names->items.items[place - 1];
    return;
  }
  s->arena = names->arena;
  dt__stream_text(s, name);
  s->arena = arena;
  s->failed = s->failed || !DT_VEC_PUSH(names->arena, &names->items, *name);
}

// ---- Lists ----------------------------------------------------------------------------------------

void *dt__stream_list(dt_stream_t *s, uint32_t *n, const void *items, size_t size) {
  *n = dt__stream_below(s, *n, DT_STREAM_MOST + 1);
  if (s->to)
    return (void *)(uintptr_t)items;
  // An element has a byte at least, so that a short file asks for no large room.
  void *made = s->failed || *n > s->left ? NULL : make(s, *n, size);
  s->failed |= !made;
  *n = made ? *n : 0;
  return made;
}
