// SPDX-License-Identifier: Apache-2.0
// Runs a program on symbolic tensors. The result is a frozen graph, the assumptions under which it
// holds, and its constants.
#include "runtime/trace/builder.h"

#include "runtime/base/log.h"
#include "runtime/base/watch.h"
#include "runtime/trace/op_call.h"

#include <stdatomic.h>

// ---- Assumptions --------------------------------------------------------------------------------
static void log_guard(const dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(env, cond, &text);
  dt__log_write(DT_LOG_GUARDS, "assumed %s (%s, %s:%d)", dt__text_str(&text),
                origin->op ? origin->op : "", origin->file ? origin->file : "", origin->line);
  dt__text_fini(&text);
}

// A condition on numbers that are read from data cannot be a guard: the call checks it as soon as
// they are known.
static bool defer(dt_trace_t *trace, const dt_symenv_t *env, const dt_guard_cond_t *item) {
  dt_arena_t *arena = &trace->traced->arena;
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "%s needs ", item->origin.op ? item->origin.op : "the program");
  dt__sym_print(env, item->cond, &text);
  dt_graph_assert_t check = {.cond = item->cond,
                             .what = dt__arena_strdup(arena, dt__text_str(&text)),
                             .origin = item->origin};
  dt__text_fini(&text);
  return check.what && DT_VEC_PUSH(arena, &trace->graph->asserts, check);
}

static void on_assume(void *user, dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  dt_trace_t *trace = user;
  dt_guard_cond_t item = {.cond = cond, .origin = origin ? *origin : trace->origin};
  uint32_t newest = 0;
  bool kept = dt__sym_newest_unbacked(env, cond, &newest)
                  ? defer(trace, env, &item)
                  : DT_VEC_PUSH(&trace->traced->arena, &trace->traced->conds, item);
  if (!kept)
    trace->lost_cond = true; // seen when the node that asked is appended, and at the end
  if (dt__log_on(DT_LOG_GUARDS, 1))
    log_guard(env, cond, &item.origin);
}

// ---- Running ------------------------------------------------------------------------------------
static dt_status_t run_program(dt_trace_t *trace, const dt_trace_request_t *request,
                               const dt_value_t *in, dt_value_t *out) {
  dt_status_t returned = request->program(trace, in, out, request->closure);
  // A program may hand back what dt_trace_status lent it.
  if (returned == trace->status)
    returned = NULL;
  dt_status_t status = dt__status_join(trace->status, returned);
  trace->status = NULL;
  if (!status && trace->lost_cond)
    status = DT_NO_MEMORY();
  if (!status)
    status = dt__symenv_status(trace->env);
  return status;
}

// Without sizes of a call, and of numbers from data, conditions may be required that exclude each
// other: there would be code that no call can use.
static dt_status_t check_conditions(const dt_trace_t *trace) {
  const dt_traced_t *traced = trace->traced;
  for (uint32_t k = 0; k < traced->conds.len; k++) {
    const dt_guard_cond_t *item = &traced->conds.items[k];
    DT_TRY(dt__sym_recheck(trace->env, item->cond, &item->origin, "a condition on sizes"));
  }
  for (uint32_t k = 0; k < trace->graph->asserts.len; k++) {
    const dt_graph_assert_t *item = &trace->graph->asserts.items[k];
    DT_TRY(dt__sym_recheck(trace->env, item->cond, &item->origin, item->what));
  }
  return NULL;
}

// What the program did as a whole, once it has ended well.
static dt_status_t check_whole(dt_trace_t *trace) {
  DT_TRY(check_conditions(trace));
  DT_TRY(dt__trace_finish_captures(trace));
  DT_TRY(dt__trace_check_updates(trace));
  return dt__trace_check_marks(trace);
}

uint32_t dt__trace_new_tag(void) {
  static _Atomic uint32_t made;
  return 1 + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) % 255;
}

// Passes of users at the point that belongs to the trace.
static dt_status_t run_passes(dt_traced_t *traced, const dt_trace_request_t *request) {
  const dt_graph_t *made = NULL;
  if (!request->hooks)
    return NULL;
  traced->hooks = dt__hooks_retain(request->hooks);
  dt_site_t site = {.point = DT_POINT_TRACED,
                    .device = dt__place_device(request->place),
                    .hooks = request->hooks,
                    .keep = &traced->arena,
                    .traced = traced};
  DT_TRY(dt__hooks_run(request->hooks, &site, &traced->arena, traced->graph, &made));
  DT_TRY(dt__ops_decompose(&site, &traced->arena, made, &made));
  traced->graph = (dt_graph_t *)(uintptr_t)made; // in the same arena
  return NULL;
}

static dt_status_t capture(dt_traced_t *traced, const dt_trace_request_t *request) {
  DT_TRY(dt__symenv_create(&traced->env));
  traced->graph = dt__graph_create(&traced->arena, traced->env);
  // One more, so that no array is empty and a program without inputs or outputs gets a pointer.
  uint32_t n_in = request->n_inputs, n_given = request->spread ? request->spread->n_given : n_in;
  dt_value_t *in = DT_ARENA_ARRAY(&traced->arena, dt_value_t, (size_t)n_in + 1);
  dt_value_t *given = DT_ARENA_ARRAY(&traced->arena, dt_value_t, (size_t)n_given + 1);
  dt_value_t *out = DT_ARENA_ARRAY(&traced->arena, dt_value_t, (size_t)request->n_outputs + 1);
  if (!traced->graph || !in || !given || !out)
    return DT_NO_MEMORY();
  dt_trace_t trace = {.tag = dt__trace_new_tag(),
                      .request = request,
                      .traced = traced,
                      .graph = traced->graph,
                      .env = traced->env,
                      .no_calls = request->no_calls};
  DT_TRY(dt__trace_declare(&trace, request, in));
  if (request->spread)
    DT_TRY(dt__trace_gather(&trace, in, given));
  dt__symenv_on_assume(traced->env, on_assume, &trace);
  dt_status_t status = run_program(&trace, request, request->spread ? given : in, out);
  dt__symenv_on_assume(traced->env, NULL, NULL);
  if (!status)
    status = dt__trace_add_outputs(&trace, out);
  if (!status)
    status = check_whole(&trace);
  if (!status)
    status = dt__trace_drop_bodies(&trace);
  dt__symenv_freeze(traced->env);
  return status ? status : run_passes(traced, request);
}

dt_status_t dt__trace_run(const dt_trace_request_t *request, dt_traced_t **out) {
  *out = NULL;
  DT_TRY(dt__trace_check_declarations(request));
  DT_TRY(dt__trace_check_inputs(request));
  dt_traced_t *traced = dt__calloc(1, sizeof(*traced));
  if (!traced)
    return DT_NO_MEMORY();
  dt__watch_enter(request->watch);
  dt__arena_init(&traced->arena, 0);
  traced->arena.watch = request->watch;
  dt_status_t status = dt__watch_explain(request->watch, capture(traced, request));
  // What was traced outlives its watch, and stays counted for as long as that lasts.
  traced->arena.watch = NULL;
  if (status) {
    dt__traced_destroy(traced);
    bool named = request->name && request->name[0];
    return named ? dt__status_annotate(status, "%s", request->name) : status;
  }
  *out = traced;
  return NULL;
}

void dt__traced_retain(dt_traced_t *traced) {
  (void)atomic_fetch_add_explicit(&traced->shares, 1, memory_order_relaxed);
}

void dt__traced_destroy(dt_traced_t *traced) {
  if (!traced || atomic_fetch_sub_explicit(&traced->shares, 1, memory_order_acq_rel) != 0)
    return;
  for (uint32_t k = 0; k < traced->constants.len; k++)
    dt_tensor_release(traced->constants.items[k]);
  dt__hooks_release(traced->hooks);
  dt__symenv_destroy(traced->env);
  dt__arena_fini(&traced->arena);
  dt__free(traced);
}
