// SPDX-License-Identifier: Apache-2.0
// Visits messages, and numbers names with that. Sorting finds equal names, so that no choice of
// names makes it slow; it may be ended, as qsort may not.
#include "frontends/onnx/visit.h"

#include "runtime/base/status.h"

typedef struct items_t {
  unsigned char *items;
  uint32_t len;
} items_t;

static dt_status_t visit_field(const dt_onnx_field_t *row, void *member, const dt_onnx_at_t *up,
                               dt_onnx_visit_fn_t fn, void *user) {
  dt_onnx_at_t at = {up, row->name, -1};
  if (row->kind == DT_ONNX_MESSAGE && *(void **)member)
    return dt__onnx_visit(row->sub, *(void **)member, &at, fn, user);
  if (row->kind != DT_ONNX_MESSAGES)
    return NULL;
  const items_t *list = member;
  for (uint32_t k = 0; k < list->len; k++) {
    at.index = k;
    DT_TRY(dt__onnx_visit(row->sub, list->items + k * row->sub->size, &at, fn, user));
  }
  return NULL;
}

dt_status_t dt__onnx_visit(const dt_onnx_message_t *message, void *out, const dt_onnx_at_t *at,
                           dt_onnx_visit_fn_t fn, void *user) {
  DT_TRY(fn(user, message, out, at));
  for (uint32_t k = 0; k < message->n_fields; k++)
    DT_TRY(visit_field(&message->fields[k], (char *)out + message->fields[k].member, at, fn, user));
  return NULL;
}

// ---- Names ----------------------------------------------------------------------------------------
typedef struct names_t {
  dt_onnx_name_t **items; // NULL while they are counted
  size_t len;
  dt_onnx_pace_t *pace;
} names_t;

static void add(names_t *names, dt_onnx_name_t *name) {
  if (name->text.len == 0)
    return;
  if (names->items)
    names->items[names->len] = name;
  names->len++;
}

static dt_status_t add_names(void *user, const dt_onnx_message_t *message, void *out,
                             const dt_onnx_at_t *at) {
  names_t *names = user;
  (void)at;
  DT_TRY(dt__onnx_go_on(names->pace, 4));
  for (uint32_t k = 0; k < message->n_fields; k++) {
    const dt_onnx_field_t *row = &message->fields[k];
    void *member = (char *)out + row->member;
    if (row->kind == DT_ONNX_NAME)
      add(names, member);
    dt_onnx_names_t *list = member;
    for (uint32_t i = 0; row->kind == DT_ONNX_NAMES && i < list->len; i++)
      add(names, &list->items[i]);
  }
  return NULL;
}

static int compare_names(const dt_onnx_name_t *a, const dt_onnx_name_t *b) {
  return dt__onnx_str_compare(a->text, b->text);
}

// Merges two neighbouring runs, of `half` names and what is left up to `n`, into `to`.
static dt_status_t merge_runs(dt_onnx_name_t *const *from, size_t half, size_t n,
                              dt_onnx_name_t **to, dt_onnx_pace_t *pace) {
  size_t left = 0, right = half;
  for (size_t k = 0; k < n; k++) {
    bool first = right == n || (left < half && compare_names(from[left], from[right]) <= 0);
    to[k] = first ? from[left++] : from[right++];
    DT_TRY(dt__onnx_go_on(pace, 4));
  }
  return NULL;
}

// Merge sort from the bottom up; `room` is for as many.
static dt_status_t sort_names(names_t *names, dt_onnx_name_t **room) {
  for (size_t width = 1; width < names->len; width *= 2) {
    for (size_t at = 0; at < names->len; at += 2 * width) {
      size_t left = names->len - at, n = left < 2 * width ? left : 2 * width;
      DT_TRY(merge_runs(names->items + at, width < n ? width : n, n, room + at, names->pace));
    }
    dt_onnx_name_t **sorted = room;
    room = names->items;
    names->items = sorted;
  }
  return NULL;
}

dt_status_t dt__onnx_number_names(dt_onnx_model_t *model, dt_arena_t *arena, dt_onnx_pace_t *pace) {
  names_t names = {.pace = pace};
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_names, &names));
  size_t count = names.len;
  names.items = DT_ARENA_ARRAY(arena, dt_onnx_name_t *, count + 1);
  dt_onnx_name_t **room = DT_ARENA_ARRAY(arena, dt_onnx_name_t *, count + 1);
  if (!names.items || !room)
    return DT_NO_MEMORY();
  names.len = 0;
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_names, &names));
  DT_TRY(sort_names(&names, room));
  uint32_t id = 0;
  for (size_t k = 0; k < count; k++) {
    id += k == 0 || compare_names(names.items[k - 1], names.items[k]) != 0;
    names.items[k]->id = id;
  }
  model->n_names = id + 1;
  return NULL;
}
