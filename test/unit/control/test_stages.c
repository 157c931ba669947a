// SPDX-License-Identifier: Apache-2.0
// Control that data decides through every stage of the pipeline, for a CPU and for a device: what
// a stage made means what the traced graph means, verifies, and its text reads back as itself.
#include "test/support/tensors.h"

#include "backend_cuda/emit/target.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "lower/loop/loop.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/trace/trace.h"
#include "test/unit/control/programs.h"

#include <stdlib.h>
#include <string.h>

typedef struct sample_t {
  int64_t rows, width, k;
  bool flag;
} sample_t;

static const sample_t samples[] = {{3, 5, 2, true},  {3, 5, 0, false},  {1, 1, 1, true},
                                   {4, 0, 3, false}, {17, 33, 3, true}, {6, 2, 5, false}};
#define N_SAMPLES (sizeof(samples) / sizeof(samples[0]))

typedef struct check_t {
  const control_program_t *program;
  void *closure;
  dt_traced_t *traced;
  dt_tensor_t *inputs[N_SAMPLES][3];
  int64_t *symbols[N_SAMPLES];
  dt_eval_arg_t args[N_SAMPLES][3];
  dt_eval_value_t expected[N_SAMPLES][CONTROL_OUTPUTS];
  dt_arena_t arena;
  uint32_t stages;
} check_t;

// ---- Comparing ------------------------------------------------------------------------------------
static void check_outputs(const check_t *c, const char *stage, uint32_t s, void *const *outputs) {
  for (uint32_t k = 0; k < c->program->n_outputs; k++) {
    dt_eval_report_t report = {0};
    if (dt__eval_compare(&c->expected[s][k], outputs[k], NULL, &report))
      continue;
    dt_text_t text;
    dt__text_init(&text);
    dt__eval_report_print(&c->expected[s][k], &report, &text);
    fail_msg("%s after %s, sample %u, output %u: %s", c->program->name, stage, s, k,
             dt__text_str(&text));
  }
}

static void with_memory(check_t *c, uint32_t s, const dt_stage_view_t *view) {
  void *inputs[3], *outputs[CONTROL_OUTPUTS] = {NULL};
  for (uint32_t k = 0; k < 3; k++)
    inputs[k] = dt_tensor_data(c->inputs[s][k]);
  for (uint32_t k = 0; k < c->program->n_outputs; k++)
    outputs[k] = calloc((size_t)c->expected[s][k].count + 1, 8);
  dt_status_t status = NULL;
  if (view->program) {
    status = dt__program_interpret(view->program, c->symbols[s], inputs, outputs);
  } else {
    dt_eval_value_t got[CONTROL_OUTPUTS];
    status = dt__graph_eval(view->graph, c->symbols[s], c->args[s], NULL, &c->arena, got);
    for (uint32_t k = 0; !status && k < c->program->n_outputs; k++)
      for (int64_t i = 0; i < got[k].count; i++)
        dt__scalar_store(got[k].dtype, (char *)outputs[k] + (size_t)i * dt_dtype_size(got[k].dtype),
                         got[k].data[i]);
  }
  if (status)
    fail_msg("%s after %s, sample %u: %s", c->program->name, view->stage, s,
             dt_status_message(status));
  check_outputs(c, view->stage, s, outputs);
  for (uint32_t k = 0; k < c->program->n_outputs; k++)
    free(outputs[k]);
}

// Parses `text`, verifies and prints what was read.
static dt_status_t reprint(const char *text, bool program, dt_text_t *out) {
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_scan_t scan;
  dt_graph_t *graph = NULL;
  dt_program_t *loops = NULL;
  dt__arena_init(&arena, 0);
  dt__text_init(out);
  dt__scan_init(&scan, text, strlen(text), "text");
  dt_status_t status = dt__symenv_create(&env);
  if (!status)
    status = program ? dt__program_parse(&arena, env, &scan, &loops)
                     : dt__graph_parse(&arena, env, &scan, &graph);
  if (!status)
    status = program ? dt__program_verify(loops) : dt__graph_verify(graph);
  if (!status && program)
    dt__program_print(loops, out);
  else if (!status)
    dt__graph_print(graph, out);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

// Conditions of asserts may be answered by the ranges that a text states: then the second text is
// the one that lasts.
static void check_text(const check_t *c, const dt_stage_view_t *view) {
  dt_text_t texts[3];
  bool asserts = view->graph && view->graph->asserts.len;
  dt__text_init(&texts[0]);
  if (view->program)
    dt__program_print(view->program, &texts[0]);
  else
    dt__graph_print(view->graph, &texts[0]);
  for (int k = 0; k < 2; k++) {
    dt_status_t status = reprint(dt__text_str(&texts[k]), view->program != NULL, &texts[k + 1]);
    if (status)
      fail_msg("%s after %s: %s\n%s", c->program->name, view->stage, dt_status_message(status),
               dt__text_str(&texts[k]));
  }
  int first = asserts ? 1 : 0;
  if (strcmp(dt__text_str(&texts[first]), dt__text_str(&texts[first + 1])) != 0)
    fail_msg("%s after %s reads back as another text:\n%s", c->program->name, view->stage,
             dt__text_str(&texts[first + 1]));
  for (int k = 0; k < 3; k++)
    dt__text_fini(&texts[k]);
}

static void observe(void *user, const dt_stage_view_t *view) {
  check_t *c = user;
  c->stages++;
  for (uint32_t s = 0; s < N_SAMPLES; s++)
    if (c->symbols[s])
      with_memory(c, s, view);
  check_text(c, view);
}

// ---- A program ------------------------------------------------------------------------------------
static void make_samples(check_t *c) {
  rng_t rng = {17};
  for (uint32_t s = 0; s < N_SAMPLES; s++) {
    const int64_t sizes[2] = {samples[s].rows, samples[s].width};
    c->inputs[s][0] = tensor_f32(&rng, 2, sizes);
    c->inputs[s][1] = tensor_i64(0, NULL, &samples[s].k);
    c->inputs[s][2] = tensor_boolean(samples[s].flag);
    for (uint32_t k = 0; k < 3; k++)
      c->args[s][k] = (dt_eval_arg_t){.data = dt_tensor_data(c->inputs[s][k]),
                                      .sizes = dt_tensor_sizes(c->inputs[s][k]),
                                      .strides = dt_tensor_strides(c->inputs[s][k])};
  }
}

static void trace(check_t *c) {
  dt_guards_t *guards = NULL;
  dt_trace_request_t request = {.name = c->program->name,
                                .program = c->program->program,
                                .closure = c->closure,
                                .n_inputs = 3,
                                .n_outputs = c->program->n_outputs,
                                .inputs = control_inputs,
                                .example = c->inputs[0]};
  expect_ok(dt__trace_run(&request, &c->traced));
  expect_ok(dt__guards_create(c->traced->graph, c->traced->conds.items, c->traced->conds.len, NULL,
                              &guards));
  for (uint32_t s = 0; s < N_SAMPLES; s++) {
    c->symbols[s] = calloc(dt__guards_symbol_count(guards) + 4096, sizeof(int64_t));
    assert_true(dt__guards_run(guards, &(dt_guard_args_t){.inputs = c->inputs[s]}, c->symbols[s]));
    dt_eval_options_t options = {.error_bounds = true};
    dt_status_t status = dt__graph_eval(c->traced->graph, c->symbols[s], c->args[s], &options,
                                        &c->arena, c->expected[s]);
    if (!status)
      continue;
    // A walk over more rows than there are.
    if (dt_status_code(status) != DT_E_RANGE)
      fail_msg("%s, sample %u: %s", c->program->name, s, dt_status_message(status));
    dt_status_free(status);
    free(c->symbols[s]);
    c->symbols[s] = NULL;
  }
  dt__guards_destroy(guards);
}

static dt_target_t target_of(dt_device_t device) {
  dt_target_t target = {.device = DT_CPU,
                        .vector_bytes = 32,
                        .vector_registers = 16,
                        .fma = true,
                        .threads = 4,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20,
                        .matmul_rows = {6, 4},
                        .matmul_width = {16, 8}};
  const dt_cuda_model_t h200 = {
      .major = 9, .processors = 132, .shared_per_block = 227 << 10, .l2_bytes = 50 << 20};
  if (device != DT_CPU)
    expect_ok(dt__cuda_target(&h200, NULL, &target));
  return target;
}

static void check_on(const control_program_t *program, void *closure, dt_device_t device) {
  check_t c = {.program = program, .closure = closure};
  dt_target_t target = target_of(device);
  dt_symenv_t *env = NULL;
  dt_program_t *made = NULL;
  dt__arena_init(&c.arena, 0);
  make_samples(&c);
  trace(&c);
  expect_ok(dt__symenv_clone(c.traced->env, &env));
  dt_status_t status = dt__pipeline_run(
      &c.arena, env, c.traced->graph,
      &(dt_pipeline_request_t){.target = &target, .verify = true, .observe = observe, .user = &c},
      &made);
  if (status)
    fail_msg("%s: %s", program->name, dt_status_message(status));
  assert_true(c.stages > 10);
  dt__symenv_destroy(env);
  dt__traced_destroy(c.traced);
  for (uint32_t s = 0; s < N_SAMPLES; s++) {
    free(c.symbols[s]);
    for (uint32_t k = 0; k < 3; k++)
      dt_tensor_release(c.inputs[s][k]);
  }
  dt__arena_fini(&c.arena);
}

static void check_program(const control_program_t *program) {
  check_on(program, NULL, DT_CPU);
  check_on(program, NULL, DT_CUDA);
}

#define PROGRAM(name)                                                                              \
  static void name(void **state) {                                                                 \
    (void)state;                                                                                   \
    check_program(control_program(#name));                                                         \
  }
#define PROGRAMS                                                                                   \
  PROGRAM(branch)                                                                                  \
  PROGRAM(computed)                                                                                \
  PROGRAM(closures)                                                                                \
  PROGRAM(resized)                                                                                 \
  PROGRAM(nested)                                                                                  \
  PROGRAM(loop)                                                                                    \
  PROGRAM(updating)                                                                                \
  PROGRAM(ordering)                                                                                \
  PROGRAM(moving)                                                                                  \
  PROGRAM(exchange)                                                                                \
  PROGRAM(power)                                                                                   \
  PROGRAM(loops_in_loops)                                                                          \
  PROGRAM(loop_in_branch)                                                                          \
  PROGRAM(sized)                                                                                   \
  PROGRAM(counting)                                                                                \
  PROGRAM(gathering)                                                                               \
  PROGRAM(flipping)                                                                                \
  PROGRAM(lasting)                                                                                 \
  PROGRAM(choice)                                                                                  \
  PROGRAM(choices)                                                                                 \
  PROGRAM(choosing)                                                                                \
  PROGRAM(layers)                                                                                  \
  PROGRAM(turning)                                                                                 \
  PROGRAM(calls_in_calls)
PROGRAMS
#undef PROGRAM

static void at_random(void **state) {
  (void)state;
  const char *seeds = getenv("CONTROL_SEEDS"); // how many; the long form
  uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 12;
  for (control_seed_t seed = {1}; seed.seed <= n; seed.seed++) {
    print_message("seed %llu\n", (unsigned long long)seed.seed);
    check_on(&control_random, &seed, seed.seed % 2 ? DT_CPU : DT_CUDA);
  }
}

// ---- Calls of one body ------------------------------------------------------------------------------
typedef struct deep_t {
  int layers;
  uint32_t kernels, loops; // at the end: kernels, and different loops that they begin with
} deep_t;

static dt_status_t deep_layer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[0], 0, 1));
  out[0] = dt_tanh(t, dt_matmul(t, dt_softmax(t, scores, 1), in[0]));
  return NULL;
}

static dt_status_t deep(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const deep_t *d = closure;
  out[0] = dt_exp(t, dt_neg(t, dt_abs(t, in[0])));
  for (int k = 0; k < d->layers; k++)
    dt_subgraph(t, deep_layer, NULL, 1, out, 1, 0, out);
  out[0] = dt_mul(t, out[0], out[0]);
  return NULL;
}

// Copies of a kernel have its loops.
static void count_loops(void *user, const dt_stage_view_t *view) {
  deep_t *d = user;
  if (strcmp(view->stage, "plan") != 0)
    return;
  d->kernels = view->program->kernels.len;
  for (uint32_t k = 0; k < d->kernels; k++) {
    uint32_t first = view->program->kernels.items[k].vars[0].id, same = 0;
    while (view->program->kernels.items[same].vars[0].id != first)
      same++;
    d->loops += same == k;
  }
}

static deep_t deep_program(dt_device_t device, int layers) {
  deep_t d = {.layers = layers};
  const control_program_t program = {"deep", deep, 1};
  check_t c = {.program = &program, .closure = &d};
  dt_target_t target = target_of(device);
  dt_symenv_t *env = NULL;
  dt_program_t *made = NULL;
  dt__arena_init(&c.arena, 0);
  dt_trace_request_t request = {.name = "deep",
                                .program = deep,
                                .closure = &d,
                                .n_inputs = 3,
                                .n_outputs = 1,
                                .inputs = control_inputs};
  expect_ok(dt__trace_run(&request, &c.traced));
  expect_ok(dt__symenv_clone(c.traced->env, &env));
  expect_ok(dt__pipeline_run(
      &c.arena, env, c.traced->graph,
      &(dt_pipeline_request_t){.target = &target, .observe = count_loops, .user = &d}, &made));
  dt__symenv_destroy(env);
  dt__traced_destroy(c.traced);
  dt__arena_fini(&c.arena);
  return d;
}

// Sliced (CPUs) and chained kernels (devices), too.
static void calls_are_fused_once(void **state) {
  (void)state;
  for (int device = 0; device < 2; device++) {
    deep_t few = deep_program(device ? DT_CUDA : DT_CPU, 3);
    deep_t many = deep_program(device ? DT_CUDA : DT_CPU, 11);
    assert_int_equal(many.kernels - few.kernels, 8 * ((few.kernels - 2) / 3));
    assert_int_equal(many.loops, few.loops);
    assert_true(few.loops < few.kernels);
  }
}

int main(void) {
#define PROGRAM(name) TEST(name),
  const struct CMUnitTest tests[] = {PROGRAMS TEST(at_random), TEST(calls_are_fused_once)};
#undef PROGRAM
  assert_int_equal(sizeof(tests) / sizeof(tests[0]), n_control_programs + 2);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
