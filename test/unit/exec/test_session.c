// SPDX-License-Identifier: Apache-2.0
// A session serves one call at a time: what uses it meanwhile, from inside a program or on another
// thread, is told so and harms neither.
#include "test/support/fixture.h"

#include "ductile/device.h"
#include "ductile/graphs.h"

#include <pthread.h>
#include <stdatomic.h>

static int setup(void **state) { return fixture_open(state, 2, 37); }

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_dim_decl_t two[] = {{.is_static = true, .value = 2}};
static const dt_dim_decl_t sixty[] = {{.is_static = true, .value = 60}};
static const dt_input_decl_t shaped[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "n", .dtype = DT_I64, .rank = 1, .dims = two, .kind = DT_INPUT_INTEGERS}};
static const dt_input_decl_t many[] = {
    {.name = "n", .dtype = DT_I64, .rank = 1, .dims = sixty, .kind = DT_INPUT_INTEGERS}};

// What a program does while it is traced in a call of `session`.
typedef struct inside_t {
  dt_session_t *session;
  dt_function_t *other;
  void (*act)(struct inside_t *inside);
  int traced;
} inside_t;

static void act_once(inside_t *inside) {
  if (inside->traced++ == 0 && inside->act)
    inside->act(inside);
}

static dt_status_t neg_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  if (closure)
    act_once(closure);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t reshape_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  act_once(closure);
  uint32_t n = 0;
  const dt_sym_t *shape = dt_int_elements(t, in[1], &n);
  out[0] = dt_reshape(t, in[0], n, shape);
  return NULL;
}

static const char busy[] = "the session is in a call";

// ---- From inside a program --------------------------------------------------------------------------

// More integers than the outer call has, so that the session's room for them would move.
static void call_with_many(inside_t *inside) {
  int64_t sixty_sizes[60] = {0}, size = 60;
  dt_tensor_t *n = tensor_i64(1, &size, sixty_sizes), *out = NULL;
  expect_told(dt_call(inside->session, inside->other, &n, 1, &out, 1, NULL), DT_E_STATE, busy);
  assert_null(out);
  dt_tensor_release(n);
}

static void test_nested_call(void **state) {
  fixture_t *fixture = *state;
  inside_t inside = {.session = fixture->session, .act = call_with_many};
  dt_function_options_t options = options_of(1, many);
  inside.other = function_of(fixture, neg_program, NULL, &options);
  options = options_of(2, shaped);
  dt_function_t *outer = function_of(fixture, reshape_program, &inside, &options);
  int64_t size = 6, length = 2, sizes[] = {2, 3};
  dt_tensor_t *x = tensor_full(5, 1, &size), *n = tensor_i64(1, &length, sizes), *out = NULL;
  expect_ok(dt_call(fixture->session, outer, (dt_tensor_t *[]){x, n}, 2, &out, 1, NULL));
  assert_int_equal(inside.traced, 1);
  assert_int_equal(dt_tensor_sizes(out)[1], 3);
  assert_int_equal(stats_of(inside.other).failed_calls, 1);
  dt_tensor_release(out);
  // The session is as good as before.
  int64_t zeros[60] = {0}, sixty_long = 60;
  dt_tensor_t *numbers = tensor_i64(1, &sixty_long, zeros);
  out = NULL;
  expect_ok(dt_call(fixture->session, inside.other, &numbers, 1, &out, 1, NULL));
  RELEASE(out, numbers, x, n);
  dt_function_release(outer);
  dt_function_release(inside.other);
}

static void use_all(inside_t *inside) {
  dt_session_t *session = inside->session;
  int64_t size = 3;
  double ns = 0;
  dt_tensor_t *x = tensor_full(1, 1, &size), *out = NULL;
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  dt_event_t *event = NULL;
  expect_told(dt_call(session, inside->other, &x, 1, &out, 1, NULL), DT_E_STATE, busy);
  expect_told(dt_call(session, inside->other, &x, 1, &out, 1, NULL), DT_E_STATE, busy);
  expect_told(dt_function_guard_ns(session, inside->other, &x, 1, 1, &ns), DT_E_STATE, busy);
  expect_told(dt_session_wait(session), DT_E_STATE, busy);
  expect_told(dt_step_begin(session), DT_E_STATE, busy);
  expect_told(dt_session_trim(session), DT_E_STATE, busy);
  expect_told(dt_session_freeze(session, true), DT_E_STATE, busy);
  expect_told(dt_session_counters(session, &stats), DT_E_STATE, busy);
  expect_told(dt_tensor_keep(session, x, &out), DT_E_STATE, busy);
  expect_ok(dt_event_create(session, &event));
  expect_told(dt_event_record(session, event), DT_E_STATE, busy);
  expect_told(dt_event_wait(session, event), DT_E_STATE, busy);
  dt_event_destroy(event);
  assert_null(out);
  dt_tensor_release(x);
}

static void call_neg(dt_session_t *session, dt_function_t *function, dt_code_t code) {
  int64_t size = 3;
  dt_tensor_t *x = tensor_full(1, 1, &size), *out = NULL;
  expect_code(dt_call(session, function, &x, 1, &out, 1, NULL), code);
  if (code == DT_OK)
    assert_true(((const float *)dt_tensor_data(out))[2] == -1.0f);
  RELEASE(out, x);
}

static void test_every_use(void **state) {
  fixture_t *fixture = *state;
  inside_t inside = {.session = fixture->session, .act = use_all};
  dt_function_options_t options = options_of(1, one_vector);
  inside.other = function_of(fixture, neg_program, NULL, &options);
  dt_function_t *outer = function_of(fixture, neg_program, &inside, &options);
  call_neg(fixture->session, outer, DT_OK);
  assert_int_equal(inside.traced, 1);
  call_neg(fixture->session, inside.other, DT_OK);
  double ns = 0;
  int64_t size = 3;
  dt_tensor_t *x = tensor_full(1, 1, &size);
  expect_ok(dt_function_guard_ns(fixture->session, outer, &x, 1, 3, &ns));
  expect_ok(dt_session_trim(fixture->session));
  expect_ok(dt_step_begin(fixture->session));
  call_neg(fixture->session, outer, DT_OK);
  dt_tensor_release(x);
  dt_function_release(outer);
  dt_function_release(inside.other);
}

// A session of its own serves a program, and its own function does not.
static void call_own(inside_t *inside) { call_neg(inside->session, inside->other, DT_E_STATE); }

static void test_own_function(void **state) {
  fixture_t *fixture = *state;
  inside_t inside = {.act = call_own};
  dt_function_options_t options = options_of(1, one_vector);
  expect_ok(dt_session_create(fixture->runtime, NULL, &inside.session));
  dt_function_t *outer = inside.other = function_of(fixture, neg_program, &inside, &options);
  call_neg(fixture->session, outer, DT_OK);
  dt_function_t *inner = function_of(fixture, neg_program, NULL, &options);
  call_neg(inside.session, inner, DT_OK);
  dt_session_destroy(inside.session);
  dt_function_release(inner);
  dt_function_release(outer);
}

// The call goes on with the session, which goes after it: sanitizers would see a use too many, or
// one that is left.
static void destroy_session(inside_t *inside) { dt_session_destroy(inside->session); }

static void test_destroyed_in_a_call(void **state) {
  fixture_t *fixture = *state;
  inside_t inside = {.act = destroy_session};
  dt_function_options_t options = options_of(1, one_vector);
  expect_ok(dt_session_create(fixture->runtime, NULL, &inside.session));
  dt_function_t *outer = function_of(fixture, neg_program, &inside, &options);
  call_neg(inside.session, outer, DT_OK);
  assert_int_equal(inside.traced, 1);
  call_neg(fixture->session, outer, DT_OK);
  dt_function_release(outer);
}

// ---- On another thread ------------------------------------------------------------------------------

typedef struct meeting_t {
  pthread_barrier_t inside, told;
  dt_session_t *session;
  dt_function_t *outer, *other;
  dt_code_t code;
} meeting_t;

static dt_status_t meeting_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  meeting_t *meeting = closure;
  (void)pthread_barrier_wait(&meeting->inside);
  (void)pthread_barrier_wait(&meeting->told);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void *meeting_main(void *opaque) {
  meeting_t *meeting = opaque;
  int64_t size = 3;
  dt_tensor_t *x = NULL, *out = NULL;
  dt_status_free(dt_tensor_create_empty(DT_F32, 1, &size, &x));
  dt_status_t status = dt_call(meeting->session, meeting->outer, &x, 1, &out, 1, NULL);
  meeting->code = dt_status_code(status);
  dt_status_free(status);
  RELEASE(out, x);
  return NULL;
}

static void test_two_threads(void **state) {
  fixture_t *fixture = *state;
  meeting_t meeting = {.session = fixture->session};
  dt_function_options_t options = options_of(1, one_vector);
  assert_int_equal(pthread_barrier_init(&meeting.inside, NULL, 2), 0);
  assert_int_equal(pthread_barrier_init(&meeting.told, NULL, 2), 0);
  meeting.outer = function_of(fixture, meeting_program, &meeting, &options);
  meeting.other = function_of(fixture, neg_program, NULL, &options);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, meeting_main, &meeting), 0);
  (void)pthread_barrier_wait(&meeting.inside);
  call_neg(fixture->session, meeting.other, DT_E_STATE);
  (void)pthread_barrier_wait(&meeting.told);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(meeting.code, DT_OK);
  call_neg(fixture->session, meeting.other, DT_OK);
  dt_function_release(meeting.outer);
  dt_function_release(meeting.other);
  (void)pthread_barrier_destroy(&meeting.inside);
  (void)pthread_barrier_destroy(&meeting.told);
}

#define HAMMERERS 4
#define BLOWS 3000
typedef struct hammer_t {
  pthread_t thread;
  dt_session_t *session;
  dt_function_t *function;
  int64_t size;
  uint32_t right, refused, wrong; // read after the join
} hammer_t;

static bool all_are(const dt_tensor_t *tensor, int64_t n, float value) {
  const float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < n; i++) {
    if (data[i] != value)
      return false;
  }
  return true;
}

static void *hammer_main(void *opaque) {
  hammer_t *hammer = opaque;
  dt_tensor_t *x = NULL;
  dt_status_free(dt_tensor_create_empty(DT_F32, 1, &hammer->size, &x));
  for (int64_t i = 0; i < hammer->size; i++)
    ((float *)dt_tensor_data(x))[i] = (float)hammer->size;
  for (int i = 0; i < BLOWS; i++) {
    dt_tensor_t *out = NULL;
    dt_status_t status = dt_call(hammer->session, hammer->function, &x, 1, &out, 1, NULL);
    if (!status)
      *(all_are(out, hammer->size, -(float)hammer->size) ? &hammer->right : &hammer->wrong) += 1;
    else
      *(dt_status_code(status) == DT_E_STATE ? &hammer->refused : &hammer->wrong) += 1;
    dt_status_free(status);
    dt_tensor_release(out);
  }
  dt_tensor_release(x);
  return NULL;
}

static void test_many_threads(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *function = function_of(fixture, neg_program, NULL, &options);
  hammer_t hammers[HAMMERERS];
  for (int i = 0; i < HAMMERERS; i++) {
    hammers[i] =
        (hammer_t){.session = fixture->session, .function = function, .size = 40 + i * 1000};
    assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]), 0);
  }
  uint32_t right = 0;
  for (int i = 0; i < HAMMERERS; i++) {
    assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
    assert_int_equal(hammers[i].wrong, 0);
    right += hammers[i].right;
  }
  assert_int_equal(stats_of(function).calls, right);
  assert_true(right > 0);
  call_neg(fixture->session, function, DT_OK);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_nested_call), TEST(test_every_use),
               TEST(test_own_function), TEST(test_destroyed_in_a_call), TEST(test_two_threads),
               TEST(test_many_threads))
