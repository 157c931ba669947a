// SPDX-License-Identifier: Apache-2.0
// Sections that are equal but for the buffers that they touch: a pass needs to go through one of
// them only (sections.c).
#ifndef DT_FUSE_REPEATS_H
#define DT_FUSE_REPEATS_H

#include "lower/loop/loop.h"

typedef struct dt_section_t {
  uint32_t first, end;     // its kernels
  uint32_t same;           // 1 + the earlier section that it equals, which equals none; 0: none
  uint32_t n_buffers;      // of sections that equal another:
  const uint32_t *buffers; // the ids of what it touches, in the order in which kernels name it
} dt_section_t;

// The program's sections that have kernels, in order. `shared`: by buffer, [id - 1], whether more
// than one section touches it. Equal sections have the same symbols, loops' included, so only
// copies of kernels are found (lower_call.c), and sections of calls of users' ops never are.
dt_status_t dt__find_sections(const dt_program_t *program, const bool *shared, dt_section_t **out,
                              uint32_t *out_n) DT_MUST_USE;

#endif // DT_FUSE_REPEATS_H
