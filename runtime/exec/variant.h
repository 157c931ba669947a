// SPDX-License-Identifier: Apache-2.0
// Variants of a function and the bindings of their constants, as the files of this folder share
// them; exec.h says who owns them.
#ifndef DT_RUNTIME_EXEC_VARIANT_H
#define DT_RUNTIME_EXEC_VARIANT_H

#include "guards/guards.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/budget.h"
#include "runtime/exec/forms.h"
#include "runtime/exec/policy.h"

#include <stdatomic.h>

struct dt_decider_t;
struct dt_place_t;

// ---- Variants -------------------------------------------------------------------------------------

// The constants of one variant and what was computed from them.
typedef struct dt_bindings_t {
  dt_retired_t retired; // first: the reclaimer's item
  uint64_t id;
  void **once; // addresses of ONCE buffers; NULL when there are none
  uint32_t n;
  dt_tensor_t **tensors; // retained, by constant index
  void **addresses;      // of their elements, where the variant runs
  dt_bytes_t reach;      // from the first byte of any of the tensors to behind the last
  const void *function;  // whose they are
  // Where kernels cannot read them: copies of the tensors, shared with other bindings of the same
  // tensors. And what `once` points into, where that is one block.
  dt_storage_t **copies;
  dt_storage_t *once_storage;
  // On the host: what `once` points to, by ONCE buffer, and the tensors that uses name.
  dt_forms_t *forms;
  uint32_t n_uses;
  dt_form_use_t *uses;
  dt_tensor_t **use_tensors;
  dt_storage_t **aligned; // copies for ops of users, which read no other addresses; or NULL
} dt_bindings_t;

typedef struct dt_output_info_t {
  dt_dtype_t dtype;
  uint32_t rank;
  uint32_t order; // as a tensor has it
} dt_output_info_t;

typedef struct dt_variant_t {
  dt_retired_t retired; // first: the reclaimer's item
  dt_guards_t *guards;
  dt_traced_t *traced;
  dt_compiled_t *compiled; // NULL: answered by the evaluator
  dt_device_t place;       // of the sessions that it answers
  struct dt_place_t *home; // the same; the runtime's. The CPU where there is no code
  uint32_t number;         // for logs
  bool generic;            // made at a limit, for all sizes
  // What the budget counts but for copies of constants, and the tick of its publication.
  uint64_t bytes[DT_MEMORIES], made;
  _Atomic uint64_t used; // the tick of its last use; 0: no call has found it yet
  uint64_t id;           // of its first segment; the others' follow
  bool strict_fp;        // its code
  dt_runtime_t *runtime; // borrowed
  // Its list's, and those of records that may tell of its checks yet (records.h).
  _Atomic uint32_t refs;
  _Atomic bool captured; // the caller may replay launches of it: it does not go before the function
  // Its place's, once it left its list and nobody is inside: an event behind all work that may be
  // its; and whether that is known to be done.
  void *behind;
  bool done;
  uint32_t n_symbols;      // length of the symbol array that guards and code use
  uint32_t n_output_sizes; // ranks of all outputs, added up
  dt_output_info_t *outputs;
  dt_bindings_t *_Atomic bindings;
  int64_t
      *once_symbols; // of the call that the variant was made for, where it is for that one alone
  _Atomic uint64_t kernels_swapped; // times that other code was put in `compiled->kernels`
  // That code: compiles of the same program, whose kernels alone are used. Guarded by the
  // function's mutex.
  dt_compiled_t **swapped;
  uint32_t n_swapped;
  bool stays_quick; // no better form of its kernels can be made; guarded by the function's mutex
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

// ---- Making ---------------------------------------------------------------------------------------

// variant.c. No lock held.
typedef struct dt_variant_request_t {
  dt_tensor_t *const *inputs; // of the call; NULL: from declarations alone
  uint32_t number;
  uint64_t modes;  // of the runtime, and the session's place (guards/modes.h), for the whole of it
  bool generic;    // without the call's sizes
  bool evaluated;  // no code: the evaluator answers
  uint32_t layout; // without inputs: of what it takes (dt_prepare_layout_t)
  bool quick;      // kernels in their quick form will do, at first (better.h)
  dt_policy_build_t *policy; // of the trace
  // What making it may take, and who may stop it (runtime/base/watch.h). Outlives the making.
  struct dt_watch_t *watch;
} dt_variant_request_t;
// A variant as far as its guards: traced, not compiled.
dt_status_t dt__variant_trace(dt_function_t *function, const dt_variant_request_t *request,
                              dt_variant_t **out) DT_MUST_USE;
// Its code, where it is to have any.
dt_status_t dt__variant_compile(dt_function_t *function, const dt_variant_request_t *request,
                                dt_variant_t *variant) DT_MUST_USE;
// A variant of what was traced and compiled elsewhere, both of which it takes also on failure. Of
// the request number, modes and generic count.
dt_status_t dt__variant_adopt(dt_function_t *function, const dt_variant_request_t *request,
                              dt_traced_t *traced, dt_compiled_t *compiled,
                              dt_variant_t **out) DT_MUST_USE;
// The modes of calls at `place` that such a variant is for, and its guards, as it will have them:
// the caller's (dt__guards_destroy).
uint64_t dt__variant_modes(const dt_function_t *function, dt_device_t place, bool strict_fp);
dt_status_t dt__variant_guards(const dt_function_t *function, const dt_traced_t *traced,
                               uint64_t modes, dt_guards_t **out) DT_MUST_USE;
// Destroys bindings too; nobody else has a reference. NULL allowed.
void dt__variant_destroy(dt_variant_t *variant);
void dt__variant_retain(dt_variant_t *variant);
void dt__variant_release(dt_variant_t *variant);
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
// bind.c. The function's mutex held: the bindings come into use, or go out of it. The bytes of what
// no other bindings in use have: device copies, and forms; and of forms what no others of the
// function have.
typedef struct dt_bindings_bytes_t {
  uint64_t copies, forms, own_forms;
} dt_bindings_bytes_t;
dt_bindings_bytes_t dt__bindings_come(const dt_bindings_t *bindings);
dt_bindings_bytes_t dt__bindings_go(const dt_bindings_t *bindings);
void dt__bindings_destroy(dt_bindings_t *bindings); // NULL allowed
// bind.c, under the function's mutex: bindings of a new variant, with constants as last updated.
dt_status_t dt__variant_bind(dt_function_t *function, dt_variant_t *variant) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_VARIANT_H
