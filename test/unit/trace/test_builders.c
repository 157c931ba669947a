// SPDX-License-Identifier: Apache-2.0
// What each builder records: graphs as text, and every op of the table through its builder.
#include "test/unit/trace/trace_test.h"

#include "runtime/base/dtype.h"

#include <string.h>

// f(x f32[batch, 2..100, 4], ids i64[batch])
static const dt_input_decl_t declared[2] = {
    {.name = "x",
     .dtype = DT_F32,
     .rank = 3,
     .dims = (const dt_dim_decl_t[]){{.name = "batch"},
                                     {.min = 2, .max = 100},
                                     {.is_static = true, .value = 4}}},
    {.name = "ids",
     .dtype = DT_I64,
     .rank = 1,
     .dims = (const dt_dim_decl_t[]){{.name = "batch"}}}};

static dt_trace_request_t request_of(dt_program_fn_t program, void *closure, uint32_t n_outputs) {
  return (dt_trace_request_t){.name = "f",
                              .program = program,
                              .closure = closure,
                              .n_inputs = 2,
                              .n_outputs = n_outputs,
                              .inputs = declared};
}

static void expect_graph(dt_program_fn_t program, void *closure, uint32_t n_outputs,
                         const char *expected) {
  dt_trace_request_t request = request_of(program, closure, n_outputs);
  dt_traced_t *traced = trace_ok(&request);
  expect_same_text("graph", text_of(traced), expected);
  dt__traced_destroy(traced);
}

#define HEADER                                                                                     \
  "graph (s0: [0, 140737488355327] \"batch\", s1: [2, 100] \"x.size(1)\") {\n"                     \
  "  %1 = input \"x\" f32[s0, s1, 4] strides [s1*4, 4, 1] contiguous\n"                            \
  "  %2 = input \"ids\" i64[s0] strides [1] contiguous\n"

// ---- Views and indexing -------------------------------------------------------------------------
static dt_status_t views(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t x = in[0];
  dt_sym_t rows = dt_dim(t, x, 0), columns = dt_dim(t, x, -2);
  dt_sym_t zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1), two = dt_sym_const(t, 2);
  out[0] = dt_reshape(t, x, 2, (dt_sym_t[]){rows, dt_sym_const(t, -1)});
  out[1] = dt_permute(t, x, (int32_t[]){-1, 0, 1});
  out[2] = dt_transpose(t, x, -1, -2);
  out[3] = dt_squeeze(t, dt_unsqueeze(t, x, -1), -1);
  out[4] = dt_unsqueeze(t, in[1], 0);
  out[5] = dt_expand(t, dt_scalar(t, DT_F32, 2.5), 2, (dt_sym_t[]){rows, columns});
  dt_value_t rest = dt_slice(t, x, 1, one, dt_sym_sub(t, columns, one), 1);
  out[6] = dt_concat(t, 2, (dt_value_t[]){x, rest}, -2);
  dt_sym_t around[3] = {zero, one, two};
  out[7] = dt_pad(t, x, around, around, -1.5);
  out[8] = dt_gather(t, x, in[1], -1);
  out[9] = dt_slice(t, x, -1, dt_sym_const(t, 3), dt_sym_const(t, 4), -1);
  return NULL;
}

static void test_views(void **state) {
  (void)state;
  expect_graph(views, NULL, 10,
               HEADER
               "  %3 = reshape %1 {syms = [s0, s1*4]} : f32[s0, s1*4]\n"
               "  %4 = permute %1 {axes = [2, 0, 1]} : f32[4, s0, s1]\n"
               "  %5 = permute %1 {axes = [0, 2, 1]} : f32[s0, 4, s1]\n"
               "  %6 = reshape %1 {syms = [s0, s1, 4, 1]} : f32[s0, s1, 4, 1]\n"
               "  %7 = reshape %6 {syms = [s0, s1, 4]} : f32[s0, s1, 4]\n"
               "  %8 = reshape %2 {syms = [1, s0]} : i64[1, s0]\n"
               "  %9 = scalar {dtype = f32, value = 2.5} : f32[]\n"
               "  %10 = reshape %9 {syms = [1, 1]} : f32[1, 1]\n"
               "  %11 = expand %10 {syms = [s0, s1]} : f32[s0, s1]\n"
               "  %12 = slice %1 {syms = [0, s0, 1, s1 - 1, 0, 4], steps = [1, 1, 1]} : "
               "f32[s0, s1 - 1, 4]\n"
               "  %13 = concat %1, %12 {axes = [1]} : f32[s0, s1*2 - 1, 4]\n"
               "  %14 = pad %1 {syms = [0, 0, 1, 1, 2, 2], value = -1.5} : f32[s0, s1 + 2, "
               "8]\n"
               "  %15 = gather %1, %2 {axes = [2]} : f32[s0, s1, s0]\n"
               "  %16 = slice %1 {syms = [0, s0, 0, s1, 3, 4], steps = [1, 1, -1]} : f32[s0, "
               "s1, 4]\n"
               "  return %3, %4, %5, %7, %8, %11, %13, %14, %15, %16\n"
               "}\n");
}

// ---- Leaves, reductions, norms ------------------------------------------------------------------
static dt_status_t leaves(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = in[0];
  dt_value_t w = dt_constant(t, "w", closure);
  assert_int_equal(w.id, dt_constant(t, "w", closure).id);
  out[0] = dt_mean(t, x, 2, (int32_t[]){-1, 0}, true);
  out[1] = dt_sum(t, x, 0, NULL, false);
  out[2] = dt_argmax(t, x, -1, false);
  out[3] = dt_log_softmax(t, x, 1);
  out[4] = dt_layer_norm(t, x, w, w, 1e-5);
  out[5] = dt_rms_norm(t, x, w, 0);
  out[6] = dt_size_value(t, dt_sym_mul(t, dt_dim(t, x, 0), dt_sym_const(t, 3)));
  out[7] = dt_iota(t, DT_I32, 2, (dt_sym_t[]){dt_dim(t, x, 0), dt_dim(t, x, 1)}, -1);
  out[8] = dt_cast(t, x, DT_I8);
  assert_int_equal(dt_cast(t, x, DT_F32).id, x.id);
  assert_int_equal(dt_value_rank(t, x), 3);
  assert_int_equal(dt_value_dtype(t, in[1]), DT_I64);
  return NULL;
}

static void test_leaves(void **state) {
  (void)state;
  dt_tensor_t *w = tensor_of(DT_F32, 1, SIZES(4), NULL);
  dt_trace_request_t request = request_of(leaves, w, 9);
  dt_traced_t *traced = trace_ok(&request);
  const char *text = text_of(traced);
  static const char *const lines[] = {
      " = mean %1 {axes = [0, 2], keepdims = 1} : f32[1, s1, 1]\n",
      " = sum %1 {axes = [0, 1, 2], keepdims = 0} : f32[]\n",
      " = argmax %1 {axes = [2], keepdims = 0} : i64[s0, s1]\n",
      " = log_softmax %1 {axes = [1]} : f32[s0, s1, 4]\n",
      " = size {syms = [s0*3]} : i64[]\n",
      " = iota {dtype = i32, axes = [1], syms = [s0, s1]} : i32[s0, s1]\n",
      " = cast %1 {dtype = i8} : i8[s0, s1, 4]\n",
      "layer_norm %1, %3, %3 {n_axes = 1, epsilon = 1e-05} : f32[s0, s1, 4]\n",
      "rms_norm %1, %3 {n_axes = 1, epsilon = 0} : f32[s0, s1, 4]\n",
  };
  for (uint32_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++) {
    if (!strstr(text, lines[k]))
      fail_msg("expected \"%s\" in\n%s", lines[k], text);
  }
  assert_int_equal(traced->constants.len, 1);
  assert_ptr_equal(traced->constants.items[0], w);
  dt_graph_constant_t constant = traced->graph->constants.items[0];
  assert_string_equal(constant.name, "w");
  assert_true(constant.key != 0);
  dt_tensor_release(w); // the trace has its own share
  dt__traced_destroy(traced);
}

// A constant keeps its key whatever else a trace has.
static dt_status_t constants(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_tensor_t **tensors = closure;
  if (tensors[1])
    (void)dt_constant(t, "first", tensors[1]);
  out[0] = dt_add(t, in[0], dt_constant(t, "w", tensors[0]));
  return NULL;
}

static void test_constant_keys(void **state) {
  (void)state;
  dt_tensor_t *tensors[2] = {tensor_of(DT_F32, 1, SIZES(4), NULL), NULL};
  dt_trace_request_t request = request_of(constants, tensors, 1);
  dt_traced_t *alone = trace_ok(&request);
  tensors[1] = tensor_of(DT_F32, 1, SIZES(4), NULL);
  dt_traced_t *both = trace_ok(&request);
  assert_int_equal(both->graph->constants.len, 2);
  assert_true(alone->graph->constants.items[0].key == both->graph->constants.items[1].key);
  assert_true(both->graph->constants.items[0].key != both->graph->constants.items[1].key);
  dt__traced_destroy(alone);
  dt__traced_destroy(both);
  dt_tensor_release(tensors[0]);
  dt_tensor_release(tensors[1]);
}

// ---- Every element-wise op and reduction --------------------------------------------------------
typedef struct builder_t {
  dt_op_t op;
  dt_value_t (*unary)(dt_trace_t *, dt_value_t);
  dt_value_t (*binary)(dt_trace_t *, dt_value_t, dt_value_t);
  dt_value_t (*reduce)(dt_trace_t *, dt_value_t, uint32_t, const int32_t *, bool);
} builder_t;

static const builder_t builders[] = {
#define BUILD_unary(name) {.op = DT_OP_##name, .unary = dt_##name},
#define BUILD_binary(name) {.op = DT_OP_##name, .binary = dt_##name},
#define BUILD_reduce(name) {.op = DT_OP_##name, .reduce = dt_##name},
#define BUILD_argreduce(name)
#define BUILD_along(name)
#define BUILD_own(name)
#define BUILD_none(name)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  BUILD_##build(name)
#include "lower/graph/ops.def"
};

// Builds one op on x (f32) or, where that is no dtype for it, on a bool made of x.
static dt_status_t one_op(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const builder_t *builder = closure;
  dt_value_t x = in[0];
  bool logic = strstr(dt__op_info(builder->op)->name, "logical_") || builder->op == DT_OP_any ||
               builder->op == DT_OP_all;
  if (logic)
    x = dt_lt(t, x, dt_scalar(t, DT_F32, 0));
  const char *name = dt__op_info(builder->op)->name;
  if (strncmp(name, "bit_", 4) == 0 || strncmp(name, "shift_", 6) == 0)
    x = dt_cast(t, x, DT_I64);
  if (builder->unary)
    out[0] = builder->unary(t, x);
  else if (builder->binary)
    out[0] = builder->binary(
        t, x, dt_reshape(t, x, 3, (dt_sym_t[]){dt_dim(t, x, 0), dt_dim(t, x, 1), dt_dim(t, x, 2)}));
  else
    out[0] = builder->reduce(t, x, 1, (int32_t[]){-1}, false);
  return NULL;
}

static void test_every_op(void **state) {
  (void)state;
  uint32_t n = sizeof(builders) / sizeof(builders[0]);
  assert_true(n > 50);
  for (uint32_t k = 0; k < n; k++) {
    builder_t builder = builders[k];
    dt_trace_request_t request = request_of(one_op, &builder, 1);
    dt_traced_t *traced = trace_ok(&request);
    const dt_node_t *node = dt__graph_node(traced->graph, traced->graph->outputs.items[0]);
    if (node->op != builder.op)
      fail_msg("%s built %s", dt__op_info(builder.op)->name, dt__op_info(node->op)->name);
    if (strcmp(node->origin.op, dt__op_info(builder.op)->name) != 0)
      fail_msg("%s has the origin %s", dt__op_info(builder.op)->name, node->origin.op);
    dt__traced_destroy(traced);
  }
}

// ---- Broadcasting and matmul --------------------------------------------------------------------
// Shapes of `a` and `b`, as example sizes; all dims are unnamed.
typedef struct pair_t {
  bool matmul;
  uint32_t rank_a, rank_b;
  int64_t a[DT_MAX_RANK], b[DT_MAX_RANK];
  const char *expected; // the result's line and the assumptions, or what the failure says
  bool fails, without_example;
} pair_t;

static dt_status_t join(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const pair_t *pair = closure;
  out[0] = pair->matmul ? dt_matmul(t, in[0], in[1]) : dt_add(t, in[0], in[1]);
  return NULL;
}

static const pair_t pairs[] = {
    {false, 2, 2, {3, 4}, {3, 4}, "add %1, %2 : f32[s0, s1]", false, false},
    {false, 2, 2, {3, 4}, {3, 4}, "assumed s0 == s2 (add)", false, true},
    // A repeated size is selected at run time: one variant covers equal, 1 and x, x and 1.
    {false, 1, 1, {3}, {1}, "assumed s0 == s1 or s0 == 1 or s1 == 1 (add)", false, false},
    {false, 1, 1, {3}, {1}, "f32[select(s0 == 1, s1, s0)]", false, false},
    {false, 2, 1, {3, 4}, {4}, "reshape %2 {syms = [1, s1]}", false, false},
    {false, 2, 1, {3, 4}, {5}, "sizes must be equal or 1 in dim 1", true, false},
    {false, 0, 2, {0}, {3, 4}, "f32[s0, s1]", false, false},
    // matmul
    {true, 2, 2, {3, 4}, {4, 5}, "matmul %1, %2 : f32[s0, s3]", false, false},
    {true, 2, 2, {3, 4}, {4, 5}, "assumed s1 == s2 (matmul)", false, true},
    {true, 3, 2, {2, 3, 4}, {4, 5}, "matmul %1, %2 : f32[s0, s1, s4]", false, false},
    {true, 3, 3, {2, 3, 4}, {2, 4, 5}, "matmul %1, %2 : f32[s0, s1, s5]", false, false},
    {true, 3, 3, {2, 3, 4}, {1, 4, 5}, "f32[select(s0 == 1, s3, s0), s1, s5]", false, false},
    {true,
     3,
     3,
     {1, 3, 4},
     {2, 4, 5},
     "assumed s0 == s3 or s0 == 1 or s3 == 1 (matmul)",
     false,
     false},
    {true, 2, 3, {3, 4}, {2, 4, 5}, "matmul %4, %2 : f32[s2, s0, s4]", false, false},
    {true, 4, 3, {2, 6, 3, 4}, {6, 4, 5}, "f32[s0, s1, s2, s6]", false, false},
    {true, 1, 1, {4}, {4}, "reshape %5 {syms = []} : f32[]", false, false},
    {true, 1, 2, {4}, {4, 5}, "reshape %4 {syms = [s2]} : f32[s2]", false, false},
    {true, 2, 1, {3, 4}, {4}, "reshape %4 {syms = [s0]} : f32[s0]", false, false},
    {true, 3, 1, {2, 3, 4}, {4}, "reshape %4 {syms = [s0, s1]} : f32[s0, s1]", false, false},
    {true, 1, 3, {4}, {2, 4, 5}, ": f32[s1, s3]", false, false},
    {true, 0, 1, {0}, {4}, "matmul: argument 0 is a scalar", true, false},
    {true, 1, 0, {4}, {0}, "matmul: argument 1 is a scalar", true, false},
    {true, 2, 2, {3, 4}, {5, 6}, "columns of the first", true, false},
    {true, 3, 3, {2, 3, 4}, {3, 4, 5}, "leading sizes are equal or 1", true, false},
};

static void test_pairs(void **state) {
  (void)state;
  for (uint32_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
    pair_t pair = pairs[k];
    dt_input_decl_t inputs[2] = {{.name = "a", .dtype = DT_F32, .rank = pair.rank_a},
                                 {.name = "b", .dtype = DT_F32, .rank = pair.rank_b}};
    dt_tensor_t *example[2] = {tensor_of(DT_F32, pair.rank_a, pair.a, NULL),
                               tensor_of(DT_F32, pair.rank_b, pair.b, NULL)};
    dt_trace_request_t request = {.name = "f",
                                  .program = join,
                                  .closure = &pair,
                                  .n_inputs = 2,
                                  .n_outputs = 1,
                                  .inputs = inputs,
                                  .example = pair.without_example ? NULL : example};
    if (pair.fails) {
      trace_fails(&request, DT_E_SHAPE, EACH_OF("f: ", "test_builders.c:", pair.expected));
    } else {
      dt_traced_t *traced = trace_ok(&request);
      if (!strstr(text_of(traced), pair.expected))
        fail_msg("pair %u: expected \"%s\" in\n%s", k, pair.expected, text_of(traced));
      dt__traced_destroy(traced);
    }
    dt_tensor_release(example[0]);
    dt_tensor_release(example[1]);
  }
}

RUN_TESTS(TEST(test_views), TEST(test_leaves), TEST(test_constant_keys), TEST(test_every_op),
          TEST(test_pairs))
