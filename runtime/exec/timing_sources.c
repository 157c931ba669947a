// SPDX-License-Identifier: Apache-2.0
// A tag is '#' and three digits, so none is a part of another: passes join names by what they find
// in them.
#include "runtime/exec/timing_sources.h"

#include "lower/loop/loop.h"

#include <string.h>

#define DIGITS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+"
#define TAG_BYTES 4
#define MOST_TAGS (64u * 64u * 64u)
#define MOST_OPS 256u // of one kernel

static const char *tag_name(const dt_sources_t *sources, uint32_t tag) {
  return dt__arena_printf(sources->arena, "#%c%c%c", DIGITS[tag / 4096], DIGITS[tag / 64 % 64],
                          DIGITS[tag % 64]);
}

// The tag at the beginning of `text`, or MOST_TAGS.
static uint32_t read_tag(const dt_sources_t *sources, const char *text) {
  uint32_t tag = 0;
  if (*text != '#')
    return MOST_TAGS;
  for (int k = 1; k < TAG_BYTES; k++) {
    const char *digit = text[k] ? strchr(DIGITS, text[k]) : NULL;
    if (!digit)
      return MOST_TAGS;
    tag = tag * 64 + (uint32_t)(digit - DIGITS);
  }
  return tag < sources->lists.len ? tag : MOST_TAGS;
}

// ---- Lists ------------------------------------------------------------------------------------------
typedef struct list_t {
  uint32_t n, ops[MOST_OPS];
} list_t;

static void add_op(list_t *list, uint32_t op) {
  for (uint32_t k = 0; k < list->n; k++)
    if (list->ops[k] == op)
      return;
  if (list->n < MOST_OPS)
    list->ops[list->n++] = op;
}

static bool new_op(dt_sources_t *sources, const char *name, size_t len, const dt_origin_t *origin,
                   list_t *list) {
  dt_source_op_t op = {.name = dt__arena_printf(sources->arena, "%.*s", (int)len, name)};
  if (origin && origin->op) {
    op.source.op = dt__arena_strdup(sources->arena, origin->op);
    op.source.file = dt__arena_strdup(sources->arena, origin->file ? origin->file : "");
    op.source.line = origin->line;
    if (!op.source.op || !op.source.file)
      return false;
  }
  if (!op.name || !DT_VEC_PUSH(sources->arena, &sources->ops, op))
    return false;
  add_op(list, sources->ops.len - 1);
  return true;
}

// What a stage made of names: tags, and words of its own between them.
static bool read_name(dt_sources_t *sources, const dt_kernel_t *kernel, list_t *list) {
  const char *at = kernel->name;
  bool tagged = strchr(at, '#') != NULL;
  while (*at) {
    uint32_t tag = read_tag(sources, at);
    if (tag < MOST_TAGS) {
      for (uint32_t k = 0; k < sources->lists.items[tag].n; k++)
        add_op(list, sources->lists.items[tag].ops[k]);
      at += TAG_BYTES;
      continue;
    }
    size_t len = 1 + strcspn(at + 1, "#");
    size_t from = *at == '_' ? 1 : 0;
    size_t to = len > from && at[len - 1] == '_' && at[len] ? len - 1 : len;
    if (to > from && !new_op(sources, at + from, to - from, tagged ? NULL : &kernel->origin, list))
      return false;
    at += len;
  }
  return true;
}

static bool tag_kernel(dt_sources_t *sources, dt_kernel_t *kernel) {
  if (strlen(kernel->name) == TAG_BYTES && read_tag(sources, kernel->name) < MOST_TAGS)
    return true;
  list_t list = {.n = 0};
  if (sources->lists.len == MOST_TAGS)
    return false;
  if (!read_name(sources, kernel, &list))
    return false;
  dt_source_list_t kept = {list.n,
                           dt__arena_copy(sources->arena, list.ops, list.n * sizeof(*list.ops))};
  const char *name = tag_name(sources, sources->lists.len);
  if (!kept.ops || !name || !DT_VEC_PUSH(sources->arena, &sources->lists, kept))
    return false;
  kernel->name = name;
  return true;
}

void dt__sources_observe(void *opaque, const dt_stage_view_t *view) {
  dt_sources_t *sources = opaque;
  if (view->order == 0)
    sources->ops.len = sources->lists.len = 0;
  for (uint32_t k = 0; view->program && k < view->program->kernels.len && !sources->failed; k++)
    sources->failed = !tag_kernel(sources, &view->program->kernels.items[k]);
}

dt_source_list_t dt__sources_of(const dt_sources_t *sources, const char *name) {
  uint32_t tag = read_tag(sources, name);
  return tag < MOST_TAGS ? sources->lists.items[tag] : (dt_source_list_t){0, NULL};
}
