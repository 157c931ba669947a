// SPDX-License-Identifier: Apache-2.0
// The mutator: a model is read as a tree, one to four changes of the table below are made to it,
// and it is written again. A change that finds nothing to do leaves the model as it is.
#include "test/fuzz/onnx_mutate.h"

#include "frontends/onnx/wire.h"
#include "test/fuzz/onnx_tree.h"
#include "test/support/random.h"

#include <stdio.h>
#include <string.h>

#define ROOM ((size_t)16 << 20)

typedef struct mutation_t {
  onnx_tree_t *tree;
  uint64_t state; // of the random numbers
} mutation_t;

// ---- Random numbers -------------------------------------------------------------------------------
static uint64_t next(mutation_t *m) { return rng_step(&m->state); }

static uint32_t below(mutation_t *m, size_t n) { return (uint32_t)(next(m) % n); }
static bool one_in(mutation_t *m, uint32_t n) { return below(m, n) == 0; }

#define ANY(m, array) ((array)[below(m, sizeof(array) / sizeof((array)[0]))])

static uint64_t any_integer(mutation_t *m) {
  static const int64_t odd[] = {
      -2,        -3,           -4,         7,          8,        9,        15,        16,
      17,        31,           64,         100,        127,      128,      255,       1000,
      1024,      1025,         4096,       32767,      65535,    65536,    INT32_MAX, -INT32_MAX,
      INT32_MIN, 4294967295,   4294967296, 4294967297, 1L << 46, 1L << 47, 1L << 62,  INT64_MAX,
      INT64_MIN, INT64_MIN + 1};
  static const int64_t small[] = {0, 1, -1, 2, 3, 4, 5, 6};
  return (uint64_t)(one_in(m, 4) ? ANY(m, odd) : ANY(m, small));
}

static uint64_t any_float(mutation_t *m) {
  static const float reals[] = {0.0F,  -0.0F, 1.0F,    -1.0F,    0.5F,  2.0F,           1e-45F,
                                1e-7F, 3.0F,  3.4e38F, -3.4e38F, 1e10F, -2147483648.0F, 0.1F};
  static const uint32_t bits[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f800001u};
  float real = ANY(m, reals);
  uint32_t out = 0;
  memcpy(&out, &real, sizeof out);
  return one_in(m, 4) ? ANY(m, bits) : out;
}

// Of TensorProto.DataType: mostly the common ones.
static uint64_t any_dtype(mutation_t *m) {
  static const uint64_t common[] = {1, 1, 1, 7, 7, 6, 9, 10, 11, 2, 3, 4, 5, 12, 13, 16};
  return one_in(m, 16) ? below(m, 28) : ANY(m, common);
}

// ---- Choosing items -------------------------------------------------------------------------------
typedef bool (*wanted_t)(const onnx_item_t *item, const void *user);

typedef struct choice_t {
  wanted_t wanted;
  const void *user;
  uint32_t seen;
  onnx_item_t *found;
} choice_t;

// Each wanted item is as likely as each other.
static void choose(mutation_t *m, onnx_item_t *parent, choice_t *choice) {
  for (onnx_item_t *item = parent->first; item; item = item->next) {
    if (choice->wanted(item, choice->user) && one_in(m, ++choice->seen))
      choice->found = item;
    if (item->message)
      choose(m, item, choice);
  }
}

static onnx_item_t *any(mutation_t *m, wanted_t wanted, const void *user) {
  choice_t choice = {wanted, user, 0, NULL};
  choose(m, m->tree->root, &choice);
  return choice.found;
}

static bool is_all(const onnx_item_t *item, const void *user) {
  (void)user;
  return item != NULL;
}

static bool is_repeated(const onnx_item_t *item, const void *user) {
  (void)user;
  return item->field && dt__onnx_is_repeated(item->field->kind);
}

static bool is_message(const onnx_item_t *item, const void *user) {
  return item->message && strcmp(item->message->name, user) == 0;
}

static bool is_number(const onnx_item_t *item, const void *user) {
  (void)user;
  return item->type != DT_WIRE_BYTES;
}

static bool is_bytes(const onnx_item_t *item, const void *user) {
  (void)user;
  return item->type == DT_WIRE_BYTES && !item->message;
}

static bool is_name(const onnx_item_t *item, const void *user) {
  (void)user;
  return item->field && !item->message &&
         (item->field->kind == DT_ONNX_NAME || item->field->kind == DT_ONNX_NAMES);
}

static bool is_node_input(const onnx_item_t *item, const void *user) {
  (void)user;
  return onnx_item_is(item, "NodeProto", "input");
}

// What a copy of the user's item may be put in place of: the same message, or the same leaf.
static bool is_alike(const onnx_item_t *item, const void *user) {
  const onnx_item_t *other = user;
  return item != other && item->type == other->type && item->message == other->message &&
         (item->message || item->field == other->field);
}

// ---- Small steps ----------------------------------------------------------------------------------
static void set_text(onnx_item_t *item, const char *text) {
  item->message = NULL;
  item->first = NULL;
  item->bytes = (const uint8_t *)text;
  item->len = strlen(text);
}

// The message's first item of the field, made if it has none; NULL: no room.
static onnx_item_t *want(mutation_t *m, onnx_item_t *message, const char *field) {
  onnx_item_t *found = onnx_item_find(message, field);
  return found ? found : onnx_item_new(m->tree, message, field);
}

static void set_number(mutation_t *m, onnx_item_t *message, const char *field, uint64_t value) {
  onnx_item_t *item = want(m, message, field);
  if (item)
    item->value = value;
}

static void remove_all(onnx_item_t *message, const char *field) {
  for (onnx_item_t *item; (item = onnx_item_find(message, field));)
    onnx_item_remove(item);
}

#define WORD(list, text) WORD_##list(text)
#define WORD_attribute(text) text,
#define WORD_string(text)
#define WORD_dim(text)
static const char *const attributes[] = {
#include "test/fuzz/onnx_words.def"
};
#undef WORD_attribute
#undef WORD_string
#define WORD(list, text) WORD_##list(text)
#define WORD_attribute(text)
#define WORD_string(text) text,
static const char *const strings[] = {
#include "test/fuzz/onnx_words.def"
};
#undef WORD_string
#undef WORD_dim
#define WORD(list, text) WORD_##list(text)
#define WORD_string(text)
#define WORD_dim(text) text,
static const char *const dims[] = {
#include "test/fuzz/onnx_words.def"
};

// ---- Changes of any message -----------------------------------------------------------------------
static void remove_one(mutation_t *m) {
  onnx_item_t *item = any(m, is_all, NULL);
  if (item)
    onnx_item_remove(item);
}

// Seldom one that may come once: the reader refuses it.
static void repeat_one(mutation_t *m) {
  onnx_item_t *item = any(m, one_in(m, 16) ? is_all : is_repeated, NULL);
  if (item)
    (void)onnx_item_copy(m->tree, item, item->parent);
}

// Moves an item to the end of those beside it: other orders come of many such.
static void move_one(mutation_t *m) {
  onnx_item_t *item = any(m, is_all, NULL);
  if (!item)
    return;
  onnx_item_t *parent = item->parent;
  onnx_item_remove(item);
  onnx_item_append(parent, item);
}

static bool is_within(const onnx_item_t *item, const onnx_item_t *outer) {
  for (; item; item = item->parent)
    if (item == outer)
      return true;
  return false;
}

// Puts a copy of `from` in place of `at`, or beside it.
static void graft(mutation_t *m, const onnx_item_t *from, onnx_item_t *at) {
  onnx_item_t *parent = at->parent;
  onnx_item_t *copy = onnx_item_copy(m->tree, from, parent);
  if (!copy)
    return;
  copy->number = at->number;
  copy->field = at->field;
  if (!is_repeated(at, NULL) || !one_in(m, 3))
    onnx_item_remove(at);
}

static void graft_own(mutation_t *m) {
  onnx_item_t *from = any(m, is_all, NULL);
  onnx_item_t *at = from ? any(m, is_alike, from) : NULL;
  if (at && !is_within(at, from))
    graft(m, from, at);
}

static uint64_t new_number(mutation_t *m, const onnx_item_t *item) {
  if (onnx_item_is(item, "TensorProto", "data_type") ||
      onnx_item_is(item, "TypeProto.Tensor", "elem_type"))
    return any_dtype(m);
  if (item->type == DT_WIRE_FIXED32)
    return any_float(m);
  switch (below(m, 4)) {
  case 0:
    return item->value + 1;
  case 1:
    return item->value - 1;
  default:
    return any_integer(m);
  }
}

static void change_number(mutation_t *m) {
  onnx_item_t *item = any(m, is_number, NULL);
  if (item)
    item->value = new_number(m, item);
}

static void change_bytes(mutation_t *m) {
  onnx_item_t *item = any(m, is_bytes, NULL);
  size_t most = item ? item->len + 16 : 0;
  uint8_t *copy = item ? onnx_tree_room(m->tree, most) : NULL;
  if (!copy)
    return;
  if (item->len > 0)
    memcpy(copy, item->bytes, item->len);
  // A tensor's data keep their length: another one is refused at once.
  bool data = onnx_item_is(item, "TensorProto", "raw_data") && item->len > 0;
  size_t len = LLVMFuzzerMutate(copy, item->len, data ? item->len : most);
  item->bytes = copy;
  item->len = data ? item->len : len;
}

// ---- Changes of nodes -----------------------------------------------------------------------------
typedef struct operator_t {
  const char *domain, *name;
} operator_t;

#define DOMAIN_ai ""
#define DOMAIN_ml "ai.onnx.ml"
#define DOMAIN_ms "com.microsoft"
#define DOMAIN_training "ai.onnx.preview.training"
static const operator_t operators[] = {
#define OP(domain, name, since, numbers, make, reduction, check) {DOMAIN_##domain, #name},
#include "frontends/onnx/import/ops.def"
};

// An operator of a domain that the model imports, or of any.
static void change_operator(mutation_t *m, onnx_item_t *node) {
  operator_t op = ANY(m, operators);
  for (uint32_t k = 0; op.domain[0] && k < 3; k++)
    op = ANY(m, operators);
  onnx_item_t *type = want(m, node, "op_type");
  if (!type)
    return;
  set_text(type, op.name);
  remove_all(node, "domain");
  onnx_item_t *domain = op.domain[0] ? onnx_item_new(m->tree, node, "domain") : NULL;
  if (domain)
    set_text(domain, op.domain);
}

static void other_operator(mutation_t *m) {
  onnx_item_t *node = any(m, is_message, "NodeProto");
  if (node)
    change_operator(m, node);
}

static void other_name(mutation_t *m) {
  onnx_item_t *to = one_in(m, 3) ? any(m, is_name, NULL) : any(m, is_node_input, NULL);
  onnx_item_t *from = any(m, is_name, NULL);
  if (!to || !from)
    return;
  to->bytes = from->bytes;
  to->len = from->len;
}

// A name that is unlikely to be in the model.
static void fresh_name(mutation_t *m, onnx_item_t *item) {
  char *text = onnx_tree_room(m->tree, 16);
  if (!text)
    return;
  (void)snprintf(text, 16, "f%08x", (uint32_t)next(m));
  set_text(item, text);
}

// A copy of a node with results of its own, which something behind it reads instead of its input.
static void add_node(mutation_t *m) {
  onnx_item_t *node = any(m, is_message, "NodeProto");
  onnx_item_t *copy = node ? onnx_item_copy(m->tree, node, node->parent) : NULL;
  if (!copy)
    return;
  for (onnx_item_t *item = copy->first; item; item = item->next)
    if (onnx_item_is(item, "NodeProto", "output") && item->len > 0)
      fresh_name(m, item);
  if (!one_in(m, 4))
    change_operator(m, copy);
  // The copy goes before the node: all that it reads is there.
  onnx_item_t *parent = node->parent;
  onnx_item_remove(copy);
  copy->next = node;
  onnx_item_t **at = &parent->first;
  while (*at != node)
    at = &(*at)->next;
  *at = copy;
  onnx_item_t *output = onnx_item_find(copy, "output"), *input = onnx_item_find(node, "input");
  if (output && input && !output->message && !input->message) {
    input->bytes = output->bytes;
    input->len = output->len;
  }
}

static void set_attribute(mutation_t *m, onnx_item_t *attribute) {
  // AttributeProto.AttributeType: FLOAT 1, INT 2, STRING 3, FLOATS 6, INTS 7.
  static const uint32_t types[] = {1, 2, 2, 2, 3, 6, 7, 7};
  static const char *const fields[] = {
      [1] = "f", [2] = "i", [3] = "s", [6] = "floats", [7] = "ints"};
  uint32_t type = ANY(m, types), n = type < 6 ? 1 : below(m, 5);
  for (uint32_t k = 1; k < 8; k++)
    if (fields[k])
      remove_all(attribute, fields[k]);
  remove_all(attribute, "t");
  remove_all(attribute, "g");
  set_number(m, attribute, "type", type);
  for (uint32_t k = 0; k < n; k++) {
    onnx_item_t *item = onnx_item_new(m->tree, attribute, fields[type]);
    if (item && item->type == DT_WIRE_BYTES)
      set_text(item, ANY(m, strings));
    else if (item)
      item->value = new_number(m, item);
  }
}

static void add_attribute(mutation_t *m) {
  onnx_item_t *node = any(m, is_message, "NodeProto");
  onnx_item_t *attribute = node ? onnx_item_new(m->tree, node, "attribute") : NULL;
  onnx_item_t *name = attribute ? onnx_item_new(m->tree, attribute, "name") : NULL;
  if (!name)
    return;
  set_text(name, ANY(m, attributes));
  set_attribute(m, attribute);
}

static void change_attribute(mutation_t *m) {
  onnx_item_t *attribute = any(m, is_message, "AttributeProto");
  onnx_item_t *s = attribute ? onnx_item_find(attribute, "s") : NULL;
  onnx_item_t *name = attribute ? onnx_item_find(attribute, "name") : NULL;
  if (s && !one_in(m, 4))
    set_text(s, ANY(m, strings));
  else if (name && one_in(m, 3))
    set_text(name, ANY(m, attributes));
  else if (attribute)
    set_attribute(m, attribute);
}

// ---- Changes of types and tensors -----------------------------------------------------------------
static void change_dim(mutation_t *m) {
  onnx_item_t *dim = any(m, is_message, "TensorShapeProto.Dimension");
  if (!dim)
    return;
  dim->first = NULL;
  if (one_in(m, 2)) {
    onnx_item_t *name = onnx_item_new(m->tree, dim, "dim_param");
    if (name)
      set_text(name, ANY(m, dims));
  } else if (!one_in(m, 8)) {
    set_number(m, dim, "dim_value", any_integer(m));
  }
}

static void change_rank(mutation_t *m) {
  onnx_item_t *shape = any(m, is_message, "TensorShapeProto");
  if (!shape)
    return;
  if (shape->first && one_in(m, 2))
    onnx_item_remove(shape->first);
  else
    (void)onnx_item_new(m->tree, shape, "dim");
}

static void change_opset(mutation_t *m) {
  static const char *const domains[] = {DOMAIN_ai, DOMAIN_ai, DOMAIN_ms, DOMAIN_ml,
                                        DOMAIN_training};
  onnx_item_t *opset = any(m, is_message, "OperatorSetIdProto");
  if (one_in(m, 2))
    opset = onnx_item_new(m->tree, m->tree->root, "opset_import");
  onnx_item_t *domain = opset ? want(m, opset, "domain") : NULL;
  if (!domain)
    return;
  set_text(domain, ANY(m, domains));
  set_number(m, opset, "version", domain->len > 0 ? 1 : 1 + below(m, 27));
}

static size_t bytes_of_dtype(uint64_t dtype) {
  static const uint8_t bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
  return dtype < sizeof bytes ? bytes[dtype] : 0;
}

// An element that models have: integers are mostly small, floats mostly ordinary.
static void fill(mutation_t *m, uint64_t dtype, uint8_t *out, size_t bytes) {
  static const double doubles[] = {0, 1, -1, 0.5, 2, 3, 1e300, -1e-300};
  uint64_t value = any_integer(m);
  if (dtype == 1)
    value = any_float(m);
  else if (dtype == 9)
    value &= 1;
  else if (dtype == 10 || dtype == 16)
    value = next(m);
  else if (dtype == 11)
    memcpy(&value, &ANY(m, doubles), sizeof value);
  for (size_t k = 0; k < bytes; k++)
    out[k] = k < 8 ? (uint8_t)(value >> (8 * k)) : 0;
}

// Other dims, perhaps another element type, and data of exactly their bytes.
static void change_tensor(mutation_t *m) {
  onnx_item_t *tensor = any(m, is_message, "TensorProto");
  if (!tensor)
    return;
  onnx_item_t *type = want(m, tensor, "data_type");
  if (!type)
    return;
  if (one_in(m, 3))
    type->value = any_dtype(m);
  static const char *const gone[] = {"dims",          "float_data",   "int32_data",  "string_data",
                                     "int64_data",    "raw_data",     "double_data", "uint64_data",
                                     "external_data", "data_location"};
  for (size_t k = 0; k < sizeof gone / sizeof gone[0]; k++)
    remove_all(tensor, gone[k]);
  size_t elements = 1, each = bytes_of_dtype(type->value);
  for (uint32_t rank = below(m, 4); rank > 0 && elements < 64; rank--) {
    onnx_item_t *dim = onnx_item_new(m->tree, tensor, "dims");
    if (!dim)
      return;
    dim->value = below(m, 5);
    elements *= (size_t)dim->value;
  }
  onnx_item_t *raw = onnx_item_new(m->tree, tensor, "raw_data");
  uint8_t *data = raw ? onnx_tree_room(m->tree, elements * each) : NULL;
  if (!data)
    return;
  for (size_t k = 0; k < elements; k++)
    fill(m, type->value, data + k * each, each);
  raw->bytes = data;
  raw->len = elements * each;
}

// Sets elements of a tensor and leaves its type.
static void change_elements(mutation_t *m) {
  onnx_item_t *tensor = any(m, is_message, "TensorProto");
  onnx_item_t *raw = tensor ? onnx_item_find(tensor, "raw_data") : NULL;
  onnx_item_t *type = tensor ? onnx_item_find(tensor, "data_type") : NULL;
  size_t each = type ? bytes_of_dtype(type->value) : 0;
  uint8_t *copy = raw && each > 0 && raw->len >= each ? onnx_tree_room(m->tree, raw->len) : NULL;
  if (!copy)
    return;
  memcpy(copy, raw->bytes, raw->len);
  raw->bytes = copy;
  for (uint32_t n = 1 + below(m, 3); n > 0; n--)
    fill(m, type->value, copy + each * below(m, raw->len / each), each);
}

// ---- The table ------------------------------------------------------------------------------------
// One that stands twice is twice as likely.
static void (*const changes[])(mutation_t *m) = {
    remove_one,       repeat_one,       move_one,      graft_own,       change_number,
    change_number,    change_number,    change_bytes,  other_operator,  other_operator,
    other_operator,   other_name,       other_name,    add_node,        add_node,
    add_attribute,    change_attribute, change_dim,    change_dim,      change_rank,
    change_attribute, change_opset,     change_tensor, change_elements,
};

static onnx_tree_t *tree_of(unsigned which) {
  static unsigned char rooms[2][ROOM];
  static onnx_tree_t trees[2];
  trees[which].room = rooms[which];
  trees[which].size = ROOM;
  return &trees[which];
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  mutation_t m = {tree_of(0), seed};
  if (one_in(&m, 50) || !onnx_tree_read(m.tree, data, size, !one_in(&m, 4)))
    return LLVMFuzzerMutate(data, size, most);
  for (uint32_t n = 1 + below(&m, 4); n > 0; n--)
    ANY(&m, changes)(&m);
  // What is written reads from the old bytes, so it goes to other room first.
  uint8_t *out = onnx_tree_room(m.tree, most);
  size_t written = out ? onnx_tree_write(m.tree, out, most) : 0;
  if (written == 0)
    return size;
  memcpy(data, out, written);
  return written;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other,
                                 size_t other_size, uint8_t *out, size_t most, unsigned seed) {
  mutation_t m = {tree_of(0), seed}, from = {tree_of(1), seed + 1};
  if (!onnx_tree_read(m.tree, data, size, true) ||
      !onnx_tree_read(from.tree, other, other_size, true))
    return 0;
  for (uint32_t n = 1 + below(&m, 3); n > 0; n--) {
    onnx_item_t *item = any(&from, is_all, NULL);
    onnx_item_t *at = item ? any(&m, is_alike, item) : NULL;
    if (at)
      graft(&m, item, at);
  }
  return onnx_tree_write(m.tree, out, most);
}
