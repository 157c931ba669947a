// SPDX-License-Identifier: Apache-2.0
// What callers see of a model's inputs and outputs, and tensors in files of their own.
#include "ductile/onnx.h"

#include "frontends/onnx/onnx.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Names ----------------------------------------------------------------------------------------
static const char *terminated(dt_arena_t *arena, dt_onnx_str_t str) {
  char *text = DT_ARENA_ARRAY(arena, char, str.len + 1);
  if (text && str.len > 0)
    memcpy(text, str.at, str.len);
  return text;
}

// ---- What is said of them -------------------------------------------------------------------------
static dt_status_t take_dims(dt_arena_t *arena, const dt_onnx_shape_t *shape, dt_spec_t *out) {
  uint32_t rank = shape->dim.len;
  int64_t *sizes = DT_ARENA_ARRAY(arena, int64_t, rank + 1);
  const char **dims = DT_ARENA_ARRAY(arena, const char *, rank + 1);
  if (!sizes || !dims)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < rank; k++) {
    const dt_onnx_dim_t *dim = &shape->dim.items[k];
    bool fixed = (dim->head.has & 1) != 0 && dim->dim_value >= 0;
    sizes[k] = fixed ? dim->dim_value : -1;
    dims[k] = fixed                ? dt__arena_printf(arena, "%lld", (long long)dim->dim_value)
              : dim->dim_param.len ? terminated(arena, dim->dim_param)
                                   : "?";
    if (!dims[k])
      return DT_NO_MEMORY();
  }
  *out = (dt_spec_t){.ranked = true, .rank = rank, .sizes = sizes, .dims = dims};
  return NULL;
}

static dt_status_t take_spec(dt_arena_t *arena, const dt_onnx_value_t *value, const char *name,
                             dt_spec_t *out) {
  const dt_onnx_tensor_type_t *type = value->type ? value->type->tensor_type : NULL;
  const dt_onnx_dtype_t *dtype = type ? dt__onnx_dtype(type->elem_type) : NULL;
  if (type && type->shape)
    DT_TRY(take_dims(arena, type->shape, out));
  out->name = name;
  out->dtype = dtype ? dtype->dtype : DT_DTYPE_NONE;
  return NULL;
}

static dt_status_t take_specs(dt_onnx_t *file) {
  const dt_onnx_graph_t *graph = file->model.graph;
  file->input_specs = DT_ARENA_ARRAY(&file->arena, dt_spec_t, file->n_inputs + 1);
  file->output_specs = DT_ARENA_ARRAY(&file->arena, dt_spec_t, graph->output.len + 1);
  if (!file->input_specs || !file->output_specs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < file->n_inputs; k++)
    DT_TRY(take_spec(&file->arena, &graph->input.items[file->inputs[k]], file->input_names[k],
                     &file->input_specs[k]));
  for (uint32_t k = 0; k < graph->output.len; k++)
    DT_TRY(take_spec(&file->arena, &graph->output.items[k], file->output_names[k],
                     &file->output_specs[k]));
  return NULL;
}

dt_status_t dt__onnx_interface(dt_onnx_t *file) {
  const dt_onnx_graph_t *graph = file->model.graph;
  bool *initialized = DT_ARENA_ARRAY(&file->arena, bool, file->model.n_names);
  file->inputs = DT_ARENA_ARRAY(&file->arena, uint32_t, graph->input.len + 1);
  file->input_names = DT_ARENA_ARRAY(&file->arena, const char *, graph->input.len + 1);
  file->output_names = DT_ARENA_ARRAY(&file->arena, const char *, graph->output.len + 1);
  if (!initialized || !file->inputs || !file->input_names || !file->output_names)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->initializer.len; k++)
    initialized[graph->initializer.items[k].name.id] = true;
  for (uint32_t k = 0; k < graph->input.len; k++) {
    const dt_onnx_name_t *name = &graph->input.items[k].name;
    if (initialized[name->id])
      continue;
    file->inputs[file->n_inputs] = k;
    file->input_names[file->n_inputs] = terminated(&file->arena, name->text);
    if (!file->input_names[file->n_inputs++])
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < graph->output.len; k++) {
    file->output_names[k] = terminated(&file->arena, graph->output.items[k].name.text);
    if (!file->output_names[k])
      return DT_NO_MEMORY();
  }
  return take_specs(file);
}

const dt_spec_t *dt_onnx_input(const dt_onnx_t *model, uint32_t index) {
  return index < dt_onnx_n_inputs(model) ? &model->input_specs[index] : NULL;
}

const dt_spec_t *dt_onnx_output(const dt_onnx_t *model, uint32_t index) {
  return index < dt_onnx_n_outputs(model) ? &model->output_specs[index] : NULL;
}

uint32_t dt_onnx_n_inputs(const dt_onnx_t *model) { return model->n_inputs; }

uint32_t dt_onnx_n_outputs(const dt_onnx_t *model) { return model->model.graph->output.len; }

const char *dt_onnx_input_name(const dt_onnx_t *model, uint32_t index) {
  return index < dt_onnx_n_inputs(model) ? model->input_names[index] : NULL;
}

uint32_t dt_onnx_n_external(const dt_onnx_t *model) {
  return model ? model->externals.files.len : 0;
}

const char *dt_onnx_external_name(const dt_onnx_t *model, uint32_t index) {
  return index < dt_onnx_n_external(model) ? model->externals.files.items[index].name : NULL;
}

const char *dt_onnx_output_name(const dt_onnx_t *model, uint32_t index) {
  return index < dt_onnx_n_outputs(model) ? model->output_names[index] : NULL;
}

// ---- Tensors --------------------------------------------------------------------------------------
// The format packs all elements of a tensor as one row; a tensor here begins each row with a byte
// of its own. `from` has the elements, `to` room for the rows.
static void split_rows(const dt_tensor_t *tensor, const unsigned char *from, unsigned char *to) {
  uint32_t bits = dt_dtype_bits(dt_tensor_dtype(tensor)), rank = dt_tensor_rank(tensor);
  int64_t row = dt_tensor_sizes(tensor)[rank - 1], per = 8 / bits;
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++) {
    uint32_t code = (uint32_t)from[k / per] >> (k % per * bits) & ((1u << bits) - 1);
    uint32_t at = (uint32_t)(k % row % per) * bits;
    unsigned char *byte = &to[k / row * ((row + per - 1) / per) + k % row / per];
    *byte = (unsigned char)((at ? *byte : 0u) | code << at);
  }
}

bool dt__onnx_rows_split(const dt_onnx_tensor_t *tensor) {
  uint32_t bits = dt_dtype_bits(tensor->dtype->dtype), rank = tensor->dims.len;
  return bits > 0 && bits < 8 && rank > 0 && tensor->dims.items[rank - 1] % (8 / bits) != 0;
}

static dt_status_t copy_rows(dt_onnx_t *file, const dt_onnx_tensor_t *tensor, dt_onnx_pace_t *pace,
                             dt_tensor_t *made) {
  unsigned char *own = dt__alloc((size_t)tensor->bytes + 1);
  if (!own)
    return DT_NO_MEMORY();
  dt_status_t status = dt__onnx_tensor_copy(file, tensor, pace, own, (size_t)tensor->bytes);
  if (!status)
    split_rows(made, own, dt_tensor_data(made));
  dt__free(own);
  return status;
}

dt_status_t dt__onnx_tensor_make(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, dt_tensor_t **out) {
  *out = NULL;
  if (tensor->dtype->dtype == DT_DTYPE_NONE)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: tensor \"%s\" of element type %s", file->what,
                   dt__onnx_show(tensor->name.text).text, tensor->dtype->name);
  dt_tensor_t *made = NULL;
  DT_TRY(dt_tensor_create_empty(tensor->dtype->dtype, tensor->dims.len, tensor->dims.items, &made));
  dt_status_t status =
      dt__onnx_rows_split(tensor)
          ? copy_rows(file, tensor, pace, made)
          : dt__onnx_tensor_copy(file, tensor, pace, dt_tensor_data(made), (size_t)tensor->bytes);
  if (status)
    dt_tensor_release(made);
  else
    *out = made;
  return status;
}

dt_status_t dt_onnx_tensor_read(const char *path, dt_tensor_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_tensor_read: out is NULL");
  *out = NULL;
  if (!path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_tensor_read: path is NULL");
  dt_onnx_t *file = NULL;
  dt_onnx_tensor_t *tensor = NULL;
  DT_TRY(dt__onnx_open_tensor(path, &file, &tensor));
  dt_status_t status = dt__onnx_tensor_make(file, tensor, NULL, out);
  dt_onnx_close(file);
  return status;
}
