// SPDX-License-Identifier: Apache-2.0
// Index expressions as code, and the addresses of accesses.
#ifndef DT_BACKEND_LLVM_EMIT_INDEX_H
#define DT_BACKEND_LLVM_EMIT_INDEX_H

#include "backend_llvm/emit/body.h"

void dt__index_info(dt_body_t *k, dt_sym_t e, uint32_t *level, bool *varying);
// The value as i64.
dt_lanes_t dt__index_eval(dt_body_t *k, dt_sym_t e);
// A uniform one.
LLVMValueRef dt__index_scalar(dt_body_t *k, dt_sym_t e);
// a + b and a * b where the builder stands; host programs check them.
LLVMValueRef dt__index_sum(dt_body_t *k, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef dt__index_product(dt_body_t *k, LLVMValueRef a, LLVMValueRef b);
// Sums of so many terms that common factors are taken out of them first (sums.c). `e` is uniform
// and known at `level`.
bool dt__sum_is_long(const dt_body_t *k, dt_sym_t e);
LLVMValueRef dt__sum_emit(dt_body_t *k, dt_sym_t e, uint32_t level);
// The vector of copy `c`; a uniform value is splat at `level`, its own.
LLVMValueRef dt__lanes_vector(dt_body_t *k, const dt_lanes_t *value, uint32_t c, uint32_t level);

typedef enum dt_lane_access_t {
  DT_ACCESS_UNIFORM,  // one address for all lanes
  DT_ACCESS_UNIT,     // neighbours
  DT_ACCESS_REVERSED, // neighbours, last lane first
  DT_ACCESS_EACH,     // an address a lane
} dt_lane_access_t;
typedef struct dt_address_t {
  dt_lane_access_t access;
  uint32_t alignment; // UNIT: bytes, where more than an element's is known; else 0
  LLVMValueRef at[DT_MAX_UNROLL];
} dt_address_t;
// Level and lane dependence of an access; then its addresses, computed at `level` (not above them).
dt_sym_t dt__access_offset(dt_body_t *k, dt_buffer_id_t buffer, const dt_sym_t *index);
dt_address_t dt__access_address(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                                uint32_t level);

// Whether neighbouring lanes are `*step` elements apart, a literal, in all of the vector.
bool dt__lane_step(dt_body_t *k, dt_sym_t offset, int64_t *step);

#endif // DT_BACKEND_LLVM_EMIT_INDEX_H
