// SPDX-License-Identifier: Apache-2.0
// Explanations inside the runtime: the reason of a miss, the history of a function's compiles, and
// the log lines made from the same facts.
#ifndef DT_RUNTIME_EXEC_EXPLAIN_H
#define DT_RUNTIME_EXEC_EXPLAIN_H

#include "ductile/explain.h"
#include "runtime/exec/function.h"
#include "runtime/exec/variant.h"

// ---- Facts (explain.c) --------------------------------------------------------------------------
// What `variant` says to `inputs`, in `arena`; NULL without memory.
const dt_miss_info_t *dt__miss_make(dt_arena_t *arena, const dt_variant_t *variant,
                                    const dt_guard_args_t *args);
// What the variant that comes nearest to `inputs` says: most of its guards hold, the newest of
// equals. NULL without memory or variants.
const dt_miss_info_t *dt__miss_nearest(dt_arena_t *arena, const dt_variant_list_t *list,
                                       const dt_guard_args_t *args);
const dt_miss_info_t *dt__miss_copy(dt_arena_t *arena, const dt_miss_info_t *miss);
// The dims of a variant's inputs; false without memory.
bool dt__dims_make(dt_arena_t *arena, const dt_function_t *function, const dt_variant_t *variant,
                   dt_variant_info_t *out);
// "expected s0 <= 512, got s0 = 600 (batch) (sym_true, model.c:41)"
void dt__miss_put(const dt_miss_info_t *miss, dt_text_t *out);

// ---- History (history.c) ------------------------------------------------------------------------
// The compiles of one function, oldest first; guarded by its mutex. Valid when zeroed.
typedef struct dt_history_item_t dt_history_item_t;
struct dt_history_item_t {
  dt_history_item_t *next;
  dt_arena_t arena; // of the texts
  dt_compile_info_t info;
  int64_t begin_ns;
};

// Mutex held. Notes that variant `number` is about to be made for `args` (args->inputs NULL:
// prepare), and says so on the channel `recompiles`. Without memory: NULL, and nothing is noted.
dt_history_item_t *dt__history_begin(const dt_function_t *function, const dt_variant_list_t *list,
                                     const dt_guard_args_t *args, uint32_t number);
// Mutex held. What came of it; takes the item (NULL allowed), borrows the status.
void dt__history_end(dt_function_t *function, dt_history_item_t *item, dt_status_t status);
void dt__history_fini(dt_history_t *history);

// ---- Log lines (history.c) ----------------------------------------------------------------------
// Channel `recompiles`: the function, the guard of the nearest variant that failed, and `decision`.
void dt__tell_miss(const dt_function_t *function, const dt_variant_list_t *list,
                   const dt_guard_args_t *args, const char *decision, uint32_t number);
// Channel `dynamic`: one line for each dim of the variant's inputs.
void dt__tell_dims(const dt_function_t *function, const dt_variant_t *variant);

// ---- Faults to be seen again (repro.c) ----------------------------------------------------------
// Where DUCTILE_REPRO_DIR asks for it and `status` says that the compiler failed, not the caller:
// writes a file for `ductile repro`, and returns the status with the file's path.
dt_status_t dt__repro_failed(const dt_function_t *function, const dt_traced_t *traced,
                             const dt_variant_request_t *how, dt_status_t status) DT_MUST_USE;

// ---- Graphs of functions (from_ir.c) ------------------------------------------------------------
// Calls `use`, under the function's mutex, for the variant that takes `given`, with the arguments
// as its guards see them. DT_E_STATE where there is none.
dt_status_t dt__with_traced(dt_function_t *function, dt_tensor_t *const *given, uint32_t n_given,
                            dt_status_t (*use)(void *arg, const dt_variant_t *variant,
                                               dt_tensor_t *const *inputs),
                            void *arg) DT_MUST_USE;

// ---- Arguments (report.c) -----------------------------------------------------------------------
// DT_E_ARGUMENT, DT_E_FORKED for what cannot be arguments of a call; `inputs` may be NULL for none.
dt_status_t dt__asked_check(const dt_function_t *function, dt_tensor_t *const *inputs,
                            uint32_t n_inputs, const void *out) DT_MUST_USE;
// What guards see of arguments that are as declared, in `arena`; NULL without memory.
dt_tensor_t *const *dt__asked_spread(dt_arena_t *arena, const dt_function_t *function,
                                     dt_tensor_t *const *given);
dt_device_t dt__asked_place(const dt_function_t *function, dt_tensor_t *const *given);

#endif // DT_RUNTIME_EXEC_EXPLAIN_H
