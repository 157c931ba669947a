// SPDX-License-Identifier: Apache-2.0
// When a function compiles again (behaviours 1 to 22): our own counts, under dynamic = symbolic,
// and those of PyTorch under its options (automatic, static). What PyTorch's tests take from
// closures and modules, these take from captures and boolean arguments.
#include "test/support/subjects.h"

#include "test/support/report_as_text.h"

#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 1); }

static void expect_compiles(dt_function_t *function, uint64_t expected) {
  assert_int_equal(stats_of(function).compiles, expected);
}

// ---- Arguments ----------------------------------------------------------------------------------
static dt_tensor_t *vector(int64_t n, float value) { return tensor_full(value, 1, &n); }

// Calls and releases the inputs; the result is `n` elements of `expected`.
static dt_status_t try_call(fixture_t *fixture, dt_function_t *function, uint32_t n_inputs,
                            dt_tensor_t **inputs, int64_t n, float expected) {
  dt_tensor_t *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, inputs, n_inputs, &out, 1, NULL);
  if (!status) {
    dt_tensor_t *want = vector(n, expected);
    expect_close(out, want, 1e-6, 1e-6, "result");
    dt_tensor_release(want);
  }
  dt_tensor_release(out);
  release_tensors(inputs, n_inputs);
  return status;
}

#define CALL(fixture, function, n, expected, ...)                                                  \
  expect_ok(try_call((fixture), (function),                                                        \
                     sizeof((dt_tensor_t *[]){__VA_ARGS__}) / sizeof(dt_tensor_t *),               \
                     (dt_tensor_t *[]){__VA_ARGS__}, (n), (expected)))

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t two_vectors[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                              {.name = "y", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t vector_and_integer[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "y", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
static const dt_input_decl_t flag_and_vector[] = {
    {.name = "flag", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN},
    {.name = "y", .dtype = DT_F32, .rank = 1}};

// What each setting of `dynamic` comes to.
typedef struct counts_t {
  uint64_t symbolic, automatic, off;
} counts_t;
typedef void run_fn_t(fixture_t *fixture, dt_function_t *function);

static void expect_counts(fixture_t *fixture, dt_program_fn_t program, void *closure, uint32_t n,
                          const dt_input_decl_t *inputs, run_fn_t *run, counts_t counts) {
  const uint64_t expected[] = {counts.symbolic, counts.automatic, counts.off};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
    dt_function_options_t options = options_of(n, inputs);
    options.dynamic = (dt_dynamic_t)dynamic;
    dt_function_t *function = function_of(fixture, program, closure, &options);
    run(fixture, function);
    if (stats_of(function).compiles != expected[dynamic])
      print_error("dynamic %d\n", dynamic);
    expect_compiles(function, expected[dynamic]);
    dt_function_release(function);
  }
}

// ---- 1 to 3: what changes becomes dynamic ---------------------------------------------------------
static dt_status_t product(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[1]);
  return NULL;
}

static void run_lengths(fixture_t *fixture, dt_function_t *function) {
  static const int64_t lengths[] = {2, 3, 4, 4, 5, 5, 6};
  for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
    CALL(fixture, function, lengths[k], 6, vector(lengths[k], 2), vector(lengths[k], 3));
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(stats_of(function).kernels, 1);
}

static void behaviour_01_lengths_become_dynamic(void **state) {
  expect_counts(*state, product, NULL, 2, two_vectors, run_lengths, (counts_t){1, 2, 5});
}

static dt_status_t flagged(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  bool flag = dt_sym_true(t, dt_int_value(t, in[0]));
  out[0] = flag ? dt_add(t, in[1], in[1]) : dt_mul(t, in[1], in[1]);
  return NULL;
}

static void run_flags(fixture_t *fixture, dt_function_t *function) {
  CALL(fixture, function, 2, 6, tensor_boolean(true), vector(2, 3));
  CALL(fixture, function, 2, 9, tensor_boolean(false), vector(2, 3));
  for (int64_t n = 3; n <= 5; n++)
    CALL(fixture, function, n, 6, tensor_boolean(true), vector(n, 3));
}

static void behaviour_02_booleans_are_specialised(void **state) {
  expect_counts(*state, flagged, NULL, 2, flag_and_vector, run_flags, (counts_t){2, 3, 5});
}

// x times a tensor or an integer, as a flag says.
static dt_status_t times_either(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  bool tensor = dt_sym_true(t, dt_int_value(t, in[0]));
  out[0] = dt_mul(t, in[1], tensor ? in[2] : dt_cast(t, in[3], DT_F32));
  return NULL;
}

static void run_either(fixture_t *fixture, dt_function_t *function) {
  for (int64_t n = 2; n <= 6; n++) {
    bool tensor = n % 2 == 0;
    CALL(fixture, function, n, tensor ? 6 : 2 * (float)n, tensor_boolean(tensor), vector(n, 2),
         vector(n, 3), tensor_integer(n));
  }
}

static void behaviour_03_a_tensor_or_an_integer(void **state) {
  static const dt_input_decl_t inputs[] = {
      {.name = "which", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN},
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "y", .dtype = DT_F32, .rank = 1},
      {.name = "k", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  expect_counts(*state, times_either, NULL, 4, inputs, run_either, (counts_t){2, 3, 5});
}

// ---- 4 and 5: aliases of what is written ----------------------------------------------------------
// a += b; c + 1
static dt_status_t accumulate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_add(t, in[0], in[1]));
  out[0] = dt_add(t, in[2], dt_scalar(t, DT_F32, 1));
  return NULL;
}

static const dt_input_decl_t three_vectors[] = {{.name = "a", .dtype = DT_F32, .rank = 1},
                                                {.name = "b", .dtype = DT_F32, .rank = 1},
                                                {.name = "c", .dtype = DT_F32, .rank = 1}};

// The result is `expected`, and a holds `updated` afterwards.
static void call_accumulate(fixture_t *fixture, dt_function_t *function, dt_tensor_t *a,
                            dt_tensor_t *b, dt_tensor_t *c, float expected, float updated) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(fixture->session, function, (dt_tensor_t *[]){a, b, c}, 3, &out, 1, NULL));
  dt_tensor_t *want = vector(4, expected), *left = vector(4, updated);
  expect_close(out, want, 0, 0, "c + 1");
  expect_close(a, left, 0, 0, "a");
  RELEASE(want, left, out);
}

// Who answers is all the same: what counts is which calls share a variant.
static dt_function_t *accumulating(fixture_t *fixture) {
  dt_function_options_t options = options_of(3, three_vectors);
  options.answer = compiled_answer();
  return function_of(fixture, accumulate, NULL, &options);
}

static void behaviour_04_an_alias_of_an_updated_argument_compiles(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = accumulating(fixture);
  dt_tensor_t *x = vector(4, 1), *y = vector(4, 10), *z = vector(4, 100);
  call_accumulate(fixture, function, x, y, z, 101, 11);
  call_accumulate(fixture, function, z, x, y, 11, 111);
  expect_compiles(function, 1);
  call_accumulate(fixture, function, x, y, x, 22, 21);
  expect_compiles(function, 2);
  call_accumulate(fixture, function, z, y, z, 122, 121);
  call_accumulate(fixture, function, x, y, z, 122, 31);
  expect_compiles(function, 2);
  RELEASE(x, y, z);
  dt_function_release(function);
}

// b and c are the same tensors at every call, as globals are; the argument becomes one of them.
static void behaviour_05_an_argument_becomes_a_global(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = accumulating(fixture);
  dt_tensor_t *b = vector(4, 10), *c = vector(4, 100), *x = vector(4, 1), *y = vector(4, 2);
  call_accumulate(fixture, function, x, b, c, 101, 11);
  call_accumulate(fixture, function, y, b, c, 101, 12);
  expect_compiles(function, 1);
  call_accumulate(fixture, function, c, b, c, 111, 110);
  call_accumulate(fixture, function, x, b, c, 111, 21);
  expect_compiles(function, 2);
  RELEASE(b, c, x, y);
  dt_function_release(function);
}

// ---- 6: static and dynamic parameters --------------------------------------------------------------
static dt_status_t times_weight(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_value_t y = dt_matmul(t, in[0], dt_constant(t, "w", closure));
  out[0] = dt_sum(t, y, 1, (const int32_t[]){0}, false);
  return NULL;
}

static void run_rows(fixture_t *fixture, dt_function_t *function) {
  static const int64_t rows[] = {1, 10, 11, 15, 15};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
    CALL(fixture, function, 2, 6 * (float)rows[k], tensor_full(1, 2, SIZES(rows[k], 3)));
}

static void behaviour_06_parameters_marked_static(void **state) {
  static const dt_dim_decl_t marked[] = {{.mark = DT_MARK_STATIC}, {.mark = DT_MARK_STATIC}};
  static const dt_input_decl_t fixed[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = marked}};
  static const dt_input_decl_t open[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
  dt_tensor_t *w = tensor_full(2, 2, SIZES(3, 2));
  expect_counts(*state, times_weight, w, 1, fixed, run_rows, (counts_t){4, 4, 4});
  expect_counts(*state, times_weight, w, 1, open, run_rows, (counts_t){1, 2, 4});
  dt_tensor_release(w);
}

// ---- 7: train and eval ------------------------------------------------------------------------------
static dt_status_t module(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t training = dt_capture(t, "training", closure);
  out[0] = dt_sym_true(t, training) ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  return NULL;
}

static int64_t training;

static void run_toggles(fixture_t *fixture, dt_function_t *function) {
  for (int k = 0; k < 20; k++) {
    __atomic_store_n(&training, k % 2, __ATOMIC_RELAXED);
    CALL(fixture, function, 3, k % 2 ? -5 : 5, vector(3, 5));
  }
}

static void run_flag_toggles(fixture_t *fixture, dt_function_t *function) {
  for (int k = 0; k < 20; k++)
    CALL(fixture, function, 3, k % 2 ? 6 : 9, tensor_boolean(k % 2), vector(3, 3));
}

static void behaviour_07_train_and_eval_have_a_variant_each(void **state) {
  expect_counts(*state, flagged, NULL, 2, flag_and_vector, run_flag_toggles, (counts_t){2, 2, 2});
  expect_counts(*state, module, &training, 1, one_vector, run_toggles, (counts_t){2, 2, 2});
}

// ---- 8 and 9: the limit -----------------------------------------------------------------------------
static dt_status_t plus_integer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_cast(t, in[1], DT_F32));
  return NULL;
}

static dt_function_t *limited(fixture_t *fixture, dt_limit_action_t action) {
  dt_function_options_t options = options_of(2, vector_and_integer);
  options.dynamic = DT_DYNAMIC_STATIC;
  options.limit_action = action;
  options.variant_limit = 2;
  return function_of(fixture, plus_integer, NULL, &options);
}

static void behaviour_08_the_limit_ends_compiling(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = limited(fixture, DT_LIMIT_EVALUATOR);
  for (int64_t k = 0; k < 10; k++)
    CALL(fixture, function, 4, 1 + (float)k, vector(4, 1), tensor_integer(k));
  expect_compiles(function, 2);
  assert_int_equal(stats_of(function).limit_misses, 8);
  dt_function_release(function);
  // Our default: one more, for all that is left.
  function = limited(fixture, DT_LIMIT_GENERIC);
  for (int64_t k = 0; k < 10; k++)
    CALL(fixture, function, 4, 1 + (float)k, vector(4, 1), tensor_integer(k));
  expect_compiles(function, 3);
  assert_int_equal(stats_of(function).limit_misses, 1);
  dt_function_release(function);
}

static void behaviour_09_compiled_variants_answer_beyond_the_limit(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = limited(fixture, DT_LIMIT_EVALUATOR);
  for (int round = 0; round < 3; round++) {
    for (int64_t k = 0; k < 4; k++)
      CALL(fixture, function, 4, 1 + (float)k, vector(4, 1), tensor_integer(k));
  }
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.compiles, 2);
  assert_int_equal(stats.variants, 2);
  assert_int_equal(stats.calls, 12);
  assert_int_equal(stats.evaluator_calls,
                   compiled_answer() == DT_ANSWER_COMPILED ? 6 : stats.calls);
  assert_int_equal(stats.misses, 8);
  dt_function_release(function);
}

// ---- 10: closures -----------------------------------------------------------------------------------
static int64_t captured;

static dt_status_t plus_capture(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_sym_t k = dt_capture(t, "captured", closure);
  out[0] = dt_add(t, in[0], dt_cast(t, dt_size_value(t, k), DT_F32));
  return NULL;
}

static void run_captures(fixture_t *fixture, dt_function_t *function) {
  for (int64_t k = 0; k < 10; k++) {
    __atomic_store_n(&captured, k, __ATOMIC_RELAXED);
    CALL(fixture, function, 3, 1 + (float)k, vector(3, 1));
  }
}

static void behaviour_10_a_captured_integer_becomes_dynamic(void **state) {
  expect_counts(*state, plus_capture, &captured, 1, one_vector, run_captures, (counts_t){1, 2, 10});
}

// ---- 11 and 12: unbacked sizes ----------------------------------------------------------------------
static void run_shrinking(fixture_t *fixture, dt_function_t *function) {
  for (int64_t n = 3; n >= 0; n--)
    CALL(fixture, function, n, 8, vector(n, 4));
}

static const dt_dim_decl_t unbacked_dim[] = {{.mark = DT_MARK_UNBACKED}};
static const dt_input_decl_t unbacked[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = unbacked_dim}};

static void behaviour_11_down_to_no_elements(void **state) {
  expect_counts(*state, double_program, NULL, 1, one_vector, run_shrinking, (counts_t){1, 2, 4});
  expect_counts(*state, double_program, NULL, 1, unbacked, run_shrinking, (counts_t){1, 1, 1});
}

static dt_status_t below_ten(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  bool below = dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 10)));
  out[0] = below ? dt_add(t, in[0], in[0]) : dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t below_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  bool below = dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 2)));
  out[0] = below ? dt_add(t, in[0], in[0]) : dt_neg(t, in[0]);
  return NULL;
}

static void run_edge_of_two(fixture_t *fixture, dt_function_t *function) {
  CALL(fixture, function, 1, 8, vector(1, 4));
  CALL(fixture, function, 0, 8, vector(0, 4));
}

static void behaviour_12_branches_on_sizes_that_are_not_to_be_guarded(void **state) {
  fixture_t *fixture = *state;
  expect_counts(fixture, below_ten, NULL, 1, one_vector, run_shrinking, (counts_t){1, 2, 4});
  expect_counts(fixture, below_two, NULL, 1, one_vector, run_edge_of_two, (counts_t){1, 2, 2});
  dt_function_options_t options = options_of(1, unbacked);
  dt_function_t *function = function_of(fixture, below_two, NULL, &options);
  for (int64_t n = 1; n >= 0; n--) {
    dt_tensor_t *x = vector(n, 4);
    expect_told(try_call(fixture, function, 1, &x, n, 8), DT_E_STATE, "test_pytorch_recompile.c");
  }
  assert_int_equal(variants_of(function), 0);
  dt_function_release(function);
}

// ---- 13 to 15: numbers ------------------------------------------------------------------------------
static dt_status_t is_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t two = dt_sym_const(t, 2);
  out[0] = dt_sym_true(t, dt_sym_eq(t, dt_int_value(t, in[1]), two)) ? dt_neg(t, in[0])
                                                                     : dt_abs(t, in[0]);
  return NULL;
}

static void run_twos(fixture_t *fixture, dt_function_t *function) {
  static const int64_t values[] = {2, 2, 3, 3};
  for (size_t k = 0; k < 4; k++)
    CALL(fixture, function, 3, values[k] == 2 ? -1 : 1, vector(3, 1), tensor_integer(values[k]));
}

static void behaviour_13_a_branch_on_an_integer(void **state) {
  expect_counts(*state, is_two, NULL, 2, vector_and_integer, run_twos, (counts_t){2, 2, 2});
}

static void run_hundreds(fixture_t *fixture, dt_function_t *function) {
  for (int64_t y = 100; y <= 400; y += 100)
    CALL(fixture, function, 3, 1 + (float)y, vector(3, 1), tensor_integer(y));
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(stats_of(function).kernels, 1);
}

static void behaviour_14_an_integer_is_an_operand(void **state) {
  expect_counts(*state, plus_integer, NULL, 2, vector_and_integer, run_hundreds,
                (counts_t){1, 2, 4});
}

static dt_status_t divided(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_div(t, dt_neg(t, in[0]), in[1]);
  return NULL;
}

static void run_divisors(fixture_t *fixture, dt_function_t *function) {
  for (int k = 1; k < 10; k++)
    CALL(fixture, function, 4, -12 / (float)k, vector(4, 12), tensor_full((float)k, 0, NULL));
}

static void behaviour_15_a_scalar_is_a_tensor(void **state) {
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                           {.name = "scale", .dtype = DT_F32}};
  expect_counts(*state, divided, NULL, 2, inputs, run_divisors, (counts_t){1, 1, 1});
}

// ---- 16 to 20: sizes ----------------------------------------------------------------------------------
static dt_status_t product_over_three(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                      void *closure) {
  (void)closure;
  dt_value_t y = dt_prod(t, in[0], 1, (const int32_t[]){3}, false);
  out[0] = dt_sum(t, y, 2, (const int32_t[]){0, 1}, false);
  return NULL;
}

static void run_products(fixture_t *fixture, dt_function_t *function) {
  static const int64_t sizes[][4] = {{2, 3, 4, 2}, {3, 1, 5, 3}, {1, 2, 7, 4}};
  for (size_t k = 0; k < 3; k++) {
    const int64_t *s = sizes[k];
    float product = 1;
    for (int64_t i = 0; i < s[3]; i++)
      product *= 2;
    CALL(fixture, function, s[2], product * (float)(s[0] * s[1]), tensor_full(2, 4, s));
  }
}

static void behaviour_16_a_product_over_a_dim(void **state) {
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 4}};
  expect_counts(*state, product_over_three, NULL, 1, inputs, run_products, (counts_t){1, 2, 3});
}

// Leaves in the closure whether the program saw a number where it asked.
static dt_status_t literal_seen(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  // Known without a guard, or not known: `prepare` would fail, and a guard would show in counts.
  dt_sym_t n = dt_dim(t, in[0], 0);
  *(int64_t *)closure = dt_sym_int(t, n);
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

static void behaviour_17_a_dim_marked_static_is_a_literal(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_STATIC}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  int64_t seen = 0;
  dt_function_options_t options = options_of(1, inputs);
  dt_function_t *function = function_of(fixture, literal_seen, &seen, &options);
  for (int64_t n = 3; n <= 5; n++) {
    CALL(fixture, function, n, 8, vector(n, 4));
    CALL(fixture, function, n, 8, vector(n, 4));
    assert_int_equal(seen, n);
  }
  expect_compiles(function, 3);
  char *text = NULL;
  expect_ok(report_as_text(function, NULL, 0, DT_REPORT_VARIANTS, &text));
  assert_non_null(strstr(text, "x.size(0) == 5"));
  assert_null(strstr(text, "sym_int")); // it asked what was known
  dt_text_free(text);
  dt_function_release(function);
}

static void run_from_one(fixture_t *fixture, dt_function_t *function) {
  for (int64_t n = 1; n <= 4; n++)
    CALL(fixture, function, n, 8, vector(n, 4));
}

static void behaviour_18_size_one_may_be_marked_dynamic(void **state) {
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_DYNAMIC}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  expect_counts(*state, double_program, NULL, 1, inputs, run_from_one, (counts_t){1, 1, 1});
}

// What follows a break is another function here, and its sizes are symbols as those before were.
static void behaviour_19_what_follows_a_break_is_dynamic(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_DYNAMIC}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  dt_function_options_t options = options_of(1, inputs), plain = options_of(1, one_vector);
  dt_function_t *before = function_of(fixture, double_program, NULL, &options);
  dt_function_t *after = function_of(fixture, double_program, NULL, &plain);
  for (int64_t n = 2; n <= 6; n++) {
    dt_tensor_t *x = vector(n, 1), *y = NULL;
    expect_ok(dt_call(fixture->session, before, &x, 1, &y, 1, NULL));
    dt_tensor_release(x);
    CALL(fixture, after, n, 4, y);
  }
  expect_compiles(before, 1);
  expect_compiles(after, 1);
  dt_function_release(before);
  dt_function_release(after);
}

static dt_status_t padded(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t low = dt_sym_const(t, 0);
  dt_sym_t high = dt_sym_mod(t, dt_dim(t, in[0], 0), dt_sym_const(t, 2));
  out[0] = dt_pad(t, in[0], &low, &high, 4);
  return NULL;
}

static void run_padding(fixture_t *fixture, dt_function_t *function) {
  CALL(fixture, function, 176, 4, vector(175, 4));
  CALL(fixture, function, 250, 4, vector(249, 4));
  CALL(fixture, function, 250, 4, vector(250, 4));
}

static void behaviour_20_padding_from_a_remainder(void **state) {
  expect_counts(*state, padded, NULL, 1, one_vector, run_padding, (counts_t){1, 2, 3});
}

// ---- 22: sizes from integers --------------------------------------------------------------------------
static dt_status_t ones(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_sym_max(t, dt_int_value(t, in[0]), dt_sym_const(t, 1024));
  out[0] = dt_expand(t, dt_scalar(t, DT_F32, 1), 1, &n);
  return NULL;
}

static void run_ones(fixture_t *fixture, dt_function_t *function) {
  CALL(fixture, function, 1024, 1, tensor_integer(1000));
  CALL(fixture, function, 2000, 1, tensor_integer(2000));
}

static void behaviour_22_sizes_from_an_integer(void **state) {
  static const dt_input_decl_t inputs[] = {
      {.name = "n", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  expect_counts(*state, ones, NULL, 1, inputs, run_ones, (counts_t){1, 2, 2});
}

// ---- 28: marked dims ----------------------------------------------------------------------------
static void call_cube(fixture_t *fixture, dt_function_t *function, int64_t a, int64_t b,
                      int64_t c) {
  const int64_t sizes[3] = {a, b, c};
  dt_tensor_t *x = tensor_full(4, 3, sizes), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  assert_int_equal(dt_tensor_count(out), a * b * c);
  RELEASE(x, out);
}

// What a compile was given as dynamic takes every call that moves no other dim; nothing marked
// takes what does not move.
static void behaviour_28_dims_within_the_marked_ones_may_change(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    uint32_t marks; // bit d: dim d
    uint64_t compiles[3];
  } cases[] = {{0, {1, 2, 2}}, {1, {1, 1, 2}}, {3, {1, 1, 1}}, {7, {1, 1, 1}}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_dim_decl_t dims[3] = {0};
    for (uint32_t d = 0; d < 3; d++)
      dims[d].mark = cases[k].marks >> d & 1 ? DT_MARK_DYNAMIC : DT_MARK_NONE;
    dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 3, .dims = dims}};
    dt_function_options_t options = options_of(1, inputs);
    options.dynamic = DT_DYNAMIC_AUTOMATIC;
    dt_function_t *function = function_of(fixture, double_program, NULL, &options);
    call_cube(fixture, function, 2, 3, 4);
    call_cube(fixture, function, 2, 3, 4);
    expect_compiles(function, cases[k].compiles[0]);
    call_cube(fixture, function, 5, 3, 4);
    expect_compiles(function, cases[k].compiles[1]);
    call_cube(fixture, function, 6, k == 0 ? 3 : 7, 4);
    expect_compiles(function, cases[k].compiles[2]);
    dt_function_release(function);
  }
}

RUN_TESTS_WITH(
    setup, fixture_close, TEST(behaviour_01_lengths_become_dynamic),
    TEST(behaviour_02_booleans_are_specialised), TEST(behaviour_03_a_tensor_or_an_integer),
    TEST(behaviour_04_an_alias_of_an_updated_argument_compiles),
    TEST(behaviour_05_an_argument_becomes_a_global), TEST(behaviour_06_parameters_marked_static),
    TEST(behaviour_07_train_and_eval_have_a_variant_each),
    TEST(behaviour_08_the_limit_ends_compiling),
    TEST(behaviour_09_compiled_variants_answer_beyond_the_limit),
    TEST(behaviour_10_a_captured_integer_becomes_dynamic), TEST(behaviour_11_down_to_no_elements),
    TEST(behaviour_12_branches_on_sizes_that_are_not_to_be_guarded),
    TEST(behaviour_13_a_branch_on_an_integer), TEST(behaviour_14_an_integer_is_an_operand),
    TEST(behaviour_15_a_scalar_is_a_tensor), TEST(behaviour_16_a_product_over_a_dim),
    TEST(behaviour_17_a_dim_marked_static_is_a_literal),
    TEST(behaviour_18_size_one_may_be_marked_dynamic),
    TEST(behaviour_19_what_follows_a_break_is_dynamic), TEST(behaviour_20_padding_from_a_remainder),
    TEST(behaviour_22_sizes_from_an_integer),
    TEST(behaviour_28_dims_within_the_marked_ones_may_change))
