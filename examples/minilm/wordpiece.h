// SPDX-License-Identifier: Apache-2.0
// The uncased BERT tokenizer: text to the ids of a vocabulary's pieces.
//
// Clean the text, put spaces around CJK ideographs, decompose (NFD) and drop accents, lower-case,
// split at white space and punctuation, then cut each word greedily into the longest pieces there
// are. Text never becomes a special token: "[SEP]" in a sentence is three words.
#ifndef EXAMPLES_MINILM_WORDPIECE_H
#define EXAMPLES_MINILM_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

// A loaded vocabulary. It never changes, so any number of threads may encode with it.
typedef struct wordpiece wordpiece_t;

// Loads vocab.txt: one piece a line, the line's number is its id, "##" marks a piece that goes on
// inside a word. NULL on failure, with the reason in `error` (NUL-terminated, cut to fit).
wordpiece_t *wordpiece_load(const char *path, char *error, size_t error_bytes);
// The same from text in memory, which is copied.
wordpiece_t *wordpiece_create(const char *text, size_t bytes, char *error, size_t error_bytes);
void wordpiece_free(wordpiece_t *vocab); // NULL allowed

// Writes [CLS], the pieces of the UTF-8 `text` and [SEP] to ids[0 … max_ids), as many pieces as
// fit, and returns how many ids that are. max_ids must be at least 2. Malformed bytes count as
// U+FFFD, which cleaning drops.
size_t wordpiece_encode(const wordpiece_t *vocab, const char *text, size_t bytes, int64_t *ids,
                        size_t max_ids);

#endif // EXAMPLES_MINILM_WORDPIECE_H
