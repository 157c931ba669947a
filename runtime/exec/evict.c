// SPDX-License-Identifier: Apache-2.0
// Functions as holders of memory. A variant that the budget has no room for leaves its function's
// list, and is freed when no call is in it. A later call that needs it compiles it again, which
// counts against no limit.
//
// If calls leave work behind, the variant's place takes it over (dt_place_kind_t.retire). The
// caller may replay captured launches as long as the function lives. So a captured variant is not
// evicted, and one that is captured while it is being evicted stays loaded.
#include "runtime/exec/evict.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/session.h"

#include <string.h>

// How long, in ticks, a new variant waits for the call that it was made for.
#define GRACE 4096u

static void destroy_list(dt_retired_t *item) { dt__free(item); }

static void destroy_decider(dt_retired_t *item) {
  dt__decider_destroy((dt_decider_t *)(void *)item);
}

// ---- What variants hold ---------------------------------------------------------------------------

static void measure_code(const dt_compiled_t *compiled, uint64_t bytes[DT_MEMORIES]) {
  uint64_t device = compiled->device_code_bytes;
  bytes[DT_MEMORY_HOST] += compiled->code_bytes - device; // those of both
  bytes[DT_MEMORY_DEVICE] += device;
}

static void measure(dt_variant_t *variant) {
  uint64_t *bytes = variant->bytes;
  bytes[DT_MEMORY_HOST] = sizeof(*variant) + variant->traced->arena.total_bytes +
                          dt__symenv_bytes(variant->traced->env);
  bytes[DT_MEMORY_DEVICE] = 0;
  if (!variant->compiled)
    return;
  measure_code(variant->compiled, bytes);
  if (variant->home->kind->allocate) // else forms, which are counted where they are held
    bytes[variant->home->kind->memory] += (uint64_t)variant->compiled->once_bytes;
}

// Mutex held.
static void add(dt_function_t *function, dt_memory_t memory, uint64_t bytes) {
  (void)atomic_fetch_add_explicit(&function->held_bytes[memory], bytes, memory_order_relaxed);
}
static void subtract(dt_function_t *function, dt_memory_t memory, uint64_t bytes) {
  (void)atomic_fetch_sub_explicit(&function->held_bytes[memory], bytes, memory_order_relaxed);
}

// What the function's variants have of packed constants changes by this.
static void count_constants(dt_function_t *function, const dt_variant_t *variant, bool more) {
  uint64_t bytes = variant->home->kind->allocate ? (uint64_t)variant->compiled->once_bytes : 0;
  (void)atomic_fetch_add_explicit(&function->constant_bytes, more ? bytes : 0 - bytes,
                                  memory_order_relaxed);
}

static void come(dt_function_t *function, const dt_bindings_t *bindings) {
  dt_bindings_bytes_t bytes = dt__bindings_come(bindings);
  add(function, DT_MEMORY_DEVICE, bytes.copies);
  (void)atomic_fetch_add_explicit(&function->constant_bytes, bytes.own_forms, memory_order_relaxed);
}

static dt_bindings_bytes_t go(dt_function_t *function, const dt_bindings_t *bindings) {
  dt_bindings_bytes_t bytes = dt__bindings_go(bindings);
  subtract(function, DT_MEMORY_DEVICE, bytes.copies);
  (void)atomic_fetch_sub_explicit(&function->constant_bytes, bytes.own_forms, memory_order_relaxed);
  return bytes;
}

void dt__variant_hold(dt_function_t *function, dt_variant_t *variant) {
  measure(variant);
  variant->made = dt__budget_tick(&function->runtime->budget);
  add(function, DT_MEMORY_HOST, variant->bytes[DT_MEMORY_HOST]);
  add(function, DT_MEMORY_DEVICE, variant->bytes[DT_MEMORY_DEVICE]);
  come(function, atomic_load_explicit(&variant->bindings, memory_order_relaxed));
  if (variant->compiled)
    count_constants(function, variant, true);
}

void dt__variant_hold_more(dt_function_t *function, dt_variant_t *variant,
                           const dt_compiled_t *fresh) {
  uint64_t bytes[DT_MEMORIES] = {0};
  measure_code(fresh, bytes);
  for (int k = 0; k < DT_MEMORIES; k++) {
    variant->bytes[k] += bytes[k];
    add(function, (dt_memory_t)k, bytes[k]);
  }
  (void)atomic_fetch_add_explicit(&function->code_bytes, fresh->code_bytes, memory_order_relaxed);
}

void dt__variant_rehold(dt_function_t *function, dt_bindings_t *old, dt_bindings_t *fresh) {
  come(function, fresh);
  (void)go(function, old);
}

void dt__session_touch(dt_session_t *session, dt_variant_t *variant) {
  const dt_budget_t *budget = &session->runtime->budget;
  dt__budget_touch(budget, &variant->used);
  dt__budget_touch(budget, &session->used);
}

dt_function_t *dt__holder_function(dt_holder_t *holder) {
  return (dt_function_t *)((char *)holder - offsetof(dt_function_t, holder));
}

static uint64_t held_bytes(const dt_holder_t *holder, dt_memory_t memory) {
  const dt_function_t *function =
      (const dt_function_t *)((const char *)holder - offsetof(dt_function_t, holder));
  return atomic_load_explicit(&function->held_bytes[memory], memory_order_relaxed);
}

// The tick of its last use; UINT64_MAX: it cannot go, or has nothing of that memory.
static uint64_t used_at(const dt_function_t *function, const dt_variant_t *variant,
                        dt_memory_t memory) {
  uint64_t used = atomic_load_explicit(&variant->used, memory_order_relaxed);
  if (!variant->bytes[memory] || atomic_load_explicit(&variant->captured, memory_order_relaxed))
    return UINT64_MAX;
  if (!used && dt__budget_now(&function->runtime->budget) - variant->made < GRACE)
    return UINT64_MAX;
  return used ? used : variant->made;
}

// Mutex held. Who makes a decider, or code anew, looks at variants without the mutex.
static bool find_oldest(const dt_function_t *function, dt_memory_t memory, uint32_t *out,
                        uint64_t *out_used) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  *out_used = UINT64_MAX;
  for (uint32_t k = 0; k < list->n && !function->decider.running && !function->pins; k++) {
    uint64_t used = used_at(function, list->items[k], memory);
    if (used < *out_used) {
      *out_used = used;
      *out = k;
    }
  }
  return *out_used != UINT64_MAX;
}

static uint64_t last_used(dt_holder_t *holder, dt_memory_t memory) {
  dt_function_t *function = dt__holder_function(holder);
  uint32_t index = 0;
  uint64_t used = 0;
  dt__mutex_lock(&function->mutex);
  (void)find_oldest(function, memory, &index, &used);
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

// Mutex held. Its code is not the function's any more.
static void uncount_code(dt_function_t *function, const dt_variant_t *variant) {
  uint64_t code = variant->compiled->code_bytes;
  for (uint32_t k = 0; k < variant->n_swapped; k++)
    code += variant->swapped[k]->code_bytes;
  (void)atomic_fetch_sub_explicit(&function->code_bytes, code, memory_order_relaxed);
  count_constants(function, variant, false);
}

// Mutex held. A variant that goes leaves no mark on limits.
static void uncount(dt_function_t *function, const dt_variant_t *variant) {
  function->excused++;
  for (uint32_t k = 0; variant->generic && k < function->n_generic_tried; k++) {
    if (function->generic_tried[k] == variant->place)
      function->generic_tried[k] = function->generic_tried[--function->n_generic_tried];
  }
  if (variant->compiled)
    uncount_code(function, variant);
}

// ---- Staying --------------------------------------------------------------------------------------

void dt__variant_stay(dt_variant_t *variant) {
  dt_runtime_t *runtime = variant->runtime;
  dt__mutex_lock(&runtime->budget.mutex);
  variant->retired.next = runtime->captured ? &runtime->captured->retired : NULL;
  runtime->captured = variant;
  dt__mutex_unlock(&runtime->budget.mutex);
}

void dt__runtime_drop_captured(dt_runtime_t *runtime) {
  while (runtime->captured) {
    dt_variant_t *variant = runtime->captured;
    runtime->captured = (dt_variant_t *)variant->retired.next;
    dt__variant_release(variant);
  }
}

// Nobody is inside, and nobody finds it.
static void leave(dt_retired_t *item) {
  dt_variant_t *variant = (dt_variant_t *)item;
  if (variant->home->kind->retire)
    variant->home->kind->retire(variant);
  else
    dt__variant_release(variant);
}

// ---- Going ----------------------------------------------------------------------------------------

// Mutex held. What went is added to `bytes`.
static bool evict(dt_function_t *function, uint32_t index, uint64_t bytes[DT_MEMORIES]) {
  dt_reclaim_t *reclaim = function->runtime->reclaim;
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_variant_list_t *list = list_without(old, index);
  if (!list)
    return false;
  dt_variant_t *variant = old->items[index];
  dt_decider_t *decider = (dt_decider_t *)(uintptr_t)old->decider;
  dt_bindings_bytes_t gone =
      go(function, atomic_load_explicit(&variant->bindings, memory_order_relaxed));
  uint64_t host = variant->bytes[DT_MEMORY_HOST], device = variant->bytes[DT_MEMORY_DEVICE];
  bytes[DT_MEMORY_HOST] = host + gone.forms;
  bytes[DT_MEMORY_DEVICE] = device + gone.copies;
  DT_LOG(DT_LOG_MEMORY, 1, "%s.%u: %llu bytes given back, and %llu of a device", function->name,
         variant->number, (unsigned long long)bytes[DT_MEMORY_HOST],
         (unsigned long long)bytes[DT_MEMORY_DEVICE]);
  uncount(function, variant);
  atomic_store_explicit(&function->list, list, memory_order_release);
  old->retired.destroy = destroy_list;
  variant->retired.destroy = leave;
  dt__reclaim_retire(reclaim, &old->retired);
  dt__reclaim_retire(reclaim, &variant->retired);
  if (decider) {
    decider->retired.destroy = destroy_decider;
    dt__reclaim_retire(reclaim, &decider->retired);
  }
  if (list->n)
    dt__decider_request(function);
  subtract(function, DT_MEMORY_HOST, host);
  subtract(function, DT_MEMORY_DEVICE, device);
  return true;
}

// Mutex held. The same list with another at `index`, and the same decider: it has the same guards.
static dt_variant_list_t *list_with(const dt_variant_list_t *old, uint32_t index,
                                    dt_variant_t *fresh) {
  size_t bytes = sizeof(*old) + old->n * sizeof(old->items[0]);
  dt_variant_list_t *list = dt__alloc(bytes);
  if (!list)
    return NULL;
  memcpy(list, old, bytes);
  list->retired = (dt_retired_t){0};
  list->items[index] = fresh;
  if (fresh->n_symbols > list->n_symbols)
    list->n_symbols = fresh->n_symbols;
  return list;
}

bool dt__variant_replace(dt_function_t *function, dt_variant_t *variant, dt_variant_t *fresh) {
  dt_reclaim_t *reclaim = function->runtime->reclaim;
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  uint32_t index = 0;
  while (index < old->n && old->items[index] != variant)
    index++;
  dt_variant_list_t *list = index < old->n ? list_with(old, index, fresh) : NULL;
  if (!list)
    return false;
  dt__variant_hold(function, fresh);
  fresh->made = variant->made;
  atomic_store_explicit(&fresh->used, atomic_load_explicit(&variant->used, memory_order_relaxed),
                        memory_order_relaxed);
  (void)atomic_fetch_add_explicit(&function->code_bytes, fresh->compiled->code_bytes,
                                  memory_order_relaxed);
  (void)go(function, atomic_load_explicit(&variant->bindings, memory_order_relaxed));
  uncount_code(function, variant);
  atomic_store_explicit(&function->kernels, fresh->compiled->n_launches, memory_order_relaxed);
  atomic_store_explicit(&function->list, list, memory_order_release);
  subtract(function, DT_MEMORY_HOST, variant->bytes[DT_MEMORY_HOST]);
  subtract(function, DT_MEMORY_DEVICE, variant->bytes[DT_MEMORY_DEVICE]);
  old->retired.destroy = destroy_list;
  variant->retired.destroy = leave;
  dt__reclaim_retire(reclaim, &old->retired);
  dt__reclaim_retire(reclaim, &variant->retired);
  atomic_store_explicit(&function->runtime->garbage, true, memory_order_relaxed);
  return true;
}

// Mutex held. The same list with one more at `index`, and without a decider.
static dt_variant_list_t *list_before(const dt_variant_list_t *old, uint32_t index,
                                      dt_variant_t *fresh) {
  dt_variant_list_t *list = dt__alloc(sizeof(*list) + (old->n + 1) * sizeof(list->items[0]));
  if (!list)
    return NULL;
  *list = *old;
  list->retired = (dt_retired_t){0};
  list->decider = NULL;
  list->n = old->n + 1;
  memcpy(list->items, old->items, index * sizeof(list->items[0]));
  list->items[index] = fresh;
  memcpy(list->items + index + 1, old->items + index, (old->n - index) * sizeof(list->items[0]));
  if (fresh->n_symbols > list->n_symbols)
    list->n_symbols = fresh->n_symbols;
  return list;
}

bool dt__variant_insert(dt_function_t *function, const dt_variant_t *variant, dt_variant_t *fresh) {
  dt_reclaim_t *reclaim = function->runtime->reclaim;
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_decider_t *decider = (dt_decider_t *)(uintptr_t)old->decider;
  uint32_t index = 0;
  while (index < old->n && old->items[index] != variant)
    index++;
  dt_variant_list_t *list = index < old->n ? list_before(old, index, fresh) : NULL;
  if (!list)
    return false;
  dt__variant_hold(function, fresh);
  (void)atomic_fetch_add_explicit(&function->code_bytes, fresh->compiled->code_bytes,
                                  memory_order_relaxed);
  atomic_store_explicit(&function->list, list, memory_order_release);
  old->retired.destroy = destroy_list;
  dt__reclaim_retire(reclaim, &old->retired);
  if (decider) {
    decider->retired.destroy = destroy_decider;
    dt__reclaim_retire(reclaim, &decider->retired);
  }
  atomic_store_explicit(&function->runtime->garbage, true, memory_order_relaxed);
  dt__decider_request(function);
  return true;
}

static uint64_t give(dt_holder_t *holder, dt_memory_t memory) {
  dt_function_t *function = dt__holder_function(holder);
  dt_budget_t *budget = &function->runtime->budget;
  uint32_t index = 0;
  uint64_t used = 0, bytes[DT_MEMORIES] = {0};
  dt__mutex_lock(&function->mutex);
  bool gone = find_oldest(function, memory, &index, &used) && evict(function, index, bytes);
  dt__mutex_unlock(&function->mutex);
  if (gone) {
    (void)atomic_fetch_add_explicit(&budget->evicted_variants, 1, memory_order_relaxed);
    for (int k = 0; k < DT_MEMORIES; k++)
      (void)atomic_fetch_add_explicit(&budget->evicted_bytes[k], bytes[k], memory_order_relaxed);
    atomic_store_explicit(&function->runtime->garbage, true, memory_order_relaxed);
  }
  return bytes[memory];
}

const dt_holder_kind_t dt__function_holder = {held_bytes, last_used, give};
