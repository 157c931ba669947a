// SPDX-License-Identifier: Apache-2.0
// Levels of CPUs that code may be made for beside the host's own: sets of features, each with all
// of those below it.
#ifndef DT_RUNTIME_COMPILE_LEVEL_H
#define DT_RUNTIME_COMPILE_LEVEL_H

#include "ductile/base.h"

#define DT_LEVELS 3
typedef struct dt_level_t {
  const char *name; // "v3"
  const char *cpu;  // "x86-64-v3"
} dt_level_t;
extern const dt_level_t dt__levels[DT_LEVELS]; // ascending

// The level called `name` of `len` characters, by either name; DT_LEVELS: none is.
uint32_t dt__level_find(const char *name, size_t len);
// Whether this machine has all of the level's features.
bool dt__level_runs(uint32_t level);
// Levels that this machine runs: its processor and its system have all features of the first so
// many. At most that of `cpu`, where it names a level.
uint32_t dt__levels_here(const char *cpu);

#endif // DT_RUNTIME_COMPILE_LEVEL_H
