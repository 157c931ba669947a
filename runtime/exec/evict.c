// SPDX-License-Identifier: Apache-2.0
// Functions as holders of memory: a variant that the budget has no room for leaves its function's
// list, and goes when no call is in it. A later call that needs it compiles it again, which counts
// against no limit. Variants of devices stay: what was queued may tell of their checks yet.
#include "runtime/exec/exec.h"

#include "runtime/base/log.h"

#include <string.h>

// How long, in ticks, a new variant waits for the call that it was made for.
#define GRACE 4096u

static void destroy_list(dt_retired_t *item) { dt__free(item); }

static void destroy_variant(dt_retired_t *item) { dt__variant_destroy((dt_variant_t *)item); }

static void destroy_decider(dt_retired_t *item) {
  dt__decider_destroy((dt_decider_t *)(void *)item);
}

uint64_t dt__variant_bytes(const dt_variant_t *variant) {
  uint64_t bytes = sizeof(*variant) + variant->traced->arena.total_bytes +
                   dt__symenv_bytes(variant->traced->env);
  if (variant->compiled)
    bytes += variant->compiled->code_bytes + (uint64_t)variant->compiled->once_bytes;
  return bytes;
}

void dt__session_touch(dt_session_t *session, dt_variant_t *variant) {
  const dt_budget_t *budget = &session->runtime->budget;
  dt__budget_touch(budget, &variant->used);
  dt__budget_touch(budget, &session->used);
}

static dt_function_t *function_of(dt_holder_t *holder) {
  return (dt_function_t *)((char *)holder - offsetof(dt_function_t, holder));
}

static uint64_t held_bytes(const dt_holder_t *holder) {
  const dt_function_t *function =
      (const dt_function_t *)((const char *)holder - offsetof(dt_function_t, holder));
  return atomic_load_explicit(&function->held_bytes, memory_order_relaxed);
}

// The tick of its last use; UINT64_MAX: it cannot go.
static uint64_t used_at(const dt_function_t *function, const dt_variant_t *variant) {
  uint64_t used = atomic_load_explicit(&variant->used, memory_order_relaxed);
  if (variant->place != DT_CPU)
    return UINT64_MAX;
  if (!used && dt__budget_now(&function->runtime->budget) - variant->made < GRACE)
    return UINT64_MAX;
  return used ? used : variant->made;
}

// Mutex held. Who makes a decider, or code anew, looks at variants without the mutex.
static bool find_oldest(const dt_function_t *function, uint32_t *out, uint64_t *out_used) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  *out_used = UINT64_MAX;
  for (uint32_t k = 0; k < list->n && !function->decider.running && !function->pins; k++) {
    uint64_t used = used_at(function, list->items[k]);
    if (used < *out_used) {
      *out_used = used;
      *out = k;
    }
  }
  return *out_used != UINT64_MAX;
}

static uint64_t last_used(dt_holder_t *holder) {
  dt_function_t *function = function_of(holder);
  uint32_t index = 0;
  uint64_t used = 0;
  dt__mutex_lock(&function->mutex);
  (void)find_oldest(function, &index, &used);
  dt__mutex_unlock(&function->mutex);
  return used;
}

// Mutex held. The same list without item `index`, and without a decider; NULL without memory.
static dt_variant_list_t *list_without(const dt_variant_list_t *old, uint32_t index) {
  dt_variant_list_t *list = dt__alloc(sizeof(*list) + (old->n - 1) * sizeof(list->items[0]));
  if (!list)
    return NULL;
  *list = *old;
  list->retired = (dt_retired_t){0};
  list->decider = NULL;
  list->n = old->n - 1;
  memcpy(list->items, old->items, index * sizeof(list->items[0]));
  memcpy(list->items + index, old->items + index + 1, (list->n - index) * sizeof(list->items[0]));
  return list;
}

// Mutex held. A variant that goes leaves no mark on limits.
static void uncount(dt_function_t *function, const dt_variant_t *variant) {
  function->excused++;
  for (uint32_t k = 0; variant->generic && k < function->n_generic_tried; k++) {
    if (function->generic_tried[k] == variant->place)
      function->generic_tried[k] = function->generic_tried[--function->n_generic_tried];
  }
  if (!variant->compiled)
    return;
  (void)atomic_fetch_sub_explicit(&function->code_bytes, variant->compiled->code_bytes,
                                  memory_order_relaxed);
  (void)atomic_fetch_sub_explicit(&function->constant_bytes,
                                  (uint64_t)variant->compiled->once_bytes, memory_order_relaxed);
}

// Mutex held.
static uint64_t evict(dt_function_t *function, uint32_t index) {
  dt_reclaim_t *reclaim = function->runtime->reclaim;
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_variant_list_t *list = list_without(old, index);
  if (!list)
    return 0;
  dt_variant_t *variant = old->items[index];
  dt_decider_t *decider = (dt_decider_t *)(uintptr_t)old->decider;
  uint64_t bytes = variant->bytes;
  DT_LOG(DT_LOG_MEMORY, 1, "%s.%u: %llu bytes given back", function->name, variant->number,
         (unsigned long long)bytes);
  uncount(function, variant);
  atomic_store_explicit(&function->list, list, memory_order_release);
  old->retired.destroy = destroy_list;
  variant->retired.destroy = destroy_variant;
  dt__reclaim_retire(reclaim, &old->retired);
  dt__reclaim_retire(reclaim, &variant->retired);
  if (decider) {
    decider->retired.destroy = destroy_decider;
    dt__reclaim_retire(reclaim, &decider->retired);
  }
  if (list->n)
    dt__decider_request(function);
  (void)atomic_fetch_sub_explicit(&function->held_bytes, bytes, memory_order_relaxed);
  return bytes;
}

static uint64_t give(dt_holder_t *holder) {
  dt_function_t *function = function_of(holder);
  dt_budget_t *budget = &function->runtime->budget;
  uint32_t index = 0;
  uint64_t used = 0, bytes = 0;
  dt__mutex_lock(&function->mutex);
  if (find_oldest(function, &index, &used))
    bytes = evict(function, index);
  dt__mutex_unlock(&function->mutex);
  if (bytes) {
    (void)atomic_fetch_add_explicit(&budget->evicted_variants, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&budget->evicted_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&function->runtime->garbage, true, memory_order_relaxed);
  }
  return bytes;
}

const dt_holder_kind_t dt__function_holder = {held_bytes, last_used, give};
