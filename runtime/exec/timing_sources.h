// SPDX-License-Identifier: Apache-2.0
// From which ops of a program each of its kernels came. Loop IR has no place for that: passes join,
// split and copy kernels, and keep of their names what people want to see. So while a program is
// made for a profile, kernels are named by tags. A tag stands for a list of ops; where a stage
// joins kernels it joins their names, and from these the list of the new kernel is read.
#ifndef DT_RUNTIME_EXEC_TIMING_SOURCES_H
#define DT_RUNTIME_EXEC_TIMING_SOURCES_H

#include "ductile/profile.h"
#include "runtime/compile/compile.h"

typedef struct dt_source_op_t {
  const char *name;           // of the op, or of what a pass made
  dt_profile_source_t source; // op NULL: it has none
} dt_source_op_t;

typedef struct dt_source_list_t {
  uint32_t n;
  const uint32_t *ops;
} dt_source_list_t;

typedef struct dt_sources_t {
  dt_arena_t *arena; // of everything here
  DT_VEC(dt_source_op_t) ops;
  DT_VEC(dt_source_list_t) lists; // by tag
  bool failed;                    // no memory
} dt_sources_t;

// A dt_stage_observer_t with a dt_sources_t: gives the kernels of the stage's program new tags.
void dt__sources_observe(void *sources, const dt_stage_view_t *view);
// The list of a kernel of the last program that was observed, by its name.
dt_source_list_t dt__sources_of(const dt_sources_t *sources, const char *name);

#endif // DT_RUNTIME_EXEC_TIMING_SOURCES_H
