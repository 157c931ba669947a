// SPDX-License-Identifier: Apache-2.0
// What a runtime's budget is told of the variants of functions, and which of them must stay.
#ifndef DT_RUNTIME_EXEC_EVICT_H
#define DT_RUNTIME_EXEC_EVICT_H

#include "runtime/exec/budget.h"
#include "runtime/exec/variant.h"

// The function's mutex held: the budget counts the variant, which is published next; or new
// bindings of one instead of those before.
void dt__variant_hold(dt_function_t *function, dt_variant_t *variant);
// Code that replaces that of its kernels; what is replaced stays beside it, for calls under way.
void dt__variant_hold_more(dt_function_t *function, dt_variant_t *variant,
                           const dt_compiled_t *fresh);
void dt__variant_rehold(dt_function_t *function, dt_bindings_t *old, dt_bindings_t *fresh);
// The mutex held: puts `fresh`, of the same trace and bound, in the place of `variant`, which goes
// when no call is in it. False: it has left the list, or there is no memory.
bool dt__variant_replace(dt_function_t *function, dt_variant_t *variant, dt_variant_t *fresh);
// The mutex held: puts `fresh`, bound, before `variant`, whose calls it is to answer where its
// guards hold. False: `variant` has left the list, or there is no memory.
bool dt__variant_insert(dt_function_t *function, const dt_variant_t *variant, dt_variant_t *fresh);
// A variant that left its list stays for what the caller captured, until dt__runtime_drop_captured:
// then all calls have ended.
void dt__variant_stay(dt_variant_t *variant);
void dt__runtime_drop_captured(dt_runtime_t *runtime);

// Of function->holder.
extern const dt_holder_kind_t dt__function_holder;
dt_function_t *dt__holder_function(dt_holder_t *holder);

#endif // DT_RUNTIME_EXEC_EVICT_H
