// SPDX-License-Identifier: Apache-2.0
// Runtimes, functions, variants and sessions as the files of this folder share them.
//
// Who owns what, and who may see it when:
//   runtime  <-- function, session: a reference each
//   function --> variant list --> variants. A list is never edited but replaced whole. The old one
//                retires through the runtime's reclaimer, since calls read it without a lock.
//   variant  --> guards, traced program, code: immutable; may retire, too (evict.c).
//            --> bindings: the present data of constants. They are replaced whole like lists.
// Everything that changes a function happens under its mutex. A compile does not hold it.
#ifndef DT_RUNTIME_EXEC_EXEC_H
#define DT_RUNTIME_EXEC_EXEC_H

#include "ductile/device.h"
#include "guards/modes.h"
#include "runtime/base/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/pool.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/region.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/decide.h"
#include "runtime/exec/budget.h"
#include "runtime/exec/pager.h"
#include "runtime/exec/place.h"
#include "runtime/exec/policy.h"
#include "runtime/exec/refused.h"
#include "runtime/exec/variant.h"

#include <stdatomic.h>

struct dt_runtime {
  dt_life_t life; // first
  _Atomic uint32_t refs;
  dt_params_t params;
  dt_watch_limits_t budgets; // of each compile
  dt_pool_t *pool;
  dt_compiler_t *compiler;
  dt_reclaim_t *reclaim;
  dt_pager_t *pager;
  dt_budget_t budget;
  dt_holder_t warm;              // the pager's memory
  _Atomic uint64_t modes;        // modes.h
  _Atomic bool garbage;          // something retired may wait still: collect when convenient
  _Atomic uint32_t next_session; // spreads sessions over counters
  dt_mutex_t places_mutex;
  bool has_places_mutex;
  dt_place_t *places[DT_PLACES]; // by number: opened so far; guarded by places_mutex
  void *shared[DT_DEVICES];      // what a kind of place has for all its devices; as guarded
  dt_variant_t *captured;   // left their lists, and stay (evict.c); guarded by the budget's mutex
  _Atomic uint64_t next_id; // of variants and bindings, never used twice
};

// ---- Functions ------------------------------------------------------------------------------------

// Calls are counted where few sessions meet, so that the count costs no shared cache line.
#define DT_CALL_COUNTERS 16
typedef struct dt_call_counter_t {
  _Alignas(64) _Atomic uint64_t calls;
  _Atomic uint64_t launches; // on devices
} dt_call_counter_t;

// A constant's data as dt_constant_update last set it, for variants made later.
typedef struct dt_override_t {
  struct dt_override_t *next;
  dt_tensor_t *tensor; // retained
  char name[];
} dt_override_t;

// The making of deciders: one at a time, by a job on the compile threads. Guarded by the function's
// mutex.
typedef struct dt_decider_build_t {
  dt_job_t job;
  bool posted;        // the job is queued or runs
  bool running;       // it runs
  bool stopped;       // for good
  bool again;         // variants came while it ran
  int64_t ns, all_ns; // how long the last one took, and all of them
  uint64_t made, failed;
} dt_decider_build_t;
// What a function remembers of its compiles (explain.h). Valid when zeroed.
typedef struct dt_history_t {
  struct dt_history_item_t *first, *last; // oldest first
  uint32_t n;
  uint64_t forgotten; // older ones, freed
} dt_history_t;

struct dt_function {
  dt_call_counter_t counters[DT_CALL_COUNTERS];
  _Atomic uint32_t refs;
  dt_runtime_t *runtime; // a reference
  dt_arena_t arena;      // name and declarations
  const char *name;
  dt_program_fn_t program;
  void *closure;
  void (*closure_free)(void *closure);
  // As declared; and as everything but dt_call and its kin sees them, integers as an input an
  // element. The same where `spread` is NULL.
  uint32_t n_given, n_inputs, n_outputs;
  const dt_input_decl_t *given, *inputs;
  const dt_spread_t *spread;
  dt_answer_t answer;
  dt_dynamic_t dynamic;
  dt_limit_action_t limit_action;
  uint32_t variant_limit, compile_limit;
  uint64_t max_call_bytes; // 0: no limit
  bool strict_fp;          // whatever the runtime's mode is
  dt_call_mode_t call_mode;

  dt_variant_list_t *_Atomic list; // never NULL; replaced under `mutex`

  dt_mutex_t mutex;
  pthread_cond_t idle;        // `building` became false
  bool building;              // guarded by mutex: a variant is being made
  pthread_t builder;          // guarded by mutex: by whom
  uint32_t waiting;           // guarded by mutex: calls that wait for it, whose it is included
  dt_watch_t *watch;          // guarded by mutex: its; NULL: none, or it cannot be ended
  pthread_t apart;            // the last thread that compiled apart from its call (apart.c)
  bool has_apart;             // it is not joined; the builder's, and the last release's
  uint32_t next_number;       // guarded by mutex
  dt_override_t *overrides;   // guarded by mutex
  dt_history_t history;       // guarded by mutex
  bool frozen;                // guarded by mutex
  dt_device_t *generic_tried; // guarded by mutex: places, at a limit, whatever came of it
  uint32_t n_generic_tried;
  const char *generic_failure; // guarded by mutex: why there is no generic variant; or NULL
  dt_policy_t policy;          // guarded as its parts say
  dt_refused_t *refused;       // guarded by mutex: NULL before the first
  uint64_t excused;            // guarded by mutex: compiles that count against no limit
  uint32_t pins;               // guarded by mutex: who relies on variants without holding it
  dt_holder_t holder;          // of the variants' memory
  _Atomic uint64_t held_bytes[DT_MEMORIES]; // by all in `list`
  dt_decider_build_t decider;

  _Atomic uint64_t compiles, misses, evaluator_calls, failed_calls, compile_ns, kernels, code_bytes,
      constant_bytes, promotions, limit_misses, frozen_misses, sampled_calls, readbacks,
      device_load_ns, graph_calls, graph_skips;
  const char *_Atomic graph_skip;    // the last reason for one, static; NULL: none so far
  _Atomic uint32_t graph_skips_told; // reasons that the log has, a bit each; the place's
};

// ---- Sessions -------------------------------------------------------------------------------------

struct dt_session {
  dt_runtime_t *runtime;   // a reference
  dt_place_t *home;        // the runtime's: where it runs
  void *own;               // its place's
  dt_device_t place;       // home->number
  dt_reclaim_slot_t *slot; // held by who uses the session
  _Atomic bool doomed;     // to be destroyed by who holds it
  uint32_t counter;        // which of a function's call counters
  uint32_t sample_in;      // the call that many from now is sampled, 1 the next
  uint32_t sample_seed;
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
extern const dt_holder_kind_t dt__function_holder, dt__session_holder, dt__pager_holder;

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

// ---- Between the files ----------------------------------------------------------------------------

// steps.c. DT_E_ARGUMENT: `mode` is none.
dt_status_t dt__check_call_mode(dt_call_mode_t mode) DT_MUST_USE;

// A number that no other variant or bindings of the runtime ever have; not 0. The first of `n`.
static inline uint64_t dt__runtime_ids(dt_runtime_t *runtime, uint32_t n) {
  return 1 + atomic_fetch_add_explicit(&runtime->next_id, n, memory_order_relaxed);
}
static inline uint64_t dt__runtime_id(dt_runtime_t *runtime) { return dt__runtime_ids(runtime, 1); }

// Frees what was retired and is seen by nobody any more.
void dt__runtime_collect(dt_runtime_t *runtime);

// evict.c. The function's mutex held: the budget counts the variant, which is published next; or
// new bindings of one instead of those before.
void dt__variant_hold(dt_function_t *function, dt_variant_t *variant);
void dt__variant_rehold(dt_function_t *function, dt_bindings_t *old, dt_bindings_t *fresh);
// A variant that left its list stays for what the caller captured, until dt__runtime_drop_captured:
// then all calls have ended.
void dt__variant_stay(dt_variant_t *variant);
void dt__runtime_drop_captured(dt_runtime_t *runtime);

// swap.c. Compiles the newest variant's program again, and puts its kernels in place of those in
// use while calls go on: a call runs either, or some of both. What was replaced stays loaded, since
// launches may be under way. DT_E_STATE (no variant), DT_E_LIMIT (done too often), DT_E_COMPILE.
// [any]
dt_status_t dt__function_recompile(dt_function_t *function) DT_MUST_USE;
// variant.c's: nobody is inside.
void dt__variant_drop_swapped(dt_variant_t *variant);

// decide.c. Compiled code that finds among the first `n` variants of a list the one whose guards
// hold first. Made off the call path. Lists of one function share it until a newer one is made.
typedef struct dt_decider_t {
  dt_retired_t retired; // first: the reclaimer's item
  dt_native_t *native;
  dt_decide_fn_t decide;
  uint32_t n;
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

// apart.c. How a build is waited for by calls that may leave before it ends.
//
// Waits for function->idle, mutex held; a failure: `control` (NULL: none) ended the call, and where
// nobody else waits the build is stopped.
dt_status_t dt__build_wait(dt_function_t *function, dt_control_t *control) DT_MUST_USE;
// The build that goes on without its call, on a thread of its own: `compile` without the mutex,
// then `publish` with it, both of `user`, which `publish` releases. Mutex held, `building` set. A
// failure: the call ended before, and `publish` is called later all the same; or there is no
// thread, and *out_started is false. Else publish's status.
typedef struct dt_apart_t {
  dt_status_t (*compile)(void *user);
  dt_status_t (*publish)(void *user, dt_status_t status);
  void *user;
} dt_apart_t;
dt_status_t dt__build_apart(dt_function_t *function, const dt_apart_t *apart, dt_control_t *control,
                            bool *out_started) DT_MUST_USE;
// The builder's: joins the thread of the last such build, which has ended.
void dt__build_join(dt_function_t *function);
// The last release's: nobody waits for a build any more.
void dt__build_end(dt_function_t *function);

// miss.c. Makes sure that a variant covers `inputs`, or with inputs NULL (session NULL) that there
// is any variant for `place`: checks the arguments, waits for a compile under way, or compiles. Not
// inside an epoch. At a limit with DT_LIMIT_EVALUATOR *out_once (NULL with inputs NULL) is a
// variant for this call alone, which the caller destroys; else it is NULL.
dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function, dt_device_t place,
                               dt_tensor_t *const *inputs, dt_control_t *control,
                               dt_variant_t **out_once) DT_MUST_USE;

// Of input `index`: which argument of a call it is, or is an element of.
static inline uint32_t dt__input_position(const dt_function_t *function, uint32_t index) {
  return function->spread ? function->spread->positions[index] : index;
}
// The name of input `index`, or of argument `index`, for messages, in `buf`.
const char *dt__given_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);
const char *dt__input_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);

#endif // DT_RUNTIME_EXEC_EXEC_H
