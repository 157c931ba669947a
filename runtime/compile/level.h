// SPDX-License-Identifier: Apache-2.0
// Levels of machines that code may be made for beside the host's own: of CPUs, as sets of features,
// and of devices, as their code generators have them.
#ifndef DT_RUNTIME_COMPILE_LEVEL_H
#define DT_RUNTIME_COMPILE_LEVEL_H

#include "fuse/target.h"
#include "runtime/compile/compile.h"

// ---- CPUs -----------------------------------------------------------------------------------------
#define DT_LEVELS 5
struct dt_level_t {
  const char *name; // "v3"
  const char *cpu;  // "x86-64-v3" (backend_llvm/host/cpu.h); devices: what host programs are for
  const dt_codegen_t *codegen; // of devices; NULL: a level of CPUs
  dt_device_t device;
  uint32_t row; // in dt__levels, or in codegen->levels
};
// Of those that a machine runs, the last is the best.
extern const dt_level_t dt__levels[DT_LEVELS];
#define DT_LEVEL_NAMES "v2, v3, v3+vnni, v4, v4+vnni"

// The level called `name` of `len` characters, by either name; DT_LEVELS: none is.
uint32_t dt__level_find(const char *name, size_t len);
// Whether this machine has all of the level's features.
bool dt__level_runs(uint32_t level);
// The levels, as bits, all of whose features are the target's, which this machine has.
uint32_t dt__levels_within(const dt_target_t *target);

// ---- All ------------------------------------------------------------------------------------------
// The level of that name, of CPUs or of any kind of device. False: there is none.
bool dt__level_named(const char *name, size_t len, dt_level_t *out);
// The order in which they are listed: CPUs first, each kind as its table has them.
bool dt__level_before(const dt_level_t *a, const dt_level_t *b);
// The names of all, between commas.
void dt__level_names(dt_text_t *out);

#endif // DT_RUNTIME_COMPILE_LEVEL_H
