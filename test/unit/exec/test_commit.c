// SPDX-License-Identifier: Apache-2.0
// The commit point: a call that fails leaves the tensors that it updates as they were, wherever the
// check stands (beside the update, in an earlier or a later part of the call, in a branch, in a
// loop) and wherever it runs: on the CPU, on devices (the fake driver runs the PTX), in a CUDA
// graph. A call that does not fail updates them as the evaluator does.
#include "test/support/subjects.h"

#include <stdio.h>

#define ROWS 37
#define WIDTH 5
#define IDS 3

// ---- Programs -------------------------------------------------------------------------------------
enum { X, Y, AT, COUNT, N_IN };

static dt_value_t total(dt_trace_t *t, dt_value_t x) { return dt_sum(t, x, 0, NULL, true); }
static dt_value_t picked(dt_trace_t *t, const dt_value_t *in) {
  return total(t, dt_gather(t, in[X], in[AT], 0));
}

// The check is fused with what is updated.
static dt_status_t beside(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[Y]);
  dt_update(t, in[X], dt_add(t, dt_neg(t, in[X]), picked(t, in)));
  return NULL;
}

// Nothing of what is updated depends on what is checked.
static dt_status_t apart(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_gather(t, in[Y], in[AT], 0);
  dt_update(t, in[X], dt_add(t, in[X], in[Y]));
  return NULL;
}

// A cache of rows that is written at a position.
static dt_status_t cache(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t first = dt_slice(t, in[AT], 0, dt_sym_const(t, 0), dt_sym_const(t, 1), 1);
  dt_value_t row = dt_slice(t, in[Y], 0, dt_sym_const(t, 0), dt_sym_const(t, 1), 1);
  dt_value_t at = dt_reshape(t, first, 0, NULL);
  dt_value_t now = dt_update_slice(t, in[X], row, at, 0, DT_UPDATE_CHECKED);
  dt_update(t, in[X], now);
  out[0] = dt_mul(t, now, now);
  return NULL;
}

// Two that exchange.
static dt_status_t two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t x = in[X], y = in[Y];
  out[0] = picked(t, in);
  dt_update(t, in[X], dt_add(t, y, out[0]));
  dt_update(t, in[Y], dt_neg(t, x));
  return NULL;
}

// A number is read from data before the check is made, and a result is sized by it.
static dt_status_t later(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[COUNT]);
  out[0] = dt_slice(t, in[Y], 0, dt_sym_const(t, 0), k, 1);
  dt_update(t, in[X], dt_add(t, in[X], dt_add(t, total(t, out[0]), picked(t, in))));
  return NULL;
}

// The same, where no result is: a device knows the number before the host does.
static dt_status_t sized(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[COUNT]);
  dt_check(t, dt_sym_le(t, k, dt_dim(t, in[Y], 0)), "no more than there is");
  out[0] = total(t, dt_slice(t, in[Y], 0, dt_sym_const(t, 0), k, 1));
  dt_update(t, in[X], dt_add(t, in[X], dt_add(t, out[0], picked(t, in))));
  return NULL;
}

// The check comes before the number: the call ends before the part that updates.
static dt_status_t earlier(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t some = dt_masked_select(t, in[Y], dt_lt(t, in[Y], picked(t, in)));
  dt_update(t, in[X], dt_add(t, in[X], total(t, some)));
  out[0] = dt_neg(t, some);
  return NULL;
}

static dt_status_t pick(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = picked(t, in);
  return NULL;
}
static dt_status_t sum_of(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = total(t, in[Y]);
  return NULL;
}
static dt_status_t branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t some = dt_gt(t, in[COUNT], dt_scalar(t, DT_I64, 0));
  dt_cond(t, some, pick, sum_of, closure, N_IN, in, 1, out);
  dt_update(t, in[X], dt_add(t, in[X], out[0]));
  return NULL;
}

static dt_status_t is_less(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[2 + COUNT]);
  return NULL;
}
static dt_status_t step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  out[1] = dt_add(t, in[1], picked(t, in + 2));
  return NULL;
}
static dt_status_t loop(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t state[2] = {dt_scalar(t, DT_I64, 0), total(t, in[Y])};
  dt_while(t, is_less, step, closure, 2, state, N_IN, in, state);
  out[0] = state[1];
  dt_update(t, in[X], dt_add(t, in[X], out[0]));
  return NULL;
}

static const struct {
  const char *name;
  dt_program_fn_t program;
} programs[] = {{"beside", beside},   {"apart", apart},   {"cache", cache},
                {"two", two},         {"later", later},   {"sized", sized},
                {"earlier", earlier}, {"branch", branch}, {"loop", loop}};
#define N_PROGRAMS (sizeof(programs) / sizeof(programs[0]))

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct place_t {
  fixture_t on;
  dt_call_mode_t mode;
} place_t;

static dt_function_t *function_at(dt_runtime_t *runtime, size_t program, dt_answer_t answer) {
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.name = "width"}};
  static const dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "y", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "at", .dtype = DT_I64, .rank = 1},
      {.name = "count", .dtype = DT_I64, .rank = 0}};
  subject_t subject = {programs[program].name, programs[program].program, N_IN, 1, inputs};
  return subject_function(runtime, &subject, NULL, answer);
}

static void fill(dt_tensor_t *in[N_IN], bool good) {
  static const int64_t sizes[] = {ROWS, WIDTH}, ids = IDS;
  const int64_t at[IDS] = {good ? 3 : ROWS + 4, 0, 1}, count = 2;
  rng_t rng = {20261123};
  in[X] = tensor_f32(&rng, 2, sizes);
  in[Y] = tensor_f32(&rng, 2, sizes);
  in[AT] = tensor_i64(1, &ids, at);
  in[COUNT] = tensor_i64(0, NULL, &count);
}

static void release(dt_tensor_t *in[N_IN]) { release_tensors(in, N_IN); }

// On a device the status of a failed check comes with the wait.
static dt_status_t call(const place_t *place, dt_function_t *function, dt_tensor_t *in[N_IN]) {
  dt_tensor_t *out = NULL;
  dt_call_options_t options = {.struct_size = sizeof(options), .mode = place->mode};
  dt_status_t status = dt_call(place->on.session, function, in, N_IN, &out, 1, &options);
  if (!status)
    status = dt_session_wait(place->on.session);
  dt_tensor_release(out);
  return status;
}

static void to_place(const place_t *place, dt_tensor_t *const from[N_IN], dt_tensor_t *to[N_IN]) {
  for (uint32_t i = 0; i < N_IN; i++) {
    expect_ok(dt_tensor_create_on(place->on.session, dt_tensor_dtype(from[i]),
                                  dt_tensor_rank(from[i]), dt_tensor_sizes(from[i]), &to[i]));
    expect_ok(dt_tensor_copy(place->on.session, from[i], to[i]));
  }
}

static void expect_same(const place_t *place, dt_tensor_t *here, dt_tensor_t *there,
                        double tolerance, const char *what) {
  dt_tensor_t *copy = tensor_empty(DT_F32, 2, dt_tensor_sizes(here));
  expect_ok(dt_tensor_copy(place->on.session, there, copy));
  expect_ok(dt_session_wait(place->on.session));
  expect_close(copy, here, tolerance, tolerance, what);
  dt_tensor_release(copy);
}

// Fails, succeeds, fails: memory, graphs and gates have what was left by the call before.
static void check(const place_t *place, const place_t *host, size_t program) {
  dt_function_t *function = function_at(place->on.runtime, program, compiled_answer());
  dt_function_t *evaluated = function_at(host->on.runtime, program, DT_ANSWER_EVALUATOR);
  for (int round = 0; round < 5; round++) {
    bool good = round % 2 == 1;
    char what[96];
    snprintf(what, sizeof(what), "%s, round %d", programs[program].name, round);
    dt_tensor_t *here[N_IN], *there[N_IN];
    fill(here, good);
    to_place(place, here, there);
    if (good) {
      expect_ok(call(place, function, there));
      expect_ok(call(host, evaluated, here));
    } else {
      expect_code(call(place, function, there), DT_E_RANGE);
    }
    expect_same(place, here[X], there[X], good ? 1e-5 : 0, what);
    expect_same(place, here[Y], there[Y], good ? 1e-5 : 0, what);
    release(here);
    release(there);
  }
  dt_function_release(function);
  dt_function_release(evaluated);
}

static void check_all(dt_device_t device, dt_call_mode_t mode) {
  place_t place = {fixture_on(device, 3), mode}, host = {fixture_on(DT_CPU, 1), DT_CALL_DEFAULT};
  for (size_t k = 0; k < N_PROGRAMS; k++)
    check(&place, &host, k);
  fixture_end(&place.on);
  fixture_end(&host.on);
}

static void test_cpu(void **state) {
  (void)state;
  check_all(DT_CPU, DT_CALL_DEFAULT);
}
static void test_cuda(void **state) {
  (void)state;
  check_all(DT_CUDA, DT_CALL_DEFAULT);
}
static void test_graphs(void **state) {
  (void)state;
  check_all(DT_CUDA, DT_CALL_REDUCE_OVERHEAD);
}

RUN_TESTS(TEST(test_cpu), TEST(test_cuda), TEST(test_graphs))
