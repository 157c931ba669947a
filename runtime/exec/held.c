// SPDX-License-Identifier: Apache-2.0
// What a runtime holds, by kind (dt_runtime_stats).
#include "runtime/exec/evict.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"

#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <stdlib.h>

// ---- Constants ------------------------------------------------------------------------------------

typedef struct constant_t {
  const void *data;
  size_t bytes;
  bool mapped;
} constant_t;

// Data of all variants' constants, some of it often.
typedef struct constants_t {
  dt_arena_t arena;
  DT_VEC(constant_t) items;
} constants_t;

// The function's mutex held.
static bool add_variant(constants_t *all, const dt_variant_t *variant) {
  const dt_bindings_t *bindings = atomic_load_explicit(&variant->bindings, memory_order_acquire);
  for (uint32_t i = 0; i < bindings->n; i++) {
    const dt_tensor_t *tensor = bindings->tensors[i];
    constant_t own = {.data = tensor->data,
                      .bytes = dt__tensor_bytes(tensor),
                      .mapped = dt__tensor_place(tensor) != NULL};
    if (!DT_VEC_PUSH(&all->arena, &all->items, own))
      return false;
  }
  return true;
}

static bool add_function(constants_t *all, dt_function_t *function) {
  bool good = true;
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  for (uint32_t k = 0; good && k < list->n; k++)
    good = add_variant(all, list->items[k]);
  dt__mutex_unlock(&function->mutex);
  return good;
}

static int compare(const void *left, const void *right) {
  uintptr_t a = (uintptr_t)((const constant_t *)left)->data;
  uintptr_t b = (uintptr_t)((const constant_t *)right)->data;
  return (a > b) - (a < b);
}

static void sum_constants(const constants_t *all, dt_runtime_stats_t *out) {
  if (all->items.len)
    qsort(all->items.items, all->items.len, sizeof(*all->items.items), compare);
  for (uint32_t k = 0; k < all->items.len; k++) {
    const constant_t *own = &all->items.items[k];
    if (k > 0 && own[-1].data == own->data)
      continue;
    *(own->mapped ? &out->mapped_bytes : &out->constant_bytes) += own->bytes;
  }
}

// ---- All ------------------------------------------------------------------------------------------

// The budget's mutex held.
static bool add_holder(dt_holder_t *holder, constants_t *constants, dt_runtime_stats_t *out) {
  uint64_t bytes = holder->kind->bytes(holder, DT_MEMORY_HOST);
  if (holder->kind == &dt__session_holder)
    out->session_bytes += bytes;
  if (holder->kind != &dt__function_holder)
    return true;
  dt_function_t *function = dt__holder_function(holder);
  out->program_bytes += bytes;
  out->code_bytes += atomic_load_explicit(&function->code_bytes, memory_order_relaxed);
  return add_function(constants, function);
}

static dt_status_t count_held(dt_runtime_t *runtime, dt_runtime_stats_t *out) {
  constants_t constants = {0};
  bool good = true;
  dt__arena_init(&constants.arena, 0);
  dt__mutex_lock(&runtime->budget.mutex);
  for (dt_holder_t *holder = runtime->budget.holders; good && holder; holder = holder->next)
    good = add_holder(holder, &constants, out);
  dt__mutex_unlock(&runtime->budget.mutex);
  sum_constants(&constants, out);
  dt__arena_fini(&constants.arena);
  const dt_forms_count_t forms = dt__forms_count(&runtime->forms);
  out->packed_bytes = forms.bytes;
  out->shared_bytes = forms.shared;
  out->mapped_bytes += forms.mapped;
  out->warm_bytes = dt__pager_bytes(runtime->pager);
  return good ? NULL : DT_NO_MEMORY();
}

static uint64_t count(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

dt_status_t dt_runtime_stats(dt_runtime_t *runtime, dt_runtime_stats_t *stats) {
  if (!runtime || !stats)
    return DT_FAIL(DT_E_ARGUMENT, "dt_runtime_stats: %s: NULL", runtime ? "stats" : "runtime");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_runtime_stats in a child after fork");
  dt_status_t status = DT_RESULT_CHECK(dt_runtime_stats_t, stats);
  if (status)
    return dt__status_annotate(status, "dt_runtime_stats");
  dt_budget_t *budget = &runtime->budget;
  dt_runtime_stats_t all = {.max_bytes = budget->max_bytes[DT_MEMORY_HOST],
                            .bytes = dt__budget_bytes(budget, DT_MEMORY_HOST),
                            .evicted_variants = count(&budget->evicted_variants),
                            .evicted_bytes = count(&budget->evicted_bytes[DT_MEMORY_HOST]),
                            .trims = count(&budget->trims),
                            .max_device_bytes = budget->max_bytes[DT_MEMORY_DEVICE],
                            .device_bytes = dt__budget_bytes(budget, DT_MEMORY_DEVICE),
                            .evicted_device_bytes =
                                count(&budget->evicted_bytes[DT_MEMORY_DEVICE])};
  dt__places_count(runtime, &all);
  status = count_held(runtime, &all);
  if (status)
    return dt__status_annotate(status, "dt_runtime_stats");
  DT_RESULT_GIVE(dt_runtime_stats_t, stats, &all);
  return NULL;
}
