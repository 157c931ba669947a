// SPDX-License-Identifier: Apache-2.0
// Texts to ONNX files, by the reader's tables: what their numbers are is checked elsewhere, against
// protobuf's (test/onnx).
#include "test/unit/frontends/onnx_text.h"

#include "frontends/onnx/wire.h"
#include "test/support/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer_t {
  unsigned char *data;
  size_t len, cap;
} buffer_t;

static void put(buffer_t *b, const void *data, size_t len) {
  if (b->cap - b->len < len) {
    b->cap = 2 * b->cap + len + 64;
    b->data = realloc(b->data, b->cap);
    assert_non_null(b->data);
  }
  if (len > 0)
    memcpy(b->data + b->len, data, len);
  b->len += len;
}

static void put_varint(buffer_t *b, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    unsigned char byte = (unsigned char)(value | 0x80);
    put(b, &byte, 1);
  }
  unsigned char last = (unsigned char)value;
  put(b, &last, 1);
}

static void put_counted(buffer_t *b, uint32_t number, const buffer_t *body) {
  put_varint(b, (uint64_t)number << 3 | DT_WIRE_BYTES);
  put_varint(b, body->len);
  put(b, body->data, body->len);
}

// ---- Words of the text ----------------------------------------------------------------------------
static const char *skip_space(const char *at) {
  while (*at && isspace((unsigned char)*at))
    at++;
  return at;
}

static const char *read_name(const char *at, char name[64]) {
  size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
  if (len == 0 || len >= 64)
    fail_msg("expected a field's name at: %.40s", at);
  memcpy(name, at, len);
  name[len] = '\0';
  return skip_space(at + len);
}

static int hex(char c) {
  const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
  if (!found)
    fail_msg("expected a hexadecimal digit at %c", c);
  return (int)(found - digits);
}

static const char *read_string(const char *at, buffer_t *out) {
  for (at++; *at != '\''; at++) {
    assert_true(*at != '\0');
    unsigned char c = (unsigned char)*at;
    if (at[0] == '\\') {
      c = (unsigned char)(hex(at[2]) << 4 | hex(at[3]));
      at += 3;
    }
    put(out, &c, 1);
  }
  return skip_space(at + 1);
}

static const char *read_raw(const char *at, buffer_t *out) {
  for (at = skip_space(at + 1); *at != '>'; at = skip_space(at + 2)) {
    unsigned char c = (unsigned char)(hex(at[0]) << 4 | hex(at[1]));
    put(out, &c, 1);
  }
  return skip_space(at + 1);
}

// A number as an element of the wire type.
static const char *read_number(const char *at, uint32_t type, buffer_t *out) {
  char *end = NULL;
  if (type == DT_WIRE_VARINT) {
    bool negative = *at == '-';
    uint64_t value = negative ? (uint64_t)strtoll(at, &end, 0) : strtoull(at, &end, 0);
    put_varint(out, value);
  } else if (type == DT_WIRE_FIXED32) {
    float value = strtof(at, &end);
    put(out, &value, sizeof value);
  } else {
    double value = strtod(at, &end);
    put(out, &value, sizeof value);
  }
  if (end == at)
    fail_msg("expected a number at: %.40s", at);
  return skip_space(end);
}

// ---- Messages -------------------------------------------------------------------------------------
static const char *make(const dt_onnx_message_t *message, const char *at, buffer_t *out);

static const dt_onnx_field_t *row_of(const dt_onnx_message_t *message, const char *name) {
  for (uint32_t k = 0; k < message->n_fields; k++)
    if (strcmp(message->fields[k].name, name) == 0)
      return &message->fields[k];
  fail_msg("%s has no field %s", message->name, name);
  return NULL;
}

static const char *make_field(const dt_onnx_field_t *row, bool other, const char *at,
                              buffer_t *out) {
  buffer_t body = {0};
  uint32_t type = dt__onnx_wire_type(row->kind);
  if (*at == '{') {
    at = make(row->sub, skip_space(at + 1), &body);
    assert_true(*at == '}');
    at = skip_space(at + 1);
    put_counted(out, row->number, &body);
  } else if (*at == '[') {
    for (at = skip_space(at + 1); *at != ']';)
      at = read_number(at, type, &body);
    at = skip_space(at + 1);
    put_counted(out, row->number, &body);
  } else if (*at == '\'') {
    assert_true(other || type == DT_WIRE_BYTES);
    at = read_string(at, &body);
    put_counted(out, row->number, &body);
  } else {
    type = other && type != DT_WIRE_VARINT ? DT_WIRE_VARINT : other ? DT_WIRE_FIXED32 : type;
    assert_true(type != DT_WIRE_BYTES);
    put_varint(out, (uint64_t)row->number << 3 | type);
    at = read_number(at, type, out);
  }
  free(body.data);
  return at;
}

static const char *make(const dt_onnx_message_t *message, const char *at, buffer_t *out) {
  char name[64];
  for (at = skip_space(at); *at && *at != '}';) {
    if (*at == '<') {
      at = read_raw(at, out);
      continue;
    }
    bool other = *at == '~';
    at = read_name(at + other, name);
    at = make_field(row_of(message, name), other, at, out);
  }
  return at;
}

onnx_bytes_t onnx_make(const dt_onnx_message_t *message, const char *text) {
  buffer_t buffer = {0};
  const char *end = make(message, text, &buffer);
  if (*end)
    fail_msg("a brace too many at: %.40s", end);
  // A block of exactly this size lets the address sanitizer see what reads beyond it.
  onnx_bytes_t bytes = {malloc(buffer.len ? buffer.len : 1), buffer.len};
  assert_non_null(bytes.data);
  if (buffer.len > 0)
    memcpy(bytes.data, buffer.data, buffer.len);
  free(buffer.data);
  return bytes;
}

void onnx_free(onnx_bytes_t *bytes) {
  free(bytes->data);
  *bytes = (onnx_bytes_t){0};
}
