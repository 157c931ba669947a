// SPDX-License-Identifier: Apache-2.0
// A GPU as fusion and scheduling see it. No LLVM, no driver.
#ifndef DT_BACKEND_CUDA_EMIT_TARGET_H
#define DT_BACKEND_CUDA_EMIT_TARGET_H

#include "fuse/target.h"

#define DT_WARP 32
// Words of sums in each of 256 threads: with 64 a block takes half of a processor's registers.
#define DT_HALF_SUMS 64
// Rows of slabs are whole numbers of these bytes and a pad, which puts the next row in other banks.
#define DT_SLAB_UNIT 256
#define DT_SLAB_PAD 16

// A GPU in numbers, without asking a driver.
typedef struct dt_cuda_model_t {
  int major, minor;     // compute capability
  int processors;       // streaming multiprocessors
  int shared_per_block; // bytes a block may ask for
  int64_t l2_bytes;
} dt_cuda_model_t;

// Fills `out` for kernels on that GPU; `host` (borrowed by *out) runs the host programs.
// DT_E_UNSUPPORTED below compute capability 8.0.
dt_status_t dt__cuda_target(const dt_cuda_model_t *model, const dt_target_t *host,
                            dt_target_t *out) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_EMIT_TARGET_H
