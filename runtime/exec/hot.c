// SPDX-License-Identifier: Apache-2.0
// See hot.h. A variant for hot sizes is the trace of the one that answers them, replayed with
// narrower declarations: the user's program does not run again. It is timed by calls of the
// library's own, with arguments of those sizes, behind the calls of others.
#include "runtime/exec/hot.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/compile/tuned.h"
#include "runtime/exec/call.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/hot_sizes.h"
#include "runtime/exec/perf.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/tune.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/replay.h"

#include <string.h>

#define LEAST_SAMPLED 64u // calls, before anything is hot: some 16,000
#define EACH 16u          // sampled calls after which the histogram is looked at again
#define TRIAL_NS 200000000

typedef struct hot_run_t {
  dt_function_t *function;
  dt_session_t *session;
  dt_arena_t arena;
  const dt_hot_offer_t *offer;
  dt_tensor_t **arguments[DT_MOST_HOT_CALLS];
  dt_tune_call_t calls[DT_MOST_HOT_CALLS];
  dt_variant_t *base; // that answers them until now
} hot_run_t;

// ---- One offer ------------------------------------------------------------------------------------
static dt_status_t make_arguments(hot_run_t *run) {
  uint32_t n = run->function->n_inputs;
  for (uint32_t k = 0; k < run->offer->n_calls; k++) {
    run->arguments[k] = dt__calloc((size_t)n + 1, sizeof(dt_tensor_t *));
    if (!run->arguments[k])
      return DT_NO_MEMORY();
    DT_TRY(dt__hot_arguments(run->function, &run->offer->calls[k], run->arguments[k]));
    run->calls[k] =
        (dt_tune_call_t){.inputs = run->arguments[k], .weight = (double)run->offer->calls[k].calls};
  }
  return NULL;
}

static void drop_arguments(hot_run_t *run) {
  for (uint32_t k = 0; k < DT_MOST_HOT_CALLS; k++) {
    for (uint32_t i = 0; run->arguments[k] && i < run->function->n_inputs; i++)
      dt_tensor_release(run->arguments[k][i]);
    dt__free(run->arguments[k]);
    run->arguments[k] = NULL;
  }
}

// The one variant that answers all of them.
static dt_status_t find_base(hot_run_t *run) {
  for (uint32_t k = 0; k < run->offer->n_calls; k++) {
    dt_variant_t *found = NULL;
    DT_TRY(dt__call_find(run->session, run->function, run->calls[k].inputs, run->function->n_given,
                         &found));
    if (!found || !found->compiled || (run->base && run->base != found))
      return DT_FAIL(DT_E_UNSUPPORTED, "several variants answer these sizes");
    run->base = found;
  }
  const dt_graph_t *graph = run->base->traced->graph;
  if (run->base->traced->captures.len || graph->updates.len)
    return DT_FAIL(DT_E_UNSUPPORTED, "its trace has captures or updates arguments");
  return NULL;
}

// Passes of users at the trace's point have been; later ones are to come.
static dt_status_t trace(hot_run_t *run, dt_traced_t **out) {
  dt_function_t *function = run->function;
  dt_replay_t *replay = NULL;
  dt_input_decl_t *inputs = dt__hot_declare(function, &run->arena, run->offer);
  if (!inputs)
    return DT_NO_MEMORY();
  dt__traced_retain(run->base->traced);
  DT_TRY(dt__replay_create_traced(run->base->traced, &replay));
  const dt_trace_request_t request = {.program = dt__replay_program,
                                      .closure = replay,
                                      .n_inputs = function->n_inputs,
                                      .n_outputs = function->n_outputs,
                                      .inputs = inputs,
                                      .outputs = function->outputs,
                                      .place = run->base->place,
                                      .watch = &function->hot.watch};
  dt_status_t status = dt__trace_run(&request, out);
  if (!status && run->base->traced->hooks)
    (*out)->hooks = dt__hooks_retain(run->base->traced->hooks);
  dt__replay_destroy(replay);
  return status;
}

static dt_status_t compile(hot_run_t *run, dt_traced_t *traced, dt_compiled_t **out) {
  dt_function_t *function = run->function;
  const dt_compile_request_t request = {.traced = traced,
                                        .name = function->name,
                                        .variant = run->base->number,
                                        .strict_fp = run->base->strict_fp,
                                        .beside_calls = true,
                                        .chosen = true,
                                        .choices = run->base->compiled->choices,
                                        .watch = &function->hot.watch};
  return dt__compile(function->runtime->compiler, &request, out);
}

// Who stops it does so under the mutex, before or behind this.
static dt_status_t begin_watch(dt_function_t *function) {
  dt__mutex_lock(&function->mutex);
  bool stopped = atomic_load_explicit(&function->hot.stopped, memory_order_relaxed);
  if (!stopped)
    dt__watch_init(&function->hot.watch, &function->runtime->budgets);
  dt__mutex_unlock(&function->mutex);
  return stopped ? DT_FAIL(DT_E_CANCELLED, "the function goes") : NULL;
}

static dt_status_t make_variant(hot_run_t *run, dt_variant_t **out) {
  dt_function_t *function = run->function;
  dt_traced_t *traced = NULL;
  dt_compiled_t *compiled = NULL;
  DT_TRY(begin_watch(function));
  DT_TRY(trace(run, &traced));
  dt_status_t status = compile(run, traced, &compiled);
  if (status) {
    dt__traced_destroy(traced);
    return status;
  }
  dt__mutex_lock(&function->mutex);
  uint32_t number = function->next_number++;
  dt__mutex_unlock(&function->mutex);
  const dt_variant_request_t request = {
      .number = number,
      .modes = dt__variant_modes(function, run->base->place, run->base->strict_fp)};
  DT_TRY(dt__variant_adopt(function, &request, traced, compiled, out));
  dt__mutex_lock(&function->mutex);
  status = dt__variant_bind(function, *out);
  dt__mutex_unlock(&function->mutex);
  if (status) {
    dt__variant_destroy(*out);
    *out = NULL;
  }
  return status;
}

// ---- Whether it pays ------------------------------------------------------------------------------
static dt_status_t compare(hot_run_t *run, dt_trial_t *trial, dt_variant_t *fresh) {
  trial->calls = dt__calloc(run->offer->n_calls, sizeof(*trial->calls));
  if (!trial->calls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < run->offer->n_calls; k++)
    DT_TRY(dt__trial_add(trial, run->base, k, &run->calls[k]));
  trial->until_ns = dt__now_ns() + TRIAL_NS;
  trial->stopped = &run->function->hot.stopped;
  return dt__trial_compare(trial, run->base, fresh);
}

static dt_tuned_t *record(const hot_run_t *run, const dt_trial_t *trial, dt_choices_t choices) {
  dt_tuned_call_t calls[DT_MOST_HOT_CALLS];
  dt_text_t texts[DT_MOST_HOT_CALLS];
  for (uint32_t k = 0; k < trial->n_calls; k++) {
    dt__text_init(&texts[k]);
    dt__tune_sizes_put(run->function, trial->calls[k].given, &texts[k]);
    calls[k] =
        (dt_tuned_call_t){dt__text_str(&texts[k]), trial->calls[k].a_ns, trial->calls[k].b_ns};
  }
  dt_tuned_t *tuned = dt__tuned_create(choices, calls, trial->n_calls);
  if (tuned)
    tuned->sizes = true;
  for (uint32_t k = 0; k < trial->n_calls; k++)
    dt__text_fini(&texts[k]);
  return tuned;
}

// It answers its sizes from now on.
static bool publish(hot_run_t *run, const dt_trial_t *trial, dt_variant_t *fresh) {
  dt_function_t *function = run->function;
  fresh->compiled->tuned = record(run, trial, fresh->compiled->choices);
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_bindings_t *old = atomic_load_explicit(&fresh->bindings, memory_order_relaxed);
  dt_status_t status = dt__variant_bind(function, fresh); // constants may be others by now
  bool done = !status && !function->frozen && 2 * list->n < function->variant_limit &&
              dt__variant_insert(function, run->base, fresh);
  dt__mutex_unlock(&function->mutex);
  if (!status)
    dt__bindings_destroy(old);
  dt_status_free(status);
  return done;
}

static void tell(const hot_run_t *run, const dt_trial_t *trial, bool published,
                 dt_status_t status) {
  DT_LOG(DT_LOG_COMPILE, 1, "%s: a variant for hot sizes %s: %.3f of the time before%s%s%s",
         run->function->name, published ? "is used" : "is not used", trial->ratio,
         trial->same_bits || status ? "" : ", but other bits", status ? ": " : "",
         status ? dt_status_message(status) : "");
}

static void try_offer(hot_run_t *run) {
  dt_function_t *function = run->function;
  dt_variant_t *fresh = NULL;
  dt_trial_t trial = {.session = run->session, .function = function};
  run->base = NULL;
  dt_status_t status = make_arguments(run);
  if (!status)
    status = find_base(run);
  if (!status)
    status = make_variant(run, &fresh);
  if (!status)
    status = compare(run, &trial, fresh);
  bool published = !status && trial.better && trial.same_bits && publish(run, &trial, fresh);
  tell(run, &trial, published, status);
  dt_status_free(status);
  if (published)
    function->hot.made++;
  else
    dt__variant_destroy(fresh); // nobody has found it
  dt__trial_end(&trial);
  drop_arguments(run);
}

// ---- The job --------------------------------------------------------------------------------------
// Of variants with integers that are lists nothing is known here.
static bool begin(dt_function_t *function) {
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  bool good = !function->tuning && !function->frozen && !function->spread && list->n &&
              2 * list->n < function->variant_limit && !atomic_load(&function->hot.stopped);
  function->tuning = function->tuning || good;
  function->pins += good;
  dt__mutex_unlock(&function->mutex);
  return good;
}

static bool is_new(dt_hot_t *hot, uint64_t hash) {
  for (uint32_t k = 0; k < hot->n_offered; k++)
    if (hot->offered[k] == hash)
      return false;
  if (hot->n_offered == DT_MOST_HOT)
    return false;
  hot->offered[hot->n_offered++] = hash;
  return true;
}

static void look(hot_run_t *run) {
  dt_function_t *function = run->function;
  dt_hot_offer_t offers[2];
  uint32_t n = 0;
  if (!dt__hot_offers(function, &run->arena, function->hot.percent, offers, &n))
    return;
  for (uint32_t k = 0; k < n && !atomic_load(&function->hot.stopped); k++)
    if (is_new(&function->hot, offers[k].hash)) {
      run->offer = &offers[k];
      try_offer(run);
    }
}

static dt_status_t run_job(void *opaque) {
  dt_function_t *function = opaque;
  hot_run_t run = {.function = function};
  const dt_session_options_t options = {.struct_size = sizeof(options),
                                        .priority = DT_PRIORITY_LATER};
  bool begun = begin(function);
  dt__arena_init(&run.arena, 0);
  dt_status_t status = begun ? dt_session_create(function->runtime, &options, &run.session) : NULL;
  if (begun && !status)
    look(&run);
  dt_session_destroy(run.session);
  dt_status_free(status);
  dt__arena_fini(&run.arena);
  dt__mutex_lock(&function->mutex);
  if (begun) {
    function->tuning = false;
    function->pins--;
  }
  atomic_store_explicit(&function->hot.posted, false, memory_order_release);
  (void)pthread_cond_broadcast(&function->idle);
  dt_runtime_t *runtime = function->runtime; // waits for its jobs before it goes
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&runtime->budget);
  return NULL;
}

void dt__hot_request(dt_function_t *function) {
  dt_hot_t *hot = &function->hot;
  bool was = false;
  if (!hot->percent || atomic_load_explicit(&hot->stopped, memory_order_relaxed) ||
      !atomic_compare_exchange_strong(&hot->posted, &was, true))
    return;
  hot->job = (dt_job_t){.run = run_job, .arg = function};
  dt_status_t status = dt__jobs_post(dt__compiler_jobs(function->runtime->compiler), &hot->job, 0);
  if (status)
    atomic_store_explicit(&hot->posted, false, memory_order_release);
  dt_status_free(status);
}

void dt__hot_sampled(dt_function_t *function, uint64_t n_sampled) {
  if (n_sampled >= LEAST_SAMPLED && n_sampled % EACH == 0)
    dt__hot_request(function);
}

void dt__hot_stop(dt_function_t *function) {
  dt_hot_t *hot = &function->hot;
  if (dt__forked() || !hot->percent)
    return; // nobody compiles here
  dt__mutex_lock(&function->mutex);
  atomic_store_explicit(&hot->stopped, true, memory_order_release);
  dt__watch_stop(&hot->watch, DT_E_CANCELLED);
  if (atomic_load(&hot->posted) &&
      dt__jobs_cancel(dt__compiler_jobs(function->runtime->compiler), &hot->job))
    atomic_store(&hot->posted, false);
  while (atomic_load(&hot->posted))
    dt__cond_wait(&function->idle, &function->mutex);
  dt__mutex_unlock(&function->mutex);
}
