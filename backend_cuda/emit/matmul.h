// SPDX-License-Identifier: Apache-2.0
// The matrix template of GPUs: a block computes a tile of C = A * B and runs the stages that follow
// on it. matmul.c draws the pipeline; here is what its parts share.
#ifndef DT_BACKEND_CUDA_EMIT_MATMUL_H
#define DT_BACKEND_CUDA_EMIT_MATMUL_H

#include "backend_cuda/emit/device.h"

// ---- Layout (matmul_plan.c): what a kernel and its schedule fix -----------------------------------
#define DT_PANEL_BYTES 128U
#define DT_GROUP 4 // warps

// How an operand's tiles come into the ring.
typedef enum dt_copy_t {
  DT_COPY_ELEMENTS, // one by one
  DT_COPY_UNITS,    // 16 bytes at a time, asynchronously, where sizes are aligned; else one by one
  DT_COPY_SLAB,     // 16 bytes at a time, from a SLAB
  DT_COPY_NONE,     // not at all: tensor cores' fragments are read from a SLAB
} dt_copy_t;

// One operand. Its tile has `length` rows (A) or columns (B) and `depth` elements of each. In
// shared memory it lies with its contiguous loop innermost, as in global memory: rows of `inner`
// elements, `pitch` bytes apart, an odd number of 16-byte units, so that neighbouring rows are in
// different banks. For groups of warps it lies in panels, each of all rows and DT_PANEL_BYTES of
// them, one after the other; unit u of row r stands in the place of unit u ^ r % 8 of its panel.
typedef struct dt_operand_t {
  uint32_t load;    // instruction of stage 0
  uint32_t mask;    // the load's; DT_NO_INST: none
  dt_dtype_t dtype; // in shared memory
  bool along_k;     // k is innermost
  dt_copy_t copy;
  dt_sym_t var, extent; // of m or n
  uint32_t length, inner, outer;
  bool panels;
  bool scattered;         // UNITS: rows are anywhere, not by steps of `var`
  uint32_t pitch, offset; // bytes; `offset` in one tile of the ring
} dt_operand_t;

typedef struct dt_matmul_plan_t {
  const dt_team_matmul_t *matmul;
  dt_dtype_t dtype; // of the sums
  bool tensor;      // by tensor cores
  bool groups;      // that read shared memory, for four warps together
  dt_operand_t a, b;
  uint32_t threads, warps_m, warps_n;
  uint32_t slices;     // warps that could share the depth of a tile
  uint32_t parts;      // that do: 1 where sums must be made in order
  uint32_t ahead;      // tiles whose copies are under way while one is multiplied
  uint32_t behind;     // groups: tiles that may still be multiplied while copies replace others
  uint32_t ring_bytes; // from one tile of the ring to the next
  uint32_t c_pitch;    // bytes from one row of the C tile to the next
  uint32_t c_bytes;    // of one C tile: every part has its own
  uint32_t blocks; // on one processor, by which registers are shared out: while one waits the other
                   // multiplies
  uint32_t shared_bytes; // of the ring or of the C tile, which takes its place
} dt_matmul_plan_t;

dt_status_t dt__matmul_plan(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_schedule_t *schedule, bool strict,
                            dt_matmul_plan_t *out) DT_MUST_USE;

// ---- Emission ---------------------------------------------------------------------------------------
#define DT_MATMUL_MAX_SUMS 128 // of a thread
#define DT_MATMUL_MAX_UNITS 8  // of 16 bytes that a thread copies of one operand's tile

// What a thread copies of one operand's tile, 16 bytes at a time. DT_COPY_NONE: what it reads.
typedef struct dt_units_t {
  LLVMValueRef from; // address of the first one, for the first tile; in a SLAB: of its row
  LLVMValueRef row[DT_MATMUL_MAX_UNITS];  // where rows are anywhere: address of each one's first
  LLVMValueRef bits[DT_MATMUL_MAX_UNITS]; // where they are masked: what of them there is
  LLVMValueRef by_term[DT_MAX_LOOPS];     // i64, bytes from one step of each loop to the next
  LLVMValueRef to, k;        // i32: byte in one tile of the ring; element along k in the tile
  LLVMValueRef var, extent;  // i64: of m or n, in the matrix
  LLVMValueRef by_k, by_row; // i64, bytes from one step of k, and one row of the tile, to the next
} dt_units_t;

// Where a thread stands in an operand's tile.
typedef struct dt_operand_place_t {
  LLVMValueRef var, k; // i32: along m or n, and along k
  LLVMValueRef to;     // i32: byte in one tile of the ring
} dt_operand_place_t;

typedef struct dt_tile_t {
  dt_body_t *k;
  uint32_t level; // of code that runs once a tile of C
  dt_matmul_plan_t plan;
  LLVMTypeRef type;                       // of the sums
  LLVMValueRef base;                      // shared memory, in its own address space
  bool asynchronous;                      // this version copies 16 bytes at a time
  bool early;                             // what is copied now comes before the wait
  LLVMValueRef tid, lane;                 // i32: of the block, of the warp
  LLVMValueRef warp_row, warp_col, slice; // i32
  LLVMValueRef first_row, first_col;      // i64: of the tile in C
  LLVMValueRef rank;                      // i32: of the block in its cluster; NULL: it is alone
  LLVMValueRef extent_k;                  // i64: where this block's part of k ends
  LLVMValueRef begin, end;                // i64: of this block's tiles along k
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];  // stack slots that become registers
  uint32_t n_sums;
  LLVMValueRef ring_at; // stack slot, i32: byte of the ring where the tile to be multiplied is
  dt_units_t units[2];  // of A and B
  LLVMValueRef row;     // while rows of the C tile are finished: which one
} dt_tile_t;

// Sums over several loops, and masks (matmul_terms.c). Whether each condition of the mask moves
// with one of the stage's loops at most, and not the last, so that few bits say for each row what
// it has.
bool dt__matmul_tests_apart(dt_program_t *program, const dt_stage_t *stage, uint32_t mask);
// Each loop's number at place `at_k` of the sum, an integer of any width.
void dt__matmul_terms(dt_tile_t *t, LLVMValueRef at_k, LLVMValueRef *out);
// A row's bits (i32), at `level`, above which it is bound; and whether it has an element there
// (i1).
LLVMValueRef dt__matmul_row_bits(dt_tile_t *t, uint32_t mask, uint32_t level);
LLVMValueRef dt__matmul_row_has(dt_tile_t *t, LLVMValueRef bits, const LLVMValueRef *terms);

// Once a kernel, at level 0: i1, where all operands that are copied by units can be; NULL: never.
LLVMValueRef dt__cuda_matmul_aligned(dt_body_t *k);
// dt_device_emit_t's matmul.
void dt__cuda_matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row);
// The tile of C from that row and column on, at `level` with deeper ones for itself. What the team
// shares may be used again after a barrier.
// `rank`: as in dt_tile_t; the cluster's blocks have the same tile.
void dt__cuda_matmul_tile(dt_body_t *k, uint32_t level, LLVMValueRef first_row,
                          LLVMValueRef first_col, LLVMValueRef rank);

// The parts of a tile. Levels are counted from the tile's own.
// Prepares copies of 16 bytes, at level 0 with level 1 for itself.
void dt__matmul_copy_begin(dt_tile_t *t);
// Copies operands' tiles (bits: 1 A, 2 B) from k = first_k on into the ring at byte `at` (i32), at
// level 1 with levels from 2 on for itself (matmul_copy.c). `some` (i1): there is such a tile.
// Where there is none asynchronous copies are made all the same, of zeros, which costs little, so
// that their number is always the same.
#define DT_MATMUL_BOTH 3U
void dt__matmul_copy(dt_tile_t *t, uint32_t operands, LLVMValueRef first_k, LLVMValueRef at,
                     LLVMValueRef some);
// The operands that are copied by units from where nothing writes while calls run (early.h).
uint32_t dt__matmul_settled(const dt_tile_t *t);
// Adds the products of the tile from k = first_k on, at byte `at` of the ring, to the sums, at
// level 1; and puts sums to the C tile at byte `at`. By tensor cores (matmul_mma.c) and by plain
// multiply-adds (matmul_fma.c).
void dt__matmul_mma(dt_tile_t *t, LLVMValueRef first_k, LLVMValueRef at);
void dt__matmul_mma_store(dt_tile_t *t, LLVMValueRef at);
void dt__matmul_fma(dt_tile_t *t, LLVMValueRef at);
// The same by groups of warps (matmul_group.c): it goes on by itself from the beginning on, and
// neither sums nor the tile may be touched before the end, which is that of all tiles but the last
// `behind`. Sums are put as matmul_mma.c does.
void dt__matmul_group_begin(dt_tile_t *t, LLVMValueRef at);
// The descriptor (i64) of an operand's panels from `at` on, in shared memory; another place of them
// is its bytes / 16 more.
LLVMValueRef dt__matmul_panels(dt_emit_t *m, const dt_operand_t *o, LLVMValueRef at);
void dt__matmul_group_end(dt_tile_t *t, uint32_t behind);
void dt__matmul_fma_store(dt_tile_t *t, LLVMValueRef at);
// Where the thread's first elements of A are that it hands to tensor cores itself.
dt_operand_place_t dt__matmul_mma_place(dt_tile_t *t);
// Runs the stages after the first on the C tile, at level 0 (matmul_finish.c).
void dt__matmul_finish(dt_tile_t *t);

// ---- Small things (matmul.c) --------------------------------------------------------------------------
LLVMValueRef dt__matmul_i32(dt_tile_t *t, uint32_t value);
// x * by + plus, i32.
LLVMValueRef dt__matmul_step(dt_tile_t *t, LLVMValueRef x, uint32_t by, uint32_t plus);
// Address of byte `at` (i32) + `plus` of shared memory.
LLVMValueRef dt__matmul_shared(dt_tile_t *t, LLVMValueRef at, uint32_t plus);
// Code of `level`, inside of level - 1: where `wanted` (i1; NULL: always).
void dt__scope_open(dt_body_t *k, uint32_t level, LLVMValueRef wanted);
void dt__scope_close(dt_body_t *k, uint32_t level);

#endif // DT_BACKEND_CUDA_EMIT_MATMUL_H
