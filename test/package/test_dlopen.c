// SPDX-License-Identifier: Apache-2.0
// Opens libductile.so late, uses it from several threads, one of which outlives the closing: the
// library must need no static thread storage, leave malloc the host's, and work when opened again.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ductile/base.h"
#include "ductile/tensor.h"

#define THREADS 4

static int failures;

static void check(bool good, const char *what, const char *detail) {
  if (good)
    return;
  (void)fprintf(stderr, "FAILED: %s: %s\n", what, detail ? detail : "");
  failures++;
}

// Which file the program's malloc comes from.
static const char *malloc_owner(void) {
  Dl_info info = {0};
  void *address = dlsym(RTLD_DEFAULT, "malloc");
  return address && dladdr(address, &info) ? info.dli_fname : "nowhere";
}

typedef struct library_t {
  const char *(*version)(void);
  dt_status_t (*create_empty)(dt_dtype_t, uint32_t, const int64_t *, dt_tensor_t **);
  void *(*data)(const dt_tensor_t *);
  void (*release)(dt_tensor_t *);
  const char *(*message)(dt_status_t);
} library_t;

typedef struct linger_t {
  library_t *library;
  pthread_barrier_t used, closed;
} linger_t;

// A data pointer becomes a function pointer by copying its bytes, which POSIX allows.
static bool look_up(void *handle, const char *name, void *out_function) {
  void *symbol = dlsym(handle, name);
  check(symbol != NULL, name, dlerror());
  memcpy(out_function, &symbol, sizeof(symbol));
  return symbol != NULL;
}

static void *use(void *argument) {
  const library_t *library = argument;
  const int64_t sizes[2] = {33, 7};
  for (int i = 0; i < 100; i++) {
    dt_tensor_t *tensor = NULL;
    dt_status_t status = library->create_empty(DT_F32, 2, sizes, &tensor);
    if (status)
      return "dt_tensor_create_empty failed";
    memset(library->data(tensor), 1, sizeof(float) * 33 * 7);
    library->release(tensor);
  }
  return NULL;
}

// Uses the library, waits until it has been closed, and only then ends.
static void *use_then_linger(void *argument) {
  linger_t *linger = argument;
  void *problem = use(linger->library);
  (void)pthread_barrier_wait(&linger->used);
  (void)pthread_barrier_wait(&linger->closed);
  return problem;
}

static void join(pthread_t thread) {
  void *problem = NULL;
  (void)pthread_join(thread, &problem);
  check(problem == NULL, "thread", problem);
}

static void open_use_close(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  check(handle != NULL, "dlopen", handle ? "" : dlerror());
  if (!handle)
    return;
  library_t library = {0};
  linger_t linger = {.library = &library};
  pthread_t lingering;
  bool lingers = false;
  if (look_up(handle, "dt_version", &library.version) &&
      look_up(handle, "dt_tensor_create_empty", &library.create_empty) &&
      look_up(handle, "dt_tensor_data", &library.data) &&
      look_up(handle, "dt_tensor_release", &library.release)) {
    char expected[32];
    (void)snprintf(expected, sizeof(expected), "%d.%d.%d", DT_VERSION_MAJOR, DT_VERSION_MINOR,
                   DT_VERSION_PATCH);
    check(strcmp(library.version(), expected) == 0, expected, library.version());
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
      check(pthread_create(&threads[i], NULL, use, &library) == 0, "pthread_create", "");
    for (int i = 0; i < THREADS; i++)
      join(threads[i]);
    (void)pthread_barrier_init(&linger.used, NULL, 2);
    (void)pthread_barrier_init(&linger.closed, NULL, 2);
    lingers = pthread_create(&lingering, NULL, use_then_linger, &linger) == 0;
    check(lingers, "pthread_create", "");
    if (lingers)
      (void)pthread_barrier_wait(&linger.used);
  }
  check(dlclose(handle) == 0, "dlclose", "");
  if (lingers) {
    (void)pthread_barrier_wait(&linger.closed);
    join(lingering);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    (void)fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 2;
  }
  void *before = malloc(100);
  char owner[4096];
  (void)snprintf(owner, sizeof(owner), "%s", malloc_owner());
  open_use_close(argv[1]);
  check(strcmp(owner, malloc_owner()) == 0, "malloc moved to", malloc_owner());
  free(before);
  open_use_close(argv[1]);
  printf("malloc comes from %s\n%d failures\n", owner, failures);
  return failures != 0;
}
