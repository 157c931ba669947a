// SPDX-License-Identifier: Apache-2.0
// What more than sizes can be declared and asked for: marks, divisors, derived dims, integer
// arguments, captures, alignment, updates; as graphs, assumptions and refusals.
#include "test/unit/trace/trace_test.h"

#include <stdio.h>
#include <string.h>

typedef dt_status_t program_t(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

static dt_trace_request_t request_of(program_t *program, uint32_t n, const dt_input_decl_t *inputs,
                                     dt_tensor_t *const *example) {
  return (dt_trace_request_t){.name = "model",
                              .program = program,
                              .n_inputs = n,
                              .n_outputs = 1,
                              .inputs = inputs,
                              .example = example};
}

static dt_status_t negate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void expect_in_text(const dt_traced_t *traced, const char *part) {
  if (!strstr(text_of(traced), part))
    fail_msg("expected\n%s\nin\n%s", part, text_of(traced));
}

// The text reads back, and prints the same again.
static void expect_round_trip(const dt_traced_t *traced) {
  dt_text_t first, second;
  dt__text_init(&first);
  dt__text_init(&second);
  dt__graph_print(traced->graph, &first);
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_graph_t *graph = NULL;
  dt_scan_t scan;
  dt__arena_init(&arena, 0);
  assert_null(dt__symenv_create(&env));
  dt__scan_init(&scan, dt__text_str(&first), first.len, "graph");
  dt_status_t status = dt__graph_parse(&arena, env, &scan, &graph);
  if (status)
    fail_msg("%s in\n%s", dt_status_message(status), dt__text_str(&first));
  assert_null(dt__graph_verify(graph));
  dt__graph_print(graph, &second);
  expect_same_text("read back", dt__text_str(&second), dt__text_str(&first));
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  dt__text_fini(&first);
  dt__text_fini(&second);
}

// ---- Declarations that make no sense ------------------------------------------------------------
typedef struct bad_t {
  dt_input_decl_t input;
  dt_dim_decl_t dims[2];
  dt_code_t code;
  const char *says;
} bad_t;

#define MATRIX {.name = "x", .dtype = DT_F32, .rank = 2}
static const bad_t bad[] = {
    {MATRIX, {{.mark = (dt_mark_t)7}}, DT_E_ARGUMENT, "mark 7 is no dt_mark_t"},
    {MATRIX,
     {{.is_static = true, .value = 3, .mark = DT_MARK_DYNAMIC}},
     DT_E_ARGUMENT,
     "a static size, marked otherwise"},
    {MATRIX,
     {{.name = "n", .mark = DT_MARK_DYNAMIC}, {.name = "n", .mark = DT_MARK_STATIC}},
     DT_E_ARGUMENT,
     "argument 0 \"x\", dim 1 \"n\": dims of this name have different marks"},
    {MATRIX, {{.multiple_of = -2}}, DT_E_ARGUMENT, "a multiple of -2"},
    {MATRIX,
     {{.is_static = true, .value = 9, .multiple_of = 2}},
     DT_E_ARGUMENT,
     "static size 9 is no multiple of 2"},
    {MATRIX, {{.min = 1, .max = 3, .multiple_of = 4}}, DT_E_ARGUMENT, "multiple of 4"},
    {MATRIX,
     {{.name = "n", .min = 1, .max = 11, .multiple_of = 3}, {.name = "n", .multiple_of = 4}},
     DT_E_ARGUMENT,
     "multiple of 4"},
    {MATRIX,
     {{.name = "n"}, {.of = "n", .scale = 2, .offset = 1, .multiple_of = 4}},
     DT_E_ARGUMENT,
     "multiple of 4"},
    {MATRIX,
     {{.name = "n", .is_static = true, .value = 6}, {.name = "n", .multiple_of = 4}},
     DT_E_ARGUMENT,
     "multiple of 4"},
    {MATRIX, {{.scale = 2}}, DT_E_ARGUMENT, "derived of no dim"},
    {MATRIX, {{.of = "n"}}, DT_E_ARGUMENT, "derived of \"n\", which names no dim"},
    {MATRIX, {{.name = "n", .of = "n"}}, DT_E_ARGUMENT, "derived of itself"},
    {MATRIX,
     {{.name = "n", .of = "m"}, {.name = "m", .of = "n", .offset = 1}},
     DT_E_ARGUMENT,
     "derived of itself"},
    {MATRIX,
     {{.name = "n"}, {.of = "n", .mark = DT_MARK_DYNAMIC}},
     DT_E_ARGUMENT,
     "neither a static size nor a mark"},
    {MATRIX,
     {{.name = "n", .max = 3}, {.of = "n", .offset = 1, .min = 5}},
     DT_E_ARGUMENT,
     "dim 1: no size satisfies"},
    {{.name = "k", .dtype = DT_F32, .kind = DT_INPUT_INTEGER},
     {{0}},
     DT_E_DTYPE,
     "declared dtype f32"},
    {{.name = "k", .dtype = DT_U64, .kind = DT_INPUT_INTEGER}, {{0}}, DT_E_DTYPE, "other than u64"},
    {{.name = "k", .dtype = DT_I64, .kind = DT_INPUT_BOOLEAN}, {{0}}, DT_E_DTYPE, "expected bool"},
    {{.name = "k", .dtype = DT_I64, .rank = 1, .kind = DT_INPUT_INTEGER},
     {{0}},
     DT_E_ARGUMENT,
     "rank 1, alignment 0; expected 0 of both for an integer"},
    {{.name = "x", .dtype = DT_F32, .rank = 1, .alignment = 24},
     {{0}},
     DT_E_ARGUMENT,
     "alignment 24; expected a power of two up to 4096"},
    {{.name = "x", .dtype = DT_F32, .kind = (dt_input_kind_t)5}, {{0}}, DT_E_ARGUMENT, "kind 5"},
};

static void test_bad_declarations(void **state) {
  (void)state;
  for (uint32_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    bad_t row = bad[k];
    row.input.dims = row.dims;
    dt_trace_request_t request = request_of(negate, 1, &row.input, NULL);
    trace_fails(&request, row.code, EACH_OF(row.says));
  }
}

// ---- Derived dims and divisors ------------------------------------------------------------------
// f(x[n: 4..6], y[n + 1], z[n + 2 by way of y], w[2 n])
static const dt_dim_decl_t x_dim[] = {{.name = "n", .min = 4, .max = 6}};
static const dt_dim_decl_t y_dim[] = {{.name = "y", .of = "n", .offset = 1}};
static const dt_dim_decl_t z_dim[] = {{.of = "y", .offset = 1}};
static const dt_dim_decl_t w_dim[] = {{.of = "n", .scale = 2, .offset = -1}};
static const dt_input_decl_t derived[] = {{.name = "z", .dtype = DT_F32, .rank = 1, .dims = z_dim},
                                          {.name = "x", .dtype = DT_F32, .rank = 1, .dims = x_dim},
                                          {.name = "y", .dtype = DT_F32, .rank = 1, .dims = y_dim},
                                          {.name = "w", .dtype = DT_F32, .rank = 1, .dims = w_dim}};

static dt_status_t call_derived(const int64_t sizes[4]) {
  dt_tensor_t *example[4];
  for (int k = 0; k < 4; k++)
    example[k] = tensor_of(DT_F32, 1, &sizes[k], NULL);
  dt_trace_request_t request = request_of(negate, 4, derived, example);
  dt_status_t status = dt__trace_check_inputs(&request);
  release_tensors(example, 4);
  return status;
}

static void test_derived_dims(void **state) {
  (void)state;
  dt_trace_request_t request = request_of(negate, 4, derived, NULL);
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "input \"z\" f32[s0 + 2]");
  expect_in_text(traced, "input \"x\" f32[s0]");
  expect_in_text(traced, "input \"y\" f32[s0 + 1]");
  expect_in_text(traced, "input \"w\" f32[s0*2 - 1]");
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
  // Brute force: guards, the check of arguments and the declarations read by hand agree.
  for (int64_t code = 0; code < 10 * 10 * 10 * 13; code++) {
    int64_t sizes[4] = {code % 10, code / 10 % 10, code / 100 % 10, code / 1000};
    bool expected = sizes[1] >= 4 && sizes[1] <= 6 && sizes[2] == sizes[1] + 1 &&
                    sizes[0] == sizes[1] + 2 && sizes[3] == 2 * sizes[1] - 1;
    dt_status_t status = call_derived(sizes);
    assert_int_equal(status == NULL, expected);
    dt_status_free(status);
    dt_tensor_t *inputs[4];
    for (int k = 0; k < 4; k++)
      inputs[k] = tensor_of(DT_F32, 1, &sizes[k], NULL);
    int64_t symbols[8];
    assert_int_equal(dt__guards_run(guards, &(dt_guard_args_t){.inputs = inputs}, symbols),
                     expected);
    release_tensors(inputs, 4);
  }
  expect_parts(call_derived(SIZES(5, 4, 5, 7)), DT_E_SHAPE,
               EACH_OF("argument 0 \"z\", dim 0: size 5; expected at least 6", "z.size(0) >= 6"));
  expect_parts(
      call_derived(SIZES(7, 4, 5, 7)), DT_E_SHAPE,
      EACH_OF("argument 0 \"z\", dim 0: size 7; expected 6", "z.size(0) == y.size(0) + 1"));
  expect_parts(call_derived(SIZES(6, 4, 5, 8)), DT_E_SHAPE,
               EACH_OF("size 8; expected 7", "w.size(0) == 2*x.size(0) - 1"));
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);
}

static dt_status_t halves(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0), two = dt_sym_const(t, 2);
  bool even = dt_sym_true(t, dt_sym_eq(t, dt_sym_mod(t, n, two), dt_sym_const(t, 0)));
  out[0] = even ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  return NULL;
}

static void test_divisors(void **state) {
  (void)state;
  const dt_dim_decl_t dims[] = {{.multiple_of = 8}};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims};
  dt_trace_request_t request = request_of(halves, 1, &input, NULL);
  dt_traced_t *traced = trace_ok(&request); // the simplifier knows that 2 divides it
  expect_in_text(traced, "neg");
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
  for (int64_t n = 0; n < 40; n++) {
    dt_tensor_t *x = tensor_of(DT_F32, 1, &n, NULL);
    int64_t symbols[8];
    assert_int_equal(dt__guards_run(guards, &(dt_guard_args_t){.inputs = &x}, symbols), n % 8 == 0);
    request.example = &x;
    dt_status_t status = dt__trace_check_inputs(&request);
    assert_int_equal(status == NULL, n % 8 == 0);
    if (n == 12)
      expect_parts(status, DT_E_SHAPE,
                   EACH_OF("size 12; expected a multiple of 8", "x.size(0) % 8 == 0"));
    else
      dt_status_free(status);
    dt_tensor_release(x);
  }
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);
}

// ---- Marks --------------------------------------------------------------------------------------
static dt_status_t pin(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  *(int *)closure = __LINE__ + 1;
  (void)dt_sym_int(t, dt_dim(t, in[0], 0));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  bool small = dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 2)));
  out[0] = small ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  return NULL;
}

static bool always(void *user, uint32_t input, uint32_t dim, int64_t value) {
  (void)input, (void)dim, (void)value;
  (*(int *)user)++;
  return true;
}

static void test_marks(void **state) {
  (void)state;
  int asked = 0, line = 0;
  const dt_trace_policy_t literals = {.user = &asked, .literal = always};
  dt_dim_decl_t dims[] = {{0}};
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims};
  dt_tensor_t *x = tensor_of(DT_F32, 1, SIZES(5), NULL);
  static const struct {
    dt_mark_t mark;
    const char *says;
    int asked;
  } rows[] = {
      {DT_MARK_NONE, "f32[5]", 1},           {DT_MARK_DYNAMIC, "f32[s0]", 0},
      {DT_MARK_MAYBE_DYNAMIC, "f32[s0]", 0}, {DT_MARK_STATIC, "f32[5]", 0},
      {DT_MARK_UNBACKED, "f32[u0]", 0},
  };
  for (uint32_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dims[0].mark = rows[k].mark;
    dt_trace_request_t request = request_of(negate, 1, &input, &x);
    request.policy = &literals;
    asked = 0;
    dt_traced_t *traced = trace_ok(&request);
    expect_in_text(traced, rows[k].says);
    assert_int_equal(asked, rows[k].asked);
    dt__traced_destroy(traced);
  }
  // Hard and soft: a program that needs one size.
  dims[0].mark = DT_MARK_DYNAMIC;
  dt_trace_request_t request = request_of(pin, 1, &input, &x);
  request.closure = &line;
  dt_traced_t *none = NULL;
  dt_status_t status = dt__trace_run(&request, &none);
  char place[64];
  (void)snprintf(place, sizeof(place), "test_declared.c:%d", line);
  expect_parts(
      status, DT_E_SHAPE,
      EACH_OF("argument 0 \"x\", dim 0 is marked dynamic", "x.size(0) == 5", place, "sym_int"));
  dims[0].mark = DT_MARK_MAYBE_DYNAMIC;
  dt__traced_destroy(trace_ok(&request));
  // A literal of the call needs a call; an unbacked size answers no branch, whatever the call.
  dims[0].mark = DT_MARK_STATIC;
  request = request_of(negate, 1, &input, NULL);
  trace_fails(&request, DT_E_STATE, EACH_OF("is marked static", "compile by a call"));
  dims[0].mark = DT_MARK_UNBACKED;
  request = request_of(branch, 1, &input, &x);
  trace_fails(&request, DT_E_STATE, EACH_OF("u0 <= 1"));
  dt_tensor_release(x);
}

static void test_no_hints(void **state) {
  (void)state;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  dt_tensor_t *x = tensor_of(DT_F32, 2, SIZES(3, 5), SIZES(1, 3));
  dt_trace_request_t request = request_of(negate, 1, &input, &x);
  request.no_hints = true;
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "strides [n3, n2]\n"); // the layout of the call
  assert_null(strstr(text_of(traced), "hint"));
  dt__traced_destroy(traced);
  request.program = branch;
  trace_fails(&request, DT_E_STATE, EACH_OF("s0 <= 1"));
  dt_tensor_release(x);
}

// ---- Integers -----------------------------------------------------------------------------------
static dt_status_t repeat(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_int_value(t, in[0]);
  dt_sym_t flag = dt_int_value(t, in[1]);
  dt_sym_t size = dt_sym_max(t, n, dt_sym_const(t, 4));
  dt_value_t one = dt_expand(t, dt_cast(t, in[0], DT_F32), 1, &size);
  out[0] = dt_sym_true(t, flag) ? one : dt_where(t, in[1], one, one);
  return NULL;
}

static dt_tensor_t *scalar_of(dt_dtype_t dtype, void *data) {
  dt_tensor_desc_t desc = {.dtype = dtype, .data = data};
  dt_tensor_t *tensor = NULL;
  assert_null(dt_tensor_create(&desc, &tensor));
  return tensor;
}

static void test_integers(void **state) {
  (void)state;
  const dt_input_decl_t inputs[] = {{.name = "n", .dtype = DT_I32, .kind = DT_INPUT_INTEGER},
                                    {.dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN}};
  int32_t n = -7;
  uint8_t flag = 1;
  dt_tensor_t *example[2] = {scalar_of(DT_I32, &n), scalar_of(DT_BOOL, &flag)};
  dt_trace_request_t request = request_of(repeat, 2, inputs, example);
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "n0: [-2147483648, 2147483647] hint -7 \"n\"");
  expect_in_text(traced, "input \"n\" i32[] strides [] contiguous value [n0]\n");
  expect_in_text(traced, "input \"\" bool[] strides [] contiguous value [1]\n");
  expect_in_text(traced, "assumed n1 (sym_true)"); // by the branch
  expect_in_text(traced, "= size {syms = [n0]} : i64[]\n");
  expect_in_text(traced, "f32[max(");
  expect_round_trip(traced);
  dt__traced_destroy(traced);
  int asked = 0;
  const dt_trace_policy_t literals = {.user = &asked, .literal = always};
  request.policy = &literals;
  traced = trace_ok(&request);
  expect_in_text(traced, "input \"n\" i32[] strides [] contiguous value [-7]\n");
  expect_in_text(traced, "value [1]\n");
  assert_int_equal(asked, 2);
  expect_round_trip(traced);
  dt__traced_destroy(traced);
  dt_tensor_release(example[0]);
  dt_tensor_release(example[1]);
}

static dt_status_t no_integer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)dt_int_value(t, in[0]);
  out[0] = in[0];
  return NULL;
}

static void test_no_integer(void **state) {
  (void)state;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_I64};
  dt_trace_request_t request = request_of(no_integer, 1, &input, NULL);
  trace_fails(&request, DT_E_ARGUMENT,
              EACH_OF("int_value", "the value is made by input", "dt_input_decl_t"));
}

// Every dtype's extremes are read as they are.
static void test_int_arguments(void **state) {
  (void)state;
  int8_t i8 = INT8_MIN;
  int16_t i16 = INT16_MIN;
  int32_t i32 = INT32_MIN;
  int64_t i64 = INT64_MIN;
  uint8_t u8 = UINT8_MAX, boolean = 1;
  uint16_t u16 = UINT16_MAX;
  uint32_t u32 = UINT32_MAX;
  const struct {
    dt_dtype_t dtype;
    void *data;
    int64_t expected;
  } rows[] = {{DT_I8, &i8, INT8_MIN},     {DT_I16, &i16, INT16_MIN}, {DT_I32, &i32, INT32_MIN},
              {DT_I64, &i64, INT64_MIN},  {DT_U8, &u8, UINT8_MAX},   {DT_U16, &u16, UINT16_MAX},
              {DT_U32, &u32, UINT32_MAX}, {DT_BOOL, &boolean, 1}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_tensor_t *tensor = scalar_of(rows[k].dtype, rows[k].data);
    assert_true(dt__int_argument(tensor) == rows[k].expected);
    dt_tensor_release(tensor);
  }
}

// ---- Captures -----------------------------------------------------------------------------------
static dt_status_t scaled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int64_t *numbers = closure;
  dt_sym_t a = dt_capture(t, "heads", &numbers[0]);
  dt_sym_t b = dt_capture(t, "width", &numbers[1]);
  assert_int_equal(dt_capture(t, "heads", &numbers[0]).id, a.id);
  out[0] = dt_mul(t, in[0], dt_cast(t, dt_size_value(t, dt_sym_add(t, a, b)), DT_F32));
  return NULL;
}

static dt_status_t two_addresses(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  const int64_t *numbers = closure;
  (void)dt_capture(t, "heads", &numbers[0]);
  (void)dt_capture(t, "heads", &numbers[1]);
  out[0] = in[0];
  return NULL;
}

// The second capture that is asked for is the function's first.
static dt_status_t place(void *user, const char *name, const int64_t *address, int64_t value,
                         uint32_t *out_index, bool *out_literal) {
  (void)user, (void)address;
  bool heads = strcmp(name, "heads") == 0;
  assert_int_equal(value, heads ? 12 : 64);
  *out_index = heads ? 3 : 0;
  *out_literal = heads;
  return NULL;
}

static void test_captures(void **state) {
  (void)state;
  int64_t numbers[2] = {12, 64};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_trace_request_t request = request_of(scaled, 1, &input, NULL);
  request.closure = numbers;
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "  capture \"heads\" [n1]\n  capture \"width\" [n2]\n");
  expect_in_text(traced, "hint 12 \"heads\"");
  assert_ptr_equal(traced->captures.items[1].address, &numbers[1]);
  assert_int_equal(traced->captures.items[1].value, 64);
  expect_round_trip(traced);
  dt__traced_destroy(traced);
  const dt_trace_policy_t placed = {.capture = place};
  request.policy = &placed;
  traced = trace_ok(&request);
  expect_in_text(traced, "  capture \"width\" [n1]\n  capture \"\" [n2]\n"
                         "  capture \"\" [n3]\n  capture \"heads\" [12]\n");
  assert_null(traced->captures.items[1].address);
  dt__traced_destroy(traced);
  request = request_of(two_addresses, 1, &input, NULL);
  request.closure = numbers;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("capture", "\"heads\" stands for another address"));
}

// ---- Alignment ----------------------------------------------------------------------------------
static void test_alignment(void **state) {
  (void)state;
  static _Alignas(64) float memory[32];
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .alignment = 64};
  dt_trace_request_t request = request_of(negate, 1, &input, NULL);
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "contiguous align 64\n");
  expect_round_trip(traced);
  dt__traced_destroy(traced);
  dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 1, .sizes = SIZES(4), .data = &memory[4]};
  dt_tensor_t *x = NULL;
  assert_null(dt_tensor_create(&desc, &x));
  request.example = &x;
  expect_parts(dt__trace_check_inputs(&request), DT_E_ARGUMENT,
               EACH_OF("argument 0 \"x\": the data is aligned to 16 bytes; expected 64"));
  dt_tensor_release(x);
}

// ---- Updates ------------------------------------------------------------------------------------
// a += b; return c + 1
static dt_status_t accumulate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_add(t, in[0], in[1]));
  out[0] = dt_add(t, in[2], dt_scalar(t, DT_F32, 1));
  return NULL;
}

static dt_tensor_t *over(float *data, int64_t n, int64_t stride) {
  dt_tensor_desc_t desc = {
      .dtype = DT_F32, .rank = 1, .sizes = &n, .strides = &stride, .data = data};
  dt_tensor_t *tensor = NULL;
  assert_null(dt_tensor_create(&desc, &tensor));
  return tensor;
}

static const dt_input_decl_t abc[] = {{.name = "a", .dtype = DT_F32, .rank = 1},
                                      {.name = "b", .dtype = DT_F32, .rank = 1},
                                      {.name = "c", .dtype = DT_F32, .rank = 1}};

static void test_updates(void **state) {
  (void)state;
  static float memory[64];
  dt_tensor_t *apart[3] = {over(memory, 4, 1), over(memory + 4, 4, 1), over(memory + 8, 4, 1)};
  dt_trace_request_t request = request_of(accumulate, 3, abc, apart);
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "%4 = add %1, %2");
  expect_in_text(traced, "update 0 %4\n");
  expect_in_text(traced, "= add %3, ");
  assert_int_equal(traced->shared[2], 2);
  expect_round_trip(traced);
  dt__traced_destroy(traced);
  // The third is the first: it reads as the sum.
  dt_tensor_t *alias[3] = {apart[0], apart[1], apart[0]};
  request.example = alias;
  traced = trace_ok(&request);
  expect_in_text(traced, "update 0 %4\n");
  expect_in_text(traced, "= add %4, ");
  assert_int_equal(traced->shared[2], 0);
  assert_int_equal(traced->shared[1], 1);
  dt__traced_destroy(traced);
  // One element in common.
  dt_tensor_t *part[3] = {apart[0], apart[1], over(memory + 3, 1, 1)};
  request.example = part;
  trace_fails(&request, DT_E_ARGUMENT,
              EACH_OF("argument 0 \"a\" is updated and overlaps argument 2 \"c\" in part"));
  // One element for all indices.
  dt_tensor_t *expanded[3] = {over(memory + 20, 4, 0), apart[1], apart[2]};
  request.example = expanded;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("argument 0 \"a\" is updated", "one element"));
  dt_tensor_release(part[2]);
  dt_tensor_release(expanded[0]);
  release_tensors(apart, 3);
}

static dt_status_t read_back(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t before = dt_neg(t, in[0]);
  dt_update(t, in[0], before);
  out[0] = in[0];
  return NULL;
}

static dt_status_t update_twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_neg(t, in[0]));
  dt_update(t, in[0], dt_neg(t, in[0]));
  out[0] = in[0];
  return NULL;
}

static dt_status_t update_dtype(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_cast(t, in[0], DT_F64));
  out[0] = in[0];
  return NULL;
}

static dt_status_t update_sizes(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_concat(t, 2, (dt_value_t[]){in[0], in[0]}, 0));
  out[0] = in[0];
  return NULL;
}

static dt_status_t update_other(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  dt_update(t, out[0], in[0]);
  return NULL;
}

static void test_refused_updates(void **state) {
  (void)state;
  dt_tensor_t *x = tensor_of(DT_F32, 1, SIZES(4), NULL);
  dt_trace_request_t request = request_of(read_back, 1, abc, &x);
  dt_traced_t *traced = trace_ok(&request);
  expect_in_text(traced, "update 0 %2\n  return %2\n");
  dt__traced_destroy(traced);
  request.program = update_twice; // what was written first is read, and never leaves
  traced = trace_ok(&request);
  expect_in_text(traced, "%2 = neg %1 : f32[s0]\n  %3 = neg %2 : f32[s0]\n  update 0 %3\n");
  dt__traced_destroy(traced);
  request.program = update_dtype;
  trace_fails(&request, DT_E_DTYPE, EACH_OF("the value is f64 of rank 1; expected f32 of rank 1"));
  request.program = update_sizes;
  trace_fails(&request, DT_E_SHAPE, EACH_OF("an update has its input's sizes"));
  request.program = update_other;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("no value of in[]"));
  dt_tensor_release(x);
}

RUN_TESTS(TEST(test_bad_declarations), TEST(test_derived_dims), TEST(test_divisors),
          TEST(test_marks), TEST(test_no_hints), TEST(test_integers), TEST(test_no_integer),
          TEST(test_int_arguments), TEST(test_captures), TEST(test_alignment), TEST(test_updates),
          TEST(test_refused_updates))
