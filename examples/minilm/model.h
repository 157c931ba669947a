// SPDX-License-Identifier: Apache-2.0
// all-MiniLM-L6-v2 as a Ductile function: token ids in, sentence embeddings out.
#ifndef EXAMPLES_MINILM_MODEL_H
#define EXAMPLES_MINILM_MODEL_H

#include "examples/minilm/weights.h"

// Makes the function
//
//   ids  i64 [batch, length]   tokens, padded to one length
//   mask i64 [batch, length]   1 for a token, 0 for padding
//   → f32 [batch, 384]         one embedding a row, of length 1
//
// for any batch and any length up to 512. All of it is computed in the weights' dtype; where that
// has 16 bits, only the finished embedding is made an f32, so that its length is 1 within their
// rounding. The function reads `weights`, which must outlive it.
dt_status_t minilm_create(dt_runtime_t *runtime, const minilm_weights_t *weights,
                          dt_answer_t answer, dt_function_t **out) DT_MUST_USE;

#endif // EXAMPLES_MINILM_MODEL_H
