// SPDX-License-Identifier: Apache-2.0
// Patterns of users: where they match, and that what they put in answers as the evaluator does for
// the program as it was.
#include "test/unit/exec/pattern_kit.h"

static int setup(void **state) { return fixture_open(state, 2, 17); }

static const int32_t last_axis = -1;

static dt_point_t change_points(uint32_t k) {
  static const dt_point_t points[] = {DT_POINT_TRACED, DT_POINT_BEFORE_DECOMPOSE};
  return points[k];
}

// ---- One output, any rank -----------------------------------------------------------------------
static void test_any_rank_and_order(void **state) {
  fixture_t *f = *state;
  for (uint32_t rank = 0; rank <= 4; rank++) {
    assert_int_equal(matches(f, &silu, swish, rank), compiles());
    assert_int_equal(matches(f, &silu, swish_of_sum, rank), compiles());
  }
  for (uint32_t k = 0; k < 2; k++) {
    made_t at = silu;
    at.options.point = change_points(k);
    assert_int_equal(matches(f, &at, swish, 2), k == 0 || compiles());
  }
}

// The same wildcard twice is one node.
static dt_status_t gate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], dt_sigmoid(t, dt_neg(t, in[0])));
  return NULL;
}

static void test_repeated_operands(void **state) {
  fixture_t *f = *state;
  made_t at = silu;
  at.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(f, &at, gate, 2), 0);
}

// ---- Broadcasts, sizes by name, literals --------------------------------------------------------
static dt_status_t normed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t mean = dt_mean(t, dt_mul(t, in[0], in[0]), 1, &last_axis, true);
  dt_value_t scaled = dt_mul(t, in[0], dt_rsqrt(t, dt_add(t, mean, in[2])));
  out[0] = dt_mul(t, scaled, in[1]);
  return NULL;
}
static dt_status_t as_norm(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  double epsilon = -1, none = -1;
  dt_sym_t size, no_size;
  (void)closure;
  assert_true(dt_match_literal(m, "epsilon", &epsilon));
  assert_false(dt_match_literal(m, "x", &none));
  assert_true(none == 0);
  assert_true(dt_match_size(m, "width", &size));
  assert_false(dt_match_size(m, "height", &no_size));
  bool same = false;
  assert_true(dt_sym_known(t, dt_sym_eq(t, size, dt_dim(t, in[0], -1)), &same) && same);
  out[0] = dt_rms_norm(t, in[0], in[1], epsilon);
  return NULL;
}
static bool is_small(double number, void *closure) {
  (void)closure;
  return number > 0 && number < 1e-2;
}
static const dt_dim_decl_t width_dim[] = {{.name = "width"}};
static const made_t norm = {
    normed, as_norm,
    .options = {
        .point = DT_POINT_TRACED,
        WILDCARDS({.name = "x", .dtype = DT_F32},
                  {.name = "w", .same_dtype = "x", .ranked = true, .rank = 1, .dims = width_dim},
                  {.name = "epsilon", .kind = DT_WILDCARD_LITERAL, .accepts = is_small})}};

static double epsilon_here;
static dt_status_t norm_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const dt_value_t all[3] = {in[0], in[1], dt_scalar(t, DT_F32, epsilon_here)};
  return normed(t, all, out, closure);
}

static uint64_t norm_matches(fixture_t *f, uint32_t rank, double epsilon) {
  dt_pattern_t *pattern = add_pattern(f, &norm);
  const int64_t sizes[4] = {3, 4, 2, 6};
  const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = rank},
                                     {.name = "w", .dtype = DT_F32, .rank = 1}};
  dt_tensor_t *in[2] = {tensor_f32(&f->rng, rank, sizes + 4 - rank),
                        tensor_f32(&f->rng, 1, sizes + 3)};
  epsilon_here = epsilon;
  same_answers(f, norm_program, NULL, 2, inputs, 1, in, "-p");
  uint64_t n = dt_pattern_count(pattern);
  RELEASE(in[0], in[1]);
  drop_pattern(f, pattern, "p");
  return n;
}

static void test_broadcasts_and_literals(void **state) {
  fixture_t *f = *state;
  for (uint32_t rank = 1; rank <= 4; rank++) {
    assert_int_equal(norm_matches(f, rank, 1e-5), 1);
    assert_int_equal(norm_matches(f, rank, 0.5), 0); // not accepted
  }
}

// A number that an exporter wrote as a constant is a literal at the trace; then it stays.
static dt_status_t exported(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const dt_value_t all[3] = {in[0], in[1], dt_constant(t, "epsilon", closure)};
  return normed(t, all, out, closure);
}

static void test_constants_of_one_element(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                            {.name = "w", .dtype = DT_F32, .rank = 1}};
  dt_tensor_t *in[2] = {tensor_f32(&f->rng, 2, SIZES(3, 4)), tensor_f32(&f->rng, 1, SIZES(4))};
  static const dt_point_t points[] = {DT_POINT_TRACED, DT_POINT_BEFORE_DECOMPOSE};
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t rank = 0; rank < 3; rank++) {
      made_t made = norm;
      made.options.point = points[k];
      dt_tensor_t *epsilon = tensor_full(1e-4F, rank, SIZES(1, 1)), *out = NULL;
      dt_pattern_t *pattern = add_pattern(f, &made);
      same_answers(f, exported, epsilon, 2, inputs, 1, in, "-p");
      assert_int_equal(dt_pattern_count(pattern), k == 0);
      dt_function_t *function = make(f, exported, epsilon, 2, inputs, 1, NULL);
      expect_ok(dt_call(f->session, function, in, 2, &out, 1, NULL));
      if (k == 0)
        expect_told(dt_constant_update(function, "epsilon", epsilon), DT_E_UNSUPPORTED, "epsilon");
      else
        expect_ok(dt_constant_update(function, "epsilon", epsilon));
      dt_function_release(function);
      RELEASE(epsilon, out);
      drop_pattern(f, pattern, "p");
    }
  RELEASE(in[0], in[1]);
}

// The same where the literal is an operand of what is replaced.
static dt_status_t times(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_mul(t, in[0], closure ? dt_constant(t, "by", closure) : in[1]);
  return NULL;
}
static dt_status_t as_literal(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  double by = 0;
  (void)closure;
  assert_true(dt_match_literal(m, "by", &by));
  out[0] = dt_mul(t, dt_scalar(t, DT_F32, by), in[0]);
  return NULL;
}

static void test_a_constant_as_an_operand(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t inputs[1] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
  made_t made = {
      times, as_literal,
      .options = {.point = DT_POINT_TRACED,
                  WILDCARDS({.name = "x"}, {.name = "by", .kind = DT_WILDCARD_LITERAL})}};
  dt_tensor_t *by = tensor_full(3, 0, NULL), *in[1] = {tensor_f32(&f->rng, 2, SIZES(3, 4))};
  dt_pattern_t *pattern = add_pattern(f, &made);
  same_answers(f, times, by, 1, inputs, 1, in, "-p");
  assert_int_equal(dt_pattern_count(pattern), 1);
  drop_pattern(f, pattern, "p");
  RELEASE(by, in[0]);
}

// A wildcard that must be a constant; a number repeated in its own way; other dtypes.
static dt_status_t shifted(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_mul(t, in[0], dt_scalar(t, dt_value_dtype(t, in[0]), 0.5)), in[1]);
  return NULL;
}
static dt_status_t shift_again(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)m;
  (void)closure;
  out[0] = dt_add(t, in[1], dt_mul(t, in[0], dt_scalar(t, dt_value_dtype(t, in[0]), 0.5)));
  return NULL;
}
typedef struct shift_t {
  dt_tensor_t *by;
  dt_dtype_t dtype;
  bool constant;
} shift_t;
static dt_status_t shift(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const shift_t *shift = closure;
  dt_value_t x = dt_cast(t, in[0], shift->dtype), half = dt_scalar(t, shift->dtype, 0.5);
  dt_sym_t one = dt_sym_const(t, 1);
  half = dt_reshape(t, dt_reshape(t, half, 1, &one), 2, (const dt_sym_t[]){one, one});
  dt_value_t by = dt_constant(t, "by", shift->by);
  by = shift->constant ? by : dt_neg(t, by);
  by = shift->dtype == DT_F32 ? by : dt_cast(t, in[1], shift->dtype);
  out[0] = dt_cast(t, dt_add(t, dt_mul(t, x, half), by), DT_F32);
  return NULL;
}

static void test_constants_and_dtypes(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                            {.name = "y", .dtype = DT_F32, .rank = 1}};
  static const struct {
    dt_dtype_t dtype;
    bool constant;
    dt_wildcard_kind_t kind;
    uint64_t count;
  } rows[] = {{DT_F32, true, DT_WILDCARD_CONSTANT, 1},  {DT_F32, false, DT_WILDCARD_CONSTANT, 0},
              {DT_F32, false, DT_WILDCARD_VALUE, 1},    {DT_F64, true, DT_WILDCARD_VALUE, 1},
              {DT_F64, false, DT_WILDCARD_CONSTANT, 0}, {DT_F16, false, DT_WILDCARD_VALUE, 1},
              {DT_BF16, false, DT_WILDCARD_VALUE, 1}};
  dt_tensor_t *in[2] = {tensor_f32(&f->rng, 2, SIZES(3, 4)), tensor_f32(&f->rng, 1, SIZES(4))};
  dt_tensor_t *by = tensor_f32(&f->rng, 1, SIZES(4));
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    const made_t made = {
        shifted, shift_again,
        .options = {.point = DT_POINT_TRACED,
                    WILDCARDS({.name = "x"}, {.name = "by", .kind = rows[k].kind})}};
    shift_t with = {by, rows[k].dtype, rows[k].constant};
    dt_pattern_t *pattern = add_pattern(f, &made);
    dt_tensor_t *out = NULL;
    dt_function_t *function = make(f, shift, &with, 2, inputs, 1, NULL);
    expect_ok(dt_call(f->session, function, in, 2, &out, 1, NULL));
    assert_int_equal(dt_pattern_count(pattern), rows[k].count);
    dt_function_release(function);
    RELEASE(out);
    drop_pattern(f, pattern, "p");
  }
  RELEASE(in[0], in[1], by);
}

// ---- Two outputs, in twelve layers --------------------------------------------------------------
#define LAYERS 12
#define WIDTH 8

// A residual sum and its norm; the sum goes on to the next layer.
static dt_status_t add_normed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(t, in[0], in[1]);
  const dt_value_t all[3] = {out[0], in[2], in[3]};
  return normed(t, all, &out[1], closure);
}
static dt_status_t as_add_norm(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  double epsilon = 0;
  (void)closure;
  assert_true(dt_match_literal(m, "epsilon", &epsilon));
  out[0] = dt_add(t, in[1], in[0]);
  out[1] = dt_rms_norm(t, out[0], in[2], epsilon);
  return NULL;
}
#define ADD_NORM                                                                                   \
  {                                                                                                \
    add_normed, as_add_norm, .options = {                                                          \
      .point = DT_POINT_TRACED,                                                                    \
      .n_outputs = 2,                                                                              \
      WILDCARDS({.name = "a"}, {.name = "b", .same_dtype = "a"},                                   \
                {.name = "w", .ranked = true, .rank = 1},                                          \
                {.name = "epsilon", .kind = DT_WILDCARD_LITERAL})                                  \
    }                                                                                              \
  }

static dt_value_t attend(dt_trace_t *t, dt_value_t x, dt_value_t w) {
  dt_value_t q = dt_matmul(t, x, w), scores = dt_matmul(t, q, dt_transpose(t, x, -1, -2));
  return dt_matmul(t, dt_softmax(t, scores, -1), x);
}

// x[batch, seq, WIDTH], w[WIDTH, WIDTH], scale[WIDTH].
static dt_status_t transformer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_value_t x = in[0], y = in[0], both[2];
  (void)closure;
  for (int layer = 0; layer < LAYERS; layer++) {
    const dt_value_t all[4] = {x, y, in[2], dt_scalar(t, DT_F32, 1e-5)};
    dt_status_t status = add_normed(t, all, both, NULL);
    if (status)
      return status;
    x = both[0];
    y = attend(t, both[1], in[1]);
    y = dt_mul(t, y, dt_scalar(t, DT_F32, 0.5));
  }
  out[0] = dt_add(t, x, y);
  return NULL;
}

static void test_two_outputs_in_each_layer(void **state) {
  fixture_t *f = *state;
  const made_t made = ADD_NORM;
  dt_pattern_t *pattern = add_pattern(f, &made);
  static const dt_dim_decl_t dims[3] = {
      {.name = "batch"}, {.name = "seq"}, {.is_static = true, .value = WIDTH}};
  static const dt_input_decl_t inputs[3] = {{.name = "x", .dtype = DT_F32, .rank = 3, .dims = dims},
                                            {.name = "w", .dtype = DT_F32, .rank = 2},
                                            {.name = "scale", .dtype = DT_F32, .rank = 1}};
  dt_tensor_t *in[3] = {tensor_f32(&f->rng, 3, SIZES(2, 5, WIDTH)),
                        tensor_f32(&f->rng, 2, SIZES(WIDTH, WIDTH)),
                        tensor_f32(&f->rng, 1, SIZES(WIDTH))};
  same_answers(f, transformer, NULL, 3, inputs, 1, in, "-p");
  assert_int_equal(dt_pattern_count(pattern), LAYERS);
  RELEASE(in[0], in[1], in[2]);
  drop_pattern(f, pattern, "p");
}

// The second output's operand is made of the first one: both are computed, in this order.
static dt_status_t two_sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_exp(t, in[0]);
  out[1] = dt_mul(t, in[0], in[1]);
  return NULL;
}
static dt_status_t as_two(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                          void *closure) {
  (void)m;
  (void)closure;
  dt_value_t joined = dt_concat(t, 2, (const dt_value_t[]){in[0], in[1]}, 0);
  dt_sym_t n = dt_dim(t, in[0], 0);
  out[0] = dt_exp(t, dt_slice(t, joined, 0, dt_sym_const(t, 0), n, 1));
  out[1] = dt_mul(t, dt_slice(t, joined, 0, n, n, 1), in[0]);
  return NULL;
}
static dt_status_t entangled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t e = dt_exp(t, in[0]);
  out[0] = dt_mul(t, dt_neg(t, e), in[0]);
  return NULL;
}

static void test_an_output_below_another(void **state) {
  fixture_t *f = *state;
  const made_t made = {two_sums, as_two,
                       .options = {.point = DT_POINT_TRACED,
                                   .n_outputs = 2,
                                   WILDCARDS({.name = "x"}, {.name = "y"})}};
  assert_int_equal(matches(f, &made, entangled, 1), 1);
}

// ---- Uses outside -------------------------------------------------------------------------------
static dt_status_t used_twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t s = dt_sigmoid(t, in[0]);
  out[0] = dt_add(t, dt_mul(t, in[0], s), dt_exp(t, s));
  return NULL;
}
// What nothing reads is as if it were not there.
static dt_status_t used_by_nobody(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t s = dt_sigmoid(t, in[0]);
  (void)dt_exp(t, s);
  out[0] = dt_mul(t, in[0], s);
  return NULL;
}

static void test_uses_outside(void **state) {
  fixture_t *f = *state;
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(f, &made, used_twice, 2), 0);
  assert_int_equal(matches(f, &made, used_by_nobody, 2), 1);
  made.options.shared = true;
  assert_int_equal(matches(f, &made, used_twice, 2), 1);
}

// ---- Axes and views -----------------------------------------------------------------------------
static dt_status_t split_heads(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  dt_sym_t rows = dt_dim(t, in[0], 0);
  dt_value_t heads =
      dt_reshape(t, in[0], 3, (const dt_sym_t[]){rows, dt_sym_const(t, 2), dt_sym_const(t, 3)});
  out[0] = dt_permute(t, heads, (const int32_t[]){1, 0, 2});
  return NULL;
}
static dt_status_t as_slices(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                             void *closure) {
  (void)m;
  (void)closure;
  dt_value_t half[2];
  for (int k = 0; k < 2; k++)
    half[k] =
        dt_unsqueeze(t, dt_slice(t, in[0], 1, dt_sym_const(t, 3 * k), dt_sym_const(t, 3), 1), 0);
  out[0] = dt_concat(t, 2, half, 0);
  return NULL;
}

// A wildcard's rank says where a chain of reshapes ends.
static void test_a_pattern_of_views(void **state) {
  fixture_t *f = *state;
  static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.is_static = true, .value = 6}};
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  const made_t ranked = {
      split_heads, as_slices,
      .options = {.point = DT_POINT_TRACED,
                  WILDCARDS({.name = "x", .ranked = true, .rank = 2, .dims = dims})}};
  dt_pattern_t *pattern = add_pattern(f, &ranked);
  dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(4, 6));
  same_answers(f, split_heads, NULL, 1, &input, 1, &x, "-p");
  assert_int_equal(dt_pattern_count(pattern), 1);
  RELEASE(x);
  drop_pattern(f, pattern, "p");
}

RUN_TESTS(TEST_WITH(test_any_rank_and_order, setup, fixture_close),
          TEST_WITH(test_repeated_operands, setup, fixture_close),
          TEST_WITH(test_broadcasts_and_literals, setup, fixture_close),
          TEST_WITH(test_constants_of_one_element, setup, fixture_close),
          TEST_WITH(test_a_constant_as_an_operand, setup, fixture_close),
          TEST_WITH(test_constants_and_dtypes, setup, fixture_close),
          TEST_WITH(test_two_outputs_in_each_layer, setup, fixture_close),
          TEST_WITH(test_an_output_below_another, setup, fixture_close),
          TEST_WITH(test_uses_outside, setup, fixture_close),
          TEST_WITH(test_a_pattern_of_views, setup, fixture_close))
