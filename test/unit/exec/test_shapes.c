// SPDX-License-Identifier: Apache-2.0
// One variant for every size: programs over random shapes, 0 and 1 among them, in any order and
// from any first call, against the reference evaluator.
#include "test/support/subjects.h"

#include <stdio.h>

#define SHAPES 200

typedef struct shapes_fixture_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  rng_t rng;
  mlp_t mlp;
} shapes_fixture_t;

static int setup(void **state) {
  static shapes_fixture_t fixture;
  fixture = (shapes_fixture_t){.rng = {42}};
  fixture.runtime = runtime_of(3);
  fixture.session = session_of(fixture.runtime);
  mlp_init(&fixture.mlp, &fixture.rng);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  shapes_fixture_t *fixture = *state;
  mlp_fini(&fixture->mlp);
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
  return 0;
}

// Sizes that end vectors, tiles and chunks in all ways, and now and then a large one.
static int64_t random_size(rng_t *rng) {
  static const int64_t edges[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127};
  switch (rng_between(rng, 0, 3)) {
  case 0:
    return rng_between(rng, 0, 2);
  case 1:
    return rng_between(rng, 0, 300);
  default:
    return edges[rng_between(rng, 0, (int64_t)(sizeof(edges) / sizeof(edges[0])) - 1)];
  }
}

// Arguments of `subject` for sizes (rows, columns).
static void make_inputs(const subject_t *subject, rng_t *rng, int64_t rows, int64_t columns,
                        dt_tensor_t **inputs) {
  if (subject == &mlp_subject || subject == &turned_subject) {
    inputs[0] = tensor_f32(rng, 3, SIZES(rows % 12, columns % 20, 16));
    return;
  }
  inputs[0] = tensor_f32(rng, 2, SIZES(rows, columns));
  for (uint32_t i = 1; i < subject->n_inputs; i++)
    inputs[i] = tensor_f32(rng, 1, SIZES(columns));
}

static void call_and_compare(shapes_fixture_t *fixture, const subject_t *subject,
                             dt_function_t *compiled, dt_function_t *evaluated, int64_t rows,
                             int64_t columns) {
  dt_tensor_t *inputs[3] = {0}, *actual = NULL, *expected = NULL;
  make_inputs(subject, &fixture->rng, rows, columns, inputs);
  expect_ok(dt_call(fixture->session, compiled, inputs, subject->n_inputs, &actual, 1, NULL));
  expect_ok(dt_call(fixture->session, evaluated, inputs, subject->n_inputs, &expected, 1, NULL));
  char what[64];
  (void)snprintf(what, sizeof(what), "%s at (%lld, %lld)", subject->name, (long long)rows,
                 (long long)columns);
  expect_close(actual, expected, 2e-5, 2e-5, what);
  // Into memory of the caller, all of it written.
  dt_tensor_t *given = tensor_full(-7.0f, dt_tensor_rank(expected), dt_tensor_sizes(expected));
  expect_ok(dt_call(fixture->session, compiled, inputs, subject->n_inputs, &given, 1, NULL));
  expect_close(given, actual, 0, 0, what);
  RELEASE(given, actual, expected);
  release_tensors(inputs, subject->n_inputs);
}

static void run_shapes(shapes_fixture_t *fixture, const subject_t *subject) {
  static const int64_t starts[][2] = {{1, 1}, {7, 33}, {0, 5}, {-1, -1}};
  dt_function_t *evaluated =
      subject_function(fixture->runtime, subject, &fixture->mlp, DT_ANSWER_EVALUATOR);
  for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
    dt_function_t *compiled =
        subject_function(fixture->runtime, subject, &fixture->mlp, compiled_answer());
    if (starts[s][0] < 0)
      expect_ok(dt_function_prepare(compiled, NULL));
    else
      call_and_compare(fixture, subject, compiled, evaluated, starts[s][0], starts[s][1]);
    for (int i = 0; i < SHAPES; i++)
      call_and_compare(fixture, subject, compiled, evaluated, random_size(&fixture->rng),
                       random_size(&fixture->rng));
    dt_function_counters_t stats = {.struct_size = sizeof(stats)};
    expect_ok(dt_function_counters(compiled, &stats));
    assert_int_equal(stats.variants, 1);
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.misses, starts[s][0] < 0 ? 0 : 1);
    assert_int_equal(stats.failed_calls, 0);
    if (compiled_answer() == DT_ANSWER_COMPILED)
      assert_int_equal(stats.evaluator_calls, 0);
    dt_function_release(compiled);
  }
  dt_function_release(evaluated);
}

static void test_mlp(void **state) { run_shapes(*state, &mlp_subject); }
static void test_turned(void **state) { run_shapes(*state, &turned_subject); }
static void test_layer_norm(void **state) { run_shapes(*state, &layer_norm_subject); }
static void test_softmax(void **state) { run_shapes(*state, &softmax_subject); }
static void test_columns(void **state) { run_shapes(*state, &columns_subject); }
static void test_transpose(void **state) { run_shapes(*state, &transpose_subject); }

RUN_TESTS_WITH(setup, teardown, TEST(test_transpose), TEST(test_turned), TEST(test_softmax),
               TEST(test_columns), TEST(test_layer_norm), TEST(test_mlp))
