// SPDX-License-Identifier: Apache-2.0
// Declared inputs: what is refused of declarations and of arguments and how it reads, which symbols
// and layouts inputs get, and that the guards of what was traced admit just what was declared.
#include "test/unit/trace/trace_test.h"

#include <string.h>

static dt_status_t identity(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_cast(t, in[0], DT_F64);
  return NULL;
}

static dt_trace_request_t request_of(uint32_t n, const dt_input_decl_t *inputs,
                                     dt_tensor_t *const *example) {
  return (dt_trace_request_t){.name = "model",
                              .program = identity,
                              .n_inputs = n,
                              .n_outputs = 1,
                              .inputs = inputs,
                              .example = example};
}

// ---- Declarations -------------------------------------------------------------------------------
typedef struct declaration_t {
  dt_input_decl_t inputs[2];
  dt_dim_decl_t dims[2]; // of both inputs
  dt_code_t code;
  const char *says;
} declaration_t;

static const declaration_t bad_declarations[] = {
    {.inputs = {{.name = "x", .dtype = (dt_dtype_t)99, .rank = 2}},
     .code = DT_E_DTYPE,
     .says = "argument 0 \"x\": declared dtype 99 is none"},
    {.inputs = {{.name = "x", .dtype = DT_F32, .rank = 9}},
     .code = DT_E_LIMIT,
     .says = "argument 0 \"x\": declared rank 9; the most is 8"},
    {.inputs = {{.dtype = DT_F32, .rank = 2}},
     .dims = {{.min = -1}},
     .code = DT_E_ARGUMENT,
     .says = "argument 0, dim 0: min -1, max 0; expected 0 to"},
    {.inputs = {{.dtype = DT_F32, .rank = 2}},
     .dims = {{0}, {.max = INT64_MAX}},
     .code = DT_E_ARGUMENT,
     .says = "argument 0, dim 1: min 0, max 9223372036854775807; expected 0 to"},
    {.inputs = {{.name = "x", .dtype = DT_F32, .rank = 2}},
     .dims = {{.name = "batch", .min = 5, .max = 4}},
     .code = DT_E_ARGUMENT,
     .says = "argument 0 \"x\", dim 0 \"batch\": max 4 is less than min 5"},
    {.inputs = {{.name = "x", .dtype = DT_F32, .rank = 2}},
     .dims = {{.is_static = true, .value = -3}},
     .code = DT_E_ARGUMENT,
     .says = "argument 0 \"x\", dim 0: static size -3; expected 0 to"},
    {.inputs = {{.name = "x", .dtype = DT_F32, .rank = 2}},
     .dims = {{.name = "n", .is_static = true, .value = 3}, {.name = "n", .min = 4}},
     .code = DT_E_ARGUMENT,
     .says = "argument 0 \"x\", dim 0 \"n\": no size satisfies all declarations of this name"},
};

static void test_bad_declarations(void **state) {
  (void)state;
  for (uint32_t k = 0; k < sizeof(bad_declarations) / sizeof(bad_declarations[0]); k++) {
    declaration_t d = bad_declarations[k];
    if (d.inputs[0].rank <= 2)
      d.inputs[0].dims = d.dims;
    dt_trace_request_t request = request_of(1, d.inputs, NULL);
    trace_fails(&request, d.code, EACH_OF("model: ", d.says));
    expect_parts(dt__trace_check_declarations(&request), d.code, EACH_OF("model: ", d.says));
  }
  dt_trace_request_t request = request_of(1, NULL, NULL);
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("inputs: NULL; expected 1"));
  request = request_of(0, NULL, NULL);
  request.program = NULL;
  trace_fails(&request, DT_E_ARGUMENT, EACH_OF("program: NULL"));
}

// ---- Arguments ----------------------------------------------------------------------------------
// f(ids i64[batch: 1..8, 3], mask f32[batch, ≥ 2, any])
static const dt_dim_decl_t ids_dims[2] = {{.name = "batch", .min = 1, .max = 8},
                                          {.is_static = true, .value = 3}};
static const dt_dim_decl_t mask_dims[3] = {{.name = "batch"}, {.min = 2}, {0}};
static const dt_input_decl_t declared[2] = {
    {.name = "ids", .dtype = DT_I64, .rank = 2, .dims = ids_dims},
    {.dtype = DT_F32, .rank = 3, .dims = mask_dims}};

typedef struct call_t {
  dt_dtype_t dtypes[2];
  uint32_t ranks[2];
  int64_t ids[4], mask[4];
  dt_code_t code;
  const char *says;
} call_t;

#define FIT {DT_I64, DT_F32}, {2, 3}
static const call_t calls[] = {
    {FIT, {4, 3}, {4, 2, 0}, DT_OK, ""},
    {FIT, {8, 3}, {8, 1000, 7}, DT_OK, ""},
    {{DT_I32, DT_F32},
     {2, 3},
     {4, 3},
     {4, 2, 0},
     DT_E_DTYPE,
     "argument 0 \"ids\": dtype i32; expected i64"},
    {{DT_I64, DT_F64},
     {2, 3},
     {4, 3},
     {4, 2, 0},
     DT_E_DTYPE,
     "argument 1: dtype f64; expected f32"},
    {{DT_I64, DT_F32},
     {1, 3},
     {4},
     {4, 2, 0},
     DT_E_SHAPE,
     "argument 0 \"ids\": rank 1; expected 2"},
    {{DT_I64, DT_F32}, {2, 4}, {4, 3}, {4, 2, 0, 0}, DT_E_SHAPE, "argument 1: rank 4; expected 3"},
    {FIT, {4, 5}, {4, 2, 0}, DT_E_SHAPE, "argument 0 \"ids\", dim 1: size 5; expected 3"},
    {FIT,
     {0, 3},
     {0, 2, 0},
     DT_E_SHAPE,
     "argument 0 \"ids\", dim 0 \"batch\": size 0; expected at least 1"},
    {FIT,
     {9, 3},
     {9, 2, 0},
     DT_E_SHAPE,
     "argument 0 \"ids\", dim 0 \"batch\": size 9; expected at most 8"},
    {FIT,
     {4, 3},
     {5, 2, 0},
     DT_E_SHAPE,
     "argument 1, dim 0 \"batch\": size 5; expected 4, the size of argument 0 \"ids\", dim 0 "
     "\"batch\""},
    {FIT, {4, 3}, {4, 1, 0}, DT_E_SHAPE, "argument 1, dim 1: size 1; expected at least 2"},
};

static void test_arguments(void **state) {
  (void)state;
  dt_trace_request_t prepared = request_of(2, declared, NULL);
  assert_null(dt__trace_check_inputs(&prepared));
  dt_traced_t *generic = trace_ok(&prepared);
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(generic->graph, generic->conds.items, generic->conds.len, NULL, &guards));
  for (uint32_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
    const call_t *call = &calls[k];
    dt_tensor_t *example[2] = {tensor_of(call->dtypes[0], call->ranks[0], call->ids, NULL),
                               tensor_of(call->dtypes[1], call->ranks[1], call->mask, NULL)};
    dt_trace_request_t request = request_of(2, declared, example);
    expect_parts(dt__trace_check_inputs(&request), call->code, EACH_OF(call->says));
    if (call->code == DT_OK)
      dt__traced_destroy(trace_ok(&request));
    else
      trace_fails(&request, call->code, EACH_OF("model: ", call->says));
    // The guards of the generic variant say the same.
    int64_t symbols[8];
    bool hit = dt__guards_run(guards, &(dt_guard_args_t){.inputs = example}, symbols);
    if (hit != (call->code == DT_OK))
      fail_msg("call %u: expected %d, got %d", k, call->code == DT_OK, hit);
    dt_tensor_release(example[0]);
    dt_tensor_release(example[1]);
  }
  dt_tensor_t *absent[2] = {NULL, NULL};
  dt_trace_request_t request = request_of(2, declared, absent);
  expect_parts(dt__trace_check_inputs(&request), DT_E_ARGUMENT,
               EACH_OF("model: argument 0 \"ids\": NULL; expected a tensor"));
  dt__guards_destroy(guards);
  dt__traced_destroy(generic);
}

// Every size of every dim, against the declarations read by hand.
static void test_guards_admit_what_is_declared(void **state) {
  (void)state;
  dt_trace_request_t prepared = request_of(2, declared, NULL);
  dt_traced_t *generic = trace_ok(&prepared);
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(generic->graph, generic->conds.items, generic->conds.len, NULL, &guards));
  for (int64_t code = 0; code < 10 * 5 * 10 * 4 * 3; code++) {
    int64_t ids[2] = {code % 10, code / 10 % 5};
    int64_t mask[3] = {code / 50 % 10, code / 500 % 4, code / 2000};
    dt_tensor_t *inputs[2] = {tensor_of(DT_I64, 2, ids, NULL), tensor_of(DT_F32, 3, mask, NULL)};
    int64_t symbols[8];
    bool hit = dt__guards_run(guards, &(dt_guard_args_t){.inputs = inputs}, symbols);
    bool expected = ids[0] >= 1 && ids[0] <= 8 && ids[1] == 3 && mask[0] == ids[0] && mask[1] >= 2;
    if (hit != expected)
      fail_msg("ids %d %d, mask %d %d %d: expected %d, got %d", (int)ids[0], (int)ids[1],
               (int)mask[0], (int)mask[1], (int)mask[2], expected, hit);
    dt_tensor_release(inputs[0]);
    dt_tensor_release(inputs[1]);
  }
  dt__guards_destroy(guards);
  dt__traced_destroy(generic);
}

// ---- Symbols and layouts ------------------------------------------------------------------------
static void expect_traced(const dt_trace_request_t *request, const char *expected) {
  dt_traced_t *traced = trace_ok(request);
  if (!strstr(text_of(traced), expected))
    fail_msg("expected\n%s\nin\n%s", expected, text_of(traced));
  dt__traced_destroy(traced);
}

static void test_symbols(void **state) {
  (void)state;
  dt_trace_request_t request = request_of(2, declared, NULL);
  expect_traced(&request, "graph (s0: [1, 8] \"batch\", s1: [2, 140737488355327] \"argument "
                          "1.size(1)\", s2: [0, 140737488355327] \"argument 1.size(2)\") {\n"
                          "  %1 = input \"ids\" i64[s0, 3] strides [3, 1] contiguous\n"
                          "  %2 = input \"\" f32[s0, s1, s2] strides [s1*s2, s2, 1] contiguous\n");
  // One name within an input; a static size of a name serves all its dims.
  dt_dim_decl_t square[2] = {{.name = "n"}, {.name = "n", .max = 9}};
  dt_dim_decl_t fixed[1] = {{.name = "n", .is_static = true, .value = 4}};
  dt_input_decl_t inputs[2] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = square},
                               {.name = "b", .dtype = DT_F32, .rank = 1}};
  request = request_of(2, inputs, NULL);
  expect_traced(&request, "graph (s0: [0, 9] \"n\", s1: [0, 140737488355327] \"b.size(0)\") {\n"
                          "  %1 = input \"a\" f32[s0, s0] strides [s0, 1] contiguous\n");
  inputs[1].dims = fixed;
  expect_traced(&request, "input \"a\" f32[4, 4] strides [4, 1] contiguous\n");
}

static void test_layouts(void **state) {
  (void)state;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  static const struct {
    int64_t sizes[2], strides[2];
    const char *expected;
  } rows[] = {
      {{3, 5}, {5, 1}, "f32[s0, s1] strides [s1, 1] contiguous\n"},
      {{3, 5}, {8, 1}, "f32[s0, s1] strides [n2, 1]\n"},
      {{3, 5}, {1, 3}, "f32[s0, s1] strides [n3, n2]\n"},
      {{3, 5}, {0, 1}, "f32[s0, s1] strides [n2, 1]\n"},
      // Strides along which nobody steps do not make a tensor strided.
      {{1, 5}, {99, 1}, "f32[s0, s1] strides [s1, 1] contiguous\n"},
      {{0, 5}, {7, 7}, "f32[s0, s1] strides [s1, 1] contiguous\n"},
  };
  for (uint32_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_tensor_t *example = tensor_of(DT_F32, 2, rows[k].sizes, rows[k].strides);
    dt_trace_request_t request = request_of(1, &input, &example);
    expect_traced(&request, rows[k].expected);
    // What was traced admits the call it was traced for.
    dt_traced_t *traced = trace_ok(&request);
    dt_guards_t *guards = NULL;
    assert_null(
        dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
    int64_t symbols[8];
    if (!dt__guards_run(guards, &(dt_guard_args_t){.inputs = &example}, symbols))
      fail_msg("row %u misses", k);
    dt__guards_destroy(guards);
    dt__traced_destroy(traced);
    dt_tensor_release(example);
  }
}

// ---- Guards of what an op asked -----------------------------------------------------------------
static dt_status_t sum_of_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

static void test_asked_equality(void **state) {
  (void)state;
  dt_input_decl_t inputs[2] = {{.name = "a", .dtype = DT_F32, .rank = 1},
                               {.name = "b", .dtype = DT_F32, .rank = 1}};
  dt_trace_request_t request = request_of(2, inputs, NULL);
  request.program = sum_of_two;
  dt_traced_t *traced = trace_ok(&request);
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
  for (int64_t x = 0; x < 4; x++) {
    for (int64_t y = 0; y < 4; y++) {
      dt_tensor_t *pair[2] = {tensor_of(DT_F32, 1, &x, NULL), tensor_of(DT_F32, 1, &y, NULL)};
      int64_t symbols[8];
      if (dt__guards_run(guards, &(dt_guard_args_t){.inputs = pair}, symbols) != (x == y))
        fail_msg("%d and %d: expected %d", (int)x, (int)y, x == y);
      dt_tensor_release(pair[0]);
      dt_tensor_release(pair[1]);
    }
  }
  dt_tensor_t *pair[2] = {tensor_of(DT_F32, 1, SIZES(2), NULL),
                          tensor_of(DT_F32, 1, SIZES(3), NULL)};
  dt_text_t text;
  dt__text_init(&text);
  assert_true(dt__guards_explain(guards, &(dt_guard_args_t){.inputs = pair}, &text));
  const char *expected = "expected s0 == s1, got s0 = 2 (a.size(0)), s1 = 3 (b.size(0)) (add, ";
  if (strncmp(dt__text_str(&text), expected, strlen(expected)) != 0 ||
      !strstr(dt__text_str(&text), "test_inputs.c:"))
    fail_msg("got %s", dt__text_str(&text));
  dt__text_fini(&text);
  dt_tensor_release(pair[0]);
  dt_tensor_release(pair[1]);
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);
}

RUN_TESTS(TEST(test_bad_declarations), TEST(test_arguments),
          TEST(test_guards_admit_what_is_declared), TEST(test_symbols), TEST(test_layouts),
          TEST(test_asked_equality))
