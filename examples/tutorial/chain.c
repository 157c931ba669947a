// SPDX-License-Identifier: Apache-2.0
// Of docs/control.md: host code between two functions, called as one.
#include "ductile/chain.h"
#include "ductile/ductile.h"
#include <stdio.h>
#include <stdlib.h>

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  exit(1);
}

static dt_status_t score(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t half = dt_scalar(t, DT_F32, 0.5);
  out[0] = dt_sub(t, dt_mul(t, in[0], in[0]), half);
  return NULL;
}

static dt_status_t weigh(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, in[0], 0);
  return NULL;
}

// Plain C, or a library: it sees the numbers, and gives a tensor of another size.
static dt_status_t keep_positive(dt_session_t *session, dt_tensor_t *const *inputs,
                                 uint32_t n_inputs, dt_tensor_t **outputs, uint32_t n_outputs,
                                 void *closure) {
  int64_t n = dt_tensor_count(inputs[0]), kept = 0;
  float scores[64];
  (void)n_inputs, (void)n_outputs, (void)closure;
  dt_status_t status = dt_tensor_read(session, inputs[0], scores, (size_t)n * sizeof *scores);
  for (int64_t k = 0; !status && k < n; k++)
    if (scores[k] > 0)
      scores[kept++] = scores[k];
  if (!status)
    status = dt_tensor_create_empty(DT_F32, 1, &kept, &outputs[0]);
  for (int64_t k = 0; !status && k < kept; k++)
    ((float *)dt_tensor_data(outputs[0]))[k] = scores[k];
  return status;
}

static dt_function_t *function(dt_runtime_t *runtime, const char *name, dt_program_fn_t program) {
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .input_size = sizeof input,
                                         .dim_size = sizeof(dt_dim_decl_t),
                                         .name = name,
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input};
  dt_function_t *made = NULL;
  must(dt_function_create(runtime, program, NULL, &options, &made));
  return made;
}

static dt_chain_t *make_chain(dt_runtime_t *runtime) {
  dt_function_t *first = function(runtime, "score", score);
  dt_function_t *last = function(runtime, "weigh", weigh);
  const dt_chain_source_t x = {0, 0}, scores = {1, 0}, kept = {2, 0}, weights = {3, 0};
  const dt_chain_link_t links[] = {
      {.function = first, .inputs = &x, .n_inputs = 1},
      {.name = "keep", .fn = keep_positive, .inputs = &scores, .n_inputs = 1, .n_outputs = 1},
      {.function = last, .inputs = &kept, .n_inputs = 1},
  };
  const dt_chain_options_t options = {.struct_size = sizeof options,
                                      .name = "router",
                                      .n_inputs = 1,
                                      .n_links = 3,
                                      .n_results = 1,
                                      .link_size = sizeof links[0],
                                      .links = links,
                                      .results = &weights};
  dt_chain_t *chain = NULL;
  must(dt_chain_create(runtime, &options, &chain));
  dt_function_release(first), dt_function_release(last); // the chain has them
  return chain;
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  dt_chain_t *chain = make_chain(runtime);
  must(dt_chain_prepare(chain, NULL)); // compiles both functions
  const float values[] = {0, 1, -1, 0.25f, 2};
  for (int64_t n = 2; n <= 5; n += 3) {
    dt_tensor_t *x = NULL, *weights = NULL;
    must(dt_tensor_create_empty(DT_F32, 1, &n, &x));
    for (int64_t k = 0; k < n; k++)
      ((float *)dt_tensor_data(x))[k] = values[k];
    must(dt_chain_call(session, chain, &x, 1, &weights, 1, NULL));
    printf("%d of %d:", (int)dt_tensor_count(weights), (int)n);
    for (int64_t k = 0; k < dt_tensor_count(weights); k++)
      printf(" %.4f", (double)((float *)dt_tensor_data(weights))[k]);
    printf("\n");
    dt_tensor_release(x), dt_tensor_release(weights);
  }
  dt_chain_release(chain);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}
