// SPDX-License-Identifier: Apache-2.0
// See onnx_export.h. Values are named by numbers in the order in which they are made.
#include "test/unit/frontends/onnx_export.h"

#include "test/support/check.h"
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, INNER = 2 * EXPORT_WIDTH, SPLIT = EXPORT_WIDTH / EXPORT_HEADS };

typedef struct text_t {
  char *at;
  size_t len;
  int values; // made so far
} text_t;

static void put(text_t *m, const char *fmt, ...) DT_PRINTF(2, 3);
static void put(text_t *m, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(m->at + m->len, BYTES - m->len, fmt, args);
  va_end(args);
  assert_true(n >= 0 && m->len + (size_t)n < BYTES);
  m->len += (size_t)n;
}

// ---- Initializers -------------------------------------------------------------------------------
// Of rank 1 where `cols` is 0. Numbers around `middle`, other ones for each weight.
static int weight(text_t *m, int rows, int cols, double middle) {
  int id = m->values++;
  put(m, "initializer { name 'v%d' data_type 1 dims %d ", id, rows);
  if (cols)
    put(m, "dims %d ", cols);
  put(m, "float_data [");
  for (int k = 0; k < rows * (cols ? cols : 1); k++)
    put(m, " %.3f", middle + 0.4 * sin(1.7 * k + 0.9 * id));
  put(m, " ] } ");
  return id;
}

static int number(text_t *m, double value) {
  int id = m->values++;
  put(m, "initializer { name 'v%d' data_type 1 float_data [ %.9g ] } ", id, value);
  return id;
}

static int integer(text_t *m, bool is_list, int value) {
  int id = m->values++;
  put(m, "initializer { name 'v%d' data_type 7 %s int64_data [ %d ] } ", id,
      is_list ? "dims 1" : "", value);
  return id;
}

// ---- Nodes --------------------------------------------------------------------------------------
// Of one or two values (b -1: one), with attributes as text.
static int node(text_t *m, const char *op, int a, int b, const char *attributes) {
  int id = m->values++;
  put(m, "node { op_type '%s' input 'v%d' ", op, a);
  if (b >= 0)
    put(m, "input 'v%d' ", b);
  put(m, "output 'v%d' %s} ", id, attributes);
  return id;
}

static int unary(text_t *m, const char *op, int a) { return node(m, op, a, -1, ""); }
static int binary(text_t *m, const char *op, int a, int b) { return node(m, op, a, b, ""); }

static int mean(text_t *m, int x) {
  return node(m, "ReduceMean", x, -1,
              "attribute { name 'axes' type 7 ints [ -1 ] } " INT("keepdims", "1"));
}

static int norm(text_t *m, int x) {
  int centred = binary(m, "Sub", x, mean(m, x));
  int square = binary(m, "Pow", centred, number(m, 2));
  int variance = binary(m, "Add", mean(m, square), number(m, 1e-12));
  int scaled = binary(m, "Div", centred, unary(m, "Sqrt", variance));
  scaled = binary(m, "Mul", scaled, weight(m, EXPORT_WIDTH, 0, 1));
  return binary(m, "Add", scaled, weight(m, EXPORT_WIDTH, 0, 0));
}

// The bias comes first, as tracing exporters write it.
static int linear(text_t *m, int x, int rows, int cols) {
  int product = binary(m, "MatMul", x, weight(m, rows, cols, 0));
  return binary(m, "Add", weight(m, cols, 0, 0), product);
}

static int size(text_t *m, int x, int dim) {
  int one = node(m, "Gather", unary(m, "Shape", x), integer(m, false, dim), INT("axis", "0"));
  return binary(m, "Unsqueeze", one, integer(m, true, 0));
}

// Concat of the first two sizes of x and these; a last one of 0 is none.
static int sizes(text_t *m, int x, int third, int fourth) {
  int batch = size(m, x, 0), length = size(m, x, 1), more = integer(m, true, third);
  int last = fourth ? integer(m, true, fourth) : 0, id = m->values++;
  put(m, "node { op_type 'Concat' input 'v%d' input 'v%d' input 'v%d' ", batch, length, more);
  if (fourth)
    put(m, "input 'v%d' ", last);
  put(m, "output 'v%d' " INT("axis", "0") "} ", id);
  return id;
}

static int split(text_t *m, int x, const char *order) {
  int parts = binary(m, "Reshape", x, sizes(m, x, EXPORT_HEADS, SPLIT));
  char perm[80];
  (void)snprintf(perm, sizeof(perm), "attribute { name 'perm' type 7 ints [ %s ] } ", order);
  return node(m, "Transpose", parts, -1, perm);
}

static int attention(text_t *m, int x, int bias) {
  int q = split(m, linear(m, x, EXPORT_WIDTH, EXPORT_WIDTH), "0 2 1 3");
  int k = split(m, linear(m, x, EXPORT_WIDTH, EXPORT_WIDTH), "0 2 3 1");
  int v = split(m, linear(m, x, EXPORT_WIDTH, EXPORT_WIDTH), "0 2 1 3");
  int scores = binary(m, "Div", binary(m, "MatMul", q, k), number(m, sqrt(SPLIT)));
  scores = node(m, "Softmax", binary(m, "Add", scores, bias), -1, INT("axis", "-1"));
  int mixed = node(m, "Transpose", binary(m, "MatMul", scores, v), -1,
                   "attribute { name 'perm' type 7 ints [ 0 2 1 3 ] } ");
  mixed = binary(m, "Reshape", mixed, sizes(m, x, EXPORT_WIDTH, 0));
  return linear(m, mixed, EXPORT_WIDTH, EXPORT_WIDTH);
}

static int feed_forward(text_t *m, int x) {
  int h = linear(m, x, EXPORT_WIDTH, INNER);
  int erf = unary(m, "Erf", binary(m, "Div", h, number(m, sqrt(2))));
  int gelu = binary(m, "Mul", h, binary(m, "Add", erf, number(m, 1)));
  gelu = binary(m, "Mul", gelu, number(m, 0.5));
  return linear(m, gelu, INNER, EXPORT_WIDTH);
}

// Words and places.
static int embeddings(text_t *m) {
  int words = weight(m, EXPORT_WORDS, EXPORT_WIDTH, 0);
  int places = m->values++, rows = m->values++;
  put(m, "initializer { name 'v%d' data_type 7 dims 1 dims %d int64_data [", places,
      EXPORT_LONGEST);
  for (int k = 0; k < EXPORT_LONGEST; k++)
    put(m, " %d", k);
  put(m, " ] } node { op_type 'Gather' input 'v%d' input 'ids' output 'v%d' " INT("axis", "0") "} ",
      words, rows);
  int begin = integer(m, true, 0), end = size(m, rows, 1), axis = integer(m, true, 1);
  int some = m->values++;
  put(m, "node { op_type 'Slice' input 'v%d' input 'v%d' input 'v%d' input 'v%d' output 'v%d' } ",
      places, begin, end, axis, some);
  int table = weight(m, EXPORT_LONGEST, EXPORT_WIDTH, 0);
  return binary(m, "Add", rows, node(m, "Gather", table, some, INT("axis", "0")));
}

// 0 where the mask is 1, else -10000, for scores.
static int mask_bias(text_t *m) {
  int mask = m->values++;
  put(m, "node { op_type 'Identity' input 'mask' output 'v%d' } ", mask);
  mask = binary(m, "Unsqueeze", mask, integer(m, true, 1));
  mask = binary(m, "Unsqueeze", mask, integer(m, true, 2));
  mask = node(m, "Cast", mask, -1, INT("to", "1"));
  return binary(m, "Mul", binary(m, "Sub", number(m, 1), mask), number(m, -10000));
}

char *export_text(uint32_t layers, bool pre) {
  text_t m = {.at = malloc(BYTES)};
  assert_non_null(m.at);
  put(&m, "ir_version 8 opset_import { version 13 } graph { name 'encoder' " INPUT(
              "ids", "7", OPEN("batch") OPEN("length"))
              INPUT("mask", "7", OPEN("batch") OPEN("length")));
  int bias = mask_bias(&m), x = embeddings(&m);
  if (!pre)
    x = norm(&m, x);
  for (uint32_t k = 0; k < layers; k++)
    for (int part = 0; part < 2; part++) {
      int from = pre ? norm(&m, x) : x;
      x = binary(&m, "Add", part ? feed_forward(&m, from) : attention(&m, from, bias), x);
      x = pre ? x : norm(&m, x);
    }
  if (pre)
    x = norm(&m, x);
  put(&m, "output { name 'v%d' } } ", x);
  return m.at;
}
