// SPDX-License-Identifier: Apache-2.0
// The slow path: arguments that no variant covers. One thread at a time makes a variant of a
// function; others wait for it and look again. A failure makes no variant and is the caller's
// alone: those that waited try for themselves, each with its own arguments.
#include "runtime/exec/exec.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

static void destroy_list(dt_retired_t *item) {
  dt__free(item);
} // variants stay: newer lists have them

// A list of `old`'s variants and one more; NULL without memory.
static dt_variant_list_t *list_append(const dt_variant_list_t *old, dt_variant_t *variant) {
  dt_variant_list_t *list = dt__alloc(sizeof(*list) + (old->n + 1) * sizeof(list->items[0]));
  if (!list)
    return NULL;
  *list = *old;
  memcpy(list->items, old->items, old->n * sizeof(list->items[0]));
  list->items[list->n++] = variant;
  if (variant->n_symbols > list->n_symbols)
    list->n_symbols = variant->n_symbols;
  if (variant->n_output_sizes > list->n_output_sizes)
    list->n_output_sizes = variant->n_output_sizes;
  return list;
}

// Takes `variant` also on failure. Mutex held.
static dt_status_t publish(dt_function_t *function, dt_variant_t *variant) {
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_status_t status = dt__variant_bind(function, variant);
  dt_variant_list_t *list = status ? NULL : list_append(old, variant);
  if (!list) {
    dt__variant_destroy(variant);
    return status ? status : DT_NO_MEMORY();
  }
  atomic_store_explicit(&function->list, list, memory_order_release);
  old->retired.destroy = destroy_list;
  dt__reclaim_retire(function->runtime->reclaim, &old->retired);
  if (variant->compiled) {
    atomic_store_explicit(&function->kernels, variant->compiled->n_launches, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&function->code_bytes, variant->compiled->code_bytes,
                                    memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&function->constant_bytes,
                                    (uint64_t)variant->compiled->once_bytes, memory_order_relaxed);
  }
  return NULL;
}

// The guard of the newest variant that `inputs` fail, for messages.
static void explain_miss(const dt_variant_list_t *list, dt_tensor_t *const *inputs,
                         dt_text_t *text) {
  if (!list->n)
    dt__text_put(text, "no variant yet");
  else if (!dt__guards_explain(list->items[list->n - 1]->guards, inputs, text))
    dt__text_put(text, "the guards hold when walked, but not when run");
}

static void log_miss(const dt_function_t *function, const dt_variant_list_t *list,
                     dt_tensor_t *const *inputs, const char *decision, uint32_t number) {
  if (!inputs || !dt__log_on(DT_LOG_RECOMPILES, 1))
    return;
  dt_text_t text;
  dt__text_init(&text);
  explain_miss(list, inputs, &text);
  DT_LOG(DT_LOG_RECOMPILES, 1, "%s: %s: %s %u", function->name, dt__text_str(&text), decision,
         number);
  dt__text_fini(&text);
}

static dt_status_t limit_status(const dt_function_t *function, const dt_variant_list_t *list,
                                dt_tensor_t *const *inputs) {
  dt_text_t text;
  dt__text_init(&text);
  if (inputs)
    explain_miss(list, inputs, &text);
  dt_status_t status =
      DT_FAIL(DT_E_LIMIT,
              "%u variants are the limit (variant_limit, or DUCTILE_VARIANT_LIMIT) and none covers "
              "these arguments; the newest misses by: %s",
              function->variant_limit, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

static dt_status_t check_inputs(const dt_function_t *function, dt_tensor_t *const *inputs) {
  dt_trace_request_t request = {.name = function->name,
                                .program = function->program,
                                .closure = function->closure,
                                .n_inputs = function->n_inputs,
                                .n_outputs = function->n_outputs,
                                .inputs = function->inputs,
                                .example = inputs};
  return dt__trace_check_inputs(&request);
}

// A variant that was made for these arguments must take them: else calls would compile for ever.
static dt_status_t check_covers(const dt_variant_t *variant, dt_tensor_t *const *inputs) {
  int64_t *symbols = dt__calloc(variant->n_symbols, sizeof(*symbols));
  if (!symbols)
    return DT_NO_MEMORY();
  bool covers = dt__guards_run(variant->guards, inputs, symbols);
  dt__free(symbols);
  if (covers)
    return NULL;
  dt_text_t text;
  dt__text_init(&text);
  (void)dt__guards_explain(variant->guards, inputs, &text);
  dt_status_t status = DT_FAIL(DT_E_INTERNAL,
                               "the guards of a new variant do not take the arguments that it was "
                               "made for: %s",
                               dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

static dt_status_t build(dt_function_t *function, dt_tensor_t *const *inputs, uint32_t number,
                         dt_variant_t **out) {
  int64_t begin = dt__now_ns();
  (void)atomic_fetch_add_explicit(&function->compiles, 1, memory_order_relaxed);
  dt_status_t status = dt__variant_create(function, inputs, number, out);
  if (!status && inputs)
    status = check_covers(*out, inputs);
  if (status) {
    dt__variant_destroy(*out);
    *out = NULL;
  }
  (void)atomic_fetch_add_explicit(&function->compile_ns, (uint64_t)(dt__now_ns() - begin),
                                  memory_order_relaxed);
  return status;
}

// Mutex held. Whether there is nothing to do: with `inputs` a variant covers them, else there is
// one.
static dt_status_t is_covered(dt_session_t *session, const dt_function_t *function,
                              dt_tensor_t *const *inputs, bool *out) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  *out = list->n > 0;
  if (!inputs || !list->n)
    return NULL;
  DT_TRY(dt__session_reserve(session, function, list));
  *out = dt__list_find(list, inputs, session->symbols) != NULL;
  return NULL;
}

// Mutex held at entry and exit, but not while the variant is made: programs and compiles take long.
static dt_status_t build_and_publish(dt_function_t *function, dt_tensor_t *const *inputs) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  if (list->n >= function->variant_limit) {
    log_miss(function, list, inputs, "refused, at the limit of", function->variant_limit);
    return limit_status(function, list, inputs);
  }
  uint32_t number = function->next_number++;
  log_miss(function, list, inputs, "making variant", number);
  function->building = true;
  function->builder = pthread_self();
  dt__mutex_unlock(&function->mutex);
  dt_variant_t *variant = NULL;
  dt_status_t status = build(function, inputs, number, &variant);
  dt__mutex_lock(&function->mutex);
  if (!status)
    status = publish(function, variant);
  function->building = false;
  (void)pthread_cond_broadcast(&function->idle);
  return status;
}

static dt_status_t cover_locked(dt_session_t *session, dt_function_t *function,
                                dt_tensor_t *const *inputs) {
  for (;;) {
    bool covered = false;
    DT_TRY(is_covered(session, function, inputs, &covered));
    if (covered)
      return NULL;
    if (!function->building)
      return build_and_publish(function, inputs);
    if (pthread_equal(function->builder, pthread_self()))
      return DT_FAIL(DT_E_STATE, "called from inside its own program");
    dt__cond_wait(&function->idle, &function->mutex);
  }
}

dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function,
                               dt_tensor_t *const *inputs) {
  if (inputs)
    DT_TRY(check_inputs(function, inputs));
  dt__mutex_lock(&function->mutex);
  dt_status_t status = cover_locked(session, function, inputs);
  dt__mutex_unlock(&function->mutex);
  dt__runtime_collect(function->runtime);
  return status;
}
