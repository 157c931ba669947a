// SPDX-License-Identifier: Apache-2.0
// A shared object that brought passes and ops of users: closed when nothing of it is left.
#ifndef DT_RUNTIME_BASE_LIBRARY_H
#define DT_RUNTIME_BASE_LIBRARY_H

#include "ductile/base.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct dt_library_t {
  _Atomic uint32_t refs;
  void *handle;         // dlopen's
  const char *identity; // behind the name, in the same block
  char name[];
} dt_library_t;

// The object at `path`. DT_E_IO with what the system says.
dt_status_t dt__library_open(const char *path, void **out_handle) DT_MUST_USE;
void dt__library_shut(void *handle);
void *dt__library_symbol(void *handle, const char *name); // NULL: there is none
// Takes the handle where it succeeds.
dt_status_t dt__library_create(void *handle, const char *name, const char *identity,
                               dt_library_t **out) DT_MUST_USE;
dt_library_t *dt__library_retain(dt_library_t *library); // NULL allowed
void dt__library_release(dt_library_t *library);         // NULL allowed

// The folder of the file that the address is in: a shared object, or the program. False: it is not
// known, or its name is too long.
bool dt__library_folder(const void *inside, char *out, size_t room);

#endif // DT_RUNTIME_BASE_LIBRARY_H
