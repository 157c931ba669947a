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

#endif // DT_RUNTIME_BASE_PARAMS_H
