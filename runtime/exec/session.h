// SPDX-License-Identifier: Apache-2.0
// Sessions as the files of this folder share them: their scratch, and how they are held.
#ifndef DT_RUNTIME_EXEC_SESSION_H
#define DT_RUNTIME_EXEC_SESSION_H

#include "runtime/base/reclaim.h"
#include "runtime/exec/budget.h"
#include "runtime/exec/function.h"
#include "runtime/exec/place.h"
#include "runtime/exec/variant.h"

#include <stdatomic.h>

struct dt_session {
  dt_runtime_t *runtime;   // a reference
  dt_place_t *home;        // the runtime's: where it runs
  void *own;               // its place's
  dt_device_t place;       // home->number
  dt_reclaim_slot_t *slot; // held by who uses the session
  _Atomic bool doomed;     // to be destroyed by who holds it, or by who unpins it
  dt_pool_level_t level;   // of its kernels, in the runtime's pool
  uint32_t pins;           // of chains, which are in it between its calls
  uint32_t counter;        // which of a function's call counters
  uint32_t sample_in;      // the call that many from now is sampled, 1 the next
  uint32_t sample_seed;
  struct dt_recorder_t *recorder; // of calls while a profile runs (timing.h); NULL: none so far
  // Scratch of the call path; grown off it.
  int64_t *symbols;
  int64_t *sizes;
  void **addresses;      // of inputs, then of outputs
  dt_tensor_t **results; // given or new
  // Of a function with integers: a call's arguments, and the tensors that elements are.
  dt_tensor_t **spread;
  struct dt_tensor *elements;
  uint32_t symbols_cap, sizes_cap, addresses_cap, results_cap, spread_cap, elements_cap;
  dt_holder_t holder;                 // of what it leases
  _Atomic uint64_t held[DT_MEMORIES]; // bytes of these
  _Atomic uint64_t used;              // the tick of the last call
};

// Of session->holder.
extern const dt_holder_kind_t dt__session_holder;

// Every use of a session begins and ends so; a second one meanwhile, by another thread or from
// inside a call, is DT_E_STATE. Calls are inside an epoch from the beginning on.
dt_status_t dt__session_begin(dt_session_t *session) DT_MUST_USE;
// A call of the session has found the variant.
void dt__session_touch(dt_session_t *session, dt_variant_t *variant);
dt_status_t dt__session_busy(void) DT_MUST_USE;
void dt__session_end_doomed(dt_session_t *session);
static inline void dt__session_end(dt_session_t *session) {
  if (__builtin_expect(atomic_load_explicit(&session->doomed, memory_order_relaxed), false))
    dt__session_end_doomed(session);
  else
    dt__reclaim_leave(session->slot);
}

// Keeps the session, whoever destroys it, until it is unpinned. By its thread, between its calls.
static inline void dt__session_pin(dt_session_t *session) { session->pins++; }
void dt__session_unpin(dt_session_t *session);

static inline dt_status_t dt__session_settle(dt_session_t *session) {
  return session->home->kind->settle ? session->home->kind->settle(session) : NULL;
}
// Bytes of memory that a session leases, where it runs.
static inline uint64_t dt__session_bytes(const dt_session_t *session) {
  return session->home->kind->session_bytes(session);
}
// Makes room for a call of `function` with the variants in `list`; contents are not kept.
dt_status_t dt__session_grow(dt_session_t *session, const dt_function_t *function,
                             const dt_variant_list_t *list) DT_MUST_USE;
// Whether this call is to be sampled; the next one to be is chosen at random.
bool dt__session_resample(dt_session_t *session);
static inline bool dt__session_samples(dt_session_t *session) {
  return --session->sample_in == 0 && dt__session_resample(session);
}
static inline dt_status_t dt__session_reserve(dt_session_t *session, const dt_function_t *function,
                                              const dt_variant_list_t *list) {
  if (session->symbols_cap >= list->n_symbols && session->sizes_cap >= list->n_output_sizes &&
      session->addresses_cap >= function->n_inputs + function->n_outputs &&
      session->results_cap >= function->n_outputs)
    return NULL;
  return dt__session_grow(session, function, list);
}
// The arguments of a call of a function with integers, spread: *inputs is replaced by the
// session's.
dt_status_t dt__session_spread(dt_session_t *session, const dt_function_t *function,
                               dt_tensor_t *const **inputs) DT_MUST_USE;

// tensors.c. What dt_tensor_copy checks and does, of a session that is held.
dt_status_t dt__session_copy(dt_session_t *session, const dt_tensor_t *from,
                             dt_tensor_t *to) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_SESSION_H
