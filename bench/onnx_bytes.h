// SPDX-License-Identifier: Apache-2.0
// Writes ONNX models: as much of the format as bench_many needs.
#ifndef BENCH_ONNX_BYTES_H
#define BENCH_ONNX_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A message under way, or a whole model. Zero it; without memory it becomes `failed` and stays so.
typedef struct onnx_bytes_t {
  unsigned char *data; // owned
  size_t len, cap;
  bool failed;
} onnx_bytes_t;

// Field numbers of onnx.proto.
enum {
  ONNX_GRAPH_NODE = 1,
  ONNX_GRAPH_NAME = 2,
  ONNX_GRAPH_INITIALIZER = 5,
  ONNX_GRAPH_INPUT = 11,
  ONNX_GRAPH_OUTPUT = 12,
  ONNX_NODE_INPUT = 1,
  ONNX_NODE_OUTPUT = 2,
  ONNX_NODE_OP = 4,
  ONNX_NODE_ATTRIBUTE = 5,
};
// Element types.
enum { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_BOOL = 9 };

void onnx_bytes_free(onnx_bytes_t *bytes);
void onnx_put_text(onnx_bytes_t *to, uint32_t field, const char *text);
void onnx_put_message(onnx_bytes_t *to, uint32_t field, onnx_bytes_t *message); // frees it
void onnx_put_int_attribute(onnx_bytes_t *to, const char *name, int64_t value);
void onnx_put_graph_attribute(onnx_bytes_t *to, const char *name, onnx_bytes_t *graph); // frees it

// Into a graph. `inputs` ends with NULL.
void onnx_put_node(onnx_bytes_t *graph, const char *op, const char *const *inputs,
                   const char *output);
// An input or output of floats: of rank 2 with open sizes, or, rank 0, a matrix of [16, 16].
void onnx_put_value(onnx_bytes_t *graph, uint32_t field, const char *name, uint32_t rank);
void onnx_put_scalar(onnx_bytes_t *graph, uint32_t field, const char *name, int64_t dtype);
// An initializer of `n` numbers; n 0: one, of rank 0.
void onnx_put_integers(onnx_bytes_t *graph, const char *name, uint32_t n, const int64_t *values);
// Frees the graph.
onnx_bytes_t onnx_model_of(onnx_bytes_t *graph);

#endif // BENCH_ONNX_BYTES_H
