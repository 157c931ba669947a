// SPDX-License-Identifier: Apache-2.0
// Capture: runs a program on symbolic tensors and freezes what it recorded. The public builders of
// include/ductile/trace.h are implemented in this folder.
#ifndef DT_RUNTIME_TRACE_TRACE_H
#define DT_RUNTIME_TRACE_TRACE_H

#include "ductile/function.h"
#include "guards/guards.h"
#include "lower/graph/graph.h"
#include "runtime/tensor/tensor.h"

// What was traced; frozen. Owned by a function's entry; specialisation, explanation and the
// evaluator work from it. The graph and environment live in `arena`'s and the environment's own
// memory.
typedef struct dt_traced_t {
  dt_arena_t arena;
  dt_symenv_t *env; // frozen
  dt_graph_t *graph;
  DT_VEC(dt_guard_cond_t) conds;   // assumptions, in order; origins' strings live as long as this
  DT_VEC(dt_tensor_t *) constants; // retained; constants.items[i] backs graph constant i
} dt_traced_t;

typedef struct dt_trace_request_t {
  const char *name; // the function's
  dt_program_fn_t program;
  void *closure;
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs; // declarations; dims may be NULL
  // Arguments of the call being traced: their sizes are hints and their layout is what the
  // variant's guards will promise (contiguous; else innermost stride 1 if so, every other stride a
  // symbol). NULL: no hints, contiguous.
  dt_tensor_t *const *example;
} dt_trace_request_t;

// Checks the declarations themselves: DT_E_ARGUMENT, DT_E_DTYPE or DT_E_LIMIT naming the argument
// and dim (an empty range, a static size out of range, one name with two sizes). dt__trace_run does
// it, too; a function does it when it is made.
dt_status_t dt__trace_check_declarations(const dt_trace_request_t *request) DT_MUST_USE;
// Checks arguments against the declarations alone: DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE naming the
// argument, the dim, expected and actual (rank, static sizes, ranges, dims of one name). This is
// what a call that missed does first, so that bad input makes no variant.
dt_status_t dt__trace_check_inputs(const dt_trace_request_t *request) DT_MUST_USE;
// Declared names become one symbol, static dims literals, ranges facts; then runs the program. On
// failure *out is NULL and the status names op, sizes and source line.
dt_status_t dt__trace_run(const dt_trace_request_t *request, dt_traced_t **out) DT_MUST_USE;
void dt__traced_destroy(dt_traced_t *traced); // NULL allowed; releases constants

#endif // DT_RUNTIME_TRACE_TRACE_H
