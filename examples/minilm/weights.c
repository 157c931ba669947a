// SPDX-License-Identifier: Apache-2.0
// Lists the tensors that the model reads and gets each one, from the file or from a seed.
#include "examples/minilm/weights.h"

#include "ductile/safetensors.h"
#include "examples/minilm/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 80

// What the model reads. A %d in a name is the layer.
static const struct {
  const char *name;
  int64_t sizes[2]; // the second is 0 for a vector
} rows[] = {
    {"embeddings.word_embeddings.weight", {MINILM_VOCAB, MINILM_HIDDEN}},
    {"embeddings.position_embeddings.weight", {MINILM_POSITIONS, MINILM_HIDDEN}},
    {"embeddings.token_type_embeddings.weight", {2, MINILM_HIDDEN}},
    {"embeddings.LayerNorm.weight", {MINILM_HIDDEN, 0}},
    {"embeddings.LayerNorm.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.self.query.weight", {MINILM_HIDDEN, MINILM_HIDDEN}},
    {"encoder.layer.%d.attention.self.query.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.self.key.weight", {MINILM_HIDDEN, MINILM_HIDDEN}},
    {"encoder.layer.%d.attention.self.key.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.self.value.weight", {MINILM_HIDDEN, MINILM_HIDDEN}},
    {"encoder.layer.%d.attention.self.value.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.output.dense.weight", {MINILM_HIDDEN, MINILM_HIDDEN}},
    {"encoder.layer.%d.attention.output.dense.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.output.LayerNorm.weight", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.attention.output.LayerNorm.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.intermediate.dense.weight", {MINILM_INNER, MINILM_HIDDEN}},
    {"encoder.layer.%d.intermediate.dense.bias", {MINILM_INNER, 0}},
    {"encoder.layer.%d.output.dense.weight", {MINILM_HIDDEN, MINILM_INNER}},
    {"encoder.layer.%d.output.dense.bias", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.output.LayerNorm.weight", {MINILM_HIDDEN, 0}},
    {"encoder.layer.%d.output.LayerNorm.bias", {MINILM_HIDDEN, 0}},
};
enum { ROWS = sizeof rows / sizeof rows[0], MAX_WEIGHTS = ROWS * MINILM_LAYERS };

struct minilm_weights {
  minilm_config_t config; // without zeros
  dt_safetensors_t *file; // holds the data of tensors that were not copied; NULL when seeded
  int count;
  struct {
    char name[NAME_BYTES];
    dt_tensor_t *tensor; // owner
  } items[MAX_WEIGHTS];
};

// The caller's room for a reason.
typedef struct error_t {
  char *text;
  size_t bytes;
} error_t;

// Gets a weight of a name and sizes. False on failure, with the reason in `error`.
typedef bool (*get_t)(minilm_weights_t *weights, const char *name, uint32_t rank,
                      const int64_t *sizes, dt_tensor_t **out, error_t error);

// True for success; else frees the status after taking its message.
static bool check(dt_status_t status, error_t error) {
  if (!status)
    return true;
  snprintf(error.text, error.bytes, "%s", dt_status_message(status));
  dt_status_free(status);
  return false;
}

// A tensor like `from`, which it takes, in the dtype of the configuration.
static bool convert(const minilm_weights_t *weights, dt_tensor_t *from, dt_tensor_t **out,
                    error_t error) {
  dt_dtype_t dtype = weights->config.dtype;
  if (dt_tensor_dtype(from) == dtype) {
    *out = from;
    return true;
  }
  bool good =
      check(dt_tensor_create_empty(dtype, dt_tensor_rank(from), dt_tensor_sizes(from), out), error);
  if (good)
    convert_floats(dt_tensor_data(from), dt_tensor_dtype(from), dt_tensor_data(*out), dtype,
                   dt_tensor_count(from));
  dt_tensor_release(from);
  return good;
}

static bool get_all(minilm_weights_t *weights, get_t get, error_t error) {
  for (int row = 0; row < ROWS; row++) {
    const char *pattern = rows[row].name, *hole = strstr(pattern, "%d");
    uint32_t rank = rows[row].sizes[1] ? 2 : 1;
    for (int layer = 0; layer < (hole ? weights->config.layers : 1); layer++) {
      char *name = weights->items[weights->count].name;
      if (hole)
        snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(hole - pattern), pattern, layer, hole + 2);
      else
        snprintf(name, NAME_BYTES, "%s", pattern);
      dt_tensor_t **tensor = &weights->items[weights->count].tensor;
      if (!get(weights, name, rank, rows[row].sizes, tensor, error))
        return false;
      weights->count++;
    }
  }
  return true;
}

// ---- From a file --------------------------------------------------------------------------------

static bool is_float(dt_dtype_t dtype) {
  return dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16;
}

// The file's own elements: borrowed where they are aligned, which they are in the files that are
// about.
static bool open_in_file(minilm_weights_t *weights, const char *name,
                         const dt_safetensors_info_t *info, dt_tensor_t **out, error_t error) {
  const dt_tensor_desc_t desc = {.struct_size = sizeof desc,
                                 .dtype = info->dtype,
                                 .rank = info->rank,
                                 .sizes = info->sizes,
                                 .data = (void *)info->data};
  if (info->aligned)
    return check(dt_tensor_create(&desc, out), error);
  return check(dt_tensor_create_empty(info->dtype, info->rank, info->sizes, out), error) &&
         check(dt_safetensors_copy(weights->file, name, dt_tensor_data(*out), info->bytes), error);
}

static bool get_from_file(minilm_weights_t *weights, const char *name, uint32_t rank,
                          const int64_t *sizes, dt_tensor_t **out, error_t error) {
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  if (!check(dt_safetensors_find(weights->file, name, &info), error))
    return false;
  if (!is_float(info.dtype) || info.rank != rank ||
      memcmp(info.sizes, sizes, rank * sizeof sizes[0]) != 0) {
    snprintf(error.text, error.bytes, "tensor \"%s\" is not that of all-MiniLM-L6-v2", name);
    return false;
  }
  dt_tensor_t *own = NULL;
  if (open_in_file(weights, name, &info, &own, error))
    return convert(weights, own, out, error);
  dt_tensor_release(own);
  return false;
}

// ---- From a seed --------------------------------------------------------------------------------

static uint64_t mix(uint64_t z) { // the output function of splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Uniform numbers of about the size that trained weights have; tools/minilm/reference.py makes the
// same ones.
static bool get_from_seed(minilm_weights_t *weights, const char *name, uint32_t rank,
                          const int64_t *sizes, dt_tensor_t **out, error_t error) {
  dt_tensor_t *made = NULL;
  if (!check(dt_tensor_create_empty(DT_F32, rank, sizes, &made), error))
    return false;
  uint64_t seed = 0xcbf29ce484222325u;
  for (const char *at = name; *at; at++)
    seed = (seed ^ (unsigned char)*at) * 0x100000001b3u;
  bool norm_scale = strstr(name, "LayerNorm.weight") != NULL;
  double scale = norm_scale ? 0.1 : 0.0625, offset = norm_scale ? 1.0 : 0.0;
  float *data = dt_tensor_data(made);
  int64_t count = dt_tensor_count(made);
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = mix(seed + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u) >> 40;
    data[i] = (float)(offset + scale * ((double)bits * 0x1p-23 - 1.0));
  }
  return convert(weights, made, out, error);
}

// ---- Both ---------------------------------------------------------------------------------------

// False for a configuration that means nothing, with the reason in `error`.
static bool configure(const minilm_config_t *config, minilm_config_t *out, error_t error) {
  if (config)
    *out = *config;
  if (!out->dtype)
    out->dtype = DT_F32;
  if (!out->layers)
    out->layers = MINILM_LAYERS;
  if (is_float(out->dtype) && out->layers > 0 && out->layers <= MINILM_LAYERS)
    return true;
  snprintf(error.text, error.bytes, "no such model: dtype %s, %d layers", dt_dtype_name(out->dtype),
           out->layers);
  return false;
}

static minilm_weights_t *make(const char *path, const minilm_config_t *config, error_t error) {
  minilm_weights_t *weights = calloc(1, sizeof *weights);
  if (!weights) {
    snprintf(error.text, error.bytes, "out of memory");
    return NULL;
  }
  // Mapped: of the word embeddings, half the file, only the rows in use are ever loaded.
  const dt_safetensors_options_t options = {.struct_size = sizeof options,
                                            .access = DT_SAFETENSORS_MAP};
  bool good = configure(config, &weights->config, error);
  if (good && path)
    good = check(dt_safetensors_open(path, &options, &weights->file), error);
  good = good && get_all(weights, path ? get_from_file : get_from_seed, error);
  if (good)
    return weights;
  minilm_weights_free(weights);
  return NULL;
}

minilm_weights_t *minilm_weights_load(const char *dir, const minilm_config_t *config, char *error,
                                      size_t error_bytes) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/model.safetensors", dir) >= (int)sizeof path) {
    snprintf(error, error_bytes, "the folder's name is too long");
    return NULL;
  }
  return make(path, config, (error_t){error, error_bytes});
}

minilm_weights_t *minilm_weights_seeded(const minilm_config_t *config, char *error,
                                        size_t error_bytes) {
  return make(NULL, config, (error_t){error, error_bytes});
}

void minilm_weights_free(minilm_weights_t *weights) {
  if (!weights)
    return;
  // One past the last counted may hold a tensor whose filling failed.
  for (int i = 0; i < MAX_WEIGHTS; i++)
    dt_tensor_release(weights->items[i].tensor);
  dt_safetensors_close(weights->file);
  free(weights);
}

dt_tensor_t *minilm_weights_find(const minilm_weights_t *weights, const char *name) {
  for (int i = 0; i < weights->count; i++)
    if (strcmp(weights->items[i].name, name) == 0)
      return weights->items[i].tensor;
  return NULL;
}

dt_dtype_t minilm_weights_dtype(const minilm_weights_t *weights) { return weights->config.dtype; }
int minilm_weights_layers(const minilm_weights_t *weights) { return weights->config.layers; }
