// SPDX-License-Identifier: Apache-2.0
// A pattern with two outputs: a residual sum and its norm, written out, become one op, whose C
// kernel makes both in one walk over the rows. docs/passes.md explains it.
#include "ductile/accessor.h"
#include "ductile/ductile.h"
#include "ductile/op.h"
#include "ductile/pattern.h"

#include <math.h>
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
  const double *epsilon = (const double *)closure;
  dt_value_t x = in[0], y = in[0];
  for (int layer = 0; layer < LAYERS; layer++) {
    x = dt_add(t, x, y);
    y = dt_gelu(t, rms_norm(t, x, in[1], *epsilon));
  }
  out[0] = dt_add(t, x, y);
  return NULL;
}

// ---- The op -------------------------------------------------------------------------------------
// a and b of one size, scale: the sum, and its norm by rows.
static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t a = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, a, DT_F32);
  dt_op_set_result_like(call, 1, a, DT_F32);
  dt_op_set_items(call, dt_dim(t, a, 0)); // an item a row: threads share them
  return NULL;
}

static dt_status_t add_norm(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t a = dt_access(args->inputs[0], DT_F32, 2);
  dt_accessor_t b = dt_access(args->inputs[1], DT_F32, 2);
  dt_accessor_t scale = dt_access(args->inputs[2], DT_F32, 1);
  dt_accessor_t sum = dt_access(args->results[0], DT_F32, 2);
  dt_accessor_t norm = dt_access(args->results[1], DT_F32, 2);
  const dt_op_attr_t *epsilon = dt_op_attr(args, "epsilon", DT_OP_ATTR_FLOAT);
  int64_t width = dt_access_size(&a, 1);
  for (int64_t i = begin; i < end; i++) {
    float squares = 0;
    for (int64_t j = 0; j < width; j++) {
      float both = *DT_AT_2(float, &a, i, j) + *DT_AT_2(float, &b, i, j);
      *DT_AT_2(float, &sum, i, j) = both;
      squares += both * both;
    }
    float factor = 1 / sqrtf(squares / (float)width + (float)epsilon->f);
    for (int64_t j = 0; j < width; j++)
      *DT_AT_2(float, &norm, i, j) =
          *DT_AT_2(float, &sum, i, j) * factor * *DT_AT_1(float, &scale, j);
  }
  return dt_access_status(&a, &b, &scale, &sum, &norm, NULL);
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
  dt_op_attr_t epsilon = DT_ZERO;
  epsilon.name = "epsilon";
  epsilon.kind = DT_OP_ATTR_FLOAT;
  (void)closure;
  (void)dt_match_literal(match, "epsilon", &epsilon.f);
  dt_op_call(t, "example.add_norm", 3, in, 1, &epsilon, 2, out);
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
  dt_dim_decl_t dims[2] = DT_ZERO; // equal where named alike
  dims[0].name = "rows", dims[1].name = "width";
  dt_wildcard_t wildcards[4] = DT_ZERO;
  static const char *const names[] = {"a", "b", "scale"};
  for (int k = 0; k < 3; k++) {
    wildcards[k].name = names[k];
    wildcards[k].dtype = DT_F32;
    wildcards[k].ranked = true;
    wildcards[k].rank = k < 2 ? 2 : 1;
    wildcards[k].dims = k < 2 ? dims : &dims[1];
  }
  wildcards[3].name = "epsilon";
  wildcards[3].kind = DT_WILDCARD_LITERAL;
  wildcards[3].accepts = is_small;
  dt_pattern_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "fused_norm";
  options.identity = "fused_norm 1";
  options.n_wildcards = 4;
  options.n_outputs = 2;
  options.wildcard_size = sizeof wildcards[0];
  options.dim_size = sizeof dims[0];
  options.wildcards = wildcards;
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
  dt_dim_decl_t x_dims[2] = DT_ZERO;
  x_dims[0].name = "rows";
  x_dims[1].is_static = true, x_dims[1].value = width;
  dt_input_decl_t inputs[2] = DT_ZERO;
  inputs[0].name = "x", inputs[0].dtype = DT_F32, inputs[0].rank = 2, inputs[0].dims = x_dims;
  inputs[1].name = "scale", inputs[1].dtype = DT_F32, inputs[1].rank = 1,
  inputs[1].dims = &x_dims[1];
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "layers";
  options.n_inputs = 2;
  options.n_outputs = 1;
  options.inputs = inputs;
  options.input_size = sizeof inputs[0];
  options.dim_size = sizeof x_dims[0];
  dt_function_t *function = NULL;
  const int64_t sizes[] = {2, width};
  dt_tensor_t *in[] = {counting(2, sizes), counting(1, &width)}, *out = NULL;
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
  dt_op_options_t op = DT_ZERO;
  op.struct_size = sizeof op;
  op.name = "example.add_norm";
  op.least_inputs = 3;
  op.infer = infer;
  op.kernel = add_norm;
  must(dt_op_register(place.runtime, &op));
  must(dt_runtime_add_pattern(place.runtime, place.pattern));
  call(&place, 8, 1e-5);
  call(&place, 6, 1e-5);
  call(&place, 8, 0.5);
  dt_pattern_release(place.pattern);
  dt_session_destroy(place.session);
  dt_runtime_release(place.runtime);
  return 0;
}
