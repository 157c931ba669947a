// SPDX-License-Identifier: Apache-2.0
// Small maps that have nothing to do with each other share launches on a device. Answers are those
// of the evaluator, to the bit where no sum is in them: launched kernel by kernel and as a graph,
// over sizes of 0, 1 and more, which are the call's own.
#include "test/support/subjects.h"

#include <stdio.h>

enum { MANY = 200, FEW = 12, ARGUMENTS = 40 };

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  rng_t rng;
} place_t;

static place_t open_place(void) {
  place_t place = {.rng = {38}};
  fixture_t there = fixture_on(DT_CUDA, 1);
  place.runtime = there.runtime;
  place.device = there.session;
  place.host = session_of(place.runtime);
  return place;
}

static void close_place(place_t *place) {
  dt_session_destroy(place->device);
  dt_session_destroy(place->host);
  dt_runtime_release(place->runtime);
}

// ---- Programs -------------------------------------------------------------------------------------
#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

static dt_value_t number(dt_trace_t *t, double value) { return dt_scalar(t, DT_F32, value); }

// A map of its own kind for each of several.
static dt_value_t map_of(dt_trace_t *t, uint32_t k, dt_value_t x) {
  switch (k % 5) {
  case 0:
    return dt_neg(t, x);
  case 1:
    return dt_relu(t, x);
  case 2:
    return dt_mul(t, x, x);
  case 3:
    return dt_cast(t, dt_cast(t, x, DT_F16), DT_F32);
  default:
    return dt_add(t, x, number(t, k));
  }
}

PROGRAM(many) {
  (void)closure;
  for (uint32_t k = 0; k < MANY; k++)
    out[k] = map_of(t, k, in[k]);
  return NULL;
}

// Parts of one result, columns, one number each, and what waits for maps and is waited for by maps.
PROGRAM(mixed) {
  (void)closure;
  const int32_t rows[] = {0};
  out[0] = dt_concat(t, FEW, in, 0);
  for (uint32_t k = 0; k < FEW; k++) {
    dt_value_t wide = map_of(t, k, in[k]), sum = dt_sum(t, wide, 1, rows, false);
    out[1 + 3 * k] = dt_transpose(t, wide, 0, 1);
    out[2 + 3 * k] = map_of(t, k + 1, sum);
    out[3 + 3 * k] = dt_add(t, dt_sum(t, sum, 0, NULL, false), number(t, k));
  }
  return NULL;
}

PROGRAM(updates) {
  (void)closure;
  for (uint32_t k = 0; k < ARGUMENTS; k++)
    dt_update(t, in[k], dt_add(t, map_of(t, k, in[k]), number(t, 1)));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

// The first argument is read by two maps, each other by one.
PROGRAM(given) {
  (void)closure;
  for (uint32_t k = 0; k < FEW; k++)
    out[k] = map_of(t, k, in[k]);
  dt_sym_t half = dt_sym_floordiv(t, dt_dim(t, in[0], 0), dt_sym_const(t, 2));
  out[FEW] = dt_relu(t, dt_slice(t, in[0], 0, dt_sym_const(t, 0), half, 1));
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------
static dt_function_t *function_with(const place_t *place, const char *name, dt_program_fn_t program,
                                    uint32_t rank, uint32_t n_inputs, uint32_t n_outputs,
                                    dt_answer_t answer) {
  bool gives = program == given && answer == DT_ANSWER_COMPILED;
  static const dt_dim_decl_t columns[] = {{0}, {.is_static = true, .value = 3}};
  static char names[MANY][16];
  dt_input_decl_t inputs[MANY] = {{0}};
  for (uint32_t k = 0; k < n_inputs; k++) {
    (void)snprintf(names[k], sizeof(names[k]), "x%u", k);
    inputs[k] = (dt_input_decl_t){.name = names[k],
                                  .dtype = DT_F32,
                                  .rank = rank,
                                  .dims = rank == 2 ? columns : NULL,
                                  .kind = gives ? DT_INPUT_DONATED : DT_INPUT_TENSOR};
  }
  subject_t subject = {name, program, n_inputs, n_outputs, inputs};
  return subject_function(place->runtime, &subject, NULL, answer);
}

// Sizes of round `round`: each its own, some of them 0 and 1, one of several blocks.
static int64_t size_of(place_t *place, uint32_t round, uint32_t k) {
  if (round < 2)
    return round;
  return k == round ? 5000 : rng_between(&place->rng, 0, 70);
}

static void expect_bits(dt_tensor_t *got, dt_tensor_t *want, const char *what) {
  expect_sizes(got, dt_tensor_rank(want), dt_tensor_sizes(want));
  expect_close(got, want, 0, 0, what);
}

static const dt_call_options_t modes[] = {{.mode = DT_CALL_PLAIN},
                                          {.mode = DT_CALL_REDUCE_OVERHEAD}};

static void each_alone(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function = function_with(&place, "many", many, 1, MANY, MANY, DT_ANSWER_COMPILED);
  dt_function_t *oracle = function_with(&place, "many", many, 1, MANY, MANY, DT_ANSWER_EVALUATOR);
  for (uint32_t round = 0; round < 4; round++) {
    dt_tensor_t *in[MANY], *there[MANY], *got[MANY] = {NULL}, *want[MANY] = {NULL};
    for (uint32_t k = 0; k < MANY; k++) {
      int64_t n = size_of(&place, round, k);
      in[k] = tensor_f32(&place.rng, 1, &n);
      there[k] = tensor_upload(place.device, in[k]);
    }
    uint64_t before = stats_of(function).launches;
    expect_ok(dt_step_begin(place.device));
    expect_ok(dt_call(place.device, function, there, MANY, got, MANY, &modes[round % 2]));
    expect_ok(dt_call(place.host, oracle, in, MANY, want, MANY, NULL));
    assert_in_range(stats_of(function).launches - before, 0, 10);
    for (uint32_t k = 0; k < MANY; k++) {
      dt_tensor_t *back = tensor_download(place.device, got[k]);
      expect_bits(back, want[k], "many");
      RELEASE(back, got[k], want[k], in[k], there[k]);
    }
  }
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.variants, 1);
  assert_in_range(stats.kernels, 1, 10);
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

static void beside_what_waits(void **state) {
  (void)state;
  enum { RESULTS = 1 + 3 * FEW };
  place_t place = open_place();
  dt_function_t *function =
      function_with(&place, "mixed", mixed, 2, FEW, RESULTS, DT_ANSWER_COMPILED);
  dt_function_t *oracle =
      function_with(&place, "mixed", mixed, 2, FEW, RESULTS, DT_ANSWER_EVALUATOR);
  for (uint32_t round = 0; round < 4; round++) {
    dt_tensor_t *in[FEW], *there[FEW], *got[RESULTS] = {NULL}, *want[RESULTS] = {NULL};
    for (uint32_t k = 0; k < FEW; k++) {
      const int64_t sizes[] = {size_of(&place, round, k), 3};
      in[k] = tensor_f32(&place.rng, 2, sizes);
      there[k] = tensor_upload(place.device, in[k]);
    }
    expect_ok(dt_step_begin(place.device));
    expect_ok(dt_call(place.device, function, there, FEW, got, RESULTS, &modes[round % 2]));
    expect_ok(dt_call(place.host, oracle, in, FEW, want, RESULTS, NULL));
    for (uint32_t k = 0; k < RESULTS; k++) {
      dt_tensor_t *back = tensor_download(place.device, got[k]);
      expect_close(back, want[k], k % 3 == 1 || k == 0 ? 0 : 1e-3, k % 3 == 1 ? 0 : 1e-4, "mixed");
      RELEASE(back, got[k], want[k]);
    }
    release_tensors(in, FEW);
    release_tensors(there, FEW);
  }
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

static void of_arguments(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function =
      function_with(&place, "updates", updates, 1, ARGUMENTS, 1, DT_ANSWER_COMPILED);
  dt_function_t *oracle =
      function_with(&place, "updates", updates, 1, ARGUMENTS, 1, DT_ANSWER_EVALUATOR);
  for (uint32_t round = 0; round < 4; round++) {
    dt_tensor_t *in[ARGUMENTS], *there[ARGUMENTS], *got = NULL, *want = NULL;
    for (uint32_t k = 0; k < ARGUMENTS; k++) {
      int64_t n = size_of(&place, round, k);
      in[k] = tensor_f32(&place.rng, 1, &n);
      there[k] = tensor_upload(place.device, in[k]);
    }
    expect_ok(dt_step_begin(place.device));
    expect_ok(dt_call(place.device, function, there, ARGUMENTS, &got, 1, &modes[round % 2]));
    expect_ok(dt_call(place.host, oracle, in, ARGUMENTS, &want, 1, NULL));
    dt_tensor_t *back = tensor_download(place.device, got);
    expect_bits(back, want, "updates");
    RELEASE(back, got, want);
    for (uint32_t k = 0; k < ARGUMENTS; k++) {
      back = tensor_download(place.device, there[k]);
      expect_close(back, in[k], 1e-6, 1e-6, "an argument"); // rounded twice
      RELEASE(back, in[k], there[k]);
    }
  }
  assert_in_range(stats_of(function).kernels, 1, 10);
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

// A result lies in a donated argument that no other map of its launch reads.
static void in_donated_arguments(void **state) {
  (void)state;
  place_t place = open_place();
  dt_function_t *function =
      function_with(&place, "given", given, 1, FEW, FEW + 1, DT_ANSWER_COMPILED);
  dt_function_t *oracle =
      function_with(&place, "given", given, 1, FEW, FEW + 1, DT_ANSWER_EVALUATOR);
  for (uint32_t round = 1; round < 4; round++) {
    dt_tensor_t *in[FEW], *there[FEW], *got[FEW + 1] = {NULL}, *want[FEW + 1] = {NULL};
    const void *data[FEW];
    for (uint32_t k = 0; k < FEW; k++) {
      int64_t n = 1 + size_of(&place, round, k);
      in[k] = tensor_f32(&place.rng, 1, &n);
      there[k] = tensor_upload(place.device, in[k]);
      data[k] = dt_tensor_data(there[k]);
    }
    expect_ok(dt_call(place.host, oracle, in, FEW, want, FEW + 1, NULL));
    expect_ok(
        dt_call(place.device, function, there, FEW, got, FEW + 1, &modes[0])); // not in graphs
    for (uint32_t k = 0; k < FEW; k++)
      assert_true((dt_tensor_data(got[k]) == data[k]) == (k != 0));
    for (uint32_t k = 0; k <= FEW; k++) {
      dt_tensor_t *back = tensor_download(place.device, got[k]);
      expect_bits(back, want[k], "given");
      RELEASE(back, got[k], want[k]);
    }
    release_tensors(in, FEW);
    release_tensors(there, FEW);
  }
  assert_int_equal(stats_of(function).kernels, 1);
  dt_function_release(function);
  dt_function_release(oracle);
  close_place(&place);
}

RUN_TESTS(TEST(each_alone), TEST(beside_what_waits), TEST(of_arguments), TEST(in_donated_arguments))
