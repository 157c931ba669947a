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

#include "ductile/function.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/pool.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/region.h"
#include "runtime/base/thread.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/pager.h"

#include <stdatomic.h>

struct dt_runtime {
  _Atomic uint32_t refs;
  dt_params_t params;
  dt_pool_t *pool;
  dt_compiler_t *compiler;
  dt_reclaim_t *reclaim;
  dt_pager_t *pager;
  _Atomic bool garbage;          // something retired may wait still: collect when convenient
  _Atomic uint32_t next_session; // spreads sessions over counters
};

// ---- Variants -------------------------------------------------------------------------------------

// The constants of one variant and what was computed from them.
typedef struct dt_bindings_t {
  dt_retired_t retired; // first: the reclaimer's item
  char *once;           // ONCE memory, 64-byte aligned; NULL when there is none
  uint32_t n;
  dt_tensor_t **tensors; // retained, by constant index
  void **addresses;      // of their elements
} dt_bindings_t;

typedef struct dt_output_info_t {
  dt_dtype_t dtype;
  uint32_t rank;
} dt_output_info_t;

typedef struct dt_variant_t {
  dt_guards_t *guards;
  dt_traced_t *traced;
  dt_compiled_t *compiled; // NULL: answered by the evaluator
  uint32_t number;         // for logs
  uint32_t n_symbols;      // length of the symbol array that guards and code use
  uint32_t n_output_sizes; // ranks of all outputs, added up
  dt_output_info_t *outputs;
  dt_bindings_t *_Atomic bindings;
} dt_variant_t;

typedef struct dt_variant_list_t {
  dt_retired_t retired;               // first: the reclaimer's item
  uint32_t n_symbols, n_output_sizes; // the most that any variant needs
  uint32_t n;
  dt_variant_t *items[];
} dt_variant_list_t;

// ---- Functions ------------------------------------------------------------------------------------

// Calls are counted where few sessions meet, so that the count costs no shared cache line.
#define DT_CALL_COUNTERS 16
typedef struct dt_call_counter_t {
  _Alignas(64) _Atomic uint64_t calls;
} dt_call_counter_t;

// A constant's data as dt_constant_update last set it, for variants made later.
typedef struct dt_override_t {
  struct dt_override_t *next;
  dt_tensor_t *tensor; // retained
  char name[];
} dt_override_t;

struct dt_function {
  dt_call_counter_t counters[DT_CALL_COUNTERS];
  _Atomic uint32_t refs;
  dt_runtime_t *runtime; // a reference
  dt_arena_t arena;      // name and declarations
  const char *name;
  dt_program_fn_t program;
  void *closure;
  void (*closure_free)(void *closure);
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs;
  dt_answer_t answer;
  uint32_t variant_limit;
  bool strict_fp;

  dt_variant_list_t *_Atomic list; // never NULL; replaced under `mutex`

  dt_mutex_t mutex;
  pthread_cond_t idle;      // `building` became false
  bool building;            // guarded by mutex: a variant is being made
  pthread_t builder;        // guarded by mutex: by whom
  uint32_t next_number;     // guarded by mutex
  dt_override_t *overrides; // guarded by mutex

  _Atomic uint64_t compiles, misses, evaluator_calls, failed_calls, compile_ns, kernels, code_bytes,
      constant_bytes;
};

// ---- Sessions -------------------------------------------------------------------------------------

struct dt_session {
  dt_runtime_t *runtime; // a reference
  dt_reclaim_slot_t *slot;
  uint32_t counter; // which of a function's call counters
  // Scratch of the call path; grown off it.
  int64_t *symbols;
  int64_t *sizes;
  void **addresses;      // of inputs, then of outputs
  dt_tensor_t **results; // given or new
  uint32_t symbols_cap, sizes_cap, addresses_cap, results_cap;
  // Leased memory, 64-byte aligned. It only grows: to the largest that a call asked for.
  dt_region_t block;
  dt_region_t scratch;   // of all workers
  size_t scratch_stride; // of one
};

// Makes room for a call of `function` with the variants in `list`; contents are not kept.
dt_status_t dt__session_grow(dt_session_t *session, const dt_function_t *function,
                             const dt_variant_list_t *list) DT_MUST_USE;
static inline dt_status_t dt__session_reserve(dt_session_t *session, const dt_function_t *function,
                                              const dt_variant_list_t *list) {
  if (session->symbols_cap >= list->n_symbols && session->sizes_cap >= list->n_output_sizes &&
      session->addresses_cap >= function->n_inputs + function->n_outputs &&
      session->results_cap >= function->n_outputs)
    return NULL;
  return dt__session_grow(session, function, list);
}
dt_status_t dt__session_lease_block(dt_session_t *session, int64_t bytes) DT_MUST_USE;
dt_status_t dt__session_lease_scratch(dt_session_t *session, int64_t bytes) DT_MUST_USE;

// ---- Between the files ----------------------------------------------------------------------------

// NULL when a struct of `size` bytes may be read as one of `known` bytes: shorter ones are refused,
// longer ones must be zero behind.
dt_status_t dt__check_struct_size(const void *options, uint32_t size, size_t known,
                                  const char *type) DT_MUST_USE;

// Frees what was retired and is seen by nobody any more.
void dt__runtime_collect(dt_runtime_t *runtime);

// variant.c. Traces for `inputs` (NULL: from declarations alone) and compiles. No lock held.
dt_status_t dt__variant_create(dt_function_t *function, dt_tensor_t *const *inputs, uint32_t number,
                               dt_variant_t **out) DT_MUST_USE;
// Destroys bindings too. NULL allowed.
void dt__variant_destroy(dt_variant_t *variant);
// Retains tensors[i] for constant i (NULL: the traced one), and computes what is computed once.
dt_status_t dt__bindings_create(const dt_function_t *function, const dt_variant_t *variant,
                                dt_tensor_t *const *tensors, dt_bindings_t **out) DT_MUST_USE;
void dt__bindings_destroy(dt_bindings_t *bindings); // NULL allowed

// bind.c, under the function's mutex: bindings of a new variant, with constants as last updated.
dt_status_t dt__variant_bind(dt_function_t *function, dt_variant_t *variant) DT_MUST_USE;

// The first variant whose guards hold, `symbols` filled; or NULL.
static inline dt_variant_t *dt__list_find(const dt_variant_list_t *list, dt_tensor_t *const *inputs,
                                          int64_t *symbols) {
  for (uint32_t i = 0; i < list->n; i++) {
    if (dt__guards_run(list->items[i]->guards, inputs, symbols))
      return list->items[i];
  }
  return NULL;
}

// miss.c. Makes sure that a variant covers `inputs`, or with inputs NULL that there is any variant:
// checks the arguments, waits for a compile under way, or compiles. Not inside an epoch.
dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function,
                               dt_tensor_t *const *inputs) DT_MUST_USE;

// The name of input `index` for messages, in `buf`.
const char *dt__input_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes);

#endif // DT_RUNTIME_EXEC_EXEC_H
