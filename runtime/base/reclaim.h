// SPDX-License-Identifier: Apache-2.0
// Reclamation by epochs: what readers may still see is freed once no reader can.
//
// A reader enters before it loads a shared pointer and leaves when done; a writer unpublishes an
// item and retires it. The item is destroyed when no reader entered before it was retired is still
// inside, and its `ready` callback (a device event) says so too. Readers take no lock.
#ifndef DT_RUNTIME_BASE_RECLAIM_H
#define DT_RUNTIME_BASE_RECLAIM_H

#include "ductile/base.h"

typedef struct dt_reclaim dt_reclaim_t;
typedef struct dt_reclaim_slot dt_reclaim_slot_t; // one reader's place; owned by the reclaimer

dt_status_t dt__reclaim_create(dt_reclaim_t **out) DT_MUST_USE;
void dt__reclaim_destroy(dt_reclaim_t *reclaim); // destroys all that is retired; no readers inside

// A slot for one reader at a time (a session has one). Reused after release.
dt_status_t dt__reclaim_slot_acquire(dt_reclaim_t *reclaim, dt_reclaim_slot_t **out) DT_MUST_USE;
void dt__reclaim_slot_release(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot);
// Enters; false, and nothing has changed: the slot is held already. Whoever enters holds the slot
// until it leaves, so a second use of what owns the slot is seen at no cost of its own.
bool dt__reclaim_enter(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot) DT_MUST_USE;
// Holds the slot and stays outside: nothing is kept alive. False as above.
bool dt__reclaim_hold(dt_reclaim_slot_t *slot) DT_MUST_USE;
// Holds a slot that nobody holds, and stays outside, for a short while in which others wait for it
// as if it were free. Ended by dt__reclaim_leave. False: it is held.
bool dt__reclaim_borrow(dt_reclaim_slot_t *slot) DT_MUST_USE;
// From inside to outside and back, the slot held all the while; pausing outside does nothing.
void dt__reclaim_pause(dt_reclaim_slot_t *slot);
void dt__reclaim_resume(dt_reclaim_t *reclaim, dt_reclaim_slot_t *slot);
// Ends what either began.
void dt__reclaim_leave(dt_reclaim_slot_t *slot);

// An intrusive item: embed it, so that retiring never allocates.
typedef struct dt_retired_t {
  struct dt_retired_t *next;
  uint64_t epoch;
  void (*destroy)(struct dt_retired_t *item);
  bool (*ready)(struct dt_retired_t *item); // NULL: always
} dt_retired_t;
void dt__reclaim_retire(dt_reclaim_t *reclaim, dt_retired_t *item);
// Frees what can be freed now; returns how many items wait still. `ready` is asked with the
// reclaimer's lock held (it must neither lock nor retire), `destroy` runs without it.
uint32_t dt__reclaim_collect(dt_reclaim_t *reclaim);

#endif // DT_RUNTIME_BASE_RECLAIM_H
