// SPDX-License-Identifier: Apache-2.0
// Where vector accesses are aligned. Vector accesses of devices must be aligned.
#ifndef DT_BACKEND_LLVM_EMIT_ALIGNED_H
#define DT_BACKEND_LLVM_EMIT_ALIGNED_H

#include "backend_llvm/emit/body.h"

// An i1, at level 0, that says where `lanes` lanes can be used: extents of lane loops, steps
// between rows and addresses of buffers are multiples of whole vectors. NULL: nowhere. Accesses
// that can never be aligned are left out. Of a matrix product the stages after the first count.
LLVMValueRef dt__lanes_aligned(dt_body_t *k, uint32_t lanes);
// The same for loads that each go by vectors of `lanes` along a loop of their own; NULL: one of
// them never can.
typedef struct dt_load_walk_t {
  const dt_inst_t *load;
  dt_sym_t var, extent;
} dt_load_walk_t;
LLVMValueRef dt__loads_aligned(dt_body_t *k, const dt_load_walk_t *walks, uint32_t n,
                               uint32_t lanes);
// Of a vector that the condition speaks of, bytes: at most what one instruction takes.
static inline uint32_t dt__vector_alignment(dt_dtype_t dtype, uint32_t lanes) {
  uint32_t bytes = lanes * (uint32_t)dt_dtype_size(dtype);
  return bytes < 16 ? bytes : 16;
}
// Whether the access is among those that the condition speaks of.
bool dt__offset_aligned(dt_body_t *k, dt_sym_t offset, dt_sym_t lane_var, uint32_t lanes);

#endif // DT_BACKEND_LLVM_EMIT_ALIGNED_H
