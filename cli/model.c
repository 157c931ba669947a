// SPDX-License-Identifier: Apache-2.0
// A model, its function and a session to call it in.
#include "cli/model.h"

#include "cli/options.h"
#include "ductile/experimental.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_place_device(const char *text, cli_place_t *out) {
  if (!text)
    return true;
  dt_status_t status = dt_device_parse(text, &out->device, &out->ordinal);
  dt_status_free(status);
  return !status;
}

// ---- Opening --------------------------------------------------------------------------------------
static dt_status_t open_model(cli_model_t *model, dt_runtime_t *runtime, const char *path,
                              const cli_place_t *place) {
  dt_onnx_options_t file = {.struct_size = sizeof(file),
                            .access = place->map ? DT_ONNX_MAP : DT_ONNX_READ,
                            .data_folder = place->data,
                            .deadline_ns = model->end_ns};
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = place->name,
                                 .call_mode = place->mode,
                                 .limit_action = place->limit_action};
  dt_onnx_function_options_t how = {.struct_size = sizeof(how),
                                    .names_are_hints = place->names_are_hints,
                                    .weights = place->bf16_weights ? DT_BF16 : DT_DTYPE_NONE,
                                    .function = &about,
                                    .deadline_ns = model->end_ns};
  dt_session_options_t where = {
      .struct_size = sizeof(where), .device = place->device, .ordinal = place->ordinal};
  dt_status_t status = NULL;
  if (cli_is_package(path)) {
    const dt_package_options_t packed = {.struct_size = sizeof(packed), .folder = place->data};
    status = dt_package_open(runtime, path, &packed, &model->package);
    if (!status)
      status = dt_package_function(model->package, NULL, &about, &model->function);
  } else {
    status = cli_onnx_open(path, &file, &model->bytes, &model->onnx);
    if (!status)
      status = dt_onnx_function_create(runtime, model->onnx, &how, &model->function);
  }
  if (!status)
    status = dt_session_create(runtime, &where, &model->session);
  return status;
}

bool cli_is_package(const char *path) {
  char begin[sizeof(CLI_PACKAGE_BEGINS) - 1];
  FILE *file = fopen(path, "rbe");
  bool is = file && fread(begin, sizeof(begin), 1, file) == 1 &&
            memcmp(begin, CLI_PACKAGE_BEGINS, sizeof(begin)) == 0;
  if (file)
    (void)fclose(file);
  return is;
}

dt_status_t cli_model_open(cli_model_t *model, dt_runtime_t *runtime, const char *path,
                           const cli_place_t *place) {
  *model = (cli_model_t){.end_ns = cli_end_ns(place->deadline)};
  dt_status_t status = open_model(model, runtime, path, place);
  if (status) {
    cli_model_close(model);
    return status;
  }
  model->n_inputs = dt_function_n_inputs(model->function);
  model->n_outputs = dt_function_n_outputs(model->function);
  return NULL;
}

void cli_model_close(cli_model_t *model) {
  dt_session_destroy(model->session);
  dt_function_release(model->function);
  dt_package_release(model->package);
  dt_onnx_close(model->onnx);
  free(model->bytes);
  *model = (cli_model_t){0};
}

// ---- Packages -------------------------------------------------------------------------------------
static dt_status_t take_packed(cli_model_t *model, dt_runtime_t *runtime, const char *path) {
  dt_package_t *package = NULL;
  dt_function_t *packed = NULL;
  const dt_package_options_t copied = {.struct_size = sizeof(copied), .copy = true};
  dt_status_t status = dt_package_open(runtime, path, &copied, &package);
  if (!status)
    status = dt_package_function(package, NULL, NULL, &packed);
  if (!status)
    status = dt_function_freeze(packed, true);
  dt_package_release(package);
  if (status) {
    dt_function_release(packed);
    return status;
  }
  dt_function_release(model->function);
  model->function = packed;
  return NULL;
}

dt_status_t cli_model_pack(cli_model_t *model, dt_runtime_t *runtime, const char *levels) {
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = levels};
  const char *folder = getenv("TMPDIR");
  char path[PATH_MAX];
  (void)snprintf(path, sizeof(path), "%.*s/ductile-XXXXXX", PATH_MAX - 32,
                 folder && folder[0] ? folder : "/tmp");
  int fd = mkstemp(path);
  if (fd < 0)
    return dt_status_make(DT_E_IO, "cannot make a temporary file for a package");
  (void)close(fd);
  dt_status_t status = dt_package_write(path, &model->function, 1, &how);
  if (!status)
    status = take_packed(model, runtime, path);
  (void)unlink(path);
  return status;
}

// ---- Calls ----------------------------------------------------------------------------------------
void cli_release_all(dt_tensor_t **tensors, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_release(tensors[k]);
    tensors[k] = NULL;
  }
}

dt_status_t cli_model_call(const cli_model_t *model, dt_tensor_t *const *inputs,
                           dt_tensor_t **results) {
  for (uint32_t k = 0; k < model->n_outputs; k++)
    results[k] = NULL;
  dt_call_options_t how = {.struct_size = sizeof(how), .deadline_ns = model->end_ns};
  dt_status_t status = dt_call(model->session, model->function, inputs, model->n_inputs, results,
                               model->n_outputs, &how);
  if (!status)
    status = dt_session_wait(model->session);
  if (status)
    cli_release_all(results, model->n_outputs);
  return status;
}

uint64_t cli_model_bytes(const cli_model_t *model, dt_tensor_t *const *results) {
  uint64_t bytes = dt_session_bytes(model->session);
  for (uint32_t k = 0; k < model->n_outputs; k++)
    if (results[k])
      bytes += (uint64_t)dt_tensor_bytes(results[k]);
  return bytes;
}

dt_status_t cli_model_fetch(const cli_model_t *model, const dt_tensor_t *result,
                            dt_tensor_t **out) {
  dt_dtype_t dtype = dt_tensor_dtype(result);
  dt_status_t status =
      dt_tensor_create_empty(dtype, dt_tensor_rank(result), dt_tensor_sizes(result), out);
  if (!status)
    status = dt_tensor_read(model->session, result, dt_tensor_data(*out), dt_tensor_bytes(*out));
  if (status) {
    dt_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

// ---- Names ----------------------------------------------------------------------------------------
// What stands behind "NAME=" in `text`; NULL: `text` does not begin so.
static const char *behind(const char *text, const char *name) {
  size_t len = name ? strlen(name) : 0;
  return name && strncmp(text, name, len) == 0 && text[len] == '=' ? text + len + 1 : NULL;
}

const char *cli_model_input_name(const cli_model_t *model, uint32_t index) {
  const dt_input_decl_t *input = dt_function_input(model->function, index);
  return input && input->name ? input->name : "";
}

const char *cli_model_output_name(const cli_model_t *model, uint32_t index) {
  const dt_output_decl_t *output = dt_function_output(model->function, index);
  return output && output->name ? output->name : "";
}

// Names go before numbers.
static const char *find(const cli_model_t *model, const char *text, uint32_t n,
                        const char *(*name)(const cli_model_t *model, uint32_t index),
                        uint32_t *out_index) {
  const char *at = text;
  int64_t number = 0;
  for (uint32_t k = 0; k < n; k++) {
    const char *value = name(model, k)[0] ? behind(text, name(model, k)) : NULL;
    if (value) {
      *out_index = k;
      return value;
    }
  }
  if (!cli_read_count(&at, "=", 0, (int64_t)n - 1, &number) || *at != '=')
    return NULL;
  *out_index = (uint32_t)number;
  return at + 1;
}

const char *cli_model_input(const cli_model_t *model, const char *text, uint32_t *out_index) {
  return find(model, text, model->n_inputs, cli_model_input_name, out_index);
}

const char *cli_model_output(const cli_model_t *model, const char *text, uint32_t *out_index) {
  return find(model, text, model->n_outputs, cli_model_output_name, out_index);
}

void cli_sizes_text(const dt_tensor_t *tensor, char out[CLI_SIZES_TEXT]) {
  size_t len = 0;
  for (uint32_t d = 0; d < dt_tensor_rank(tensor); d++)
    len += (size_t)snprintf(out + len, CLI_SIZES_TEXT - len, "%s%lld", d > 0 ? "x" : "",
                            (long long)dt_tensor_sizes(tensor)[d]);
  (void)snprintf(out + len, CLI_SIZES_TEXT - len, "%s%s", len > 0 ? " " : "",
                 dt_dtype_name(dt_tensor_dtype(tensor)));
}
