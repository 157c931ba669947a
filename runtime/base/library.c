// SPDX-License-Identifier: Apache-2.0
// See library.h.
#include "runtime/base/library.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

dt_status_t dt__library_open(const char *path, void **out_handle) {
  *out_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out_handle)
    return NULL;
  const char *why = dlerror();
  return DT_FAIL(DT_E_IO, "%s", why ? why : path);
}

void dt__library_shut(void *handle) {
  if (handle)
    (void)dlclose(handle);
}

void *dt__library_symbol(void *handle, const char *name) { return dlsym(handle, name); }

dt_status_t dt__library_create(void *handle, const char *name, const char *identity,
                               dt_library_t **out) {
  size_t name_bytes = strlen(name) + 1, bytes = strlen(identity) + 1;
  dt_library_t *library = *out = dt__calloc(1, sizeof(*library) + name_bytes + bytes);
  if (!library)
    return DT_NO_MEMORY();
  library->refs = 1;
  library->handle = handle;
  memcpy(library->name, name, name_bytes);
  library->identity = memcpy(library->name + name_bytes, identity, bytes);
  return NULL;
}

dt_library_t *dt__library_retain(dt_library_t *library) {
  if (library)
    (void)atomic_fetch_add_explicit(&library->refs, 1, memory_order_relaxed);
  return library;
}

void dt__library_release(dt_library_t *library) {
  if (!library || atomic_fetch_sub_explicit(&library->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__library_shut(library->handle);
  dt__free(library);
}

// Of the program the loader has the name that it was called by, which may have no folder.
bool dt__library_folder(const void *inside, char *out, size_t room) {
  Dl_info info;
  if (!dladdr(inside, &info) || !info.dli_fname)
    return false;
  size_t len = strlen(info.dli_fname);
  if (strchr(info.dli_fname, '/') && len < room) {
    memcpy(out, info.dli_fname, len + 1);
  } else {
    ssize_t got = readlink("/proc/self/exe", out, room - 1);
    if (got <= 0 || (size_t)got >= room - 1)
      return false;
    out[got] = '\0';
  }
  char *slash = strrchr(out, '/');
  if (!slash)
    return false;
  *slash = '\0';
  return true;
}
