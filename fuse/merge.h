// SPDX-License-Identifier: Apache-2.0
// Inside one kernel: forwarding values between its stages, joining stages over the same loops, and
// turning temporaries that only it sees into LOCAL scratch.
#ifndef DT_FUSE_MERGE_H
#define DT_FUSE_MERGE_H

#include "lower/loop/loop.h"

// What kernels and stages may grow to by joining. Code generation takes linear time up to about
// here: behind it, what a block of code reads and writes is compared each with each. `scripts/bench
// compile` and `scripts/bench many` measure it (bench/bench_compile.c, bench/bench_many.c).
#define DT_MOST_STAGES 24       // of a kernel
#define DT_MOST_INSTS 800       // of a kernel
#define DT_MOST_STORES 64       // of a kernel
#define DT_MOST_STAGE_INSTS 600 // of a stage

typedef struct dt_kernel_size_t {
  uint32_t stages, insts, stores;
} dt_kernel_size_t;
dt_kernel_size_t dt__kernel_size(const dt_kernel_t *kernel);
// Whether kernels of these sizes may become one.
bool dt__sizes_fit(const dt_kernel_size_t *a, const dt_kernel_size_t *b);

// Stages without inner loops are taken into their users; stages over equal loops that pass values
// element by element become one; stores nobody reads go. `loads`: loads of each buffer in the whole
// program, kept true. The kernel's first `n_fixed` stages stay as they are (a template's).
dt_status_t dt__merge_stages(dt_program_t *program, dt_kernel_t *kernel, uint32_t n_fixed,
                             uint32_t *loads) DT_MUST_USE;
// What only this kernel reads becomes LOCAL, with the dims that move in its inner loops. Last, when
// no kernel will be joined any more.
dt_status_t dt__merge_localise(dt_program_t *program, dt_kernel_t *kernel,
                               uint32_t *loads) DT_MUST_USE;

#endif // DT_FUSE_MERGE_H
