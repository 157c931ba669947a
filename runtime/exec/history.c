// SPDX-License-Identifier: Apache-2.0
// The history of a function's compiles, and the log lines about misses and dims.
#include "runtime/exec/explain.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

// Compiles that a function remembers; older ones are counted only.
#define MOST_ITEMS 256u

static void free_item(dt_history_item_t *item) {
  dt__arena_fini(&item->arena);
  dt__free(item);
}

// ---- Log lines ------------------------------------------------------------------------------------
static void tell(const dt_function_t *function, const dt_miss_info_t *miss, const char *decision,
                 uint32_t number) {
  dt_text_t text;
  dt__text_init(&text);
  if (miss)
    dt__miss_put(miss, &text);
  else
    dt__text_put(&text, "no variant yet");
  DT_LOG(DT_LOG_RECOMPILES, 1, "%s: %s: %s %u", function->name, dt__text_str(&text), decision,
         number);
  dt__text_fini(&text);
}

void dt__tell_miss(const dt_function_t *function, const dt_variant_list_t *list,
                   const dt_guard_args_t *args, const char *decision, uint32_t number) {
  if (!args->inputs || !dt__log_on(DT_LOG_RECOMPILES, 1))
    return;
  dt_arena_t arena;
  dt__arena_init(&arena, 1024);
  tell(function, dt__miss_nearest(&arena, list, args), decision, number);
  dt__arena_fini(&arena);
}

void dt__tell_dims(const dt_function_t *function, const dt_variant_t *variant) {
  if (!dt__log_on(DT_LOG_DYNAMIC, 1))
    return;
  dt_arena_t arena;
  dt_variant_info_t info;
  dt__arena_init(&arena, 4096);
  if (dt__dims_make(&arena, function, variant, &info)) {
    for (uint32_t k = 0; k < info.n_dims; k++) {
      const dt_dim_info_t *dim = info.dims[k];
      DT_LOG(DT_LOG_DYNAMIC, 1, "%s.%u: %s = %s: %s: %s", function->name, variant->number,
             dim->name, dim->size, dt_dim_state_name(dim->state), dim->why);
    }
  }
  dt__arena_fini(&arena);
}

// ---- History --------------------------------------------------------------------------------------
dt_history_item_t *dt__history_begin(const dt_function_t *function, const dt_variant_list_t *list,
                                     const dt_guard_args_t *args, uint32_t number) {
  dt_history_item_t *item = dt__calloc(1, sizeof(*item));
  if (!item)
    return NULL;
  dt__arena_init(&item->arena, 1024);
  item->info = (dt_compile_info_t){.number = number, .failure = ""};
  if (!args->inputs)
    item->info.reason = DT_COMPILE_PREPARE;
  else if (list->n)
    item->info.reason = DT_COMPILE_MISS;
  if (item->info.reason == DT_COMPILE_MISS)
    item->info.miss = dt__miss_nearest(&item->arena, list, args);
  if (args->inputs && dt__log_on(DT_LOG_RECOMPILES, 1))
    tell(function, item->info.miss, "making variant", number);
  item->begin_ns = dt__now_ns();
  return item;
}

// The history of a function that fails for ever must not grow for ever.
static void make_room(dt_history_t *history) {
  dt_history_item_t *oldest = history->first;
  if (history->n < MOST_ITEMS)
    return;
  history->first = oldest->next;
  history->n--;
  history->forgotten++;
  free_item(oldest);
}

void dt__history_end(dt_function_t *function, dt_history_item_t *item, dt_status_t status) {
  if (!item)
    return;
  dt_history_t *history = &function->history;
  item->info.ns = (uint64_t)(dt__now_ns() - item->begin_ns);
  item->info.code = dt_status_code(status);
  if (status)
    item->info.failure = dt__arena_strdup(&item->arena, dt_status_message(status));
  if (!item->info.failure)
    item->info.failure = "";
  make_room(history);
  if (history->first)
    history->last->next = item;
  else
    history->first = item;
  history->last = item;
  history->n++;
}

void dt__history_fini(dt_history_t *history) {
  while (history->first) {
    dt_history_item_t *item = history->first;
    history->first = item->next;
    free_item(item);
  }
}
