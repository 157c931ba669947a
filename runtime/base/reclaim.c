// SPDX-License-Identifier: Apache-2.0
// Reclamation by epochs.
//
// A reader puts the current epoch into its slot when it enters and 0 when it leaves; one that holds
// its slot without being inside has OUTSIDE there, which is later than every epoch. Retiring stamps
// an item with the current epoch and moves to the next. An item stamped E can be seen only by
// readers whose slot holds a value in [1, E]: one that entered at a later epoch read that epoch
// after the stamping, hence after the item was unpublished. Entering and scanning are separated by
// full barriers on both sides, so either the scan sees the slot or the reader sees the
// unpublishing.
#include "runtime/base/reclaim.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <sched.h>
#include <stdatomic.h>

#define LINE 64
#define FREE ((uint64_t)0)
#define OUTSIDE UINT64_MAX
#define BORROWED (UINT64_MAX - 1) // outside, for a short while: who wants the slot waits

struct dt_reclaim_slot {
  _Alignas(LINE) _Atomic uint64_t epoch; // or FREE, or OUTSIDE
  dt_reclaim_slot_t *next;               // constant once linked
  bool in_use;                           // guarded by the reclaimer's mutex
};

struct dt_reclaim {
  _Alignas(LINE) _Atomic uint64_t epoch; // from 1; advanced under the mutex
  _Alignas(LINE) dt_mutex_t mutex;       // guards all below
  dt_reclaim_slot_t *slots;
  dt_retired_t *first, **end; // retired items, oldest first
  uint32_t waiting;
};

dt_status_t dt__reclaim_create(dt_reclaim_t **out) {
  *out = NULL;
  dt_reclaim_t *reclaim = dt__alloc_aligned(sizeof(*reclaim), LINE);
  if (!reclaim)
    return DT_NO_MEMORY();
  *reclaim = (dt_reclaim_t){.epoch = 1};
  reclaim->end = &reclaim->first;
  dt_status_t status = dt__mutex_init(&reclaim->mutex, DT_RANK_RECLAIM);
  if (status) {
    dt__free(reclaim);
    return status;
  }
  *out = reclaim;
  return NULL;
}

static void destroy_list(dt_retired_t *item) {
  while (item) {
    dt_retired_t *next = item->next; // the item's memory goes with it
    item->destroy(item);
    item = next;
  }
}

void dt__reclaim_destroy(dt_reclaim_t *reclaim) {
  if (!reclaim)
    return;
  // Destroying an item may retire others.
  while (reclaim->first) {
    dt_retired_t *items = reclaim->first;
    reclaim->first = NULL;
    reclaim->end = &reclaim->first;
    reclaim->waiting = 0;
    destroy_list(items);
  }
  while (reclaim->slots) {
    dt_reclaim_slot_t *slot = reclaim->slots;
    reclaim->slots = slot->next;
    dt__free(slot);
  }
  dt__mutex_fini(&reclaim->mutex);
  dt__free(reclaim);
}

dt_status_t dt__reclaim_slot_acquire(dt_reclaim_t *reclaim, dt_reclaim_slot_t **out) {
  *out = NULL;
  dt__mutex_lock(&reclaim->mutex);
  dt_reclaim_slot_t *slot = reclaim->slots;
  while (slot && slot->in_use)
    slot = slot->next;
  if (!slot) {
    slot = dt__alloc_aligned(sizeof(*slot), LINE);
    if (slot) {
      *slot = (dt_reclaim_slot_t){.next = reclaim->slots};
      reclaim->slots = slot;
    }
  }
  if (slot)
    slot->in_use = true;
  dt__mutex_unlock(&reclaim->mutex);
  if (!slot)
    return DT_NO_MEMORY();
  *out = slot;
  return NULL;
}

void dt__reclaim_slot_release(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot) {
  if (!slot)
    return;
  dt__mutex_lock(&reclaim->mutex);
  atomic_store_explicit(&slot->epoch, FREE, memory_order_release);
  slot->in_use = false;
  dt__mutex_unlock(&reclaim->mutex);
}

// Puts `to` into a slot that holds `from`; a full barrier where it does. False: it holds another.
static inline bool change(dt_reclaim_slot_t *slot, uint64_t from, uint64_t to) {
  bool changed = atomic_compare_exchange_strong_explicit(
      &slot->epoch, &from, to, memory_order_seq_cst, memory_order_relaxed);
  // On x86 the exchange is the barrier; the thread sanitizer knows no other.
#if !defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  atomic_thread_fence(memory_order_seq_cst);
#endif
  return changed;
}

// The epoch read may be an old one by the time it is written; that only keeps more items alive.
static bool wait_borrowed(dt_reclaim_slot_t *slot, uint64_t to) {
  while (atomic_load_explicit(&slot->epoch, memory_order_relaxed) == BORROWED)
    (void)sched_yield();
  return change(slot, FREE, to);
}

bool dt__reclaim_enter(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot) {
  uint64_t epoch = atomic_load_explicit(&reclaim->epoch, memory_order_acquire);
  return change(slot, FREE, epoch) || wait_borrowed(slot, epoch);
}

bool dt__reclaim_hold(dt_reclaim_slot_t *slot) {
  return change(slot, FREE, OUTSIDE) || wait_borrowed(slot, OUTSIDE);
}

bool dt__reclaim_borrow(dt_reclaim_slot_t *slot) { return change(slot, FREE, BORROWED); }

void dt__reclaim_pause(dt_reclaim_slot_t *slot) {
  atomic_store_explicit(&slot->epoch, OUTSIDE, memory_order_release);
}

void dt__reclaim_resume(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot) {
  (void)change(slot, OUTSIDE, atomic_load_explicit(&reclaim->epoch, memory_order_acquire));
}

void dt__reclaim_leave(dt_reclaim_slot_t *slot) {
  atomic_store_explicit(&slot->epoch, FREE, memory_order_release);
}

void dt__reclaim_retire(dt_reclaim_t *reclaim, dt_retired_t *item) {
  dt__mutex_lock(&reclaim->mutex);
  item->next = NULL;
  item->epoch = atomic_fetch_add_explicit(&reclaim->epoch, 1, memory_order_seq_cst);
  *reclaim->end = item;
  reclaim->end = &item->next;
  reclaim->waiting++;
  dt__mutex_unlock(&reclaim->mutex);
}

// The oldest epoch a reader inside entered at; OUTSIDE when none is inside.
static uint64_t oldest_reader(const dt_reclaim_t *reclaim) {
#ifndef __SANITIZE_THREAD__
  atomic_thread_fence(memory_order_seq_cst);
#endif
  uint64_t oldest = OUTSIDE;
  for (dt_reclaim_slot_t *slot = reclaim->slots; slot; slot = slot->next) {
    uint64_t epoch = atomic_load_explicit(&slot->epoch, memory_order_seq_cst);
    if (epoch != FREE && epoch < oldest)
      oldest = epoch;
  }
  return oldest;
}

uint32_t dt__reclaim_collect(dt_reclaim_t *reclaim) {
  dt_retired_t *free_items = NULL;
  dt__mutex_lock(&reclaim->mutex);
  uint64_t oldest = reclaim->first ? oldest_reader(reclaim) : 0;
  dt_retired_t **at = &reclaim->first;
  // Stamps rise along the list, so the first item a reader may see ends the walk.
  while (*at && (*at)->epoch < oldest) {
    dt_retired_t *item = *at;
    if (item->ready && !item->ready(item)) {
      at = &item->next;
      continue;
    }
    *at = item->next;
    if (!*at)
      reclaim->end = at;
    item->next = free_items;
    free_items = item;
    reclaim->waiting--;
  }
  uint32_t waiting = reclaim->waiting;
  dt__mutex_unlock(&reclaim->mutex);
  destroy_list(free_items); // outside the lock: it may take locks, or retire more
  return waiting;
}
