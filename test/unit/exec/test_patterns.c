// SPDX-License-Identifier: Apache-2.0
// Patterns of users: where they match, and that what they put in answers as the evaluator does for
// the program as it was.
#include "test/support/subjects.h"

#include "ductile/pattern.h"

#include "runtime/trace/hooks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 17); }

static const int32_t last_axis = -1;

// ---- Help ---------------------------------------------------------------------------------------
// A pattern under test: `options` as far as they are said.
typedef struct made_t {
  dt_program_fn_t program;
  dt_replacement_fn_t replacement;
  dt_match_check_fn_t check;
  void *closure;
  dt_pattern_options_t options;
} made_t;

#define WILDCARDS(...)                                                                             \
  .n_wildcards = sizeof((const dt_wildcard_t[]){__VA_ARGS__}) / sizeof(dt_wildcard_t),             \
  .wildcards = (const dt_wildcard_t[]) {                                                           \
    __VA_ARGS__                                                                                    \
  }

static dt_status_t try_make(const made_t *made, dt_pattern_t **out) {
  dt_pattern_options_t options = made->options;
  options.struct_size = sizeof(options);
  options.wildcard_size = sizeof(dt_wildcard_t);
  options.dim_size = sizeof(dt_dim_decl_t);
  options.name = options.name ? options.name : "p";
  options.n_outputs = options.n_outputs ? options.n_outputs : 1;
  return dt_pattern_create(made->program, made->replacement, made->check, made->closure, &options,
                           out);
}

// Added to the runtime; the caller's share is returned.
static dt_pattern_t *add_pattern(fixture_t *f, const made_t *made) {
  dt_pattern_t *pattern = NULL;
  expect_ok(try_make(made, &pattern));
  expect_ok(dt_runtime_add_pattern(f->runtime, pattern));
  return pattern;
}

static void drop_pattern(fixture_t *f, dt_pattern_t *pattern, const char *name) {
  expect_ok(dt_runtime_remove_pass(f->runtime, name));
  dt_pattern_release(pattern);
}

// The function as it is made with all patterns, or, with `passes`, without some, and answered by
// the evaluator.
static dt_function_t *make(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                           const dt_input_decl_t *inputs, uint32_t n_out, const char *passes) {
  dt_function_options_t options = options_of(n_in, inputs);
  options.n_outputs = n_out;
  options.passes = passes;
  if (passes)
    options.answer = DT_ANSWER_EVALUATOR;
  return function_of(f, program, closure, &options);
}

#define MOST 4
// Calls the program with the patterns, and without `names` by the evaluator: the same answers.
static void same_answers(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                         const dt_input_decl_t *inputs, uint32_t n_out, dt_tensor_t *const *in,
                         const char *names) {
  dt_tensor_t *got[MOST] = {NULL}, *want[MOST] = {NULL};
  dt_function_t *with = make(f, program, closure, n_in, inputs, n_out, NULL);
  dt_function_t *without = make(f, program, closure, n_in, inputs, n_out, names);
  expect_ok(dt_call(f->session, with, in, n_in, got, n_out, NULL));
  expect_ok(dt_call(f->session, without, in, n_in, want, n_out, NULL));
  for (uint32_t k = 0; k < n_out; k++)
    expect_close(got[k], want[k], 2e-5, 2e-5, names);
  release_tensors(got, n_out);
  release_tensors(want, n_out);
  dt_function_release(with);
  dt_function_release(without);
}

// The same of one input; returns how often the pattern matched.
static uint64_t matches(fixture_t *f, const made_t *made, dt_program_fn_t program, uint32_t rank) {
  dt_pattern_t *pattern = add_pattern(f, made);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = rank};
  dt_tensor_t *x = tensor_f32(&f->rng, rank, SIZES(3, 4, 2, 5));
  same_answers(f, program, NULL, 1, &input, 1, &x, "-p");
  uint64_t n = dt_pattern_count(pattern);
  RELEASE(x);
  drop_pattern(f, pattern, "p");
  return n;
}

static dt_point_t change_points(uint32_t k) {
  static const dt_point_t points[] = {DT_POINT_TRACED, DT_POINT_BEFORE_DECOMPOSE};
  return points[k];
}

// Builds without a code generator trace and evaluate: there only DT_POINT_TRACED is a point.
static bool compiles(void) { return compiled_answer() == DT_ANSWER_COMPILED; }

// ---- One output, any rank -----------------------------------------------------------------------
static dt_status_t swish(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], dt_sigmoid(t, in[0]));
  return NULL;
}
static dt_status_t as_silu(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)closure;
  assert_int_equal(dt_match_node(m, "x").id, in[0].id);
  assert_int_equal(dt_match_node(m, "y").id, 0);
  out[0] = dt_silu(t, in[0]);
  return NULL;
}
static const made_t silu = {swish, as_silu, .options = {WILDCARDS({.name = "x"})}};

// Operands the other way, and a factor of its own.
static dt_status_t swish_of_sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t sum = dt_add(t, in[0], in[0]);
  out[0] = dt_mul(t, dt_scalar(t, DT_F32, 2), dt_mul(t, dt_sigmoid(t, sum), sum));
  return NULL;
}

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

// ---- Checks -------------------------------------------------------------------------------------
static uint32_t asked;
static const char *refuse(dt_match_t *m, void *closure) {
  (void)m;
  (void)closure;
  asked++;
  return "not today";
}
static const char *hostile(dt_match_t *m, void *closure) {
  (void)closure;
  asked++;
  dt_rewriter_t *r = dt_match_rewriter(m);
  dt_value_t out = dt_match_output(m, 0);
  expect_told(dt_rewriter_replace(r, out, dt_match_node(m, "x")), DT_E_STATE, "changes nothing");
  expect_told(dt_rewriter_erase(r, out), DT_E_STATE, "changes nothing");
  char *text = NULL;
  dt_value_t more = dt_exp(dt_rewriter_trace(r), dt_match_node(m, "x"));
  assert_true(more.id != 0);
  assert_true(dt_rewriter_length(r) > 0);
  (void)dt_neg(dt_rewriter_trace(r), more);
  assert_int_equal(dt_match_output(m, 1).id, 0);
  assert_int_equal(dt_match_output(NULL, 0).id, 0);
  assert_int_equal(dt_match_node(m, NULL).id, 0);
  assert_int_equal(dt_match_node(NULL, "x").id, 0);
  assert_false(dt_match_size(m, "x", NULL));
  assert_false(dt_match_literal(NULL, "x", NULL));
  assert_null(dt_match_rewriter(NULL));
  dt_pattern_t *none = NULL;
  expect_told(dt_pattern_explain(none, r, &text), DT_E_ARGUMENT, "pattern: NULL");
  return NULL;
}
static const char *fails(dt_match_t *m, void *closure) {
  (void)closure;
  asked++;
  dt_trace_fail(dt_rewriter_trace(dt_match_rewriter(m)), DT_E_RANGE, "the check broke");
  return NULL;
}

static void test_checks(void **state) {
  fixture_t *f = *state;
  static const dt_match_check_fn_t checks[] = {NULL, refuse, hostile, fails};
  static const uint64_t wanted[] = {1, 0, 1, 0};
  for (size_t k = 0; k < 4; k++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.check = checks[k];
    asked = 0;
    assert_int_equal(matches(f, &made, swish, 2), wanted[k]);
    assert_true(k == 0 || asked > 0);
  }
}

// ---- Replacements that fail ---------------------------------------------------------------------
static int way;
static dt_status_t bad(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                       void *closure) {
  dt_rewriter_t *r = dt_match_rewriter(m);
  (void)closure;
  dt_tensor_t *w = NULL;
  switch (way) {
  case 0:
    dt_trace_fail(t, DT_E_UNSUPPORTED, "not on this device");
    break;
  case 1: // out[0] stays unset
    (void)dt_exp(t, in[0]);
    break;
  case 2:
    out[0] = dt_cast(t, in[0], DT_F64);
    break;
  case 3:
    out[0] = dt_sum(t, in[0], 0, NULL, false);
    break;
  case 4:
    out[0] = (dt_value_t){4000, in[0].trace};
    break;
  case 5:
    return dt_rewriter_replace(r, dt_match_output(m, 0), in[0]);
  case 6: // a constant goes with it
    w = tensor_full(3, 0, NULL);
    out[0] = dt_cast(t, dt_mul(t, in[0], dt_constant(t, "w", w)), DT_F64);
    RELEASE(w);
    break;
  default:
    out[0] = dt_item(t, in[0]).id ? in[0] : in[0];
  }
  return NULL;
}

static void test_failing_replacements(void **state) {
  fixture_t *f = *state;
  for (way = 0; way < 8; way++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.replacement = bad;
    assert_int_equal(matches(f, &made, swish_of_sum, 2), 0);
  }
}

// A constant that a failing replacement made is gone with it; the next one makes it anew.
static dt_status_t with_one(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  dt_value_t x = way ? dt_neg(t, dt_neg(t, in[0])) : in[0]; // the constant's node is another
  dt_value_t one = dt_constant(t, "one", closure), again = dt_constant(t, "one", closure);
  (void)m;
  assert_int_equal(one.id, again.id);
  out[0] = dt_mul(t, dt_silu(t, x), dt_mul(t, one, again));
  if (way++ == 0)
    dt_trace_fail(t, DT_E_UNSUPPORTED, "not the first one");
  return NULL;
}
static dt_status_t swish_of_swish(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_status_t status = swish(t, in, out, closure);
  return status ? status : swish(t, out, out, closure);
}

static void test_constants_of_failing_replacements(void **state) {
  fixture_t *f = *state;
  dt_tensor_t *one = tensor_full(1, 0, NULL);
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  made.replacement = with_one;
  made.closure = one;
  way = 0;
  assert_int_equal(matches(f, &made, swish_of_swish, 2), 1);
  assert_int_equal(way, 2);
  RELEASE(one);
}

// A tree of sums fits in very many orders, none of which the check wants: the search ends.
static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t v[32];
  (void)closure;
  for (int k = 0; k < 32; k++)
    v[k] = closure ? dt_mul(t, in[0], dt_scalar(t, DT_F32, k)) : in[k];
  for (int n = 32; n > 1; n /= 2)
    for (int k = 0; k < n / 2; k++)
      v[k] = dt_add(t, v[2 * k], v[2 * k + 1]);
  out[0] = v[0];
  return NULL;
}

static void test_many_orders(void **state) {
  fixture_t *f = *state;
  dt_wildcard_t wildcards[32];
  char names[32][8];
  static int any;
  for (int k = 0; k < 32; k++) {
    (void)snprintf(names[k], sizeof(names[k]), "x%d", k);
    wildcards[k] = (dt_wildcard_t){.name = names[k]};
  }
  made_t made = {sums,
                 as_silu,
                 refuse,
                 NULL,
                 {.point = DT_POINT_TRACED, .n_wildcards = 32, .wildcards = wildcards}};
  dt_pattern_t *pattern = add_pattern(f, &made);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  asked = 0;
  same_answers(f, sums, &any, 1, &input, 1, &x, "-p");
  assert_true(asked > 1 && asked < 100);
  RELEASE(x);
  drop_pattern(f, pattern, "p");
}

// Nodes that are made to look, or put in, are not the program's: its budget does not count them.
static void test_budgets(void **state) {
  (void)state;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1, .max_nodes = 3};
  fixture_t f = {.runtime = NULL};
  expect_ok(dt_runtime_create(&options, &f.runtime));
  f.session = session_of(f.runtime);
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(&f, &made, swish, 2), 1);
  fixture_end(&f);
}

// ---- Bodies, order, choice ----------------------------------------------------------------------
static dt_status_t other_body(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}
static dt_status_t branches(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t pred = dt_gt(t, dt_sum(t, in[0], 0, NULL, false), dt_scalar(t, DT_F32, -100));
  dt_cond(t, pred, swish, other_body, NULL, 1, in, 1, out);
  out[0] = dt_mul(t, out[0], dt_sigmoid(t, out[0]));
  return NULL;
}

static void test_bodies(void **state) {
  fixture_t *f = *state;
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  assert_int_equal(matches(f, &made, branches, 1), 2);
}

static char ran[64];
static dt_status_t note_pass(dt_rewriter_t *r, void *closure) {
  (void)r;
  (void)strcat(ran, closure);
  return NULL;
}
static dt_status_t note_and(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  (void)strcat(ran, closure);
  return as_silu(m, t, in, out, NULL);
}
static const char *note_not(dt_match_t *m, void *closure) {
  (void)m;
  (void)strcat(ran, closure);
  return "go on";
}

// Patterns stand behind passes, and are tried by priority, then as added; the first one is enough.
static void test_order(void **state) {
  fixture_t *f = *state;
  static char names[][2] = {"a", "b", "c", "d"};
  static const int32_t priorities[] = {9, 5, -7, 5};
  dt_pattern_t *patterns[4];
  for (size_t k = 0; k < 4; k++) {
    made_t made = silu;
    made.options.point = DT_POINT_TRACED;
    made.options.name = names[k];
    made.options.priority = priorities[k];
    made.closure = names[k];
    made.replacement = note_and;
    made.check = k == 2 ? note_not : NULL;
    patterns[k] = add_pattern(f, &made);
  }
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "z", .priority = 99};
  expect_ok(dt_runtime_add_pass(f->runtime, DT_POINT_TRACED, note_pass, "z", &pass));
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  same_answers(f, swish, NULL, 1, &input, 1, &x, "-a,-b,-c,-d,-z");
  assert_string_equal(ran, "zcb");
  for (size_t k = 0; k < 4; k++)
    drop_pattern(f, patterns[k], names[k]);
  expect_ok(dt_runtime_remove_pass(f->runtime, "z"));
  RELEASE(x);
}

static uint32_t freed;
static void count_free(void *closure) {
  (void)closure;
  freed++;
}

static void test_shares_and_keys(void **state) {
  fixture_t *f = *state;
  freed = 0;
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  made.options.on_demand = true;
  made.options.closure_free = count_free;
  dt_pattern_t *pattern = add_pattern(f, &made);
  expect_told(dt_runtime_add_pattern(f->runtime, pattern), DT_E_ARGUMENT, "has a pass \"p\"");
  expect_told(dt_runtime_add_pattern(NULL, pattern), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_runtime_add_pattern(f->runtime, NULL), DT_E_ARGUMENT, "pattern: NULL");
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  static const char *const chosen[] = {"", "p"};
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *out = NULL;
    dt_function_t *function = make(f, swish, NULL, 1, &input, 1, chosen[k]);
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    assert_int_equal(dt_pattern_count(pattern), k);
    RELEASE(out);
    dt_function_release(function);
  }
  RELEASE(x);
  drop_pattern(f, pattern, "p");
  assert_int_equal(freed, 1);
  // Another identity is another key.
  dt_text_t keys[3];
  static const char *const identities[] = {NULL, "p 2", "p 3"};
  dt_hooks_t *none = NULL;
  expect_ok(dt__hooks_create(&none));
  for (size_t k = 0; k < 3; k++) {
    dt_hooks_t *hooks = NULL;
    made.options.identity = identities[k];
    expect_ok(try_make(&made, &pattern));
    expect_ok(dt__hooks_add_pattern(none, pattern, &hooks));
    dt_pattern_release(pattern);
    dt__text_init(&keys[k]);
    dt__hooks_key(hooks, &keys[k]);
    dt__hooks_release(hooks);
    for (size_t i = 0; i < k; i++)
      assert_string_not_equal(dt__text_str(&keys[i]), dt__text_str(&keys[k]));
  }
  for (size_t k = 0; k < 3; k++)
    dt__text_fini(&keys[k]);
  dt__hooks_release(none);
  assert_int_equal(freed, 4);
}

// ---- Threads ------------------------------------------------------------------------------------
#define ROUNDS 6
static void *compile_some(void *runtime) {
  fixture_t f = {.runtime = runtime, .session = session_of(runtime)};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  for (int k = 0; k < ROUNDS; k++) {
    dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
    dt_function_t *function = make(&f, swish, NULL, 1, &input, 1, NULL);
    expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
    RELEASE(x, out);
    dt_function_release(function);
  }
  dt_session_destroy(f.session);
  return NULL;
}

// Two runtimes share the pattern; three threads compile.
static void test_threads(void **state) {
  fixture_t *f = *state, other = fixture_on(DT_CPU, 1);
  pthread_t threads[3];
  made_t made = silu;
  made.options.point = DT_POINT_TRACED;
  dt_pattern_t *pattern = add_pattern(f, &made);
  expect_ok(dt_runtime_add_pattern(other.runtime, pattern));
  for (int k = 0; k < 3; k++)
    assert_int_equal(
        pthread_create(&threads[k], NULL, compile_some, k < 2 ? f->runtime : other.runtime), 0);
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  assert_int_equal(dt_pattern_count(pattern), 3 * ROUNDS);
  drop_pattern(f, pattern, "p");
  fixture_end(&other);
}

RUN_TESTS(TEST_WITH(test_any_rank_and_order, setup, fixture_close),
          TEST_WITH(test_repeated_operands, setup, fixture_close),
          TEST_WITH(test_broadcasts_and_literals, setup, fixture_close),
          TEST_WITH(test_constants_of_one_element, setup, fixture_close),
          TEST_WITH(test_constants_and_dtypes, setup, fixture_close),
          TEST_WITH(test_two_outputs_in_each_layer, setup, fixture_close),
          TEST_WITH(test_an_output_below_another, setup, fixture_close),
          TEST_WITH(test_uses_outside, setup, fixture_close),
          TEST_WITH(test_a_pattern_of_views, setup, fixture_close),
          TEST_WITH(test_checks, setup, fixture_close),
          TEST_WITH(test_failing_replacements, setup, fixture_close),
          TEST_WITH(test_constants_of_failing_replacements, setup, fixture_close),
          TEST_WITH(test_many_orders, setup, fixture_close), TEST(test_budgets),
          TEST_WITH(test_bodies, setup, fixture_close), TEST_WITH(test_order, setup, fixture_close),
          TEST_WITH(test_shares_and_keys, setup, fixture_close),
          TEST_WITH(test_threads, setup, fixture_close))
