// SPDX-License-Identifier: Apache-2.0
// Models as trees of fields.
#include "test/fuzz/onnx_tree.h"

#include "frontends/onnx/wire.h"

#include <string.h>

// Messages deeper than this stay bytes.
#define MOST_DEPTH 64u
// Of a packed field, more elements than this stay bytes.
#define MOST_UNPACKED 256u

void *onnx_tree_room(onnx_tree_t *tree, size_t bytes) {
  size_t rounded = (bytes + 15) & ~(size_t)15;
  if (rounded < bytes || rounded > tree->size - tree->used)
    return NULL;
  void *found = tree->room + tree->used;
  tree->used += rounded;
  memset(found, 0, rounded);
  return found;
}

// ---- Reading --------------------------------------------------------------------------------------
static bool read_items(onnx_tree_t *tree, onnx_item_t *parent, dt_wire_t wire, bool unpack,
                       uint32_t depth);

static onnx_item_t *add(onnx_tree_t *tree, onnx_item_t *parent, const dt_onnx_field_t *field,
                        uint32_t number, uint32_t type) {
  onnx_item_t *item = onnx_tree_room(tree, sizeof *item);
  if (!item)
    return NULL;
  item->field = field;
  item->number = number;
  item->type = type;
  onnx_item_append(parent, item);
  return item;
}

// Replaces the items after `last` (all, if NULL) by nothing.
static void cut_after(onnx_item_t *parent, onnx_item_t *last) {
  if (last)
    last->next = NULL;
  else
    parent->first = NULL;
}

static onnx_item_t *last_of(const onnx_item_t *parent) {
  onnx_item_t *last = parent->first;
  while (last && last->next)
    last = last->next;
  return last;
}

static bool read_packed(onnx_tree_t *tree, onnx_item_t *parent, const dt_onnx_field_t *field,
                        dt_wire_t body) {
  uint32_t type = dt__onnx_wire_type(field->kind), n = 0;
  onnx_item_t *last = last_of(parent);
  bool whole = true;
  while (whole && body.at < body.end) {
    uint64_t value = 0;
    onnx_item_t *item = NULL;
    whole = n++ < MOST_UNPACKED && dt__wire_element(&body, type, &value) &&
            (item = add(tree, parent, field, field->number, type));
    if (item)
      item->value = value;
  }
  if (!whole)
    cut_after(parent, last);
  return whole;
}

static bool read_item(onnx_tree_t *tree, onnx_item_t *parent, const dt_wire_field_t *from,
                      bool unpack, uint32_t depth) {
  const dt_onnx_field_t *field = dt__onnx_field(parent->message, from->number);
  if (field && unpack && from->type == DT_WIRE_BYTES && dt__onnx_is_packable(field->kind) &&
      read_packed(tree, parent, field, from->body))
    return true;
  onnx_item_t *item = add(tree, parent, field, from->number, from->type);
  if (!item)
    return false;
  item->value = from->value;
  item->bytes = from->body.at;
  item->len = (size_t)(from->body.end - from->body.at);
  if (!field || !field->sub || from->type != DT_WIRE_BYTES || depth >= MOST_DEPTH)
    return true;
  item->message = field->sub;
  if (!read_items(tree, item, from->body, unpack, depth + 1)) {
    item->message = NULL;
    item->first = NULL;
  }
  return true;
}

static bool read_items(onnx_tree_t *tree, onnx_item_t *parent, dt_wire_t wire, bool unpack,
                       uint32_t depth) {
  while (wire.at < wire.end) {
    dt_wire_field_t field;
    if (dt__wire_next(&wire, &field) || !read_item(tree, parent, &field, unpack, depth))
      return false;
  }
  return true;
}

bool onnx_tree_read(onnx_tree_t *tree, const uint8_t *data, size_t size, bool unpack) {
  tree->used = 0;
  tree->root = onnx_tree_room(tree, sizeof *tree->root);
  if (!tree->root)
    return false;
  tree->root->message = &dt__onnx_model_message;
  return read_items(tree, tree->root, (dt_wire_t){data, data + size}, unpack, 0) &&
         tree->root->first;
}

// ---- Writing --------------------------------------------------------------------------------------
typedef struct writer_t {
  uint8_t *out; // NULL: only counts
  size_t used, most;
} writer_t;

static void put(writer_t *to, const void *from, size_t bytes) {
  bool room = to->used <= to->most && bytes <= to->most - to->used;
  if (to->out && room && bytes > 0)
    memcpy(to->out + to->used, from, bytes);
  to->used += bytes;
}

static void put_fixed(writer_t *to, uint64_t value, size_t bytes) {
  uint8_t little[8];
  for (size_t k = 0; k < bytes; k++)
    little[k] = (uint8_t)(value >> (8 * k));
  put(to, little, bytes);
}

static void put_varint(writer_t *to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    put_fixed(to, (value & 0x7f) | 0x80, 1);
  put_fixed(to, value, 1);
}

static void put_items(writer_t *to, const onnx_item_t *parent);

static size_t bytes_of(const onnx_item_t *item) {
  if (!item->message)
    return item->len;
  writer_t counter = {NULL, 0, 0};
  put_items(&counter, item);
  return counter.used;
}

static void put_items(writer_t *to, const onnx_item_t *parent) {
  for (const onnx_item_t *item = parent->first; item; item = item->next) {
    put_varint(to, (uint64_t)item->number << 3 | item->type);
    if (item->type == DT_WIRE_VARINT) {
      put_varint(to, item->value);
    } else if (item->type != DT_WIRE_BYTES) {
      put_fixed(to, item->value, item->type == DT_WIRE_FIXED32 ? 4 : 8);
    } else {
      put_varint(to, bytes_of(item));
      if (item->message)
        put_items(to, item);
      else
        put(to, item->bytes, item->len);
    }
  }
}

size_t onnx_tree_write(const onnx_tree_t *tree, uint8_t *out, size_t most) {
  writer_t to = {NULL, 0, 0};
  put_items(&to, tree->root);
  if (to.used > most)
    return 0;
  to = (writer_t){out, 0, most};
  put_items(&to, tree->root);
  return to.used;
}

// ---- Changing -------------------------------------------------------------------------------------
onnx_item_t *onnx_item_new(onnx_tree_t *tree, onnx_item_t *parent, const char *field) {
  for (uint32_t k = 0; k < parent->message->n_fields; k++) {
    const dt_onnx_field_t *row = &parent->message->fields[k];
    if (strcmp(row->name, field) != 0)
      continue;
    onnx_item_t *item = add(tree, parent, row, row->number, dt__onnx_wire_type(row->kind));
    if (item)
      item->message = row->sub;
    return item;
  }
  return NULL;
}

onnx_item_t *onnx_item_copy(onnx_tree_t *tree, const onnx_item_t *item, onnx_item_t *parent) {
  onnx_item_t *copy = add(tree, parent, item->field, item->number, item->type);
  if (!copy)
    return NULL;
  copy->message = item->message;
  copy->value = item->value;
  copy->bytes = item->bytes;
  copy->len = item->len;
  for (const onnx_item_t *each = item->first; each; each = each->next)
    if (!onnx_item_copy(tree, each, copy))
      return NULL;
  return copy;
}

void onnx_item_append(onnx_item_t *parent, onnx_item_t *item) {
  onnx_item_t *last = last_of(parent);
  *(last ? &last->next : &parent->first) = item;
  item->next = NULL;
  item->parent = parent;
}

void onnx_item_remove(onnx_item_t *item) {
  onnx_item_t **at = &item->parent->first;
  while (*at != item)
    at = &(*at)->next;
  *at = item->next;
  item->next = NULL;
}

onnx_item_t *onnx_item_find(const onnx_item_t *message, const char *field) {
  for (onnx_item_t *item = message->first; item; item = item->next)
    if (item->field && strcmp(item->field->name, field) == 0)
      return item;
  return NULL;
}

bool onnx_item_is(const onnx_item_t *item, const char *message, const char *field) {
  return item->field && item->parent && item->parent->message &&
         strcmp(item->parent->message->name, message) == 0 && strcmp(item->field->name, field) == 0;
}
