// SPDX-License-Identifier: Apache-2.0
// Which ops of the table random programs are made of: as traced, and as decomposed.
#include "lower/passes/passes.h"
#include "runtime/base/status.h"
#include "runtime/trace/trace.h"
#include "test/conform/graphs/run_graph.h"

#include <stdio.h>
#include <string.h>

// Ops that no program here is made of, and why.
static const struct {
  dt_op_t op;
  const char *why;
} left_out[] = {
    {DT_OP_bitcast, "of a number that is not known to its last bit, the bits may be any"},
    {DT_OP_NONE, "no op"},
};

static void count(const dt_graph_t *graph, uint64_t *used) {
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    used[graph->nodes.items[k].op]++;
  for (uint32_t k = 0; k < graph->controls.len; k++)
    for (uint32_t b = 0; b < dt__control_n(&graph->controls.items[k]); b++)
      count(graph->controls.items[k].bodies[b], used);
}

bool rg_count_ops(rg_run_t *run, uint64_t *used) {
  rg_args_t args;
  dt_arena_t arena;
  dt_traced_t *traced = NULL;
  dt__arena_init(&arena, 0);
  bool good = rg_make_args(run, 0, &args);
  dt_trace_request_t request = rg_request_calls(run, "ops", args.tensors);
  good = good && !rg_failed(run, RG_REFUSED, "trace", dt__trace_run(&request, &traced));
  if (good) {
    const dt_graph_t *simple = NULL;
    dt_symenv_t *env = NULL;
    dt_graph_t copy = *traced->graph;
    count(traced->graph, used);
    good = !rg_failed(run, RG_HARNESS, "clone", dt__symenv_clone(traced->env, &env));
    copy.arena = &arena;
    copy.env = env;
    if (good &&
        !rg_failed(run, RG_REFUSED, "decompose", dt__pass_decompose(&arena, &copy, &simple)))
      count(simple, used);
    dt__symenv_destroy(env);
  }
  rg_free_args(&args);
  dt__traced_destroy(traced);
  dt__arena_fini(&arena);
  return good;
}

bool rg_ops_complete(const uint64_t *used) {
  bool complete = true;
  for (uint32_t op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++) {
    const char *why = NULL;
    for (size_t k = 0; k < sizeof(left_out) / sizeof(left_out[0]); k++)
      why = left_out[k].op == (dt_op_t)op ? left_out[k].why : why;
    if (used[op] ? !why : why != NULL)
      continue;
    complete = false;
    printf("FAIL %s is %s random programs: %s\n", dt__op_info((dt_op_t)op)->name,
           used[op] ? "in" : "in no",
           used[op] ? "take it off the list of what is left out"
                    : "add an instruction (random_ops.def), or say why not (count_ops.c)");
  }
  return complete;
}
