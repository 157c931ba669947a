// SPDX-License-Identifier: Apache-2.0
// A call of a user's op while it is made: what infer says of it.
#ifndef DT_RUNTIME_TRACE_OP_CALL_H
#define DT_RUNTIME_TRACE_OP_CALL_H

#include "runtime/trace/rewriter.h"

#include "lower/graph/external.h"

struct dt_op_call {
  dt_trace_t *trace;
  const dt_op_def_t *def;
  dt_origin_t origin;
  dt_graph_external_t external; // as far as it is known; results points to `results`
  uint32_t n_inputs;
  const dt_value_t *inputs;
  dt_external_result_t results[DT_OP_MAX_RESULTS];
  bool inferring;     // results may be set
  dt_value_t numbers; // what reads them; none until one is asked for
  dt_sym_t number[DT_OP_MAX_NUMBERS];
};

// Whether infer runs, and may go on; false with the trace failed.
bool dt__op_inferring(dt_op_call_t *call, const char *what);
// The nodes that the inputs are now; false fails the trace.
bool dt__op_node_ids(const dt_op_call_t *call, dt_node_id_t *out);
// Sets call->numbers. (op_numbers.c)
void dt__op_read_numbers(dt_op_call_t *call);
// What reads the numbers of a call, made where it is not there yet; none fails the trace.
dt_value_t dt__op_numbers(dt_trace_t *trace, const char *name, uint32_t n_inputs,
                          const dt_value_t *inputs, uint32_t n_attrs, const dt_op_attr_t *attrs);
// The values that take the place of results[k]: those of the decomposition of `call`, checked
// against what was inferred. False fails the trace.
bool dt__op_decompose(dt_op_call_t *call, dt_value_t *results);

// Replaces calls of ops without a kernel for the site's device. `graph` is the traced one; *out may
// be it.
dt_status_t dt__ops_decompose(const dt_site_t *site, dt_arena_t *arena, const dt_graph_t *graph,
                              const dt_graph_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_TRACE_OP_CALL_H
