// SPDX-License-Identifier: Apache-2.0
// A model's bytes as a tree of fields that can be changed and written again, with every length as
// it must be. For the fuzzers' mutator; it reads by the reader's own tables of messages.
#ifndef DT_TESTS_FUZZ_ONNX_TREE_H
#define DT_TESTS_FUZZ_ONNX_TREE_H

#include "frontends/onnx/schema.h"

#include <stdint.h>

typedef struct onnx_item_t onnx_item_t;
struct onnx_item_t {
  onnx_item_t *parent, *next, *first; // NULL: none
  const dt_onnx_field_t *field;       // NULL: the model itself, or one that no table has
  const dt_onnx_message_t *message;   // NULL: a leaf
  uint32_t number, type;              // as in the file
  uint64_t value;                     // of numbers: the bits
  const uint8_t *bytes;               // of other leaves; borrowed or in the tree's room
  size_t len;
};

// Everything of a tree lies in one block and ends together.
typedef struct onnx_tree_t {
  onnx_item_t *root;
  unsigned char *room;
  size_t used, size;
} onnx_tree_t;

// Bytes of the tree's room; NULL: it is full.
void *onnx_tree_room(onnx_tree_t *tree, size_t bytes);
// Reads a model; false: it is none, or too large. Packed numbers become items of their own if
// `unpack` says so.
bool onnx_tree_read(onnx_tree_t *tree, const uint8_t *data, size_t size, bool unpack);
// Bytes written, 0: they are more than `most`.
size_t onnx_tree_write(const onnx_tree_t *tree, uint8_t *out, size_t most);

// A new item of the message's field, empty; NULL: no such field, or no room.
onnx_item_t *onnx_item_new(onnx_tree_t *tree, onnx_item_t *parent, const char *field);
// A copy beneath `parent`, as its last item; NULL: no room.
onnx_item_t *onnx_item_copy(onnx_tree_t *tree, const onnx_item_t *item, onnx_item_t *parent);
void onnx_item_append(onnx_item_t *parent, onnx_item_t *item);
void onnx_item_remove(onnx_item_t *item);
// The message's first item of the field; NULL: none.
onnx_item_t *onnx_item_find(const onnx_item_t *message, const char *field);
bool onnx_item_is(const onnx_item_t *item, const char *message, const char *field);

#endif // DT_TESTS_FUZZ_ONNX_TREE_H
