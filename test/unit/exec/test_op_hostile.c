// SPDX-License-Identifier: Apache-2.0
// Ops of users that lie, fail or change the runtime under way: each is a status that names it, and
// the next call is right. What no status can tell (a kernel that writes outside of its tensors, a
// closure that is freed while it is used) is a rule of docs/own-ops.md.
#include "test/support/subjects.h"

#include "ductile/op.h"
#include "ductile/pass.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 4, 23); }

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static void register_op(fixture_t *f, dt_op_options_t options) {
  options.struct_size = sizeof(options);
  expect_ok(dt_op_register(f->runtime, &options));
}

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, void *closure) {
  dt_function_options_t options = options_of(1, one_vector);
  return function_of(f, fn, closure, &options);
}

static dt_status_t call(fixture_t *f, dt_function_t *function, int64_t n, float value) {
  dt_tensor_t *x = tensor_full(value, 1, &n), *out = NULL;
  dt_status_t status = dt_call(f->session, function, &x, 1, &out, 1, NULL);
  RELEASE(x, out);
  return status;
}

// ---- Ops that do nothing bad --------------------------------------------------------------------
static dt_status_t copy_infer(dt_op_call_t *c, void *closure) {
  (void)closure;
  dt_op_set_result_like(c, 0, dt_op_call_input(c, 0), DT_DTYPE_NONE);
  dt_op_set_items(c, dt_dim(dt_op_call_trace(c), dt_op_call_input(c, 0), 0));
  return NULL;
}

static dt_status_t copy_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    ((float *)args->results[0]->data)[i] = ((const float *)x->data)[i * x->strides[0]];
  return NULL;
}

static const dt_op_options_t copy_op = {
    .name = "test.copy", .infer = copy_infer, .kernel = copy_kernel};

// closure: the op's name.
static dt_status_t once(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_op_call(t, closure, 1, in, 0, NULL, 1, out);
  return NULL;
}

// ---- Inference that lies ------------------------------------------------------------------------
static dt_status_t rank_9(dt_op_call_t *c, void *closure) {
  dt_sym_t sizes[9];
  (void)closure;
  for (int d = 0; d < 9; d++)
    sizes[d] = dt_sym_const(dt_op_call_trace(c), 1);
  dt_op_set_result(c, 0, DT_F32, 9, sizes);
  return NULL;
}

static dt_status_t no_sizes(dt_op_call_t *c, void *closure) {
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 2, NULL);
  return NULL;
}

static dt_status_t none_sizes(dt_op_call_t *c, void *closure) {
  const dt_sym_t sizes[2] = {{0}, {0}};
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 2, sizes);
  return NULL;
}

static dt_status_t foreign_sizes(dt_op_call_t *c, void *closure) {
  const dt_sym_t sizes[1] = {{UINT32_MAX}};
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 1, sizes);
  return NULL;
}

static dt_status_t negative_size(dt_op_call_t *c, void *closure) {
  dt_sym_t size = dt_sym_const(dt_op_call_trace(c), -1);
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 1, &size);
  return NULL;
}

static dt_status_t no_dtype(dt_op_call_t *c, void *closure) {
  (void)closure;
  dt_op_set_result(c, 0, (dt_dtype_t)999, 0, NULL);
  return NULL;
}

static dt_status_t nine_results(dt_op_call_t *c, void *closure) {
  (void)closure;
  for (uint32_t k = 0; k < 9; k++)
    dt_op_set_result(c, k, DT_F32, 0, NULL);
  return NULL;
}

static dt_status_t none_items(dt_op_call_t *c, void *closure) {
  (void)closure;
  dt_op_set_result_like(c, 0, dt_op_call_input(c, 0), DT_F32);
  dt_op_set_items(c, (dt_sym_t){0});
  return NULL;
}

static dt_status_t no_number(dt_op_call_t *c, void *closure) {
  dt_sym_t n = dt_op_number(c, 0, 7); // of an op that reads none
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t own_status(dt_op_call_t *c, void *closure) {
  dt_trace_t *t = dt_op_call_trace(c);
  (void)closure;
  (void)dt_matmul(t, dt_op_call_input(c, 0), dt_op_call_input(c, 7));
  return dt_trace_status(t); // the trace's, and not infer's to give
}

static dt_status_t other_status(dt_op_call_t *c, void *closure) {
  dt_trace_t *t = dt_op_call_trace(c);
  (void)closure;
  (void)dt_matmul(t, dt_op_call_input(c, 0), dt_op_call_input(c, 7));
  return dt_status_make(DT_E_RANGE, "what came later");
}

static dt_status_t no_failure(dt_op_call_t *c, void *closure) {
  (void)c, (void)closure;
  return dt_status_make((dt_code_t)4711, NULL);
}

static void test_inference_that_lies(void **state) {
  fixture_t *f = *state;
  static const struct {
    const char *name;
    dt_op_infer_fn_t infer;
    dt_code_t code;
    const char *says;
  } ops[] = {
      {"lies.rank", rank_9, DT_E_LIMIT, "lies.rank"},
      {"lies.none", no_sizes, DT_E_ARGUMENT, "lies.none"},
      {"lies.ids", none_sizes, DT_E_ARGUMENT, "lies.ids"},
      {"lies.foreign", foreign_sizes, DT_E_ARGUMENT, "lies.foreign"},
      {"lies.negative", negative_size, DT_E_SHAPE, "a size of a result is negative"},
      {"lies.dtype", no_dtype, DT_E_DTYPE, "lies.dtype: result 0: 999 is no dtype"},
      {"lies.many", nine_results, DT_E_ARGUMENT, "lies.many: result 8 is set"},
      {"lies.items", none_items, DT_E_ARGUMENT, "lies.items"},
      {"lies.number", no_number, DT_E_ARGUMENT, "lies.number: number 0 of 0"},
      {"lies.own", own_status, DT_E_ARGUMENT, "lies.own"},
      {"lies.other", other_status, DT_E_ARGUMENT, "lies.other"},
      {"lies.code", no_failure, DT_E_ARGUMENT, "lies.code: failed"},
  };
  register_op(f, copy_op);
  dt_function_t *good = make(f, once, "test.copy");
  for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
    char name[32];
    memcpy(name, ops[k].name, strlen(ops[k].name) + 1);
    register_op(
        f, (dt_op_options_t){.name = ops[k].name, .infer = ops[k].infer, .kernel = copy_kernel});
    dt_function_t *function = make(f, once, name);
    for (int turn = 0; turn < 2; turn++)
      expect_told(call(f, function, 3, 1), ops[k].code, ops[k].says);
    dt_function_release(function);
    expect_ok(call(f, good, 3, 1));
  }
  dt_function_release(good);
}

// A size that is negative at some calls: a guard of the others.
static dt_status_t less_3(dt_op_call_t *c, void *closure) {
  dt_trace_t *t = dt_op_call_trace(c);
  dt_sym_t n = dt_sym_sub(t, dt_dim(t, dt_op_call_input(c, 0), 0), dt_sym_const(t, 3));
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t zeros_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  for (int64_t i = 0; i < args->results[0]->sizes[0]; i++)
    ((float *)args->results[0]->data)[i] = 0;
  return NULL;
}

static void test_a_size_that_is_negative_at_some_calls(void **state) {
  fixture_t *f = *state;
  register_op(f, (dt_op_options_t){.name = "test.less", .infer = less_3, .kernel = zeros_kernel});
  dt_function_t *function = make(f, once, "test.less");
  for (int64_t n = 8; n >= 0; n--)
    if (n >= 3)
      expect_ok(call(f, function, n, 1));
    else
      expect_told(call(f, function, n, 1), DT_E_SHAPE, "a size of a result is negative");
  expect_ok(call(f, function, 5, 1));
  dt_function_release(function);
}

// ---- Kernels that fail --------------------------------------------------------------------------
static _Atomic int64_t bad_item; // -1: none; -2: all

static dt_status_t one_fails(const dt_op_args_t *args, int64_t begin, int64_t end) {
  int64_t bad = atomic_load(&bad_item);
  if (bad == -2 || (bad >= begin && bad < end))
    return dt_status_make(DT_E_RANGE, bad == -2 ? "all of them" : "the one");
  return copy_kernel(args, begin, end);
}

static void test_items_that_fail(void **state) {
  fixture_t *f = *state;
  enum { N = 20000 };
  dt_op_options_t op = copy_op;
  op.kernel = one_fails;
  register_op(f, op);
  dt_function_t *function = make(f, once, "test.copy");
  for (int turn = 0; turn < 30; turn++) {
    static const int64_t items[] = {-1, 0, 17, N / 2, N - 1, -2};
    int64_t bad = items[turn % 6];
    atomic_store(&bad_item, bad);
    if (bad == -1)
      expect_ok(call(f, function, N, 1));
    else
      expect_told(call(f, function, N, 1), DT_E_RANGE,
                  bad == -2 ? "test.copy: all of them" : "test.copy: the one");
  }
  dt_function_release(function);
}

// ---- Numbers out of range -----------------------------------------------------------------------
static int64_t number; // what is read
static dt_status_t bounded(dt_op_call_t *c, void *closure) {
  dt_sym_t n = dt_op_number(c, 0, 10);
  (void)closure;
  dt_op_set_result(c, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t any_number(const dt_op_args_t *args, int64_t *numbers) {
  assert_int_equal(args->n_results, 0);
  numbers[0] = number;
  return number == 5 ? dt_status_make(DT_E_IO, "no number") : NULL;
}

static void test_numbers_out_of_range(void **state) {
  fixture_t *f = *state;
  static const int64_t bad[] = {-1, 11, INT64_MIN, INT64_MAX, INT64_C(1) << 32};
  register_op(f, (dt_op_options_t){.name = "test.any",
                                   .infer = bounded,
                                   .kernel = zeros_kernel,
                                   .n_numbers = 1,
                                   .numbers = any_number});
  dt_function_t *function = make(f, once, "test.any");
  for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    number = bad[k];
    expect_told(call(f, function, 3, 1), DT_E_RANGE, "test.any");
    number = (int64_t)k * 2; // from 0 on
    expect_ok(call(f, function, 3, 1));
  }
  number = 5;
  expect_told(call(f, function, 3, 1), DT_E_IO, "test.any: no number");
  number = 10;
  expect_ok(call(f, function, 3, 1));
  dt_function_release(function);
}

// ---- Changing the runtime under way -------------------------------------------------------------
typedef struct changer_t {
  dt_runtime_t *runtime;
  dt_code_t code; // what changes end with
  int made;
} changer_t;

static dt_status_t changing_infer(dt_op_call_t *c, void *closure) {
  changer_t *own = closure;
  dt_op_options_t options = copy_op;
  options.struct_size = sizeof(options);
  if (own->code == DT_OK) {
    expect_ok(dt_op_register(own->runtime, &options));
    expect_ok(dt_op_remove(own->runtime, "test.changing")); // itself
  } else {
    expect_told(dt_op_register(own->runtime, &options), own->code, "another list of ops");
    expect_told(dt_op_remove(own->runtime, "test.changing"), own->code, "another list of ops");
  }
  own->made++;
  return copy_infer(c, NULL);
}

static void test_ops_change_while_one_is_inferred(void **state) {
  fixture_t *f = *state;
  changer_t own = {f->runtime, DT_OK, 0};
  register_op(f, (dt_op_options_t){.name = "test.changing",
                                   .infer = changing_infer,
                                   .kernel = copy_kernel,
                                   .closure = &own});
  dt_function_t *function = make(f, once, "test.changing");
  expect_ok(call(f, function, 4, 1)); // whose list is as it was
  assert_int_equal(own.made, 1);
  assert_true(dt_op_exists(f->runtime, "test.copy"));
  assert_false(dt_op_exists(f->runtime, "test.changing"));
  dt_function_t *late = make(f, once, "test.copy");
  expect_ok(call(f, late, 4, 1));
  dt_function_release(late);
  dt_function_release(function);
}

static dt_status_t call_in_pass(dt_rewriter_t *r, void *closure) {
  dt_value_t x = dt_rewriter_output(r, 0), made = {0};
  (void)closure;
  dt_op_call(dt_rewriter_trace(r), "test.changing", 1, &x, 0, NULL, 1, &made);
  return made.id ? dt_rewriter_replace(r, x, made) : NULL;
}

static void test_ops_do_not_change_in_a_pass(void **state) {
  fixture_t *f = *state;
  changer_t own = {f->runtime, DT_E_STATE, 0};
  register_op(f, (dt_op_options_t){.name = "test.changing",
                                   .infer = changing_infer,
                                   .kernel = copy_kernel,
                                   .closure = &own});
  expect_ok(dt_runtime_add_pass(
      f->runtime, DT_POINT_TRACED, call_in_pass, NULL,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = "calls"}));
  dt_function_t *function = make(f, negate_program, NULL);
  expect_ok(call(f, function, 4, 1));
  assert_int_equal(own.made, 1);
  dt_function_release(function);
}

// ---- Removing what is in use --------------------------------------------------------------------
static _Atomic int freed;
static void count_free(void *closure) {
  (void)closure;
  atomic_fetch_add(&freed, 1);
}

typedef struct caller_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  _Atomic bool *stop;
  _Atomic int wrong, calls;
} caller_t;

// Functions come and go, each with the op that the runtime had when it was made, or none.
static void *call_on(void *opaque) {
  caller_t *own = opaque;
  dt_session_t *session = NULL;
  dt_function_options_t options = options_of(1, one_vector);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_status_t status = dt_session_create(own->runtime, NULL, &session);
  while (!status && !atomic_load(own->stop)) {
    dt_function_t *function = NULL;
    dt_tensor_t *x = tensor_full(2, 1, SIZES(8)), *out = NULL;
    status = dt_function_create(own->runtime, once, "test.copy", &options, &function);
    for (int k = 0; k < 4 && !status; k++) {
      status = dt_call(session, function, &x, 1, &out, 1, NULL);
      own->wrong += !status && ((const float *)dt_tensor_data(out))[7] != 2;
      if (dt_status_code(status) == DT_E_UNSUPPORTED) {
        dt_status_free(status);
        status = NULL;
      }
    }
    own->calls++;
    RELEASE(x, out);
    dt_function_release(function);
  }
  own->wrong += status != NULL;
  dt_status_free(status);
  dt_session_destroy(session);
  return NULL;
}

static void test_ops_are_removed_while_they_are_used(void **state) {
  fixture_t own = fixture_on(DT_CPU, 1);
  enum { TURNS = 200 };
  _Atomic bool stop = false;
  caller_t callers[2] = {{0}};
  dt_op_options_t op = copy_op;
  int added = 0;
  (void)state;
  atomic_store(&freed, 0);
  op.struct_size = sizeof(op);
  op.closure = &freed;
  op.closure_free = count_free;
  expect_ok(dt_op_register(own.runtime, &op));
  for (int k = 0; k < 2; k++) {
    callers[k].runtime = own.runtime;
    callers[k].stop = &stop;
    assert_int_equal(pthread_create(&callers[k].thread, NULL, call_on, &callers[k]), 0);
  }
  for (int turn = 0; turn < TURNS || callers[0].calls < 5 || callers[1].calls < 5; turn++) {
    expect_ok(dt_op_remove(own.runtime, "test.copy"));
    expect_ok(dt_op_register(own.runtime, &op));
    added++;
    assert_true(atomic_load(&freed) <= added); // never one that is registered
  }
  atomic_store(&stop, true);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    assert_int_equal(callers[k].wrong, 0);
  }
  assert_int_equal(atomic_load(&freed), added); // all but the last
  expect_told(dt_op_register(own.runtime, &op), DT_E_ARGUMENT, "already");
  fixture_end(&own);
  assert_int_equal(atomic_load(&freed), added + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_inference_that_lies, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_size_that_is_negative_at_some_calls, setup,
                                      fixture_close),
      cmocka_unit_test_setup_teardown(test_items_that_fail, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_numbers_out_of_range, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_ops_change_while_one_is_inferred, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_ops_do_not_change_in_a_pass, setup, fixture_close),
      cmocka_unit_test(test_ops_are_removed_while_they_are_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
