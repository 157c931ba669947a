// SPDX-License-Identifier: Apache-2.0
// Line differences by the longest common subsequence, good for texts of a few thousand lines.
#include "tools/opt_file.h"

#include "runtime/base/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct lines_t {
  const char **at;
  size_t *len;
  size_t n;
} lines_t;

static bool lines_init(lines_t *lines, const char *text) {
  size_t most = 1;
  for (const char *c = text; *c; c++)
    most += *c == '\n';
  *lines = (lines_t){.at = dt__calloc(most, sizeof(*lines->at)),
                     .len = dt__calloc(most, sizeof(*lines->len))};
  if (!lines->at || !lines->len)
    return false;
  while (*text) {
    size_t len = strcspn(text, "\n");
    lines->at[lines->n] = text;
    lines->len[lines->n++] = len;
    text += len + (text[len] == '\n');
  }
  return true;
}

static void lines_fini(lines_t *lines) {
  dt__free(lines->at);
  dt__free(lines->len);
}

static bool equal(const lines_t *a, size_t i, const lines_t *b, size_t j) {
  return a->len[i] == b->len[j] && memcmp(a->at[i], b->at[j], a->len[i]) == 0;
}

static void put(char mark, const lines_t *lines, size_t i) {
  (void)printf("%c %.*s\n", mark, (int)lines->len[i], lines->at[i]);
}

// table[i][j]: the most lines that a from i on and b from j on have in common.
static void walk(const lines_t *a, const lines_t *b, uint32_t *table) {
  size_t width = b->n + 1;
  for (size_t i = a->n; i-- > 0;) {
    for (size_t j = b->n; j-- > 0;) {
      uint32_t skip_a = table[(i + 1) * width + j], skip_b = table[i * width + j + 1];
      uint32_t best = skip_a > skip_b ? skip_a : skip_b;
      table[i * width + j] = equal(a, i, b, j) ? table[(i + 1) * width + j + 1] + 1 : best;
    }
  }
  size_t i = 0, j = 0;
  while (i < a->n || j < b->n) {
    if (i < a->n && j < b->n && equal(a, i, b, j)) {
      put(' ', a, i++);
      j++;
    } else if (i < a->n && (j == b->n || table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      put('-', a, i++);
    } else {
      put('+', b, j++);
    }
  }
}

void opt_diff_print(const char *expected, const char *actual) {
  (void)printf("--- expected\n+++ actual\n");
  lines_t a = {0}, b = {0};
  uint32_t *table = NULL;
  if (lines_init(&a, expected) && lines_init(&b, actual))
    table = dt__calloc((a.n + 1) * (b.n + 1), sizeof(*table));
  if (table)
    walk(&a, &b, table);
  else
    (void)printf("%s", actual);
  dt__free(table);
  lines_fini(&a);
  lines_fini(&b);
}
