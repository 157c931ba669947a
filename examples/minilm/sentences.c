// SPDX-License-Identifier: Apache-2.0
#include "examples/minilm/sentences.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define MAX_TOKENS 256

const char *const builtin_sentences[] = {
    "A cat is sleeping on the sofa.",
    "The kitten naps on the couch.",
    "Stock markets fell sharply on Monday.",
    "Shares dropped at the start of the week.",
    "How do I reset my password?",
    "I forgot the code to log in to my account.",
    "The cake needs two eggs and some flour.",
    "Whisk the eggs, then fold in the flour.",
    "A compiler turns programs into machine code.",
    "Just-in-time compilation makes code at run time.",
    "It rained all night in Z\xc3\xbcrich.",
    "Last night the weather in Switzerland was wet.",
};
const size_t builtin_sentence_count = sizeof builtin_sentences / sizeof builtin_sentences[0];

// The special tokens' and the first ordinary words' ids in BERT's vocabulary, and its size.
enum { CLS = 101, SEP = 102, FIRST_WORD = 1996, VOCAB = 30522 };

// Stands in for a tokenizer where there is no vocabulary: an id from each word's hash.
static size_t hash_words(const char *text, int64_t *ids, size_t max_ids) {
  size_t count = 0;
  uint32_t hash = 0;
  bool inside = false;
  ids[count++] = CLS;
  for (const char *at = text; count + 1 < max_ids; at++) {
    bool letter = *at && !isspace((unsigned char)*at);
    if (letter)
      hash = ((inside ? hash : 2166136261u) ^ (unsigned char)*at) * 16777619u;
    else if (inside)
      ids[count++] = FIRST_WORD + (int64_t)(hash % (VOCAB - FIRST_WORD));
    inside = letter;
    if (!*at)
      break;
  }
  ids[count++] = SEP;
  return count;
}

static dt_status_t make_tensors(int64_t count, int64_t length, batch_t *out) {
  const int64_t sizes[] = {count, length};
  *out = (batch_t){.count = count, .length = length};
  dt_status_t status = dt_tensor_create_empty(DT_I64, 2, sizes, &out->ids);
  if (!status)
    status = dt_tensor_create_empty(DT_I64, 2, sizes, &out->mask);
  if (status)
    batch_free(out);
  return status;
}

static size_t tokens_of(const wordpiece_t *vocab, const char *text, int64_t ids[MAX_TOKENS]) {
  return vocab ? wordpiece_encode(vocab, text, strlen(text), ids, MAX_TOKENS)
               : hash_words(text, ids, MAX_TOKENS);
}

dt_status_t batch_from_sentences(const wordpiece_t *vocab, const char *const *sentences,
                                 size_t count, batch_t *out) {
  int64_t ids[MAX_TOKENS];
  size_t longest = 0;
  for (size_t i = 0; i < count; i++) {
    size_t tokens = tokens_of(vocab, sentences[i], ids);
    longest = tokens > longest ? tokens : longest;
  }
  dt_status_t status = make_tensors((int64_t)count, (int64_t)longest, out);
  if (status)
    return status;
  int64_t *all_ids = dt_tensor_data(out->ids), *all_mask = dt_tensor_data(out->mask);
  for (size_t i = 0; i < count; i++) {
    size_t tokens = tokens_of(vocab, sentences[i], ids);
    for (size_t k = 0; k < longest; k++) {
      all_ids[i * longest + k] = k < tokens ? ids[k] : 0;
      all_mask[i * longest + k] = k < tokens;
    }
  }
  return NULL;
}

dt_status_t batch_of_size(int64_t count, int64_t length, batch_t *out) {
  dt_status_t status = make_tensors(count, length, out);
  if (status)
    return status;
  int64_t *ids = dt_tensor_data(out->ids), *mask = dt_tensor_data(out->mask);
  for (int64_t i = 0; i < count * length; i++) {
    ids[i] = FIRST_WORD + i * 7919 % (VOCAB - FIRST_WORD);
    mask[i] = 1;
  }
  return NULL;
}

void batch_free(batch_t *batch) {
  dt_tensor_release(batch->ids);
  dt_tensor_release(batch->mask);
  *batch = (batch_t){0};
}
