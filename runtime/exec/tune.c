// SPDX-License-Identifier: Apache-2.0
// dt_function_tune. Each variant that the calls have is tuned by itself: choices are tried in the
// table's order, each upon the best so far, so that some of them may come together. What differs in
// no loop is not compiled. The code in use stays until the last comparison has confirmed another
// one, which then takes its place in the list; nobody waits for anything.
#include "runtime/exec/tune.h"

#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/watch.h"
#include "runtime/compile/codegen.h"
#include "runtime/compile/tuned.h"
#include "runtime/exec/apart.h"
#include "runtime/exec/better.h"
#include "runtime/exec/call.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/perf.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"

#include <string.h>

#define USUAL_BUDGET_NS 10000000000
#define LEAST_SLICE_NS 20000000 // of a comparison

// One tuning.
typedef struct tune_t {
  dt_session_t *session;
  dt_function_t *function;
  const dt_tune_options_t *options;
  dt_control_t *control;
  dt_journal_t *journal;
  dt_tune_call_t *calls;   // the options'
  dt_variant_t **variants; // that answer them; retained
  int64_t began_ns, end_ns;
  uint32_t done, all; // choices
} tune_t;

// One variant of it.
typedef struct subject_t {
  tune_t *tune;
  dt_variant_t *variant, *best; // as it is; and the best so far, which may be the same
  dt_trial_t trial;
  uint64_t seen[DT_CHOICES + 1]; // loops that were tried, or need not be
  uint32_t n_seen;
  uint32_t left; // choices to try yet
} subject_t;

// ---- Code -----------------------------------------------------------------------------------------
static dt_compile_request_t request_of(const subject_t *subject, dt_choices_t choices,
                                       dt_watch_t *watch) {
  const dt_variant_t *variant = subject->variant;
  return (dt_compile_request_t){.traced = variant->traced,
                                .name = subject->tune->function->name,
                                .variant = variant->number,
                                .strict_fp = variant->strict_fp,
                                .codegen = variant->home->codegen,
                                .device = variant->home->device,
                                .beside_calls = true,
                                .chosen = true,
                                .choices = choices,
                                .watch = watch};
}

// The same variant in other code, bound and in no list.
static dt_status_t make_variant(const subject_t *subject, dt_compiled_t *compiled,
                                dt_variant_t **out) {
  dt_function_t *function = subject->tune->function;
  const dt_variant_t *variant = subject->variant;
  const dt_variant_request_t request = {
      .number = variant->number,
      .generic = variant->generic,
      .modes = dt__variant_modes(function, variant->place, variant->strict_fp)};
  dt__traced_retain(variant->traced);
  DT_TRY(dt__variant_adopt(function, &request, variant->traced, compiled, out));
  dt__mutex_lock(&function->mutex);
  dt_status_t status = dt__variant_bind(function, *out);
  dt__mutex_unlock(&function->mutex);
  if (status) {
    dt__variant_destroy(*out);
    *out = NULL;
  }
  return status;
}

static dt_status_t compile(const subject_t *subject, dt_choices_t choices, dt_variant_t **out) {
  dt_function_t *function = subject->tune->function;
  dt_watch_t watch;
  dt_compiled_t *compiled = NULL;
  *out = NULL;
  dt__watch_init(&watch, &function->runtime->budgets);
  watch.control = subject->tune->control;
  dt_compile_request_t request = request_of(subject, choices, &watch);
  DT_TRY(dt__compile(function->runtime->compiler, &request, &compiled));
  return make_variant(subject, compiled, out);
}

static dt_status_t loops_of(const subject_t *subject, dt_choices_t choices, uint64_t *out) {
  dt_function_t *function = subject->tune->function;
  dt_watch_t watch;
  dt__watch_init(&watch, &function->runtime->budgets);
  watch.control = subject->tune->control;
  dt_compile_request_t request = request_of(subject, choices, &watch);
  return dt__compile_loops(function->runtime->compiler, &request, out);
}

static bool is_new(subject_t *subject, uint64_t loops) {
  for (uint32_t k = 0; k < subject->n_seen; k++)
    if (subject->seen[k] == loops)
      return false;
  subject->seen[subject->n_seen++] = loops;
  return true;
}

// ---- Trying ---------------------------------------------------------------------------------------
static dt_status_t ended(const tune_t *tune) { return dt__control_check(tune->control); }

static bool is_late(const tune_t *tune) { return dt__now_ns() >= tune->end_ns; }

static dt_status_t compare(subject_t *subject, dt_variant_t *fresh) {
  dt_trial_t *trial = &subject->trial;
  int64_t now = dt__now_ns(), left = subject->tune->end_ns - now;
  int64_t slice = left / (subject->left + 2); // the last comparison has one, too
  trial->until_ns = now + (slice < LEAST_SLICE_NS ? LEAST_SLICE_NS : slice);
  return dt__trial_compare(trial, subject->best, fresh);
}

static dt_tune_outcome_t outcome_of(const subject_t *subject, bool bits) {
  const dt_trial_t *trial = &subject->trial;
  if (bits && !trial->same_bits)
    return DT_TUNE_OTHER_BITS;
  return trial->undecided ? DT_TUNE_NO_TIME : trial->better ? DT_TUNE_TAKEN : DT_TUNE_SLOWER;
}

static void drop(subject_t *subject, dt_variant_t *variant) {
  if (variant && variant != subject->variant)
    dt__variant_destroy(variant); // nobody else has found it
}

// Compiled and measured. `bits`: both promise those of the usual way.
static dt_status_t measure(subject_t *subject, dt_choices_t choices, bool bits,
                           dt_journal_item_t *item) {
  dt_variant_t *fresh = NULL;
  DT_TRY(compile(subject, choices, &fresh));
  dt_status_t status = compare(subject, fresh);
  if (status) {
    drop(subject, fresh);
    return status;
  }
  item->ratio = subject->trial.ratio;
  item->outcome = outcome_of(subject, bits);
  if (item->outcome == DT_TUNE_TAKEN) {
    drop(subject, subject->best);
    subject->best = fresh;
  } else {
    drop(subject, fresh);
  }
  return NULL;
}

static dt_status_t attempt(subject_t *subject, dt_choices_t choices, dt_journal_item_t *item) {
  uint64_t loops = 0;
  dt_choices_t had = subject->variant->compiled->choices;
  bool keeps = dt__choices_keep_bits(choices);
  item->keeps_bits = dt__choice(item->choice)->keeps_bits;
  item->outcome = DT_TUNE_OTHER_BITS;
  if (!keeps && !subject->tune->options->allow_other_bits)
    return NULL;
  item->outcome = DT_TUNE_NO_TIME;
  if (is_late(subject->tune))
    return NULL;
  DT_TRY(loops_of(subject, choices, &loops));
  item->outcome = DT_TUNE_SAME;
  if (!is_new(subject, loops))
    return NULL;
  return measure(subject, choices, keeps && dt__choices_keep_bits(had), item);
}

static void tell_progress(const subject_t *subject, const char *choice) {
  const tune_t *tune = subject->tune;
  if (!tune->options->progress)
    return;
  const dt_tune_progress_t progress = {.choice = choice,
                                       .variant = subject->variant->number,
                                       .done = tune->done,
                                       .all = tune->all,
                                       .ns = (uint64_t)(dt__now_ns() - tune->began_ns)};
  tune->options->progress(tune->options->closure, &progress);
}

// A choice that fails is passed over, unless that is the end of all.
static dt_status_t try_choice(subject_t *subject, dt_choice_t choice) {
  tune_t *tune = subject->tune;
  dt_choices_t set = dt__choices_turn(subject->best->compiled->choices, choice);
  dt_journal_item_t item = {.choice = choice, .variant = subject->variant->number};
  DT_TRY(ended(tune));
  subject->left = DT_CHOICES - 1 - (uint32_t)choice;
  tell_progress(subject, dt__choice(choice)->name);
  dt_status_t status = attempt(subject, set, &item);
  tune->done++;
  dt_status_t end = ended(tune);
  if (end || dt_status_code(status) == DT_E_NO_MEMORY) {
    if (end)
      dt_status_free(status);
    return end ? end : status;
  }
  if (status) {
    item.outcome = DT_TUNE_FAILED;
    item.why = status;
  }
  DT_LOG(DT_LOG_COMPILE, 1, "%s.%u, %s: %s, %.3f of the time before%s%s", tune->function->name,
         item.variant, dt__choice(choice)->name, dt_tune_outcome_name(item.outcome), item.ratio,
         status ? ": " : "", status ? dt_status_message(status) : "");
  end = dt__journal_note(tune->journal, &item);
  dt_status_free(status);
  return end;
}

// ---- Taking ---------------------------------------------------------------------------------------
// The best once more beside the code in use: what the report and the next process are told.
static dt_status_t confirm(subject_t *subject) {
  dt_variant_t *best = subject->best;
  subject->left = 0;
  tell_progress(subject, "");
  subject->best = subject->variant;
  subject->trial.whole = true;
  dt_status_t status = compare(subject, best);
  if (!status && subject->trial.better) {
    subject->best = best;
    return NULL;
  }
  drop(subject, best);
  return status;
}

static dt_status_t record(subject_t *subject, dt_tuned_t **out) {
  const dt_trial_t *trial = &subject->trial;
  const dt_function_t *function = subject->tune->function;
  dt_text_t *sizes = dt__calloc(trial->n_calls, sizeof(*sizes));
  dt_tuned_call_t *calls = dt__calloc(trial->n_calls, sizeof(*calls));
  bool good = sizes && calls;
  for (uint32_t k = 0; good && k < trial->n_calls; k++) {
    dt__text_init(&sizes[k]);
    dt__tune_sizes_put(function, trial->calls[k].given, &sizes[k]);
    calls[k] = (dt_tuned_call_t){.sizes = dt__text_str(&sizes[k]),
                                 .before_ns = trial->calls[k].a_ns,
                                 .ns = trial->calls[k].b_ns};
    good = !sizes[k].failed;
  }
  if (good)
    *out = dt__tuned_create(subject->best->compiled->choices, calls, trial->n_calls);
  for (uint32_t k = 0; sizes && k < trial->n_calls; k++)
    dt__text_fini(&sizes[k]);
  dt__free(sizes);
  dt__free(calls);
  return *out ? NULL : DT_NO_MEMORY();
}

// Constants may have been updated since the code was bound; and who makes a decider looks at guards
// without the mutex.
static dt_status_t put_in_place(subject_t *subject) {
  dt_function_t *function = subject->tune->function;
  dt_variant_t *best = subject->best;
  dt__mutex_lock(&function->mutex);
  while (function->decider.running)
    dt__cond_wait(&function->idle, &function->mutex);
  dt_bindings_t *old = atomic_load_explicit(&best->bindings, memory_order_relaxed);
  dt_status_t status = dt__variant_bind(function, best);
  if (!status && !dt__variant_replace(function, subject->variant, best))
    status = DT_NO_MEMORY();
  dt__mutex_unlock(&function->mutex);
  dt__bindings_destroy(old);
  if (status)
    return status;
  subject->best = subject->variant; // it is the function's now
  DT_LOG(DT_LOG_COMPILE, 1, "%s.%u: tuned code takes its place", function->name, best->number);
  return NULL;
}

// What is known of the code in use, for reports and packages.
static void set_tuned(const subject_t *subject, dt_tuned_t *tuned) {
  dt_function_t *function = subject->tune->function;
  dt_compiled_t *compiled = subject->best->compiled;
  dt__mutex_lock(&function->mutex);
  dt_tuned_t *old = compiled->tuned;
  compiled->tuned = tuned;
  dt__mutex_unlock(&function->mutex);
  dt__tuned_destroy(old);
}

// Other code was compared with it last, or none: the report has one time then.
static void keep_times(dt_trial_t *trial) {
  for (uint32_t k = 0; k < trial->n_calls; k++)
    trial->calls[k].b_ns = trial->calls[k].a_ns;
}

static dt_status_t take(subject_t *subject) {
  tune_t *tune = subject->tune;
  bool stays = subject->best == subject->variant;
  dt_choices_t choices = subject->best->compiled->choices;
  dt_tuned_t *tuned = NULL;
  if (stays)
    keep_times(&subject->trial);
  DT_TRY(record(subject, &tuned));
  dt_compile_request_t request = request_of(subject, 0, NULL);
  bool kept = !tune->options->forget &&
              dt__compile_keep_tuned(tune->function->runtime->compiler, &request, tuned);
  set_tuned(subject, tuned);
  if (!stays)
    DT_TRY(put_in_place(subject));
  return dt__journal_variant(tune->journal, subject->variant->number, choices, kept,
                             &subject->trial);
}

static dt_status_t tune_variant(subject_t *subject) {
  uint64_t loops = 0;
  dt_choices_t had = subject->variant->compiled->choices;
  DT_TRY(loops_of(subject, had, &loops));
  (void)is_new(subject, loops);
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    DT_TRY(try_choice(subject, (dt_choice_t)k));
  if (subject->best != subject->variant)
    DT_TRY(confirm(subject));
  else if (subject->trial.n_calls && !subject->trial.calls[0].a_ns)
    DT_TRY(compare(subject, subject->variant)); // nothing else was: its times at least
  return take(subject);
}

// ---- Variants -------------------------------------------------------------------------------------
static dt_status_t make_subject(tune_t *tune, dt_variant_t *variant, subject_t *out) {
  uint32_t n = tune->options->n_calls;
  *out = (subject_t){.tune = tune, .variant = variant, .best = variant};
  out->trial =
      (dt_trial_t){.session = tune->session, .function = tune->function, .control = tune->control};
  out->trial.calls = dt__calloc(n, sizeof(*out->trial.calls));
  if (!out->trial.calls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    if (tune->variants[k] == variant)
      DT_TRY(dt__trial_add(&out->trial, variant, k, &tune->calls[k]));
  return NULL;
}

static dt_status_t tune_one(tune_t *tune, dt_variant_t *variant) {
  subject_t *subject = dt__calloc(1, sizeof(*subject));
  if (!subject)
    return DT_NO_MEMORY();
  dt_status_t status = make_subject(tune, variant, subject);
  if (!status)
    status = tune_variant(subject);
  drop(subject, subject->best);
  dt__trial_end(&subject->trial);
  dt__free(subject);
  return status;
}

// The first call that a variant answers stands for it.
static bool is_first(const tune_t *tune, uint32_t index) {
  for (uint32_t k = 0; k < index; k++)
    if (tune->variants[k] == tune->variants[index])
      return false;
  return true;
}

static dt_status_t find_variants(tune_t *tune) {
  for (uint32_t k = 0; k < tune->options->n_calls; k++) {
    dt_variant_t **found = &tune->variants[k];
    DT_TRY(dt__call_find(tune->session, tune->function, tune->calls[k].inputs,
                         tune->function->n_given, found));
    if (!*found || !(*found)->compiled) {
      *found = NULL;
      return DT_FAIL(DT_E_STATE, "call %u: no compiled variant answers it", k);
    }
    dt__variant_retain(*found);
    tune->all += is_first(tune, k) ? DT_CHOICES : 0;
  }
  return NULL;
}

// Compiles what calls would, in its best form.
static dt_status_t cover(tune_t *tune) {
  dt_function_t *function = tune->function;
  dt_output_shape_t *shapes = dt__calloc((size_t)function->n_outputs + 1, sizeof(*shapes));
  if (!shapes)
    return DT_NO_MEMORY();
  dt_status_t status = NULL;
  for (uint32_t k = 0; !status && k < tune->options->n_calls; k++) {
    status =
        dt__call_measure(tune->session, function, tune->calls[k].inputs, function->n_given, shapes);
    if (status)
      status = dt__status_annotate(status, "call %u", k);
  }
  dt__free(shapes);
  if (status)
    return status;
  dt__mutex_lock(&function->mutex);
  status = dt__better_wait(function, tune->control);
  dt__mutex_unlock(&function->mutex);
  return status;
}

static dt_status_t tune_all(tune_t *tune) {
  uint32_t n = tune->options->n_calls;
  DT_TRY(cover(tune));
  tune->variants = dt__calloc(n, sizeof(dt_variant_t *));
  if (!tune->variants)
    return DT_NO_MEMORY();
  dt_status_t status = find_variants(tune);
  for (uint32_t k = 0; !status && k < n; k++)
    if (is_first(tune, k))
      status = tune_one(tune, tune->variants[k]);
  for (uint32_t k = 0; k < n; k++)
    if (tune->variants[k])
      dt__variant_release(tune->variants[k]);
  dt__free(tune->variants);
  return status;
}

// ---- One at a time --------------------------------------------------------------------------------
static dt_status_t begin(tune_t *tune) {
  dt_function_t *function = tune->function;
  dt__mutex_lock(&function->mutex);
  dt_status_t status = NULL;
  while (function->tuning && !status)
    status = dt__build_wait(function, tune->control);
  if (!status) {
    function->tuning = true;
    function->pins++; // variants stay
  }
  dt__mutex_unlock(&function->mutex);
  return status;
}

static void end(tune_t *tune) {
  dt_function_t *function = tune->function;
  dt__mutex_lock(&function->mutex);
  function->tuning = false;
  function->pins--;
  (void)pthread_cond_broadcast(&function->idle);
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&function->runtime->budget);
  dt__runtime_collect(function->runtime);
}

// ---- Arguments ------------------------------------------------------------------------------------
static dt_status_t take_calls(tune_t *tune) {
  const dt_tune_options_t *options = tune->options;
  const dt_function_t *function = tune->function;
  if (!options->n_calls || !options->calls || options->n_calls > DT_TUNE_MOST_CALLS)
    return DT_FAIL(DT_E_ARGUMENT, "calls: %u; expected 1 to %d calls to measure by",
                   options->calls ? options->n_calls : 0, DT_TUNE_MOST_CALLS);
  tune->calls = dt__calloc(options->n_calls, sizeof(*tune->calls));
  if (!tune->calls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < options->n_calls; k++) {
    dt_tune_call_t *own = &tune->calls[k];
    DT_TRY(DT_ELEMENT_TAKE(dt_tune_call_t, own, options->calls, options->call_size, k));
    if (!own->inputs && function->n_given)
      return DT_FAIL(DT_E_ARGUMENT, "calls[%u].inputs: NULL", k);
    if (!(own->weight >= 0 && own->weight < 1e300))
      return DT_FAIL(DT_E_ARGUMENT, "calls[%u].weight: %g; expected 0 or more", k, own->weight);
  }
  return NULL;
}

static dt_status_t check(const tune_t *tune) {
  const dt_session_t *session = tune->session;
  const dt_function_t *function = tune->function;
  if (function->runtime != session->runtime)
    return DT_FAIL(DT_E_ARGUMENT, "session and function belong to different runtimes");
  if (session->home->kind->queues)
    return DT_FAIL(DT_E_UNSUPPORTED, "code for devices is not tuned: pass a session on the CPU");
  if (function->answer != DT_ANSWER_COMPILED)
    return DT_FAIL(DT_E_UNSUPPORTED, "the reference evaluator answers: there is no code");
  if (!dt__compiler_has_codegen(function->runtime->compiler))
    return DT_FAIL(DT_E_UNSUPPORTED, "there is no code generator to compile other code by");
  return dt__turn_outside(function->runtime->turn, "tuning");
}

static dt_status_t run(tune_t *tune) {
  uint64_t budget = tune->options->budget_ns ? tune->options->budget_ns : USUAL_BUDGET_NS;
  DT_TRY(check(tune));
  DT_TRY(take_calls(tune));
  DT_TRY(ended(tune));
  DT_TRY(dt__journal_create(tune->function->name, &tune->journal));
  tune->began_ns = dt__now_ns();
  tune->end_ns = budget < (uint64_t)(INT64_MAX - tune->began_ns) ? tune->began_ns + (int64_t)budget
                                                                 : INT64_MAX;
  DT_TRY(begin(tune));
  dt_status_t status = tune_all(tune);
  end(tune);
  return status;
}

static dt_status_t function_tune(dt_session_t *session, dt_function_t *function,
                                 const dt_tune_options_t *options, dt_tune_report_t **out) {
  dt_tune_options_t own;
  dt_control_t control;
  DT_TRY(DT_OPTIONS_TAKE(dt_tune_options_t, &own, options));
  tune_t tune = {.session = session, .function = function, .options = &own};
  if (dt__control_is_wanted(own.deadline_ns, own.cancel)) {
    dt__control_init(&control, own.deadline_ns, own.cancel);
    tune.control = &control;
  }
  dt_status_t status = run(&tune);
  dt__free(tune.calls);
  if (status || !out)
    dt__journal_free(tune.journal);
  else
    *out = dt__journal_report(tune.journal, (uint64_t)(dt__now_ns() - tune.began_ns));
  return status;
}

dt_status_t dt_function_tune(dt_session_t *session, dt_function_t *function,
                             const dt_tune_options_t *options, dt_tune_report_t **out) {
  if (out)
    *out = NULL;
  if (!session || !function)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_tune: %s: NULL", session ? "function" : "session");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_tune in a child after fork");
  return dt__status_annotate(function_tune(session, function, options, out), "function %s: tune",
                             function->name);
}
