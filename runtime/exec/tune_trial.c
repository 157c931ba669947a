// SPDX-License-Identifier: Apache-2.0
// Trials: two codes of one variant answer the same calls by turns. What is short is timed many
// calls at once, so that a clock and a wake-up weigh little. Other work on the machine makes calls
// longer, never shorter, so that a lower quartile stands for the times; and it meets both codes
// alike, so that a difference counts if it was there in more turns than chance would have it (a
// sign test).
#include "runtime/exec/tune.h"

#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_NS 200000 // what is timed at once takes this, at least
#define MOST_BATCH 2000
#define FEWEST_ROUNDS 8
#define MANY_ROUNDS 24 // then what is clear is not asked again
#define MOST_ROUNDS 120
#define ENOUGH 0.97 // of the time before
#define MOST_SLOWER 1.05
#define HOPELESS 1.10  // after the fewest rounds
#define DEVIATIONS 2.4 // of a sum of fair coins: 1 in 120

// ---- Arguments ------------------------------------------------------------------------------------
static bool is_written(const dt_function_t *function, const dt_variant_t *variant,
                       uint32_t argument) {
  const dt_graph_t *graph = variant->traced->graph;
  if (function->given[argument].kind == DT_INPUT_DONATED)
    return true;
  for (uint32_t k = 0; k < graph->updates.len; k++)
    if (dt__input_position(function, graph->updates.items[k].input) == argument)
      return true;
  return false;
}

// Room for what lies between the first element and the last, with the same gaps.
static dt_status_t make_copy(const dt_tensor_t *tensor, dt_tensor_t **out) {
  dt_bytes_t reach = dt__tensor_reach(tensor);
  size_t bytes = reach.end - reach.begin;
  void *data = dt__alloc(bytes + 1);
  if (!data)
    return DT_NO_MEMORY();
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = tensor->dtype,
                                 .rank = tensor->rank,
                                 .sizes = tensor->sizes,
                                 .strides = tensor->contiguous ? NULL : tensor->strides,
                                 .data = (char *)data +
                                         (bytes ? (uintptr_t)tensor->data - reach.begin : 0),
                                 .release = dt__free,
                                 .user = data};
  dt_status_t status = dt_tensor_create(&desc, out);
  if (status)
    dt__free(data);
  return status;
}

static void fill_copy(const dt_tensor_t *from, const dt_tensor_t *to) {
  dt_bytes_t source = dt__tensor_reach(from), target = dt__tensor_reach(to);
  if (source.end > source.begin)
    memcpy((void *)target.begin, (const void *)source.begin, source.end - source.begin);
}

static void fill_copies(const dt_trial_t *trial, const dt_trial_call_t *call) {
  for (uint32_t k = 0; k < trial->function->n_given; k++)
    if (call->copies[k])
      fill_copy(call->given[k], call->copies[k]);
}

static dt_status_t take_inputs(const dt_trial_t *trial, const dt_variant_t *variant,
                               dt_trial_call_t *call) {
  uint32_t n = trial->function->n_given;
  call->inputs = dt__calloc((size_t)n + 1, sizeof(dt_tensor_t *));
  call->copies = dt__calloc((size_t)n + 1, sizeof(dt_tensor_t *));
  if (!call->inputs || !call->copies)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    if (is_written(trial->function, variant, k))
      DT_TRY(make_copy(call->given[k], &call->copies[k]));
    call->inputs[k] = call->copies[k] ? call->copies[k] : call->given[k];
  }
  return NULL;
}

dt_status_t dt__trial_add(dt_trial_t *trial, const dt_variant_t *variant, uint32_t index,
                          const dt_tune_call_t *call) {
  dt_trial_call_t *own = &trial->calls[trial->n_calls++];
  *own = (dt_trial_call_t){
      .index = index, .weight = call->weight > 0 ? call->weight : 1, .given = call->inputs};
  return take_inputs(trial, variant, own);
}

void dt__trial_end(dt_trial_t *trial) {
  for (uint32_t k = 0; k < trial->n_calls; k++) {
    dt_trial_call_t *call = &trial->calls[k];
    for (uint32_t i = 0; call->copies && i < trial->function->n_given; i++)
      dt_tensor_release(call->copies[i]);
    dt__free(call->copies);
    dt__free(call->inputs);
  }
  dt__free(trial->calls);
  trial->calls = NULL;
  trial->n_calls = 0;
}

// ---- Calls ----------------------------------------------------------------------------------------
static void release_all(dt_tensor_t **results, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_release(results[k]);
    results[k] = NULL;
  }
}

// `results` has a NULL for each of the function's.
static dt_status_t run(const dt_trial_t *trial, dt_variant_t *variant, const dt_trial_call_t *call,
                       dt_tensor_t **results) {
  return dt__call_by(trial->session, trial->function, variant, call->inputs,
                     trial->function->n_given, results);
}

static dt_status_t time_batch(const dt_trial_t *trial, dt_variant_t *variant,
                              const dt_trial_call_t *call, uint32_t repeats, dt_tensor_t **results,
                              double *out_ns) {
  DT_TRY(dt__control_check(trial->control));
  if (trial->stopped && atomic_load_explicit(trial->stopped, memory_order_relaxed))
    return DT_FAIL(DT_E_CANCELLED, "the trial was stopped");
  int64_t began = dt__now_ns();
  for (uint32_t k = 0; k < repeats; k++) {
    DT_TRY(run(trial, variant, call, results));
    release_all(results, trial->function->n_outputs);
  }
  *out_ns = (double)(dt__now_ns() - began) / repeats;
  return NULL;
}

// ---- Bits -----------------------------------------------------------------------------------------
// Where NaNs are all one.
static bool same_floats(dt_dtype_t dtype, const char *a, const char *b, size_t bytes) {
  size_t size = dt_dtype_size(dtype);
  for (size_t at = 0; at < bytes; at += size)
    if (memcmp(a + at, b + at, size) != 0 &&
        !(isnan(dt__scalar_load(dtype, a + at).f) && isnan(dt__scalar_load(dtype, b + at).f)))
      return false;
  return true;
}

static bool same_elements(dt_dtype_t dtype, const char *a, const char *b, size_t bytes) {
  if (!bytes || memcmp(a, b, bytes) == 0)
    return true;
  return dt__dtype_is_float(dtype) && same_floats(dtype, a, b, bytes);
}

static bool same_tensors(const dt_tensor_t *a, const dt_tensor_t *b) {
  if (a->dtype != b->dtype || a->rank != b->rank ||
      (a->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) != 0))
    return false;
  dt_bytes_t x = dt__tensor_reach(a), y = dt__tensor_reach(b);
  if (x.end - x.begin != y.end - y.begin)
    return false;
  return same_elements(a->dtype, (const char *)x.begin, (const char *)y.begin, x.end - x.begin);
}

// What the call has written of its arguments, in memory of its own; NULL: no memory.
static char *take_written(const dt_trial_t *trial, const dt_trial_call_t *call) {
  size_t bytes = 0, at = 0;
  for (uint32_t k = 0; k < trial->function->n_given; k++) {
    dt_bytes_t reach = call->copies[k] ? dt__tensor_reach(call->copies[k]) : (dt_bytes_t){0, 0};
    bytes += reach.end - reach.begin;
  }
  char *all = dt__alloc(bytes + 1);
  for (uint32_t k = 0; all && k < trial->function->n_given; k++) {
    dt_bytes_t reach = call->copies[k] ? dt__tensor_reach(call->copies[k]) : (dt_bytes_t){0, 0};
    if (reach.end > reach.begin)
      memcpy(all + at, (const void *)reach.begin, reach.end - reach.begin);
    at += reach.end - reach.begin;
  }
  return all;
}

// Of donated arguments nothing is promised.
static bool same_written(const dt_trial_t *trial, const dt_trial_call_t *call, const char *before) {
  size_t at = 0;
  bool same = true;
  for (uint32_t k = 0; k < trial->function->n_given; k++) {
    const dt_tensor_t *copy = call->copies[k];
    if (!copy)
      continue;
    dt_bytes_t reach = dt__tensor_reach(copy);
    if (trial->function->given[k].kind != DT_INPUT_DONATED)
      same = same && same_elements(copy->dtype, before + at, (const char *)reach.begin,
                                   reach.end - reach.begin);
    at += reach.end - reach.begin;
  }
  return same;
}

static dt_status_t compare_results(dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b,
                                   const dt_trial_call_t *call, dt_tensor_t **of_a,
                                   dt_tensor_t **of_b) {
  fill_copies(trial, call);
  DT_TRY(run(trial, a, call, of_a));
  char *written = take_written(trial, call);
  if (!written)
    return DT_NO_MEMORY();
  fill_copies(trial, call);
  dt_status_t status = run(trial, b, call, of_b);
  for (uint32_t k = 0; !status && k < trial->function->n_outputs; k++)
    trial->same_bits = trial->same_bits && same_tensors(of_a[k], of_b[k]);
  if (!status)
    trial->same_bits = trial->same_bits && same_written(trial, call, written);
  dt__free(written);
  return status;
}

// ---- Comparing ------------------------------------------------------------------------------------
// By call: how many are timed at once, and their times, by round.
typedef struct times_t {
  uint32_t repeats;
  double a[MOST_ROUNDS], b[MOST_ROUNDS];
} times_t;

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double lower_quartile(const double *times, uint32_t n) {
  double sorted[MOST_ROUNDS];
  memcpy(sorted, times, n * sizeof(*times));
  qsort(sorted, n, sizeof(*sorted), by_time);
  return sorted[(n - 1) / 4];
}

// Whether so many of `n` turns are more than chance gives.
static bool is_much(uint32_t turns, uint32_t n) { return 2.0 * turns >= n + DEVIATIONS * sqrt(n); }

static _Atomic dt_choices_t favoured; // 0: none

void dt__trial_favour(dt_choices_t choices) { favoured = choices; }

// For tests: whatever the times say.
static void judge_by_favour(dt_trial_t *trial, const dt_variant_t *a, const dt_variant_t *b) {
  dt_choices_t wanted = favoured;
  if (!wanted)
    return;
  trial->undecided = false;
  trial->better = wanted == DT_TRIAL_SECOND
                      ? true
                      : (b->compiled->choices & wanted & ~a->compiled->choices) != 0;
}

static void judge(dt_trial_t *trial, const times_t *times, uint32_t rounds) {
  double a = 0, b = 0;
  uint32_t faster = 0;
  bool slower = false;
  for (uint32_t k = 0; k < trial->n_calls; k++) {
    dt_trial_call_t *call = &trial->calls[k];
    double of_a = lower_quartile(times[k].a, rounds), of_b = lower_quartile(times[k].b, rounds);
    call->a_ns = (uint64_t)of_a;
    call->b_ns = (uint64_t)of_b;
    a += call->weight * of_a;
    b += call->weight * of_b;
    slower = slower || of_b > of_a * MOST_SLOWER;
  }
  for (uint32_t r = 0; r < rounds; r++) {
    double turn_a = 0, turn_b = 0;
    for (uint32_t k = 0; k < trial->n_calls; k++) {
      turn_a += trial->calls[k].weight * times[k].a[r];
      turn_b += trial->calls[k].weight * times[k].b[r];
    }
    faster += turn_b < turn_a;
  }
  trial->ratio = a > 0 ? b / a : 1;
  trial->better = trial->ratio <= ENOUGH && !slower && is_much(faster, rounds);
  trial->clear = trial->better || is_much(rounds - faster, rounds);
}

// Both were called once: no page of theirs is touched for the first time.
static dt_status_t calibrate(const dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b,
                             const dt_trial_call_t *call, dt_tensor_t **results, times_t *times) {
  double of_a = 0, of_b = 0;
  DT_TRY(time_batch(trial, a, call, 1, results, &of_a));
  DT_TRY(time_batch(trial, b, call, 1, results, &of_b));
  double least = of_a < of_b ? of_a : of_b, repeats = least > 0 ? BATCH_NS / least : MOST_BATCH;
  times->repeats = repeats < 1 ? 1 : repeats > MOST_BATCH ? MOST_BATCH : (uint32_t)repeats;
  return NULL;
}

static dt_status_t run_round(const dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b,
                             times_t *times, uint32_t round, dt_tensor_t **results) {
  for (uint32_t k = 0; k < trial->n_calls; k++) {
    const dt_trial_call_t *call = &trial->calls[k];
    bool turned = (round + k) % 2;
    double *first = turned ? &times[k].b[round] : &times[k].a[round];
    double *second = turned ? &times[k].a[round] : &times[k].b[round];
    DT_TRY(time_batch(trial, turned ? b : a, call, times[k].repeats, results, first));
    DT_TRY(time_batch(trial, turned ? a : b, call, times[k].repeats, results, second));
  }
  return NULL;
}

static dt_status_t run_rounds(dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b, times_t *times,
                              dt_tensor_t **results) {
  uint32_t rounds = 0;
  for (uint32_t k = 0; k < trial->n_calls; k++)
    DT_TRY(calibrate(trial, a, b, &trial->calls[k], results, &times[k]));
  uint32_t fewest = trial->whole ? FEWEST_ROUNDS : 2;
  while (rounds < MOST_ROUNDS && (rounds < fewest || dt__now_ns() < trial->until_ns)) {
    DT_TRY(run_round(trial, a, b, times, rounds++, results));
    judge(trial, times, rounds);
    if (favoured || (rounds == FEWEST_ROUNDS && trial->ratio > HOPELESS) ||
        (rounds >= MANY_ROUNDS && trial->clear))
      break;
  }
  trial->undecided = rounds < FEWEST_ROUNDS && trial->better;
  trial->better = trial->better && !trial->undecided;
  judge_by_favour(trial, a, b);
  return NULL;
}

dt_status_t dt__trial_compare(dt_trial_t *trial, dt_variant_t *a, dt_variant_t *b) {
  uint32_t n = trial->function->n_outputs;
  trial->ratio = 0;
  trial->better = trial->undecided = false;
  trial->same_bits = true;
  times_t *times = dt__calloc(trial->n_calls, sizeof(*times));
  dt_tensor_t **results = dt__calloc(2 * (size_t)n + 1, sizeof(*results));
  dt_status_t status = times && results ? NULL : DT_NO_MEMORY();
  for (uint32_t k = 0; !status && k < trial->n_calls; k++) {
    status = compare_results(trial, a, b, &trial->calls[k], results, results + n);
    release_all(results, 2 * n);
  }
  if (!status)
    status = run_rounds(trial, a, b, times, results);
  if (results)
    release_all(results, 2 * n);
  dt__free(times);
  dt__free(results);
  return status;
}
