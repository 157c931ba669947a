// SPDX-License-Identifier: Apache-2.0
// The flow of data between kernels, updated while a pass joins and reorders kernels: which kernels
// store to and read each buffer, and their order. A question or an edit costs about what it touches
// and never the whole program, so passes that make thousands of edits stay cheap.
//
// A kernel's number is its position in the program when the flow was made. It stays at that place
// of the program's array until dt__flow_settle, whatever the order is meanwhile.
#ifndef DT_FUSE_FLOW_H
#define DT_FUSE_FLOW_H

#include "lower/loop/loop.h"

#define DT_FLOW_NONE UINT32_MAX

typedef struct dt_flow_kernel_t {
  uint32_t prev, next; // in order, or DT_FLOW_NONE
  uint32_t into;       // the kernel that this one was joined into; its own number: none
  uint64_t label;      // grows in order
  // Buffers, by [id - 1], each once: what it loads, searches or revises, and readbacks that it
  // waits for; what it stores to, but for arguments.
  uint32_t *reads, *writes;
  uint32_t n_reads, n_writes;
  uint32_t mark;
} dt_flow_kernel_t;

// Kernels as they were when the flow was made, in their order then; dt__flow_find says what became
// of them. Some may not touch the buffer any more.
typedef struct dt_flow_buffer_t {
  uint32_t *readers, *writers;
  uint32_t n_readers, n_writers;
  uint32_t mark;
} dt_flow_buffer_t;

typedef struct dt_flow_t {
  dt_program_t *program;
  dt_flow_kernel_t *kernels;
  dt_flow_buffer_t *buffers; // by [id - 1]
  uint32_t n_kernels, n_buffers;
  uint32_t first;   // in order
  uint32_t *stores; // by buffer, [id - 1]: stores to it, but of those who update arguments
  uint32_t *loads;  // by buffer, [id - 1]: instructions that read it, and readbacks
  uint32_t mark;    // the newest; marks of one search are equal
  DT_VEC(uint32_t) stack;
  DT_VEC(uint64_t) labels;
  DT_VEC(uint32_t) users; // of one buffer
} dt_flow_t;

// In the program's arena. Kernels stand in order.
dt_status_t dt__flow_init(dt_program_t *program, dt_flow_t *out) DT_MUST_USE;

// The kernel that `kernel` is part of by now.
uint32_t dt__flow_find(const dt_flow_t *flow, uint32_t kernel);
static inline bool dt__flow_before(const dt_flow_t *flow, uint32_t a, uint32_t b) {
  return flow->kernels[a].label < flow->kernels[b].label;
}
bool dt__flow_reads(const dt_flow_t *flow, uint32_t kernel, uint32_t buffer);
// All that touched `buffer` when the flow was made, in their order then: flow->users.
dt_status_t dt__flow_users(dt_flow_t *flow, uint32_t buffer) DT_MUST_USE;
// The one kernel that stores to `buffer`, which no other store of it or another kernel does;
// DT_FLOW_NONE: there is none, or several stores.
uint32_t dt__flow_writer(const dt_flow_t *flow, uint32_t buffer);

// *out: kernel b needs what others make of a's results, directly or not; b's own loads of these
// do not count. True also where more kernels than are worth it would have to be looked at.
dt_status_t dt__flow_between(dt_flow_t *flow, uint32_t a, uint32_t b, bool *out) DT_MUST_USE;

// Kernel b, which stands behind a, became both: its instructions are both's by now, `loads` and
// `stores` say so, and a is no more. What stood between them and needs a's results moves behind b,
// in its order; *out_moved: how many. Nothing that b needs may need them (dt__flow_between).
dt_status_t dt__flow_join(dt_flow_t *flow, uint32_t a, uint32_t b, uint32_t *out_moved) DT_MUST_USE;

// Puts the `n` kernels side by side: what they wait for before them, what waits for them behind,
// all else as it stood. *out_first: the first of them. DT_FLOW_NONE, and nothing moved, where
// another kernel must stand between two of them, `segments` (by kernel) parts them, or more kernels
// than are worth it stand between them.
dt_status_t dt__flow_gather(dt_flow_t *flow, const uint32_t *segments, const uint32_t *kernels,
                            uint32_t n, uint32_t *out_first) DT_MUST_USE;

// Puts the program's kernels into the flow's order, without those that were joined. The flow ends.
dt_status_t dt__flow_settle(dt_flow_t *flow) DT_MUST_USE;

#endif // DT_FUSE_FLOW_H
