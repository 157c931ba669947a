// SPDX-License-Identifier: Apache-2.0
// The BERT tokenizer. Text flows through one code point at a time: clean → separate → decompose →
// lower-case → word. A word holds at most MAX_WORD code points, since longer ones are [UNK]
// whatever they say, so encoding needs no memory of its own and cannot fail.
#include "examples/minilm/wordpiece.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_WORD 100

// A piece in the vocabulary's text, without its "##".
typedef struct piece_t {
  const char *text;
  uint32_t len;
  uint32_t id;
  bool inside; // had "##": goes on inside a word
  bool used;
} piece_t;

struct wordpiece {
  char *text;     // the vocabulary file; owner
  piece_t *slots; // open addressing, a power of two of them, at most half full
  size_t slot_mask;
  size_t longest; // bytes of the longest piece
  int64_t cls, sep, unk;
};

// ---- Vocabulary ---------------------------------------------------------------------------------

static size_t hash_piece(const char *text, size_t len, bool inside) {
  uint64_t hash = inside ? 0x9e3779b97f4a7c15u : 0xcbf29ce484222325u; // FNV-1a, one seed a kind
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return (size_t)(hash ^ hash >> 32);
}

// The slot of a piece, or the free one where it belongs.
static piece_t *slot_of(const wordpiece_t *vocab, const char *text, size_t len, bool inside) {
  size_t at = hash_piece(text, len, inside) & vocab->slot_mask;
  for (;; at = (at + 1) & vocab->slot_mask) {
    piece_t *slot = &vocab->slots[at];
    if (!slot->used ||
        (slot->inside == inside && slot->len == len && memcmp(slot->text, text, len) == 0))
      return slot;
  }
}

static void add_piece(wordpiece_t *vocab, const char *line, size_t len, uint32_t id) {
  bool inside = len > 2 && line[0] == '#' && line[1] == '#';
  if (inside) {
    line += 2;
    len -= 2;
  }
  piece_t *slot = slot_of(vocab, line, len, inside);
  *slot = (piece_t){.text = line, .len = (uint32_t)len, .id = id, .inside = inside, .used = true};
  if (len > vocab->longest)
    vocab->longest = len;
}

static int64_t special_id(const wordpiece_t *vocab, const char *name) {
  const piece_t *slot = slot_of(vocab, name, strlen(name), false);
  return slot->used ? (int64_t)slot->id : -1;
}

static bool fill(wordpiece_t *vocab, size_t bytes) {
  size_t lines = 1;
  for (size_t i = 0; i < bytes; i++)
    lines += vocab->text[i] == '\n';
  size_t slots = 16;
  while (slots < 2 * lines)
    slots *= 2;
  vocab->slots = calloc(slots, sizeof *vocab->slots);
  if (!vocab->slots)
    return false;
  vocab->slot_mask = slots - 1;

  uint32_t id = 0;
  for (size_t begin = 0; begin < bytes; id++) {
    const char *line = vocab->text + begin;
    const char *newline = memchr(line, '\n', bytes - begin);
    size_t len = newline ? (size_t)(newline - line) : bytes - begin;
    begin += len + 1;
    if (len > 0 && line[len - 1] == '\r')
      len--;
    if (len > 0)
      add_piece(vocab, line, len, id);
  }
  return true;
}

wordpiece_t *wordpiece_create(const char *text, size_t bytes, char *error, size_t error_bytes) {
  if (bytes > UINT32_MAX / 4) {
    snprintf(error, error_bytes, "a vocabulary of %zu bytes is too large", bytes);
    return NULL;
  }
  wordpiece_t *vocab = calloc(1, sizeof *vocab);
  char *copy = malloc(bytes + 1);
  if (!vocab || !copy) {
    free(copy);
    goto no_memory;
  }
  memcpy(copy, text, bytes);
  vocab->text = copy;
  if (!fill(vocab, bytes))
    goto no_memory;
  vocab->cls = special_id(vocab, "[CLS]");
  vocab->sep = special_id(vocab, "[SEP]");
  vocab->unk = special_id(vocab, "[UNK]");
  if (vocab->cls < 0 || vocab->sep < 0 || vocab->unk < 0) {
    snprintf(error, error_bytes, "the vocabulary lacks [CLS], [SEP] or [UNK]");
    wordpiece_free(vocab);
    return NULL;
  }
  return vocab;
no_memory:
  snprintf(error, error_bytes, "out of memory");
  wordpiece_free(vocab);
  return NULL;
}

wordpiece_t *wordpiece_load(const char *path, char *error, size_t error_bytes) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t len = 0, cap = 0;
  while (file && !feof(file) && !ferror(file)) {
    if (len == cap) {
      cap = cap ? 2 * cap : 1 << 18;
      char *grown = realloc(text, cap);
      if (!grown)
        break;
      text = grown;
    }
    len += fread(text + len, 1, cap - len, file);
  }
  wordpiece_t *vocab = NULL;
  if (file && feof(file))
    vocab = wordpiece_create(text, len, error, error_bytes);
  else
    snprintf(error, error_bytes, "cannot read %s", path);
  if (file)
    fclose(file);
  free(text);
  return vocab;
}

void wordpiece_free(wordpiece_t *vocab) {
  if (!vocab)
    return;
  free(vocab->slots);
  free(vocab->text);
  free(vocab);
}

// ---- Characters ---------------------------------------------------------------------------------

static bool is_space(int32_t c) {
  utf8proc_category_t kind = utf8proc_category(c);
  return c == '\t' || c == '\n' || c == '\r' || kind == UTF8PROC_CATEGORY_ZS ||
         kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

// Control, format and private-use code points, which cleaning drops. Unassigned ones stay: what
// they are is for a later Unicode to say.
static bool is_dropped(int32_t c) {
  utf8proc_category_t kind = utf8proc_category(c);
  return c == 0xfffd || kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(int32_t c) {
  // All of ASCII's symbols count, also those that Unicode does not call punctuation.
  if (c < 128)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  utf8proc_category_t kind = utf8proc_category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

// Ideographs, each of which is a word. The ranges, gap after U+2B81F included, are those that the
// published vocabularies were made with.
static bool is_ideograph(int32_t c) {
  static const int32_t ranges[][2] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
    if (c >= ranges[i][0] && c <= ranges[i][1])
      return true;
  return false;
}

// ---- Encoding -----------------------------------------------------------------------------------

typedef struct encoder_t {
  const wordpiece_t *vocab;
  int64_t *ids;
  size_t count, room; // room keeps a place for [SEP]
  int32_t word[MAX_WORD];
  size_t word_len; // counts on past MAX_WORD, where nothing is stored
  size_t run;      // where in the word the last run of non-starters begins
} encoder_t;

static void put_id(encoder_t *e, int64_t id) {
  if (e->count < e->room)
    e->ids[e->count++] = id;
}

// Cuts the word into the longest pieces; [UNK] for the whole word when some part has none.
static void end_word(encoder_t *e) {
  size_t len = e->word_len;
  e->word_len = e->run = 0;
  if (len == 0)
    return;
  if (len > MAX_WORD) {
    put_id(e, e->vocab->unk);
    return;
  }
  char text[4 * MAX_WORD];
  size_t starts[MAX_WORD + 1]; // the byte at which each code point begins
  starts[0] = 0;
  for (size_t i = 0; i < len; i++)
    starts[i + 1] =
        starts[i] + (size_t)utf8proc_encode_char(e->word[i], (utf8proc_uint8_t *)text + starts[i]);
  size_t first = e->count;
  for (size_t begin = 0; begin < len;) {
    size_t end = len;
    const piece_t *found = NULL;
    for (; end > begin; end--) {
      size_t bytes = starts[end] - starts[begin];
      if (bytes > e->vocab->longest)
        continue;
      found = slot_of(e->vocab, text + starts[begin], bytes, begin > 0);
      if (found->used)
        break;
    }
    if (end == begin) {
      e->count = first;
      put_id(e, e->vocab->unk);
      return;
    }
    put_id(e, found->id);
    begin = end;
  }
}

// Takes a code point that is decomposed and lower-cased.
static void put_letter(encoder_t *e, int32_t c, int combining) {
  if (is_space(c)) {
    end_word(e);
    return;
  }
  if (is_punctuation(c)) {
    end_word(e);
    e->word[0] = c;
    e->word_len = 1;
    end_word(e);
    return;
  }
  // Canonical order sorts a run of non-starters by combining class. Runs do not leave the word.
  size_t at = e->word_len++;
  if (at >= MAX_WORD)
    return;
  while (combining != 0 && at > e->run &&
         utf8proc_get_property(e->word[at - 1])->combining_class > combining) {
    e->word[at] = e->word[at - 1];
    at--;
  }
  e->word[at] = c;
  if (combining == 0)
    e->run = e->word_len;
}

static void put_char(encoder_t *e, int32_t c) {
  if (is_space(c)) {
    end_word(e);
    return;
  }
  if (is_dropped(c))
    return;
  bool ideograph = is_ideograph(c);
  if (ideograph)
    end_word(e);
  int32_t parts[32]; // a canonical decomposition has four code points at most
  int boundary = 0;
  utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
  for (utf8proc_ssize_t i = 0; i < count && i < 32; i++) {
    int combining = utf8proc_get_property(parts[i])->combining_class;
    if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN)
      put_letter(e, utf8proc_tolower(parts[i]), combining);
    else if (combining == 0)
      e->run = e->word_len; // A dropped starter still ends a run.
  }
  if (ideograph)
    end_word(e);
}

size_t wordpiece_encode(const wordpiece_t *vocab, const char *text, size_t bytes, int64_t *ids,
                        size_t max_ids) {
  encoder_t e = {.vocab = vocab, .ids = ids, .room = max_ids - 1};
  put_id(&e, vocab->cls);
  for (size_t at = 0; at < bytes && e.count < e.room;) {
    int32_t c;
    utf8proc_ssize_t used =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &c);
    // A byte that begins no character is U+FFFD, which cleaning would drop anyway.
    if (used > 0)
      put_char(&e, c);
    at += used > 0 ? (size_t)used : 1;
  }
  end_word(&e);
  e.room = max_ids;
  put_id(&e, vocab->sep);
  return e.count;
}
