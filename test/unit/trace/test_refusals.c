// SPDX-License-Identifier: Apache-2.0
// What builders refuse, and how it reads: each failure names the function, the op and the user's
// line. Also the questions a program asks about sizes, with and without example sizes, and lost
// memory.
#include "ductile/experimental.h"
#include "test/unit/trace/trace_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// f(x f32[s0, s1], ids i64[s2])
static const dt_input_decl_t declared[2] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                            {.name = "ids", .dtype = DT_I64, .rank = 1}};

static dt_trace_request_t request_of(dt_program_fn_t program, void *closure) {
  return (dt_trace_request_t){.name = "model",
                              .program = program,
                              .closure = closure,
                              .n_inputs = 2,
                              .n_outputs = 1,
                              .inputs = declared};
}

// ---- Refusals -----------------------------------------------------------------------------------
// Each row fails in one builder call; `t`, `x`, `ids` and `w` (a constant's tensor) are at hand.
#define REFUSALS                                                                                   \
  R(none_value, dt_neg(t, (dt_value_t){0}), DT_E_ARGUMENT, "neg", "argument 0 is the none value")  \
  R(reserved_window, dt_windows(t, x, 1, &(dt_window_t){.reserved[0] = {.id = 1}}),                \
    DT_E_UNSUPPORTED, "windows", "reserved fields of window 0 are set")                            \
  R(foreign_value, dt_add(t, x, (dt_value_t){.id = 999}), DT_E_ARGUMENT, "add",                    \
    "argument 1 (id 999) is no value of this trace")                                               \
  R(none_size, dt_size_value(t, (dt_sym_t){0}), DT_E_ARGUMENT, "size_value", "none size")          \
  R(foreign_size, dt_sym_add(t, (dt_sym_t){.id = 4000000}, one), DT_E_ARGUMENT, "sym_add",         \
    "argument a (id 4000000) is no size of this trace")                                            \
  R(bad_axis, dt_softmax(t, x, 2), DT_E_ARGUMENT, "softmax",                                       \
    "axis 2; expected -2 to 1 for rank 2")                                                         \
  R(low_axis, dt_dim(t, x, -3), DT_E_ARGUMENT, "dim", "axis -3; expected -2 to 1")                 \
  R(scalar_axis, dt_argmax(t, dt_scalar(t, DT_F32, 1), 0, false), DT_E_ARGUMENT, "argmax",         \
    "a scalar has none")                                                                           \
  R(twice, dt_sum(t, x, 2, ((int32_t[]){1, -1}), false), DT_E_ARGUMENT, "sum",                     \
    "axis -1 is given twice")                                                                      \
  R(null_axes, dt_sum(t, x, 2, NULL, false), DT_E_ARGUMENT, "sum", "axes: NULL; expected 2")       \
  R(permute_twice, dt_permute(t, x, ((int32_t[]){0, -2})), DT_E_ARGUMENT, "permute", "twice")      \
  R(null_permute, dt_permute(t, x, NULL), DT_E_ARGUMENT, "permute", "axes: NULL")                  \
  R(dtypes, dt_add(t, x, ids), DT_E_DTYPE, "add", "inputs x f32[s0, s1], ids i64[s2]")             \
  R(ints_only, dt_exp(t, ids), DT_E_DTYPE, "exp", "i64")                                           \
  R(no_dtype, dt_cast(t, x, (dt_dtype_t)77), DT_E_DTYPE, "cast", "77 is no dtype")                 \
  R(float_index, dt_gather(t, x, x, 0), DT_E_DTYPE, "gather", "f32")                               \
  R(fraction, dt_scalar(t, DT_I32, 1.5), DT_E_ARGUMENT, "scalar", "not a whole number")            \
  R(too_large, dt_scalar(t, DT_I8, 128), DT_E_ARGUMENT, "scalar", "128 is outside of i8")          \
  R(negative, dt_scalar(t, DT_U64, -1), DT_E_ARGUMENT, "scalar", "-1 is outside of u64")           \
  R(not_a_number, dt_scalar(t, DT_I64, NAN), DT_E_ARGUMENT, "scalar", "outside of i64")            \
  R(two_to_63, dt_scalar(t, DT_I64, 0x1p63), DT_E_ARGUMENT, "scalar", "outside of i64")            \
  R(no_bool, dt_scalar(t, DT_BOOL, 2), DT_E_ARGUMENT, "scalar", "2 is outside of bool")            \
  R(no_scalar, dt_scalar(t, DT_DTYPE_NONE, 2), DT_E_DTYPE, "scalar", "0 is no dtype")              \
  R(many_dims, dt_reshape(t, x, 9, NULL), DT_E_LIMIT, "reshape", "9 sizes; the most is 8")         \
  R(null_sizes, dt_reshape(t, x, 2, NULL), DT_E_ARGUMENT, "reshape", "sizes: NULL; expected 2")    \
  R(two_open, dt_reshape(t, x, 2, ((dt_sym_t[]){minus, minus})), DT_E_ARGUMENT, "reshape",         \
    "only one size may be -1")                                                                     \
  R(few_sizes, dt_expand(t, x, 1, &one), DT_E_SHAPE, "expand", "expected at least 2")              \
  R(no_step, dt_slice(t, x, 0, one, one, 0), DT_E_ARGUMENT, "slice", "step")                       \
  R(no_values, dt_concat(t, 0, NULL, 0), DT_E_ARGUMENT, "concat", "expected at least one")         \
  R(null_values, dt_concat(t, 2, NULL, 0), DT_E_ARGUMENT, "concat", "values: NULL")                \
  R(null_pad, dt_pad(t, x, NULL, NULL, 0), DT_E_ARGUMENT, "pad", "low: NULL; expected 2")          \
  R(pad_fraction, dt_pad(t, ids, &one, &one, 0.5), DT_E_ARGUMENT, "pad", "not a whole number")     \
  R(bad_scale, dt_rms_norm(t, x, dt_scalar(t, DT_F32, 1), 0), DT_E_SHAPE, "rms_norm", "scalar")    \
  R(bad_epsilon, dt_rms_norm(t, x, x, -1), DT_E_ARGUMENT, "rms_norm", "epsilon: -1")               \
  R(no_name, dt_constant(t, NULL, w), DT_E_ARGUMENT, "constant", "name: NULL")                     \
  R(no_tensor, dt_constant(t, "w", NULL), DT_E_ARGUMENT, "constant", "\"w\": tensor is NULL")      \
  R(squeezed, dt_squeeze(t, dt_constant(t, "w", w), 0), DT_E_SHAPE, "squeeze",                     \
    "dim 0 has size 4; a dropped dim has size 1")                                                  \
  R(divided, dt_sym_floordiv(t, one, dt_sym_const(t, 0)), DT_E_SHAPE, "sym_floordiv",              \
    "divided by 0")                                                                                \
  R(overflow, dt_sym_mul(t, dt_sym_const(t, INT64_MAX), dt_sym_const(t, 2)), DT_E_LIMIT,           \
    "sym_mul", "64")                                                                               \
  R(undecided, dt_sym_true(t, dt_sym_lt(t, dt_dim(t, x, 0), one)), DT_E_STATE, "sym_true",         \
    "the branch on s0 <= 0 is not decided by the declared sizes")                                  \
  R(no_number, dt_sym_int(t, dt_dim(t, x, 1)), DT_E_STATE, "sym_int",                              \
    "the number s1 is not decided by the declared sizes")                                          \
  R(float_seed, dt_random_bits(t, x, none, 1, &one), DT_E_DTYPE, "random_bits",                    \
    "the seed must be an integer, got f32; use cast")                                              \
  R(no_seed, dt_random_bits(t, none, none, 1, &one), DT_E_ARGUMENT, "random_bits",                 \
    "the seed is the none value")                                                                  \
  R(float_offset, dt_random_normal(t, DT_F32, seed, x, 1, &one), DT_E_DTYPE, "random_normal",      \
    "the offset must be an integer, got f32; use cast")                                            \
  R(uniform_integers, dt_random_uniform(t, DT_I32, seed, none, 1, &one), DT_E_DTYPE,               \
    "random_uniform", "the dtype must be a float, got i32; dt_random_integers and")                \
  R(random_sizes, dt_random_uniform(t, DT_F32, seed, none, 1, NULL), DT_E_ARGUMENT,                \
    "random_uniform", "sizes: NULL; expected 1")                                                   \
  R(long_seed, dt_random_bits(t, ids, none, 0, NULL), DT_E_SHAPE, "expand", "expected at least 1") \
  R(two_spans, dt_random_integers(t, seed, none, seed, dt_scalar(t, DT_I32, 1), 1, &one),          \
    DT_E_DTYPE, "random_integers", "high must be i64 like low, got i32; use cast")                 \
  R(float_span, dt_random_integers(t, seed, none, x, x, 1, &one), DT_E_DTYPE, "random_integers",   \
    "low must be an integer, got f32; use cast")                                                   \
  R(whole_chance, dt_bernoulli(t, seed, none, ids), DT_E_DTYPE, "bernoulli",                       \
    "the probability must be a float, got i64; use cast")                                          \
  R(whole_dropout, dt_dropout(t, seed, none, ids, x, NULL), DT_E_DTYPE, "dropout",                 \
    "x must be a float, got i64; use cast")                                                        \
  R(whole_ratio, dt_dropout(t, seed, none, x, ids, NULL), DT_E_DTYPE, "dropout",                   \
    "the ratio must be a float, got i64; use cast")                                                \
  R(no_order, dt_random_permutation(t, seed, none, (dt_sym_t){0}), DT_E_ARGUMENT,                  \
    "random_permutation", "none")                                                                  \
  R(three_keys, dt_philox(t, ids, seed, x), DT_E_DTYPE, "philox", "argument 2 must be i64")        \
  R(float_keys, dt_philox(t, x, x, x), DT_E_DTYPE, "philox", "must be an integer, got f32")        \
  R(checked, dt_check(t, dt_sym_eq(t, one, minus), "one is two"), DT_E_SHAPE, "check",             \
    "one is two")                                                                                  \
  R(own, dt_trace_fail(t, DT_E_UNSUPPORTED, "no such layer"), DT_E_UNSUPPORTED, "program",         \
    "no such layer")

#define R(name, call, code, op, says)                                                              \
  static int line_##name;                                                                          \
  static dt_status_t refused_##name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,          \
                                    void *w) {                                                     \
    dt_value_t x = in[0], ids = in[1];                                                             \
    dt_sym_t one = dt_sym_const(t, 1), minus = dt_sym_const(t, -1);                                \
    dt_value_t none = {0}, seed = dt_scalar(t, DT_I64, 7);                                         \
    (void)x, (void)ids, (void)one, (void)minus, (void)w, (void)none, (void)seed;                   \
    out[0] = x;                                                                                    \
    dt_trace_at(t, __FILE__, __LINE__);                                                            \
    line_##name = __LINE__;                                                                        \
    (void)(call);                                                                                  \
    /* Nothing happens after a failure. */                                                         \
    assert_non_null(dt_trace_status(t));                                                           \
    assert_int_equal(dt_neg(t, x).id, 0);                                                          \
    assert_int_equal(dt_dim(t, x, 0).id, 0);                                                       \
    assert_int_equal(dt_value_rank(t, x), 0);                                                      \
    assert_false(dt_sym_true(t, one));                                                             \
    return NULL;                                                                                   \
  }
REFUSALS
#undef R

typedef struct refusal_t {
  const char *name;
  dt_program_fn_t program;
  const int *line;
  dt_code_t code;
  const char *op, *says;
} refusal_t;

static const refusal_t refusals[] = {
#define R(name, call, code, op, says) {#name, refused_##name, &line_##name, code, op, says},
    REFUSALS
#undef R
};

static void test_refusals(void **state) {
  (void)state;
  dt_tensor_t *w = tensor_of(DT_F32, 1, SIZES(4), NULL);
  for (uint32_t k = 0; k < sizeof(refusals) / sizeof(refusals[0]); k++) {
    const refusal_t *r = &refusals[k];
    dt_trace_request_t request = request_of(r->program, w);
    dt_traced_t *traced = NULL;
    dt_status_t status = dt__trace_run(&request, &traced);
    dt_text_t place;
    dt__text_init(&place);
    dt__text_printf(&place, "test_refusals.c:%d", *r->line);
    expect_parts(status, r->code, EACH_OF("model: ", r->op, r->says, dt__text_str(&place)));
    dt__text_fini(&place);
    assert_null(traced);
  }
  dt_tensor_release(w);
}

// ---- Sizes --------------------------------------------------------------------------------------
// What has no 64 bits is told at the line of its own, not of the builder before it.
static dt_status_t overflow(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_neg(t, in[0]);
  dt_sym_t most = dt_sym_const(t, INT64_MAX);
  *(int *)closure = __LINE__ + 1;
  (void)dt_sym_mul(t, most, most);
  return NULL;
}

static void test_lines_of_sizes(void **state) {
  (void)state;
  int line = 0;
  char place[64];
  dt_trace_request_t request = request_of(overflow, &line);
  dt_traced_t *traced = NULL;
  dt_status_t status = dt__trace_run(&request, &traced);
  (void)snprintf(place, sizeof(place), "test_refusals.c:%d: sym_mul", line);
  expect_parts(status, DT_E_LIMIT, EACH_OF(place, "64"));
  assert_null(traced);
}

// ---- Constants ----------------------------------------------------------------------------------
static dt_status_t same_name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_tensor_t **tensors = closure;
  out[0] = in[0];
  (void)dt_constant(t, "w", tensors[0]);
  (void)dt_constant(t, "w", tensors[1]);
  return NULL;
}

static dt_status_t one_constant(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  out[0] = in[0];
  (void)dt_constant(t, "w", closure);
  return NULL;
}

static void test_constants(void **state) {
  (void)state;
  dt_tensor_t *tensors[2] = {tensor_of(DT_F32, 1, SIZES(4), NULL),
                             tensor_of(DT_F32, 1, SIZES(4), NULL)};
  dt_trace_request_t request = request_of(same_name, tensors);
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("constant", "\"w\" names another tensor already"));
  dt_tensor_release(tensors[1]);
  tensors[1] = tensors[0];
  dt__traced_destroy(trace_ok(&request));
  dt_tensor_t *strided = tensor_of(DT_F32, 2, SIZES(2, 3), SIZES(1, 2));
  request = request_of(one_constant, strided);
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("constant", "\"w\": the tensor is strided"));
  dt_tensor_release(strided);
  dt_tensor_release(tensors[0]);
}

// ---- How a program ends -------------------------------------------------------------------------
static dt_status_t ending(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  int how = *(int *)closure;
  out[0] = in[0];
  if (how == 1 || how == 3)
    dt_trace_fail(t, DT_E_UNSUPPORTED, "first");
  if (how == 1)
    return dt_trace_status(t); // lent, not owned
  if (how == 2 || how == 3)
    return DT_FAIL(DT_E_IO, "a file of the program's own");
  if (how == 6)
    (void)dt_softmax(t, in[0], 2);
  if (how == 7 || how == 8)
    dt_trace_fail(t, how == 7 ? DT_OK : (dt_code_t)99, "of no kind");
  if (how == 9) {
    dt_trace_fail(t, DT_E_SHAPE, "of a kind");
    dt_trace_recode(t, DT_E_SHAPE, (dt_code_t)99);
  }
  dt_trace_recode(t, DT_E_ARGUMENT, DT_E_FORMAT);
  if (how == 4)
    out[0] = (dt_value_t){0};
  if (how == 5)
    out[0] = (dt_value_t){.id = 77};
  return NULL;
}

static void test_endings(void **state) {
  (void)state;
  int how = 0;
  dt_trace_request_t request = request_of(ending, &how);
  dt_traced_t *traced = trace_ok(&request);
  assert_int_equal(traced->graph->outputs.len, 1);
  dt__traced_destroy(traced);
  how = 1;
  trace_fails(&request, DT_E_UNSUPPORTED, EACH_OF("model: ", "first"));
  how = 2;
  trace_fails(&request, DT_E_IO, EACH_OF("model: ", "a file of the program's own"));
  how = 3;
  trace_fails(&request, DT_E_UNSUPPORTED, EACH_OF("model: ", "first"));
  how = 4;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("model: ", "output 0 of 1 was not set"));
  how = 5;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("model: ", "output 0 (id 77)"));
  // What the program was told is the fault of what it read; not what it did itself after that.
  how = 6;
  trace_fails(&request, DT_E_FORMAT, EACH_OF("model: ", "softmax", "axis 2; expected -2 to 1"));
  // Codes that are none are the program's mistake, not a fault of ours (recoded like the one
  // above).
  how = 7;
  trace_fails(&request, DT_E_FORMAT, EACH_OF("model: ", "of no kind", "code 0"));
  how = 8;
  trace_fails(&request, DT_E_FORMAT, EACH_OF("model: ", "of no kind", "code 99"));
  how = 9;
  trace_fails(&request, DT_E_SHAPE, EACH_OF("model: ", "of a kind"));
}

// NULL traces are refused quietly: what called us has failed already.
// What an earlier trace made, of which the closure kept a value and a size.
typedef struct kept_t {
  int traces;
  bool size; // it is the size that is used again
  dt_value_t value;
  dt_sym_t rows;
} kept_t;

static dt_status_t keeping(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  kept_t *kept = closure;
  if (kept->traces++ == 0) {
    kept->value = dt_exp(t, in[0]);
    kept->rows = dt_dim(t, in[0], 0);
  }
  out[0] =
      kept->size ? dt_size_value(t, dt_sym_add(t, kept->rows, kept->rows)) : dt_neg(t, kept->value);
  return NULL;
}

static void test_values_of_other_traces(void **state) {
  (void)state;
  for (int size = 0; size < 2; size++) {
    kept_t kept = {.size = size};
    dt_trace_request_t request = request_of(keeping, &kept);
    dt_traced_t *first = NULL, *second = NULL;
    assert_null(dt__trace_run(&request, &first));
    dt_status_t status = dt__trace_run(&request, &second);
    assert_int_equal(dt_status_code(status), DT_E_ARGUMENT);
    if (!strstr(dt_status_message(status), "of another trace"))
      fail_msg("%s", dt_status_message(status));
    dt_status_free(status);
    assert_null(second);
    dt__traced_destroy(first);
  }
}

static void test_no_trace(void **state) {
  (void)state;
  assert_null(dt_trace_status(NULL));
  assert_int_equal(dt_neg(NULL, (dt_value_t){.id = 1}).id, 0);
  assert_int_equal(dt_sym_const(NULL, 1).id, 0);
  dt_trace_fail(NULL, DT_E_IO, "nothing");
  dt_trace_recode(NULL, DT_E_IO, DT_E_FORMAT);
}

// ---- Questions ----------------------------------------------------------------------------------
typedef struct asked_t {
  bool small, narrow;
  int64_t columns;
} asked_t;

static dt_status_t questions(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  asked_t *asked = closure;
  dt_sym_t rows = dt_dim(t, in[0], 0), columns = dt_dim(t, in[0], 1);
  asked->small = dt_sym_true(t, dt_sym_lt(t, rows, dt_sym_const(t, 8)));
  // Known from the answer before: no second guard.
  if (asked->small)
    assert_true(dt_sym_true(t, dt_sym_le(t, rows, dt_sym_const(t, 9))));
  asked->columns = dt_sym_int(t, columns);
  assert_int_equal(dt_sym_int(t, columns), asked->columns);
  dt_check(t, dt_sym_le(t, dt_dim(t, in[1], 0), dt_sym_const(t, 512)), "at most 512 ids");
  if (dt_trace_status(t))
    return NULL;
  // Learned from the check.
  assert_true(dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[1], 0), dt_sym_const(t, 513))));
  out[0] = in[0];
  return NULL;
}

static void test_questions(void **state) {
  (void)state;
  asked_t asked = {0};
  dt_tensor_t *example[2] = {tensor_of(DT_F32, 2, SIZES(3, 5), NULL),
                             tensor_of(DT_I64, 1, SIZES(7), NULL)};
  dt_trace_request_t request = request_of(questions, &asked);
  request.example = example;
  dt_traced_t *traced = trace_ok(&request);
  assert_true(asked.small);
  assert_int_equal(asked.columns, 5);
  const char *text = text_of(traced);
  if (!strstr(text, "assumed s0 <= 7 (sym_true)\nassumed s1 == 5 (sym_int)\n"))
    fail_msg("got\n%s", text);
  assert_int_equal(traced->conds.len, 2);
  assert_int_equal(traced->graph->asserts.len, 1);
  assert_string_equal(traced->graph->asserts.items[0].what, "at most 512 ids");
  assert_non_null(strstr(traced->conds.items[0].origin.file, "test_refusals.c"));

  // The variant's guards; the check is none of them: it fails the call, not the look-up.
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
  static const struct {
    int64_t x[2], ids;
    bool hit;
  } calls[] = {{{3, 5}, 7, true},   {{0, 5}, 0, true},   {{7, 5}, 1, true},
               {{8, 5}, 7, false},  {{3, 4}, 7, false},  {{3, 6}, 7, false},
               {{3, 5}, 600, true}, {{1, 5}, 512, true}, {{3, 1}, 7, false}};
  for (uint32_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
    dt_tensor_t *inputs[2] = {tensor_of(DT_F32, 2, calls[k].x, NULL),
                              tensor_of(DT_I64, 1, &calls[k].ids, NULL)};
    int64_t symbols[8];
    bool hit = dt__guards_run(guards, &(dt_guard_args_t){.inputs = inputs}, symbols);
    if (hit != calls[k].hit)
      fail_msg("call %u: expected %d, got %d", k, calls[k].hit, hit);
    dt_tensor_release(inputs[0]);
    dt_tensor_release(inputs[1]);
  }
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);

  // Sizes of the call that the check refuses fail while tracing.
  dt_tensor_release(example[1]);
  example[1] = tensor_of(DT_I64, 1, SIZES(600), NULL);
  trace_fails(&request, DT_E_SHAPE, EACH_OF("model: ", "check", "at most 512 ids"));
  dt_tensor_release(example[0]);
  dt_tensor_release(example[1]);
}

// ---- Lost memory --------------------------------------------------------------------------------
static dt_status_t larger(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = in[0];
  if (dt_sym_true(t, dt_sym_lt(t, dt_dim(t, x, 0), dt_sym_const(t, 8))))
    x = dt_relu(t, x);
  for (int k = 0; k < 400; k++) // several blocks of the arena
    x = dt_relu(t, x);
  x = dt_matmul(t, x, dt_constant(t, "w", closure));
  x = dt_add(t, x, dt_scalar(t, DT_F32, 1));
  dt_check(t, dt_sym_le(t, dt_dim(t, x, 0), dt_sym_const(t, 6)), "at most 6 rows");
  out[0] = dt_sum(t, x, 1, (int32_t[]){-1}, false);
  return NULL;
}

static void test_no_memory(void **state) {
  (void)state;
  dt_tensor_t *w = tensor_of(DT_F32, 2, SIZES(5, 4), NULL);
  dt_tensor_t *example[2] = {tensor_of(DT_F32, 2, SIZES(3, 5), NULL),
                             tensor_of(DT_I64, 1, SIZES(7), NULL)};
  dt_trace_request_t request = request_of(larger, w);
  request.example = example;
  dt__heap_fail_at(UINT64_MAX, false);
  dt__traced_destroy(trace_ok(&request));
  uint64_t count = dt__heap_fail_at(0, false);
  assert_true(count > 10);
  uint32_t failed = 0;
  for (uint64_t n = 1; n <= count; n++) {
    dt_traced_t *traced = NULL;
    dt__heap_fail_at(n, true);
    dt_status_t status = dt__trace_run(&request, &traced);
    dt__heap_fail_at(0, false);
    // Text for a message may be done without; all else may not.
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    assert_true((traced == NULL) == (status != NULL));
    failed += status != NULL;
    dt_status_free(status);
    dt__traced_destroy(traced);
  }
  if (failed < 10)
    fail_msg("%u of %u allocations were missed", failed, (uint32_t)count);
  dt_tensor_release(example[0]);
  dt_tensor_release(example[1]);
  dt_tensor_release(w);
}

RUN_TESTS(TEST(test_refusals), TEST(test_lines_of_sizes), TEST(test_constants), TEST(test_endings),
          TEST(test_values_of_other_traces), TEST(test_no_trace), TEST(test_questions),
          TEST(test_no_memory))
