// SPDX-License-Identifier: Apache-2.0
// The pipeline's driver: stages run in order, stop where asked, and what is refused.
#include "test/support/fixture.h"

#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/jobs.h"
#include "runtime/trace/hooks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct seen_t {
  uint32_t n;
  bool ordered;
  uint32_t folded; // the node of the output after the stage "fold"
  uint32_t next;   // stage that comes next, points aside
} seen_t;

// Points of passes of users, which are passed over where there are none.
static bool is_point(const char *name) {
  bool is = false;
  for (int point = DT_POINT_TRACED; point <= DT_POINT_FUSED; point++)
    is = is || strcmp(dt_point_name((dt_point_t)point), name) == 0;
  return is;
}

static void observe(void *user, const dt_stage_view_t *view) {
  seen_t *seen = user;
  const char *const *stages = dt__pipeline_stages();
  while (is_point(stages[seen->next]))
    seen->next++;
  seen->ordered = seen->ordered && view->order == seen->next &&
                  strcmp(view->stage, stages[seen->next]) == 0 &&
                  (view->graph != NULL) != (view->program != NULL);
  seen->next++;
  if (strcmp(view->stage, "fold") == 0)
    seen->folded = view->graph->outputs.items[0].id;
  seen->n++;
}

// x, negated twice, through the pipeline.
static dt_status_t run_without(uint64_t left_out, const char *until, seen_t *seen,
                               bool *out_program) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_symenv_t *env = NULL;
  expect_ok(dt__symenv_create(&env));
  dt_graph_t *graph = dt__graph_create(&arena, env);
  assert_non_null(graph);
  dt_sym_t n = dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){0, DT_SIZE_LIMIT - 1}, NULL, "n");
  dt_graph_input_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .contiguous = true};
  input.sizes[0] = n;
  input.strides[0] = dt__sym_const(env, 1);
  dt_node_id_t x = {0}, y = {0};
  expect_ok(dt__graph_add_input(graph, &input, &x));
  expect_ok(dt__graph_add(graph, DT_OP_neg, &x, 1, NULL, NULL, &y));
  expect_ok(dt__graph_add(graph, DT_OP_neg, &y, 1, NULL, NULL, &y));
  expect_ok(dt__graph_add_output(graph, y));
  dt__symenv_freeze(env);
  dt_target_t target = {.device = DT_CPU,
                        .vector_bytes = 32,
                        .vector_registers = 16,
                        .threads = 2,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20,
                        .left_out = left_out};
  dt_program_t *program = NULL;
  uint32_t nodes = graph->nodes.len;
  dt_status_t status = dt__pipeline_run(
      &arena, env, graph,
      &(dt_pipeline_request_t){
          .target = &target, .until = until, .verify = true, .observe = observe, .user = seen},
      &program);
  *out_program = program != NULL;
  assert_int_equal(graph->nodes.len, nodes); // only read
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

static dt_status_t run(const char *until, seen_t *seen, bool *out_program) {
  return run_without(0, until, seen, out_program);
}

static void test_stages(void **state) {
  (void)state;
  uint32_t count = 0;
  bool lowered = false;
  for (const char *const *name = dt__pipeline_stages(); *name; name++) {
    seen_t seen = {.ordered = true};
    bool program = false;
    expect_ok(run(*name, &seen, &program));
    count += !is_point(*name);
    assert_int_equal(seen.n, count);
    assert_true(seen.ordered);
    lowered = lowered || strcmp(*name, "lower") == 0;
    assert_int_equal(program, lowered);
  }
  seen_t all = {.ordered = true};
  bool program = false;
  expect_ok(run(NULL, &all, &program));
  assert_int_equal(all.n, count);
  expect_told(run("nonsense", &all, &program), DT_E_ARGUMENT, "nonsense");
}

// Stages that are left out are by name, and named where the variable is explained.
static void test_without(void **state) {
  (void)state;
  static const char *const texts[] = {
#define PARAM(id, type, name, default, min, max, doc) name, doc,
#include "runtime/base/params.def"
      NULL};
  const char *doc = "";
  for (size_t i = 0; texts[i]; i += 2)
    if (strcmp(texts[i], "WITHOUT") == 0)
      doc = texts[i + 1];
  uint64_t bits = 1, all = 0;
  uint32_t stage = 0;
  seen_t usual = {.ordered = true};
  bool made = false;
  expect_ok(run(NULL, &usual, &made));
  for (const char *const *name = dt__pipeline_stages(); *name; name++, stage++) {
    if (!(dt__pipeline_optional() >> stage & 1)) {
      expect_told(dt__pipeline_without(*name, &bits), DT_E_ARGUMENT, *name);
      continue;
    }
    expect_ok(dt__pipeline_without(*name, &bits));
    assert_int_equal(bits, (uint64_t)1 << stage);
    assert_non_null(strstr(doc, *name));
    all |= bits;
    seen_t seen = {.ordered = true};
    bool program = false;
    expect_ok(run_without(bits, NULL, &seen, &program));
    assert_true(seen.ordered && program);
    assert_int_equal(seen.folded != usual.folded, strcmp(*name, "fold") == 0);
  }
  assert_int_equal(all, dt__pipeline_optional());
  expect_ok(dt__pipeline_without(NULL, &bits));
  assert_int_equal(bits, 0);
  expect_ok(dt__pipeline_without("cse,inline", &bits));
  assert_int_equal(__builtin_popcountll(bits), 2);
  expect_told(dt__pipeline_without("cse,,inline", &bits), DT_E_ARGUMENT, "fold, cse");
  setenv("DUCTILE_WITHOUT", "cse,plan", 1);
  dt_runtime_t *runtime = NULL;
  expect_told(dt_runtime_create(NULL, &runtime), DT_E_ARGUMENT, "DUCTILE_WITHOUT");
  unsetenv("DUCTILE_WITHOUT");
}

// ---- Compile threads --------------------------------------------------------------------------------

static dt_status_t count_job(void *arg) {
  (void)atomic_fetch_add((_Atomic int *)arg, 1);
  return NULL;
}

static dt_status_t fail_job(void *arg) {
  (void)atomic_fetch_add((_Atomic int *)arg, 1);
  return DT_FAIL(DT_E_COMPILE, "job failed");
}

static void test_jobs(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    dt_jobs_t *jobs = NULL;
    expect_ok(dt__jobs_create(threads, 0, &jobs));
    _Atomic int done = 0;
    dt_job_t items[20];
    for (int i = 0; i < 20; i++)
      items[i] = (dt_job_t){.run = count_job, .arg = &done};
    expect_ok(dt__jobs_run(jobs, items, 20, 0));
    assert_int_equal(done, 20);
    expect_ok(dt__jobs_run(jobs, items, 0, 0));
    items[3].run = items[17].run = fail_job; // all run, one failure is told, none leaks
    expect_told(dt__jobs_run(jobs, items, 20, 3), DT_E_COMPILE, "job failed");
    assert_int_equal(done, 40);
    dt__jobs_destroy(jobs);
  }
  dt__jobs_destroy(NULL);
}

// What a pass might make and no code can be made of: a status in every build, not a crash of LLVM.
static void test_fault(void **state) {
  (void)state;
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  dt_graph_t *graph = dt__graph_create(&arena, env);
  assert_non_null(graph);
  dt_graph_input_t input = {.name = "x", .dtype = DT_I32, .rank = 0, .contiguous = true};
  dt_node_id_t x = {0};
  expect_ok(dt__graph_add_input(graph, &input, &x));
  dt_node_t node = {.op = DT_OP_reciprocal, .dtype = DT_I32, .n_inputs = 1, .inputs = &x};
  static const dt_attrs_t attrs;
  node.attrs = &attrs;
  assert_true(DT_VEC_PUSH(&arena, &graph->nodes, node));
  expect_ok(dt__graph_add_output(graph, (dt_node_id_t){graph->nodes.len}));
  dt__symenv_freeze(env);
  dt_target_t target = {.device = DT_CPU,
                        .vector_bytes = 32,
                        .vector_registers = 16,
                        .threads = 1,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20};
  dt_program_t *program = NULL;
  expect_told(
      dt__pipeline_run(&arena, env, graph, &(dt_pipeline_request_t){.target = &target}, &program),
      DT_E_FORMAT, "stage graph");
  assert_null(program);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

RUN_TESTS(TEST(test_stages), TEST(test_without), TEST(test_fault), TEST(test_jobs))
