// SPDX-License-Identifier: Apache-2.0
// See level.h. The levels are those of the x86-64 psABI ("Microarchitecture Levels").
#include "runtime/compile/level.h"

#include "backend_llvm/host/cpu.h"

#include <string.h>

const dt_level_t dt__levels[DT_LEVELS] = {{"v2", "x86-64-v2"},
                                          {"v3", "x86-64-v3"},
                                          {"v3+vnni", "x86-64-v3+vnni"},
                                          {"v4", "x86-64-v4"},
                                          {"v4+vnni", "x86-64-v4+vnni"}};

uint32_t dt__level_find(const char *name, size_t len) {
  uint32_t k = 0;
  while (k < DT_LEVELS &&
         !(strlen(dt__levels[k].name) == len && memcmp(dt__levels[k].name, name, len) == 0) &&
         !(strlen(dt__levels[k].cpu) == len && memcmp(dt__levels[k].cpu, name, len) == 0))
    k++;
  return k;
}

static bool is_within(uint32_t level, dt_cpu_set_t all) {
  dt_cpu_set_t set = 0;
  return dt__cpu_level(dt__levels[level].cpu, &set) && !(set & ~all);
}

bool dt__level_runs(uint32_t level) { return is_within(level, dt__cpu_host()); }

uint32_t dt__levels_within(const dt_target_t *target) {
  dt_cpu_set_t all = dt__cpu_set(target->cpu, target->features);
  uint32_t levels = 0;
  for (uint32_t k = 0; k < DT_LEVELS; k++)
    levels |= (uint32_t)is_within(k, all) << k;
  return levels;
}
