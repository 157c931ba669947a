// SPDX-License-Identifier: Apache-2.0
// Kernels in their quick form, and what takes their place: the same bits, before and after and
// while it happens; what is kept of each; and ends at any time.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "runtime/base/log.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static const int64_t sizes[] = {19, 37, 16};
static char folder[FOLDER_BYTES];

static const char *always; // DUCTILE_QUICK: the best form is begun later, or beside the quick one
static _Atomic int quickly, beside, made, replaced, kept; // that the log told of

static void hear(void *user, const char *line, size_t len) {
  (void)user;
  quickly += memmem(line, len, ", quickly:", 10) != NULL;
  beside += memmem(line, len, "beside the quick one", 20) != NULL;
  made += memmem(line, len, "bytes of code", 13) != NULL;
  replaced += memmem(line, len, "kernels replaced", 16) != NULL;
  kept += memmem(line, len, "[cache] all of", 14) != NULL;
}

// ---- A runtime, the function and an input ---------------------------------------------------------
typedef struct life_t {
  fixture_t f;
  mlp_t mlp;
  dt_function_t *function;
  dt_tensor_t *in;
} life_t;

static void live(life_t *l, const char *quick) {
  variable_set("DUCTILE_QUICK", quick);
  variable_set("DUCTILE_LOG", "compile:2,cache:2");
  quickly = beside = made = replaced = kept = 0;
  dt_log_sink_set(hear, NULL);
  l->f = fixture_on(DT_CPU, 2);
  l->f.rng = (rng_t){11};
  mlp_init(&l->mlp, &l->f.rng);
  l->in = tensor_f32(&l->f.rng, 3, sizes);
  l->function = subject_function(l->f.runtime, &mlp_subject, &l->mlp, DT_ANSWER_COMPILED);
}

static void end(life_t *l) {
  dt_function_release(l->function);
  RELEASE(l->in);
  mlp_fini(&l->mlp);
  fixture_end(&l->f);
  dt_log_sink_set(NULL, NULL);
  variable_set("DUCTILE_LOG", NULL);
  variable_set("DUCTILE_QUICK", NULL);
}

static dt_tensor_t *call(life_t *l) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(l->f.session, l->function, &l->in, 1, &out, 1, NULL));
  return out;
}

static void expect_bits(dt_tensor_t *a, dt_tensor_t *b) {
  assert_int_equal(dt_tensor_count(a), dt_tensor_count(b));
  assert_memory_equal(dt_tensor_data(a), dt_tensor_data(b), (size_t)dt_tensor_count(a) * 4);
}

static void prepare(life_t *l, uint32_t form) {
  dt_prepare_options_t options = {.struct_size = sizeof(options), .form = form};
  expect_ok(dt_function_prepare(l->function, &options));
}

static void expect_counts(life_t *l, uint64_t quick, uint64_t bettered) {
  dt_function_counters_t counters = stats_of(l->function);
  assert_int_equal(counters.quick_variants, quick);
  assert_int_equal(counters.bettered, bettered);
  assert_int_equal(counters.evaluator_calls, 0);
  assert_int_equal(counters.compiles, 1);
}

// ---- Tests ----------------------------------------------------------------------------------------

static void test_replaced(void **state) {
  (void)state;
  life_t l;
  live(&l, always);
  dt_tensor_t *first = call(&l);
  assert_int_equal(quickly, 1);
  prepare(&l, DT_PREPARE_BEST);
  expect_counts(&l, 0, 1);
  assert_int_equal(replaced, 1);
  assert_int_equal(beside, strcmp(always, "3") == 0);
  assert_int_equal(made, 2); // each form once
  dt_tensor_t *later = call(&l);
  expect_bits(first, later);
  dt_function_t *oracle = subject_function(l.f.runtime, &mlp_subject, &l.mlp, DT_ANSWER_EVALUATOR);
  dt_tensor_t *want = NULL;
  expect_ok(dt_call(l.f.session, oracle, &l.in, 1, &want, 1, NULL));
  expect_close(later, want, 1e-5, 0, "the best form");
  RELEASE(first, later, want);
  dt_function_release(oracle);
  end(&l);
}

static uint64_t held(const life_t *l) {
  return atomic_load(&l->function->held_bytes[DT_MEMORY_HOST]);
}

// Both forms are held until the variant goes, and nothing is left of either.
static void test_counted(void **state) {
  (void)state;
  life_t l;
  live(&l, always);
  dt_tensor_t *out = call(&l);
  uint64_t code = stats_of(l.function).code_bytes, before = held(&l);
  prepare(&l, DT_PREPARE_BEST);
  uint64_t both = stats_of(l.function).code_bytes;
  assert_true(both > code);
  assert_int_equal(held(&l) - before, both - code);
  const struct timespec pause = {.tv_nsec = 1000000};
  atomic_store(&l.f.runtime->budget.tick, UINT32_MAX); // what is new stays for some ticks
  // Nothing goes while a decider is made.
  for (int k = 0; k < 10000 && !dt__function_holder.give(&l.function->holder, DT_MEMORY_HOST); k++)
    (void)nanosleep(&pause, NULL);
  assert_int_equal(stats_of(l.function).code_bytes, 0);
  assert_int_equal(held(&l), 0);
  RELEASE(out);
  end(&l);
}

static void test_prepared(void **state) {
  (void)state;
  life_t l;
  live(&l, always);
  prepare(&l, DT_PREPARE_BEST); // nobody waits for an answer
  assert_int_equal(quickly, 0);
  expect_counts(&l, 0, 0);
  end(&l);
  live(&l, always);
  prepare(&l, DT_PREPARE_FIRST);
  assert_int_equal(quickly, 1);
  prepare(&l, DT_PREPARE_BEST);
  expect_counts(&l, 0, 1);
  prepare(&l, DT_PREPARE_BEST);
  expect_counts(&l, 0, 1);
  dt_prepare_options_t options = {.struct_size = sizeof(options), .form = 2};
  expect_told(dt_function_prepare(l.function, &options), DT_E_ARGUMENT, "form: 2");
  end(&l);
}

static void test_never(void **state) {
  (void)state;
  life_t l;
  live(&l, "0");
  dt_tensor_t *out = call(&l);
  assert_int_equal(quickly, 0);
  expect_counts(&l, 0, 0);
  RELEASE(out);
  end(&l);
}

static void test_little(void **state) {
  (void)state;
  life_t l;
  live(&l, "1");
  dt_function_t *small = subject_function(l.f.runtime, &softmax_subject, NULL, DT_ANSWER_COMPILED);
  dt_tensor_t *in = tensor_f32(&l.f.rng, 2, sizes), *out = NULL;
  expect_ok(dt_call(l.f.session, small, &in, 1, &out, 1, NULL));
  assert_int_equal(quickly, 0);
  RELEASE(in, out);
  dt_function_release(small);
  end(&l);
}

// A caller who waits for the best form can give up.
static void test_given_up(void **state) {
  (void)state;
  life_t l;
  live(&l, always);
  dt_cancel_t cancel = {0};
  dt_tensor_t *out = call(&l);
  dt_cancel_request(&cancel);
  dt_prepare_options_t options = {.struct_size = sizeof(options), .cancel = &cancel};
  dt_status_t status = dt_function_prepare(l.function, &options);
  if (status) // else it had been replaced already
    expect_code(status, DT_E_CANCELLED);
  RELEASE(out);
  end(&l);
}

// Whatever is under way, the function ends.
static void test_ends(void **state) {
  (void)state;
  for (int64_t k = 0; k < 12; k++) {
    life_t l;
    live(&l, always);
    dt_tensor_t *out = call(&l);
    struct timespec time = {.tv_nsec = k * 6000000};
    (void)nanosleep(&time, NULL);
    RELEASE(out);
    end(&l);
  }
}

typedef struct caller_t {
  life_t *l;
  dt_tensor_t *want;
  const _Atomic bool *stop;
  uint64_t calls;
} caller_t;

static void *run_caller(void *opaque) {
  caller_t *own = opaque;
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(own->l->f.runtime, NULL, &session));
  while (!*own->stop || !own->calls) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(session, own->l->function, &own->l->in, 1, &out, 1, NULL));
    expect_bits(out, own->want);
    RELEASE(out);
    own->calls++;
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_meanwhile(void **state) {
  (void)state;
  life_t l;
  live(&l, always);
  dt_tensor_t *want = call(&l);
  _Atomic bool stop = false;
  caller_t callers[2];
  pthread_t threads[2];
  for (size_t k = 0; k < 2; k++) {
    callers[k] = (caller_t){&l, want, &stop, 0};
    assert_int_equal(pthread_create(&threads[k], NULL, run_caller, &callers[k]), 0);
  }
  prepare(&l, DT_PREPARE_BEST);
  stop = true;
  for (size_t k = 0; k < 2; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  dt_tensor_t *after = call(&l);
  expect_bits(after, want);
  expect_counts(&l, 0, 1);
  RELEASE(want, after);
  end(&l);
}

// Each form is kept under a name of its own; the best is taken where there is one.
static void test_kept(void **state) {
  (void)state;
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  life_t l;
  live(&l, always);
  dt_tensor_t *want = call(&l);
  end(&l);
  live(&l, always); // the quick one, unless the best was there in time
  dt_tensor_t *second = call(&l);
  expect_bits(second, want);
  assert_int_equal(kept, 1);
  prepare(&l, DT_PREPARE_BEST);
  end(&l);
  live(&l, always);
  dt_tensor_t *third = call(&l);
  expect_bits(third, want);
  assert_int_equal(kept, 1);
  assert_int_equal(quickly, 0);
  expect_counts(&l, 0, 0);
  end(&l);
  live(&l, "0");
  dt_tensor_t *best = call(&l);
  expect_bits(best, want);
  assert_int_equal(kept, 1);
  end(&l);
  RELEASE(want, second, third, best);
  variable_set("DUCTILE_CACHE_DIR", "");
  assert_int_equal(folder_drop(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_replaced), TEST(test_counted),   TEST(test_prepared),
                                     TEST(test_never),    TEST(test_little),    TEST(test_given_up),
                                     TEST(test_ends),     TEST(test_meanwhile), TEST(test_kept)};
  always = "2";
  int failed = cmocka_run_group_tests_name("later", tests, NULL, NULL);
  always = "3";
  return failed + cmocka_run_group_tests_name("beside", tests, NULL, NULL);
}
