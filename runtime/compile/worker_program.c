// SPDX-License-Identifier: Apache-2.0
// Finds the worker program, and checks that it is of this build.
#include "ductile/function.h"

#include "runtime/base/build.h"
#include "runtime/base/library.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/worker.h"
#include "runtime/compile/worker_wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "ductile-worker"
#define LONGEST_PATH 4096

#ifndef DT_LIB_TO_LIBEXEC
#define DT_LIB_TO_LIBEXEC "../libexec"
#endif
#ifndef DT_LIBEXEC
#define DT_LIBEXEC "/usr/local/libexec"
#endif

// ---- The program ------------------------------------------------------------------------------------
// The folder of the file that this code is in: the library, or a program that has it in itself.
static bool own_folder(char out[LONGEST_PATH]) {
  union {
    int (*fn)(int, char **);
    void *data;
  } here = {.fn = dt_worker_main};
  return dt__library_folder(here.data, out, LONGEST_PATH);
}

dt_status_t dt__worker_find(const char *path, char **out) {
  char folder[LONGEST_PATH], places[3][LONGEST_PATH + 128] = {"", "", ""};
  *out = NULL;
  if (path && *path) {
    if (access(path, X_OK) != 0)
      return DT_FAIL(DT_E_UNSUPPORTED, "worker_path: %s cannot be run", path);
    *out = dt__strdup(path);
    return *out ? NULL : DT_NO_MEMORY();
  }
  if (own_folder(folder)) {
    (void)snprintf(places[0], sizeof(places[0]), "%s/" NAME, folder);
    (void)snprintf(places[1], sizeof(places[1]), "%s/" DT_LIB_TO_LIBEXEC "/" NAME, folder);
  }
  (void)snprintf(places[2], sizeof(places[2]), DT_LIBEXEC "/" NAME);
  for (size_t k = 0; k < sizeof(places) / sizeof(places[0]) && !*out; k++)
    if (places[k][0] && access(places[k], X_OK) == 0 && !(*out = dt__strdup(places[k])))
      return DT_NO_MEMORY();
  if (*out)
    return NULL;
  return DT_FAIL(DT_E_UNSUPPORTED,
                 "there is no program " NAME ": looked for %s, %s and %s; set worker_path or "
                 "DUCTILE_WORKER",
                 places[0], places[1], places[2]);
}

// ---- Who it is --------------------------------------------------------------------------------------
void dt__worker_hello(dt_text_t *out) {
  static const char here;
  dt_text_t build;
  bool shared = false;
  dt__text_init(&build);
  dt__build_put(&here, &build, &shared);
  bool known = shared && !build.failed && build.len;
  dt__text_printf(out, NAME " protocol %d version %d.%d.%d build %s", DT_WORKER_PROTOCOL,
                  DT_VERSION_MAJOR, DT_VERSION_MINOR, DT_VERSION_PATCH,
                  known ? dt__text_str(&build) : "-");
  dt__text_fini(&build);
}

// Up to the build, and from there on.
static const char *build_of(const char *hello) {
  const char *space = strrchr(hello, ' ');
  return space ? space + 1 : hello;
}

dt_status_t dt__worker_hello_check(const char *text, size_t bytes) {
  dt_text_t own;
  dt__text_init(&own);
  dt__worker_hello(&own);
  dt_status_t status = dt__text_status(&own);
  const char *mine = dt__text_str(&own), *my_build = build_of(mine), *its_build = build_of(text);
  size_t head = (size_t)(my_build - mine);
  bool same = !status && strlen(text) == bytes && (size_t)(its_build - text) == head &&
              memcmp(text, mine, head) == 0 &&
              (strcmp(my_build, its_build) == 0 || strcmp(my_build, "-") == 0 ||
               strcmp(its_build, "-") == 0);
  if (!status && !same)
    status = DT_FAIL(DT_E_UNSUPPORTED,
                     "the worker is of another build: it says '%.120s', expected '%s'; restart "
                     "this process, or set worker_path or DUCTILE_WORKER to the program of this "
                     "library",
                     text, mine);
  dt__text_fini(&own);
  return status;
}
