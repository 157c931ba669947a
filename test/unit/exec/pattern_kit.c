// SPDX-License-Identifier: Apache-2.0
// See pattern_kit.h.
#include "test/unit/exec/pattern_kit.h"

#define MOST 4

dt_status_t try_make(const made_t *made, dt_pattern_t **out) {
  dt_pattern_options_t options = made->options;
  options.struct_size = sizeof(options);
  options.wildcard_size = sizeof(dt_wildcard_t);
  options.dim_size = sizeof(dt_dim_decl_t);
  options.name = options.name ? options.name : "p";
  options.n_outputs = options.n_outputs ? options.n_outputs : 1;
  return dt_pattern_create(made->program, made->replacement, made->check, made->closure, &options,
                           out);
}

dt_pattern_t *add_pattern(fixture_t *f, const made_t *made) {
  dt_pattern_t *pattern = NULL;
  expect_ok(try_make(made, &pattern));
  expect_ok(dt_runtime_add_pattern(f->runtime, pattern));
  return pattern;
}

void drop_pattern(fixture_t *f, dt_pattern_t *pattern, const char *name) {
  expect_ok(dt_runtime_remove_pass(f->runtime, name));
  dt_pattern_release(pattern);
}

dt_function_t *make(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                    const dt_input_decl_t *inputs, uint32_t n_out, const char *passes) {
  dt_function_options_t options = options_of(n_in, inputs);
  options.n_outputs = n_out;
  options.passes = passes;
  if (passes)
    options.answer = DT_ANSWER_EVALUATOR;
  return function_of(f, program, closure, &options);
}

void same_answers(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                  const dt_input_decl_t *inputs, uint32_t n_out, dt_tensor_t *const *in,
                  const char *names) {
  dt_tensor_t *got[MOST] = {NULL}, *want[MOST] = {NULL};
  dt_function_t *with = make(f, program, closure, n_in, inputs, n_out, NULL);
  dt_function_t *without = make(f, program, closure, n_in, inputs, n_out, names);
  expect_ok(dt_call(f->session, with, in, n_in, got, n_out, NULL));
  expect_ok(dt_call(f->session, without, in, n_in, want, n_out, NULL));
  for (uint32_t k = 0; k < n_out; k++)
    expect_close(got[k], want[k], 2e-5, 2e-5, names);
  release_tensors(got, n_out);
  release_tensors(want, n_out);
  dt_function_release(with);
  dt_function_release(without);
}

uint64_t matches(fixture_t *f, const made_t *made, dt_program_fn_t program, uint32_t rank) {
  dt_pattern_t *pattern = add_pattern(f, made);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = rank};
  dt_tensor_t *x = tensor_f32(&f->rng, rank, SIZES(3, 4, 2, 5));
  same_answers(f, program, NULL, 1, &input, 1, &x, "-p");
  uint64_t n = dt_pattern_count(pattern);
  RELEASE(x);
  drop_pattern(f, pattern, "p");
  return n;
}

bool compiles(void) { return compiled_answer() == DT_ANSWER_COMPILED; }

// ---- The pattern that will do -------------------------------------------------------------------
dt_status_t swish(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], dt_sigmoid(t, in[0]));
  return NULL;
}
dt_status_t as_silu(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                    void *closure) {
  (void)closure;
  assert_int_equal(dt_match_node(m, "x").id, in[0].id);
  assert_int_equal(dt_match_node(m, "y").id, 0);
  out[0] = dt_silu(t, in[0]);
  return NULL;
}
const made_t silu = {swish, as_silu, .options = {WILDCARDS({.name = "x"})}};

dt_status_t swish_of_sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t sum = dt_add(t, in[0], in[0]);
  out[0] = dt_mul(t, dt_scalar(t, DT_F32, 2), dt_mul(t, dt_sigmoid(t, sum), sum));
  return NULL;
}
