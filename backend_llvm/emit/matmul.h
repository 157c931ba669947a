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
// Floats of one row's segments, two each, where integers with scales are multiplied.
static inline int64_t dt__matmul_side_stride(const dt_matmul_t *matmul) {
  return 2 * DT_MATMUL_DEPTH * DT_MATMUL_WORD / dt__matmul_segment(matmul->block);
}
// Behind the C tile: of the panel that a tile packs or decodes for itself, or of the sides of A's
// rows.
int64_t dt__matmul_panel_bytes(const dt_kernel_t *kernel, const dt_matmul_t *matmul,
                               size_t element);
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
typedef struct dt_matmul_rows_t {
  LLVMValueRef table, begin, end;
} dt_matmul_rows_t;
// Copies `depth` elements of k from `first_k` on of each of these rows, as `to`, in loops from
// `level` on.
void dt__matmul_copy_runs(dt_body_t *k, dt_dtype_t to, const dt_matmul_rows_t *rows,
                          LLVMValueRef first_k, LLVMValueRef depth, uint32_t level);
// Where run number `run` begins, apart from a row's own place, at `level`; *out_step: how far on
// the next one does, where one loop counts them.
LLVMValueRef dt__matmul_run_place(dt_body_t *k, LLVMValueRef run, uint32_t level,
                                  LLVMValueRef *out_step);
// Rows can be read where they lie (matmul_place.c).
bool dt__matmul_in_place(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul);
// A table by group of rows: how far apart they stand, or 0 where they must be copied; at level 1.
LLVMValueRef dt__matmul_find_steps(dt_body_t *k, LLVMValueRef table, LLVMValueRef end);
// k in blocks: whole runs, or pieces of long ones.
typedef struct dt_matmul_blocks_t {
  LLVMValueRef terms, run;           // of k; of one run
  LLVMValueRef is_short;             // runs are within the depth
  LLVMValueRef n;                    // blocks
  LLVMValueRef whole, pieces, piece; // terms of whole runs; pieces of a run, and terms of one
  // Of one block: where it begins, its terms, runs of how many of them, and where the first lies.
  LLVMValueRef first_k, depth, runs, length, place, run_step;
} dt_matmul_blocks_t;
dt_matmul_blocks_t dt__matmul_blocks(dt_body_t *k, LLVMValueRef extent_k); // at level 1
void dt__matmul_begin_block(dt_body_t *k, dt_matmul_blocks_t *blocks,
                            LLVMValueRef block); // at level 2
// Products of squares of places (matmul_winograd.c): one tile, as dt__matmul_item; why its code
// cannot be made, or NULL; its scratch; how many squares there are, and rows of places.
void dt__winograd_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row);
const char *dt__winograd_refusal(dt_emit_t *m, const dt_kernel_t *kernel,
                                 const dt_schedule_t *schedule);
int64_t dt__winograd_bytes(const dt_matmul_t *matmul, size_t element);
dt_sym_t dt__winograd_squares(dt_symenv_t *env, dt_sym_t places, dt_sym_t across, dt_sym_t *down);
// The transforms of one square (matmul_squares.c), whose forms stand `apart`, in elements.
typedef struct dt_squares_form_t {
  uint32_t lanes;
  int64_t apart;
} dt_squares_form_t;
// Channels of the square whose first place is at x, to V. Rows and columns of x stand so far apart,
// but for the last ones, which are so far from the first.
enum {
  DT_SQUARES_X,
  DT_SQUARES_V,
  DT_SQUARES_COUNT, // of channels: whole vectors, one at least
  DT_SQUARES_ROW,
  DT_SQUARES_COL,
  DT_SQUARES_LAST_ROW,
  DT_SQUARES_LAST_COL,
  DT_SQUARES_ARGS
};
void dt__squares_transform(dt_emit_t *m, const dt_squares_form_t *form,
                           LLVMValueRef args[DT_SQUARES_ARGS]);
// The forms at `c`, of so many columns, to the square's four places, which are the first four of
// them then. Gives 1 where not all are finite.
LLVMValueRef dt__squares_back(dt_emit_t *m, const dt_squares_form_t *form, LLVMValueRef c,
                              LLVMValueRef columns);
// Elements from one row of the C tile to the next.
static inline int64_t dt__matmul_c_stride(const dt_matmul_t *matmul) {
  return (int64_t)matmul->tile_cols * DT_MATMUL_BIG_COLS;
}

#endif // DT_BACKEND_LLVM_EMIT_MATMUL_H
