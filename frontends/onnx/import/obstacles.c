// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model keep a function from being made of it.
#include "frontends/onnx/import/walk.h"

#include "runtime/base/status.h"

typedef struct obstacles_t {
  dt_onnx_obstacles_t head; // first: what callers see
  dt_arena_t arena;
  DT_VEC(const dt_onnx_obstacle_t *) found;
} obstacles_t;

static dt_status_t add(void *user, uint32_t node, const char *why) {
  obstacles_t *o = user;
  dt_onnx_obstacle_t *obstacle = DT_ARENA_NEW(&o->arena, dt_onnx_obstacle_t);
  if (!obstacle)
    return DT_NO_MEMORY();
  *obstacle = (dt_onnx_obstacle_t){.node = node, .reason = dt__arena_strdup(&o->arena, why)};
  const dt_onnx_obstacle_t *added = obstacle;
  return obstacle->reason && DT_VEC_PUSH(&o->arena, &o->found, added) ? NULL : DT_NO_MEMORY();
}

// Nodes that no row takes.
static dt_status_t look(obstacles_t *o, dt_runtime_t *runtime, dt_onnx_t *file) {
  dt_imp_model_t model = {.file = file, .runtime = runtime};
  dt__arena_init(&model.arena, 0);
  dt_status_t status = dt__imp_sort_rows(&model);
  if (!status)
    status = dt__imp_each_refused(&model, add, o);
  dt__arena_fini(&model.arena);
  return status;
}

// What a trace fails with is the node's fault, unless memory, a budget or a missing size is.
static bool is_refusal(dt_status_t status) {
  switch (dt_status_code(status)) {
  case DT_E_ARGUMENT:
  case DT_E_DTYPE:
  case DT_E_SHAPE:
  case DT_E_RANGE:
  case DT_E_UNSUPPORTED:
  case DT_E_FORMAT:
    return true;
  default:
    return false;
  }
}

static dt_status_t trace(obstacles_t *o, dt_runtime_t *runtime, dt_onnx_t *file,
                         const dt_onnx_function_options_t *options) {
  uint32_t failed = UINT32_MAX;
  dt_function_t *function = NULL;
  dt_specs_t *specs = NULL;
  DT_TRY(dt__imp_function(runtime, file, options, &failed, &function));
  dt_status_t status = dt_function_outputs(function, &specs);
  dt_specs_free(specs);
  dt_function_release(function);
  if (dt_status_code(status) == DT_E_STATE) { // it needs the sizes of a call
    dt_status_free(status);
    return NULL;
  }
  if (!status || failed == UINT32_MAX || !is_refusal(status))
    return status;
  dt_status_t added = add(o, failed, dt_status_message(status));
  dt_status_free(status);
  return added;
}

dt_status_t dt_onnx_obstacles(dt_runtime_t *runtime, dt_onnx_t *model,
                              const dt_onnx_function_options_t *options,
                              dt_onnx_obstacles_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_obstacles: out is NULL");
  *out = NULL;
  if (!runtime || !model)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_obstacles: %s is NULL", runtime ? "model" : "runtime");
  obstacles_t *o = dt__calloc(1, sizeof(*o));
  if (!o)
    return DT_NO_MEMORY();
  dt__arena_init(&o->arena, 1024);
  dt_status_t status = look(o, runtime, model);
  if (!status && o->found.len == 0)
    status = trace(o, runtime, model, options);
  if (status) {
    dt_onnx_obstacles_free(&o->head);
    return status;
  }
  o->head = (dt_onnx_obstacles_t){.n = o->found.len, .items = o->found.items};
  *out = &o->head;
  return NULL;
}

void dt_onnx_obstacles_free(dt_onnx_obstacles_t *head) {
  if (!head)
    return;
  obstacles_t *o = (obstacles_t *)(void *)head;
  dt__arena_fini(&o->arena);
  dt__free(o);
}
