// SPDX-License-Identifier: Apache-2.0
// See target.h.
#include "backend_cuda/emit/target.h"

#include "backend_cuda/emit/arch.h"
#include "ductile/device.h"
#include "runtime/base/status.h"

#include <stdio.h>

#define LEAST_MAJOR 8
#define GROUPS_MAJOR 9 // wgmma is in this architecture alone
#define BLOCK_THREADS 256
// Bytes that one thread loads or stores at once.
#define ACCESS_BYTES 16
// A comparison and a choice, as masks are made of; less than a checked index.
#define REPEATED_COST 3
#define MAP_BLOCKS 128
#define BUNDLE_WORDS 192 // 1.5 KB of the 4 that a launch may have
#define BUSY_PARTS ((int64_t)1 << 20)
#define STATIC_SHARED (48 << 10) // bytes of shared memory that a block need not ask for

dt_status_t dt__cuda_target(const dt_cuda_model_t *model, const dt_target_t *host,
                            dt_target_t *out) {
  if (model->major < LEAST_MAJOR)
    return DT_FAIL(DT_E_UNSUPPORTED, "compute capability %d.%d; expected at least %d.0",
                   model->major, model->minor, LEAST_MAJOR);
  *out = (dt_target_t){.device = DT_CUDA,
                       .vector_bytes = ACCESS_BYTES,
                       .vector_registers = 64,
                       .fma = true,
                       .half_convert = true,
                       .threads = (uint32_t)model->processors,
                       .l1_bytes = model->shared_per_block,
                       .l2_bytes = model->l2_bytes,
                       .repeated_cost = REPEATED_COST,
                       .queued = true,
                       .own_memory = true,
                       .entries = true,
                       .block_threads = BLOCK_THREADS,
                       .warp = DT_WARP,
                       .half_sums = DT_HALF_SUMS,
                       .map_blocks = MAP_BLOCKS,
                       .bundle_words = BUNDLE_WORDS,
                       .busy_parts = BUSY_PARTS,
                       .tile_bytes = STATIC_SHARED,
                       .slab_unit = DT_SLAB_UNIT,
                       .slab_pad = DT_SLAB_PAD,
                       .matrix_groups = model->major == GROUPS_MAJOR,
                       .host = host};
  // Instructions of one architecture alone exist from 9.0 on.
  (void)snprintf(out->cpu, sizeof(out->cpu), "sm_%d%d%s", model->major, model->minor,
                 model->major >= 9 ? "a" : "");
  // The text's version is the driver's least (12.0), or the first that knows the architecture.
  (void)snprintf(out->features, sizeof(out->features), "+ptx%u",
                 dt__cuda_arch_ptx(model->major, model->minor));
  return NULL;
}
