// SPDX-License-Identifier: Apache-2.0
// Random networks of convolutions on a GPU, in f32 and halves, against the evaluator, over sizes
// that change, NaN and infinities: windows are read where they lie
// (fuse/direct.c, backend_cuda/emit/matmul_terms.c). `--nets N` makes so many of each dtype.
#include "test/unit/exec/random_nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_NETS = 3 };
static uint64_t nets = 6;

// Of results, which are near 1: what some roundings of halves on the way make. A window that is
// read from elsewhere is off by as much as there is.
typedef struct kind_t {
  dt_dtype_t dtype;
  double tolerance;
} kind_t;
static const kind_t kinds[] = {{DT_F32, 1e-3}, {DT_F16, 5e-2}, {DT_BF16, 4e-1}};

static void compare(fixture_t *f, dt_session_t *host, dt_function_t *code, dt_function_t *evaluator,
                    const random_net_t *net, const int64_t sizes[4], bool odd, double tolerance) {
  dt_tensor_t *base = NULL, *x = random_image(&f->rng, net->dtype, sizes, 0, odd, &base);
  dt_tensor_t *there = tensor_upload(f->session, x), *y = NULL, *z = NULL;
  char what[128];
  snprintf(what, sizeof what, "%s network %llu of %u parts at %lld x %lld x %lld%s",
           dt_dtype_name(net->dtype), (unsigned long long)net->seed, net->steps,
           (long long)sizes[0], (long long)sizes[2], (long long)sizes[3], odd ? ", odd" : "");
  expect_ok(dt_call(f->session, code, &there, 1, &y, 1, NULL));
  expect_ok(dt_call(host, evaluator, &x, 1, &z, 1, NULL));
  dt_tensor_t *back = tensor_download(f->session, y);
  expect_close(back, z, tolerance, tolerance, what);
  RELEASE(x, base, there, y, z, back);
}

static void check(fixture_t *f, dt_session_t *host, random_net_t *net, double tolerance) {
  static const int64_t places[][3] = {{1, 7, 7}, {2, 1, 1}, {3, 5, 12}, {0, 4, 4}};
  dt_function_t *code = random_net_function(f, net, compiled_answer());
  dt_function_t *evaluator = random_net_function(f, net, DT_ANSWER_EVALUATOR);
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const int64_t sizes[4] = {places[i][0], net->channels, places[i][1], places[i][2]};
    compare(f, host, code, evaluator, net, sizes, false, tolerance);
    if (i == 0)
      compare(f, host, code, evaluator, net, sizes, true, tolerance);
  }
  assert_int_equal(stats_of(code).evaluator_calls, 0);
  dt_function_release(code);
  dt_function_release(evaluator);
}

// Sums so long that blocks of a cluster share them.
static void check_long(fixture_t *f, dt_session_t *host, kind_t kind) {
  for (uint64_t seed = 1; seed <= LONG_NETS; seed++) {
    random_net_t net = {.seed = seed, .channels = 128, .dtype = kind.dtype};
    check(f, host, &net, kind.tolerance);
    release_tensors(net.constants, net.n_made);
  }
}

static void check_all(kind_t kind) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  f.rng = (rng_t){11};
  for (uint64_t seed = 1; seed <= nets; seed++) {
    random_net_t net = {.seed = seed,
                        .channels = seed % 4 == 3 ? 3 : 8 * (int64_t)(seed % 4 + 1),
                        .dtype = kind.dtype,
                        .steps = (uint32_t)(seed % 3)};
    check(&f, host, &net, kind.tolerance);
    release_tensors(net.constants, net.n_made);
  }
  check_long(&f, host, kind);
  dt_session_destroy(host);
  fixture_end(&f);
}

static void test_f32(void **state) {
  (void)state;
  check_all(kinds[0]);
}
static void test_f16(void **state) {
  (void)state;
  check_all(kinds[1]);
}
static void test_bf16(void **state) {
  (void)state;
  check_all(kinds[2]);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_f32), TEST(test_f16), TEST(test_bf16)};
  if (argc == 3 && !strcmp(argv[1], "--nets"))
    nets = strtoull(argv[2], NULL, 10);
  (void)setenv("FAKE_CUDA_STRICT", "1", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
