// SPDX-License-Identifier: Apache-2.0
// The BERT tokenizer against ids that another implementation gave
// (tools/minilm/wordpiece_golden.py): with a small vocabulary always, with the model's when
// DUCTILE_MINILM_DIR or the cache has it.
#include "test/support/check.h"

#include "examples/minilm/wordpiece.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "test/unit/examples/"
#define MAX_IDS 8192

static wordpiece_t *load(const char *path) {
  char error[256] = "";
  wordpiece_t *vocab = wordpiece_load(path, error, sizeof error);
  if (!vocab)
    fail_msg("%s: %s", path, error);
  return vocab;
}

// Undoes \xNN in place; returns the length.
static size_t unescape(char *text) {
  size_t len = 0;
  for (const char *at = text; *at; len++) {
    if (at[0] == '\\' && at[1] == 'x') {
      char digits[3] = {at[2], at[3], '\0'};
      text[len] = (char)strtoul(digits, NULL, 16);
      at += 4;
    } else {
      text[len] = *at++;
    }
  }
  return len;
}

static size_t parse_ids(const char *text, int64_t *ids) {
  size_t count = 0;
  for (char *end = NULL; *text; text = end) {
    ids[count++] = strtoll(text, &end, 10);
    while (*end == ' ')
      end++;
    assert_true(count < MAX_IDS);
  }
  return count;
}

static void print_ids(const char *label, const int64_t *ids, size_t count) {
  print_error("  %s:", label);
  for (size_t i = 0; i < count && i < 40; i++)
    print_error(" %lld", (long long)ids[i]);
  print_error("\n");
}

// Checks every line of the golden file against its `column` of ids (0: small, 1: model's).
static void check_golden(const wordpiece_t *vocab, int column) {
  static int64_t expect[MAX_IDS], got[MAX_IDS], cut[MAX_IDS];
  FILE *file = fopen(FOLDER "wordpiece_golden.txt", "r");
  assert_non_null(file);
  char *line = NULL;
  size_t cap = 0, checked = 0, wrong = 0;
  while (getline(&line, &cap, file) > 0) {
    line[strcspn(line, "\n")] = '\0';
    char *small = strchr(line, '\t');
    assert_non_null(small);
    *small++ = '\0';
    char *model = strchr(small, '\t');
    assert_non_null(model);
    *model++ = '\0';
    size_t expected = parse_ids(column ? model : small, expect);
    char *label = strdup(line);
    assert_non_null(label);
    size_t bytes = unescape(line);
    size_t count = wordpiece_encode(vocab, line, bytes, got, MAX_IDS);
    if (count != expected || memcmp(got, expect, count * sizeof got[0]) != 0) {
      print_error("\"%.200s\"\n", label);
      print_ids("got", got, count);
      print_ids("expected", expect, expected);
      wrong++;
    }
    // Truncation keeps the first pieces and [SEP].
    for (size_t room = 2; room < count && room < 12; room++) {
      size_t len = wordpiece_encode(vocab, line, bytes, cut, room);
      assert_int_equal(len, room);
      assert_memory_equal(cut, got, (room - 1) * sizeof cut[0]);
      assert_int_equal(cut[room - 1], got[count - 1]);
    }
    free(label);
    checked++;
  }
  free(line);
  fclose(file);
  assert_true(checked >= 200);
  assert_int_equal(wrong, 0);
}

static void test_small_vocabulary(void **state) {
  (void)state;
  wordpiece_t *vocab = load(FOLDER "wordpiece_small_vocab.txt");
  check_golden(vocab, 0);
  wordpiece_free(vocab);
}

static void test_model_vocabulary(void **state) {
  (void)state;
  char path[1024];
  const char *dir = getenv("DUCTILE_MINILM_DIR"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  if (dir)
    snprintf(path, sizeof path, "%s/vocab.txt", dir);
  else if (cache && *cache)
    snprintf(path, sizeof path, "%s/ductile/minilm-gt-0.1.0/vocab.txt", cache);
  else
    snprintf(path, sizeof path, "%s/.cache/ductile/minilm-gt-0.1.0/vocab.txt", home ? home : "");
  if (access(path, R_OK) != 0) {
    print_message("SKIP: no %s (scripts/fetch-minilm gets it)\n", path);
    skip();
  }
  wordpiece_t *vocab = load(path);
  check_golden(vocab, 1);
  wordpiece_free(vocab);
}

// Malformed UTF-8 is dropped byte by byte; what is around it stays.
static void test_malformed_text(void **state) {
  (void)state;
  wordpiece_t *vocab = load(FOLDER "wordpiece_small_vocab.txt");
  static const char *const bad[] = {"\x80",     "\xc3",         "\xe2\x82",         "\xed\xa0\x80",
                                    "\xc0\xaf", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xff\xfe"};
  int64_t expect[8], got[8];
  size_t count = wordpiece_encode(vocab, "ok ok", 5, expect, 8);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[32];
    int bytes = snprintf(text, sizeof text, "ok%s %sok%s", bad[i], bad[i], bad[i]);
    // An exact copy, so that a sanitizer sees a read past the end.
    char *copy = malloc((size_t)bytes);
    assert_non_null(copy);
    memcpy(copy, text, (size_t)bytes);
    assert_int_equal(wordpiece_encode(vocab, copy, (size_t)bytes, got, 8), count);
    assert_memory_equal(got, expect, count * sizeof got[0]);
    free(copy);
  }
  wordpiece_free(vocab);
}

static void test_vocabulary_texts(void **state) {
  (void)state;
  char error[64];
  assert_null(wordpiece_create("", 0, error, sizeof error));
  assert_string_equal(error, "the vocabulary lacks [CLS], [SEP] or [UNK]");
  assert_null(wordpiece_load("/nonexistent/vocab.txt", error, sizeof error));
  assert_string_equal(error, "cannot read /nonexistent/vocab.txt");
  // Carriage returns, an empty line (which still counts), no newline at the end, and one piece
  // twice, where the later line wins.
  static const char text[] = "[CLS]\r\n[SEP]\r\n\n[UNK]\nab\nab\n##c";
  wordpiece_t *vocab = wordpiece_create(text, sizeof text - 1, error, sizeof error);
  assert_non_null(vocab);
  int64_t ids[8];
  assert_int_equal(wordpiece_encode(vocab, "abc x", 5, ids, 8), 5);
  static const int64_t expect[] = {0, 5, 6, 3, 1};
  assert_memory_equal(ids, expect, sizeof expect);
  wordpiece_free(vocab);
  wordpiece_free(NULL);
}

RUN_TESTS(TEST(test_small_vocabulary), TEST(test_model_vocabulary), TEST(test_malformed_text),
          TEST(test_vocabulary_texts))
