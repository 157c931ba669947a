// SPDX-License-Identifier: Apache-2.0
// Runtimes, functions, variants and sessions as the files of this folder share them.
//
// Who owns what, and who may see it when:
//   runtime  ◄── function, session (a reference each)
//   function ──► variant list ──► variants; a list is never edited but replaced whole, and the old
//   one
//                retires through the runtime's reclaimer, since calls read it without a lock
//   variant  ──► guards, traced program, code: immutable, for the function's life
//            ──► bindings: what constants are at the moment; replaced whole like lists
// Everything that changes a function happens under its mutex; a compile does not hold it.
#ifndef DT_RUNTIME_EXEC_EXEC_H
#define DT_RUNTIME_EXEC_EXEC_H

#include "cudagraphs/store.h"
#include "ductile/device.h"
#include "guards/modes.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/pool.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/region.h"
#include "runtime/base/thread.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/decide.h"
#include "runtime/exec/pager.h"
#include "runtime/exec/policy.h"

#include <stdatomic.h>

struct dt_cuda_gpu_t;

struct dt_runtime {
  _Atomic uint32_t refs;
  dt_params_t params;
  dt_pool_t *pool;
  dt_compiler_t *compiler;
  dt_reclaim_t *reclaim;
  dt_pager_t *pager;
  _Atomic uint64_t modes;        // modes.h
  _Atomic bool garbage;          // something retired may wait still: collect when convenient
  _Atomic uint32_t next_session; // spreads sessions over counters
  dt_mutex_t devices_mutex;
  bool has_devices_mutex;
  struct dt_cuda_gpu_t *gpus[DT_MOST_ORDINALS]; // opened so far; guarded by devices_mutex
  dt_graph_store_t graphs;
  bool has_graphs;
  _Atomic uint64_t next_id; // of variants and bindings, never used twice
};

// device.c. The GPU of that ordinal, opened at the first use; the runtime's. DT_E_UNSUPPORTED where
// there is no driver or no such device.
dt_status_t dt__runtime_device(dt_runtime_t *runtime, int32_t ordinal,
                               struct dt_cuda_gpu_t **out) DT_MUST_USE;
// The same for a place: NULL for the CPU.
dt_status_t dt__runtime_place(dt_runtime_t *runtime, dt_device_t place,
                              struct dt_cuda_gpu_t **out) DT_MUST_USE;

// ---- Variants -------------------------------------------------------------------------------------

// The constants of one variant and what was computed from them.
typedef struct dt_bindings_t {
  dt_retired_t retired; // first: the reclaimer's item
  uint64_t id;
  char *once; // ONCE memory, 64-byte aligned; NULL when there is none
  uint32_t n;
  dt_tensor_t **tensors; // retained, by constant index
  void **addresses;      // of their elements, where the variant runs
  // On a device: copies of the tensors, shared with other bindings of the same tensors, and what
  // `once` points into.
  dt_storage_t **copies;
  dt_storage_t *once_storage;
} dt_bindings_t;

typedef struct dt_output_info_t {
  dt_dtype_t dtype;
  uint32_t rank;
} dt_output_info_t;

typedef struct dt_variant_t {
  dt_guards_t *guards;
  dt_traced_t *traced;
  dt_compiled_t *compiled;   // NULL: answered by the evaluator
  dt_device_t place;         // of the sessions that it answers
  struct dt_cuda_gpu_t *gpu; // a reference; NULL on the CPU
  uint32_t number;           // for logs
  uint64_t id;               // of its first segment; the others' follow
  bool strict_fp;            // its code
  dt_graph_store_t *graphs;  // the runtime's
  uint32_t n_symbols;        // length of the symbol array that guards and code use
  uint32_t n_output_sizes;   // ranks of all outputs, added up
  dt_output_info_t *outputs;
  dt_bindings_t *_Atomic bindings;
  int64_t
      *once_symbols; // of the call that the variant was made for, where it is for that one alone
  _Atomic uint64_t kernels_swapped; // times that other code was put in `compiled->kernels`
  // That code: compiles of the same program, whose kernels alone are used. Guarded by the
  // function's mutex.
  dt_compiled_t **swapped;
  uint32_t n_swapped;
} dt_variant_t;

typedef struct dt_variant_list_t {
  dt_retired_t retired;               // first: the reclaimer's item
  uint32_t n_symbols, n_output_sizes; // the most that any variant needs
  const int64_t *const *captures;     // addresses, by the graphs' captures
  uint32_t n_captures;
  const struct dt_decider_t *decider; // over the first of them; or NULL: all are interpreted
  uint32_t n;
  dt_variant_t *items[];
} dt_variant_list_t;

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
  bool strict_fp; // whatever the runtime's mode is
  dt_call_mode_t call_mode;

  dt_variant_list_t *_Atomic list; // never NULL; replaced under `mutex`

  dt_mutex_t mutex;
  pthread_cond_t idle;        // `building` became false
  bool building;              // guarded by mutex: a variant is being made
  pthread_t builder;          // guarded by mutex: by whom
  uint32_t next_number;       // guarded by mutex
  dt_override_t *overrides;   // guarded by mutex
  dt_history_t history;       // guarded by mutex
  bool frozen;                // guarded by mutex
  dt_device_t *generic_tried; // guarded by mutex: places, at a limit, whatever came of it
  uint32_t n_generic_tried;
  const char *generic_failure; // guarded by mutex: why there is no generic variant; or NULL
  dt_policy_t policy;          // guarded as its parts say
  dt_decider_build_t decider;

  _Atomic uint64_t compiles, misses, evaluator_calls, failed_calls, compile_ns, kernels, code_bytes,
      constant_bytes, promotions, limit_misses, frozen_misses, sampled_calls, readbacks,
      device_load_ns, graph_calls, graph_skips;
  _Atomic uint32_t graph_skipped_by; // the last reason, a dt_skip_t
  _Atomic uint32_t graph_skips_told; // reasons that the log has, a bit each
};

// ---- Sessions -------------------------------------------------------------------------------------

typedef struct dt_session_device_t dt_session_device_t;

struct dt_session {
  dt_runtime_t *runtime;       // a reference
  dt_session_device_t *device; // session_device.h; owned; NULL on the CPU
  dt_device_t place;
  dt_reclaim_slot_t *slot;
  uint32_t counter;   // which of a function's call counters
  uint32_t sample_in; // the call that many from now is sampled, 1 the next
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
  // Leased memory, 64-byte aligned, on the CPU. It only grows: to the largest that a call asked
  // for.
  dt_region_t block;
  dt_region_t scratch;   // of all workers
  size_t scratch_stride; // of one
};

// session_device.c. Waits for everything queued and gives the failure of a check; nothing on the
// CPU.
dt_status_t dt__session_settle(dt_session_t *session) DT_MUST_USE;
void dt__session_device_destroy(dt_session_device_t *own); // NULL allowed
uint64_t dt__session_device_bytes(const dt_session_device_t *own);
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
// The first `used` bytes of the block keep what is in them; the block may move.
dt_status_t dt__session_grow_block(dt_session_t *session, int64_t used, int64_t bytes) DT_MUST_USE;
static inline dt_status_t dt__session_lease_block(dt_session_t *session, int64_t used,
                                                  int64_t bytes) {
  if ((uint64_t)bytes <= session->block.bytes)
    return NULL;
  return dt__session_grow_block(session, used, bytes);
}
dt_status_t dt__session_grow_scratch(dt_session_t *session, int64_t bytes) DT_MUST_USE;
static inline dt_status_t dt__session_lease_scratch(dt_session_t *session, int64_t bytes) {
  if ((uint64_t)bytes <= session->scratch_stride)
    return NULL;
  return dt__session_grow_scratch(session, bytes);
}

// ---- Between the files ----------------------------------------------------------------------------

// NULL when a struct of `size` bytes may be read as one of `known` bytes: shorter ones are refused,
// longer ones must be zero behind.
dt_status_t dt__check_struct_size(const void *options, uint32_t size, size_t known,
                                  const char *type) DT_MUST_USE;

// graphs.c. DT_E_ARGUMENT: `mode` is none.
dt_status_t dt__check_call_mode(dt_call_mode_t mode) DT_MUST_USE;

// A number that no other variant or bindings of the runtime ever have; not 0. The first of `n`.
static inline uint64_t dt__runtime_ids(dt_runtime_t *runtime, uint32_t n) {
  return 1 + atomic_fetch_add_explicit(&runtime->next_id, n, memory_order_relaxed);
}
static inline uint64_t dt__runtime_id(dt_runtime_t *runtime) { return dt__runtime_ids(runtime, 1); }

// Frees what was retired and is seen by nobody any more.
void dt__runtime_collect(dt_runtime_t *runtime);

// variant.c. Traces and compiles. No lock held.
typedef struct dt_variant_request_t {
  dt_tensor_t *const *inputs; // of the call; NULL: from declarations alone
  uint32_t number;
  uint64_t modes; // of the runtime, and the session's place (guards/modes.h), for the whole of it
  bool generic;   // without the call's sizes
  bool evaluated; // no code: the evaluator answers
} dt_variant_request_t;
dt_status_t dt__variant_create(dt_function_t *function, const dt_variant_request_t *request,
                               dt_variant_t **out) DT_MUST_USE;
// Destroys bindings too. NULL allowed.
void dt__variant_destroy(dt_variant_t *variant);
// Bindings that device copies of constants may be shared with: those of a list's variants, and
// new ones (entries may be NULL).
typedef struct dt_bindings_peers_t {
  const dt_variant_list_t *list;
  dt_bindings_t *const *fresh; // of the list's first `n_fresh` variants
  uint32_t n_fresh;
} dt_bindings_peers_t;
// Retains tensors[i] for constant i (NULL: the traced one), and computes what is computed once. The
// function's mutex held.
dt_status_t dt__bindings_create(const dt_function_t *function, const dt_variant_t *variant,
                                dt_tensor_t *const *tensors, const dt_bindings_peers_t *peers,
                                dt_bindings_t **out) DT_MUST_USE;
// constants_device.c. The same on a device, with `tensors` retained: copies and addresses, then
// ONCE memory. What was made is the bindings' also on failure.
dt_status_t dt__bindings_upload(const dt_variant_t *variant, const dt_bindings_peers_t *peers,
                                dt_bindings_t *bindings) DT_MUST_USE;
dt_status_t dt__bindings_once(const dt_variant_t *variant, dt_bindings_t *bindings) DT_MUST_USE;
// Waits for launches and unloads. Nobody is inside the variant.
void dt__variant_unload(dt_variant_t *variant);
void dt__bindings_destroy(dt_bindings_t *bindings); // NULL allowed

// swap.c. Compiles the newest variant's program again, and puts its kernels in place of those in
// use while calls go on: a call runs either, or some of both. What was replaced stays loaded, since
// launches may be under way. DT_E_STATE (no variant), DT_E_LIMIT (done too often), DT_E_COMPILE.
// [any]
dt_status_t dt__function_recompile(dt_function_t *function) DT_MUST_USE;
// variant.c's: nobody is inside.
void dt__variant_drop_swapped(dt_variant_t *variant);

// bind.c, under the function's mutex: bindings of a new variant, with constants as last updated.
dt_status_t dt__variant_bind(dt_function_t *function, dt_variant_t *variant) DT_MUST_USE;

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
#define DT_MOST_CAPTURES 64
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

// miss.c. Makes sure that a variant covers `inputs`, or with inputs NULL (session NULL) that there
// is any variant for `place`: checks the arguments, waits for a compile under way, or compiles. Not
// inside an epoch. At a limit with DT_LIMIT_EVALUATOR *out_once (NULL with inputs NULL) is a
// variant for this call alone, which the caller destroys; else it is NULL.
dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function, dt_device_t place,
                               dt_tensor_t *const *inputs, dt_variant_t **out_once) DT_MUST_USE;

// Of input `index`: which argument of a call it is, or is an element of.
static inline uint32_t dt__input_position(const dt_function_t *function, uint32_t index) {
  return function->spread ? function->spread->positions[index] : index;
}
// The name of input `index`, or of argument `index`, for messages, in `buf`.
const char *dt__given_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);
const char *dt__input_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);

#endif // DT_RUNTIME_EXEC_EXEC_H
