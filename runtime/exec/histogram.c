// SPDX-License-Identifier: Apache-2.0
// The histogram of sizes: a bounded number of rows with the sizes of calls. All misses and a sample
// of the other calls are counted.
#include "runtime/exec/policy.h"

#include "runtime/base/status.h"
#include "runtime/exec/function.h"

#include <sched.h>
#include <string.h>

#define MOST_ROWS 64u
#define MOST_WIDTH 256u // sources that rows tell apart
#define MOST_BYTES ((size_t)64 << 10)

dt_status_t dt__histogram_init(dt_histogram_t *histogram, dt_arena_t *arena, uint32_t n_sources) {
  uint32_t width = n_sources < MOST_WIDTH ? n_sources : MOST_WIDTH;
  size_t fit = MOST_BYTES / (sizeof(dt_histogram_row_t) + width * sizeof(int64_t));
  histogram->width = width;
  histogram->cap = fit < MOST_ROWS ? (uint32_t)fit : MOST_ROWS;
  histogram->rows = DT_ARENA_ARRAY(arena, dt_histogram_row_t, histogram->cap);
  histogram->values = DT_ARENA_ARRAY(arena, int64_t, (size_t)histogram->cap *width);
  if (!histogram->rows || !histogram->values)
    return DT_NO_MEMORY();
  return NULL;
}

// ---- Holding it ---------------------------------------------------------------------------------
static bool try_lock(dt_histogram_t *histogram) {
  return !atomic_load_explicit(&histogram->busy, memory_order_relaxed) &&
         !atomic_exchange_explicit(&histogram->busy, true, memory_order_acquire);
}

void dt__histogram_lock(dt_histogram_t *histogram) {
  while (!try_lock(histogram))
    (void)sched_yield(); // held for less than a microsecond at a time
}

void dt__histogram_unlock(dt_histogram_t *histogram) {
  atomic_store_explicit(&histogram->busy, false, memory_order_release);
}

// ---- Counting -----------------------------------------------------------------------------------
static uint32_t find_row(const dt_histogram_t *histogram, const int64_t *values) {
  uint32_t k = 0;
  size_t bytes = histogram->width * sizeof(*values);
  while (k < histogram->n &&
         (bytes && memcmp(&histogram->values[k * histogram->width], values, bytes) != 0))
    k++;
  return k;
}

// A place for a new row: a free one, or that of the least frequent. The new row keeps the old one's
// count of calls, so that a row which comes often, but late, is not driven out again and again.
static uint32_t place_row(dt_histogram_t *histogram, const int64_t *values) {
  uint32_t at = 0;
  if (histogram->n < histogram->cap) {
    at = histogram->n++;
    histogram->rows[at] = (dt_histogram_row_t){0};
  } else {
    for (uint32_t k = 1; k < histogram->n; k++) {
      if (histogram->rows[k].calls + histogram->rows[k].misses <
          histogram->rows[at].calls + histogram->rows[at].misses)
        at = k;
    }
    histogram->rows[at].misses = 0;
  }
  memcpy(&histogram->values[at * histogram->width], values, histogram->width * sizeof(*values));
  return at;
}

// A profile that is loaded where it was saved doubles its counts, so they end somewhere: at what
// text reads back.
static void add_count(uint64_t *count, uint64_t more) {
  uint64_t most = INT64_MAX;
  *count = more > most || *count > most - more ? most : *count + more;
}

void dt__histogram_add(dt_histogram_t *histogram, const int64_t *values, uint64_t calls,
                       uint64_t misses) {
  uint32_t at = find_row(histogram, values);
  if (at == histogram->n)
    at = place_row(histogram, values);
  add_count(&histogram->rows[at].calls, calls);
  add_count(&histogram->rows[at].misses, misses);
}

static void gather(const dt_function_t *function, dt_tensor_t *const *inputs, int64_t *values) {
  const dt_policy_t *policy = &function->policy;
  for (uint32_t k = 0; k < policy->histogram.width; k++) {
    const dt_source_t *source = &policy->sources[k];
    const dt_tensor_t *tensor = inputs[source->input];
    bool scalar = !dt__is_tensor_kind(function->inputs[source->input].kind);
    values[k] = scalar ? dt__int_argument(tensor) : tensor->sizes[source->dim];
  }
}

void dt__histogram_miss(dt_function_t *function, dt_tensor_t *const *inputs) {
  int64_t values[MOST_WIDTH] = {0};
  gather(function, inputs, values);
  dt__histogram_lock(&function->policy.histogram);
  dt__histogram_add(&function->policy.histogram, values, 0, 1);
  dt__histogram_unlock(&function->policy.histogram);
}

void dt__histogram_sample(dt_function_t *function, dt_tensor_t *const *inputs) {
  int64_t values[MOST_WIDTH] = {0};
  if (!try_lock(&function->policy.histogram))
    return;
  gather(function, inputs, values);
  dt__histogram_add(&function->policy.histogram, values, 1, 0);
  dt__histogram_unlock(&function->policy.histogram);
  uint64_t n = 1 + atomic_fetch_add_explicit(&function->sampled_calls, 1, memory_order_relaxed);
  if (function->hot.percent)
    dt__hot_sampled(function, n);
}
