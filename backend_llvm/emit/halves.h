// SPDX-License-Identifier: Apache-2.0
// Ops on halves that devices make of the halves themselves, two at a time, where the program rounds
// what comes out anyway: without widening operands and rounding the result.
#ifndef DT_BACKEND_LLVM_EMIT_HALVES_H
#define DT_BACKEND_LLVM_EMIT_HALVES_H

#include "backend_llvm/emit/body.h"

// Whether instruction `id` is the cast that rounds what such an op gives.
bool dt__halves_apply(const dt_body_t *k, uint32_t id);
dt_lanes_t dt__halves_value(dt_body_t *k, uint32_t id);

#endif // DT_BACKEND_LLVM_EMIT_HALVES_H
