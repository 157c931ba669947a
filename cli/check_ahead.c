// SPDX-License-Identifier: Apache-2.0
// What the library says of results before a call, beside what the call gives; and results in
// buffers that are larger than they.
#include "cli/check.h"
#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>

// Bytes more than a result has, and what they hold, which nobody may write.
#define SPARE 192u
#define MARK 0xa5u

// ---- Sizes of this call ---------------------------------------------------------------------------
static dt_status_t ask(const cli_model_t *model, dt_tensor_t *const *inputs,
                       dt_output_shape_t *shapes) {
  return dt_function_output_sizes(model->session, model->function, inputs, model->n_inputs, shapes,
                                  sizeof(*shapes), model->n_outputs);
}

static bool told(dt_status_t status, char reason[CLI_MESSAGE]) {
  bool good =
      !status || cli_wrong(reason, "sizes of results ahead: %.900s", dt_status_message(status));
  dt_status_free(status);
  return good;
}

static bool make_shapes(const cli_model_t *model, dt_output_shape_t **out,
                        char reason[CLI_MESSAGE]) {
  *out = calloc(model->n_outputs + 1, sizeof(**out));
  return *out || cli_wrong(reason, "no memory");
}

bool cli_ahead_ask(const cli_model_t *model, dt_tensor_t *const *inputs,
                   dt_output_shape_t **out_shapes, char reason[CLI_MESSAGE]) {
  return make_shapes(model, out_shapes, reason) && told(ask(model, inputs, *out_shapes), reason);
}

bool cli_ahead_within(const cli_model_t *model, const cli_place_t *place,
                      dt_tensor_t *const *inputs, dt_output_shape_t **out_shapes, bool *out_asked,
                      dt_status_t *status, char reason[CLI_MESSAGE]) {
  const dt_prepare_options_t how = {.struct_size = sizeof(how),
                                    .device = place->device,
                                    .ordinal = place->ordinal,
                                    .deadline_ns = model->end_ns,
                                    .form = DT_PREPARE_FIRST};
  *out_asked = false;
  *status = dt_function_prepare(model->function, &how);
  if (dt_status_code(*status) == DT_E_DEADLINE)
    return true;
  dt_status_free(*status); // else the call says what is wrong, or is of sizes that it asks for
  *status = NULL;
  if (!make_shapes(model, out_shapes, reason))
    return false;
  dt_status_t asked = dt_function_freeze(model->function, true);
  if (!asked)
    asked = ask(model, inputs, *out_shapes);
  dt_status_free(dt_function_freeze(model->function, false));
  *out_asked = dt_status_code(asked) != DT_E_STATE;
  if (*out_asked)
    return told(asked, reason);
  dt_status_free(asked);
  free(*out_shapes);
  *out_shapes = NULL;
  return true;
}

static bool same_shape(const dt_output_shape_t *shape, const dt_tensor_t *result) {
  bool same = shape->dtype == dt_tensor_dtype(result) && shape->rank == dt_tensor_rank(result);
  for (uint32_t d = 0; same && d < shape->rank; d++)
    same = shape->sizes[d] < 0 || shape->sizes[d] == dt_tensor_sizes(result)[d];
  return same;
}

bool cli_ahead_compare(const cli_model_t *model, const dt_output_shape_t *shapes,
                       dt_tensor_t *const *results, char reason[CLI_MESSAGE]) {
  char got[CLI_SIZES_TEXT];
  for (uint32_t k = 0; k < model->n_outputs; k++) {
    cli_sizes_text(results[k], got);
    if (!same_shape(&shapes[k], results[k]))
      return cli_wrong(reason, "output %u is %s, and was told otherwise ahead of the call", k, got);
  }
  return true;
}

// ---- What holds for all calls ---------------------------------------------------------------------
static bool same_spec(const dt_spec_t *spec, const char *name, const dt_tensor_t *result) {
  bool same = spec->dtype == dt_tensor_dtype(result) && spec->ranked &&
              spec->rank == dt_tensor_rank(result) && strcmp(spec->name, name) == 0;
  for (uint32_t d = 0; same && d < spec->rank; d++)
    same = spec->dims[d] && spec->dims[d][0] &&
           (spec->sizes[d] < 0 || spec->sizes[d] == dt_tensor_sizes(result)[d]);
  return same;
}

bool cli_ahead_specs(const cli_model_t *model, dt_tensor_t *const *results,
                     char reason[CLI_MESSAGE]) {
  dt_specs_t *specs = NULL;
  dt_status_t status = dt_function_outputs(model->function, &specs);
  if (status) {
    (void)cli_wrong(reason, "results ahead: %.900s", dt_status_message(status));
    dt_status_free(status);
    return false;
  }
  bool good = specs->n == model->n_outputs || cli_wrong(reason, "%u results ahead", specs->n);
  for (uint32_t k = 0; good && k < specs->n; k++) {
    char got[CLI_SIZES_TEXT];
    cli_sizes_text(results[k], got);
    good = same_spec(specs->items[k], cli_model_output_name(model, k), results[k]) ||
           cli_wrong(reason, "output %u is %s, and was told otherwise before any call", k, got);
  }
  dt_specs_free(specs);
  return good;
}

// ---- Buffers --------------------------------------------------------------------------------------
static dt_status_t make_buffer(const dt_tensor_t *result, unsigned char *bytes, dt_tensor_t **out) {
  const int64_t none = 0;
  size_t room = dt_tensor_bytes(result) + SPARE;
  memset(bytes, MARK, room);
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = dt_tensor_dtype(result),
                                 .rank = 1,
                                 .sizes = &none,
                                 .data = bytes,
                                 .room = room};
  return dt_tensor_create(&desc, out);
}

static bool same_result(const dt_tensor_t *result, const dt_tensor_t *buffer, uint32_t k,
                        char reason[CLI_MESSAGE]) {
  size_t bytes = dt_tensor_bytes(result);
  const unsigned char *at = dt_tensor_data(buffer);
  if (!cli_compare_sizes(buffer, result, reason))
    return false;
  if (bytes && memcmp(at, dt_tensor_data(result), bytes) != 0)
    return cli_wrong(reason, "output %u has other bits in a buffer", k);
  for (size_t i = bytes; i < bytes + SPARE; i++)
    if (at[i] != MARK)
      return cli_wrong(reason, "output %u: byte %zu behind it was written", k, i - bytes);
  return true;
}

static bool call_into(const cli_model_t *model, dt_tensor_t *const *inputs,
                      dt_tensor_t *const *results, dt_tensor_t **buffers,
                      char reason[CLI_MESSAGE]) {
  dt_status_t status = dt_call(model->session, model->function, inputs, model->n_inputs, buffers,
                               model->n_outputs, NULL);
  bool good = !status || cli_wrong(reason, "into buffers: %.900s", dt_status_message(status));
  dt_status_free(status);
  for (uint32_t k = 0; good && k < model->n_outputs; k++)
    good = same_result(results[k], buffers[k], k, reason);
  return good;
}

bool cli_ahead_buffers(const cli_model_t *model, dt_tensor_t *const *inputs,
                       dt_tensor_t *const *results, char reason[CLI_MESSAGE]) {
  uint32_t n = model->n_outputs;
  dt_tensor_t **buffers = calloc(n + 1, sizeof(dt_tensor_t *));
  unsigned char **bytes = calloc(n + 1, sizeof(unsigned char *));
  bool good = buffers && bytes;
  for (uint32_t k = 0; good && k < n; k++) {
    bytes[k] = aligned_alloc(64, (dt_tensor_bytes(results[k]) + SPARE + 63) / 64 * 64);
    dt_status_t status = bytes[k] ? make_buffer(results[k], bytes[k], &buffers[k]) : NULL;
    good = bytes[k] && !status;
    dt_status_free(status);
  }
  good = good ? call_into(model, inputs, results, buffers, reason)
              : cli_wrong(reason, "no memory for buffers");
  for (uint32_t k = 0; k < n; k++) {
    if (buffers)
      dt_tensor_release(buffers[k]);
    if (bytes)
      free(bytes[k]);
  }
  free(buffers);
  free(bytes);
  return good;
}
