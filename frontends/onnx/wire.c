// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format.
#include "frontends/onnx/wire.h"

#include <string.h>

#define MAX_FIELD_NUMBER (((uint64_t)1 << 29) - 1)

bool dt__wire_varint(dt_wire_t *wire, uint64_t *out) {
  uint64_t value = 0;
  const unsigned char *at = wire->at;
  for (uint32_t shift = 0; shift < 64 && at < wire->end; shift += 7) {
    unsigned char byte = *at++;
    // The tenth byte holds the last bit of 64.
    if (shift == 63 && byte > 1)
      return false;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      wire->at = at;
      *out = value;
      return true;
    }
  }
  return false;
}

static bool fixed(dt_wire_t *wire, size_t bytes, uint64_t *out) {
  if ((size_t)(wire->end - wire->at) < bytes)
    return false;
  uint64_t value = 0;
  for (size_t k = 0; k < bytes; k++)
    value |= (uint64_t)wire->at[k] << (8 * k);
  wire->at += bytes;
  *out = value;
  return true;
}

bool dt__wire_element(dt_wire_t *wire, uint32_t type, uint64_t *out) {
  return type == DT_WIRE_VARINT    ? dt__wire_varint(wire, out)
         : type == DT_WIRE_FIXED32 ? fixed(wire, 4, out)
                                   : fixed(wire, 8, out);
}

static const char *read_body(dt_wire_t *wire, dt_wire_field_t *out) {
  uint64_t length = 0;
  if (!dt__wire_varint(wire, &length))
    return "a length is cut off or longer than 64 bits";
  if (length > (uint64_t)(wire->end - wire->at))
    return "a length reaches beyond the end of what holds it";
  out->body = (dt_wire_t){wire->at, wire->at + length};
  wire->at += length;
  return NULL;
}

const char *dt__wire_next(dt_wire_t *wire, dt_wire_field_t *out) {
  dt_wire_t at = *wire;
  uint64_t tag = 0;
  memset(out, 0, sizeof *out);
  out->begin = at.at;
  if (!dt__wire_varint(&at, &tag))
    return "a field's tag is cut off or longer than 64 bits";
  if (tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
    return "a field's number is 0 or beyond 2^29 - 1";
  out->number = (uint32_t)(tag >> 3);
  out->type = (uint32_t)(tag & 7);
  const char *wrong = NULL;
  if (out->type == DT_WIRE_BYTES)
    wrong = read_body(&at, out);
  else if (out->type == DT_WIRE_VARINT || out->type == DT_WIRE_FIXED32 ||
           out->type == DT_WIRE_FIXED64)
    wrong = dt__wire_element(&at, out->type, &out->value)
                ? NULL
                : "a number is cut off or longer than 64 bits";
  else
    wrong = "a wire type that the format does not use";
  if (!wrong)
    *wire = at;
  return wrong;
}

const char *dt__wire_type_name(uint32_t type) {
  static const char *const names[] = {"a varint", "64 bits", "bytes",           "a group",
                                      "a group",  "32 bits", "an unknown type", "an unknown type"};
  return names[type & 7];
}
