// SPDX-License-Identifier: Apache-2.0
// The counts of a runtime and of its functions in the text format of Prometheus (version 0.0.4).
// Functions of one name are one, since a name and its labels may stand in it once.
#include "ductile/experimental.h"
#include "ductile/profile.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/function.h"
#include "runtime/exec/latency.h"
#include "runtime/exec/runtime.h"

#include <stdio.h>
#include <string.h>

#define DECADE(ns) INT64_C(ns), 2 * INT64_C(ns), 5 * INT64_C(ns)
const int64_t dt__latency_bounds_ns[DT_LATENCY_BOUNDS] = {
    DECADE(10000),     DECADE(100000),     DECADE(1000000), DECADE(10000000),
    DECADE(100000000), DECADE(1000000000), 10000000000};

void dt__latency_note(dt_latency_t *latency, int64_t ns) {
  uint32_t k = 0;
  while (k < DT_LATENCY_BOUNDS && ns > dt__latency_bounds_ns[k])
    k++;
  (void)atomic_fetch_add_explicit(&latency->calls[k], 1, memory_order_relaxed);
  (void)atomic_fetch_add_explicit(&latency->ns, ns > 0 ? (uint64_t)ns : 0, memory_order_relaxed);
}

dt_status_t dt_metrics_latency(dt_runtime_t *runtime, bool on) {
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "dt_metrics_latency: runtime: NULL");
  atomic_store_explicit(&runtime->times_calls, on, memory_order_relaxed);
  return NULL;
}

// ---- What is told -----------------------------------------------------------------------------------
// Numbers of the tables' rows, in their order.
enum {
  N_FUNCTION = 0
#define FUNCTION_METRIC(name, kind, field, scale, help) +1
#include "runtime/exec/metrics.def"
};

typedef struct sample_t {
  struct sample_t *next;
  const char *name;
  double values[N_FUNCTION];
  uint64_t latency[DT_LATENCY_BOUNDS + 1], latency_ns;
} sample_t;

typedef struct samples_t {
  dt_arena_t arena;
  sample_t *first, **end;
  bool failed;
} samples_t;

static sample_t *sample_of(samples_t *samples, const char *name) {
  for (sample_t *sample = samples->first; sample; sample = sample->next)
    if (strcmp(sample->name, name) == 0)
      return sample;
  sample_t *sample = DT_ARENA_NEW(&samples->arena, sample_t);
  if (!sample || !(sample->name = dt__arena_strdup(&samples->arena, name)))
    return NULL;
  *samples->end = sample;
  samples->end = &sample->next;
  return sample;
}

static bool add_function(samples_t *samples, dt_function_t *function) {
  dt_function_counters_t all = {.struct_size = sizeof(all)};
  sample_t *sample = sample_of(samples, function->name);
  dt_status_t status = dt_function_counters(function, &all);
  bool good = !status && sample;
  dt_status_free(status);
  if (!good)
    return false;
  uint32_t k = 0;
#define FUNCTION_METRIC(name, kind, field, scale, help)                                            \
  sample->values[k++] += (scale) * (double)all.field;
#include "runtime/exec/metrics.def"
  for (k = 0; k <= DT_LATENCY_BOUNDS; k++)
    sample->latency[k] += atomic_load_explicit(&function->latency.calls[k], memory_order_relaxed);
  sample->latency_ns += atomic_load_explicit(&function->latency.ns, memory_order_relaxed);
  return true;
}

// No function goes while the budget's mutex is held.
static void add_functions(samples_t *samples, dt_runtime_t *runtime) {
  dt__mutex_lock(&runtime->budget.mutex);
  for (dt_holder_t *holder = runtime->budget.holders; holder; holder = holder->next) {
    if (holder->kind != &dt__function_holder)
      continue;
    dt_function_t *function =
        (dt_function_t *)(void *)((char *)holder - offsetof(dt_function_t, holder));
    samples->failed = samples->failed || !add_function(samples, function);
  }
  dt__mutex_unlock(&runtime->budget.mutex);
}

// ---- Text -------------------------------------------------------------------------------------------
static void put_head(dt_text_t *out, const char *name, const char *kind, const char *help) {
  dt__text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

// A label's value: three characters are escaped.
static void put_label(dt_text_t *out, const char *text) {
  for (const char *at = text; *at;) {
    size_t plain = strcspn(at, "\\\"\n");
    dt__text_write(out, at, plain);
    at += plain;
    if (*at)
      dt__text_printf(out, "\\%c", *at == '\n' ? 'n' : *at);
    at += *at ? 1 : 0;
  }
}

static void put_sample(dt_text_t *out, const char *name, const sample_t *sample, double value) {
  dt__text_printf(out, "%s{function=\"", name);
  put_label(out, sample->name);
  dt__text_printf(out, "\"} %.17g\n", value);
}

static void put_function_rows(dt_text_t *out, const samples_t *samples) {
  uint32_t k = 0;
#define FUNCTION_METRIC(name, kind, field, scale, help)                                            \
  put_head(out, name, #kind, help);                                                                \
  for (const sample_t *s = samples->first; s; s = s->next)                                         \
    put_sample(out, name, s, s->values[k]);                                                        \
  k++;
#include "runtime/exec/metrics.def"
}

static void put_runtime_rows(dt_text_t *out, const dt_runtime_stats_t *all) {
#define RUNTIME_METRIC(name, kind, field, scale, help)                                             \
  put_head(out, name, #kind, help);                                                                \
  dt__text_printf(out, name " %.17g\n", (scale) * (double)all->field);
#include "runtime/exec/metrics.def"
}

static void put_bucket(dt_text_t *out, const sample_t *sample, const char *bound, uint64_t calls) {
  dt__text_put(out, "ductile_call_seconds_bucket{function=\"");
  put_label(out, sample->name);
  dt__text_printf(out, "\",le=\"%s\"} %llu\n", bound, (unsigned long long)calls);
}

static void put_latency(dt_text_t *out, const samples_t *samples) {
  put_head(out, "ductile_call_seconds", "histogram",
           "Time of calls, from their beginning to their return.");
  for (const sample_t *sample = samples->first; sample; sample = sample->next) {
    uint64_t calls = 0;
    for (uint32_t k = 0; k < DT_LATENCY_BOUNDS; k++) {
      char bound[32];
      (void)snprintf(bound, sizeof(bound), "%g", (double)dt__latency_bounds_ns[k] * 1e-9);
      put_bucket(out, sample, bound, calls += sample->latency[k]);
    }
    calls += sample->latency[DT_LATENCY_BOUNDS];
    put_bucket(out, sample, "+Inf", calls);
    put_sample(out, "ductile_call_seconds_sum", sample, (double)sample->latency_ns * 1e-9);
    put_sample(out, "ductile_call_seconds_count", sample, (double)calls);
  }
}

static dt_status_t put_metrics(dt_runtime_t *runtime, dt_text_t *out) {
  dt_runtime_stats_t all = {.struct_size = sizeof(all)};
  DT_TRY(dt_runtime_stats(runtime, &all));
  samples_t samples = {.first = NULL, .end = &samples.first};
  dt__arena_init(&samples.arena, 4096);
  add_functions(&samples, runtime);
  if (!samples.failed) {
    put_runtime_rows(out, &all);
    put_function_rows(out, &samples);
    put_latency(out, &samples);
  }
  dt__arena_fini(&samples.arena);
  return samples.failed ? DT_NO_MEMORY() : dt__text_status(out);
}

dt_status_t dt_metrics_text(dt_runtime_t *runtime, char **out) {
  dt_text_t text;
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_metrics_text: out: NULL");
  *out = NULL;
  dt__text_init(&text);
  dt_status_t status = put_metrics(runtime, &text);
  if (status)
    dt__text_fini(&text);
  else
    *out = text.data; // the writer's memory is the heap's, as dt_text_free expects
  return dt__status_annotate(status, "dt_metrics_text");
}
