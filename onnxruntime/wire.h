// SPDX-License-Identifier: Apache-2.0
// Writes the protobuf wire format. A message within another gets its length when it ends, in five
// bytes that stand there from its beginning: a varint may be longer than it must be.
#ifndef DT_ONNXRUNTIME_WIRE_H
#define DT_ONNXRUNTIME_WIRE_H

#include "onnxruntime/host.h"

void ep_wire_int(ep_bytes_t *out, uint32_t field, uint64_t value);
void ep_wire_float(ep_bytes_t *out, uint32_t field, float value);
void ep_wire_bytes(ep_bytes_t *out, uint32_t field, const void *data, size_t len);
void ep_wire_text(ep_bytes_t *out, uint32_t field, const char *text);
// What follows, up to the end, is a message; gives what the end wants.
size_t ep_wire_begin(ep_bytes_t *out, uint32_t field);
// 2^32 bytes or more are a failure of `out`.
void ep_wire_end(ep_bytes_t *out, size_t begun);

#endif // DT_ONNXRUNTIME_WIRE_H
