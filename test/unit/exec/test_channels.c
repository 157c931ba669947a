// SPDX-License-Identifier: Apache-2.0
// Random networks of convolutions, whose temporaries have their channels innermost, against the
// evaluator, over sizes that change, strides of arguments, NaN and infinities.
#include "test/unit/exec/random_nets.h"

#include <stdio.h>

enum { NETS = 40, STEPS = 6 };

static int setup(void **state) { return fixture_open(state, 2, 9); }

static void compare(fixture_t *fixture, dt_function_t *code, dt_function_t *evaluator,
                    const int64_t sizes[4], int64_t gap, bool odd, uint64_t seed) {
  dt_tensor_t *base = NULL, *x = random_image(&fixture->rng, DT_F32, sizes, gap, odd, &base);
  dt_tensor_t *y = NULL, *z = NULL;
  char what[96];
  snprintf(what, sizeof what, "network %llu at %lld x %lld x %lld%s", (unsigned long long)seed,
           (long long)sizes[0], (long long)sizes[2], (long long)sizes[3], odd ? ", odd" : "");
  expect_ok(dt_call(fixture->session, code, &x, 1, &y, 1, NULL));
  expect_ok(dt_call(fixture->session, evaluator, &x, 1, &z, 1, NULL));
  expect_close(y, z, 2e-4, 2e-4, what);
  RELEASE(x, base, y, z);
}

static void check(fixture_t *fixture, random_net_t *net) {
  static const int64_t places[][3] = {{1, 7, 7}, {2, 1, 1}, {1, 3, 20}, {2, 9, 2}, {0, 4, 4}};
  dt_function_t *code = random_net_function(fixture, net, compiled_answer());
  dt_function_t *evaluator = random_net_function(fixture, net, DT_ANSWER_EVALUATOR);
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const int64_t sizes[4] = {places[i][0], net->channels, places[i][1], places[i][2]};
    compare(fixture, code, evaluator, sizes, 0, false, net->seed);
    if (i == 0) {
      compare(fixture, code, evaluator, sizes, 3, false, net->seed);
      compare(fixture, code, evaluator, sizes, 0, true, net->seed);
    }
  }
  dt_function_release(code);
  dt_function_release(evaluator);
}

static void check_all(fixture_t *fixture, bool norms) {
  for (uint64_t seed = 1; seed <= NETS; seed++) {
    random_net_t net = {.seed = seed,
                        .channels = seed % 3 ? 3 + (int64_t)(seed % 5) * 7 : 1,
                        .dtype = DT_F32,
                        .norms = norms,
                        .steps = STEPS};
    check(fixture, &net);
    release_tensors(net.constants, net.n_made);
  }
}

static void test_networks(void **state) { check_all(*state, false); }
static void test_norms(void **state) { check_all(*state, true); }

RUN_TESTS_WITH(setup, fixture_close, TEST(test_networks), TEST(test_norms))
