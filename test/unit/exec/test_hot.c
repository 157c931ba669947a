// SPDX-License-Identifier: Apache-2.0
// Variants for hot sizes: what the histogram offers, arguments and declarations made of it, and
// what becomes of them while calls go on, with the same bits.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "runtime/exec/hot_sizes.h"
#include "runtime/exec/tune.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define N_THREADS 3
#define MANY_CALLS 400000 // a sampled one in 256: more than enough, and an end to what fails

// ---- A runtime and the function -------------------------------------------------------------------
typedef struct life_t {
  fixture_t f;
  mlp_t mlp;
  dt_function_t *function;
} life_t;

static dt_function_t *make_function(const fixture_t *f, const subject_t *subject, void *closure,
                                    uint64_t percent) {
  dt_function_t *function = NULL;
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = subject->name,
                                         .n_inputs = subject->n_inputs,
                                         .inputs = subject->inputs,
                                         .input_size = sizeof(dt_input_decl_t),
                                         .dim_size = sizeof(dt_dim_decl_t),
                                         .n_outputs = subject->n_outputs,
                                         .hot_percent = percent};
  expect_ok(dt_function_create(f->runtime, subject->program, closure, &options, &function));
  return function;
}

static void live(life_t *l, uint64_t percent) {
  *l = (life_t){.f = fixture_on(DT_CPU, 2)};
  l->f.rng = (rng_t){11};
  mlp_init(&l->mlp, &l->f.rng);
  l->function = make_function(&l->f, &mlp_subject, &l->mlp, percent);
}

static void end(life_t *l) {
  dt__trial_favour(0);
  dt_function_release(l->function);
  mlp_fini(&l->mlp);
  fixture_end(&l->f);
}

static dt_tensor_t *input(life_t *l, int64_t batch, int64_t seq) {
  const int64_t sizes[] = {batch, seq, 16};
  l->f.rng = (rng_t){(uint32_t)(batch * 100 + seq)};
  return tensor_f32(&l->f.rng, 3, sizes);
}

static dt_tensor_t *call(life_t *l, dt_tensor_t *in) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(l->f.session, l->function, &in, 1, &out, 1, NULL));
  return out;
}

static bool same(const dt_tensor_t *a, const dt_tensor_t *b) {
  return dt_tensor_bytes(a) == dt_tensor_bytes(b) &&
         memcmp(dt_tensor_data(a), dt_tensor_data(b), dt_tensor_bytes(a)) == 0;
}

static void add(life_t *l, int64_t batch, int64_t seq, uint64_t calls) {
  const int64_t values[] = {batch, seq};
  dt_histogram_t *histogram = &l->function->policy.histogram;
  assert_int_equal(histogram->width, 2);
  dt__histogram_lock(histogram);
  dt__histogram_add(histogram, values, calls, 0);
  dt__histogram_unlock(histogram);
}

static void wait_for_job(const life_t *l) {
  const struct timespec pause = {.tv_nsec = 1000000};
  while (atomic_load(&l->function->hot.posted))
    (void)nanosleep(&pause, NULL);
}

// What is told of variant `index` of the function's list.
static void expect_variant(life_t *l, uint32_t index, const char *tuned, const char *size) {
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(l->function, NULL, 0, &report));
  assert_true(report->n_variants > index);
  const dt_variant_info_t *variant = report->variants[index];
  assert_memory_equal(variant->tuned, tuned, strlen(tuned) + !tuned[0]); // "": nothing at all
  assert_string_equal(variant->dims[1]->size, size);
  dt_report_free(report);
}

// ---- Offers ---------------------------------------------------------------------------------------
static void test_offers(void **state) {
  (void)state;
  life_t l;
  dt_hot_offer_t offers[2];
  uint32_t n = 9;
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  live(&l, 50);
  assert_true(dt__hot_offers(l.function, &arena, 50, offers, &n));
  assert_int_equal(n, 0); // nothing was sampled
  add(&l, 1, 100, 60);
  add(&l, 3, 7, 40);
  assert_true(dt__hot_offers(l.function, &arena, 61, offers, &n));
  assert_int_equal(n, 0);
  assert_true(dt__hot_offers(l.function, &arena, 60, offers, &n));
  assert_int_equal(n, 1);
  assert_int_equal(offers[0].n_calls, 1);
  assert_int_equal(offers[0].low[0], 1);
  assert_int_equal(offers[0].high[0], 1);
  assert_int_equal(offers[0].low[1], 100);
  uint64_t hash = offers[0].hash;
  add(&l, 2, 64, 850); // no size is hot now, but most are multiples of 64
  add(&l, 5, 128, 800);
  assert_true(dt__hot_offers(l.function, &arena, 50, offers, &n));
  assert_int_equal(n, 1);
  assert_int_equal(offers[0].divisor[1], 64);
  assert_int_equal(offers[0].divisor[0], 1);
  assert_int_equal(offers[0].low[0], 2);
  assert_int_equal(offers[0].high[0], 5);
  assert_int_equal(offers[0].low[1], 64);
  assert_int_equal(offers[0].high[1], 128);
  assert_int_equal(offers[0].n_calls, 2);
  assert_true(offers[0].hash != hash);
  dt__arena_fini(&arena);
  end(&l);
}

// Dims of one name follow, derived ones too, static ones stay, numbers are what they were.
static dt_status_t follow_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_neg(t, in[2]);
  return NULL;
}

static const dt_input_decl_t follow_inputs[] = {
    {.name = "a",
     .dtype = DT_F32,
     .rank = 2,
     .dims = (dt_dim_decl_t[]){{.name = "n", .multiple_of = 4}, {.is_static = true, .value = 3}}},
    {.name = "b",
     .dtype = DT_F32,
     .rank = 2,
     .dims = (dt_dim_decl_t[]){{.name = "n", .min = 2}, {.is_static = true, .value = 3}}},
    {.name = "c",
     .dtype = DT_F16,
     .rank = 1,
     .dims = (dt_dim_decl_t[]){{.of = "n", .scale = 2, .offset = 1}}},
    {.name = "k", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
static const subject_t follow_subject = {"follow", follow_program, 4, 2, follow_inputs};

static void test_declared(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_function_t *function = make_function(&f, &follow_subject, NULL, 50);
  const int64_t values[] = {32, 77};
  assert_int_equal(function->policy.histogram.width, 2);
  dt__histogram_add(&function->policy.histogram, values, 10, 0);
  dt_hot_offer_t offers[2];
  uint32_t n = 0;
  assert_true(dt__hot_offers(function, &arena, 50, offers, &n));
  assert_int_equal(n, 1); // for one size; all multiples of 32 would be but that one
  dt_input_decl_t *inputs = dt__hot_declare(function, &arena, &offers[0]);
  for (uint32_t k = 0; k < 2; k++) {
    assert_true(inputs[k].dims[0].is_static);
    assert_int_equal(inputs[k].dims[0].value, 32);
    assert_int_equal(inputs[k].dims[1].value, 3);
  }
  assert_string_equal(inputs[2].dims[0].of, "n");
  assert_false(follow_inputs[0].dims[0].is_static);
  dt_tensor_t *in[4] = {NULL};
  expect_ok(dt__hot_arguments(function, &offers[0].calls[0], in));
  assert_int_equal(dt_tensor_sizes(in[0])[0], 32);
  assert_int_equal(dt_tensor_sizes(in[1])[1], 3);
  assert_int_equal(dt_tensor_sizes(in[2])[0], 65);
  assert_int_equal(*(int64_t *)dt_tensor_data(in[3]), 77);
  const float *data = dt_tensor_data(in[0]);
  assert_true(data[0] != data[1] && data[0] >= -1 && data[0] <= 1);
  dt_tensor_t *out[2] = {NULL};
  expect_ok(dt_call(f.session, function, in, 4, out, 2, NULL));
  RELEASE(out[0], out[1]);
  RELEASE(in[0], in[1], in[2], in[3]);
  dt__arena_fini(&arena);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- Made behind ----------------------------------------------------------------------------------
// Calls of one size until a variant of its own answers it; others are answered as ever.
static void test_made(void **state) {
  (void)state;
  life_t l;
  live(&l, 60);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt_tensor_t *hot = input(&l, 2, 8), *cold = input(&l, 3, 5);
  dt_tensor_t *want = call(&l, hot), *cold_want = call(&l, cold);
  for (uint32_t k = 0; k < MANY_CALLS && stats_of(l.function).variants < 2; k++) {
    dt_tensor_t *out = call(&l, hot);
    assert_true(same(out, want));
    RELEASE(out);
  }
  wait_for_job(&l);
  assert_int_equal(stats_of(l.function).variants, 2);
  assert_int_equal(stats_of(l.function).compiles, 1);
  assert_int_equal(stats_of(l.function).misses, 1);
  expect_variant(&l, 0, "for hot sizes: ", "8");
  expect_variant(&l, 1, "", "s1");
  dt_tensor_t *out = call(&l, hot), *cold_out = call(&l, cold);
  assert_true(same(out, want));
  assert_true(same(cold_out, cold_want));
  RELEASE(out, cold_out);
  // It is updated like the others.
  expect_ok(dt_constant_update(l.function, "b1", l.mlp.b1));
  out = call(&l, hot);
  assert_true(same(out, want));
  RELEASE(out, want, hot, cold, cold_want);
  end(&l);
}

static void test_off(void **state) {
  (void)state;
  life_t l;
  live(&l, 0);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt_tensor_t *hot = input(&l, 2, 8);
  for (uint32_t k = 0; k < 20000; k++)
    dt_tensor_release(call(&l, hot));
  assert_int_equal(stats_of(l.function).variants, 1);
  RELEASE(hot);
  end(&l);
}

// What does not pay is not used, and not made again.
static void test_does_not_pay(void **state) {
  (void)state;
  life_t l;
  live(&l, 60);
  dt__trial_favour(1); // nothing has that
  dt_tensor_t *hot = input(&l, 2, 8);
  dt_tensor_release(call(&l, hot));
  add(&l, 2, 8, 1000);
  for (int k = 0; k < 2; k++) {
    dt__hot_request(l.function);
    wait_for_job(&l);
    assert_int_equal(l.function->hot.n_offered, 1);
    assert_int_equal(stats_of(l.function).variants, 1);
  }
  RELEASE(hot);
  end(&l);
}

// Ranges and divisors that calls have in common.
static void test_shapes(void **state) {
  (void)state;
  life_t l;
  live(&l, 80);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt_tensor_t *in[] = {input(&l, 2, 16), input(&l, 4, 48), input(&l, 3, 32), input(&l, 2, 17),
                       input(&l, 5, 16)};
  dt_tensor_t *want[5];
  for (uint32_t k = 0; k < 5; k++)
    want[k] = call(&l, in[k]);
  add(&l, 2, 16, 300);
  add(&l, 4, 48, 300);
  add(&l, 2, 17, 3);
  dt__hot_request(l.function);
  wait_for_job(&l);
  assert_int_equal(stats_of(l.function).variants, 2);
  expect_variant(&l, 0, "for hot sizes: ", "s1");
  for (uint32_t k = 0; k < 5; k++) {
    dt_report_t *report = NULL;
    expect_ok(dt_function_report(l.function, &in[k], 1, &report));
    assert_int_equal(report->misses[0]->hit, k < 3); // 2 to 4, and multiples of 16 up to 48
    dt_report_free(report);
    dt_tensor_t *out = call(&l, in[k]);
    assert_true(same(out, want[k]));
    RELEASE(out, want[k]);
  }
  RELEASE(in[0], in[1], in[2], in[3], in[4]);
  end(&l);
}

// A profile that says what is hot is enough.
static void test_profile(void **state) {
  (void)state;
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16];
  life_t l;
  folder_make(folder);
  (void)snprintf(path, sizeof(path), "%s/profile", folder);
  live(&l, 60);
  add(&l, 2, 8, 100);
  expect_ok(dt_function_profile_save(l.function, path));
  end(&l);
  live(&l, 60);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt_tensor_t *hot = input(&l, 2, 8);
  dt_tensor_t *want = call(&l, hot);
  expect_ok(dt_function_profile_load(l.function, path));
  wait_for_job(&l);
  assert_int_equal(stats_of(l.function).variants, 2);
  dt_tensor_t *out = call(&l, hot);
  assert_true(same(out, want));
  RELEASE(out, want, hot);
  end(&l);
  assert_int_equal(folder_drop(folder), 0);
}

// ---- While calls go on, and at the end ------------------------------------------------------------
typedef struct caller_t {
  life_t *life;
  dt_tensor_t *in[2], *want[2];
  _Atomic bool *stop;
  bool wrong;
} caller_t;

static void *keep_calling(void *opaque) {
  caller_t *caller = opaque;
  dt_session_t *session = session_of(caller->life->f.runtime);
  for (uint32_t k = 0; !atomic_load(caller->stop) && !caller->wrong; k ^= 1) {
    dt_tensor_t *out = NULL;
    dt_status_t status = dt_call(session, caller->life->function, &caller->in[k], 1, &out, 1, NULL);
    caller->wrong = status || !same(out, caller->want[k]);
    dt_status_free(status);
    dt_tensor_release(out);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  life_t l;
  live(&l, 40);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt_tensor_t *in[2] = {input(&l, 2, 8), input(&l, 19, 37)};
  dt_tensor_t *want[2] = {call(&l, in[0]), call(&l, in[1])};
  _Atomic bool stop = false;
  caller_t callers[N_THREADS];
  pthread_t threads[N_THREADS];
  for (uint32_t k = 0; k < N_THREADS; k++) {
    callers[k] = (caller_t){&l, {in[0], in[1]}, {want[0], want[1]}, &stop, false};
    assert_int_equal(pthread_create(&threads[k], NULL, keep_calling, &callers[k]), 0);
  }
  add(&l, 2, 8, 1000000);
  for (uint32_t k = 0; k < 3; k++) { // each becomes the most frequent one by turns
    dt__hot_request(l.function);
    wait_for_job(&l);
    add(&l, 19, 37 + k, 2000000 << k);
  }
  atomic_store(&stop, true);
  for (uint32_t k = 0; k < N_THREADS; k++) {
    assert_int_equal(pthread_join(threads[k], NULL), 0);
    assert_false(callers[k].wrong);
  }
  assert_true(stats_of(l.function).variants >= 2);
  assert_int_equal(stats_of(l.function).failed_calls, 0);
  RELEASE(in[0], in[1], want[0], want[1]);
  end(&l);
}

// The function goes while one is made, at whatever point.
static void test_released(void **state) {
  (void)state;
  for (uint32_t k = 0; k < 12; k++) {
    life_t l;
    live(&l, 60);
    dt_tensor_t *hot = input(&l, 2, 8);
    dt_tensor_release(call(&l, hot));
    add(&l, 2, 8, 1000);
    dt__hot_request(l.function);
    const struct timespec pause = {.tv_nsec = (long)k * 3000000};
    (void)nanosleep(&pause, NULL);
    RELEASE(hot);
    end(&l);
  }
}

static void test_refused(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_function_t *function = NULL;
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "f",
                                         .n_inputs = softmax_subject.n_inputs,
                                         .inputs = softmax_subject.inputs,
                                         .input_size = sizeof(dt_input_decl_t),
                                         .dim_size = sizeof(dt_dim_decl_t),
                                         .n_outputs = 1,
                                         .hot_percent = 101};
  expect_told(dt_function_create(f.runtime, softmax_subject.program, NULL, &options, &function),
              DT_E_ARGUMENT, "hot_percent: 101");
  fixture_end(&f);
}

RUN_TESTS(TEST(test_offers), TEST(test_declared), TEST(test_made), TEST(test_off),
          TEST(test_does_not_pay), TEST(test_shapes), TEST(test_profile), TEST(test_threads),
          TEST(test_released), TEST(test_refused))
