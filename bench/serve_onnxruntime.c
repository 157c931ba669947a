// SPDX-License-Identifier: Apache-2.0
// See serve.h: onnxruntime by its C interface, one session for all workers, as its pages advise;
// its results are in memory of its arena.
#include "bench/serve.h"

#include "onnxruntime/ort.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct engine_t {
  void *library;
  ort_api_t api;
  ort_env_t *env;
  ort_session_t *session;
  ort_memory_t *memory;
  ort_allocator_t *allocator;
  char *inputs[SERVE_VALUES], *outputs[SERVE_VALUES];
  size_t n_inputs, n_outputs;
} engine_t;

static bool ok(const ort_api_t *api, ort_status_t *status, const char *doing) {
  if (status)
    fprintf(stderr, "onnxruntime, %s: %s\n", doing, api->GetErrorMessage(status));
  api->ReleaseStatus(status);
  return !status;
}

static bool find(engine_t *engine, const char *path) {
  engine->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!engine->library) {
    fprintf(stderr, "onnxruntime: %s\n", dlerror());
    return false;
  }
  ort_get_base_fn_t base = NULL;
  *(void **)&base = dlsym(engine->library, "OrtGetApiBase");
  if (!base || !ort_take(base(), &engine->api)) {
    fprintf(stderr, "%s: expected onnxruntime 1.%u or later\n", path, ORT_VERSION);
    return false;
  }
  return true;
}

static bool take_names(engine_t *engine) {
  const ort_api_t *api = &engine->api;
  if (!ok(api, api->SessionGetInputCount(engine->session, &engine->n_inputs), "inputs") ||
      !ok(api, api->SessionGetOutputCount(engine->session, &engine->n_outputs), "results") ||
      engine->n_inputs > SERVE_VALUES || engine->n_outputs > SERVE_VALUES)
    return false;
  bool good = true;
  for (size_t k = 0; k < engine->n_inputs && good; k++)
    good =
        ok(api, api->SessionGetInputName(engine->session, k, engine->allocator, &engine->inputs[k]),
           "a name");
  for (size_t k = 0; k < engine->n_outputs && good; k++)
    good = ok(api,
              api->SessionGetOutputName(engine->session, k, engine->allocator, &engine->outputs[k]),
              "a name");
  return good;
}

static bool load(engine_t *engine, const serve_config_t *config) {
  const ort_api_t *api = &engine->api;
  ort_options_t *options = NULL;
  bool good =
      ok(api, api->CreateEnv(ORT_WARNING, "bench", &engine->env), "its environment") &&
      ok(api, api->CreateSessionOptions(&options), "options") &&
      ok(api, api->SetIntraOpNumThreads(options, (int)config->threads), "threads") &&
      ok(api, api->SetSessionGraphOptimizationLevel(options, ORT_OPTIMIZE_ALL), "optimising") &&
      ok(api,
         api->AddSessionConfigEntry(options, "session.intra_op.allow_spinning",
                                    config->spins ? "1" : "0"),
         "spinning") &&
      ok(api, api->CreateSession(engine->env, config->model, options, &engine->session),
         "opening the model") &&
      ok(api, api->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEMORY_DEFAULT, &engine->memory),
         "memory") &&
      ok(api, api->GetAllocatorWithDefaultOptions(&engine->allocator), "its allocator") &&
      take_names(engine);
  api->ReleaseSessionOptions(options);
  return good;
}

static void close_engine(void *opened) {
  engine_t *engine = opened;
  const ort_api_t *api = &engine->api;
  for (size_t k = 0; k < SERVE_VALUES && engine->allocator; k++) {
    if (engine->inputs[k])
      (void)ok(api, api->AllocatorFree(engine->allocator, engine->inputs[k]), "a name");
    if (engine->outputs[k])
      (void)ok(api, api->AllocatorFree(engine->allocator, engine->outputs[k]), "a name");
  }
  if (api->ReleaseSession) {
    api->ReleaseMemoryInfo(engine->memory);
    api->ReleaseSession(engine->session);
    api->ReleaseEnv(engine->env);
  }
  free(engine); // its library stays: it has threads and destructors of its own
}

static void *open_engine(const serve_config_t *config) {
  engine_t *engine = calloc(1, sizeof(*engine));
  if (engine && (!find(engine, config->onnxruntime) || !load(engine, config))) {
    close_engine(engine);
    engine = NULL;
  }
  return engine;
}

static void *open_worker(void *opened) { return opened; }
static void close_worker(void *worker) { (void)worker; }

static bool copy_answer(engine_t *engine, ort_value_t *value, const serve_batch_t *batch,
                        serve_answer_t *answer) {
  const ort_api_t *api = &engine->api;
  const void *data = NULL;
  size_t bytes = 0;
  if (!ok(api, api->GetTensorSizeInBytes(value, &bytes), "a result") ||
      !ok(api, api->GetTensorData(value, &data), "a result"))
    return false;
  answer->width = (int64_t)(bytes / sizeof(float)) / batch->rows;
  memcpy(answer->pooled, data, bytes);
  return true;
}

static bool run(void *user, const serve_batch_t *batch, serve_answer_t *answer) {
  engine_t *engine = user;
  const ort_api_t *api = &engine->api;
  const int64_t dims[] = {batch->rows, batch->length};
  ort_value_t *inputs[SERVE_VALUES] = {NULL}, *outputs[SERVE_VALUES] = {NULL};
  bool good = true;
  for (size_t k = 0; k < engine->n_inputs && good; k++) {
    bool last = k + 1 == engine->n_inputs && k > 0;
    good = ok(api,
              api->CreateTensorWithDataAsOrtValue(engine->memory, last ? batch->mask : batch->ids,
                                                  sizeof(int64_t) * (size_t)(dims[0] * dims[1]),
                                                  dims, 2, ORT_I64, &inputs[k]),
              "a tensor");
  }
  good = good &&
         ok(api,
            api->Run(engine->session, NULL, (const char *const *)engine->inputs,
                     (const ort_value_t *const *)inputs, engine->n_inputs,
                     (const char *const *)engine->outputs, engine->n_outputs, outputs),
            "a call") &&
         copy_answer(engine, outputs[engine->n_outputs - 1], batch, answer);
  for (size_t k = 0; k < SERVE_VALUES; k++) {
    api->ReleaseValue(inputs[k]);
    api->ReleaseValue(outputs[k]);
  }
  return good;
}

const serve_engine_t serve_onnxruntime = {"onnxruntime", open_engine,  close_engine,
                                          open_worker,   close_worker, run};
