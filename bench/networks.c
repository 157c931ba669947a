// SPDX-License-Identifier: Apache-2.0
// See networks.h.
#include "bench/networks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, HEAD = 64 }; // a name's, and channels of an attention head

typedef struct model_t {
  dt_trace_t *trace;
  const network_t *network;
} model_t;

static dt_sym_t size(model_t *m, int64_t value) { return dt_sym_const(m->trace, value); }

// ---- Weights ------------------------------------------------------------------------------------

// The file's own elements, which are aligned there.
static dt_status_t open_weight(const network_t *network, const char *name, uint32_t rank,
                               const int64_t *sizes, dt_tensor_t **out, char why[2 * NAME_BYTES]) {
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  dt_status_t status = dt_safetensors_find(network->weights, name, &info);
  if (status)
    return status;
  if (info.dtype != DT_F16 || info.rank != rank || !info.aligned ||
      memcmp(info.sizes, sizes, rank * sizeof(sizes[0])) != 0) {
    (void)snprintf(why, 2 * NAME_BYTES, "%s of %s's file has another dtype or other sizes", name,
                   network->name);
    return NULL;
  }
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_F16,
                                 .rank = rank,
                                 .sizes = sizes,
                                 .data = (void *)info.data};
  return dt_tensor_create(&desc, out);
}

// "<layer>.<kind>" of the file, as a constant of the function.
static dt_value_t weight(model_t *m, const char *layer, const char *kind, uint32_t rank,
                         const int64_t *sizes) {
  char name[NAME_BYTES], why[2 * NAME_BYTES] = "";
  dt_tensor_t *tensor = NULL;
  dt_value_t value = {0};
  (void)snprintf(name, sizeof(name), "%s.%s", layer, kind);
  dt_status_t status = open_weight(m->network, name, rank, sizes, &tensor, why);
  if (tensor)
    value = dt_constant(m->trace, name, tensor);
  else
    dt_trace_fail(m->trace, status ? dt_status_code(status) : DT_E_SHAPE,
                  status ? dt_status_message(status) : why);
  dt_status_free(status);
  dt_tensor_release(tensor);
  return value;
}

// x · Wᵀ + b: the file keeps a weight as [outputs, inputs].
static dt_value_t linear(model_t *m, dt_value_t x, const char *layer, int64_t inputs,
                         int64_t outputs) {
  dt_value_t w = weight(m, layer, "weight", 2, (const int64_t[]){outputs, inputs});
  dt_value_t product = dt_matmul(m->trace, x, dt_transpose(m->trace, w, 0, 1));
  return dt_add(m->trace, product, weight(m, layer, "bias", 1, &outputs));
}

// ---- ResNet50 -----------------------------------------------------------------------------------

static void make_windows(model_t *m, int64_t kernel, int64_t stride, int64_t padding,
                         dt_window_t out[2]) {
  for (int d = 0; d < 2; d++)
    out[d] = (dt_window_t){.size = kernel ? size(m, kernel) : (dt_sym_t){0},
                           .stride = size(m, stride),
                           .low = size(m, padding),
                           .high = size(m, padding)};
}

typedef struct conv_t {
  int64_t inputs, outputs, kernel, stride;
} conv_t;

// With padding so that only the stride makes it smaller, and the bias.
static dt_value_t convolve(model_t *m, dt_value_t x, const char *layer, conv_t c) {
  dt_window_t windows[2];
  make_windows(m, 0, c.stride, c.kernel / 2, windows);
  dt_value_t w =
      weight(m, layer, "weight", 4, (const int64_t[]){c.outputs, c.inputs, c.kernel, c.kernel});
  dt_value_t bias = weight(m, layer, "bias", 1, &c.outputs);
  bias = dt_unsqueeze(m->trace, dt_unsqueeze(m->trace, bias, -1), -1);
  return dt_add(m->trace, dt_conv(m->trace, x, w, windows, 1), bias);
}

// A bottleneck: x has `inputs` channels, the result four times those of the inside.
static dt_value_t bottleneck(model_t *m, dt_value_t x, const char *block, int64_t inputs,
                             int64_t inside, int64_t stride) {
  char names[4][NAME_BYTES];
  for (int i = 0; i < 3; i++)
    (void)snprintf(names[i], sizeof(names[i]), "%s.conv%d", block, i + 1);
  (void)snprintf(names[3], sizeof(names[3]), "%s.downsample", block);
  int64_t outputs = 4 * inside;
  dt_value_t y = dt_relu(m->trace, convolve(m, x, names[0], (conv_t){inputs, inside, 1, 1}));
  y = dt_relu(m->trace, convolve(m, y, names[1], (conv_t){inside, inside, 3, stride}));
  y = convolve(m, y, names[2], (conv_t){inside, outputs, 1, 1});
  if (stride > 1 || inputs != outputs)
    x = convolve(m, x, names[3], (conv_t){inputs, outputs, 1, stride});
  return dt_relu(m->trace, dt_add(m->trace, y, x));
}

static dt_status_t resnet(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  model_t m = {.trace = trace, .network = closure};
  const resnet_t *sizes = &m.network->resnet;
  int64_t channels = sizes->width, inside = sizes->width;
  dt_window_t windows[2];
  make_windows(&m, 3, 2, 1, windows);
  dt_value_t x = dt_relu(trace, convolve(&m, in[0], "conv1", (conv_t){3, channels, 7, 2}));
  x = dt_max_pool(trace, x, windows, 0, NULL);
  for (int stage = 0; stage < RESNET_STAGES; stage++, inside *= 2) {
    for (int i = 0; i < sizes->blocks[stage]; i++) {
      char name[NAME_BYTES / 2];
      (void)snprintf(name, sizeof(name), "layer%d.%d", stage + 1, i);
      x = bottleneck(&m, x, name, channels, inside, stage && !i ? 2 : 1);
      channels = 4 * inside;
    }
  }
  x = dt_mean(trace, x, 2, (const int32_t[]){2, 3}, false);
  out[0] = linear(&m, x, "fc", channels, sizes->classes);
  return NULL; // The trace itself remembers what went wrong on the way.
}

// ---- BERT ---------------------------------------------------------------------------------------

static dt_value_t layer_norm(model_t *m, dt_value_t x, const char *layer) {
  const int64_t *hidden = &m->network->bert.hidden;
  return dt_layer_norm(m->trace, x, weight(m, layer, "weight", 1, hidden),
                       weight(m, layer, "bias", 1, hidden), 1e-5);
}

// [batch, length, hidden] → [batch, heads, length, hidden / heads]
static dt_value_t split_heads(model_t *m, dt_value_t x) {
  const dt_sym_t sizes[] = {dt_dim(m->trace, x, 0), dt_dim(m->trace, x, 1),
                            size(m, m->network->bert.hidden / HEAD), size(m, HEAD)};
  return dt_transpose(m->trace, dt_reshape(m->trace, x, 4, sizes), 1, 2);
}

// The name of a part of a layer.
typedef struct part_t {
  char text[NAME_BYTES / 2];
} part_t;

static const char *part(int layer, const char *name, part_t *out) {
  (void)snprintf(out->text, sizeof(out->text), "layers.%d.%s", layer, name);
  return out->text;
}

static dt_value_t attention(model_t *m, dt_value_t x, int layer) {
  dt_trace_t *t = m->trace;
  int64_t hidden = m->network->bert.hidden;
  part_t p;
  dt_value_t query = split_heads(m, linear(m, x, part(layer, "query", &p), hidden, hidden));
  dt_value_t key = split_heads(m, linear(m, x, part(layer, "key", &p), hidden, hidden));
  dt_value_t value = split_heads(m, linear(m, x, part(layer, "value", &p), hidden, hidden));
  dt_value_t scores = dt_matmul(t, query, dt_transpose(t, key, -1, -2));
  scores = dt_mul(t, scores, dt_scalar(t, DT_F16, 1 / sqrt(HEAD)));
  dt_value_t context = dt_transpose(t, dt_matmul(t, dt_softmax(t, scores, -1), value), 1, 2);
  const dt_sym_t sizes[] = {dt_dim(t, x, 0), dt_dim(t, x, 1), size(m, hidden)};
  return linear(m, dt_reshape(t, context, 3, sizes), part(layer, "dense", &p), hidden, hidden);
}

static dt_status_t bert(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  model_t m = {.trace = trace, .network = closure};
  const bert_t *sizes = &m.network->bert;
  dt_value_t x = in[0];
  part_t p;
  for (int layer = 0; layer < sizes->layers; layer++) {
    x = dt_add(trace, x, attention(&m, x, layer));
    x = layer_norm(&m, x, part(layer, "norm_1", &p));
    dt_value_t y = linear(&m, x, part(layer, "inner", &p), sizes->hidden, sizes->inner);
    y = linear(&m, dt_gelu(trace, y), part(layer, "outer", &p), sizes->inner, sizes->hidden);
    x = layer_norm(&m, dt_add(trace, x, y), part(layer, "norm_2", &p));
  }
  out[0] = x;
  return NULL;
}

// ---- Functions ----------------------------------------------------------------------------------

static dt_status_t create(dt_runtime_t *runtime, network_t *network, dt_program_fn_t program,
                          const dt_dim_decl_t *dims, dt_call_mode_t mode, dt_function_t **out) {
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F16, .rank = network->rank, .dims = dims};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = network->name,
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .input_size = sizeof(input),
                                         .dim_size = sizeof(dims[0]),
                                         .call_mode = mode};
  return dt_function_create(runtime, program, network, &options, out);
}

dt_status_t resnet_create(dt_runtime_t *runtime, network_t *network, dt_call_mode_t mode,
                          dt_function_t **out) {
  const dt_dim_decl_t dims[4] = {{.name = "batch"},
                                 {.name = "channels", .is_static = true, .value = 3},
                                 {.name = "height"},
                                 {.name = "width"}};
  return create(runtime, network, resnet, dims, mode, out);
}

dt_status_t bert_create(dt_runtime_t *runtime, network_t *network, dt_call_mode_t mode,
                        dt_function_t **out) {
  const dt_dim_decl_t dims[3] = {
      {.name = "batch"},
      {.name = "length"},
      {.name = "hidden", .is_static = true, .value = network->bert.hidden}};
  return create(runtime, network, bert, dims, mode, out);
}
