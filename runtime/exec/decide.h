// SPDX-License-Identifier: Apache-2.0
// Finding the variant of a call: what guards see of it, and the compiled decision over many.
#ifndef DT_RUNTIME_EXEC_DECIDE_H
#define DT_RUNTIME_EXEC_DECIDE_H

#include "guards/guards.h"
#include "guards/modes.h"
#include "runtime/base/reclaim.h"
#include "runtime/compile/decide.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/variant.h"

#include <stdatomic.h>

// Compiled code that finds among the first `n` variants of a list the one whose guards hold first.
// Made off the call path. Lists of one function share it until a newer one is made.
typedef struct dt_decider_t {
  dt_retired_t retired; // first: the reclaimer's item
  dt_native_t *native;
  dt_decide_fn_t decide;
  uint32_t n;
  bool kept; // it was brought along, and not made here
} dt_decider_t;
void dt__decider_destroy(dt_decider_t *decider); // NULL allowed; nobody is inside
// The function's mutex held, after a list was published: asks for a decider over it. One build a
// function is under way at a time; variants that come meanwhile are in the next. Where no decider
// can be made, guards are interpreted: that is no failure of anybody's.
void dt__decider_request(dt_function_t *function);
// Mutex not held. Waits for a build under way; none is begun afterwards.
void dt__decider_stop(dt_function_t *function);

// What the guards of the variants in `list` see of a call in a session at `place`. Captures may
// change at any time, so they are read once, into the caller's `captured`.
static inline dt_guard_args_t dt__guard_args(const dt_function_t *function,
                                             const dt_variant_list_t *list, dt_device_t place,
                                             dt_tensor_t *const *inputs,
                                             int64_t captured[DT_MOST_CAPTURES]) {
  for (uint32_t k = 0; k < list->n_captures; k++)
    captured[k] = __atomic_load_n(list->captures[k], __ATOMIC_RELAXED);
  return (dt_guard_args_t){
      .inputs = inputs,
      .captures = captured,
      .modes = atomic_load_explicit(&function->runtime->modes, memory_order_relaxed) |
               dt__modes_of_place(place)};
}

// The first variant whose guards hold, `symbols` filled; or NULL.
static inline dt_variant_t *dt__list_find(const dt_variant_list_t *list,
                                          const dt_guard_args_t *args, int64_t *symbols) {
  uint32_t i = 0;
  if (list->decider) {
    int64_t found = list->decider->decide(args, symbols);
    if (found >= 0)
      return list->items[found];
    i = list->decider->n;
  }
  for (; i < list->n; i++) {
    if (dt__guards_run(list->items[i]->guards, args, symbols))
      return list->items[i];
  }
  return NULL;
}

#endif // DT_RUNTIME_EXEC_DECIDE_H
