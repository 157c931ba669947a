// SPDX-License-Identifier: Apache-2.0
// Capture: runs a program on symbolic tensors and freezes what it recorded. The public builders of
// include/ductile/trace.h are implemented in this folder.
#ifndef DT_RUNTIME_TRACE_TRACE_H
#define DT_RUNTIME_TRACE_TRACE_H

#include "ductile/function.h"
#include "guards/guards.h"
#include "lower/graph/graph.h"
#include "runtime/tensor/tensor.h"

#include <stdatomic.h>

// A captured integer: where it is, and what it was when the trace read it.
typedef struct dt_traced_capture_t {
  const int64_t *address; // NULL: this trace did not read it
  int64_t value;
} dt_traced_capture_t;

// What was traced; frozen. Owned by a function's entry; specialisation, explanation and the
// evaluator work from it. The graph and environment live in `arena`'s and the environment's own
// memory.
typedef struct dt_traced_t {
  dt_arena_t arena;
  dt_symenv_t *env; // frozen
  dt_graph_t *graph;
  DT_VEC(dt_guard_cond_t) conds;   // assumptions, in order; origins' strings live as long as this
  DT_VEC(dt_tensor_t *) constants; // retained; constants.items[i] backs graph constant i
  DT_VEC(const char *) taken;      // names of constants of which the program read numbers itself
  DT_VEC(dt_traced_capture_t) captures; // by the graph's captures
  // By input, where the graph updates any: as dt_guard_context_t says; else NULL.
  const uint32_t *shared;
  struct dt_hooks_t *hooks; // passes that compiles of it go through; a share; NULL: none
  _Atomic uint32_t shares;  // beside the first
} dt_traced_t;

// Who decides what a trace takes from its call as a number, and what as a symbol.
typedef struct dt_trace_policy_t {
  void *user;
  // Whether `value`, the call's size of a dim that no mark decides, or an integer argument's value
  // (dim 0), becomes a literal.
  bool (*literal)(void *user, uint32_t input, uint32_t dim, int64_t value);
  // The capture's index in all graphs of the function, and whether `value` becomes a literal.
  // Asked once a trace. Fails where the name stands for another address already.
  dt_status_t (*capture)(void *user, const char *name, const int64_t *address, int64_t value,
                         uint32_t *out_index, bool *out_literal);
} dt_trace_policy_t;

static inline bool dt__is_tensor_kind(dt_input_kind_t kind) {
  return kind == DT_INPUT_TENSOR || kind == DT_INPUT_DONATED;
}

#define DT_MOST_INTEGERS 64 // elements of an input of kind DT_INPUT_INTEGERS

// Inputs as they are declared, and as they are traced: those of kind DT_INPUT_INTEGERS spread into
// an integer or boolean an element ("shape[2]"). (integers.c)
typedef struct dt_spread_t {
  uint32_t n_given, n_inputs;
  const dt_input_decl_t *given, *inputs;
  const uint32_t *positions; // by input: the given one that it is, or is an element of
} dt_spread_t;
// *out is NULL where no input is of that kind. Declarations are checked, and outlive `arena`.
dt_status_t dt__spread_create(dt_arena_t *arena, uint32_t n, const dt_input_decl_t *given,
                              const dt_spread_t **out) DT_MUST_USE;
// A call's arguments for spread->inputs into out[]: elements are tensors in `room` (n_inputs of
// them, at most) over the memory given, and live as long as that. Integers are checked against
// their declarations, as in dt__trace_check_inputs.
dt_status_t dt__spread_arguments(const dt_spread_t *spread, dt_device_t place,
                                 dt_tensor_t *const *given, struct dt_tensor *room,
                                 dt_tensor_t **out) DT_MUST_USE;

typedef struct dt_trace_request_t {
  const char *name; // put in front of failures; NULL: nothing is
  dt_program_fn_t program;
  void *closure;
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs; // declarations; dims may be NULL
  const dt_spread_t *spread;     // what `inputs` are of those that the program gets; NULL: the same
  // What is asked of results: n_outputs entries, checked by themselves, or NULL. like_input counts
  // `inputs`.
  const dt_output_decl_t *outputs;
  dt_device_t place; // where tensors of a call must be; numbers are on the host
  // Arguments of the call being traced: their sizes are hints and their layout is what the
  // variant's guards will promise (contiguous; else innermost stride 1 if so, every other stride a
  // symbol). NULL: no hints, and `layout`.
  dt_tensor_t *const *example;
  // Without an example: which strides inputs have (dt_prepare_layout_t).
  uint32_t layout;
  bool
      no_hints; // take the layouts of `example` alone, so that no question is answered by its sizes
  const dt_trace_policy_t *policy; // NULL: everything is a symbol
  struct dt_watch_t *watch;        // what it may take, and who may stop it; NULL: no limits
  struct dt_hooks_t *hooks;        // passes of users; NULL: none
  bool no_calls;                   // of users' ops are made: it is a pattern's program
} dt_trace_request_t;

// Whether inputs of this layout (dt_prepare_layout_t), dtype and rank have strides of their own.
bool dt__layout_has_gaps(uint32_t layout, dt_dtype_t dtype, uint32_t rank);

// Checks the declarations themselves: DT_E_ARGUMENT, DT_E_DTYPE or DT_E_LIMIT naming the argument
// and dim (an empty range, a static size out of range, one name with two sizes or marks, a derived
// dim of no dim). dt__trace_run does it, too; a function does it when it is made.
dt_status_t dt__trace_check_declarations(const dt_trace_request_t *request) DT_MUST_USE;
// Checks arguments against the declarations alone: DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE naming the
// argument, the dim, expected and actual (rank, static sizes, ranges, divisors, dims of one name,
// derived dims, alignment). This is what a call that missed does first, so that bad input makes no
// variant.
dt_status_t dt__trace_check_inputs(const dt_trace_request_t *request) DT_MUST_USE;
// The same of one argument by itself.
dt_status_t dt__trace_check_input(const dt_trace_request_t *request, uint32_t input) DT_MUST_USE;
// Declared names become one symbol, static dims literals, derived dims expressions, ranges and
// divisors facts; then runs the program. On failure *out is NULL and the status names op, sizes and
// source line.
dt_status_t dt__trace_run(const dt_trace_request_t *request, dt_traced_t **out) DT_MUST_USE;
// One share more, which dt__traced_destroy gives up.
void dt__traced_retain(dt_traced_t *traced);
void dt__traced_destroy(dt_traced_t *traced); // NULL allowed; the last share's releases constants

// outputs.c. "result 'y'" or "result 2", in `buf`. `outputs` may be NULL.
const char *dt__output_name(const dt_output_decl_t *outputs, uint32_t index, char *buf,
                            size_t bytes);
// The value of an integer or boolean argument.
int64_t dt__int_argument(const dt_tensor_t *tensor);

// The bytes between a tensor's first and last element; begin == end where it has none.
typedef struct dt_bytes_t {
  uintptr_t begin, end;
} dt_bytes_t;
dt_bytes_t dt__tensor_reach(const dt_tensor_t *tensor);
bool dt__bytes_meet(dt_bytes_t a, dt_bytes_t b);

#endif // DT_RUNTIME_TRACE_TRACE_H
