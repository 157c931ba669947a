// SPDX-License-Identifier: Apache-2.0
// Tunables: one struct made from params.def, its environment overrides, its text.
#ifndef DT_RUNTIME_BASE_PARAMS_H
#define DT_RUNTIME_BASE_PARAMS_H

#include "ductile/base.h"

#define DT_PARAM_FIELD_INT(id) int64_t id
#define DT_PARAM_FIELD_BOOL(id) bool id
#define DT_PARAM_FIELD_TEXT(id) char id[256]
typedef struct dt_params_t {
#define PARAM(id, type, name, value, min, max, doc) DT_PARAM_FIELD_##type(id);
#include "runtime/base/params.def"
} dt_params_t;

// Defaults, then the environment. A value outside its range: DT_E_ARGUMENT naming the variable, the
// value and the range. The only reader of the environment.
dt_status_t dt__params_load(dt_params_t *out) DT_MUST_USE;

// The variables that a program which we start needs to run: where its libraries are, and what
// sanitizers are told.
#define DT_LOADER_VARIABLES 5
typedef struct dt_params_loader_t {
  char *variables[DT_LOADER_VARIABLES + 1]; // "NAME=value", NULL at the end
} dt_params_loader_t;
dt_status_t dt__params_loader(dt_params_loader_t *out) DT_MUST_USE; // fini also after a failure
void dt__params_loader_fini(dt_params_loader_t *loader);

#endif // DT_RUNTIME_BASE_PARAMS_H
