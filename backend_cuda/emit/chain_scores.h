// SPDX-License-Identifier: Apache-2.0
// What the parts of chains whose scores stay in registers share; chain_scores.c draws them.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_SCORES_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_SCORES_H

#include "backend_cuda/emit/chain_operand.h"

#define STEP 3 // so many rows of the tile as warps have
#define ROUND 4
#define QUAD 4 // threads
#define LANES 4
#define WORD 4         // bytes of a sum
#define MOST_DEPTH 128 // of the first product, and columns of the second
#define MOST_VECTORS 4 // of a row that a thread has
#define MOST_ROWS 4    // blocks of rows that warps have at once
#define MEMBERS 3

// One chain while it is looked at, and while its items are emitted.
typedef struct dt_scores_t {
  dt_chain_item_t *t;
  dt_body_t *k;
  dt_emit_t *m;
  const dt_kernel_t *score, *rows, *head;
  const dt_schedule_t *schedules[MEMBERS];
  dt_matmul_plan_t score_plan, head_plan;
  dt_buffer_id_t made, weights; // SLABs: of scores, and of what the rows make of them
  bool open;                    // rows read nothing but these along the row: any length will do
  uint32_t depth, cols;         // of both products
  uint32_t warps_m, warps_n, n_reductions;
  uint32_t steps; // by which warps take the tile's rows, those side by side at once
  // One version.
  uint32_t vectors;              // of a row that a thread has
  bool whole;                    // vectors are: all in the row or none
  bool full;                     // all are in the row
  bool low_rows;                 // the upper half of the tile's rows is never there
  LLVMValueRef first_col;        // i64: of those in registers; NULL: it is the row's first
  LLVMValueRef k_stage, v_stage; // i32, bytes behind k_at and v_at; NULL: none
  uint32_t k_at, v_at, sums_at, parts_at, bytes, row_pitch, col_pitch, sums_pitch; // bytes
  LLVMValueRef shared;
  LLVMValueRef tid, lane, quad_lane, warp_row, warp_col; // i32
  LLVMValueRef above;                                    // i32: the tile's rows before the step
  LLVMValueRef extent_m, extent_n, row[2], live[2];      // i64, i1; rows of this thread
  LLVMValueRef sums[MOST_DEPTH / 2];                     // scores, then of the second product
  LLVMValueRef values[2][MOST_VECTORS];                  // scores, vectors
  LLVMValueRef fragments[MOST_VECTORS][4];               // of operand A
  LLVMValueRef group[LANES];                             // being finished
  uint32_t first;                                        // of them
  uint32_t reduced;                                      // reductions so far
  LLVMValueRef live_rows; // i32: so many of the tile's rows are finished; NULL: all
} dt_scores_t;

// ---- Form and layout (chain_scores_form.c) --------------------------------------------------------
// Whether the chain has the form. Sets what all versions share, but for what belongs to a kernel.
bool dt__scores_form(dt_scores_t *s, dt_program_t *program, dt_kernel_chain_t chain,
                     uint32_t schedule, bool strict);
// One version's places in shared memory.
void dt__scores_lay_out(dt_scores_t *s, uint32_t vectors);
// Vectors of rows of the length that there is always room for, and of the longest.
uint32_t dt__scores_usual_vectors(const dt_scores_t *s);
uint32_t dt__scores_most_vectors(const dt_scores_t *s);
// 16-byte units of a row in shared memory: a power of two, so that rows are shared out evenly.
uint32_t dt__scores_units(uint32_t elements);

static inline uint32_t fragments_in(uint32_t elements) { return (elements + BLOCK - 1) / BLOCK; }

static inline uint32_t columns_of(const dt_scores_t *s) { return s->vectors * BLOCK * s->warps_n; }

// ---- Copies (chain_scores_copy.c) -----------------------------------------------------------------
typedef struct dt_rows_place_t {
  uint32_t rows, pitch; // pitch: bytes from one row to the next
  bool panels;          // of groups of warps (chain_group.c)
} dt_rows_place_t;

// Rows of an operand, copied by threads that each have one unit of every so many rows; zeros past
// the operand's end.
typedef struct dt_rows_copy_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, extent; // the operand's rows, what is along them, and how many there are
  LLVMValueRef first;            // i64: of them
  dt_rows_place_t place;
  LLVMValueRef to;     // i32: byte of shared memory where it begins; NULL: 0,
  uint32_t at;         // and so many bytes more
  uint32_t elements;   // of a row
  bool ordered;        // columns of tensor cores' B: in the order that chain_scores.c tells
  bool by_elements;    // operands are not aligned
  bool narrow_left;    // what is left of the rows has one register, by two instructions
  uint32_t threads;    // a power of two
  LLVMValueRef thread; // i32: number of this one among them
  LLVMValueRef wanted; // whether they copy at all; NULL: always
} dt_rows_copy_t;

// Inside of `level` - 1; kernel and stage are at hand.
void dt__scores_copy_rows(dt_scores_t *s, uint32_t level, const dt_rows_copy_t *p);
// Byte of row `row` and its unit `unit` (i32) from where the place begins.
LLVMValueRef dt__scores_unit_place(dt_emit_t *m, const dt_rows_place_t *p, LLVMValueRef row,
                                   LLVMValueRef unit);
// Where column `col` (i32) of 16 stands, in the order that chain_scores.c tells.
LLVMValueRef dt__scores_place(dt_emit_t *m, LLVMValueRef col);
// Q and K, then V, as two groups, at PART.
void dt__scores_copy(dt_scores_t *s);

// ---- Products (chain_scores_product.c) ------------------------------------------------------------
// Again for each part of the work: then nothing of it takes registers from the others.
void dt__scores_place_thread(dt_scores_t *s);
// This thread's two rows of the step from the tile's row s->above on, or the matrix' last one.
void dt__scores_place_rows(dt_scores_t *s);
// The first product, into s->sums.
void dt__scores_multiply(dt_scores_t *s);
// Parts of the second product's rows, of this warp's columns, into s->sums; or added to them.
void dt__scores_multiply_rows(dt_scores_t *s);
void dt__scores_add_rows(dt_scores_t *s);

// ---- Between and after the products (chain_scores_rows.c) -----------------------------------------
// s->values, of s->sums: the stages that follow the first product.
void dt__scores_make(dt_scores_t *s);
// The first of this thread's columns in its vector number c: i32, from s->first_col on.
LLVMValueRef dt__scores_column(dt_scores_t *s, uint32_t c);
// s->fragments, of s->values: the row kernel.
void dt__scores_make_rows(dt_scores_t *s);
// The stages that follow the second product, on the sums of all warps.
void dt__scores_finish(dt_scores_t *s);
// That in two parts: sums to where all threads find them, and the stages.
void dt__scores_hand_sums(dt_scores_t *s);
void dt__scores_finish_sums(dt_scores_t *s);

// ---- Small things (chain_scores.c) ----------------------------------------------------------------
// False: it failed.
bool dt__scores_take(dt_scores_t *s, const dt_kernel_t *kernel, const dt_schedule_t *schedule);
// The first stage of the kernel at hand.
void dt__scores_begin_stage(dt_scores_t *s);

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_SCORES_H
