// SPDX-License-Identifier: Apache-2.0
// Reductions of a stage: their accumulators, their steps and their results.
#ifndef DT_BACKEND_LLVM_EMIT_REDUCTIONS_H
#define DT_BACKEND_LLVM_EMIT_REDUCTIONS_H

#include "backend_llvm/emit/body.h"

void dt__reduction_begin(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc,
                         bool vector, uint32_t copies);
// A new iteration begins; then every reduction of the stage takes its step, or has taken it because
// the iteration asked for its value.
void dt__reductions_iterate(dt_body_t *k);
void dt__reductions_step(dt_body_t *k);
// Two parts of a reduction of the stage as one; no ARGMAX, no ARGMIN.
LLVMValueRef dt__reduction_join(dt_body_t *k, const dt_reduction_t *reduction, LLVMValueRef a,
                                LLVMValueRef b);
// The reduction of the stage that defines `row`, up to and with this iteration.
dt_lanes_t dt__reduction_running(dt_body_t *k, uint32_t row);
// The same as the iteration before left it: asked for before the step.
dt_lanes_t dt__reduction_prior(dt_body_t *k, uint32_t row);
// The row value: per lane when `keep_lanes`, else of all lanes and copies together. A team has that
// of all its threads, in each of them.
dt_lanes_t dt__reduction_end(dt_body_t *k, const dt_reduction_t *reduction, dt_accumulator_t *acc,
                             bool vector, uint32_t copies, bool keep_lanes);

#endif // DT_BACKEND_LLVM_EMIT_REDUCTIONS_H
