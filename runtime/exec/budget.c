// SPDX-License-Identifier: Apache-2.0
// See budget.h.
#include "runtime/exec/budget.h"

#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"

dt_status_t dt__budget_init(dt_budget_t *budget, const uint64_t max_bytes[DT_MEMORIES]) {
  DT_TRY(dt__mutex_init(&budget->mutex, DT_RANK_BUDGET));
  for (int memory = 0; memory < DT_MEMORIES; memory++) {
    budget->max_bytes[memory] = max_bytes[memory];
    budget->limited = budget->limited || max_bytes[memory];
  }
  budget->ready = true;
  atomic_init(&budget->tick, 1);
  return NULL;
}

void dt__budget_fini(dt_budget_t *budget) {
  if (budget->ready)
    dt__mutex_fini(&budget->mutex);
}

void dt__budget_join(dt_budget_t *budget, dt_holder_t *holder, const dt_holder_kind_t *kind) {
  holder->kind = kind;
  dt__mutex_lock(&budget->mutex);
  holder->next = budget->holders;
  if (holder->next)
    holder->next->previous = holder;
  budget->holders = holder;
  dt__mutex_unlock(&budget->mutex);
}

void dt__budget_leave(dt_budget_t *budget, dt_holder_t *holder) {
  if (!holder->kind || dt__forked())
    return;
  dt__mutex_lock(&budget->mutex);
  if (holder->next)
    holder->next->previous = holder->previous;
  if (holder->previous)
    holder->previous->next = holder->next;
  else
    budget->holders = holder->next;
  dt__mutex_unlock(&budget->mutex);
  holder->kind = NULL;
}

// Mutex held.
static uint64_t sum(const dt_budget_t *budget, dt_memory_t memory) {
  uint64_t bytes = 0;
  for (const dt_holder_t *holder = budget->holders; holder; holder = holder->next)
    bytes += holder->kind->bytes(holder, memory);
  return bytes;
}

// Mutex held. The holder of what was used longest ago, of those that may have something to give.
static dt_holder_t *oldest(const dt_budget_t *budget, dt_memory_t memory) {
  dt_holder_t *found = NULL;
  uint64_t least = UINT64_MAX;
  for (dt_holder_t *holder = budget->holders; holder; holder = holder->next) {
    if (holder->passed == budget->looks || !holder->kind->bytes(holder, memory))
      continue;
    uint64_t used = holder->kind->used(holder, memory);
    if (used < least) {
      least = used;
      found = holder;
    }
  }
  return found;
}

// Mutex held.
static void keep(dt_budget_t *budget, dt_memory_t memory) {
  uint64_t max_bytes = budget->max_bytes[memory];
  dt_holder_t *holder = NULL;
  budget->looks++;
  while (sum(budget, memory) > max_bytes && (holder = oldest(budget, memory)) != NULL) {
    if (!holder->kind->give(holder, memory))
      holder->passed = budget->looks;
  }
}

void dt__budget_keep(dt_budget_t *budget) {
  if (!budget->limited)
    return;
  (void)dt__budget_tick(budget);
  dt__mutex_lock(&budget->mutex);
  for (int memory = 0; memory < DT_MEMORIES; memory++)
    if (budget->max_bytes[memory])
      keep(budget, (dt_memory_t)memory);
  dt__mutex_unlock(&budget->mutex);
}

uint64_t dt__budget_bytes(dt_budget_t *budget, dt_memory_t memory) {
  dt__mutex_lock(&budget->mutex);
  uint64_t bytes = sum(budget, memory);
  dt__mutex_unlock(&budget->mutex);
  return bytes;
}
