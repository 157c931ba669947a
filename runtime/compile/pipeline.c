// SPDX-License-Identifier: Apache-2.0
// The pipeline: every stage between a traced graph and scheduled, planned loops, in order, in one
// array. The driver below verifies, times and prints the result of each stage; the stages do none
// of this. Code generation follows in codegen.c.
#include "runtime/compile/compile.h"

#include "fuse/fuse.h"
#include "lower/loop/loop.h"
#include "lower/passes/passes.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/trace/rewriter.h"

#include <string.h>

typedef enum stage_kind_t {
  STAGE_INPUT,
  STAGE_GRAPH,
  STAGE_GRAPH_DEVICE, // for devices only
  STAGE_GRAPH_STRICT, // for strict_fp only
  STAGE_USER, // passes of users and patterns at a point, then what makes their nodes simple ones
  STAGE_LOWER,
  STAGE_LOOP, // for each run of kernels by itself
  STAGE_PLAN,
} stage_kind_t;

typedef enum stage_need_t {
  NEEDED,
  OPTIONAL, // programs are right without it (dt__pipeline_without)
} stage_need_t;

typedef struct stage_t {
  const char *name;
  const char *dump; // DUCTILE_DUMP's name for it
  stage_kind_t kind;
  stage_need_t need;
  dt_graph_pass_fn_t graph_pass;                                              // STAGE_GRAPH…
  dt_status_t (*loop_pass)(dt_program_t *program, const dt_target_t *target); // STAGE_LOOP, _PLAN
  dt_point_t point;                                                           // STAGE_USER
} stage_t;

// STAGE(name, DUCTILE_DUMP's name, kind, need, graph pass, loop pass)
// USER(name, point of passes of users)
// Composites go first: the graph passes after them know simple ops only. Products are grouped where
// launches are dear and operands are read where they lie: CPUs pack each constant anyway, and were
// measured to gain nothing. Packed operands are made before inlining, which would otherwise put
// their producers into the products' inner loops. Maps share launches when each has its schedules,
// of which it keeps one.
#define STAGES                                                                                     \
  STAGE("graph", "graph", STAGE_INPUT, NEEDED, NULL, NULL)                                         \
  USER("before_decompose", DT_POINT_BEFORE_DECOMPOSE)                                              \
  STAGE("in_order", "graph", STAGE_GRAPH_STRICT, NEEDED, dt__pass_in_order, NULL)                  \
  STAGE("decompose", "graph", STAGE_GRAPH, NEEDED, dt__pass_decompose, NULL)                       \
  USER("after_decompose", DT_POINT_AFTER_DECOMPOSE)                                                \
  STAGE("fold", "graph", STAGE_GRAPH, OPTIONAL, dt__pass_fold, NULL)                               \
  STAGE("cse", "graph", STAGE_GRAPH, OPTIONAL, dt__pass_cse, NULL)                                 \
  STAGE("group", "graph", STAGE_GRAPH_DEVICE, OPTIONAL, dt__pass_group, NULL)                      \
  STAGE("dce", "graph", STAGE_GRAPH, OPTIONAL, dt__pass_dce, NULL)                                 \
  STAGE("parts", "graph", STAGE_GRAPH, OPTIONAL, dt__pass_parts, NULL)                             \
  USER("before_lower", DT_POINT_BEFORE_LOWER)                                                      \
  STAGE("lower", "loops", STAGE_LOWER, NEEDED, NULL, NULL)                                         \
  STAGE("invariant", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_invariant)                      \
  STAGE("layouts", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_layouts)                          \
  STAGE("operands", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_operands)                        \
  STAGE("split", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_split)                              \
  STAGE("inline", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_inline)                            \
  STAGE("stages", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_stages)                            \
  STAGE("prune", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_prune)                              \
  STAGE("proven", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_proven)                            \
  STAGE("narrow", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_narrow)                            \
  STAGE("chains", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_chains)                            \
  STAGE("slices", "fused", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_slices)                            \
  STAGE("schedule", "loops", STAGE_LOOP, NEEDED, NULL, dt__fuse_schedule)                          \
  STAGE("foreach", "loops", STAGE_LOOP, OPTIONAL, NULL, dt__fuse_foreach)                          \
  STAGE("plan", "loops", STAGE_PLAN, NEEDED, NULL, dt__fuse_plan)                                  \
  STAGE("parameters", "loops", STAGE_PLAN, OPTIONAL, NULL, dt__fuse_parameters)                    \
  USER("fused", DT_POINT_FUSED)

static const stage_t stages[] = {
#define STAGE(name, dump, kind, need, graph_pass, loop_pass)                                       \
  {name, dump, kind, need, graph_pass, loop_pass, (dt_point_t)0},
#define USER(name, point) {name, "graph", STAGE_USER, NEEDED, NULL, NULL, point},
    STAGES
#undef STAGE
#undef USER
    {.name = NULL}, // the last has one behind it
};

#define STAGE_COUNT (sizeof(stages) / sizeof(stages[0]) - 1)

const char *const *dt__pipeline_stages(void) {
  static const char *const names[] = {
#define STAGE(name, dump, kind, need, graph_pass, loop_pass) name,
#define USER(name, point) name,
      STAGES
#undef STAGE
#undef USER
          NULL};
  return names;
}

uint64_t dt__pipeline_optional(void) {
  uint64_t bits = 0;
  _Static_assert(STAGE_COUNT <= 64, "a bit each");
  for (size_t i = 0; i < STAGE_COUNT; i++)
    if (stages[i].need == OPTIONAL)
      bits |= (uint64_t)1 << i;
  return bits;
}

// The bit of the optional stage of this name, or 0.
static uint64_t optional_bit(const char *name, size_t len) {
  for (size_t i = 0; i < STAGE_COUNT; i++)
    if (stages[i].need == OPTIONAL && strlen(stages[i].name) == len &&
        memcmp(stages[i].name, name, len) == 0)
      return (uint64_t)1 << i;
  return 0;
}

static dt_status_t no_such_stage(const char *name, size_t len) {
  dt_text_t text;
  dt__text_init(&text);
  for (size_t i = 0; i < STAGE_COUNT; i++)
    if (stages[i].need == OPTIONAL)
      dt__text_printf(&text, "%s%s", text.len ? ", " : "", stages[i].name);
  dt_status_t status =
      DT_FAIL(DT_E_ARGUMENT, "'%.*s' is no stage that can be left out; expected some of %s",
              (int)(len < 64 ? len : 64), name, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__pipeline_without(const char *list, uint64_t *out) {
  *out = 0;
  for (const char *at = list; at && *at;) {
    size_t len = strcspn(at, ",");
    uint64_t bit = optional_bit(at, len);
    if (!bit)
      return no_such_stage(at, len);
    *out |= bit;
    at += len + (at[len] == ',');
  }
  return NULL;
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
  copy->externals.cap = copy->externals.len;
  dt_status_t status = dt__graph_rehome_controls(copy);
  dt_status_free(status);
  return status ? NULL : copy;
}

typedef struct pipeline_t {
  dt_arena_t *outer; // of whoever runs it
  dt_arena_t *arena; // of the stages: one of `own`
  dt_arena_t own[2]; // the other one is empty
  size_t kept;       // bytes of what was moved last
  dt_symenv_t *env;
  const dt_target_t *target;
  dt_hooks_t *hooks;
  const dt_graph_t *graph;
  dt_program_t *program;
} pipeline_t;

// ---- Memory -----------------------------------------------------------------------------------------
// Stages leave behind graphs that others followed, kernels that were joined, tables. When that may
// be more than half of what the arena holds, what is still used moves to a new one: a compile holds
// a few times what it works on, for the price of copying that a few times.
#define FEW_BYTES ((size_t)1 << 20)   // are not worth it
#define MANY_BYTES ((size_t)16 << 20) // go back to the system before code is made, which takes more

static dt_status_t copy_to(pipeline_t *pipeline, dt_arena_t *arena) {
  if (pipeline->program) {
    DT_TRY(dt__program_copy(arena, pipeline->program, &pipeline->program));
    pipeline->graph = pipeline->program->graph;
    return NULL;
  }
  dt_graph_t *graph = NULL;
  DT_TRY(dt__graph_copy(arena, pipeline->graph, &graph));
  pipeline->graph = graph;
  return NULL;
}

// In debug builds always, so that whoever points to what was left behind is found.
static bool is_worth_it(const pipeline_t *pipeline) {
#ifdef NDEBUG
  return pipeline->arena->total_bytes >= 2 * pipeline->kept + FEW_BYTES;
#else
  (void)pipeline;
  return true;
#endif
}

static dt_status_t give_back(pipeline_t *pipeline) {
  dt_arena_t *from = pipeline->arena, *to = &pipeline->own[from == &pipeline->own[0]];
  if (!is_worth_it(pipeline))
    return NULL;
  DT_TRY(copy_to(pipeline, to));
  pipeline->kept = to->total_bytes;
  pipeline->arena = to;
  dt__arena_fini(from);
  return NULL;
}

// ---- Stages -----------------------------------------------------------------------------------------
// What passes made may be composites, or computed in halves.
static dt_status_t make_simple(pipeline_t *pipeline) {
  if (pipeline->target->strict_fp)
    DT_TRY(dt__pass_in_order(pipeline->arena, pipeline->graph, &pipeline->graph));
  return dt__pass_decompose(pipeline->arena, pipeline->graph, &pipeline->graph);
}

static dt_status_t run_users(pipeline_t *pipeline, dt_point_t point) {
  const dt_graph_t *before = pipeline->program ? pipeline->program->graph : pipeline->graph;
  const dt_graph_t *after = before;
  dt_site_t site = {.point = point,
                    .device = pipeline->target->device,
                    .strict_fp = pipeline->target->strict_fp,
                    .hooks = pipeline->hooks,
                    .keep = pipeline->outer,
                    .program = pipeline->program,
                    .print = dt__program_print};
  DT_TRY(dt__hooks_run(pipeline->hooks, &site, pipeline->arena, before, &after));
  if (after == before || pipeline->program)
    return NULL;
  pipeline->graph = after;
  return point == DT_POINT_BEFORE_DECOMPOSE ? NULL : make_simple(pipeline);
}

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
  case STAGE_GRAPH_STRICT:
    if (!pipeline->target->strict_fp)
      return NULL;
    return stage->graph_pass(pipeline->arena, pipeline->graph, &pipeline->graph);
  case STAGE_LOWER:
    return dt__lower_graph(pipeline->arena, pipeline->env, pipeline->graph, &pipeline->program);
  case STAGE_LOOP:
    return dt__fuse_each_section(pipeline->program, pipeline->target, stage->loop_pass);
  case STAGE_PLAN:
    return stage->loop_pass(pipeline->program, pipeline->target);
  case STAGE_USER:
    return run_users(pipeline, stage->point);
  }
  return DT_FAIL(DT_E_INTERNAL, "stage %s has no kind", stage->name);
}

// What loops are made of and what code is made of are looked at in every build, so that a fault of
// ours is a status; what comes in between only where asked.
static bool is_always_verified(const stage_t *stage) {
  const stage_t *next = stage + 1;
  while (next->kind == STAGE_USER)
    next++;
  return next->kind == STAGE_LOWER || (stage->kind == STAGE_PLAN && next->kind != STAGE_PLAN);
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

// Points without passes are passed over: nobody sees them.
static bool is_empty(const pipeline_t *pipeline, const stage_t *stage) {
  return stage->kind == STAGE_USER && !dt__hooks_any(pipeline->hooks, stage->point,
                                                     pipeline->target->strict_fp, pipeline->graph);
}

static bool is_left_out(const pipeline_t *pipeline, const stage_t *stage) {
  return stage->need == OPTIONAL && (pipeline->target->left_out >> (stage - stages) & 1) != 0;
}

static dt_status_t step(pipeline_t *pipeline, const stage_t *stage, bool verify, int64_t *out_ns,
                        bool *out_faulty) {
  dt_watch_t *watch = pipeline->arena->watch;
  int64_t begin = dt__now_ns();
  if (!is_left_out(pipeline, stage))
    DT_TRY(dt__watch_explain(watch, run_stage(pipeline, stage)));
  *out_ns = dt__now_ns() - begin;
  DT_TRY(dt__watch_check(watch));
  DT_TRY(dt__symenv_status(pipeline->env));
  if (!verify && !is_always_verified(stage))
    return NULL;
  dt_status_t status = verify_stage(pipeline, stage);
  *out_faulty = status != NULL;
  return status;
}

// A fault that an earlier stage may have made: all is done again, with a look behind each.
static dt_status_t name_stage(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                              const dt_pipeline_request_t *request, dt_status_t fault) {
  dt_program_t *program = NULL;
  dt_pipeline_request_t again = *request;
  again.verify = true;
  again.observe = NULL;
  dt_status_t status = dt__pipeline_run(arena, env, graph, &again, &program);
  if (!status)
    return fault;
  dt_status_free(fault);
  return status;
}

static dt_status_t run_stages(pipeline_t *pipeline, size_t last,
                              const dt_pipeline_request_t *request, bool verify, bool *out_faulty) {
  for (size_t i = 0; i <= last; i++) {
    int64_t ns = 0;
    if (is_empty(pipeline, &stages[i]))
      continue;
    dt_status_t status = step(pipeline, &stages[i], verify, &ns, out_faulty);
    if (status) // passes of users say where they stand
      return stages[i].kind == STAGE_USER ? status
                                          : dt__status_annotate(status, "stage %s", stages[i].name);
    dt_stage_view_t view = {.stage = stages[i].name,
                            .dump = stages[i].dump,
                            .order = (uint32_t)i,
                            .ns = ns,
                            .graph = pipeline->program ? NULL : pipeline->graph,
                            .program = pipeline->program};
    if (request->observe)
      request->observe(request->user, &view);
    DT_TRY(give_back(pipeline));
  }
  return NULL;
}

dt_status_t dt__pipeline_run(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                             const dt_pipeline_request_t *request, dt_program_t **out) {
  *out = NULL;
  size_t last = 0;
  bool faulty = false, verify = request->verify;
  DT_TRY(find_last(request->until, &last));
#ifndef NDEBUG
  verify = true;
#endif
  pipeline_t pipeline = {.outer = arena,
                         .arena = &pipeline.own[0],
                         .env = env,
                         .target = request->target,
                         .hooks = request->hooks};
  dt__arena_init_like(&pipeline.own[0], arena);
  dt__arena_init_like(&pipeline.own[1], arena);
  pipeline.graph = rehome(pipeline.arena, env, graph);
  dt_status_t status = pipeline.graph ? NULL : DT_NO_MEMORY();
  if (!status)
    status = run_stages(&pipeline, last, request, verify, &faulty);
  if (!status && pipeline.program)
    status = dt__program_copy(arena, pipeline.program, out);
  size_t held = pipeline.arena->total_bytes;
  dt__arena_fini(&pipeline.own[0]);
  dt__arena_fini(&pipeline.own[1]);
  if (held >= MANY_BYTES)
    dt__heap_trim();
  if (faulty && !verify)
    return name_stage(arena, env, graph, request, status);
  return status;
}

// Asked of what was traced, before any stage learned something: a stage that is wrong explains
// nothing.
static bool is_impossible(const dt_traced_t *traced) {
  uint32_t n = 0, most = traced->conds.len + traced->graph->asserts.len;
  dt_sym_t *conds = dt__calloc(most + 1, sizeof(*conds));
  for (uint32_t k = 0; conds && k < traced->conds.len; k++)
    conds[n++] = traced->conds.items[k].cond;
  for (uint32_t k = 0; conds && k < traced->graph->asserts.len; k++)
    conds[n++] = traced->graph->asserts.items[k].cond;
  bool impossible = dt__sym_exclude_each_other(traced->env, n, conds);
  dt__free(conds);
  return impossible;
}

// The last of what is asked of sizes and data, and where.
static const char *last_required(const dt_traced_t *traced, dt_origin_t *out_at) {
  const dt_graph_t *graph = traced->graph;
  const char *what = "a condition on sizes";
  *out_at = (dt_origin_t){.file = ""};
  if (traced->conds.len)
    *out_at = traced->conds.items[traced->conds.len - 1].origin;
  if (graph->asserts.len) {
    *out_at = graph->asserts.items[graph->asserts.len - 1].origin;
    what = graph->asserts.items[graph->asserts.len - 1].what;
  }
  return what ? what : "a check";
}

dt_status_t dt__pipeline_explain(const dt_traced_t *traced, dt_status_t status) {
  if (dt_status_code(status) != DT_E_INTERNAL)
    return status;
  bool impossible = is_impossible(traced);
  if (!impossible && traced->graph->asserts.len == 0)
    return status;
  dt_origin_t at;
  const char *what = last_required(traced, &at);
  const char *file = at.file ? at.file : "";
  // Whether integers exist that fulfil any conditions cannot be decided in general, and what is
  // asked of data is not asked of the arguments: who refuses here has found what the search did
  // not.
  dt_status_t told =
      impossible
          ? DT_FAIL(DT_E_SHAPE,
                    "what the program requires of sizes and data contradicts itself; the last of "
                    "it: %s (%s:%d)",
                    what, file, at.line)
          : DT_FAIL(DT_E_SHAPE,
                    "no sizes and data were found that fulfil all that the program requires; the "
                    "last of it: %s (%s:%d); it was refused by: %s",
                    what, file, at.line, dt_status_message(status));
  dt_status_free(status);
  return told;
}
