// SPDX-License-Identifier: Apache-2.0
// Micro-kernels of the matrix template: some rows of A's copy times one panel of B, and what a
// panel's elements are made of.
#ifndef DT_BACKEND_LLVM_EMIT_MATMUL_MICRO_H
#define DT_BACKEND_LLVM_EMIT_MATMUL_MICRO_H

#include "backend_llvm/emit/matmul.h"

// What a panel holds: elements as they are multiplied, halves, or codes of few bits, of which the
// element is (code - zero) * scale. Codes lie as words: each column's lane of 32 bits has those of
// DT_MATMUL_WORD * 8 / bits elements of k, and byte j of it those of k % 4 = j, the first in the
// lowest bits. Scales and zeros are panels of their own, a row for each block of k.
typedef struct dt_panel_t {
  dt_dtype_t held; // of the load
  uint32_t bits;   // of codes; 0: they are none
  int64_t block;   // elements of k that have one scale
  uint32_t scales; // LOAD
  uint32_t zeros;  // LOAD of U8 or F32, or DT_NO_INST: `zero` is all of them
  double zero;
  dt_dtype_t zeros_held;
  // A is made of integers and a scale for each block, too (this LOAD); or DT_NO_INST. Integers are
  // multiplied and summed as such within a segment.
  uint32_t a_scales;
} dt_panel_t;

static inline bool dt__panel_has_dots(const dt_panel_t *panel) {
  return panel->bits && panel->a_scales != DT_NO_INST;
}
// Elements of k in a lane.
static inline int64_t dt__panel_group(const dt_panel_t *panel) {
  return panel->bits ? DT_MATMUL_WORD * 8 / panel->bits : 1;
}
// Elements of k whose integers are summed before they are scaled: sums are exact in f32.
static inline int64_t dt__panel_segment(const dt_panel_t *panel) {
  return dt__matmul_segment((uint32_t)panel->block);
}
// Of the schedule's B. False: B's factor is made in no such way.
bool dt__matmul_panel(const dt_kernel_t *kernel, const dt_matmul_t *matmul, dt_panel_t *out);

typedef struct dt_micro_form_t {
  dt_dtype_t sum, a; // of sums, and of A's copy
  uint32_t rows, width;
  const dt_panel_t *panel;
  bool in_place; // A's rows may be read where they lie; of plain panels
} dt_micro_form_t;

typedef struct dt_micro_args_t {
  LLVMValueRef a, b, c;
  LLVMValueRef depth; // steps over k: elements, words or segments
  LLVMValueRef c_stride, again;
  // Where rows are read in place: elements from one to the next, and from one run of `depth`
  // elements to the next of so many.
  LLVMValueRef a_stride, runs, run_step;
  LLVMValueRef scales, zeros; // where the panel's are; or NULL
  LLVMValueRef sides;         // of segments: two floats each, A's scale and the sum of its integers
  LLVMValueRef side_stride;   // floats from one row's to the next
} dt_micro_args_t;

void dt__matmul_micro(dt_emit_t *m, const dt_micro_form_t *form, const dt_micro_args_t *args);
// Writes a panel of codes as plain elements; of `args` b, depth, scales and zeros count.
void dt__matmul_decode(dt_emit_t *m, const dt_micro_form_t *form, const dt_micro_args_t *args,
                       LLVMValueRef to);
// To each sum the products of four u8 with four i8.
LLVMValueRef dt__emit_add_dots(dt_emit_t *m, LLVMValueRef u, LLVMValueRef i, LLVMValueRef sums);
// Row 0, 1, … of scales or zeros, as floats.
LLVMValueRef dt__panel_factor(dt_emit_t *m, dt_dtype_t held, LLVMValueRef from, LLVMValueRef row,
                              uint32_t width, uint32_t vector, uint32_t lanes);
// Those of integers (matmul_dots.c): the body of the function `fn`, whose parameters are `args`.
void dt__matmul_dots(dt_emit_t *m, const dt_micro_form_t *form, LLVMValueRef fn,
                     const dt_micro_args_t *args);

#endif // DT_BACKEND_LLVM_EMIT_MATMUL_MICRO_H
