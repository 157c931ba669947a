// SPDX-License-Identifier: Apache-2.0
// Budgets of one compile: nodes, processor time, memory. A compile over one is DT_E_LIMIT with the
// budget's names and where it was; the function goes on with what it has, and compiles again.
#include "test/support/fixture.h"

#include <stdlib.h>
#include <string.h>

// x + 1 + 1 …, `length` times; every sum is an output's or the next one's.
typedef struct chain_t {
  uint32_t length;
} chain_t;

static dt_status_t chain_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  const chain_t *chain = closure;
  dt_value_t x = in[0], one = dt_scalar(t, DT_F32, 1);
  for (uint32_t k = 0; k < chain->length && !dt_trace_status(t); k++)
    x = dt_add(t, k % 2 ? dt_sin(t, x) : x, one);
  out[0] = x;
  return dt_trace_status(t);
}

typedef struct subject_chain_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  chain_t chain;
} subject_chain_t;

static void open_chain(subject_chain_t *s, const dt_runtime_options_t *options) {
  static const dt_dim_decl_t dim;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .dims = &dim};
  dt_function_options_t function = options_of(1, &input);
  function.dynamic = DT_DYNAMIC_STATIC; // a compile for each size
  memset(s, 0, sizeof(*s));
  expect_ok(dt_runtime_create(options, &s->runtime));
  expect_ok(dt_session_create(s->runtime, NULL, &s->session));
  expect_ok(dt_function_create(s->runtime, chain_program, &s->chain, &function, &s->function));
}

static void close_chain(subject_chain_t *s) {
  dt_function_release(s->function);
  dt_session_destroy(s->session);
  dt_runtime_release(s->runtime);
}

static dt_status_t call(subject_chain_t *s, int64_t size) {
  dt_tensor_t *in = tensor_full(0, 1, &size), *out = NULL;
  dt_status_t status = dt_call(s->session, s->function, &in, 1, &out, 1, NULL);
  RELEASE(out, in);
  return status;
}

// Over the budget with `long_length`; what was compiled before serves on, and the size that failed
// compiles as soon as the program is small again.
static void expect_budget(subject_chain_t *s, uint32_t long_length, const char *option,
                          const char *variable) {
  s->chain.length = 4;
  expect_ok(call(s, 3));
  s->chain.length = long_length;
  for (int k = 0; k < 2; k++)
    expect_parts(call(s, 5), DT_E_LIMIT, EACH_OF(option, variable));
  expect_ok(call(s, 3));
  assert_int_equal(variants_of(s->function), 1);
  s->chain.length = 4;
  expect_ok(call(s, 6)); // what 5 was refused for is remembered for a while
  assert_int_equal(variants_of(s->function), 2);
}

static void test_nodes(void **state) {
  (void)state;
  subject_chain_t s;
  open_chain(&s, &(dt_runtime_options_t){.threads = 1, .max_nodes = 100});
  expect_budget(&s, 200, "max_nodes", "DUCTILE_MAX_NODES");
  s.chain.length = 200;
  expect_told(call(&s, 8), DT_E_LIMIT, "test_budgets.c"); // the line that asked for one more
  close_chain(&s);
}

// The default is less than any one graph may have.
static void test_nodes_by_default(void **state) {
  (void)state;
  subject_chain_t s;
  open_chain(&s, NULL);
  s.chain.length = 60000;
  expect_told(call(&s, 3), DT_E_LIMIT, "its budget is 50000");
  close_chain(&s);
}

static void test_variables(void **state) {
  (void)state;
  subject_chain_t s;
  assert_int_equal(setenv("DUCTILE_MAX_NODES", "50", 1), 0);
  open_chain(&s, NULL);
  s.chain.length = 100;
  expect_told(call(&s, 3), DT_E_LIMIT, "its budget is 50 ");
  close_chain(&s);
  // What the program says comes first.
  open_chain(&s, &(dt_runtime_options_t){.max_nodes = 500});
  s.chain.length = 100;
  expect_ok(call(&s, 3));
  close_chain(&s);
  assert_int_equal(unsetenv("DUCTILE_MAX_NODES"), 0);
}

static void test_time(void **state) {
  (void)state;
  subject_chain_t s;
  open_chain(&s, &(dt_runtime_options_t){.threads = 1, .max_compile_ns = 1});
  s.chain.length = 100;
  expect_told(call(&s, 3), DT_E_LIMIT, "max_compile_ns, or DUCTILE_COMPILE_SECONDS");
  assert_int_equal(variants_of(s.function), 0);
  close_chain(&s);
}

static void test_memory(void **state) {
  (void)state;
  subject_chain_t s;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    skip(); // the evaluator needs the trace alone
  open_chain(&s, &(dt_runtime_options_t){.threads = 1, .max_compile_bytes = (uint64_t)32 << 20});
  expect_budget(&s, 12000, "max_compile_bytes", "DUCTILE_COMPILE_MIB");
  close_chain(&s);
}

// What LLVM is going to take is counted before a unit is begun.
static void test_memory_of_units(void **state) {
  (void)state;
  subject_chain_t s;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    skip();
  open_chain(&s, &(dt_runtime_options_t){.threads = 1, .max_compile_bytes = (uint64_t)3 << 20});
  s.chain.length = 4;
  expect_told(call(&s, 3), DT_E_LIMIT, "unit ");
  expect_told(call(&s, 3), DT_E_LIMIT, "max_compile_bytes");
  close_chain(&s);
}

RUN_TESTS(TEST(test_nodes), TEST(test_nodes_by_default), TEST(test_variables), TEST(test_time),
          TEST(test_memory), TEST(test_memory_of_units))
