// SPDX-License-Identifier: Apache-2.0
// The weights of all-MiniLM-L6-v2: from its safetensors file, or made from a seed in the same
// sizes.
#ifndef EXAMPLES_MINILM_WEIGHTS_H
#define EXAMPLES_MINILM_WEIGHTS_H

#include "ductile/ductile.h"

// The model's sizes, as its config.json has them.
enum {
  MINILM_LAYERS = 6,
  MINILM_HEADS = 12,
  MINILM_HIDDEN = 384, // width of a token's vector
  MINILM_INNER = 1536, // width inside a feed-forward layer
  MINILM_VOCAB = 30522,
  MINILM_POSITIONS = 512, // longest text, in tokens
};

// Named tensors. Whoever uses one of them must let go of it before the weights are freed.
typedef struct minilm_weights minilm_weights_t;

// From DIR/model.safetensors. NULL on failure, with the reason in `error`.
minilm_weights_t *minilm_weights_load(const char *dir, char *error, size_t error_bytes);
// The same numbers on every machine; they mean nothing.
minilm_weights_t *minilm_weights_seeded(char *error, size_t error_bytes);
void minilm_weights_free(minilm_weights_t *weights); // NULL allowed

// Borrowed; NULL when there is no such weight.
dt_tensor_t *minilm_weights_find(const minilm_weights_t *weights, const char *name);

#endif // EXAMPLES_MINILM_WEIGHTS_H
