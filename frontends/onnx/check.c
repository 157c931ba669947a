// SPDX-License-Identifier: Apache-2.0
// Checks a whole model, part by part.
#include "frontends/onnx/check.h"

#include "frontends/onnx/visit.h"
#include "runtime/base/status.h"

static dt_status_t check_head(dt_onnx_check_t *c) {
  const dt_onnx_model_t *model = c->model;
  if (model->ir_version == 0 && !model->graph)
    return dt__onnx_fail(c->what, DT_E_FORMAT, NULL, 0,
                         "neither an IR version nor a graph: this is no ONNX model");
  if (model->ir_version < 1)
    return dt__onnx_fail(c->what, DT_E_FORMAT, NULL, 0, "no IR version, or one of %lld",
                         (long long)model->ir_version);
  if (model->ir_version < DT_ONNX_MIN_IR || model->ir_version > DT_ONNX_MAX_IR)
    return dt__onnx_fail(c->what, DT_E_UNSUPPORTED, NULL, 0,
                         "IR version %lld; versions %d to %d are read: save the model with "
                         "another release of its exporter",
                         (long long)model->ir_version, DT_ONNX_MIN_IR, DT_ONNX_MAX_IR);
  if (!model->graph)
    return dt__onnx_fail(c->what, DT_E_FORMAT, NULL, 0, "the model has no graph");
  if (model->opset_import.len == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, NULL, 0, "the model imports no operator set");
  return NULL;
}

// Keeps how many nodes the body had.
static dt_status_t end_body(dt_onnx_check_t *c) {
  uint64_t own = c->nodes - c->ended;
  c->ended = c->nodes;
  return DT_VEC_PUSH(&c->scratch, &c->own, own) ? NULL : DT_NO_MEMORY();
}

static dt_status_t check_all(dt_onnx_check_t *c) {
  dt_onnx_model_t *model = c->model;
  DT_TRY(check_head(c));
  DT_TRY(dt__onnx_check_opsets(c, &model->opset_import, NULL));
  DT_TRY(dt__onnx_number_names(model, c->arena, c->pace));
  DT_TRY(dt__onnx_index_functions(c));
  c->owner = DT_ARENA_ARRAY(&c->scratch, uint32_t, model->n_names);
  c->initialized = DT_ARENA_ARRAY(&c->scratch, uint32_t, model->n_names);
  c->maker = DT_ARENA_ARRAY(&c->scratch, uint32_t, model->n_names);
  if (!c->owner || !c->initialized || !c->maker)
    return DT_NO_MEMORY();
  c->opsets = &model->opset_import;
  dt_onnx_at_t at = {NULL, "graph", -1};
  DT_TRY(dt__onnx_check_graph(c, model->graph, &at, true));
  DT_TRY(end_body(c));
  for (uint32_t k = 0; k < model->functions.len; k++) {
    dt_onnx_at_t at_function = {NULL, "functions", k};
    DT_TRY(dt__onnx_check_function(c, &model->functions.items[k], &at_function));
    DT_TRY(end_body(c));
  }
  return dt__onnx_check_calls(c);
}

dt_status_t dt__onnx_check(dt_onnx_check_t *c) {
  dt__arena_init(&c->scratch, 0);
  dt_status_t status = check_all(c);
  dt__arena_fini(&c->scratch);
  return status;
}
