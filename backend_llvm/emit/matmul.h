// SPDX-License-Identifier: Apache-2.0
// MATMUL: a product by one thread, tile by tile, and how its scratch is laid out.
#ifndef DT_BACKEND_LLVM_EMIT_MATMUL_H
#define DT_BACKEND_LLVM_EMIT_MATMUL_H

#include "backend_llvm/emit/body.h"

// One tile of C, inside the grid loop, at the two tile coordinates.
void dt__matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row);
dt_status_t dt__matmul_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule) DT_MUST_USE;
// A grid item's tile is the schedule's, or so many times that where sizes give every thread
// several of the larger ones: A is then copied, and B read, less often. `scripts/bench matmul` and
// `scripts/bench cpu minilm` measure both numbers and the depth below (bench/bench_matmul.c).
#define DT_MATMUL_BIG_ROWS 2
#define DT_MATMUL_BIG_COLS 3
void dt__matmul_tile(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     dt_sym_t *out_rows, dt_sym_t *out_cols);
// Elements of k, or words of 8-bit integers, that are worked on at a time, and the stride of A's
// copied rows.
#define DT_MATMUL_WORD 4
#define DT_MATMUL_DEPTH 256
static inline int64_t dt__matmul_a_stride(size_t element) {
  return DT_MATMUL_DEPTH + (int64_t)(64 / element);
}
// Bytes of scratch for the copy of A's rows; the C tile follows.
static inline int64_t dt__matmul_a_bytes(const dt_matmul_t *matmul, size_t element) {
  int64_t rows = (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS;
  return (rows * dt__matmul_a_stride(element) * (int64_t)element + 63) & ~(int64_t)63;
}
// Bytes of the C tile.
static inline int64_t dt__matmul_c_bytes(const dt_matmul_t *matmul, size_t element) {
  int64_t elements = (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS * matmul->tile_cols;
  return (elements * DT_MATMUL_BIG_COLS * (int64_t)element + 63) & ~(int64_t)63;
}
// Of the panel that a tile packs for itself; behind the C tile.
int64_t dt__matmul_panel_bytes(const dt_matmul_t *matmul, size_t element);
// Packs the panel of columns from `col` on, up to `end`, and `depth` elements of k from `first_k`
// on, at `level` (matmul_pack.c).
void dt__matmul_pack(dt_body_t *k, uint32_t level, LLVMValueRef col, LLVMValueRef end,
                     LLVMValueRef first_k, LLVMValueRef depth, LLVMValueRef panel);
// A's rows are runs of neighbours along the last of k's loops, wherever these are (matmul_runs.c).
bool dt__matmul_rows_run(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul);
// There are several, or rows stand at no fixed distance: they are copied as follows.
bool dt__matmul_has_runs(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul);
// A table of where rows begin: `rows` from `first_row` on, of which the last stands for those up to
// `end`; at level 1.
LLVMValueRef dt__matmul_find_rows(dt_body_t *k, LLVMValueRef first_row, LLVMValueRef rows,
                                  LLVMValueRef end);
// Copies `depth` elements of k from `first_k` on of each row, as `to`, at level 2.
void dt__matmul_copy_runs(dt_body_t *k, dt_dtype_t to, LLVMValueRef table, LLVMValueRef end,
                          LLVMValueRef first_k, LLVMValueRef depth);
// Elements from one row of the C tile to the next.
static inline int64_t dt__matmul_c_stride(const dt_matmul_t *matmul) {
  return (int64_t)matmul->tile_cols * DT_MATMUL_BIG_COLS;
}

#endif // DT_BACKEND_LLVM_EMIT_MATMUL_H
