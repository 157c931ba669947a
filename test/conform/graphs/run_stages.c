// SPDX-License-Identifier: Apache-2.0
// Which stage of the pipeline made an answer wrong: the graph after each graph stage goes to the
// evaluator, the loops after each loop stage to the interpreter. What is right after the last stage
// is the code generator's fault.
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "lower/loop/loop.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/trace/trace.h"
#include "test/conform/graphs/run_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stages_t {
  rg_run_t *run;
  uint32_t call;
  const rg_args_t *args;
  int64_t *symbols;
  const dt_graph_t *traced;
  dt_eval_arg_t eval_args[RG_NODES];
  dt_arena_t *arena;
  dt_eval_value_t expected[RG_OUTPUTS + RG_UPDATES];
  bool found;
  dt_text_t before; // the loops or graph of the last right stage
} stages_t;

static void found(stages_t *s, const char *stage, const char *what) {
  rg_outcome_t *out = s->run->out;
  s->found = true;
  (void)snprintf(out->stage, sizeof(out->stage), "%s", stage);
  if (out->kind == RG_RIGHT) {
    out->kind = RG_WRONG;
    out->call = s->call;
    (void)snprintf(out->text, sizeof(out->text), "call %u is right, but its interpretation: %s",
                   s->call, what);
  } else {
    size_t len = strlen(out->text);
    (void)snprintf(out->text + len, sizeof(out->text) - len, "\n  after %s: %s", stage, what);
  }
}

static void found_status(stages_t *s, const char *stage, dt_status_t status) {
  found(s, stage, dt_status_message(status));
  dt_status_free(status);
}

static void check_outputs(stages_t *s, const char *stage, void *const *outputs) {
  dt_text_t text;
  dt__text_init(&text);
  if (!s->found && !rg_same_outputs(s->run, s->expected, outputs, &text))
    found(s, stage, dt__text_str(&text));
  dt__text_fini(&text);
}

// Over arguments of its own, which it may update.
static void check_loops(stages_t *s, const dt_stage_view_t *view) {
  void *inputs[RG_NODES], *outputs[RG_OUTPUTS] = {NULL};
  rg_args_t args;
  const char *what = NULL;
  bool memory = rg_make_args(s->run, s->call, &args);
  for (uint32_t k = 0; memory && k < args.n; k++)
    inputs[k] = dt_tensor_data(args.tensors[k]);
  for (uint32_t k = 0; k < s->run->p->n_outputs; k++) {
    outputs[k] = calloc((size_t)s->expected[k].count + 1, 8);
    memory = memory && outputs[k];
  }
  if (memory) {
    dt_status_t status = dt__program_interpret(view->program, s->symbols, inputs, outputs);
    if (status)
      found_status(s, view->stage, status);
    else
      check_outputs(s, view->stage, outputs);
    if (!s->found && !rg_same_memory(s->run, s->traced, &args, s->args,
                                     s->expected + s->run->p->n_outputs, &what))
      found(s, view->stage, what);
  }
  rg_free_args(&args);
  for (uint32_t k = 0; k < s->run->p->n_outputs; k++)
    free(outputs[k]);
}

// Both evaluations are exact where bounds are finite, or differ by what decompositions round.
static void check_graph(stages_t *s, const dt_stage_view_t *view) {
  dt_eval_value_t got[RG_OUTPUTS];
  dt_eval_options_t options = {.error_bounds = false};
  dt_status_t status =
      dt__graph_eval(view->graph, s->symbols, s->eval_args, &options, s->arena, got);
  if (status) {
    found_status(s, view->stage, status);
    return;
  }
  void *outputs[RG_OUTPUTS] = {NULL};
  for (uint32_t k = 0; k < s->run->p->n_outputs; k++) {
    size_t size = dt_dtype_size(got[k].dtype);
    outputs[k] = calloc((size_t)got[k].count + 1, 8);
    for (int64_t i = 0; outputs[k] && i < got[k].count; i++)
      dt__scalar_store(got[k].dtype, (char *)outputs[k] + (size_t)i * size, got[k].data[i]);
    if (got[k].count != s->expected[k].count || got[k].dtype != s->expected[k].dtype)
      found(s, view->stage, "another number of elements or dtype");
  }
  if (!s->found)
    check_outputs(s, view->stage, outputs);
  for (uint32_t k = 0; k < s->run->p->n_outputs; k++)
    free(outputs[k]);
}

static void observe(void *user, const dt_stage_view_t *view) {
  stages_t *s = user;
  if (s->found)
    return;
  if (view->program)
    check_loops(s, view);
  else
    check_graph(s, view);
  if (!(s->run->flags & RG_SHOW))
    return;
  dt_text_t text;
  dt__text_init(&text);
  if (view->program)
    dt__program_print(view->program, &text);
  else
    dt__graph_print(view->graph, &text);
  if (s->found)
    printf("---- before %s\n%s---- after %s\n%s----\n", view->stage, dt__text_str(&s->before),
           view->stage, dt__text_str(&text));
  dt__text_fini(&s->before);
  s->before = text;
}

static void run_pipeline(stages_t *s, const dt_traced_t *traced) {
  dt_target_t target;
  dt_symenv_t *env = NULL;
  dt_program_t *program = NULL;
  dt_status_t status = dt__host_target("", 2, &target);
  if (!status)
    status = dt__symenv_clone(traced->env, &env);
  if (!status)
    status = dt__pipeline_run(
        s->arena, env, traced->graph,
        &(dt_pipeline_request_t){.target = &target, .verify = true, .observe = observe, .user = s},
        &program);
  if (status && s->found)
    dt_status_free(status);
  else if (status)
    found_status(s, "pipeline", status);
  if (!s->found && s->run->out->kind != RG_RIGHT)
    (void)snprintf(s->run->out->stage, sizeof(s->run->out->stage), "emitted code");
  if (!s->found && s->run->out->kind != RG_RIGHT && (s->run->flags & RG_SHOW))
    printf("---- right up to plan\n%s----\n", dt__text_str(&s->before));
  dt__symenv_destroy(env);
}

// Traces with the example of call `from` (n_calls: none) and, when that variant takes the
// arguments, runs the pipeline on it. Whether it did.
static bool try_variant(stages_t *s, uint32_t from) {
  rg_run_t *run = s->run;
  rg_args_t example = {0};
  if (from < run->p->n_calls && !rg_make_args(run, from, &example))
    return true;
  dt_trace_request_t request = rg_request(run, "stages", example.n ? example.tensors : NULL);
  dt_traced_t *traced = NULL;
  dt_guards_t *guards = NULL;
  dt_status_t status = dt__trace_run(&request, &traced);
  if (!status)
    status = rg_guards(traced, &guards);
  bool takes = false;
  if (!status) {
    s->symbols = calloc(dt__guards_symbol_count(guards) + 4096, sizeof(*s->symbols));
    takes = s->symbols &&
            dt__guards_run(guards, &(dt_guard_args_t){.inputs = s->args->tensors}, s->symbols);
    dt_eval_options_t options = {.error_bounds = true};
    s->traced = traced->graph;
    if (takes)
      status = dt__graph_eval(rg_with_updates(s->arena, traced->graph), s->symbols, s->eval_args,
                              &options, s->arena, s->expected);
    if (takes && !status)
      run_pipeline(s, traced);
    free(s->symbols);
  }
  if (status)
    found_status(s, "trace", status);
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);
  rg_free_args(&example);
  return takes;
}

void rg_find_stage(rg_run_t *run, uint32_t call) {
  rg_args_t args;
  dt_arena_t arena;
  if (!rg_make_args(run, call, &args))
    return;
  dt__arena_init(&arena, 0);
  stages_t s = {.run = run, .call = call, .args = &args, .arena = &arena};
  dt__text_init(&s.before);
  for (uint32_t k = 0; k < run->n_inputs; k++)
    s.eval_args[k] = (dt_eval_arg_t){.data = dt_tensor_data(args.tensors[k]),
                                     .sizes = dt_tensor_sizes(args.tensors[k]),
                                     .strides = dt_tensor_strides(args.tensors[k])};
  bool done = run->p->prepare && try_variant(&s, run->p->n_calls);
  for (uint32_t from = 0; !done && from <= call; from++)
    done = try_variant(&s, from);
  dt__text_fini(&s.before);
  dt__arena_fini(&arena);
  rg_free_args(&args);
}
