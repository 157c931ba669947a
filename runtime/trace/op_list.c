// SPDX-License-Identifier: Apache-2.0
// See op_list.h.
#include "runtime/trace/op_list.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

dt_op_list_t *dt__op_list_retain(dt_op_list_t *list) {
  if (list)
    (void)atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
  return list;
}

void dt__op_list_release(dt_op_list_t *list) {
  if (!list || atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) != 1)
    return;
  for (uint32_t k = 0; k < list->n; k++)
    dt__op_def_release(list->ops[k]);
  dt__free(list);
}

// The place of the name, or the one where it belongs; *out_found says which.
static uint32_t place_of(const dt_op_list_t *list, const char *name, bool *out_found) {
  uint32_t low = 0, high = list ? list->n : 0;
  *out_found = false;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(list->ops[middle]->options.name, name);
    *out_found = *out_found || order == 0;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const dt_op_def_t *dt__op_list_find(const dt_op_list_t *list, const char *name) {
  bool found = false;
  uint32_t at = place_of(list, name, &found);
  return found ? list->ops[at] : NULL;
}

// Without the op at `without` (UINT32_MAX: all), and with room for one more.
static dt_op_list_t *copy(const dt_op_list_t *list, uint32_t without) {
  uint32_t n = list ? list->n : 0;
  dt_op_list_t *made = dt__calloc(1, sizeof(*made) + ((size_t)n + 1) * sizeof(made->ops[0]));
  if (!made)
    return NULL;
  made->refs = 1;
  for (uint32_t k = 0; k < n; k++)
    if (k != without)
      made->ops[made->n++] = dt__op_def_retain(list->ops[k]);
  return made;
}

dt_status_t dt__op_list_add(const dt_op_list_t *list, const dt_op_options_t *options,
                            dt_op_list_t **out, dt_op_def_t **out_def) {
  dt_op_def_t *def = NULL;
  bool found = false;
  *out = NULL;
  *out_def = NULL;
  DT_TRY(dt__op_def_create(options, &def));
  uint32_t at = place_of(list, options->name, &found);
  dt_status_t status =
      found ? DT_FAIL(DT_E_ARGUMENT, "name: the runtime has an op \"%s\" already", options->name)
            : NULL;
  dt_op_list_t *made = status ? NULL : copy(list, UINT32_MAX);
  if (!made) {
    dt__op_def_release(def);
    return status ? status : DT_NO_MEMORY();
  }
  memmove(&made->ops[at + 1], &made->ops[at], (made->n - at) * sizeof(made->ops[0]));
  made->ops[at] = def;
  made->n++;
  *out = made;
  *out_def = def;
  return NULL;
}

dt_status_t dt__op_list_remove(const dt_op_list_t *list, const char *name, dt_op_list_t **out) {
  bool found = false;
  *out = NULL;
  uint32_t at = name ? place_of(list, name, &found) : 0;
  if (!found)
    return DT_FAIL(DT_E_ARGUMENT, "name: %s%.128s; expected that of an op of the runtime",
                   name ? "no op is named " : "NULL", name ? name : "");
  *out = copy(list, at);
  return *out ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__op_list_remove_library(const dt_op_list_t *list, const dt_library_t *library,
                                       dt_op_list_t **out) {
  *out = NULL;
  if (!list)
    return NULL;
  dt_op_list_t *made = copy(list, UINT32_MAX);
  if (!made)
    return DT_NO_MEMORY();
  made->n = 0;
  for (uint32_t k = 0; k < list->n; k++)
    if (list->ops[k]->library == library)
      dt__op_def_release(list->ops[k]); // the copy's
    else
      made->ops[made->n++] = list->ops[k];
  *out = made;
  return NULL;
}
