// SPDX-License-Identifier: Apache-2.0
// Attention among chains: scores, their softmax, and the product that weights rows by it.
#ifndef DT_FUSE_ATTENTION_H
#define DT_FUSE_ATTENTION_H

#include "fuse/operands.h"

#define DT_ATTENTION_MOST 128 // elements of a row of the first product, and columns of the second

typedef struct dt_attention_t {
  const dt_kernel_t *score, *rows, *head;
  dt_contraction_t first, second; // of score and head
  dt_buffer_id_t scores, weights; // SLABs between them
  uint32_t depth, cols;           // elements of rows of q and k, and of v
} dt_attention_t;

// Whether the chain is attention of halves whose scores may be made a block of keys at a time: rows
// are a softmax and nothing else, what follows the first product stores nothing but scores, and q,
// k and v are read by steps (attention.c).
bool dt__chain_attention(dt_program_t *program, dt_kernel_chain_t chain, dt_attention_t *out);

#endif // DT_FUSE_ATTENTION_H
