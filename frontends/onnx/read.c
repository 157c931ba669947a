// SPDX-License-Identifier: Apache-2.0
// Reads messages by table. Each message is walked twice: the first walk checks its fields and
// counts them, so that the second stores them into lists of exactly their length. A message's bytes
// are skipped by those that enclose it, so both walks together touch each field four times at most.
//
// The bytes may be a mapped file that someone writes to: the second walk trusts nothing that the
// first has seen.
#include "frontends/onnx/read.h"

#include "frontends/onnx/wire.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <string.h>

typedef struct list_t {
  void *items;
  uint32_t len;
} list_t;
_Static_assert(sizeof(list_t) == sizeof(dt_onnx_ints_t), "lists have one layout");
_Static_assert(offsetof(list_t, len) == offsetof(dt_onnx_ints_t, len), "lists have one layout");

// One message being read.
typedef struct frame_t {
  dt_onnx_read_t *read;
  const dt_onnx_message_t *message;
  const dt_onnx_at_t *at;
  unsigned char *out;
  uint32_t depth;                      // messages around it
  uint32_t graphs;                     // of them, graphs
  uint32_t counts[DT_ONNX_MAX_FIELDS]; // what the first walk found
} frame_t;

static dt_status_t read_message(dt_onnx_read_t *read, const dt_onnx_message_t *message,
                                dt_wire_t body, const dt_onnx_at_t *at, const frame_t *up,
                                void *out);

static uint64_t offset_of(const frame_t *frame, const unsigned char *at) {
  return (uint64_t)(at - frame->read->data);
}

#define FAIL_AT(frame, code, place, ...)                                                           \
  dt__onnx_fail((frame)->read->what, (code), (frame)->at, offset_of((frame), (place)), __VA_ARGS__)

static void *member_of(const frame_t *frame, const dt_onnx_field_t *row) {
  return frame->out + row->member;
}

// ---- Memory ---------------------------------------------------------------------------------------
static dt_status_t take(const frame_t *frame, uint64_t count, size_t item, void **out) {
  dt_onnx_read_t *read = frame->read;
  uint64_t bytes = count * item; // both are bounded by the file's bytes
  if (bytes > read->limits->structure_bytes - read->taken)
    return dt__onnx_fail(read->what, DT_E_LIMIT, frame->at, ((dt_onnx_head_t *)frame->out)->offset,
                         "the model's structure needs more than %llu bytes of memory, the limit "
                         "for a file of this size",
                         (unsigned long long)read->limits->structure_bytes);
  read->taken += bytes;
  *out = dt__arena_alloc(read->arena, (size_t)bytes);
  return *out ? NULL : DT_NO_MEMORY();
}

// ---- First walk -----------------------------------------------------------------------------------
static dt_status_t count_packed(const frame_t *frame, const dt_onnx_field_t *row,
                                const dt_wire_field_t *field, uint64_t *out) {
  uint32_t type = dt__onnx_wire_type(row->kind);
  dt_wire_t elements = field->body;
  uint64_t bytes = (uint64_t)(elements.end - elements.at), value = 0;
  if (type != DT_WIRE_VARINT) {
    uint64_t size = type == DT_WIRE_FIXED32 ? 4 : 8;
    if (bytes % size != 0)
      return FAIL_AT(frame, DT_E_FORMAT, field->begin, "%s.%s: %llu bytes are no whole elements",
                     frame->message->name, row->name, (unsigned long long)bytes);
    *out = bytes / size;
    return NULL;
  }
  for (*out = 0; elements.at < elements.end; (*out)++) {
    if (!dt__wire_varint(&elements, &value))
      return FAIL_AT(frame, DT_E_FORMAT, elements.at,
                     "%s.%s: an element is cut off or longer than 64 bits", frame->message->name,
                     row->name);
    DT_TRY(dt__onnx_go_on(frame->read->pace, 1));
  }
  return NULL;
}

// How many elements a field of a known row brings; checks its wire type.
static dt_status_t count_field(const frame_t *frame, const dt_onnx_field_t *row,
                               const dt_wire_field_t *field, uint64_t *out) {
  uint32_t type = dt__onnx_wire_type(row->kind);
  *out = 1;
  if (field->type == type)
    return NULL;
  if (field->type == DT_WIRE_BYTES && dt__onnx_is_packable(row->kind))
    return count_packed(frame, row, field, out);
  return FAIL_AT(frame, DT_E_FORMAT, field->begin, "%s.%s is %s, expected %s", frame->message->name,
                 row->name, dt__wire_type_name(field->type), dt__wire_type_name(type));
}

static dt_status_t next_field(const frame_t *frame, dt_wire_t *wire, dt_wire_field_t *out) {
  const char *wrong = dt__wire_next(wire, out);
  if (wrong)
    return FAIL_AT(frame, DT_E_FORMAT, wire->at,
                   "%s in a %s: the file is damaged, or no ONNX model", wrong,
                   frame->message->name);
  return NULL;
}

static dt_status_t count_fields(frame_t *frame, dt_wire_t body) {
  dt_wire_field_t field;
  while (body.at < body.end) {
    DT_TRY(next_field(frame, &body, &field));
    DT_TRY(dt__onnx_go_on(frame->read->pace, 4));
    const dt_onnx_field_t *row = dt__onnx_field(frame->message, field.number);
    if (!row)
      continue;
    uint64_t count = 0;
    uint32_t *total = &frame->counts[row - frame->message->fields];
    DT_TRY(count_field(frame, row, &field, &count));
    if (*total > 0 && !dt__onnx_is_repeated(row->kind))
      return FAIL_AT(frame, DT_E_FORMAT, field.begin, "%s.%s is there twice", frame->message->name,
                     row->name);
    if (count > UINT32_MAX - *total)
      return FAIL_AT(frame, DT_E_LIMIT, field.begin, "%s.%s has more than 2^32 - 1 elements",
                     frame->message->name, row->name);
    *total += (uint32_t)count;
  }
  return NULL;
}

static dt_status_t make_lists(frame_t *frame) {
  for (uint32_t k = 0; k < frame->message->n_fields; k++) {
    const dt_onnx_field_t *row = &frame->message->fields[k];
    if (frame->counts[k] > 0)
      ((dt_onnx_head_t *)frame->out)->has |= 1u << k;
    size_t item = dt__onnx_item_size(row);
    if (item > 0 && frame->counts[k] > 0)
      DT_TRY(take(frame, frame->counts[k], item, &((list_t *)member_of(frame, row))->items));
  }
  return NULL;
}

// ---- Second walk ----------------------------------------------------------------------------------
static dt_status_t check_text(const frame_t *frame, const dt_onnx_field_t *row, dt_wire_t body) {
  size_t len = (size_t)(body.end - body.at);
  if (len > DT_ONNX_MAX_NAME_BYTES)
    return FAIL_AT(frame, DT_E_LIMIT, body.at, "%s.%s has %zu bytes, the limit is %u",
                   frame->message->name, row->name, len, DT_ONNX_MAX_NAME_BYTES);
  for (const unsigned char *at = body.at; at < body.end;) {
    size_t step = *at == 0 ? 0 : dt__utf8_length((const char *)at, (const char *)body.end);
    if (step == 0)
      return FAIL_AT(frame, DT_E_FORMAT, at, "%s.%s: byte 0x%02x is no UTF-8 text",
                     frame->message->name, row->name, *at);
    at += step;
  }
  return NULL;
}

static dt_status_t store_sub(const frame_t *frame, const dt_onnx_field_t *row, dt_wire_t body,
                             int64_t index, void *out) {
  dt_onnx_at_t at = {frame->at, row->name, index};
  return read_message(frame->read, row->sub, body, &at, frame, out);
}

static dt_status_t store_bytes(const frame_t *frame, const dt_onnx_field_t *row, dt_wire_t body,
                               void *to) {
  if (row->kind != DT_ONNX_BYTES && row->kind != DT_ONNX_BYTESES)
    DT_TRY(check_text(frame, row, body));
  // A dt_onnx_name_t begins with its text.
  *(dt_onnx_str_t *)to = (dt_onnx_str_t){(const char *)body.at, (size_t)(body.end - body.at)};
  return NULL;
}
_Static_assert(offsetof(dt_onnx_name_t, text) == 0, "names begin with their text");

static void store_number(const dt_onnx_field_t *row, uint64_t value, void *to) {
  if (dt__onnx_wire_type(row->kind) == DT_WIRE_VARINT) {
    memcpy(to, &value, sizeof value);
  } else {
    uint32_t bits = (uint32_t)value;
    memcpy(to, &bits, sizeof bits);
  }
}

static dt_status_t store_packed(const frame_t *frame, const dt_onnx_field_t *row,
                                const dt_wire_field_t *field, list_t *list, uint32_t room) {
  dt_wire_t elements = field->body;
  size_t item = dt__onnx_item_size(row);
  uint64_t value = 0;
  while (elements.at < elements.end) {
    if (list->len == room || !dt__wire_element(&elements, dt__onnx_wire_type(row->kind), &value))
      return FAIL_AT(frame, DT_E_IO, elements.at, "the file changed while it was read");
    store_number(row, value, (char *)list->items + item * list->len++);
    DT_TRY(dt__onnx_go_on(frame->read->pace, 1));
  }
  return NULL;
}

static dt_status_t store_item(const frame_t *frame, const dt_onnx_field_t *row,
                              const dt_wire_field_t *field, uint32_t room) {
  list_t *list = member_of(frame, row);
  if (field->type == DT_WIRE_BYTES && dt__onnx_is_packable(row->kind))
    return store_packed(frame, row, field, list, room);
  if (list->len == room || !list->items)
    return FAIL_AT(frame, DT_E_IO, field->begin, "the file changed while it was read");
  uint32_t index = list->len++;
  char *to = (char *)list->items + dt__onnx_item_size(row) * index;
  if (row->kind == DT_ONNX_MESSAGES)
    return store_sub(frame, row, field->body, index, to);
  if (field->type == DT_WIRE_BYTES)
    return store_bytes(frame, row, field->body, to);
  store_number(row, field->value, to);
  return NULL;
}

static dt_status_t store_field(const frame_t *frame, const dt_onnx_field_t *row,
                               const dt_wire_field_t *field) {
  uint32_t room = frame->counts[row - frame->message->fields];
  void *to = member_of(frame, row);
  if (dt__onnx_item_size(row) > 0)
    return store_item(frame, row, field, room);
  if (dt__onnx_is_repeated(row->kind)) {
    ((dt_onnx_typed_t *)to)->count = room;
    return NULL;
  }
  if (row->kind == DT_ONNX_MESSAGE) {
    void *sub = NULL;
    DT_TRY(take(frame, 1, row->sub->size, &sub));
    *(void **)to = sub;
    return store_sub(frame, row, field->body, -1, sub);
  }
  if (field->type == DT_WIRE_BYTES)
    return store_bytes(frame, row, field->body, to);
  store_number(row, field->value, to);
  return NULL;
}

static dt_status_t store_fields(const frame_t *frame, dt_wire_t body) {
  dt_wire_field_t field;
  while (body.at < body.end) {
    DT_TRY(next_field(frame, &body, &field));
    const dt_onnx_field_t *row = dt__onnx_field(frame->message, field.number);
    DT_TRY(dt__onnx_go_on(frame->read->pace, 8));
    // Of a known row, the first walk has seen the wire type.
    if (row && field.type != dt__onnx_wire_type(row->kind) &&
        !(field.type == DT_WIRE_BYTES && dt__onnx_is_packable(row->kind)))
      return FAIL_AT(frame, DT_E_IO, field.begin, "the file changed while it was read");
    if (row)
      DT_TRY(store_field(frame, row, &field));
  }
  return NULL;
}

// ---- The whole ------------------------------------------------------------------------------------
static dt_status_t check_counted(frame_t *frame) {
  static const char *const names[] = {"", "nodes", "tensors", "graphs within each other"};
  dt_onnx_counted_t counted = frame->message->counted;
  uint64_t offset = ((dt_onnx_head_t *)frame->out)->offset;
  if (frame->depth > DT_ONNX_MAX_NESTING)
    return dt__onnx_fail(frame->read->what, DT_E_LIMIT, frame->at, offset,
                         "more than %u messages within each other", DT_ONNX_MAX_NESTING);
  if (counted == DT_ONNX_UNCOUNTED)
    return NULL;
  uint32_t limit = frame->read->limits->counted[counted];
  uint32_t count =
      counted == DT_ONNX_COUNT_GRAPHS ? ++frame->graphs : ++frame->read->counted[counted];
  if (count > limit)
    return dt__onnx_fail(frame->read->what, DT_E_LIMIT, frame->at, offset,
                         "more than %u %s, the limit", limit, names[counted]);
  return NULL;
}

static dt_status_t read_message(dt_onnx_read_t *read, const dt_onnx_message_t *message,
                                dt_wire_t body, const dt_onnx_at_t *at, const frame_t *up,
                                void *out) {
  frame_t frame = {.read = read,
                   .message = message,
                   .at = at,
                   .out = out,
                   .depth = up ? up->depth + 1 : 0,
                   .graphs = up ? up->graphs : 0};
  *(dt_onnx_head_t *)out = (dt_onnx_head_t){.offset = offset_of(&frame, body.at),
                                            .bytes = (uint64_t)(body.end - body.at)};
  DT_TRY(check_counted(&frame));
  DT_TRY(count_fields(&frame, body));
  DT_TRY(make_lists(&frame));
  return store_fields(&frame, body);
}

dt_status_t dt__onnx_read(dt_onnx_read_t *read, const dt_onnx_message_t *message, void *out) {
  dt_wire_t body = {read->data, read->data + read->bytes};
  return read_message(read, message, body, NULL, NULL, out);
}
