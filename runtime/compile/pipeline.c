// SPDX-License-Identifier: Apache-2.0
// The pipeline: every stage between a traced graph and scheduled, planned loops, in order, in one
// array. The driver below verifies, times and shows what each stage made; the stages do none of it.
// Code generation follows in codegen.c.
#include "runtime/compile/compile.h"

#include "fuse/fuse.h"
#include "lower/loop/loop.h"
#include "lower/passes/passes.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <string.h>

typedef enum stage_kind_t {
  STAGE_INPUT,
  STAGE_GRAPH,
  STAGE_GRAPH_DEVICE, // for devices only
  STAGE_LOWER,
  STAGE_LOOP, // for each run of kernels by itself
  STAGE_PLAN,
} stage_kind_t;

typedef struct stage_t {
  const char *name;
  const char *dump; // DUCTILE_DUMP's name for it
  stage_kind_t kind;
  dt_pass_fn_t graph_pass;                                                    // STAGE_GRAPH…
  dt_status_t (*loop_pass)(dt_program_t *program, const dt_target_t *target); // STAGE_LOOP, _PLAN
} stage_t;

// STAGE(name, DUCTILE_DUMP's name, kind, graph pass, loop pass)
// Composites go first: the graph passes after them know simple ops only. Products are grouped where
// launches are dear and operands are read where they lie: CPUs pack each constant anyway, and were
// measured to gain nothing. Packed operands are made before inlining, which would otherwise put
// their producers into the products' inner loops.
#define STAGES                                                                                     \
  STAGE("graph", "graph", STAGE_INPUT, NULL, NULL)                                                 \
  STAGE("decompose", "graph", STAGE_GRAPH, dt__pass_decompose, NULL)                               \
  STAGE("fold", "graph", STAGE_GRAPH, dt__pass_fold, NULL)                                         \
  STAGE("cse", "graph", STAGE_GRAPH, dt__pass_cse, NULL)                                           \
  STAGE("group", "graph", STAGE_GRAPH_DEVICE, dt__pass_group, NULL)                                \
  STAGE("dce", "graph", STAGE_GRAPH, dt__pass_dce, NULL)                                           \
  STAGE("lower", "loops", STAGE_LOWER, NULL, NULL)                                                 \
  STAGE("layouts", "fused", STAGE_LOOP, NULL, dt__fuse_layouts)                                    \
  STAGE("operands", "fused", STAGE_LOOP, NULL, dt__fuse_operands)                                  \
  STAGE("split", "fused", STAGE_LOOP, NULL, dt__fuse_split)                                        \
  STAGE("inline", "fused", STAGE_LOOP, NULL, dt__fuse_inline)                                      \
  STAGE("stages", "fused", STAGE_LOOP, NULL, dt__fuse_stages)                                      \
  STAGE("prune", "fused", STAGE_LOOP, NULL, dt__fuse_prune)                                        \
  STAGE("narrow", "fused", STAGE_LOOP, NULL, dt__fuse_narrow)                                      \
  STAGE("chains", "fused", STAGE_LOOP, NULL, dt__fuse_chains)                                      \
  STAGE("slices", "fused", STAGE_LOOP, NULL, dt__fuse_slices)                                      \
  STAGE("schedule", "loops", STAGE_LOOP, NULL, dt__fuse_schedule)                                  \
  STAGE("plan", "loops", STAGE_PLAN, NULL, dt__fuse_plan)

static const stage_t stages[] = {
#define STAGE(name, dump, kind, graph_pass, loop_pass) {name, dump, kind, graph_pass, loop_pass},
    STAGES
#undef STAGE
};

#define STAGE_COUNT (sizeof(stages) / sizeof(stages[0]))

const char *const *dt__pipeline_stages(void) {
  static const char *const names[] = {
#define STAGE(name, dump, kind, graph_pass, loop_pass) name,
      STAGES
#undef STAGE
          NULL};
  return names;
}

static dt_status_t find_last(const char *until, size_t *out) {
  *out = STAGE_COUNT - 1;
  if (!until)
    return NULL;
  for (size_t i = 0; i < STAGE_COUNT; i++) {
    if (strcmp(stages[i].name, until) == 0) {
      *out = i;
      return NULL;
    }
  }
  return DT_FAIL(DT_E_ARGUMENT, "no stage is named '%s'; expected graph, …, %s", until,
                 stages[STAGE_COUNT - 1].name);
}

// The same graph with `env` as its environment and `arena` for what is appended; nodes are shared.
static dt_graph_t *rehome(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph) {
  dt_graph_t *copy = DT_ARENA_NEW(arena, dt_graph_t);
  if (!copy)
    return NULL;
  *copy = *graph;
  copy->arena = arena;
  copy->env = env;
  // Without room to grow in place an append moves the array and leaves the original alone.
  copy->nodes.cap = copy->nodes.len;
  copy->inputs.cap = copy->inputs.len;
  copy->constants.cap = copy->constants.len;
  copy->outputs.cap = copy->outputs.len;
  copy->asserts.cap = copy->asserts.len;
  copy->captures.cap = copy->captures.len;
  copy->updates.cap = copy->updates.len;
  dt_status_t status = dt__graph_rehome_controls(copy);
  dt_status_free(status);
  return status ? NULL : copy;
}

typedef struct pipeline_t {
  dt_arena_t *arena;
  dt_symenv_t *env;
  const dt_target_t *target;
  const dt_graph_t *graph;
  dt_program_t *program;
} pipeline_t;

static dt_status_t run_stage(pipeline_t *pipeline, const stage_t *stage) {
  switch (stage->kind) {
  case STAGE_INPUT:
    return NULL;
  case STAGE_GRAPH:
    return stage->graph_pass(pipeline->arena, pipeline->graph, &pipeline->graph);
  case STAGE_GRAPH_DEVICE:
    if (pipeline->target->device == DT_CPU)
      return NULL;
    return stage->graph_pass(pipeline->arena, pipeline->graph, &pipeline->graph);
  case STAGE_LOWER:
    return dt__lower_graph(pipeline->arena, pipeline->env, pipeline->graph, &pipeline->program);
  case STAGE_LOOP:
    return dt__fuse_each_run(pipeline->program, pipeline->target, stage->loop_pass);
  case STAGE_PLAN:
    return stage->loop_pass(pipeline->program, pipeline->target);
  }
  return DT_FAIL(DT_E_INTERNAL, "stage %s has no kind", stage->name);
}

// What a stage made must hold every invariant. The input's faults are its author's, all others
// ours.
static dt_status_t verify_stage(const pipeline_t *pipeline, const stage_t *stage) {
  if (pipeline->program)
    return dt__program_verify(pipeline->program);
  dt_status_t status = dt__graph_verify(pipeline->graph);
  if (dt_status_code(status) != DT_E_FORMAT || stage->kind == STAGE_INPUT)
    return status;
  dt_status_t internal = DT_FAIL(DT_E_INTERNAL, "%s", dt_status_message(status));
  dt_status_free(status);
  return internal;
}

static dt_status_t step(pipeline_t *pipeline, const stage_t *stage, bool verify, int64_t *out_ns) {
  int64_t begin = dt__now_ns();
  DT_TRY(run_stage(pipeline, stage));
  *out_ns = dt__now_ns() - begin;
  DT_TRY(dt__symenv_status(pipeline->env));
  if (verify)
    DT_TRY(verify_stage(pipeline, stage));
  return NULL;
}

dt_status_t dt__pipeline_run(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                             const dt_target_t *target, const char *until, bool verify,
                             dt_stage_observer_t observe, void *user, dt_program_t **out) {
  *out = NULL;
  size_t last = 0;
  DT_TRY(find_last(until, &last));
#ifndef NDEBUG
  verify = true;
#endif
  pipeline_t pipeline = {.arena = arena, .env = env, .target = target};
  pipeline.graph = rehome(arena, env, graph);
  if (!pipeline.graph)
    return DT_NO_MEMORY();
  for (size_t i = 0; i <= last; i++) {
    int64_t ns = 0;
    dt_status_t status = step(&pipeline, &stages[i], verify, &ns);
    if (status)
      return dt__status_annotate(status, "stage %s", stages[i].name);
    dt_stage_view_t view = {.stage = stages[i].name,
                            .dump = stages[i].dump,
                            .order = (uint32_t)i,
                            .ns = ns,
                            .graph = pipeline.program ? NULL : pipeline.graph,
                            .program = pipeline.program};
    if (observe)
      observe(user, &view);
  }
  *out = pipeline.program;
  return NULL;
}
