// SPDX-License-Identifier: Apache-2.0
// Tensors of a model as constants of its function: used where they lie in the file. Copied are
// those in typed fields, and small ones, which calls read, where their place does not suit their
// elements.
#include "frontends/onnx/import/walk.h"

#include "frontends/onnx/schema.h"
#include "frontends/onnx/visit.h"
#include "runtime/base/status.h"

#include <stdlib.h>

// Above, unaligned elements are no reason to hold them twice: what kernels read often is packed.
#define SMALL_BYTES ((uint64_t)64 << 10)

static void drop_share(void *user) { dt__onnx_release(user); }

// At any address.
static dt_status_t borrow(dt_onnx_t *file, const dt_onnx_tensor_t *tensor, const void *data,
                          dt_tensor_t **out) {
  dt_file_place_t place = {0};
  const dt_onnx_bytes_t *bytes = dt__onnx_tensor_bytes(file, tensor, data, &place.offset);
  place.stamp = bytes->map ? &bytes->stamp : NULL;
  dt__onnx_retain(file);
  dt_status_t status =
      dt__file_tensor(data, (size_t)tensor->bytes, tensor->dtype->dtype, tensor->dims.len,
                      tensor->dims.items, place, drop_share, file, out);
  if (status)
    dt__onnx_release(file);
  return status;
}

static dt_status_t read_tensor(dt_imp_model_t *model, const dt_onnx_tensor_t *tensor,
                               dt_tensor_t **out) {
  dt_onnx_t *file = model->file;
  const void *data = NULL;
  DT_TRY(dt__onnx_tensor_view(file, tensor, model->pace, &data));
  bool aligned = (uintptr_t)data % dt_dtype_size(tensor->dtype->dtype) == 0;
  if (!data || tensor->bytes == 0 || dt__onnx_rows_split(tensor) ||
      (!aligned && tensor->bytes <= SMALL_BYTES))
    return dt__onnx_tensor_make(file, tensor, model->pace, out);
  return borrow(file, tensor, data, out);
}

// ---- All of them ------------------------------------------------------------------------------------
typedef struct gather_t {
  dt_imp_model_t *model;
  DT_VEC(dt_imp_constant_t) found;
} gather_t;

static dt_status_t add(void *user, const dt_onnx_message_t *message, void *out,
                       const dt_onnx_at_t *at) {
  gather_t *g = user;
  const dt_onnx_tensor_t *tensor = out;
  (void)at;
  DT_TRY(dt__onnx_go_on(g->model->pace, 4));
  if (message != &dt__onnx_tensor_message || !tensor->dtype ||
      tensor->dtype->dtype == DT_DTYPE_NONE)
    return NULL;
  // Names of tensors repeat between graphs; places in the file do not.
  dt_imp_constant_t constant = {.tensor = tensor,
                                .name = dt__arena_printf(&g->model->arena, "%s@%llu",
                                                         dt__onnx_show(tensor->name.text).text,
                                                         (unsigned long long)tensor->head.offset)};
  return constant.name && DT_VEC_PUSH(&g->model->arena, &g->found, constant) ? NULL
                                                                             : DT_NO_MEMORY();
}

static int compare(const void *left, const void *right) {
  uintptr_t a = (uintptr_t)((const dt_imp_constant_t *)left)->tensor,
            b = (uintptr_t)((const dt_imp_constant_t *)right)->tensor;
  return (a > b) - (a < b);
}

static bool is_initializer(const dt_imp_model_t *model, const dt_onnx_tensor_t *tensor) {
  const dt_onnx_graph_t *graph = model->file->model.graph;
  return graph->initializer.len > 0 && tensor >= graph->initializer.items &&
         tensor < graph->initializer.items + graph->initializer.len;
}

dt_status_t dt__imp_read_constants(dt_imp_model_t *model) {
  gather_t g = {.model = model};
  dt_onnx_at_t at = {NULL, "model", -1};
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, &model->file->model, &at, add, &g));
  if (g.found.len > 0)
    qsort(g.found.items, g.found.len, sizeof(g.found.items[0]), compare);
  model->constants = g.found.items;
  for (uint32_t k = 0; k < g.found.len; k++) {
    dt_imp_constant_t *constant = &g.found.items[k];
    DT_TRY(dt__onnx_go_on(model->pace, 32));
    // The model's own initializers are known to users by their names.
    if (is_initializer(model, constant->tensor)) {
      constant->name = dt__arena_printf(&model->arena, "%.*s", (int)constant->tensor->name.text.len,
                                        constant->tensor->name.text.at);
      if (!constant->name)
        return DT_NO_MEMORY();
    }
    DT_TRY(read_tensor(model, constant->tensor, &constant->data));
    model->n_constants++;
  }
  return NULL;
}

void dt__imp_drop_constants(dt_imp_model_t *model) {
  for (uint32_t k = 0; k < model->n_constants; k++)
    dt_tensor_release(model->constants[k].data);
  model->n_constants = 0;
}

const dt_imp_constant_t *dt__imp_find_constant(const dt_imp_model_t *model,
                                               const dt_onnx_tensor_t *tensor) {
  dt_imp_constant_t key = {.tensor = tensor};
  return model->n_constants ? bsearch(&key, model->constants, model->n_constants,
                                      sizeof(model->constants[0]), compare)
                            : NULL;
}
