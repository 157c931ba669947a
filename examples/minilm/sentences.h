// SPDX-License-Identifier: Apache-2.0
// Sentences as the model takes them: token ids, padded to one length, with their mask.
#ifndef EXAMPLES_MINILM_SENTENCES_H
#define EXAMPLES_MINILM_SENTENCES_H

#include "ductile/ductile.h"
#include "examples/minilm/wordpiece.h"

#include <stdio.h>

// The program's own sentences, six pairs on six subjects.
extern const char *const builtin_sentences[];
extern const size_t builtin_sentence_count;

// A batch of token ids. Owner of both tensors.
typedef struct batch_t {
  int64_t count, length;
  dt_tensor_t *ids, *mask; // i64 [count, length]
} batch_t;

// Tokens of `count` sentences, cut at 256 as the model was trained. Without a vocabulary (NULL)
// each word gets some id or other, always the same one. On failure *out is empty.
dt_status_t batch_from_sentences(const wordpiece_t *vocab, const char *const *sentences,
                                 size_t count, batch_t *out) DT_MUST_USE;
// `count` rows of `length` arbitrary tokens without padding.
dt_status_t batch_of_size(int64_t count, int64_t length, batch_t *out) DT_MUST_USE;
void batch_free(batch_t *batch);

#endif // EXAMPLES_MINILM_SENTENCES_H
