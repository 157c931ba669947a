// SPDX-License-Identifier: Apache-2.0
// earlier.dtp was written by an earlier build, for x86-64-v2, and earlier_device.dtp for sm_80:
// every library of their ABI number opens them, with or without a code generator, on the CPU and on
// a device (the fake driver), and answers as the evaluator does. If this fails after a change of
// what packages hold, DT_PACKAGE_ABI is to be counted up (runtime/package/format.h), and the files
// written anew: unit_package_earlier --write FILE and --write-device FILE, in a build with LLVM;
// and the seeds of the fuzzer (test/fuzz/corpus/package): --seeds FOLDER.
#include "test/unit/package/lives.h"

#include <stdio.h>
#include <string.h>

// Those that are in earlier_device.dtp: their code for a device is short.
static const uint32_t small[] = {0, 6, 7};
#define N_SMALL 3
static const char *earlier, *earlier_device;

static void compare(const fixture_t *f, dt_session_t *host, dt_function_t *function,
                    const life_t *life) {
  dt_function_t *oracle =
      subject_function(f->runtime, life->subject, life->closure, DT_ANSWER_EVALUATOR);
  rng_t rng = {19};
  for (uint32_t k = 0; k < life->n_sizes; k++) {
    dt_tensor_t *in[4] = {NULL}, *got[4] = {NULL}, *want[4] = {NULL};
    uint32_t n = life->subject->n_outputs;
    life->arguments(&rng, life->sizes[k], in);
    expect_ok(dt_call(f->session, function, in, life->subject->n_inputs, got, n, NULL));
    expect_ok(dt_call(host, oracle, in, life->subject->n_inputs, want, n, NULL));
    for (uint32_t r = 0; r < n; r++) {
      dt_tensor_t *back = tensor_download(f->session, got[r]);
      expect_ok(dt_session_wait(f->session));
      expect_close(back, want[r], 1e-5, 1e-5, life->subject->name);
      RELEASE(back);
    }
    release_tensors(in, 4);
    release_tensors(got, 4);
    release_tensors(want, 4);
  }
  dt_function_release(oracle);
}

// Functions of the lives at `which`; NULL: of the first ones.
static void answers_on(dt_device_t device, const char *path, const uint32_t *which, uint32_t n) {
  fixture_t f = fixture_on(device, 2);
  dt_session_t *host = session_of(f.runtime);
  dt_package_t *package = NULL;
  expect_ok(dt_package_open(f.runtime, path, NULL, &package));
  assert_int_equal(dt_package_n_functions(package), n);
  for (uint32_t k = 0; k < n; k++) {
    const life_t *life = &lives[which ? which[k] : k];
    dt_function_t *function = NULL;
    expect_ok(dt_package_function(package, life->subject->name, NULL, &function));
    compare(&f, host, function, life);
    dt_function_counters_t stats = stats_of(function);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.evaluator_calls, 0);
    dt_function_release(function);
  }
  dt_package_release(package);
  dt_session_destroy(host);
  fixture_end(&f);
}

static void test_it_answers(void **state) {
  (void)state;
  answers_on(DT_CPU, earlier, NULL, N_LIVES);
}

static void test_it_answers_on_a_device(void **state) {
  (void)state;
  answers_on(DT_CUDA, earlier_device, small, N_SMALL);
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

// ---- Seeds of the fuzzer --------------------------------------------------------------------------
static void write_branches(const char *path) {
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  const dt_package_write_options_t options = {.struct_size = sizeof(options),
                                              .levels = "v2,v3,sm_80"};
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_function_options_t about = options_of(1, vector);
  dt_function_t *function = function_of(&f, branch_program, NULL, &about);
  for (int64_t n = 5; n < 10; n += 4) {
    dt_tensor_t *x = tensor_full(3, 1, &n), *y = NULL;
    expect_ok(dt_call(f.session, function, &x, 1, &y, 1, NULL));
    RELEASE(x, y);
  }
  expect_ok(dt_package_write(path, &function, 1, &options));
  dt_function_release(function);
  fixture_end(&f);
}

static void write_seeds(const char *folder) {
  char path[4096];
  for (uint32_t k = 0; k < N_LIVES; k++) {
    (void)snprintf(path, sizeof(path), "%s/%s.dtp", folder, lives[k].subject->name);
    lives_write(path, &lives[k], 1, 1, "v2");
  }
  (void)snprintf(path, sizeof(path), "%s/device.dtp", folder);
  lives_write(path, &lives[7], 1, 1, "sm_90a"); // scale
  (void)snprintf(path, sizeof(path), "%s/branches.dtp", folder);
  write_branches(path);
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
  const struct CMUnitTest tests[] = {TEST(test_it_answers), TEST(test_it_answers_on_a_device),
                                     TEST(test_a_miss_is_refused_without_a_compiler)};
  if (argc == 3 && strcmp(argv[1], "--write") == 0) {
    lives_begin();
    lives_write(argv[2], lives, N_LIVES, 1, "v2");
    lives_end();
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--write-device") == 0) {
    life_t some[N_SMALL];
    lives_begin();
    for (uint32_t k = 0; k < N_SMALL; k++)
      some[k] = lives[small[k]];
    lives_write(argv[2], some, N_SMALL, 1, "sm_80");
    lives_end();
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
    lives_begin();
    write_seeds(argv[2]);
    lives_end();
    return 0;
  }
  earlier = argc > 1 ? argv[1] : "";
  earlier_device = argc > 2 ? argv[2] : "";
  return cmocka_run_group_tests(tests, begin, end);
}
