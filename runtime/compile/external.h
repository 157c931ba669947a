// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops in a compiled program: what a frame's `externals` point to.
#ifndef DT_RUNTIME_COMPILE_EXTERNAL_H
#define DT_RUNTIME_COMPILE_EXTERNAL_H

#include "runtime/compile/codegen.h"

struct dt_op_list_t;

typedef struct dt_externals_t dt_externals_t;

// One call, as it is kept on disk.
typedef struct dt_external_call_t {
  dt_graph_external_t call; // without sizes and items; name "": kernels that were dropped had it
  uint32_t n_inputs, n_tensors;
  uint64_t updates; // the op's, which memory was planned for
  uint32_t in_place;
  const dt_external_result_t *types; // of the inputs, then of the results, without sizes
} dt_external_call_t;

// The calls of `program`, whose ops the caller keeps alive; those of a device get their code there,
// on the calling thread, a compile thread (`codegen` NULL: the CPU), unless they are `carried` to
// devices elsewhere. *out is NULL where it has none.
dt_status_t dt__externals_create(const dt_program_t *program, const dt_codegen_t *codegen,
                                 void *device, bool carried, dt_externals_t **out) DT_MUST_USE;
// The same of calls from a file, whose ops are those of `ops` that have their names.
// DT_E_UNSUPPORTED where one is missing, has another identity or no kernel there: never another
// one's kernel.
dt_status_t dt__externals_load(const dt_external_call_t *calls, uint32_t n,
                               const struct dt_op_list_t *ops, const dt_codegen_t *codegen,
                               void *device, dt_externals_t **out) DT_MUST_USE;
// How many there are (0 for NULL), and each; borrowed.
uint32_t dt__externals_n(const dt_externals_t *externals);
dt_external_call_t dt__externals_call(const dt_externals_t *externals, uint32_t index);
// Unloads what is in a device's memory: its launches have ended. NULL allowed.
void dt__externals_unload(dt_externals_t *externals);
void dt__externals_destroy(dt_externals_t *externals); // NULL allowed
// For a frame; NULL for NULL.
const dt_external_entry_t *const *dt__externals_table(const dt_externals_t *externals);

#endif // DT_RUNTIME_COMPILE_EXTERNAL_H
