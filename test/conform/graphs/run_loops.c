// SPDX-License-Identifier: Apache-2.0
// Calls of a random program without any code: each is traced (once for all calls that its guards
// take), goes through all passes, and the loops in the end are interpreted, against the evaluator
// on the graph as it was traced. With RG_GUARDED they become code, for the CPUs and of the tiers
// that seeds choose, whose kernels run between guards.
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "lower/graph/eval_compare.h"
#include "lower/loop/loop.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/trace/trace.h"
#include "test/conform/graphs/run_graph.h"
#include "test/conform/guarded/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SYMBOLS = 8192 };

typedef struct passed_t {
  dt_traced_t *traced;
  dt_guards_t *guards;
  dt_symenv_t *env;
  dt_program_t *program;
  guarded_t *guarded; // with RG_GUARDED
} passed_t;

typedef struct loops_t {
  rg_run_t *run;
  dt_arena_t arena; // of programs
  uint32_t n;
  passed_t passed[RG_SHAPES];
  int64_t symbols[MOST_SYMBOLS];
} loops_t;

static bool takes(loops_t *l, const passed_t *v, const rg_args_t *args) {
  return dt__guards_run(v->guards, &(dt_guard_args_t){.inputs = args->tensors}, l->symbols);
}

// What code is made for.
static const char *cpu_of(const rg_run_t *run) {
  uint64_t way = run->p->seed % 4;
  if (!(run->flags & RG_GUARDED))
    return "";
  return way == 2 && __builtin_cpu_supports("sse4.2")                                  ? "x86-64-v2"
         : way == 3 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "x86-64-v3"
                                                                                       : "";
}

static dt_status_t make_code(const rg_run_t *run, const dt_target_t *target, passed_t *v) {
  if (!(run->flags & RG_GUARDED))
    return NULL;
  dt_compile_options_t options = {.quick = run->p->seed / 4 % 2};
  return guarded_create(v->program, target, &options, &v->guarded);
}

static passed_t *make(loops_t *l, const rg_args_t *args) {
  rg_run_t *run = l->run;
  passed_t *v = &l->passed[l->n++];
  dt_target_t target;
  // Kernels between guards are code: calls of users' ops are not among them.
  dt_trace_request_t request = run->flags & RG_GUARDED
                                   ? rg_request(run, "loops", args->tensors)
                                   : rg_request_calls(run, "loops", args->tensors);
  dt_status_t status = dt__host_target(cpu_of(run), run->p->threads, &target);
  target.strict_fp = run->p->strict;
  if (!status)
    status = dt__trace_run(&request, &v->traced);
  if (!status)
    status = rg_guards(v->traced, &v->guards);
  if (!status)
    status = dt__symenv_clone(v->traced->env, &v->env);
  if (!status)
    status = dt__pipeline_run(&l->arena, v->env, v->traced->graph,
                              &(dt_pipeline_request_t){.target = &target}, &v->program);
  if (!status)
    status = make_code(run, &target, v);
  if (rg_failed(run, RG_REFUSED, "passes", status))
    return NULL;
  if (dt__symenv_symbol_count(v->env) <= MOST_SYMBOLS)
    return rg_guards_take(run, v->guards, args->tensors, l->symbols) ? v : NULL;
  run->out->kind = RG_WRONG;
  (void)snprintf(run->out->text, sizeof(run->out->text), "more than %d symbols", MOST_SYMBOLS);
  return NULL;
}

static void wrong(rg_run_t *run, uint32_t call, const char *what) {
  run->out->kind = RG_WRONG;
  run->out->call = call;
  (void)snprintf(run->out->text, sizeof(run->out->text), "call %u: %s", call, what);
}

static void compare(loops_t *l, uint32_t call, const passed_t *v, const rg_args_t *args,
                    const rg_args_t *fresh, const dt_eval_value_t *expected, void *const *outputs) {
  rg_run_t *run = l->run;
  dt_text_t text;
  dt__text_init(&text);
  const char *what = NULL;
  if (!rg_same_outputs(run, expected, outputs, &text))
    wrong(run, call, dt__text_str(&text));
  else if (!rg_same_memory(run, v->traced->graph, args, fresh, expected + run->p->n_outputs, &what))
    wrong(run, call, what);
  dt__text_fini(&text);
}

static dt_status_t answer(loops_t *l, uint32_t call, const passed_t *v, void *const *inputs,
                          void *const *outputs) {
  if (!v->guarded)
    return dt__program_interpret(v->program, l->symbols, inputs, outputs);
  uint64_t before = guarded_launches(v->guarded);
  dt_status_t status =
      guarded_call(v->guarded, l->symbols, inputs, outputs, call, l->run->out->note);
  l->run->out->launches += guarded_launches(v->guarded) - before;
  return status;
}

static void interpret(loops_t *l, uint32_t call, const passed_t *v, rg_args_t *args) {
  rg_run_t *run = l->run;
  dt_arena_t arena;
  rg_args_t fresh = {0};
  dt_eval_value_t expected[RG_OUTPUTS + RG_UPDATES];
  dt_eval_arg_t eval_args[RG_NODES];
  void *inputs[RG_NODES], *outputs[RG_OUTPUTS] = {NULL};
  dt__arena_init(&arena, 0);
  bool good = rg_make_args(run, call, &fresh);
  for (uint32_t k = 0; good && k < run->n_inputs; k++) {
    inputs[k] = dt_tensor_data(args->tensors[k]);
    eval_args[k] = (dt_eval_arg_t){.data = dt_tensor_data(fresh.tensors[k]),
                                   .sizes = dt_tensor_sizes(fresh.tensors[k]),
                                   .strides = dt_tensor_strides(fresh.tensors[k])};
  }
  dt_eval_options_t options = {.error_bounds = true};
  good = good && !rg_failed(run, RG_REFUSED, "evaluator",
                            dt__graph_eval(rg_with_updates(&arena, v->traced->graph), l->symbols,
                                           eval_args, &options, &arena, expected));
  for (uint32_t k = 0; good && k < run->p->n_outputs; k++) {
    outputs[k] = calloc((size_t)expected[k].count + 1, 8);
    good = outputs[k] != NULL;
  }
  if (good && !rg_failed(run, RG_WRONG, v->guarded ? "code" : "interpreter",
                         answer(l, call, v, inputs, outputs)))
    compare(l, call, v, args, &fresh, expected, outputs);
  for (uint32_t k = 0; k < run->p->n_outputs; k++)
    free(outputs[k]);
  rg_free_args(&fresh);
  dt__arena_fini(&arena);
}

void rg_run_loops(rg_run_t *run) {
  loops_t *l = calloc(1, sizeof(*l));
  if (!l)
    return;
  l->run = run;
  dt__arena_init(&l->arena, 0);
  for (uint32_t call = 0; call < run->p->n_calls && run->out->kind == RG_RIGHT; call++) {
    rg_args_t args;
    const passed_t *v = NULL;
    run->out->call = call;
    if (!rg_make_args(run, call, &args))
      break;
    for (uint32_t k = 0; !v && k < l->n; k++)
      if (takes(l, &l->passed[k], &args))
        v = &l->passed[k];
    if (!v)
      v = make(l, &args);
    if (v)
      interpret(l, call, v, &args);
    rg_free_args(&args);
  }
  run->out->variants = l->n;
  for (uint32_t k = 0; k < l->n; k++) {
    guarded_destroy(l->passed[k].guarded);
    dt__guards_destroy(l->passed[k].guards);
    dt__symenv_destroy(l->passed[k].env);
    dt__traced_destroy(l->passed[k].traced);
  }
  dt__arena_fini(&l->arena);
  free(l);
}
