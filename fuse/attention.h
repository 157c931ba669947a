// SPDX-License-Identifier: Apache-2.0
// Attention among chains: scores, their softmax, and the product that weights rows by it.
#ifndef DT_FUSE_ATTENTION_H
#define DT_FUSE_ATTENTION_H

#include "fuse/operands.h"

#define DT_ATTENTION_MOST 128 // elements of a row of the first product, and columns of the second
#define DT_ATTENTION_ROWS 128 // of a tile made a block of keys at a time,
#define DT_ATTENTION_KEYS 64  // of so many,
#define DT_ATTENTION_STAGES 2 // of which so many blocks are in shared memory;
#define DT_ATTENTION_GROUP_STAGES 4 // where groups of warps multiply together
#define DT_ATTENTION_FOUND 32       // bytes in which a tile's warps say what each has found
#define DT_ATTENTION_FEW 16         // rows of a tile whose warps have keys of their own,
#define DT_ATTENTION_WARPS 8        // so many of them, 16 keys each at a time
#define DT_ATTENTION_RING 6         // the most blocks of these keys in shared memory

// Bytes from one row of so many halves in shared memory to the next: a power of two of units, so
// that threads share rows out evenly, and a unit more, so that neighbours are in different banks.
static inline uint32_t dt__attention_pitch(uint32_t elements) {
  uint32_t bytes = 32;
  while (bytes < elements * 2)
    bytes *= 2;
  return bytes + 16;
}

// The same of sums, f32, in the end.
static inline uint32_t dt__attention_sums_pitch(uint32_t cols) {
  return (cols + 15) / 16 * 64 + 32;
}

// Bytes of a row's place: for groups of warps, in panels of 128 bytes.
static inline uint32_t dt__attention_row(uint32_t elements, bool groups) {
  return groups ? (elements * 2 + 127) / 128 * 128 : dt__attention_pitch(elements);
}

// Powers of two.
static inline uint32_t dt__attention_stages(bool groups) {
  return groups ? DT_ATTENTION_GROUP_STAGES : DT_ATTENTION_STAGES;
}

// Of queries, keys and values, or of the sums in their place; then DT_ATTENTION_FOUND bytes.
static inline uint32_t dt__attention_bytes(uint32_t depth, uint32_t cols, bool groups) {
  uint32_t keys = dt__attention_stages(groups) * DT_ATTENTION_KEYS;
  uint32_t operands = (DT_ATTENTION_ROWS + keys) * dt__attention_row(depth, groups) +
                      keys * dt__attention_row(cols, groups);
  uint32_t sums = DT_ATTENTION_ROWS * dt__attention_sums_pitch(cols);
  return (operands > sums ? operands : sums) + DT_ATTENTION_FOUND;
}

// Where warps have keys of their own: a block of all warps' keys and values, and all there is: that
// and queries, or what takes their place: sums, and maximum and sum of rows, of all warps, and
// these of rows once more, joined.
static inline uint32_t dt__attention_share_bytes(uint32_t depth, uint32_t cols) {
  return DT_MATMUL_SHARE_KEYS * (dt__attention_pitch(depth) + dt__attention_pitch(cols));
}
static inline uint32_t dt__attention_shares_bytes(uint32_t depth, uint32_t cols, uint32_t ring) {
  uint32_t operands =
      DT_ATTENTION_FEW * dt__attention_pitch(depth) + ring * dt__attention_share_bytes(depth, cols);
  uint32_t sums = DT_ATTENTION_WARPS * DT_ATTENTION_FEW * (dt__attention_sums_pitch(cols) + 8) +
                  DT_ATTENTION_FEW * 8;
  return operands > sums ? operands : sums;
}
// How many of these blocks there is room for in so much memory, two at least; 0: for fewer.
uint32_t dt__attention_ring(uint32_t depth, uint32_t cols, int64_t bytes);
// Bytes that a block may have for them.
static inline int64_t dt__attention_room(const dt_target_t *target) {
  return target->l1_bytes - (1 << 10);
}

typedef struct dt_attention_t {
  const dt_kernel_t *score, *rows, *head;
  dt_contraction_t first, second; // of score and head
  dt_buffer_id_t scores, weights; // between them: SLABs, or TEMPs of kernels that are no chain yet
  dt_dtype_t round;               // of scores before the softmax; F32: none
  uint32_t depth, cols;           // elements of rows of q and k, and of v
} dt_attention_t;

// Whether the chain is attention of halves whose scores may be made a block of keys at a time: rows
// are a softmax and nothing else, what follows the first product stores nothing but scores, and q,
// k and v are read by steps (attention.c).
bool dt__chain_attention(dt_program_t *program, dt_kernel_chain_t chain, dt_attention_t *out);
// The same of kernels that are no chain yet: scores, rows, head.
bool dt__attention_of(dt_program_t *program, dt_kernel_t *const kernels[3], dt_attention_t *out);

// Whether scores of row `row` are -inf from column row + *out on, whatever the data: a causal mask
// that compares places (attention_bound.c).
bool dt__attention_bound(dt_program_t *program, const dt_attention_t *a, dt_sym_t *out);

// What such a chain has in common with others that keep rows of scores in registers: the first
// product stores nothing but scores, what follows both is plain, and sizes fit. Sets *out's scores,
// depth and cols; `cols` is the extent of the second one's columns.
bool dt__attention_products(const dt_program_t *program, const dt_kernel_t *score,
                            const dt_kernel_t *head, dt_sym_t cols, dt_attention_t *out);

#endif // DT_FUSE_ATTENTION_H
