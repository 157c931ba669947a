// SPDX-License-Identifier: Apache-2.0
// Protobuf of ONNX models, message by message.
#include "bench/onnx_bytes.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void onnx_bytes_free(onnx_bytes_t *bytes) {
  free(bytes->data);
  *bytes = (onnx_bytes_t){0};
}

static void put(onnx_bytes_t *to, const void *data, size_t len) {
  if (to->len + len > to->cap && !to->failed) {
    size_t cap = 2 * (to->len + len) + 64;
    unsigned char *moved = realloc(to->data, cap);
    to->failed = !moved;
    if (moved) {
      to->data = moved;
      to->cap = cap;
    }
  }
  if (to->failed || len == 0)
    return;
  memcpy(to->data + to->len, data, len);
  to->len += len;
}

static void put_varint(onnx_bytes_t *to, uint64_t value) {
  unsigned char bytes[10];
  size_t n = 0;
  do {
    bytes[n++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value);
  put(to, bytes, n);
}

static void put_number(onnx_bytes_t *to, uint32_t field, int64_t value) {
  put_varint(to, field << 3 | WIRE_VARINT);
  put_varint(to, (uint64_t)value);
}

static void put_field(onnx_bytes_t *to, uint32_t field, const void *data, size_t len) {
  put_varint(to, field << 3 | WIRE_BYTES);
  put_varint(to, len);
  put(to, data, len);
}

void onnx_put_text(onnx_bytes_t *to, uint32_t field, const char *text) {
  put_field(to, field, text, strlen(text));
}

void onnx_put_message(onnx_bytes_t *to, uint32_t field, onnx_bytes_t *message) {
  put_field(to, field, message->data, message->len);
  to->failed = to->failed || message->failed;
  onnx_bytes_free(message);
}

// ---- Attributes ---------------------------------------------------------------------------------

void onnx_put_int_attribute(onnx_bytes_t *to, const char *name, int64_t value) {
  onnx_put_text(to, 1, name);
  put_number(to, 3, value);
  put_number(to, 20, 2);
}

void onnx_put_graph_attribute(onnx_bytes_t *to, const char *name, onnx_bytes_t *graph) {
  onnx_put_text(to, 1, name);
  onnx_put_message(to, 6, graph);
  put_number(to, 20, 5);
}

// ---- Graphs -------------------------------------------------------------------------------------

void onnx_put_node(onnx_bytes_t *graph, const char *op, const char *const *inputs,
                   const char *output) {
  onnx_bytes_t node = {0};
  for (; *inputs; inputs++)
    onnx_put_text(&node, ONNX_NODE_INPUT, *inputs);
  onnx_put_text(&node, ONNX_NODE_OUTPUT, output);
  onnx_put_text(&node, ONNX_NODE_OP, op);
  onnx_put_message(graph, ONNX_GRAPH_NODE, &node);
}

static void put_typed(onnx_bytes_t *graph, uint32_t field, const char *name, int64_t dtype,
                      onnx_bytes_t *shape) {
  onnx_bytes_t value = {0}, type = {0}, tensor = {0};
  put_number(&tensor, 1, dtype);
  onnx_put_message(&tensor, 2, shape);
  onnx_put_message(&type, 1, &tensor);
  onnx_put_text(&value, 1, name);
  onnx_put_message(&value, 2, &type);
  onnx_put_message(graph, field, &value);
}

void onnx_put_value(onnx_bytes_t *graph, uint32_t field, const char *name, uint32_t rank) {
  onnx_bytes_t shape = {0};
  for (uint32_t k = 0; k < 2; k++) {
    onnx_bytes_t dim = {0};
    if (rank == 0)
      put_number(&dim, 1, 16);
    onnx_put_message(&shape, 1, &dim);
  }
  put_typed(graph, field, name, ONNX_FLOAT, &shape);
}

void onnx_put_scalar(onnx_bytes_t *graph, uint32_t field, const char *name, int64_t dtype) {
  onnx_bytes_t shape = {0};
  put_typed(graph, field, name, dtype, &shape);
}

void onnx_put_integers(onnx_bytes_t *graph, const char *name, uint32_t n, const int64_t *values) {
  onnx_bytes_t tensor = {0};
  if (n)
    put_number(&tensor, 1, n);
  put_number(&tensor, 2, ONNX_INT64);
  for (uint32_t k = 0; k < (n ? n : 1); k++)
    put_number(&tensor, 7, values[k]);
  onnx_put_text(&tensor, 8, name);
  onnx_put_message(graph, ONNX_GRAPH_INITIALIZER, &tensor);
}

onnx_bytes_t onnx_model_of(onnx_bytes_t *graph) {
  onnx_bytes_t model = {0}, opset = {0};
  onnx_put_text(graph, ONNX_GRAPH_NAME, "many");
  put_number(&opset, 2, 18);
  put_number(&model, 1, 8);
  onnx_put_message(&model, 8, &opset);
  onnx_put_message(&model, 7, graph);
  return model;
}
