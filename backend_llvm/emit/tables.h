// SPDX-License-Identifier: Apache-2.0
// Integers of 8 bits that are made of one other alone, by ops that cost more than finding them in a
// table of 256.
#ifndef DT_BACKEND_LLVM_EMIT_TABLES_H
#define DT_BACKEND_LLVM_EMIT_TABLES_H

#include "backend_llvm/emit/body.h"

// Whether instruction `id` is one, on a target that has such tables; and what it is made of.
bool dt__table_applies(const dt_body_t *k, uint32_t id, uint32_t *out_source);
dt_lanes_t dt__table_value(dt_body_t *k, uint32_t id, uint32_t source);

#endif // DT_BACKEND_LLVM_EMIT_TABLES_H
