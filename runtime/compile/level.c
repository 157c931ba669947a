// SPDX-License-Identifier: Apache-2.0
// See level.h. The levels are those of the x86-64 psABI ("Microarchitecture Levels").
#include "runtime/compile/level.h"

#include "backend_llvm/host/cpu.h"

#include <string.h>

const dt_level_t dt__levels[DT_LEVELS] = {
    {"v2", "x86-64-v2"}, {"v3", "x86-64-v3"}, {"v4", "x86-64-v4"}};

uint32_t dt__level_find(const char *name, size_t len) {
  uint32_t k = 0;
  while (k < DT_LEVELS &&
         !(strlen(dt__levels[k].name) == len && memcmp(dt__levels[k].name, name, len) == 0) &&
         !(strlen(dt__levels[k].cpu) == len && memcmp(dt__levels[k].cpu, name, len) == 0))
    k++;
  return k;
}

bool dt__level_runs(uint32_t level) {
  dt_cpu_set_t set = 0;
  return dt__cpu_level(dt__levels[level].cpu, &set) && !(set & ~dt__cpu_host());
}

uint32_t dt__levels_here(const char *cpu) {
  uint32_t most = dt__level_find(cpu, strlen(cpu)), n = 0;
  while (n < DT_LEVELS && n <= most && dt__level_runs(n))
    n++;
  return n;
}
