// SPDX-License-Identifier: Apache-2.0
// The slow path: arguments that no variant covers. One thread at a time makes a variant of a
// function; others wait for it and look again. A failure makes no variant and goes only to its own
// caller: those who waited try for themselves, each with its own arguments.
#include "runtime/exec/miss.h"

#include "runtime/base/control.h"
#include "runtime/base/status.h"
#include "runtime/exec/apart.h"
#include "runtime/exec/better.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/explain.h"
#include "runtime/exec/perf.h"
#include "runtime/exec/session.h"
#include "runtime/trace/hooks.h"

#include <stdio.h>
#include <string.h>

// What a variant is wanted for.
typedef struct ask_t {
  dt_device_t place;
  dt_tensor_t *const *inputs;  // of the call; NULL: any variant will do
  const dt_refused_key_t *key; // NULL without inputs
  bool quick;                  // its kernels may be quickly made
  uint32_t layout;             // without inputs: which they may have (dt_prepare_layout_t)
  dt_control_t *control;       // NULL: it waits as long as it takes
} ask_t;

static void destroy_list(dt_retired_t *item) {
  dt__free(item);
} // variants stay: newer lists have them

// A list of `old`'s variants and one more; NULL without memory.
static dt_variant_list_t *list_append(const dt_variant_list_t *old, dt_variant_t *variant,
                                      const int64_t *const *captures, uint32_t n_captures) {
  dt_variant_list_t *list = dt__alloc(sizeof(*list) + (old->n + 1) * sizeof(list->items[0]));
  if (!list)
    return NULL;
  *list = *old;
  memcpy(list->items, old->items, old->n * sizeof(list->items[0]));
  list->items[list->n++] = variant;
  list->captures = captures;
  list->n_captures = n_captures;
  if (variant->n_symbols > list->n_symbols)
    list->n_symbols = variant->n_symbols;
  if (variant->n_output_sizes > list->n_output_sizes)
    list->n_output_sizes = variant->n_output_sizes;
  return list;
}

dt_status_t dt__variant_publish(dt_function_t *function, dt_variant_t *variant) {
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  const int64_t *const *captures = NULL;
  if (function->runtime->perf && variant->compiled)
    dt__perf_tell(function->runtime->perf, function->name, variant->number, variant->compiled);
  dt_status_t status = dt__variant_bind(function, variant);
  if (!status)
    status = dt__policy_publish(function, variant->traced, &captures);
  dt_variant_list_t *list =
      status ? NULL : list_append(old, variant, captures, function->policy.captures.len);
  if (!list) {
    dt__variant_destroy(variant);
    return status ? status : DT_NO_MEMORY();
  }
  dt__variant_hold(function, variant);
  atomic_store_explicit(&function->list, list, memory_order_release);
  old->retired.destroy = destroy_list;
  dt__reclaim_retire(function->runtime->reclaim, &old->retired);
  if (variant->compiled) {
    atomic_store_explicit(&function->kernels, variant->compiled->n_launches, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&function->code_bytes, variant->compiled->code_bytes,
                                    memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&function->device_load_ns, variant->compiled->device_load_ns,
                                    memory_order_relaxed);
  }
  dt__decider_request(function);
  dt__better_request(function);
  return NULL;
}

// ---- Refusals -------------------------------------------------------------------------------------

// What a call that gets no variant is told: `why`, and the guard of the variant that comes nearest.
static dt_status_t refuse(const dt_function_t *function, const dt_variant_list_t *list,
                          const ask_t *ask, dt_code_t code, const char *why) {
  if (!ask->inputs || !list->n)
    return DT_FAIL(code, "%s", why);
  dt_text_t text;
  dt__text_init(&text);
  dt_arena_t arena;
  dt__arena_init(&arena, 1024);
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args = dt__guard_args(function, list, ask->place, ask->inputs, captured);
  const dt_miss_info_t *miss = dt__miss_nearest(&arena, list, &args);
  if (miss)
    dt__miss_put(miss, &text);
  dt_status_t status = DT_FAIL(code, "%s; the nearest variant misses by: %s%s%s", why,
                               dt__text_str(&text), miss ? "; " : "", miss ? miss->remedy : "");
  dt__arena_fini(&arena);
  dt__text_fini(&text);
  return status;
}

static dt_status_t refuse_frozen(dt_function_t *function, const dt_variant_list_t *list,
                                 const ask_t *ask) {
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args = dt__guard_args(function, list, ask->place, ask->inputs, captured);
  (void)atomic_fetch_add_explicit(&function->frozen_misses, 1, memory_order_relaxed);
  dt__tell_miss(function, list, &args, "refused, frozen with variants", list->n);
  return refuse(function, list, ask, DT_E_STATE,
                list->n ? "the function is frozen and no variant covers these arguments"
                        : "the function is frozen and has no variant");
}

// Whether one more variant is over a limit; which, into `why`.
static bool over_limit(const dt_function_t *function, const dt_variant_list_t *list, char *why,
                       size_t bytes) {
  uint64_t compiles =
      atomic_load_explicit(&function->compiles, memory_order_relaxed) - function->excused;
  if (list->n >= function->variant_limit)
    (void)snprintf(why, bytes,
                   "%u variants are the limit (variant_limit, or DUCTILE_VARIANT_LIMIT) and none "
                   "covers these arguments",
                   function->variant_limit);
  else if (compiles >= function->compile_limit)
    (void)snprintf(why, bytes,
                   "%llu compiles are the limit of a function's life (compile_limit, or "
                   "DUCTILE_COMPILE_LIMIT) and no variant covers these arguments",
                   (unsigned long long)compiles);
  else
    return false;
  return true;
}

// ---- Making one -----------------------------------------------------------------------------------

static dt_status_t check_inputs(const dt_function_t *function, const ask_t *ask) {
  dt_trace_request_t request = {.program = function->program,
                                .closure = function->closure,
                                .n_inputs = function->n_inputs,
                                .n_outputs = function->n_outputs,
                                .inputs = function->inputs,
                                .spread = function->spread,
                                .place = ask->place,
                                .example = ask->inputs};
  return dt__trace_check_inputs(&request);
}

// A variant that was made for these arguments must take them: else calls would compile for ever.
// Captures and modes are those that it was made for; `symbols` are then what its guards bind. Where
// a guard has no value for the arguments' numbers, they are beyond what sizes can be.
static dt_status_t check_covers(const dt_variant_t *variant, const dt_variant_request_t *request,
                                int64_t *symbols) {
  const dt_traced_t *traced = variant->traced;
  int64_t captures[DT_MOST_CAPTURES];
  for (uint32_t k = 0; k < traced->captures.len; k++)
    captures[k] = traced->captures.items[k].value;
  dt_guard_args_t args = {.inputs = request->inputs, .captures = captures, .modes = request->modes};
  if (dt__guards_run(variant->guards, &args, symbols))
    return NULL;
  dt_text_t text;
  dt_guard_failure_t failure;
  dt__text_init(&text);
  (void)dt__guards_failure(variant->guards, &args, &failure);
  dt__guard_failure_put(&failure, &text);
  dt_status_t status = NULL;
  if (failure.no_value)
    status = DT_FAIL(DT_E_LIMIT, "what these sizes and numbers come to has no place in 64 bits: %s",
                     dt__text_str(&text));
  else // the generic variant is made without the sizes of the call, and may rest on assumptions
    status = dt__pipeline_explain(
        traced, DT_FAIL(request->generic ? DT_E_LIMIT : DT_E_INTERNAL,
                        "the guards of a new variant do not take the arguments that it was made "
                        "for: %s",
                        dt__text_str(&text)));
  dt__guard_failure_fini(&failure);
  dt__text_fini(&text);
  return status;
}

// Everything that arguments can be refused for: the trace, and its guards on their numbers. What
// comes after it is a compile.
static dt_status_t trace(dt_function_t *function, const dt_variant_request_t *request,
                         dt_variant_t **out) {
  DT_TRY(dt__variant_trace(function, request, out));
  if (!request->inputs)
    return NULL;
  int64_t *symbols = dt__calloc((*out)->n_symbols, sizeof(*symbols));
  dt_status_t status = symbols ? check_covers(*out, request, symbols) : DT_NO_MEMORY();
  if (request->evaluated && !status)
    (*out)->once_symbols = symbols;
  else
    dt__free(symbols);
  return status;
}

// Limits are for what a function costs, not for what it is asked: arguments that are refused use
// none of them up.
static void count_compile(dt_function_t *function, const dt_variant_request_t *request) {
  if (!request->evaluated)
    (void)atomic_fetch_add_explicit(&function->compiles, 1, memory_order_relaxed);
}

// One build: what its request points to, where it may outlive the call.
typedef struct build_t {
  dt_function_t *function;
  dt_variant_request_t request;
  dt_policy_build_t policy;
  dt_watch_t watch;
  dt_history_item_t *item; // NULL: the variant is for the call alone
  dt_variant_t *variant;
  int64_t begin_ns;
} build_t;

// What ends a compile for no reason of its own uses up no limit: nobody waits for it, or at that
// moment there is no memory.
static bool is_excused(dt_code_t code) {
  return code == DT_E_DEADLINE || code == DT_E_CANCELLED || code == DT_E_NO_MEMORY;
}

static dt_status_t compile_build(void *opaque) {
  build_t *build = opaque;
  dt_status_t status = dt__variant_compile(build->function, &build->request, build->variant);
  if (status) {
    dt__variant_destroy(build->variant);
    build->variant = NULL;
    if (is_excused(dt_status_code(status)) && !build->request.evaluated)
      (void)atomic_fetch_sub_explicit(&build->function->compiles, 1, memory_order_relaxed);
  }
  return status;
}

// The mutex held from here on; others may build.
static void end_build(build_t *build) {
  dt_function_t *function = build->function;
  (void)atomic_fetch_add_explicit(&function->compile_ns, (uint64_t)(dt__now_ns() - build->begin_ns),
                                  memory_order_relaxed);
  function->watch = NULL;
  function->building = false;
  (void)pthread_cond_broadcast(&function->idle);
}

static dt_status_t publish_build(void *opaque, dt_status_t status) {
  build_t *build = opaque;
  end_build(build);
  if (!status) {
    build->variant->generic = build->request.generic;
    if (!build->request.inputs) // nobody waits for it
      atomic_store_explicit(&build->variant->used,
                            dt__budget_now(&build->function->runtime->budget),
                            memory_order_relaxed);
    status = dt__variant_publish(build->function, build->variant);
  }
  dt__history_end(build->function, build->item, status);
  dt__free(build);
  return status;
}

// Whether the arguments are not what they were when the call looked at them first: their integers,
// which lie in the caller's memory, may be written by the program or another thread meanwhile.
static bool are_changed(const dt_function_t *function, const ask_t *ask) {
  dt_refused_key_t now;
  if (!ask->key || !ask->key->n)
    return false;
  dt__refused_key(function, ask->place, ask->inputs, &now);
  return now.n != ask->key->n ||
         memcmp(now.words, ask->key->words, now.n * sizeof(now.words[0])) != 0;
}

// Mutex held at entry and exit, but not while the program runs.
static dt_status_t trace_build(build_t *build, const ask_t *ask) {
  dt_function_t *function = build->function;
  build->begin_ns = dt__now_ns();
  build->policy = (dt_policy_build_t){
      .function = function, .generic = build->request.generic, .began = function->policy.version};
  dt__watch_init(&build->watch, &function->runtime->budgets);
  build->watch.control = ask->control;
  build->request.policy = &build->policy;
  build->request.watch = &build->watch;
  function->building = true;
  function->builder = pthread_self();
  dt__mutex_unlock(&function->mutex);
  dt__build_join(function);
  dt_status_t status = trace(function, &build->request, &build->variant);
  bool changed = dt_status_code(status) == DT_E_INTERNAL && are_changed(function, ask);
  if (changed)
    status = dt__status_recode(dt__status_annotate(status, "arguments were changed while the call "
                                                           "was at work on them"),
                               DT_E_STATE);
  bool refused =
      status && dt__refused_is(dt_status_code(status)) && !dt__watch_is_over(&build->watch);
  if (!refused && !changed && !(status && is_excused(dt_status_code(status))))
    count_compile(function, &build->request);
  build->watch.control = NULL;
  dt__mutex_lock(&function->mutex);
  if (refused && ask->key)
    dt__refused_note(function, ask->key, &build->policy, status);
  if (status) {
    dt__variant_destroy(build->variant);
    build->variant = NULL;
  }
  return status;
}

// The same for all of it, by the calling thread.
static dt_status_t build_alone(build_t *build, const ask_t *ask) {
  dt_function_t *function = build->function;
  dt_status_t status = trace_build(build, ask);
  if (!status) {
    dt__mutex_unlock(&function->mutex);
    status = compile_build(build);
    dt__mutex_lock(&function->mutex);
  }
  return status;
}

static dt_variant_request_t request_of(dt_function_t *function, const ask_t *ask) {
  return (dt_variant_request_t){
      .inputs = ask->inputs,
      .quick = ask->quick,
      .layout = ask->layout,
      .number = function->next_number++,
      .modes = atomic_load_explicit(&function->runtime->modes, memory_order_relaxed) |
               dt__modes_of_place(ask->place)};
}

// Mutex held, but not all the while. Consumes `build`.
static dt_status_t publish_apart(build_t *build, const ask_t *ask) {
  dt_function_t *function = build->function;
  const dt_apart_t apart = {compile_build, publish_build, build};
  bool started = false;
  dt_status_t status = trace_build(build, ask);
  if (status)
    return publish_build(build, status);
  function->watch = &build->watch;
  status = dt__build_apart(function, &apart, ask->control, &started);
  if (started)
    return status;
  dt__variant_destroy(build->variant);
  return publish_build(build, status);
}

// Mutex held, but not all the while.
static dt_status_t build_and_publish(dt_function_t *function, const ask_t *ask, bool generic) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args = dt__guard_args(function, list, ask->place, ask->inputs, captured);
  build_t *build = dt__calloc(1, sizeof(*build));
  if (!build)
    return DT_NO_MEMORY();
  *build = (build_t){.function = function, .request = request_of(function, ask)};
  build->request.generic = generic;
  build->item = dt__history_begin(function, list, &args, build->request.number);
  if (ask->control)
    return publish_apart(build, ask);
  return publish_build(build, build_alone(build, ask));
}

// ---- At a limit -----------------------------------------------------------------------------------

static bool generic_tried(const dt_function_t *function, dt_device_t place) {
  for (uint32_t k = 0; k < function->n_generic_tried; k++)
    if (function->generic_tried[k] == place)
      return true;
  return false;
}

static bool note_generic(dt_function_t *function, dt_device_t place) {
  uint32_t n = function->n_generic_tried;
  dt_device_t *tried = dt__realloc(function->generic_tried, (n + 1) * sizeof(*tried));
  if (!tried)
    return false;
  tried[n] = place;
  function->generic_tried = tried;
  function->n_generic_tried = n + 1;
  return true;
}

// One variant for all sizes, tried once in the function's life for each place (but for lack of
// memory).
static dt_status_t make_generic(dt_function_t *function, const ask_t *ask, const char *why) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  if (!generic_tried(function, ask->place)) {
    if (!note_generic(function, ask->place))
      return DT_NO_MEMORY();
    dt_status_t status = build_and_publish(function, ask, true);
    if (!status)
      return NULL;
    dt_code_t code = dt_status_code(status);
    if (code == DT_E_NO_MEMORY || is_excused(code)) {
      function->n_generic_tried--;
      return status;
    }
    function->generic_failure = dt__arena_strdup(&function->arena, dt_status_message(status));
    dt_status_free(status);
    list = atomic_load_explicit(&function->list, memory_order_relaxed);
  }
  dt_status_t status = refuse(function, list, ask, DT_E_LIMIT, why);
  if (!function->generic_failure)
    return status;
  return dt__status_annotate(status, "no generic variant (%s)", function->generic_failure);
}

static dt_status_t make_once(dt_function_t *function, const ask_t *ask, const char *why,
                             dt_variant_t **out) {
  if (ask->place != DT_CPU)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "%s, and the evaluator (limit_action) answers on the CPU only: call with host "
                   "tensors in a session on the CPU, or raise the limit",
                   why);
  build_t build = {.function = function, .request = request_of(function, ask)};
  build.request.evaluated = true;
  dt_status_t status = build_alone(&build, ask);
  end_build(&build);
  DT_TRY(status);
  *out = build.variant;
  status = dt__variant_bind(function, *out);
  if (status) {
    dt__variant_destroy(*out);
    *out = NULL;
  }
  return status;
}

static dt_status_t act_at_limit(dt_function_t *function, const ask_t *ask, const char *why,
                                dt_variant_t **out_once) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args = dt__guard_args(function, list, ask->place, ask->inputs, captured);
  dt_limit_action_t action = function->limit_action;
  bool generic = action == DT_LIMIT_GENERIC && !generic_tried(function, ask->place);
  (void)atomic_fetch_add_explicit(&function->limit_misses, 1, memory_order_relaxed);
  dt__tell_miss(function, list, &args,
                generic                        ? "making the generic variant, at the limit of"
                : action == DT_LIMIT_EVALUATOR ? "answered by the evaluator, at the limit of"
                                               : "refused, at the limit of",
                function->variant_limit);
  if (action == DT_LIMIT_GENERIC)
    return make_generic(function, ask, why);
  if (action == DT_LIMIT_EVALUATOR && ask->inputs)
    return make_once(function, ask, why, out_once);
  return refuse(function, list, ask, DT_E_LIMIT, why);
}

// ---- Covering -------------------------------------------------------------------------------------

// Whether calls bring the stride: it is a symbol, and none of a size, as that of rows without gaps
// may be.
static bool is_brought(const dt_graph_t *graph, const dt_graph_input_t *input, uint32_t dim) {
  dt_sym_t stride = input->strides[dim];
  for (uint32_t d = 0; d < input->rank; d++)
    if (input->sizes[d].id == stride.id)
      return false;
  return dt__sym_is_symbol(graph->env, stride, NULL);
}

// Whether the variant takes inputs of the layout, in any mix with contiguous ones: by the strides
// that its trace has, wherever it comes from.
static bool takes_layout(const dt_variant_t *variant, uint32_t layout) {
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    const dt_graph_input_t *input = &graph->inputs.items[k];
    uint32_t first = layout == DT_PREPARE_STRIDED ? 0 : 1;
    if (input->is_int || !dt__layout_has_gaps(layout, input->dtype, input->rank))
      continue;
    for (uint32_t d = 0; d + first < input->rank; d++)
      if (!is_brought(graph, input, d))
        return false;
  }
  return true;
}

// Mutex held. Whether there is nothing to do: with `inputs` a variant covers them, else there is
// one.
static dt_status_t is_covered(dt_session_t *session, const dt_function_t *function,
                              const ask_t *ask, bool *out) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  *out = false;
  for (uint32_t k = 0; k < list->n; k++)
    *out = *out || (list->items[k]->place == ask->place &&
                    (ask->inputs || takes_layout(list->items[k], ask->layout)));
  if (!ask->inputs || !list->n)
    return NULL;
  DT_TRY(dt__session_reserve(session, function, list));
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args = dt__guard_args(function, list, ask->place, ask->inputs, captured);
  *out = dt__list_find(list, &args, session->symbols) != NULL;
  return NULL;
}

// The same, but for a while: variants that need not be made.
static dt_status_t supply(dt_function_t *function, const ask_t *ask, bool *out_some) {
  *out_some = false;
  if (!function->supply)
    return NULL;
  function->building = true;
  function->builder = pthread_self();
  dt__mutex_unlock(&function->mutex);
  dt_status_t status = function->supply(function, ask->place, out_some);
  dt__mutex_lock(&function->mutex);
  function->building = false;
  (void)pthread_cond_broadcast(&function->idle);
  return status;
}

// Mutex held, nobody is building.
static dt_status_t make_variant(dt_function_t *function, const ask_t *ask,
                                dt_variant_t **out_once) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  char why[256];
  if (function->frozen)
    return refuse_frozen(function, list, ask);
  if (!ask->inputs && function->dynamic == DT_DYNAMIC_STATIC)
    return DT_FAIL(DT_E_STATE, "`dynamic` is static: sizes are known at a call only; compile by a "
                               "call");
  if (over_limit(function, list, why, sizeof(why)))
    return act_at_limit(function, ask, why, out_once);
  return build_and_publish(function, ask, false);
}

static dt_status_t cover_locked(dt_session_t *session, dt_function_t *function, const ask_t *ask,
                                dt_variant_t **out_once) {
  bool supplied = false;
  for (;;) {
    bool covered = false;
    DT_TRY(is_covered(session, function, ask, &covered));
    if (covered && supplied && ask->inputs) // it was no miss
      (void)atomic_fetch_sub_explicit(&function->misses, 1, memory_order_relaxed);
    if (covered)
      return NULL;
    if (ask->key && !function->frozen)
      DT_TRY(dt__refused_find(function, ask->key));
    if (!function->building) {
      DT_TRY(supply(function, ask, &supplied));
      if (!supplied)
        return make_variant(function, ask, out_once);
      continue;
    }
    if (pthread_equal(function->builder, pthread_self()))
      return DT_FAIL(DT_E_STATE, "called from inside its own program");
    DT_TRY(dt__build_wait(function, ask->control));
  }
}

static dt_status_t cover(dt_session_t *session, dt_function_t *function, const ask_t *ask,
                         dt_variant_t **out_once) {
  DT_TRY(dt__turn_outside(function->runtime->turn, "a compile"));
  dt__mutex_lock(&function->mutex);
  dt_status_t status = cover_locked(session, function, ask, out_once);
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&function->runtime->budget);
  dt__runtime_collect(function->runtime);
  return status;
}

dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function, dt_device_t place,
                               dt_tensor_t *const *inputs, bool quick, dt_control_t *control,
                               dt_variant_t **out_once) {
  if (out_once)
    *out_once = NULL;
  ask_t ask = {.place = place, .inputs = inputs, .quick = quick, .control = control};
  dt_refused_key_t key;
  if (inputs) {
    DT_TRY(check_inputs(function, &ask));
    dt__histogram_miss(function, inputs);
    dt__refused_key(function, place, inputs, &key);
    ask.key = &key;
  }
  return cover(session, function, &ask, out_once);
}

dt_status_t dt__function_cover_layout(dt_function_t *function, dt_device_t place, uint32_t layout,
                                      bool quick, dt_control_t *control) {
  const ask_t ask = {.place = place, .quick = quick, .control = control, .layout = layout};
  return cover(NULL, function, &ask, NULL);
}

// ---- Without a call -------------------------------------------------------------------------------

static dt_status_t trace_locked(dt_function_t *function, const ask_t *ask, dt_variant_t **out) {
  if (function->dynamic == DT_DYNAMIC_STATIC)
    return DT_FAIL(DT_E_STATE, "`dynamic` is static: sizes are known at a call only");
  while (function->building) {
    if (pthread_equal(function->builder, pthread_self()))
      return DT_FAIL(DT_E_STATE, "called from inside its own program");
    DT_TRY(dt__build_wait(function, NULL));
  }
  build_t build = {.function = function, .request = request_of(function, ask)};
  build.request.evaluated = true; // no code is made of it, and no limit used up
  dt_status_t status = trace_build(&build, ask);
  end_build(&build);
  *out = build.variant;
  return status;
}

dt_status_t dt__function_trace(dt_function_t *function, dt_variant_t **out) {
  const ask_t ask = {.place = DT_CPU};
  *out = NULL;
  DT_TRY(dt__turn_outside(function->runtime->turn, "a trace"));
  dt__mutex_lock(&function->mutex);
  dt_status_t status = trace_locked(function, &ask, out);
  dt__mutex_unlock(&function->mutex);
  return status;
}
