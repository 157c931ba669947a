// SPDX-License-Identifier: Apache-2.0
// The ops that users gave a runtime, as lists that never change: who adds one makes another list. A
// function, and what it traced, have a share in the list that it was made with.
#ifndef DT_RUNTIME_TRACE_OP_LIST_H
#define DT_RUNTIME_TRACE_OP_LIST_H

#include "lower/graph/external.h"

typedef struct dt_op_list_t {
  _Atomic uint32_t refs;
  uint32_t n;
  dt_op_def_t *ops[]; // by name
} dt_op_list_t;

dt_op_list_t *dt__op_list_retain(dt_op_list_t *list);                            // NULL allowed
void dt__op_list_release(dt_op_list_t *list);                                    // NULL allowed
const dt_op_def_t *dt__op_list_find(const dt_op_list_t *list, const char *name); // list: or NULL
// `list` (NULL: none) with one more op, *out_def, which does not own its closure yet; or without
// the one of this name. DT_E_ARGUMENT, DT_E_LIMIT, DT_E_NO_MEMORY.
dt_status_t dt__op_list_add(const dt_op_list_t *list, const dt_op_options_t *options,
                            dt_op_list_t **out, dt_op_def_t **out_def) DT_MUST_USE;
// Without those that the library brought. *out is NULL where none are left.
dt_status_t dt__op_list_remove_library(const dt_op_list_t *list, const dt_library_t *library,
                                       dt_op_list_t **out) DT_MUST_USE;
dt_status_t dt__op_list_remove(const dt_op_list_t *list, const char *name,
                               dt_op_list_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_TRACE_OP_LIST_H
