// SPDX-License-Identifier: Apache-2.0
// What the files of channels.h share.
#ifndef DT_FUSE_CHANNELS_PRIVATE_H
#define DT_FUSE_CHANNELS_PRIVATE_H

#include "fuse/body.h"
#include "fuse/channels.h"
#include "fuse/groups.h"

// A load that wants a dim of its buffer innermost, and gets a copy where it lies otherwise.
typedef struct dt_want_t {
  uint32_t kernel, stage, load, dim;
  dt_sym_t size; // of that dim in the copy, with zeros behind what there is; none: as it is
  uint32_t next; // 1 + the next one of the kernel, or 0
} dt_want_t;

typedef struct dt_channels_t {
  dt_program_t *program;
  dt_flow_t *flow;
  const dt_target_t *target;
  dt_fixed_t fixed;
  dt_groups_t groups;
  bool *open;        // by buffer, [id - 1]: a temporary that may take an order
  uint32_t *refused; // by buffer: dims that are not to be, as bits
  uint8_t *dim;      // by buffer: 1 + the dim that is to be innermost; 0: none
  bool *turned;      // by kernel
  bool alone;        // the one that was turned last is worth copies of x and of its result
  bool from_argument, to_result; // the search came to one whose dim lies otherwise
  DT_VEC(dt_want_t) wants;
  uint32_t n_turned;      // kernels
  uint32_t *wanted;       // by kernel: 1 + the newest of its wants, or 0
  DT_VEC(uint32_t) queue; // buffers, by [id - 1], that the search has reached
} dt_channels_t;

// Puts kernel k's rows in the order in which those who read them do (channels_turn.c).
dt_status_t dt__channels_rows(dt_channels_t *c, uint32_t k) DT_MUST_USE;
// Turns kernel k if its result can have its channels innermost (channels_turn.c).
dt_status_t dt__channels_turn(dt_channels_t *c, uint32_t k) DT_MUST_USE;
// Whether all users of buffer `b`, by [id - 1], are content with `dim` innermost.
dt_status_t dt__channels_allow(dt_channels_t *c, uint32_t b, uint32_t dim, bool *out) DT_MUST_USE;
// Buffer `b` is to have `dim` innermost: the search goes on from it.
dt_status_t dt__channels_reach(dt_channels_t *c, uint32_t b, uint32_t dim) DT_MUST_USE;
// Kernel k wants it; the first five fields say what.
dt_status_t dt__channels_want(dt_channels_t *c, dt_want_t want) DT_MUST_USE;

#endif // DT_FUSE_CHANNELS_PRIVATE_H
