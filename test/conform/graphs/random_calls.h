// SPDX-License-Identifier: Apache-2.0
// Ops of users in random programs: C kernels of one to three inputs and one or two results. The
// same written out by ops of the library is the decomposition, and what the evaluator answers.
#ifndef DT_TESTS_CONFORM_RANDOM_CALLS_H
#define DT_TESTS_CONFORM_RANDOM_CALLS_H

#include "ductile/pattern.h"
#include "test/conform/graphs/random_data.h"

struct dt_hooks_t; // runtime/trace/hooks.h

// Traces on this thread make calls from now on, or else write the ops out.
void rg_calls_made(bool made);
// The builder of all their instructions.
dt_value_t rg_call_build(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in);
bool rg_call_is_sum(dt_dtype_t dtype); // whether call_pair has a kernel for it

dt_status_t rg_calls_register(dt_runtime_t *runtime) DT_MUST_USE;
// The same as a list for traces without a runtime.
dt_status_t rg_calls_hooks(struct dt_hooks_t **out) DT_MUST_USE;
// A pattern and a lowering that put calls in the place of some sums and choices, by `seed`: which,
// and at which point.
dt_status_t rg_calls_rewrite(dt_runtime_t *runtime, uint64_t seed) DT_MUST_USE;

#endif // DT_TESTS_CONFORM_RANDOM_CALLS_H
