// SPDX-License-Identifier: Apache-2.0
// Sessions: the memory that one caller's calls use. It grows to the most that was needed and stays,
// so a call at sizes seen before takes nothing from the heap.
#include "runtime/exec/session.h"

#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/timing.h"

// ---- Giving back ----------------------------------------------------------------------------------

static uint64_t held_bytes(const dt_holder_t *holder, dt_memory_t memory) {
  const dt_session_t *session =
      (const dt_session_t *)((const char *)holder - offsetof(dt_session_t, holder));
  return atomic_load_explicit(&session->held[memory], memory_order_relaxed);
}

static dt_session_t *session_of(dt_holder_t *holder) {
  return (dt_session_t *)((char *)holder - offsetof(dt_session_t, holder));
}

static uint64_t last_used(dt_holder_t *holder, dt_memory_t memory) {
  (void)memory;
  return atomic_load_explicit(&session_of(holder)->used, memory_order_relaxed);
}

// Of a session that nobody is in; who comes meanwhile waits.
static uint64_t give(dt_holder_t *holder, dt_memory_t memory) {
  dt_session_t *session = session_of(holder);
  if (!dt__reclaim_borrow(session->slot))
    return 0;
  uint64_t before = held_bytes(holder, memory);
  session->home->kind->give(session);
  uint64_t given = before - held_bytes(holder, memory);
  dt__reclaim_leave(session->slot);
  if (given)
    (void)atomic_fetch_add_explicit(&session->runtime->budget.trims, 1, memory_order_relaxed);
  return given;
}

const dt_holder_kind_t dt__session_holder = {held_bytes, last_used, give};

// ---- Making ---------------------------------------------------------------------------------------

static dt_status_t check_options(const dt_session_options_t *options) {
  if (options->device == DT_CPU && (options->ordinal != 0 || options->stream))
    return DT_FAIL(DT_E_ARGUMENT, "%s; a session on the CPU has ordinal 0 and no stream",
                   options->stream ? "stream: not NULL" : "ordinal: not 0");
  if ((unsigned)options->priority > DT_PRIORITY_LATER)
    return DT_FAIL(DT_E_ARGUMENT, "priority: %d is no dt_priority_t", (int)options->priority);
  if (options->priority && options->device != DT_CPU)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "priority: %d on a device; give a stream that has the priority",
                   (int)options->priority);
  return NULL;
}

static const dt_pool_level_t levels[] = {[DT_PRIORITY_NORMAL] = DT_POOL_NORMAL,
                                         [DT_PRIORITY_URGENT] = DT_POOL_URGENT,
                                         [DT_PRIORITY_LATER] = DT_POOL_LATER};

// What the place needs comes first, since it may fail in more ways than the rest.
static dt_status_t make(dt_session_t *session, const dt_session_options_t *options) {
  dt_runtime_t *runtime = session->runtime;
  if (session->home->kind->session_open)
    DT_TRY(session->home->kind->session_open(session, options));
  DT_TRY(dt__reclaim_slot_acquire(runtime->reclaim, &session->slot));
  session->counter =
      atomic_fetch_add_explicit(&runtime->next_session, 1, memory_order_relaxed) % DT_CALL_COUNTERS;
  session->sample_in = 1; // so that short lives are seen, too
  session->sample_seed = session->counter * 2 + 1;
  dt_runtime_retain(runtime);
  dt__life_meet_thread();
  dt__budget_join(&runtime->budget, &session->holder, &dt__session_holder);
  return NULL;
}

static dt_status_t create(dt_runtime_t *runtime, const dt_session_options_t *options,
                          dt_session_t **out) {
  dt_session_options_t all;
  DT_TRY(DT_OPTIONS_TAKE(dt_session_options_t, &all, options));
  DT_TRY(check_options(&all));
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  dt_place_t *home = NULL;
  DT_TRY(dt__runtime_place(runtime, all.device, all.ordinal, &home));
  dt_session_t *session = dt__calloc(1, sizeof(*session));
  void *own = dt__calloc(1, home->kind->session_size);
  if (!session || !own) {
    dt__free(session);
    dt__free(own);
    return DT_NO_MEMORY();
  }
  session->own = own;
  session->runtime = runtime;
  session->home = home;
  session->place = home->number;
  session->level = levels[all.priority];
  dt_status_t status = make(session, &all);
  if (status) {
    home->kind->session_close(session);
    dt__free(session->own);
    dt__free(session);
    return status;
  }
  *out = session;
  return NULL;
}

dt_status_t dt_session_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                              dt_session_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT,
                   "dt_session_create: out: NULL; expected where to put the session");
  *out = NULL;
  return dt__status_annotate(create(runtime, options, out), "dt_session_create");
}

// ---- Using ----------------------------------------------------------------------------------------

dt_status_t dt__session_busy(void) {
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  return DT_FAIL(DT_E_STATE, "the session is in a call; each thread, and each program that makes "
                             "calls while it is traced, needs a session of its own");
}

dt_status_t dt__session_begin(dt_session_t *session) {
  return dt__reclaim_hold(session->slot) ? NULL : dt__session_busy();
}

// ---- The end --------------------------------------------------------------------------------------

static void session_free(dt_session_t *session) {
  dt_runtime_t *runtime = session->runtime;
  dt__budget_leave(&runtime->budget, &session->holder);
  session->home->kind->session_close(session);
  if (!dt__forked())
    dt__reclaim_slot_release(runtime->reclaim, session->slot);
  dt__free(session->own);
  dt__free(session->symbols);
  dt__free(session->sizes);
  dt__free(session->addresses);
  dt__free(session->results);
  dt__free(session->spread);
  dt__free(session->elements);
  dt__recorder_free(session->recorder);
  dt__free(session);
  dt_runtime_release(runtime);
}

void dt__session_end_doomed(dt_session_t *session) {
  if (session->pins)
    dt__reclaim_leave(session->slot);
  else
    session_free(session);
}

void dt__session_unpin(dt_session_t *session) {
  if (--session->pins == 0 && atomic_load_explicit(&session->doomed, memory_order_relaxed))
    dt_session_destroy(session);
}

// A copy of a session in a child after fork may be in a call that goes on in the parent only.
void dt_session_destroy(dt_session_t *session) {
  if (!session)
    return;
  bool held = dt__forked() || dt__reclaim_hold(session->slot);
  if (held && !session->pins) {
    session_free(session);
    return;
  }
  atomic_store_explicit(&session->doomed, true, memory_order_relaxed);
  if (held)
    dt__reclaim_leave(session->slot);
}

// ---- Sampling -------------------------------------------------------------------------------------

// One call in SAMPLE_MEAN is sampled, at distances that no pattern of calls keeps step with.
#define SAMPLE_MEAN 256u

bool dt__session_resample(dt_session_t *session) {
  uint32_t x = session->sample_seed; // not 0, and so it stays
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  session->sample_seed = x;
  session->sample_in = 1 + x % (2 * SAMPLE_MEAN - 1);
  return true;
}

// ---- Growing --------------------------------------------------------------------------------------

static bool reserve(void **items, uint32_t *cap, uint32_t need, size_t item) {
  if (need <= *cap)
    return true;
  void *grown = dt__calloc(need, item);
  if (!grown)
    return false;
  dt__free(*items);
  *items = grown;
  *cap = need;
  return true;
}

dt_status_t dt__session_grow(dt_session_t *session, const dt_function_t *function,
                             const dt_variant_list_t *list) {
  uint32_t n_addresses = function->n_inputs + function->n_outputs;
  if (!reserve((void **)&session->symbols, &session->symbols_cap, list->n_symbols,
               sizeof(*session->symbols)) ||
      !reserve((void **)&session->sizes, &session->sizes_cap, list->n_output_sizes,
               sizeof(*session->sizes)) ||
      !reserve((void **)&session->addresses, &session->addresses_cap, n_addresses,
               sizeof(*session->addresses)) ||
      !reserve((void **)&session->results, &session->results_cap, function->n_outputs,
               sizeof(dt_tensor_t *)))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__session_spread(dt_session_t *session, const dt_function_t *function,
                               dt_tensor_t *const **inputs) {
  uint32_t n = function->n_inputs + 1; // an array also where all are without elements
  if (!reserve((void **)&session->spread, &session->spread_cap, n, sizeof(dt_tensor_t *)) ||
      !reserve((void **)&session->elements, &session->elements_cap, n, sizeof(struct dt_tensor)))
    return DT_NO_MEMORY();
  DT_TRY(dt__spread_arguments(function->spread, session->place, *inputs, session->elements,
                              session->spread));
  *inputs = session->spread;
  return NULL;
}

// ---- Waiting --------------------------------------------------------------------------------------

dt_status_t dt_session_wait(dt_session_t *session) {
  if (!session)
    return DT_FAIL(DT_E_ARGUMENT, "dt_session_wait: session: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_session_wait in a child after fork");
  dt_status_t status = dt__session_begin(session);
  if (!status) {
    status = dt__session_settle(session);
    dt__session_end(session);
    if (atomic_load_explicit(&session->runtime->garbage, memory_order_relaxed))
      dt__runtime_collect(session->runtime);
  }
  return dt__status_annotate(status, "dt_session_wait");
}

void *dt_session_stream(const dt_session_t *session) {
  return session && session->home->kind->stream ? session->home->kind->stream(session) : NULL;
}
