// SPDX-License-Identifier: Apache-2.0
// earlier.dtp was written by an earlier build, for x86-64-v2: every library of its ABI number opens
// it, with or without a code generator, and answers as the evaluator does. If this fails after a
// change of what packages hold, DT_PACKAGE_ABI is to be counted up (runtime/package/format.h), and
// the file written anew: unit_package_earlier --write FILE, in a build with LLVM; and the seeds of
// the fuzzer (test/fuzz/corpus/package): --seeds FOLDER.
#include "test/unit/package/lives.h"

#include <stdio.h>
#include <string.h>

static const char *earlier;

static void compare(const fixture_t *f, dt_function_t *function, const life_t *life) {
  dt_function_t *oracle =
      subject_function(f->runtime, life->subject, life->closure, DT_ANSWER_EVALUATOR);
  rng_t rng = {19};
  for (uint32_t k = 0; k < life->n_sizes; k++) {
    dt_tensor_t *in[4] = {NULL}, *got[4] = {NULL}, *want[4] = {NULL};
    uint32_t n = life->subject->n_outputs;
    life->arguments(&rng, life->sizes[k], in);
    expect_ok(dt_call(f->session, function, in, life->subject->n_inputs, got, n, NULL));
    expect_ok(dt_call(f->session, oracle, in, life->subject->n_inputs, want, n, NULL));
    for (uint32_t r = 0; r < n; r++)
      expect_close(got[r], want[r], 1e-5, 1e-5, life->subject->name);
    release_tensors(in, 4);
    release_tensors(got, 4);
    release_tensors(want, 4);
  }
  dt_function_release(oracle);
}

static void test_it_answers(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 2);
  dt_package_t *package = NULL;
  expect_ok(dt_package_open(f.runtime, earlier, NULL, &package));
  assert_int_equal(dt_package_n_functions(package), N_LIVES);
  for (uint32_t k = 0; k < N_LIVES; k++) {
    dt_function_t *function = NULL;
    expect_ok(dt_package_function(package, lives[k].subject->name, NULL, &function));
    compare(&f, function, &lives[k]);
    dt_function_counters_t stats = stats_of(function);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.evaluator_calls, 0);
    dt_function_release(function);
  }
  dt_package_release(package);
  fixture_end(&f);
}

// Where nothing can be compiled a call that no variant covers is refused, with the guard that it
// misses.
static void test_a_miss_is_refused_without_a_compiler(void **state) {
  (void)state;
  if (compiled_answer() == DT_ANSWER_COMPILED)
    skip();
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_package_t *package = NULL;
  dt_function_t *function = NULL;
  float data[8] = {0};
  expect_ok(dt_package_open(f.runtime, earlier, NULL, &package));
  expect_ok(dt_package_function(package, add_subject.name, NULL, &function));
  dt_tensor_t *a = tensor_over(DT_F32, 1, SIZES(4), (const int64_t[]){2}, data), *out = NULL;
  dt_tensor_t *in[] = {a, a};
  expect_told(dt_call(f.session, function, in, 2, &out, 1, NULL), DT_E_STATE, "contiguous");
  RELEASE(a);
  dt_function_release(function);
  dt_package_release(package);
  fixture_end(&f);
}

static int begin(void **state) {
  (void)state;
  lives_begin();
  return 0;
}

static int end(void **state) {
  (void)state;
  lives_end();
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_it_answers),
                                     TEST(test_a_miss_is_refused_without_a_compiler)};
  if (argc == 3 && strcmp(argv[1], "--write") == 0) {
    lives_begin();
    lives_write(argv[2], lives, N_LIVES, 1, "v2");
    lives_end();
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
    lives_begin();
    for (uint32_t k = 0; k < N_LIVES; k++) {
      char path[4096];
      (void)snprintf(path, sizeof(path), "%s/%s.dtp", argv[2], lives[k].subject->name);
      lives_write(path, &lives[k], 1, 1, "v2");
    }
    lives_end();
    return 0;
  }
  earlier = argc > 1 ? argv[1] : "";
  return cmocka_run_group_tests(tests, begin, end);
}
