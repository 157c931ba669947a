// SPDX-License-Identifier: Apache-2.0
// Tunables: one struct made from params.def, its environment overrides, its text.
#ifndef DT_RUNTIME_BASE_PARAMS_H
#define DT_RUNTIME_BASE_PARAMS_H

#include "ductile/base.h"

#include <stddef.h>

#define DT_PARAM_FIELD_INT(id) int64_t id
#define DT_PARAM_FIELD_BOOL(id) bool id
#define DT_PARAM_TEXT_BYTES 256
#define DT_PARAM_FIELD_TEXT(id) char id[DT_PARAM_TEXT_BYTES]
typedef struct dt_params_t {
#define PARAM(id, type, name, value, min, max, doc) DT_PARAM_FIELD_##type(id);
#include "runtime/base/params.def"
} dt_params_t;

// Such a table as rows, for a struct of its own.
typedef enum dt_param_type_t { DT_PARAM_INT, DT_PARAM_BOOL, DT_PARAM_TEXT } dt_param_type_t;
typedef struct dt_param_row_t {
  dt_param_type_t type;
  const char *name;        // without DUCTILE_
  size_t offset;           // in the struct
  int64_t value, min, max; // of INT and BOOL
  const char *text;        // of TEXT
  const char *doc;
} dt_param_row_t;
#define DT_PARAM_NUMBER_INT(value) (value)
#define DT_PARAM_NUMBER_BOOL(value) (value)
#define DT_PARAM_NUMBER_TEXT(value) 0
#define DT_PARAM_DEFAULT_INT(value) NULL
#define DT_PARAM_DEFAULT_BOOL(value) NULL
#define DT_PARAM_DEFAULT_TEXT(value) (value)
#define DT_PARAM_ROW(struct_, id, type, name, value, min, max, doc)                                \
  {DT_PARAM_##type,                                                                                \
   name,                                                                                           \
   offsetof(struct_, id),                                                                          \
   DT_PARAM_NUMBER_##type(value),                                                                  \
   min,                                                                                            \
   max,                                                                                            \
   DT_PARAM_DEFAULT_##type(value),                                                                 \
   doc}

// Defaults, then the environment. A value outside its range: DT_E_ARGUMENT naming the variable, the
// value and the range. The only reader of the environment.
dt_status_t dt__params_load(dt_params_t *out) DT_MUST_USE;
dt_status_t dt__params_read(const dt_param_row_t *rows, size_t n, void *out) DT_MUST_USE;
// The rows of dt_params_t.
const dt_param_row_t *dt__params_rows(size_t *out_n);

// The variables that a program which we start needs to run: where its libraries are, and what
// sanitizers are told.
#define DT_LOADER_VARIABLES 5
typedef struct dt_params_loader_t {
  char *variables[DT_LOADER_VARIABLES + 1]; // "NAME=value", NULL at the end
} dt_params_loader_t;
dt_status_t dt__params_loader(dt_params_loader_t *out) DT_MUST_USE; // fini also after a failure
void dt__params_loader_fini(dt_params_loader_t *loader);

#endif // DT_RUNTIME_BASE_PARAMS_H
