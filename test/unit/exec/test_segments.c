// SPDX-License-Identifier: Apache-2.0
// Calls whose sizes come from their data, by compiled code against the evaluator: results of every
// size, outputs given and made, numbers that must not be used, memory that grows between segments,
// several callers at once.
#include "test/support/subjects.h"

#include "runtime/base/memory.h"
#include "runtime/base/thread.h"

#include <string.h>

#define MAX_TENSORS 4

static int setup(void **state) { return fixture_open(state, 3, 1); }

// ---- Programs -------------------------------------------------------------------------------------

static const dt_input_decl_t vector_and_number[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                                    {.name = "k", .dtype = DT_I64, .rank = 0}};

// Elements above 0 and their indices; how many there are, as a value.
static dt_status_t positive_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  (void)closure;
  dt_value_t mask = dt_gt(t, in[0], dt_scalar(t, DT_F32, 0));
  out[0] = dt_masked_select(t, in[0], mask);
  out[1] = dt_nonzero(t, mask);
  out[2] = dt_sum(t, dt_cast(t, mask, DT_I64), 0, NULL, false);
  return NULL;
}
static const subject_t positive = {"positive", positive_program, 1, 3, vector_and_number};

// x[rows, width], repeats[rows].
static dt_status_t repeat_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = dt_repeat_interleave(t, in[0], in[1], 0);
  return NULL;
}
static const dt_dim_decl_t rows_width[] = {{.name = "rows"}, {.name = "width"}};
static const dt_input_decl_t repeat_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = rows_width},
    {.name = "repeats", .dtype = DT_I64, .rank = 1, .dims = rows_width}};
static const subject_t repeat = {"repeat", repeat_program, 2, 1, repeat_inputs};

// The first k elements, and what is left.
static dt_status_t cut_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[1]), n = dt_dim(t, in[0], 0);
  out[0] = dt_slice(t, in[0], 0, dt_sym_const(t, 0), k, 1);
  out[1] = dt_slice(t, in[0], 0, k, dt_sym_sub(t, n, k), 1);
  return NULL;
}
static const subject_t cut = {"cut", cut_program, 2, 2, vector_and_number};

// A k x k square of x[0] + row: k is used as a size only.
static dt_status_t square_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[1]), sizes[2] = {k, k};
  dt_value_t rows = dt_iota(t, DT_F32, 2, sizes, 0);
  dt_value_t first = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_sym_const(t, 1), 1);
  out[0] = dt_add(t, rows, first);
  return NULL;
}
static const subject_t square = {"square", square_program, 2, 1, vector_and_number};

// Three numbers one after another, each from data that the one before it sized; what the first part
// computed is used by the last. The sizes of the results become known in every segment, the first
// one's last.
static dt_status_t chain_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  dt_value_t scaled = dt_mul(t, in[0], dt_scalar(t, DT_F32, 2));
  dt_value_t some = dt_masked_select(t, scaled, dt_gt(t, scaled, dt_scalar(t, DT_F32, -1)));
  dt_value_t fewer = dt_masked_select(t, some, dt_lt(t, some, dt_scalar(t, DT_F32, 1)));
  dt_value_t total = dt_cast(t, dt_sum(t, fewer, 0, NULL, false), DT_I64);
  dt_value_t bounded = dt_mod(t, total, dt_scalar(t, DT_I64, 7));
  dt_sym_t k = dt_item(t, bounded), n = dt_dim(t, in[0], 0);
  dt_sym_t sizes[2] = {k, n};
  out[0] = dt_expand(t, dt_unsqueeze(t, scaled, 0), 2, sizes);
  out[1] = scaled;
  out[2] = fewer;
  out[3] = some;
  return NULL;
}
static const subject_t chain = {"chain", chain_program, 1, 4, vector_and_number};

// Rows of a table, then as many ones as their first column adds up to.
static dt_status_t look_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t found = dt_gather(t, in[0], in[1], 0);
  dt_sym_t k = dt_item(t, dt_sum(t, found, 0, NULL, false));
  out[0] = dt_full(t, DT_F32, 1, 1, &k);
  return NULL;
}
static const dt_input_decl_t look_inputs[] = {{.name = "table", .dtype = DT_I64, .rank = 1},
                                              {.name = "ids", .dtype = DT_I64, .rank = 1}};
static const subject_t look = {"look", look_program, 2, 1, look_inputs};

// As many copies of x as the sum of constant w says, which is computed once.
static dt_status_t copies_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_value_t w = dt_sum(t, dt_constant(t, "w", closure), 0, NULL, false);
  dt_sym_t sizes[2] = {dt_item(t, dt_cast(t, w, DT_I64)), dt_dim(t, in[0], 0)};
  out[0] = dt_expand(t, dt_unsqueeze(t, in[0], 0), 2, sizes);
  return NULL;
}
static const subject_t copies = {"copies", copies_program, 1, 1, vector_and_number};

// ---- Comparing ------------------------------------------------------------------------------------

typedef struct pair_t {
  const subject_t *subject;
  dt_function_t *compiled, *evaluated;
} pair_t;

static pair_t pair_of(fixture_t *fixture, const subject_t *subject, void *closure) {
  return (pair_t){subject, subject_function(fixture->runtime, subject, closure, compiled_answer()),
                  subject_function(fixture->runtime, subject, closure, DT_ANSWER_EVALUATOR)};
}

static void pair_release(pair_t *pair) {
  dt_function_release(pair->compiled);
  dt_function_release(pair->evaluated);
}

static void release_all(dt_tensor_t **tensors, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    dt_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static void expect_same(dt_tensor_t *got, dt_tensor_t *want, const char *what) {
  assert_int_equal(dt_tensor_dtype(got), dt_tensor_dtype(want));
  assert_int_equal(dt_tensor_rank(got), dt_tensor_rank(want));
  for (uint32_t d = 0; d < dt_tensor_rank(want); d++)
    assert_int_equal(dt_tensor_sizes(got)[d], dt_tensor_sizes(want)[d]);
  size_t bytes = (size_t)dt_tensor_count(want) * dt_dtype_size(dt_tensor_dtype(want));
  if (memcmp(dt_tensor_data(got), dt_tensor_data(want), bytes) != 0)
    fail_msg("%s: other data", what);
}

// One call by both, then one into the tensors that the first call made, filled with rubbish.
static void expect_agree(fixture_t *fixture, const pair_t *pair, dt_tensor_t **inputs) {
  const subject_t *subject = pair->subject;
  dt_tensor_t *got[MAX_TENSORS] = {0}, *want[MAX_TENSORS] = {0};
  expect_ok(dt_call(fixture->session, pair->evaluated, inputs, subject->n_inputs, want,
                    subject->n_outputs, NULL));
  for (int round = 0; round < 2; round++) {
    expect_ok(dt_call(fixture->session, pair->compiled, inputs, subject->n_inputs, got,
                      subject->n_outputs, NULL));
    for (uint32_t k = 0; k < subject->n_outputs; k++) {
      expect_same(got[k], want[k], subject->name);
      size_t bytes = (size_t)dt_tensor_count(got[k]) * dt_dtype_size(dt_tensor_dtype(got[k]));
      memset(dt_tensor_data(got[k]), 0x5a, bytes);
    }
  }
  release_all(got, subject->n_outputs);
  release_all(want, subject->n_outputs);
}

// Both refuse the call in the same way, naming the op, and compiled code the line that asked;
// nothing is returned.
static void expect_refused(fixture_t *fixture, const pair_t *pair, dt_tensor_t **inputs,
                           dt_code_t code, const char *part) {
  const subject_t *subject = pair->subject;
  dt_tensor_t *out[MAX_TENSORS] = {0};
  dt_function_t *functions[2] = {pair->compiled, pair->evaluated};
  for (int f = 0; f < 2; f++) {
    dt_status_t status = dt_call(fixture->session, functions[f], inputs, subject->n_inputs, out,
                                 subject->n_outputs, NULL);
    assert_non_null(status);
    if (f == 0 && compiled_answer() == DT_ANSWER_COMPILED &&
        !strstr(dt_status_message(status), "(test_segments.c:"))
      fail_msg("no source line: %s", dt_status_message(status));
    expect_told(status, code, part);
    for (uint32_t k = 0; k < subject->n_outputs; k++)
      assert_null(out[k]);
  }
}

// n multiples of 1/2 in [-4, 4].
static dt_tensor_t *halves(rng_t *rng, int64_t n) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, 1, &n);
  float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < n; i++)
    data[i] = (float)rng_between(rng, -8, 8) / 2;
  return tensor;
}

static dt_tensor_t *number(int64_t value) { return tensor_i64(0, NULL, &value); }

// ---- Answers --------------------------------------------------------------------------------------

static void test_positive(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &positive, NULL);
  rng_t rng = {3};
  const int64_t sizes[] = {0, 1, 2, 7, 64, 1000, 3, 20011, 15};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    dt_tensor_t *x = halves(&rng, sizes[s]);
    expect_agree(fixture, &pair, &x);
    memset(dt_tensor_data(x), 0, (size_t)sizes[s] * sizeof(float));
    expect_agree(fixture, &pair, &x);
    dt_tensor_release(x);
  }
  assert_int_equal(variants_of(pair.compiled), 1);
  pair_release(&pair);
}

static void test_repeat(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &repeat, NULL);
  rng_t rng = {5};
  const int64_t rows[] = {0, 1, 2, 9, 130}, widths[] = {0, 1, 5, 33};
  for (int i = 0; i < 20; i++) {
    int64_t n = rows[i % 5], repeats[130];
    for (int64_t k = 0; k < n; k++)
      repeats[k] = i % 3 == 0 ? 0 : rng_between(&rng, 0, 5);
    dt_tensor_t *inputs[2] = {tensor_f32(&rng, 2, SIZES(n, widths[i / 5])),
                              tensor_i64(1, &n, repeats)};
    expect_agree(fixture, &pair, inputs);
    if (n > 1) {
      ((int64_t *)dt_tensor_data(inputs[1]))[n - 1] = -1;
      expect_refused(fixture, &pair, inputs, DT_E_RANGE, "repeat");
    }
    release_all(inputs, 2);
  }
  pair_release(&pair);
}

static void test_cut(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &cut, NULL);
  rng_t rng = {9};
  const int64_t sizes[] = {0, 1, 17, 400};
  for (int s = 0; s < 4; s++) {
    int64_t n = sizes[s];
    dt_tensor_t *inputs[2] = {halves(&rng, n), NULL};
    const int64_t good[] = {0, n / 2, n}, bad[] = {-1, n + 1, INT64_MIN, INT64_MAX, DT_SIZE_LIMIT};
    for (int g = 0; g < 3; g++) {
      inputs[1] = number(good[g]);
      expect_agree(fixture, &pair, inputs);
      dt_tensor_release(inputs[1]);
    }
    for (int b = 0; b < 5; b++) {
      inputs[1] = number(bad[b]);
      expect_refused(fixture, &pair, inputs, DT_E_SHAPE, "slice");
      dt_tensor_release(inputs[1]);
    }
    dt_tensor_release(inputs[0]);
  }
  assert_int_equal(variants_of(pair.compiled), 1);
  pair_release(&pair);
}

static void test_square(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &square, NULL);
  dt_tensor_t *inputs[2] = {tensor_full(0.5f, 1, SIZES(3)), NULL}, *out = NULL;
  const int64_t good[] = {0, 1, 2, 33, 700};
  for (int g = 0; g < 5; g++) {
    inputs[1] = number(good[g]);
    expect_agree(fixture, &pair, inputs);
    dt_tensor_release(inputs[1]);
  }
  inputs[1] = number(-5);
  expect_refused(fixture, &pair, inputs, DT_E_SHAPE, "iota");
  dt_tensor_release(inputs[1]);
  inputs[1] = number((int64_t)1 << 40); // a size, but not twice
  expect_code(dt_call(fixture->session, pair.compiled, inputs, 2, &out, 1, NULL), DT_E_LIMIT);
  release_all(inputs, 2);
  pair_release(&pair);
}

static void test_chain(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &chain, NULL);
  rng_t rng = {11};
  // Growing and shrinking, so that segments find blocks both smaller and larger than they need.
  const int64_t sizes[] = {1, 40, 5, 3000, 0, 77, 50000, 2};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    dt_tensor_t *x = halves(&rng, sizes[s]);
    expect_agree(fixture, &pair, &x);
    dt_tensor_release(x);
  }
  assert_int_equal(variants_of(pair.compiled), 1);
  pair_release(&pair);
}

// A check on data that fails ends the call: the number that would have been made of it is not read.
static void test_failed_check(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &look, NULL);
  dt_tensor_t *inputs[2] = {tensor_i64(1, SIZES(4), VALUES(3, -2, 5, 1)),
                            tensor_i64(1, SIZES(3), VALUES(0, 1, -1))};
  expect_agree(fixture, &pair, inputs);
  int64_t *ids = dt_tensor_data(inputs[1]);
  ids[0] = 4;
  expect_refused(fixture, &pair, inputs, DT_E_RANGE, "gather");
  ids[0] = 1;
  ids[2] = 1;
  expect_refused(fixture, &pair, inputs, DT_E_SHAPE, "full"); // -6 of them
  ids[0] = ids[1] = 2;
  expect_agree(fixture, &pair, inputs);
  release_all(inputs, 2);
  pair_release(&pair);
}

static void test_constants(void **state) {
  fixture_t *fixture = *state;
  dt_tensor_t *w = tensor_full(1, 1, SIZES(4));
  pair_t pair = pair_of(fixture, &copies, w);
  dt_tensor_t *x = tensor_full(2, 1, SIZES(6)), *out = NULL;
  expect_agree(fixture, &pair, &x);
  for (int k = 0; k < 3; k++) {
    dt_tensor_t *next = tensor_full((float)(2 - k), 1, SIZES(4));
    expect_ok(dt_constant_update(pair.compiled, "w", next));
    expect_ok(dt_constant_update(pair.evaluated, "w", next));
    dt_tensor_release(next);
    expect_agree(fixture, &pair, &x);
    expect_ok(dt_call(fixture->session, pair.compiled, &x, 1, &out, 1, NULL));
    assert_int_equal(dt_tensor_sizes(out)[0], 4 * (2 - k));
    release_all(&out, 1);
  }
  dt_tensor_t *negative = tensor_full(-1, 1, SIZES(4));
  expect_ok(dt_constant_update(pair.compiled, "w", negative));
  expect_ok(dt_constant_update(pair.evaluated, "w", negative));
  expect_refused(fixture, &pair, &x, DT_E_SHAPE, "expand");
  RELEASE(negative, w, x);
  pair_release(&pair);
}

// ---- Outputs --------------------------------------------------------------------------------------

static void test_given_outputs(void **state) {
  fixture_t *fixture = *state;
  dt_session_t *session = fixture->session;
  dt_function_t *function = subject_function(fixture->runtime, &positive, NULL, compiled_answer());
  dt_tensor_t *x = tensor_full(1, 1, SIZES(6)), *out[3] = {0};
  ((float *)dt_tensor_data(x))[2] = -1;
  // The last is known at entry, the others when the elements are counted.
  dt_tensor_t *four = tensor_full(9, 1, SIZES(4));
  out[0] = four;
  expect_told(dt_call(session, function, &x, 1, out, 3, NULL), DT_E_SHAPE,
              "output 0, dim 0: got 4");
  assert_ptr_equal(out[0], four);
  assert_null(out[1]);
  assert_null(out[2]);
  for (int i = 0; i < 4; i++)
    assert_true(((float *)dt_tensor_data(four))[i] == 9);
  // What can be told without the numbers is told before anything is written.
  int64_t none = 77;
  dt_tensor_t *scalar = tensor_i64(0, NULL, &none);
  out[0] = NULL;
  out[1] = four;
  out[2] = scalar;
  expect_told(dt_call(session, function, &x, 1, out, 3, NULL), DT_E_DTYPE, "output 1");
  out[1] = scalar;
  expect_told(dt_call(session, function, &x, 1, out, 3, NULL), DT_E_SHAPE, "output 1");
  dt_tensor_desc_t desc = {.dtype = DT_F32, // five of the argument's elements
                           .rank = 1,
                           .sizes = SIZES(5),
                           .data = dt_tensor_data(x)};
  dt_tensor_t *part = NULL;
  expect_ok(dt_tensor_create(&desc, &part));
  out[1] = NULL;
  out[0] = part;
  expect_told(dt_call(session, function, &x, 1, out, 3, NULL), DT_E_ARGUMENT, "overlaps");
  dt_tensor_release(part);
  assert_int_equal(*(int64_t *)dt_tensor_data(scalar), 77);
  out[0] = NULL;
  expect_ok(dt_call(session, function, &x, 1, out, 3, NULL));
  assert_int_equal(*(int64_t *)dt_tensor_data(scalar), 5);
  assert_int_equal(dt_tensor_sizes(out[0])[0], 5);
  release_all(out, 2);
  RELEASE(four, scalar, x);
  dt_function_release(function);
}

// A call at sizes seen before, into given outputs, takes nothing from the heap. Threads that
// compile beside it may: so it is the least of some calls.
static void test_no_allocation(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = subject_function(fixture->runtime, &positive, NULL, compiled_answer());
  if (compiled_answer() == DT_ANSWER_EVALUATOR)
    skip();
  rng_t rng = {13};
  dt_tensor_t *x = halves(&rng, 500), *out[3] = {0};
  expect_ok(dt_call(fixture->session, function, &x, 1, out, 3, NULL));
  uint64_t least = UINT64_MAX;
  for (int k = 0; k < 20 && least; k++) {
    (void)dt__heap_fail_at(UINT64_MAX, false);
    dt_status_t status = dt_call(fixture->session, function, &x, 1, out, 3, NULL);
    uint64_t counted = dt__heap_fail_at(0, false);
    expect_ok(status);
    least = counted < least ? counted : least;
  }
  assert_int_equal(least, 0);
  release_all(out, 3);
  dt_tensor_release(x);
  dt_function_release(function);
}

static void test_prepared(void **state) {
  fixture_t *fixture = *state;
  pair_t pair = pair_of(fixture, &positive, NULL);
  expect_ok(dt_function_prepare(pair.compiled, NULL));
  rng_t rng = {17};
  dt_tensor_t *x = halves(&rng, 90);
  expect_agree(fixture, &pair, &x);
  assert_int_equal(variants_of(pair.compiled), 1);
  dt_tensor_release(x);
  pair_release(&pair);
}

// ---- Several callers ------------------------------------------------------------------------------

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t *function;
  uint64_t seed;
  bool good;
} caller_t;

static void *run_caller(void *opaque) {
  caller_t *caller = opaque;
  rng_t rng = {caller->seed};
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(caller->runtime, NULL, &session);
  caller->good = !status;
  for (int round = 0; round < 60 && caller->good; round++) {
    int64_t n = rng_between(&rng, 0, 3000), count = 0, at = 0;
    dt_tensor_t *x = halves(&rng, n), *out[3] = {0};
    const float *data = dt_tensor_data(x);
    for (int64_t i = 0; i < n; i++)
      count += data[i] > 0;
    status = dt_call(session, caller->function, &x, 1, out, 3, NULL);
    caller->good = !status && dt_tensor_sizes(out[0])[0] == count &&
                   *(const int64_t *)dt_tensor_data(out[2]) == count;
    for (int64_t i = 0; i < n && caller->good; i++) {
      if (!(data[i] > 0))
        continue;
      caller->good = ((const float *)dt_tensor_data(out[0]))[at] == data[i] &&
                     ((const int64_t *)dt_tensor_data(out[1]))[at] == i;
      at++;
    }
    release_all(out, 3);
    dt_tensor_release(x);
  }
  dt_status_free(status);
  dt_session_destroy(session);
  return NULL;
}

static void test_threads(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = subject_function(fixture->runtime, &positive, NULL, compiled_answer());
  caller_t callers[3];
  pthread_t threads[3];
  for (uint64_t k = 0; k < 3; k++) {
    callers[k] = (caller_t){fixture->runtime, function, 100 + k, false};
    assert_int_equal(pthread_create(&threads[k], NULL, run_caller, &callers[k]), 0);
  }
  for (int k = 0; k < 3; k++) {
    (void)pthread_join(threads[k], NULL);
    assert_true(callers[k].good);
  }
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_positive), TEST(test_repeat), TEST(test_cut),
               TEST(test_square), TEST(test_chain), TEST(test_failed_check), TEST(test_constants),
               TEST(test_given_outputs), TEST(test_no_allocation), TEST(test_prepared),
               TEST(test_threads))
