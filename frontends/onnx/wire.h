// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format over bounded bytes: a field after another, nothing copied.
#ifndef DT_FRONTENDS_ONNX_WIRE_H
#define DT_FRONTENDS_ONNX_WIRE_H

#include "ductile/base.h"

enum { DT_WIRE_VARINT = 0, DT_WIRE_FIXED64 = 1, DT_WIRE_BYTES = 2, DT_WIRE_FIXED32 = 5 };

typedef struct dt_wire_t {
  const unsigned char *at, *end;
} dt_wire_t;

typedef struct dt_wire_field_t {
  const unsigned char *begin; // of the field's tag
  uint32_t number, type;
  uint64_t value; // VARINT, FIXED64, FIXED32: the bits
  dt_wire_t body; // BYTES
} dt_wire_field_t;

// NULL: *out holds the field, *wire stands behind it. Otherwise what is wrong with it, in static
// storage; *wire still stands before it. Only when wire->at < wire->end.
const char *dt__wire_next(dt_wire_t *wire, dt_wire_field_t *out) DT_MUST_USE;
// One varint of at most 64 bits; false: cut off or too long, and *wire is unchanged.
bool dt__wire_varint(dt_wire_t *wire, uint64_t *out) DT_MUST_USE;
// An element of a packed field of the wire type (not BYTES), little-endian; false as above.
bool dt__wire_element(dt_wire_t *wire, uint32_t type, uint64_t *out) DT_MUST_USE;
const char *dt__wire_type_name(uint32_t type);

#endif // DT_FRONTENDS_ONNX_WIRE_H
