// SPDX-License-Identifier: Apache-2.0
// Replaces the code of a variant's kernels while calls run. The variant's program, with its memory
// plan and its host code, stays; entries of its table of kernels are replaced one by one. So a new
// kernel must be of the same program: the same words in the same order. At their next call graphs
// find the entries changed and set their nodes.
#include "runtime/exec/swap.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"
#include "runtime/compile/early.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/function.h"
#include "runtime/exec/perf.h"
#include "runtime/exec/runtime.h"

#include <string.h>

#define MOST_SWAPS 64u

// The newest variant with code, which lives as long as the function.
static dt_variant_t *newest(dt_function_t *function) {
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_variant_t *found = NULL;
  for (uint32_t k = 0; k < list->n; k++)
    if (list->items[k]->compiled)
      found = list->items[k];
  function->pins += found != NULL;
  if (found)
    dt__variant_retain(found);
  dt__mutex_unlock(&function->mutex);
  return found;
}

static dt_status_t check_same(const dt_compiled_t *old, const dt_compiled_t *fresh) {
  bool same = old->n_kernels == fresh->n_kernels && old->n_segments == fresh->n_segments &&
              old->n_launches == fresh->n_launches && old->once_bytes == fresh->once_bytes &&
              old->codegen == fresh->codegen;
  if (same && old->codegen && old->codegen->same)
    same = old->codegen->same(old, fresh);
  if (!same)
    return DT_FAIL(DT_E_INTERNAL, "compiling the program again gives another program");
  return NULL;
}

// The function's mutex held.
static dt_status_t adopt(dt_function_t *function, dt_variant_t *variant, dt_compiled_t *fresh) {
  if (variant->n_swapped >= MOST_SWAPS)
    return DT_FAIL(DT_E_LIMIT, "the code was replaced %u times already", variant->n_swapped);
  dt_compiled_t **swapped = dt__calloc(variant->n_swapped + 1, sizeof(dt_compiled_t *));
  if (!swapped)
    return DT_NO_MEMORY();
  if (variant->n_swapped)
    memcpy(swapped, variant->swapped, variant->n_swapped * sizeof(dt_compiled_t *));
  swapped[variant->n_swapped++] = fresh;
  dt__free(variant->swapped);
  variant->swapped = swapped;
  // Generated code reads entries as plain words of 8 bytes, which are written whole.
  for (uint32_t k = 0; k < fresh->n_kernels; k++)
    __atomic_store_n(&variant->compiled->kernels[k], fresh->kernels[k], __ATOMIC_RELEASE);
  (void)atomic_fetch_add_explicit(&variant->kernels_swapped, 1, memory_order_release);
  variant->compiled->quick = false;
  dt__variant_hold_more(function, variant, fresh);
  return NULL;
}

static void drop(dt_compiled_t *compiled) {
  dt__compiled_unload(compiled);
  dt__compiled_destroy(compiled);
}

// What was made early, once; NULL: nothing.
static dt_compiled_t *take_early(dt_function_t *function, dt_variant_t *variant) {
  dt__mutex_lock(&function->mutex);
  dt_early_t *early = variant->compiled->early;
  variant->compiled->early = NULL;
  dt__mutex_unlock(&function->mutex);
  dt_compiled_t *fresh = early ? dt__early_take(early) : NULL;
  dt__early_destroy(early);
  return fresh;
}

dt_status_t dt__variant_recompile(dt_function_t *function, dt_variant_t *variant,
                                  dt_watch_t *watch) {
  dt_compiled_t *fresh = NULL;
  dt_compile_request_t request = {.traced = variant->traced,
                                  .name = function->name,
                                  .variant = variant->number,
                                  .strict_fp = variant->strict_fp,
                                  .chosen = true,
                                  .choices = variant->compiled->choices,
                                  .codegen = variant->home->codegen,
                                  .device = variant->home->device,
                                  .beside_calls = true,
                                  .watch = watch};
  fresh = take_early(function, variant);
  if (!fresh)
    DT_TRY(dt__compile(function->runtime->compiler, &request, &fresh));
  dt_status_t status = check_same(variant->compiled, fresh);
  if (!status && function->runtime->perf)
    dt__perf_tell(function->runtime->perf, function->name, variant->number, fresh);
  if (!status) {
    dt__mutex_lock(&function->mutex);
    status = adopt(function, variant, fresh);
    dt__mutex_unlock(&function->mutex);
  }
  if (status)
    drop(fresh); // nothing of it was launched
  else
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u: %u kernels replaced", function->name, variant->number,
           fresh->n_kernels);
  return status;
}

dt_status_t dt__function_recompile(dt_function_t *function) {
  dt_variant_t *variant = newest(function);
  dt_watch_t watch;
  dt__watch_init(&watch, &function->runtime->budgets);
  dt_status_t status = variant ? dt__variant_recompile(function, variant, &watch)
                               : DT_FAIL(DT_E_STATE, "there is no compiled variant");
  dt__mutex_lock(&function->mutex);
  function->pins -= variant != NULL;
  dt__mutex_unlock(&function->mutex);
  if (variant)
    dt__variant_release(variant);
  return dt__status_annotate(status, "function %s", function->name);
}

void dt__variant_drop_swapped(dt_variant_t *variant) {
  for (uint32_t k = 0; k < variant->n_swapped; k++)
    drop(variant->swapped[k]);
  dt__free(variant->swapped);
  variant->swapped = NULL;
  variant->n_swapped = 0;
}
