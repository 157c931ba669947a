// SPDX-License-Identifier: Apache-2.0
// See level.h. The levels are those of the x86-64 psABI ("Microarchitecture Levels").
#include "runtime/compile/level.h"

#include "backend_llvm/host/cpu.h"
#include "runtime/compile/codegen.h"

#include <string.h>

#define CPU(row, name) {name, "x86-64-" name, NULL, DT_CPU, row}
const dt_level_t dt__levels[DT_LEVELS] = {CPU(0, "v2"), CPU(1, "v3"), CPU(2, "v3+vnni"),
                                          CPU(3, "v4"), CPU(4, "v4+vnni")};
#define HOST 0 // of host programs of devices: a CPU that is too old for it runs nothing

static bool is_named(const char *own, const char *name, size_t len) {
  return strlen(own) == len && memcmp(own, name, len) == 0;
}

uint32_t dt__level_find(const char *name, size_t len) {
  uint32_t k = 0;
  while (k < DT_LEVELS && !is_named(dt__levels[k].name, name, len) &&
         !is_named(dt__levels[k].cpu, name, len))
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

// ---- All ------------------------------------------------------------------------------------------
static bool find_of_device(dt_device_t device, const char *name, size_t len, dt_level_t *out) {
  const dt_codegen_t *codegen = dt__codegens[device];
  const char *const *names = codegen ? codegen->levels : NULL;
  for (uint32_t k = 0; names && names[k]; k++)
    if (is_named(names[k], name, len)) {
      *out = (dt_level_t){names[k], dt__levels[HOST].cpu, codegen, device, k};
      return true;
    }
  return false;
}

bool dt__level_named(const char *name, size_t len, dt_level_t *out) {
  uint32_t cpu = dt__level_find(name, len);
  *out = dt__levels[cpu < DT_LEVELS ? cpu : 0];
  bool found = cpu < DT_LEVELS;
  for (uint32_t k = 0; !found && k < DT_DEVICES; k++)
    found = find_of_device((dt_device_t)k, name, len, out);
  return found;
}

bool dt__level_before(const dt_level_t *a, const dt_level_t *b) {
  return a->device < b->device || (a->device == b->device && a->row < b->row);
}

void dt__level_names(dt_text_t *out) {
  dt__text_put(out, DT_LEVEL_NAMES);
  for (uint32_t k = 0; k < DT_DEVICES; k++) {
    const char *const *names = dt__codegens[k] ? dt__codegens[k]->levels : NULL;
    for (uint32_t i = 0; names && names[i]; i++)
      dt__text_printf(out, ", %s", names[i]);
  }
}
