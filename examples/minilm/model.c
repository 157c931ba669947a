// SPDX-License-Identifier: Apache-2.0
// The model: a BERT encoder of six layers, then the mean over each sentence's tokens.
//
// This is an ordinary C function that runs once, on symbolic tensors. Each call of a dt_ function
// records one operation; `batch` and `length` are symbols, so what is recorded holds for every
// size.
#include "examples/minilm/model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// Numbers that depend on what a dtype can hold.
typedef struct limits_t {
  dt_dtype_t dtype;
  double lowest;      // a score that no softmax sees
  double least_count; // below any number of tokens, above 0
  double least_norm;  // of a vector that has a direction
} limits_t;
static const limits_t all_limits[] = {
    {DT_F32, -FLT_MAX, 1e-9, 1e-12},
    {DT_F16, -65504, 0x1p-14, 0x1p-14},
    {DT_BF16, -0x1.fep127, 1e-9, 1e-12},
};

// What every part of the model needs at hand.
typedef struct model_t {
  dt_trace_t *trace;
  const minilm_weights_t *weights;
  limits_t limits;
  dt_sym_t batch, length;
} model_t;

static limits_t limits_of(dt_dtype_t dtype) {
  size_t i = 0;
  while (all_limits[i].dtype != dtype)
    i++; // weights are of no other dtype
  return all_limits[i];
}

// ---- Small parts --------------------------------------------------------------------------------

static dt_sym_t size(model_t *m, int64_t value) { return dt_sym_const(m->trace, value); }
static dt_value_t number(model_t *m, double value) {
  return dt_scalar(m->trace, m->limits.dtype, value);
}

// The weight "<layer>.<name>.<kind>" as a constant of the function.
static dt_value_t weight(model_t *m, const char *layer, const char *name, const char *kind) {
  char full[96];
  snprintf(full, sizeof full, "%s.%s.%s", layer, name, kind);
  dt_tensor_t *tensor = minilm_weights_find(m->weights, full);
  if (!tensor) {
    char message[128];
    snprintf(message, sizeof message, "the model has no weight %s", full);
    dt_trace_fail(m->trace, DT_E_ARGUMENT, message);
    return (dt_value_t){0};
  }
  return dt_constant(m->trace, full, tensor);
}

// x · Wᵀ + b: the file keeps a weight as [outputs, inputs].
static dt_value_t linear(model_t *m, dt_value_t x, const char *layer, const char *name) {
  dt_value_t transposed = dt_transpose(m->trace, weight(m, layer, name, "weight"), 0, 1);
  dt_value_t product = dt_matmul(m->trace, x, transposed);
  return dt_add(m->trace, product, weight(m, layer, name, "bias"));
}

static dt_value_t layer_norm(model_t *m, dt_value_t x, const char *layer, const char *name) {
  return dt_layer_norm(m->trace, x, weight(m, layer, name, "weight"),
                       weight(m, layer, name, "bias"), 1e-12);
}

// ---- Embeddings ---------------------------------------------------------------------------------

// Row 0 … length-1 of a table.
static dt_value_t first_rows(model_t *m, dt_value_t table, dt_sym_t count) {
  return dt_slice(m->trace, table, 0, size(m, 0), count, 1);
}

// [batch, length] ids → [batch, length, hidden]: what a token is, where it stands, and which of two
// sentences it belongs to (here always the first).
static dt_value_t embed_tokens(model_t *m, dt_value_t ids) {
  dt_value_t words = weight(m, "embeddings", "word_embeddings", "weight");
  dt_value_t positions = weight(m, "embeddings", "position_embeddings", "weight");
  dt_value_t sentences = weight(m, "embeddings", "token_type_embeddings", "weight");
  dt_value_t x = dt_gather(m->trace, words, ids, 0);
  x = dt_add(m->trace, x, first_rows(m, positions, m->length));
  x = dt_add(m->trace, x, first_rows(m, sentences, size(m, 1)));
  return layer_norm(m, x, "embeddings", "LayerNorm");
}

// ---- One layer ----------------------------------------------------------------------------------

// [batch, length, hidden] → [batch, heads, length, hidden / heads]
static dt_value_t split_heads(model_t *m, dt_value_t x) {
  const dt_sym_t sizes[] = {m->batch, m->length, size(m, MINILM_HEADS),
                            size(m, MINILM_HIDDEN / MINILM_HEADS)};
  return dt_transpose(m->trace, dt_reshape(m->trace, x, 4, sizes), 1, 2);
}

// The inverse.
static dt_value_t join_heads(model_t *m, dt_value_t x) {
  const dt_sym_t sizes[] = {m->batch, m->length, size(m, MINILM_HIDDEN)};
  return dt_reshape(m->trace, dt_transpose(m->trace, x, 1, 2), 3, sizes);
}

// Every token looks at every token of its sentence; `mask_bias` keeps it from looking at padding.
static dt_value_t attention(model_t *m, dt_value_t x, dt_value_t mask_bias, const char *layer) {
  dt_value_t query = split_heads(m, linear(m, x, layer, "attention.self.query"));
  dt_value_t key = split_heads(m, linear(m, x, layer, "attention.self.key"));
  dt_value_t value = split_heads(m, linear(m, x, layer, "attention.self.value"));

  dt_value_t scores = dt_matmul(m->trace, query, dt_transpose(m->trace, key, -1, -2));
  scores = dt_mul(m->trace, scores, number(m, 1.0 / sqrt(MINILM_HIDDEN / MINILM_HEADS)));
  scores = dt_add(m->trace, scores, mask_bias);
  dt_value_t context = dt_matmul(m->trace, dt_softmax(m->trace, scores, -1), value);
  return linear(m, join_heads(m, context), layer, "attention.output.dense");
}

static dt_value_t feed_forward(model_t *m, dt_value_t x, const char *layer) {
  dt_value_t inner = dt_gelu(m->trace, linear(m, x, layer, "intermediate.dense"));
  return linear(m, inner, layer, "output.dense");
}

static dt_value_t encoder_layer(model_t *m, dt_value_t x, dt_value_t mask_bias, int index) {
  char layer[32];
  snprintf(layer, sizeof layer, "encoder.layer.%d", index);
  x = dt_add(m->trace, x, attention(m, x, mask_bias, layer));
  x = layer_norm(m, x, layer, "attention.output.LayerNorm");
  x = dt_add(m->trace, x, feed_forward(m, x, layer));
  return layer_norm(m, x, layer, "output.LayerNorm");
}

// ---- Pooling ------------------------------------------------------------------------------------

// [batch, length, hidden] → [batch, hidden]: the mean over the tokens that are not padding.
static dt_value_t mean_over_tokens(model_t *m, dt_value_t x, dt_value_t mask) {
  const int32_t over_length[] = {1};
  dt_value_t keep = dt_unsqueeze(m->trace, dt_cast(m->trace, mask, m->limits.dtype), -1);
  dt_value_t sum = dt_sum(m->trace, dt_mul(m->trace, x, keep), 1, over_length, false);
  dt_value_t count = dt_sum(m->trace, keep, 1, over_length, false);
  return dt_div(m->trace, sum, dt_maximum(m->trace, count, number(m, m->limits.least_count)));
}

static dt_value_t to_unit_length(model_t *m, dt_value_t x) {
  const int32_t over_hidden[] = {-1};
  dt_value_t squares = dt_sum(m->trace, dt_mul(m->trace, x, x), 1, over_hidden, true);
  dt_value_t norm = dt_sqrt(m->trace, squares);
  return dt_div(m->trace, x, dt_maximum(m->trace, norm, number(m, m->limits.least_norm)));
}

// ---- The program --------------------------------------------------------------------------------

// in: ids, mask. out: embeddings. closure: the weights.
static dt_status_t minilm(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  model_t m = {
      .trace = trace, .weights = closure, .limits = limits_of(minilm_weights_dtype(closure))};
  m.batch = dt_dim(trace, in[0], 0);
  m.length = dt_dim(trace, in[0], 1);

  // [batch, 1, 1, length], added to the scores: 0 for a token, the lowest number for padding.
  dt_value_t is_padding = dt_eq(trace, in[1], dt_scalar(trace, DT_I64, 0));
  dt_value_t mask_bias = dt_where(trace, is_padding, number(&m, m.limits.lowest), number(&m, 0));
  mask_bias = dt_unsqueeze(trace, dt_unsqueeze(trace, mask_bias, 1), 1);

  dt_value_t x = embed_tokens(&m, in[0]);
  for (int layer = 0; layer < minilm_weights_layers(closure); layer++)
    x = encoder_layer(&m, x, mask_bias, layer);
  out[0] = dt_cast(trace, to_unit_length(&m, mean_over_tokens(&m, x, in[1])), DT_F32);
  return NULL; // The trace itself remembers what went wrong on the way.
}

dt_status_t minilm_create(dt_runtime_t *runtime, const minilm_weights_t *weights,
                          dt_answer_t answer, dt_function_t **out) {
  const dt_dim_decl_t dims[] = {{.name = "batch"}, {.name = "length", .max = MINILM_POSITIONS}};
  const dt_input_decl_t inputs[] = {
      {.name = "ids", .dtype = DT_I64, .rank = 2, .dims = dims},
      {.name = "mask", .dtype = DT_I64, .rank = 2, .dims = dims},
  };
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "minilm",
                                         .n_inputs = 2,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = sizeof inputs[0],
                                         .dim_size = sizeof dims[0],
                                         .answer = answer};
  return dt_function_create(runtime, minilm, (void *)weights, &options, out);
}
