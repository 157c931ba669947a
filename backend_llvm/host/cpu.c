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
#include <pthread.h>

#define OSXSAVE 27 // of leaf 1's ECX
#define EXTENDED 0x80000000u

// The leaves of the rows. Virtual machines may take long to answer, so each is asked for once.
enum { LEAF_1, LEAF_7, LEAF_7_1, LEAF_EXTENDED, LEAVES };
static uint32_t leaves[LEAVES][REGS];
static uint32_t state; // that the system saves
static char model[64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ask(uint32_t leaf, uint32_t part, uint32_t out[REGS]) {
  __cpuid_count(leaf, part, out[REG_A], out[REG_B], out[REG_C], out[REG_D]);
}

static void name_model(const uint32_t maker[REGS], uint32_t signature) {
  char text[13] = "";
  uint32_t family = signature >> 8 & 15, number = signature >> 4 & 15;
  memcpy(text, &maker[REG_B], 4);
  memcpy(text + 4, &maker[REG_D], 4);
  memcpy(text + 8, &maker[REG_C], 4);
  if (family == 6 || family == 15)
    number |= (signature >> 16 & 15) << 4;
  if (family == 15)
    family += signature >> 20 & 255;
  (void)snprintf(model, sizeof(model), "%s %u %u %u", text, family, number, signature & 15);
}

static void ask_all(void) {
  uint32_t first[REGS], last[REGS], high = 0;
  ask(0, 0, first);
  if (first[REG_A] >= 1)
    ask(1, 0, leaves[LEAF_1]);
  if (first[REG_A] >= 7)
    ask(7, 0, leaves[LEAF_7]);
  if (leaves[LEAF_7][REG_A] >= 1) // how many parts it has
    ask(7, 1, leaves[LEAF_7_1]);
  ask(EXTENDED, 0, last);
  if (last[REG_A] > EXTENDED)
    ask(EXTENDED + 1, 0, leaves[LEAF_EXTENDED]);
  if (leaves[LEAF_1][REG_C] >> OSXSAVE & 1)
    __asm__ volatile("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
  name_model(first, leaves[LEAF_1][REG_A]);
}

static uint32_t leaf_of(const feature_row_t *row) {
  return row->leaf == 1 ? LEAF_1 : row->leaf == 7 ? LEAF_7 + row->part : LEAF_EXTENDED;
}

dt_cpu_set_t dt__cpu_host(void) {
  dt_cpu_set_t set = 0;
  (void)pthread_once(&once, ask_all);
  for (uint32_t i = 0; i < DT_CPU_FEATURES; i++) {
    const feature_row_t *row = &rows[i];
    if (leaves[leaf_of(row)][row->reg] >> row->bit & 1 && (state & row->state) == row->state)
      set |= (dt_cpu_set_t)1 << i;
  }
  return set;
}

void dt__cpu_model(char *out, size_t room) {
  (void)pthread_once(&once, ask_all);
  (void)snprintf(out, room, "%s", model);
}

#define LEAF_IS(leaf, part)                                                                        \
  (((leaf) == 1 && (part) == 0) || ((leaf) == 7 && (part) <= 1) ||                                 \
   ((leaf) == EXTENDED + 1 && (part) == 0))
#define FEATURE(id, name, level, leaf, part, reg, bit, state)                                      \
  _Static_assert(LEAF_IS(leaf, part), "a leaf that is not asked for");
#include "backend_llvm/host/features.def"
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

// Levels with more than their own.
typedef struct extended_t {
  const char *name;
  uint32_t level;
  dt_cpu_feature_t feature;
} extended_t;
static const extended_t extended[] = {{"x86-64-v3+vnni", 3, DT_CPU_avxvnni},
                                      {"x86-64-v4+vnni", 4, DT_CPU_avx512vnni}};

bool dt__cpu_level(const char *name, dt_cpu_set_t *out) {
  for (uint32_t k = 0; k < N_LEVELS; k++) {
    *out = level_set(k + 1);
    if (strcmp(levels[k], name) == 0)
      return true;
  }
  for (size_t k = 0; k < sizeof(extended) / sizeof(extended[0]); k++) {
    *out = level_set(extended[k].level) | (dt_cpu_set_t)1 << extended[k].feature;
    if (strcmp(extended[k].name, name) == 0)
      return true;
  }
  *out = 0;
  return false;
}

dt_cpu_set_t dt__cpu_set(const char *level, const char *features) {
  dt_cpu_set_t set = 0;
  (void)dt__cpu_level(level, &set);
  for (const char *at = features; *at;) {
    size_t len = strcspn(at, ",");
    for (uint32_t i = 0; i < DT_CPU_FEATURES; i++)
      if (*at == '+' && strlen(rows[i].name) == len - 1 &&
          memcmp(at + 1, rows[i].name, len - 1) == 0)
        set |= (dt_cpu_set_t)1 << i;
    at += at[len] ? len + 1 : len;
  }
  return set;
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
