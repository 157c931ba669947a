// SPDX-License-Identifier: Apache-2.0
// What a variant computes once, when it is made, from constants alone: buffer by buffer and kernel
// by kernel. By this a runtime holds equal buffers once, whichever variants and functions they are
// of, lets those go again that only other ones are computed from, and lets the pages of a mapped
// file go that nothing reads any more.
#ifndef DT_RUNTIME_COMPILE_ONCE_H
#define DT_RUNTIME_COMPILE_ONCE_H

#include "runtime/base/sha256.h"

struct dt_program;

typedef struct dt_once_buffer_t {
  // Of all that its contents depend on besides the constants' contents. Buffers of equal digests,
  // computed from constants of equal contents, are equal bit by bit. Not `shared`: nothing is
  // known.
  unsigned char digest[DT_SHA256_BYTES];
  bool shared;
  bool kept;             // a call reads it; else only other kernels of these
  int64_t bytes, offset; // and its place, where all of them are one block
  // numbers[first …]: the constants that it is computed from, as the digest counts them.
  uint32_t first, n_constants;
} dt_once_buffer_t;

// numbers[first …]: the buffers that it writes, those that it reads, the constants that it reads.
typedef struct dt_once_kernel_t {
  uint32_t first, n_writes, n_reads, n_constants;
} dt_once_kernel_t;

typedef enum dt_constant_use_t {
  DT_CONSTANT_IN_CALLS = 1, // kernels of a call read it
  DT_CONSTANT_BY_OPS = 2,   // ops of users do, which rely on its alignment
} dt_constant_use_t;

typedef struct dt_once_plan_t {
  uint32_t n_buffers, n_kernels, n_constants, n_numbers;
  dt_once_buffer_t *buffers; // in the order of the frame's `once`
  dt_once_kernel_t *kernels;
  uint32_t *uses; // by constant: DT_CONSTANT_…, joined
  uint32_t *numbers;
} dt_once_plan_t;

// Of a planned program; *out is the caller's, also on failure.
dt_status_t dt__once_describe(struct dt_program *program, bool strict_fp,
                              dt_once_plan_t *out) DT_MUST_USE;
// Whether all numbers of a plan that was read are inside of its lists.
bool dt__once_fits(const dt_once_plan_t *plan, uint32_t n_constants, int64_t once_bytes);
void dt__once_fini(dt_once_plan_t *plan);

#endif // DT_RUNTIME_COMPILE_ONCE_H
