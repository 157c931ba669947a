// SPDX-License-Identifier: Apache-2.0
// usage: apart LIBRARY [THREADS]. One life of a program that opens the library, or (APART_INSIDE)
// has it in itself: THREADS (1) runtimes at once, each of which calls a function of its own. Prints
// the code that the calls gave, a hash of what they answered, and which of the code generator's
// files the process had then:
//
//   DT_OK 1f2e3d4c jit llvm
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ductile/ductile.h"

#define MOST_THREADS 8

#define API(X)                                                                                     \
  X(runtime_create)                                                                                \
  X(runtime_release)                                                                               \
  X(function_create)                                                                               \
  X(function_release)                                                                              \
  X(session_create)                                                                                \
  X(session_destroy)                                                                               \
  X(call)                                                                                          \
  X(tensor_create_empty)                                                                           \
  X(tensor_data)                                                                                   \
  X(tensor_release)                                                                                \
  X(status_code)                                                                                   \
  X(status_message)                                                                                \
  X(status_free)                                                                                   \
  X(code_name)                                                                                     \
  X(matmul)                                                                                        \
  X(softmax)                                                                                       \
  X(tanh)

static struct {
#define X(name) __typeof__(dt_##name) *name;
  API(X)
#undef X
} api;

#ifdef APART_INSIDE
static bool open_library(const char *path) {
  (void)path;
#define X(name) api.name = dt_##name;
  API(X)
#undef X
  return true;
}
#else
static bool open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    (void)fprintf(stderr, "apart: %s\n", dlerror());
  bool good = library != NULL;
#define X(name)                                                                                    \
  {                                                                                                \
    void *symbol = good ? dlsym(library, "dt_" #name) : NULL;                                      \
    memcpy(&api.name, &symbol, sizeof(symbol));                                                    \
    good = good && symbol;                                                                         \
  }
  API(X)
#undef X
  return good;
}
#endif

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = api.softmax(t, api.matmul(t, in[0], api.tanh(t, in[0])), -1);
  return NULL;
}

typedef struct life_t {
  dt_code_t code;
  unsigned hash;
} life_t;

static dt_code_t end(dt_status_t status) {
  dt_code_t code = status ? api.status_code(status) : DT_OK;
  if (status)
    (void)fprintf(stderr, "apart: %s\n", api.status_message(status));
  api.status_free(status);
  return code;
}

#define SIDE 24
static dt_code_t call(dt_runtime_t *runtime, unsigned *out_hash) {
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "apart",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input};
  const int64_t sizes[] = {SIDE, SIDE};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL, *out = NULL;
  dt_code_t code = end(api.function_create(runtime, program, NULL, &options, &function));
  if (!code)
    code = end(api.session_create(runtime, NULL, &session));
  if (!code)
    code = end(api.tensor_create_empty(DT_F32, 2, sizes, &x));
  for (int i = 0; !code && i < SIDE * SIDE; i++)
    ((float *)api.tensor_data(x))[i] = (float)(i % 7) / 8;
  if (!code)
    code = end(api.call(session, function, &x, 1, &out, 1, NULL));
  for (int i = 0; !code && i < SIDE * SIDE * 4; i++)
    *out_hash = (*out_hash ^ ((const unsigned char *)api.tensor_data(out))[i]) * 0x01000193u;
  api.tensor_release(out);
  api.tensor_release(x);
  api.session_destroy(session);
  api.function_release(function);
  return code;
}

static void *live(void *opaque) {
  life_t *life = opaque;
  const dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  life->code = end(api.runtime_create(&options, &runtime));
  if (!life->code)
    life->code = call(runtime, &life->hash);
  api.runtime_release(runtime);
  return NULL;
}

static bool has(const char *part) {
  char line[4096];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof(line), maps))
    found |= strstr(line, part) != NULL;
  if (maps)
    (void)fclose(maps);
  return found;
}

int main(int argc, char **argv) {
  life_t lives[MOST_THREADS] = {{DT_OK, 0}};
  pthread_t threads[MOST_THREADS];
  int n = argc > 2 ? atoi(argv[2]) : 1;
  if (argc < 2 || n < 1 || n > MOST_THREADS || !open_library(argv[1]))
    return 2;
  for (int k = 0; k < n; k++)
    if (pthread_create(&threads[k], NULL, live, &lives[k]) != 0)
      return 2;
  for (int k = 0; k < n; k++)
    (void)pthread_join(threads[k], NULL);
  for (int k = 1; k < n; k++)
    if (lives[k].code != lives[0].code || lives[k].hash != lives[0].hash) {
      (void)printf("thread %d differs\n", k);
      return 1;
    }
  (void)printf("%s %08x%s%s\n", api.code_name(lives[0].code), lives[0].hash,
               has("libductile-jit") ? " jit" : "", has("libLLVM") ? " llvm" : "");
  return 0;
}
