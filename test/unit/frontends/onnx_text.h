// SPDX-License-Identifier: Apache-2.0
// Makes ONNX files from texts, well-formed or not, for the tests.
//
//   ir_version 8  opset_import { version 17 }  graph { node { op_type 'Add' input 'x' } }
//
// Fields have their names in onnx.proto and a number, a 'string' (with \xNN), a message in braces,
// or several numbers packed into one field in brackets. `<08 ff>` stands for these bytes as they
// are, and `~name 'string'` gives a field another wire type than its own.
#ifndef DT_TESTS_UNIT_FRONTENDS_ONNX_TEXT_H
#define DT_TESTS_UNIT_FRONTENDS_ONNX_TEXT_H

#include "frontends/onnx/schema.h"

typedef struct onnx_bytes_t {
  unsigned char *data; // on the heap, exactly `len` bytes; owner
  size_t len;
} onnx_bytes_t;

// Fails the test where the text is wrong.
onnx_bytes_t onnx_make(const dt_onnx_message_t *message, const char *text);
void onnx_free(onnx_bytes_t *bytes);

#endif // DT_TESTS_UNIT_FRONTENDS_ONNX_TEXT_H
