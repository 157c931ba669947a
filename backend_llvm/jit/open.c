// SPDX-License-Identifier: Apache-2.0
// Opens libductile-jit.so, once: see jit.h.
#include "backend_llvm/jit/core.h"
#include "runtime/base/library.h"
#include "runtime/base/life.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "libductile-jit.so"
#define LONGEST_PATH 4096

#ifndef DT_LIBDIR
#define DT_LIBDIR "/usr/local/lib"
#endif

static struct {
  pthread_mutex_t mutex; // of who opens
  _Atomic(const dt_jit_t *) jit;
  const char *file; // set before `jit`
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// ---- Where ----------------------------------------------------------------------------------------

typedef struct places_t {
  char beside[LONGEST_PATH + 32], installed[LONGEST_PATH];
} places_t;

static void list_places(places_t *out) {
  static const char here;
  char folder[LONGEST_PATH];
  out->beside[0] = '\0';
  if (dt__library_folder(&here, folder, sizeof(folder)))
    (void)snprintf(out->beside, sizeof(out->beside), "%s/" NAME, folder);
  (void)snprintf(out->installed, sizeof(out->installed), "%s/" NAME, DT_LIBDIR);
}

static const char *choose(const char *path, const places_t *places) {
  if (path && *path)
    return path;
  if (places->beside[0] && access(places->beside, R_OK) == 0)
    return places->beside;
  return access(places->installed, R_OK) == 0 ? places->installed : NULL;
}

dt_status_t dt__jit_find(const char *path, char **out) {
  places_t places;
  list_places(&places);
  const char *found = choose(path, &places);
  if (found && access(found, R_OK) != 0)
    found = NULL;
  *out = found ? dt__strdup(found) : NULL;
  return found && !*out ? DT_NO_MEMORY() : NULL;
}

// ---- Opening --------------------------------------------------------------------------------------

static dt_status_t missing(const char *path, const places_t *places, const char *why) {
  static const char remedy[] =
      "install the package that has " NAME
      ", name the file by DUCTILE_JIT, bring code that is kept (docs/kept-code.md), or ask for "
      "DT_ANSWER_EVALUATOR";
  if (path && *path)
    return DT_FAIL(DT_E_UNSUPPORTED, "the code generator cannot be opened: DUCTILE_JIT: %s; %s",
                   why, remedy);
  return DT_FAIL(
      DT_E_UNSUPPORTED,
      "there is no code generator: looked for %s, %s and where the loader looks (%s); %s",
      places->beside, places->installed, why, remedy);
}

static dt_status_t enter(void *handle, const char *name) {
  union {
    void *data;
    dt_jit_enter_t enter;
  } entry = {.data = dlsym(handle, DT_JIT_ENTRY)};
  const dt_core_t core = {dt__core_identity, dt__core_functions, dt__core_n};
  const char *identity = "unknown";
  Dl_info info;
  const dt_jit_t *jit = entry.data ? entry.enter(&core, &identity) : NULL;
  if (!jit)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "%s is of another build than this library: it is %s, expected %s; install both "
                   "from one build",
                   name, identity, dt__core_identity);
  state.file = dladdr(entry.data, &info) && info.dli_fname ? info.dli_fname : name;
  atomic_store_explicit(&state.jit, jit, memory_order_release);
  return NULL;
}

// Never closed: LLVM's objects stay, and threads may be inside when the process ends.
static dt_status_t open_at(const char *path) {
  places_t places;
  list_places(&places);
  const char *name = choose(path, &places);
  int64_t begin = dt__now_ns();
  void *handle = dlopen(name ? name : NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *why = dlerror();
    return missing(path, &places, why ? why : NAME);
  }
  DT_TRY(enter(handle, name ? name : NAME));
  DT_LOG(DT_LOG_COMPILE, 1, "the code generator was opened: %s, %.1f ms", state.file,
         (double)(dt__now_ns() - begin) * 1e-6);
  return NULL;
}

const char *dt__jit_identity(void) { return dt__core_identity; }

const dt_jit_t *dt__jit(void) { return atomic_load_explicit(&state.jit, memory_order_acquire); }

const char *dt__jit_file(void) { return dt__jit() ? state.file : ""; }

// Exit waits for what is being loaded, as for what is being compiled.
dt_status_t dt__jit_open(const char *path, const dt_jit_t **out) {
  *out = dt__jit();
  if (*out)
    return NULL;
  DT_TRY(dt__generator_enter());
  (void)pthread_mutex_lock(&state.mutex);
  dt_status_t status = dt__jit() ? NULL : open_at(path);
  (void)pthread_mutex_unlock(&state.mutex);
  dt__generator_leave();
  *out = dt__jit();
  return status;
}
