// SPDX-License-Identifier: Apache-2.0
// Levels of CPUs that code may be made for beside the host's own: sets of features.
#ifndef DT_RUNTIME_COMPILE_LEVEL_H
#define DT_RUNTIME_COMPILE_LEVEL_H

#include "fuse/target.h"

#define DT_LEVELS 5
typedef struct dt_level_t {
  const char *name; // "v3"
  const char *cpu;  // "x86-64-v3" (backend_llvm/host/cpu.h)
} dt_level_t;
// Of those that a machine runs, the last is the best.
extern const dt_level_t dt__levels[DT_LEVELS];
#define DT_LEVEL_NAMES "v2, v3, v3+vnni, v4, v4+vnni"

// The level called `name` of `len` characters, by either name; DT_LEVELS: none is.
uint32_t dt__level_find(const char *name, size_t len);
// Whether this machine has all of the level's features.
bool dt__level_runs(uint32_t level);
// The levels, as bits, all of whose features are the target's, which this machine has.
uint32_t dt__levels_within(const dt_target_t *target);

#endif // DT_RUNTIME_COMPILE_LEVEL_H
