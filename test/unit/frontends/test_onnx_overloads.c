// SPDX-License-Identifier: Apache-2.0
// Functions of one domain and name that differ by `overload`: each call gets its own, functions
// call each other's, and a call of an overload that there is not is refused by name.
#include "test/unit/frontends/onnx_rig.h"

#include <stdio.h>

#define CALL(overload, x, y)                                                                       \
  "node { op_type 'Turn' domain 'own' " overload "input '" x "' output '" y "' } "
#define OVERLOAD(name) "overload '" name "' "
#define FUNCTION(overload, nodes)                                                                  \
  "functions { name 'Turn' domain 'own' " overload "input 'p' output 'q' "                         \
  "opset_import { version 21 } opset_import { domain 'own' version 1 } " nodes "} "
#define UNARY(op, x, y) "node { op_type '" op "' input '" x "' output '" y "' } "
#define GRAPH(nodes, outputs) "graph { name 'g' " INPUT("x", "1", OPEN("n")) nodes outputs "} "

// Without an overload the negative, as "size" the absolute value, and as "both" the one of the
// other plus 1, in a function whose overload is sorted between them.
static const char functions[] = FUNCTION("", UNARY("Neg", "p", "q"))
    FUNCTION(OVERLOAD("size"), UNARY("Abs", "p", "q")) FUNCTION(
        OVERLOAD("both"),
        CALL(OVERLOAD("size"), "p", "a") CALL(
            "", "a",
            "b") "node { op_type 'Constant' output 'one' attribute { name 'value_float' type 1 "
                 "f 1.0 } } node { op_type 'Add' input 'b' input 'one' output 'q' } ");

static onnx_bytes_t bytes_of(const char *graph, const char *more) {
  char text[8192];
  int length = snprintf(text, sizeof text,
                        "ir_version 10 opset_import { version 21 } opset_import { domain 'own' "
                        "version 1 } %s%s",
                        graph, more);
  assert_true(length > 0 && length < (int)sizeof text);
  return onnx_make(&dt__onnx_model_message, text);
}

static void test_each_its_own(void **state) {
  const fixture_t *fixture = *state;
  onnx_bytes_t bytes = bytes_of(GRAPH(CALL("", "x", "a") CALL(OVERLOAD("size"), "x", "b")
                                          CALL(OVERLOAD("both"), "x", "c"),
                                      OUTPUT("a") OUTPUT("b") OUTPUT("c")),
                                functions);
  const dt_function_options_t about = {.struct_size = sizeof about, .answer = compiled_answer()};
  const dt_onnx_function_options_t options = {.struct_size = sizeof options, .function = &about};
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  expect_ok(dt_onnx_function_create(fixture->runtime, file, &options, &function));
  for (int64_t n = 0; n < 40; n = 2 * n + 3) {
    dt_tensor_t *x = tensor_full(0, 1, &n), *out[3] = {0};
    for (int64_t k = 0; k < n; k++)
      rig_put(x, k, (double)(k % 7 - 3));
    expect_ok(dt_call(fixture->session, function, &x, 1, out, 3, NULL));
    for (int64_t k = 0; k < n; k++) {
      double value = rig_get(x, k), size = value < 0 ? -value : value;
      const double want[] = {-value, size, 1 - size};
      for (int which = 0; which < 3; which++)
        if (rig_get(out[which], k) != want[which])
          fail_msg("output %d, element %lld: got %g, expected %g", which, (long long)k,
                   rig_get(out[which], k), want[which]);
    }
    release_tensors(out, 3);
    dt_tensor_release(x);
  }
  dt_function_release(function);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Refusals ---------------------------------------------------------------------------------------
static const struct {
  const char *graph, *more, *part;
} refused[] = {
    {GRAPH(CALL(OVERLOAD("best"), "x", "y"), OUTPUT("y")), functions,
     "own.Turn (operator set 1, overload \"best\", output \"y\"): no function of the model has "
     "that "
     "overload"},
    // Case and length tell.
    {GRAPH(CALL(OVERLOAD("Size"), "x", "y"), OUTPUT("y")), functions, "overload \"Size\""},
    {GRAPH(CALL(OVERLOAD("siz"), "x", "y"), OUTPUT("y")), functions, "overload \"siz\""},
    // No overload is one of its own, and none of ONNX's operators has any.
    {GRAPH(CALL("", "x", "y"), OUTPUT("y")), FUNCTION(OVERLOAD("size"), UNARY("Abs", "p", "q")),
     "own.Turn (operator set 1, output \"y\"): the runtime has no op of that name"},
    {GRAPH("node { op_type 'Abs' overload 'fast' input 'x' output 'y' } ", OUTPUT("y")), "",
     "Abs (operator set 21, overload \"fast\", output \"y\")"},
    // Within a function.
    {GRAPH(CALL("", "x", "y"), OUTPUT("y")), FUNCTION("", CALL(OVERLOAD("inner"), "p", "q")),
     "overload \"inner\""},
};

static void test_refused(void **state) {
  const fixture_t *fixture = *state;
  for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
    onnx_bytes_t bytes = bytes_of(refused[k].graph, refused[k].more);
    const dt_onnx_function_options_t options = {.struct_size = sizeof options};
    dt_onnx_t *file = NULL;
    dt_function_t *function = NULL;
    expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
    expect_told(dt_onnx_function_create(fixture->runtime, file, &options, &function),
                DT_E_UNSUPPORTED, refused[k].part);
    assert_null(function);
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

// Two of one overload, and a function that calls itself by way of another.
static void test_malformed(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {FUNCTION(OVERLOAD("size"), UNARY("Abs", "p", "q"))
           FUNCTION(OVERLOAD("size"), UNARY("Neg", "p", "q")),
       "is there twice"},
      {FUNCTION(OVERLOAD("a"), CALL(OVERLOAD("b"), "p", "q"))
           FUNCTION(OVERLOAD("b"), CALL(OVERLOAD("a"), "p", "q")),
       "functions cannot recur"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    onnx_bytes_t bytes = bytes_of(GRAPH(UNARY("Neg", "x", "y"), OUTPUT("y")), rows[k][0]);
    dt_onnx_t *file = NULL;
    expect_told(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file), DT_E_FORMAT, rows[k][1]);
    assert_null(file);
    onnx_free(&bytes);
  }
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_each_its_own), TEST(test_refused),
               TEST(test_malformed))
