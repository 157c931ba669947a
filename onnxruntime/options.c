// SPDX-License-Identifier: Apache-2.0
// Options of sessions: entries of their configuration, as provider options become.
#include "onnxruntime/provider.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define PREFIX "ep.ductileexecutionprovider."

// NULL: good.
typedef const char *(*read_fn_t)(ep_options_t *options, const char *value);

static const char *read_count(const char *value, uint32_t *out) {
  char *end = NULL;
  errno = 0;
  unsigned long count = strtoul(value, &end, 10);
  if (!isdigit((unsigned char)value[0]) || *end || errno || count > 4096)
    return "expected a number up to 4096";
  *out = (uint32_t)count;
  return NULL;
}

static const char *read_flag(const char *value, bool *out) {
  bool yes = strcmp(value, "1") == 0;
  if (!yes && strcmp(value, "0") != 0)
    return "expected 0 or 1";
  *out = yes;
  return NULL;
}

static const char *read_threads(ep_options_t *options, const char *value) {
  options->threads = 0;
  if (strcmp(value, "session") == 0)
    return NULL;
  return read_count(value, &options->threads) || options->threads == 0
             ? "expected \"session\" or a number from 1 to 4096"
             : NULL;
}

static const char *read_min_nodes(ep_options_t *options, const char *value) {
  return read_count(value, &options->min_nodes);
}

static const char *read_strict(ep_options_t *options, const char *value) {
  return read_flag(value, &options->strict);
}

static const char *read_hints(ep_options_t *options, const char *value) {
  return read_flag(value, &options->names_are_hints);
}

static const char *read_strict_fp(ep_options_t *options, const char *value) {
  return read_flag(value, &options->strict_fp);
}

static const char *read_weights(ep_options_t *options, const char *value) {
  bool bf16 = strcmp(value, "bf16") == 0;
  options->weights = bf16 ? DT_BF16 : DT_DTYPE_NONE;
  return bf16 || !value[0] ? NULL : "expected \"bf16\" or nothing";
}

static const char *read_prepare(ep_options_t *options, const char *value) {
  static const char *const words[] = {"best", "first", "none"};
  for (uint32_t k = 0; k < 3; k++)
    if (strcmp(value, words[k]) == 0) {
      options->prepare = k;
      return NULL;
    }
  return "expected \"best\", \"first\" or \"none\"";
}

static const char *read_dims(ep_options_t *options, const char *value) {
  dt_dim_decl_t dims[EP_MOST_DIMS];
  uint32_t n = 0;
  if (strlen(value) >= sizeof(options->dims))
    return "longer than 511 bytes";
  memcpy(options->dims, value, strlen(value) + 1);
  char text[sizeof(options->dims)];
  return ep_dims_read(options->dims, text, dims, &n)
             ? NULL
             : "expected NAME=SIZE or NAME=LEAST:MOST, with commas between, at most 32";
}

static const struct {
  const char *key;
  read_fn_t read;
} keys[] = {
    {"dims", read_dims},       {"min_nodes", read_min_nodes}, {"names_are_hints", read_hints},
    {"prepare", read_prepare}, {"strict", read_strict},       {"strict_fp", read_strict_fp},
    {"threads", read_threads}, {"weights", read_weights},
};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static ort_status_t *read_entry(const ort_api_t *api, const char *key, const char *value,
                                ep_options_t *out) {
  for (size_t k = 0; k < N_KEYS; k++) {
    if (strcmp(keys[k].key, key) != 0)
      continue;
    const char *wrong = keys[k].read(out, value);
    return wrong ? ep_fail(api, ORT_INVALID_ARGUMENT, "Ductile: option %s is \"%.200s\": %s", key,
                           value, wrong)
                 : NULL;
  }
  return ep_fail(api, ORT_INVALID_ARGUMENT,
                 "Ductile: no option \"%.200s\": there are dims, min_nodes, names_are_hints, "
                 "prepare, strict, strict_fp, threads and weights",
                 key);
}

ort_status_t *ep_options_read(const ort_api_t *api, const ort_options_t *from, ep_options_t *out) {
  ort_pairs_t *pairs = NULL;
  const char *const *names = NULL, *const *values = NULL;
  size_t n = 0;
  ort_status_t *status = NULL;
  *out = (ep_options_t){.min_nodes = 4};
  EP_TRY(api->GetSessionOptionsConfigEntries(from, &pairs));
  api->GetKeyValuePairs(pairs, &names, &values, &n);
  for (size_t k = 0; k < n && !status; k++)
    if (strncmp(names[k], PREFIX, strlen(PREFIX)) == 0)
      status = read_entry(api, names[k] + strlen(PREFIX), values[k], out);
  api->ReleaseKeyValuePairs(pairs);
  return status;
}

// ---- Dims -------------------------------------------------------------------------------------------
static bool read_size(const char *text, int64_t *out) {
  char *end = NULL;
  errno = 0;
  long long size = strtoll(text, &end, 10);
  *out = size;
  return isdigit((unsigned char)text[0]) && !*end && !errno;
}

// "64", "1:64", ":64", "1:".
static bool read_bounds(char *text, dt_dim_decl_t *out) {
  char *colon = strchr(text, ':');
  if (!colon) {
    out->is_static = true;
    return read_size(text, &out->value);
  }
  *colon = '\0';
  return (!text[0] || read_size(text, &out->min)) && (!colon[1] || read_size(colon + 1, &out->max));
}

bool ep_dims_read(const char *from, char *text, dt_dim_decl_t *out, uint32_t *out_n) {
  *out_n = 0;
  memcpy(text, from, strlen(from) + 1);
  for (char *at = text; *at;) {
    char *end = at + strcspn(at, ","), *next = *end ? end + 1 : end;
    *end = '\0';
    char *sign = strchr(at, '=');
    if (!sign || sign == at || *out_n == EP_MOST_DIMS)
      return false;
    *sign = '\0';
    dt_dim_decl_t *dim = &out[(*out_n)++];
    *dim = (dt_dim_decl_t){.name = at};
    if (!read_bounds(sign + 1, dim))
      return false;
    at = next;
  }
  return true;
}

static bool has_dim(const dt_onnx_t *model, const char *name) {
  for (uint32_t k = 0; k < dt_onnx_n_inputs(model); k++) {
    const dt_spec_t *spec = dt_onnx_input(model, k);
    for (uint32_t i = 0; i < spec->rank; i++)
      if (strcmp(spec->dims[i], name) == 0)
        return true;
  }
  return false;
}

ort_status_t *ep_function_options(const ep_t *ep, const dt_onnx_t *model, ep_function_t *out) {
  uint32_t n = 0, kept = 0;
  *out = (ep_function_t){0};
  if (!ep_dims_read(ep->options.dims, out->text, out->dims, &n))
    return ep_fail(ep->api, ORT_INVALID_ARGUMENT, "Ductile: option dims");
  // A part has some of the model's dims.
  for (uint32_t k = 0; k < n; k++)
    if (has_dim(model, out->dims[k].name))
      out->dims[kept++] = out->dims[k];
  out->function = (dt_function_options_t){.struct_size = sizeof(out->function),
                                          .strict_fp = ep->options.strict_fp};
  out->all = (dt_onnx_function_options_t){.struct_size = sizeof(out->all),
                                          .dims = kept ? out->dims : NULL,
                                          .n_dims = kept,
                                          .dim_size = sizeof(dt_dim_decl_t),
                                          .names_are_hints = ep->options.names_are_hints,
                                          .function = &out->function,
                                          .weights = ep->options.weights};
  return NULL;
}
