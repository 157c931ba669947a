// SPDX-License-Identifier: Apache-2.0
// LLVM's list of kinds of machines has no lock of its own: a kind that enters it while another does
// loses one of both for the life of the process. dt__emit_machine lets one in at a time, once.
#include "test/unit/backend_llvm/rig.h"

#include "backend_llvm/emit/context.h"
#include "backend_llvm/host/target.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define THREADS 4

static atomic_int inside, together, entries;

static void enter(void) {
  if (atomic_fetch_add(&inside, 1) != 0)
    atomic_fetch_add(&together, 1);
  atomic_fetch_add(&entries, 1);
  // Whoever does not wait for this comes in meanwhile.
  (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  atomic_fetch_sub(&inside, 1);
}

static dt_llvm_machine_t kinds[2] = {
    {"x86_64-unknown-linux-gnu", enter, false},
    {"x86_64-pc-linux-gnu", enter, false},
};

typedef struct asker_t {
  dt_llvm_machine_t *kind;
  const dt_target_t *target;
  dt_status_t status;
  bool made;
} asker_t;

static void *ask(void *data) {
  asker_t *a = data;
  dt_emit_t m;
  a->status = dt__emit_open(&m, NULL, a->target, "machines");
  if (a->status)
    return NULL;
  a->status = dt__emit_machine(&m, a->kind, a->target, LLVMCodeGenLevelDefault);
  a->made = m.machine != NULL;
  dt__emit_fini(&m);
  return NULL;
}

static void test_one_kind_enters_at_a_time(void **state) {
  (void)state;
  dt_target_t target;
  expect_ok(dt__host_target("x86-64-v3", 1, &target));
  pthread_t threads[THREADS];
  asker_t askers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    askers[i] = (asker_t){.kind = &kinds[i % 2], .target = &target};
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    expect_ok(askers[i].status);
    assert_true(askers[i].made);
  }
  assert_int_equal(atomic_load(&together), 0);
  assert_int_equal(atomic_load(&entries), 2);
}

static void test_a_kind_that_llvm_does_not_have_is_a_status(void **state) {
  (void)state;
  dt_target_t target;
  expect_ok(dt__host_target("x86-64-v3", 1, &target));
  dt_llvm_machine_t kind = {"abacus-unknown-none", enter, false};
  dt_emit_t m;
  expect_ok(dt__emit_open(&m, NULL, &target, "machines"));
  expect_told(dt__emit_machine(&m, &kind, &target, LLVMCodeGenLevelDefault), DT_E_COMPILE,
              "abacus");
  dt__emit_fini(&m);
}

RUN_TESTS(TEST(test_one_kind_enters_at_a_time),
          TEST(test_a_kind_that_llvm_does_not_have_is_a_status))
