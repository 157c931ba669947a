// SPDX-License-Identifier: Apache-2.0
// Loops of few trips are written out as far as all of them together have room in a trace; the
// others stay loops, and give the same numbers.
#include "test/support/fixture.h"

#include "ductile/onnx.h"
#include "test/unit/frontends/onnx_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 18, TRIPS = 8 };

#define SCALAR(name, dtype)                                                                        \
  "{ name '" name "%u' type { tensor_type { elem_type " dtype " shape { } } } } "
#define VECTOR(name)                                                                               \
  "{ name '" name "' type { tensor_type { elem_type 1 shape { dim { dim_param 'n' } } } } } "
#define ANY "%s { name '%s' } "

typedef struct text_t {
  char at[TEXT_BYTES];
  size_t len;
} text_t;

static void put(text_t *text, const char *fmt, ...) DT_PRINTF(2, 3);
static void put(text_t *text, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text->at + text->len, TEXT_BYTES - text->len, fmt, args);
  va_end(args);
  assert_true(n >= 0 && text->len + (size_t)n < TEXT_BYTES);
  text->len += (size_t)n;
}

// `depth` loops of eight trips in each other around `nodes` of Sin.
static void put_loop(text_t *text, uint32_t id, uint32_t depth, uint32_t nodes, const char *in,
                     const char *out) {
  char state[16], next[16], last[16];
  put(text, "node { op_type 'Loop' input 'trips' input '' input '%s' output '%s' ", in, out);
  put(text, "attribute { name 'body' type 5 g { name 'body' input " SCALAR("i", "7"), id);
  put(text, "input " SCALAR("c", "9"), id);
  (void)snprintf(state, sizeof(state), "s%u", id);
  (void)snprintf(next, sizeof(next), "r%u", id);
  put(text, ANY, "input", state);
  put(text, "node { op_type 'Identity' input 'c%u' output 'g%u' } ", id, id);
  memcpy(last, state, sizeof(last));
  if (depth > 1)
    put_loop(text, id + 1, depth - 1, nodes, state, next);
  for (uint32_t k = 0; depth == 1 && k < nodes; k++) {
    if (k + 1 == nodes)
      (void)snprintf(next, sizeof(next), "r%u", id);
    else
      (void)snprintf(next, sizeof(next), "x%u_%u", id, k);
    put(text, "node { op_type 'Sin' input '%s' output '%s' } ", last, next);
    memcpy(last, next, sizeof(last));
  }
  put(text, "output { name 'g%u' } ", id);
  put(text, ANY "} } } ", "output", next);
}

static void begin(text_t *text) {
  text->len = 0;
  put(text, "ir_version 8 opset_import { version 18 } graph { name 'g' input " VECTOR("x"));
  put(text, "initializer { name 'trips' data_type 7 int64_data [%d] } ", TRIPS);
}

static double sines(double x, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    x = sin(x);
  return x;
}

// The model within `max_nodes` traced nodes, compiled, evaluated, or both: x becomes sin(sin(… x)).
static void run(text_t *text, uint32_t max_nodes, uint32_t n_sines, bool compiled, bool evaluated) {
  put(text, "output " VECTOR("y") "} ");
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text->at);
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_onnx_t *model = NULL;
  const int64_t size = 3;
  dt_tensor_t *x = tensor_full(0.75F, 1, &size);
  expect_ok(
      dt_runtime_create(&(dt_runtime_options_t){.threads = 1, .max_nodes = max_nodes}, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &model));
  for (int k = 0; k < 2; k++) {
    if (!(k ? evaluated : compiled))
      continue;
    dt_function_options_t how = {.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer()};
    dt_onnx_function_options_t options = {.function = &how};
    dt_function_t *function = NULL;
    dt_tensor_t *y = NULL;
    expect_ok(dt_onnx_function_create(runtime, model, &options, &function));
    expect_ok(dt_call(session, function, &x, 1, &y, 1, NULL));
    const float *got = dt_tensor_data(y);
    double want = sines(0.75, n_sines);
    for (int64_t i = 0; i < size; i++)
      if (fabs((double)got[i] - want) > 1e-4)
        fail_msg("%g; expected %g", (double)got[i], want);
    dt_tensor_release(y);
    dt_function_release(function);
  }
  dt_onnx_close(model);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  dt_tensor_release(x);
  onnx_free(&bytes);
}

static void test_nested(void **state) {
  (void)state;
  static text_t text;
  begin(&text);
  put_loop(&text, 0, 3, 1, "x", "y");
  run(&text, 100, TRIPS * TRIPS * TRIPS, true, true);
  begin(&text);
  put_loop(&text, 0, 5, 1, "x", "y");
  run(&text, 150, TRIPS * TRIPS * TRIPS * TRIPS * TRIPS, true, false);
}

// One after another: each is small, and all together are not.
static void test_in_a_row(void **state) {
  (void)state;
  static text_t text;
  enum { LOOPS = 60, NODES = 6 };
  char last[16] = "x", next[16];
  begin(&text);
  for (uint32_t k = 0; k < LOOPS; k++) {
    (void)snprintf(next, sizeof(next), k + 1 == LOOPS ? "y" : "z%u", k);
    put_loop(&text, k, 1, NODES, last, next);
    memcpy(last, next, sizeof(last));
  }
  // Written out they were 2,880 sines and as many nodes.
  run(&text, 2800, LOOPS * NODES * TRIPS, false, true);
}

RUN_TESTS(TEST(test_nested), TEST(test_in_a_row))
