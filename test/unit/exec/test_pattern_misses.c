// SPDX-License-Identifier: Apache-2.0
// Why patterns do not match: explanations of programs that nearly fit, word by word, and patterns
// that are refused.
#include "test/support/subjects.h"

#include "ductile/op.h"
#include "ductile/pattern.h"

#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 1, 5); }

static const int32_t last_axis = -1;

// ---- The pattern --------------------------------------------------------------------------------
// softmax(x · w * factor + bias), and the scores before the bias.
static dt_status_t scores(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[1] = dt_mul(t, dt_matmul(t, in[0], in[1]), in[3]);
  out[0] = dt_softmax(t, dt_add(t, out[1], in[2]), -1);
  return NULL;
}
static dt_status_t same(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                        void *closure) {
  (void)m;
  return scores(t, in, out, closure);
}
static bool is_half(double number, void *closure) {
  (void)closure;
  return number == 0.5;
}
static const char *even_ranks(dt_match_t *m, void *closure) {
  (void)closure;
  dt_trace_t *t = dt_rewriter_trace(dt_match_rewriter(m));
  return dt_value_rank(t, dt_match_node(m, "bias")) == 2 ? "the bias is a matrix" : NULL;
}

static const dt_dim_decl_t x_dims[] = {{.name = "rows"}, {.name = "depth"}};
static const dt_dim_decl_t w_dims[] = {{.name = "depth"}, {.multiple_of = 8, .min = 8, .max = 64}};
static const dt_wildcard_t wildcards[] = {
    {.name = "x", .dtype = DT_F32, .ranked = true, .rank = 2, .dims = x_dims},
    {.name = "w", .same_dtype = "x", .ranked = true, .rank = 2, .dims = w_dims},
    {.name = "bias"},
    {.name = "factor", .kind = DT_WILDCARD_LITERAL, .accepts = is_half}};

static dt_pattern_options_t options_for(uint32_t n, const dt_wildcard_t *all, uint32_t n_outputs) {
  return (dt_pattern_options_t){.struct_size = sizeof(dt_pattern_options_t),
                                .name = "scores",
                                .n_wildcards = n,
                                .n_outputs = n_outputs,
                                .wildcard_size = sizeof(dt_wildcard_t),
                                .dim_size = sizeof(dt_dim_decl_t),
                                .wildcards = all};
}

// ---- Programs that nearly fit -------------------------------------------------------------------
// x[n, 16], w[16, 24], bias[24], y[n, 24]; without source lines, which stand elsewhere.
#define BUILD(op) (dt_##op)

static dt_value_t half(dt_trace_t *t) { return BUILD(scalar)(t, DT_F32, 0.5); }
static dt_value_t times(dt_trace_t *t, dt_value_t a, dt_value_t b) { return BUILD(mul)(t, a, b); }
static dt_value_t scaled(dt_trace_t *t, dt_value_t x, dt_value_t w) {
  dt_value_t product = BUILD(matmul)(t, x, w); // first: C says no order of operands
  return times(t, product, half(t));
}
static dt_value_t soft(dt_trace_t *t, dt_value_t x) { return BUILD(softmax)(t, x, -1); }
static dt_value_t soft_sum(dt_trace_t *t, dt_value_t s, dt_value_t bias) {
  return soft(t, BUILD(add)(t, s, bias));
}
static dt_value_t columns(dt_trace_t *t, dt_value_t x, int32_t axis, int64_t n) {
  return BUILD(slice)(t, x, axis, BUILD(sym_const)(t, 0), BUILD(sym_const)(t, n), 1);
}
static dt_value_t thrice(dt_trace_t *t, dt_value_t x, int32_t axis) {
  return BUILD(concat)(t, 3, (const dt_value_t[]){x, x, x}, axis);
}
static dt_value_t wide(dt_trace_t *t, dt_value_t x) { return BUILD(cast)(t, x, DT_F64); }

// Another op, axis, number or use.
static dt_value_t other_op(dt_trace_t *t, int variant, const dt_value_t *in) {
  dt_value_t s = scaled(t, in[0], in[1]), product = BUILD(matmul)(t, in[0], in[1]), sum;
  switch (variant) {
  case 0: // it fits
    return soft_sum(t, s, in[2]);
  case 1: // and so
    return soft_sum(t, in[2], times(t, half(t), product));
  case 2:
    return BUILD(log_softmax)(t, BUILD(add)(t, s, in[2]), -1);
  case 3:
    return soft(t, BUILD(sub)(t, s, in[2]));
  case 4:
    return BUILD(softmax)(t, BUILD(add)(t, s, in[2]), 0);
  case 5:
    return soft_sum(t, BUILD(neg)(t, s), in[2]);
  case 6:
    return soft_sum(t, BUILD(div)(t, product, half(t)), in[2]);
  case 7:
    return soft_sum(t, times(t, product, BUILD(scalar)(t, DT_F32, 0.25)), in[2]);
  case 8:
    return soft_sum(t, times(t, product, in[3]), in[2]);
  case 9:
    return times(t, soft_sum(t, times(t, product, half(t)), in[2]), product);
  default:
    sum = BUILD(add)(t, s, in[2]);
    product = BUILD(exp)(t, sum);
    return BUILD(add)(t, soft(t, sum), product);
  }
}

// Another dtype, size or rank; the check; less in common.
static dt_value_t other_size(dt_trace_t *t, int variant, const dt_value_t *in) {
  dt_value_t s = scaled(t, in[0], in[1]), more;
  switch (variant) {
  case 11:
    more = wide(t, in[0]);
    more = BUILD(matmul)(t, more, wide(t, in[1]));
    more = times(t, more, BUILD(scalar)(t, DT_F64, 0.5));
    return BUILD(cast)(t, soft_sum(t, more, wide(t, in[2])), DT_F32);
  case 12:
    return soft_sum(t, s, in[3]);
  case 13:
    more = scaled(t, in[0], columns(t, in[1], 1, 20));
    return soft_sum(t, more, columns(t, in[2], 0, 20));
  case 14:
    more = scaled(t, in[0], thrice(t, in[1], 1));
    return soft_sum(t, more, thrice(t, in[2], 0));
  case 15:
    more = BUILD(exp)(t, BUILD(unsqueeze)(t, in[0], 0));
    return soft_sum(t, scaled(t, more, in[1]), in[2]);
  case 16:
    return soft(t, BUILD(sum)(t, s, 1, &last_axis, true));
  case 17:
    return soft_sum(t, BUILD(maximum)(t, s, BUILD(neg)(t, s)), in[2]);
  case 18: // two of them, the second nearer
    more = BUILD(sum)(t, soft(t, BUILD(neg)(t, in[0])), 1, &last_axis, true);
    s = BUILD(exp)(t, in[3]);
    return BUILD(add)(t, more, soft_sum(t, times(t, s, half(t)), in[2]));
  default:
    return BUILD(neg)(t, in[0]);
  }
}

static dt_status_t nearly(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int *variant = closure;
  out[0] = *variant < 11 ? other_op(t, *variant, in) : other_size(t, *variant, in);
  return NULL;
}

static const char *const goldens[] = {
    "pattern scores: 1 match\n"
    "  at %14 (softmax)\n",
    "pattern scores: 1 match\n"
    "  at %18 (softmax)\n",
    "pattern scores: 0 matches\n"
    "no node is its first output: wanted softmax\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %14 (softmax), 1 of 8 nodes found: %13 (sub): wanted add, found sub\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %14 (softmax), 8 of 8 nodes found: wanted axes [1], found [0]\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %15 (softmax), 2 of 8 nodes found: %11 (neg): wanted mul, found neg\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %18 (softmax), 2 of 8 nodes found: %14 (div): wanted mul, found div\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %18 (softmax), 6 of 8 nodes found: %11 (scalar): \"factor\" does not accept 0.25\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %15 (softmax), 6 of 8 nodes found: %4 (input): wanted a literal for \"factor\"\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %18 (softmax), 8 of 8 nodes found: %10 (matmul): inside of the match, and used outside "
    "by %19 (mul)\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %15 (softmax), 8 of 8 nodes found: %13 (add): inside of the match, and used outside by "
    "%14 (exp)\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %21 (softmax), 4 of 8 nodes found: %10 (cast): wanted dtype f32 for \"x\", found f64\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %11 (softmax), 8 of 8 nodes found: the check: the bias is a matrix\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %20 (softmax), 5 of 8 nodes found: %10 (slice): dim 1: size 20 is not known to be a "
    "multiple of 8\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %20 (softmax), 5 of 8 nodes found: %10 (concat): dim 1: size 72 is not known to be at "
    "most 64\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %20 (softmax), 4 of 8 nodes found: %11 (exp): wanted rank 2 for \"x\", found 3\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %11 (softmax), 1 of 8 nodes found: %10 (sum): wanted add, found sum\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %15 (softmax), 2 of 8 nodes found: %11 (maximum): wanted mul, found maximum\n",
    "pattern scores: 0 matches\n"
    "nearest misses:\n"
    "  at %21 (softmax), 3 of 8 nodes found: %13 (exp): wanted matmul, found exp\n"
    "  at %11 (softmax), 1 of 8 nodes found: %10 (neg): wanted add, found neg\n",
    "pattern scores: 0 matches\n"
    "no node is its first output: wanted softmax\n",
};

static void test_explanations(void **state) {
  fixture_t *f = *state;
  static const dt_dim_decl_t dims[4][2] = {
      {{.name = "n"}, {.is_static = true, .value = 16}},
      {{.is_static = true, .value = 16}, {.is_static = true, .value = 24}},
      {{.is_static = true, .value = 24}},
      {{.name = "n"}, {.is_static = true, .value = 24}}};
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims[0]},
      {.name = "w", .dtype = DT_F32, .rank = 2, .dims = dims[1]},
      {.name = "bias", .dtype = DT_F32, .rank = 1, .dims = dims[2]},
      {.name = "y", .dtype = DT_F32, .rank = 2, .dims = dims[3]}};
  dt_pattern_t *pattern = NULL;
  dt_pattern_options_t options = options_for(4, wildcards, 2);
  expect_ok(dt_pattern_create(scores, same, even_ranks, NULL, &options, &pattern));
  dt_tensor_t *in[4] = {tensor_f32(&f->rng, 2, SIZES(3, 16)), tensor_f32(&f->rng, 2, SIZES(16, 24)),
                        tensor_f32(&f->rng, 1, SIZES(24)), tensor_f32(&f->rng, 2, SIZES(3, 24))};
  for (int variant = 0; variant < 20; variant++) {
    dt_tensor_t *out = NULL;
    char *text = NULL;
    dt_function_options_t of = options_of(4, inputs);
    of.answer = DT_ANSWER_EVALUATOR;
    dt_function_t *function = function_of(f, nearly, &variant, &of);
    expect_ok(dt_call(f->session, function, in, 4, &out, 1, NULL));
    expect_ok(dt_pattern_explain_function(pattern, function, in, 4, &text));
    expect_same_text("explanation", text, goldens[variant]);
    dt_text_free(text);
    RELEASE(out);
    dt_function_release(function);
  }
  RELEASE(in[0], in[1], in[2], in[3]);
  assert_int_equal(dt_pattern_count(pattern), 0);
  dt_pattern_release(pattern);
}

// ---- Where it stands, and other ways to ask -----------------------------------------------------
static dt_status_t lined(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_exp(t, in[0]), in[1]);
  return NULL;
}
static dt_status_t summed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, dt_sum(t, dt_exp(t, in[0]), 0, NULL, false), dt_sum(t, in[1], 0, NULL, false));
  return NULL;
}
static dt_status_t as_zero(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)m;
  (void)in;
  (void)closure;
  out[0] = dt_scalar(t, DT_F32, 0);
  return NULL;
}

static const dt_dim_decl_t n_dim[] = {{.name = "n"}};
static const dt_wildcard_t two_vectors[] = {
    {.name = "a", .ranked = true, .rank = 1, .dims = n_dim},
    {.name = "b", .same_dtype = "a", .ranked = true, .rank = 1, .dims = n_dim}};

static const char *const wanted_sums[] = {"pattern scores: 0 matches\n",
                                          "nearest misses:\n",
                                          "(sub, ",
                                          "test_pattern_misses.c:",
                                          "6 nodes found",
                                          "(input): dim 0: size s1 is not known to be \"n\", s0"};

// In a pass, of its graph.
static dt_status_t explain_here(dt_rewriter_t *r, void *closure) {
  char *text = NULL;
  expect_ok(dt_pattern_explain(closure, r, &text));
  for (size_t k = 0; k < 6; k++)
    if (!strstr(text, wanted_sums[k]))
      fail_msg("\"%s\" is not in: %s", wanted_sums[k], text);
  dt_text_free(text);
  return NULL;
}

static void test_lines_and_sizes_by_name(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 1},
                                           {.name = "b", .dtype = DT_F32, .rank = 1}};
  dt_pattern_t *pattern = NULL;
  dt_pattern_options_t options = options_for(2, two_vectors, 1);
  options.point = DT_POINT_TRACED;
  expect_ok(dt_pattern_create(summed, as_zero, NULL, NULL, &options, &pattern));
  expect_ok(dt_runtime_add_pattern(f->runtime, pattern));
  expect_ok(dt_runtime_add_pass(
      f->runtime, DT_POINT_TRACED, explain_here, pattern,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = "explain"}));
  dt_function_options_t of = options_of(2, inputs);
  dt_function_t *function = function_of(f, summed, NULL, &of);
  dt_tensor_t *in[2] = {tensor_full(0, 1, SIZES(3)), tensor_full(1, 1, SIZES(2))}, *out = NULL;
  char *text = NULL;
  expect_told(dt_pattern_explain_function(pattern, function, in, 2, &text), DT_E_STATE,
              "no variant takes these arguments");
  expect_ok(dt_call(f->session, function, in, 2, &out, 1, NULL));
  assert_int_equal(dt_pattern_count(pattern), 0);
  expect_told(dt_pattern_explain_function(NULL, function, in, 2, &text), DT_E_ARGUMENT,
              "pattern: NULL");
  expect_told(dt_pattern_explain_function(pattern, NULL, in, 2, &text), DT_E_ARGUMENT,
              "function: NULL");
  expect_told(dt_pattern_explain_function(pattern, function, in, 2, NULL), DT_E_ARGUMENT,
              "out: NULL");
  expect_told(dt_pattern_explain(pattern, NULL, &text), DT_E_ARGUMENT, "rewriter: NULL");
  RELEASE(in[0], in[1], out);
  dt_function_release(function);
  expect_ok(dt_runtime_remove_pass(f->runtime, "explain"));
  expect_ok(dt_runtime_remove_pass(f->runtime, "scores"));
  dt_pattern_release(pattern);
}

// ---- A check that tries an op -------------------------------------------------------------------
static dt_status_t like_its_input(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_DTYPE_NONE);
  return NULL;
}
static dt_status_t negated(dt_op_call_t *call, dt_value_t *results, void *closure) {
  (void)closure;
  results[0] = dt_neg(dt_op_call_trace(call), dt_op_call_input(call, 0));
  return NULL;
}
static dt_status_t exp_of(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_exp(t, in[0]);
  return NULL;
}
static dt_status_t flipped(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)m;
  (void)closure;
  dt_op_call(t, "test.flip", 1, in, 0, NULL, 1, out);
  return NULL;
}
static const char *op_takes_it(dt_match_t *m, void *closure) {
  dt_value_t x = dt_match_node(m, "x"), out = {0};
  (void)closure;
  dt_op_call(dt_rewriter_trace(dt_match_rewriter(m)), "test.flip", 1, &x, 0, NULL, 1, &out);
  return out.id ? NULL : "the op does not take x";
}

// An explanation has the ops that the function has.
static void test_a_check_that_calls_an_op(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  static const dt_wildcard_t x = {.name = "x"};
  expect_ok(dt_op_register(f->runtime, &(dt_op_options_t){.struct_size = sizeof(dt_op_options_t),
                                                          .name = "test.flip",
                                                          .infer = like_its_input,
                                                          .decompose = negated}));
  dt_pattern_t *pattern = NULL;
  dt_pattern_options_t options = options_for(1, &x, 1);
  expect_ok(dt_pattern_create(exp_of, flipped, op_takes_it, NULL, &options, &pattern));
  dt_function_options_t of = options_of(1, &input);
  of.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *function = function_of(f, exp_of, NULL, &of);
  dt_tensor_t *in = tensor_full(0, 1, SIZES(3)), *out = NULL;
  char *text = NULL;
  expect_ok(dt_call(f->session, function, &in, 1, &out, 1, NULL));
  expect_ok(dt_pattern_explain_function(pattern, function, &in, 1, &text));
  if (!strstr(text, "pattern scores: 1 match\n"))
    fail_msg("%s", text);
  dt_text_free(text);
  RELEASE(in, out);
  dt_function_release(function);
  dt_pattern_release(pattern);
  expect_ok(dt_op_remove(f->runtime, "test.flip"));
}

// ---- Patterns that are none ---------------------------------------------------------------------
static dt_status_t of_nothing(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)in;
  out[0] = dt_scalar(t, DT_F32, 1);
  return NULL;
}
static dt_status_t itself(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}
static dt_status_t without_b(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_exp(t, in[0]);
  return NULL;
}
static dt_status_t apart(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_exp(t, in[0]);
  out[1] = dt_exp(t, in[1]);
  return NULL;
}
static dt_status_t checked(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_check(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 9)), "small");
  return lined(t, in, out, closure);
}
static dt_status_t counted(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[0], dt_gt(t, in[0], in[1]));
  return NULL;
}
static dt_status_t long_one(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x[2] = {in[0], in[1]};
  for (int k = 0; k < 300; k++)
    x[0] = dt_exp(t, x[0]);
  return lined(t, x, out, closure);
}
static dt_status_t failing(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)in;
  (void)out;
  (void)closure;
  dt_trace_fail(t, DT_E_RANGE, "no such luck");
  return NULL;
}

static void test_refused_programs(void **state) {
  (void)state;
  static const struct {
    dt_program_fn_t program;
    uint32_t n_outputs;
    dt_code_t code;
    const char *says;
  } rows[] = {
      {of_nothing, 1, DT_E_ARGUMENT, "output 0 of the pattern is no op on wildcards"},
      {itself, 1, DT_E_ARGUMENT, "output 0 of the pattern is no op on wildcards"},
      {without_b, 1, DT_E_ARGUMENT, "wildcard \"b\": no output of the pattern is made of it"},
      {apart, 2, DT_E_ARGUMENT, "has nothing in common with the outputs before it"},
      {checked, 1, DT_E_UNSUPPORTED, "a pattern has no checks"},
      {counted, 1, DT_E_UNSUPPORTED, "a pattern has no numbers from data"},
      {long_one, 1, DT_E_LIMIT, "the most is 256"},
      {failing, 1, DT_E_RANGE, "no such luck"},
      {lined, 2, DT_E_ARGUMENT, "output 1 of 2 was not set"}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_pattern_t *pattern = NULL;
    const dt_pattern_options_t options = options_for(2, two_vectors, rows[k].n_outputs);
    expect_told(dt_pattern_create(rows[k].program, as_zero, NULL, NULL, &options, &pattern),
                rows[k].code, rows[k].says);
    assert_null(pattern);
  }
}

static void test_refused_options(void **state) {
  (void)state;
  static const dt_dim_decl_t derived[] = {{.name = "m", .of = "n"}};
  static const struct {
    dt_wildcard_t second;
    const char *says;
  } rows[] = {
      {{.name = NULL}, "wildcard 1: name: NULL"},
      {{.name = ""}, "wildcard 1: name: empty"},
      {{.name = "a"}, "wildcards 0 and 1 are both named \"a\""},
      {{.name = "b", .kind = (dt_wildcard_kind_t)7}, "kind 7"},
      {{.name = "b", .dtype = (dt_dtype_t)77}, "77 is no dtype"},
      {{.name = "b", .same_dtype = "c"}, "no wildcard before it is named \"c\""},
      {{.name = "b", .ranked = true, .rank = 9}, "rank 9; the most is 8"},
      {{.name = "b", .dims = n_dim}, "say its rank"},
      {{.name = "b", .kind = DT_WILDCARD_LITERAL, .ranked = true, .rank = 1}, "has rank 0, not 1"},
      {{.name = "b", .accepts = is_half}, "accepts is for literals"},
      {{.name = "b", .ranked = true, .rank = 1, .dims = derived}, "derived dims are for functions"},
  };
  dt_pattern_t *pattern = NULL;
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    const dt_wildcard_t both[] = {two_vectors[0], rows[k].second};
    const dt_pattern_options_t options = options_for(2, both, 1);
    dt_status_t status = dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern);
    expect_told(status, strstr(rows[k].says, "most") ? DT_E_LIMIT : DT_E_ARGUMENT, rows[k].says);
  }
  dt_pattern_options_t options = options_for(2, two_vectors, 1);
  expect_told(dt_pattern_create(NULL, as_zero, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
              "pattern: NULL");
  expect_told(dt_pattern_create(lined, NULL, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
              "replacement: NULL");
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, NULL, &pattern), DT_E_ARGUMENT,
              "options: NULL");
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, NULL), DT_E_ARGUMENT,
              "out: NULL");
  for (int point = -1; point < 40; point++) {
    options.point = (dt_point_t)point;
    if (point < 0 || point >= DT_POINT_FUSED)
      expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
                  "expected one at which graphs are changed");
  }
  options.point = 0;
  options.n_wildcards = 65;
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern), DT_E_LIMIT,
              "n_wildcards: 65; expected 1 to 64");
  options.n_wildcards = 2;
  options.wildcards = NULL;
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
              "wildcards: NULL; expected 2");
  options.n_outputs = 0;
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
              "n_outputs: 0; expected 1 to 64");
  options.name = NULL;
  expect_told(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern), DT_E_ARGUMENT,
              "name: NULL");
  dt_pattern_release(NULL);
  assert_int_equal(dt_pattern_count(NULL), 0);
}

// A name that no pass may have is refused where it is added.
static void test_names_are_those_of_passes(void **state) {
  fixture_t *f = *state;
  dt_pattern_options_t options = options_for(2, two_vectors, 1);
  dt_pattern_t *pattern = NULL;
  options.name = "a b";
  expect_ok(dt_pattern_create(lined, as_zero, NULL, NULL, &options, &pattern));
  expect_told(dt_runtime_add_pattern(f->runtime, pattern), DT_E_ARGUMENT, "1 to 63 letters");
  dt_pattern_release(pattern);
}

RUN_TESTS(TEST_WITH(test_explanations, setup, fixture_close),
          TEST_WITH(test_lines_and_sizes_by_name, setup, fixture_close),
          TEST_WITH(test_a_check_that_calls_an_op, setup, fixture_close),
          TEST(test_refused_programs), TEST(test_refused_options),
          TEST_WITH(test_names_are_those_of_passes, setup, fixture_close))
