// SPDX-License-Identifier: Apache-2.0
// The host program of a device: what its frame is asked, and what it is told, in which order.
// Kernels are never run, so a script says what predicates are.
#include "test/support/tensors.h"

#include "backend_cuda/emit/target.h"
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "backend_llvm/load/native.h"
#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/compile/compile.h"
#include "runtime/trace/trace.h"
#include "test/unit/control/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct host_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_traced_t *traced;
  dt_native_t *native;
  int64_t *symbols;
  uint32_t n_codes;
  dt_host_plan_fn_t plan;
  dt_host_run_fn_t run;
  dt_tensor_t *inputs[3];
} host_t;

// A frame that writes down what it hears: marks, kernels ('a' is code 0), '?' for a question.
typedef struct frame_t {
  dt_frame_t frame; // first
  char codes[64];   // fn of code k is &codes[k]
  char log[512];
  const char *script; // answers
} frame_t;

static void note(frame_t *own, char what) {
  size_t len = strlen(own->log);
  assert_true(len + 1 < sizeof(own->log));
  own->log[len] = what;
}

static void launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                   int64_t grain) {
  frame_t *own = (frame_t *)(void *)frame;
  const char *code = NULL;
  memcpy(&code, &fn, sizeof(code));
  (void)words, (void)grain;
  assert_true(count > 0);
  note(own, (char)('a' + (code - own->codes)));
}

static int64_t read_flag(dt_frame_t *frame, const void *predicate) {
  frame_t *own = (frame_t *)(void *)frame;
  assert_non_null(predicate);
  assert_in_range(*own->script, '0', '9');
  note(own, '?');
  return *own->script++ - '0';
}

static void region(dt_frame_t *frame, int64_t mark, const void *predicate) {
  assert_non_null(predicate);
  int64_t kind = mark & ((1 << DT_MARK_CASES) - 1);
  assert_in_range(kind, DT_MARK_IF, DT_MARK_ENDSWITCH);
  assert_int_equal(mark >> DT_MARK_CASES, kind == DT_MARK_SWITCH ? 5 : 0);
  note((frame_t *)(void *)frame, "IEFWASCD"[kind]);
}

// ---- Making -----------------------------------------------------------------------------------------
static void *find(const host_t *h, const char *name) {
  void *at = dt__native_symbol(h->native, name);
  assert_non_null(at);
  return at;
}

static void compile(host_t *h) {
  const dt_cuda_model_t h200 = {
      .major = 9, .processors = 132, .shared_per_block = 227 << 10, .l2_bytes = 50 << 20};
  dt_target_t host, target;
  dt_program_t *program = NULL;
  dt_unit_map_t map;
  dt_compile_options_t options = {.verify = true};
  void *object = NULL;
  size_t bytes = 0;
  expect_ok(dt__host_target("", 1, &host));
  expect_ok(dt__cuda_target(&h200, &host, &target));
  expect_ok(dt__symenv_clone(h->traced->env, &h->env));
  expect_ok(dt__pipeline_run(&h->arena, h->env, h->traced->graph,
                             &(dt_pipeline_request_t){.target = &target, .verify = true},
                             &program));
  expect_ok(dt__llvm_split(program, &target, 2, DT_UNIT_WORK_ANY, &map));
  assert_true(map.n_codes < 26);
  h->n_codes = map.n_codes;
  expect_ok(
      dt__llvm_compile_unit(program, &map, map.n_units - 1, &target, &options, &object, &bytes));
  expect_ok(dt__native_load(object, bytes, &h->native));
  dt__free(object);
  void *plan = find(h, "dt_plan_0"), *run = find(h, "dt_run_0");
  memcpy(&h->plan, &plan, sizeof(plan));
  memcpy(&h->run, &run, sizeof(run));
}

static void open_host(host_t *h, const char *name) {
  const control_program_t *program = control_program(name);
  const int64_t sizes[2] = {3, 5}, k = 2;
  rng_t rng = {7};
  dt_guards_t *guards = NULL;
  memset(h, 0, sizeof(*h));
  dt__arena_init(&h->arena, 0);
  h->inputs[0] = tensor_f32(&rng, 2, sizes);
  h->inputs[1] = tensor_i64(0, NULL, &k);
  expect_ok(dt_tensor_create_empty(DT_BOOL, 0, NULL, &h->inputs[2]));
  *(bool *)dt_tensor_data(h->inputs[2]) = false;
  dt_trace_request_t request = {.name = name,
                                .program = program->program,
                                .n_inputs = 3,
                                .n_outputs = program->n_outputs,
                                .inputs = control_inputs,
                                .example = h->inputs};
  expect_ok(dt__trace_run(&request, &h->traced));
  expect_ok(dt__guards_create(h->traced->graph, h->traced->conds.items, h->traced->conds.len, NULL,
                              &guards));
  h->symbols = calloc(dt__guards_symbol_count(guards) + 4096, sizeof(int64_t));
  assert_true(dt__guards_run(guards, &(dt_guard_args_t){.inputs = h->inputs}, h->symbols));
  dt__guards_destroy(guards);
  compile(h);
}

static void close_host(host_t *h) {
  dt__native_unload(h->native);
  dt__symenv_destroy(h->env);
  dt__traced_destroy(h->traced);
  for (int k = 0; k < 3; k++)
    dt_tensor_release(h->inputs[k]);
  free(h->symbols);
  dt__arena_fini(&h->arena);
}

// What a frame hears; with a script it is asked, without one told.
static void hear(host_t *h, const char *script, char *out) {
  frame_t own = {.script = script};
  char memory[64] = {0};
  void *inputs[3] = {memory, memory, memory}, *outputs[CONTROL_OUTPUTS] = {memory, memory, memory};
  int64_t sizes[2 * CONTROL_OUTPUTS];
  dt_kernel_fn_t kernels[26];
  for (uint32_t k = 0; k < h->n_codes; k++) {
    const char *code = &own.codes[k];
    memcpy(&kernels[k], &code, sizeof(code));
  }
  own.frame = (dt_frame_t){.symbols = h->symbols,
                           .inputs = inputs,
                           .outputs = outputs,
                           .kernels = kernels,
                           .output_sizes = sizes,
                           .block = memory,
                           .launch = launch,
                           .read_flag = read_flag,
                           .region = script ? NULL : region};
  assert_int_equal(h->plan(&own.frame), 0);
  h->run(&own.frame);
  if (script)
    assert_int_equal(*own.script, '\0');
  memcpy(out, own.log, sizeof(own.log));
}

// ---- Tests ------------------------------------------------------------------------------------------
// Kernels between two characters of `log`, which appear in this order from *at on.
static const char *next(const char **at, char end, char *out) {
  size_t n = 0;
  while (**at && **at != end) {
    assert_true(**at >= 'a' && **at <= 'z');
    out[n++] = *(*at)++;
  }
  assert_int_equal(**at, end);
  *at += end != '\0';
  out[n] = '\0';
  return out;
}

static void branches(void **state) {
  (void)state;
  host_t h;
  char told[512], heard[512], want[1024], part[4][64];
  open_host(&h, "branch");
  hear(&h, NULL, told);
  const char *at = told;
  next(&at, 'I', part[0]);
  next(&at, 'E', part[1]);
  next(&at, 'F', part[2]);
  next(&at, '\0', part[3]);
  assert_true(part[1][0] && part[2][0]);
  for (int way = 0; way < 2; way++) {
    snprintf(want, sizeof(want), "%s?%s%s", part[0], part[way ? 1 : 2], part[3]);
    hear(&h, way ? "1" : "0", heard);
    assert_string_equal(heard, want);
  }
  close_host(&h);
}

// while { if odd { while … } else … }
static void loops(void **state) {
  (void)state;
  host_t h;
  char told[512], heard[512], want[1024], p[8][64];
  open_host(&h, "loops_in_loops");
  hear(&h, NULL, told);
  const char *at = told;
  next(&at, 'W', p[0]);
  next(&at, 'I', p[1]);
  next(&at, 'W', p[2]);
  next(&at, 'A', p[3]);
  next(&at, 'E', p[4]);
  next(&at, 'F', p[5]);
  next(&at, 'A', p[6]);
  next(&at, '\0', p[7]);
  hear(&h, "0", heard);
  snprintf(want, sizeof(want), "%s?%s", p[0], p[7]);
  assert_string_equal(heard, want);
  // A trip of the else branch, then one whose inner loop makes two.
  hear(&h,
       "10"
       "11110"
       "0",
       heard);
  snprintf(want, sizeof(want), "%s?%s?%s%s?%s?%s?%s?%s?%s%s?%s", p[0], p[1], p[5], p[6], p[1], p[2],
           p[3], p[3], p[4], p[6], p[7]);
  assert_string_equal(heard, want);
  close_host(&h);
}

// switch { … case … case … case … case … }; a number beyond the last is the last's.
static void switches(void **state) {
  (void)state;
  host_t h;
  char told[512], heard[512], want[1024], part[7][64];
  open_host(&h, "choice");
  hear(&h, NULL, told);
  const char *at = told;
  next(&at, 'S', part[0]);
  for (int k = 1; k < 5; k++)
    next(&at, 'C', part[k]);
  next(&at, 'D', part[5]);
  next(&at, '\0', part[6]);
  assert_true(part[1][0] && part[2][0] && part[5][0]);
  for (int way = 0; way < 8; way++) {
    char script[2] = {(char)('0' + way), '\0'};
    snprintf(want, sizeof(want), "%s?%s%s", part[0], part[way < 4 ? 1 + way : 5], part[6]);
    hear(&h, script, heard);
    assert_string_equal(heard, want);
  }
  close_host(&h);
}

RUN_TESTS(TEST(branches), TEST(loops), TEST(switches))
