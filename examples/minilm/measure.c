// SPDX-License-Identifier: Apache-2.0
#include "examples/minilm/measure.h"

#include "ductile/device.h"
#include "ductile/experimental.h"
#include "examples/minilm/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MIN_REPEATS = 3, MAX_REPEATS = 101 };
static const double repeat_for_ns = 0.4e9;

double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int64_t resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long long total = 0, resident = 0;
  if (file && fscanf(file, "%lld %lld", &total, &resident) != 2)
    resident = 0;
  if (file)
    fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

// One call from its beginning until its result is there.
static dt_status_t call(dt_session_t *session, dt_function_t *function, dt_call_mode_t mode,
                        const batch_t *batch, dt_tensor_t **output, double *out_ns) {
  const dt_call_options_t options = {.struct_size = sizeof options, .mode = mode};
  dt_tensor_t *const inputs[] = {batch->ids, batch->mask};
  double start = now_ns();
  dt_status_t status = dt_call(session, function, inputs, 2, output, 1, &options);
  if (!status)
    status = dt_session_wait(session);
  *out_ns = now_ns() - start;
  return status;
}

// Calls over and over, into the same output.
static dt_status_t repeat(dt_session_t *session, dt_function_t *function, dt_call_mode_t mode,
                          const batch_t *batch, dt_tensor_t **output, measurement_t *out) {
  double times[MAX_REPEATS], begin = now_ns();
  out->repeats = 0;
  while (out->repeats < MAX_REPEATS &&
         (out->repeats < MIN_REPEATS || now_ns() - begin < repeat_for_ns)) {
    dt_status_t status = call(session, function, mode, batch, output, &times[out->repeats++]);
    if (status)
      return status;
  }
  qsort(times, (size_t)out->repeats, sizeof times[0], compare);
  out->median_ns = times[out->repeats / 2];
  return NULL;
}

// The reference evaluator has no variants to find: 0 then.
static dt_status_t guard_ns(dt_session_t *session, dt_function_t *function,
                            dt_tensor_t *const *inputs, double *out) {
  *out = 0;
  dt_status_t status = dt_function_guard_ns(session, function, inputs, 2, 10000, out);
  if (dt_status_code(status) != DT_E_STATE)
    return status;
  dt_status_free(status);
  return NULL;
}

// At the sizes of `batch`, which lies where the session runs.
static dt_status_t measure_at(dt_session_t *session, dt_function_t *function, dt_call_mode_t mode,
                              const batch_t *batch, measurement_t *out) {
  dt_tensor_t *const inputs[] = {batch->ids, batch->mask};
  dt_tensor_t *output = NULL;
  dt_status_t status = call(session, function, mode, batch, &output, &out->first_ns);
  if (!status)
    status = repeat(session, function, mode, batch, &output, out);
  if (!status)
    status = guard_ns(session, function, inputs, &out->guard_ns);
  dt_tensor_release(output);
  return status;
}

dt_status_t measure(dt_session_t *session, dt_function_t *function, dt_call_mode_t mode,
                    int64_t batch, int64_t length, measurement_t *out) {
  *out = (measurement_t){.batch = batch, .length = length};
  batch_t host, there = {0};
  dt_status_t status = batch_of_size(batch, length, &host);
  if (status)
    return status;
  status = batch_place(session, &host, &there);
  if (!status)
    status = measure_at(session, function, mode, &there, out);
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (!status)
    status = dt_function_counters(function, &stats);
  out->variants = stats.variants;
  out->resident_bytes = resident_bytes();
  batch_free(&there);
  batch_free(&host);
  return status;
}
