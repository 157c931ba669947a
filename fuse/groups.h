// SPDX-License-Identifier: Apache-2.0
// Norms over groups of channels, taken apart so that channels may lie innermost (channels.c).
#ifndef DT_FUSE_GROUPS_H
#define DT_FUSE_GROUPS_H

#include "fuse/body.h"
#include "fuse/flow.h"

// What is made of one buffer's groups: kernels and temporaries that count its channels and places
// as (group, all elements of the group), until it is opened.
typedef struct dt_norm_t {
  uint32_t source; // the buffer, by [id - 1]
  uint32_t dim;    // its channels; the dims behind it are places
  int64_t groups, each;
  bool sums;    // a kernel adds up groups
  bool dropped; // it stays as it is
  DT_VEC(uint32_t) kernels;
  DT_VEC(uint32_t) buffers; // by [id - 1]
} dt_norm_t;

typedef struct dt_groups_t {
  dt_program_t *program;
  dt_flow_t *flow;
  uint32_t n_buffers, n_kernels;
  uint32_t *of_buffer; // by buffer: 1 + its norm, or 0
  uint32_t *of_kernel; // by kernel: the same
  bool *holds_sums;    // by buffer: one value a group
  bool *stays;         // by buffer: its dims must stay
  uint32_t *opened;    // by kernel: 1 + the norm that was opened last of those it reads
  DT_VEC(dt_norm_t) norms;
} dt_groups_t;

// Finds norms; `open` says, by buffer, which may change.
dt_status_t dt__groups_find(dt_program_t *program, dt_flow_t *flow, const bool *open,
                            dt_groups_t *out) DT_MUST_USE;
// Kernels and temporaries of norms that are not dropped get the loops and dims of their source, and
// sums one value a channel. Until dt__groups_add_steps the program adds up single channels only.
dt_status_t dt__groups_open(dt_groups_t *groups) DT_MUST_USE;
// Whether kernel k, as it was when norms were found, adds up groups that are open.
bool dt__groups_has_steps(const dt_groups_t *groups, uint32_t k);
// Such a kernel, as it is now, in steps, which `out` gets; *out_n: how many, at most
// DT_GROUP_STEPS.
#define DT_GROUP_STEPS 3
dt_status_t dt__groups_steps(const dt_groups_t *groups, uint32_t k, const dt_kernel_t *kernel,
                             dt_kernel_t *out, uint32_t *out_n) DT_MUST_USE;
// A kernel that copies what a load finds by the group of its channel, so that it stands there once
// for each channel; *out_made: whether load `i` of stage `s` is one. The load reads the copy from
// then on.
dt_status_t dt__groups_spread(const dt_groups_t *groups, uint32_t k, dt_kernel_t *kernel,
                              uint32_t s, uint32_t i, dt_kernel_t *out, bool *out_made) DT_MUST_USE;

#endif // DT_FUSE_GROUPS_H
