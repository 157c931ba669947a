// SPDX-License-Identifier: Apache-2.0
// Visits messages, and numbers names with that. Sorting finds equal names, so that no choice of
// names makes it slow.
#include "frontends/onnx/visit.h"

#include "runtime/base/status.h"

#include <stdlib.h>

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
  (void)at;
  for (uint32_t k = 0; k < message->n_fields; k++) {
    const dt_onnx_field_t *row = &message->fields[k];
    void *member = (char *)out + row->member;
    if (row->kind == DT_ONNX_NAME)
      add(user, member);
    dt_onnx_names_t *list = member;
    for (uint32_t i = 0; row->kind == DT_ONNX_NAMES && i < list->len; i++)
      add(user, &list->items[i]);
  }
  return NULL;
}

static int compare_names(const void *left, const void *right) {
  dt_onnx_name_t *const *a = left, *const *b = right;
  return dt__onnx_str_compare((*a)->text, (*b)->text);
}

dt_status_t dt__onnx_number_names(dt_onnx_model_t *model, dt_arena_t *arena) {
  names_t names = {0};
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_names, &names));
  size_t count = names.len;
  names.items = DT_ARENA_ARRAY(arena, dt_onnx_name_t *, count + 1);
  if (!names.items)
    return DT_NO_MEMORY();
  names.len = 0;
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_names, &names));
  qsort(names.items, count, sizeof names.items[0], compare_names);
  uint32_t id = 0;
  for (size_t k = 0; k < count; k++) {
    id += k == 0 || compare_names(&names.items[k - 1], &names.items[k]) != 0;
    names.items[k]->id = id;
  }
  model->n_names = id + 1;
  return NULL;
}
