// SPDX-License-Identifier: Apache-2.0
// The counts of functions and sessions in three forms: the stable few, all of them as JSON, and all
// of them as a struct that may change.
#include "runtime/exec/session.h"

#include "ductile/experimental.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

// ---- JSON -----------------------------------------------------------------------------------------

static void put_number(dt_text_t *out, const char *name, uint64_t value) {
  dt__text_printf(out, "%s\"%s\":%llu", out->len ? "," : "{", name, (unsigned long long)value);
}

// Why a call was no graph; the reasons are ours, and hold nothing that is escaped.
static void put_reason(dt_text_t *out, const char *name, const char *reason) {
  dt__text_printf(out, reason ? ",\"%s\":\"%s\"" : ",\"%s\":null", name, reason);
}

static dt_status_t end_object(dt_text_t *text, char **out) {
  dt__text_put(text, "}\n");
  dt_status_t status = dt__text_status(text);
  if (status)
    dt__text_fini(text);
  else
    *out = text->data; // the writer's memory is the heap's, as dt_text_free expects
  return status;
}

// ---- Functions ------------------------------------------------------------------------------------

static uint64_t count(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

// Mutex held.
static uint64_t count_quick(const dt_variant_list_t *list) {
  uint64_t quick = 0;
  for (uint32_t k = 0; k < list->n; k++)
    quick += list->items[k]->compiled && list->items[k]->compiled->quick;
  return quick;
}

static dt_function_counters_t count_function(dt_function_t *function) {
  dt_function_counters_t all = {.compiles = count(&function->compiles),
                                .misses = count(&function->misses),
                                .evaluator_calls = count(&function->evaluator_calls),
                                .failed_calls = count(&function->failed_calls),
                                .compile_ns = count(&function->compile_ns),
                                .kernels = count(&function->kernels),
                                .code_bytes = count(&function->code_bytes),
                                .constant_bytes = count(&function->constant_bytes),
                                .promotions = count(&function->promotions),
                                .limit_misses = count(&function->limit_misses),
                                .frozen_misses = count(&function->frozen_misses),
                                .sampled_calls = count(&function->sampled_calls),
                                .readbacks = count(&function->readbacks),
                                .device_load_ns = count(&function->device_load_ns),
                                .graph_calls = count(&function->graph_calls),
                                .graph_skips = count(&function->graph_skips)};
  all.graph_skip = atomic_load_explicit(&function->graph_skip, memory_order_relaxed);
  for (uint32_t i = 0; i < DT_CALL_COUNTERS; i++) {
    all.calls += count(&function->counters[i].calls);
    all.launches += count(&function->counters[i].launches);
  }
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  all.variants = list->n;
  all.quick_variants = count_quick(list);
  all.bettered = function->better.made;
  dt__mutex_unlock(&function->mutex);
  return all;
}

static dt_status_t check_function(const dt_function_t *function, const void *out, const char *who) {
  if (!function || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: %s: NULL", who, function ? "where to tell" : "function");
  return dt__forked() ? DT_FAIL(DT_E_FORKED, "%s in a child after fork", who) : NULL;
}

dt_status_t dt_function_stats(dt_function_t *function, dt_function_stats_t *stats) {
  DT_TRY(check_function(function, stats, "dt_function_stats"));
  dt_status_t status = DT_RESULT_CHECK(dt_function_stats_t, stats);
  if (status)
    return dt__status_annotate(status, "dt_function_stats");
  dt_function_counters_t all = count_function(function);
  dt_function_stats_t few = {.variants = all.variants,
                             .compiles = all.compiles,
                             .calls = all.calls,
                             .misses = all.misses,
                             .failed_calls = all.failed_calls,
                             .evaluator_calls = all.evaluator_calls,
                             .compile_ns = all.compile_ns,
                             .code_bytes = all.code_bytes,
                             .constant_bytes = all.constant_bytes};
  DT_RESULT_GIVE(dt_function_stats_t, stats, &few);
  return NULL;
}

dt_status_t dt_function_counters(dt_function_t *function, dt_function_counters_t *counters) {
  DT_TRY(check_function(function, counters, "dt_function_counters"));
  dt_status_t status = DT_RESULT_CHECK(dt_function_counters_t, counters);
  if (status)
    return dt__status_annotate(status, "dt_function_counters");
  dt_function_counters_t all = count_function(function);
  DT_RESULT_GIVE(dt_function_counters_t, counters, &all);
  return NULL;
}

dt_status_t dt_function_stats_json(dt_function_t *function, char **out) {
  DT_TRY(check_function(function, out, "dt_function_stats_json"));
  *out = NULL;
  dt_text_t text;
  dt__text_init(&text);
  dt_function_counters_t all = count_function(function);
#define FUNCTION_COUNTER(field) put_number(&text, #field, all.field);
#include "runtime/exec/counters.def"
  put_reason(&text, "graph_skip", all.graph_skip);
  return end_object(&text, out);
}

// ---- Sessions -------------------------------------------------------------------------------------

static dt_status_t count_session(dt_session_t *session, const char *who, dt_session_counters_t *all,
                                 uint64_t *bytes) {
  if (!session)
    return DT_FAIL(DT_E_ARGUMENT, "%s: session: NULL", who);
  dt_status_t status = dt__session_begin(session);
  if (status)
    return dt__status_annotate(status, "%s", who);
  if (session->home->kind->count_session)
    session->home->kind->count_session(session, all);
  *bytes = dt__session_bytes(session);
  dt__session_end(session);
  return NULL;
}

dt_status_t dt_session_stats(dt_session_t *session, dt_session_stats_t *stats) {
  dt_session_counters_t all = {0};
  dt_session_stats_t few = {0};
  if (!stats)
    return DT_FAIL(DT_E_ARGUMENT, "dt_session_stats: stats: NULL");
  dt_status_t status = DT_RESULT_CHECK(dt_session_stats_t, stats);
  if (status)
    return dt__status_annotate(status, "dt_session_stats");
  DT_TRY(count_session(session, "dt_session_stats", &all, &few.bytes));
  few.generation = all.generation;
  few.graph_calls = all.graph_calls;
  few.graph_skips = all.graph_skips;
  few.builds = all.builds;
  few.live_results = all.live_results;
  DT_RESULT_GIVE(dt_session_stats_t, stats, &few);
  return NULL;
}

dt_status_t dt_session_counters(dt_session_t *session, dt_session_counters_t *counters) {
  dt_session_counters_t all = {0};
  uint64_t bytes = 0;
  if (!counters)
    return DT_FAIL(DT_E_ARGUMENT, "dt_session_counters: counters: NULL");
  dt_status_t status = DT_RESULT_CHECK(dt_session_counters_t, counters);
  if (status)
    return dt__status_annotate(status, "dt_session_counters");
  DT_TRY(count_session(session, "dt_session_counters", &all, &bytes));
  DT_RESULT_GIVE(dt_session_counters_t, counters, &all);
  return NULL;
}

dt_status_t dt_session_stats_json(dt_session_t *session, char **out) {
  dt_session_counters_t all = {0};
  uint64_t bytes = 0;
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_session_stats_json: out: NULL");
  *out = NULL;
  DT_TRY(count_session(session, "dt_session_stats_json", &all, &bytes));
  dt_text_t text;
  dt__text_init(&text);
  put_number(&text, "bytes", bytes);
#define SESSION_COUNTER(field) put_number(&text, #field, all.field);
#include "runtime/exec/counters.def"
  put_reason(&text, "graph_skip", all.graph_skip);
  return end_object(&text, out);
}

uint64_t dt_session_bytes(const dt_session_t *session) {
  return session ? dt__session_bytes(session) : 0;
}
