// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops in a compiled program: what a frame's `externals` point to.
#ifndef DT_RUNTIME_COMPILE_EXTERNAL_H
#define DT_RUNTIME_COMPILE_EXTERNAL_H

#include "runtime/compile/codegen.h"

typedef struct dt_externals_t dt_externals_t;

// The calls of `program`, whose ops the caller keeps alive; those of a device get their code there,
// on the calling thread, a compile thread (`codegen` NULL: the CPU). *out is NULL where it has
// none.
dt_status_t dt__externals_create(const dt_program_t *program, const dt_codegen_t *codegen,
                                 void *device, dt_externals_t **out) DT_MUST_USE;
// Unloads what is in a device's memory: its launches have ended. NULL allowed.
void dt__externals_unload(dt_externals_t *externals);
void dt__externals_destroy(dt_externals_t *externals); // NULL allowed
// For a frame; NULL for NULL.
const void *const *dt__externals_table(const dt_externals_t *externals);

#endif // DT_RUNTIME_COMPILE_EXTERNAL_H
