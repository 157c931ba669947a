// SPDX-License-Identifier: Apache-2.0
// Functions as the files of this folder share them; runtime.h says who owns what.
#ifndef DT_RUNTIME_EXEC_FUNCTION_H
#define DT_RUNTIME_EXEC_FUNCTION_H

#include "runtime/base/memory.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/jobs.h"
#include "runtime/exec/budget.h"
#include "runtime/exec/hot.h"
#include "runtime/exec/latency.h"
#include "runtime/exec/policy.h"
#include "runtime/exec/refused.h"
#include "runtime/exec/variant.h"

#include <stdatomic.h>

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
  bool posted;  // the job is queued or runs
  bool running; // it runs
  bool stopped; // for good
  bool again;   // variants came while it ran
  bool waits;   // the first variants are not all there yet
  // One that was brought along, over the first variants; borrowed of the closure. NULL: none.
  const struct dt_decide_kept_t *kept;
  int64_t ns, all_ns; // how long the last one took, and all of them
  uint64_t made, failed;
} dt_decider_build_t;
// The making of the best form of quick kernels (better.h). Guarded by the function's mutex.
typedef struct dt_better_t {
  dt_job_t job;
  bool posted;  // the job is queued or runs
  bool stopped; // for good
  dt_watch_t watch;
  uint64_t made;
} dt_better_t;
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
  // Variants for a place that the function's maker has already, published at the first call that
  // wants one there; asked by one thread at a time, without the mutex. *out_some: there were some.
  // NULL: there are none anywhere.
  dt_status_t (*supply)(dt_function_t *function, dt_device_t place, bool *out_some);
  // As declared; and as everything but dt_call and its kin sees them, integers as an input an
  // element. The same where `spread` is NULL.
  uint32_t n_given, n_inputs, n_outputs;
  const dt_input_decl_t *given, *inputs;
  const dt_spread_t *spread;
  bool takes_elements; // the program takes `inputs`, not those given
  // What is asked of results: n_outputs entries, whose like_input counts `inputs`; or NULL.
  const dt_output_decl_t *outputs;
  dt_answer_t answer;
  dt_dynamic_t dynamic;
  dt_limit_action_t limit_action;
  uint32_t variant_limit, compile_limit;
  uint64_t max_call_bytes; // 0: no limit
  bool strict_fp;          // whatever the runtime's mode is
  dt_call_mode_t call_mode;
  struct dt_hooks_t *hooks; // passes of users that its compiles have; a share

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
  dt_better_t better;
  bool tuning; // guarded by mutex: somebody tunes it
  dt_hot_t hot;

  _Atomic uint64_t compiles, misses, evaluator_calls, failed_calls, compile_ns, kernels, code_bytes,
      constant_bytes, promotions, limit_misses, frozen_misses, sampled_calls, readbacks,
      device_load_ns, graph_calls, graph_skips;
  dt_latency_t latency;
  const char *_Atomic graph_skip;    // the last reason for one, static; NULL: none so far
  _Atomic uint32_t graph_skips_told; // reasons that the log has, a bit each; the place's
};

// Of input `index`: which argument of a call it is, or is an element of.
static inline uint32_t dt__input_position(const dt_function_t *function, uint32_t index) {
  return function->spread ? function->spread->positions[index] : index;
}
// The name of input `index`, or of argument `index`, for messages, in `buf`.
const char *dt__given_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);
const char *dt__input_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);

// outputs.c. function->outputs, from what the caller says of results, of whatever size its entries
// are: checked, and copied with all that it points to. Inputs are taken and spread already.
dt_status_t dt__outputs_take(dt_function_t *function,
                             const dt_function_options_t *options) DT_MUST_USE;

// steps.c. DT_E_ARGUMENT: `mode` is none.
dt_status_t dt__check_call_mode(dt_call_mode_t mode) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_FUNCTION_H
