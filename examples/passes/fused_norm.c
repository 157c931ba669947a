// SPDX-License-Identifier: Apache-2.0
// A pattern with two outputs: a residual sum and its norm, written out, become one op for the norm
// beside the sum. docs/passes.md explains it.
#include "ductile/ductile.h"
#include "ductile/pattern.h"

#include <stdio.h>
#include <stdlib.h>

#define LAYERS 3

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- The program --------------------------------------------------------------------------------
static dt_value_t rms_norm(dt_trace_t *t, dt_value_t x, dt_value_t scale, double epsilon) {
  const int32_t last = -1;
  dt_value_t mean = dt_mean(t, dt_mul(t, x, x), 1, &last, true);
  dt_value_t factor = dt_rsqrt(t, dt_add(t, mean, dt_scalar(t, DT_F32, epsilon)));
  return dt_mul(t, dt_mul(t, x, factor), scale);
}

// Layers of x = x + y; y = gelu(norm(x)). A large epsilon is no norm that the pattern wants.
static dt_status_t layers(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const double *epsilon = closure;
  dt_value_t x = in[0], y = in[0];
  for (int layer = 0; layer < LAYERS; layer++) {
    x = dt_add(t, x, y);
    y = dt_gelu(t, rms_norm(t, x, in[1], *epsilon));
  }
  out[0] = dt_add(t, x, y);
  return NULL;
}

// ---- The pattern --------------------------------------------------------------------------------
// What to look for: out[0] is the sum, out[1] its norm. in[3] is any number.
static dt_status_t sum_and_norm(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *c) {
  const int32_t last = -1;
  (void)c;
  out[0] = dt_add(t, in[0], in[1]);
  dt_value_t mean = dt_mean(t, dt_mul(t, out[0], out[0]), 1, &last, true);
  dt_value_t factor = dt_rsqrt(t, dt_add(t, mean, in[3]));
  out[1] = dt_mul(t, dt_mul(t, out[0], factor), in[2]);
  return NULL;
}

// What to put in its place.
static dt_status_t fused(dt_match_t *match, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                         void *closure) {
  double epsilon = 0;
  (void)closure;
  (void)dt_match_literal(match, "epsilon", &epsilon);
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_rms_norm(t, out[0], in[2], epsilon);
  return NULL;
}

// Rows must be known to be full vectors.
static const char *check(dt_match_t *match, void *closure) {
  dt_trace_t *t = dt_rewriter_trace(dt_match_rewriter(match));
  dt_sym_t width, zero = dt_sym_const(t, 0);
  bool is = false;
  (void)closure;
  if (!dt_match_size(match, "width", &width))
    return "no width";
  dt_sym_t rest = dt_sym_mod(t, width, dt_sym_const(t, 4));
  return dt_sym_known(t, dt_sym_eq(t, rest, zero), &is) && is ? NULL : "width is no multiple of 4";
}

static bool is_small(double number, void *closure) {
  (void)closure;
  return number <= 1e-3;
}

static dt_pattern_t *make_pattern(void) {
  const dt_dim_decl_t width = {.name = "width"};
  const dt_wildcard_t wildcards[] = {
      {.name = "a"},
      {.name = "b", .same_dtype = "a"},
      {.name = "scale", .same_dtype = "a", .ranked = true, .rank = 1, .dims = &width},
      {.name = "epsilon", .kind = DT_WILDCARD_LITERAL, .accepts = is_small},
  };
  const dt_pattern_options_t options = {.struct_size = sizeof options,
                                        .name = "fused_norm",
                                        .identity = "fused_norm 1",
                                        .n_wildcards = 4,
                                        .n_outputs = 2,
                                        .wildcard_size = sizeof wildcards[0],
                                        .dim_size = sizeof width,
                                        .wildcards = wildcards};
  dt_pattern_t *pattern = NULL;
  must(dt_pattern_create(sum_and_norm, fused, check, NULL, &options, &pattern));
  return pattern;
}

// ---- Calls --------------------------------------------------------------------------------------
typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_pattern_t *pattern;
} place_t;

static dt_tensor_t *counting(uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  must(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
    ((float *)dt_tensor_data(tensor))[k] = (float)(k % 5) - 1;
  return tensor;
}

// Where the pattern does not match, it says why.
static void call(const place_t *place, int64_t width, double epsilon) {
  const dt_dim_decl_t x_dims[] = {{.name = "rows"}, {.is_static = true, .value = width}};
  const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = x_dims},
      {.name = "scale", .dtype = DT_F32, .rank = 1, .dims = &x_dims[1]}};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "layers",
                                         .n_inputs = 2,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = sizeof inputs[0],
                                         .dim_size = sizeof x_dims[0]};
  dt_function_t *function = NULL;
  dt_tensor_t *in[] = {counting(2, (const int64_t[]){2, width}), counting(1, &width)}, *out = NULL;
  uint64_t before = dt_pattern_count(place->pattern);
  must(dt_function_create(place->runtime, layers, &epsilon, &options, &function));
  must(dt_call(place->session, function, in, 2, &out, 1, NULL));
  uint64_t replaced = dt_pattern_count(place->pattern) - before;
  printf("width %d, epsilon %g: first %.3f, replaced %d\n", (int)width, epsilon,
         (double)((const float *)dt_tensor_data(out))[0], (int)replaced);
  if (!replaced) {
    char *why = NULL;
    must(dt_pattern_explain_function(place->pattern, function, in, 2, &why));
    printf("%s", why);
    dt_text_free(why);
  }
  dt_function_release(function);
  dt_tensor_release(in[0]);
  dt_tensor_release(in[1]);
  dt_tensor_release(out);
}

int main(void) {
  place_t place = {NULL, NULL, make_pattern()};
  must(dt_runtime_create(NULL, &place.runtime));
  must(dt_session_create(place.runtime, NULL, &place.session));
  must(dt_runtime_add_pattern(place.runtime, place.pattern));
  call(&place, 8, 1e-5);
  call(&place, 6, 1e-5);
  call(&place, 8, 0.5);
  dt_pattern_release(place.pattern);
  dt_session_destroy(place.session);
  dt_runtime_release(place.runtime);
  return 0;
}
