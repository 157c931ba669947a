// SPDX-License-Identifier: Apache-2.0
// See serve.h: this library, as docs/serving.md says.
#include "bench/harness.h"
#include "bench/serve.h"

#include "ductile/ductile.h"
#include "ductile/onnx.h"

#include <stdlib.h>
#include <string.h>

typedef struct engine_t {
  dt_runtime_t *runtime;
  dt_function_t *function;
  uint32_t n_inputs, n_outputs;
} engine_t;

typedef struct worker_t {
  const engine_t *engine;
  dt_session_t *session;
  dt_tensor_t *inputs[SERVE_VALUES], *outputs[SERVE_VALUES];
  void *buffers[SERVE_VALUES];
} worker_t;

static void close_engine(void *opened) {
  engine_t *engine = opened;
  dt_function_release(engine->function);
  dt_runtime_release(engine->runtime);
  free(engine);
}

static bool load(engine_t *engine, const serve_config_t *config) {
  const dt_runtime_options_t runtime = {.struct_size = sizeof(runtime), .threads = config->threads};
  dt_onnx_options_t file = {.struct_size = sizeof(file), .access = DT_ONNX_MAP};
  dt_onnx_t *model = NULL;
  dt_specs_t *outputs = NULL;
  bool good = bench_ok(dt_runtime_create(&runtime, &engine->runtime), "making the runtime") &&
              bench_ok(dt_onnx_open(config->model, &file, &model), "opening the model") &&
              bench_ok(dt_onnx_function_create(engine->runtime, model, NULL, &engine->function),
                       "making the function") &&
              bench_ok(dt_function_prepare(engine->function, NULL), "compiling") &&
              bench_ok(dt_function_outputs(engine->function, &outputs), "asking for its results");
  if (good) {
    engine->n_inputs = dt_onnx_n_inputs(model);
    engine->n_outputs = outputs->n;
  }
  dt_specs_free(outputs);
  dt_onnx_close(model);
  return good && engine->n_inputs <= SERVE_VALUES && engine->n_outputs <= SERVE_VALUES;
}

static void *open_engine(const serve_config_t *config) {
  engine_t *engine = calloc(1, sizeof(*engine));
  if (engine && !load(engine, config)) {
    close_engine(engine);
    engine = NULL;
  }
  return engine;
}

static void close_worker(void *user) {
  worker_t *worker = user;
  for (uint32_t k = 0; k < SERVE_VALUES; k++) {
    dt_tensor_release(worker->inputs[k]);
    dt_tensor_release(worker->outputs[k]);
    free(worker->buffers[k]);
  }
  dt_session_destroy(worker->session);
  free(worker);
}

static bool bind(dt_tensor_t **tensor, const dt_tensor_desc_t *desc) {
  return bench_ok(*tensor ? dt_tensor_rebind(*tensor, desc) : dt_tensor_create(desc, tensor),
                  "a tensor");
}

static bool bind_inputs(worker_t *worker, const serve_batch_t *batch) {
  const int64_t sizes[] = {batch->rows, batch->length};
  bool good = true;
  for (uint32_t k = 0; k < worker->engine->n_inputs && good; k++) {
    bool last = k + 1 == worker->engine->n_inputs && k > 0;
    const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                   .dtype = DT_I64,
                                   .rank = 2,
                                   .sizes = sizes,
                                   .data = last ? batch->mask : batch->ids};
    good = bind(&worker->inputs[k], &desc);
  }
  return good;
}

// Buffers that the results of any batch fit into.
static bool make_outputs(worker_t *worker) {
  const engine_t *engine = worker->engine;
  int64_t zeros[SERVE_TOKENS] = {0}, none = 0;
  const serve_batch_t largest[] = {{1, SERVE_TOKENS, zeros, zeros},
                                   {SERVE_ROWS, SERVE_TOKENS / SERVE_ROWS, zeros, zeros}};
  size_t rooms[SERVE_VALUES] = {0};
  bool good = true;
  for (int b = 0; b < 2 && good; b++) {
    dt_output_shape_t sizes[SERVE_VALUES];
    good = bind_inputs(worker, &largest[b]) &&
           bench_ok(dt_function_output_sizes(worker->session, engine->function, worker->inputs,
                                             engine->n_inputs, sizes, sizeof(sizes[0]),
                                             engine->n_outputs),
                    "sizes of results");
    for (uint32_t k = 0; k < engine->n_outputs && good; k++) {
      size_t bytes = dt_dtype_size(sizes[k].dtype);
      for (uint32_t d = 0; d < sizes[k].rank; d++)
        bytes *= (size_t)sizes[k].sizes[d];
      rooms[k] = bytes > rooms[k] ? bytes : rooms[k];
    }
  }
  for (uint32_t k = 0; k < engine->n_outputs && good; k++) {
    worker->buffers[k] = malloc(rooms[k]);
    const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                   .dtype = DT_F32,
                                   .rank = 1,
                                   .sizes = &none,
                                   .data = worker->buffers[k],
                                   .room = rooms[k]};
    good = worker->buffers[k] && bind(&worker->outputs[k], &desc);
  }
  return good;
}

static void *open_worker(void *opened) {
  engine_t *engine = opened;
  worker_t *worker = calloc(1, sizeof(*worker));
  if (!worker)
    return NULL;
  worker->engine = engine;
  if (!bench_ok(dt_session_create(engine->runtime, NULL, &worker->session), "making a session") ||
      !make_outputs(worker)) {
    close_worker(worker);
    worker = NULL;
  }
  return worker;
}

static bool run(void *user, const serve_batch_t *batch, serve_answer_t *answer) {
  worker_t *worker = user;
  const engine_t *engine = worker->engine;
  if (!bind_inputs(worker, batch) ||
      !bench_ok(dt_call(worker->session, engine->function, worker->inputs, engine->n_inputs,
                        worker->outputs, engine->n_outputs, NULL),
                "a call"))
    return false;
  const dt_tensor_t *last = worker->outputs[engine->n_outputs - 1];
  answer->width = dt_tensor_sizes(last)[1];
  memcpy(answer->pooled, dt_tensor_data(last),
         sizeof(float) * (size_t)(batch->rows * answer->width));
  return true;
}

const serve_engine_t serve_ductile = {"Ductile",   open_engine,  close_engine,
                                      open_worker, close_worker, run};
