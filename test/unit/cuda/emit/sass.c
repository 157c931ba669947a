// SPDX-License-Identifier: Apache-2.0
#include "test/unit/cuda/emit/sass.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LABEL ".L_x_"

typedef struct line_t {
  uint32_t label, target; // numbers; 0: none
  bool multiplies, spills;
} line_t;

static uint32_t number_at(const char *text) {
  return (uint32_t)strtoul(text + strlen(LABEL), NULL, 10) + 1;
}

static line_t line_of(const char *text) {
  line_t l = {0};
  const char *branch = strstr(text, "BRA"), *label = strstr(text, LABEL);
  if (!strncmp(text, LABEL, strlen(LABEL)) && strchr(text, ':'))
    l.label = number_at(text);
  else if (branch && label && branch < label)
    l.target = number_at(label);
  l.multiplies = strstr(text, "MMA");
  l.spills = strstr(text, "STL") || strstr(text, "LDL");
  return l;
}

typedef struct range_t {
  uint32_t first, last;
} range_t;

// Lines that a branch at line `at` goes back over; false: it goes ahead.
static bool loop_at(const line_t *lines, uint32_t at, range_t *out) {
  if (!lines[at].target)
    return false;
  for (uint32_t i = at; i-- > 0;)
    if (lines[i].label == lines[at].target) {
      *out = (range_t){i, at};
      return true;
    }
  return false;
}

static bool has(const line_t *lines, range_t r, bool spills) {
  for (uint32_t i = r.first; i <= r.last; i++)
    if (spills ? lines[i].spills : lines[i].multiplies)
      return true;
  return false;
}

static bool is_inside(range_t inner, range_t outer) {
  return inner.first >= outer.first && inner.last <= outer.last &&
         (inner.first != outer.first || inner.last != outer.last);
}

static void count(const line_t *lines, uint32_t n, sass_loops_t *out) {
  range_t *loops = malloc((n + 1) * sizeof(*loops));
  uint32_t found = 0;
  for (uint32_t i = 0; loops && i < n; i++)
    if (loop_at(lines, i, &loops[found]) && has(lines, loops[found], false))
      found++;
  for (uint32_t i = 0; i < found; i++) {
    bool innermost = true;
    for (uint32_t k = 0; k < found; k++)
      innermost = innermost && !is_inside(loops[k], loops[i]);
    out->multiplying += innermost;
    out->spilling += innermost && has(lines, loops[i], true);
  }
  free(loops);
}

sass_loops_t sass_loops(char *text) {
  sass_loops_t out = {0};
  uint32_t room = 1, n = 0;
  for (const char *c = text; *c; c++)
    room += *c == '\n';
  line_t *lines = malloc(room * sizeof(*lines));
  for (char *line = text, *end; lines && *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end)
      *end++ = 0;
    if (!strncmp(line, ".text.", 6)) {
      count(lines, n, &out);
      n = 0;
    }
    lines[n++] = line_of(line);
  }
  if (lines)
    count(lines, n, &out);
  free(lines);
  return out;
}
