// SPDX-License-Identifier: Apache-2.0
// Memory of one question of onnxruntime's, and bytes that grow.
#include "onnxruntime/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// ---- Arenas -----------------------------------------------------------------------------------------
struct ep_block_t {
  ep_block_t *next;
  size_t used, room;
  max_align_t data[];
};
#define BLOCK_BYTES ((size_t)16 << 10)

void *ep_take(ep_arena_t *arena, size_t count, size_t bytes) {
  const size_t unit = sizeof(max_align_t);
  if (bytes > 0 && count > (SIZE_MAX / 4) / bytes)
    return NULL;
  size_t want = (count * bytes + unit) / unit * unit; // never 0
  ep_block_t *block = arena->blocks;
  if (!block || block->room - block->used < want) {
    size_t room = want > BLOCK_BYTES ? want : BLOCK_BYTES;
    block = calloc(1, sizeof(*block) + room);
    if (!block)
      return NULL;
    block->room = room;
    block->next = arena->blocks;
    arena->blocks = block;
  }
  void *taken = (unsigned char *)block->data + block->used;
  block->used += want;
  return taken;
}

void ep_drop(ep_arena_t *arena) {
  while (arena->blocks) {
    ep_block_t *block = arena->blocks;
    arena->blocks = block->next;
    free(block);
  }
}

// ---- Bytes ------------------------------------------------------------------------------------------
void ep_put(ep_bytes_t *bytes, const void *data, size_t len) {
  if (!bytes->failed && bytes->room - bytes->len < len) {
    size_t room = 2 * bytes->room + len + 256;
    unsigned char *grown = realloc(bytes->data, room);
    bytes->failed = !grown;
    if (grown) {
      bytes->data = grown;
      bytes->room = room;
    }
  }
  if (bytes->failed || len == 0)
    return;
  memcpy(bytes->data + bytes->len, data, len);
  bytes->len += len;
}

void ep_printf(ep_bytes_t *bytes, const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  int len = vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  if (len > 0)
    ep_put(bytes, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

const char *ep_text(ep_bytes_t *bytes) {
  ep_put(bytes, "", 1);
  if (bytes->failed)
    return "out of memory";
  bytes->len--;
  return (const char *)bytes->data;
}

void ep_free(ep_bytes_t *bytes) {
  free(bytes->data);
  *bytes = (ep_bytes_t){0};
}
