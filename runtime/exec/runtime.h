// SPDX-License-Identifier: Apache-2.0
// Runtimes as the files of this folder share them.
//
// Who owns what, and who may see it when:
//   runtime  <-- function, session: a reference each
//   function --> variant list --> variants. A list is never edited but replaced whole. The old one
//                retires through the runtime's reclaimer, since calls read it without a lock.
//   variant  --> guards, traced program, code: immutable; may retire, too (evict.c).
//            --> bindings: what constants are at the moment. They are replaced whole like lists.
// Everything that changes a function happens under its mutex. A compile does not hold it.
#ifndef DT_RUNTIME_EXEC_RUNTIME_H
#define DT_RUNTIME_EXEC_RUNTIME_H

#include "guards/modes.h"
#include "runtime/base/cpus.h"
#include "runtime/base/params.h"
#include "runtime/base/pool.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/budget.h"
#include "runtime/exec/pager.h"
#include "runtime/exec/place.h"
#include "runtime/exec/timing_rates.h"
#include "runtime/exec/variant.h"

#include <stdatomic.h>

struct dt_runtime {
  dt_life_t life; // first
  _Atomic uint32_t refs;
  dt_params_t params;
  dt_watch_limits_t budgets; // of each compile
  dt_allocator_t allocator;  // the host's; zeroed: none (dt__runtime_memory)
  dt_executor_t executor;    // the host's; zeroed: none
  dt_cpus_t cpus;            // of the runtime's threads
  dt_pool_t *pool;
  dt_compiler_t *compiler;
  dt_reclaim_t *reclaim;
  dt_pager_t *pager;
  dt_budget_t budget;
  dt_holder_t warm;                   // the pager's memory
  dt_forms_t forms;                   // of constants, of all functions
  _Atomic uint64_t modes;             // modes.h
  struct dt_profile *_Atomic profile; // that runs (timing.h), a reference; or NULL
  _Atomic bool times_calls;           // for histograms (latency.h)
  struct dt_perf_t *perf;             // who is told of code (perf.h); NULL: nobody
  _Atomic bool garbage;               // something retired may wait still: collect when convenient
  _Atomic uint32_t next_session;      // spreads sessions over counters
  dt_mutex_t places_mutex;
  bool has_places_mutex;
  dt_mutex_t report_mutex; // of who makes a report of a profile; guards `rates`
  bool has_report_mutex;
  dt_rates_t rates;              // of this machine; zeros: not measured yet
  dt_place_t *places[DT_PLACES]; // by number: opened so far; guarded by places_mutex
  void *shared[DT_DEVICES];      // what a kind of place has for all its devices; as guarded
  struct dt_turn_t *turn;        // of passes of users: one runs at a time (hooks.h)
  struct dt_hooks_t *hooks;      // passes that functions made from now on have; the turn's mutex
  dt_variant_t *captured;   // left their lists, and stay (evict.c); guarded by the budget's mutex
  _Atomic uint64_t next_id; // of variants and bindings, never used twice
};
// Where what calls make and work in comes from; NULL: the library's own.
static inline const dt_allocator_t *dt__runtime_memory(const dt_runtime_t *runtime) {
  return runtime->allocator.take ? &runtime->allocator : NULL;
}
// A number that no other variant or bindings of the runtime ever have; not 0. The first of `n`.
static inline uint64_t dt__runtime_ids(dt_runtime_t *runtime, uint32_t n) {
  return 1 + atomic_fetch_add_explicit(&runtime->next_id, n, memory_order_relaxed);
}
static inline uint64_t dt__runtime_id(dt_runtime_t *runtime) { return dt__runtime_ids(runtime, 1); }

// Passes of users (passes.c). The end is allowed where the beginning failed.
dt_status_t dt__passes_begin(dt_runtime_t *runtime) DT_MUST_USE;
void dt__passes_end(dt_runtime_t *runtime);
// Those that a new function has, which says `chosen` (dt_function_options_t.passes): a share.
dt_status_t dt__passes_choose(dt_runtime_t *runtime, const char *chosen,
                              struct dt_hooks_t **out) DT_MUST_USE;

// Frees what was retired and is seen by nobody any more.
void dt__runtime_collect(dt_runtime_t *runtime);

#endif // DT_RUNTIME_EXEC_RUNTIME_H
