// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format, written.
#include "onnxruntime/wire.h"

enum { VARINT = 0, COUNTED = 2, FIXED32 = 5, LENGTH_BYTES = 5 };

static void put_varint(ep_bytes_t *out, uint64_t value) {
  unsigned char bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7)
    bytes[n++] = (unsigned char)(value | 0x80);
  bytes[n++] = (unsigned char)value;
  ep_put(out, bytes, n);
}

static void put_tag(ep_bytes_t *out, uint32_t field, uint32_t type) {
  put_varint(out, (uint64_t)field << 3 | type);
}

void ep_wire_int(ep_bytes_t *out, uint32_t field, uint64_t value) {
  put_tag(out, field, VARINT);
  put_varint(out, value);
}

void ep_wire_float(ep_bytes_t *out, uint32_t field, float value) {
  unsigned char bytes[4];
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  for (uint32_t k = 0; k < 4; k++)
    bytes[k] = (unsigned char)(bits >> (8 * k));
  put_tag(out, field, FIXED32);
  ep_put(out, bytes, sizeof(bytes));
}

void ep_wire_bytes(ep_bytes_t *out, uint32_t field, const void *data, size_t len) {
  put_tag(out, field, COUNTED);
  put_varint(out, len);
  ep_put(out, data, len);
}

void ep_wire_text(ep_bytes_t *out, uint32_t field, const char *text) {
  ep_wire_bytes(out, field, text, strlen(text));
}

size_t ep_wire_begin(ep_bytes_t *out, uint32_t field) {
  static const unsigned char nothing[LENGTH_BYTES];
  put_tag(out, field, COUNTED);
  ep_put(out, nothing, LENGTH_BYTES);
  return out->len;
}

void ep_wire_end(ep_bytes_t *out, size_t begun) {
  if (out->failed)
    return;
  size_t len = out->len - begun;
  if (len > UINT32_MAX) {
    out->failed = true;
    return;
  }
  for (uint32_t k = 0; k < LENGTH_BYTES; k++) {
    unsigned char more = k + 1 < LENGTH_BYTES ? 0x80 : 0;
    unsigned char bits = (unsigned char)((len >> (7 * k)) & 0x7f);
    out->data[begun - LENGTH_BYTES + k] = (unsigned char)(bits | more);
  }
}
