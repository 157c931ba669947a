// SPDX-License-Identifier: Apache-2.0
// Rows in registers. A row that is not longer than the vectors of a team's copies is read without a
// loop, and each thread keeps what it loaded or stored of it for later stages.
#ifndef DT_BACKEND_LLVM_EMIT_RESIDENT_H
#define DT_BACKEND_LLVM_EMIT_RESIDENT_H

#include "backend_llvm/emit/body.h"

// Whether the schedule and the kernel allow it.
bool dt__row_is_resident(dt_body_t *k);
// Opens the vector loop's level for the only iteration, with `inside` and masks set.
void dt__resident_open(dt_body_t *k, uint32_t level, LLVMValueRef extent);
void dt__resident_close(dt_body_t *k, uint32_t level);
bool dt__resident_find(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset, dt_lanes_t *out);
void dt__resident_put(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                      const dt_lanes_t *value);
// After a store: `value` is what stands at `offset` now, and nothing else is known of the buffer.
void dt__resident_store(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                        const dt_lanes_t *value);
// A LOCAL buffer of which every access is kept: it needs no memory.
bool dt__resident_owns(dt_body_t *k, dt_buffer_id_t buffer);

#endif // DT_BACKEND_LLVM_EMIT_RESIDENT_H
