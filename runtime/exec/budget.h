// SPDX-License-Identifier: Apache-2.0
// The bytes that a runtime holds, and limits on them. One limit is for the host's memory
// (max_bytes) and one for that of all its devices together (max_device_bytes), since memory freed
// in one is of no use in the other. Beyond a limit, what was used longest ago is freed.
//
// Whoever holds memory that can be made again is a holder. A holder reports how much it has of
// either kind, and when its least recently used part was used, and frees that part when asked. It
// never frees what a call is in, so a limit may be exceeded for as long as calls need it.
//
// Time is counted in ticks. A look over the holders, or a new variant, is one tick. Reading the
// tick costs a call one load; memory in constant use is marked once a tick.
#ifndef DT_RUNTIME_EXEC_BUDGET_H
#define DT_RUNTIME_EXEC_BUDGET_H

#include "runtime/base/thread.h"

#include <stdatomic.h>

typedef enum dt_memory_t { DT_MEMORY_HOST, DT_MEMORY_DEVICE, DT_MEMORIES } dt_memory_t;

typedef struct dt_holder_t dt_holder_t;
typedef struct dt_holder_kind_t {
  // Asked with the budget's lock held, which goes before a function's. `used` is the tick of what
  // `give` gives next of that memory, and of the other perhaps with it; UINT64_MAX: nothing.
  // `give`: bytes given; 0: nothing can be given now.
  uint64_t (*bytes)(const dt_holder_t *holder, dt_memory_t memory);
  uint64_t (*used)(dt_holder_t *holder, dt_memory_t memory);
  uint64_t (*give)(dt_holder_t *holder, dt_memory_t memory);
} dt_holder_kind_t;

struct dt_holder_t {
  const dt_holder_kind_t *kind;
  dt_holder_t *next, *previous; // guarded by the budget's mutex
  uint64_t passed;              // the look in which it had nothing to give; guarded by it
};

typedef struct dt_budget_t {
  dt_mutex_t mutex;
  bool ready;
  uint64_t max_bytes[DT_MEMORIES]; // 0: no limit
  bool limited;                    // any is
  _Atomic uint64_t tick;
  dt_holder_t *holders; // guarded by mutex
  uint64_t looks;       // guarded by mutex
  _Atomic uint64_t evicted_variants, evicted_bytes[DT_MEMORIES], trims;
} dt_budget_t;

dt_status_t dt__budget_init(dt_budget_t *budget, const uint64_t max_bytes[DT_MEMORIES]) DT_MUST_USE;
void dt__budget_fini(dt_budget_t *budget); // no holders are left
void dt__budget_join(dt_budget_t *budget, dt_holder_t *holder, const dt_holder_kind_t *kind);
void dt__budget_leave(dt_budget_t *budget, dt_holder_t *holder); // also one that never joined
// No lock held. Has holders give back until what all hold is within the limits, or none can.
void dt__budget_keep(dt_budget_t *budget);
uint64_t dt__budget_bytes(dt_budget_t *budget, dt_memory_t memory); // that all hold now

static inline uint64_t dt__budget_now(const dt_budget_t *budget) {
  return atomic_load_explicit(&budget->tick, memory_order_relaxed);
}
static inline uint64_t dt__budget_tick(dt_budget_t *budget) {
  return 1 + atomic_fetch_add_explicit(&budget->tick, 1, memory_order_relaxed);
}
// Notes a use, at no cost but two loads where it is noted already.
static inline void dt__budget_touch(const dt_budget_t *budget, _Atomic uint64_t *used) {
  uint64_t now = dt__budget_now(budget);
  if (atomic_load_explicit(used, memory_order_relaxed) != now)
    atomic_store_explicit(used, now, memory_order_relaxed);
}

#endif // DT_RUNTIME_EXEC_BUDGET_H
