// SPDX-License-Identifier: Apache-2.0
// See cpu.h.
#include "backend_llvm/host/cpu.h"

#include <stdio.h>
#include <string.h>

typedef struct feature_row_t {
  const char *name;
  uint32_t level, leaf, part, reg, bit, state;
} feature_row_t;

enum { REG_A, REG_B, REG_C, REG_D, REGS };

// Bits of the register that says what the system saves (XCR0).
#define STATE_NONE 0u
#define STATE_YMM 0x06u
#define STATE_ZMM 0xe6u

static const feature_row_t rows[DT_CPU_FEATURES] = {
#define FEATURE(id, name, level, leaf, part, reg, bit, state)                                      \
  [DT_CPU_##id] = {name, level, leaf, part, REG_##reg, bit, STATE_##state},
#include "backend_llvm/host/features.def"
};

// ---- This machine ---------------------------------------------------------------------------------
#ifdef __x86_64__
#include <cpuid.h>

#define OSXSAVE 27 // of leaf 1's ECX

static uint32_t saved_state(void) {
  uint32_t r[REGS] = {0}, low = 0, high = 0;
  if (!__get_cpuid(1, &r[REG_A], &r[REG_B], &r[REG_C], &r[REG_D]) || !(r[REG_C] >> OSXSAVE & 1))
    return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

dt_cpu_set_t dt__cpu_host(void) {
  dt_cpu_set_t set = 0;
  uint32_t state = saved_state();
  for (uint32_t i = 0; i < DT_CPU_FEATURES; i++) {
    const feature_row_t *row = &rows[i];
    uint32_t r[REGS] = {0}, last = 0;
    // Leaf 7 says in EAX how many parts it has.
    if (row->part && (!__get_cpuid_count(row->leaf, 0, &last, &r[REG_B], &r[REG_C], &r[REG_D]) ||
                      last < row->part))
      continue;
    if (__get_cpuid_count(row->leaf, row->part, &r[REG_A], &r[REG_B], &r[REG_C], &r[REG_D]) &&
        r[row->reg] >> row->bit & 1 && (state & row->state) == row->state)
      set |= (dt_cpu_set_t)1 << i;
  }
  return set;
}

void dt__cpu_model(char *out, size_t room) {
  uint32_t r[REGS] = {0};
  char maker[13] = "";
  out[0] = '\0';
  if (!__get_cpuid(0, &r[REG_A], &r[REG_B], &r[REG_C], &r[REG_D]))
    return;
  memcpy(maker, &r[REG_B], 4);
  memcpy(maker + 4, &r[REG_D], 4);
  memcpy(maker + 8, &r[REG_C], 4);
  if (!__get_cpuid(1, &r[REG_A], &r[REG_B], &r[REG_C], &r[REG_D]))
    return;
  uint32_t family = r[REG_A] >> 8 & 15, model = r[REG_A] >> 4 & 15;
  if (family == 6 || family == 15)
    model |= (r[REG_A] >> 16 & 15) << 4;
  if (family == 15)
    family += r[REG_A] >> 20 & 255;
  (void)snprintf(out, room, "%s %u %u %u", maker, family, model, r[REG_A] & 15);
}
#else
dt_cpu_set_t dt__cpu_host(void) { return 0; }

void dt__cpu_model(char *out, size_t room) {
  if (room)
    out[0] = '\0';
}
#endif

// ---- Sets -----------------------------------------------------------------------------------------
static const char *const levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
#define N_LEVELS ((uint32_t)(sizeof(levels) / sizeof(levels[0])))

static dt_cpu_set_t level_set(uint32_t level) {
  dt_cpu_set_t set = 0;
  for (uint32_t i = 0; i < DT_CPU_FEATURES; i++)
    if (rows[i].level && rows[i].level <= level)
      set |= (dt_cpu_set_t)1 << i;
  return set;
}

bool dt__cpu_level(const char *name, dt_cpu_set_t *out) {
  for (uint32_t k = 0; k < N_LEVELS; k++) {
    *out = level_set(k + 1);
    if (strcmp(levels[k], name) == 0)
      return true;
  }
  *out = 0;
  return false;
}

const char *dt__cpu_level_within(dt_cpu_set_t set) {
  uint32_t level = N_LEVELS;
  while (level_set(level) & ~set)
    level--;
  return levels[level - 1];
}

void dt__cpu_print(dt_cpu_set_t set, const char *before, dt_text_t *out) {
  const char *comma = "";
  for (uint32_t i = 0; i < DT_CPU_FEATURES; i++) {
    if (!dt__cpu_has(set, (dt_cpu_feature_t)i))
      continue;
    dt__text_printf(out, "%s%s%s", comma, before, rows[i].name);
    comma = ",";
  }
}
