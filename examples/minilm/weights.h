// SPDX-License-Identifier: Apache-2.0
// The weights of all-MiniLM-L6-v2: from its safetensors file, or made from a seed in the same
// sizes; in the dtype that the model is to compute in.
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

// How to get them. Valid when zeroed.
typedef struct minilm_config_t {
  dt_dtype_t dtype; // DT_F32, DT_F16 or DT_BF16; 0: DT_F32
  int layers;       // the first ones, of MINILM_LAYERS; 0: all. For tests
} minilm_config_t;

// From DIR/model.safetensors, whose own floats may be of any of the dtypes above. NULL on failure,
// with the reason in `error`. `config` may be NULL.
minilm_weights_t *minilm_weights_load(const char *dir, const minilm_config_t *config, char *error,
                                      size_t error_bytes);
// The same numbers on every machine; they mean nothing.
minilm_weights_t *minilm_weights_seeded(const minilm_config_t *config, char *error,
                                        size_t error_bytes);
void minilm_weights_free(minilm_weights_t *weights); // NULL allowed

dt_dtype_t minilm_weights_dtype(const minilm_weights_t *weights);
int minilm_weights_layers(const minilm_weights_t *weights);

// Borrowed; NULL when there is no such weight.
dt_tensor_t *minilm_weights_find(const minilm_weights_t *weights, const char *name);

#endif // EXAMPLES_MINILM_WEIGHTS_H
