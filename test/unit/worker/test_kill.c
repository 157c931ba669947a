// SPDX-License-Identifier: Apache-2.0
// usage: WORKER [KILLS [SEED]]. Workers killed at random moments while two threads compile and
// call: the process lives, each call gives the bits that code made in this process gives, or a
// status.
#include "test/unit/worker/rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 2
#define PROGRAMS 8 // whose results are known beforehand
#define SIZE 2
#define MOST_PAUSE_MS 160 // between kills: a compile takes about so long

static const char *worker_program;
static uint32_t wanted = 50;
static uint64_t first_seed = 1;

typedef struct state_t {
  char path[256];
  dt_runtime_t *runtime;
  uint64_t sums[PROGRAMS];
  _Atomic bool over;
  _Atomic uint32_t right, told, wrong;
} state_t;

static bool allowed(dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  return (code == DT_E_COMPILE || code == DT_E_NO_MEMORY) && *dt_status_message(status);
}

static void *caller(void *opaque) {
  state_t *state = opaque;
  for (uint64_t k = 0; !atomic_load(&state->over); k++) {
    uint64_t sum = 0;
    dt_status_t status = function_run(state->runtime, k % PROGRAMS, SIZE, &sum);
    if (status)
      (void)atomic_fetch_add(allowed(status) ? &state->told : &state->wrong, 1);
    else
      (void)atomic_fetch_add(sum == state->sums[k % PROGRAMS] ? &state->right : &state->wrong, 1);
    if (status && !allowed(status))
      print_error("%s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
    dt_status_free(status);
  }
  return NULL;
}

static void know_results(state_t *state) {
  dt_runtime_t *runtime = NULL;
  assert_null(runtime_open(NULL, 1, &runtime));
  for (uint64_t k = 0; k < PROGRAMS; k++)
    assert_null(function_run(runtime, k, SIZE, &state->sums[k]));
  dt_runtime_release(runtime);
}

static uint32_t kill_some(const char *path) {
  uint32_t killed = 0;
  for (uint64_t bits = first_seed; killed < wanted;) {
    pid_t pids[16];
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    sleep_ms((long)(bits >> 33) % MOST_PAUSE_MS);
    uint32_t n = worker_pids(path, pids, 16);
    if (n && kill(pids[(bits >> 20) % (n < 16 ? n : 16)], SIGKILL) == 0)
      killed++;
  }
  return killed;
}

static void test_kills(void **none) {
  (void)none;
  static state_t state;
  pthread_t threads[CALLERS];
  worker_link(worker_program, "kill-worker", state.path);
  know_results(&state);
  assert_null(runtime_open(state.path, 2, &state.runtime));
  for (int k = 0; k < CALLERS; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, caller, &state), 0);
  uint32_t killed = kill_some(state.path);
  atomic_store(&state.over, true);
  for (int k = 0; k < CALLERS; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  print_message("killed %u, calls right %u, statuses %u, wrong %u\n", killed, state.right,
                state.told, state.wrong);
  assert_int_equal(state.wrong, 0);
  assert_true(state.right > 0);
  uint64_t sum = 0; // and it goes on: a program that killed nothing
  assert_null(function_run(state.runtime, PROGRAMS + first_seed, 2, &sum));
  dt_runtime_release(state.runtime);
  assert_true(worker_none(state.path, 10));
  worker_unlink(state.path);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_kills)};
  if (argc < 2)
    return 2;
  worker_program = argv[1];
  wanted = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : wanted;
  first_seed = argc > 3 ? strtoull(argv[3], NULL, 10) : first_seed;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
