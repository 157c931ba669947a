// SPDX-License-Identifier: Apache-2.0
// Text has all that code generation reads: graphs of the golden tests, planned for CPUs and GPUs,
// give the same bytes whether their units are compiled as they are or from what is read back.
// usage: [full]: every graph under every target, instead of every fourth under one by turns.
#include "test/support/check.h"

#include "backend_cuda/emit/emit.h"
#include "backend_cuda/emit/target.h"
#include "backend_llvm/host/target.h"
#include "ductile/device.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/worker_text.h"
#include "tools/opt_file.h"

#include <glob.h>
#include <string.h>

#define EVERY 4           // golden
#define LEAST_PROGRAMS 22 // of the goldens taken

static bool full;

typedef struct tally_t {
  uint32_t programs, units;
  size_t text_bytes, object_bytes;
} tally_t;

// Both texts from a little before they part.
static void same_text(const char *a, const char *b, const char *what) {
  size_t at = 0;
  while (a[at] && a[at] == b[at])
    at++;
  size_t from = at > 100 ? at - 100 : 0;
  if (a[at] || b[at])
    fail_msg("%s: text is read back as another:\n%.300s\n----\n%.300s", what, a + from, b + from);
}

// ---- One program ------------------------------------------------------------------------------------
static void compile(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit,
                    const dt_target_t *target, const dt_compile_options_t *options, void **out,
                    size_t *out_bytes) {
  if (target->device == DT_CUDA && unit + 1 < map->n_units) {
    char *text = NULL;
    expect_ok(dt__cuda_compile_unit(program, map, unit, target, options, &text, out_bytes));
    *out = text;
    return;
  }
  expect_ok(dt__llvm_compile_unit(program, map, unit, target, options, out, out_bytes));
}

static void compare_units(const dt_program_t *program, const dt_unit_map_t *map,
                          const dt_target_t *target, const dt_compile_options_t *options,
                          const dt_worker_job_t *job, const char *what, tally_t *tally) {
  for (uint32_t unit = 0; unit < map->n_units; unit++) {
    void *here = NULL, *there = NULL;
    size_t here_bytes = 0, there_bytes = 0;
    compile(program, map, unit, target, options, &here, &here_bytes);
    compile(job->program, &job->map, unit, &job->target, &job->options, &there, &there_bytes);
    if (here_bytes != there_bytes || memcmp(here, there, here_bytes) != 0)
      fail_msg("%s: unit %u of %u for %s differs: %zu and %zu bytes", what, unit, map->n_units,
               target->cpu, here_bytes, there_bytes);
    dt__free(here);
    dt__free(there);
    tally->units++;
    tally->object_bytes += here_bytes;
  }
}

static void check_program(dt_program_t *program, const dt_target_t *target, const char *what,
                          tally_t *tally) {
  dt_unit_map_t map;
  expect_ok(dt__llvm_split(program, target, 3, DT_UNIT_WORK, &map));
  dt_compile_options_t options = {.verify = true};
  dt_text_t text, again;
  dt__text_init(&text);
  dt__text_init(&again);
  expect_ok(dt__worker_program_write(program, &map, target, &options, &text));
  dt_worker_job_t job;
  dt_scan_t scan;
  dt__scan_init(&scan, dt__text_str(&text), text.len, what);
  expect_ok(dt__worker_job_read(&scan, &job));
  // The text of what was read is the text.
  expect_ok(dt__worker_program_write(job.program, &job.map, &job.target, &job.options, &again));
  same_text(dt__text_str(&text), dt__text_str(&again), what);
  compare_units(program, &map, target, &options, &job, what, tally);
  tally->programs++;
  tally->text_bytes += text.len;
  dt__worker_job_fini(&job);
  dt__text_fini(&text);
  dt__text_fini(&again);
}

static void check_graph(const char *text, const dt_target_t *target, const char *what,
                        tally_t *tally) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_symenv_t *env = NULL;
  dt_graph_t *graph = NULL;
  dt_program_t *program = NULL;
  dt_scan_t scan;
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, text, strlen(text), what);
  dt_status_t status = dt__graph_parse(&arena, env, &scan, &graph);
  if (!status) { // what a golden test expects to be refused is none of ours
    dt__symenv_freeze(env);
    status =
        dt__pipeline_run(&arena, env, graph, &(dt_pipeline_request_t){.target = target}, &program);
  }
  if (!status)
    check_program(program, target, what, tally);
  dt_status_free(status);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

// ---- All of them ------------------------------------------------------------------------------------
#define MOST_TARGETS 4

static uint32_t make_targets(dt_target_t *out) {
  static const dt_cuda_model_t models[] = {{8, 0, 108, 163 << 10, 40 << 20},
                                           {9, 0, 132, 227 << 10, 50 << 20}};
  expect_ok(dt__host_target("x86-64-v3", 4, &out[0]));
  expect_ok(dt__host_target("", 2, &out[1]));
  expect_ok(dt__cuda_target(&models[0], &out[0], &out[2]));
  expect_ok(dt__cuda_target(&models[1], &out[1], &out[3]));
  out[1].strict_fp = out[3].strict_fp = true;
  return MOST_TARGETS;
}

static void check_file(const char *path, size_t number, const dt_target_t *targets, uint32_t n,
                       tally_t *tally) {
  opt_file_t file;
  if (!full && number % EVERY)
    return;
  expect_ok(opt_file_read(path, &file));
  for (uint32_t k = 0; k < n; k++)
    if (full || k == number / EVERY % n)
      check_graph(file.in, &targets[k], path, tally);
  opt_file_fini(&file);
}

static void test_goldens(void **state) {
  (void)state;
  dt_target_t targets[MOST_TARGETS];
  uint32_t n = make_targets(targets);
  glob_t found;
  tally_t tally = {0};
  assert_int_equal(glob("test/golden/*/*.dtt", 0, NULL, &found), 0);
  for (size_t k = 0; k < found.gl_pathc; k++)
    check_file(found.gl_pathv[k], k, targets, n, &tally);
  globfree(&found);
  print_message("%u programs, %u units, %zu bytes of text, %zu of objects: the same bytes\n",
                tally.programs, tally.units, tally.text_bytes, tally.object_bytes);
  assert_true(tally.programs >= LEAST_PROGRAMS);
}

// ---- Text that is none ------------------------------------------------------------------------------
// Cut anywhere, or with any character changed, it is a status or a job, never more.
static void try_text(const char *data, size_t len) {
  dt_worker_job_t job;
  dt_scan_t scan;
  dt__scan_init(&scan, data, len, "job");
  dt_status_free(dt__worker_job_read(&scan, &job));
  dt__worker_job_fini(&job);
}

static void test_damaged(void **state) {
  (void)state;
  static const char graph[] = "graph (s0: [2, 1000], s1: [0, 4096]) {\n"
                              "  %1 = input \"x\" f32[s0, s1] strides [s1, 1] contiguous\n"
                              "  %2 = softmax %1 {axes = [1]} : f32[s0, s1]\n"
                              "  return %2\n}\n";
  dt_target_t target;
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_graph_t *parsed = NULL;
  dt_program_t *program = NULL;
  dt_unit_map_t map;
  dt_scan_t scan;
  dt_text_t text;
  dt__arena_init(&arena, 0);
  expect_ok(dt__host_target("x86-64-v3", 4, &target));
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, graph, strlen(graph), "graph");
  expect_ok(dt__graph_parse(&arena, env, &scan, &parsed));
  dt__symenv_freeze(env);
  expect_ok(dt__pipeline_run(
      &arena, env, parsed, &(dt_pipeline_request_t){.target = &target, .verify = true}, &program));
  expect_ok(dt__llvm_split(program, &target, 2, DT_UNIT_WORK, &map));
  dt_compile_options_t options = {.verify = true};
  dt__text_init(&text);
  expect_ok(dt__worker_program_write(program, &map, &target, &options, &text));
  char *copy = dt__alloc(text.len);
  assert_non_null(copy);
  for (size_t at = 0; at < text.len; at++) {
    try_text(dt__text_str(&text), at);
    memcpy(copy, dt__text_str(&text), text.len);
    copy[at] = (char)('0' + (at * 7 + 3) % 75);
    try_text(copy, text.len);
  }
  dt__free(copy);
  dt__text_fini(&text);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

int main(int argc, char **argv) {
  full = argc > 1 && strcmp(argv[1], "full") == 0;
  const struct CMUnitTest tests[] = {TEST(test_goldens), TEST(test_damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
