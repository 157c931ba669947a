// SPDX-License-Identifier: Apache-2.0
// The inputs of a model as declarations of a function's inputs. An input with an initializer is a
// constant and not declared.
//
// A dim with a value is static. Dims of one name have one size, as the format demands. A name that
// is an expression of another input's dim ("past_sequence_length + 1", "2*batch") makes a derived
// dim where it comes to scale * name + offset, and is a name like any other where it does not.
#ifndef DT_FRONTENDS_ONNX_DECLARE_H
#define DT_FRONTENDS_ONNX_DECLARE_H

#include "ductile/function.h"
#include "frontends/onnx/onnx.h"

// scale * name + offset; without a name, scale is 0.
typedef struct dt_onnx_affine_t {
  int64_t scale, offset;
  dt_onnx_str_t name;
} dt_onnx_affine_t;

// Reads an expression of integers, at most one name, + - * and parentheses; false: it is none, or
// its numbers reach 2^31.
bool dt__onnx_read_affine(dt_onnx_str_t text, dt_onnx_affine_t *out);

typedef struct dt_onnx_decls_t {
  dt_input_decl_t *items;
  uint32_t *inputs; // which input of the graph each is
  uint32_t len;
} dt_onnx_decls_t;

// All of it lives in `arena`. DT_E_UNSUPPORTED names every input that is no tensor, of unknown
// rank, or of an element type that Ductile does not have. DT_E_NO_MEMORY.
dt_status_t dt__onnx_declare(const dt_onnx_t *file, dt_arena_t *arena,
                             dt_onnx_decls_t *out) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_DECLARE_H
