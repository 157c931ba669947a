// SPDX-License-Identifier: Apache-2.0
// Calls of programs whose control data decides, by compiled code against the evaluator: both ways,
// no trip, one and many, at sizes from 0 on. With DUCTILE_CUDA set the compiled calls are made on
// that device.
#include "test/support/subjects.h"

#include "ductile/ir.h"
#include "ductile/pass.h"
#include "test/unit/control/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *own;
  bool device;
  rng_t rng;
} place_t;

static place_t open_place(void) {
  const char *cuda = getenv("DUCTILE_CUDA");
  place_t place = {.rng = {41}, .device = cuda && cuda[0]};
  fixture_t own = fixture_on(place.device ? DT_CUDA : DT_CPU, 3);
  place.runtime = own.runtime;
  place.own = own.session;
  place.host = session_of(place.runtime);
  return place;
}

static void close_place(place_t *place) {
  dt_session_destroy(place->own);
  dt_session_destroy(place->host);
  dt_runtime_release(place->runtime);
}

static dt_tensor_t *moved(place_t *place, dt_tensor_t *tensor, bool there) {
  if (!place->device)
    return tensor_from(dt_tensor_dtype(tensor), dt_tensor_rank(tensor), dt_tensor_sizes(tensor),
                       dt_tensor_data(tensor));
  return there ? tensor_upload(place->own, tensor) : tensor_download(place->own, tensor);
}

static void make_inputs(place_t *place, int64_t rows, int64_t width, int64_t k, bool flag,
                        dt_tensor_t **out) {
  out[0] = tensor_f32(&place->rng, 2, SIZES(rows, width));
  out[1] = tensor_i64(0, NULL, &k);
  out[2] = tensor_boolean(flag);
}

static void release(dt_tensor_t **tensors, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_release(tensors[k]);
    tensors[k] = NULL;
  }
}

static dt_function_t *function_of_program(place_t *place, const control_program_t *program,
                                          void *closure, dt_answer_t answer) {
  subject_t subject = {program->name, program->program, 3, program->n_outputs, control_inputs};
  return subject_function(place->runtime, &subject, closure, answer);
}

static dt_function_t *function(place_t *place, const char *name, dt_answer_t answer) {
  return function_of_program(place, control_program(name), NULL, answer);
}

static void expect_same(dt_tensor_t *got, dt_tensor_t *want, const char *what) {
  assert_int_equal(dt_tensor_dtype(got), dt_tensor_dtype(want));
  if (dt_tensor_dtype(want) == DT_F32) {
    expect_close(got, want, 2e-5, 2e-4, what);
    return;
  }
  assert_int_equal(dt_tensor_count(got), dt_tensor_count(want));
  assert_memory_equal(dt_tensor_data(got), dt_tensor_data(want),
                      (size_t)dt_tensor_count(want) * dt_dtype_size(dt_tensor_dtype(want)));
}

typedef struct pair_t {
  const char *name;
  uint32_t n_outputs;
  dt_function_t *compiled, *evaluated;
} pair_t;

static void compare(place_t *place, const pair_t *pair, dt_tensor_t **inputs) {
  dt_tensor_t *there[3], *got[CONTROL_OUTPUTS] = {0}, *want[CONTROL_OUTPUTS] = {0};
  for (uint32_t k = 0; k < 3; k++)
    there[k] = moved(place, inputs[k], true);
  expect_ok(dt_call(place->host, pair->evaluated, inputs, 3, want, pair->n_outputs, NULL));
  expect_ok(dt_call(place->own, pair->compiled, there, 3, got, pair->n_outputs, NULL));
  for (uint32_t k = 0; k < pair->n_outputs; k++) {
    dt_tensor_t *back = moved(place, got[k], false);
    expect_same(back, want[k], pair->name);
    dt_tensor_release(back);
  }
  expect_ok(dt_session_wait(place->own));
  release(there, 3);
  release(got, pair->n_outputs);
  release(want, pair->n_outputs);
}

static void run(const char *name) {
  place_t place = open_place();
  pair_t pair = {name, control_program(name)->n_outputs, function(&place, name, compiled_answer()),
                 function(&place, name, DT_ANSWER_EVALUATOR)};
  const int64_t sizes[][2] = {{3, 5}, {1, 1}, {0, 4}, {5, 0}, {7, 33}, {2, 1}, {40, 17}};
  const int64_t counts[] = {0, 1, 2, 5};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
    for (size_t k = 0; k < 4; k++) {
      dt_tensor_t *inputs[3];
      int64_t rows = sizes[s][0];
      // A walk over rows ends with the last one.
      int64_t count = strcmp(name, "gathering") == 0 && counts[k] > rows ? rows : counts[k];
      make_inputs(&place, rows, sizes[s][1], count, (s + k) % 2 == 0, inputs);
      compare(&place, &pair, inputs);
      release(inputs, 3);
    }
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(variants_of(pair.compiled), 1);
  dt_function_release(pair.compiled);
  dt_function_release(pair.evaluated);
  close_place(&place);
}

#define PROGRAM(name)                                                                              \
  static void name(void **state) {                                                                 \
    (void)state;                                                                                   \
    run(#name);                                                                                    \
  }
#define PROGRAMS                                                                                   \
  PROGRAM(branch)                                                                                  \
  PROGRAM(computed)                                                                                \
  PROGRAM(closures)                                                                                \
  PROGRAM(resized)                                                                                 \
  PROGRAM(nested)                                                                                  \
  PROGRAM(loop)                                                                                    \
  PROGRAM(exchange)                                                                                \
  PROGRAM(power)                                                                                   \
  PROGRAM(loops_in_loops)                                                                          \
  PROGRAM(loop_in_branch)                                                                          \
  PROGRAM(sized)                                                                                   \
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

// A check that fails in a body ends the call, also where its loop would go on for ever; nothing of
// it is left for the next call.
static void checks_in_bodies(void **state) {
  (void)state;
  place_t place = open_place();
  pair_t pair = {"gathering", 2, function(&place, "gathering", compiled_answer()),
                 function(&place, "gathering", DT_ANSWER_EVALUATOR)};
  for (int64_t k = 3; k < 6; k++) {
    dt_tensor_t *inputs[3], *there[3], *out[2] = {0};
    make_inputs(&place, 3, 4, k, true, inputs);
    if (k == 3) {
      compare(&place, &pair, inputs);
      release(inputs, 3);
      continue;
    }
    for (uint32_t i = 0; i < 3; i++)
      there[i] = moved(&place, inputs[i], true);
    dt_status_t status = dt_call(place.own, pair.compiled, there, 3, out, 2, NULL);
    if (!status)
      status = dt_session_wait(place.own);
    expect_told(status, DT_E_RANGE, "[-3, 3)");
    release(out, 2);
    expect_code(dt_call(place.host, pair.evaluated, inputs, 3, out, 2, NULL), DT_E_RANGE);
    release(inputs, 3);
    release(there, 3);
  }
  dt_function_release(pair.compiled);
  dt_function_release(pair.evaluated);
  close_place(&place);
}

// As far as x is long: an index outside gives 0, with which the loop would never end.
static dt_status_t stuck_test(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[1]);
  return NULL;
}
static dt_status_t stuck_step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_gather(t, in[2], in[0], 0));
  return NULL;
}
static dt_status_t stuck(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t rows = dt_dim(t, in[0], 0);
  dt_value_t captured[2] = {in[1], dt_full(t, DT_I64, 1, 1, &rows)};
  dt_value_t first = dt_scalar(t, DT_I64, 0);
  dt_while(t, stuck_test, stuck_step, closure, 1, &first, 2, captured, out);
  return NULL;
}

static void a_failed_check_ends_its_loop(void **state) {
  (void)state;
  place_t place = open_place();
  const control_program_t program = {"stuck", stuck, 1};
  dt_function_t *f = function_of_program(&place, &program, NULL, compiled_answer());
  for (int64_t k = 4; k < 7; k++) {
    dt_tensor_t *inputs[3], *there[3], *out = NULL;
    make_inputs(&place, 5, 1, k, true, inputs);
    for (uint32_t i = 0; i < 3; i++)
      there[i] = moved(&place, inputs[i], true);
    dt_status_t status = dt_call(place.own, f, there, 3, &out, 1, NULL);
    if (!status)
      status = dt_session_wait(place.own);
    if (k == 6) {
      expect_told(status, DT_E_RANGE, "[-5, 5)");
    } else {
      expect_ok(status);
      dt_tensor_t *back = moved(&place, out, false);
      assert_int_equal(*(int64_t *)dt_tensor_data(back), k);
      dt_tensor_release(back);
    }
    dt_tensor_release(out);
    release(inputs, 3);
    release(there, 3);
  }
  dt_function_release(f);
  close_place(&place);
}

// What the host reads to decide is counted.
static void readbacks_are_counted(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *f = function(&place, "loop", compiled_answer());
  dt_tensor_t *inputs[3], *there[3], *out[2] = {0};
  make_inputs(&place, 2, 3, 4, true, inputs);
  for (uint32_t i = 0; i < 3; i++)
    there[i] = moved(&place, inputs[i], true);
  expect_ok(dt_call(place.own, f, there, 3, out, 2, NULL));
  uint64_t before = stats_of(f).readbacks;
  release(out, 2);
  expect_ok(dt_call(place.own, f, there, 3, out, 2, NULL));
  bool reads = place.device && stats_of(f).graph_calls == 0; // a graph decides by itself
  assert_int_equal(stats_of(f).readbacks - before, reads ? 5 : 0);
  release(out, 2);
  release(inputs, 3);
  release(there, 3);
  dt_function_release(f);
  close_place(&place);
}

// Numbers below the first case are taken as the first, those beyond the last as the last. One
// question a call, or a node of the graph.
static void every_case(void **state) {
  (void)state;
  place_t place = open_place();
  pair_t pair = {"choice", 1, function(&place, "choice", compiled_answer()),
                 function(&place, "choice", DT_ANSWER_EVALUATOR)};
  static const int64_t numbers[] = {0, 1, 2, 3, 4, 5, 255, 256, -1, INT64_MIN, INT64_MAX, 2};
  uint64_t n = sizeof(numbers) / sizeof(numbers[0]);
  for (uint64_t k = 0; k < n; k++) {
    dt_tensor_t *inputs[3];
    make_inputs(&place, 3, 4 + (int64_t)k % 3, numbers[k], false, inputs);
    compare(&place, &pair, inputs);
    release(inputs, 3);
  }
  dt_function_counters_t stats = stats_of(pair.compiled);
  assert_int_equal(stats.variants, 1);
  assert_int_equal(stats.graph_skips, 0);
  assert_int_equal(stats.readbacks, place.device && stats.graph_calls == 0 ? n : 0);
  dt_function_release(pair.compiled);
  dt_function_release(pair.evaluated);
  close_place(&place);
}

// A body that calls share is one in text, when that is replayed, and to passes of users.
static dt_status_t count_bodies(dt_rewriter_t *rewriter, void *closure) {
  *(int *)closure += dt_rewriter_depth(rewriter) > 0;
  return NULL;
}

static void calls_from_text(void **state) {
  static const char text[] = "graph (s0: [0, 1000]) {\n"
                             "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                             "  %2 = call %1 body {\n"
                             "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                             "    %2 = add %1, %1 : f32[s0]\n"
                             "    return %2\n"
                             "  } : bool[]\n"
                             "  %3 = result %2 {index = 0} : f32[s0]\n"
                             "  %4 = call %3 again %2 : bool[]\n"
                             "  %5 = result %4 {index = 0} : f32[s0]\n"
                             "  %6 = call %5 again %4 : bool[]\n"
                             "  %7 = result %6 {index = 0} : f32[s0]\n"
                             "  return %7\n"
                             "}\n";
  (void)state;
  fixture_t fixture = fixture_on(DT_CPU, 2);
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "calls", .answer = compiled_answer()};
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "count"};
  dt_function_t *f = NULL;
  dt_tensor_t *out = NULL;
  int bodies = 0;
  expect_ok(dt_runtime_add_pass(fixture.runtime, DT_POINT_TRACED, count_bodies, &bodies, &pass));
  expect_ok(
      dt_function_create_from_ir(fixture.runtime, text, strlen(text), "calls.dtt", &options, &f));
  for (int64_t n = 0; n < 4; n++) {
    dt_tensor_t *x = tensor_full(1.5f, 1, &n);
    expect_ok(dt_call(fixture.session, f, &x, 1, &out, 1, NULL));
    assert_int_equal(dt_tensor_count(out), n);
    for (int64_t k = 0; k < n; k++)
      assert_float_equal(((float *)dt_tensor_data(out))[k], 12, 0);
    dt_tensor_release(out);
    dt_tensor_release(x);
    out = NULL;
  }
  assert_int_equal(bodies, 1);
  dt_function_release(f);
  fixture_end(&fixture);
}

static void at_random(void **state) {
  (void)state;
  const char *seeds = getenv("CONTROL_SEEDS"); // how many; the long form
  uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 8;
  place_t place = open_place();
  for (control_seed_t seed = {1}; seed.seed <= n; seed.seed++) {
    char name[32];
    snprintf(name, sizeof(name), "seed %llu", (unsigned long long)seed.seed);
    pair_t pair = {name, control_random.n_outputs,
                   function_of_program(&place, &control_random, &seed, compiled_answer()),
                   function_of_program(&place, &control_random, &seed, DT_ANSWER_EVALUATOR)};
    const int64_t sizes[][2] = {{3, 5}, {1, 1}, {0, 4}, {5, 0}, {17, 20}};
    for (int64_t k = 0; k < 5; k++) {
      dt_tensor_t *inputs[3];
      make_inputs(&place, sizes[k][0], sizes[k][1], k, false, inputs);
      compare(&place, &pair, inputs);
      release(inputs, 3);
    }
    dt_function_release(pair.compiled);
    dt_function_release(pair.evaluated);
  }
  close_place(&place);
}

int main(void) {
#define PROGRAM(name) TEST(name),
  const struct CMUnitTest tests[] = {
      PROGRAMS TEST(checks_in_bodies), TEST(a_failed_check_ends_its_loop),
      TEST(readbacks_are_counted),     TEST(every_case),
      TEST(calls_from_text),           TEST(at_random)};
#undef PROGRAM
  if (getenv("CONTROL_ONLY")) // some of them, by name
    cmocka_set_test_filter(getenv("CONTROL_ONLY"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
