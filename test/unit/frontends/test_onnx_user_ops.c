// SPDX-License-Identifier: Apache-2.0 Operators of a model's own domain that are ops of users:
// attributes of each form, several outputs, attributes by way of a function, and what is refused by
// name.
#include "test/unit/frontends/onnx_rig.h"

#include "ductile/accessor.h"

#include <stdio.h>
#include <string.h>

#define INTS(name, values) "attribute { name '" name "' type 7 ints [ " values " ] } "
#define AFFINE(x, y, attributes)                                                                   \
  "node { op_type 'Affine' domain 'com.acme' input '" x "' output '" y "' " attributes "} "
#define ALL                                                                                        \
  REAL("alpha", "2.5")                                                                             \
  INT("shift", "-3") TEXT("mode", "both") INTS("more", "10 20") REALS("last", "0.25 0.5")
#define GRAPH(nodes, outputs) "graph { name 'g' " INPUT("x", "1", OPEN("n")) nodes outputs "} "

static onnx_bytes_t bytes_of(const char *graph, const char *more) {
  char text[4096];
  int length = snprintf(text, sizeof text,
                        "ir_version 10 opset_import { version 21 } opset_import { domain "
                        "'com.acme' version 1 } %s%s",
                        graph, more);
  assert_true(length > 0 && length < (int)sizeof text);
  return onnx_make(&dt__onnx_model_message, text);
}

// alpha x + shift, and the sum of what is in the lists for each element.
static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  if (!dt_op_call_attr(call, "alpha", DT_OP_ATTR_FLOAT))
    return dt_status_make(DT_E_ARGUMENT, "alpha is missing");
  dt_op_set_result_like(call, 0, x, DT_F32);
  dt_op_set_result_like(call, 1, x, DT_F32);
  return NULL;
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 1);
  dt_accessor_t y = dt_access(args->results[0], DT_F32, 1);
  dt_accessor_t z = dt_access(args->results[1], DT_F32, 1);
  const dt_op_attr_t *alpha = dt_op_attr(args, "alpha", DT_OP_ATTR_FLOAT);
  const dt_op_attr_t *shift = dt_op_attr(args, "shift", DT_OP_ATTR_INT);
  const dt_op_attr_t *mode = dt_op_attr(args, "mode", DT_OP_ATTR_TEXT);
  const dt_op_attr_t *more = dt_op_attr(args, "more", DT_OP_ATTR_INTS);
  const dt_op_attr_t *last = dt_op_attr(args, "last", DT_OP_ATTR_FLOATS);
  double sum = mode && strcmp(mode->text, "both") == 0 ? 1000 : 0;
  (void)begin, (void)end;
  for (uint32_t k = 0; more && k < more->n; k++)
    sum += (double)more->ints[k];
  for (uint32_t k = 0; last && k < last->n; k++)
    sum += last->floats[k];
  for (int64_t i = 0; i < dt_access_size(&x, 0); i++) {
    *DT_AT_1(float, &y, i) =
        (float)(*DT_AT_1(float, &x, i) * alpha->f + (shift ? (double)shift->i : 0));
    *DT_AT_1(float, &z, i) = (float)sum;
  }
  return dt_access_status(&x, &y, &z, NULL);
}

static const dt_op_options_t affine = {
    .struct_size = sizeof affine, .name = "com.acme.Affine", .infer = infer, .kernel = kernel};

static void register_affine(const fixture_t *fixture) {
  expect_ok(dt_op_register(fixture->runtime, &affine));
}

static dt_status_t open_function(const fixture_t *fixture, const onnx_bytes_t *bytes,
                                 dt_function_t **out) {
  const dt_function_options_t about = {.struct_size = sizeof about, .answer = compiled_answer()};
  const dt_onnx_function_options_t options = {.struct_size = sizeof options, .function = &about};
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file));
  dt_status_t status = dt_onnx_function_create(fixture->runtime, file, &options, out);
  dt_onnx_close(file);
  return status;
}

// y = factor x + add, z = sum, at several lengths.
static void expect_answers(fixture_t *fixture, const char *graph, const char *more, uint32_t n_out,
                           double factor, double add, double sum) {
  onnx_bytes_t bytes = bytes_of(graph, more);
  dt_function_t *function = NULL;
  expect_ok(open_function(fixture, &bytes, &function));
  for (int64_t n = 0; n < 5; n++) {
    dt_tensor_t *x = tensor_f32(&fixture->rng, 1, &n), *out[2] = {NULL};
    expect_ok(dt_call(fixture->session, function, &x, 1, out, n_out, NULL));
    for (int64_t i = 0; i < n; i++) {
      double want = (double)((const float *)dt_tensor_data(x))[i] * factor + add;
      double got = (double)((const float *)dt_tensor_data(out[0]))[i];
      assert_true(got - want < 1e-5 && want - got < 1e-5);
      if (n_out == 2)
        assert_true(((const float *)dt_tensor_data(out[1]))[i] == (float)sum);
    }
    RELEASE(x, out[0], out[1]);
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_release(function);
  onnx_free(&bytes);
}

static void test_attributes_and_outputs(void **state) {
  fixture_t *fixture = *state;
  register_affine(fixture);
  expect_answers(fixture,
                 GRAPH("node { op_type 'Neg' input 'x' output 'm' } " AFFINE(
                           "m", "y' output 'z", ALL) "node { op_type 'Neg' input 'y' output 'w' } ",
                       OUTPUT("w") OUTPUT("z")),
                 "", 2, 2.5, 3, 1030.75);
  expect_answers(fixture, GRAPH(AFFINE("x", "y", REAL("alpha", "4")), OUTPUT("y")), "", 1, 4, 0, 0);
  // Its second output alone.
  expect_answers(
      fixture, GRAPH(AFFINE("x", "' output 'z", REAL("alpha", "4") INTS("more", "7")), OUTPUT("z")),
      "", 1, 0, 7, 0);
}

// An op that updates arguments does not update a model's inputs: y is another tensor.
static void test_inputs_stay(void **state) {
  fixture_t *fixture = *state;
  dt_op_options_t updating = affine;
  updating.updates[0] = 1;
  expect_ok(dt_op_register(fixture->runtime, &updating));
  expect_answers(fixture, GRAPH(AFFINE("x", "y", REAL("alpha", "4")), OUTPUT("y")), "", 1, 4, 0, 0);
}

static void test_attributes_by_way_of_a_function(void **state) {
  fixture_t *fixture = *state;
  register_affine(fixture);
  expect_answers(
      fixture,
      GRAPH(
          "node { op_type 'Wrapped' domain 'com.acme' input 'x' output 'y' " REAL("beta", "3") "} ",
          OUTPUT("y")),
      "functions { name 'Wrapped' domain 'com.acme' input 'p' output 'q' attribute 'beta' "
      "attribute 'gamma' opset_import { domain 'com.acme' version 1 } "
      "node { op_type 'Affine' domain 'com.acme' input 'p' output 'q' "
      "attribute { name 'alpha' type 1 ref_attr_name 'beta' } "
      "attribute { name 'shift' type 2 ref_attr_name 'gamma' } } } ",
      1, 3, 0, 0);
}

// ---- Refusals -----------------------------------------------------------------------------------
static void test_an_op_that_is_not_there(void **state) {
  const fixture_t *fixture = *state;
  onnx_bytes_t bytes = bytes_of(GRAPH(AFFINE("x", "y", ALL), OUTPUT("y")), "");
  dt_function_t *function = NULL;
  expect_told(open_function(fixture, &bytes, &function), DT_E_UNSUPPORTED,
              "com.acme.Affine (operator set 1, output \"y\"): the runtime has no op of that name "
              "(dt_op_register)");
  register_affine(fixture);
  expect_ok(open_function(fixture, &bytes, &function));
  dt_function_release(function);
  expect_ok(dt_op_remove(fixture->runtime, "com.acme.Affine"));
  expect_told(open_function(fixture, &bytes, &function), DT_E_UNSUPPORTED, "com.acme.Affine");
  onnx_free(&bytes);
}

static void expect_refused(const fixture_t *fixture, const char *graph, dt_code_t code,
                           const char *says) {
  onnx_bytes_t bytes = bytes_of(graph, "");
  dt_function_t *function = NULL;
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3)), *out = NULL;
  expect_ok(open_function(fixture, &bytes, &function));
  expect_told(dt_call(fixture->session, function, &x, 1, &out, 1, NULL), code, says);
  RELEASE(x);
  dt_function_release(function);
  onnx_free(&bytes);
}

static void test_nodes_that_do_not_fit(void **state) {
  const fixture_t *fixture = *state;
  register_affine(fixture);
  expect_refused(fixture, GRAPH(AFFINE("x", "y", INT("shift", "1")), OUTPUT("y")), DT_E_FORMAT,
                 "com.acme.Affine: alpha is missing");
  expect_refused(fixture,
                 GRAPH(AFFINE("x", "y",
                              "attribute { name 'alpha' type 4 t { data_type 1 dims 1 "
                              "float_data [ 1 ] } } "),
                       OUTPUT("y")),
                 DT_E_UNSUPPORTED, "attribute 0 is no integer, float or text");
  expect_refused(fixture, GRAPH(AFFINE("x' input 'x", "y", ALL), OUTPUT("y")), DT_E_FORMAT,
                 "com.acme.Affine: 2 inputs; expected 1 to 1");
  expect_refused(fixture, GRAPH(AFFINE("x", "y' output 'z' output 'w", ALL), OUTPUT("w")),
                 DT_E_FORMAT, "com.acme.Affine: 3 results are asked for; it has 2");
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

#define OWN(name) TEST_WITH(name, open_all, fixture_close)

RUN_TESTS(OWN(test_attributes_and_outputs), OWN(test_inputs_stay),
          OWN(test_attributes_by_way_of_a_function), OWN(test_an_op_that_is_not_there),
          OWN(test_nodes_that_do_not_fit))
