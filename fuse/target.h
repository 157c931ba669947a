// SPDX-License-Identifier: Apache-2.0
// What fusion and scheduling need to know of a device: numbers, no code. Filled by a backend.
#ifndef DT_FUSE_TARGET_H
#define DT_FUSE_TARGET_H

#include "ductile/base.h"

typedef struct dt_target_t {
  dt_device_t device;
  char cpu[64];              // code generator's CPU name
  char features[2048];       // its feature string
  uint32_t vector_bytes;     // preferred vector width: 16, 32 or 64
  uint32_t vector_registers; // 16 or 32
  bool masked_memory;        // masked loads and stores cost about as much as plain ones
  bool fma;
  bool half_convert;          // has instructions between F16 and F32
  uint32_t threads;           // that will run kernels; devices: multiprocessors
  int64_t l1_bytes, l2_bytes; // of one core
  // Matrix template, by element bytes (index 0: 4 bytes, 1: 8 bytes): rows and columns (elements, a
  // multiple of the lanes) of the register tile; 0: no template.
  uint32_t matmul_rows[2], matmul_width[2];
  // Maps of one element of an argument or a constant that cost this much at most (dt__stage_cost)
  // are done again wherever they are used: what a launch, a store and a load are worth. 0: 1.
  uint32_t repeated_cost;
  // Devices: threads of a block, and the machine that host programs run on (borrowed; NULL: this).
  uint32_t block_threads;
  bool matrix_groups; // devices: four warps multiply halves together, from shared memory
  // What is compiled sums and multiplies floats in the order of the program, and rounds each
  // product (DT_MODE_STRICT_FP): not a fact of the device, but code for it is another with than
  // without.
  bool strict_fp;
  const struct dt_target_t *host;
  // Stages of the pipeline that are left out (dt__pipeline_without), by bit of their order.
  uint64_t left_out;
} dt_target_t;

static inline uint32_t dt__target_threads(const dt_target_t *target) {
  return target->threads ? target->threads : 1;
}

#endif // DT_FUSE_TARGET_H
