// SPDX-License-Identifier: Apache-2.0
// Functions made of models: what is refused and how it is told, what dims mean, functions and
// graphs within nodes put in place, numbers, constants, memory. Operators have tests of their own.
#include "test/support/check.h"

#include "ductile/experimental.h"
#include "ductile/ir.h"
#include "ductile/onnx.h"
#include "runtime/base/memory.h"
#include "test/support/report_as_text.h"
#include "test/unit/frontends/onnx_text.h"

#include <string.h>

#define HEAD "ir_version 8 opset_import { version 17 } "
#define TENSOR(name, dtype, dims)                                                                  \
  "name '" name "' type { tensor_type { elem_type " dtype " shape { " dims " } } } "
#define IN(name, dtype, dims) "input { " TENSOR(name, dtype, dims) "} "
#define OUT(name) "output { " TENSOR(name, "1", "dim { } ") "} "
#define DIM(name) "dim { dim_param '" name "' } "
#define F32 "1"
#define I64 "7"

typedef struct case_t {
  onnx_bytes_t bytes;
  dt_onnx_t *model;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} case_t;

// The evaluator answers: operators are compiled elsewhere.
static dt_status_t create(case_t *c, const char *text, const dt_dim_decl_t *dims, uint32_t n_dims,
                          bool hints) {
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = DT_ANSWER_EVALUATOR};
  dt_onnx_function_options_t options = {.struct_size = sizeof(options),
                                        .dims = dims,
                                        .n_dims = n_dims,
                                        .names_are_hints = hints,
                                        .function = &about};
  *c = (case_t){.bytes = onnx_make(&dt__onnx_model_message, text)};
  expect_ok(dt_onnx_open_memory(c->bytes.data, c->bytes.len, NULL, &c->model));
  assert_null(dt_runtime_create(NULL, &c->runtime));
  assert_null(dt_session_create(c->runtime, NULL, &c->session));
  return dt_onnx_function_create(c->runtime, c->model, &options, &c->function);
}

static void make(case_t *c, const char *text) { expect_ok(create(c, text, NULL, 0, false)); }

static void end(case_t *c) {
  dt_function_release(c->function);
  dt_session_destroy(c->session);
  dt_runtime_release(c->runtime);
  dt_onnx_close(c->model);
  onnx_free(&c->bytes);
}

static dt_tensor_t *floats(int64_t rows, int64_t columns, float first) {
  dt_tensor_t *x = NULL;
  int64_t sizes[] = {rows, columns};
  assert_null(dt_tensor_create_empty(DT_F32, columns < 0 ? 1 : 2, sizes, &x));
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    ((float *)dt_tensor_data(x))[k] = first + (float)k;
  return x;
}

static dt_tensor_t *ints(uint32_t rank, int64_t n, const int64_t *items) {
  dt_tensor_t *x = NULL;
  assert_null(dt_tensor_create_empty(DT_I64, rank, &n, &x));
  memcpy(dt_tensor_data(x), items, (size_t)n * sizeof(*items));
  return x;
}

// Calls with inputs that are released, and gives the first output.
static dt_status_t call(case_t *c, uint32_t n, dt_tensor_t **in, dt_tensor_t **out) {
  *out = NULL;
  dt_status_t status = dt_call(c->session, c->function, in, n, out, 1, NULL);
  for (uint32_t k = 0; k < n; k++)
    dt_tensor_release(in[k]);
  return status;
}

static void assert_call(case_t *c, uint32_t n, dt_tensor_t **in, uint32_t rank,
                        const int64_t *sizes, const float *items) {
  dt_tensor_t *out = NULL;
  expect_ok(call(c, n, in, &out));
  assert_int_equal(dt_tensor_rank(out), rank);
  for (uint32_t k = 0; k < rank; k++)
    assert_int_equal(dt_tensor_sizes(out)[k], sizes[k]);
  for (int64_t k = 0; k < dt_tensor_count(out); k++)
    assert_float_equal(((float *)dt_tensor_data(out))[k], items[k], 0);
  dt_tensor_release(out);
}

// ---- Refusals ---------------------------------------------------------------------------------------
static void test_all_at_once(void **state) {
  (void)state;
  case_t c;
  dt_status_t status = create(
      &c,
      HEAD "opset_import { domain 'own' version 1 } graph { " IN(
          "x", F32,
          DIM("n")) "node { op_type 'NoSuchOp' name 'first' input 'x' output 'a' } "
                    "node { op_type 'If' input 'x' output 'b' attribute { name 'then_branch' type "
                    "5 g { "
                    "  node { op_type 'Other' input 'a' output 't' } output { name 't' } } } "
                    "  attribute { name 'else_branch' type 5 g { output { name 'a' } } } } "
                    "node { op_type 'Twice' domain 'own' input 'b' output 'y' } " OUT(
                        "y") "} "
                             "functions { name 'Twice' domain 'own' input 'p' output 'q' "
                             "opset_import { version 17 } "
                             "  node { op_type 'Cast' input 'p' output 'q' attribute { name 'to' "
                             "type 2 i 8 } } }",
      NULL, 0, false);
  expect_told(status, DT_E_UNSUPPORTED,
              "3 of its nodes cannot be compiled: NoSuchOp (operator set 17, node \"first\"): "
              "the operator is not supported; Other (operator set 17, output \"t\"): the operator "
              "is not supported; Cast (operator set 17, output \"q\"): ");
  assert_null(c.function);
  end(&c);
}

static void test_no_outputs(void **state) {
  (void)state;
  case_t c;
  expect_told(create(&c, HEAD "graph { " IN("x", F32, DIM("n")) "}", NULL, 0, false),
              DT_E_UNSUPPORTED, "the model has no outputs");
  end(&c);
}

// A loop that is written out: each node counts as often as it is traced.
#define LOOP(inside, last)                                                                         \
  "node { op_type 'Loop' input 'eight' input 'yes' input 'x' output '" last                        \
  "' attribute { name 'body' type 5 g { input { name 'i' } input { name 'go' } input { name 's' }" \
  " " inside " node { op_type 'Identity' input 'go' output 'on' } "                                \
  "output { name 'on' } output { name 'r' } } } } "
#define RELU(from, to) "node { op_type 'Relu' input '" from "' output '" to "' } "
#define RELUS RELU("s", "a") RELU("a", "b") RELU("b", "c") RELU("c", "d") RELU("d", "e")
#define MORE_RELUS RELU("e", "f") RELU("f", "g") RELU("g", "h") RELU("h", "k") RELU("k", "l")
static void test_too_much_to_trace(void **state) {
  (void)state;
  case_t c = {0};
  const char *text = HEAD
      "graph { " IN("x", F32, DIM("n")) "initializer { name 'eight' data_type 7 int64_data 8 } "
                                        "initializer { name 'yes' data_type 9 int32_data 1 } " LOOP(
                                            RELUS MORE_RELUS RELU("l", "m") RELU("m", "r"), "y")
                                            OUT("y") "}";
  c.bytes = onnx_make(&dt__onnx_model_message, text);
  dt_onnx_options_t few = {.struct_size = sizeof(few), .max_nodes = 100};
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = DT_ANSWER_EVALUATOR};
  dt_onnx_function_options_t options = {.struct_size = sizeof(options), .function = &about};
  assert_null(dt_onnx_open_memory(c.bytes.data, c.bytes.len, &few, &c.model));
  assert_null(dt_runtime_create(NULL, &c.runtime));
  assert_null(dt_onnx_function_create(c.runtime, c.model, &options, &c.function));
  expect_told(dt_function_prepare(c.function, NULL), DT_E_LIMIT, "more than 100 nodes");
  end(&c);
}

// What a call that traces says of a model that the reader and the importer accepted.
static void assert_untraced(const char *text, dt_code_t code, const char *message) {
  case_t c;
  make(&c, text);
  expect_told(dt_function_prepare(c.function, NULL), code, message);
  end(&c);
}

// Axes that are no permutation, of tensors and of numbers.
static void test_wrong_axes(void **state) {
  (void)state;
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n") DIM("m")) //
                  "node { op_type 'Transpose' input 'x' output 'y' attribute { name 'perm' type 7 "
                  "ints 1 ints 1 } } " OUT("y") "}",
                  DT_E_FORMAT, "axis 1 is named twice");
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n") DIM("m")) //
                  "initializer { name 'k' data_type 7 dims 1 dims 4 int64_data 0 int64_data 1 "
                  "int64_data 2 int64_data 3 } "
                  "node { op_type 'Transpose' input 'k' output 'y' attribute { name 'perm' type 7 "
                  "ints 1 ints 1 } } " OUT("y") "}",
                  DT_E_FORMAT, "axis 1 is named twice");
}

// What the format does not allow, where what is folded could be taken for something else.
static void test_wrong_operands(void **state) {
  (void)state;
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n")) //
                  "node { op_type 'Mean' output 'm' } node { op_type 'Add' input 'x' input 'm' "
                  "output 'y' } " OUT("y") "}",
                  DT_E_FORMAT, "input 0 is missing");
#define FLOATS "initializer { name 'f' data_type 1 dims 1 float_data 2 } "
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n")) FLOATS //
                  "node { op_type 'ConstantOfShape' input 'f' output 'y' } " OUT("y") "}",
                  DT_E_DTYPE, "input 0 is f32; expected integers");
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n")) FLOATS //
                  "node { op_type 'Not' input 'f' output 'y' } " OUT("y") "}",
                  DT_E_DTYPE, "logical_not");
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n")) FLOATS //
                  "node { op_type 'Where' input 'f' input 'f' input 'f' output 'y' } " OUT("y") "}",
                  DT_E_DTYPE, "where");
#undef FLOATS
}

static void test_too_many_sizes(void **state) {
  (void)state;
  assert_untraced(HEAD "graph { " IN("x", F32, DIM("n")) IN("s", I64, "dim { dim_value 129 } ") //
                  "node { op_type 'SplitToSequence' input 'x' input 's' output 'p' } "
                  "node { op_type 'SequenceLength' input 'p' output 'y' } " OUT("y") "}",
                  DT_E_LIMIT, "has 129 elements");
}

static void test_arguments(void **state) {
  (void)state;
  case_t c;
  const char *text = HEAD "graph { " IN("x", F32, DIM("n")) "node { op_type 'Relu' input 'x' "
                                                            "output 'y' } " OUT("y") "}";
  dt_dim_decl_t other = {.name = "other", .max = 3};
  expect_told(create(&c, text, &other, 1, false), DT_E_ARGUMENT,
              "no dim of an input is named \"other\"");
  dt_function_t *function = c.function;
  dt_function_options_t about = {.n_inputs = 1};
  dt_onnx_function_options_t options = {.function = &about};
  expect_told(dt_onnx_function_create(c.runtime, c.model, &options, &function), DT_E_ARGUMENT,
              "expected 0 and NULL");
  assert_null(function);
  expect_told(dt_onnx_function_create(c.runtime, NULL, NULL, &function), DT_E_ARGUMENT,
              "model is NULL");
  expect_told(dt_onnx_function_create(NULL, c.model, NULL, &function), DT_E_ARGUMENT,
              "runtime is NULL");
  expect_told(dt_onnx_function_create(c.runtime, c.model, NULL, NULL), DT_E_ARGUMENT,
              "out is NULL");
  end(&c);
}

// ---- Dims -------------------------------------------------------------------------------------------
#define SUM                                                                                        \
  HEAD "graph { " IN("x", F32, DIM("n") DIM("?"))                                                  \
      IN("w", F32, DIM("n") DIM("?")) "node { op_type 'Concat' input 'x' input 'w' output 'y' "    \
                                      "attribute { name 'axis' type 2 i 1 "                        \
                                      "} } " OUT("y") "}"

static void test_names(void **state) {
  (void)state;
  case_t c;
  make(&c, SUM);
  // "?" is no name: the second dims differ.
  dt_tensor_t *in[] = {floats(1, 2, 1), floats(1, 1, 7)}, *out;
  assert_call(&c, 2, in, 2, (int64_t[]){1, 3}, (float[]){1, 2, 7});
  dt_tensor_t *uneven[] = {floats(1, 2, 1), floats(2, 1, 7)};
  expect_told(call(&c, 2, uneven, &out), DT_E_SHAPE, "\"n\"");
  end(&c);
}

static void test_said_of_dims(void **state) {
  (void)state;
  case_t c;
  dt_dim_decl_t said = {.name = "n", .min = 2, .max = 4};
  assert_null(create(&c, SUM, &said, 1, false));
  dt_tensor_t *few[] = {floats(1, 2, 1), floats(1, 1, 7)}, *out;
  expect_told(call(&c, 2, few, &out), DT_E_SHAPE, "n");
  end(&c);
}

static void test_names_are_hints(void **state) {
  (void)state;
  case_t c;
  const char *text = HEAD "graph { " IN("x", F32, DIM("n")) IN("w", F32, DIM("n"))
      IN("m", F32, DIM("2*n")) "node { op_type 'Concat' input 'x' input 'w' input 'm' output 'y' "
                               "attribute { name 'axis' type 2 i 0 } } " OUT("y") "}";
  assert_null(create(&c, text, NULL, 0, true));
  dt_tensor_t *in[] = {floats(1, -1, 1), floats(2, -1, 5), floats(1, -1, 9)};
  assert_call(&c, 3, in, 1, (int64_t[]){4}, (float[]){1, 5, 6, 9});
  end(&c);
}

// ---- Numbers ----------------------------------------------------------------------------------------
// Sizes that are computed, and -1 and 0 in a shape that a call brings.
static void test_shape_input(void **state) {
  (void)state;
  case_t c;
  make(&c, HEAD "graph { " IN("x", F32, DIM("n"))
               IN("shape", I64, "dim { dim_value 2 } ") "node { op_type 'Reshape' input 'x' input "
                                                        "'shape' output 'y' } " OUT("y") "}");
  dt_tensor_t *first[] = {floats(6, -1, 0), ints(1, 2, (int64_t[]){2, 3})};
  assert_call(&c, 2, first, 2, (int64_t[]){2, 3}, (float[]){0, 1, 2, 3, 4, 5});
  dt_tensor_t *open[] = {floats(6, -1, 0), ints(1, 2, (int64_t[]){-1, 2})};
  assert_call(&c, 2, open, 2, (int64_t[]){3, 2}, (float[]){0, 1, 2, 3, 4, 5});
  dt_tensor_t *copy[] = {floats(4, -1, 0), ints(1, 2, (int64_t[]){0, 1})};
  assert_call(&c, 2, copy, 2, (int64_t[]){4, 1}, (float[]){0, 1, 2, 3});
  dt_tensor_t *wrong[] = {floats(4, -1, 0), ints(1, 2, (int64_t[]){3, 2})}, *out;
  expect_told(call(&c, 2, wrong, &out), DT_E_SHAPE, "reshape");
  end(&c);
}

// A loop that hands an input on as the sizes of a reshape: of its body's outputs the first says
// whether it goes on, so that the sizes are the second.
static void test_shape_through_loop(void **state) {
  (void)state;
  case_t c;
  make(&c, HEAD "graph { " IN("x", F32, DIM("n")) IN("shape", I64, "dim { dim_value 2 } ")
               IN("old", I64, "dim { dim_value 2 } ") //
       "initializer { name 'one' data_type 7 int64_data 1 } "
       "initializer { name 'yes' data_type 9 int32_data 1 } "
       "node { op_type 'Loop' input 'one' input 'yes' input 'old' output 'sizes' "
       "attribute { name 'body' type 5 g { input { name 'i' } input { name 'go' } "
       "input { name 's' } node { op_type 'Identity' input 'go' output 'on' } "
       "node { op_type 'Identity' input 'shape' output 't' } "
       "output { name 'on' } output { name 't' } } } } "
       "node { op_type 'Reshape' input 'x' input 'sizes' output 'y' } " OUT("y") "}");
  assert_int_equal(dt_function_n_inputs(c.function), 3);
  assert_int_equal(dt_function_input(c.function, 1)->kind, DT_INPUT_INTEGERS);
  assert_int_equal(dt_function_input(c.function, 2)->kind, DT_INPUT_TENSOR);
  dt_tensor_t *in[] = {floats(6, -1, 0), ints(1, 2, (int64_t[]){2, 3}),
                       ints(1, 2, (int64_t[]){7, 7})};
  assert_call(&c, 3, in, 2, (int64_t[]){2, 3}, (float[]){0, 1, 2, 3, 4, 5});
  end(&c);
}

// x.reshape(Shape(x)[1], Shape(x)[0] * 2 / 2): nothing but sizes is left.
static void test_sizes_fold(void **state) {
  (void)state;
  case_t c;
  make(&c,
       HEAD "graph { " IN(
           "x", F32,
           DIM("a") DIM("b")) "initializer { name 'zero' data_type 7 int64_data 0 } "
                              "initializer { name 'one' data_type 7 dims 1 int64_data 1 } "
                              "initializer { name 'two' data_type 7 int64_data 2 } "
                              "node { op_type 'Shape' input 'x' output 's' } "
                              "node { op_type 'Gather' input 's' input 'zero' output 'a' } "
                              "node { op_type 'Mul' input 'a' input 'two' output 'a2' } "
                              "node { op_type 'Div' input 'a2' input 'two' output 'a1' } "
                              "node { op_type 'Unsqueeze' input 'a1' input 'axes' output 'au' } "
                              "initializer { name 'axes' data_type 7 dims 1 int64_data 0 } "
                              "node { op_type 'Gather' input 's' input 'one' output 'b' } "
                              "node { op_type 'Concat' input 'b' input 'au' output 'shape' "
                              "  attribute { name 'axis' type 2 i 0 } } "
                              "node { op_type 'Reshape' input 'x' input 'shape' output 'y' } " OUT(
                                  "y") "}");
  dt_tensor_t *in[] = {floats(2, 3, 0)};
  assert_call(&c, 1, in, 2, (int64_t[]){3, 2}, (float[]){0, 1, 2, 3, 4, 5});
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  assert_null(dt_function_counters(c.function, &stats));
  char *text = NULL;
  assert_null(report_as_text(c.function, NULL, 0, DT_REPORT_VARIANTS, &text));
  dt_text_free(text);
  end(&c);
}

// ---- Functions and graphs ---------------------------------------------------------------------------
// Attributes by reference, through two calls, with a default; names that mean something else
// outside; an input that is left out.
static void test_functions(void **state) {
  (void)state;
  case_t c;
  make(&c, HEAD "opset_import { domain 'own' version 1 } graph { " IN(
               "x", F32,
               DIM("n")) "node { op_type 'Outer' domain 'own' input 'x' output 'y' "
                         "  attribute { name 'k' type 2 i 0 } } " OUT(
                             "y") "} "
                                  "functions { name 'Outer' domain 'own' input 'p' input "
                                  "'left_out' output 'y' "
                                  "  opset_import { version 17 } opset_import { domain 'own' "
                                  "version 1 } attribute 'k' "
                                  "  node { op_type 'Inner' domain 'own' input 'p' output 'x' "
                                  "    attribute { name 'axis' type 2 ref_attr_name 'k' } } "
                                  "  node { op_type 'Relu' input 'x' output 'y' } } "
                                  "functions { name 'Inner' domain 'own' input 'x' output 'y' "
                                  "opset_import { version 17 } "
                                  "  attribute_proto { name 'axis' type 2 i 5 } "
                                  "  node { op_type 'Concat' input 'x' input 'x' output 'y' "
                                  "    attribute { name 'axis' type 2 ref_attr_name 'axis' } } }");
  dt_tensor_t *in[] = {floats(2, -1, -1)};
  assert_call(&c, 1, in, 1, (int64_t[]){4}, (float[]){0, 0, 0, 0});
  end(&c);
}

// ---- Memory -----------------------------------------------------------------------------------------
// Data of the file are used where they lie, also after the caller has closed the model.
static void test_close_first(void **state) {
  (void)state;
  case_t c;
  make(&c, HEAD "graph { " IN(
               "x", F32,
               DIM("n")) "initializer { name 'w' data_type 1 dims 2 "
                         "  raw_data '\\x00\\x00\\x80\\x3f\\x00\\x00\\x00\\x40' } "
                         "node { op_type 'Add' input 'x' input 'w' output 'y' } " OUT("y") "}");
  dt_onnx_close(c.model);
  c.model = NULL;
  dt_tensor_t *in[] = {floats(2, -1, 10)};
  assert_call(&c, 1, in, 1, (int64_t[]){2}, (float[]){11, 13});
  end(&c);
}

static void test_no_memory(void **state) {
  (void)state;
  case_t c;
  make(&c, SUM);
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    dt_function_t *function = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_onnx_function_create(c.runtime, c.model, NULL, &function);
    (void)dt__heap_fail_at(0, false);
    done = status == NULL;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    dt_status_free(status);
    dt_function_release(function);
    assert_true(n < 1000);
  }
  done = false;
  for (uint64_t n = 1; !done; n++) {
    dt_tensor_t *in[] = {floats(1, 2, 1), floats(1, 1, 7)}, *out = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = call(&c, 2, in, &out);
    (void)dt__heap_fail_at(0, false);
    done = status == NULL;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    dt_status_free(status);
    dt_tensor_release(out);
    assert_true(n < 10000);
  }
  end(&c);
}

RUN_TESTS(TEST(test_no_outputs), TEST(test_too_much_to_trace), TEST(test_all_at_once),
          TEST(test_arguments), TEST(test_names), TEST(test_said_of_dims),
          TEST(test_names_are_hints), TEST(test_shape_input), TEST(test_shape_through_loop),
          TEST(test_sizes_fold), TEST(test_functions), TEST(test_close_first), TEST(test_no_memory),
          TEST(test_wrong_axes), TEST(test_wrong_operands), TEST(test_too_many_sizes))
